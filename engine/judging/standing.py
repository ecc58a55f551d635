"""Interim results of judging: means with intervals, differences, queries still needed, undecided differences."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from engine.errors import DataError, ParamError
from engine.evaluation import statistics
from engine.evaluation.decide import decide
from engine.evaluation.decision import Decision
from engine.evaluation.metrics import METRICS, measure
from engine.evaluation.runs import RankedRun
from engine.progress import counted
from engine.space import Space
from engine.values import Embeddings, Qrels, Ranking
from engine.wording import decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemStanding:
    """Result of one system on the judged queries."""

    name: str
    mean: float | None  # None while no query has a relevant document
    low: float | None  # ends of its 95% interval, None where few queries all have the same value, as one has
    high: float | None
    judged_share: float  # judged@k: share of the documents returned at k that are judged


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedDifference:
    """Difference of a system to the baseline, and its range over all grades of unjudged documents."""

    comparison: statistics.Comparison
    n_needed: int | None  # queries needed to detect `Standing.difference`; None if too little is known
    worst_case: float  # if exactly the unjudged documents that favour the baseline are relevant
    best_case: float  # if exactly the unjudged documents that favour the system are relevant

    @property
    def is_open(self) -> bool:
        """True if unjudged documents could change the sign of the difference."""
        return bool(np.sign(self.worst_case) != np.sign(self.best_case))


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Results of all systems by the judgements so far."""

    metric: str
    k: int
    difference: float  # the difference to detect
    n_queries: int  # judged queries with a relevant document
    n_without_relevant: int  # judged queries without one so far, which are in no mean
    systems: tuple[SystemStanding, ...]
    differences: tuple[JudgedDifference, ...]  # of each other system to the baseline
    decision: Decision | None  # which system is sure to keep 95 % of the baseline's metric; None with too few queries

    @property
    def sentences(self) -> tuple[str, ...]:
        """Text on each difference: its value, the queries still needed, and its range if undecided."""
        sentences = []
        for row in self.differences:
            parts = [statistics.describe_comparison(row.comparison)]
            if row.n_needed is not None:
                n_more, needed_text = max(0, row.n_needed - self.n_queries), counted(row.n_needed, "query", "queries")
                more_text = f"{counted(n_more, 'query', 'queries')} more" if n_more else "there are enough"
                parts.append(f"To find a difference of {decimal(self.difference)} takes {needed_text}: {more_text}.")
            if row.is_open:
                range_text = f"{decimal(row.worst_case)} to {decimal(row.best_case)}"
                parts.append(f"Unjudged documents decide: with them the difference could be {range_text}.")
            sentences.append(" ".join(parts))
        return tuple(sentences)


def compute_standing(
    runs: Sequence[RankedRun],
    qrels: Qrels,
    space: Space,
    queries: Embeddings,
    *,
    metric: str = "recall",
    k: int = 10,
    baseline: str | None = None,
    difference: float = 0.05,
    resamples: int = statistics.RESAMPLES.default,
    seed: int = 0,
) -> Standing:
    """Compute the results of systems on the queries judged so far, and if more judging could change them.

    Each system gets a mean with confidence interval, and the share of its documents that are judged. Each system but
    the baseline also gets its difference to the baseline; the number of queries that would detect one of the size
    `difference`; and the two differences that would result if the unjudged documents all favoured the baseline, or all
    the system. runs: ranked lists of the systems; qrels: all people's grades merged; queries: judged or not; metric:
    one that needs judgements; baseline: name of a run, by default the first; difference: size of a difference that
    should be detected (with power 80 % at level 5 %, by the spread so far). Raises ParamError or DataError.
    """
    system_names = [ranked_run.name for ranked_run in runs]
    _check_names(system_names, baseline, metric)
    baseline_index = 0 if baseline is None else system_names.index(baseline)
    judged_queries = queries.take([row for row, query_id in enumerate(queries.ids) if qrels.grades.get(query_id)])
    if not len(judged_queries):
        raise DataError("qrels must judge one of the queries at least; nothing is judged yet")

    def score(ranking: Ranking, qrels: Qrels = qrels) -> np.ndarray:
        """Return a ranking's metric for each judged query, by these or other judgements; NaN if undefined."""
        return measure(ranking, space, judged_queries, qrels, k, (metric,)).values[metric]

    rankings = [ranked_run.build_ranking(space, judged_queries.ids, k) for ranked_run in runs]
    returned_ids = list(map(partial(_list_ids, space), rankings))
    all_values = np.stack(list(map(score, rankings)), axis=1)
    # A query without a relevant document has no value of the metric, so no system's mean counts it.
    values = all_values[np.isfinite(all_values).all(1)]
    means = values.mean(0).tolist() if len(values) else [None] * len(runs)
    intervals = statistics.estimate_mean_intervals(values, resamples, seed)
    systems = []
    for name, doc_ids, mean, (low, high) in zip(system_names, returned_ids, means, intervals, strict=True):
        share = _judged_share(doc_ids, judged_queries.ids, qrels)
        systems.append(SystemStanding(name=name, mean=mean, low=low, high=high, judged_share=share))
    compared_systems = np.delete(np.arange(len(runs)), baseline_index).tolist() if len(values) else []
    labels = [(system_names[index], system_names[index], system_names[baseline_index]) for index in compared_systems]
    # Columns of the compared systems, and the baseline's as a matrix of one column.
    columns = values[:, compared_systems], values[:, [baseline_index]]
    comparisons = statistics.build_comparisons(labels, metric, k, *columns, resamples, seed) if compared_systems else ()
    differences = []
    for system, comparison in zip(compared_systems, comparisons, strict=True):
        n_needed = statistics.estimate_queries_needed(values[:, system] - values[:, baseline_index], difference)
        bounds = []
        # For each bound, unjudged documents are relevant exactly where they favour one of the two systems.
        for favoured, unfavoured in ((baseline_index, system), (system, baseline_index)):
            completed = _with_unjudged(qrels, judged_queries.ids, returned_ids[favoured], returned_ids[unfavoured])
            gains = score(rankings[system], completed) - score(rankings[baseline_index], completed)
            bounds.append(float(np.nanmean(gains)))
        worst, best = bounds
        differences.append(JudgedDifference(comparison=comparison, n_needed=n_needed, worst_case=worst, best_case=best))
    return Standing(
        metric=metric, k=k, difference=difference, n_queries=len(values),
        n_without_relevant=len(all_values) - len(values), systems=tuple(systems), differences=tuple(differences),
        decision=_decide(runs, baseline_index, (space, judged_queries, qrels), k, metric),
    )  # fmt: skip


def _check_names(system_names: Sequence[str], baseline: str | None, metric: str) -> None:
    """Raise a ParamError unless the metric needs judgements and the baseline is one of the systems."""
    judged_metrics = [name for name, judged_metric in METRICS.items() if judged_metric.needs == "qrels"]
    if metric not in judged_metrics:
        raise ParamError(f"metric must be one that needs judgements: {', '.join(judged_metrics)}; got {metric!r}")
    if not system_names or (baseline is not None and baseline not in system_names):
        raise ParamError(f"baseline must be one of the runs ({', '.join(system_names) or 'none'}); got {baseline!r}")


def _decide(
    runs: Sequence[RankedRun], baseline_index: int, data: tuple[Space, Embeddings, Qrels], k: int, metric: str
) -> Decision | None:
    """Decide which system is more diverse and surely keeps the baseline's metric; None if impossible.

    It is impossible with too few queries, without another system, or if the baseline's metric is 0.

    data: the space, the judged queries and their judgements
    """
    cells = [run.build_cell(*data, k, (metric, "ilad")) for run in runs]
    try:
        return decide(cells, baseline=cells[baseline_index], metric=metric, k=k) if len(cells) > 1 else None
    except DataError:
        return None


#: Ids that a system returned for each query, best first.
RankedLists = Sequence[Sequence[str]]


def _list_ids(space: Space, ranking: Ranking) -> RankedLists:
    """Return the ids of the ranked documents of each query; the −1 that pad short lists are left out."""
    doc_ids = space.corpus.ids
    return [[doc_ids[row] for row in ranking.rows(query_index)] for query_index in range(len(ranking))]


def _judged_share(returned_ids: RankedLists, queries: Sequence[str], qrels: Qrels) -> float:
    """Return the share of returned documents that are judged; 1 if none was returned."""
    is_judged: list[bool] = []
    for query_id, doc_ids in zip(queries, returned_ids, strict=True):
        is_judged += [doc_id in qrels.grades[query_id] for doc_id in doc_ids]
    return sum(is_judged) / len(is_judged) if is_judged else 1.0


def _with_unjudged(qrels: Qrels, queries: Sequence[str], favoured: RankedLists, compared: RankedLists) -> Qrels:
    """Complete judgements as if all unjudged documents that favour one of two systems were relevant.

    It bounds what further judging could change. A document favours a system that ranks it higher than the other does,
    or that alone returns it; it gets the best grade so far, at least the one from which documents are relevant.
    queries: ids; favoured, compared: the ranked ids of the favoured system and of the other, by query. The resulting
    difference need not be the largest possible: in Recall a document that both return only dilutes it.
    """
    best_grade = qrels.relevant_from
    for doc_grades in qrels.grades.values():
        best_grade = max((best_grade, *doc_grades.values()))
    grades = {}
    for query_id, favoured_ids, compared_ids in zip(queries, favoured, compared, strict=True):
        compared_rank = dict(zip(compared_ids, range(len(compared_ids)), strict=True))
        completed: dict[str, int] = {}
        for rank, doc_id in enumerate(favoured_ids):
            # A document that only the favoured system returned counts as ranked behind all by the other.
            if rank < compared_rank.get(doc_id, len(favoured_ids)):
                completed[doc_id] = best_grade
        # A grade that a person gave replaces the assumed one.
        completed |= qrels.grades[query_id]
        grades[query_id] = {doc_id: grade for doc_id, grade in completed.items() if grade > 0}
    return replace(qrels, grades=grades)
