"""Inner products that do not show the batch they were made in: summed in float64, rounded to float32."""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK_NUMBERS = 1 << 22
"""How many float64 numbers are held at a time (32 MiB)."""


def steady_products(rows: Tensor, points: Tensor, index: Tensor | None = None) -> Tensor:
    """(B, n) float32 inner products of rows, (n, d), with points, (B, d); or (B, m) with each one's own, index (B, m).

    For scores that are no inner product of a space's vectors, which nothing settles later.
    """
    step = max(1, BLOCK_NUMBERS // rows.shape[1])
    points = points.double()
    if index is None:
        return torch.cat([(points @ block.double().T).float() for block in rows.split(step)], dim=1)
    step = max(1, step // max(1, index.shape[1]))
    return torch.cat(
        [
            torch.bmm(rows[own].double(), point.unsqueeze(2)).squeeze(2).float()
            for own, point in zip(index.split(step), points.split(step), strict=True)
        ]
    )
