"""Losses of settings from their own queries: the formula, its laws, and what queries without a loss can tell."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import skew
from scipy.stats import t as student

from engine.evaluation.loss_model import PRIOR_QUERIES, estimate_losses, find_unseen_share
from support.draws import every_other

N_QUERIES, N_SETTINGS = 40, 12
NONE = np.zeros(N_SETTINGS)


def draw_problem(n_queries=N_QUERIES, seed=0, slope=-0.1):
    """Changes of settings along a curve, a random walk over the gain with a drift, and their gains."""
    rng = np.random.default_rng(seed)
    gains = np.sort(rng.uniform(0.01, 0.5, N_SETTINGS))
    steps = rng.normal(0, np.sqrt(np.diff(gains, prepend=0)), (n_queries, N_SETTINGS))
    # Some queries are changed by no setting.
    steps[::5] = 0.0
    drift = np.where(steps.any(axis=1, keepdims=True), slope * gains, 0.0)
    return np.cumsum(steps, axis=1) + drift, gains


def to_chances(estimate, share):
    return student.cdf(estimate.score(estimate.mean, share), estimate.degrees)


def test_estimate_equals_a_loop_over_settings():
    changes, gains = draw_problem()
    estimate = estimate_losses(changes, gains)
    variances = [changes[:, setting].var(ddof=1) for setting in range(N_SETTINGS)]
    for setting in range(N_SETTINGS):
        expected = gains[setting] * sum(variances) / sum(gains)
        n_changed = sum(change != 0 for change in changes[:, setting])
        assert n_changed < N_QUERIES
        variance = (PRIOR_QUERIES * expected + n_changed * variances[setting]) / (PRIOR_QUERIES + n_changed)
        assert estimate.mean[setting] == pytest.approx(changes[:, setting].mean())
        assert estimate.std_error[setting] == pytest.approx(np.sqrt(variance / N_QUERIES))
    assert estimate.degrees == N_QUERIES - 1


def test_each_decoder_expects_its_own_variance():
    changes, gains = draw_problem(seed=7)
    decoder_of = np.arange(N_SETTINGS) % 3
    estimate = estimate_losses(changes, gains, decoder_of=decoder_of)
    for decoder in range(3):
        is_own = decoder_of == decoder
        assert estimate.std_error[is_own] == pytest.approx(estimate_losses(changes[:, is_own], gains[is_own]).std_error)
    assert estimate.std_error != pytest.approx(estimate_losses(changes, gains).std_error)


def test_few_changed_queries_that_happen_to_agree_do_not_make_a_setting_sure():
    """Of a large gain and one changed query the variance is mostly what gains of that size have."""
    changes, gains = draw_problem(seed=1)
    changes[:, -1] = 0.0
    changes[7, -1] = -0.02
    estimate = estimate_losses(changes, gains)
    plain_error = changes[:, -1].std(ddof=1) / np.sqrt(N_QUERIES)
    assert estimate.std_error[-1] > 10 * plain_error
    assert student.cdf((0.05 + estimate.mean[-1]) / plain_error, estimate.degrees) > 0.99
    assert to_chances(estimate, 0.95)[-1] < 0.9


@pytest.mark.parametrize("factor", [0.01, -7.0])
def test_unit_and_sign_of_the_gain_do_not_matter(factor):
    changes, gains = draw_problem(seed=2)
    first, second = estimate_losses(changes, gains), estimate_losses(changes, factor * gains)
    assert second.mean == pytest.approx(first.mean) and second.std_error == pytest.approx(first.std_error)


def test_order_of_settings_does_not_matter():
    changes, gains = draw_problem(seed=4)
    shuffled = np.random.default_rng(3).permutation(N_SETTINGS)
    first, second = estimate_losses(changes, gains), estimate_losses(changes[:, shuffled], gains[shuffled])
    assert second.mean == pytest.approx(first.mean[shuffled])
    assert second.std_error == pytest.approx(first.std_error[shuffled])


@pytest.mark.parametrize(("n_queries", "expected"), [(5, 0.5), (30, 1 - 0.95**30), (60, 1 - 0.95**60)])
def test_settings_without_any_change_are_as_sure_as_so_many_queries_can_tell(n_queries, expected):
    """Queries that show no loss are sure only where they would have shown one that breaks the budget."""
    estimate = estimate_losses(np.zeros((n_queries, 3)), np.array([0.0, 0.1, 0.2]))
    assert to_chances(estimate, 0.95) == pytest.approx(np.full(3, expected))
    assert to_chances(estimate, 1.0) == pytest.approx(np.full(3, 0.5))
    assert to_chances(estimate, 1.0 + 1e-6).tolist() == [0.0, 0.0, 0.0]


def test_tiny_gains_do_not_vouch_for_losses_that_no_query_shows():
    """Twenty queries with a gain of a thousandth, of which one in nine would lose all, made 95% sure."""
    changes = np.abs(np.random.default_rng(0).normal(0, 1e-3, (20, 2)))
    changes[0, 1] = -0.1
    estimate = estimate_losses(changes, np.array([0.1, 0.1]))
    kept = 1 + estimate.mean[0]
    assert to_chances(estimate, 0.95)[0] == pytest.approx(1 - (0.95 / kept) ** 20)
    assert estimate.find_sure_shares(student.ppf(0.95, 19))[0] == pytest.approx(kept * 0.05 ** (1 / 20))
    assert estimate.largest_loss.tolist() == [0, 0.1]
    # A tenth lost on one query says little of the other nine tenths.
    broken_share = (1 - 0.95 / (1 + max(0.0, estimate.mean[1]))) / 0.9
    assert to_chances(estimate, 0.95)[1] == pytest.approx(1 - (1 - broken_share) ** 20)


CHANGES = {
    "all lost": lambda draws, rare: -(draws < rare).astype(float),
    "half lost": lambda draws, rare: np.select([draws < rare / 2, draws < 3 * rare / 2], [-1.0, -0.5], 0.0),
    "gains too": lambda draws, rare: np.select([draws < rare + 0.05, draws > 0.95], [-1.0, 1.0], 0.0),
}


@pytest.mark.parametrize(("kind", "n_queries"), every_other(CHANGES, [20, 40, 60, 100, 150, 300]))
def test_rare_large_losses_make_no_setting_falsely_sure(kind, n_queries):
    """5.1% of the baseline's metric is lost. Student's bound called up to 36% of such samples sure to keep 95%."""
    rng = np.random.default_rng(n_queries)
    n_draws, rare = 1500, 0.051
    n_sure = n_plainly_sure = 0
    score = float(student.ppf(0.95, n_queries - 1))
    for _ in range(n_draws):
        changes = CHANGES[kind](rng.random((n_queries, 1)), rare)
        changes[0] = min(changes[0, 0], -0.02)  # so that there is always some loss
        estimate = estimate_losses(changes, np.ones(1))
        n_sure += int(estimate.find_sure_shares(score)[0] >= 0.95)
        n_plainly_sure += int((1 + estimate.mean - score * estimate.std_error)[0] >= 0.95)
    assert n_sure <= min(0.095 * n_draws, n_plainly_sure), (n_sure, n_plainly_sure)


def test_skewness_is_johnsons_correction():
    """Where losses are the rare and large ones, the bound lies lower; where gains are, it is Student's."""
    changes = -np.random.default_rng(0).gamma(0.3, 0.2, (50, 1))
    estimate, mirrored = estimate_losses(changes, np.ones(1)), estimate_losses(-changes, np.ones(1))
    error = changes.std(ddof=1) / np.sqrt(50)
    expected = -skew(changes[:, 0], bias=False) * changes.std(ddof=1) / (6 * 50)
    assert estimate.skew_loss[0] == pytest.approx(expected) and mirrored.skew_loss.tolist() == [0]
    share = 1 + changes.mean() - 1.7 * error - expected * (1 + 2 * 1.7**2)
    assert replace(estimate, largest_loss=np.ones(1)).find_sure_shares(1.7)[0] == pytest.approx(share)
    assert replace(estimate, largest_loss=np.ones(1)).score(estimate.mean, share)[0] == pytest.approx(1.7)


def test_large_gains_without_a_loss_keep_all_for_sure():
    estimate = estimate_losses(np.random.default_rng(0).uniform(0.05, 0.2, (50, 1)), np.array([0.1]))
    assert to_chances(estimate, 1.0) > 0.95


@pytest.mark.parametrize("gains", [np.zeros(3), np.array([0.0, 0.1, 0.2])])
def test_settings_without_a_gain_have_finite_estimates(gains):
    changes = np.random.default_rng(0).normal(0, 0.1, (20, 3))
    estimate = estimate_losses(changes, gains)
    assert np.isfinite(estimate.std_error).all() and (estimate.std_error > 0).all()


def test_no_setting_gives_empty_arrays():
    estimate = estimate_losses(np.zeros((5, 0)), np.zeros(0))
    assert estimate.score(estimate.mean, 0.9).shape == (0,) and estimate.find_sure_shares(1.7).shape == (0,)


def test_score_is_what_is_kept_beyond_the_budget_in_standard_errors():
    estimate = replace(estimate_losses(*draw_problem(seed=5)), skew_loss=NONE, largest_loss=NONE + 1)
    scores = np.stack([estimate.score(estimate.mean, share) for share in np.linspace(0.8, 1.05, 26)])
    assert (np.diff(scores, axis=0) < 0).all()
    assert scores[15] == pytest.approx((1 + estimate.mean - 0.95) / estimate.std_error)


def test_scores_of_samples_use_the_errors_of_their_own_settings():
    changes, gains = draw_problem(seed=8)
    # One setting without any spread, in the middle.
    changes[:, 4] = 0.0
    gains[4] = 0.0
    estimate = estimate_losses(changes, gains)
    rng = np.random.default_rng(1)
    positions = np.stack([rng.permutation(N_SETTINGS) for _ in range(6)])
    means = rng.normal(-0.03, 0.03, positions.shape)
    scores = estimate.score(means, 0.95, positions)
    for row in range(6):
        for column in range(N_SETTINGS):
            alone = estimate.mean.copy()
            alone[positions[row, column]] = means[row, column]
            assert scores[row, column] == estimate.score(alone, 0.95)[positions[row, column]]


@pytest.mark.parametrize("chance", [0.5, 0.9, 0.95])
def test_sure_shares_invert_scores(chance):
    """At the share the chance is as stated, and a little beyond it is less; without spread too."""
    changes, gains = draw_problem(seed=7)
    changes[:, 2], gains[2] = 0.0, 0.0
    score = float(student.ppf(chance, N_QUERIES - 1))
    for estimate in (estimate_losses(changes, gains), estimate_losses(0 * changes, gains)):
        for setting, share in enumerate(estimate.find_sure_shares(score)):
            assert to_chances(estimate, share - 1e-9)[setting] >= chance - 1e-9
            assert to_chances(estimate, share + 1e-6)[setting] < chance
    # 40 queries without any loss: a share s of them would hide a loss on the others with probability s⁴⁰.
    unseen = 1.0 if chance == 0.5 else (1 - chance) ** (1 / N_QUERIES)
    assert estimate.find_sure_shares(score) == pytest.approx(np.full(N_SETTINGS, unseen))


def test_unseen_share_is_the_rule_of_three():
    assert find_unseen_share(300, 0.95) == pytest.approx(1 - 3 / 300, abs=1e-3)
    assert find_unseen_share(300, 0.5) == np.inf


def test_interval_is_students_and_narrows_with_queries():
    widths = []
    for n_queries in (20, 80, 320):
        estimate = estimate_losses(*draw_problem(n_queries=n_queries, seed=6))
        low, high = estimate.find_ends(0.95)
        expected = student.interval(0.95, n_queries - 1, 1 + estimate.mean, estimate.std_error)
        assert low == pytest.approx(expected[0]) and high == pytest.approx(expected[1])
        widths.append(np.mean(high - low))
    assert widths[0] > widths[1] > widths[2]
