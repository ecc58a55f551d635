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
from engine.evaluation.paired import align_on_common_queries
from engine.evaluation.statistics import RESAMPLES, SEED, bootstrap_intervals, resolve_baseline
from engine.params import Whole
from engine.space import Space
from engine.values import Corpus, Qrels, Queries

MAX_GROUPS = Whole(5, "groups", 1, 100, name="groups", help="How many groups at most.")

WHOLE_NUMBER_PATTERN = re.compile(r"-?[0-9]{1,18}")
OTHER_GROUP = "other"
"""The name of what is left of many texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """One cell in one group of queries."""

    group: str  # as charts write it, "3", "5–7" or "sales"
    min_number: int | None  # of the group's numbers, None for words
    max_number: int | None
    queries: int  # number in the group
    name: str  # of the cell
    label: str
    mean: float  # of its metric, or of its difference to the baseline
    low: float | None  # ends of the mean's 95% interval, None for one query
    high: float | None


def count_relevant_lengths(corpus: Corpus, qrels: Qrels) -> dict[str, int]:
    """query → mean length of its relevant documents in words, as spaces part them, rounded; without those that have
    none in the corpus (Luan et al. 2021, Fig. 1 and 4: what passages' length costs)."""
    mean_lengths = {}
    for query_id in qrels.grades:
        document_rows = [
            corpus.position[document_id] for document_id in qrels.relevant(query_id) if document_id in corpus.position
        ]
        if document_rows:
            mean_lengths[query_id] = round(
                sum(len(corpus.passages[document_row].split()) for document_row in document_rows) / len(document_rows)
            )
    return mean_lengths


def measure_relevant_correlations(space: Space, qrels: Qrels) -> dict[str, int]:
    """query → the largest cosine of a relevant document to one that is not, in hundredths, rounded; without queries
    that have none of either in the corpus.

    NNN paper, §2.3: inner products cannot separate documents that are strongly correlated, so there its decoder's
    gap should be the largest.
    """
    n_documents, max_cosines = len(space), {}
    vector_lengths = space.matrix.lengths.double().clamp_min(torch.finfo(torch.float64).tiny)
    for query_id in qrels.grades:
        relevant_rows = [
            space.corpus.position[document_id]
            for document_id in qrels.relevant(query_id)
            if document_id in space.corpus.position
        ]
        if 0 < len(relevant_rows) < n_documents:
            relevant_vectors = (space.vectors[relevant_rows].double() / vector_lengths[relevant_rows].unsqueeze(1)).to(
                space.vectors.dtype
            )
            cosines = (space.vectors @ relevant_vectors.T).double() / vector_lengths.unsqueeze(1)
            cosines[relevant_rows] = -math.inf
            max_cosines[query_id] = round(100 * float(cosines.max()))
    return max_cosines


QUERY_COUNT_TITLES = {
    "relevant": "relevant documents",
    "length": "words in a relevant document",
    "words": "words in the query",
    "aspects": "aspects",
    "correlation": "cosine to an irrelevant document × 100",
}
"""What queries are grouped by → what is counted, as charts write it."""


def count_by_query(
    corpus: Corpus,
    queries: Queries,
    qrels: Qrels,
    aspects: Mapping[str, Mapping[str, frozenset[str]]] | None = None,
    space: Space | None = None,
) -> dict[str, dict[str, int]]:
    """Of KINDS those that some of these queries have a number for, each with query → number, which is 0 for words only.

    Words are what spaces part. space: whose vectors the correlation is of, which is left out without.
    """
    counts_by_kind = {
        "relevant": {
            query_id: n_relevant for query_id in qrels.grades if (n_relevant := len(qrels.relevant(query_id)))
        },
        "length": count_relevant_lengths(corpus, qrels),
        "words": {
            query_id: len(query_text.split()) for query_id, query_text in zip(queries.ids, queries.texts, strict=True)
        },
        "aspects": {
            query_id: len(query_aspects) for query_id, query_aspects in (aspects or {}).items() if query_aspects
        },
        "correlation": measure_relevant_correlations(space, qrels) if space is not None else {},
    }
    return {
        kind: query_counts
        for kind, query_counts in counts_by_kind.items()
        if not query_counts.keys().isdisjoint(queries.ids)
    }


def collect_query_values(corpus: Corpus, queries: Queries, qrels: Qrels) -> dict[str, dict[str, str]]:
    """Columns kept beside queries or documents, each with query → its value, for the queries that have one.

    A query's own value, else the one that most of its relevant documents have, of several the first in the corpus.
    """
    values_by_column: dict[str, dict[str, str]] = {}
    for column in (*queries.metadata, *corpus.metadata):
        query_values = values_by_column.setdefault(column, {})
        own_values = dict(zip(queries.ids, queries.metadata.get(column, ()), strict=False))
        document_values = corpus.metadata.get(column)
        for query_id in queries.ids:
            relevant_rows = sorted(
                corpus.position[document_id]
                for document_id in qrels.relevant(query_id)
                if document_id in corpus.position
            )
            value_counts = (
                Counter(filter(None, (document_values[document_row].strip() for document_row in relevant_rows)))
                if document_values
                else Counter[str]()
            )
            if query_value := own_values.get(query_id, "").strip() or next(
                (common_value for common_value, _ in value_counts.most_common(1)), ""
            ):
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
    """A metric's mean and interval for every point in every group of queries with like counts.

    points: of a sweep, those of other k are passed over; counts: query → number, as `kinds` has them, or → text, as
    `values_by_query` has it; groups: how many at most (`grouped`, of texts the largest); against: a baseline as
    `compare` takes it, for differences to it, query by query, in place of the values. Over the queries for which every
    point has the metric and counts a value. A group's draws are shared by its points. Rows group by group, in the
    points' order. Raises ParamError or DataError.
    """
    groups, resamples, seed = MAX_GROUPS.check(groups), RESAMPLES.check(resamples), SEED.check(seed)
    aligned = align_on_common_queries(points, (metric,), k)
    metric_values = aligned.values[metric]
    if against is not None:
        cell_labels = [cell.label for cell in aligned.cells]
        baseline_label = resolve_baseline(aligned.cells, against, aligned.cells[0].k).label
        metric_values = metric_values - metric_values[:, [cell_labels.index(baseline_label)]]
    if counts.keys().isdisjoint(aligned.queries):
        raise DataError(f"counts has none of the {len(aligned.queries):,} queries that the points have {metric} for")
    strata = []
    for group, min_number, max_number, member_indices in _group_queries(
        [counts.get(query_id) for query_id in aligned.queries], groups
    ):
        group_values = metric_values[member_indices]
        columns = zip(
            aligned.names,
            aligned.cells,
            group_values.T,
            bootstrap_intervals(group_values, resamples, seed),
            strict=True,
        )
        strata += [
            Stratum(
                group=group,
                min_number=min_number,
                max_number=max_number,
                queries=len(group_values),
                name=name,
                label=cell.label,
                mean=float(cell_values.mean()),
                low=low,
                high=high,
            )
            for name, cell, cell_values, (low, high) in columns
        ]
    return tuple(strata)


def _group_queries(
    values: Sequence[int | str | None], max_groups: int
) -> list[tuple[str, int | None, int | None, list[int]]]:
    """Each group's name, its least and its largest number, and which of the values are in it; None is in none."""
    indices_by_value: dict[int | str, list[int]] = {}
    for query_index, value in enumerate(values):
        if value is not None:
            indices_by_value.setdefault(value, []).append(query_index)
    distinct_texts = [value for value in indices_by_value if isinstance(value, str)]
    if len(distinct_texts) > max_groups and all(map(WHOLE_NUMBER_PATTERN.fullmatch, distinct_texts)):
        return _group_queries([None if value is None else int(value) for value in values], max_groups)
    query_groups: list[tuple[str, int | None, int | None, list[int]]] = []
    if distinct_texts:
        distinct_texts.sort(key=lambda text: (-len(indices_by_value[text]), text))
        named_texts = distinct_texts if len(distinct_texts) <= max_groups else distinct_texts[: max_groups - 1]
        query_groups += [(text, None, None, indices_by_value[text]) for text in named_texts]
        if remaining_indices := sorted(
            query_index for text in distinct_texts[len(named_texts) :] for query_index in indices_by_value[text]
        ):
            query_groups.append((OTHER_GROUP, None, None, remaining_indices))
        return query_groups
    numbers = [int(value) for value in values if value is not None]
    for min_number, max_number in merge_into_ranges(np.array(numbers), max_groups):
        member_indices = sorted(
            query_index
            for number in indices_by_value
            if min_number <= int(number) <= max_number
            for query_index in indices_by_value[number]
        )
        query_groups.append(
            (
                f"{min_number}" if min_number == max_number else f"{min_number}–{max_number}",
                min_number,
                max_number,
                member_indices,
            )
        )
    return query_groups


def merge_into_ranges(numbers: np.ndarray, max_groups: int) -> list[tuple[int, int]]:
    """Ranges of whole numbers, least and most of each, that part (n,) numbers into at most so many groups.

    Every number is a group until there are too many; then the smallest group joins the smaller of its neighbours, the
    lower where they are alike.
    """
    distinct_numbers, group_sizes = np.unique(numbers, return_counts=True)
    number_ranges = [
        (number, number, group_size)
        for number, group_size in zip(distinct_numbers.tolist(), group_sizes.tolist(), strict=True)
    ]
    while len(number_ranges) > max_groups:
        smallest_index = min(range(len(number_ranges)), key=lambda range_index: number_ranges[range_index][2])
        is_last = smallest_index + 1 == len(number_ranges)
        joins_below = smallest_index > 0 and (
            is_last or number_ranges[smallest_index - 1][2] <= number_ranges[smallest_index + 1][2]
        )
        pair_start = smallest_index - 1 if joins_below else smallest_index
        (min_number, _, lower_size), (_, max_number, upper_size) = number_ranges[pair_start : pair_start + 2]
        number_ranges[pair_start : pair_start + 2] = [(min_number, max_number, lower_size + upper_size)]
    return [(min_number, max_number) for min_number, max_number, _ in number_ranges]
