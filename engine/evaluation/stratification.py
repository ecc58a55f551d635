"""The same comparison by kind of query: what is relevant to it, how like others that is, lengths, aspects, a column.

NNN paper, Fig. 4: what a method is worth may depend on how many documents a query needs.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from engine.errors import DataError
from engine.evaluation.frontier import BAND_RESAMPLES
from engine.evaluation.paired import shared
from engine.evaluation.statistics import RESAMPLES, SEED, intervals, meant
from engine.params import Whole
from engine.space import Space
from engine.values import Corpus, Qrels, Queries

GROUPS = Whole(5, "groups", 1, 100, name="groups", help="How many groups at most.")

WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")
OTHERS = "other"
"""The name of what is left of many texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """One cell in one group of queries."""

    group: str  # as charts write it, "3", "5–7" or "sales"
    least: int | None  # of the group's numbers, None for words
    most: int | None
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


def relevant_correlations(space: Space, qrels: Qrels) -> dict[str, int]:
    """query → the largest cosine of a relevant document to one that is not, in hundredths, rounded; without queries
    that have none of either in the corpus.

    NNN paper, §2.3: inner products cannot separate documents that are strongly correlated, so there its decoder's
    gap should be the largest.
    """
    n, largest = len(space), {}
    length = space.matrix.lengths.double().clamp_min(torch.finfo(torch.float64).tiny)
    for query in qrels.grades:
        rows = [space.corpus.position[doc] for doc in qrels.relevant(query) if doc in space.corpus.position]
        if 0 < len(rows) < n:
            own = (space.vectors[rows].double() / length[rows].unsqueeze(1)).to(space.vectors.dtype)
            cosines = (space.vectors @ own.T).double() / length.unsqueeze(1)
            cosines[rows] = -math.inf
            largest[query] = round(100 * float(cosines.max()))
    return largest


KINDS = {
    "relevant": "relevant documents",
    "length": "words in a relevant document",
    "words": "words in the query",
    "aspects": "aspects",
    "correlation": "cosine to an irrelevant document × 100",
}
"""What queries are grouped by → what is counted, as charts write it."""


def kinds(
    corpus: Corpus,
    queries: Queries,
    qrels: Qrels,
    aspects: Mapping[str, Mapping[str, frozenset[str]]] | None = None,
    space: Space | None = None,
) -> dict[str, dict[str, int]]:
    """Of KINDS those that some of these queries have a number for, each with query → number, which is 0 for words only.

    Words are what spaces part. space: whose vectors the correlation is of, which is left out without.
    """
    numbers = {
        "relevant": {query: count for query in qrels.grades if (count := len(qrels.relevant(query)))},
        "length": relevant_lengths(corpus, qrels),
        "words": {query: len(text.split()) for query, text in zip(queries.ids, queries.texts, strict=True)},
        "aspects": {query: len(of_query) for query, of_query in (aspects or {}).items() if of_query},
        "correlation": relevant_correlations(space, qrels) if space is not None else {},
    }
    return {kind: counts for kind, counts in numbers.items() if not counts.keys().isdisjoint(queries.ids)}


def values_by_query(corpus: Corpus, queries: Queries, qrels: Qrels) -> dict[str, dict[str, str]]:
    """Columns kept beside queries or documents, each with query → its value, for the queries that have one.

    A query's own value, else the one that most of its relevant documents have, of several the first in the corpus.
    """
    found: dict[str, dict[str, str]] = {}
    for column in (*queries.metadata, *corpus.metadata):
        values = found.setdefault(column, {})
        own = dict(zip(queries.ids, queries.metadata.get(column, ()), strict=False))
        of_rows = corpus.metadata.get(column)
        for query in queries.ids:
            rows = sorted(corpus.position[doc] for doc in qrels.relevant(query) if doc in corpus.position)
            theirs = Counter(filter(None, (of_rows[row].strip() for row in rows))) if of_rows else Counter[str]()
            if value := own.get(query, "").strip() or next((text for text, _ in theirs.most_common(1)), ""):
                values[query] = value
    return {column: values for column, values in found.items() if values}


def stratify(
    points: Iterable[Any],
    metric: str,
    counts: Mapping[str, int] | Mapping[str, str],
    k: int = 10,
    *,
    groups: int = GROUPS.default,
    against: Any = None,
    resamples: int = BAND_RESAMPLES,
    seed: int = 0,
) -> tuple[Stratum, ...]:
    """A metric's mean and interval for every point in every group of queries with like counts.

    points: of a sweep, those of other k are passed over; counts: query → number, as `kinds` has them, or → text, as
    `values_by_query` has it; groups: how many at most (`grouped`, of texts the largest); against: a baseline as
    `compare` takes it, for differences to it, query by query, in place of the values. Over the queries for which every
    point has the metric and counts a value. A group's draws are shared by its points. Rows group by group, in the
    points' order. Raises ParamError or DataError.
    """
    groups, resamples, seed = GROUPS.check(groups), RESAMPLES.check(resamples), SEED.check(seed)
    common = shared(points, (metric,), k)
    values = common.values[metric]
    if against is not None:
        labels = [p.label for p in common.points]
        base = meant(common.points, against, common.points[0].k).label
        values = values - values[:, [labels.index(base)]]
    if counts.keys().isdisjoint(common.queries):
        raise DataError(f"counts has none of the {len(common.queries):,} queries that the points have {metric} for")
    rows = []
    for group, least, most, members in _groups([counts.get(query) for query in common.queries], groups):
        part = values[members]
        columns = zip(common.names, common.points, part.T, intervals(part, resamples, seed), strict=True)
        rows += [
            Stratum(
                group=group,
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


def _groups(values: Sequence[int | str | None], most: int) -> list[tuple[str, int | None, int | None, list[int]]]:
    """Each group's name, its least and its largest number, and which of the values are in it; None is in none."""
    places: dict[int | str, list[int]] = {}
    for place, value in enumerate(values):
        if value is not None:
            places.setdefault(value, []).append(place)
    texts = [value for value in places if isinstance(value, str)]
    if len(texts) > most and all(map(WHOLE_NUMBER.fullmatch, texts)):
        return _groups([None if value is None else int(value) for value in values], most)
    groups: list[tuple[str, int | None, int | None, list[int]]] = []
    if texts:
        texts.sort(key=lambda text: (-len(places[text]), text))
        named = texts if len(texts) <= most else texts[: most - 1]
        groups += [(text, None, None, places[text]) for text in named]
        if rest := sorted(place for text in texts[len(named) :] for place in places[text]):
            groups.append((OTHERS, None, None, rest))
        return groups
    numbers = [int(value) for value in values if value is not None]
    for low, high in grouped(np.array(numbers), most):
        members = sorted(place for number in places if low <= int(number) <= high for place in places[number])
        groups.append((f"{low}" if low == high else f"{low}–{high}", low, high, members))
    return groups


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
