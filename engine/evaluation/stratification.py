"""The same comparison by kind of query: how many documents are relevant, how long they and it are, its aspects.

NNN paper, Fig. 4: what a method is worth may depend on how many documents a query needs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import DataError
from engine.evaluation.frontier import BAND_RESAMPLES
from engine.evaluation.paired import shared
from engine.evaluation.statistics import RESAMPLES, SEED, intervals, meant
from engine.params import Whole
from engine.values import Corpus, Qrels, Queries

GROUPS = Whole(5, "groups", 1, 100, name="groups", help="How many groups at most.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """One cell in one group of queries."""

    group: str  # as charts write it, "3" or "5–7"
    least: int  # of the group's numbers
    most: int
    queries: int  # number in the group
    name: str  # of the cell
    label: str
    mean: float  # of its metric, or of its difference to the baseline
    low: float | None  # ends of the mean's 95% interval, None for one query
    high: float | None


def relevant_lengths(corpus: Corpus, qrels: Qrels) -> dict[str, int]:
    """query → mean length of its relevant documents in words, as spaces part them, rounded; without those that have
    none in the corpus (Luan et al. 2021, Fig. 1 and 4: what passages' length costs)."""
    lengths = {}
    for query in qrels.grades:
        rows = [corpus.position[doc] for doc in qrels.relevant(query) if doc in corpus.position]
        if rows:
            lengths[query] = round(sum(len(corpus.passages[row].split()) for row in rows) / len(rows))
    return lengths


KINDS = {
    "relevant": "relevant documents",
    "length": "words in a relevant document",
    "words": "words in the query",
    "aspects": "aspects",
}
"""What queries are grouped by → what is counted, as charts write it."""


def kinds(
    corpus: Corpus, queries: Queries, qrels: Qrels, aspects: Mapping[str, Mapping[str, frozenset[str]]] | None = None
) -> dict[str, dict[str, int]]:
    """Of KINDS those that some of these queries have a number for, each with query → number, which is 0 for words only.

    Words are what spaces part.
    """
    numbers = {
        "relevant": {query: count for query in qrels.grades if (count := len(qrels.relevant(query)))},
        "length": relevant_lengths(corpus, qrels),
        "words": {query: len(text.split()) for query, text in zip(queries.ids, queries.texts, strict=True)},
        "aspects": {query: len(of_query) for query, of_query in (aspects or {}).items() if of_query},
    }
    return {kind: counts for kind, counts in numbers.items() if not counts.keys().isdisjoint(queries.ids)}


def stratify(
    points: Iterable[Any],
    metric: str,
    counts: Mapping[str, int],
    k: int = 10,
    *,
    groups: int = GROUPS.default,
    against: Any = None,
    resamples: int = BAND_RESAMPLES,
    seed: int = 0,
) -> tuple[Stratum, ...]:
    """A metric's mean and interval for every point in every group of queries with like counts.

    points: of a sweep, those of other k are passed over; counts: query → number, as `kinds` has them;
    groups: how many at most (`grouped`); against: a baseline as `compare` takes it, for differences to it, query by
    query, in place of the values. Over the queries for which every point has the metric and counts a number.
    A group's draws are shared by its points. Rows group by group, in the points' order. Raises ParamError or DataError.
    """
    groups, resamples, seed = GROUPS.check(groups), RESAMPLES.check(resamples), SEED.check(seed)
    common = shared(points, (metric,), k)
    values = common.values[metric]
    if against is not None:
        labels = [p.label for p in common.points]
        base = meant(common.points, against, common.points[0].k).label
        values = values - values[:, [labels.index(base)]]
    numbers = np.array([counts.get(query, -1) for query in common.queries])
    if not (numbers >= 0).any():
        raise DataError(f"counts has none of the {len(common.queries):,} queries that the points have {metric} for")
    rows = []
    for least, most in grouped(numbers[numbers >= 0], groups):
        part = values[(numbers >= least) & (numbers <= most)]
        columns = zip(common.names, common.points, part.T, intervals(part, resamples, seed), strict=True)
        rows += [
            Stratum(
                group=f"{least}" if least == most else f"{least}–{most}",
                least=least,
                most=most,
                queries=len(part),
                name=name,
                label=point.label,
                mean=float(column.mean()),
                low=low,
                high=high,
            )
            for name, point, column, (low, high) in columns
        ]
    return tuple(rows)


def grouped(numbers: np.ndarray, most: int) -> list[tuple[int, int]]:
    """Ranges of whole numbers, least and most of each, that part (n,) numbers into at most so many groups.

    Every number is a group until there are too many; then the smallest group joins the smaller of its neighbours, the
    lower where they are alike.
    """
    values, sizes = np.unique(numbers, return_counts=True)
    ranges = [(v, v, size) for v, size in zip(values.tolist(), sizes.tolist(), strict=True)]
    while len(ranges) > most:
        smallest = min(range(len(ranges)), key=lambda i: ranges[i][2])
        last = smallest + 1 == len(ranges)
        below = smallest > 0 and (last or ranges[smallest - 1][2] <= ranges[smallest + 1][2])
        first = smallest - 1 if below else smallest
        (least, _, a), (_, top, b) = ranges[first : first + 2]
        ranges[first : first + 2] = [(least, top, a + b)]
    return [(least, top) for least, top, _ in ranges]
