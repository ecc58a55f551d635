"""Support of answers: for each system the share of queries whose answer is supported, and differences to the baseline.

A model grades all answers and a person some of them; where the person graded every system's answer to enough queries,
shares and differences are the person's, corrected by the model's (engine/evaluation/corrected_judge.py).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri
from scipy.stats import binomtest

from engine.errors import DataError
from engine.evaluation.corrected_judge import JudgeUse, ModelValues, correct_means
from engine.evaluation.statistics import CONFIDENCE_LEVEL, Comparison, build_comparisons, build_corrected

SUPPORT_METRIC = "support"
"""The metric's name in comparisons."""
MIN_GRADED_QUERIES = 30
"""Queries that a person must have graded to correct a model.

Two decoders seldom differ: where they did on a tenth of the queries, Student's intervals held the true difference in
39% of simulated sheets of 5 queries, in 61% of 10 queries and in 92% of 30 (97% with those of no width widened).
"""
WIDTH_TOLERANCE = 1e-12


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
    n_gradable: int  # queries with an answer that is not empty, from which a person's sample comes
    lacking: Mapping[str, int]  # system → answers without the person's grade, on queries of which they graded others
    is_corrected: bool  # the person's grades correct the model's
    use: JudgeUse | None  # what was made of the model in the differences; None for one judge or one system alone


def estimate_support(
    names: Sequence[str],
    supported: np.ndarray,
    person_supported: np.ndarray | None = None,
    *,
    is_empty: np.ndarray | None = None,
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
    is_empty : np.ndarray, optional
        (n_queries,) of True where every system's answer is empty. No person is asked for these queries, and nothing
        supports their answers: their share is known, and the person's sample is of the others.
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
    can_sample = np.ones(len(values), dtype=bool) if is_empty is None else ~is_empty[is_graded]
    has_grade = np.isfinite(person)
    is_begun, is_person = has_grade.any(1) & can_sample, has_grade.all(1) & can_sample
    n_person, n_gradable = int(is_person.sum()), int(can_sample.sum())
    # Without an answer of a new system, complete queries are those on which it answers as an old one: no random sample.
    # One query may be what the person is at.
    n_begun = int(is_begun.sum())
    n_missing = (~has_grade[is_begun]).sum(0).tolist() if n_begun - n_person > 1 else [0] * len(names)
    lacking = {name: n_answers for name, n_answers in zip(names, n_missing, strict=True) if n_answers}
    labels, use = [(name, name, names[0]) for name in names[1:]], None
    is_corrected = n_person >= MIN_GRADED_QUERIES and not lacking
    if not is_corrected:
        rates = _measure_shares(values)
        rows = build_comparisons(labels, SUPPORT_METRIC, k, values[:, 1:], values[:, :1], resamples, seed)
    else:
        is_other = can_sample & ~is_person
        rates = _correct_shares(person[is_person], values[is_person], values[is_other])
        # Rows have no ids here, and need none: their numbers are told apart as texts.
        ids = tuple(map(str, np.flatnonzero(is_person)))
        model = ModelValues(
            judge=judge, judged_queries=ids, judged_values=values[is_person], other_values=values[is_other],
            objectives=None,
        )  # fmt: skip
        rows = build_corrected(labels, SUPPORT_METRIC, k, person[is_person], model, ids)
        use = model.correct(person[is_person][:, 1:] - person[is_person][:, :1], ids).use if labels else None
    systems = [
        SystemSupport(name=name, rate=rate, low=low, high=high, comparison=comparison)
        for name, (rate, low, high), comparison in zip(names, rates, (None, *rows), strict=True)
    ]
    support = SupportEstimate(
        systems=tuple(systems), n_queries=len(values), n_left_out=n_left_out, n_person=n_person,
        n_gradable=n_gradable, lacking=lacking, is_corrected=is_corrected, use=use,
    )  # fmt: skip
    return spread_sample(support, n_gradable, len(values)) if is_corrected else support


def spread_sample(support: SupportEstimate, n_gradable: int, n_queries: int) -> SupportEstimate:
    """Return the support on n_queries from that on n_gradable of them, on whose others every answer is empty."""
    # What is empty is supported by nothing, whoever judges.
    share = n_gradable / n_queries
    # Other queries would have another share; a difference is too small for that to matter.
    share_margin = float(ndtri((1 + CONFIDENCE_LEVEL) / 2)) * math.sqrt(share * (1 - share) / n_queries)
    systems = []
    for system in support.systems:
        down, up = (
            math.hypot(share * (end - system.rate), system.rate * share_margin) for end in (system.low, system.high)
        )
        rate, row = share * system.rate, system.comparison
        systems.append(replace(
            system, rate=rate, low=max(rate - down, 0.0), high=min(rate + up, 1.0),
            comparison=None if row is None else _scale(_widen(row), share),
        ))  # fmt: skip
    return replace(support, systems=tuple(systems))


def _widen(row: Comparison) -> Comparison:
    """Give an interval without width that of no exception among the queries, by Wilson."""
    if row.single_low is None or row.single_high is None or row.single_high - row.single_low > WIDTH_TOLERANCE:
        return row
    # Every query may be an exception that turns its difference into the farthest one, -1 or 1.
    reach = 1 + abs(row.difference)
    alone, together = (
        reach * float(binomtest(0, row.queries).proportion_ci(level, method="wilson").high)
        for level in (CONFIDENCE_LEVEL, 1 - (1 - CONFIDENCE_LEVEL) / row.comparisons)
    )
    return replace(
        row, low=min(row.low or 0.0, max(row.difference - together, -1.0)),
        high=max(row.high or 0.0, min(row.difference + together, 1.0)),
        single_low=max(row.difference - alone, -1.0), single_high=min(row.difference + alone, 1.0),
    )  # fmt: skip


def _scale(row: Comparison, share: float) -> Comparison:
    """Return a comparison on a share of the queries as one on all, for a difference of 0 on the others."""
    names = ("mean", "baseline_mean", "difference", "low", "high", "single_low", "single_high")
    values = {name: getattr(row, name) for name in names}
    return replace(row, **{name: value * share for name, value in values.items() if value is not None})


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
