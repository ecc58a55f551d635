"""truncated: ⟨Aq, Ad⟩, fewer dimensions of the same vectors; Kusupati et al. 2022 (first), Pearson 1901 (pca)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.matrix import Matrix, blocks, scatter, steady_products
from engine.params import Choice, Flag, Whole, declare
from engine.space import QueryBatch, Space
from engine.stages import Scorer, register

SPANNED = 1e-10
"""Directions with less of the rows' spread, of the largest, are rounding."""


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

    dimension: int = declare(
        Whole(128, "k", 1, comfortable=(8, 512)), "How many dimensions are kept; all, where the vectors have no more."
    )
    method: str = declare(
        Choice("first", "A", ("first", "pca")),
        "first: the first k, for encoders trained so (Matryoshka); pca: the corpus's k principal axes.",
    )
    renormalise: bool = declare(
        Flag(True, "renormalise"), "Scale the shortened vectors to length 1: cosines are compared."
    )

    @property
    def corpus_wide(self) -> bool:
        return self.method == "pca"

    def prepare(self, space: Space) -> Tensor:
        return space.derived(("truncated", self), lambda: self._shortened(space, space.vectors))

    def score(self, space: Space, queries: QueryBatch, rows: Tensor | None = None) -> Tensor:
        """(B, n), or (B, m) for given rows; k = d without scaling gives the dense score."""
        points = self._shortened(space, queries.vectors)
        return steady_products(self.prepare(space), points, rows).to(space.vectors.dtype)

    def _shortened(self, space: Space, vectors: Tensor) -> Tensor:
        """(n, k) the vectors in fewer dimensions; a zero row stays so."""
        size = min(self.dimension, vectors.shape[1])
        if self.method == "first":
            short = vectors[:, :size]
        else:
            axes = space.derived(("truncated", "axes"), lambda: principal_axes(space.matrix))[:, :size]
            # The mean is not taken off: that would add the same to all of a query's scores.
            parts = [(block.double() @ axes).to(vectors.dtype) for (block,) in blocks(vectors.shape[1], vectors)]
            short = torch.cat(parts)
        return torch.nn.functional.normalize(short, dim=1, eps=1e-30) if self.renormalise else short.contiguous()


def principal_axes(matrix: Matrix) -> Tensor:
    """(d, at most d) float64 unit columns: the eigenvectors of the rows' covariance, the largest eigenvalue first.

    Few rows do not span the space: what they leave is any axes whatever, of which only the mean's direction matters and
    stands last. Each one's largest entry is positive, so that a sign is no accident.
    """
    mean = matrix.mean
    values, axes = torch.linalg.eigh(scatter(matrix.vectors, mean))
    axes = axes[:, values > SPANNED * values[-1]].flip(1)
    left = mean - axes @ (axes.T @ mean)
    if axes.shape[1] < len(mean) and left.norm() > SPANNED * mean.norm():
        axes = torch.cat([axes, (left / left.norm()).unsqueeze(1)], dim=1)
    if not axes.shape[1]:
        axes = torch.eye(len(mean), 1, dtype=torch.float64, device=axes.device)  # all rows are zero
    largest = axes.gather(0, axes.abs().argmax(0, keepdim=True))
    signed: Tensor = axes * torch.where(largest < 0, -1.0, 1.0)
    return signed
