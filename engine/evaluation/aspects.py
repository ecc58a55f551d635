"""Judgements and aspects of a list of queries, as arrays made once.

α-nDCG: Clarke et al., Novelty and Diversity in Information Retrieval Evaluation, SIGIR 2008, §5. S-recall: Zhai,
Cohen & Lafferty, Beyond Independent Relevance, SIGIR 2003, §3.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from engine.errors import DataError
from engine.space import Space
from engine.values import Qrels, digest_of

CachedT = TypeVar("CachedT")
Aspects = Mapping[str, Mapping[str, frozenset[str]]]
"""query → aspect → the documents that cover it, as a Dataset has them."""

_ASPECTS_SHAPE = "query → aspect → set of document ids, as data.aspects is"

#: What of an aspect's worth α-nDCG takes off every time it is covered again.
ALPHA_NDCG = 0.5
MAX_CACHED_ARRAYS = 16
_array_cache: OrderedDict[Hashable, Any] = OrderedDict()
_array_cache_lock = Lock()


@dataclass(frozen=True, eq=False, kw_only=True)
class Judgements:
    """The relevant documents of B queries over a corpus of n."""

    n_documents: int  # n
    keys: np.ndarray  # (m,) int64 query·n + row, rising, of those in the corpus
    grades: np.ndarray  # (m,) their grades
    n_relevant: np.ndarray  # (B,) number of a query, in the corpus or not
    sorted_query: np.ndarray  # of each, in the corpus or not, its query
    sorted_rank: np.ndarray  # its place by falling grade
    sorted_grades: np.ndarray  # its grade, falling within a query

    def look_up_grades(self, row_index: np.ndarray) -> np.ndarray:
        """(B, k) the grades of the rows in index, (B, k), −1 pads: 0 where there is none above 0."""
        is_judged, key_position = _match_keys(self.keys, row_index, self.n_documents)
        grades = np.zeros(row_index.shape)
        grades[is_judged] = self.grades[key_position]
        return grades

    def select_queries(self, query_index: np.ndarray) -> "Judgements":
        """Those of queries by number, (M,), each as often as it is named."""
        key_source, key_query = _expand_segments(
            np.searchsorted(self.keys, self.n_documents * np.arange(len(self.n_relevant) + 1)), query_index
        )
        sorted_source, sorted_query = _expand_segments(np.concatenate([[0], np.cumsum(self.n_relevant)]), query_index)
        return Judgements(
            n_documents=self.n_documents,
            keys=key_query * self.n_documents + self.keys[key_source] % self.n_documents,
            grades=self.grades[key_source],
            n_relevant=self.n_relevant[query_index],
            sorted_query=sorted_query,
            sorted_rank=self.sorted_rank[sorted_source],
            sorted_grades=self.sorted_grades[sorted_source],
        )

    def compute_ideal_grades(self, k: int) -> np.ndarray:
        """(B, k) the grades of the best possible list."""
        ideal_grades = np.zeros((len(self.n_relevant), k))
        is_ranked = self.sorted_rank < k
        ideal_grades[self.sorted_query[is_ranked], self.sorted_rank[is_ranked]] = self.sorted_grades[is_ranked]
        return ideal_grades


@dataclass(frozen=True, eq=False)
class Coverage:
    """Which documents cover which aspects of B queries, over a corpus of n."""

    n_documents: int  # n
    keys: np.ndarray  # (m,) int64, rising, query·n + row of the documents that cover something
    aspect_starts: np.ndarray  # (m + 1,) where each one's aspects begin in `aspect`
    aspect_ids: np.ndarray  # (p,) numbered through all queries
    n_aspects: np.ndarray  # (B,) aspects a query
    ideal_gain: np.ndarray  # (B,) discounted gain of the greedy best list at k

    def select_queries(self, query_index: np.ndarray) -> "Coverage":
        """Those of queries by number, (M,), each as often as it is named."""
        key_source, key_query = _expand_segments(
            np.searchsorted(self.keys, self.n_documents * np.arange(len(self.n_aspects) + 1)), query_index
        )
        aspect_source, aspect_key = _expand_segments(self.aspect_starts, key_source)
        # Numbers of aspects differ between repetitions.
        aspect_ids = key_query[aspect_key] * (int(self.aspect_ids.max(initial=0)) + 1) + self.aspect_ids[aspect_source]
        aspect_starts = np.concatenate([[0], np.cumsum(np.diff(self.aspect_starts)[key_source])])
        document_keys = key_query * self.n_documents + self.keys[key_source] % self.n_documents
        return Coverage(
            self.n_documents,
            document_keys,
            aspect_starts,
            aspect_ids,
            self.n_aspects[query_index],
            self.ideal_gain[query_index],
        )

    def list_covered_aspects(self, row_index: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For index, (B, k) rows, −1 pads: a query, a rank from 0, and how often higher ranks had covered the same
        aspect, for every aspect of every document listed; each (e,), in no particular order."""
        is_covering, key_position = _match_keys(self.keys, row_index, self.n_documents)
        query_index, rank = np.nonzero(is_covering)
        # Each document's aspects, one after the other.
        aspect_ids, listing_index = _expand_segments(self.aspect_starts, key_position)
        query_index, rank, aspect_ids = query_index[listing_index], rank[listing_index], self.aspect_ids[aspect_ids]
        # Documents come query by query and rank by rank; a stable sort by aspect keeps that order within each.
        aspect_order = np.argsort(aspect_ids, kind="stable")
        aspect_ids = aspect_ids[aspect_order]
        run_starts = np.flatnonzero(np.diff(aspect_ids, prepend=-1))
        times_before = np.arange(len(aspect_ids)) - np.repeat(run_starts, np.diff(run_starts, append=len(aspect_ids)))
        return query_index[aspect_order], rank[aspect_order], times_before

    def alpha_ndcg(self, row_index: np.ndarray) -> np.ndarray:
        """(B,) Σ over ranks of Σ over the document's aspects of (1 − α)^(times covered above) / log2(rank + 1), over
        the ideal's; NaN without aspects. The greedy ideal is not always the best one: up to a little over 1."""
        query_index, rank, times_before = self.list_covered_aspects(row_index)
        discounted_gain = np.bincount(
            query_index, (1 - ALPHA_NDCG) ** times_before / np.log2(rank + 2), minlength=len(self.n_aspects)
        )
        return _divide_or_nan(discounted_gain, self.ideal_gain)

    def s_recall(self, row_index: np.ndarray) -> np.ndarray:
        """(B,) the share of the query's aspects that a listed document covers; NaN without aspects."""
        query_index, _, times_before = self.list_covered_aspects(row_index)
        return _divide_or_nan(
            np.bincount(query_index[times_before == 0], minlength=len(self.n_aspects)), self.n_aspects
        )


def load_judgements(space: Space, query_ids: Sequence[str], qrels: Qrels) -> Judgements:
    """The judgements of queries, as arrays; made once for the same corpus, ids and judgements."""
    query_ids = tuple(query_ids)
    return _get_or_build(
        ("judgements", space.corpus.digest, query_ids, qrels.digest), lambda: _build_judgements(space, query_ids, qrels)
    )


def load_coverage(space: Space, query_ids: Sequence[str], aspects: Aspects, k: int) -> Coverage:
    """The aspects of queries, with the ideal at k, as arrays; made once for the same corpus, ids, aspects and k.

    An aspect that no document covers is none. Raises DataError where aspects are not as a Dataset has them.
    """
    try:
        query_aspects = [list(aspects[query].items()) if query in aspects else [] for query in query_ids]
        if invalid_sets := [
            c
            for named_sets in query_aspects
            for _, c in named_sets
            if isinstance(c, str) or not isinstance(c, Collection)
        ]:
            raise DataError(f"aspects must be {_ASPECTS_SHAPE}; got {invalid_sets[0]!r} for a set")
        content = tuple(
            [tuple([(name, frozenset(covering)) for name, covering in named_sets]) for named_sets in query_aspects]
        )
    except (TypeError, AttributeError) as error:
        raise DataError(f"aspects must be {_ASPECTS_SHAPE} ({error})") from None
    return _get_or_build(("coverage", space.corpus.digest, k, content), lambda: _build_coverage(space, content, k))


def _get_or_build(cache_key: Hashable, build_arrays: Callable[[], CachedT]) -> CachedT:
    """What was made for an equal key, if it is among the last MOST_KEPT, or else now."""
    with _array_cache_lock:
        arrays = _array_cache.pop(cache_key, None)
    arrays = build_arrays() if arrays is None else arrays
    with _array_cache_lock:
        _array_cache[cache_key] = arrays
        while len(_array_cache) > MAX_CACHED_ARRAYS:
            _array_cache.popitem(last=False)
    return arrays


def _build_judgements(space: Space, query_ids: Sequence[str], qrels: Qrels) -> Judgements:
    row_of, n_documents = space.corpus.position, len(space)
    graded_documents = [
        [(document_id, g) for document_id, g in qrels.grades.get(query_id, {}).items() if g > 0]
        for query_id in query_ids
    ]
    n_relevant = np.array([len(documents) for documents in graded_documents], dtype=np.int64)
    corpus_grades = sorted(
        (query_index * n_documents + row_of[document_id], g)
        for query_index, documents in enumerate(graded_documents)
        for document_id, g in documents
        if document_id in row_of
    )
    sorted_grades = [g for documents in graded_documents for g in sorted((g for _, g in documents), reverse=True)]
    return Judgements(
        n_documents=n_documents,
        keys=np.array([document_key for document_key, _ in corpus_grades], dtype=np.int64),
        grades=np.array([grade for _, grade in corpus_grades], dtype=float),
        n_relevant=n_relevant,
        sorted_query=np.repeat(np.arange(len(graded_documents)), n_relevant),
        sorted_rank=np.array(
            [grade_rank for documents in graded_documents for grade_rank in range(len(documents))], dtype=np.int64
        ),
        sorted_grades=np.array(sorted_grades, dtype=float),
    )


def _build_coverage(space: Space, content: Sequence[Sequence[tuple[str, frozenset[str]]]], k: int) -> Coverage:
    row_of, n_documents = space.corpus.position, len(space)
    n_aspects, ideal_gain = np.zeros((2, len(content)))
    key_aspect_pairs: list[tuple[int, int]] = []
    n_aspects_before = 0
    for query_index, named_sets in enumerate(content):
        covering_sets = [covering for _, covering in named_sets if covering]
        n_aspects[query_index] = len(covering_sets)
        # Greedy ties go to the greater id, as in TREC's ndeval.
        document_ids = sorted(frozenset().union(*covering_sets), reverse=True)
        document_number = {document_id: number for number, document_id in enumerate(document_ids)}
        cover_matrix = np.zeros((len(document_ids), len(covering_sets)))
        for aspect_index, covering in enumerate(covering_sets):
            cover_matrix[[document_number[document_id] for document_id in covering], aspect_index] = 1
            key_aspect_pairs += [
                (query_index * n_documents + row_of[document_id], n_aspects_before + aspect_index)
                for document_id in covering
                if document_id in row_of
            ]
        n_aspects_before += len(covering_sets)
        ideal_gain[query_index] = _greedy_gain(cover_matrix, k)
    key_aspect_pairs.sort()
    pair_array = np.array(key_aspect_pairs, dtype=np.int64).reshape(-1, 2)
    document_keys, aspect_starts = np.unique(pair_array[:, 0], return_index=True)
    return Coverage(
        n_documents, document_keys, np.append(aspect_starts, len(pair_array)), pair_array[:, 1], n_aspects, ideal_gain
    )


def _greedy_gain(cover_matrix: np.ndarray, k: int) -> float:
    """The discounted gain of taking, k times, the document that adds most; cover_matrix: (documents, aspects), 0 or 1."""
    aspect_worth, total_gain = np.ones(cover_matrix.shape[1]), 0.0
    for rank in range(min(k, len(cover_matrix))):
        document_gains = cover_matrix @ aspect_worth
        best_document = int(document_gains.argmax())
        total_gain += document_gains[best_document] / np.log2(rank + 2)
        aspect_worth = np.where(cover_matrix[best_document] > 0, aspect_worth * (1 - ALPHA_NDCG), aspect_worth)
        cover_matrix[best_document] = 0
    return total_gain


def _match_keys(keys: np.ndarray, row_index: np.ndarray, n_documents: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of the rows in index, (B, k), −1 pads, have a key, (B, k) bool, and the positions of these keys."""
    if not len(keys):
        return np.zeros(row_index.shape, dtype=bool), np.zeros(0, dtype=np.int64)
    queried_keys = row_index + n_documents * np.arange(len(row_index), dtype=np.int64)[:, None]
    key_position = keys.searchsorted(queried_keys)
    has_key = (keys[np.minimum(key_position, len(keys) - 1)] == queried_keys) & (row_index >= 0)
    return has_key, key_position[has_key]


def _expand_segments(segment_starts: np.ndarray, segment_index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of segments, which begin at starts, (B + 1,), for each number in query, (M,); and whose each is."""
    segment_lengths = np.diff(segment_starts)[segment_index]
    segment_of = np.repeat(np.arange(len(segment_index)), segment_lengths)
    return np.arange(len(segment_of)) + np.repeat(
        segment_starts[segment_index] - (np.cumsum(segment_lengths) - segment_lengths), segment_lengths
    ), segment_of


def _divide_or_nan(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """part / whole; NaN where whole is 0."""
    return numerator / np.where(denominator > 0, denominator, np.nan)


def digest_of_aspects(aspects: Aspects | None) -> str:
    """Names what the aspects say, whatever order they come in; "" for none."""
    if not aspects:
        return ""
    sorted_aspects = {
        query_id: {aspect_id: sorted(document_ids) for aspect_id, document_ids in covering_sets.items()}
        for query_id, covering_sets in aspects.items()
    }
    return digest_of([json.dumps(sorted_aspects, sort_keys=True)])
