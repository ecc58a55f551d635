"""Which relevant sets dense retrieval and the elastic net recover exactly, on judged queries (NNN paper, §2.1)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

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

WIDE = (0.0, *PAPER_PENALTIES, 10.0, 100.0, 1000.0)
"""λ₂ of the paths: the paper's grid, none, and on towards the theorem's witnesses."""
LOWEST = 1e-3
"""Where the paths end, as a share of a query's best score."""


@dataclass(frozen=True)
class McNemar:
    """Two ways to recover sets, query by query."""

    both: int
    first: int  # the first alone
    second: int  # the second alone
    neither: int
    p: float  # of the exact two-sided test: that either is as likely to be alone

    @classmethod
    def of(cls, first: np.ndarray, second: np.ndarray) -> "McNemar":
        """(B,) bool each."""
        one, other = int((first & ~second).sum()), int((second & ~first).sum())
        p = float(binomtest(one, one + other).pvalue) if one + other else 1.0
        return cls(int((first & second).sum()), one, other, int((~first & ~second).sum()), p)


@dataclass(frozen=True, eq=False, kw_only=True)
class SuccessSets:
    """For each query whether its relevant set S is recovered, exactly, by methods that are told |S| or tuned to it."""

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
        """(B,) whether some cell recovers S."""
        return np.asarray(self.cells.any(1))

    @property
    def by_path(self) -> np.ndarray:
        """(B,) whether some λ₁ on some path does."""
        return np.asarray(self.paths.any(1))

    @property
    def best_cell(self) -> int:
        """The cell that recovers the most sets, the first of equal ones."""
        return int(self.cells.sum(0).argmax())


@without_autocast
def success_sets(
    space: Space,
    queries: Queries | Embeddings,
    qrels: Qrels,
    *,
    l1: Sequence[float] = PAPER_PENALTIES,
    l2: Sequence[float] = PAPER_PENALTIES,
    path_l2: Sequence[float] = WIDE,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> SuccessSets:
    """Φ_DR and Φ_NNN on judged queries: over a grid of λ₁ and λ₂, and over every λ₁ at some λ₂.

    S is what is judged relevant; a document of it that the corpus lacks makes it unrecoverable. Φ_NNN is over all λ₁
    and λ₂ ≥ 0: what is found bounds it from below. Dense retrieval is told |S|, and λ is chosen with S known, so
    neither is what a system reaches. A path is followed down to λ₁ = LOWEST of the best score; a set that holds on less
    than rounding does not count. Raises ParamError, DataError and Cancelled.
    """
    grid = [
        (a, b) for b in check_list(l2, "l2", "a list of numbers") for a in check_list(l1, "l1", "a list of numbers")
    ]
    stages = [make_selector("nnn", l1=a, l2=b) for a, b in grid]
    levels = tuple(
        make_selector("nnn", l2=b).as_json()["l2"] for b in check_list(path_l2, "path_l2", "a list of numbers")
    )
    asked = embed_for_space(space, queries)
    sets = {name: qrels.relevant(name) for name in asked.ids}
    rows = [row for row, name in enumerate(asked.ids) if sets[name]]
    if not rows:
        raise DataError("no query has a document judged relevant; success sets need some")
    asked, watch = asked.take(rows), with_cancellation(progress, stop)
    position = space.corpus.position
    wanted = [sorted(position.get(doc, -1) for doc in sets[name]) for name in asked.ids]
    sizes = np.array([len(own) for own in wanted])
    cells = _on_grid([Decoder(stage) for stage in stages], space, asked, wanted)
    dense, witnesses = _by_scores(space, asked, wanted)
    paths = np.zeros((len(rows), len(levels)), dtype=bool)
    points = query_batch(space, asked).vectors
    c = Candidates(space.vectors, products(space.vectors, points), points, space.matrix)
    for b, own in enumerate(wanted):
        watch(b, len(wanted), "following paths")
        one = select_problem(c, b)
        lowest = max(MIN_L1, LOWEST * float(one.relevance.max()))
        paths[b] = [own[0] >= 0 and passes_through(regularization_path(one, level, lowest), own) for level in levels]
    return SuccessSets(
        queries=asked.ids, sizes=sizes, dense=dense, cells=cells, grid=tuple(grid), paths=paths, l2=levels,
        witnesses=witnesses,
    )  # fmt: skip


def passes_through(path: WeightPath, rows: Sequence[int]) -> bool:
    """Whether exactly these rows, ascending, have a weight somewhere along a path, longer than rounding."""
    long = path.levels[:-1] - path.levels[1:] > MIN_L1 * path.levels[0] if len(path) else np.empty(0, bool)
    fitting = np.flatnonzero((path.sizes == len(rows)) & long)
    return any(np.array_equal(np.sort(path.members[path.segment(int(t))]), rows) for t in fitting)


def _on_grid(decoders: Sequence[Decoder], space: Space, asked: Embeddings, wanted: Sequence[list[int]]) -> np.ndarray:
    """(B, c) whether each cell's support is what is wanted."""
    k = min(max(map(len, wanted)), len(space))
    answers = decode_grid(decoders, space, asked, k)
    return np.array(
        [
            [
                answer.info[b]["support"] == len(own) and sorted(answer.index[b, : len(own)].tolist()) == own
                for answer in answers
            ]
            for b, own in enumerate(wanted)
        ]
    )


def _by_scores(space: Space, asked: Embeddings, wanted: Sequence[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """(B,) whether each set scores above all others and 0, and (B,) λ₂ of the witness that Theorem 1 then has."""
    dense, witnesses = np.zeros(len(wanted), dtype=bool), np.full(len(wanted), np.nan)
    rows, points = space.vectors.double(), asked.vectors.double().to(space.device)
    for b, own in enumerate(wanted):
        scores = rows @ points[b]
        inside = torch.zeros(len(scores), dtype=torch.bool, device=scores.device)
        inside[[row for row in own if row >= 0]] = True
        most = float(scores[~inside].max()) if not bool(inside.all()) else 0.0
        dense[b] = own[0] >= 0 and float(scores[inside].min()) > max(0.0, most)
        if dense[b] and space.matrix.unit:
            try:
                witnesses[b] = witness(rows, points[b], len(own)).l2
            except (ParamError, DataError):  # a tie that rounding made, or a query of another length
                continue
    return dense, witnesses
