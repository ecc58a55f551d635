"""Regret: the best in hindsight is what slow optimisation finds, its certificate holds, and theory's bound is kept."""

from threading import Event as Flag

import numpy as np
import pytest
from scipy.optimize import minimize

from engine.errors import Cancelled
from engine.feedback import Preset
from engine.simulation.feedback_model import Stream
from engine.simulation.regret import Rounds, compute_bounds, find_hindsight, list_doubts
from engine.simulation.simulate import Plan, simulate
from support.instances import unit
from support.planted import make_deployment


def small(seed=0, n=4, d=3, m=9, temperature=0.5, most=2):
    rng = np.random.default_rng(seed)
    right = tuple(np.sort(rng.choice(n, int(rng.integers(1, most + 1)), replace=False)) for _ in range(m))
    rounds = Rounds(unit(rng.standard_normal((m, d))), right, rng.integers(1, 4, m).astype(float), temperature)
    return unit(rng.standard_normal((n, d))), rounds


def total(vectors, rounds):
    """The loss by its definition."""
    found = 0.0
    for q, right, weight in zip(rounds.points, rounds.right, rounds.weights, strict=True):
        z = [float(np.dot(row, q)) / rounds.temperature for row in vectors]
        whole = np.log(sum(np.exp(z)))
        found += weight * np.mean([whole - z[i] for i in right])
    return found


@pytest.mark.parametrize("seed", range(3))
def test_the_best_in_hindsight_is_what_a_general_solver_finds(seed):
    start, rounds = small(seed)
    found = find_hindsight(start, rounds, max_steps=5000, tolerance=1e-6)
    assert np.linalg.norm(found.vectors, axis=1).max() <= 1 + 1e-12
    value = float(rounds.weights @ found.losses)
    assert value == pytest.approx(total(found.vectors, rounds)), "the losses are cross-entropies"
    inside = [{"type": "ineq", "fun": lambda x, i=i: 1 - (x.reshape(4, 3)[i] ** 2).sum()} for i in range(4)]
    oracle = minimize(
        lambda x: total(x.reshape(4, 3), rounds), start.ravel(), method="SLSQP", constraints=inside,
        options={"maxiter": 1000, "ftol": 1e-12},
    )  # fmt: skip
    assert value == pytest.approx(oracle.fun, abs=1e-4)
    assert value - found.gap <= oracle.fun + 1e-9, "the certificate promises more than is true"


def test_a_search_cut_short_says_how_far_it_may_be_off():
    start, rounds = small(1, n=6, d=4, m=40, temperature=0.05)
    early, late = (find_hindsight(start, rounds, max_steps=most, tolerance=1e-9) for most in (3, 4000))
    best = float(rounds.weights @ late.losses)
    assert early.steps == 3 and late.gap < early.gap
    assert float(rounds.weights @ early.losses) - early.gap <= best + 1e-9


def test_the_search_can_be_stopped():
    stop = Flag()
    stop.set()
    with pytest.raises(Cancelled, match="stopped after 0 of 300 steps"):
        find_hindsight(*small(), stop=stop, tolerance=1e-9)


def test_rows_longer_than_one_keep_their_length():
    start, rounds = small()
    start[0] *= 3
    found = find_hindsight(start, rounds, max_steps=50)
    length = np.linalg.norm(found.vectors, axis=1)
    assert (length[1:] <= 1 + 1e-12).all() and length[0] <= 3 + 1e-12


def test_bounds_are_the_printed_ones_at_temperature_one():
    rng = np.random.default_rng(0)
    p, squares = rng.uniform(0.1, 0.9, 50), rng.uniform(0.5, 1.0, 50)
    found = compute_bounds(2.0, p, squares, 0.3, 1.0, is_full=True)
    by_hand = [2.0 / 0.6 + 0.15 * sum((1 / a - 2 * a + 1) * b for a, b in zip(p[:t], squares[:t], strict=True))
               for t in range(1, 51)]  # fmt: skip
    assert found.theorem == pytest.approx(by_hand)
    least, long = p.min(), squares.max()
    assert found.rate == pytest.approx(np.sqrt(least * 2.0 / (long * (1 - least) * (1 + 2 * least) * 50)))
    assert found.corollary == pytest.approx(np.sqrt(2.0 * long * (1 - least) * (1 + 2 * least) * 50 / least))
    # At the corollary's own rate the theorem, with every chance at its least, is the corollary.
    same = compute_bounds(2.0, np.full(50, least), np.full(50, long), found.rate, 1.0, is_full=True)
    assert same.theorem[-1] == pytest.approx(found.corollary)


def test_moving_the_chosen_row_alone_is_promised_no_more_than_moving_all():
    p = np.random.default_rng(0).uniform(0.01, 1.0, 200)
    one, all_ = (compute_bounds(1.0, p, np.ones(200), 0.1, 0.5, is_full=whole).theorem for whole in (False, True))
    assert (one <= all_ + 1e-12).all() and one[-1] < all_[-1]


@pytest.mark.parametrize("mode", ["full", "chosen"])
def test_the_mean_regret_of_many_runs_keeps_to_the_theorem(mode):
    """Without cap and trust region, on clean feedback with one right document: what the theorem is about."""
    plan = Plan(regret="hindsight", checkpoints=1, held_out=0.0)
    how = {"mode": mode, "cap": None, "trust": None, "temperature": 0.5, "rate": 0.05}
    data = make_deployment(n=8, d=6, queries_per_document=6)
    found = [simulate(*data, plan=plan, seed=seed, stream=Stream(order="given"), **how) for seed in range(12)]
    assert all(f.regret.doubts == () for f in found)
    best = np.mean([f.regret.best for f in found], axis=0)
    promised = np.mean([f.regret.bounds.theorem for f in found], axis=0)
    assert (best <= promised).all()
    # Θ* is the best for the whole stream, so what was lost by then counts against it only at the end.
    assert best[-1] > 0
    one = found[0]
    far = ((one.hindsight.vectors - one.begun.origin.astype(float)) ** 2).sum()
    assert one.regret.bounds.distance == pytest.approx(far)
    assert one.regret.best[-1] == pytest.approx(one.trail.loss.sum() - one.hindsight.losses[one.trail.query].sum())


def test_regret_against_the_oracle_is_what_its_losses_say():
    found = simulate(*make_deployment(n=10), plan=Plan(checkpoints=1), seed=1)
    assert found.regret.oracle[-1] == pytest.approx((found.trail.loss - found.trail.oracle).sum())
    truth = simulate(*make_deployment(n=10), plan=Plan(checkpoints=1, learner="oracle"), seed=1)
    assert truth.trail.loss == pytest.approx(found.trail.oracle)
    assert np.abs(truth.regret.oracle).max() == 0
    assert found.regret.best is None and found.regret.bounds is None
    assert simulate(*make_deployment(n=10), plan=Plan(checkpoints=1, regret="none")).regret.oracle is None


def test_what_the_theorem_is_not_about_is_said():
    one, two = [np.array([0])], [np.array([0, 1])]
    plain = {"is_capped": False, "is_honest": True, "is_outside": False}
    assert list_doubts(one, Preset(), **plain) == ()
    for name, value in plain.items():
        assert len(list_doubts(one, Preset(), **{**plain, name: not value})) == 1, name
    for change in ({"schedule": "sqrt"}, {"optimizer": "adamw", "cap": None}, {"batch": 5}):
        assert len(list_doubts(one, Preset(**change), **plain)) == 1, change
    assert "several right documents" in list_doubts(two, Preset(), **plain)[0]
    found = simulate(
        *make_deployment(n=8, queries_per_document=4, n_relevant=2), plan=Plan(checkpoints=1, regret="hindsight")
    ).regret
    assert found.bounds is None and found.best is not None
    assert found.doubts[0].startswith("some queries have several right") and any("capped" in d for d in found.doubts)
