"""FISTA for the non-negative elastic net: the NNN paper's decoder, eq. 5, step for step."""

import math
from collections.abc import Iterator
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import CACHED_NUMBERS, CHUNK_NUMBERS, largest_eigenvalue
from engine.solvers.elastic_net.solve import Solutions, certify_weights, take_queries


def iterate_fista(c: Candidates, l1: Tensor, l2: float) -> Iterator[Tensor]:
    """Yield the elastic-net weights, (B, n), after each accelerated gradient step (FISTA), without end.

    l1: (B,) λ₁ of the queries. The step is 1/L with L the largest eigenvalue of UUᵀ plus λ₂, as in the NNN paper's eq.
    5, its iteration. Small corpora are computed in float64, others in the precision of their vectors.
    """
    dtype = torch.float64 if c.vectors.numel() <= CACHED_NUMBERS else c.vectors.dtype
    rows, queries = c.vectors.to(dtype), c.queries.to(dtype)
    if rows.ndim == 2:
        lipschitz = queries.new_full((1, 1), c.matrix.spectral_norm_squared if c.shared else largest_eigenvalue(rows))
    else:
        lipschitz = queries.new_tensor([[largest_eigenvalue(pool)] for pool in rows])
    lipschitz = (lipschitz + l2).clamp_min(torch.finfo(dtype).tiny)
    threshold = l1.to(dtype).unsqueeze(1) / lipschitz
    weights = extrapolated = queries.new_zeros(len(queries), c.count)
    momentum = 1.0
    while True:
        if rows.ndim == 2:
            gradient = (queries - extrapolated @ rows) @ rows.T
        else:
            residuals = queries - torch.bmm(extrapolated.unsqueeze(1), rows).squeeze(1)
            gradient = torch.bmm(rows, residuals.unsqueeze(2)).squeeze(2)
        new_weights = gradient.div_(lipschitz).addcmul_(extrapolated, 1 - l2 / lipschitz).sub_(threshold).clamp_min_(0)
        # Nesterov's momentum sequence t ← (1 + √(1 + 4t²)) / 2, as in the paper.
        next_momentum = (1 + math.sqrt(1 + 4 * momentum * momentum)) / 2
        extrapolated = torch.add(new_weights, new_weights - weights, alpha=(momentum - 1) / next_momentum)
        weights, momentum = new_weights, next_momentum
        yield weights


def run_fista(c: Candidates, l1: Tensor, l2: float, iterations: int) -> Solutions:
    """Compute elastic-net weights by a fixed number of FISTA steps a query, with bounds on their error.

    l1: (B,) λ₁ of the queries; Solutions have residuals and duality gaps.
    """
    step = max(1, 4 * CHUNK_NUMBERS // c.count)
    parts = []
    for start in range(0, c.batch, step):
        block = slice(start, start + step)
        block_candidates = take_queries(c, block)
        # The steps never end: take the last one that counts.
        weights = next(islice(iterate_fista(block_candidates, l1[block], l2), iterations - 1, None))
        # Each step reads the vectors twice: for the residual, and for its products with them.
        parts.append(certify_iterate(block_candidates, weights, l1[block].double().cpu().numpy(), l2, 2 * iterations))
    return Solutions.joined(parts)


def certify_iterate(c: Candidates, weights: Tensor, l1: np.ndarray, l2: float, n_passes: int) -> Solutions:
    """Turn the weights after a FISTA step, (B, n), into Solutions with bounds on their error; l1: (B,) λ₁."""
    members = torch.arange(c.count, device=weights.device).expand_as(weights)
    return certify_weights(c, weights, members, l1, np.full(c.batch, l2), n_passes)
