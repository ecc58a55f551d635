"""dense: the inner product of query and document vectors."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engine.matrix import products
from engine.multi_vector import Parts
from engine.space import QueryBatch, Space
from engine.stages import Scorer, register


@register("dense", title="Dense", paper="dual encoders", equation=r"r_i = u_i\cdot v", cost="n·d", order=0)
@dataclass(frozen=True)
class Dense(Scorer):
    """Inner product in the embedding space; the cosine if rows have length 1."""

    inner_product: ClassVar[bool] = True
    similarity_scale: ClassVar[bool] = True

    def score(self, space: Space, queries: QueryBatch, rows: Tensor | None = None) -> Tensor:
        """Return inner products of queries and documents, (B, n), or (B, m) for given rows, (B, m)."""
        if rows is None:
            return products(space.vectors, queries.vectors)
        return torch.bmm(space.vectors[rows], queries.vectors.unsqueeze(2)).squeeze(2)

    def document_vectors(self, space: Space) -> Parts:
        """Return one vector per document."""
        return Parts(space.vectors, torch.arange(len(space), device=space.device))
