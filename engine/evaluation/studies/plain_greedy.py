"""The greedy selectors as their papers print them, one pass over all documents a pick: what certified picks save.

Every function takes (n, d) rows, one query (d,), k and the weight of relevance, and returns the k rows that it picks;
the relevance is computed within.
"""

from collections.abc import Callable

import torch
from torch import Tensor


def greedy_mmr(rows: Tensor, query: Tensor, k: int, weight: float) -> Tensor:
    """Carbonell & Goldstein 1998 with a running maximum: k·n, where the VRSD paper counts k·n² (§3.3)."""
    relevance = rows @ query
    picks = torch.empty(k, dtype=torch.int64, device=rows.device)
    picks[0] = relevance.argmax()
    weighted = weight * relevance
    nearest = torch.full_like(relevance, -torch.inf)
    for step in range(1, k):
        last = picks[step - 1]
        torch.maximum(nearest, rows @ rows[last], out=nearest)
        weighted[last] = -torch.inf
        picks[step] = torch.sub(weighted, nearest, alpha=1 - weight).argmax()
    return picks


def greedy_dpp(rows: Tensor, query: Tensor, k: int, weight: float) -> Tensor:
    """Chen et al. 2018, Algorithm 1: incremental Cholesky rows, k × n of them; at weight 1 the most relevant.

    Quality is divided by its largest value, which changes no pick and keeps it from overflowing near weight 1.
    """
    relevance = rows @ query
    if weight == 1:
        return relevance.topk(k).indices
    quality = torch.exp((relevance - relevance.max()) * (weight / (2 * (1 - weight))))
    left = quality * quality * rows.square().sum(1)
    factor = torch.empty(k, len(rows), device=rows.device, dtype=rows.dtype)
    picks = torch.empty(k, dtype=torch.int64, device=rows.device)
    for step in range(k):
        picks[step] = last = left.argmax()
        if step == k - 1:
            break
        entry = quality * (rows @ rows[last]) * quality[last]
        if step:
            entry -= factor[:step].T @ factor[:step, last]
        entry /= left[last].clamp_min(1e-12).sqrt()
        factor[step] = entry
        left -= entry * entry
        left[picks[: step + 1]] = -torch.inf
    return picks


def greedy_max_sum(rows: Tensor, query: Tensor, k: int, weight: float) -> Tensor:
    """Gollapudi & Sharma 2009 on the objective of the CCBQP paper, eq. 2, without swaps."""
    linear = weight * max(k - 1, 1) * (rows @ query)
    picks = torch.empty(k, dtype=torch.int64, device=rows.device)
    picks[0] = linear.argmax() if weight else (rows @ query).argmax()
    for step in range(1, k):
        last = picks[step - 1]
        linear.sub_(rows @ rows[last], alpha=2 * (1 - weight))
        linear[last] = -torch.inf
        picks[step] = linear.argmax()
    return picks


PLAIN: dict[str, Callable[[Tensor, Tensor, int, float], Tensor]] = {
    "mmr": greedy_mmr,
    "dpp": greedy_dpp,
    "max_sum": greedy_max_sum,
}
"""Selectors that have one."""
