"""truncated: ⟨Aq, Ad⟩ in fewer dimensions (first: Kusupati et al. 2022; pca: Pearson 1901)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engine.matrix import Matrix, blocks, scatter, steady_products
from engine.params import Choice, Flag, Whole, declare
from engine.space import QueryBatch, Space
from engine.stages import Scorer, register

#: Directions with a smaller share of the largest variance are rounding errors.
SPREAD_TOLERANCE = 1e-10


@register(
    "truncated",
    title="Fewer dimensions",
    paper="Kusupati et al. 2022",
    equation=r"r_i = (A u_i)\cdot(A v)",
    cost="n·k",
    order=50,
)
@dataclass(frozen=True)
class Truncated(Scorer):
    """Inner product of the first k dimensions, or of the k principal ones."""

    similarity_scale: ClassVar[bool] = True

    dimension: int = declare(
        Whole(128, "k", 1, comfortable=(8, 512)), "Number of dimensions; all, if the vectors have no more."
    )
    method: str = declare(
        Choice("first", "A", ("first", "pca"), title="kept dimensions"),
        "first: the first k, for encoders trained so (Matryoshka); pca: the corpus's k principal axes.",
    )
    renormalise: bool = declare(
        Flag(True, "renormalise", title="scale to length 1"),
        "Scale the shortened vectors to length 1: cosines are compared.",
    )

    @property
    def corpus_wide(self) -> bool:
        return self.method == "pca"

    def prepare(self, space: Space) -> Tensor:
        return space.derived(("truncated", self), lambda: self._shorten(space, space.vectors))

    def score(self, space: Space, queries: QueryBatch, rows: Tensor | None = None) -> Tensor:
        """Return inner products of shortened queries and documents, (B, n), or (B, m) for given rows, (B, m).

        With all d dimensions and no scaling to length 1, it is the score of `dense`.
        """
        short_queries = self._shorten(space, queries.vectors)
        return steady_products(self.prepare(space), short_queries, rows).to(space.vectors.dtype)

    def _shorten(self, space: Space, vectors: Tensor) -> Tensor:
        """Return vectors, (n, d), in fewer dimensions, (n, k), scaled to length 1 if `renormalise` is on.

        k is the number of dimensions: the first k dimensions, or the k principal axes of the corpus; a zero row stays
        zero.
        """
        n_dimensions = min(self.dimension, vectors.shape[1])
        if self.method == "first":
            short_vectors = vectors[:, :n_dimensions]
        else:
            principal = space.derived(("truncated", "axes"), lambda: principal_axes(space.matrix))[:, :n_dimensions]
            # The mean is not subtracted: that would add the same number to all of a query's scores.
            vector_blocks = blocks(vectors.shape[1], vectors)
            short_vectors = torch.cat([(block.double() @ principal).to(vectors.dtype) for (block,) in vector_blocks])
        if self.renormalise:
            return torch.nn.functional.normalize(short_vectors, dim=1, eps=1e-30)
        return short_vectors.contiguous()


def principal_axes(matrix: Matrix) -> Tensor:
    """Return the principal axes of a matrix's rows, (d, at most d) unit columns, largest spread first.

    They are the eigenvectors of the rows' covariance. If few rows do not span the space, only the mean's direction
    among the remaining axes matters, and it comes last.
    """
    mean = matrix.mean
    eigenvalues, axes = torch.linalg.eigh(scatter(matrix.vectors, mean))
    axes = axes[:, eigenvalues > SPREAD_TOLERANCE * eigenvalues[-1]].flip(1)
    # Scores take uncentred products, to which the mean adds: its part outside the axes becomes a last axis.
    remainder = mean - axes @ (axes.T @ mean)
    if axes.shape[1] < len(mean) and remainder.norm() > SPREAD_TOLERANCE * mean.norm():
        axes = torch.cat([axes, (remainder / remainder.norm()).unsqueeze(1)], dim=1)
    if not axes.shape[1]:
        axes = torch.eye(len(mean), 1, dtype=torch.float64, device=axes.device)  # all rows are zero
    # An eigenvector has no sign of its own: its largest entry is made positive, so that the result is reproducible.
    largest_entries = axes.gather(0, axes.abs().argmax(0, keepdim=True))
    signed_axes: Tensor = axes * torch.where(largest_entries < 0, -1.0, 1.0)
    return signed_axes
