"""Greedy selection by a score that only falls: exact picks from a pool, certified against everything outside it.

A pass over the corpus bounds every score from above. The best by that bound become a pool, in float64, and picks are
made there for as long as the best beats every bound outside. Then one pass brings the bounds up to date with all those
picks at once. So a pick costs a fraction of a pass, and the answer is that of the plain procedure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import CHUNK_NUMBERS, GRAM_ROWS, gram
from engine.solvers.contest import best, decide, ranked
from engine.solvers.lane import Lane, Problem, padded
from engine.solvers.marginals import Marginal, exact_scores, span
from engine.values import Ranking

PASS_NUMBERS = 1 << 18
"""How many products a pass holds at a time: a share of the cache."""
POINT_NUMBERS = 1 << 24
"""How many numbers the points of one batch may hold (128 MiB)."""
POOL = (64, 256)
"""The first pool has eight rows a pick within these limits; it doubles while it yields fewer than FRUITFUL picks."""
FRUITFUL = 16
STALLS = 3
"""After so many pools in a row without a pick, near-ties abound and every pick gets a pass of its own."""


def greedy(
    c: Candidates, k: int, marginal: Marginal, weights: Sequence[float], window: int | None = None
) -> list[Ranking]:
    """The k picks of every problem at every weight, in float64 wherever float32 leaves a pick open.

    window: only the last so many picks count, None for all. Returns one Ranking a weight; gain: the score at the
    moment of the pick; info: candidates; pool, the largest there was; passes over the candidates; close_calls, the
    picks that float64 decided in a fixed order of summation; certified, that no pick was left open; past_rank, the
    first pick that is nothing but a combination of earlier ones, where the method tells them apart.
    """
    problems: list[Problem] = []
    for part in _parts(c, k * len(weights)):
        problems += _Batch(part, k, marginal, weights, window if window and window < k else None).solved()
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
            "pool": p.pool,
            "passes": p.passes,
            "close_calls": p.close_calls,
            "certified": True,
            "past_rank": p.past_rank,
        }
        for p in problems
    )
    index = torch.tensor([p.picks for p in problems], dtype=torch.int64, device=device)
    return Ranking(index, torch.tensor([p.gains for p in problems], dtype=torch.float64, device=device), info)


def _each(products: Tensor, place: Tensor) -> Tensor:
    """(A, p, m) the products of each problem's points, place (A, p), from (u, m) those of all."""
    flat = place.flatten()
    if torch.equal(flat, torch.arange(len(products), device=flat.device)):
        return products.view(*place.shape, -1)
    return products[flat].view(*place.shape, -1)


class _Batch:
    """P = queries × weights problems over one list of n candidates."""

    def __init__(self, c: Candidates, k: int, marginal: Marginal, weights: Sequence[float], window: int | None) -> None:
        self.c, self.k, self.marginal, self.window = c, k, marginal, window
        grid = [(b, w) for b in range(c.batch) for w in weights]
        self.problems = [Problem(at, b, w, size=min(max(8 * k, POOL[0]), POOL[1])) for at, (b, w) in enumerate(grid)]
        self.owner = torch.tensor([b for b, _ in grid], device=c.relevance.device)
        self.weight = c.relevance.new_tensor([[w] for _, w in grid])
        self.queries = c.queries.double() if c.inner_product else None
        self.squares = c.squares
        self.state: Tensor | None = None
        keep = marginal.orthogonal and window is None
        self.basis = torch.zeros(len(grid), k, c.vectors.shape[1]).to(c.queries.device, torch.float64) if keep else None
        # With a window old picks lose their say: a bound holds for so many steps as the picks it is made of stay in.
        self.horizon = k if window is None else (window + 1) // 2

    def solved(self) -> list[Problem]:
        """The problems, each with its k picks."""
        if self.k == 1 or not self.marginal.orthogonal or self.c.matrix.unit:
            self._first()
        if self._small():
            self._lane(self.problems, torch.arange(self.c.count, device=self.squares.device), {})
        while active := [p for p in self.problems if len(p.picks) < self.k]:
            spent = [p for p in active if self._spent(p)]
            for p in spent:
                self._rest(p)
            if open_ := [p for p in active if p not in spent]:
                self._round(open_)
        return self.problems

    def _first(self) -> None:
        """The most relevant document comes first, whatever the weight."""
        c = self.c
        index, close = best(c.relevance, c.relevance_error, c.exact_relevance, lambda: c.twins)
        for p in self.problems:
            row = int(index[p.query])
            p.close_calls += int(close[p.query])
            self._pick(p, row, float(self._exact(p, index[p.query : p.query + 1])))

    def _small(self) -> bool:
        """Whether all candidates make one pool: they are few, or all their products are worth having."""
        return self.c.count <= POOL[0] or self._worth_a_gram(self.c.count, self.k * len(self.problems))

    def _worth_a_gram(self, rows: int, picks: int) -> bool:
        return not self.marginal.orthogonal and self.window is None and rows <= min(GRAM_ROWS, 6 * picks)

    def _round(self, active: list[Problem]) -> None:
        """A pass that brings the bounds up to date, then picks from pools; a settled pick where a pool gives none."""
        upper = self._bounds(active)
        before = {p.at: len(p.picks) for p in active}
        lanes: dict[int, list[tuple[Problem, Tensor, float]]] = {}
        for a, p in enumerate(active):
            if p.stalls < STALLS:
                size = min(p.size, self.c.count - 1)
                value, index = upper[a].topk(size + 1)
                # On a GPU all problems share one pool: few large steps instead of many small ones.
                lanes.setdefault(0 if upper.is_cuda else p.query, []).append((p, index[:size], float(value[size])))
        for lane in lanes.values():
            ids = torch.cat([index for _, index, _ in lane])
            ids = ids.sort().values if len(lane) == 1 else ids.unique()
            self._lane([p for p, _, _ in lane], ids, {p.at: tau for p, _, tau in lane})
        for p in active:
            made = len(p.picks) - before[p.at]
            if made < min(FRUITFUL, self.horizon):
                p.size = min(2 * p.size, max(POOL[1], self.c.count // 16))
            p.stalls = 0 if made else p.stalls + 1
            if not made:
                self._settle(p)

    def _bounds(self, active: list[Problem]) -> Tensor:
        """(A, n) upper bounds on the scores, −inf where chosen; the states take in every pick made since."""
        c, marginal = self.c, self.marginal
        everyone = len(active) == len(self.problems)
        at = None if everyone else torch.tensor([p.at for p in active], device=self.owner.device)
        owner, weight = (self.owner, self.weight) if at is None else (self.owner[at], self.weight[at])
        if self.state is None:
            self.state = marginal.start(self.squares).expand(len(self.problems), -1).clone()
        points, place = self._pending(active)
        upper = self.state.new_empty(len(active), c.count)
        for columns in self._columns(max(1, points.shape[0], place.numel())):
            squares = self.squares[columns]
            if self.window:
                state = marginal.start(squares).expand(len(active), -1)
            else:
                state = self.state[:, columns] if at is None else self.state[at, columns]
            if place.numel():
                state = marginal.fold(state, _each(points @ c.vectors[columns].T, place))
                if at is None:
                    self.state[:, columns] = state
                else:
                    self.state[at, columns] = state
            relevance = c.relevance[:, columns] + c.relevance_error.unsqueeze(1)
            relevance = relevance if len(owner) == c.batch else relevance[owner]
            upper[:, columns] = self._bound(weight, relevance, state, squares, active, 1)
        for a, p in enumerate(active):
            upper[a, p.picks] = -torch.inf
            p.folded = len(p.picks)
            p.passes += 1
        return upper

    def _bound(
        self, weight: Tensor, relevance: Tensor, state: Tensor, squares: Tensor, active: list[Problem], side: int
    ) -> Tensor:
        """Bound on the scores from above (side 1) or below (−1), relevance shifted to that side already."""
        most = max(len(p.picks) for p in active)
        error = self.marginal.error(squares, self.c.rounding, self.c.underflow, most)
        terms = self.marginal.terms(weight, relevance, squares)
        score = self.marginal.score(terms, state + side * self.marginal.favour * error)
        # The arithmetic of the score itself rounds too, a few times.
        return score + side * (8 * torch.finfo(score.dtype).eps) * score.abs()

    def _columns(self, rows: int) -> Iterator[slice]:
        step = max(1, PASS_NUMBERS // rows)
        return (slice(lo, lo + step) for lo in range(0, self.c.count, step))

    def _pending(self, active: list[Problem]) -> tuple[Tensor, Tensor]:
        """(u, d) the points that the states lack, and (A, p) which of them each problem lacks."""
        c, device = self.c, self.owner.device
        since = [self._since(p) for p in active]
        if self.marginal.orthogonal:
            parts = [self._points(p, start) for p, start in zip(active, since, strict=True)]
            points = padded(parts, repeat=False)
            place = torch.arange(points.shape[0] * points.shape[1], device=device).view(points.shape[:2])
            return points.flatten(0, 1).to(c.vectors.dtype), place
        if len(active) == 1:
            rows = active[0].picks[since[0] :]
            return c.vectors[rows], torch.arange(len(rows), device=device).unsqueeze(0)
        longest = max(len(p.picks) - start for p, start in zip(active, since, strict=True))
        rows = [
            p.picks[start:] + p.picks[-1:] * (longest - len(p.picks) + start)
            for p, start in zip(active, since, strict=True)
        ]
        # Problems that chose the same document share its products.
        unique, place = torch.tensor(rows, device=device, dtype=torch.int64).unique(return_inverse=True)
        return c.vectors[unique], place

    def _since(self, p: Problem) -> int:
        """The first pick that the bounds lack; with a window, the first that stays in it for the whole horizon."""
        return p.folded if self.window is None else max(0, len(p.picks) + self.horizon - 1 - self.window)

    def _oldest(self, p: Problem) -> int:
        """The first pick that counts at this moment."""
        return 0 if self.window is None else max(0, len(p.picks) - self.window)

    def _points(self, p: Problem, start: int = 0) -> Tensor:
        """(t, d) float64 points of the picks that count, from number `start`."""
        if self.basis is not None:
            return self.basis[p.at, start : len(p.picks)]
        rows = self._rows(p.picks[start:])
        return span(self.marginal, rows, rows[:0])

    def _rows(self, picks: list[int]) -> Tensor:
        return self.c.vectors[picks].double()

    def _lane(self, problems: list[Problem], ids: Tensor, tau: dict[int, float]) -> None:
        """Picks for problems that share a pool, up to what their bounds outside it, `tau`, allow."""
        c, everything = self.c, len(ids) == self.c.count
        rows = c.vectors.double() if everything else c.vectors[ids].double()
        query = torch.tensor([p.query for p in problems], device=ids.device)
        queries = None if self.queries is None else self.queries[query]
        relevance = c.relevance[query][:, ids].double() if queries is None else queries @ rows.T
        held = padded([self._points(p, self._oldest(p)) for p in problems], repeat=not self.marginal.orthogonal)
        products = None
        if self._worth_a_gram(len(ids), len(problems) * max(self.k - len(p.picks) for p in problems)):
            products = c.matrix.gram if everything and c.shared else gram(rows)
        lane = Lane(self.marginal, problems, ids, rows, relevance, queries, held, products)
        before = [len(p.picks) for p in problems]
        stop = [min(self.k, len(p.picks) + self.horizon) if tau else self.k for p in problems]
        lane.run(stop, [tau.get(p.at, -torch.inf) for p in problems], self.window, self._rows)
        for g, (p, done) in enumerate(zip(problems, before, strict=True)):
            p.pool = max(p.pool, len(ids))
            made = len(p.picks) - done
            if self.basis is not None and made:
                self.basis[p.at, done : len(p.picks)] = lane.points[g, held.shape[1] : held.shape[1] + made]

    def _settle(self, p: Problem) -> None:
        """The next pick from all candidates, in float64 wherever the bounds leave it open."""
        c, weight = self.c, self.weight[p.at]
        relevance, error = c.relevance[p.query], c.relevance_error[p.query]
        state = self._state(p)
        upper = self._bound(weight, relevance + error, state, self.squares, [p], 1)
        lower = self._bound(weight, relevance - error, state, self.squares, [p], -1)
        upper[p.picks] = lower[p.picks] = -torch.inf
        open_ = (upper >= lower.max()).unsqueeze(0)
        p.close_calls += 1
        pick = decide(open_, lambda _, at: self._exact(p, at), lambda: c.twins)
        self._pick(p, int(pick), float(self._exact(p, pick)))

    def _state(self, p: Problem) -> Tensor:
        """(n,) the state at this moment."""
        if self.window is None:
            return self.state[p.at]
        points = self._points(p, self._oldest(p)).to(self.squares.dtype)
        state = self.marginal.start(self.squares)
        return self.marginal.fold(state, points @ self.c.vectors.T) if len(points) else state

    def _exact(self, p: Problem, at: Tensor) -> Tensor:
        """(m,) float64 scores of candidates at this moment, the same for identical ones."""
        points = self._points(p, self._oldest(p))
        parts = []
        for part in at.split(max(1, CHUNK_NUMBERS // self.c.vectors.shape[1])):
            relevance = self.c.exact_relevance(torch.full_like(part, p.query), part)
            parts.append(exact_scores(self.marginal, p.weight, self.c.vectors[part].double(), relevance, points))
        return torch.cat(parts)

    def _pick(self, p: Problem, row: int, gain: float) -> None:
        if self.basis is not None:
            done = self.basis[p.at, : len(p.picks)]
            self.basis[p.at, len(p.picks)] = span(self.marginal, self._rows([row]), done)[0]
        p.add(row, gain, self.marginal.below)

    def _spent(self, p: Problem) -> bool:
        """Whether nothing is left that is new, so that relevance alone orders the rest."""
        if self.basis is None:
            return False
        return p.past_rank is not None or int(self.basis[p.at].any(1).sum()) >= self.basis.shape[2]

    def _rest(self, p: Problem) -> None:
        """The remaining picks where every candidate lies in the span of the chosen: relevance orders them."""
        c = self.c
        taken = torch.zeros(c.count, dtype=torch.bool, device=self.squares.device)
        taken[p.picks] = True

        def exact(_: Tensor, at: Tensor) -> Tensor:
            value = self.marginal.last(p.weight, c.exact_relevance(torch.full_like(at, p.query), at))
            return value.masked_fill(taken[at], -torch.inf)

        score = self.marginal.last(p.weight, c.relevance[p.query]).masked_fill(taken, -torch.inf).unsqueeze(0)
        error = c.relevance_error[p.query].unsqueeze(0)
        index, gain = ranked(score, self.k - len(p.picks), error, exact)
        if p.past_rank is None and self.marginal.below is not None and p.weight < 1:
            p.past_rank = len(p.picks)
        p.picks += index[0].tolist()
        p.gains += gain[0].tolist()
