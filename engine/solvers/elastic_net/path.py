"""The whole λ₁ path of one query's elastic net, with the proof that no other row belongs to it anywhere."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from engine.candidates import Candidates
from engine.matrix import GRAM_ROWS, Matrix, blocks, gram
from engine.solvers.elastic_net.solve import Solutions, by_vectors, certificate, duals, elastic_nets, points_of
from engine.solvers.lines import LambdaPath, by_value

Array = np.ndarray

FIRST, PROBES, MOST_SEGMENTS = 512, 4, 100_000
"""The working set begins with the most relevant rows and with what so many λ₁ along the way need."""

LEAST = 1e-9
"""The smallest λ₁ of a path."""
UNSURE = 1e-9
"""Weights this close, as a share of the largest, may be in either order."""


@dataclass(frozen=True, eq=False, kw_only=True)
class WeightPath:
    """The weights of every row as functions of λ₁, at one λ₂: straight lines between kinks.

    levels: (T + 1,) λ₁ at the kinks, falling from the best score; segment t lies between levels t and t + 1. members:
    rows with a weight, all segments one after the other, each ending at ends[t]; the weight is p − λ₁ q. residual: the
    largest violation of the optimality conditions at any kink, and so between them, as all is linear there; passes:
    over the candidates; finished: the lowest λ₁ asked for was reached.
    """

    l2: float
    levels: Array
    ends: Array
    members: Array
    p: Array
    q: Array
    residual: float = 0.0
    passes: int = 0
    finished: bool

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def sizes(self) -> Array:
        """(T,) how many rows have a weight in each segment."""
        return np.diff(self.ends, prepend=0)

    def segment(self, t: int) -> slice:
        """Where the entries of segment t are."""
        return slice(int(self.ends[t - 1]) if t else 0, int(self.ends[t]))

    def at(self, l1: float) -> tuple[Array, Array]:
        """Rows and weights at a λ₁, the largest weight first; below the lowest level, those of the last segment."""
        if not len(self) or l1 >= self.levels[0]:
            return self.members[:0], self.p[:0]
        t = min(int(np.searchsorted(-self.levels, -l1, side="right")) - 1, len(self) - 1)
        part = self.segment(t)
        members, weights = self.members[part], self.p[part] - l1 * self.q[part]
        order = np.lexsort((members, -weights))
        order = order[weights[order] > 0]
        return members[order], weights[order]

    def first_of(self, size: int) -> tuple[float, int]:
        """(λ₁, rows) in the middle of the first segment with `size` rows, else with more, else with the most."""
        sizes = self.sizes
        if not len(sizes):
            return (float(self.levels[0]) if len(self.levels) else 0.0), 0
        sizes = np.where(self.levels[:-1] - self.levels[1:] > 1e-9 * self.levels[0], sizes, 0)
        exact, more = np.flatnonzero(sizes == size), np.flatnonzero(sizes > size)
        t = int(exact[0] if len(exact) else more[0] if len(more) else np.argmax(sizes))
        return float(self.levels[t] + self.levels[t + 1]) / 2, int(sizes[t])


def regularization_path(c: Candidates, l2: float, lowest: float, size: int = 0) -> WeightPath:
    """The path of one query (a batch of 1) from its best score down to λ₁ = lowest > 0, or to a support of `size`."""
    from engine.solvers.elastic_net.homotopy import follow

    c = by_vectors(c)
    rows = c.vectors if c.vectors.ndim == 2 else c.vectors[0]
    query = c.queries[0].double().cpu()
    if c.count <= GRAM_ROWS:
        rows = rows.double().cpu()
        products = (c.matrix.gram.cpu() if c.shared else gram(rows)).numpy()
        segments = follow(products, np.empty((0, 0)), (rows @ query).numpy(), l2, lowest, size, MOST_SEGMENTS)
        path = _path(segments, l2, np.arange(c.count))
        return replace(path, residual=float(_residuals(c, path)[0].max(initial=0)), passes=2)
    inside = _probed(c, l2, lowest)
    passes = 1 + PROBES
    while True:
        working = rows[torch.from_numpy(inside).to(rows.device)].double().cpu()
        scores = (working @ query).numpy()
        segments = follow(np.empty((0, 0)), working.numpy(), scores, l2, lowest, size, MOST_SEGMENTS)
        path = _path(segments, l2, inside)
        residuals, missing = _residuals(c, path, inside)
        passes += 1
        if not len(missing):
            return replace(path, residual=float(residuals.max(initial=0)), passes=passes)
        inside = np.concatenate([inside, missing])


def ranking_path(c: Candidates, k: int, l2: float, interval: tuple[float, float]) -> LambdaPath:
    """The k largest weights of one problem, in order, at every λ₁ of an interval: −1 where fewer are above 0.

    It is cut where a document enters or leaves the support, and where two weights cross.
    """
    if c.pool is not None:
        vectors = c.vectors[0]
        c = replace(c, vectors=vectors, matrix=Matrix(vectors), pool=None)
    low, high = interval
    path = regularization_path(c, l2, max(low, LEAST))
    slack = UNSURE * float(max(c.relevance.abs().max(), np.abs(path.p - path.q * path.levels[-1:]).max(initial=0)))
    parts: list[LambdaPath] = []
    start = low
    for t in range(len(path) - 1, -1, -1):
        end = min(float(path.levels[t]), high)
        if end < start or (end == start and (t or parts)):
            continue
        part = path.segment(t)
        order = path.members[part].argsort()
        # The line 0 divides those with a weight from those without.
        members = np.append(path.members[part][order], -1)
        p, q = np.append(path.p[part][order], 0.0), np.append(path.q[part][order], 0.0)
        sure = np.array([[max(start, float(path.levels[t + 1])) + slack, end - slack]])
        parts.append(by_value(start, np.array([end]), sure, members[None], np.stack([p - q, p])[None], k, slack))
        start = end
    if start < high or not parts:
        nothing, sure = np.full((1, k), -1), np.array([[start + slack, high]])
        parts.append(LambdaPath(start, np.array([high]), nothing, np.zeros((1, 2, k)), sure))
    picks = np.concatenate([np.pad(p.picks, ((0, 0), (0, k - p.picks.shape[1])), constant_values=-1) for p in parts])
    gains = np.concatenate([np.pad(p.gains, ((0, 0), (0, 0), (0, k - p.gains.shape[2]))) for p in parts])
    picks[np.logical_or.accumulate(picks < 0, axis=1)] = -1
    ends, certain = np.concatenate([p.ends for p in parts]), np.concatenate([p.certain for p in parts])
    return LambdaPath(low, ends, picks, gains, certain)


def _path(segments: tuple[Array, Array, Array, Array, Array, bool], l2: float, rows: Array) -> WeightPath:
    levels, ends, members, p, q, finished = segments
    return WeightPath(l2=l2, levels=levels, ends=ends, members=rows[members], p=p, q=q, finished=bool(finished))


def _probed(c: Candidates, l2: float, lowest: float) -> Array:
    """The rows to begin with, ascending."""
    top = float(c.relevance.max())
    first = c.relevance[0].topk(min(c.count, FIRST)).indices.cpu().numpy()
    if top <= lowest:
        return np.sort(first)
    levels = np.geomspace(top, lowest, PROBES + 1)[1:]
    probes = elastic_nets(c, levels[None], np.full(PROBES, l2))
    return np.union1d(first, probes.members)


def _residuals(c: Candidates, path: WeightPath, inside: Array | None = None) -> tuple[Array, Array]:
    """(T + 1,) the violation at each kink, and which rows outside the working set would have a weight there."""
    if not len(path):
        return np.zeros(0), np.empty(0, np.int64)
    ends, members, weights = [], [], []
    for t in range(len(path) + 1):
        part = path.segment(min(t, len(path) - 1))
        weight = np.maximum(path.p[part] - path.levels[t] * path.q[part], 0)
        members.append(path.members[part][weight > 0])
        weights.append(weight[weight > 0])
        ends.append(len(weights[-1]))
    nothing = np.zeros(len(ends))
    kinks = Solutions(
        ends=np.cumsum(ends),
        members=np.concatenate(members),
        weights=np.concatenate(weights),
        residual=nothing,
        gap=nothing,
        passes=nothing,
    )
    if inside is not None:
        missing: list[Array] = []
        levels = torch.from_numpy(path.levels).to(c.queries.device)
        slack = 1e-9 * float(c.relevance.abs().max())
        for points, level in blocks(c.count, points_of(c, kinks), levels):
            score, error, exact = duals(c, points)
            above = score > (level - error).unsqueeze(1)
            above[:, torch.from_numpy(inside).to(above.device)] = False
            batch, index = above.nonzero(as_tuple=True)
            missing.append(index[exact.exact_relevance(batch, index) > level[batch] + slack].cpu().numpy())
        if len(rows := np.unique(np.concatenate(missing))):
            return np.zeros(0), rows
    return certificate(c, kinks, path.levels, np.full(len(ends), path.l2))[0], np.empty(0, np.int64)
