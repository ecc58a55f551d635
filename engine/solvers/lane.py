"""A pool in float64 on which several problems are taken forward together, as far as their certificates reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from engine.matrix import lowest_twin, products
from engine.solvers.marginals import Marginal, exact_scores, residual, span


@dataclass
class Problem:
    """One query at one weight, number `at` of its batch: what has been chosen so far and how it was decided."""

    at: int
    query: int
    weight: float
    pool: int
    """How many rows its next pool has."""
    reach: int
    """For how many rows its bounds are brought up to date next."""
    picks: list[int] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)
    past_rank: int | None = None
    largest: int = 0
    """The largest pool so far."""
    passes: int = 0
    close_calls: int = 0
    fresh: int = 0
    """How many picks the bounds of all candidates know of."""
    stalls: int = 0

    def add(self, row: int, score: float, below: float | None) -> None:
        """One more pick; a score from below the floor is told as the relevance that it orders by."""
        if below is not None and score < -below / 2:
            self.past_rank = len(self.picks) if self.past_rank is None else self.past_rank
            score += below
        self.picks.append(row)
        self.gains.append(score)


class Lane:
    """Rows of the corpus, (m, d) in float64, and G problems that choose among them.

    ids: (m,) the rows' positions, ascending; relevance: (G, m) float64; queries: (G, d) float64 whose inner products
    they are, or None; points: (G, t, d) those of the picks so far, padded with zeros or repetitions; gram: (m, m)
    float64 or None; scale: of scores and squared lengths; count: how many rows the corpus has.
    """

    def __init__(
        self,
        marginal: Marginal,
        problems: list[Problem],
        ids: Tensor,
        rows: Tensor,
        relevance: Tensor,
        queries: Tensor | None,
        points: Tensor,
        gram: Tensor | None,
        scale: float,
        count: int,
    ) -> None:
        self.marginal, self.problems, self.queries = marginal, problems, queries
        self.ids, self.rows, self.relevance, self.gram = ids.tolist(), rows, relevance, gram
        self.points, self.filled = points, points.shape[1]
        self.squares = torch.linalg.vector_norm(rows, dim=1).square_()
        self.margin = marginal.margin * scale
        weight = torch.tensor([[p.weight] for p in problems], dtype=rows.dtype, device=rows.device)
        self.terms = marginal.terms(weight, relevance, self.squares)
        # In a pool of its own a problem's chosen rows come last, so they are there only when little else is.
        if len(problems) > 1 or len(self.ids) + len(problems[0].picks) > count:
            place = {row: at for at, row in enumerate(self.ids)}
            for g, problem in enumerate(problems):
                for row in problem.picks:
                    if row in place:
                        self.terms.drop_one(g, place[row])
        self.steps: list[Tensor] = []

    def run(self, stop: list[int], tau: list[float], window: int | None, fetch: Callable[[list[int]], Tensor]) -> None:
        """Pick for every problem until it has stop[g] documents or one outside the pool could score as much.

        tau: upper bounds on the scores of everything outside; window: only the last so many picks count; fetch: gives
        the float64 rows of the corpus at given positions.
        """
        marginal, terms = self.marginal, self.terms
        if marginal.orthogonal and window is None:
            more = max(s - len(p.picks) for s, p in zip(stop, self.problems, strict=True))
            self.points = torch.nn.functional.pad(self.points, (0, 0, 0, more))
        state = self._folded(self.points[:, : self.filled])
        live = [(g, p, tau[g], stop[g]) for g, p in enumerate(self.problems) if len(p.picks) < stop[g]]
        two, close = min(2, len(self.ids)), 2 * self.margin
        while True:
            score = marginal.score(terms, state)
            value, at = score.topk(two, dim=1)
            values, places = value.tolist(), at.tolist()
            at = at[:, :1]
            for entry in tuple(live):
                g, problem, outside, enough = entry
                best, place = values[g][0], places[g][0]
                if best - self.margin <= outside:
                    live.remove(entry)
                    continue
                if best - values[g][-1] <= close and two == 2:
                    at[g, 0] = place = self._settled(g, score[g] >= best - close)
                problem.add(self.ids[place], best, marginal.below)
                if len(problem.picks) == enough:
                    live.remove(entry)
            if not live:
                return
            terms.drop(at)
            if window is None:
                state = marginal.fold_one(state, self._absorbed(at[:, 0]))
            else:
                self.points = self.windowed(window, fetch)
                self.filled = self.points.shape[1]
                state = self._folded(self.points)

    def windowed(self, window: int, fetch: Callable[[list[int]], Tensor]) -> Tensor:
        """(G, ≤ window, d) points of each problem's last picks."""
        rows = [fetch(p.picks[-window:]) for p in self.problems]
        return padded([span(self.marginal, r, r[:0]) for r in rows], repeat=not self.marginal.orthogonal)

    def _folded(self, points: Tensor) -> Tensor:
        state = self.marginal.start(self.squares).expand_as(self.relevance)
        if not points.shape[1]:
            return state
        return self.marginal.fold(state, (points.flatten(0, 1) @ self.rows.T).view(*points.shape[:2], -1))

    def _absorbed(self, at: Tensor) -> Tensor:
        """(G, m) products of the candidates with the points of the picks `at`, which are kept."""
        if self.gram is not None:
            self.steps.append(at)
            return self.gram.index_select(0, at)
        row = self.rows.index_select(0, at)
        if self.marginal.orthogonal:
            row = residual(self.marginal, row, self.points[:, : self.filled])
            self.points[:, self.filled] = row
            self.filled += 1
        else:
            self.steps.append(at)
        return products(self.rows, row)

    def _points(self, g: int) -> Tensor:
        """(t, d) the points of a problem's picks."""
        points = self.points[g, : self.filled]
        if not self.steps:
            return points
        return torch.cat([points, self.rows[torch.stack([at[g] for at in self.steps])]])

    def _settled(self, g: int, open_: Tensor) -> int:
        """The best of near-equal candidates, the lowest row of equal ones."""
        self.problems[g].close_calls += 1
        at = open_.nonzero().flatten()
        rows, relevance = self.rows[at], self.relevance[g, at]
        if self.queries is not None:
            if len(at) > 2:
                first = lowest_twin(rows) == torch.arange(len(at), device=at.device)
                at, rows = at[first], rows[first]
            relevance = (rows * self.queries[g]).sum(1)
        score = exact_scores(self.marginal, self.problems[g].weight, rows, relevance, self._points(g))
        return int(at[score.argmax()])


def padded(parts: list[Tensor], repeat: bool) -> Tensor:
    """(G, t, d) from (t_g, d) each, filled up to the longest with repetitions of the last row, or with zeros."""
    if len(parts) == 1:
        return parts[0].unsqueeze(0)
    longest = max(map(len, parts))
    filled = parts[0].new_zeros(len(parts), longest, parts[0].shape[1])
    for g, part in enumerate(parts):
        filled[g, : len(part)] = part
        if repeat:
            filled[g, len(part) :] = part[-1]
    return filled
