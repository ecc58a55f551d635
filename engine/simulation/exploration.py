"""Price of exploration: how often what was drawn is right, and how often the best of the scores would have been.

The paper has it that sampling "doesn't sacrifice the current user experience" (section 3). With several drawn for a
reranker, what would be shown without exploring is its pick among the K best.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.simulation.rounds import NOBODY, RoundLog


@dataclass(frozen=True, eq=False)
class Success:
    """Whether each round showed a right document, and would have without exploring; (m,) each, NaN where unknown.

    The difference of their means is what exploring costs those who ask meanwhile.
    """

    drawn: np.ndarray
    top: np.ndarray

    def means(self, begin: int = 0, end: int | None = None) -> tuple[float, float]:
        """The shares of right ones in some rounds, drawn and without exploring; NaN where unknown."""
        parts = (column[begin:end] for column in (self.drawn, self.top))
        drawn, top = (float(part.mean()) if len(part) else np.nan for part in parts)
        return drawn, top


def success(trail: RoundLog, right: Sequence[np.ndarray]) -> Success:
    """Success by round; right: the right rows of each query of the stream."""
    top = np.array(
        [
            np.nan if row == NOBODY else float((right[query] == row).any())
            for query, row in zip(trail.query.tolist(), trail.top.tolist(), strict=True)
        ]
    )
    return Success(np.where(trail.item == NOBODY, np.nan, trail.right.astype(float)), top)


def by_question(rounds: Success, queries: np.ndarray, groups: Sequence[np.ndarray]) -> Success:
    """Success by question, all hops of it right; one that the stream's end cuts off is left out.

    queries: (T,) of the rounds; groups: the hops of each question.
    """
    length = {int(place): len(group) for group in groups for place in group[:1]}
    begins, at = [], 0
    while at < len(queries) and at + length[int(queries[at])] <= len(queries):
        begins.append(at)
        at += length[int(queries[at])]
    if not begins:
        return Success(np.empty(0), np.empty(0))
    return Success(*(np.minimum.reduceat(column[:at], begins) for column in (rounds.drawn, rounds.top)))
