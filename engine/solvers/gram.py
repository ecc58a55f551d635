"""Inner products in float64 that come out the same to the last bit in whatever company they are made.

Each is a sum over the dimensions in one fixed order, four at a time, and a lane of the processor holds one product: no
blocking, batch or thread count changes a bit, identical rows have identical products, and s_ij = s_ji.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import GRAM_ROWS
from engine.solvers.jit import jit_dense, jit_exact
from engine.values import Ranking

STRIP_LENGTH = 1024
"""Rows per block: their sums stay in the nearest cache while the dimensions pass."""


@jit_dense
def compute_products(columns: np.ndarray, points: np.ndarray, result: np.ndarray) -> None:
    """Compute the inner products of points, (p, d), with n vectors, (d, n) columns, in `result`, (p, n).

    A product has the same bits in whatever batch it is computed.
    """
    d, n_vectors = columns.shape
    result[:] = 0.0
    for start in range(0, n_vectors, STRIP_LENGTH):
        # Four dimensions at a time in one fixed bracketing, so that the size of the batch does not change the sum.
        for axis in range(0, d - 3, 4):
            c0, c1 = columns[axis, start : start + STRIP_LENGTH], columns[axis + 1, start : start + STRIP_LENGTH]
            c2, c3 = columns[axis + 2, start : start + STRIP_LENGTH], columns[axis + 3, start : start + STRIP_LENGTH]
            for point_id in range(len(points)):
                point = points[point_id]
                x0, x1, x2, x3 = point[axis], point[axis + 1], point[axis + 2], point[axis + 3]
                strip_sums = result[point_id, start : start + STRIP_LENGTH]
                for i in range(len(strip_sums)):
                    strip_sums[i] += (x0 * c0[i] + x1 * c1[i]) + (x2 * c2[i] + x3 * c3[i])
        for axis in range(d - d % 4, d):
            c0 = columns[axis, start : start + STRIP_LENGTH]
            for point_id in range(len(points)):
                x0, strip_sums = points[point_id, axis], result[point_id, start : start + STRIP_LENGTH]
                for position in range(len(strip_sums)):
                    strip_sums[position] += x0 * c0[position]


@jit_exact
def fill_row(columns: np.ndarray, rows: np.ndarray, filled: np.ndarray, row_id: int) -> None:
    """Compute one vector's products with all vectors, row `row_id` of a Gram matrix, unless it is there.

    columns: (d, n) the vectors; rows: (n, n), of which filled[i] says if row i is there
    """
    if not filled[row_id]:
        # Another thread may read or compute this row meanwhile, and must never see unfinished sums.
        new_row = np.empty((1, rows.shape[1]))
        compute_products(columns, columns[:, row_id].astype(np.float64).reshape(1, -1), new_row)
        for column_index in range(rows.shape[1]):
            rows[row_id, column_index] = new_row[0, column_index]
        filled[row_id] = True


def transpose_vectors(vectors: Tensor) -> np.ndarray:
    """Return vectors, (n, d), as (d, n) columns on the CPU: float32 as they are, others as float64.

    Loops read half as much of float32, and sum its products in float64 all the same.
    """
    columns = vectors.cpu().T.contiguous()
    return (columns if columns.dtype == torch.float32 else columns.double()).numpy()


class Gram:
    """The (n, n) inner products of some vectors, each row computed when a compiled loop first asks for it.

    columns: (d, n) the vectors; rows: (n, n), of which `filled`, (n,), says what is there
    """

    def __init__(self, vectors: Tensor) -> None:
        """Take vectors, (n, d), as columns; no inner product is computed yet."""
        self.columns = transpose_vectors(vectors)
        n_vectors = self.columns.shape[1]
        # Memory is taken only when a row is first written to.
        self.rows, self.filled = np.empty((n_vectors, n_vectors)), np.zeros(n_vectors, np.bool_)

    @cached_property
    def squares(self) -> np.ndarray:
        """(n,) squared lengths of the vectors, the diagonal."""
        return np.asarray(compute_squared_norms(self.columns))

    @cached_property
    def mean_products(self) -> np.ndarray:
        """(n,) inner products of all vectors with their mean."""
        mean_products = np.empty(self.columns.shape[1])
        compute_products(self.columns, self.columns.astype(np.float64).mean(1)[None], mean_products[None])
        return mean_products

    def score_queries(self, queries: Tensor) -> np.ndarray:
        """Return (B, n) inner products of all vectors with queries, (B, d)."""
        along = np.empty((len(queries), self.columns.shape[1]))
        compute_products(self.columns, queries.double().cpu().numpy(), along)
        return along

    def fill_all_rows(self) -> np.ndarray:
        """Compute all missing rows; return the (n, n) inner products."""
        missing_rows = np.flatnonzero(~self.filled)
        if len(missing_rows):
            self.rows[missing_rows] = self.score_queries(torch.from_numpy(self.columns.T[missing_rows]))
            self.filled[:] = True
        return self.rows


@jit_dense
def compute_squared_norms(columns: np.ndarray) -> np.ndarray:
    """Return (n,) squared lengths of vectors, (d, n) columns, equal to the last bit to their own products.

    They are summed in the order of `compute_products`.
    """
    d, n_vectors = columns.shape
    squares = np.zeros(n_vectors)
    for axis in range(0, d - 3, 4):
        c0, c1, c2, c3 = columns[axis], columns[axis + 1], columns[axis + 2], columns[axis + 3]
        for position in range(n_vectors):
            x0, x1 = np.float64(c0[position]), np.float64(c1[position])
            x2, x3 = np.float64(c2[position]), np.float64(c3[position])
            squares[position] += (x0 * x0 + x1 * x1) + (x2 * x2 + x3 * x3)
    for axis in range(d - d % 4, d):
        c0 = columns[axis]
        for position in range(n_vectors):
            squares[position] += np.float64(c0[position]) * c0[position]
    return squares


def corpus_gram(c: Candidates) -> Gram | None:
    """Return the matrix of all inner products of a small corpus, which its queries share; cached.

    None where each query has its own pool of candidates, and above GRAM_ROWS rows.
    """
    return c.matrix.derive("gram", lambda: Gram(c.vectors)) if c.shared and c.count <= GRAM_ROWS else None


def compute_relevance(c: Candidates, gram: Gram) -> np.ndarray:
    """Return (B, n) float64 relevance of all candidates to their queries.

    Inner products are recomputed from the Gram matrix's vectors; other scores are the scorer's own numbers.
    """
    return gram.score_queries(c.queries) if c.inner_product else c.relevance.double().cpu().numpy()


def iterate_problems(c: Candidates) -> Iterator[tuple[slice, Gram, np.ndarray]]:
    """Yield (slice of queries, Gram matrix of their candidates, (b, n) relevance), to be solved together.

    All queries come at once where they share a small corpus, else one by one.
    """
    gram = corpus_gram(c)
    if gram is not None:
        yield slice(0, c.batch), gram, compute_relevance(c, gram)
        return
    for query_id in range(c.batch):
        block = slice(query_id, query_id + 1)
        gram = Gram(c.vectors if c.shared else c.vectors[query_id])
        yield block, gram, compute_relevance(replace(c, relevance=c.relevance[block], queries=c.queries[block]), gram)


def list_infos(columns: Mapping[str, Sequence[Any]]) -> tuple[dict[str, Any], ...]:
    """Turn columns of diagnostics, each with a value for every query, into one dictionary a query."""
    return tuple(dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))


def build_ranking(c: Candidates, picks: np.ndarray, gains: np.ndarray, columns: Mapping[str, Sequence[Any]]) -> Ranking:
    """Build a Ranking from picks and gains, (B, k), on the candidates' device.

    columns: diagnostics for its info, by name, each with one value a query
    """
    index, gain = (torch.from_numpy(np.ascontiguousarray(array)).to(c.vectors.device) for array in (picks, gains))
    return Ranking(index, gain, list_infos(columns))


def warm() -> None:
    """Compile the loops of this module that never run as Python, or load them from disk.

    Numba compiles one loop at a time: a page that needs these must not wait for another one's fifteen seconds.
    """
    Gram(torch.eye(8)).score_queries(torch.eye(8)[:1])
