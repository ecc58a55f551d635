"""A pool on which several problems are taken forward together, as far as their certificates reach."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from engine.matrix import first_duplicate, products, times
from engine.solvers.greedy.objectives import Marginal, Nearest, exact_scores, residual, scores, span

LiveProblem = tuple[int, "Problem", float, int, float]
"""(place, problem, bound on what is outside, picks that are enough, close): a problem of a lane that still picks."""


@dataclass(kw_only=True)
class Problem:
    """One query at one weight, with what has been chosen so far and how it was decided."""

    number: int
    """Its place in the batch."""
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
    short: bool = False
    """Whether candidates with bounds out of date limited the last pool."""
    rough: bool = False
    """Whether gains come from a pool in less than float64."""

    def add(self, row: int, score: float, marginal: Marginal) -> None:
        """One more pick; a score from below the floor is told as the relevance that it orders by."""
        if marginal.below is not None and score < -marginal.below / 2:
            self.past_rank = len(self.picks) if self.past_rank is None else self.past_rank
            score = (score + marginal.below) / marginal.lift if marginal.lift else 0.0
        self.picks.append(row)
        self.gains.append(score)


@dataclass(kw_only=True)
class Lane:
    """Rows of the corpus and G problems that choose among them."""

    marginal: Marginal
    problems: list[Problem]
    ids: list[int]  # (m,) the rows' positions, ascending
    rows: Tensor  # (m, d)
    relevance: Tensor  # (G, m), in the rows' precision
    queries: Tensor | None  # (G, d) float64 whose inner products it is, or None
    basis: Tensor  # (G, t, d) float64 points of the picks so far where they are kept, else (0,)
    gram: Tensor | None  # (m, m) or None
    fetch: Callable[[list[int]], Tensor]  # gives the float64 rows of the corpus at given positions
    window: int | None  # only the last so many picks count
    margin: float  # float64 scores this close are summed once more in one fixed order

    def __post_init__(self) -> None:
        orthogonal = self.marginal.orthogonal
        self.keeps_basis = self.basis.ndim == 3
        self.filled = self.basis.shape[1] if self.keeps_basis else 0
        self.squares = torch.linalg.vector_norm(self.rows, dim=1).square_() if orthogonal else self.rows[:, 0]
        weight = torch.tensor([[p.weight] for p in self.problems], dtype=torch.float64, device=self.rows.device)
        self.terms = self.marginal.terms(weight, self.relevance, self.squares)
        self.columns = GramColumns(self.rows)

    def run(self, stop: list[int], tau: list[float], error: list[float], free: bool) -> None:
        """Pick for every problem until it has stop[g] documents or one outside the pool could score as much.

        tau: upper bounds on all scores outside; error: bounds on the error of a score here: what is closer is settled
        in float64, in one fixed order of summation; free: no problem has chosen a row of the pool yet.
        """
        marginal, terms = self.marginal, self.terms
        if not free:
            self._leave_out_chosen()
        if isinstance(marginal, Nearest) and len(self.problems) == 1 and self.window is None and self.rows.is_cpu:
            self._run_one(stop[0], tau[0] + error[0], 2 * error[0])
            return
        if self.keeps_basis:
            more = max(s - len(p.picks) for s, p in zip(stop, self.problems, strict=True))
            self.basis = torch.nn.functional.pad(self.basis, (0, 0, 0, more))
        state = self._state()
        live = [
            (g, p, tau[g] + error[g], stop[g], 2 * error[g])
            for g, p in enumerate(self.problems)
            if len(p.picks) < stop[g]
        ]
        two = min(2, len(self.ids))
        while True:
            score = marginal.score(terms, state)
            value, index = score.topk(two, dim=1)
            values, places = value.tolist(), index.tolist()
            winner = index[:, :1]
            for entry in tuple(live):
                g, problem, outside, enough, close = entry
                best, place = values[g][0], places[g][0]
                if best <= outside:
                    live.remove(entry)
                    continue
                if two == 2 and best - values[g][1] <= close:
                    winner[g, 0] = places[g][0] = place = self._settled(g, score[g] >= best - close, self.points(g))
                problem.add(self.ids[place], best, marginal)
                if len(problem.picks) == enough:
                    live.remove(entry)
            if not live:
                return
            terms.drop(winner)
            if self.window is None:
                state = marginal.fold_one(state, self._absorbed(winner[:, 0], [places[g][0] for g, *_ in live], live))
            else:
                state = self._state()

    def _run_one(self, stop: int, outside: float, close: float) -> None:
        """`run` for one mmr problem on a CPU: with arrays so small calls count, and NumPy's are the cheaper ones."""
        problem, rest = self.problems[0], 1 - self.problems[0].weight
        base, rows = self.terms.base[0].numpy(), self.rows.numpy()
        gram = None if self.gram is None else self.gram.numpy()
        chosen = np.empty((stop, rows.shape[1]))
        chosen[: len(problem.picks)] = before = self.fetch(problem.picks).numpy()
        inner = products(self.rows, torch.from_numpy(before).to(self.rows.dtype)).numpy()
        near = inner[0].copy() if len(inner) == 1 else inner.max(0)
        score = np.empty_like(base)
        while (done := len(problem.picks)) < stop:
            np.multiply(near, rest, out=score)
            np.subtract(base, score, out=score)
            place = int(score.argmax())
            best = float(score[place])
            if best <= outside:
                return
            score[place] = -np.inf
            if best - score.max() <= close:
                score[place] = best
                place = self._settled(0, torch.from_numpy(score >= best - close), torch.from_numpy(chosen[:done]))
            problem.add(self.ids[place], best, self.marginal)
            base[place] = -np.inf
            chosen[done] = rows[place]
            np.maximum(near, times(self.rows, self.rows[place]) if gram is None else gram[place], out=near)
        if problem.rough and self.queries is not None:
            inner = np.where(np.tri(stop, k=-1, dtype=bool), chosen @ chosen.T, -np.inf)
            gains = problem.weight * (chosen @ self.queries[0].numpy())
            gains[1:] -= rest * inner[1:].max(1)
            problem.gains, problem.rough = gains.tolist(), False

    def points(self, g: int) -> Tensor:
        """(t, d) the points of a problem's picks that count."""
        if self.keeps_basis:
            return self.basis[g, : self.filled]
        picks = self.problems[g].picks
        rows = self.fetch(picks if self.window is None else picks[-self.window :])
        return span(self.marginal, rows, rows[:0])

    def _leave_out_chosen(self) -> None:
        for g, problem in enumerate(self.problems):
            places = [(bisect_left(self.ids, row), row) for row in problem.picks]
            if inside := [place for place, row in places if place < len(self.ids) and self.ids[place] == row]:
                self.terms.base[g, inside] = -torch.inf
                if self.terms.after is not None:
                    self.terms.after[g, inside] = -torch.inf

    def _state(self) -> Tensor:
        """(G, m) the state from all picks that count."""
        start = self.marginal.start(self.squares).expand_as(self.relevance)
        longest = max(len(p.picks) for p in self.problems)
        if not longest:
            return start
        if self.marginal.orthogonal or self.window is not None:
            points = padded([self.points(g) for g in range(len(self.problems))], repeat=not self.marginal.orthogonal)
            inner = points.flatten(0, 1).to(self.rows.dtype) @ self.rows.T
            return self.marginal.fold(start, inner.view(*points.shape[:2], -1))
        # Problems that chose the same document share its products.
        picks = [p.picks + p.picks[-1:] * (longest - len(p.picks)) for p in self.problems]
        unique = list(dict.fromkeys(row for p in picks for row in p))
        place_of = {row: i for i, row in enumerate(unique)}
        inner = products(self.rows, self.fetch(unique).to(self.rows.dtype))
        if len(self.problems) == 1:
            return self.marginal.fold(start, inner.unsqueeze(0))
        place = torch.tensor([[place_of[row] for row in p] for p in picks], device=inner.device)
        return self.marginal.fold(start, inner[place])

    def _absorbed(self, picked: Tensor, places: list[int], live: list[LiveProblem]) -> Tensor:
        """(G, m) products of the candidates with the points of the picks, (G,); `places` are the live ones'."""
        if self.gram is not None:
            return self.gram.index_select(0, picked)
        if self.marginal.orthogonal:
            row = residual(self.marginal, self.rows.index_select(0, picked), self.basis[:, : self.filled])
            self.basis[:, self.filled] = row
            self.filled += 1
            return products(self.rows, row)
        if len(self.problems) == 1:
            return products(self.rows, self.rows.index_select(0, picked))
        return self.columns.of([g for g, *_ in live], places, len(self.problems))

    def _settled(self, g: int, open_: Tensor, points: Tensor) -> int:
        """The best of near-equal candidates, the lowest row of equal ones; points: (t, d) of what is chosen."""
        problem = self.problems[g]
        problem.close_calls += 1
        places = open_.nonzero().flatten()
        rows, relevance = self.rows[places].double(), self.relevance[g, places].double()
        if self.queries is not None:
            if self.rows.dtype != rows.dtype:
                # Most near-ties are of float32's making, and plain float64 tells them apart.
                value = scores(self.marginal, problem.weight, rows, rows @ self.queries[g], points @ rows.T)
                (best, second), order = value.topk(2)
                if best - second > self.margin:
                    return int(places[order[0]])
            if len(places) > 2:
                first = first_duplicate(rows) == torch.arange(len(places), device=places.device)
                places, rows = places[first], rows[first]
            relevance = (rows * self.queries[g]).sum(1)
        return int(places[exact_scores(self.marginal, problem.weight, rows, relevance, points).argmax()])


class GramColumns:
    """Products of all rows with some of them, each made once: problems at neighbouring weights pick much the same."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows
        self.slot: dict[int, int] = {}
        self.made = rows.new_empty(0, len(rows))

    def of(self, live: list[int], places: list[int], problems: int) -> Tensor:
        """(G, m) the products of each live problem's pick; any column will do for those that are done."""
        if new := [place for place in dict.fromkeys(places) if place not in self.slot]:
            used = len(self.slot)
            if used + len(new) > len(self.made):
                self.made = torch.cat([self.made, self.rows.new_empty(len(self.made) + 8 * len(new), len(self.rows))])
            self.made[used : used + len(new)] = products(self.rows, self.rows[new])
            self.slot |= {place: used + i for i, place in enumerate(new)}
        slots = [self.slot[places[0]]] * problems
        for g, place in zip(live, places, strict=True):
            slots[g] = self.slot[place]
        return self.made.index_select(0, torch.tensor(slots, device=self.made.device))


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
