"""Training losses: InfoNCE of inner products, and a margin between sets of elastic-net weights."""

import torch
from torch import Tensor

from engine.training.implicit import WeightGraph

DEFAULT_TAU = 0.1
DEFAULT_GAMMA = 1.5
MASKED_SCORE = -1e4
"""Score of a masked document: its exponential is 0, and unlike −∞ it leaves no NaN in a gradient."""


def info_nce(score: Tensor, relevant: Tensor, tau: float = DEFAULT_TAU) -> Tensor:
    """Return (B,) losses: −log of each relevant document's softmax share among it and irrelevant ones.

    A query's loss is the mean over its relevant documents (NNN paper, eq. 21). Unlike there, a query's other relevant
    documents are masked out, so that they are no negatives. score: (B, m) inner products; relevant: (B, m) bool, at
    least one per query; tau: the softmax's temperature
    """
    # log(e^s + Σ_irrelevant e^s') − s for every relevant document, in logarithms so that no exponential overflows.
    score = score / tau
    log_irrelevant = torch.logsumexp(score.masked_fill(relevant, MASKED_SCORE / tau), dim=1, keepdim=True)
    surprise = (torch.logaddexp(score, log_irrelevant) - score).masked_fill(~relevant, 0.0)
    return surprise.sum(1) / relevant.sum(1)


def set_margin(
    weights: Tensor,
    relevant: Tensor,
    beyond: int = 0,
    max_documents: int | None = None,
    gamma: float = DEFAULT_GAMMA,
    tau: float = DEFAULT_TAU,
) -> Tensor:
    """Return (B,) losses, 0 where all relevant documents outweigh all irrelevant ones by a margin.

    The loss is [γτ log Σ_irrelevant e^{w/τ} + τ log Σ_relevant e^{−w/τ}]₊ (NNN paper, eq. 6): γ times a smooth maximum
    of the irrelevant weights less a smooth minimum of the relevant ones. weights, relevant: (B, m); beyond: count of
    further irrelevant documents, of weight 0; max_documents: count of irrelevant documents that enter, the largest
    weights first, zeros among them; None for all, as in the paper.
    """
    # A sum over all irrelevant documents grows with the corpus, so the extended loss counts the largest weights only.
    irrelevant = weights.shape[1] + beyond - relevant.sum(1)
    n_counted = irrelevant if max_documents is None else irrelevant.clamp_max(max_documents)
    largest = weights.masked_fill(relevant, MASKED_SCORE)
    if max_documents is not None and max_documents < weights.shape[1]:
        largest = largest.topk(max_documents, dim=1).values
    # Further counted documents have a weight of 0: n of them add n e⁰ to the sum of exponentials, so one term log n.
    zeros = (n_counted - (largest > MASKED_SCORE).sum(1)).to(weights.dtype)
    log_terms = torch.cat([largest / tau, zeros.log().unsqueeze(1)], dim=1)
    # τ log Σ e^{w/τ} is a smooth maximum of the irrelevant weights, and −τ log Σ e^{−w/τ} a minimum of the relevant.
    high = gamma * tau * torch.logsumexp(log_terms, dim=1)
    low = tau * torch.logsumexp((-weights / tau).masked_fill(~relevant, MASKED_SCORE / tau), dim=1)
    return (high + low).clamp_min(0)


def extend_weights(graph: WeightGraph, l1: float, l2: float) -> Tensor:
    """Return (B, m) weights in which relevant documents of weight 0 have a number ≤ 0 with a gradient.

    It is (u·ρ − λ₁)/(|u|² + λ₂) with ρ = v − Uᵀw: what the weight would be if it alone changed, without the bound at 0.
    A weight of 0 has no gradient, so that the margin loss could not raise it; this number has one. Irrelevant documents
    keep their 0: to push them further below makes training collapse.
    """
    # Optimum over w_j ∈ ℝ of the elastic net with all other weights fixed; tiny keeps rows of zeros from 0/0.
    residual = graph.queries - graph.weights @ graph.rows
    squares = graph.rows.square().sum(1)
    distance = (residual @ graph.rows.T - l1) / (squares + l2).clamp_min(torch.finfo(squares.dtype).tiny)
    return torch.where(graph.relevant & (graph.weights <= 0), distance, graph.weights)
