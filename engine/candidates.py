"""The candidates of a selector: B problems over shared rows, or over one pool for each query.

Scores have the vectors' precision and a bound on their rounding; comparisons within the bound are repeated in float64.
So results do not depend on block size, thread count or batch, and exact duplicates always tie.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, wraps
from typing import TypeVar, cast

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
        has_gradients = torch.is_grad_enabled()
        # Half of what `with torch.no_grad()` costs on every call.
        torch.set_grad_enabled(False)
        try:
            # Each kind of device has its own autocast, which is left only if it is enabled.
            enabled = [device for device in ("cpu", "cuda") if torch.is_autocast_enabled(device)]
            if not enabled:
                return wrapped_function(*args, **kwargs)
            with ExitStack() as disabled_autocast:
                for device in enabled:
                    disabled_autocast.enter_context(torch.autocast(device, enabled=False))
                return wrapped_function(*args, **kwargs)
        finally:
            torch.set_grad_enabled(has_gradients)

    return call_without_autocast  # type: ignore[return-value]


class DeferredRelevance:
    """Base of candidates that compute their relevance when it is first read, if `defer` returned it."""

    relevance: Tensor

    def __post_init__(self) -> None:
        if callable(self.relevance):
            vars(self)["compute_relevance"] = vars(self).pop("relevance")

    def __getattr__(self, name: str) -> Tensor:
        """Compute the relevance; Python calls this for missing attributes only."""
        if name != "relevance":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        relevance: Tensor = vars(self)["compute_relevance"]()
        vars(self)["relevance"] = relevance
        return relevance


@dataclass(frozen=True, eq=False)
class Candidates(DeferredRelevance):
    """The documents that a selector chooses from, for B queries: B selection problems.

    vectors: (n, d) shared by the batch, or (B, m, d), one pool for each query in ascending row order
    relevance: (B, n) or (B, m), or what `defer` returns
    queries: (B, d)
    inner_product: relevance is vectors · queries; otherwise the scorer's numbers are exact by definition
    matrix: the corpus that the vectors are or were taken from
    pool: (B, m) their rows there, None for all
    similarity_scale: relevance is an inner product of vectors, even if of others than these
    n_matches: (B,) the numbers of documents that can be retrieved, None for all: those that a scorer of words matched,
        without the queries' own
    own_rows: (B,) the row of the document that a query is itself, which is not among its candidates; None for none
    scaled_among: all candidates of the problems, of which these are some; a scale of relevance stays that of all
    scale_basis: (B, n) True for the candidates between whose scores a scale of relevance spans, None for all
    """

    vectors: Tensor
    relevance: Tensor
    queries: Tensor
    matrix: Matrix
    inner_product: bool = True
    pool: Tensor | None = None
    _: KW_ONLY
    similarity_scale: bool = True
    n_matches: Tensor | None = None
    own_rows: Tensor | None = None
    scaled_among: "Candidates | None" = None
    scale_basis: Tensor | None = None

    @property
    def batch(self) -> int:
        """The number of problems, one for each query."""
        return self.queries.shape[0]

    @property
    def count(self) -> int:
        """The number of candidates of each problem."""
        return self.vectors.shape[-2]

    @property
    def max_norm(self) -> float:
        """An upper bound on the length of every row."""
        return self.matrix.max_norm

    @property
    def shared(self) -> bool:
        """True if all problems choose from all rows of the matrix, False if each has a pool of its own."""
        return self.vectors is self.matrix.vectors

    @cached_property
    def squares(self) -> Tensor:
        """Squared lengths of the candidates: (n,), or (B, m) where each query has a pool of its own."""
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
        """(B,) bound on |relevance − its exact value|; 0 where relevance is no inner product.

        It is then whatever number the scorer gave, which counts as exact.
        """
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

        Identical vectors may differ in relevance where that is no inner product, and have different row numbers in
        each query's pool where each has its own.
        """
        return self.matrix.duplicate_of if self.inner_product and self.shared else None


def defer(compute_relevance: Callable[[], Tensor]) -> Tensor:
    """Return a stand-in for the relevance of candidates, which they compute when it is first read.

    Selectors that take inner products in float64 never read those of lower precision.
    """
    return cast(Tensor, compute_relevance)


def select_problem(candidates: Candidates, problem_index: int) -> Candidates:
    """Return the candidates of one query of a batch, as a batch of 1."""
    # A slice keeps the first dimension, where a number would drop it.
    return select_problems(candidates, slice(problem_index, problem_index + 1))


def select_problems(candidates: Candidates, problems: slice | Tensor) -> Candidates:
    """Return the candidates of some queries of a batch."""
    vectors = candidates.vectors if candidates.vectors.ndim == 2 else candidates.vectors[problems]
    pool = None if candidates.pool is None else candidates.pool[problems]
    n_matches = None if candidates.n_matches is None else candidates.n_matches[problems]
    own_rows = None if candidates.own_rows is None else candidates.own_rows[problems]
    scaled_among = None if candidates.scaled_among is None else select_problems(candidates.scaled_among, problems)
    scale_basis = None if candidates.scale_basis is None else candidates.scale_basis[problems]
    relevance, queries = candidates.relevance[problems], candidates.queries[problems]
    return replace(
        candidates, vectors=vectors, relevance=relevance, queries=queries, pool=pool, n_matches=n_matches,
        own_rows=own_rows, scaled_among=scaled_among, scale_basis=scale_basis,
    )  # fmt: skip


def get_corpus_rows(candidates: Candidates) -> Tensor:
    """Return (B, n) the candidates' rows in the corpus."""
    if candidates.pool is not None:
        return candidates.pool
    return torch.arange(candidates.count, device=candidates.vectors.device).expand(candidates.batch, -1)


def scale_relevance(candidates: Candidates, scale: str) -> Candidates:
    """Return candidates whose relevance is on a scale on which it can be added to similarities.

    scale: "raw" leaves it; "minmax" maps each query's least and most relevant candidate to 0 and 1; "rank" maps the
    first to 1, the last to 0 and equal ranks between them at equal distances, where equals share the better rank;
    "auto" is "raw" for inner products, "minmax" for all others. A query whose candidates are all equally relevant gets
    0 by "minmax", 1 by "rank". Candidates that do not span the scale, which their scorer moved behind all that do, are
    below 0.
    """
    if scale == "auto":
        scale = "raw" if candidates.similarity_scale else "minmax"
    if scale == "raw" or not candidates.count:
        return candidates
    relevance = _compute_exact_relevance(candidates)
    spanning = candidates if candidates.scaled_among is None else candidates.scaled_among
    basis = _compute_exact_relevance(spanning)
    is_basis = torch.ones_like(basis, dtype=torch.bool) if spanning.scale_basis is None else spanning.scale_basis
    # A pool of another scorer may hold none of those that span the scale.
    is_basis = is_basis | ~is_basis.any(1, keepdim=True)
    if scale == "minmax":
        low = basis.masked_fill(~is_basis, torch.inf).amin(1, keepdim=True)
        high = basis.masked_fill(~is_basis, -torch.inf).amax(1, keepdim=True)
        scaled = (relevance - low) / torch.where(high > low, high - low, 1)
    else:
        # Negated, the larger scores stand before a score in ascending order, and equal ones at its position.
        n_larger = torch.searchsorted((-basis).sort(dim=1).values, -relevance)
        scaled = 1 - n_larger.double() / (is_basis.sum(1, keepdim=True) - 1).clamp_min(1)
    return replace(
        candidates, relevance=scaled.to(candidates.relevance.dtype), inner_product=False, similarity_scale=True
    )


def _compute_exact_relevance(candidates: Candidates) -> Tensor:
    """Return (B, n) float64 relevance of all candidates, which does not depend on the batch."""
    if not candidates.inner_product:
        return candidates.relevance.double()
    problem_index, candidate_index = torch.ones_like(candidates.relevance, dtype=torch.bool).nonzero(as_tuple=True)
    return candidates.exact_relevance(problem_index, candidate_index).view_as(candidates.relevance)
