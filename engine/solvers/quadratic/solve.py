"""Rankings by the quadratic objective: on Gram rows for a small corpus, by certified passes for a large one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from engine.candidates import Candidates
from engine.matrix import GRAM_ROWS, Matrix
from engine.solvers.gram import problems, ranking
from engine.solvers.greedy.certified import greedy
from engine.solvers.greedy.steps import SUM
from engine.solvers.quadratic.frank_wolfe import ascend
from engine.solvers.quadratic.local_search import most_swaps, polish
from engine.solvers.quadratic.objective import TOLERANCE, Quadratic, most_relevant
from engine.solvers.quadratic.sets import FIGURES, STEPS, SetsOnGram, sets
from engine.values import Ranking

Array = np.ndarray


@dataclass(frozen=True)
class SetSearch:
    """How a set is sought.

    weight: θ; loading: δ of the ascent, None where greed begins instead; starts: from how many sets swaps start
    """

    weight: float
    loading: float | None
    starts: int

    def details(self, **columns: Sequence[Any]) -> dict[str, Sequence[Any]]:
        """What is told of such a set."""
        kept = [] if self.loading is None else ["iterations", "gap", "integral", "capped"]
        kept += ["swaps", "swap_optimal"] if self.starts else []
        return {name: columns[name] for name in kept + (["starts"] if self.starts > 1 else [])}


def rankings(c: Candidates, k: int, settings: Sequence[SetSearch]) -> list[Ranking]:
    """The answers of every setting, which share relevance and inner products."""
    if k == 1:
        return [most_relevant(c)] * len(settings)
    if c.count <= GRAM_ROWS and (c.matrix.cached or any(setting.starts for setting in settings)):
        return _by_gram(c, k, settings)
    return [_by_passes(Quadratic(c, k, setting.weight), setting) for setting in settings]


def _by_gram(c: Candidates, k: int, settings: Sequence[SetSearch]) -> list[Ranking]:
    shape = (c.batch, len(settings), k)
    index, gain, figures = np.empty(shape, np.int64), np.empty(shape), np.empty((*shape[:2], FIGURES))
    table = np.array([(s.weight, s.loading or 0.0, s.loading is None, s.starts) for s in settings], np.float64)
    relevant = Quadratic(c, k, 1.0).scale.cpu().numpy() / (k - 1)
    reach = np.column_stack([relevant, np.full(c.batch, c.max_norm**2)])
    for own, gram, relevance in problems(c):
        search = SetsOnGram(gram, np.ones(c.count) if c.matrix.unit else gram.squares, k, most_swaps(k))
        sets(search, relevance, reach[own], table, TOLERANCE, index[own], gain[own], figures[own])
    return [_ranking(c, s, index[:, at], gain[:, at], figures[:, at]) for at, s in enumerate(settings)]


def _ranking(c: Candidates, setting: SetSearch, index: Array, gain: Array, figures: Array) -> Ranking:
    objective, steps, gap, swaps, settled, starts, whole = figures.T
    details = setting.details(
        iterations=steps.astype(int).tolist(), gap=gap.tolist(), integral=whole.astype(bool).tolist(),
        capped=(steps == STEPS).tolist(), swaps=swaps.astype(int).tolist(),
        swap_optimal=settled.astype(bool).tolist(), starts=starts.astype(int).tolist(),
    )  # fmt: skip
    names = ["objective", *details, "candidates"]
    rows = zip(objective.tolist(), *details.values(), [c.count] * c.batch, strict=True)
    info = tuple(dict(zip(names, row, strict=True)) for row in rows)
    return ranking(c, index, gain, info)


def _by_passes(p: Quadratic, setting: SetSearch) -> Ranking:
    if setting.loading is None:
        index, columns = greedy(p.c, p.k, SUM, [p.weight])[0].index.sort(dim=1).values, {}
        field, error = p.field(p.every, p.sums(p.every, index))
        fresh = torch.ones_like(p.every, dtype=torch.bool)
    else:
        end = ascend(p, setting.loading)
        index, field, error, fresh = end.index, end.field, end.error, end.fresh
        columns = {"iterations": end.steps.tolist(), "gap": end.gap.tolist()}
        columns |= {"integral": end.integral.tolist(), "capped": (end.steps == STEPS).tolist()}
    if setting.starts:
        better = polish(p, index, setting.starts > 1, field, error, fresh)
        index = better.index
        columns |= {"swaps": better.swaps, "swap_optimal": better.optimal, "starts": better.starts}
    return p.ranking(index, setting.details(**columns))


def warm() -> None:
    """Compile every loop, or load what was compiled."""
    rows = torch.eye(8)
    matrix = Matrix(rows, cached=True)
    c = Candidates(rows, rows[:1], rows[:1], matrix)
    rankings(c, 2, [SetSearch(0.5, 1.0, 3)])
