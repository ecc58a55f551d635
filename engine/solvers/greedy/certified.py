"""Greedy selection by compiled steps: on all inner products where candidates are few, else on certified pools.

A pass over the vectors bounds every gain from above. The best by bound become a pool in float64, where picks are made
for as long as the best beats every bound outside. As the gains of mmr, dpp and ssd only fall, a bound stays true;
those of max_sum move by no more than `beyond` says. Then the bounds are renewed with all picks and a new pool is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import GRAM_ROWS, first_duplicate, products, rounding, underflow
from engine.solvers.gram import Gram, corpus_gram, relevance
from engine.solvers.greedy.steps import (
    NEAREST,
    SUM,
    choose,
    choose_many,
    fold_bound,
    nothing_chosen,
    orthonormal,
    upper_bounds,
)
from engine.solvers.tie_breaking import ranked
from engine.values import Ranking

FEW = 256
"""Up to so many candidates all are one pool."""
MANY = 8
"""So many problems over a small corpus repay keeping its inner products."""
POOL = (128, 256)
"""The first pool has eight rows a pick within these limits; it doubles after fewer than FRUITFUL picks."""
SUM_POOL = 1024
"""That of max_sum has so many rows and two a pick."""
MOST_POOL = 1024
"""No pool is larger."""
NEAR = 4096
"""The bounds of so many candidates are renewed alone, where that is less than a tenth of all."""
FRUITFUL = 16
TOGETHER = 16
"""With so many points a pass has products at a time."""
AHEAD = 8
"""So many further picks of a pool are guessed, and share a pass."""


class Weighted(Protocol):
    """What a stage must have: the weight of relevance, and how many picks count."""

    @property
    def relevance_weight(self) -> float: ...
    @property
    def window(self) -> int | None: ...


@dataclass(eq=False)
class Problem:
    """One query at one weight, with what has been chosen so far and how."""

    weight: float
    chosen: np.ndarray
    scores: np.ndarray
    pool: int
    """How many rows its next pool has."""
    done: int = 0
    past: int = -1
    largest: int = 0
    passes: int = 0
    close_calls: int = 0
    state: np.ndarray = field(default_factory=lambda: np.empty(0))
    """Upper bounds on the states of all candidates after the first `fresh` picks."""
    fresh: int = 0
    whole: bool = True
    """Whether the next renewal is one of all bounds."""


def greedy_grid(stages: Sequence[Weighted], c: Candidates, k: int, kind: int, floor: float = 0.0) -> list[Ranking]:
    """`greedy` for stages with weights and windows: those with the same window together."""
    answers: dict[tuple[int | None, float], Ranking] = {}
    for window in dict.fromkeys(stage.window for stage in stages):
        weights = list(dict.fromkeys(stage.relevance_weight for stage in stages if stage.window == window))
        rankings = greedy(c, k, kind, weights, window, floor)
        answers |= {(window, weight): ranking for weight, ranking in zip(weights, rankings, strict=True)}
    return [answers[stage.window, stage.relevance_weight] for stage in stages]


def greedy(
    c: Candidates, k: int, kind: int, weights: Sequence[float], window: int | None = None, floor: float = 0.0
) -> list[Ranking]:
    """The k picks of every problem at every weight, in float64.

    kind, floor: see `steps`; window: only the last so many picks count, None for all. Returns one Ranking a weight;
    gain: the score at the moment of the pick; info: candidates; pool, the largest there was; passes over the
    candidates after that for relevance; close_calls, the picks for which every candidate in reach was compared;
    certified, always: no other pick is made; past_rank, the first pick that is nothing but a combination of earlier
    ones, where the method tells them apart.
    """
    by_relevance = k == 1 or kind in (NEAREST, SUM) or c.matrix.unit
    last = 0 if window is None or window >= k else window
    gram = corpus_gram(c) if c.matrix.cached or c.batch * len(weights) >= MANY else None
    if gram is not None:
        found = choose_many(
            kind, gram.columns, gram.rows, gram.made, gram.squares, relevance(c, gram), k, np.array(weights), last,
            floor, by_relevance,
        )  # fmt: skip
        told = [[(c.count, 0, 0, past) for past in row] for row in found[2].tolist()]
        return [_ranking(c, found[0][:, at], found[1][:, at], [row[at] for row in told]) for at in range(len(weights))]
    problems = [_Query(c, b, k, kind, last, floor, by_relevance).solved(weights) for b in range(c.batch)]
    return [_gathered(c, [row[at] for row in problems]) for at in range(len(weights))]


def _gathered(c: Candidates, problems: list[Problem]) -> Ranking:
    told = [(p.largest, p.passes, p.close_calls, p.past) for p in problems]
    return _ranking(c, np.stack([p.chosen for p in problems]), np.stack([p.scores for p in problems]), told)


def _ranking(c: Candidates, chosen: np.ndarray, scores: np.ndarray, told: list[tuple[int, int, int, int]]) -> Ranking:
    info = tuple(
        {
            "candidates": c.count,
            "pool": pool,
            "passes": passes,
            "close_calls": close_calls,
            "certified": True,
            "past_rank": None if past < 0 else past,
        }
        for pool, passes, close_calls, past in told
    )
    device = c.relevance.device
    return Ranking(torch.from_numpy(chosen.copy()).to(device), torch.from_numpy(scores.copy()).to(device), info)


@dataclass(frozen=True, eq=False)
class Pool:
    """Some candidates, ascending, with their inner products and relevance in float64."""

    ids: np.ndarray
    gram: Gram
    relevance: np.ndarray


class _Query:
    """One query over many candidates, and its problems."""

    def __init__(self, c: Candidates, b: int, k: int, kind: int, window: int, floor: float, by_relevance: bool) -> None:
        self.c, self.b, self.k, self.kind, self.window, self.floor = c, b, k, kind, window, floor
        self.by_relevance, self.residual = by_relevance, kind not in (NEAREST, SUM)
        self.vectors = c.vectors if c.vectors.ndim == 2 else c.vectors[b]
        self.relevance = c.relevance[b].double().cpu().numpy()
        self.relevance_error = float(c.relevance_error[b])
        self.query = c.queries[b : b + 1] if c.inner_product else None
        # With a window a bound is true only while the picks it was computed from are inside it.
        self.horizon = (window + 1) // 2 if window else k
        self.pool: Pool | None = None
        self.ahead: dict[int, Tensor] = {}

    @cached_property
    def squares(self) -> np.ndarray:
        """(n,) upper bounds on the squared lengths."""
        c = self.c
        squares = c.squares if c.squares.ndim == 1 else c.squares[self.b]
        larger: np.ndarray = squares.double().cpu().numpy() * (1 + 4 * rounding(c.vectors)) + underflow(c.vectors)
        return larger

    @cached_property
    def first(self) -> int:
        """The most relevant candidate."""
        near = np.flatnonzero(self.relevance >= self.relevance.max() - 2 * self.relevance_error)
        if len(near) == 1 or self.query is None:
            return int(near[self.relevance[near].argmax()])
        exact = [
            Gram(self.rows(near[i : i + GRAM_ROWS])).relevance(self.query)[0] for i in range(0, len(near), GRAM_ROWS)
        ]
        return int(near[np.concatenate(exact).argmax()])

    @cached_property
    def duplicate_of(self) -> np.ndarray:
        """(n,) the lowest candidate with the same bytes."""
        same = self.c.matrix.duplicate_of if self.c.shared else first_duplicate(self.vectors)
        result: np.ndarray = same.cpu().numpy()
        return result

    def rows(self, index: np.ndarray) -> Tensor:
        """(m, d) vectors of some candidates."""
        return self.vectors.index_select(0, torch.from_numpy(index).to(self.vectors.device))

    def solved(self, weights: Sequence[float]) -> list[Problem]:
        """The problems at some weights, each with its k picks."""
        chosen = np.full(self.k, self.first if self.by_relevance else 0)
        size = SUM_POOL + 2 * self.k if self.kind == SUM else min(max(8 * self.k, POOL[0]), POOL[1])
        problems = [Problem(weight, chosen.copy(), np.empty(self.k), size) for weight in weights]
        if self.c.count <= FEW:
            everything = self._pool(np.arange(self.c.count))
            for p in problems:
                self._advance(p, everything, -np.inf, self.k)
        while active := [p for p in problems if p.done < self.k]:
            self._round(active)
        return problems

    def _pool(self, ids: np.ndarray) -> Pool:
        gram = Gram(self.rows(ids))
        return Pool(ids, gram, self.relevance[ids] if self.query is None else gram.relevance(self.query)[0])

    def _round(self, active: list[Problem]) -> None:
        """Picks for all problems: from the pool that is there, or from a new one for those to whom it gives none."""
        bounds = [self._bounds(p) for p in active]
        if self.kind != SUM:
            # Every pick moves the best by bound; those of max_sum stay much the same, and its pools are large.
            self.pool = None
        stuck = [(p, *bound) for p, bound in zip(active, bounds, strict=True) if not self._picked(p, *bound)]
        if not stuck:
            return
        near = [_largest(upper, min(p.pool, len(upper))) for p, upper, _ in stuck]
        self.pool = self._pool(np.unique(np.concatenate([*near, *(p.chosen[: self._sure(p)] for p, _, _ in stuck)])))
        for p, upper, stale in stuck:
            done, size = p.done, p.pool
            picked = self._picked(p, upper, stale)
            if p.done - done < FRUITFUL:
                p.pool, p.whole = min(2 * size, max(size, MOST_POOL)), True
            if not picked and size >= MOST_POOL and stale == -np.inf:
                self._settle(p, upper)

    def _sure(self, p: Problem) -> int:
        """How many picks are known: the first before any pool."""
        return max(p.done, int(self.by_relevance))

    def _picked(self, p: Problem, upper: np.ndarray, stale: float) -> bool:
        """Whether the pool gave a problem picks.

        upper: (n,) bounds on the gains, no larger than `stale` where they are −inf
        """
        if self.pool is None or not np.isin(p.chosen[: self._sure(p)], self.pool.ids).all():
            return False
        before, outside = self._sure(p), upper.copy()
        outside[self.pool.ids] = -np.inf
        stop = min(self.k, before + self.horizon)
        self._advance(p, self.pool, max(float(outside.max()), stale), stop)
        return p.done > before or p.done == self.k

    def _advance(self, p: Problem, pool: Pool, outside: float, stop: int) -> None:
        """Picks of a problem in a pool up to `stop`, while they beat what is outside."""
        geometry, along = np.array([outside, 0.0, 0.0, 0.0]), np.zeros(len(pool.ids))
        if self.kind == SUM:
            beta = 2 * (1 - p.weight)
            geometry[1:3] = beta, self.c.max_norm * (1 + 1e-5)
            if self.query is not None:
                picked = self.rows(p.chosen[: self._sure(p)]).double().sum(0)
                point = (self.k - 1) * p.weight * self.query.double() - beta * picked
                geometry[3], along = float(point.norm()), pool.gram.relevance(point)[0]
        places, gram = np.zeros(self.k, np.int64), pool.gram
        places[: p.done] = np.searchsorted(pool.ids, p.chosen[: p.done])
        done, past = choose(
            self.kind, gram.columns, gram.rows, gram.made, gram.squares, pool.relevance, self.k, p.weight, self.window,
            self.floor, self.by_relevance, geometry, along, places, p.scores, p.done, stop,
        )  # fmt: skip
        p.chosen[p.done : done], p.done = pool.ids[places[p.done : done]], done
        p.past, p.largest = past if p.past < 0 else p.past, max(p.largest, len(pool.ids))

    def _bounds(self, p: Problem) -> tuple[np.ndarray, float]:
        """(n,) upper bounds on the gains of those that may enter the pool, −inf for others, and a bound on theirs."""
        sure = self._sure(p)
        if not len(p.state) or self.window:
            p.state, p.fresh = np.empty(self.c.count), 0
            nothing_chosen(self.kind, self.squares, p.state)
        if self.window:
            p.fresh = max(0, sure + self.horizon - 1 - self.window)
        alone = not self.window and self.kind != SUM and self.c.count > 10 * NEAR and not p.whole
        if alone and p.fresh < sure:
            upper = self._upper(p, p.state)
            near = _largest(upper, NEAR + 1)
            beyond, near = float(upper[near].min()), np.sort(near[upper[near] > upper[near].min()])
            state, upper = p.state[near], np.full(self.c.count, -np.inf)
            self._fold(p, state, self.rows(near))
            upper[near] = self._upper(p, state, near)
            return upper, beyond
        if p.fresh < sure:
            self._fold(p, p.state, self.vectors)
            p.passes, p.whole = p.passes + self.residual, False
            p.fresh = p.fresh if self.window else sure
        return self._upper(p, p.state), -np.inf

    def _fold(self, p: Problem, state: np.ndarray, vectors: Tensor) -> None:
        """Fold the picks from number `fresh` on into a bound on the states of some vectors."""
        start = p.fresh if self.window or not self.residual else 0
        points = self.rows(p.chosen[start : self._sure(p)]).double()
        if self.residual:
            columns, basis = points.T.contiguous().cpu().numpy(), np.zeros(tuple(reversed(points.shape)))
            orthonormal(columns, np.arange(len(points)), len(points), self.floor, basis)
            points = torch.from_numpy(basis.T[p.fresh - start :].copy()).to(vectors.device)
        if vectors is self.vectors and not self.residual:
            self._fold_ahead(p, points, state)
            return
        for part in points.to(vectors.dtype).split(TOGETHER):
            fold_bound(self.kind, products(vectors, part).cpu().numpy(), self._error(part), state)

    def _fold_ahead(self, p: Problem, points: Tensor, state: np.ndarray) -> None:
        """The same for picked rows themselves; a pass that has to be made takes along what the pool would pick next."""
        picks = p.chosen[self._sure(p) - len(points) : self._sure(p)].tolist()
        missing = [row for row in picks if row not in self.ahead]
        if missing:
            p.passes += 1
            rows = list(dict.fromkeys([*missing, *self._guesses(p)]))
            made = products(self.vectors, self.rows(np.array(rows))).cpu()
            self.ahead = {row: self.ahead[row] for row in picks if row in self.ahead}
            self.ahead |= zip(rows, made, strict=True)
        error = self._error(points)
        for row in picks:
            fold_bound(self.kind, self.ahead[row].unsqueeze(0).numpy(), error, state)

    def _guesses(self, p: Problem) -> list[int]:
        """What a problem would pick next if there were nothing outside its pool."""
        if self.pool is None or not np.isin(p.chosen[: self._sure(p)], self.pool.ids).all():
            return []
        guess = replace(p, chosen=p.chosen.copy(), scores=p.scores.copy())
        self._advance(guess, self.pool, -np.inf, min(self.k, self._sure(p) + AHEAD))
        return [int(row) for row in guess.chosen[self._sure(p) : guess.done]]

    def _error(self, points: Tensor) -> float:
        """Bound on the error of products with points."""
        length = float(torch.linalg.vector_norm(points.double(), dim=1).max())
        # Points that are to be at right angles are so within some rounding of float64.
        return (rounding(self.vectors) + 1e-11) * self.c.max_norm * length * (1 + 1e-5) + underflow(self.vectors)

    def _upper(self, p: Problem, state: np.ndarray, ids: np.ndarray | None = None) -> np.ndarray:
        """Upper bounds on the gains of all candidates, or of some, −inf where chosen."""
        at = slice(None) if ids is None else ids
        upper: np.ndarray = upper_bounds(
            self.kind, self.relevance[at], self.relevance_error, state, self.squares[at], self.k, p.weight, self.floor
        )
        picked = p.chosen[: self._sure(p)]
        upper[picked if ids is None else np.isin(ids, picked)] = -np.inf
        return upper

    def _settle(self, p: Problem, upper: np.ndarray) -> None:
        """The next pick by comparison of all whose bound reaches the best of the pool, a pool at a time."""
        assert self.pool is not None
        done, past, best = p.done, p.past, (False, -np.inf, 0)

        def contest(pool: Pool) -> None:
            nonlocal best
            p.done, p.past = done, -1
            self._advance(p, pool, -np.inf, done + 1)
            best = max(best, (p.past < 0, float(p.scores[done]), -int(p.chosen[done])))

        contest(self.pool)
        reach = np.flatnonzero((upper >= best[1]) | (not best[0]) & (upper > -np.inf))
        # Of identical candidates only the lowest can win.
        reach = reach[np.sort(np.unique(self.duplicate_of[reach], return_index=True)[1])]
        for start in range(0, len(reach), MOST_POOL):
            contest(self._pool(np.union1d(reach[start : start + MOST_POOL], p.chosen[:done])))
        p.chosen[done], p.scores[done], p.done = -best[2], best[1], done + 1
        p.past = done if past < 0 and not best[0] else past
        p.close_calls += 1
        if not best[0] and not self.window:
            self._rest(p)

    def _rest(self, p: Problem) -> None:
        """The remaining picks where every candidate lies in the span of the chosen: relevance orders them."""
        c, left = self.c, self.c.relevance[self.b].clone()
        left[torch.from_numpy(p.chosen[: p.done]).to(left.device)] = -torch.inf

        def exact(_: Tensor, at: Tensor) -> Tensor:
            return c.exact_relevance(torch.full_like(at, self.b), at).masked_fill(left[at] == -torch.inf, -torch.inf)

        error = c.relevance_error[self.b : self.b + 1]
        index, gain = ranked(left.unsqueeze(0), self.k - p.done, error, exact)
        p.chosen[p.done :], p.scores[p.done :] = index[0].cpu().numpy(), gain[0].cpu().numpy()
        p.done = self.k


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    """Positions of the `count` largest values, in any order."""
    result: np.ndarray = torch.from_numpy(values).topk(count, sorted=False).indices.numpy()
    return result
