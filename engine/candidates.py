"""The candidates of a selector: B problems over shared rows, or over one pool for each query.

Scores have the vectors' precision and a bound on their rounding; comparisons within the bound are repeated in float64.
So results do not depend on block size, thread count or batch, and exact duplicates always tie.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import TypeVar

import torch
from torch import Tensor

from engine.matrix import Matrix, blocks, products, rounding, underflow

WrappedFunction = TypeVar("WrappedFunction", bound=Callable[..., object])


def without_autocast(wrapped_function: WrappedFunction) -> WrappedFunction:
    """Decorate a function to run without gradients and without PyTorch's autocast.

    Autocast would compute in a shorter format, in which the error bounds of rankings do not hold.
    """

    @wraps(wrapped_function)
    def call_without_autocast(*args: object, **kwargs: object) -> object:
        """Call the wrapped function in full precision and without gradients."""
        with torch.no_grad(), ExitStack() as disabled_autocast:
            # Each kind of device has its own autocast; entered only if enabled, as a context costs time on every call.
            for device in ("cpu", "cuda"):
                if torch.is_autocast_enabled(device):
                    disabled_autocast.enter_context(torch.autocast(device, enabled=False))
            return wrapped_function(*args, **kwargs)

    return call_without_autocast  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class Candidates:
    """The documents that a selector chooses from, for B queries: B selection problems.

    vectors: (n, d) shared by the batch, or (B, m, d), one pool for each query in ascending row order
    relevance: (B, n) or (B, m)
    queries: (B, d)
    inner_product: relevance is vectors · queries; otherwise the scorer's numbers are exact by definition
    matrix: the corpus that the vectors are or were taken from
    pool: (B, m) their rows there, None for all
    """

    vectors: Tensor
    relevance: Tensor
    queries: Tensor
    matrix: Matrix
    inner_product: bool = True
    pool: Tensor | None = None

    @property
    def batch(self) -> int:
        """The number of problems, one for each query."""
        return self.relevance.shape[0]

    @property
    def count(self) -> int:
        """The number of candidates of each problem."""
        return self.relevance.shape[1]

    @property
    def max_norm(self) -> float:
        """An upper bound on the length of every row."""
        return self.matrix.max_norm

    @property
    def shared(self) -> bool:
        """True if all problems choose from all rows of the matrix."""
        return self.vectors is self.matrix.vectors

    @cached_property
    def squares(self) -> Tensor:
        """(n,) or (B, m) squared lengths of the candidates."""
        lengths = self.matrix.lengths if self.shared else torch.linalg.vector_norm(self.vectors, dim=-1)
        return torch.mul(lengths, lengths)

    def rows(self, problem_index: Tensor, candidate_index: Tensor) -> Tensor:
        """Return (m, d) vectors of single candidates, given as pairs of problem and candidate."""
        return self.vectors[candidate_index] if self.vectors.ndim == 2 else self.vectors[problem_index, candidate_index]

    def products(self, points: Tensor) -> Tensor:
        """Return (B, n) inner products of every candidate with its problem's point, points (B, d)."""
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
        """A bound on |similarity of two candidates − its exact value|."""
        return rounding(self.vectors) * self.max_norm**2 + underflow(self.vectors)

    def product_error(self, points: Tensor) -> Tensor:
        """Return (B,) bounds on the rounding of products between candidates and float64 points, (B, d).

        It includes the rounding of the points to the vectors' precision.
        """
        # `rounding` counts d + 4 roundings where a sum of d products has d: the four to spare cover the points' own.
        lengths: Tensor = torch.linalg.vector_norm(points, dim=1)
        return rounding(self.vectors) * self.max_norm * lengths + underflow(self.vectors)

    def exact_relevance(self, problem_index: Tensor, candidate_index: Tensor) -> Tensor:
        """Return (m,) float64 relevance of single candidates, given as pairs of problem and candidate."""
        # Pairs are converted to float64 in blocks, so that large batches of near-ties fit in memory.
        if not self.inner_product:
            return self.relevance[problem_index, candidate_index].double()
        pairs = blocks(self.vectors.shape[-1], problem_index, candidate_index)
        parts = [self.rows(b, i).double().mul_(self.queries[b]).sum(1) for b, i in pairs]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    @property
    def duplicate_of(self) -> Tensor | None:
        """(n,) for each row the lowest row with an identical vector; None where identical ones need not tie.

        They need not where relevance is no inner product or each query has its own pool.
        """
        return self.matrix.duplicate_of if self.inner_product and self.shared else None


def select_problem(candidates: Candidates, problem_index: int) -> Candidates:
    """Return the candidates of one query of a batch, as a batch of 1."""
    # A slice keeps the first dimension, where a number would drop it.
    one_problem = slice(problem_index, problem_index + 1)
    vectors = candidates.vectors if candidates.vectors.ndim == 2 else candidates.vectors[one_problem]
    pool = None if candidates.pool is None else candidates.pool[one_problem]
    relevance, queries = candidates.relevance[one_problem], candidates.queries[one_problem]
    return replace(candidates, vectors=vectors, relevance=relevance, queries=queries, pool=pool)
