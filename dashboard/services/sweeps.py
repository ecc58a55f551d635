"""Sweeps of a page: cells computed by a job, kept in memory and in a file."""

import math
from dataclasses import dataclass, replace
from typing import Any

import engine
from dashboard.services import jobs
from dashboard.services.jobs import Job
from dashboard.services.memo import Memo
from dashboard.services.query_vectors import embed_missing
from dashboard.services.source import Loaded
from engine.decoder import Decoder
from engine.errors import Cancelled
from engine.evaluation.aspects import digest_of_aspects
from engine.evaluation.curve import Curve
from engine.evaluation.exact_frontier import exact_frontier, load_stored_curve
from engine.evaluation.sweep.cell import Cell
from engine.evaluation.sweep.store import Store, cached_file
from engine.evaluation.sweep.sweep import stored_cells
from engine.matrix import GRAM_ROWS
from engine.params import values_of
from engine.stages import Selector
from engine.values import Embeddings, Qrels, Queries

SWEEP_PURPOSE = "tradeoff"
SWEEPS_SECTION, CELLS_FILE = "sweeps", "cells.db"
MAX_PAGE_SCORES, MAX_UNASKED_SCORES = 500_000, 3_000_000
"""Scores (documents × queries × settings) that a page computes while it draws, and a job without a click."""
MAX_CELL_VALUES = 20_000_000
"""Values of finished cells in memory, for all sessions."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Sweep:
    """Decoders (each a way to choose k documents for a query) to be measured on queries, at one k.

    Measuring one decoder on all queries gives a cell: its metrics for each query.
    """

    loaded: Loaded
    decoders: tuple[Decoder, ...]  # the first one is the baseline
    queries: Queries  # the labelled ones, or the one that is asked
    vectors: Embeddings | None  # of the queries, None before they are embedded
    qrels: Qrels | None
    split: str
    k: int
    metrics: tuple[str, ...]
    is_stored: bool  # True if cells go to the file; not those of a single query
    shares_scorers: bool  # True if all decoders have the baseline's scorers, which take no time

    @property
    def key(self) -> tuple[Any, ...]:
        """Key under which the results are cached: equal for two sweeps with equal results."""
        # Stored queries are identified by their digest; a query somebody typed also by its vector.
        raw = b"" if self.is_stored or self.vectors is None else self.vectors.vectors.numpy().tobytes()
        qrels = self.qrels.digest if self.qrels is not None else ""
        embeddings = self.loaded.space.embeddings.digest
        aspects = digest_of_aspects(self.loaded.dataset.aspects)
        return (embeddings, self.queries.digest, raw, qrels, aspects, self.split, self.k, self.metrics, self.decoders)

    @property
    def baseline(self) -> Decoder:
        """Decoder that the others are compared with."""
        return self.decoders[0]

    @property
    def n_pairs(self) -> int:
        """Number of (query, document) pairs that a reranking model has to read, which is slow."""
        # `depth` is the number of candidates of a query that a decoder reranks.
        n_reranked = sum(d.depth or 0 for d in self.decoders if d.rerank is not None and d.rerank.rerank_only)
        return n_reranked * len(self.queries)

    @property
    def n_scores(self) -> int:
        """Number of scores that measuring takes: documents (or k² pairs, if more) × queries × decoders."""
        return max(len(self.loaded.space), self.k * self.k) * len(self.queries) * len(self.decoders)

    @property
    def exact_selectors(self) -> tuple[Selector, ...]:
        """One selector for each group that differs in λ alone and can be measured exactly at every λ.

        None on a corpus whose inner products do not fit in memory, nor for a query that somebody typed.
        """
        if not self.is_stored or self.vectors is None or len(self.loaded.space) > GRAM_ROWS:
            return ()
        # Exact paths exist only for selectors behind a scorer of inner products, without a pool or a reranker.
        scorer = self.baseline.retrieve
        selectors = [d.select for d in self.decoders if d == Decoder(d.select, scorer) and scorer.inner_product]
        by_family = {}
        for selector in selectors:
            if selector.path_range is not None:
                other_params = [param for param in values_of(selector).items() if param[0] != selector.path_parameter]
                by_family[type(selector), *other_params] = selector
        return tuple(by_family.values())

    def arguments(self) -> dict[str, Any]:
        """Return the arguments by which `engine.sweep` measures all decoders."""
        arguments = {name: getattr(self, name) for name in ("decoders", "qrels", "k", "metrics", "split")}
        return arguments | {"space": self.loaded.space, "queries": self.vectors, "aspects": self.loaded.dataset.aspects}

    def curve_arguments(self) -> dict[str, Any]:
        """Return the arguments of `engine.exact_frontier`, which computes curves at every λ."""
        return {name: value for name, value in self.arguments().items() if name != "decoders"}


@dataclass(frozen=True, eq=False)
class Cells:
    """Finished part of a sweep: a cell for each measured decoder, with its metrics for each query."""

    points: tuple[Cell, ...]  # finished ones, in the order of the decoders
    missing: int  # the number of those that are not, curves counted
    curves: tuple[Curve, ...] = ()  # finished ones at every value of a parameter
    job: Job | None = None  # at work on them, or ended

    @property
    def running(self) -> bool:
        """True if a job is computing more of them."""
        return self.job is not None and self.job.running


_CELLS: Memo[Any, tuple[Cell, ...]] = Memo(
    math.inf, lambda cells: sum(len(cell.queries) * len(cell.values) for cell in cells), MAX_CELL_VALUES
)
_CURVES: Memo[Any, tuple[Curve, ...]] = Memo(64)


def open_store() -> Store:
    """Return the database of all finished measurements (cells) on this machine, created if there is none."""
    return Store(cached_file(SWEEPS_SECTION, CELLS_FILE))


def find_cells(sweep: Sweep) -> Cells:
    """Return the finished measurements of a sweep and its job; give up this session's job for another.

    A single query on a small corpus is measured at once, while the page waits.
    """
    job = jobs.find_job(SWEEP_PURPOSE, sweep.key, stop_other=True)
    if job is not None and job.result is not None:
        # A finished job has all cells: they replace what memory had.
        points = _CELLS[sweep.key] = job.result
    elif job is not None and (job.running or job.partial):
        points = _order_cells(sweep, job.partial or ())  # a job begins with what the file has
    else:
        points = _load_or_compute_cells(sweep)
    curves = load_stored_curves(sweep)
    return Cells(points, len(sweep.decoders) - len(points) + len(sweep.exact_selectors) - len(curves), curves, job)


def load_stored_curves(sweep: Sweep) -> tuple[Curve, ...]:
    """Return the finished exact curves of a sweep, from memory or file: a selector's metrics at every λ."""
    curves = _CURVES.get(sweep.key)
    # Only complete sets of curves are cached, as the job adds one at a time.
    if curves is None and sweep.exact_selectors:
        stored = (load_stored_curve(s, **sweep.curve_arguments(), store=open_store()) for s in sweep.exact_selectors)
        curves = tuple(curve for curve in stored if curve is not None)
        if len(curves) == len(sweep.exact_selectors):
            _CURVES[sweep.key] = curves
    return curves or ()


def _load_or_compute_cells(sweep: Sweep) -> tuple[Cell, ...]:
    """Return a sweep's finished cells (a decoder's metrics each) from memory or file, in decoders' order.

    A single query is measured at once if that is quick; () if nothing is finished.
    """
    points = _CELLS.get(sweep.key)
    if points is None and sweep.is_stored and sweep.vectors is not None:
        points = _order_cells(sweep, stored_cells(**sweep.arguments(), store=open_store())[0])
        # An incomplete sweep is not cached, as a job, or another server, adds to the file.
        if len(points) == len(sweep.decoders):
            _CELLS[sweep.key] = points
    elif points is None and not sweep.is_stored and sweep.n_scores <= MAX_PAGE_SCORES and sweep.shares_scorers:
        with jobs.page_turn():
            points = _order_cells(sweep, engine.sweep(**sweep.arguments()))
        _CELLS[sweep.key] = points
    return points or ()


def _order_cells(sweep: Sweep, points: Any) -> tuple[Cell, ...]:
    """Return the measured decoders (cells) in the order of the sweep's; missing ones are left out."""
    by_label = {cell.label: cell for cell in points}
    return tuple(by_label[decoder.label] for decoder in sweep.decoders if decoder.label in by_label)


def is_small(sweep: Sweep) -> bool:
    """Return True if a sweep is quick enough to start without a click: few scores, nothing reranked."""
    return sweep.vectors is not None and sweep.n_scores <= MAX_UNASKED_SCORES and not sweep.n_pairs


def run_sweep(sweep: Sweep, job: Job) -> tuple[Cell, ...]:
    """Measure a sweep's missing decoders and exact curves in a job; return a cell for each decoder.

    Finished cells go to job.partial at once, for the page; curves go to the file only.
    """
    if sweep.vectors is None:
        sweep = replace(sweep, vectors=embed_missing(sweep.loaded, sweep.queries, job))

    # The page counts settings, whatever the engine calls its steps.
    def report(n_done: int, n_total: int, label: str) -> None:
        job.report(n_done, n_total, "settings measured")

    cell_store = open_store() if sweep.is_stored else None
    for cell in engine.sweep(**sweep.arguments(), store=cell_store, progress=report, stop=job.stop):
        job.collect(cell)
    # Curves are cheap beside cells, and come last, so that a stop loses none of the cells.
    if job.stop.is_set():
        raise Cancelled("stopped")
    for selector in sweep.exact_selectors:
        exact_frontier(selector, **sweep.curve_arguments(), store=cell_store, progress=job.report, stop=job.stop)
    return _order_cells(sweep, job.partial or ())
