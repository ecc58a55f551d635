"""Chances of a chosen setting: laws of the calibration, a plain loop, and whether what is called sure is."""

import numpy as np
import pytest
from scipy.stats import t as student

from engine.evaluation.choice_calibration import (
    KEPT_TARGET,
    MAX_EXCESS,
    MAX_SHIFT,
    N_SAMPLES,
    SAMPLE_FACTOR,
    SCORE_STEP,
    SHIFT_STEP,
    Calibration,
    SampledSettings,
    calibrate,
)
from engine.evaluation.decision import BET_CHANCE, SURE_CHANCE
from engine.evaluation.loss_model import LossEstimate, estimate_losses

KEEP = 0.95
PLAIN = Calibration()


def resample(changes, gains, seed=0):
    """Mean changes and gains of settings in bootstrap samples of the queries; gains are the same in each."""
    n_queries = len(changes)
    weights = np.random.default_rng(seed).multinomial(n_queries, np.full(n_queries, 1 / n_queries), size=N_SAMPLES)
    means = weights / n_queries @ changes
    return means, np.broadcast_to(gains, means.shape)


def calibrate_all(changes, gains):
    """Estimate losses and calibrate for KEEP; no setting is left out."""
    losses = estimate_losses(changes, gains)
    samples = SampledSettings.sort(*resample(changes, gains), np.zeros(len(gains), dtype=bool))
    return losses, calibrate(samples, losses, KEEP)


def draw_changes(losses, n_queries=60, spread=0.25, seed=0):
    """Changes of each query that scatter around losses, with settings independent of each other."""
    noise = np.random.default_rng(seed).normal(0, spread, (n_queries, len(losses)))
    return noise - losses


@pytest.mark.parametrize("degrees", [3, 39, 500])
@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (0.5, 0.0), (1.0, 0.8), (0.3, 1.4)])
def test_chances_rise_with_scores_and_meet_both_thresholds(scale, shift, degrees):
    calibration = Calibration(scale, shift)
    sure_score, bet_score = student.ppf(SURE_CHANCE, degrees), student.ppf(BET_CHANCE, degrees)
    thresholds = np.array([bet_score + shift, sure_score]) / scale
    assert calibration.to_chances(thresholds, degrees) == pytest.approx([BET_CHANCE, SURE_CHANCE], abs=1e-12)
    chances = calibration.to_chances(np.linspace(-8, 12, 2001), degrees)
    assert (np.diff(chances) >= -1e-15).all() and np.diff(chances).max() < 0.03
    assert (chances <= PLAIN.to_chances(scale * np.linspace(-8, 12, 2001), degrees) + 1e-12).all()


def test_plain_calibration_is_students_t_and_infinite_scores_stay_certain():
    scores = np.array([-np.inf, -1.0, 0.0, 2.0, np.inf])
    assert PLAIN.to_chances(scores, 20) == pytest.approx(student.cdf(scores, 20))
    assert Calibration(0.5, 0.7).to_chances(scores[[0, -1]], 20).tolist() == [0.0, 1.0]


def test_samples_are_sorted_by_falling_gain_and_know_their_candidates():
    gains = np.array([[0.1, 0.3, -0.1, 0.2], [0.4, 0.0, 0.2, 0.3]])
    means = np.arange(8.0).reshape(2, 4)
    samples = SampledSettings.sort(means, gains, np.array([False, False, False, True]))
    assert samples.positions.tolist() == [[1, 3, 0, 2], [0, 3, 2, 1]]
    assert samples.means.tolist() == [[1, 3, 0, 2], [4, 7, 6, 5]]
    # Position 3 is left out, and a setting without a gain is no candidate.
    assert samples.is_candidate.tolist() == [[True, False, True, False], [True, False, True, False]]


def test_many_equal_noisy_settings_need_a_scale_and_one_clear_setting_none():
    gains = np.linspace(0.1, 0.5, 100)
    _, of_many = calibrate_all(draw_changes(np.full(100, 0.05)), gains)
    _, of_one = calibrate_all(draw_changes(np.array([0.01]), spread=0.1), np.array([0.2]))
    assert of_many.scale < 0.8 and of_one == PLAIN


def calibrate_slowly(means, gains, losses, keep):
    """Return scale and shift by plain loops over samples, each sorted by its gains."""
    degrees = losses.degrees
    sure_score, least_score = student.ppf([SURE_CHANCE, BET_CHANCE], degrees)

    def choose_in_samples(threshold):
        chosen = []
        for sample_means, sample_gains in zip(means, gains, strict=True):
            best = None
            for setting, gain in enumerate(sample_gains):
                score = (sample_means[setting] + 1 - keep) / losses.std_error[setting]
                if gain > 0 and score >= threshold and (best is None or gain > best[0]):
                    best = gain, score, losses.mean[setting] >= keep - 1
            chosen.append(best)
        return chosen

    threshold = sure_score
    while threshold < sure_score + MAX_EXCESS:
        kept = [best is None or best[2] for best in choose_in_samples(threshold)]
        if np.mean(kept) >= KEPT_TARGET:
            break
        threshold += SCORE_STEP
    scale, shift = sure_score / (sure_score + SAMPLE_FACTOR * (threshold - sure_score)), 0.0
    while shift < MAX_SHIFT:
        chosen = [best for best in choose_in_samples((least_score + shift) / scale) if best is not None]
        if not chosen:
            break
        said = Calibration(scale, shift).to_chances(np.array([best[1] for best in chosen]), degrees)
        if said.mean() <= np.mean([best[2] for best in chosen]):
            break
        shift += SHIFT_STEP
    return scale, SAMPLE_FACTOR * shift


@pytest.mark.parametrize("seed", range(3))
def test_calibration_equals_a_plain_loop(seed):
    rng = np.random.default_rng(seed)
    gains = rng.uniform(-0.05, 0.5, 14)
    changes = draw_changes(rng.uniform(0.04, 0.07, 14), n_queries=40, spread=0.2, seed=seed)
    losses = estimate_losses(changes, gains)
    means, _ = resample(changes, gains)
    # Gains differ from sample to sample too.
    sampled_gains = gains + rng.normal(0, 0.05, means.shape)
    calibration = calibrate(SampledSettings.sort(means, sampled_gains, np.zeros(14, dtype=bool)), losses, KEEP)
    scale, shift = calibrate_slowly(means, sampled_gains, losses, KEEP)
    assert (calibration.scale, calibration.shift) == pytest.approx((scale, shift))
    assert 0 < calibration.scale <= 1 and 0 <= calibration.shift <= SAMPLE_FACTOR * (MAX_SHIFT + SHIFT_STEP)
    assert (calibration.scale, calibration.shift) != (1.0, 0.0)


def test_no_setting_needs_no_calibration():
    losses, calibration = calibrate_all(np.zeros((5, 0)), np.zeros(0))
    assert calibration == PLAIN and calibration.to_chances(losses.score(losses.mean, KEEP), 4).shape == (0,)


def test_settings_that_are_left_out_change_nothing():
    gains = np.linspace(0.1, 0.5, 20)
    changes = draw_changes(np.full(20, 0.05), seed=3)
    losses = estimate_losses(changes, gains)
    means, sampled_gains = resample(changes, gains)
    is_left_out = np.arange(20) != 4
    calibration = calibrate(SampledSettings.sort(means, sampled_gains, is_left_out), losses, KEEP)
    alone = LossEstimate(mean=losses.mean[[4]], std_error=losses.std_error[[4]], degrees=losses.degrees)
    single = SampledSettings.sort(means[:, [4]], sampled_gains[:, [4]], np.zeros(1, dtype=bool))
    assert calibration == calibrate(single, alone, KEEP)


@pytest.mark.parametrize(
    ("max_loss", "min_kept", "max_plain_kept"),
    [
        (0.2, 0.93, 0.925),
        # Nearly all settings lie within two standard errors of the budget: better than the plain bound, but the
        # sure setting keeps the budget less often than is said.
        (0.08, 0.86, 0.85),
    ],
)
def test_sure_setting_keeps_the_budget_in_most_draws_where_the_plain_bound_does_less(
    max_loss, min_kept, max_plain_kept
):
    """100 draws of 60 queries, 30 settings whose changes are independent: the best of many looks better than it is."""
    gains, true_losses = np.linspace(0.05, 0.5, 30), np.linspace(0.0, max_loss, 30)
    kept = {"plain": [], "calibrated": []}
    for seed in range(100):
        losses, calibration = calibrate_all(draw_changes(true_losses, n_queries=60, seed=seed), gains)
        scores = losses.score(losses.mean, KEEP)
        for name, used in (("plain", PLAIN), ("calibrated", calibration)):
            sure = np.flatnonzero(used.to_chances(scores, losses.degrees) >= SURE_CHANCE)
            kept[name].append(not len(sure) or true_losses[sure[-1]] <= 1 - KEEP)
    assert np.mean(kept["calibrated"]) >= min_kept
    assert np.mean(kept["plain"]) <= max_plain_kept < min_kept
