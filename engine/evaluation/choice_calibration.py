"""Calibration of chances by resampling with the choice inside: the best of many settings looks better than it is."""

from dataclasses import dataclass

import numpy as np
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


@dataclass(frozen=True)
class Calibration:
    """Rule by which scores become chances.

    A score is what a setting keeps beyond the required share of the baseline's metric, in standard errors.
    """

    scale: float = 1.0  # factor of scores, at most 1: the best of many is less sure than each by itself
    shift: float = 0.0  # subtracted from a bet's score, for a bet is the largest of many estimates

    def to_chances(self, scores: np.ndarray, degrees: int) -> np.ndarray:
        """Convert scores to chances by Student's t; the shift falls from a bet's score to 0 at that of a sure one."""
        sure_score = stdtrit(degrees, SURE_CHANCE)
        scaled = self.scale * scores
        stretched = (scaled - self.shift) * sure_score / (sure_score - self.shift)
        shifted = np.where(scaled < self.shift, scaled - self.shift, np.where(scaled < sure_score, stretched, scaled))
        chances: np.ndarray = stdtr(degrees, shifted)
        return chances


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


def calibrate(samples: SampledSettings, losses: LossEstimate, keep: float) -> Calibration:
    """Calibrate scores so that the setting chosen as sure, and as the bet, is as good as it is said to be.

    A sure setting almost certainly keeps the required share of the baseline's metric, the bet with a moderate chance.
    The queries at hand are the truth of the samples. losses: of the settings on them; keep: the share to be kept.
    """
    degrees = losses.degrees
    if not len(losses.mean):
        # Without a setting there is no choice.
        return Calibration()
    holds = (losses.mean >= keep - 1 - TIE_TOLERANCE)[samples.positions]
    scores = np.where(samples.is_candidate, losses.score(samples.means, keep, samples.positions), -np.inf)
    rows = np.arange(len(scores))

    def choose(threshold: float) -> tuple[np.ndarray, np.ndarray]:
        """Choose the first setting from a score on in each sample; return its column, and if there is one."""
        is_passing = scores >= threshold
        columns = is_passing.argmax(axis=1)
        return columns, is_passing[rows, columns]

    sure_score = float(stdtrit(degrees, SURE_CHANCE))
    threshold = sure_score
    while threshold < sure_score + MAX_EXCESS:
        columns, has_choice = choose(threshold)
        # Without a choice the baseline stays, which keeps its own share.
        if np.where(has_choice, holds[rows, columns], True).mean() >= KEPT_TARGET:
            break
        threshold += SCORE_STEP
    scale = sure_score / (sure_score + SAMPLE_FACTOR * (threshold - sure_score))
    least_score, shift = float(stdtrit(degrees, BET_CHANCE)), 0.0
    while shift < MAX_SHIFT:
        columns, has_choice = choose((least_score + shift) / scale)
        if not has_choice.any():
            break
        chosen_scores = scores[rows, columns][has_choice]
        said = Calibration(scale, shift).to_chances(chosen_scores, degrees).mean()
        if said <= holds[rows, columns][has_choice].mean():
            break
        shift += SHIFT_STEP
    return Calibration(scale, SAMPLE_FACTOR * shift)
