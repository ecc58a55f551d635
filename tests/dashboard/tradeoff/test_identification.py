"""The share of an identification that is done, over steps of unknown number."""

from itertools import pairwise

import pytest

from dashboard.tradeoff.identification import STEP_SHARES, WholeShare


def test_the_share_of_an_identification_never_falls_and_stays_below_the_whole():
    whole = WholeShare()
    steps = ["lists", "hypotheses", "lists", "lists", "sample of lists"]
    shares = [whole.take(done, 10, step) for step in steps for done in range(11)]
    assert all(before <= after for before, after in pairwise(shares)) and shares[0] == 0 and shares[-1] < 1
    assert shares[10] == pytest.approx(STEP_SHARES["lists"])
    assert shares[21] == pytest.approx(sum(STEP_SHARES.values())), "each step has its own share"
    assert shares[32] == pytest.approx((1 + shares[21]) / 2), "a later pass has half of what is left"
    assert whole.take(0, 0, "embedding") == shares[-1]
