"""The whole λ₁ path of one query's elastic net, with the proof that no other row belongs to it anywhere."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from engine.candidates import Candidates
from engine.display import OneLine
from engine.matrix import GRAM_ROWS, Matrix, blocks, gram
from engine.progress import raise_if_stopped
from engine.solvers.elastic_net.solve import (
    Solutions,
    compute_certificate,
    elastic_nets,
    residual_points,
    score_by_vectors,
    score_residuals,
)
from engine.solvers.lines import LambdaPath, order_lines

Array = np.ndarray

PATH_START_ROWS, N_PROBES, MAX_SEGMENTS = 512, 4, 100_000
"""Most relevant rows and λ₁ along the path, whose supports the working set begins with; limit of a path's segments."""

MIN_L1 = 1e-9
"""The smallest λ₁ of a path."""
CROSSING_TOLERANCE = 1e-9
"""Weights this close, as a share of the largest, may be in either order."""


@dataclass(frozen=True, eq=False, kw_only=True)
class WeightPath(OneLine):
    """The elastic-net weights of one query's documents at every λ₁, for one λ₂.

    As λ₁ falls, weights are straight lines in it between kinks, where a document gains or loses its weight; the stretch
    between two kinks is a segment. levels: (T + 1,) λ₁ at the kinks, falling from the best score; segment t lies
    between levels t and t + 1. members:
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
        """(T,) number of documents with a weight in each segment.

        A segment is an interval of λ₁ on which the same documents have a weight.
        """
        return np.diff(self.ends, prepend=0)

    def segment(self, segment: int) -> slice:
        """Return the slice of `members`, `p` and `q` that belongs to one segment, numbered from 0."""
        return slice(int(self.ends[segment - 1]) if segment else 0, int(self.ends[segment]))

    def at(self, l1: float) -> tuple[Array, Array]:
        """Return the documents with a weight at λ₁ = `l1`, as rows, and their weights, the largest first.

        Below the lowest λ₁ of the path, the lines of its last segment go on.
        """
        if not len(self) or l1 >= self.levels[0]:
            return self.members[:0], self.p[:0]
        # The levels fall and searchsorted wants them rising, hence the signs.
        segment = min(int(np.searchsorted(-self.levels, -l1, side="right")) - 1, len(self) - 1)
        entries = self.segment(segment)
        members, weights = self.members[entries], self.p[entries] - l1 * self.q[entries]
        order = np.lexsort((members, -weights))
        order = order[weights[order] > 0]
        return members[order], weights[order]

    def first_of(self, size: int) -> tuple[float, int]:
        """Return a λ₁ at which `size` documents have a weight, and the number that have one there.

        A segment is a stretch of λ₁ on which the same documents have a weight. λ₁ is the middle of the first segment
        with `size` documents, from the largest λ₁ down; if there is none, of the first with more; else of the one with
        the most.
        """
        segment_sizes = self.sizes
        if not len(segment_sizes):
            return (float(self.levels[0]) if len(self.levels) else 0.0), 0
        # A segment no longer than rounding counts as empty.
        segment_sizes = np.where(self.levels[:-1] - self.levels[1:] > 1e-9 * self.levels[0], segment_sizes, 0)
        exact_segments, larger_segments = np.flatnonzero(segment_sizes == size), np.flatnonzero(segment_sizes > size)
        segment = int(np.concatenate([exact_segments, larger_segments, [segment_sizes.argmax()]])[0])
        return float(self.levels[segment] + self.levels[segment + 1]) / 2, int(segment_sizes[segment])


def regularization_path(c: Candidates, l2: float, min_level: float, target_size: int = 0) -> WeightPath:
    """Compute the elastic-net weights of one query at every λ₁, from its best score down to min_level > 0.

    c: a batch of 1; target_size: stop early once this many documents have a weight, 0 for never
    """
    from engine.solvers.elastic_net.homotopy import follow_path

    c = score_by_vectors(c)
    vectors = c.vectors if c.vectors.ndim == 2 else c.vectors[0]
    query, empty = c.queries[0].double().cpu(), np.empty((0, 0))
    if c.count <= GRAM_ROWS:
        vectors = vectors.double().cpu()
        products = (c.matrix.gram.cpu() if c.shared else gram(vectors)).numpy()
        segments = follow_path(products, empty, (vectors @ query).numpy(), l2, min_level, target_size, MAX_SEGMENTS)
        path = _build_path(segments, l2, np.arange(c.count))
        return replace(path, residual=float(_check_kinks(c, path)[0].max(initial=0)), passes=2)
    # Follow the path over a working set, check every kink against the corpus, and add what violates: between kinks all
    # is linear, so kinks suffice.
    inside = _probe_start_rows(c, l2, min_level)
    n_passes = 1 + N_PROBES
    while True:
        raise_if_stopped("the path was stopped")
        working_rows = vectors[torch.from_numpy(inside).to(vectors.device)].double().cpu()
        scores = (working_rows @ query).numpy()
        segments = follow_path(empty, working_rows.numpy(), scores, l2, min_level, target_size, MAX_SEGMENTS)
        path = _build_path(segments, l2, inside)
        residuals, missing_ids = _check_kinks(c, path, inside)
        n_passes += 1
        if not len(missing_ids):
            return replace(path, residual=float(residuals.max(initial=0)), passes=n_passes)
        inside = np.concatenate([inside, missing_ids])


def ranking_path(c: Candidates, k: int, l2: float, interval: tuple[float, float]) -> LambdaPath:
    """Return the k documents with the largest weights, in order, at every λ₁ of an interval, as pieces.

    c: one query's candidates. A piece ends where a document enters or leaves the support, and where two weights cross;
    −1 pads picks where fewer than k weights are above 0.
    """
    # A pool of one query becomes a small corpus of its own, so that its inner products are computed once.
    if c.pool is not None:
        vectors = c.vectors[0]
        c = replace(c, vectors=vectors, matrix=Matrix(vectors), pool=None)
    low, high = interval
    path = regularization_path(c, l2, max(low, MIN_L1))
    # Crossings are certain only beyond the rounding of the weights, which grows with the scores and with the weights
    # themselves.
    max_weight = np.abs(path.p - path.q * path.levels[-1:]).max(initial=0)
    tolerance = CROSSING_TOLERANCE * float(max(c.relevance.abs().max(), max_weight))
    pieces: list[LambdaPath] = []
    left = low
    # A segment is an interval of λ₁ on which the same documents have a weight; the last has the lowest λ₁.
    for segment in range(len(path) - 1, -1, -1):
        raise_if_stopped("the path was stopped")
        right = min(float(path.levels[segment]), high)
        if right < left or (right == left and (segment or pieces)):
            continue
        entries = path.segment(segment)
        member_order = path.members[entries].argsort()
        # A further line, with the value 0 everywhere and the number −1, divides those with a weight from those without.
        members = np.append(path.members[entries][member_order], -1)
        segment_p = np.append(path.p[entries][member_order], 0.0)
        segment_q = np.append(path.q[entries][member_order], 0.0)
        certain_range = np.array([[max(left, float(path.levels[segment + 1])) + tolerance, right - tolerance]])
        lines = np.stack([segment_p - segment_q, segment_p])[None]
        pieces.append(order_lines(left, np.array([right]), certain_range, members[None], lines, k, tolerance))
        left = right
    if left < high or not pieces:
        no_picks, certain_range = np.full((1, k), -1), np.array([[left + tolerance, high]])
        pieces.append(LambdaPath(left, np.array([high]), no_picks, np.zeros((1, 2, k)), certain_range))
    return _join_pieces(low, pieces, k)


def _join_pieces(low: float, pieces: Sequence[LambdaPath], k: int) -> LambdaPath:
    """Join the rankings of neighbouring intervals of λ₁, ascending from `low`, to one path of k picks."""
    ends = np.concatenate([piece.ends for piece in pieces])
    certain = np.concatenate([piece.certain for piece in pieces])
    picks, gains = np.full((len(ends), k), -1), np.zeros((len(ends), 2, k))
    end_row = 0
    for piece in pieces:
        start_row, end_row = end_row, end_row + len(piece.ends)
        n_members = piece.picks.shape[1]
        picks[start_row:end_row, :n_members], gains[start_row:end_row, :, :n_members] = piece.picks, piece.gains
    # What follows the number −1 has no weight.
    picks[np.logical_or.accumulate(picks < 0, axis=1)] = -1
    return LambdaPath(low, ends, picks, gains, certain)


def _build_path(segments: tuple[Array, Array, Array, Array, Array, bool], l2: float, row_ids: Array) -> WeightPath:
    """Build a WeightPath from the arrays of `follow_path`, which numbers its documents from 0.

    segments: the path's arrays, where a member's weight is p − λ₁ q; row_ids: the candidate behind each number
    """
    levels, ends, members, p, q, finished = segments
    return WeightPath(l2=l2, levels=levels, ends=ends, members=row_ids[members], p=p, q=q, finished=bool(finished))


def _probe_start_rows(c: Candidates, l2: float, min_level: float) -> Array:
    """Choose the documents, as ascending rows, on which the path of weights over λ₁ is followed at first.

    They are the most relevant ones, and those that get a weight at a few λ₁ along the path.
    """
    max_score = float(c.relevance.max())
    start_rows = c.relevance[0].topk(min(c.count, PATH_START_ROWS)).indices.cpu().numpy()
    if max_score <= min_level:
        return np.sort(start_rows)
    levels = np.geomspace(max_score, min_level, N_PROBES + 1)[1:]
    probes = elastic_nets(c, levels[None], np.full(N_PROBES, l2))
    return np.union1d(start_rows, probes.members)


def _check_kinks(c: Candidates, path: WeightPath, inside: Array | None = None) -> tuple[Array, Array]:
    """Check a path's weights at its kinks against all documents; return violations and missing rows.

    A kink is a λ₁ at which a document gains or loses its weight. Between kinks weights are straight lines, so what
    holds at both ends holds there. inside: rows that the path was computed on, None for all. Rows outside that
    would get a weight are missing: if there are any, they are returned and the violations are empty. Else the result is
    the violation of the optimality conditions at each kink, (T + 1,), and no rows.
    """
    if not len(path):
        return np.zeros(0), np.empty(0, np.int64)
    kink_sizes, members, weights = [], [], []
    # Each kink takes the lines of the segment that begins there, the last kink those of the segment that ends there.
    for kink_index in range(len(path) + 1):
        entries = path.segment(min(kink_index, len(path) - 1))
        kink_weights = np.maximum(path.p[entries] - path.levels[kink_index] * path.q[entries], 0)
        members.append(path.members[entries][kink_weights > 0])
        weights.append(kink_weights[kink_weights > 0])
        kink_sizes.append(len(weights[-1]))
    solutions = Solutions.uncertified(np.cumsum(kink_sizes), np.concatenate(members), np.concatenate(weights))
    if inside is not None:
        missing_parts: list[Array] = []
        levels = torch.from_numpy(path.levels).to(c.queries.device)
        tolerance = 1e-9 * float(c.relevance.abs().max())
        # A rounded product decides unless it may exceed λ₁; those few are computed again in float64.
        for points, kink_levels in blocks(c.count, residual_points(c, solutions), levels):
            products, error, exact_scorer = score_residuals(c, points)
            may_get_weight = products > (kink_levels - error).unsqueeze(1)
            may_get_weight[:, torch.from_numpy(inside).to(may_get_weight.device)] = False
            kink_ids, row_id = may_get_weight.nonzero(as_tuple=True)
            is_missing = exact_scorer.exact_relevance(kink_ids, row_id) > kink_levels[kink_ids] + tolerance
            missing_parts.append(row_id[is_missing].cpu().numpy())
        if len(missing_ids := np.unique(np.concatenate(missing_parts))):
            return np.zeros(0), missing_ids
    return compute_certificate(c, solutions, path.levels, np.full(len(kink_sizes), path.l2))[0], np.empty(0, np.int64)
