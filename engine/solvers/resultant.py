"""Sums of vectors that point where a query points, greedily, compiled on the rows of a Gram matrix."""

import math
from dataclasses import replace

import numpy as np
import torch

from engine.candidates import Candidates
from engine.matrix import Matrix
from engine.solvers.gram import fill_row, iterate_problems
from engine.solvers.jit import jit_exact, jit_maxima
from engine.solvers.largest import find_largest

Array = np.ndarray

CANCELLATION_SHARE = 1e-5
"""A sum's squared length below this share of its terms' squared total has lost digits: it is made from the vectors."""
NOISE_SHARE = 1e-14
"""Length of a sum of rows that cancel, relative to the total of their lengths: it has no direction."""


def select_nearest_sums(c: Candidates, k: int) -> tuple[Array, Array]:
    """Choose k candidates for each query whose sum points about where the query points, as VRSD does.

    The first is the most relevant, each further one brings the sum nearest to the query's direction. Returns picks, and
    the cosine between sum and query that each pick reached, (B, k).
    """
    picks, cosines = np.empty((c.batch, k), np.int64), np.empty((c.batch, k))
    # Powers of two round nothing: no square overflows, and no product with a tiny query is lost.
    row_scale = math.ldexp(1.0, -math.frexp(max(c.max_norm, 2.0**-100))[1])
    scaled_queries = c.queries.double()
    exponents = torch.frexp(scaled_queries.abs().amax(1, keepdim=True)).exponent
    scaled_queries = torch.ldexp(scaled_queries, -exponents)
    query_lengths = torch.linalg.vector_norm(scaled_queries, dim=1).cpu().numpy()
    # Scaled queries choose the same first picks.
    for block, gram, relevance in iterate_problems(replace(c, queries=scaled_queries)):
        along = relevance if c.inner_product else gram.score_queries(scaled_queries[block])
        walk_queries(
            gram.columns, gram.rows, gram.filled, gram.squares, relevance, along, scaled_queries[block].cpu().numpy(),
            query_lengths[block], row_scale, picks[block], cosines[block],
        )  # fmt: skip
    return picks, cosines


@jit_exact
def walk_queries(
    columns: Array, rows: Array, filled: Array, squares: Array, relevance: Array, along: Array, queries: Array,
    query_lengths: Array, row_scale: float, picks: Array, cosines: Array,
) -> None:  # fmt: skip
    """Choose k documents greedily for each of B queries, so that their sum points where the query points.

    Picks, and the cosines of sum and query that they reach, (B, k), are written in place. relevance: (B, n) decides the
    first pick; along: (B, n) products with the queries, (B, d), `query_lengths` long; row_scale: power of two that
    every row is multiplied by, so that no square overflows
    """
    n, k = relevance.shape[1], picks.shape[1]
    scaled_sq, norms, exclusion, scores = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    sum_products, unit_products, vector_sum = np.empty(n), np.empty(n), np.empty(len(columns))
    for item in range(n):
        scaled_sq[item] = squares[item] * row_scale * row_scale
        norms[item] = np.sqrt(scaled_sq[item])
    for query_id in range(len(picks)):
        chosen = picks[query_id]
        inverse_length = 1 / query_lengths[query_id] if query_lengths[query_id] > 0 else 0.0
        # Of the sum of the picks: product with the query's direction, squared length, and total length of its vectors.
        toward, square, travelled = 0.0, 0.0, 0.0
        for item in range(n):
            unit_products[item] = along[query_id, item] * row_scale * inverse_length
        sum_products[:] = 0.0
        exclusion[:] = 0.0
        for rank in range(k):
            # Where vectors nearly cancel, the squared length from inner products has lost its digits: those sums are
            # formed from the vectors.
            least_margin = score_sums(square, toward, travelled, sum_products, scaled_sq, norms, unit_products, scores)
            if least_margin <= 0:
                sum_vectors(columns, chosen[:rank], row_scale, vector_sum)
                for item in range(n):
                    reach = travelled + norms[item]
                    if (square + 2 * sum_products[item]) + scaled_sq[item] <= CANCELLATION_SHARE * reach * reach:
                        exact_cosine = inverse_length * cosine_of_sum(
                            columns, item, row_scale, vector_sum, queries[query_id], NOISE_SHARE * reach
                        )
                        scores[item] = exact_cosine * abs(exact_cosine)
            # exclusion: −∞ for those chosen already, 0 for others.
            if rank:
                pick, _ = find_largest(1.0, exclusion, 1.0, scores)
            else:
                pick, _ = find_largest(1.0, relevance[query_id], 0.0, relevance[query_id])
            chosen[rank], cosines[query_id, rank] = pick, np.copysign(np.sqrt(abs(scores[pick])), scores[pick])
            exclusion[pick] = -np.inf
            toward += unit_products[pick]
            square += 2 * sum_products[pick] + scaled_sq[pick]
            travelled += norms[pick]
            if rank + 1 < k:
                fill_row(columns, rows, filled, pick)
                pick_row = rows[pick]
                for item in range(n):
                    sum_products[item] += pick_row[item] * row_scale * row_scale


@jit_maxima
def score_sums(
    square: float, toward: float, travelled: float, pulled: Array, scaled_sq: Array, norms: Array, unit_products: Array,
    scores: Array,
) -> float:  # fmt: skip
    """Score candidates by the cosine between the query and the sum of the picks with each, as cos·|cos|.

    That orders as the cosine does, without square roots. Returns at most 0 where a sum's vectors cancel so far that its
    score has lost digits. square: squared length of the present sum; toward: its product with the unit query;
    travelled: total length of its vectors; pulled: (n,) its products with the candidates; scaled_sq, norms,
    unit_products: (n,) the candidates' squared lengths, lengths and products with the unit query
    """
    min_margin = np.inf
    for item in range(len(scores)):
        new_square, reach = (square + 2 * pulled[item]) + scaled_sq[item], travelled + norms[item]
        margin = new_square - CANCELLATION_SHARE * reach * reach
        min_margin = margin if margin < min_margin else min_margin
        new_toward = toward + unit_products[item]
        scores[item] = new_toward * abs(new_toward) / (new_square if new_square > 1e-300 else 1e-300)
    return min_margin


@jit_exact
def sum_vectors(columns: Array, vector_ids: Array, row_scale: float, vector_sum: Array) -> None:
    """Compute the sum of some vectors, columns of (d, n), each times `row_scale`, in `vector_sum`, (d,)."""
    vector_sum[:] = 0.0
    for vector_id in vector_ids:
        for axis in range(len(vector_sum)):
            vector_sum[axis] += np.float64(columns[axis, vector_id]) * row_scale


@jit_exact
def cosine_of_sum(
    columns: Array, item: int, row_scale: float, vector_sum: Array, query: Array, noise_length: float
) -> float:
    """Return the product of a query with the unit vector along `vector_sum` plus vector `item`.

    row_scale: factor of that vector, column `item` of (d, n); 0 where that sum is no longer than `noise_length`: its
    vectors cancel, and it has no direction.
    """
    norm_sq, product = 0.0, 0.0
    for axis in range(len(query)):
        component = vector_sum[axis] + np.float64(columns[axis, item]) * row_scale
        norm_sq += component * component
        product += component * query[axis]
    return product / np.sqrt(norm_sq) if np.sqrt(norm_sq) > noise_length else 0.0


def warm() -> None:
    """Compile the Numba loops behind VRSD, or load them from disk, by solving a tiny problem.

    So that a user's first query need not wait for the compiler; the tiny problem's answer is dropped.
    """
    identity = torch.eye(8)
    select_nearest_sums(Candidates(identity, identity[:1], identity[:1], Matrix(identity)), 2)
