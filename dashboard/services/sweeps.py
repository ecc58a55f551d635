"""Sweeps of a page: cells computed by a job, kept in memory and in a file."""

import math
from dataclasses import dataclass, replace
from typing import Any

import engine
from dashboard.services import jobs
from dashboard.services.jobs import Job
from dashboard.services.memo import Memo
from dashboard.services.query_vectors import query_vectors
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

PURPOSE = "tradeoff"
SECTION, FILE = "sweeps", "cells.db"
AT_ONCE, BY_ITSELF = 500_000, 3_000_000
"""Scores (documents × queries × settings) that the page computes while it draws, and that a job computes unasked."""
MOST_NUMBERS = 20_000_000
"""Values of finished cells in memory, for all sessions."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Sweep:
    """Decoders to be measured on queries, at one k."""

    loaded: Loaded
    decoders: tuple[Decoder, ...]  # the first one is the baseline
    queries: Queries  # the labelled ones, or the one that is asked
    vectors: Embeddings | None  # theirs, None before they are embedded
    qrels: Qrels | None
    split: str
    k: int
    metrics: tuple[str, ...]
    stored: bool  # whether cells stay in the file; not those of one query alone
    plain: bool  # whether all decoders have the baseline's scorers, which take no time

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for sweeps with equal cells."""
        one = b"" if self.stored or self.vectors is None else self.vectors.vectors.numpy().tobytes()
        judged = self.qrels.digest if self.qrels is not None else ""
        embeddings = self.loaded.space.embeddings.digest
        aspects = digest_of_aspects(self.loaded.dataset.aspects)
        return embeddings, self.queries.digest, one, judged, aspects, self.split, self.k, self.metrics, self.decoders

    @property
    def baseline(self) -> Decoder:
        """The decoder that the others are compared with."""
        return self.decoders[0]

    @property
    def pairs(self) -> int:
        """The number of (query, document) pairs that a slow scorer has to read."""
        slow = sum(d.depth or 0 for d in self.decoders if d.rerank is not None and d.rerank.rerank_only)
        return slow * len(self.queries)

    @property
    def scores(self) -> int:
        """The number of scores it takes: documents × queries × settings."""
        return max(len(self.loaded.space), self.k * self.k) * len(self.queries) * len(self.decoders)

    @property
    def exact(self) -> tuple[Selector, ...]:
        """A selector for each curve that is known at every value of its parameter, on a corpus where that is fast."""
        if not self.stored or self.vectors is None or len(self.loaded.space) > GRAM_ROWS:
            return ()
        scorer = self.baseline.retrieve
        plain = [d.select for d in self.decoders if d == Decoder(d.select, scorer) and scorer.inner_product]
        found = {}
        for selector in plain:
            if selector.path_range is not None:
                others = [value for value in values_of(selector).items() if value[0] != selector.path_parameter]
                found[type(selector), *others] = selector
        return tuple(found.values())

    def arguments(self) -> dict[str, Any]:
        """The arguments of `engine.sweep`."""
        own = {name: getattr(self, name) for name in ("decoders", "qrels", "k", "metrics", "split")}
        return own | {"space": self.loaded.space, "queries": self.vectors, "aspects": self.loaded.dataset.aspects}

    def curve_arguments(self) -> dict[str, Any]:
        """The arguments of `engine.exact_frontier`."""
        return {name: value for name, value in self.arguments().items() if name != "decoders"}


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a sweep that are there."""

    points: tuple[Cell, ...]  # finished ones, in the order of the decoders
    missing: int  # the number of those that are not, curves counted
    curves: tuple[Curve, ...] = ()  # finished ones at every value of a parameter
    job: Job | None = None  # at work on them, or ended

    @property
    def running(self) -> bool:
        """Whether a job is at work on them."""
        return self.job is not None and self.job.running


_CELLS: Memo[Any, tuple[Cell, ...]] = Memo(
    math.inf, lambda cells: sum(len(cell.queries) * len(cell.values) for cell in cells), MOST_NUMBERS
)
_CURVES: Memo[Any, tuple[Curve, ...]] = Memo(64)


def store() -> Store:
    """The file of finished cells, created where there is none."""
    return Store(cached_file(SECTION, FILE))


def find(sweep: Sweep) -> Cells:
    """The cells of a sweep that are there, and its job; a job for another sweep is stopped."""
    job = jobs.current(PURPOSE, sweep.key, alone=True)
    if job is not None and job.result is not None:
        points = _CELLS[sweep.key] = job.result
    elif job is not None and (job.running or job.partial):
        points = _ordered(sweep, job.partial or ())  # a job begins with what the file has
    else:
        points = _known(sweep)
    curves = stored_curves(sweep)
    return Cells(points, len(sweep.decoders) - len(points) + len(sweep.exact) - len(curves), curves, job)


def stored_curves(sweep: Sweep) -> tuple[Curve, ...]:
    """The exact curves of a sweep that are in memory or in the file."""
    curves = _CURVES.get(sweep.key)
    if curves is None and sweep.exact:
        found = (load_stored_curve(stage, **sweep.curve_arguments(), store=store()) for stage in sweep.exact)
        curves = tuple(curve for curve in found if curve is not None)
        if len(curves) == len(sweep.exact):
            _CURVES[sweep.key] = curves
    return curves or ()


def _known(sweep: Sweep) -> tuple[Cell, ...]:
    """From memory, else from the file; a single small question is answered on the spot."""
    points = _CELLS.get(sweep.key)
    if points is None and sweep.stored and sweep.vectors is not None:
        points = _ordered(sweep, stored_cells(**sweep.arguments(), store=store())[0])
        if len(points) == len(sweep.decoders):
            _CELLS[sweep.key] = points
    elif points is None and not sweep.stored and sweep.scores <= AT_ONCE and sweep.plain:
        with jobs.turn():
            points = _ordered(sweep, engine.sweep(**sweep.arguments()))
        _CELLS[sweep.key] = points
    return points or ()


def _ordered(sweep: Sweep, points: Any) -> tuple[Cell, ...]:
    by_label = {cell.label: cell for cell in points}
    return tuple(by_label[d.label] for d in sweep.decoders if d.label in by_label)


def is_small(sweep: Sweep) -> bool:
    """Whether the sweep is small enough to begin unasked."""
    return sweep.vectors is not None and sweep.scores <= BY_ITSELF and not sweep.pairs


def work(sweep: Sweep, job: Job) -> tuple[Cell, ...]:
    """Compute the missing cells; those that are there go to job.partial."""
    if sweep.vectors is None:
        sweep = replace(sweep, vectors=query_vectors(sweep.loaded, sweep.queries, job))

    def report(done: int, total: int, label: str) -> None:
        job.report(done, total, "settings measured")

    file = store() if sweep.stored else None
    for cell in engine.sweep(**sweep.arguments(), store=file, progress=report, stop=job.stop):
        job.collect(cell)
    if job.stop.is_set():
        raise Cancelled("stopped")
    for stage in sweep.exact:
        exact_frontier(stage, **sweep.curve_arguments(), store=file, progress=job.report, stop=job.stop)
    return _ordered(sweep, job.partial or ())
