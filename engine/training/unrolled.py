"""Unrolled FISTA: elastic-net weights after T steps, with a gradient through each. NNN paper, §3.2 and eq. 5."""

import math

import torch
from torch import Tensor
from torch.nn import functional

POWER_STEPS = 30
MARGIN = 1.01
"""Factor over the estimated largest eigenvalue, as an underestimate breaks FISTA."""


def unrolled(rows: Tensor, queries: Tensor, l1: float, l2: float, iterations: int) -> Tensor:
    """(B, n) weights, differentiable in rows (n, d) and queries (B, d); memory grows with `iterations`."""
    bound = largest(rows) + l2
    score = queries @ rows.T
    # The cheaper of the two ways to apply UUᵀ: for the graph of one batch the same numbers.
    gram = rows @ rows.T if len(rows) < 2 * rows.shape[1] else None
    weight = ahead = torch.zeros_like(score)
    momentum = 1.0
    for _ in range(iterations):
        fitted = ahead @ gram if gram is not None else (ahead @ rows) @ rows.T
        new = functional.relu((1 - l2 / bound) * ahead + (score - fitted - l1) / bound)
        next_momentum = (1 + math.sqrt(1 + 4 * momentum * momentum)) / 2
        ahead = new + ((momentum - 1) / next_momentum) * (new - weight)
        weight, momentum = new, next_momentum
    return weight


@torch.no_grad()
def largest(rows: Tensor) -> float:
    """The largest eigenvalue of UUᵀ by power iteration from the mean row, times MARGIN; no gradient."""
    rows = rows.detach()
    point = rows.mean(0) + 1e-3
    size = 1.0
    for _ in range(POWER_STEPS):
        point = rows.T @ (rows @ (point / torch.linalg.vector_norm(point).clamp_min(1e-30)))
        size = float(torch.linalg.vector_norm(point))
    return MARGIN * size
