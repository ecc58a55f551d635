"""Whom the selectors are compared with: the libraries people use, and each method written plainly in torch.

Every function takes (n, d) float32 unit rows, one query (d,), k and the weight of relevance, and returns the k rows it
picks; computing the relevance is part of the call.
"""

from __future__ import annotations

import faiss
import numpy as np
import torch
from langchain_core.vectorstores.utils import maximal_marginal_relevance
from pyversity import diversify
from sklearn.linear_model import ElasticNet
from torch import Tensor

NOTES = {
    "pyversity msd": "sums distances that ours weighs by k",
    "pyversity dpp": "z-scores the relevance; its weight has another scale",
    "pyversity ssd": "z-scores the relevance and appends a constant to every row",
    "pyversity cover": "sums a power of all similarities, where facility location takes the largest",
    "pyversity mmr": "the same objective, similarities cut off at 0",
    "langchain mmr": "the same objective; it is given an array, which it takes faster than the list its signature asks",
    "plain torch FISTA-50": "fifty steps of the NNN paper's decoder, the largest eigenvalue known",
    "scikit-learn": "ElasticNet(positive=True, fit_intercept=False, precompute=False, tol=1e-6), float32",
    "plain torch reference": "Frank–Wolfe of the paper: a pass U(Uᵀx) each step, until the gap is 0 or 200 steps",
}
MOST_STEPS = 200
PENALTIES = 0.1, 0.1
"""λ₁ and λ₂ of nnn, its defaults."""


def pyversity(strategy: str, rows: np.ndarray, query: np.ndarray, k: int, weight: float) -> np.ndarray:
    """One of pyversity's strategies by name."""
    return diversify(rows, rows @ query, k, strategy=strategy, diversity=1 - weight).indices


def langchain(rows: np.ndarray, query: np.ndarray, k: int, weight: float) -> list[int]:
    """langchain-core's maximal marginal relevance."""
    return maximal_marginal_relevance(query, rows, lambda_mult=weight, k=k)


def flat_index(rows: np.ndarray) -> faiss.IndexFlatIP:
    """Exact search by faiss, on one thread."""
    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatIP(rows.shape[1])
    index.add(rows)
    return index


def product_topk(rows: Tensor, queries: Tensor, k: int) -> Tensor:
    """(B, k) the most relevant rows of each query: a matrix product and torch.topk."""
    return (queries @ rows.T).topk(k, dim=1).indices


def reference_frank_wolfe(rows: Tensor, query: Tensor, k: int, weight: float, gathered: bool = False) -> Tensor:
    """The paper's Algorithm 1: the relaxation of the quadratic programme from x = k/n, then the k largest of x.

    maximises θ(k−1) r·x + (1−θ) xᵀ(2I − S)x over the capped simplex; stops where the gap is 0. gathered: Uᵀx is carried
    along from the sums of the k rows of each corner, instead of a product each step.
    """
    n = len(rows)
    linear = weight * (k - 1) * (rows @ query)
    x = torch.full((n,), k / n, device=rows.device)
    mean = x @ rows
    for _ in range(MOST_STEPS):
        gradient = linear + 2 * (1 - weight) * (2 * x - rows @ mean)
        corner = gradient.topk(k).indices
        vertex = torch.zeros_like(x)
        vertex[corner] = 1
        step = vertex - x
        gap = float(gradient @ step)
        if gap <= 0:
            break
        moved = rows[corner].sum(0) - mean
        curve = float(2 * (1 - weight) * (2 * (step @ step) - moved @ moved))
        size = 1.0 if curve >= 0 else min(1.0, gap / -curve)
        # In this form a full step lands on the vertex exactly, and the next gap is exactly 0.
        x = (1 - size) * x + size * vertex
        mean = mean + size * moved if gathered else x @ rows
    return x.topk(k).indices


def objective(rows: Tensor, query: Tensor, picks: list[int], weight: float) -> float:
    """θ(k−1) Σ r − (1−θ) Σ_{i≠j} s_ij of a set, in float64, whatever the order of its rows."""
    chosen = rows[torch.tensor(sorted(picks), device=rows.device)].double()
    relevance = float((chosen @ query.double()).sum())
    pairs = float(chosen.sum(0).square().sum() - chosen.square().sum())
    return weight * (len(picks) - 1) * relevance - (1 - weight) * pairs


def plain_fista(rows: Tensor, query: Tensor, k: int, eigenvalue: float) -> Tensor:
    """The NNN paper's decoder as one would write it in torch, two products a step; -1 where no weight is left."""
    l1, l2 = PENALTIES
    weight = ahead = rows.new_zeros(len(rows))
    pace = 1.0
    for _ in range(50):
        slope = torch.mv(rows, torch.mv(rows.T, ahead) - query) + l2 * ahead
        new = (ahead - (slope + l1) / (eigenvalue + l2)).clamp_min_(0)
        next_pace = (1 + (1 + 4 * pace * pace) ** 0.5) / 2
        ahead = new + (pace - 1) / next_pace * (new - weight)
        weight, pace = new, next_pace
    top = weight.topk(k)
    return torch.where(top.values > 0, top.indices, -1)


def elastic_net(rows: np.ndarray, query: np.ndarray, k: int) -> np.ndarray:
    """scikit-learn's minimiser by coordinate descent; -1 where no weight is left."""
    l1, l2 = PENALTIES
    # Its objective is ours over the number of samples, which here is d.
    model = ElasticNet(
        alpha=(l1 + l2) / rows.shape[1], l1_ratio=l1 / (l1 + l2), positive=True, fit_intercept=False,
        precompute=False, copy_X=False, tol=1e-6, max_iter=10_000,
    )  # fmt: skip
    weight = model.fit(rows.T, query).coef_
    order = np.argsort(-weight, kind="stable")[:k]
    return np.where(weight[order] > 0, order, -1)
