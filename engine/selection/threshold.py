"""threshold: the most relevant documents without those too similar to one already taken."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from engine.candidates import Candidates, select_problem
from engine.matrix import GRAM_ROWS
from engine.params import Real, declare
from engine.progress import raise_if_stopped
from engine.solvers.certificate_queries import LinearQuestion, ask_relevance_order
from engine.solvers.gram import build_ranking
from engine.solvers.lines import LambdaPath
from engine.solvers.tie_breaking import rank_exactly
from engine.stages import FILL, Selector, register
from engine.values import Ranking

COSINE_TOLERANCE = 1e-12
"""A cosine above τ by no more than this counts as equal to τ: rounding may have put it there."""
COSINE_SLACK = 1e-11
"""Values of τ this close to a cosine are left to the selector: ten times the tolerance."""
N_FIRST_RANKED = 64
"""Documents ranked at first for each query, or four times k: enough unless τ is low."""
MAX_SCANNED_BLOCK = 4096
"""Documents whose cosines are computed at a time."""
MIN_GRAM_QUERIES = 8
"""Queries from which on a batch repays all cosines of a small corpus."""


@register(
    "threshold",
    title="Threshold",
    paper="baseline",
    equation=r"\arg\max_{i\notin Y,\ \max_{j\in Y}\cos(u_i,u_j)\le\tau} r_i",
    cost="n·d",
    order=90,
)
@dataclass(frozen=True)
class Threshold(Selector):
    """The most relevant documents, but none with a cosine above τ to one already taken."""

    nested = True
    sequential = True
    # Of those that are unlike the picks before, which alone are left, the most relevant.
    criterion = "relevance"
    path_parameter = "threshold"

    threshold: float = declare(
        Real(0.9, "τ", 0.0, 1.0), "A document with a cosine above it to one already taken is dropped; 1 drops none."
    )
    fill: str = declare(FILL, "strict: stop where every document left is dropped. fill: then dropped ones, up to k.")

    @classmethod
    def select_grid(cls, stages: "Sequence[Threshold]", candidates: Candidates, k: int) -> list[Ranking]:
        """Take documents by relevance, best first, and drop those too similar to one already taken.

        With fill="fill" the most relevant of the dropped documents follow those taken, up to k. gain: the relevance, in
        float64. info: filled, the number of documents that were dropped and fill up to k.
        """
        c, shape = candidates, (candidates.batch, k)
        picks = [np.full(shape, -1, dtype=np.int64) for _ in stages]
        gains, n_filled = [np.zeros(shape) for _ in stages], np.zeros((len(stages), c.batch), dtype=np.int64)
        for query_index, documents in enumerate(_rank_documents(c, max(N_FIRST_RANKED, 4 * k))):
            for stage_index, stage in enumerate(stages):
                ranks = documents.take(stage.threshold, k)
                chosen = _fill_up(ranks, documents.count, k) if stage.fill == "fill" else ranks
                n_filled[stage_index, query_index] = len(chosen) - len(ranks)
                picks[stage_index][query_index, : len(chosen)] = documents.row_ids[chosen]
                gains[stage_index][query_index, : len(chosen)] = documents.relevance[chosen]
        rankings = []
        for stage_picks, stage_gains, filled in zip(picks, gains, n_filled.tolist(), strict=True):
            figures: dict[str, list[Any]] = {"candidates": [c.count] * c.batch, "filled": filled}
            rankings.append(build_ranking(c, stage_picks, stage_gains, figures))
        return rankings

    def questions(self, candidates: Candidates, ranking: Ranking) -> list[LinearQuestion] | None:
        """Return questions to a vector engine: is an unseen document more relevant than one of the ranking.

        None where fewer than k documents were taken: the next one could be any document that is similar to none of
        them, which no inner product tells.
        """
        n_taken = len(ranking.rows()) - ranking.info[0]["filled"]
        return ask_relevance_order(candidates, ranking) if n_taken == ranking.index.shape[1] else None

    def lambda_path(
        self, candidates: Candidates, k: int, interval: tuple[float, float], marks: Sequence[float] = ()
    ) -> list[LambdaPath]:
        """Return each query's ranking at every τ of the interval, as pieces: ranges of τ with one ranking.

        The ranking changes at cosines between candidates alone. marks: ascending τ that the caller will look up; a
        piece that contains no mark may be left out, to save time
        """
        paths, is_filled, mark_values = [], self.fill == "fill", np.asarray(marks, dtype=np.float64)
        for documents in _rank_documents(candidates, candidates.count):
            paths.append(_ThresholdPath(documents, k, is_filled).follow(interval, mark_values))
        return paths


def _fill_up(ranks: Sequence[int], count: int, k: int) -> list[int]:
    """Append the lowest of the ranks 0 … count − 1 that are not among `ranks`, up to k in all."""
    # Of twice k ranks no more than k are taken, so enough remain.
    remaining = np.setdiff1d(np.arange(min(count, 2 * k)), ranks)
    return [*ranks, *remaining[: k - len(ranks)].tolist()]


def _rank_documents(c: Candidates, n_ranked: int) -> Iterator["_RankedDocuments"]:
    """Yield each query's candidates by relevance, the first `n_ranked` of them ranked at once."""
    n_ranked = min(c.count, n_ranked)
    row_ids, relevance = rank_exactly(c.relevance, n_ranked, c.relevance_error, c.exact_relevance)
    # A small corpus that many queries share repays all its cosines, which later calls find again.
    cosines = None
    if c.shared and c.count <= GRAM_ROWS and (c.matrix.cached or c.batch >= MIN_GRAM_QUERIES):
        cosines = c.matrix.derive("cosines", lambda: _compute_cosines(c.vectors))
    for query_index in range(c.batch):
        ranked = row_ids[query_index].cpu().numpy(), relevance[query_index].cpu().numpy()
        yield _RankedDocuments(c, query_index, *ranked, cosines)


def _compute_cosines(vectors: torch.Tensor) -> np.ndarray:
    """Return the (n, n) cosines of all vectors, (n, d), in float64."""
    unit_rows = _normalize_rows(vectors)
    cosines: np.ndarray = unit_rows @ unit_rows.T
    return cosines


def _normalize_rows(vectors: torch.Tensor) -> np.ndarray:
    """Return (m, d) vectors at length 1, in float64 on the CPU; rows of zeros stay zero."""
    rows = vectors.double().cpu().numpy()
    # Divided by the largest entry first, so that no square under- or overflows.
    max_entries = np.abs(rows).max(1, keepdims=True)
    rows = rows / np.where(max_entries == 0, 1, max_entries)
    lengths = np.sqrt((rows * rows).sum(1, keepdims=True))
    unit_rows: np.ndarray = rows / np.where(lengths == 0, 1, lengths)
    return unit_rows


class _RankedDocuments:
    """One query's candidates by relevance, best first; a document's rank, from 0, is its name here.

    row_ids, relevance: (m,) the candidates at the first m ranks; count: the number of candidates
    """

    def __init__(
        self, c: Candidates, query_index: int, row_ids: np.ndarray, relevance: np.ndarray, cosines: np.ndarray | None
    ) -> None:
        """Start with the first ranks. cosines: (n, n) of all candidates, None to compute them as needed."""
        self.count, self.row_ids, self.relevance = c.count, row_ids, relevance
        self._c, self._query_index, self._cosines = c, query_index, cosines
        self._unit_blocks: dict[tuple[int, int], np.ndarray] = {}

    def rank(self, n_ranked: int) -> None:
        """Rank at least `n_ranked` candidates, or all."""
        if n_ranked <= len(self.row_ids) or len(self.row_ids) == self.count:
            return
        c = select_problem(self._c, self._query_index)
        # Doubling keeps the cost of ranking anew within a factor of that of the last time.
        size = min(self.count, max(n_ranked, 2 * len(self.row_ids)))
        row_ids, relevance = rank_exactly(c.relevance, size, c.relevance_error, c.exact_relevance)
        self.row_ids, self.relevance = row_ids[0].cpu().numpy(), relevance[0].cpu().numpy()

    def compute_cosines(self, rank: int, start: int, stop: int) -> np.ndarray:
        """Return the (stop − start,) cosines of the document at a rank to those at ranks start … stop − 1."""
        if self._cosines is not None:
            row_cosines: np.ndarray = self._cosines[self.row_ids[rank]][self.row_ids[start:stop]]
            return row_cosines
        cosines: np.ndarray = self._unit_rows(start, stop) @ self._unit_rows(rank, rank + 1)[0]
        return cosines

    def take(self, threshold: float, k: int) -> list[int]:
        """Return the ranks of up to k documents, none with a cosine above `threshold` to one before it."""
        limit, start, taken = threshold + COSINE_TOLERANCE, 0, list[int]()
        block_size = len(self.row_ids)
        while start < self.count and len(taken) < k:
            self.rank(start + block_size)
            stop = min(self.count, start + block_size)
            is_open = np.ones(stop - start, dtype=np.bool_)
            for rank in taken:
                is_open &= self.compute_cosines(rank, start, stop) <= limit
            while len(taken) < k and is_open.any():
                rank = start + int(is_open.argmax())
                taken.append(rank)
                is_open &= self.compute_cosines(rank, start, stop) <= limit
                # A document of zeros has cosine 0 to itself.
                is_open[: rank + 1 - start] = False
            start, block_size = stop, min(2 * block_size, MAX_SCANNED_BLOCK)
        return taken

    def _unit_rows(self, start: int, stop: int) -> np.ndarray:
        """Return the (stop − start, d) vectors at these ranks, at length 1; those used last are kept."""
        for (block_start, block_stop), unit_rows in self._unit_blocks.items():
            if block_start <= start and stop <= block_stop:
                return unit_rows[start - block_start : stop - block_start]
        candidate_index = torch.from_numpy(self.row_ids[start:stop]).to(self._c.vectors.device)
        vectors = self._c.rows(torch.full_like(candidate_index, self._query_index), candidate_index)
        unit_rows = self._unit_blocks[start, stop] = _normalize_rows(vectors)
        return unit_rows


@dataclass(frozen=True, eq=False, slots=True)
class _Node:
    """Values of τ at which the first documents taken are the same.

    ranks: of those documents; cosines: (n,) the largest cosine of each candidate to those but the last; low, high: the
    values, without high; certain_low, certain_high: those at which no rounding decides
    """

    ranks: tuple[int, ...]
    cosines: np.ndarray
    low: float
    high: float
    certain_low: float
    certain_high: float


class _ThresholdPath:
    """The search of one query's rankings at every τ, depth first.

    With the documents before it given, the next one at τ is the first by relevance whose largest cosine to them is at
    most τ. As τ falls these are the running minima of that cosine, in the order of relevance.
    """

    def __init__(self, documents: _RankedDocuments, k: int, is_filled: bool) -> None:
        """Set the candidates, all of them ranked, and the size of the rankings.

        is_filled: documents that were dropped follow, up to k
        """
        self.documents, self.k, self.is_filled = documents, k, is_filled

    def follow(self, interval: tuple[float, float], marks: np.ndarray) -> LambdaPath:
        """Return the rankings at every τ of the interval; pieces without one of the marks, if any, are left out."""
        low, high = interval
        if low == high:
            return self._build_path(low, [self._end_at(low)])
        # The most relevant document is taken at every τ.
        stack = [_Node((0,), np.full(self.documents.count, -np.inf), low, high, low, high)]
        leaves = []
        while stack:
            raise_if_stopped("the path was stopped")
            node = stack.pop()
            if len(marks) and np.searchsorted(marks, node.low) == np.searchsorted(marks, node.high, side="right"):
                continue
            if len(node.ranks) == self.k:
                leaves.append(node)
                continue
            children, leaf = self._split(node)
            stack += children
            leaves += leaf
        return self._build_path(low, sorted(leaves, key=lambda leaf: leaf.low))

    def _split(self, node: _Node) -> tuple[list[_Node], list[_Node]]:
        """Split the values of a node by the next document; return one node each, and those where none is left."""
        last = node.ranks[-1]
        cosines = np.maximum(node.cosines, self.documents.compute_cosines(last, 0, self.documents.count))
        # Rounding may put the cosine of parallel vectors above 1, the largest τ.
        following = np.minimum(cosines[last + 1 :], 1.0)
        minima = np.append(np.inf, np.minimum.accumulate(following))
        steps = np.flatnonzero((following < minima[:-1]) & (following < node.high) & (minima[:-1] > node.low))
        children = []
        for step in steps.tolist():
            low, high = max(node.low, float(following[step])), min(node.high, float(minima[step]))
            certain_low = max(node.certain_low, float(following[step]) + COSINE_SLACK)
            certain_high = min(node.certain_high, float(minima[step]) - COSINE_SLACK)
            ranks = (*node.ranks, last + 1 + step)
            if low < high:
                children.append(_Node(ranks, cosines, low, high, certain_low, certain_high))
        lowest = float(minima[-1])
        if lowest <= node.low:
            return children, []
        certain_high = min(node.certain_high, lowest - COSINE_SLACK)
        high = min(node.high, lowest)
        return children, [_Node(node.ranks, cosines, node.low, high, node.certain_low, certain_high)]

    def _end_at(self, threshold: float) -> _Node:
        """Return the ranking at one τ, which the selector itself decides."""
        ranks = tuple(self.documents.take(threshold, self.k))
        return _Node(ranks, np.empty(0), threshold, threshold, np.inf, -np.inf)

    def _build_path(self, start: float, leaves: Sequence[_Node]) -> LambdaPath:
        """Build the path of rankings, given by values of τ in ascending order."""
        picks = np.full((len(leaves), self.k), -1, dtype=np.int64)
        relevance = np.zeros((len(leaves), self.k))
        for position, leaf in enumerate(leaves):
            chosen = _fill_up(leaf.ranks, self.documents.count, self.k) if self.is_filled else list(leaf.ranks)
            picks[position, : len(chosen)] = self.documents.row_ids[chosen]
            relevance[position, : len(chosen)] = self.documents.relevance[chosen]
        ends = np.array([leaf.high for leaf in leaves])
        certain = np.array([(leaf.certain_low, leaf.certain_high) for leaf in leaves])
        # The gain is the relevance at every τ: a line without a slope.
        return LambdaPath(start, ends, picks, np.stack([relevance, relevance], axis=1), certain)
