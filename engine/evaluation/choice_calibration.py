"""Calibration of chances by resampling with the choice inside: the best of many settings looks better than it is."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import stdtr, stdtrit

from engine.evaluation.decision import BET_CHANCE, SURE_CHANCE
from engine.evaluation.loss_model import LossEstimate
from engine.evaluation.paired import TIE_TOLERANCE

N_SAMPLES = 200
"""Bootstrap samples of the queries, in each of which the choice is made anew."""
KEPT_TARGET = 0.97
"""Share of the samples in which the setting called sure must keep the required share of the baseline's metric.

It is above SURE_CHANCE, as there are few samples."""
MAX_EXCESS, SCORE_STEP = 4.35, 0.1
"""Scores above the plain one that are tried as the least one of a sure setting."""
MAX_SHIFT, SHIFT_STEP = 0.7, 0.05
"""Shifts of a bet's score that are tried."""
SAMPLE_FACTOR = 2.0
"""Factor of what samples show that the choice adds. The queries at hand, the truth of the samples, were chosen from
before, so they show only half of it."""
BUDGETS = np.linspace(0.5, 1.04, 28)
"""Shares of the baseline's metric at which samples choose."""
N_NEIGHBOURS = 1
"""Budgets on either side that count with one. At a single one all would hang on whether the settings near it lie just
above or just below it on the queries at hand."""


@dataclass(frozen=True)
class Calibration:
    """Rule by which scores become chances at one budget.

    A score is what a setting keeps beyond the required share of the baseline's metric, in standard errors.
    """

    scale: float = 1.0  # factor of scores, at most 1: the best of many is less sure than each by itself
    shift: float = 0.0  # subtracted from a bet's score, for a bet is the largest of many estimates

    def to_chances(self, scores: np.ndarray, degrees: int) -> np.ndarray:
        """Convert scores to chances by Student's t; the shift falls from a bet's score to 0 at that of a sure one."""
        sure_score = stdtrit(degrees, SURE_CHANCE)
        # A smaller factor must not bring a score below 0 nearer to it.
        scaled = np.where(scores > 0, self.scale * scores, scores)
        stretched = (scaled - self.shift) * sure_score / (sure_score - self.shift)
        shifted = np.where(scaled < self.shift, scaled - self.shift, np.where(scaled < sure_score, stretched, scaled))
        chances: np.ndarray = stdtr(degrees, shifted)
        return chances


@dataclass(frozen=True, eq=False, kw_only=True)
class Calibrations:
    """The rules of all budgets: a larger one never has a lower threshold or a smaller shift.

    So no chance rises with the share that is to be kept, and what a setting is sure to keep does not depend on it.
    """

    budgets: np.ndarray  # (b,) rising
    thresholds: np.ndarray  # (b,) least score of a sure setting
    shifts: np.ndarray  # (b,) of a bet's score
    sure_score: float  # the least score of a sure setting if there is nothing to choose from

    def find_thresholds(self, shares: np.ndarray | float) -> np.ndarray:
        """Return the least scores that surely keep shares of the baseline's metric, in the shape of shares."""
        thresholds: np.ndarray = np.interp(shares, self.budgets, self.thresholds)
        return thresholds

    def at(self, keep: float) -> Calibration:
        """Return the rule for a share of the baseline's metric to keep."""
        scale = self.sure_score / float(self.find_thresholds(keep))
        return Calibration(scale, float(np.interp(keep, self.budgets, self.shifts)))


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledSettings:
    """Settings in bootstrap samples of the queries, in each sample by falling gain."""

    positions: np.ndarray  # (samples, m) of the settings among all
    means: np.ndarray  # (samples, m) mean changes to the baseline
    is_candidate: np.ndarray  # (samples, m) those with a gain that may be chosen

    @classmethod
    def sort(cls, means: np.ndarray, gains: np.ndarray, is_left_out: np.ndarray) -> "SampledSettings":
        """Sort the settings of each sample; means, gains: (samples, m); is_left_out: (m,)."""
        positions = np.argsort(-gains, axis=1, kind="stable")
        is_candidate = (np.take_along_axis(gains, positions, axis=1) > TIE_TOLERANCE) & ~is_left_out[positions]
        return cls(positions=positions, means=np.take_along_axis(means, positions, axis=1), is_candidate=is_candidate)

    def split_by_decoder(self, decoder_of: np.ndarray) -> "list[SampledSettings]":
        """Return the settings of each decoder; none where there is one decoder. decoder_of: (m,) numbers."""
        decoders = np.unique(decoder_of)
        parts = []
        for decoder in decoders if len(decoders) > 1 else ():
            is_own = decoder_of[self.positions] == decoder
            # A decoder has as many settings in each sample.
            tables = (
                table[is_own].reshape(len(table), -1) for table in (self.positions, self.means, self.is_candidate)
            )
            parts.append(SampledSettings(**dict(zip(("positions", "means", "is_candidate"), tables, strict=True))))
        return parts


@dataclass(frozen=True, eq=False, kw_only=True)
class _SampledChoices:
    """Scores of settings in bootstrap samples at several budgets, from which the choice is made anew.

    A budget is the share of the baseline's metric that a setting must keep.
    """

    scores: np.ndarray  # (budgets, samples, m) by falling gain; -inf for a setting that may not be chosen
    holds: np.ndarray  # (budgets, samples, m) True for a setting that keeps the budget on the queries at hand

    @classmethod
    def score(cls, samples: SampledSettings, losses: LossEstimate) -> "_SampledChoices":
        """Score the settings of all samples at each of BUDGETS."""
        scores, holds = [], []
        for keep in BUDGETS:
            own_scores = losses.score(samples.means, keep, samples.positions)
            scores.append(np.where(samples.is_candidate, own_scores, -np.inf))
            holds.append((losses.mean >= keep - 1 - TIE_TOLERANCE)[samples.positions])
        return cls(scores=np.stack(scores), holds=np.stack(holds))

    def choose(self, thresholds: np.ndarray | float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Choose the first setting from a score on, at each budget in each sample.

        thresholds: the score, or (budgets,) one for each. Return (budgets, samples) columns of the choices, -1 for
        none, their scores, and True for one that holds.
        """
        is_passing = self.scores >= np.reshape(thresholds, (-1, 1, 1))
        columns = is_passing.argmax(axis=2)[..., None]
        has_choice, chosen_scores, holds = (
            np.take_along_axis(table, columns, axis=2)[..., 0] for table in (is_passing, self.scores, self.holds)
        )
        return np.where(has_choice, columns[..., 0], -1), chosen_scores, holds

    def weigh_budgets(self, samples: SampledSettings, threshold: float) -> np.ndarray:
        """Return (budgets,) weights: the share of the samples in which the choice is not the most frequent one.

        A budget at which all samples choose alike says nothing about what choosing adds.
        """
        columns, _, _ = self.choose(threshold)
        weights = []
        for row in columns:
            # A column is a rank by gain, and gains differ from sample to sample.
            positions = np.where(row < 0, -1, samples.positions[np.arange(len(row)), row])
            weights.append(1 - np.unique(positions, return_counts=True)[1].max() / len(positions))
        return np.array(weights)


def calibrate(samples: SampledSettings, losses: LossEstimate, decoder_of: np.ndarray | None = None) -> Calibrations:
    """Calibrate scores so that a setting chosen as sure, and one chosen as the bet, is as good as it is said to be.

    A sure setting almost certainly keeps the required share of the baseline's metric, the bet with a moderate chance.
    The queries at hand are the truth of the samples. The threshold of a sure setting is the strictest of those for a
    choice among all settings and among each decoder's alone: to compare more decoders never makes one surer than it was
    by itself. losses: of the settings on the queries at hand; decoder_of: (m,) number of each setting's decoder, by
    default one for all
    """
    sure_score = float(stdtrit(losses.degrees, SURE_CHANCE))
    thresholds, shifts = np.full(len(BUDGETS), sure_score), np.zeros(len(BUDGETS))
    # Without a setting there is no choice.
    if len(losses.mean):
        sampled = _SampledChoices.score(samples, losses)
        thresholds = _find_thresholds(sampled, samples, sure_score)
        for part in [] if decoder_of is None else samples.split_by_decoder(decoder_of):
            own_thresholds = _find_thresholds(_SampledChoices.score(part, losses), part, sure_score)
            thresholds = np.maximum(thresholds, own_thresholds)
        shifts = SAMPLE_FACTOR * _find_shifts(sampled, sure_score / thresholds, losses.degrees)
    return Calibrations(budgets=BUDGETS, thresholds=thresholds, shifts=shifts, sure_score=sure_score)


def _find_thresholds(sampled: _SampledChoices, samples: SampledSettings, sure_score: float) -> np.ndarray:
    """Find (budgets,) least scores of a sure setting, with which a choice among these settings holds as it is to.

    sure_score: the least score if there is nothing to choose from
    """
    weights = sampled.weigh_budgets(samples, sure_score)
    return sure_score + SAMPLE_FACTOR * _find_excesses(sampled, weights, sure_score)


def _find_excesses(sampled: _SampledChoices, weights: np.ndarray, sure_score: float) -> np.ndarray:
    """Find (budgets,) scores to add, with which sure settings keep the budget in KEPT_TARGET of the samples.

    weights: of the budgets; sure_score: the least score of a sure setting without them
    """
    excesses, is_done = np.full(len(BUDGETS), MAX_EXCESS), np.zeros(len(BUDGETS), dtype=bool)
    total_weights = _sum_neighbours(weights)
    for excess in np.arange(0, MAX_EXCESS, SCORE_STEP):
        columns, _, holds = sampled.choose(sure_score + excess)
        # Without a choice the baseline stays, which keeps its own share.
        missed_shares = np.where(columns >= 0, ~holds, False).mean(axis=1)
        is_good = _sum_neighbours(weights * missed_shares) <= (1 - KEPT_TARGET + TIE_TOLERANCE) * total_weights
        excesses[is_good & ~is_done] = excess
        is_done |= is_good
        if is_done.all():
            break
    return _make_rising(excesses, weights)


def _find_shifts(sampled: _SampledChoices, scales: np.ndarray, degrees: int) -> np.ndarray:
    """Find (budgets,) shifts with which bets hold as often as their chances say; scales: the factors of scores."""
    least_score, sure_score = float(stdtrit(degrees, BET_CHANCE)), float(stdtrit(degrees, SURE_CHANCE))
    shifts, is_done = np.full(len(BUDGETS), MAX_SHIFT), np.zeros(len(BUDGETS), dtype=bool)
    n_bets = np.zeros(len(BUDGETS))
    for shift in np.arange(0, MAX_SHIFT, SHIFT_STEP):
        threshold = least_score + shift
        columns, scores, holds = sampled.choose(threshold / scales if threshold > 0 else threshold)
        # A choice that is sure is no bet.
        is_bet = (columns >= 0) & (scales[:, None] * scores < sure_score)
        n_bets = is_bet.sum(axis=1) if shift == 0 else n_bets
        chances = np.empty_like(scores)
        for number, scale in enumerate(scales):
            chances[number] = Calibration(scale, shift).to_chances(scores[number], degrees)
        excesses = _sum_neighbours(np.where(is_bet, chances - holds, 0.0).sum(axis=1))
        shifts[(excesses <= TIE_TOLERANCE) & ~is_done] = shift
        is_done |= excesses <= TIE_TOLERANCE
        if is_done.all():
            break
    return _make_rising(shifts, n_bets)


def _sum_neighbours(values: np.ndarray) -> np.ndarray:
    """Sum each budget's value and those of its neighbours; values: (budgets,)."""
    sums: np.ndarray = np.convolve(values, np.ones(2 * N_NEIGHBOURS + 1), mode="same")
    return sums


def _make_rising(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Fit values that do not fall from budget to budget; those without a weight are interpolated."""
    is_weighed = weights > 0
    if not is_weighed.any():
        return np.zeros(len(values))
    fitted = isotonic_regression(values[is_weighed], weights=weights[is_weighed]).x
    rising: np.ndarray = np.interp(BUDGETS, BUDGETS[is_weighed], fitted)
    return rising
