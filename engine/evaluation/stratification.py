"""Stratification: a comparison by groups of queries with similar counts, lengths, aspects or metadata.

NNN paper, Fig. 4: the worth of a method may depend on how many documents a query needs.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch

from engine.display import OneLine
from engine.errors import DataError
from engine.evaluation.frontier import BAND_RESAMPLES
from engine.evaluation.paired import align_on_common_queries
from engine.evaluation.statistics import RESAMPLES, SEED, bootstrap_intervals, resolve_baseline
from engine.params import Whole
from engine.progress import counted
from engine.space import Space
from engine.values import Corpus, Qrels, Queries

MAX_GROUPS = Whole(5, "groups", 1, 100, name="groups", help="How many groups at most.")

WHOLE_NUMBER_PATTERN = re.compile(r"-?[0-9]{1,18}")
OTHER_GROUP = "other"
"""The name of the group of all remaining texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum(OneLine):
    """Mean of a metric for one cell (a decoder at one k) over one group of similar queries."""

    group: str  # as charts write it, "3", "5–7" or "sales"
    lowest: int | None  # of the group's numbers, None for words
    highest: int | None
    queries: int  # number in the group
    name: str  # of the cell
    label: str
    mean: float  # of its metric, or of its difference to the baseline
    low: float | None  # ends of the mean's 95% interval, None for one query
    high: float | None


def _find_relevant_rows(corpus: Corpus, qrels: Qrels, query_id: str) -> list[int]:
    """Return the corpus rows of a query's relevant documents, those outside the corpus left out."""
    return [corpus.position[doc_id] for doc_id in qrels.relevant(query_id) if doc_id in corpus.position]


def count_relevant_lengths(corpus: Corpus, qrels: Qrels) -> dict[str, int]:
    """Return query → mean length of its relevant documents in words separated by spaces, rounded.

    Queries without a relevant document in the corpus are left out. Luan et al. 2021, Fig. 1 and 4.
    """
    mean_lengths = {}
    for query_id in qrels.grades:
        if rows := _find_relevant_rows(corpus, qrels, query_id):
            mean_lengths[query_id] = round(sum(len(corpus.passages[row].split()) for row in rows) / len(rows))
    return mean_lengths


def measure_relevant_correlations(space: Space, qrels: Qrels) -> dict[str, int]:
    """Return query → its largest cosine of a relevant to an irrelevant document, in hundredths.

    Queries that lack either kind in the corpus are left out. Where a relevant and an irrelevant document point almost
    the same way, ranking by inner products cannot tell them apart, so there another decoder should gain most (NNN
    paper, §2.3).
    """
    n_documents, max_cosines = len(space), {}
    vector_lengths = space.matrix.lengths.double().clamp_min(torch.finfo(torch.float64).tiny)
    for query_id in qrels.grades:
        rows = _find_relevant_rows(space.corpus, qrels, query_id)
        if 0 < len(rows) < n_documents:
            unit_vectors = space.vectors[rows].double() / vector_lengths[rows].unsqueeze(1)
            cosines = (space.vectors @ unit_vectors.to(space.vectors.dtype).T).double() / vector_lengths.unsqueeze(1)
            # Relevant documents must not count as their own nearest irrelevant one.
            cosines[rows] = -math.inf
            max_cosines[query_id] = round(100 * float(cosines.max()))
    return max_cosines


QUERY_COUNT_TITLES = {
    "relevant": "relevant documents",
    "length": "words in a relevant document",
    "words": "words in the query",
    "aspects": "aspects",
    "correlation": "cosine to an irrelevant document × 100",
}
"""Kind of count → its title, as charts write it."""


def count_by_query(
    corpus: Corpus,
    queries: Queries,
    qrels: Qrels,
    aspects: Mapping[str, Mapping[str, frozenset[str]]] | None = None,
    space: Space | None = None,
) -> dict[str, dict[str, int]]:
    """Count what queries can be grouped by: kind → query → count; kinds that no query has are left out.

    Kinds: a query's relevant documents, their mean length, its words, its aspects, and the largest cosine of a relevant
    to an irrelevant document in hundredths, which needs `space`. Words are separated by spaces; only their count may
    be 0.
    """
    n_words = [len(text.split()) for text in queries.texts]
    by_kind = {
        "relevant": _count_present(dict(zip(qrels.grades, map(qrels.relevant, qrels.grades), strict=True))),
        "length": count_relevant_lengths(corpus, qrels),
        "words": dict(zip(queries.ids, n_words, strict=True)),
        "aspects": _count_present(aspects or {}),
        "correlation": measure_relevant_correlations(space, qrels) if space is not None else {},
    }
    return {kind: counts for kind, counts in by_kind.items() if not counts.keys().isdisjoint(queries.ids)}


def _count_present(items_by_query: Mapping[str, Collection[str]]) -> dict[str, int]:
    """Return query → number of its items, without the queries that have none."""
    return {query_id: len(items) for query_id, items in items_by_query.items() if items}


def collect_query_values(corpus: Corpus, queries: Queries, qrels: Qrels) -> dict[str, dict[str, str]]:
    """Return metadata column → query → value, so that queries can be grouped by a column.

    A query without a value of its own gets the most frequent one among its relevant documents; of equally frequent
    ones the first in the corpus.
    """
    values_by_column: dict[str, dict[str, str]] = {}
    for column in (*queries.metadata, *corpus.metadata):
        query_values = values_by_column.setdefault(column, {})
        # Without the column zip ends at once, and no query has a value of its own.
        own_values = dict(zip(queries.ids, queries.metadata.get(column, ()), strict=False))
        document_values = corpus.metadata.get(column)
        for query_id in queries.ids:
            query_value = own_values.get(query_id, "").strip()
            if document_values and not query_value:
                # In the order of the corpus, as Counter puts the first of equally frequent values first.
                rows = sorted(_find_relevant_rows(corpus, qrels, query_id))
                value_counts = Counter(filter(None, map(str.strip, map(document_values.__getitem__, rows))))
                if value_counts:
                    ((query_value, _count),) = value_counts.most_common(1)
            if query_value:
                query_values[query_id] = query_value
    return {column: query_values for column, query_values in values_by_column.items() if query_values}


def stratify(
    points: Iterable[Any],
    metric: str,
    counts: Mapping[str, int] | Mapping[str, str],
    k: int = 10,
    *,
    groups: int = MAX_GROUPS.default,
    against: Any = None,
    resamples: int = BAND_RESAMPLES,
    seed: int = 0,
) -> tuple[Stratum, ...]:
    """Compute a metric's mean and interval for every cell in every group of queries with similar counts.

    The queries are those for which every cell has the metric and `counts` a value. A group's draws are shared by its
    cells.

    Parameters
    ----------
    points : iterable of Cell
        Cells of a sweep; those of another k are ignored.
    metric : str
        The name of a metric.
    counts : mapping of str to int or mapping of str to str
        Query → number, which is grouped into ranges, or query → text, a group for each of the most frequent.
    k : int
        The size of the retrieved sets.
    groups : int
        The maximal number of groups.
    against : Cell or str or None
        A baseline, as `compare` takes it, for differences to it in place of the values.
    resamples : int
        The number of draws of the intervals.
    seed : int
        The seed of the draws.

    Returns
    -------
    tuple of Stratum
        Group by group, in the order of the cells.

    Raises
    ------
    ParamError
        If an argument is invalid or the metric was not measured.
    DataError
        If the cells have no query in common that `counts` has.

    Examples
    --------
    >>> import engine, torch
    >>> corpus = engine.Corpus(("a", "b"), ("red", "blue"))
    >>> space = engine.Space(corpus, engine.Embeddings(("a", "b"), torch.eye(2)))
    >>> queries, qrels = engine.Embeddings(("q", "r"), torch.eye(2)), engine.Qrels({"q": {"a": 1}, "r": {"a": 1}})
    >>> decoders = engine.grid(list(engine.methods("selector"))[0])
    >>> cells = list(engine.sweep(decoders, space, queries, qrels, k=1, metrics="recall"))
    >>> [(stratum.group, stratum.mean) for stratum in engine.stratify(cells, "recall", {"q": 1, "r": 2}, k=1)]
    [('1', 1.0), ('2', 0.0)]
    """
    groups, resamples, seed = MAX_GROUPS.check(groups), RESAMPLES.check(resamples), SEED.check(seed)
    aligned = align_on_common_queries(points, (metric,), k)
    metric_values = aligned.values[metric]
    if against is not None:
        baseline_cell = resolve_baseline(aligned.cells, against, aligned.cells[0].k)
        metric_values = metric_values - aligned.column(metric, baseline_cell.label)[:, None]
    if counts.keys().isdisjoint(aligned.queries):
        raise DataError(
            f"counts has none of the {counted(len(aligned.queries), 'query', 'queries')} that the points have "
            f"{metric} for"
        )
    strata = []
    for group, lowest, highest, members in _group_queries(list(map(counts.get, aligned.queries)), groups):
        part = metric_values[members]
        columns = zip(aligned.names, aligned.cells, part.T, bootstrap_intervals(part, resamples, seed), strict=True)
        for name, cell, column, (low, high) in columns:
            strata.append(Stratum(
                group=group, lowest=lowest, highest=highest, queries=len(part), name=name, label=cell.label,
                mean=float(column.mean()), low=low, high=high,
            ))  # fmt: skip
    return tuple(strata)


#: Name, smallest and largest number (None for words), and positions of the queries.
_QueryGroup = tuple[str, int | None, int | None, list[int]]


def _group_queries(values: Sequence[int | str | None], max_groups: int) -> list[_QueryGroup]:
    """Group queries by equal text, or by ranges of numbers, into at most `max_groups`; None is left out.

    values: of each query. The most frequent texts get groups, and the remaining ones share one. A group is a name, the
    smallest and the largest number, None for texts, and the positions of its queries.
    """
    indices: dict[int | str, list[int]] = {}
    for query_index, value in enumerate(values):
        if value is not None:
            indices.setdefault(value, []).append(query_index)
    texts = [value for value in indices if isinstance(value, str)]
    # Texts that are all whole numbers, such as years, are grouped by range if they are many.
    if len(texts) > max_groups and all(map(WHOLE_NUMBER_PATTERN.fullmatch, texts)):
        return _group_queries([None if value is None else int(value) for value in values], max_groups)
    groups: list[_QueryGroup] = []
    if texts:
        # The most frequent texts get groups of their own; ties are broken alphabetically.
        texts.sort(key=lambda text: (-len(indices[text]), text))
        n_named = len(texts) if len(texts) <= max_groups else max_groups - 1
        groups += [(text, None, None, indices[text]) for text in texts[:n_named]]
        if remaining := sorted(chain.from_iterable(map(indices.__getitem__, texts[n_named:]))):
            groups.append((OTHER_GROUP, None, None, remaining))
        return groups
    # Each number once per query that has it, so that the ranges are of similar size.
    numbers = np.repeat(list(map(int, indices)), list(map(len, indices.values())))
    for lowest, highest in merge_into_ranges(numbers, max_groups):
        members = sorted(chain.from_iterable(indices[number] for number in indices if lowest <= int(number) <= highest))
        groups.append((f"{lowest}" if lowest == highest else f"{lowest}–{highest}", lowest, highest, members))
    return groups


def merge_into_ranges(numbers: np.ndarray, max_groups: int) -> list[tuple[int, int]]:
    """Merge (n,) whole numbers into at most `max_groups` ranges; return each one's ends.

    Each number starts as a range of its own. While there are too many, the range with the fewest numbers joins its
    smaller neighbour, on ties the lower.
    """
    distinct, group_sizes = np.unique(numbers, return_counts=True)
    ranges = list(zip(distinct.tolist(), distinct.tolist(), group_sizes.tolist(), strict=True))
    while len(ranges) > max_groups:
        # Ties go to the lowest range, so that the result does not depend on the input's order.
        smallest_index = min(range(len(ranges)), key=lambda index: ranges[index][2])
        is_last = smallest_index + 1 == len(ranges)
        joins_below = smallest_index > 0 and (is_last or ranges[smallest_index - 1][2] <= ranges[smallest_index + 1][2])
        pair_start = smallest_index - 1 if joins_below else smallest_index
        (lowest, _, lower_size), (_, highest, upper_size) = ranges[pair_start : pair_start + 2]
        ranges[pair_start : pair_start + 2] = [(lowest, highest, lower_size + upper_size)]
    return [(lowest, highest) for lowest, highest, _ in ranges]
