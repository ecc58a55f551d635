"""Rankings by the quadratic objective: on Gram rows for a small corpus, by certified passes for a large one.

A swap of i out, j in gains θ(k−1)(r_j − r_i) − 2(1−θ)(Σ_{l∈Y∖i} s_jl − Σ_{l∈Y∖i} s_il). The search runs on a
shortlist, compiled; one pass over the vectors then bounds every other candidate's best swap, h_j + 2(1−θ)|u_i||u_j|
less i's marginal, and the few that the bound leaves open are looked at one by one and join the shortlist if need be.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import CHUNK_NUMBERS, GRAM_ROWS, Matrix, blocks
from engine.solvers.gram import Gram, make_row, problems, ranking
from engine.solvers.greedy.certified import greedy
from engine.solvers.greedy.steps import SUM
from engine.solvers.quadratic.frank_wolfe import ascend
from engine.solvers.quadratic.objective import TOLERANCE, Quadratic, most_relevant
from engine.solvers.quadratic.sets import FIGURES, STEPS, SetsOnGram, sets
from engine.solvers.tie_breaking import ranked
from engine.values import Ranking

Array = np.ndarray

LARGEST = 2048
"""Sets beyond this size are not polished: their Gram matrices and swaps would take minutes."""
NARROWEST = 128
"""The shortlist holds at least so many candidates beside the set, and as many as the set has."""
ROUNDS = 12
"""Largest number of passes for one problem."""
JOINING = 256
"""Largest number of candidates added to a shortlist in one pass."""


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


class Shortlist:
    """Some candidates of problem b, with their Gram matrix, for compiled swaps; sets are (k,) positions among them.

    ids: (m,) ascending candidates
    vectors: (m, d) float64
    relevance: (m,) float64
    """

    def __init__(self, p: Quadratic, b: int, ids: Tensor) -> None:
        self.p, self.b = p, b
        self.ids = np.empty(0, np.int64)
        self.join(ids)

    def join(self, ids: Tensor) -> None:
        """Add candidates that are not there yet."""
        self.ids = np.sort(np.concatenate([self.ids, ids.cpu().numpy()]))
        ids = torch.from_numpy(self.ids).to(ids.device)
        batch = torch.full_like(ids, self.b)
        self.vectors = self.p.c.rows(batch, ids).double().cpu()
        self.relevance = self.p.c.exact_relevance(batch, ids).cpu().numpy()
        self.gram = Gram(self.vectors)

    def marginal(self, chosen: Array) -> Array:
        """(k,) what each member contributes: its leaving costs that much."""
        for i in chosen:
            make_row(self.gram.columns, self.gram.rows, self.gram.made, i)
        similarity = self.gram.rows[np.ix_(chosen, chosen)].sum(1)
        contribution: Array = self.p.linear * self.relevance[chosen]
        contribution -= self.p.beta * (similarity - self.gram.squares[chosen])
        return contribution

    def swapped(self, chosen: Array, starts: int) -> tuple[Array, int, bool]:
        """The best set that swaps reach from `chosen` and other starts: its members, how many, whether none is left."""
        p, found = self.p, np.zeros(FIGURES)
        search = SetsOnGram(self.gram, self.gram.squares, p.k, most_swaps(p.k))
        tolerance = TOLERANCE * float(p.scale[self.b])
        members = search.improved(self.relevance, p.weight, tolerance, chosen.astype(np.int64), starts, found)
        return np.sort(members), int(found[3]), bool(found[4])


@dataclass(frozen=True, slots=True)
class Polished:
    """Sets after their swaps."""

    index: Tensor  # (B, k) ascending
    swaps: list[int]  # (B,) made
    optimal: list[bool]  # (B,) whether over all candidates no swap improves
    starts: list[int]  # (B,) from how many sets


@dataclass
class _Search:
    """One problem on the way: its shortlist, set (positions), swaps so far, and whether the shortlist has no better."""

    short: Shortlist
    chosen: Array
    swaps: int
    settled: bool
    starts: int

    @property
    def ids(self) -> Array:
        ids: Array = self.short.ids[self.chosen]
        return ids


def polish(p: Quadratic, index: Tensor, more_starts: bool, field: Tensor, error: Tensor, fresh: Tensor) -> Polished:
    """Swap-optimal sets near `index`, (B, k) ascending.

    more_starts: also from other sets that the shortlist suggests, and the best objective wins, `index` on a tie;
    field (B, n), error (B,): the linear field at `index` where `fresh` (B,) says so.
    """
    batch, n = p.c.relevance.shape
    if p.k > LARGEST or p.k == n:
        return Polished(index, [0] * batch, [p.k == n] * batch, [1] * batch)
    done: list[_Search] = []
    optimal: list[bool] = []
    width = min(n, 2 * p.k + max(NARROWEST, p.k))
    for at in p.every.split(max(1, CHUNK_NUMBERS // (width * (p.c.vectors.shape[-1] + width)))):
        found, sure = _polish(p, at, index, more_starts, field, error, fresh)
        done += found
        optimal += sure
    sets = torch.from_numpy(np.stack([s.ids for s in done])).to(index.device)
    return Polished(sets, [s.swaps for s in done], optimal, [s.starts for s in done])


def _polish(
    p: Quadratic, at: Tensor, index: Tensor, more_starts: bool, field: Tensor, error: Tensor, fresh: Tensor
) -> tuple[list[_Search], list[bool]]:
    """The searches of some problems, ended, and whether each has its certificate."""
    h, bound = field[at], error[at]
    if not bool(fresh[at].all()):
        stale = (~fresh[at]).nonzero().flatten()
        h[stale], renewed = p.field(at[stale], p.sums(at[stale], index[at[stale]]))
        bound[stale] = renewed.double()
    y = p.sums(at, index[at])
    width = min(p.c.count, p.k + max(NARROWEST, p.k))
    near = ranked(h, width, bound, lambda b, i: p.exact_field(at, y, b, i), all_=False)[0]
    searches = [_started(p, b, near[i], index[b], more_starts) for i, b in enumerate(at.tolist())]
    optimal = [False] * len(at)
    # A set that is still the one the field was taken at needs no further pass.
    behind = [i for i, b in enumerate(at.tolist()) if searches[i].ids.tolist() != index[b].tolist()]
    for i in set(range(len(at))) - set(behind):
        moved, optimal[i] = _verified(p, at[i : i + 1], searches[i], h[i], float(bound[i]))
        behind += [i] if moved else []
    for _ in range(ROUNDS):
        if not behind:
            break
        behind.sort()
        some = at[behind]
        sets = torch.from_numpy(np.stack([searches[i].ids for i in behind])).to(index.device)
        h, bound = p.field(some, p.sums(some, sets))
        still = []
        for row, i in enumerate(behind):
            moved, optimal[i] = _verified(p, at[i : i + 1], searches[i], h[row], float(bound[row]))
            still += [i] if moved else []
        behind = still
    return searches, optimal


def _started(p: Quadratic, b: int, near: Tensor, index: Tensor, more_starts: bool) -> _Search:
    """The best set that swaps on the shortlist reach from `index` or from another start."""
    short = Shortlist(p, b, torch.unique(torch.cat([near, index])))
    starts = 3 if more_starts else 1
    return _Search(short, *short.swapped(np.searchsorted(short.ids, index.cpu().numpy()), starts), starts)


def _verified(p: Quadratic, at: Tensor, search: _Search, h: Tensor, error: float) -> tuple[bool, bool]:
    """(whether the set moved, whether no swap over all candidates improves it), h being the field at its set."""
    tolerance = TOLERANCE * float(p.scale[at])
    for _ in range(ROUNDS):
        if not search.settled:
            return False, False
        rivals = _rivals(p, at, search, h, error, tolerance)
        if not len(rivals):
            return False, True
        before = search.ids
        search.short.join(rivals)
        search.chosen = np.searchsorted(search.short.ids, before)
        search.chosen, swaps, search.settled = search.short.swapped(search.chosen, 1)
        search.swaps += swaps
        if swaps:
            return True, False
    return False, False


def _rivals(p: Quadratic, at: Tensor, search: _Search, h: Tensor, error: float, tolerance: float) -> Tensor:
    """Candidates beyond the shortlist that improve the set, best first, at most JOINING."""
    c, short = p.c, search.short
    device = h.device
    reach: Tensor | float
    stays = torch.from_numpy(short.marginal(search.chosen)).to(device)
    members = short.vectors[search.chosen].to(device)
    longest = float(torch.linalg.vector_norm(members, dim=1).max())
    if c.matrix.unit:
        reach = p.beta * (1 + 1e-5)
    else:
        lengths = c.squares[int(at)] if c.squares.ndim == 2 else c.squares
        reach = p.beta * longest * lengths.sqrt() * (1 + 1e-5)
    # Roundings of the few operations here, beside those of the field itself.
    error = error + p.rounding * (float(p.scale[at]) + float(stays.abs().max()) + p.beta * c.max_norm**2)
    open_ = h + (reach + error - float(stays.min())) > tolerance
    open_[torch.from_numpy(short.ids).to(device)] = False
    ids = open_.nonzero().flatten()
    if not len(ids):
        return ids
    gain = _best_swaps(p, at, ids, h, members.to(h.dtype), stays.to(h.dtype))
    error += 2 * p.beta * c.similarity_error
    band = gain > tolerance - error
    ids, gain = ids[band], gain[band]
    if len(ids) > JOINING and (alike := c.duplicate_of) is not None:
        ids, gain = _new_kinds(alike, ids, gain, search)
    if not len(ids):
        return ids
    y = members.sum(0)

    def exact(_: Tensor, index: Tensor) -> Tensor:
        parts = []
        for (part,) in blocks(max(members.shape), ids[index]):
            rows, batch = c.rows(at.expand(len(part)), part).double(), at.expand(len(part))
            field = p.linear * c.exact_relevance(batch, part) - p.beta * (rows @ y)
            parts.append(field + torch.addmm(-stays, rows, members.T, alpha=p.beta).amax(1))
        return torch.cat(parts)

    order, sure = ranked(gain.unsqueeze(0), min(len(ids), JOINING), torch.full_like(gain[:1], error), exact)
    return ids[order[0][sure[0] > tolerance]]


def _best_swaps(p: Quadratic, at: Tensor, ids: Tensor, h: Tensor, members: Tensor, stays: Tensor) -> Tensor:
    """Compute the gain of swapping each candidate of `ids` for its best member, in the vectors' precision."""
    c = p.c
    stays = -stays.unsqueeze(1)
    if c.shared and 2 * len(ids) > c.count:
        # Where most are asked for, reading all in place is faster than gathering them.
        all_rows = blocks(max(members.shape), c.vectors)
        best = [torch.addmm(stays, members, rows.T, alpha=p.beta).amax(0) for (rows,) in all_rows]
        return h[ids] + torch.cat(best)[ids]
    gathered = (c.rows(at.expand(len(part)), part) for (part,) in blocks(max(members.shape), ids))
    return h[ids] + torch.cat([torch.addmm(stays, members, rows.T, alpha=p.beta).amax(0) for rows in gathered])


def _new_kinds(alike: Tensor, ids: Tensor, gain: Tensor, search: _Search) -> tuple[Tensor, Tensor]:
    """The lowest candidate of each kind of which the shortlist has none to spare."""
    spare = np.delete(search.short.ids, search.chosen)
    kind = alike[ids]
    fresh = ~torch.isin(kind, alike[torch.from_numpy(spare).to(ids.device)])
    ids, gain, kind = ids[fresh], gain[fresh], kind[fresh]
    order = kind.argsort(stable=True)
    first = torch.ones_like(order, dtype=torch.bool)
    first[1:] = kind[order][1:] != kind[order][:-1]
    representative = order[first].sort().values
    return ids[representative], gain[representative]


def most_swaps(k: int) -> int:
    """Return the largest number of swaps for a set of k."""
    return 200 + 20 * k
