"""Judgements and aspects of a list of queries as cached arrays.

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
"""Query id → aspect → ids of the documents that cover it, as `Dataset.aspects` holds them."""

_ASPECTS_SHAPE = "query → aspect → set of document ids, as data.aspects is"

#: The share of an aspect's worth that α-nDCG removes each time the aspect is covered.
ALPHA_NDCG = 0.5
MAX_CACHED_ARRAYS = 16
_array_cache: OrderedDict[Hashable, Any] = OrderedDict()
_array_cache_lock = Lock()


@dataclass(frozen=True, eq=False, kw_only=True)
class Judgements:
    """The judged documents of B queries over a corpus of n, as arrays for fast look-up.

    A key is the number query·n + row: one sorted array of keys serves all queries.
    """

    n_documents: int  # n
    keys: np.ndarray  # (m,) int64 query·n + row, rising, of those in the corpus
    grades: np.ndarray  # (m,) their grades, 0 for those below
    n_relevant: np.ndarray  # (B,) relevant documents of each query, in the corpus or not
    n_relevant_next: np.ndarray  # (B,) those of them with a grade of `next_level` or more
    relevant_from: int  # grade from which a document counts as relevant
    next_level: int | None  # the next grade from which fewer documents would count; None if there is none
    sorted_query: np.ndarray  # (m',) query index, rising, of every document with a grade above 0, in the corpus or not
    sorted_rank: np.ndarray  # (m',) its rank from 0 by falling grade
    sorted_grades: np.ndarray  # (m',) its grade, falling within a query

    def find_judged(self, row_index: np.ndarray) -> np.ndarray:
        """Return the (B, k) mask of the judged documents among the (B, k) rows in `row_index`, −1 pads."""
        is_judged, _key_position = _match_keys(self.keys, row_index, self.n_documents)
        return is_judged

    def look_up_grades(self, row_index: np.ndarray) -> np.ndarray:
        """Return the (B, k) grades of the (B, k) rows in `row_index`, −1 pads; 0 where unjudged or padded."""
        is_judged, key_position = _match_keys(self.keys, row_index, self.n_documents)
        grades = np.zeros(row_index.shape)
        grades[is_judged] = self.grades[key_position]
        return grades

    def select_queries(self, query_index: np.ndarray) -> "Judgements":
        """Return the judgements of M chosen queries, numbered from 0 in the order of `query_index`.

        A query may be chosen several times, as on an exact curve over λ, where it has several sets. A judged document
        of a query is stored under a key, the number query · n + row in a corpus of n.
        """
        # For each entry of the result: where it comes from, and which of the chosen queries it belongs to.
        key_starts = np.searchsorted(self.keys, self.n_documents * np.arange(len(self.n_relevant) + 1))
        key_source, key_query = _expand_segments(key_starts, query_index)
        # The ideal lists hold documents outside the corpus too, so they have entries of their own: `sorted_source`
        # indexes them in this object, `sorted_query` says to which chosen query each belongs.
        query_starts = np.searchsorted(self.sorted_query, np.arange(len(self.n_relevant) + 1))
        sorted_source, sorted_query = _expand_segments(query_starts, query_index)
        return Judgements(
            n_documents=self.n_documents,
            # A key is query·n + row: the query's number is replaced, and the row stays.
            keys=key_query * self.n_documents + self.keys[key_source] % self.n_documents,
            grades=self.grades[key_source],
            n_relevant=self.n_relevant[query_index],
            n_relevant_next=self.n_relevant_next[query_index],
            relevant_from=self.relevant_from,
            next_level=self.next_level,
            sorted_query=sorted_query,
            sorted_rank=self.sorted_rank[sorted_source],
            sorted_grades=self.sorted_grades[sorted_source],
        )

    def compute_ideal_grades(self, k: int) -> np.ndarray:
        """Return the (B, k) grades of each query's best possible list, for nDCG: highest first, then zeros."""
        # Ranks beyond k, and queries with fewer than k relevant documents, leave zeros.
        ideal_grades = np.zeros((len(self.n_relevant), k))
        is_ranked = self.sorted_rank < k
        ideal_grades[self.sorted_query[is_ranked], self.sorted_rank[is_ranked]] = self.sorted_grades[is_ranked]
        return ideal_grades


@dataclass(frozen=True, eq=False)
class Coverage:
    """The documents that cover each aspect, a subtopic, of B queries over a corpus of n.

    A key is the number query·n + row: one sorted array of keys serves all queries.
    """

    n_documents: int  # n
    keys: np.ndarray  # (m,) int64, rising, query·n + row of the documents that cover something
    aspect_starts: np.ndarray  # (m + 1,) position in `aspect_ids` where each document's aspects begin
    aspect_ids: np.ndarray  # (p,) numbered through all queries
    n_aspects: np.ndarray  # (B,) aspects a query
    ideal_gain: np.ndarray  # (B,) discounted gain of the greedy best list at k

    def select_queries(self, query_index: np.ndarray) -> "Coverage":
        """Return the aspects of M chosen queries, numbered from 0 in the order of `query_index`.

        An aspect is a subtopic of a query, which documents cover. A query may be chosen several times, as on an exact
        curve over λ, where it has several sets. A document that covers an aspect of a query is stored under a key, the
        number query · n + row in a corpus of n.
        """
        # For each entry of the result: where it comes from, and which of the chosen queries it belongs to.
        key_starts = np.searchsorted(self.keys, self.n_documents * np.arange(len(self.n_aspects) + 1))
        key_source, key_query = _expand_segments(key_starts, query_index)
        # The same for the aspects of these documents: `aspect_source` indexes self.aspect_ids, and `aspect_key` says
        # which entry of `key_source` and `key_query`, a document of a chosen query, covers the aspect.
        aspect_source, aspect_key = _expand_segments(self.aspect_starts, key_source)
        # A repeated query gets aspect numbers of its own, or its lists would share coverage.
        aspect_ids = key_query[aspect_key] * (int(self.aspect_ids.max(initial=0)) + 1) + self.aspect_ids[aspect_source]
        # The documents keep their number of aspects, so the new starts are running sums.
        aspect_starts = np.concatenate([[0], np.cumsum(np.diff(self.aspect_starts)[key_source])])
        # A key is query · n + row: the query's number is replaced, and the row stays.
        document_keys = key_query * self.n_documents + self.keys[key_source] % self.n_documents
        n_aspects, ideal_gain = self.n_aspects[query_index], self.ideal_gain[query_index]
        return Coverage(self.n_documents, document_keys, aspect_starts, aspect_ids, n_aspects, ideal_gain)

    def list_covered_aspects(self, row_index: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """List every pair of a ranked document and an aspect that it covers, as α-nDCG needs them.

        row_index: (B, k) rows of ranked documents, −1 pads. Return three arrays with an entry for each such pair, in no
        particular order: the query's position, the document's rank from 0, and how many documents that are ranked
        higher for the query cover the same aspect.
        """
        is_covering, key_position = _match_keys(self.keys, row_index, self.n_documents)
        query_index, rank = np.nonzero(is_covering)
        # A ranked document has an entry for each aspect that it covers: `aspect_position` indexes self.aspect_ids, and
        # `entry_document` the ranked documents in `query_index` and `rank`.
        aspect_position, entry_document = _expand_segments(self.aspect_starts, key_position)
        query_index, rank = query_index[entry_document], rank[entry_document]
        aspect_ids = self.aspect_ids[aspect_position]
        # Documents come query by query and rank by rank; a stable sort by aspect keeps that order within each.
        aspect_order = np.argsort(aspect_ids, kind="stable")
        aspect_ids = aspect_ids[aspect_order]
        # The position within a run of one aspect is the number of earlier documents that cover it.
        run_starts = np.flatnonzero(np.diff(aspect_ids, prepend=-1))
        times_before = np.arange(len(aspect_ids)) - np.repeat(run_starts, np.diff(run_starts, append=len(aspect_ids)))
        return query_index[aspect_order], rank[aspect_order], times_before

    def alpha_ndcg(self, row_index: np.ndarray) -> np.ndarray:
        """Return the (B,) α-nDCG of the (B, k) lists in `row_index`; NaN for a query without aspects.

        The gain of a list is Σ over ranks and the document's aspects of (1 − α)^(times covered above) / log2(rank + 1).
        α-nDCG divides it by the gain of the ideal list. That is built greedily and not always optimal, so values may
        exceed 1 a little.
        """
        query_index, rank, times_before = self.list_covered_aspects(row_index)
        gains = (1 - ALPHA_NDCG) ** times_before / np.log2(rank + 2)
        return _divide_or_nan(np.bincount(query_index, gains, minlength=len(self.n_aspects)), self.ideal_gain)

    def s_recall(self, row_index: np.ndarray) -> np.ndarray:
        """Return the (B,) share of each query's aspects that its list covers; NaN without aspects."""
        query_index, _, times_before = self.list_covered_aspects(row_index)
        # The first document that covers an aspect counts it once.
        n_covered = np.bincount(query_index[times_before == 0], minlength=len(self.n_aspects))
        return _divide_or_nan(n_covered, self.n_aspects)


def load_judgements(space: Space, query_ids: Sequence[str], qrels: Qrels) -> Judgements:
    """Return the judgements of queries as arrays, cached by corpus, ids and judgements."""
    query_ids = tuple(query_ids)
    cache_key = ("judgements", space.corpus.digest, query_ids, qrels.digest)
    return _get_or_build(cache_key, lambda: _build_judgements(space, query_ids, qrels))


def load_coverage(space: Space, query_ids: Sequence[str], aspects: Aspects, k: int) -> Coverage:
    """Build the aspects of queries, and their ideal gains at k, as arrays; cached by their content.

    An aspect that no document covers is ignored. Raises DataError if `aspects` has another shape than a Dataset's.
    """
    content: list[tuple[tuple[str, frozenset[str]], ...]] = []
    try:
        for query_id in query_ids:
            named_sets = list(aspects[query_id].items()) if query_id in aspects else []
            for _, doc_ids in named_sets:
                if isinstance(doc_ids, str) or not isinstance(doc_ids, Collection):
                    raise DataError(f"aspects must be {_ASPECTS_SHAPE}; got {doc_ids!r} for a set")
            content.append(tuple([(name, frozenset(doc_ids)) for name, doc_ids in named_sets]))
    except (TypeError, AttributeError) as error:
        raise DataError(f"aspects must be {_ASPECTS_SHAPE} ({error})") from None
    cache_key = ("coverage", space.corpus.digest, k, tuple(content))
    return _get_or_build(cache_key, lambda: _build_coverage(space, content, k))


def _get_or_build(cache_key: Hashable, build_arrays: Callable[[], CachedT]) -> CachedT:
    """Return arrays from the cache, or build and cache them.

    If more than MAX_CACHED_ARRAYS are cached, those that were used least recently are dropped. build_arrays: function
    that is called only if the arrays are not in the cache.
    """
    # The lock is not held while arrays are built: two threads may build the same ones, and none waits.
    with _array_cache_lock:
        # Popped and put in again below, so that the last entries are those used last.
        arrays = _array_cache.pop(cache_key, None)
    arrays = build_arrays() if arrays is None else arrays
    with _array_cache_lock:
        _array_cache[cache_key] = arrays
        while len(_array_cache) > MAX_CACHED_ARRAYS:
            _array_cache.popitem(last=False)
    return arrays


def _build_judgements(space: Space, query_ids: Sequence[str], qrels: Qrels) -> Judgements:
    """Build the arrays of the judged documents; queries are numbered as `query_ids` come."""
    row_of, n_documents = space.corpus.position, len(space)
    next_level = qrels.next_level
    counts: list[int] = []
    next_counts: list[int] = []
    sorted_queries: list[int] = []
    sorted_ranks: list[int] = []
    sorted_grades: list[float] = []
    grade_by_key: dict[int, float] = {}
    for query_index, query_id in enumerate(query_ids):
        # nDCG counts every grade above 0, from whatever grade on documents are relevant for other metrics. The lists
        # sorted_… hold each query's grades in the order of its ideal list, documents outside the corpus included.
        judged = qrels.grades.get(query_id, {})
        positive_grades = [grade for grade in judged.values() if grade > 0]
        counts.append(len(qrels.relevant(query_id)))
        next_counts.append(0 if next_level is None else sum(grade >= next_level for grade in positive_grades))
        sorted_queries += [query_index] * len(positive_grades)
        sorted_ranks += range(len(positive_grades))
        sorted_grades += sorted(positive_grades, reverse=True)
        for doc_id, grade in judged.items():
            if doc_id in row_of:
                grade_by_key[query_index * n_documents + row_of[doc_id]] = max(grade, 0)
    # Sorted keys let _match_keys search them by bisection.
    keys = sorted(grade_by_key)
    return Judgements(
        n_documents=n_documents,
        keys=np.array(keys, dtype=np.int64),
        grades=np.array(list(map(grade_by_key.__getitem__, keys)), dtype=float),
        n_relevant=np.array(counts, dtype=np.int64),
        n_relevant_next=np.array(next_counts, dtype=np.int64),
        relevant_from=qrels.relevant_from,
        next_level=next_level,
        sorted_query=np.array(sorted_queries, dtype=np.int64),
        sorted_rank=np.array(sorted_ranks, dtype=np.int64),
        sorted_grades=np.array(sorted_grades, dtype=float),
    )


def _build_coverage(space: Space, content: Sequence[Sequence[tuple[str, frozenset[str]]]], k: int) -> Coverage:
    """Build the arrays of the documents that cover each query's aspects, and the best α-nDCG gain at k.

    content: for each query its pairs of an aspect and the ids of the documents that cover it
    """
    row_of, n_documents = space.corpus.position, len(space)
    n_aspects, ideal_gain = np.zeros((2, len(content)))
    # (query · n + row of a document, number of an aspect that it covers); aspects are numbered through all queries.
    pairs: list[tuple[int, int]] = []
    n_before = 0
    for query_index, named_sets in enumerate(content):
        doc_sets = list(filter(None, dict(named_sets).values()))
        n_aspects[query_index] = len(doc_sets)
        # Greedy ties go to the greater id, as in TREC's ndeval.
        doc_ids = sorted(frozenset().union(*doc_sets), reverse=True)
        document_number = {doc_id: number for number, doc_id in enumerate(doc_ids)}
        covers = np.zeros((len(doc_ids), len(doc_sets)))
        for aspect_no, covering in enumerate(doc_sets):
            for doc_id in covering:
                covers[document_number[doc_id], aspect_no] = 1
                if doc_id in row_of:
                    pairs.append((query_index * n_documents + row_of[doc_id], n_before + aspect_no))
        n_before += len(doc_sets)
        ideal_gain[query_index] = _greedy_gain(covers, k)
    # Sorted pairs keep the aspects of a document together, in the order of the keys.
    pairs.sort()
    pair_array = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    document_keys, first_pairs = np.unique(pair_array[:, 0], return_index=True)
    aspect_starts = np.append(first_pairs, len(pair_array))
    return Coverage(n_documents, document_keys, aspect_starts, pair_array[:, 1], n_aspects, ideal_gain)


def _greedy_gain(covers: np.ndarray, k: int) -> float:
    """Return the α-nDCG gain of the list that takes the document with most gain at each of k ranks.

    covers: (documents, aspects), 0 or 1; it is changed. An aspect's gain falls each time that it is covered again.
    """
    aspect_worth, total_gain = np.ones(covers.shape[1]), 0.0
    for rank in range(min(k, len(covers))):
        document_gains = covers @ aspect_worth
        best_document = int(document_gains.argmax())
        total_gain += document_gains[best_document] / np.log2(rank + 2)
        aspect_worth = np.where(covers[best_document] > 0, aspect_worth * (1 - ALPHA_NDCG), aspect_worth)
        # A document that was taken adds nothing again.
        covers[best_document] = 0
    return total_gain


def _match_keys(keys: np.ndarray, row_index: np.ndarray, n_documents: int) -> tuple[np.ndarray, np.ndarray]:
    """Look up ranked rows in sorted keys query·n + row; return a (B, k) mask of matches, and positions.

    The positions in `keys` are those of the matches alone, query by query and rank by rank. row_index: (B, k) corpus
    rows, −1 pads, which match nothing
    """
    if not len(keys):
        return np.zeros(row_index.shape, dtype=bool), np.zeros(0, dtype=np.int64)
    # A key is query·n + row, so one search serves all queries.
    queried_keys = row_index + n_documents * np.arange(len(row_index), dtype=np.int64)[:, None]
    key_position = keys.searchsorted(queried_keys)
    has_key = (keys[np.minimum(key_position, len(keys) - 1)] == queried_keys) & (row_index >= 0)
    return has_key, key_position[has_key]


def _expand_segments(segment_starts: np.ndarray, segment_index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """List the positions in an array that M chosen segments cover, and the choice that each belongs to.

    A segment is the run of entries that belong to one query or document. segment_starts: (B + 1,) where segments begin
    and the last ends; segment_index: (M,) the chosen ones, which may repeat. For starts 0, 2, 5 and segments 1, 0 these
    are the positions 2, 3, 4, 0, 1 and the choices 0, 0, 0, 1, 1.
    """
    lengths = np.diff(segment_starts)[segment_index]
    segment_of = np.repeat(np.arange(len(segment_index)), lengths)
    # Shifts turn the running number over all segments into a position in the array that they cut.
    shifts = segment_starts[segment_index] - (np.cumsum(lengths) - lengths)
    return np.arange(len(segment_of)) + np.repeat(shifts, lengths), segment_of


def _divide_or_nan(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Return numerator / denominator, with NaN where the denominator is 0."""
    return numerator / np.where(denominator > 0, denominator, np.nan)


def digest_of_aspects(aspects: Aspects | None) -> str:
    """Compute a digest of the aspects, independent of their order; "" for none."""
    if not aspects:
        return ""
    sorted_aspects = {}
    for query_id, doc_sets in aspects.items():
        sorted_aspects[query_id] = {aspect_id: sorted(doc_ids) for aspect_id, doc_ids in doc_sets.items()}
    return digest_of([json.dumps(sorted_aspects, sort_keys=True)])
