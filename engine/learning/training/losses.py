"""What training makes small: InfoNCE for inner products, a margin between sets of weights for elastic nets."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.learning.training.minimisers import Solved

TAU = 0.1
GAMMA = 1.5
NEVER = -1e4
"""In place of a score that does not count: e to it is 0, and unlike −∞ it leaves no NaN in a gradient."""


def info_nce(score: Tensor, relevant: Tensor, tau: float = TAU) -> Tensor:
    """(B,) −log of a relevant document's share against the irrelevant ones, in the mean over the relevant ones.

    score: (B, m) inner products; relevant: (B, m), at least one a query. The query's other relevant documents are no
    negatives: NNN paper, eq. 21, with these masked out.
    """
    score = score / tau
    against = torch.logsumexp(score.masked_fill(relevant, NEVER / tau), dim=1, keepdim=True)
    surprise = (torch.logaddexp(score, against) - score).masked_fill(~relevant, 0.0)
    return surprise.sum(1) / relevant.sum(1)


def set_margin(
    weights: Tensor,
    relevant: Tensor,
    beyond: int = 0,
    most: int | None = None,
    gamma: float = GAMMA,
    tau: float = TAU,
) -> Tensor:
    """(B,) [γτ log Σ_irrelevant e^{w/τ} + τ log Σ_relevant e^{−w/τ}]₊: NNN paper, eq. 6.

    weights: (B, m); relevant: (B, m); beyond: so many further irrelevant documents have the weight 0; most: only the so
    many largest weights of irrelevant documents, zeros among them, None for all as in the paper.
    """
    irrelevant = weights.shape[1] + beyond - relevant.sum(1)
    kept = irrelevant if most is None else irrelevant.clamp_max(most)
    largest = weights.masked_fill(relevant, NEVER)
    if most is not None and most < weights.shape[1]:
        largest = largest.topk(most, dim=1).values
    # The zeros of documents that are not listed here count too.
    zeros = (kept - (largest > NEVER).sum(1)).to(weights.dtype)
    listed = torch.cat([largest / tau, zeros.log().unsqueeze(1)], dim=1)
    high = gamma * tau * torch.logsumexp(listed, dim=1)
    low = tau * torch.logsumexp((-weights / tau).masked_fill(~relevant, NEVER / tau), dim=1)
    return (high + low).clamp_min(0)


def extended(s: Solved, l1: Tensor | float, l2: Tensor | float) -> Tensor:
    """(B, m) the weights, and for relevant documents without one how far they are from it: (u·ρ − λ₁)/(|u|² + λ₂) ≤ 0,
    ρ = v − Uᵀw.

    What eq. 6 gives a weight of 0 has no gradient there; this has one. It is what the weight would be, were it the
    only one that may change, without the bound at 0. Irrelevant documents keep their 0: to push them further below
    makes training collapse.
    """
    point = s.queries - s.weights @ s.rows
    squares = s.rows.square().sum(1)
    missed = (point @ s.rows.T - l1) / (squares + l2).clamp_min(torch.finfo(squares.dtype).tiny)
    return torch.where(s.relevant & (s.weights <= 0), missed, s.weights)
