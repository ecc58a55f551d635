"""What an outcome moves is the gradient on average: every outcome enumerated, weighted by its chance (float64)."""

import math

import numpy as np
import pytest

from engine import orag
from engine.errors import ParamError
from engine.feedback.policy import Draw
from support.feedback import gradient, queries_near, random_space, space_of
from support.instances import unit

N = 9
MODES = ("full", "chosen")


@pytest.fixture(scope="module")
def asked():
    space = random_space(N, 5)
    return space, queries_near(space, 1)[0][0]


def begun(space, mode="chosen", **overrides):
    return orag.session(space, mode=mode, temperature=0.2, **overrides)


def expected(session, query, succeeds):
    """(n,) mean of the coefficients over all draws and outcomes, and the mean of their squared length times |q|².

    succeeds(i): the chance that i is said to succeed.
    """
    asked, p = session.resolve_query(query), orag.probabilities(session, query)
    mean, second = np.zeros(len(p)), 0.0
    for item in range(len(p)):
        draw = Draw(asked, 1, (item,), p, (float(p[item]),), item)
        for y, chance in ((1, succeeds(item)), (0, 1 - succeeds(item))):
            c = gradient(orag.outcome(session, draw, y), len(p))
            mean += p[item] * chance * c
            second += p[item] * chance * float(c @ c)
    return mean, second * float(asked.exact @ asked.exact)


@pytest.mark.parametrize("mode", MODES)
def test_the_mean_step_is_the_gradient(asked, mode):
    """Lemma 3.1 and appendix B.2, against the cross-entropy's derivative by finite differences."""
    session = begun(asked[0], mode)
    for right in range(N):
        mean, _ = expected(session, asked[1], lambda i, right=right: float(i == right))
        p = orag.probabilities(session, asked[1])
        assert np.allclose(mean, p - np.eye(N)[right], atol=1e-14)

        # τ ∂l/∂θ_j = (p_j − 1{j = right}) q: the rate absorbs the 1/τ.
        z = session.scores(asked[1]) / session.temperature
        loss = lambda z, right=right: math.log(np.exp(z - z.max()).sum()) - (z - z.max())[right]  # noqa: E731
        step = 1e-6
        slopes = [(loss(z + step * row) - loss(z - step * row)) / (2 * step) for row in np.eye(N)]
        assert np.allclose(mean, slopes, atol=1e-8)


@pytest.mark.parametrize("mode", MODES)
def test_with_several_right_ones_each_is_pulled_whole_or_its_share(asked, mode):
    session, right = begun(asked[0], mode), {1, 4, 6}
    p = orag.probabilities(session, asked[1])
    member = np.isin(np.arange(N), list(right)).astype(float)
    mean, _ = expected(session, asked[1], lambda i: float(i in right))
    assert np.allclose(mean, p - member, atol=1e-14)

    query = session.resolve_query(asked[1])
    shared = np.zeros(N)
    for item in range(N):
        draw = Draw(query, 1, (item,), p, (float(p[item]),), item)
        shared += p[item] * gradient(orag.outcome(session, draw, item in right, relevant=3), N)
    truth = gradient(orag.full_information(session, query, right), N)
    assert np.allclose(shared, truth, atol=1e-14) and np.allclose(truth, p - member / 3, atol=1e-15)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("flip", (0.1, 0.5))
def test_flipped_feedback_shifts_the_mean_by_a_known_amount(asked, mode, flip):
    session, right = begun(asked[0], mode), 3
    mean, _ = expected(session, asked[1], lambda i: (1 - flip) * (i == right) + flip * (i != right))
    p = orag.probabilities(session, asked[1])
    assert np.allclose(mean, p - (1 - 2 * flip) * np.eye(N)[right] - flip, atol=1e-14)


def test_second_moments_and_which_estimator_is_steadier(asked):
    """E|G|² of Theorem 5.1's proof, right and as printed; appendix B.2's is never larger."""
    q2 = float(np.square(asked[1].astype(np.float64)).sum())
    p = orag.probabilities(begun(asked[0]), asked[1])
    for right in range(N):
        full = expected(begun(asked[0], "full"), asked[1], lambda i, right=right: float(i == right))[1]
        chosen = expected(begun(asked[0], "chosen"), asked[1], lambda i, right=right: float(i == right))[1]
        best = p[right]
        assert math.isclose(full, (np.square(p).sum() - 2 * best + 1 / best) * q2, rel_tol=1e-12)
        assert math.isclose(chosen, (1 / best - 1) * q2, rel_tol=1e-9)
        assert chosen <= full * (1 + 1e-12) and full <= (1 / best - 2 * best + 1) * q2

        printed = (p**3).sum() - 2 * best + 1 / best
        assert abs(printed * q2 - full) > 1e-3, "the printed middle line is not the second moment"


def test_no_number_overflows(asked):
    """τ = 1e-3 and vectors of length 1e3: one document has all of the softmax, and nothing becomes NaN."""
    rng = np.random.default_rng(0)
    space = space_of((1e3 * rng.standard_normal((N, 5)) / np.sqrt(5)).astype(np.float32))
    query = (1e3 * rng.standard_normal(5) / np.sqrt(5)).astype(np.float32)
    for mode in MODES:
        for guards in ({}, {"cap": None, "trust": None, "ball": False}):
            session = orag.session(space, mode=mode, temperature=1e-3, **guards)
            for turn in range(20):
                p = orag.probabilities(session, query)
                assert np.isfinite(p).all() and math.isclose(p.sum(), 1)
                for k in (1, 3):
                    draw = orag.ask(session, query, k=k)
                    session = orag.feed(session, orag.outcome(session, draw, turn % 2))
                session = orag.feed(session, orag.right_one(session, query, range(N), turn % N))
                session = orag.feed(session, orag.thumb(session, query, turn % N, turn % 2 == 0))
            assert np.isfinite(session.exact).all() and np.isfinite(session.vectors).all()


def test_feedback_on_a_list_is_never_divided_by_a_chance(asked):
    session = begun(asked[0], ball=False)
    for up, coefficient in ((True, -1.0), (False, 1.0)):
        event = orag.thumb(session, asked[1], 2, up, shown=range(5))
        assert event.coefficients == (coefficient,) and event.propensity is None
        moved = orag.feed(session, event).row(2) - session.row(2)
        assert np.allclose(moved, -coefficient * session.preset.rate * event.query.exact, atol=1e-15)
    event = orag.right_one(session, asked[1], range(5), 1)
    z = session.scores(asked[1])[:5] / session.temperature
    assert np.allclose(event.coefficients, np.exp(z) / np.exp(z).sum() - np.eye(5)[1]) and event.propensity is None

    drawn = orag.thumb(session, asked[1], 2, True, propensity=0.05)
    assert drawn.coefficients == (1 - 1 / 0.05,) and drawn.propensity == 0.05
    assert orag.thumb(session, asked[1], 2, False, propensity=0.05).coefficients == (1.0,)


@pytest.mark.parametrize("preset,falls", [("default", 0.02), ("careful", 0.01)])
def test_a_thumb_down_lowers_the_score_by_the_rate(preset, falls):
    space = random_space(300, 64)
    session = orag.session(space, preset)
    for query in queries_near(space, 10)[0]:
        best = int(session.scores(query).argmax())
        after = orag.feed(session, orag.thumb(session, query, best, up=False))
        fallen = session.scores(query)[best] - after.scores(query)[best]
        assert math.isclose(fallen, falls, rel_tol=1e-6)


def test_a_first_result_falls_after_as_many_thumbs_as_its_lead_takes():
    """At once where it leads by less than .01; by n thumbs where its lead is below .02 n."""
    space = random_space(300, 64)
    session, seen = orag.session(space, temperature=0.1), set()
    for query in unit(np.random.default_rng(5).standard_normal((60, 64))):
        session = orag.reset(session)
        second, first = np.sort(session.scores(query))[-2:]
        best, needed = int(session.scores(query).argmax()), int((first - second) / 0.02) + 1
        for _ in range(needed):
            assert session.scores(query).argmax() == best
            session = orag.feed(session, orag.thumb(session, query, best, up=False))
        assert session.scores(query).argmax() != best
        seen.add(needed)
    assert seen >= {1, 2, 3}, "some fall at once, some take several"


def test_impossible_feedback_is_refused(asked):
    session = begun(asked[0])
    draw = orag.ask(session, asked[1])
    for call, named in (
        (lambda: orag.outcome(session, draw, 2), "y must be 0 or 1"),
        (lambda: orag.outcome(session, draw, 1, relevant=0), "relevant must"),
        (lambda: orag.thumb(session, asked[1], N), r"item must be .*\[0, 9\)"),
        (lambda: orag.thumb(session, asked[1], "nobody"), "'nobody'"),
        (lambda: orag.thumb(session, asked[1], 0, up=3), "up must"),
        (lambda: orag.thumb(session, asked[1], 0, propensity=0.0), "propensity must"),
        (lambda: orag.right_one(session, asked[1], [1, 2], 3), "shown must"),
        (lambda: orag.right_one(session, asked[1], [1, 1, 3], 3), "shown must"),
        (lambda: orag.full_information(session, asked[1], []), "right must"),
        (lambda: orag.ask(session, asked[1], k=0), "k .*must"),
    ):
        with pytest.raises(ParamError, match=named):
            call()
    for query in (np.full(5, np.nan), np.ones(4), np.ones((2, 5))):
        with pytest.raises(ValueError, match="query must be 5 finite numbers"):
            orag.ask(session, query)
