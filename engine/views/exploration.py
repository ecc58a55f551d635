"""Exploration view: success of what was drawn beside that of what would have been shown, between checkpoints."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from engine.drift.measures import smoothed
from engine.simulation.exploration import Success
from engine.simulation.simulate import Simulated
from engine.wording import percent


@dataclass(frozen=True)
class Explored:
    """Rounds first to last, counted from 1: the share in which what was drawn is right, and what tops the scores."""

    first: int
    last: int
    drawn: float
    top: float


@dataclass(frozen=True)
class Exploration:
    """The price of exploring; rows: none where nothing is drawn."""

    rows: tuple[Explored, ...]
    sentences: tuple[str, ...]

    def as_json(self) -> list[dict[str, Any]]:
        """The rows as plain JSON values."""
        return [vars(row) for row in self.rows]


def exploration(simulated: Simulated) -> Exploration:
    """Success between the checkpoints of a simulation, and what exploring costs."""
    success, steps = simulated.success, [checkpoint.step for checkpoint in simulated.checkpoints]
    if simulated.plan.learner != "feedback":
        return Exploration((), ())
    rows = []
    for begin, end in pairwise(steps):
        drawn, top = success.means(begin, end)
        rows.append(Explored(begin + 1, end, drawn, top))
    reranked = simulated.variant.candidates > 1
    sentences = [_sentence(success, "Draws", "the reranker's pick of the best" if reranked else "the top document")]
    if (questions := simulated.by_question) is not None and len(questions.drawn):
        sentences.append(_sentence(questions, "Questions with every hop", "top documents"))
    return Exploration(tuple(rows), tuple(sentences))


def top_success(simulated: Simulated, steps: Sequence[int]) -> tuple[float | None, ...]:
    """The measure Success at steps, were nothing explored: of what would have been said of the top document.

    None where nothing is drawn.
    """
    trail, arrivals = simulated.trail, simulated.arrivals
    if simulated.plan.learner != "feedback":
        return (None,) * len(steps)
    said = np.array(
        [
            arrivals.give_feedback(index, int(row), bool(right))
            for index, (row, right) in enumerate(zip(trail.top, simulated.success.top, strict=True))
        ],
        dtype=bool,
    )
    return tuple(smoothed(said[:step]) for step in steps)


def _sentence(success: Success, what: str, instead: str) -> str:
    drawn, top = success.means()
    price = 100 * (top - drawn)
    costs = f"exploring costs {price:.1f} points" if price >= 0 else f"exploring gains {-price:.1f} points"
    return f"{what} are right in {percent(drawn, 1)}; {instead} would be in {percent(top, 1)}: {costs}."
