"""Non-negative elastic nets: the minimisers of ½|Uᵀw − v|² + λ₁ Σw + ½λ₂|w|² over w ≥ 0, and what proves them.

An active set in float64 finds a minimiser, over all rows by their Gram matrix where that is at hand, over a working set
of rows otherwise; where a GPU holds the vectors, or very many rows get a weight, Newton steps on the dual do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import CACHED_NUMBERS, CHUNK_NUMBERS, GRAM_ROWS, blocks, gram, rounding, slices, underflow
from engine.solvers.elastic_net.dual_newton import TOLERANCE, ascend
from engine.solvers.elastic_net.rounding import EXTRA, LOST, SUMMED, TINY, UNIT

Array = np.ndarray

EVEN = 1e-10
"""Weights of one answer that differ by less, of the largest, are equal: the lower row goes first."""
FEWEST, MOST = 64, 512
"""The working set begins with so many rows, depending on the corpus."""
FLAT = 1e-12
"""On a GPU a λ₂ under this share of the longest squared row goes the way of λ₂ = 0: Newton's systems have no digits."""
ROOM = 1536
"""How many rows the working set may grow by, at first."""
POOL_GRAM = 512
"""Pools of so many rows go by their Gram matrix."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Solutions:
    """The minimisers of P problems, one after the other.

    ends: (P,) where each one's members end
    members: candidates with a weight, the largest weight first
    weights: above 0
    residual: (P,) bound on the largest violation of the optimality conditions
    gap: (P,) bound on the duality gap, NaN at λ₂ = 0
    passes: (P,) over the candidates
    tied: problem → member → its exact duplicates, any of which could stand for it at λ₂ = 0
    """

    ends: Array
    members: Array
    weights: Array
    residual: Array
    gap: Array
    passes: Array
    tied: dict[int, dict[int, list[int]]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ends)

    @cached_property
    def counts(self) -> Array:
        """(P,) how many members each problem has."""
        counts = self.ends.copy()
        counts[1:] -= self.ends[:-1]
        return counts

    @cached_property
    def problem(self) -> Array:
        """(E,) the problem of each member."""
        return np.repeat(np.arange(len(self)), self.counts)

    def take(self, problems: Array) -> Solutions:
        """Some of the problems, in the order given."""
        counts = self.counts[problems]
        ends = np.cumsum(counts)
        entries = np.arange(counts.sum()) + np.repeat(self.ends[problems] - ends, counts)
        place = {int(p): i for i, p in enumerate(problems)}
        return Solutions(
            ends=ends,
            members=self.members[entries],
            weights=self.weights[entries],
            residual=self.residual[problems],
            gap=self.gap[problems],
            passes=self.passes[problems],
            tied={place[p]: duplicates for p, duplicates in self.tied.items() if p in place},
        )

    @staticmethod
    def joined(parts: Sequence[Solutions]) -> Solutions:
        """The problems of all parts, in order."""
        if len(parts) == 1:
            return parts[0]
        before = np.cumsum([0, *(len(p) for p in parts)]).tolist()
        entries = np.cumsum([0, *(len(p.members) for p in parts)])
        names = ("members", "weights", "residual", "gap", "passes")
        arrays = {name: np.concatenate([getattr(p, name) for p in parts]) for name in names}
        return Solutions(
            ends=np.concatenate([part.ends + e for part, e in zip(parts, entries, strict=False)]),
            tied={p + b: found for part, b in zip(parts, before, strict=False) for p, found in part.tied.items()},
            **arrays,
        )


def by_vectors(c: Candidates) -> Candidates:
    """The candidates with the inner products as relevance, whatever scorer chose them: what is rebuilt is the query."""
    return c if c.inner_product else replace(c, relevance=c.products(c.queries), inner_product=True)


def only(c: Candidates, some: slice | Array | Tensor) -> Candidates:
    """Some of the problems."""
    part = replace(c, relevance=c.relevance[some], queries=c.queries[some])
    return part if c.vectors.ndim == 2 else replace(part, vectors=c.vectors[some])


def elastic_nets(c: Candidates, l1: Array, l2: Array) -> Solutions:
    """The minimiser for each of B queries at each of C settings: problem b · C + a.

    l1: (B, C) with l1 > 0 or l2 > 0; l2: (C,).
    """
    if len(l2) == 1:
        return _solved(by_vectors(c), l1, l2)
    # From one setting to the next the weights change least where λ₁ falls and λ₂ stays.
    order = np.lexsort((-l1.mean(0), l2))
    found = _solved(by_vectors(c), l1[:, order], l2[order])
    if (order[1:] < order[:-1]).any():
        at = np.empty_like(order)
        at[order] = np.arange(len(order))
        found = found.take((np.arange(len(l1))[:, None] * len(order) + at).ravel())
    return found


def _solved(c: Candidates, l1: Array, l2: Array) -> Solutions:
    if c.vectors.is_cuda:
        ridged = l2 > FLAT * c.max_norm**2
        if ridged.all():
            return _by_newton(c, l1, l2)
        rows = c.matrix.on_cpu if c.shared else c.vectors.cpu()
        host = replace(c, vectors=rows, relevance=c.relevance.cpu(), queries=c.queries.cpu())
        parts = [(np.flatnonzero(ridged), c), (np.flatnonzero(~ridged), host)]
        solved = [_solved(on, l1[:, some], l2[some]) for some, on in parts if len(some)]
        order = np.concatenate([(np.arange(len(l1))[:, None] * len(l2) + some).ravel() for some, _ in parts])
        return Solutions.joined(solved).take(np.argsort(order))
    solutions = []
    for block, by_gram in _blocks(c, len(l2)):
        part = c if block == slice(None) else only(c, block)
        solutions.append((_by_gram if by_gram else _by_rows)(part, l1[block], l2))
    return Solutions.joined(solutions)


def _blocks(c: Candidates, settings: int) -> Iterator[tuple[slice, bool]]:
    """Which queries are solved together, and whether by a Gram matrix: all where they share their rows."""
    if c.vectors.ndim == 3:
        yield from ((slice(b, b + 1), c.count <= POOL_GRAM) for b in range(c.batch))
        return
    made = "gram" in vars(c.matrix) or c.matrix.cached or c.batch * settings * 16 >= c.count
    if c.count <= GRAM_ROWS and made:
        yield slice(None), True
    else:
        yield from ((slice(b, b + 1), False) for b in range(c.batch))


def _by_gram(c: Candidates, l1: Array, l2: Array) -> Solutions:
    from engine.solvers.elastic_net.active_set import by_gram

    queries = c.queries.double()
    if c.shared:
        products, scores = c.matrix.gram, _exact_scores(c)
    else:
        rows = (c.vectors if c.vectors.ndim == 2 else c.vectors[0]).double()
        products, scores = gram(rows), queries @ rows.T
    scale = scores.abs().amax(1).numpy()
    found = by_gram(
        products.numpy(),
        scores.numpy(),
        np.ascontiguousarray(l1),
        l2,
        TOLERANCE * scale,
        np.ascontiguousarray(scores.topk(min(c.count, FEWEST), dim=1).indices.numpy()),
        c.max_norm,
        queries.numpy(),
        _near(c, scale),
        _size(c),
    )
    return _collected(c, (*found[:-1], np.ones_like(found[-1])), l1, l2)


def _exact_scores(c: Candidates) -> Tensor:
    """(B, n) float64 inner products of all rows with the queries."""
    from engine.solvers.elastic_net.working_set import exact_products

    if c.batch > 1:
        return c.queries.double() @ c.matrix.float64.T
    rows, query = c.vectors.contiguous().numpy(), c.queries[0]
    return c.matrix.cache_scores(query, lambda: torch.from_numpy(exact_products(rows, query.double().numpy()))[None])


def _by_rows(c: Candidates, l1: Array, l2: Array) -> Solutions:
    from engine.solvers.elastic_net.active_set import CROWDED
    from engine.solvers.elastic_net.working_set import by_rows

    rows = c.vectors if c.vectors.ndim == 2 else c.vectors[0]
    codes, step, slack = np.empty((0, 0), np.int8), np.empty(0), np.empty(0)
    if c.shared and rows.numel() > CACHED_NUMBERS and ("codes" in vars(c.matrix) or c.matrix.cached):
        codes, step, slack = (part.numpy() for part in c.matrix.codes)
    first = c.relevance[0].topk(min(c.count, max(FEWEST, min(MOST, c.count // 64)))).indices.numpy()
    query, scale = c.queries[0].double(), float(c.relevance.abs().max())
    state, room = CROWDED, len(first) + ROOM
    while state == CROWDED:
        found = by_rows(
            rows.contiguous().numpy(),
            codes,
            step,
            slack,
            first,
            query.numpy(),
            np.ascontiguousarray(l1[0]),
            l2,
            TOLERANCE * scale,
            rounding(rows) * c.max_norm,
            underflow(rows),
            c.max_norm,
            bool(_near(c, np.array([scale]))[0]),
            _size(c),
            room,
        )
        state, room = found[-2][-1], 2 * room
    return _collected(c, (*found[:-1], found[-1] + 1), l1, l2)


def _near(c: Candidates, scale: Array) -> Array:
    """(B,) whether a query has a dimension in common with any candidate; scale: (B,) the largest product."""
    near: Array = scale != 0
    for b in np.flatnonzero(~near).tolist():
        rows = c.vectors if c.vectors.ndim == 2 else c.vectors[b]
        near[b] = bool(rows[:, c.queries[b] != 0].any())
    return near


def _size(c: Candidates) -> int:
    """Room for an active set: without a ridge it holds no more than the dimension of the vectors."""
    from engine.solvers.elastic_net.active_set import MOST

    return 2 + min(c.count, max(MOST, c.vectors.shape[-1]))


def _collected(c: Candidates, found: tuple[Array, ...], l1: Array, l2: Array) -> Solutions:
    """What the compiled loops found, in order; what they gave up on, by Newton steps."""
    from engine.solvers.elastic_net.active_set import FULL

    ends, members, weights, tie_ends, ties, residual, gap, states, passes = found
    gap[np.tile(l2 == 0, len(l1))] = np.nan
    sure = Solutions(ends=ends, members=members, weights=weights, residual=residual, gap=gap, passes=passes)
    sure = _shared(c, sorted_solutions(sure), l1.ravel(), np.tile(l2, len(l1)), tie_ends, ties)
    if not (late := np.flatnonzero(states == FULL)).size:
        return sure
    query, setting = late // len(l2), late % len(l2)
    extra = _ascended(only(c, query), l1[query, setting], l2[setting])
    at = np.arange(len(sure))
    at[late] = len(sure) + np.arange(len(late))
    return Solutions.joined([sure, extra]).take(at)


def bounds(gap: Array, l2: Array | float) -> Array:
    """(P,) no weights with this gap are further from the minimiser's, |w − w*|; NaN at λ₂ = 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        distance: Array = np.sqrt(2.0) * np.sqrt(gap) / np.sqrt(l2)
    return distance


def _shared(c: Candidates, s: Solutions, l1: Array, l2: Array, tie_ends: Array, ties: Array) -> Solutions:
    """The solutions as exact copies have it: the same weight each at λ₂ > 0, all of it the lowest at λ₂ = 0.

    l1, l2: (P,); ties: what may be a copy of a member and is none itself, for problem p up to tie_ends[p].
    """
    # The minimiser gives copies one weight, so weights that are proven to differ are of none.
    after = s.problem[1:]
    near = (s.weights[:-1] - s.weights[1:] <= 2 * bounds(s.gap, l2)[after]) & (after == s.problem[:-1])
    if not len(ties) and not near.any():
        return s
    suspect = np.diff(tie_ends, prepend=0) > 0
    suspect[after[near]] = True
    members, weights = np.split(s.members, s.ends[:-1]), np.split(s.weights, s.ends[:-1])
    tied: dict[int, dict[int, list[int]]] = {}
    changed = []
    for p in np.flatnonzero(suspect).tolist():
        index = np.concatenate([members[p], ties[tie_ends[p - 1] if p else 0 : tie_ends[p]]])
        # Numbers in the order in which rows occur first, the same for exact copies.
        some = torch.from_numpy(index).to(c.vectors.device)
        rows = c.rows(torch.full_like(some, p * c.batch // len(s)), some).cpu().numpy()
        seen: dict[bytes, int] = {}
        kind = np.array([seen.setdefault(row.tobytes(), len(seen)) for row in rows])
        held = np.flatnonzero(kind <= kind[: len(members[p])].max())
        index, kind = index[held], kind[held]
        total = np.bincount(kind[: len(members[p])], weights[p])
        if len(total) == len(index):
            continue
        if l2[p] > 0:
            members[p], weights[p] = index, (total / np.bincount(kind))[kind]
            changed.append(p)
        else:
            alike = [sorted(index[kind == each].tolist()) for each in range(len(total))]
            members[p], weights[p] = np.array([lowest for lowest, *_ in alike]), total
            tied[p] = {lowest: others for lowest, *others in alike if others}
    ends = np.cumsum([len(own) for own in members])
    whole = replace(s, ends=ends, members=np.concatenate(members), weights=np.concatenate(weights), tied=tied)
    s = sorted_solutions(whole)
    if changed:
        part = only(c, np.array(changed) * c.batch // len(s))
        s.residual[changed], s.gap[changed] = certificate(part, s.take(np.array(changed)), l1[changed], l2[changed])
        s.passes[changed] += 1
    return s


def sorted_solutions(s: Solutions) -> Solutions:
    """The members of each problem by weight, the lower row first where weights are equal."""
    if not len(s.members):
        return s
    if len(s) == 1:
        order = np.lexsort((s.members, -s.weights))
        problem, weights = np.zeros_like(order), s.weights[order]
        top = weights[:1]
    else:
        order = np.lexsort((s.members, -s.weights, s.problem))
        problem, weights = s.problem[order], s.weights[order]
        top = np.zeros(len(s))
        np.maximum.at(top, problem, weights)
    # A run of weights, each within reach of the one before, counts as one weight.
    fresh = np.ones(len(order), dtype=np.int64)
    fresh[1:] = (problem[1:] != problem[:-1]) | (weights[:-1] - weights[1:] > EVEN * top[problem[1:]])
    if not fresh.all():
        order = order[np.lexsort((s.members[order], np.cumsum(fresh)))]
    return replace(s, members=s.members[order], weights=s.weights[order])


def _by_newton(c: Candidates, l1: Array, l2: Array) -> Solutions:
    """Every query at every setting by Newton steps, as many at a time as memory allows."""
    settings, problems = len(l2), l1.size
    parts = []
    for block in slices(problems, 4 * c.vectors.shape[-1] * min(MOST, c.vectors.shape[-1])):
        query, setting = np.divmod(np.arange(block.start, block.stop), settings)
        parts.append(_ascended(only(c, query), l1[query, setting], l2[setting]))
    return Solutions.joined(parts)


def _ascended(c: Candidates, l1: Array, l2: Array) -> Solutions:
    """One problem a query by Newton steps: l1, l2 (B,), l2 > 0."""
    first, second = (torch.from_numpy(x).to(c.queries.device) for x in (l1, l2))
    weights, members, passes = ascend(c, first, second)
    found = with_certificate(c, weights, members, l1, l2, passes + 1)
    return _shared(c, found, l1, l2, np.zeros(c.batch, np.int64), np.empty(0, np.int64))


def with_certificate(c: Candidates, weights: Tensor, members: Tensor, l1: Array, l2: Array, passes: int) -> Solutions:
    """Weights, (B, m), of the rows `members`, (B, m), with what proves or refutes them; l1, l2: (B,)."""
    batch, place = (weights > 0).nonzero(as_tuple=True)
    ends = torch.bincount(batch, minlength=c.batch).cumsum(0).cpu().numpy()
    rows, values = members[batch, place].cpu().numpy(), weights[batch, place].double().cpu().numpy()
    zeros, counts = np.zeros(c.batch), np.full(c.batch, passes)
    rough = Solutions(ends=ends, members=rows, weights=values, residual=zeros, gap=zeros, passes=counts)
    solutions = sorted_solutions(rough)
    residual, gap = certificate(c, solutions, l1, l2)
    return replace(solutions, residual=residual, gap=gap)


def points_of(c: Candidates, s: Solutions) -> Tensor:
    """(P, d) float64 what the weights leave of the queries, v − Uᵀw: P a multiple of the batch, b · C + a."""
    return _points(c, s)[0]


def _points(c: Candidates, s: Solutions) -> tuple[Tensor, Tensor]:
    """The same, and (P,) |v| + Σ w|u|, which bounds their rounding: 0 only where all products are exactly 0."""
    query = torch.arange(len(s), device=c.queries.device) // (len(s) // c.batch)
    near = torch.from_numpy(_near(c, c.relevance.any(1).cpu().numpy())).to(query.device)
    left, size = c.queries.double()[query], (_lengths(c.queries) * near)[query]
    problem = torch.from_numpy(s.problem).to(left.device)
    members = torch.from_numpy(s.members).to(left.device)
    weights = torch.from_numpy(s.weights).to(left.device)
    for p, member, weight in blocks(left.shape[1], problem, members, weights):
        rows = c.rows(query[p], member).double()
        size.index_add_(0, p, _lengths(rows).mul_(weight))
        left.index_add_(0, p, rows.mul_(weight.unsqueeze(1)), alpha=-1)
    return left, size


def _lengths(rows: Tensor) -> Tensor:
    """(m,) float64 lengths of rows, (m, d), with what underflow may take from them."""
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
    return lengths.add_(math.sqrt(rows.shape[1] * TINY))


def duals(c: Candidates, points: Tensor) -> tuple[Tensor, Tensor, Candidates]:
    """(P, n) products of the candidates with float64 points, (P, d); their error, (P,); what scores exactly."""
    query = torch.arange(len(points), device=points.device) // (len(points) // c.batch)
    vectors = c.vectors if c.vectors.ndim == 2 else c.vectors[query]
    exact = replace(c, queries=points, vectors=vectors, relevance=c.relevance[:1], inner_product=True)
    return exact.products(points.to(c.vectors.dtype)), exact.product_error(points), exact


def certificate(c: Candidates, s: Solutions, l1: Array, l2: Array) -> tuple[Array, Array]:
    """(P,) bounds on the violation of the optimality conditions and on the duality gap (NaN at λ₂ = 0), whoever solved.

    l1, l2: (P,). With g = U(v − Uᵀw) − λ₁: g = λ₂ w on the support, g ≤ 0 off it; for the gap see `active_set.judge`.
    float64: rows whose product, in the vectors' precision, may exceed λ₁ are scored again.
    """
    points, size = _points(c, s)
    device, d = points.device, points.shape[1]
    first, second = torch.from_numpy(l1).to(device), torch.from_numpy(l2).to(device)
    problem, members = torch.from_numpy(s.problem).to(device), torch.from_numpy(s.members).to(device)
    held, terms = torch.from_numpy(s.weights).to(device), torch.from_numpy(s.counts).to(device) + d
    total = torch.ones_like(first).index_add_(0, problem, held)
    share = torch.where(size > 0, (terms + EXTRA) * (UNIT * size + TINY), 0)
    floor = torch.where(size > 0, EXTRA * UNIT * first + terms * TINY * total, 0)
    least = first - 2 * (share * c.max_norm + floor)
    residual, squares = first.new_zeros(len(s)), first.new_zeros(len(s))
    each = len(s) // c.batch
    step = max(1, CHUNK_NUMBERS // max(c.count, d) // each) * each
    for start in range(0, len(s), step):
        block = slice(start // each, (start + step) // each)
        score, error, exact = duals(only(c, block), points[start : start + step])
        open_ = score > (least[start : start + step] - error).unsqueeze(1)
        inside = (problem >= start) & (problem < start + step)
        support = problem[inside] - start, members[inside]
        open_[support] = True
        weights = torch.zeros(score.shape, dtype=torch.float64, device=device)
        weights[support] = held[inside]
        batch, index = open_.nonzero(as_tuple=True)
        value, length = _scored(exact, batch, index)
        weight, batch = weights[batch, index], batch + start
        pull = second[batch] * weight
        error, g = share[batch] * length + floor[batch] + EXTRA * UNIT * pull, value - first[batch]
        off = (torch.where(weight > 0, (g - pull).abs(), g) + error).clamp_min_(0)
        low = (weight > 0) & (g < -error)
        residual.scatter_reduce_(0, batch, off, "amax")
        squares.index_add_(0, batch, torch.where(low, (pull + 2 * error) * (pull - 2 * g), off * off))
    gap = torch.where(second > 0, (SUMMED * squares + LOST * (residual > 0).double()) / (2 * second), torch.nan)
    return residual.cpu().numpy(), gap.cpu().numpy()


def _scored(c: Candidates, batch: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """(m,) float64 inner products at flat pairs, and (m,) the lengths of the rows."""
    values, lengths = [], []
    for b, i in blocks(c.vectors.shape[-1], batch, index):
        rows = c.rows(b, i).double()
        lengths.append(_lengths(rows))
        values.append(rows.mul_(c.queries[b]).sum(1))
    return torch.cat(values), torch.cat(lengths)
