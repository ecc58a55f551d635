"""Exploration view: success of the drawn documents beside that of the best scores, between checkpoints."""

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
    """Rounds first to last, counted from 1: shares in which the drawn document is right, and the top one."""

    first: int
    last: int
    drawn: float
    top: float


@dataclass(frozen=True)
class Exploration:
    """The price of exploration; rows: none where nothing is drawn."""

    rows: tuple[Explored, ...]
    sentences: tuple[str, ...]

    def as_json(self) -> list[dict[str, Any]]:
        """Return the rows as plain JSON values."""
        return list(map(vars, self.rows))


def exploration(simulated: Simulated) -> Exploration:
    """Compute how often a simulation showed a right document, and in words the price of exploring.

    Exploring is to show a document drawn at random in place of the best one. The shares are taken between each two
    checkpoints. Both parts are empty for a simulation that draws nothing.
    """
    success, steps = simulated.success, [checkpoint.step for checkpoint in simulated.checkpoints]
    if simulated.plan.learner != "feedback":
        return Exploration((), ())
    rows = []
    for begin, end in pairwise(steps):
        drawn_mean, top_share = success.means(begin, end)
        rows.append(Explored(begin + 1, end, drawn_mean, top_share))
    # With several candidates a reranker chooses the document to show among those drawn.
    reranked = simulated.variant.candidates > 1
    sentences = [
        _sentence(
            success, "the right answer", "rounds", "the reranker's pick of the best" if reranked else "the top one"
        )
    ]
    if (questions := simulated.by_question) is not None and len(questions.drawn):
        sentences.append(_sentence(questions, "every hop", "questions", "the top ones"))
    return Exploration(tuple(rows), tuple(sentences))


def top_success(simulated: Simulated, steps: Sequence[int]) -> tuple[float | None, ...]:
    """Return the smoothed success at each step, had every round shown the top document, not one drawn.

    Success is a mean of the rounds' feedback in which recent rounds count more; here it is taken of the feedback that
    the top documents would have got. All values are None for a simulation that draws nothing.
    """
    trail, arrivals = simulated.trail, simulated.arrivals
    if simulated.plan.learner != "feedback":
        return (None,) * len(steps)
    # Wrong feedback comes in the same rounds as in the simulation, so that the two curves differ by exploration alone.
    feedback = np.empty(len(trail), dtype=bool)
    for index, (row, right) in enumerate(zip(trail.top, simulated.success.top, strict=True)):
        feedback[index] = arrivals.give_feedback(index, int(row), bool(right))
    return tuple(smoothed(feedback[:step]) for step in steps)


def _sentence(success: Success, subject: str, unit: str, instead: str) -> str:
    """State in how many rounds or questions the drawn documents are right, and in how many the best would have been.

    subject, unit, instead: what the sentence calls the right documents, the rounds, and the best documents
    """
    drawn_share, top_share = (percent(share, 1) for share in success.means())
    return f"Exploration: {subject} shown in {drawn_share} of {unit}; always showing {instead}, {top_share}."
