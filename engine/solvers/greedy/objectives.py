"""Scores that only fall while documents are chosen: what mmr, dpp and ssd rank the remaining documents by.

A state per candidate sums up what was chosen; every pick enters it through one point, the picked row itself or what
is new in it, and only by the point's inner products with the candidates.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engine.matrix import blocks

SPENT = 1e-12
"""A squared residual under this share of the squared length is rounding, even in float64."""


@dataclass
class Terms:
    """What of a score does not change: base + rest·(a function of the state), or `after` where that is ≤ least."""

    base: Tensor
    rest: Tensor
    least: Tensor | float = 0.0
    after: Tensor | None = None

    def drop(self, at: Tensor) -> None:
        """Take candidates out, one a problem: at (G, 1)."""
        self.base.scatter_(1, at, -torch.inf)
        if self.after is not None:
            self.after.scatter_(1, at, -torch.inf)


class Marginal(ABC):
    """score(weight, relevance, state); every pick folds one point into the state, and no score ever rises."""

    orthogonal: ClassVar[bool]
    """A pick's point is the unit vector of its residual on the earlier ones; else the picked row."""
    favour: ClassVar[int]
    """+1 where a larger state means a larger score, else −1."""
    margin: ClassVar[float]
    """Scores this close in float64, for unit rows, are compared in one fixed order of summation."""
    floor: float = SPENT
    """A squared residual under this share of the squared length adds no new direction to the span."""
    below: float | None = None
    """Taken off the score of what may only come after everything else, where there is such a thing."""
    lift: float = 1.0
    """The relevance counts so often in that score."""

    @abstractmethod
    def start(self, squares: Tensor) -> Tensor:
        """(…, m) the state before the first pick; squares: squared lengths."""

    @abstractmethod
    def fold(self, state: Tensor, products: Tensor) -> Tensor:
        """(…, m) the state after p more picks; products: (…, p, m) of their points with the candidates."""

    @abstractmethod
    def fold_one(self, state: Tensor, product: Tensor) -> Tensor:
        """(…, m) the state after one more pick; product: (…, m)."""

    @abstractmethod
    def terms(self, weight: Tensor, relevance: Tensor, squares: Tensor) -> Terms:
        """What does not change while documents are chosen; weight: (…, 1) float64, relevance: (…, m)."""

    @abstractmethod
    def score(self, terms: Terms, state: Tensor) -> Tensor:
        """(…, m); it falls with what fold does and rises with relevance."""

    @abstractmethod
    def error(self, squares: Tensor, norm: float, rounding: float, underflow: float, points: int) -> Tensor | float:
        """Bound on a state's error after `points` products, each within rounding·|u||v| + underflow; |u| ≤ norm."""

    def gains(self, weight: float, relevance: Tensor, inner: Tensor) -> Tensor:
        """(k,) float64 scores of picks in order; inner: (k, k) their products, −inf where one does not count."""
        raise NotImplementedError("picks of this score are told in float64 as they are made")

    def alone(self, weight: Tensor, relevance: Tensor, squares: Tensor) -> Tensor:
        """(m,) the score while nothing is chosen."""
        return self.score(self.terms(weight, relevance, squares), self.start(squares))

    def last(self, weight: float, relevance: Tensor) -> Tensor:
        """What orders the candidates when every one lies in the span of the chosen."""
        return relevance


def _parts(weight: Tensor, relevance: Tensor) -> tuple[Tensor, Tensor]:
    # 1 − weight before the precision is cut: near 1 its digits are those that count.
    return weight.to(relevance.dtype) * relevance, (1 - weight).to(relevance.dtype)


class Nearest(Marginal):
    """λ·relevance − (1−λ)·(largest similarity to a chosen document)."""

    orthogonal = False
    favour = -1
    margin = 1e-12

    def start(self, squares: Tensor) -> Tensor:
        return torch.full_like(squares, -torch.inf)

    def fold(self, state: Tensor, products: Tensor) -> Tensor:
        return torch.maximum(state, products.amax(-2))

    def fold_one(self, state: Tensor, product: Tensor) -> Tensor:
        return torch.maximum(state, product)

    def terms(self, weight: Tensor, relevance: Tensor, squares: Tensor) -> Terms:
        return Terms(*_parts(weight, relevance))

    def score(self, terms: Terms, state: Tensor) -> Tensor:
        return torch.addcmul(terms.base, terms.rest, state, value=-1)

    def error(self, squares: Tensor, norm: float, rounding: float, underflow: float, points: int) -> Tensor | float:
        return rounding * norm * norm + underflow

    def alone(self, weight: Tensor, relevance: Tensor, squares: Tensor) -> Tensor:
        return weight * relevance

    def gains(self, weight: float, relevance: Tensor, inner: Tensor) -> Tensor:
        gains = weight * relevance
        gains[1:] -= (1 - weight) * inner[1:].amax(1)
        return gains


class Residual(Marginal):
    """A score in the squared distance from a candidate to the span of the chosen."""

    orthogonal = True
    favour = 1
    margin = 1e-6

    def start(self, squares: Tensor) -> Tensor:
        return squares

    def fold(self, state: Tensor, products: Tensor) -> Tensor:
        return state - products.square().sum(-2)

    def fold_one(self, state: Tensor, product: Tensor) -> Tensor:
        return torch.addcmul(state, product, product, value=-1)

    def error(self, squares: Tensor, norm: float, rounding: float, underflow: float, points: int) -> Tensor | float:
        # d² = |u|² − Σ p_t² with |Δp_t| ≤ γ|u| and Σ p_t² ≤ |u|²: |Δd²| ≤ (γ + 2γ√t + tγ²)|u|².
        return rounding * (1 + 2 * math.sqrt(points) + points * rounding) * squares + (points + 1) * underflow


@dataclass(frozen=True)
class LogResidual(Residual):
    """λ·relevance + (1−λ)·log d², the greedy step of log det; λ = 1 is relevance alone.

    floor: a d² under this share of |u|² is noise; such a candidate comes after all others, by relevance; below, lift:
    its score is lift·relevance − below, where below is more than scores can differ and lift keeps relevance's digits.
    """

    floor: float
    below: float
    lift: float

    @classmethod
    def over(cls, floor: float, largest: float) -> LogResidual:
        """For relevances up to `largest` in size."""
        # The logarithm of a number of either precision is above −709.
        scale = min(1 + largest, 1e34)
        return cls(floor, 2048 * scale, scale / largest if largest > 0 else 0.0)

    def terms(self, weight: Tensor, relevance: Tensor, squares: Tensor) -> Terms:
        after = torch.where(weight == 1, relevance, self.lift * relevance - self.below)
        return Terms(*_parts(weight, relevance), self.floor * squares, after)

    def score(self, terms: Terms, state: Tensor) -> Tensor:
        assert terms.after is not None
        # The smallest normal number keeps the logarithm of a zero row finite; it is below its floor anyway.
        logs = state.clamp_min(torch.finfo(state.dtype).tiny).log_()
        return torch.where(state > terms.least, torch.addcmul(terms.base, terms.rest, logs), terms.after)


class RootResidual(Residual):
    """λ·relevance + (1−λ)·d."""

    def terms(self, weight: Tensor, relevance: Tensor, squares: Tensor) -> Terms:
        return Terms(*_parts(weight, relevance), SPENT * squares)

    def score(self, terms: Terms, state: Tensor) -> Tensor:
        left = torch.where(state > terms.least, state, 0.0)
        return torch.addcmul(terms.base, terms.rest, left.sqrt_())

    def last(self, weight: float, relevance: Tensor) -> Tensor:
        return weight * relevance


def span(marginal: Marginal, rows: Tensor, basis: Tensor) -> Tensor:
    """(t, d) float64 points of t picked rows in order, after those of `basis`, (s, d): zeros where nothing is new."""
    if not marginal.orthogonal:
        return rows
    points = torch.cat([basis, torch.zeros_like(rows)])
    for at, row in enumerate(rows, start=len(basis)):
        points[at] = residual(marginal, row.unsqueeze(0), points[:at].unsqueeze(0))[0]
    return points[len(basis) :]


def residual(marginal: Marginal, rows: Tensor, basis: Tensor) -> Tensor:
    """(G, d) unit vectors of what basis, (G, t, d), leaves of rows, (G, d); zeros where that is rounding."""
    # Twice: the first pass leaves rounding along the basis that a short residual would magnify.
    if len(rows) == 1:
        left = rows[0]
        for _ in range(2):
            left = torch.addmv(left, basis[0].T, torch.mv(basis[0], left), alpha=-1)
        length, whole = float(left @ left), float(rows[0] @ rows[0])
        return (left / math.sqrt(length) if length > marginal.floor * whole else torch.zeros_like(left)).unsqueeze(0)
    left = rows.unsqueeze(1)
    for _ in range(2):
        left = left - (left @ basis.mT) @ basis
    left = left.squeeze(1)
    square = left.square().sum(1, keepdim=True)
    new = square > marginal.floor * rows.square().sum(1, keepdim=True)
    return torch.where(new, left / square.sqrt(), torch.zeros_like(left))


def scores(marginal: Marginal, weight: float, rows: Tensor, relevance: Tensor, products: Tensor) -> Tensor:
    """(m,) float64 scores of rows, (m, d); products: (t, m) with the points of what is chosen."""
    at = torch.tensor(weight, dtype=relevance.dtype, device=relevance.device)
    squares = (rows * rows).sum(1)
    if not len(products):
        return marginal.alone(at, relevance, squares)
    state = marginal.fold(marginal.start(squares), products)
    return marginal.score(marginal.terms(at, relevance, squares), state)


def exact_scores(marginal: Marginal, weight: float, rows: Tensor, relevance: Tensor, points: Tensor) -> Tensor:
    """(m,) scores of rows, (m, d) float64, summed in one fixed order: identical rows get identical scores."""
    # Each row's sums run over memory in order; sums across rows would depend on a row's place among them.
    parts = blocks(points.numel(), rows, relevance)
    return torch.cat([scores(marginal, weight, p, rel, (p.unsqueeze(1) * points).sum(2).T) for p, rel in parts])
