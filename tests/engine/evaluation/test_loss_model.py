"""Losses estimated together: the posterior against a plain formula, laws, and whether stated chances are honest."""

import numpy as np
import pytest
from scipy.stats import t as student

from engine.evaluation import loss_model
from engine.evaluation.loss_model import estimate_losses

RNG = np.random.default_rng(3)


def draw_problem(n_queries=40, n_settings=12, seed=0, slope=-0.5):
    """Changes of settings on two curves: a random walk over the gain with a drift."""
    rng = np.random.default_rng(seed)
    gains = np.sort(rng.uniform(0.01, 0.5, n_settings))
    steps = rng.normal(0, np.sqrt(np.diff(gains, prepend=0)), (n_queries, n_settings))
    return np.cumsum(steps, axis=1) + slope * gains, gains, rng.integers(0, 2, n_settings)


def test_posterior_equals_the_conditional_of_the_joint_gaussian():
    changes, gains, families = draw_problem()
    positions = changes.var(axis=0, ddof=1).sum() / gains.sum() * gains
    noise = loss_model._estimate_noise(changes, changes.var(axis=0, ddof=1), positions, families)
    order = np.argsort(gains)[::-1]
    fitted = loss_model._fit_prior(
        changes.mean(axis=0)[order], positions[order], families[order], noise[np.ix_(order, order)]
    )
    prior = np.zeros((len(gains), len(gains)))
    slope, curvature, family, setting = fitted
    for row, (x, own) in enumerate(zip(positions, families, strict=True)):
        for column, (y, other) in enumerate(zip(positions, families, strict=True)):
            # The integrated Wiener process by its defining integral, the line beside it.
            grid = (np.arange(20_000) + 0.5) / 20_000 * min(x, y)
            spline = np.sum((x - grid) * (y - grid)) * min(x, y) / 20_000
            curve = x * y + curvature**2 * spline
            prior[row, column] = slope**2 * (
                curve + (own == other) * family**2 * curve + (row == column) * (setting * x) ** 2
            )
    gain_matrix = prior @ np.linalg.inv(prior + noise)
    estimate = estimate_losses(changes, gains, families)
    assert estimate.mean == pytest.approx(gain_matrix @ changes.mean(axis=0), abs=1e-6)
    covariance = prior - gain_matrix @ prior
    assert estimate.std_error == pytest.approx(np.sqrt(np.diag(covariance)), rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("factor", [0.01, 7.0])
def test_unit_of_the_gain_does_not_matter(factor):
    changes, gains, families = draw_problem(seed=2)
    one, other = estimate_losses(changes, gains, families), estimate_losses(changes, factor * gains, families)
    assert other.mean == pytest.approx(one.mean, abs=1e-9) and other.std_error == pytest.approx(one.std_error, abs=1e-9)


def test_order_of_settings_does_not_matter():
    changes, gains, families = draw_problem(seed=4)
    shuffled = RNG.permutation(len(gains))
    one = estimate_losses(changes, gains, families)
    other = estimate_losses(changes[:, shuffled], gains[shuffled], families[shuffled])
    assert other.mean == pytest.approx(one.mean[shuffled], abs=1e-7)
    assert other.std_error == pytest.approx(one.std_error[shuffled], abs=1e-7)


@pytest.mark.parametrize(("n_queries", "expected"), [(5, 0.5), (30, 1 - 0.95**30), (60, 1 - 0.95**60)])
def test_settings_without_any_change_are_as_sure_as_so_many_queries_can_tell(n_queries, expected):
    """Queries that show no loss are sure only where they would have shown one that breaks the budget."""
    estimate = estimate_losses(np.zeros((n_queries, 3)), np.array([0.0, 0.1, 0.2]), np.zeros(3, dtype=int))
    assert estimate.find_chances(0.95) == pytest.approx(np.full(3, expected))
    assert (expected >= 0.95) == (n_queries == 60)
    assert estimate.find_chances(1.0).tolist() == [0.5, 0.5, 0.5]
    assert estimate.find_chances(1.0 + 1e-6).tolist() == [0.0, 0.0, 0.0]


def test_no_setting_gives_empty_arrays():
    estimate = estimate_losses(np.zeros((5, 0)), np.zeros(0), np.zeros(0, dtype=int))
    assert estimate.find_chances(0.9).shape == (0,)


def test_chance_falls_with_the_budget_and_its_own_queries_have_a_veto():
    changes, gains, families = draw_problem(seed=5)
    estimate = estimate_losses(changes, gains, families)
    chances = np.stack([estimate.find_chances(share) for share in np.linspace(0.8, 1.05, 26)])
    assert (np.diff(chances, axis=0) <= 1e-12).all()
    # A mean below the budget is no bet, whatever its neighbours reach.
    changes[:, 3] -= changes[:, 3].mean() + 0.051
    assert estimate_losses(changes, gains, families).find_chances(0.95)[3] < 0.5
    # Nor is a setting sure whose own queries give it less than about 85%.
    estimate = estimate_losses(changes, gains, families)
    own = student.cdf((estimate.own_mean + 0.05) / estimate.own_error, estimate.degrees)
    assert (own[estimate.find_chances(0.95) >= 0.95] > 0.83).all()


def test_interval_holds_the_estimate_and_narrows_with_queries():
    widths = []
    for n_queries in (20, 80, 320):
        changes, gains, families = draw_problem(n_queries=n_queries, seed=6)
        estimate = estimate_losses(changes, gains, families)
        low, high = estimate.find_ends(0.95)
        assert (low <= 1 + estimate.mean).all() and (high >= 1 + estimate.mean).all()
        widths.append(np.mean(high - low))
    assert widths[0] > widths[1] > widths[2]


def test_chances_of_the_chosen_setting_are_honest():
    """The best setting whose chance passes a threshold keeps the budget at least about that often."""
    held, bets, said = [], [], []
    for seed in range(200):
        rng = np.random.default_rng(1000 + seed)
        gains = np.linspace(0.02, 0.5, 24)
        slopes = np.where(np.arange(24) % 2, *rng.normal(-0.3, 0.25, 2))
        truth = slopes * gains
        steps = rng.normal(0, np.sqrt(np.diff(gains, prepend=0)), (80, 24))
        estimate = estimate_losses(truth + np.cumsum(steps, axis=1), gains, np.arange(24) % 2)
        chances = estimate.find_chances(0.95)
        for threshold, outcomes in ((0.95, held), (0.5, bets)):
            passing = np.flatnonzero(chances >= threshold)
            if len(passing):
                chosen = passing[gains[passing].argmax()]
                outcomes.append(truth[chosen] >= -0.05)
                if threshold == 0.5:
                    said.append(chances[chosen])
    assert np.mean(held) >= 0.94
    assert abs(np.mean(bets) - np.mean(said)) <= 0.1
