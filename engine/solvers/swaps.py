"""Swaps that improve a set, and the certificate that over all candidates none is left.

A swap of i out, j in gains θ(k−1)(r_j − r_i) − 2(1−θ)(Σ_{l∈Y∖i} s_jl − Σ_{l∈Y∖i} s_il). The search runs on a
shortlist in float64; one pass over the vectors then bounds every other candidate's best swap, h_j + 2(1−θ)|u_i||u_j|
less i's marginal, and the few that the bound leaves open are looked at one by one and join the shortlist if need be.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.matrix import CHUNK_NUMBERS
from engine.solvers.contest import ranked
from engine.solvers.quadratic import TOLERANCE, Quadratic
from engine.solvers.shortlist import Shortlist

LARGEST = 2048
"""Sets beyond this size are not polished: their Gram matrices and swaps would take minutes."""
NARROWEST = 128
"""The shortlist holds at least so many candidates beside the set, and as many as the set has."""
ROUNDS = 12
"""How often a problem may need a further pass."""
JOINING = 256
"""How many candidates join a shortlist at a time, at most."""


@dataclass(frozen=True, slots=True)
class Polished:
    """index: (B, k) ascending; swaps: (B,) made; optimal: (B,) whether over all candidates no swap improves."""

    index: Tensor
    swaps: list[int]
    optimal: list[bool]
    starts: list[int]


@dataclass
class _Search:
    """One problem on the way: its shortlist, set (positions), swaps so far, and whether the shortlist has no better."""

    short: Shortlist
    chosen: np.ndarray
    swaps: int
    settled: bool
    starts: int

    @property
    def ids(self) -> np.ndarray:
        return self.short.ids[self.chosen]


def polish(p: Quadratic, index: Tensor, more_starts: bool, field: Tensor, error: Tensor, fresh: Tensor) -> Polished:
    """Swap-optimal sets near `index`, (B, k) ascending.

    more_starts: also from other sets that the shortlist suggests, and the best objective wins, `index` on a tie;
    field (B, n), error (B,): the linear field at `index` where `fresh` (B,) says so.
    """
    batch, n = p.c.relevance.shape
    if p.k > LARGEST or p.k == n:
        return Polished(index, [0] * batch, [p.k == n] * batch, [1] * batch)
    index = index.clone()
    done: list[_Search] = []
    optimal: list[bool] = []
    width = min(n, 2 * p.k + max(NARROWEST, p.k))
    for at in p.every.split(max(1, CHUNK_NUMBERS // (width * (p.c.vectors.shape[-1] + width)))):
        found, sure = _polish(p, at, index, more_starts, field, error, fresh)
        done += found
        optimal += sure
    for b, search in enumerate(done):
        index[b] = torch.from_numpy(search.ids).to(index.device)
    return Polished(index, [s.swaps for s in done], optimal, [s.starts for s in done])


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
    ids = torch.unique(torch.cat([near, index]))
    short = Shortlist(*_held(p, b, ids), p.linear, p.beta)
    tolerance = TOLERANCE * float(p.scale[b])
    first = np.searchsorted(short.ids, index.cpu().numpy())
    starts = [first]
    if more_starts:
        starts += [short.greedy(p.k), short.ascent(p.k, 0.0, tolerance)]
    best, best_value = None, -np.inf
    for start in starts:
        chosen, swaps, settled = short.swapped(start, tolerance, _most(p))
        value = short.value(chosen)
        if best is None or value > best_value + tolerance:
            best, best_value = _Search(short, chosen, swaps, settled, len(starts)), value
    return best


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
        search.short.join(*_held(p, int(at), rivals))
        search.chosen = np.searchsorted(search.short.ids, before)
        search.chosen, swaps, search.settled = search.short.swapped(search.chosen, tolerance, _most(p))
        search.swaps += swaps
        if swaps:
            return True, False
    return False, False


def _rivals(p: Quadratic, at: Tensor, search: _Search, h: Tensor, error: float, tolerance: float) -> Tensor:
    """Candidates beyond the shortlist that improve the set, best first, at most JOINING."""
    c, short = p.c, search.short
    device = h.device
    stays = torch.from_numpy(short.marginal(search.chosen)).to(device)
    members = torch.from_numpy(short.vectors[search.chosen]).to(device)
    longest = float(torch.linalg.vector_norm(members, dim=1).max())
    if c.matrix.unit:
        reach = p.beta * (1 + 1e-5)
    else:
        lengths = c.squares[int(at)] if c.squares.ndim == 2 else c.squares
        reach = p.beta * longest * lengths.sqrt() * (1 + 1e-5)
    # Roundings of the few operations here, beside those of the field itself.
    error = error + p.rounding * (float(p.scale[at]) + float(stays.abs().max()) + p.beta * c.norm**2)
    open_ = h + (reach + error - float(stays.min())) > tolerance
    open_[torch.from_numpy(short.ids).to(device)] = False
    ids = open_.nonzero().flatten()
    if not len(ids):
        return ids
    gain = _best_swaps(p, at, ids, h, members.to(h.dtype), stays.to(h.dtype))
    error += 2 * p.beta * c.similarity_error
    band = gain > tolerance - error
    ids, gain = ids[band], gain[band]
    if len(ids) > JOINING and (alike := c.twins) is not None:
        ids, gain = _new_kinds(alike, ids, gain, search)
    if not len(ids):
        return ids
    y = members.sum(0)

    def exact(_: Tensor, index: Tensor) -> Tensor:
        parts = []
        for part in ids[index].split(max(1, CHUNK_NUMBERS // max(members.shape))):
            rows, batch = c.rows(at.expand(len(part)), part).double(), at.expand(len(part))
            own = p.linear * c.exact_relevance(batch, part) - p.beta * (rows @ y)
            parts.append(own + torch.addmm(-stays, rows, members.T, alpha=p.beta).amax(1))
        return torch.cat(parts)

    order, sure = ranked(gain.unsqueeze(0), min(len(ids), JOINING), torch.full_like(gain[:1], error), exact)
    return ids[order[0][sure[0] > tolerance]]


def _best_swaps(p: Quadratic, at: Tensor, ids: Tensor, h: Tensor, members: Tensor, stays: Tensor) -> Tensor:
    """What each candidate of `ids` would gain in the best member's place, in the vectors' precision."""
    c = p.c
    size = max(1, CHUNK_NUMBERS // max(len(members), members.shape[1]))
    stays = -stays.unsqueeze(1)
    if c.shared and 2 * len(ids) > c.count:
        # Where most are asked for, reading all in place is faster than gathering them.
        blocks = [torch.addmm(stays, members, rows.T, alpha=p.beta).amax(0) for rows in c.vectors.split(size)]
        return h[ids] + torch.cat(blocks)[ids]
    blocks = [
        torch.addmm(stays, members, c.rows(at.expand(len(part)), part).T, alpha=p.beta).amax(0)
        for part in ids.split(size)
    ]
    return h[ids] + torch.cat(blocks)


def _new_kinds(alike: Tensor, ids: Tensor, gain: Tensor, search: _Search) -> tuple[Tensor, Tensor]:
    """The lowest candidate of each kind of which the shortlist has none to spare."""
    spare = np.delete(search.short.ids, search.chosen)
    kind = alike[ids]
    fresh = ~torch.isin(kind, alike[torch.from_numpy(spare).to(ids.device)])
    ids, gain, kind = ids[fresh], gain[fresh], kind[fresh]
    order = kind.argsort(stable=True)
    first = torch.ones_like(order, dtype=torch.bool)
    first[1:] = kind[order][1:] != kind[order][:-1]
    kept = order[first].sort().values
    return ids[kept], gain[kept]


def _held(p: Quadratic, b: int, ids: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Candidates of one problem as a shortlist holds them."""
    batch = torch.full_like(ids, b)
    vectors = p.c.rows(batch, ids).double()
    relevance = p.c.exact_relevance(batch, ids)
    return ids.cpu().numpy(), vectors.cpu().numpy(), relevance.cpu().numpy()


def _most(p: Quadratic) -> int:
    return 200 + 20 * p.k
