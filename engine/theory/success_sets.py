"""Relevant sets that dense retrieval and the elastic net recover exactly, on judged queries (NNN paper, §2.1)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import torch
from scipy.stats import binomtest

from engine.candidates import Candidates, select_problem, without_autocast
from engine.decoder import Decoder, decode_grid, query_batch
from engine.errors import DataError, ParamError
from engine.evaluation.sweep.compute import embed_for_space
from engine.evaluation.sweep.sweep import check_list
from engine.matrix import products
from engine.progress import Progress, Stop, with_cancellation
from engine.selection.nnn import PAPER_PENALTIES
from engine.solvers.elastic_net.path import MIN_L1, WeightPath, regularization_path
from engine.space import Space
from engine.stages import make_selector
from engine.theory.elastic_net import witness
from engine.values import Embeddings, Qrels, Queries

PATH_PENALTIES = (0.0, *PAPER_PENALTIES, 10.0, 100.0, 1000.0)
"""λ₂ of the paths: the paper's grid, none, and on towards the theorem's witnesses."""
PATH_END_SHARE = 1e-3
"""λ₁ at the end of the paths, as a share of a query's best score."""


@dataclass(frozen=True)
class McNemar:
    """Exact McNemar test of two methods on the same queries: who recovers a set that the other does not."""

    both: int
    first: int  # the first alone
    second: int  # the second alone
    neither: int
    p: float  # of the exact two-sided test: that either is as likely to be alone

    @classmethod
    def compare(cls, first: np.ndarray, second: np.ndarray) -> "McNemar":
        """Count the queries whose set both, one or neither of two methods recovers, with the test's p-value.

        first, second: (B,) bool by query
        """
        first_only, second_only = int((first & ~second).sum()), int((second & ~first).sum())
        # Without a query on which they differ nothing speaks against equal chances.
        p = float(binomtest(first_only, first_only + second_only).pvalue) if first_only + second_only else 1.0
        return cls(int((first & second).sum()), first_only, second_only, int((~first & ~second).sum()), p)


@dataclass(frozen=True, eq=False, kw_only=True)
class SuccessSets:
    """Exact recovery of each query's relevant set S by methods that are given |S| or tuned to it."""

    queries: tuple[str, ...]  # those with a relevant document
    sizes: np.ndarray  # (B,) |S|
    dense: np.ndarray  # (B,) bool, Φ_DR: S scores above all others and above 0
    cells: np.ndarray = field(repr=False)  # (B, c) bool, the support at a cell of the grid is S
    grid: tuple[tuple[float, float], ...]  # (λ₁, λ₂) of each cell
    paths: np.ndarray = field(repr=False)  # (B, p) bool, some λ₁ makes the support S
    l2: tuple[float, ...]  # λ₂ of each path
    witnesses: np.ndarray  # (B,) λ₂ of Theorem 1's witness, NaN where dense fails

    @property
    def by_grid(self) -> np.ndarray:
        """True for queries whose relevant set is recovered exactly by some setting of the grid, (B,)."""
        return np.asarray(self.cells.any(1))

    @property
    def by_path(self) -> np.ndarray:
        """True for queries whose relevant set is recovered by some λ₁ at one of the λ₂ tried, (B,)."""
        return np.asarray(self.paths.any(1))

    @property
    def best_cell(self) -> int:
        """The index of the setting (λ₁, λ₂) that recovers the most queries' sets, the first of equal ones."""
        return int(self.cells.sum(0).argmax())


@without_autocast
def success_sets(
    space: Space,
    queries: Queries | Embeddings,
    qrels: Qrels,
    *,
    l1: Sequence[float] = PAPER_PENALTIES,
    l2: Sequence[float] = PAPER_PENALTIES,
    path_l2: Sequence[float] = PATH_PENALTIES,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> SuccessSets:
    """Test which queries' relevant sets dense retrieval and NNN can recover exactly, Φ_DR and Φ_NNN.

    NNN recovers a set S if just its documents get a weight. That is tested in two ways: over a grid of λ₁ and λ₂; and
    over every λ₁ at a few λ₂, by following the solution as λ₁ falls (a path). A document of S that the corpus lacks
    makes it unrecoverable. Φ_NNN is over all λ₁ and λ₂ ≥ 0: the number found bounds it from below. Dense retrieval is
    given |S|, and λ is chosen with S known, so no system reaches either. A path is followed down to λ₁ = PATH_END_SHARE
    of the best score; a set that holds on less than rounding does not count. Raises ParamError, DataError and
    Cancelled.
    """
    l2_grid, l1_grid = check_list(l2, "l2", "a list of numbers"), check_list(l1, "l1", "a list of numbers")
    grid = [(l1_value, l2_value) for l2_value, l1_value in product(l2_grid, l1_grid)]
    decoders = [Decoder(make_selector("nnn", l1=l1_value, l2=l2_value)) for l1_value, l2_value in grid]
    path_values = check_list(path_l2, "path_l2", "a list of numbers")
    # The selector's own check turns each λ₂ into the number that it uses.
    l2_values = tuple(make_selector("nnn", l2=l2_value).as_json()["l2"] for l2_value in path_values)
    embedded = embed_for_space(space, queries)
    relevant_sets = {query_id: qrels.relevant(query_id) for query_id in embedded.ids}
    rows = [row for row, query_id in enumerate(embedded.ids) if relevant_sets[query_id]]
    if not rows:
        raise DataError("no query has a document judged relevant; success sets need some")
    embedded, progress_step = embedded.take(rows), with_cancellation(progress, stop)
    position = space.corpus.position
    # A relevant document outside the corpus is row −1, which sorts first: target[0] < 0 marks an unrecoverable set.
    target_sets = [sorted(position.get(doc_id, -1) for doc_id in relevant_sets[query_id]) for query_id in embedded.ids]
    sizes = np.array(list(map(len, target_sets)))
    cells = _test_grid(decoders, space, embedded, target_sets)
    dense, witnesses = _test_dense(space, embedded, target_sets)
    paths = np.zeros((len(rows), len(l2_values)), dtype=bool)
    points = query_batch(space, embedded).vectors
    candidates = Candidates(space.vectors, products(space.vectors, points), points, space.matrix)
    for query_index, target in enumerate(target_sets):
        progress_step(query_index, len(target_sets), "following paths")
        problem = select_problem(candidates, query_index)
        min_l1 = max(MIN_L1, PATH_END_SHARE * float(problem.relevance.max()))
        # A set with a document that the corpus lacks is on no path.
        for column, l2_value in enumerate(l2_values if target[0] >= 0 else ()):
            paths[query_index, column] = path_has_support(regularization_path(problem, l2_value, min_l1), target)
    return SuccessSets(
        queries=embedded.ids, sizes=sizes, dense=dense, cells=cells, grid=tuple(grid), paths=paths, l2=l2_values,
        witnesses=witnesses,
    )  # fmt: skip


def path_has_support(path: WeightPath, rows: Sequence[int]) -> bool:
    """Return True if for some λ₁ the documents with a weight are exactly `rows`, ascending.

    path: the elastic net's weights as λ₁ falls, in segments: intervals of λ₁ over which the same documents have one.
    Segments no longer than rounding do not count, as they may be artefacts of ties.
    """
    # `levels` are the values of λ₁ at which segments begin and end, from the largest on.
    is_long = path.levels[:-1] - path.levels[1:] > MIN_L1 * path.levels[0] if len(path) else np.empty(0, bool)
    candidates = np.flatnonzero((path.sizes == len(rows)) & is_long)
    supports = (path.members[path.segment(int(segment))] for segment in candidates)
    return any(np.array_equal(np.sort(support), rows) for support in supports)


def _test_grid(
    decoders: Sequence[Decoder], space: Space, embedded: Embeddings, target_sets: Sequence[list[int]]
) -> np.ndarray:
    """Test by query and pair (λ₁, λ₂) if NNN gives just the relevant documents a weight, (B, c) bool.

    decoders: NNN, one for each of the c pairs; target_sets: ascending relevant rows of each query
    """
    # Documents with a weight lead the ranking, so the first |S| rows are the support if it has |S| documents.
    k = min(max(map(len, target_sets)), len(space))
    is_recovered = np.zeros((len(target_sets), len(decoders)), dtype=bool)
    for column, answer in enumerate(decode_grid(decoders, space, embedded, k)):
        for query_index, target in enumerate(target_sets):
            support = answer.index[query_index, : len(target)].tolist()
            has_size = answer.info[query_index]["support"] == len(target)
            is_recovered[query_index, column] = has_size and sorted(support) == target
    return is_recovered


def _test_dense(space: Space, embedded: Embeddings, target_sets: Sequence[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Test by query if dense retrieval recovers the relevant set, and find a λ₂ at which NNN does too.

    The first result, (B,) bool, is True where all relevant documents score above all others and above 0. The second,
    (B,), is the λ₂ at which, by Theorem 1 of the NNN paper, the elastic net recovers the set too; NaN where the theorem
    gives none. target_sets: the relevant documents' ascending rows, −1 for a document that the corpus lacks
    """
    is_dense, witnesses = np.zeros(len(target_sets), dtype=bool), np.full(len(target_sets), np.nan)
    rows, points = space.vectors.double(), embedded.vectors.double().to(space.device)
    for query_index, target in enumerate(target_sets):
        scores = rows @ points[query_index]
        is_inside = torch.zeros(len(scores), dtype=torch.bool, device=scores.device)
        is_inside[[row for row in target if row >= 0]] = True
        max_outside = float(scores[~is_inside].max()) if not bool(is_inside.all()) else 0.0
        is_dense[query_index] = target[0] >= 0 and float(scores[is_inside].min()) > max(0.0, max_outside)
        if is_dense[query_index] and space.matrix.unit:
            try:
                witnesses[query_index] = witness(rows, points[query_index], len(target)).l2
            # Rounding may tie scores that differ by less, and a query need not be of unit length.
            except (ParamError, DataError):
                continue
    return is_dense, witnesses
