"""What a selector chooses from: B problems over shared rows or over one pool a query.

Scores come in the precision of the vectors, with a bound on their rounding; what it cannot decide is scored again in
float64. So an answer does not depend on block size, thread count or batch, and exact duplicates always tie.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import TypeVar

import torch
from torch import Tensor

from engine.matrix import Matrix, blocks, products, rounding, underflow

F = TypeVar("F", bound=Callable[..., object])


def without_autocast(function: F) -> F:
    """The function without gradients and without autocast, which would compute in less than the bounds assume."""

    @wraps(function)
    def plain(*args: object, **kwargs: object) -> object:
        with torch.no_grad(), ExitStack() as off:
            for device in ("cpu", "cuda"):
                if torch.is_autocast_enabled(device):
                    off.enter_context(torch.autocast(device, enabled=False))
            return function(*args, **kwargs)

    return plain  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class Candidates:
    """B problems.

    vectors: (n, d) shared by the batch, or (B, m, d), one pool a query in ascending row order; relevance: (B, n)
    or (B, m); queries: (B, d); inner_product: relevance is vectors · queries (else the scorer's numbers are taken
    as they are); matrix: the corpus that the vectors are or were taken from; pool: (B, m) their rows there, None for
    all.
    """

    vectors: Tensor
    relevance: Tensor
    queries: Tensor
    matrix: Matrix
    inner_product: bool = True
    pool: Tensor | None = None

    @property
    def batch(self) -> int:
        return self.relevance.shape[0]

    @property
    def count(self) -> int:
        """How many candidates each problem has."""
        return self.relevance.shape[1]

    @property
    def max_norm(self) -> float:
        """No row is longer."""
        return self.matrix.max_norm

    @property
    def shared(self) -> bool:
        """Whether all problems choose from all rows of the matrix."""
        return self.vectors is self.matrix.vectors

    @cached_property
    def squares(self) -> Tensor:
        """(n,) or (B, m) squared lengths of the candidates."""
        lengths = self.matrix.lengths if self.shared else torch.linalg.vector_norm(self.vectors, dim=-1)
        return torch.mul(lengths, lengths)

    def rows(self, batch: Tensor, index: Tensor) -> Tensor:
        """(m, d) the vectors at flat (problem, candidate) pairs."""
        return self.vectors[index] if self.vectors.ndim == 2 else self.vectors[batch, index]

    def products(self, points: Tensor) -> Tensor:
        """(B, n) inner products of every candidate with its problem's point, points (B, d)."""
        if self.vectors.ndim == 2:
            return products(self.vectors, points)
        return torch.bmm(self.vectors, points.unsqueeze(2)).squeeze(2)

    @cached_property
    def relevance_error(self) -> Tensor:
        """(B,) bound on |relevance − its exact value|; 0 where the scorer's numbers define it."""
        if not self.inner_product:
            return self.relevance.new_zeros(self.batch)
        return self.product_error(self.queries)

    @property
    def similarity_error(self) -> float:
        """Bound on |similarity of two candidates − its exact value|."""
        return rounding(self.vectors) * self.max_norm**2 + underflow(self.vectors)

    def product_error(self, points: Tensor) -> Tensor:
        """(B,) bound on |products(points) − exact|, for float64 points (B, d) rounded to the vectors' precision."""
        lengths: Tensor = torch.linalg.vector_norm(points, dim=1)
        return rounding(self.vectors) * self.max_norm * lengths + underflow(self.vectors)

    def exact_relevance(self, batch: Tensor, index: Tensor) -> Tensor:
        """(m,) float64 relevance at flat pairs."""
        if not self.inner_product:
            return self.relevance[batch, index].double()
        pairs = blocks(self.vectors.shape[-1], batch, index)
        parts = [self.rows(b, i).double().mul_(self.queries[b]).sum(1) for b, i in pairs]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    @property
    def duplicate_of(self) -> Tensor | None:
        """(n,) for each shared row the lowest row with the same bytes; None where that decides nothing."""
        return self.matrix.duplicate_of if self.inner_product and self.shared else None


def problem(c: Candidates, b: int) -> Candidates:
    """One of the problems alone."""
    own = slice(b, b + 1)
    vectors = c.vectors if c.vectors.ndim == 2 else c.vectors[own]
    pool = None if c.pool is None else c.pool[own]
    return replace(c, vectors=vectors, relevance=c.relevance[own], queries=c.queries[own], pool=pool)
