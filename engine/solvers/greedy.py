"""Greedy selection by a score that only falls: exact picks from a pool, certified against everything outside it.

A pass over the corpus bounds every score from above, and as scores only fall the bounds stay true. The best by bound
become a pool, and picks are made there for as long as the best beats every bound outside. Then the bounds
of the next few candidates are brought up to date with all picks at once, and a new pool is drawn. So a pick costs a
fraction of a pass, and the answer is that of the plain procedure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import torch

from engine.candidates import Candidates
from engine.solvers.lane import Problem
from engine.solvers.marginals import Marginal
from engine.solvers.pools import Batch
from engine.values import Ranking

POINT_NUMBERS = 1 << 24
"""How many numbers the points of one batch may hold (128 MiB)."""


def greedy(
    c: Candidates, k: int, marginal: Marginal, weights: Sequence[float], window: int | None = None
) -> list[Ranking]:
    """The k picks of every problem at every weight, in float64 wherever float32 leaves a pick open.

    window: only the last so many picks count, None for all. Returns one Ranking a weight; gain: the score at the
    moment of the pick; info: candidates; pool, the largest there was; passes over the candidates; close_calls, the
    picks that float64 decided in a fixed order of summation; certified, always: a pick that is not proven the best of
    all candidates is not made; past_rank, the first pick that is nothing but a combination of earlier ones, where the
    method tells them apart.
    """
    problems: list[Problem] = []
    for part in _parts(c, k * len(weights)):
        problems += Batch(part, k, marginal, weights, window if window and window < k else None).solved()
    return [_ranking(c, problems[at :: len(weights)]) for at in range(len(weights))]


class Weighted(Protocol):
    """What a stage must have: the weight of relevance, and how many picks count."""

    relevance_weight: float
    window: int | None


def greedy_grid(stages: Sequence[Weighted], c: Candidates, k: int, marginal: Marginal) -> list[Ranking]:
    """`greedy` for stages with weights and windows: those with the same window together."""
    answers: dict[int, Ranking] = {}
    for window in dict.fromkeys(stage.window for stage in stages):
        at = [i for i, stage in enumerate(stages) if stage.window == window]
        weights = list(dict.fromkeys(stages[i].relevance_weight for i in at))
        found = dict(zip(weights, greedy(c, k, marginal, weights, window), strict=True))
        answers |= {i: found[stages[i].relevance_weight] for i in at}
    return [answers[i] for i in range(len(stages))]


def _parts(c: Candidates, picks: int) -> Iterator[Candidates]:
    """Problems over one list of candidates each, few enough for their points to be held."""
    size = max(1, POINT_NUMBERS // (picks * c.vectors.shape[-1])) if c.vectors.ndim == 2 else 1
    for at in range(0, c.batch, size):
        of = slice(at, at + size)
        vectors = c.vectors if c.vectors.ndim == 2 else c.vectors[at]
        yield Candidates(vectors, c.relevance[of], c.queries[of], c.matrix, c.inner_product)


def _ranking(c: Candidates, problems: list[Problem]) -> Ranking:
    device = c.relevance.device
    info = tuple(
        {
            "candidates": c.count,
            "pool": p.largest,
            "passes": p.passes,
            "close_calls": p.close_calls,
            "certified": True,
            "past_rank": p.past_rank,
        }
        for p in problems
    )
    index = torch.tensor([p.picks for p in problems], dtype=torch.int64, device=device)
    return Ranking(index, torch.tensor([p.gains for p in problems], dtype=torch.float64, device=device), info)
