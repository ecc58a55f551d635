"""Price of exploration: success of the drawn documents, beside that of the best scores.

The paper states that sampling "doesn't sacrifice the current user experience" (section 3). With several drawn for a
reranker, exploitation would show its pick among the K best.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.simulation.rounds import NO_ROW, RoundLog


@dataclass(frozen=True, eq=False)
class Success:
    """Success of each round, of the document drawn and of the one shown if nothing were explored.

    Each (m,), NaN where unknown. The difference of their means is the price of exploration for the present users.
    """

    drawn: np.ndarray
    top: np.ndarray

    def means(self, begin: int = 0, end: int | None = None) -> tuple[float, float]:
        """Return the mean success over the rounds from `begin` to before `end`, from 0; NaN where unknown.

        The first mean is of the documents drawn, the second of those that no exploration would have shown.
        """
        drawn, top = self.drawn[begin:end], self.top[begin:end]
        return (float(drawn.mean()), float(top.mean())) if len(drawn) else (np.nan, np.nan)


def measure_success(trail: RoundLog, right_rows: Sequence[np.ndarray]) -> Success:
    """Return each round's success: of the document drawn, and of the one shown without exploration.

    trail: the simulation's log; right_rows: by query, the rows of its right documents; NaN where unknown
    """
    top_success = np.full(len(trail), np.nan)
    for t in np.flatnonzero(trail.top != NO_ROW):
        top_success[t] = (right_rows[trail.query[t]] == trail.top[t]).any()
    return Success(np.where(trail.item == NO_ROW, np.nan, trail.right.astype(float)), top_success)


def group_by_question(rounds: Success, queries: np.ndarray, groups: Sequence[np.ndarray]) -> Success:
    """Return the success of each question: all of the rounds that ask its sub-queries must succeed.

    rounds: success by round; queries: (T,) the number of each round's query; groups: for each question the numbers of
    its hops, the sub-queries, which come one after the other. A question that the end cuts off is left out.
    """
    # A question is known by its first hop; an empty group has none.
    group_sizes = {int(group[0]): len(group) for group in groups if len(group)}
    # The hops of a question come one after the other, so its size leads from one question to the next.
    starts, position = [], 0
    while position < len(queries) and position + group_sizes[int(queries[position])] <= len(queries):
        starts.append(position)
        position += group_sizes[int(queries[position])]
    if not starts:
        return Success(np.empty(0), np.empty(0))
    # A question succeeds if all its hops do: the minimum over its rounds, which a NaN makes NaN.
    played = slice(position)
    return Success(np.minimum.reduceat(rounds.drawn[played], starts), np.minimum.reduceat(rounds.top[played], starts))
