"""Times of answers: the median of a few calls, among them none that was the first of its kind."""

import pytest
import torch

from dashboard.services.memo import Memo
from dashboard.session import answers

STEP = 0.001


@pytest.fixture
def clock(monkeypatch):
    """A session without a page, and a clock that calls move."""
    now, memory = [0.0], Memo(9)
    monkeypatch.setattr(answers.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(answers, "_memo", lambda *_: memory)
    return now


def timed(clock, *took, kind="mmr"):
    """The time told of calls that take so many seconds each, and how many there were."""
    calls = iter(took)

    def compute():
        clock[0] += next(calls)
        return torch.zeros(1)

    _, seconds = answers._time_calls(None, (kind,), compute, lambda result: result)
    return seconds, len(took) - len(list(calls))


def test_the_first_call_of_a_kind_is_not_counted(clock):
    assert timed(clock, 9 * STEP, 3 * STEP, STEP, 2 * STEP, 0) == (pytest.approx(2 * STEP), 4)
    assert timed(clock, 3 * STEP, STEP, 2 * STEP, 0) == (pytest.approx(2 * STEP), 3)
    assert timed(clock, 0.1, 0.03, 0, kind="dpp") == (pytest.approx(0.03), 2)
    assert timed(clock, 0.04, 0, kind="dpp") == (pytest.approx(0.04), 1), "a long one is enough, after another"


def test_a_first_call_that_took_long_is_not_repeated_and_has_no_time(clock):
    assert timed(clock, 2.0, 0) == (None, 1)
    assert timed(clock, 1.0, 0) == (pytest.approx(1.0), 1)
