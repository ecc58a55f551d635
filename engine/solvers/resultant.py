"""Sums of vectors that point where a query points, greedily, compiled on the rows of a Gram matrix."""

import math
from dataclasses import replace

import numpy as np
import torch

from engine.candidates import Candidates
from engine.matrix import Matrix
from engine.solvers.gram import make_row, problems
from engine.solvers.jit import exactly, maxima
from engine.solvers.largest import largest

Array = np.ndarray

SHORT = 1e-5
"""A sum's squared length below this share of its terms' squared total has lost digits: it is made from the vectors."""
NOISE = 1e-14
"""What is left of rows that cancel, relative to their lengths' total: it points nowhere."""


def nearest_sums(c: Candidates, k: int) -> tuple[Array, Array]:
    """(B, k) the most relevant, then whatever brings the sum closest to the query's direction, and the cosines."""
    index, cosine = np.empty((c.batch, k), np.int64), np.empty((c.batch, k))
    # Powers of two round nothing: no square overflows, and no product with a tiny query is lost.
    scale = math.ldexp(1.0, -math.frexp(max(c.max_norm, 2.0**-100))[1])
    points = c.queries.double()
    exponent = torch.frexp(points.abs().amax(1, keepdim=True)).exponent
    points = torch.ldexp(points, -exponent)
    lengths = torch.linalg.vector_norm(points, dim=1).cpu().numpy()
    # Scaled queries choose the same first picks.
    for own, gram, relevance in problems(replace(c, queries=points)):
        along = relevance if c.inner_product else gram.relevance(points[own])
        walks(
            gram.columns, gram.rows, gram.made, gram.squares, relevance, along, points[own].cpu().numpy(), lengths[own],
            scale, index[own], cosine[own],
        )  # fmt: skip
    return index, cosine


@exactly
def walks(
    columns: Array, rows: Array, made: Array, squares: Array, relevance: Array, along: Array, points: Array,
    lengths: Array, scale: float, index: Array, cosine: Array,
) -> None:  # fmt: skip
    """The picks of B problems and the cosines that they reach, (B, k).

    relevance: (B, n) decides the first pick; along: (B, n) products with the queries `points`, (B, d), `lengths` long;
    scale: every row counts times this
    """
    n, k = relevance.shape[1], index.shape[1]
    own, length, out, score = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    pulled, towards, total = np.empty(n), np.empty(n), np.empty(len(columns))
    for i in range(n):
        own[i] = squares[i] * scale * scale
        length[i] = np.sqrt(own[i])
    for b in range(len(index)):
        chosen = index[b]
        inverse = 1 / lengths[b] if lengths[b] > 0 else 0.0
        toward, square, travelled = 0.0, 0.0, 0.0
        for i in range(n):
            towards[i] = along[b, i] * scale * inverse
        pulled[:] = 0.0
        out[:] = 0.0
        for step in range(k):
            if race(square, toward, travelled, pulled, own, length, towards, score) <= 0:
                sum_of(columns, chosen[:step], scale, total)
                for i in range(n):
                    reach = travelled + length[i]
                    if (square + 2 * pulled[i]) + own[i] <= SHORT * reach * reach:
                        own_cosine = inverse * along_sum(columns, i, scale, total, points[b], NOISE * reach)
                        score[i] = own_cosine * abs(own_cosine)
            pick = largest(out, score, 1.0)[0] if step else largest(relevance[b], relevance[b], 0.0)[0]
            chosen[step], cosine[b, step] = pick, np.copysign(np.sqrt(abs(score[pick])), score[pick])
            out[pick] = -np.inf
            toward += towards[pick]
            square += 2 * pulled[pick] + own[pick]
            travelled += length[pick]
            if step + 1 < k:
                make_row(columns, rows, made, pick)
                row = rows[pick]
                for i in range(n):
                    pulled[i] += row[i] * scale * scale


@maxima
def race(
    square: float, toward: float, travelled: float, pulled: Array, own: Array, length: Array, towards: Array,
    score: Array,
) -> float:  # fmt: skip
    """cos·|cos| of the query and each sum of one vector more, into `score`; at most 0 where one has lost digits.

    A sum of squared length `square`, `toward` the query, of vectors `travelled` long in all; pulled: (n,) its products
    with the vectors, whose squares, lengths and ways toward the query are own, length and towards
    """
    least = np.inf
    for i in range(len(score)):
        y, reach = (square + 2 * pulled[i]) + own[i], travelled + length[i]
        margin = y - SHORT * reach * reach
        least = margin if margin < least else least
        along = toward + towards[i]
        score[i] = along * abs(along) / (y if y > 1e-300 else 1e-300)
    return least


@exactly
def sum_of(columns: Array, chosen: Array, scale: float, out: Array) -> None:
    """The sum of some vectors, each times `scale`."""
    out[:] = 0.0
    for i in chosen:
        for j in range(len(out)):
            out[j] += columns[j, i] * scale


@exactly
def along_sum(columns: Array, i: int, scale: float, others: Array, point: Array, noise: float) -> float:
    """How far a point lies along the direction of vector i and a sum; 0 where these are no longer than their noise."""
    square, product = 0.0, 0.0
    for j in range(len(point)):
        total = others[j] + columns[j, i] * scale
        square += total * total
        product += total * point[j]
    return product / np.sqrt(square) if np.sqrt(square) > noise else 0.0


def warm() -> None:
    """Compile the loops, or load what was compiled."""
    rows = torch.eye(8)
    nearest_sums(Candidates(rows, rows[:1], rows[:1], Matrix(rows)), 2)
