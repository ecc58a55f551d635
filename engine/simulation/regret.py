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

BLOCK_NUMBERS = 1 << 22
LINE_SEARCH_HISTORY = 10
REGRET_TOLERANCE = 0.01
"""Nats per round between the best loss and a proven lower bound, at which the search for the optimum ends."""
HINDSIGHT_LABEL = "best embeddings in hindsight"


@dataclass(frozen=True, eq=False)
class Rounds:
    """Distinct queries of a stream, with the number of times that each came and its right documents."""

    points: np.ndarray  # (m, d) float64
    right: tuple[np.ndarray, ...]  # the right rows of each, at least one
    weights: np.ndarray  # (m,) number of times that each came
    temperature: float  # τ

    @property
    def total(self) -> float:
        """The number of rounds, repetitions included."""
        return float(self.weights.sum())


@dataclass(frozen=True, eq=False)
class Hindsight:
    """Best embeddings for a full stream, within the ball."""

    vectors: np.ndarray  # (n, d)
    losses: np.ndarray  # (m,) of each query
    gap: float  # upper bound on the excess of their weighted sum over the minimum
    steps: int  # of the search


def find_hindsight(
    start: np.ndarray,
    rounds: Rounds,
    *,
    max_steps: int = 300,
    tolerance: float = REGRET_TOLERANCE,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Hindsight:
    """Find the document embeddings with the least loss over a full stream, all rows within a ball.

    These are the best in hindsight, against which regret is measured. No row may become longer than 1, unless it is
    longer in `start`: then that length is its limit. The method is spectral projected gradient (Birgin, Martínez &
    Raydan 2000), from the vectors `start`. It ends once the Frank–Wolfe gap, a proven bound on the excess of the loss,
    is at most `tolerance` nats per round. Without the ball there is no minimum on separable data. Raises Cancelled.
    """
    radius = np.maximum(1.0, np.linalg.norm(start, axis=1))
    max_gap = tolerance * rounds.total
    vectors = start.copy()
    losses, value, gradient = _evaluate(vectors, rounds)
    best_state, lower_bound = (vectors, losses, value), 0.0  # a cross-entropy is never negative
    recent_values = [value]
    # The first step moves no coordinate by more than 1, the length of a unit vector.
    step_size = 1.0 / max(1e-12, np.abs(gradient).max())
    n_steps = 0
    while True:
        # The linearised loss can fall by at most this in the balls, and by convexity the loss by no more.
        gap = float((vectors * gradient).sum() + radius @ np.linalg.norm(gradient, axis=1))
        lower_bound = max(lower_bound, value - gap)
        if progress is not None:
            progress(n_steps, max_steps, HINDSIGHT_LABEL)
        if best_state[2] - lower_bound <= max_gap or n_steps >= max_steps:
            break
        if stop is not None and stop.is_set():
            step_text = f"{n_steps} of {max_steps} steps"
            raise Cancelled(f"the search for the best embeddings in hindsight was stopped after {step_text}")
        n_steps += 1
        # Projection onto a ball is a scaling; all rows of the direction point into the balls, so any fraction of it
        # stays feasible.
        target = vectors - step_size * gradient
        shrinkage = np.minimum(1.0, radius / np.maximum(np.linalg.norm(target, axis=1), 1e-300))
        direction = target * shrinkage[:, None] - vectors
        descent = float((gradient * direction).sum())
        # Rounding leaves nothing to descend.
        if descent >= 0:
            break
        # Non-monotone Armijo search: compared with the largest of the last values, as spectral steps may rise.
        fraction = 1.0
        while True:
            new_vectors = vectors + fraction * direction
            new_losses, new_value, new_gradient = _evaluate(new_vectors, rounds)
            if new_value <= max(recent_values[-LINE_SEARCH_HISTORY:]) + 1e-4 * fraction * descent or fraction < 1e-10:
                break
            fraction *= 0.5
        change, gradient_change = new_vectors - vectors, new_gradient - gradient
        # The Barzilai–Borwein step length, from the last change of the vectors and of the gradient.
        curvature = float((change * gradient_change).sum())
        step_size = float((change * change).sum()) / curvature if curvature > 0 else 2 * step_size
        vectors, losses, value, gradient = new_vectors, new_losses, new_value, new_gradient
        recent_values.append(value)
        if value < best_state[2]:
            best_state = (vectors, losses, value)
    return Hindsight(best_state[0], best_state[1], max(0.0, best_state[2] - lower_bound), n_steps)


@dataclass(frozen=True, eq=False)
class RegretBounds:
    """Theory's bounds on the expected loss of learning beyond that of the best embeddings in hindsight."""

    theorem: np.ndarray  # (T,) Theorem 5.1 after each round, with the second moment of the rule that ran
    distance: float  # |Θ₁ − Θ*|²
    least: float  # the smallest probability that a right item had in any round
    rate: float  # the η of Corollary 5.2 for T rounds
    corollary: float  # the regret that it then promises after T


def compute_bounds(
    distance: float, chances: np.ndarray, squares: np.ndarray, rate: float, temperature: float, is_full: bool
) -> RegretBounds:
    """Compute the ORAG paper's bounds on regret for T rounds of one right document each.

    They are those of its Theorem 5.1 and Corollary 5.2. Regret is the loss less that of the best document embeddings in
    hindsight, Θ*. distance: |Θ₁ − Θ*|² from the starting ones; chances: (T,) probability p with which the right
    document was drawn in a round; squares: (T,) |q|² of the round's query; rate: η; temperature: τ; is_full: True for
    Algorithm 1, which moves all documents, False for the algorithm of appendix B.2, which moves the one shown. The two
    differ in the mean squared gradient, the second moment: at most (1/p − 2p + 1)|q|² and (1/p − 1)|q|².
    """
    p = np.maximum(chances, 1e-12)
    second_moment = (1 / p - 2 * p + 1 if is_full else 1 / p - 1) * squares
    # The paper's step is ητ here, and its squared gradients are divided by τ²: hence η/(2τ) before the second moments.
    theorem = distance / (2 * rate * temperature) + rate / (2 * temperature) * np.cumsum(second_moment)
    min_chance, max_square, n_rounds = float(p.min()), float(squares.max()), len(p)
    # (1 − p)(1 + 2p)/p is the second moment 1/p − 2p + 1, which falls in p: the smallest p bounds every round.
    spread = max_square * (1 - min_chance) * (1 + 2 * min_chance) * n_rounds / min_chance
    best_rate = float(np.sqrt(distance / spread)) if spread > 0 else np.inf
    return RegretBounds(theorem, distance, min_chance, best_rate, float(np.sqrt(distance * spread) / temperature))


def list_doubts(
    right_rows: Sequence[np.ndarray], preset: Preset, *, is_capped: bool, is_honest: bool, is_outside: bool
) -> tuple[str, ...]:
    """List in words why the ORAG paper's bound on regret, Theorem 5.1, need not hold for a run.

    right_rows: each query's right documents; is_capped: the length of a step has a limit; is_honest: no feedback is
    wrong; is_outside: the best embeddings in hindsight lie outside the trust region, into which steps are led back. The
    other limit on vectors, the ball, gives no doubt: it always holds the best. The list is empty if the bound applies.
    """
    has_several_answers = any(len(rows) != 1 for rows in right_rows)
    reasons = (
        (has_several_answers, "some queries have several right documents, and the theorem is for one"),
        (not is_honest, "some feedback is wrong"),
        (is_outside, "the best in hindsight lies outside the trust region"),
        (is_capped, "steps are capped, which the theorem's rule does not do"),
        (preset.schedule != "constant", "the rate falls, and the theorem is for a constant one"),
        (preset.optimizer != "sgd", "steps are scaled by AdamW, and the theorem is for plain ones"),
        (preset.batch != 1, "several rounds make one step"),
    )
    return tuple(text for applies, text in reasons if applies)


def _evaluate(vectors: np.ndarray, rounds: Rounds) -> tuple[np.ndarray, float, np.ndarray]:
    """Return each query's loss, (m,), their weighted sum, and the sum's gradient in the vectors, (n, d)."""
    losses = np.empty(len(rounds.points))
    gradient = np.zeros_like(vectors)
    # A block of queries has a score for every document; one array serves as scores, probabilities and gradient.
    block_size = max(1, BLOCK_NUMBERS // len(vectors))
    for block_start in range(0, len(rounds.points), block_size):
        block = slice(block_start, block_start + block_size)
        block_points, block_right = rounds.points[block], rounds.right[block]
        n_right = np.array(list(map(len, block_right)))
        owners, document_rows = np.repeat(np.arange(len(block_right)), n_right), np.concatenate(block_right)
        weights = np.repeat(1 / n_right, n_right)
        scores = block_points @ vectors.T
        scores /= rounds.temperature
        # Subtracting the largest score changes no probability, and no exponential overflows.
        scores -= scores.max(1, keepdims=True)
        right_scores = scores[owners, document_rows]
        np.exp(scores, out=scores)
        normalizer = scores.sum(1)
        losses[block] = np.log(normalizer) - np.bincount(owners, weights * right_scores, minlength=len(block_right))
        scores /= normalizer[:, None]
        # The derivative of the loss by a score is p, and p − 1/|S| for the right documents S.
        scores[owners, document_rows] -= weights
        scores *= rounds.weights[block, None] / rounds.temperature
        gradient += scores.T @ block_points
    return losses, float(rounds.weights @ losses), gradient
