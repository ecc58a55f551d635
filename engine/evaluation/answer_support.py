"""Support of answers: for each system the share of queries whose answer is supported, and differences to the baseline.

A model grades all answers and a person some of them; where the person graded every system's answer to enough queries,
shares and differences are the person's, corrected by the model's (engine/evaluation/corrected_judge.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest

from engine.errors import DataError
from engine.evaluation.corrected_judge import MIN_PERSON_QUERIES, JudgeUse, ModelValues, correct_means
from engine.evaluation.statistics import CONFIDENCE_LEVEL, Comparison, build_comparisons, build_corrected

SUPPORT_METRIC = "support"
"""The metric's name in comparisons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSupport:
    """Share of queries to which a system's documents give a supported answer."""

    name: str  # as charts write it
    rate: float
    low: float  # ends of its 95% interval
    high: float
    comparison: Comparison | None  # with the baseline, query by query; None for the baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportEstimate:
    """Support of several systems on the queries for which each of them has a grade."""

    systems: tuple[SystemSupport, ...]  # the baseline first
    n_queries: int
    n_left_out: int  # queries for which a system has no grade
    n_person: int  # queries on which a person graded every system's answer
    is_corrected: bool  # the person's grades correct the model's
    use: JudgeUse | None  # what was made of the model in the differences; None for one judge or one system alone


def estimate_support(
    names: Sequence[str],
    supported: np.ndarray,
    person_supported: np.ndarray | None = None,
    *,
    judge: str = "a model",
    k: int = 10,
    resamples: int = 10_000,
    seed: int = 0,
) -> SupportEstimate:
    """Estimate each system's share of supported answers, and its difference to the first system's.

    Differences are paired. Their intervals and p-values are corrected for their number (Holm): of one judge by the
    bootstrap over queries and random sign flips, of a model that a person corrects by Student's t. Shares have
    Wilson's interval, corrected ones Student's.

    Parameters
    ----------
    names : sequence of str
        The systems, the baseline first.
    supported : np.ndarray
        (n_queries, n_systems) of 1 for an answer that is supported, 0 for another, NaN for one without a grade.
    person_supported : np.ndarray, optional
        The same by a person, NaN for an answer that the person did not grade.
    judge : str
        Name of the model that graded.
    k : int
        Documents of each set, for sentences.
    resamples, seed : int
        Of the bootstrap and the sign flips.

    Returns
    -------
    SupportEstimate
        Shares, differences, and the numbers of queries behind them.

    Raises
    ------
    DataError
        If no query has a grade for every system, or the model's differences go against the person's.
    """
    # Comparisons are paired, so every share is over the same queries.
    is_graded = np.isfinite(supported).all(1)
    if not is_graded.any():
        raise DataError("no query has a grade of every system's answer: the model refused, or gave no grade")
    n_left_out, values = int((~is_graded).sum()), supported[is_graded]
    person = np.full_like(values, np.nan) if person_supported is None else person_supported[is_graded]
    is_person = np.isfinite(person).all(1)
    n_person = int(is_person.sum())
    labels, use = [(name, name, names[0]) for name in names[1:]], None
    is_corrected = n_person >= MIN_PERSON_QUERIES
    if not is_corrected:
        rates = _measure_shares(values)
        rows = build_comparisons(labels, SUPPORT_METRIC, k, values[:, 1:], values[:, :1], resamples, seed)
    else:
        rates = _correct_shares(person[is_person], values[is_person], values[~is_person])
        # Rows have no ids here, and need none: their numbers are told apart as texts.
        ids = tuple(map(str, np.flatnonzero(is_person)))
        model = ModelValues(
            judge=judge, judged_queries=ids, judged_values=values[is_person], other_values=values[~is_person],
            objectives=None,
        )  # fmt: skip
        rows = build_corrected(labels, SUPPORT_METRIC, k, person[is_person], model, ids)
        use = model.correct(person[is_person][:, 1:] - person[is_person][:, :1], ids).use if labels else None
    systems = [
        SystemSupport(name=name, rate=rate, low=low, high=high, comparison=comparison)
        for name, (rate, low, high), comparison in zip(names, rates, (None, *rows), strict=True)
    ]
    return SupportEstimate(
        systems=tuple(systems), n_queries=len(values), n_left_out=n_left_out, n_person=n_person,
        is_corrected=is_corrected, use=use,
    )  # fmt: skip


def _measure_shares(values: np.ndarray) -> list[tuple[float, float, float]]:
    """Return share and Wilson's 95% interval of each column of zeros and ones."""
    shares = []
    for n_supported in values.sum(0).astype(int).tolist():
        # A bootstrap of zeros alone would give an interval without width.
        interval = binomtest(n_supported, len(values)).proportion_ci(CONFIDENCE_LEVEL, method="wilson")
        shares.append((n_supported / len(values), float(interval.low), float(interval.high)))
    return shares


def _correct_shares(
    person: np.ndarray, judged_model: np.ndarray, other_model: np.ndarray
) -> list[tuple[float, float, float]]:
    """Return share and 95% interval of each column of a person's, corrected by the model's; in [0, 1]."""
    means, own_shares = correct_means(person, judged_model, other_model), _measure_shares(person)
    low, high = (np.clip(ends, 0, 1) for ends in means.find_ends(CONFIDENCE_LEVEL))
    corrected = zip(np.clip(means.mean, 0, 1).tolist(), low.tolist(), high.tolist(), strict=True)
    # Where the model narrows nothing, the person's own grades stand.
    return [
        row if weight > 0 else own_share
        for row, own_share, weight in zip(corrected, own_shares, means.weights.tolist(), strict=True)
    ]
