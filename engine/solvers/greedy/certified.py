"""Greedy selection by compiled steps: on all inner products where candidates are few, else on certified pools.

A pass over the vectors bounds every gain from above. The best by bound become a pool in float64, where picks are made
for as long as the best beats every bound outside. As the gains of mmr, dpp and ssd only fall, a bound stays true;
those of max_sum move by no more than `beyond` says. Then the bounds are renewed with all picks and a new pool is drawn.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import Matrix, first_duplicate, products, rounding, underflow
from engine.solvers.gram import Gram, corpus_gram, ranking, relevance
from engine.solvers.greedy.steps import (
    LOG_RESIDUAL,
    NEAREST,
    SUM,
    choose,
    choose_many,
    fold_bound,
    nothing_chosen,
    orthonormal,
    upper_bounds,
)
from engine.solvers.jit import interpreting, is_compiled
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


@dataclass(frozen=True, kw_only=True)
class Method:
    """What is chosen by: see `steps`; window 0 is none; by_relevance: the first pick is the most relevant."""

    kind: int
    k: int
    window: int
    floor: float
    by_relevance: bool

    @property
    def residual(self) -> bool:
        """Whether gains come from distances to the span of the chosen."""
        return self.kind not in (NEAREST, SUM)

    @property
    def horizon(self) -> int:
        """For how many picks a bound holds: with a window, while the picks it was computed from are inside it."""
        return (self.window + 1) // 2 if self.window else self.k


@dataclass(eq=False, kw_only=True)
class Problem:
    """One query at one weight, with what has been chosen so far and how."""

    weight: float
    chosen: np.ndarray
    scores: np.ndarray
    pool: int
    """How many rows its next pool has."""
    known: int
    """How many picks are known before any pool: the first, or none."""
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

    @property
    def picks(self) -> np.ndarray:
        """Those that are made or known."""
        return self.chosen[: max(self.done, self.known)]


def greedy(
    c: Candidates,
    k: int,
    kind: int,
    weights: Sequence[float],
    window: int | None = None,
    floor: float = 0.0,
    compiling: bool = False,
) -> list[Ranking]:
    """The k picks of every problem at every weight, in float64.

    kind, floor: see `steps`; window: only the last so many picks count, None for all; compiling: wait for compilation
    even where a problem is solved sooner without. Returns one Ranking a weight;
    gain: the score at the moment of the pick; info: candidates; pool, the largest there was; passes over the
    candidates after that for relevance; close_calls, the picks for which every candidate in reach was compared;
    certified, always: no other pick is made; past_rank, the first pick that is nothing but a combination of earlier
    ones, where the method tells them apart.
    """
    method = Method(
        kind=kind,
        k=k,
        window=0 if window is None or window >= k else window,
        floor=floor,
        by_relevance=k == 1 or kind in (NEAREST, SUM) or c.matrix.unit,
    )
    few = c.batch * len(weights) < MANY
    # For pools, which are small, no compilation is worth waiting.
    waits = few and not compiling and not is_compiled(choose)
    gram = corpus_gram(c) if not (waits or (few and not c.matrix.cached)) else None
    if gram is not None:
        found = choose_many(
            kind, gram.columns, gram.rows, gram.made, gram.squares, relevance(c, gram), k, np.array(weights),
            method.window, floor, method.by_relevance,
        )  # fmt: skip
        told = [[(c.count, 0, 0, past) for past in row] for row in found[2].tolist()]
        return [_ranking(c, found[0][:, at], found[1][:, at], [row[at] for row in told]) for at in range(len(weights))]
    with interpreting() if waits else nullcontext():
        problems = [PoolSearch(SingleQuery(c, b), method).solved(weights) for b in range(c.batch)]
    rankings = []
    for own in zip(*problems, strict=True):
        figures = [(p.largest, p.passes, p.close_calls, p.past) for p in own]
        rankings.append(_ranking(c, np.stack([p.chosen for p in own]), np.stack([p.scores for p in own]), figures))
    return rankings


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
    return ranking(c, chosen, scores, info)


@dataclass(frozen=True, eq=False)
class Pool:
    """Some candidates, ascending, with their inner products and relevance in float64."""

    ids: np.ndarray
    gram: Gram
    relevance: np.ndarray


class SingleQuery:
    """One query over many candidates."""

    def __init__(self, c: Candidates, b: int) -> None:
        self.c, self.b = c, b
        self.vectors = c.vectors if c.vectors.ndim == 2 else c.vectors[b]
        self.relevance = c.relevance[b].double().cpu().numpy()
        self.relevance_error = float(c.relevance_error[b])
        self.point = c.queries[b : b + 1] if c.inner_product else None

    @cached_property
    def squares(self) -> np.ndarray:
        """(n,) upper bounds on the squared lengths."""
        c = self.c
        squares = c.squares if c.squares.ndim == 1 else c.squares[self.b]
        return squares.double().cpu().numpy() * (1 + 4 * rounding(c.vectors)) + underflow(c.vectors)

    @cached_property
    def first(self) -> int:
        """The most relevant candidate."""
        near = np.flatnonzero(self.relevance >= self.relevance.max() - 2 * self.relevance_error)
        parts = [self.pool(part).relevance for part in np.array_split(near, -(-len(near) // MOST_POOL))]
        return int(near[np.concatenate(parts).argmax()])

    def rows(self, index: np.ndarray) -> Tensor:
        """(m, d) vectors of some candidates."""
        return self.vectors.index_select(0, torch.from_numpy(index).to(self.vectors.device))

    def pool(self, ids: np.ndarray) -> Pool:
        """The candidates `ids`, ascending."""
        gram = Gram(self.rows(ids))
        return Pool(ids, gram, self.relevance[ids] if self.point is None else gram.relevance(self.point)[0])

    def one_of_a_kind(self, ids: np.ndarray) -> np.ndarray:
        """The lowest of identical candidates, ascending; all where their relevance may differ."""
        if self.point is None:
            return ids
        same = self.c.matrix.duplicate_of if self.c.shared else first_duplicate(self.vectors)
        return ids[np.sort(np.unique(same.cpu().numpy()[ids], return_index=True)[1])]

    def finish(self, p: Problem) -> None:
        """Fill up a problem's picks by relevance."""
        c, left = self.c, self.c.relevance[self.b].clone()
        left[torch.from_numpy(p.chosen[: p.done]).to(left.device)] = -torch.inf

        def exact(_: Tensor, at: Tensor) -> Tensor:
            return c.exact_relevance(torch.full_like(at, self.b), at).masked_fill(left[at] == -torch.inf, -torch.inf)

        error = c.relevance_error[self.b : self.b + 1]
        index, gain = ranked(left.unsqueeze(0), len(p.chosen) - p.done, error, exact)
        p.chosen[p.done :], p.scores[p.done :] = index[0].cpu().numpy(), gain[0].cpu().numpy()
        p.done = len(p.chosen)


class Bounds:
    """Upper bounds on the gains of all of a query's candidates.

    guess: what a problem would pick next, for which a pass that has to be made takes products along
    """

    def __init__(self, query: SingleQuery, method: Method, guess: Callable[[Problem], list[int]]) -> None:
        self.query, self.method, self.guess = query, method, guess
        self.ahead: dict[int, Tensor] = {}

    def of(self, p: Problem) -> tuple[np.ndarray, float]:
        """(n,) bounds for those that may enter a problem's pool, −inf for others, and one that holds for these."""
        n, method, sure = self.query.c.count, self.method, len(p.picks)
        if not len(p.state) or method.window:
            p.state, p.fresh = np.empty(n), 0
            nothing_chosen(method.kind, self.query.squares, p.state)
        if method.window:
            p.fresh = max(0, sure + method.horizon - 1 - method.window)
        if p.fresh < sure and not (p.whole or method.window or method.kind == SUM) and n > 10 * NEAR:
            upper = self._upper(p, p.state)
            near = _largest(upper, NEAR + 1)
            beyond, near = float(upper[near].min()), np.sort(near[upper[near] > upper[near].min()])
            state, upper = p.state[near], np.full(n, -np.inf)
            self._fold(p, state, self.query.rows(near), self.query.squares[near])
            upper[near] = self._upper(p, state, near)
            return upper, beyond
        if p.fresh < sure:
            self._fold(p, p.state, self.query.vectors, self.query.squares)
            p.passes, p.whole = p.passes + method.residual, False
            p.fresh = p.fresh if method.window else sure
        return self._upper(p, p.state), -np.inf

    def _fold(self, p: Problem, state: np.ndarray, vectors: Tensor, squares: np.ndarray) -> None:
        """Fold the picks from number `fresh` on into a bound on the states of some vectors."""
        method, picks = self.method, p.picks
        if not method.residual and vectors is self.query.vectors:
            self._fold_ahead(p, picks[p.fresh :].tolist(), state)
            return
        start = p.fresh if method.window or not method.residual else 0
        points, distinct = self.query.rows(picks[start:]).double(), True
        if method.residual:
            columns, basis = points.T.contiguous().cpu().numpy(), np.zeros(tuple(reversed(points.shape)))
            distinct = orthonormal(columns, np.arange(len(points)), len(points), method.floor, basis)
            if distinct and not method.window:
                points = torch.from_numpy(basis.T[p.fresh :].copy()).to(vectors.device)
        if method.residual and (method.window or not distinct):
            self._fold_singly(points, state, vectors, squares)
            return
        for part in points.to(vectors.dtype).split(TOGETHER):
            fold_bound(method.kind, products(vectors, part).cpu().numpy(), self._error(part), state)

    def _fold_singly(self, points: Tensor, state: np.ndarray, vectors: Tensor, squares: np.ndarray) -> None:
        """Bound residuals by those on one pick each: what several span may be another thing with more picks before.

        A pick that counts as noise is within √floor of its length from the span that counts.
        """
        length = torch.linalg.vector_norm(points, dim=1, keepdim=True)
        for part in (points / length.masked_fill(length == 0, 1)).to(vectors.dtype).split(TOGETHER):
            inner = np.abs(products(vectors, part).cpu().numpy().astype(np.float64))
            error = self._error(part) + math.sqrt(self.method.floor) * self.query.c.max_norm
            np.minimum(state, squares - np.maximum(inner - error, 0).max(0) ** 2, out=state)

    def _fold_ahead(self, p: Problem, picks: list[int], state: np.ndarray) -> None:
        """The same for picked rows as they are and all vectors."""
        query, missing = self.query, [row for row in picks if row not in self.ahead]
        if missing:
            p.passes += 1
            rows = list(dict.fromkeys([*missing, *self.guess(p)]))
            made = products(query.vectors, query.rows(np.array(rows))).cpu()
            self.ahead = {row: self.ahead[row] for row in picks if row in self.ahead} | dict(
                zip(rows, made, strict=True)
            )
        for row in picks:
            error = self._error(query.vectors[row : row + 1])
            fold_bound(self.method.kind, self.ahead[row].unsqueeze(0).numpy(), error, state)

    def _error(self, points: Tensor) -> float:
        """Bound on the error of products with points."""
        vectors, length = self.query.vectors, float(torch.linalg.vector_norm(points.double(), dim=1).max())
        # Points that are to be at right angles are so within some rounding of float64.
        return (rounding(vectors) + 1e-11) * self.query.c.max_norm * length * (1 + 1e-5) + underflow(vectors)

    def _upper(self, p: Problem, state: np.ndarray, ids: np.ndarray | None = None) -> np.ndarray:
        """Upper bounds on the gains of all candidates, or of some, −inf where chosen."""
        query, method, at = self.query, self.method, slice(None) if ids is None else ids
        upper: np.ndarray = upper_bounds(
            method.kind, query.relevance[at], query.relevance_error, state, query.squares[at], method.k, p.weight,
            method.floor,
        )  # fmt: skip
        upper[p.picks if ids is None else np.isin(ids, p.picks)] = -np.inf
        return upper


class PoolSearch:
    """The problems of one query, which share a pool."""

    def __init__(self, query: SingleQuery, method: Method) -> None:
        self.query, self.method = query, method
        self.bounds = Bounds(query, method, self._guess)
        self.pool: Pool | None = None

    def solved(self, weights: Sequence[float]) -> list[Problem]:
        """The problems at some weights, each with its k picks."""
        k, kind, known = self.method.k, self.method.kind, int(self.method.by_relevance)
        everything = self.query.pool(np.arange(self.query.c.count)) if self.query.c.count <= FEW else None
        chosen = np.full(k, self.query.first if known and everything is None else 0)
        size = SUM_POOL + 2 * k if kind == SUM else min(max(8 * k, POOL[0]), POOL[1])
        problems = [
            Problem(weight=weight, chosen=chosen.copy(), scores=np.empty(k), pool=size, known=known)
            for weight in weights
        ]
        if everything is not None:
            for p in problems:
                self._advance(p, everything, -np.inf, k)
        while active := [p for p in problems if p.done < k]:
            self._round(active)
        return problems

    def _round(self, active: list[Problem]) -> None:
        """Picks for all problems: from the pool that is there, or from a new one for those to whom it gives none."""
        bounds = [self.bounds.of(p) for p in active]
        if self.method.kind != SUM:
            # Every pick moves the best by bound; those of max_sum stay much the same, and its pools are large.
            self.pool = None
        stuck = [(p, *bound) for p, bound in zip(active, bounds, strict=True) if not self._picked(p, *bound)]
        if not stuck:
            return
        near = [_largest(upper, min(p.pool, len(upper))) for p, upper, _ in stuck]
        self.pool = self.query.pool(np.unique(np.concatenate([*near, *(p.picks for p, _, _ in stuck)])))
        for p, upper, stale in stuck:
            done, size = p.done, p.pool
            picked = self._picked(p, upper, stale)
            if p.done - done < FRUITFUL:
                p.pool, p.whole = min(2 * size, max(size, MOST_POOL)), True
            if not picked and size >= MOST_POOL and stale == -np.inf:
                self._settle(p, self.pool, upper)

    def _picked(self, p: Problem, upper: np.ndarray, stale: float) -> bool:
        """Whether the pool gave a problem picks.

        upper: (n,) bounds on the gains, no larger than `stale` where they are −inf
        """
        if self.pool is None or not np.isin(p.picks, self.pool.ids).all():
            return False
        before, outside = len(p.picks), upper.copy()
        outside[self.pool.ids] = -np.inf
        stop = min(self.method.k, before + self.method.horizon)
        self._advance(p, self.pool, max(float(outside.max()), stale), stop)
        return p.done > before or p.done == self.method.k

    def _advance(self, p: Problem, pool: Pool, outside: float, stop: int) -> None:
        """Picks of a problem in a pool up to `stop`, while they beat what is outside."""
        m, query, gram = self.method, self.query, pool.gram
        geometry, along = np.array([outside, 0.0, 0.0, 0.0]), np.zeros(len(pool.ids))
        if m.kind == SUM and outside > -np.inf:
            beta = 2 * (1 - p.weight)
            geometry[1:3] = beta, query.c.max_norm * (1 + 1e-5)
            if query.point is not None:
                point = (m.k - 1) * p.weight * query.point.double() - beta * query.rows(p.picks).double().sum(0)
                geometry[3], along = float(point.norm()), gram.relevance(point)[0]
        places = np.zeros(m.k, np.int64)
        places[: p.done] = np.searchsorted(pool.ids, p.chosen[: p.done])
        done, past = choose(
            m.kind, gram.columns, gram.rows, gram.made, gram.squares, pool.relevance, m.k, p.weight, m.window, m.floor,
            m.by_relevance, geometry, along, places, p.scores, p.done, stop,
        )  # fmt: skip
        p.chosen[p.done : done], p.done = pool.ids[places[p.done : done]], done
        p.past, p.largest = past if p.past < 0 else p.past, max(p.largest, len(pool.ids))

    def _guess(self, p: Problem) -> list[int]:
        """What a problem would pick next if there were nothing outside its pool."""
        if self.pool is None or not np.isin(p.picks, self.pool.ids).all():
            return []
        guess, sure = replace(p, chosen=p.chosen.copy(), scores=p.scores.copy()), len(p.picks)
        self._advance(guess, self.pool, -np.inf, min(self.method.k, sure + AHEAD))
        return [int(row) for row in guess.chosen[sure : guess.done]]

    def _settle(self, p: Problem, pool: Pool, upper: np.ndarray) -> None:
        """The next pick by comparison of all whose bound reaches the best of the pool, a pool at a time."""
        done, past, best = p.done, p.past, (False, -np.inf, 0)

        def contest(pool: Pool) -> None:
            nonlocal best
            p.done, p.past = done, -1
            self._advance(p, pool, -np.inf, done + 1)
            best = max(best, (p.past < 0, float(p.scores[done]), -int(p.chosen[done])))

        contest(pool)
        reach = self.query.one_of_a_kind(np.flatnonzero((upper >= best[1]) | (not best[0]) & (upper > -np.inf)))
        for start in range(0, len(reach), MOST_POOL):
            contest(self.query.pool(np.union1d(reach[start : start + MOST_POOL], p.chosen[:done])))
        p.chosen[done], p.scores[done], p.done = -best[2], best[1], done + 1
        p.past = done if past < 0 and not best[0] else past
        p.close_calls += 1
        if not best[0] and not self.method.window:
            # Every other candidate lies in the span of the chosen too.
            self.query.finish(p)


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    """Positions of the `count` largest values, in any order."""
    return torch.from_numpy(values).topk(count, sorted=False).indices.numpy()


@cache
def warm() -> None:
    """Compile the loops, or load what was compiled."""
    for count in (8, FEW + 8):
        rows = torch.eye(count)
        for cached in (True, False):
            candidates = Candidates(rows, rows[:1], rows[:1], Matrix(rows, cached=cached))
            greedy(candidates, 2, LOG_RESIDUAL, [0.5], compiling=True)


def is_warm() -> bool:
    """Whether the loops are compiled."""
    return is_compiled(choose)
