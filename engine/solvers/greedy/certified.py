"""Greedy selection by a score that only falls: exact picks from a pool, certified against everything outside it.

A pass over the corpus bounds every score from above, and as scores only fall the bounds stay true. The best by bound
become a pool, and picks are made there for as long as the best beats every bound outside. Then the bounds of the next
few candidates are brought up to date with all picks at once, and a new pool is drawn.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import CACHED_NUMBERS, GRAM_ROWS, blocks, gram, products, rounding, underflow
from engine.solvers.greedy.objectives import Marginal, exact_scores, span
from engine.solvers.greedy.pool import Lane, Problem, padded
from engine.solvers.tie_breaking import best, decide, ranked
from engine.values import Ranking

POINT_NUMBERS = 1 << 24
"""How many numbers the points of one batch may hold (128 MiB)."""
PASS_NUMBERS = 1 << 16
"""How many products a pass holds at a time: a share of the cache."""
PASS_ROWS = 1024
"""How many rows a pass with several points takes at a time: their product copies them first."""
POOL = (128, 256)
"""The first pool has eight rows a pick within these limits; it doubles while it yields fewer than FRUITFUL picks."""
MOST_POOL = 512
"""No pool grows beyond: more rows in float64 leave the cache."""
MOST_GRAM_ROWS = 10_240
"""Up to so many rows all inner products are made for one batch that makes enough picks (400 MiB in float32)."""
WIDE_POOL = 512
"""The first pool's size where several weights share it."""
FRUITFUL = 16
REACH = 2
"""Bounds are brought up to date for so many times the pool's rows at first."""
STALLS = 3
"""After so many pools in a row without a pick, near-ties abound and each pick is settled by itself."""


class Weighted(Protocol):
    """What a stage must have: the weight of relevance, and how many picks count."""

    @property
    def relevance_weight(self) -> float: ...
    @property
    def window(self) -> int | None: ...


def greedy_grid(stages: Sequence[Weighted], c: Candidates, k: int, marginal: Marginal) -> list[Ranking]:
    """`greedy` for stages with weights and windows: those with the same window together."""
    answers: dict[tuple[int | None, float], Ranking] = {}
    for window in dict.fromkeys(stage.window for stage in stages):
        weights = list(dict.fromkeys(stage.relevance_weight for stage in stages if stage.window == window))
        rankings = greedy(c, k, marginal, weights, window)
        answers |= {(window, weight): ranking for weight, ranking in zip(weights, rankings, strict=True)}
    return [answers[stage.window, stage.relevance_weight] for stage in stages]


def greedy(
    c: Candidates, k: int, marginal: Marginal, weights: Sequence[float], window: int | None = None
) -> list[Ranking]:
    """The k picks of every problem at every weight, in float64 wherever float32 leaves a pick open.

    window: only the last so many picks count, None for all. Returns one Ranking a weight; gain: the score at the
    moment of the pick; info: candidates; pool, the largest there was; passes over the candidates; close_calls, the
    picks that float64 decided in a fixed order of summation; certified, always: no other pick is made; past_rank, the
    first pick that is nothing but a combination of earlier ones, where the method tells them apart.
    """
    # Few enough problems over one list of candidates each for their points to be held.
    shared = c.vectors.ndim == 2
    size = max(1, POINT_NUMBERS // (k * len(weights) * c.vectors.shape[-1])) if shared else 1
    problems: list[Problem] = []
    for start in range(0, c.batch, size):
        part = slice(start, start + size)
        vectors = c.vectors if shared else c.vectors[start]
        block = Candidates(vectors, c.relevance[part], c.queries[part], c.matrix, c.inner_product)
        problems += Batch(block, k, marginal, weights, window if window and window < k else None).solved()
    return [_ranking(c, problems[weight :: len(weights)]) for weight in range(len(weights))]


def _ranking(c: Candidates, problems: list[Problem]) -> Ranking:
    names = ("candidates", "pool", "passes", "close_calls", "certified", "past_rank")
    told = ((c.count, p.largest, p.passes, p.close_calls, True, p.past_rank) for p in problems)
    info = tuple(dict(zip(names, values, strict=True)) for values in told)
    index = torch.tensor([p.picks for p in problems], dtype=torch.int64, device=c.relevance.device)
    return Ranking(index, index.new_tensor([p.gains for p in problems], dtype=torch.float64), info)


class Points:
    """What candidates are compared with: the float64 points of every problem's picks.

    basis: (P, k, d) for a score with orthogonal points and no window, where they are kept, else (0,)
    """

    def __init__(self, c: Candidates, marginal: Marginal, window: int | None, problems: int, k: int) -> None:
        self.c, self.marginal, self.window = c, marginal, window
        self.kept = marginal.orthogonal and window is None
        shape = (problems, k, c.vectors.shape[1]) if self.kept else (0,)
        self.basis = c.queries.new_zeros(shape, dtype=torch.float64)

    def rows(self, picks: list[int]) -> Tensor:
        """(t, d) float64 rows."""
        index = torch.tensor(picks, dtype=torch.int64, device=self.c.relevance.device)
        return self.c.vectors.index_select(0, index).double()

    def since(self, p: Problem, start: int) -> Tensor:
        """(t, d) points of the picks from number `start` on."""
        if self.kept:
            return self.basis[p.number, start : len(p.picks)]
        rows = self.rows(p.picks[start:])
        return span(self.marginal, rows, rows[:0])

    def current(self, p: Problem) -> Tensor:
        """(t, d) points of the picks that count at this moment."""
        return self.since(p, 0 if self.window is None else max(0, len(p.picks) - self.window))

    def add(self, p: Problem, row: int) -> None:
        """Keep the point of the next pick."""
        if self.kept:
            before = self.basis[p.number, : len(p.picks)]
            self.basis[p.number, len(p.picks)] = span(self.marginal, self.rows([row]), before)[0]

    def exhausted(self, p: Problem) -> bool:
        """Whether nothing is left that is new, so that relevance alone orders the rest."""
        if not self.kept:
            return False
        if p.past_rank is not None:
            return True
        d = self.basis.shape[2]
        return len(p.picks) >= d and int(self.basis[p.number].any(1).sum()) >= d

    def together(self, problems: list[Problem], since: list[int]) -> tuple[Tensor, Tensor]:
        """(u, d) points of the picks from `since` on, and (A, p) which of them are each problem's."""
        c, device = self.c, self.c.relevance.device
        if self.marginal.orthogonal:
            parts = [self.since(p, start) for p, start in zip(problems, since, strict=True)]
            points = padded(parts, repeat=False)
            place = torch.arange(points.shape[0] * points.shape[1], device=device).view(points.shape[:2])
            return points.flatten(0, 1).to(c.vectors.dtype), place
        picks = [p.picks[start:] for p, start in zip(problems, since, strict=True)]
        longest = max(map(len, picks))
        # Filled up with a pick that counts already, which changes nothing.
        filled = [row + p.picks[-1:] * (longest - len(row)) for p, row in zip(problems, picks, strict=True)]
        rows = torch.tensor(filled, dtype=torch.int64, device=device)
        if len(rows) == 1:
            return c.vectors[rows[0]], torch.arange(longest, device=device).unsqueeze(0)
        # Problems that chose the same document share its products.
        rows, place = rows.unique(return_inverse=True)
        return c.vectors[rows], place


class Bounds:
    """Upper bounds on the scores of all candidates, (P, n), and the states they come from; empty before the first pass.

    weight: (P, 1) float64; horizon: for how many picks a bound holds
    """

    def __init__(self, points: Points, weight: Tensor, horizon: int) -> None:
        self.points, self.weight, self.horizon = points, weight, horizon
        self.c, self.marginal, self.window = points.c, points.marginal, points.window
        self.upper = self.state = self.c.relevance.new_empty(0)

    def renew_all(self, active: list[Problem]) -> None:
        """Upper bounds for all candidates, from every pick that counts for as long as the horizon reaches."""
        c, marginal = self.c, self.marginal
        if not len(self.upper):
            self.upper = c.relevance.new_empty(len(self.weight), c.count)
            if self.window is None:
                self.state = marginal.start(c.squares).expand(len(self.weight), -1).clone()
        at = slice(None) if len(active) == len(self.weight) else [p.number for p in active]
        points, place = self.points.together(active, [self._lasting(p) for p in active])
        for columns in _columns(c.count, max(len(points), place.numel())):
            squares = c.squares[columns]
            start = marginal.start(squares) if self.window is not None else self.state[at, columns]
            state = self._folded(start, c.vectors[columns], points, place)
            if self.window is None:
                self.state[at, columns] = state
            self.upper[at, columns] = self._bound(active, state, squares, c.relevance[:, columns])
        for p in active:
            self.upper[p.number, p.picks] = -torch.inf
            p.fresh, p.passes, p.reach = len(p.picks), p.passes + 1, REACH * p.pool

    def renew(self, problems: list[Problem], ids: Tensor) -> Tensor:
        """(A, m) bounds of the candidates `ids` from all picks, kept."""
        c = self.c
        points, place = self.points.together(problems, [p.fresh for p in problems])
        at = torch.tensor([p.number for p in problems], device=ids.device).unsqueeze(1)
        for part in ids.split(max(64, PASS_NUMBERS // c.vectors.shape[1])):
            state = self._folded(self.state[at, part], c.vectors.index_select(0, part), points, place)
            self.upper[at, part] = torch.minimum(
                self.upper[at, part], self._bound(problems, state, c.squares[part], c.relevance[:, part])
            )
        return self.upper[at, ids]

    def _folded(self, state: Tensor, rows: Tensor, points: Tensor, place: Tensor) -> Tensor:
        """(A, m) the state after points, (u, d), of which place, (A, p), are each problem's; rows: (m, d)."""
        if not place.numel():
            return state.expand(len(place), -1)
        product = products(rows, points)
        each = product.unsqueeze(0) if len(place) == 1 else product[place.flatten()].view(*place.shape, -1)
        return self.marginal.fold(state, each)

    def _bound(self, problems: list[Problem], state: Tensor, squares: Tensor, relevance: Tensor) -> Tensor:
        """(A, m) upper bounds on the scores at a state, (A, m); relevance: (B, m)."""
        marginal, c = self.marginal, self.c
        most = max(len(p.picks) for p in problems)
        state = state + marginal.favour * marginal.error(
            squares, c.max_norm, rounding(c.vectors), underflow(c.vectors), most
        )
        relevance = relevance + c.relevance_error.unsqueeze(1)
        weight = self.weight
        if len(problems) < len(self.weight) or c.batch < len(problems):
            relevance = relevance[[p.query for p in problems]]
            weight = weight[[p.number for p in problems]]
        terms = marginal.terms(weight, relevance, squares)
        score = marginal.score(terms, state)
        # The arithmetic of the score itself rounds too, a few times: by shares of its two parts, which may cancel.
        size = score.abs().add_(terms.base.abs(), alpha=2)
        return score.add_(size, alpha=8 * torch.finfo(score.dtype).eps)

    def _lasting(self, p: Problem) -> int:
        """The first pick that a pass has to add: with a window, the first that stays in it for the whole horizon."""
        return p.fresh if self.window is None else max(0, len(p.picks) + self.horizon - 1 - self.window)


class Batch:
    """P = queries × weights problems over one list of n candidates."""

    def __init__(self, c: Candidates, k: int, marginal: Marginal, weights: Sequence[float], window: int | None) -> None:
        self.c, self.k, self.marginal, self.window = c, k, marginal, window
        grid = [(b, w) for b in range(c.batch) for w in weights]
        # Problems with a pool in common share its products; small weights of relevance need a wide one.
        pool = min(max(8 * k, POOL[0]), POOL[1]) if len(weights) == 1 else WIDE_POOL
        self.problems = [
            Problem(number=number, query=b, weight=w, pool=pool, reach=REACH * pool)
            for number, (b, w) in enumerate(grid)
        ]
        self.queries = c.queries.double() if c.inner_product else None
        scale = max(1.0, c.max_norm * c.max_norm, float(c.relevance.abs().max()))
        self.margin = scale * marginal.margin
        self.rounding = scale * 8 * torch.finfo(c.relevance.dtype).eps
        self.errors = c.relevance_error.tolist()
        # With a window a bound is valid only while the picks it was computed from are inside it.
        self.horizon = k if window is None else (window + 1) // 2
        self.points = Points(c, marginal, window, len(grid), k)
        weight = torch.tensor([[w] for _, w in grid], dtype=torch.float64, device=c.relevance.device)
        self.bounds = Bounds(self.points, weight, self.horizon)
        # What a plain similarity allows: all inner products where they are few, or nearly all are wanted; no bounds
        # where a pass is so cheap that they cost more than they save.
        plain, picks = not marginal.orthogonal and window is None, k * len(grid)
        self.gram_pays = plain and c.count <= min(GRAM_ROWS, 6 * picks)
        self.gram_of_all = plain and c.count <= MOST_GRAM_ROWS and picks >= 2 * c.count
        self.cached = plain and len(grid) == 1 and c.vectors.numel() <= CACHED_NUMBERS

    def solved(self) -> list[Problem]:
        """The problems, each with its k picks."""
        if self.k == 1 or not self.marginal.orthogonal or self.c.matrix.unit:
            self._first()
        if self.c.count <= POOL[0] or self.cached or self.gram_pays:
            everything = torch.arange(self.c.count, device=self.c.relevance.device)
            self._lane(self.problems, everything, [-torch.inf] * len(self.problems))
        elif self.gram_of_all:
            inner = gram(self.c.vectors)
            for query in range(self.c.batch):
                of = [p for p in self.problems if p.query == query]
                self._lane(of, torch.arange(self.c.count, device=inner.device), [-torch.inf] * len(of), inner)
        while active := [p for p in self.problems if len(p.picks) < self.k]:
            most = self.c.count // 16
            if not len(self.bounds.upper) or self.window is not None:
                self.bounds.renew_all(active)
            elif far := [p for p in active if p.reach > most and p.fresh < len(p.picks)]:
                # Where so many bounds must be up to date, all of them are as easily.
                self.bounds.renew_all(far)
            # On a GPU all problems share one pool: few large steps instead of many small ones.
            for query in dict.fromkeys(0 if self.c.relevance.is_cuda else p.query for p in active):
                self._round([p for p in active if self.c.relevance.is_cuda or p.query == query])
        for p in self.problems:
            if p.rough:
                p.gains = self._gains(p)
        return self.problems

    def _gains(self, p: Problem) -> list[float]:
        """The scores at the moments of the picks, in float64."""
        rows = self.points.rows(p.picks)
        relevance = self.c.relevance[p.query, p.picks].double()
        if self.queries is not None:
            relevance = rows @ self.queries[p.query]
        counts = torch.ones(len(rows), len(rows), dtype=torch.bool, device=rows.device).tril_(-1)
        if self.window is not None:
            counts.triu_(-self.window)
        inner = (rows @ rows.T).masked_fill_(~counts, -torch.inf)
        gains: list[float] = self.marginal.gains(p.weight, relevance, inner).tolist()
        return gains

    def _first(self) -> None:
        """The most relevant document comes first, whatever the weight."""
        c = self.c
        index, close = best(c.relevance, c.relevance_error, c.exact_relevance, lambda: c.duplicate_of)
        # Where one lane does it all, the gains come at its end.
        gains_follow = self.cached and not self.gram_pays
        rows, undecided = index.tolist(), close.tolist()
        for p in self.problems:
            p.close_calls += undecided[p.query]
            gain = 0.0 if gains_follow else float(self._exact(p, index[p.query : p.query + 1]))
            self._pick(p, rows[p.query], gain)

    def _round(self, problems: list[Problem]) -> None:
        """Picks for problems that share a pool; a settled pick for those to which the pool gives none."""
        before = [len(p.picks) for p in problems]
        if pooled := [p for p in problems if p.stalls < STALLS and not self.points.exhausted(p)]:
            self._lane(pooled, *self._pool(pooled))
        for p, done in zip(problems, before, strict=True):
            made = len(p.picks) - done
            if made < min(FRUITFUL, self.horizon):
                p.pool = min(2 * p.pool, MOST_POOL)
                p.reach *= 4 if p.short else 1
                p.short = p.short and p in pooled
            p.stalls = 0 if made or p.short else p.stalls + 1
            self.bounds.upper[p.number, p.picks[done:]] = -torch.inf
            if len(p.picks) < self.k and self.points.exhausted(p):
                self._rest(p)
            elif not made and not p.short:
                self._settle(p)

    def _pool(self, problems: list[Problem]) -> tuple[Tensor, list[float]]:
        """Ascending rows of a pool, and for each problem an upper bound on every score outside it."""
        n = self.c.count
        tau = [-torch.inf] * len(problems)
        stale = [p for p in problems if p.fresh < len(p.picks) and self.window is None]
        ids: Tensor | None = None
        if stale:
            near = []
            for g, p in enumerate(problems):
                reach = min(p.reach, n - 1)
                value, index = self.bounds.upper[p.number].topk(reach + 1)
                near.append(index[:reach])
                tau[g] = float(value[reach])
            ids = _union(near)
            bound = list(self.bounds.renew(problems, ids))
        else:
            bound = [self.bounds.upper[p.number] for p in problems]
        inside = []
        for g, p in enumerate(problems):
            size = min(p.pool, len(bound[g]) - 1)
            value, index = bound[g].topk(size + 1)
            inside.append(index[:size])
            beyond = float(value[size])
            # Where what was not brought up to date stands in the way, a pool without yield reaches further next time.
            p.short = tau[g] > beyond
            tau[g] = max(tau[g], beyond)
        pool = _union(inside)
        return (pool if ids is None else ids[pool]), tau

    def _lane(self, problems: list[Problem], ids: Tensor, tau: list[float], inner: Tensor | None = None) -> None:
        """Picks for problems that share a pool, up to what the bounds outside it, `tau`, allow.

        inner: (m, m) products of the pool's rows, where they are known.
        """
        c, marginal, everything = self.c, self.marginal, len(ids) == self.c.count
        query = [p.query for p in problems]
        all_ = len(problems) == c.batch == len(self.problems)
        queries = None if self.queries is None else self.queries if all_ else self.queries[query]
        rows = c.vectors if everything else c.vectors.index_select(0, ids)
        by_gram = everything and len(ids) > POOL[0] and self.gram_pays
        alone = len(problems) == 1 and inner is None and not (everything and self.cached)
        if marginal.orthogonal or by_gram or alone:
            rows = rows.double()
            relevance = c.relevance[query][:, ids].double() if queries is None else queries @ rows.T
            error = [self.margin] * len(problems)
        else:
            # Half the memory to move, at the price of more near-ties to settle.
            relevance = c.relevance if all_ else c.relevance[query]
            relevance = relevance if everything else relevance[:, ids]
            error = [
                p.weight * self.errors[p.query] + (1 - p.weight) * c.similarity_error + self.rounding for p in problems
            ]
            for p in problems:
                p.rough = True
        basis = self.points.basis
        if self.points.kept:
            basis = padded([self.points.since(p, 0) for p in problems], repeat=False)
        if by_gram:
            inner = c.matrix.gram if c.shared else gram(rows)
        lane = Lane(
            marginal=marginal,
            problems=problems,
            ids=ids.tolist(),
            rows=rows,
            relevance=relevance,
            queries=queries,
            basis=basis,
            gram=inner,
            fetch=self.points.rows,
            window=self.window,
            margin=self.margin,
        )
        before = [len(p.picks) for p in problems]
        stop = [self.k if everything else min(self.k, done + self.horizon) for done in before]
        # In a pool of its own a problem's chosen rows come last, so they are there only when little else is.
        free = len(problems) == 1 and len(ids) + before[0] <= c.count
        lane.run(stop, tau, error, free)
        for g, (p, done) in enumerate(zip(problems, before, strict=True)):
            p.largest = max(p.largest, len(ids))
            made = len(p.picks) - done
            if self.points.kept and made:
                new = slice(basis.shape[1], basis.shape[1] + made)
                self.points.basis[p.number, done : len(p.picks)] = lane.basis[g, new]

    def _settle(self, p: Problem) -> None:
        """The next pick from all candidates whose bound reaches the best one's score, in float64."""
        c, upper = self.c, self.bounds.upper
        top = upper[p.number].topk(min(POOL[0], c.count)).indices
        top = top[self.bounds.renew([p], top)[0].argmax()].unsqueeze(0) if self.window is None else top[:1]
        reached = float(self._exact(p, top))
        open_ = upper[p.number : p.number + 1] >= reached
        if self.window is None:
            ids = open_[0].nonzero().flatten()
            open_[0, ids] = self.bounds.renew([p], ids)[0] >= reached
        open_[0, top] = True
        p.close_calls += 1
        pick = decide(open_, lambda _, at: self._exact(p, at), lambda: c.duplicate_of)
        self._pick(p, int(pick), float(self._exact(p, pick)))
        upper[p.number, pick] = -torch.inf

    def _exact(self, p: Problem, at: Tensor) -> Tensor:
        """(m,) float64 scores of candidates at this moment, the same for identical ones."""
        points = self.points.current(p)
        parts = []
        for (part,) in blocks(self.c.vectors.shape[1], at):
            relevance = self.c.exact_relevance(torch.full_like(part, p.query), part)
            parts.append(exact_scores(self.marginal, p.weight, self.c.vectors[part].double(), relevance, points))
        return torch.cat(parts)

    def _pick(self, p: Problem, row: int, gain: float) -> None:
        self.points.add(p, row)
        p.add(row, gain, self.marginal)

    def _rest(self, p: Problem) -> None:
        """The remaining picks where every candidate lies in the span of the chosen: relevance orders them."""
        c = self.c
        taken = torch.zeros(c.count, dtype=torch.bool, device=c.relevance.device)
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


def _union(parts: list[Tensor]) -> Tensor:
    """All positions of the parts, ascending, each once."""
    return parts[0].sort().values if len(parts) == 1 else torch.cat(parts).unique()


def _columns(count: int, rows: int) -> Iterator[slice]:
    step = PASS_NUMBERS if rows <= 1 else max(1, min(PASS_ROWS, PASS_NUMBERS // rows))
    return (slice(lo, lo + step) for lo in range(0, count, step))
