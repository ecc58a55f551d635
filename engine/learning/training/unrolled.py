"""FISTA as a graph: the weights after T steps, with a gradient through each of them. NNN paper, §3.2 and eq. 5."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from engine.learning.training.minimisers import number

POWER_STEPS = 30
ABOVE = 1.01
"""The step size goes by the largest eigenvalue times this, as an underestimate breaks FISTA."""


def unrolled(rows: Tensor, queries: Tensor, l1: Tensor | float, l2: Tensor | float, iterations: int) -> Tensor:
    """(B, n) weights, differentiable in rows (n, d), queries (B, d), λ₁ and λ₂; memory grows with `iterations`."""
    bound = largest(rows) + number(l2)
    score = queries @ rows.T
    # The cheaper of the two ways to apply UUᵀ: for the graph of one batch the same numbers.
    gram = rows @ rows.T if len(rows) < 2 * rows.shape[1] else None
    weight = ahead = torch.zeros_like(score)
    pace = 1.0
    for _ in range(iterations):
        met = ahead @ gram if gram is not None else (ahead @ rows) @ rows.T
        new = functional.relu((1 - l2 / bound) * ahead + (score - met - l1) / bound)
        next_pace = (1 + math.sqrt(1 + 4 * pace * pace)) / 2
        ahead = new + ((pace - 1) / next_pace) * (new - weight)
        weight, pace = new, next_pace
    return weight


@torch.no_grad()
def largest(rows: Tensor) -> float:
    """The largest eigenvalue of UUᵀ by power iteration from the mean row, a hundredth more; no gradient."""
    rows = rows.detach()
    point = rows.mean(0) + 1e-3
    size = 1.0
    for _ in range(POWER_STEPS):
        point = rows.T @ (rows @ (point / torch.linalg.vector_norm(point).clamp_min(1e-30)))
        size = float(torch.linalg.vector_norm(point))
    return ABOVE * size
