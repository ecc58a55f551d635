"""Inner products in float64 that come out the same to the last bit in whatever company they are made.

Each is a sum over the dimensions in one fixed order, four at a time, and a lane of the processor holds one product: no
blocking, batch or thread count changes a bit, identical rows have identical products, and s_ij = s_ji.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import GRAM_ROWS
from engine.solvers.jit import exactly
from engine.values import Ranking

STRIP = 512
"""So many rows' sums stay in the nearest cache while the dimensions pass."""


@exactly
def products(columns: np.ndarray, points: np.ndarray, out: np.ndarray) -> None:
    """out (p, n) = points (p, d) · columns (d, n)."""
    d, n = columns.shape
    out[:] = 0.0
    for start in range(0, n, STRIP):
        for j in range(0, d - 3, 4):
            c0, c1 = columns[j, start : start + STRIP], columns[j + 1, start : start + STRIP]
            c2, c3 = columns[j + 2, start : start + STRIP], columns[j + 3, start : start + STRIP]
            for p in range(len(points)):
                x0, x1, x2, x3 = points[p, j], points[p, j + 1], points[p, j + 2], points[p, j + 3]
                total = out[p, start : start + STRIP]
                for i in range(len(total)):
                    total[i] += (x0 * c0[i] + x1 * c1[i]) + (x2 * c2[i] + x3 * c3[i])
        for j in range(d - d % 4, d):
            c0 = columns[j, start : start + STRIP]
            for p in range(len(points)):
                x0, total = points[p, j], out[p, start : start + STRIP]
                for i in range(len(total)):
                    total[i] += x0 * c0[i]


@exactly
def make_row(columns: np.ndarray, rows: np.ndarray, made: np.ndarray, i: int) -> None:
    """Make row i of the Gram matrix, unless it is there."""
    if not made[i]:
        # Another thread may make it too: sums on the way must not be seen where it is read.
        row = np.empty((1, len(made)))
        products(columns, columns[:, i].copy().reshape(1, -1), row)
        for j in range(len(made)):
            rows[i, j] = row[0, j]
        made[i] = True


class Gram:
    """The (n, n) inner products of some vectors, each row made when a compiled loop first asks for it.

    columns: (d, n) the vectors; rows: (n, n), of which `made`, (n,), says what is there; squares: (n,) the diagonal
    """

    def __init__(self, vectors: Tensor) -> None:
        # Pages of zeros cost memory when they are first written to.
        self.columns = vectors.cpu().T.contiguous().double().numpy()
        n = self.columns.shape[1]
        self.rows, self.made = np.zeros((n, n)), np.zeros(n, np.bool_)
        self.squares = squares(self.columns)

    @cached_property
    def centre(self) -> np.ndarray:
        """(n,) inner products with the mean vector."""
        out = np.empty(self.columns.shape[1])
        products(self.columns, self.columns.mean(1)[None], out[None])
        return out

    def relevance(self, queries: Tensor) -> np.ndarray:
        """(B, n) inner products with queries, (B, d)."""
        out = np.empty((len(queries), self.columns.shape[1]))
        products(self.columns, queries.double().cpu().numpy(), out)
        return out

    def whole(self) -> np.ndarray:
        """(n, n) all inner products."""
        missing = np.flatnonzero(~self.made)
        if len(missing):
            self.rows[missing] = self.relevance(torch.from_numpy(self.columns.T[missing]))
            self.made[:] = True
        return self.rows


@exactly
def squares(columns: np.ndarray) -> np.ndarray:
    """(n,) squared lengths, summed as `products` sums."""
    d, n = columns.shape
    out = np.zeros(n)
    for j in range(0, d - 3, 4):
        c0, c1, c2, c3 = columns[j], columns[j + 1], columns[j + 2], columns[j + 3]
        for i in range(n):
            x0, x1, x2, x3 = np.float64(c0[i]), np.float64(c1[i]), np.float64(c2[i]), np.float64(c3[i])
            out[i] += (x0 * x0 + x1 * x1) + (x2 * x2 + x3 * x3)
    for j in range(d - d % 4, d):
        c0 = columns[j]
        for i in range(n):
            out[i] += np.float64(c0[i]) * c0[i]
    return out


def corpus_gram(c: Candidates) -> Gram | None:
    """The Gram matrix that all queries over a small corpus share; None for pools and for more than GRAM_ROWS rows."""
    return c.matrix.derive("gram", lambda: Gram(c.vectors)) if c.shared and c.count <= GRAM_ROWS else None


def relevance(c: Candidates, gram: Gram) -> np.ndarray:
    """(B, n) float64 relevance of all candidates: the inner product made anew, or the scorer's own numbers."""
    return gram.relevance(c.queries) if c.inner_product else c.relevance.double().cpu().numpy()


def problems(c: Candidates) -> Iterator[tuple[slice, Gram, np.ndarray]]:
    """The Gram matrix of each pool, or the one that all problems share: whose it is, and their (b, n) relevance."""
    gram = corpus_gram(c)
    if gram is not None:
        yield slice(0, c.batch), gram, relevance(c, gram)
        return
    for b in range(c.batch):
        own = slice(b, b + 1)
        gram = Gram(c.vectors if c.shared else c.vectors[b])
        yield own, gram, relevance(replace(c, relevance=c.relevance[own], queries=c.queries[own]), gram)


def ranking(c: Candidates, index: np.ndarray, gain: np.ndarray, info: tuple[Mapping[str, Any], ...]) -> Ranking:
    """A compiled loop's sets, (B, k), where the candidates are."""
    device = c.relevance.device
    return Ranking(torch.tensor(index, device=device), torch.tensor(gain, device=device), info)
