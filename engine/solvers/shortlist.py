"""One problem over a shortlist in float64: greedy, Frank–Wolfe and best-improvement swaps on a kept Gram matrix.

Identical rows share one row of the Gram matrix, so they tie exactly, and every choice takes the lower row.
"""

from __future__ import annotations

import numpy as np
import torch

STEPS = 200
"""How many Frank–Wolfe steps a start may take."""


class Shortlist:
    """Some candidates of one problem.

    ids: (m,) ascending candidates; vectors: (m, d); relevance: (m,); linear: θ(k−1), the factor of relevance; beta:
    2(1−θ), the factor of similarity; all float64. Sets are (k,) positions in the shortlist.
    """

    def __init__(self, ids: np.ndarray, vectors: np.ndarray, relevance: np.ndarray, linear: float, beta: float):
        self.beta, self.factor = beta, linear
        self._hold(ids, vectors, relevance)

    def join(self, ids: np.ndarray, vectors: np.ndarray, relevance: np.ndarray) -> None:
        """Add candidates that are not there yet."""
        self._hold(
            np.concatenate([self.ids, ids]),
            np.concatenate([self.vectors, vectors]),
            np.concatenate([self.relevance, relevance]),
        )

    def _hold(self, ids: np.ndarray, vectors: np.ndarray, relevance: np.ndarray) -> None:
        order = ids.argsort()
        self.ids, self.vectors, self.relevance = ids[order], vectors[order], relevance[order]
        self.linear = self.factor * self.relevance
        first: dict[bytes, int] = {}
        alike = np.array([first.setdefault(row.tobytes(), i) for i, row in enumerate(self.vectors)])
        # torch's product, as NumPy's would run on every core whatever torch was told.
        rows = torch.from_numpy(self.vectors)
        gram = (rows @ rows.T).numpy()
        self.gram = gram[np.ix_(alike, alike)]
        self.square = self.gram.diagonal()

    def value(self, chosen: np.ndarray) -> float:
        """F of a set."""
        inner = self.gram[np.ix_(chosen, chosen)].sum() - self.square[chosen].sum()
        return float(self.linear[chosen].sum() - self.beta / 2 * inner)

    def marginal(self, chosen: np.ndarray) -> np.ndarray:
        """(k,) what each member contributes: its leaving costs that much."""
        seen = self.gram[np.ix_(chosen, chosen)].sum(1)
        return self.linear[chosen] - self.beta * (seen - self.square[chosen])

    def greedy(self, k: int) -> np.ndarray:
        """The most relevant, then always the largest linear field."""
        chosen = [int(self.relevance.argmax())]
        score = self.linear.copy()
        for _ in range(k - 1):
            score -= self.beta * self.gram[chosen[-1]]
            score[chosen[-1]] = -np.inf
            chosen.append(int(score.argmax()))
        return np.sort(chosen)

    def ascent(self, k: int, loading: float, tolerance: float) -> np.ndarray:
        """Frank–Wolfe from the middle of the shortlist, as `conditional_gradient.ascend` from that of the corpus."""
        load = self.beta * (1 + loading)
        x = np.full(len(self.ids), k / len(self.ids))
        seen = self.gram.sum(1) * (k / len(self.ids))
        for _ in range(STEPS):
            gradient = self.linear + load * self.square * x - self.beta * seen
            found = np.sort((-gradient).argsort(kind="stable")[:k])
            direction = -x
            direction[found] += 1
            gap = gradient @ direction
            if gap <= tolerance * k:
                break
            toward = self.gram[:, found].sum(1) - seen
            curvature = load * (self.square * direction) @ direction - self.beta * (direction @ toward)
            length = 1.0 if curvature >= 0 else min(1.0, gap / -curvature)
            x = (1 - length) * x
            x[found] += length
            seen = seen + length * toward
        return np.sort(np.lexsort((-gradient, -x))[:k])

    def swapped(self, chosen: np.ndarray, tolerance: float, most: int) -> tuple[np.ndarray, int, bool]:
        """Best-improvement swaps until none gains more than `tolerance`: the set, how many, whether none is left."""
        # Of equal members the highest row leaves, of equal candidates the lowest enters: argmax takes the first.
        chosen = np.sort(chosen)[::-1].copy()
        rows = self.gram[chosen]
        seen = rows.sum(0)
        for swaps in range(most + 1):
            field = self.linear - self.beta * seen
            stays = field[chosen] + self.beta * self.square[chosen]
            field[chosen] = -np.inf
            gain = (self.beta * rows + field) - stays[:, None]
            out, into = divmod(int(gain.argmax()), gain.shape[1])
            if not gain[out, into] > tolerance:
                return np.sort(chosen), swaps, True
            if swaps == most:
                break
            seen += self.gram[into] - self.gram[chosen[out]]
            chosen = np.append(np.delete(chosen, out), into)
            order = chosen.argsort()[::-1]
            chosen = chosen[order]
            rows = self.gram[chosen]
        return np.sort(chosen), most, False
