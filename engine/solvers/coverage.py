"""Relevance and coverage of a ground set, lazily greedy, compiled on the rows of a Gram matrix."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import GRAM_ROWS, Matrix
from engine.solvers.gram import Gram, compute_products, corpus_gram, fill_row, iterate_problems, transpose_vectors
from engine.solvers.jit import jit_exact
from engine.solvers.largest import N_LANES, find_largest
from engine.solvers.tie_breaking import rank_exactly

Array = np.ndarray

MAX_CACHED_GROUND = 4096
"""Up to so many documents in the ground set all their similarities are kept (128 MiB); beyond, made when asked for."""


@dataclass(frozen=True)
class CoverageTables:
    """The similarities within a ground set, the documents to be represented, and what each of them covers.

    A document covers another by their similarity, if positive. columns: (d, p) its vectors; rows: (p, p), of which
    `filled` (p,) says what is there, or (1, p) where none is cached; solo_gain: (p,) what each document covers alone;
    pair_gain: (p, p) what each still adds after another was picked, row i computed where pair_ready[i]
    """

    columns: Array
    rows: Array
    filled: Array
    solo_gain: Array
    pair_gain: Array
    pair_ready: Array

    @staticmethod
    def build(columns: Array, rows: Array, filled: Array) -> "CoverageTables":
        """Compute what each document of a ground set covers alone, and make room for what pairs cover.

        columns: (d, p) vectors of the ground set; rows, filled: (p, p) similarities and (p,) which of them are there,
        or (1, p) where none is cached
        """
        size = columns.shape[1]
        solo_gain, n_cached = np.empty(size), size if len(rows) == size else 0
        measure_solo_coverage(columns, rows, filled, solo_gain)
        pair_gain, pair_ready = np.zeros((n_cached, n_cached)), np.zeros(size, np.bool_)
        return CoverageTables(columns, rows, filled, solo_gain, pair_gain, pair_ready)

    @staticmethod
    def from_gram(gram: Gram) -> "CoverageTables":
        """Build the tables of all documents whose inner products a Gram matrix holds.

        A table holds the documents' similarities and what each covers, alone or after another one. A greedy selector
        reads from it which document adds the most coverage.
        """
        # Then gram.rows has every inner product, and gram.filled, which marks the computed rows, is True throughout;
        # gram.columns has the documents' vectors as columns.
        gram.fill_all_rows()
        return CoverageTables.build(gram.columns, gram.rows, gram.filled)


def select_covering_sets(c: Candidates, k: int, size: int, weights: Sequence[float]) -> tuple[Array, Array, Array]:
    """Choose k documents for each query that are relevant and cover its `size` most relevant ones.

    Returns picks and their gains, (B, L, k) for L weights of relevance, and the number of gains computed, (B, L).
    """
    shape = (c.batch, len(weights), k)
    picks, gains, n_evaluations = np.empty(shape, np.int64), np.empty(shape), np.empty(shape[:2], np.int64)
    for block, ground_ids, tables, relevance in iterate_ground_sets(c, size):
        run_lazy_greedy(
            tables.columns, tables.rows, tables.filled, tables.solo_gain, tables.pair_gain, tables.pair_ready,
            relevance, np.array(weights, np.float64), picks[block], gains[block], n_evaluations[block],
        )  # fmt: skip
        picks[block] = ground_ids[picks[block]]
    return picks, gains, n_evaluations


def iterate_ground_sets(c: Candidates, size: int) -> Iterator[tuple[slice, Array, CoverageTables, Array]]:
    """Yield each ground set: slice of queries, (p,) ascending candidates, tables, (b, p) relevance.

    A ground set is the `size` most relevant candidates of a query; where it is all of them, queries share one. The
    tables are its documents' similarities and what each covers, from which greedy selectors read what a pick adds.
    """
    # A ground set that is a small corpus has the same tables for all queries, which the matrix caches.
    if size == c.count <= GRAM_ROWS:
        for block, gram, relevance in iterate_problems(c):
            build_tables = partial(CoverageTables.from_gram, gram)
            tables = c.matrix.derive("covers", build_tables) if c.shared else build_tables()
            yield block, np.arange(size), tables, relevance
        return
    ground_rows, scores = rank_exactly(c.relevance, size, c.relevance_error, c.exact_relevance)
    ground_rows, row_order = ground_rows.sort(dim=1)
    scores, full_gram = scores.gather(1, row_order), corpus_gram(c)
    shared_tables: CoverageTables | None = None
    for query_id in range(c.batch):
        ground_ids = ground_rows[query_id].cpu().numpy()
        vectors = c.vectors if c.shared else c.vectors[query_id]
        tables = shared_tables or _build_tables(vectors[ground_rows[query_id]], full_gram, ground_ids)
        shared_tables = tables if c.shared and size == c.count else None
        yield slice(query_id, query_id + 1), ground_ids, tables, scores[query_id : query_id + 1].cpu().numpy()


def _build_tables(vectors: Tensor, gram: Gram | None, ground_ids: Array) -> CoverageTables:
    """Compute the similarities within a ground set, and what its documents cover, as tables.

    vectors: (p, d) of the ground set; gram: all inner products of the corpus, None if they are not cached; ground_ids:
    (p,) the rows of that matrix that are in the ground set
    """
    size = len(ground_ids)
    if gram is not None:
        ground_products = gram.fill_all_rows()[np.ix_(ground_ids, ground_ids)]
        return CoverageTables.build(np.empty((0, size), gram.columns.dtype), ground_products, np.ones(size, np.bool_))
    if size <= MAX_CACHED_GROUND:
        return CoverageTables.from_gram(Gram(vectors))
    # Too large to cache: one row of similarities has room, and is computed anew for each document.
    return CoverageTables.build(transpose_vectors(vectors), np.empty((1, size)), np.zeros(1, np.bool_))


@jit_exact
def compute_similarities(columns: Array, rows: Array, filled: Array, document: int) -> Array:
    """Return the (p,) similarities of one document with its ground set, from the cache or computed.

    rows: (p, p) with filled[i] True where row i is cached, or (1, p) where only one row has room
    """
    if len(rows) == columns.shape[1]:
        fill_row(columns, rows, filled, document)
        cached_row: Array = rows[document]
        return cached_row
    compute_products(columns, columns[:, document].astype(np.float64).reshape(1, -1), rows)
    computed_row: Array = rows[0]
    return computed_row


@jit_exact
def measure_added_coverage(similarity_row: Array, coverage: Array, lanes: Array) -> float:
    """Return what one more document would add to the coverage: Σ max(0, similarity − coverage).

    The order of the sum depends on its length alone, so the result never grows with coverage, even as rounded.
    coverage: (p,) largest similarity of each document to the picks so far; lanes: scratch
    """
    size = len(similarity_row)
    lanes[:] = 0.0
    for start in range(0, size - N_LANES + 1, N_LANES):
        row_strip, coverage_strip = similarity_row[start : start + N_LANES], coverage[start : start + N_LANES]
        for lane in range(N_LANES):
            increase = row_strip[lane] - coverage_strip[lane]
            lanes[lane] += increase if increase > 0 else 0.0
    total = 0.0
    for lane in range(N_LANES):
        total += lanes[lane]
    for position in range(size - size % N_LANES, size):
        total += max(similarity_row[position] - coverage[position], 0.0)
    return total


@jit_exact
def measure_solo_coverage(columns: Array, rows: Array, filled: Array, solo_gain: Array) -> None:
    """Compute what each document covers alone, in `solo_gain`, (p,): the sum of its positive similarities."""
    coverage, lanes = np.zeros(len(solo_gain)), np.empty(N_LANES)
    for document in range(len(solo_gain)):
        similarities = compute_similarities(columns, rows, filled, document)
        solo_gain[document] = measure_added_coverage(similarities, coverage, lanes)


@jit_exact
def run_lazy_greedy(
    columns: Array, rows: Array, filled: Array, solo_gain: Array, pair_gain: Array, pair_ready: Array, relevance: Array,
    weights: Array, picks: Array, gains: Array, n_evaluations: Array,
) -> None:  # fmt: skip
    """Choose k documents for B queries at L weights that are relevant and cover the ground set, greedily.

    Lazy: a gain is computed only if its bound is the largest. Picks, gains and counts are written in place. The arrays
    before relevance are those of a `CoverageTables`; relevance: (B, p); picks, gains: (B, L, k); n_evaluations: (B, L)
    number of gains computed. The objective is submodular, so gains only fall, also as computed (rounding is monotone):
    the gain at an earlier pick bounds the present one, and a document whose bound is below the best gain needs no other
    computation (Minoux 1978, the accelerated greedy method). The first pick lowers nearly every gain: what it leaves
    them is computed for all documents, and cached.
    """
    size, k = relevance.shape[1], picks.shape[2]
    base_gains, upper, coverage, lanes = np.empty(size), np.empty(size), np.empty(size), np.empty(N_LANES)
    is_exact = np.empty(size, np.bool_)
    for query_id in range(len(picks)):
        for weight_id in range(len(weights)):
            coverage_weight, n_computed = (1 - weights[weight_id]) * k / size, size
            for document in range(size):
                base_gains[document] = weights[weight_id] * relevance[query_id, document]
                upper[document] = base_gains[document] + coverage_weight * solo_gain[document]
            coverage[:] = 0.0
            is_exact[:] = True
            for rank in range(k):
                if rank == 1 and len(pair_gain):
                    first_pick = picks[query_id, weight_id, 0]
                    if not pair_ready[first_pick]:
                        for document in range(size):
                            pair_gain[first_pick, document] = measure_added_coverage(rows[document], coverage, lanes)
                        pair_ready[first_pick] = True
                    for document in range(size):
                        upper[document] = base_gains[document] + coverage_weight * pair_gain[first_pick, document]
                    upper[first_pick] = -np.inf
                    is_exact[:] = True
                    n_computed += size - 1
                # For k = 1 the pick is the most relevant document, which need not have the largest gain.
                pick, _ = find_largest(1.0, upper if k > 1 else relevance[query_id], 0.0, coverage)
                # Renew the largest bound until the largest is exact: then no other gain can be larger.
                while not is_exact[pick]:
                    pick_row = compute_similarities(columns, rows, filled, pick)
                    upper[pick] = base_gains[pick] + coverage_weight * measure_added_coverage(pick_row, coverage, lanes)
                    is_exact[pick] = True
                    n_computed += 1
                    pick, _ = find_largest(1.0, upper, 0.0, coverage)
                picks[query_id, weight_id, rank], gains[query_id, weight_id, rank] = pick, upper[pick]
                upper[pick] = -np.inf
                pick_row = compute_similarities(columns, rows, filled, pick)
                for document in range(size):
                    coverage[document] = max(coverage[document], pick_row[document])
                is_exact[:] = False
                is_exact[pick] = True
            n_evaluations[query_id, weight_id] = n_computed


def warm() -> None:
    """Compile the Numba loops of facility location, or load them from disk, by solving a tiny problem.

    So that a user's first query need not wait for the compiler; the tiny problem's answer is dropped.
    """
    identity = torch.eye(8)
    select_covering_sets(Candidates(identity, identity[:1], identity[:1], Matrix(identity)), 2, 8, [0.5])
