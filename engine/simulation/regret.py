"""Regret: cross-entropy against the best embeddings in hindsight, and the bounds of theory.

Online-Optimized RAG, §2.2 and §5: the loss of a round is −log p(right item), p = softmax(Θq/τ); with several right
items the mean over them. A session's rate η moves a document by η · coefficient · q, which is a step of ητ along the
gradient of this loss: every formula below is the paper's with that step and with gradients 1/τ times the paper's.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.errors import Cancelled
from engine.feedback import Preset
from engine.progress import Progress, Stop

NUMBERS = 1 << 22
HISTORY = 10
ENOUGH = 0.01
"""Nats a round between the loss found and a proven lower bound, at which the search for the optimum ends."""
SEARCHING = "best embeddings in hindsight"


@dataclass(frozen=True, eq=False)
class Rounds:
    """The different queries of a stream."""

    points: np.ndarray  # (m, d) float64
    right: tuple[np.ndarray, ...]  # the right rows of each, at least one
    weights: np.ndarray  # (m,) how often each came
    temperature: float  # τ

    @property
    def total(self) -> float:
        return float(self.weights.sum())


@dataclass(frozen=True, eq=False)
class Hindsight:
    """The best embeddings for a whole stream, within the ball."""

    vectors: np.ndarray  # (n, d)
    losses: np.ndarray  # (m,) of each query
    gap: float  # how far their weighted sum is above the least possible, at most
    steps: int  # of the search


def hindsight(
    start: np.ndarray,
    rounds: Rounds,
    *,
    most: int = 300,
    enough: float = ENOUGH,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Hindsight:
    """The embeddings with the least loss over a stream, every row no longer than 1, or than at the start.

    Spectral projected gradient (Birgin, Martínez & Raydan 2000) from the start; the Frank–Wolfe gap, a proven bound,
    says when it is near enough: `enough` nats a round. Without the ball there is none on separable data. Raises
    Cancelled.
    """
    radius = np.maximum(1.0, np.linalg.norm(start, axis=1))
    goal = enough * rounds.total
    x = start.copy()
    each, value, slope = _evaluate(x, rounds)
    best, lower = (x, each, value), 0.0  # a cross-entropy is never negative
    recent = [value]
    pace = 1.0 / max(1e-12, np.abs(slope).max())
    step = 0
    while True:
        # How much the linearised loss can still fall in the balls: no less than what the loss itself can.
        gap = float((x * slope).sum() + radius @ np.linalg.norm(slope, axis=1))
        lower = max(lower, value - gap)
        if progress is not None:
            progress(step, most, SEARCHING)
        if best[2] - lower <= goal or step >= most:
            break
        if stop is not None and stop.is_set():
            raise Cancelled(f"the search for the best embeddings in hindsight was stopped after {step} of {most} steps")
        step += 1
        ahead = x - pace * slope
        towards = ahead * np.minimum(1.0, radius / np.maximum(np.linalg.norm(ahead, axis=1), 1e-300))[:, None] - x
        descent = float((slope * towards).sum())
        if descent >= 0:
            break
        far = 1.0
        while True:
            new = x + far * towards
            new_each, new_value, new_slope = _evaluate(new, rounds)
            if new_value <= max(recent[-HISTORY:]) + 1e-4 * far * descent or far < 1e-10:
                break
            far *= 0.5
        moved, turned = new - x, new_slope - slope
        curvature = float((moved * turned).sum())
        pace = float((moved * moved).sum()) / curvature if curvature > 0 else 2 * pace
        x, each, value, slope = new, new_each, new_value, new_slope
        recent.append(value)
        if value < best[2]:
            best = (x, each, value)
    return Hindsight(best[0], best[1], max(0.0, best[2] - lower), step)


@dataclass(frozen=True, eq=False)
class RegretBounds:
    """Bounds on the expected regret against the best in hindsight."""

    theorem: np.ndarray  # (T,) Theorem 5.1 after each round, with the second moment of the rule that ran
    distance: float  # |Θ₁ − Θ*|²
    least: float  # the smallest probability that a right item had in any round
    rate: float  # the η of Corollary 5.2 for T rounds
    corollary: float  # the regret that it then promises after T


def bounds(
    distance: float, chances: np.ndarray, squares: np.ndarray, rate: float, temperature: float, whole: bool
) -> RegretBounds:
    """Theorem 5.1 and Corollary 5.2 along a stream of T rounds with one right item each.

    distance: |Θ₁ − Θ*|²; chances: (T,) p of the right item when it was asked; squares: (T,) |q|²; rate: η; whole:
    Algorithm 1, whose second moment is at most (1/p − 2p + 1)|q|², else B.2's, (1/p − 1)|q|².
    """
    p = np.maximum(chances, 1e-12)
    moment = (1 / p - 2 * p + 1 if whole else 1 / p - 1) * squares
    theorem = distance / (2 * rate * temperature) + rate / (2 * temperature) * np.cumsum(moment)
    least, long, count = float(p.min()), float(squares.max()), len(p)
    spread = long * (1 - least) * (1 + 2 * least) * count / least
    return RegretBounds(
        theorem,
        distance,
        least,
        float(np.sqrt(distance / spread)) if spread > 0 else np.inf,
        float(np.sqrt(distance * spread) / temperature),
    )


def doubts(right: Sequence[np.ndarray], preset: Preset, *, capped: bool, honest: bool, left: bool) -> tuple[str, ...]:
    """Why the theorem's curve does not bind a run, in words; none where it does.

    capped: steps; honest: feedback; left: whether the best in hindsight lies outside the trust region. The ball always
    holds it: a step back into either never leads away from it.
    """
    several = any(len(rows) != 1 for rows in right)
    reasons = (
        (several, "some queries have several right documents, and the theorem is for one"),
        (not honest, "some feedback is wrong"),
        (left, "the best in hindsight lies outside the trust region"),
        (capped, "steps are capped, which the theorem's rule does not do"),
        (preset.schedule != "constant", "the rate falls, and the theorem is for a constant one"),
        (preset.optimizer != "sgd", "steps are scaled by AdamW, and the theorem is for plain ones"),
        (preset.batch != 1, "several rounds make one step"),
    )
    return tuple(text for holds, text in reasons if holds)


def _evaluate(vectors: np.ndarray, rounds: Rounds) -> tuple[np.ndarray, float, np.ndarray]:
    """(m,) losses, their weighted sum, and its gradient, (n, d)."""
    each = np.empty(len(rounds.points))
    slope = np.zeros_like(vectors)
    step = max(1, NUMBERS // len(vectors))
    for begin in range(0, len(rounds.points), step):
        block = slice(begin, begin + step)
        points, right = rounds.points[block], rounds.right[block]
        sizes = np.array([len(rows) for rows in right])
        who, rows = np.repeat(np.arange(len(right)), sizes), np.concatenate(right)
        share = np.repeat(1 / sizes, sizes)
        z = points @ vectors.T
        z /= rounds.temperature
        z -= z.max(1, keepdims=True)
        good = z[who, rows]
        np.exp(z, out=z)
        total = z.sum(1)
        each[block] = np.log(total) - np.bincount(who, share * good, minlength=len(right))
        z /= total[:, None]
        z[who, rows] -= share
        z *= rounds.weights[block, None] / rounds.temperature
        slope += z.T @ points
    return each, float(rounds.weights @ each), slope
