"""The candidates of a run's queries in the order of their relevance, by each scorer and metric."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from engine.identification.families import DecoderFamily
from engine.identification.novelty import COSINE, DISTANCE, INNER_PRODUCT
from engine.space import QueryBatch, Space
from engine.stages import Scorer

Array = np.ndarray

MAX_POOL_DEPTH = 1000
"""Largest pool, in documents, that is told apart from the whole corpus."""
MAX_PICKS = 20
"""Picks of a list that are looked at; later ones count as members of its set only."""
ROUNDING_SLACK = 1e-6
"""Differences of gains, as a share of the longest vectors' product, that rounding in another program may decide."""
BLOCK_NUMBERS = 1 << 19
"""Scores of all scorers that are in memory at a time, if that is enough for MIN_BLOCK_QUERIES."""
MIN_BLOCK_QUERIES = 4
"""Queries at least that are scored at a time: with fewer the vectors of a large corpus are read too often."""


@dataclass(frozen=True, eq=False)
class RunLists:
    """The lists of a run as rows of a corpus, for queries with at least one document.

    batch: the queries; rows: of each its documents, best first; own_rows: (Q,) the row that a query is itself and that
    its list lacks, −1 for none; k: the length of the longest list
    """

    batch: QueryBatch
    rows: tuple[Array, ...]
    own_rows: Array
    k: int

    @property
    def n_picks(self) -> int:
        """The number of picks that are looked at."""
        return sum(min(len(list_rows), MAX_PICKS) for list_rows in self.rows)

    @property
    def query_index(self) -> Array:
        """(P,) the query of each pick that is looked at."""
        lengths = [min(len(list_rows), MAX_PICKS) for list_rows in self.rows]
        return np.repeat(np.arange(len(lengths)), lengths)


@dataclass(frozen=True)
class ScaledRelevance:
    """Relevance on a selector's scale, the rounding of its differences, and by what factor each pool has it larger.

    values: (n,) as scaled for all documents; ratios: (depths + 2,), (0,) where the scale is the same for all pools
    """

    values: Array
    slack: float
    ratios: Array


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoredPool:
    """One query's candidates in the order of their relevance by one scorer.

    relevance: (n,) float64; order: (m,) the most relevant rows; group_starts, group_stops: (m,) the range of positions
    that ties with each; tail: the other candidates; slack: rounding of a difference of relevance; n_spanning: number of
    candidates, the first of the order, between which a scale of relevance spans
    """

    relevance: Array
    order: Array
    group_starts: Array
    group_stops: Array
    tail: Array
    slack: float
    n_spanning: int

    @cached_property
    def positions(self) -> Array:
        """(n,) the position of each row in the order, −1 for the tail, −2 for a row that is no candidate."""
        positions = np.full(len(self.relevance), -2, dtype=np.int64)
        positions[self.order], positions[self.tail] = np.arange(len(self.order)), -1
        return positions

    def find_starts(self, picks: Array, n_depths: int) -> Array:
        """Return the least depth whose pool may hold each pick; n_depths + 2 for a document that is no candidate."""
        positions = self.positions[picks]
        if not len(self.order):
            return np.full(len(picks), n_depths + 2, dtype=np.int64)
        # A document that ties with others may be the first of them.
        starts = self.group_starts[np.maximum(positions, 0)] + 1
        return np.where(positions >= 0, starts, np.where(positions == -1, n_depths + 1, n_depths + 2))

    @cached_property
    def _scaled(self) -> dict[str, ScaledRelevance]:
        return {}

    def scale(self, scale: str, n_depths: int) -> ScaledRelevance:
        """Return the relevance on a scale: raw, minmax or rank; the last two depend on the pool."""
        if scale == "raw":
            return ScaledRelevance(self.relevance, self.slack, np.empty(0))
        if scale not in self._scaled:
            self._scaled[scale] = self._scale_by_rank(n_depths) if scale == "rank" else self._scale_by_range(n_depths)
        return self._scaled[scale]

    def _scale_by_range(self, n_depths: int) -> ScaledRelevance:
        """Scale relevance from the least to the most relevant candidate of the pool."""
        if not len(self.order):
            return ScaledRelevance(self.relevance, self.slack, np.ones(n_depths + 2))
        scores = self.relevance[self.order]
        # The least relevant document of a pool of n is the n-th, or the last of those that span the scale.
        lowest = scores[np.minimum(np.arange(n_depths + 2), min(len(self.order), self.n_spanning)).clip(1) - 1]
        if self.n_spanning > len(self.order):
            lowest[-1] = min(lowest[-1], self.relevance[self.tail].min())
        widths = scores[0] - lowest
        full_width = widths[-1] if widths[-1] > 0 else 1.0
        # Candidates that are all equally relevant get 0: relevance then counts for nothing.
        ratios = np.divide(full_width, widths, out=np.zeros_like(widths), where=widths > 0)
        return ScaledRelevance(self.relevance / full_width, self.slack / full_width, ratios)

    def _scale_by_rank(self, n_depths: int) -> ScaledRelevance:
        """Scale relevance by rank among the candidates of the pool, equals at the better rank."""
        # Negated, the larger scores stand before a score, and equal ones at its position.
        ascending = np.sort(-self.relevance[np.concatenate([self.order, self.tail])])
        ranks = np.searchsorted(ascending, -self.relevance)
        widths = np.maximum(np.minimum(np.arange(n_depths + 2), min(len(self.order), self.n_spanning)) - 1.0, 1.0)
        full_width = widths[-1] = max(self.n_spanning - 1.0, 1.0)
        return ScaledRelevance(-ranks / full_width, 1e-12, full_width / widths)


class QueryScores(NamedTuple):
    """One query's scores of all documents, (n,), and which of them match and span a scale; None for all."""

    scores: Array
    matches: Array | None
    scale_basis: Array | None


ScorerKey = tuple[Scorer, str]


def iterate_scores(
    families: Sequence[DecoderFamily], space: Space, lists: RunLists
) -> Iterator[tuple[int, dict[ScorerKey, QueryScores]]]:
    """Yield every query with its scores by each scorer and metric."""
    # Families share scores: there are a few scorers, and ten times as many families.
    keys = list(dict.fromkeys((family.scorer, family.metric) for family in families))
    block_size = max(MIN_BLOCK_QUERIES, BLOCK_NUMBERS // (len(space) * len(keys)))
    for start in range(0, len(lists.rows), block_size):
        block = lists.batch.block(start, start + block_size)
        scored: dict[ScorerKey, tuple[Tensor, Tensor | None, Tensor | None]] = {}
        for scorer, metric in keys:
            scores = _score_by_metric(scorer, metric, space, block)
            matches, basis = scorer.find_matches(space, block, scores), scorer.find_scale_basis(space, block)
            scored[scorer, metric] = scores.cpu(), matches, basis
        for offset in range(len(block)):
            query_scores = {}
            for key, (scores, *masks) in scored.items():
                rows = (None if mask is None else mask[offset].cpu().numpy() for mask in masks)
                query_scores[key] = QueryScores(scores[offset].double().numpy(), *rows)
            yield start + offset, query_scores
        # One block at a time: this one would be held while the next is scored.
        scored.clear()


def _score_by_metric(scorer: Scorer, metric: str, space: Space, block: QueryBatch) -> Tensor:
    """Return (B, n) scores; inner products are turned into cosines or negative distances."""
    scores = scorer.score(space, block)
    if metric == INNER_PRODUCT or not scorer.inner_product:
        return scores
    lengths, query_lengths = space.matrix.lengths.double(), torch.linalg.vector_norm(block.vectors.double(), dim=1)
    if metric == COSINE:
        cosines: Tensor = scores.double() / (lengths * query_lengths.unsqueeze(1)).clamp_min(1e-150)
        return cosines
    squares: Tensor = lengths.square() + query_lengths.square().unsqueeze(1) - 2 * scores.double()
    return squares.clamp_min(0).sqrt().neg()


def order_candidates(
    scores: Array, is_candidate: Array | None, n_depths: int, slack: float, scale_basis: Array | None = None
) -> ScoredPool:
    """Order the candidates of a query by relevance, ties by row, the first n_depths of them.

    scale_basis: (n,) True for the documents between whose scores a scale spans, which are the most relevant ones; None
    for all
    """
    # Ascending rows and a stable sort let ties go to the lower row, as in every decoder.
    rows = np.arange(len(scores)) if is_candidate is None else np.flatnonzero(is_candidate)
    values, tail = scores[rows], np.empty(0, np.int64)
    n_spanning = len(rows) if scale_basis is None else int(scale_basis[rows].sum())
    if len(rows) > n_depths:
        partition = np.argpartition(-values, n_depths - 1)
        rows, tail = np.sort(rows[partition[:n_depths]]), rows[partition[n_depths:]]
        values = scores[rows]
    order = rows[np.argsort(-values, kind="stable")]
    # Neighbours that rounding could exchange may be on either side of a pool's edge.
    is_edge = np.flatnonzero(scores[order][:-1] - scores[order][1:] > slack) + 1
    edges = np.concatenate([[0], is_edge, [len(order)]]).astype(np.int64)
    widths = np.diff(edges)
    return ScoredPool(
        relevance=scores, order=order, group_starts=np.repeat(edges[:-1], widths),
        group_stops=np.repeat(edges[1:], widths), tail=tail.astype(np.int64), slack=slack,
        n_spanning=n_spanning or len(rows),
    )  # fmt: skip


def measure_slacks(length: float, other_length: float) -> dict[str, float]:
    """Return the rounding of similarities by each metric, of vectors up to two lengths."""
    inner = ROUNDING_SLACK * max(length * other_length, 1e-30)
    # The root of a small difference of squares has fewer digits.
    return {INNER_PRODUCT: inner, COSINE: ROUNDING_SLACK, DISTANCE: 10 * ROUNDING_SLACK * (length + other_length)}
