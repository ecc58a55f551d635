"""Non-negative elastic nets: the minimisers of ½|Uᵀw − v|² + λ₁ Σw + ½λ₂|w|² over w ≥ 0, and what proves them.

An active set in float64 finds a minimiser, over all rows by their Gram matrix where that is at hand, over a working set
of rows otherwise; where a GPU holds the vectors, or very many rows get a weight, Newton steps on the dual do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import CACHED_NUMBERS, CHUNK_NUMBERS, GRAM_ROWS, blocks, gram, rounding, slices, underflow
from engine.solvers.elastic_net.dual_newton import TOLERANCE, ascend

Array = np.ndarray

EVEN = 1e-10
"""Weights of one answer that differ by less, of the largest, are equal: the lower row goes first."""
FEWEST, MOST = 64, 512
"""The working set begins with so many rows, depending on the corpus."""
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
    residual: (P,) largest violation of the optimality conditions
    gap: (P,) duality gap, NaN at λ₂ = 0
    passes: (P,) over the candidates
    tied: problem → member → its exact duplicates, any of which could stand for it
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
        return np.diff(self.ends, prepend=0)

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
        ridged = l2 > 0
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
    from engine.solvers.elastic_net.gram import by_gram

    if c.shared:
        products, scores = c.matrix.gram, _exact_scores(c)
    else:
        rows = (c.vectors if c.vectors.ndim == 2 else c.vectors[0]).double()
        products, scores = gram(rows), c.queries.double() @ rows.T
    found = by_gram(
        products.numpy(),
        scores.numpy(),
        np.ascontiguousarray(l1),
        l2,
        TOLERANCE * scores.abs().amax(1).numpy(),
        np.ascontiguousarray(scores.topk(min(c.count, FEWEST), dim=1).indices.numpy()),
        _size(c),
    )
    return _collected(c, (*found[:-1], np.ones_like(found[-1])), l1, l2)


def _exact_scores(c: Candidates) -> Tensor:
    """(B, n) float64 inner products of all rows with the queries."""
    from engine.solvers.elastic_net.working_set import exact_products

    if c.batch > 1:
        return c.queries.double() @ c.matrix.float64.T
    rows, query = c.vectors.contiguous().numpy(), c.queries[0]
    return c.matrix.remembered(query, lambda: torch.from_numpy(exact_products(rows, query.double().numpy()))[None])


def _by_rows(c: Candidates, l1: Array, l2: Array) -> Solutions:
    from engine.solvers.elastic_net.active_set import CROWDED
    from engine.solvers.elastic_net.working_set import by_rows

    rows = c.vectors if c.vectors.ndim == 2 else c.vectors[0]
    codes, step, slack = np.empty((0, 0), np.int8), np.empty(0), np.empty(0)
    if c.shared and rows.numel() > CACHED_NUMBERS and ("codes" in vars(c.matrix) or c.matrix.cached):
        codes, step, slack = (part.numpy() for part in c.matrix.codes)
    first = c.relevance[0].topk(min(c.count, max(FEWEST, min(MOST, c.count // 64)))).indices.numpy()
    query = c.queries[0].double()
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
            TOLERANCE * float(c.relevance.abs().max()),
            rounding(rows) * c.max_norm,
            underflow(rows),
            c.max_norm,
            _size(c),
            room,
        )
        state, room = found[-2][-1], 2 * room
    return _collected(c, (*found[:-1], found[-1] + 1), l1, l2)


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
    if (l2 == 0).any():
        sure = replace(sure, members=members.copy())
        sure = replace(sure, tied=_represented(c, sure, tie_ends, ties, len(l2)))
    sure = sorted_solutions(sure)
    if not (late := np.flatnonzero(states == FULL)).size:
        return sure
    query, setting = late // len(l2), late % len(l2)
    extra = _ascended(only(c, query), l1[query, setting], l2[setting])
    at = np.arange(len(sure))
    at[late] = len(sure) + np.arange(len(late))
    return Solutions.joined([sure, extra]).take(at)


def _represented(
    c: Candidates, s: Solutions, tie_ends: Array, ties: Array, settings: int
) -> dict[int, dict[int, list[int]]]:
    """Let the lowest of exact duplicates stand for all (in s.members), and tell which the others are."""
    tied: dict[int, dict[int, list[int]]] = {}
    for p in np.flatnonzero(np.diff(tie_ends, prepend=0)):
        rows = c.vectors if c.vectors.ndim == 2 else c.vectors[p // settings]
        others = ties[tie_ends[p - 1] if p else 0 : tie_ends[p]]
        outside: dict[bytes, list[int]] = {}
        for j in sorted(others.tolist()):
            outside.setdefault(rows[j].numpy().tobytes(), []).append(j)
        at = slice(s.ends[p - 1] if p else 0, s.ends[p])
        for i, member in enumerate(s.members[at].tolist(), at.start):
            if twins := outside.get(rows[member].numpy().tobytes()):
                first, *rest = sorted([member, *twins])
                s.members[i] = first
                tied.setdefault(int(p), {})[first] = rest
    return tied


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
    return with_certificate(c, weights, members, l1, l2, passes + 1)


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
    query = torch.arange(len(s), device=c.queries.device) // (len(s) // c.batch)
    left = c.queries.double()[query]
    problem = torch.from_numpy(s.problem).to(left.device)
    members = torch.from_numpy(s.members).to(left.device)
    weights = torch.from_numpy(s.weights).to(left.device)
    for p, member, weight in blocks(left.shape[1], problem, members, weights):
        rows = c.rows(query[p], member).double()
        left.index_add_(0, p, rows.mul_(weight.unsqueeze(1)), alpha=-1)
    return left


def duals(c: Candidates, points: Tensor) -> tuple[Tensor, Tensor, Candidates]:
    """(P, n) products of the candidates with float64 points, (P, d); their error, (P,); what scores exactly."""
    query = torch.arange(len(points), device=points.device) // (len(points) // c.batch)
    vectors = c.vectors if c.vectors.ndim == 2 else c.vectors[query]
    exact = replace(c, queries=points, vectors=vectors, relevance=c.relevance[:1], inner_product=True)
    return exact.products(points.to(c.vectors.dtype)), exact.product_error(points), exact


def certificate(c: Candidates, s: Solutions, l1: Array, l2: Array) -> tuple[Array, Array]:
    """(P,) the largest violation of the optimality conditions and (P,) the duality gap (NaN at λ₂ = 0), whoever solved.

    l1, l2: (P,). With g = U(v − Uᵀw) − λ₁: g = λ₂ w on the support, g ≤ 0 off it; for the gap see `active_set.judge`.
    float64: rows whose product, in the vectors' precision, may exceed λ₁ are scored again.
    """
    points = points_of(c, s)
    device = points.device
    first, second = torch.from_numpy(l1).to(device), torch.from_numpy(l2).to(device)
    problem, members = torch.from_numpy(s.problem).to(device), torch.from_numpy(s.members).to(device)
    residual, squares = first.new_zeros(len(s)), first.new_zeros(len(s))
    share = len(s) // c.batch
    step = max(1, CHUNK_NUMBERS // max(c.count, c.vectors.shape[-1]) // share) * share
    for start in range(0, len(s), step):
        block = slice(start // share, (start + step) // share)
        score, error, exact = duals(only(c, block), points[start : start + step])
        open_ = score > (first[start : start + step] - error).unsqueeze(1)
        inside = (problem >= start) & (problem < start + step)
        support = problem[inside] - start, members[inside]
        open_[support] = True
        weights = torch.zeros(score.shape, dtype=torch.float64, device=device)
        weights[support] = torch.from_numpy(s.weights).to(device)[inside]
        batch, index = open_.nonzero(as_tuple=True)
        weight, batch = weights[batch, index], batch + start
        off = exact.exact_relevance(batch - start, index) - first[batch]
        low = torch.where(weight > 0, off.clamp_max(0), 0)
        off = torch.where(weight > 0, off - second[batch] * weight, off.clamp_min(0)).abs()
        residual.scatter_reduce_(0, batch, off, "amax")
        squares.index_add_(0, batch, off * off - low * low)
    gap = torch.where(second > 0, squares / (2 * second), torch.nan)
    return residual.cpu().numpy(), gap.cpu().numpy()
