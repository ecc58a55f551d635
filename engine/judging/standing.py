"""What judgements tell already: means with intervals, differences, how many more queries they need, what is open."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.errors import DataError, ParamError
from engine.evaluation.metrics import METRICS, measure
from engine.evaluation.runs import RankedRun
from engine.evaluation.statistics import (
    RESAMPLES,
    Comparison,
    bootstrap_intervals,
    build_comparisons,
    describe_comparison,
    estimate_queries_needed,
)
from engine.progress import counted
from engine.space import Space
from engine.values import Embeddings, Qrels, Ranking
from engine.wording import decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemStanding:
    """One system on the judged queries."""

    name: str
    mean: float | None  # None while no query has a relevant document
    low: float | None  # its 95% interval, None for fewer than two such queries
    high: float | None
    judged: float  # share of what it returned at k that is judged: judged@k


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedDifference:
    """A system's difference to the baseline, and what could still change it."""

    comparison: Comparison
    needed: int | None  # queries that it takes to find the difference asked about; None where too little is known
    worst: float  # the difference if of what is unjudged all that speaks against the system is relevant, nothing else
    best: float  # if all that speaks for it is

    @property
    def open(self) -> bool:
        """Whether unjudged documents could give the difference another sign."""
        return bool(np.sign(self.worst) != np.sign(self.best))


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where systems stand by the judgements so far."""

    metric: str
    k: int
    difference: float  # the one whose number of queries was asked for
    queries: int  # judged, with a relevant document
    without: int  # judged, without one so far, and so in no mean
    systems: tuple[SystemStanding, ...]
    differences: tuple[JudgedDifference, ...]  # of every other system to the baseline

    @property
    def sentences(self) -> tuple[str, ...]:
        """A sentence or two on each difference: what it is, what it needs, whether unjudged documents decide."""
        said = []
        for one in self.differences:
            parts = [describe_comparison(one.comparison)]
            if one.needed is not None:
                more = max(0, one.needed - self.queries)
                rest = f"{counted(more, 'query', 'queries')} more" if more else "there are enough"
                asked = decimal(self.difference)
                parts.append(
                    f"To find a difference of {asked} takes {counted(one.needed, 'query', 'queries')}: {rest}."
                )
            if one.open:
                ends = f"{decimal(one.worst)} to {decimal(one.best)}"
                parts.append(f"Unjudged documents decide: with them the difference could be {ends}.")
            said.append(" ".join(parts))
        return tuple(said)


def standing(
    runs: Sequence[RankedRun],
    qrels: Qrels,
    space: Space,
    queries: Embeddings,
    *,
    metric: str = "recall",
    k: int = 10,
    baseline: str | None = None,
    difference: float = 0.05,
    resamples: int = RESAMPLES.default,
    seed: int = 0,
) -> Standing:
    """Where systems stand on the queries that have a grade.

    qrels: `qrels_of` the log; queries: those that were asked, judged or not; metric: one that needs judgements;
    baseline: a run's name, by default the first; difference: as `queries_needed` takes it, with a power of 80 % at 5 %
    from the spread of the differences seen. Raises ParamError or DataError.
    """
    names = [run.name for run in runs]
    if metric not in (needy := [name for name, m in METRICS.items() if m.needs == "qrels"]):
        raise ParamError(f"metric must be one that needs judgements: {', '.join(needy)}; got {metric!r}")
    if not names or (baseline is not None and baseline not in names):
        raise ParamError(f"baseline must be one of the runs ({', '.join(names) or 'none'}); got {baseline!r}")
    first = 0 if baseline is None else names.index(baseline)
    asked = queries.take([row for row, query in enumerate(queries.ids) if qrels.grades.get(query)])
    if not len(asked):
        raise DataError("qrels must judge one of the queries at least; nothing is judged yet")

    def score(ranking: Ranking, qrels: Qrels) -> np.ndarray:
        return measure(ranking, space, asked, qrels, k, (metric,)).values[metric]

    rankings = [run.build_ranking(space, asked.ids, k) for run in runs]
    every = np.stack([score(ranking, qrels) for ranking in rankings], axis=1)
    values = every[np.isfinite(every).all(1)]
    ids = space.corpus.ids
    listed = [[[ids[row] for row in rows if row >= 0] for rows in ranking.index.tolist()] for ranking in rankings]
    systems = tuple(
        SystemStanding(name=name, mean=mean, low=low, high=high, judged=_judged_share(docs, asked.ids, qrels))
        for name, docs, (mean, low, high) in zip(names, listed, _means(values, resamples, seed), strict=True)
    )
    others = [number for number in range(len(runs)) if number != first and len(values)]
    labels = [(names[number], names[number], names[first]) for number in others]
    rows = (
        build_comparisons(labels, metric, k, values[:, others], values[:, [first]], resamples, seed) if others else ()
    )
    differences = []
    for number, row in zip(others, rows, strict=True):
        worst, best = (
            np.nanmean(score(rankings[number], open_ended) - score(rankings[first], open_ended))
            for open_ended in (
                _with_unjudged(qrels, asked.ids, listed[first], listed[number]),
                _with_unjudged(qrels, asked.ids, listed[number], listed[first]),
            )
        )
        needed = estimate_queries_needed(values[:, number] - values[:, first], difference)
        differences.append(JudgedDifference(comparison=row, needed=needed, worst=float(worst), best=float(best)))
    return Standing(
        metric=metric, k=k, difference=difference, queries=len(values), without=len(every) - len(values),
        systems=systems, differences=tuple(differences),
    )  # fmt: skip


Lists = Sequence[Sequence[str]]
"""Documents that a system returned, a query each, best first."""


def _means(values: np.ndarray, resamples: int, seed: int) -> list[tuple[float | None, float | None, float | None]]:
    """Mean and interval of each column; none where there is no row."""
    if not len(values):
        return [(None, None, None)] * values.shape[1]
    ends = bootstrap_intervals(values, resamples, seed)
    return [(float(mean), *end) for mean, end in zip(values.mean(0), ends, strict=True)]


def _judged_share(listed: Lists, queries: Sequence[str], qrels: Qrels) -> float:
    """The share of the documents returned that are judged."""
    judged = [doc in qrels.grades[query] for query, docs in zip(queries, listed, strict=True) for doc in docs]
    return sum(judged) / len(judged) if judged else 1.0


def _with_unjudged(qrels: Qrels, queries: Sequence[str], helped: Lists, other: Lists) -> Qrels:
    """The judgements if every unjudged document were relevant that one system has above another, and no other one.

    Relevant as the best grade given so far.
    """
    best = max((grade for docs in qrels.grades.values() for grade in docs.values()), default=1)
    grades = {}
    for query, up, down in zip(queries, helped, other, strict=True):
        place = {doc: rank for rank, doc in enumerate(down)}
        raised = {doc: max(best, 1) for rank, doc in enumerate(up) if rank < place.get(doc, len(up))}
        grades[query] = {doc: grade for doc, grade in {**raised, **qrels.grades[query]}.items() if grade > 0}
    return Qrels(grades)
