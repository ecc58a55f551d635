"""FISTA for the non-negative elastic net: the NNN paper's decoder, eq. 5, step for step."""

import math
from collections.abc import Iterator
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import CACHED_NUMBERS, CHUNK_NUMBERS, largest_eigenvalue
from engine.solvers.elastic_net.solve import Solutions, only, with_certificate


def iterates(c: Candidates, l1: Tensor, l2: float) -> Iterator[Tensor]:
    """The weights after one step, two, and so on without end, (B, n); l1: (B,).

    L is the largest eigenvalue of UUᵀ plus λ₂. Small corpora are computed in float64, others as their vectors are.
    """
    kind = torch.float64 if c.vectors.numel() <= CACHED_NUMBERS else c.vectors.dtype
    rows, query = c.vectors.to(kind), c.queries.to(kind)
    if rows.ndim == 2:
        bound = query.new_full((1, 1), c.matrix.spectral_norm_squared if c.shared else largest_eigenvalue(rows))
    else:
        bound = query.new_tensor([[largest_eigenvalue(pool)] for pool in rows])
    bound = (bound + l2).clamp_min(torch.finfo(kind).tiny)
    least = l1.to(kind).unsqueeze(1) / bound
    weight = ahead = query.new_zeros(len(query), c.count)
    pace = 1.0
    while True:
        if rows.ndim == 2:
            step = (query - ahead @ rows) @ rows.T
        else:
            left = query - torch.bmm(ahead.unsqueeze(1), rows).squeeze(1)
            step = torch.bmm(rows, left.unsqueeze(2)).squeeze(2)
        new = step.div_(bound).addcmul_(ahead, 1 - l2 / bound).sub_(least).clamp_min_(0)
        next_pace = (1 + math.sqrt(1 + 4 * pace * pace)) / 2
        ahead = torch.add(new, new - weight, alpha=(pace - 1) / next_pace)
        weight, pace = new, next_pace
        yield weight


def fista(c: Candidates, l1: Tensor, l2: float, iterations: int) -> Solutions:
    """What `iterations` steps make of each query's weights, with the residual and the gap that are left; l1: (B,)."""
    size = max(1, 4 * CHUNK_NUMBERS // c.count)
    parts = []
    for start in range(0, c.batch, size):
        block = slice(start, start + size)
        part = only(c, block)
        weights = next(islice(iterates(part, l1[block], l2), iterations - 1, None))
        parts.append(as_solutions(part, weights, l1[block].double().cpu().numpy(), l2, 2 * iterations))
    return Solutions.joined(parts)


def as_solutions(c: Candidates, weights: Tensor, l1: np.ndarray, l2: float, passes: int) -> Solutions:
    """Weights (B, n) with what proves or refutes them."""
    members = torch.arange(c.count, device=weights.device).expand_as(weights)
    return with_certificate(c, weights, members, l1, np.full(c.batch, l2), passes)
