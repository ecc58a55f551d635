"""Sweeps of a page: cells computed by a job, kept in memory and in a file."""

import math
import time
from collections.abc import Iterable, Sequence
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
from engine.evaluation.corrected_judge import name_judge
from engine.evaluation.curve import Curve
from engine.evaluation.exact_frontier import exact_frontier, list_path_decoders, load_stored_curve
from engine.evaluation.sweep.cell import Cell
from engine.evaluation.sweep.compute import digest_sources
from engine.evaluation.sweep.store import Store, cached_file
from engine.evaluation.sweep.sweep import count_missing_cells, stored_cells
from engine.values import Embeddings, Qrels, Queries

SWEEP_PURPOSE = "tradeoff"
SWEEPS_SECTION, CELLS_FILE = "sweeps", "cells.db"
MAX_UNASKED_SCORES = 13_000_000
"""Scores (documents × queries × settings) that a job computes without a click: those of about ten seconds."""
FIRST_PACE = 1_300_000
"""Scores a second that a sweep is taken to compute before this server has measured one; on two cores of 2024."""
CURVE_SETTINGS = 30
"""An exact curve takes about as long as so many settings."""
MAX_CELL_VALUES = 20_000_000
"""Values of finished cells in memory, for all sessions; as many of exact curves."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Sweep:
    """Decoders (each a way to choose k documents for a query) to be measured on queries, at one k.

    Measuring one decoder on all queries gives a cell: its metrics for each query.
    """

    loaded: Loaded
    decoders: tuple[Decoder, ...]  # the first one is the baseline
    queries: Queries  # the labelled ones
    vectors: Embeddings | None  # of the queries, None before they are embedded
    qrels: Qrels
    split: str
    k: int
    metrics: tuple[str, ...]
    source: str | None = None  # the column of the metric unique_sources
    duplicate_threshold: float | None = None  # cosine of near-duplicates, None for the default of the corpus
    judge: str = ""  # the model whose judgements these are, "" for people's
    model: "Sweep | None" = None  # the same decoders by a model's judgements, which these correct

    @property
    def key(self) -> tuple[Any, ...]:
        """Key under which the results are cached: equal for two sweeps with equal results."""
        return self.cells_key if self.model is None else (*self.cells_key, self.model.judge, self.model.cells_key)

    @property
    def cells_key(self) -> tuple[Any, ...]:
        """Key of the cells and curves alone, which a model beside people does not change."""
        embeddings = self.loaded.space.embeddings.digest
        aspects = digest_of_aspects(self.loaded.dataset.aspects)
        digests = (embeddings, self.queries.digest, self.qrels.digest, aspects)
        sources = tuple(digest_sources(self.loaded.space, [self.source]).items())
        return (*digests, *sources, self.duplicate_threshold, self.split, self.k, self.metrics, self.decoders)

    @property
    def baseline(self) -> Decoder:
        """Decoder that the others are compared with."""
        return self.decoders[0]

    @property
    def n_settings(self) -> int:
        """Number of settings that are tried: the baseline, with which they are compared, is none, as on Tune."""
        return len(self.decoders) - 1

    def count_measured(self, cells: Iterable[Cell]) -> int:
        """Return how many of the settings have a cell, a decoder's metrics for each query; the baseline is none."""
        return sum(cell.label != self.baseline.label for cell in cells)

    @property
    def n_pairs(self) -> int:
        """Number of (query, document) pairs that a reranking model has to read, which is slow."""
        # `depth` is the number of candidates of a query that a decoder reranks.
        n_reranked = sum(d.depth or 0 for d in self.decoders if d.rerank is not None and d.rerank.rerank_only)
        return n_reranked * len(self.queries)

    @property
    def n_scores(self) -> int:
        """Number of scores that measuring takes: documents (or k² pairs, if more) × queries × decoders."""
        return sum(_count_scores(part, len(part.decoders)) for part in self.parts)

    @property
    def parts(self) -> "tuple[Sweep, ...]":
        """This sweep, and that by a model's judgements if there is one."""
        return (self,) if self.model is None else (self, self.model)

    def with_decoders(self, decoders: tuple[Decoder, ...]) -> "Sweep":
        """Return this sweep of other decoders, by all its judges."""
        model = None if self.model is None else replace(self.model, decoders=decoders)
        return replace(self, decoders=decoders, model=model)

    @property
    def exact_decoders(self) -> tuple[Decoder, ...]:
        """One decoder for each group that differs in λ alone and can be measured exactly at every λ.

        λ weighs relevance against diversity. There is none on a corpus whose inner products do not fit in memory.
        """
        if self.vectors is None:
            return ()
        return list_path_decoders(self.decoders, self.loaded.space)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments by which `engine.sweep` measures all decoders."""
        names = ("decoders", "qrels", "k", "metrics", "split", "source", "duplicate_threshold")
        arguments = {name: getattr(self, name) for name in names}
        return arguments | {"space": self.loaded.space, "queries": self.vectors, "aspects": self.loaded.dataset.aspects}

    def curve_arguments(self) -> dict[str, Any]:
        """Return the arguments of `engine.exact_frontier`, but for the decoder, which computes curves at every λ."""
        return {name: value for name, value in self.arguments().items() if name != "decoders"}


@dataclass(frozen=True, eq=False)
class Cells:
    """Finished part of a sweep: a cell for each measured decoder, with its metrics for each query."""

    points: tuple[Cell, ...]  # finished ones, in the order of the decoders
    missing: int  # the number of those that are not, curves counted
    curves: tuple[Curve, ...] = ()  # finished ones at every value of a parameter
    job: Job | None = None  # at work on them, or ended
    model: tuple[Any, ...] | None = None  # by a model's judgements, once it has all that people's have measured

    @property
    def running(self) -> bool:
        """True if a job is computing further cells, which are the measurements of one decoder each."""
        return self.job is not None and self.job.running


_CELLS: Memo[Any, tuple[Cell, ...]] = Memo(
    math.inf, lambda cells: sum(len(cell.queries) * len(cell.values) for cell in cells), MAX_CELL_VALUES
)
_CURVES: Memo[Any, tuple[Curve, ...]] = Memo(
    math.inf, lambda curves: sum(curve.steps.query_index.size * len(curve.means) for curve in curves), MAX_CELL_VALUES
)
_PACES: Memo[Any, float] = Memo(256)
"""Scores a second of the last sweep of a corpus and its queries, by the digests of both."""


def open_store() -> Store:
    """Return the database of all finished measurements (cells) on this machine, created if there is none."""
    return Store(cached_file(SWEEPS_SECTION, CELLS_FILE))


def find_cells(sweep: Sweep) -> Cells:
    """Return the finished measurements of a sweep and its job, if any; start no job.

    A sweep measures decoders on queries; a cell is one decoder's measurements. A job of this browser session for
    another sweep is given up.
    """
    job = jobs.find_job(SWEEP_PURPOSE, sweep.key, stop_other=True)
    if job is not None and job.result is not None:
        # A finished job has all cells: they replace what memory had.
        points = _CELLS[sweep.cells_key] = job.result
    elif job is not None and (job.running or job.partial):
        points = _order_cells(sweep, job.partial or ())  # a job begins with what the file has
    else:
        points = load_stored_cells(sweep)
    curves = load_stored_curves(sweep)
    n_missing = len(sweep.decoders) - len(points) + len(sweep.exact_decoders) - len(curves)
    if sweep.model is None:
        return Cells(points, n_missing, curves, job)
    model_cells, model_curves = load_stored_cells(sweep.model), load_stored_curves(sweep.model)
    n_model_missing = len(sweep.decoders) - len(model_cells) + len(sweep.exact_decoders) - len(model_curves)
    model = _select_model_cells((*points, *curves), (*name_judge(model_cells, sweep.model.judge), *model_curves))
    return Cells(points, n_missing + n_model_missing, curves, job, model)


def _select_model_cells(people: Sequence[Cell | Curve], model: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return a model's cells and curves of the settings that people's judgements measured; None if it lacks one.

    A setting that neither has measured, such as one brought from Explore, does not keep the others from being
    corrected.
    """

    def identify(measured: Any) -> tuple[type, str]:
        """Return what a setting's cells, or a decoder's curves, have in common: their kind and label."""
        return type(measured), measured.label

    by_key, keys = dict(zip(map(identify, model), model, strict=True)), list(map(identify, people))
    # A part of them would correct a part of the settings.
    if not keys or not by_key.keys() >= set(keys):
        return None
    return tuple(map(by_key.__getitem__, keys))


def load_stored_cells(sweep: Sweep) -> tuple[Cell, ...]:
    """Return a sweep's finished cells (a decoder's metrics each) from memory or file, in decoders' order."""
    points = _CELLS.get(sweep.cells_key)
    if points is not None:
        return points
    if sweep.vectors is not None:
        stored, _ = stored_cells(**sweep.arguments(), store=open_store())
        points = _order_cells(sweep, stored)
        # An incomplete sweep is not cached, as a job, or another server, adds to the file.
        if len(points) == len(sweep.decoders):
            _CELLS[sweep.cells_key] = points
    return points or ()


def load_stored_curves(sweep: Sweep) -> tuple[Curve, ...]:
    """Return the finished exact curves of a sweep, from memory or file: a selector's metrics at every λ."""
    curves = _CURVES.get(sweep.cells_key)
    # Only complete sets of curves are cached, as the job adds one at a time.
    if curves is None and sweep.exact_decoders:
        stored = (load_stored_curve(d, **sweep.curve_arguments(), store=open_store()) for d in sweep.exact_decoders)
        curves = tuple(curve for curve in stored if curve is not None)
        if len(curves) == len(sweep.exact_decoders):
            _CURVES[sweep.cells_key] = curves
    return curves or ()


def _order_cells(sweep: Sweep, points: Any) -> tuple[Cell, ...]:
    """Return the cells, each a decoder's measurements, in the order of the sweep's decoders.

    Decoders that are not measured yet are left out.
    """
    by_label = {cell.label: cell for cell in points}
    return tuple(by_label[decoder.label] for decoder in sweep.decoders if decoder.label in by_label)


def is_small(sweep: Sweep) -> bool:
    """Return True if a sweep is quick enough to start without a click: few scores, nothing reranked."""
    # Without vectors the queries have to be embedded first, which may take minutes.
    has_vectors = all(part.vectors is not None for part in sweep.parts)
    return has_vectors and sweep.n_scores <= MAX_UNASKED_SCORES and not sweep.n_pairs


def get_pace(sweep: Sweep) -> float:
    """Return the scores a second of the last measuring of this corpus and people's queries, or else the usual ones."""
    return _PACES.get(sweep.cells_key[:2], FIRST_PACE)


def estimate_seconds(sweep: Sweep, begun: Sweep | None = None) -> float:
    """Estimate how long what is not stored of a sweep takes, at the pace of the last one here; 0 if all is stored.

    begun: a sweep of some of the decoders, by the same judges, whose time is not counted; None for none
    """
    # A model's queries are others than people's, and each part may have been stopped at another setting.
    begun_parts = [None] * len(sweep.parts) if begun is None else begun.parts
    pace = get_pace(sweep)
    seconds = 0.0
    for part, begun_part in zip(sweep.parts, begun_parts, strict=True):
        n_settings = _count_missing_settings(part, begun_part)
        seconds += _count_scores(part, n_settings) / _PACES.get(part.cells_key[:2], pace)
    return seconds


def estimate_plain_seconds(loaded: Loaded, queries: Queries, k: int, n_settings: int, n_curves: int) -> float:
    """Estimate how long measuring settings and exact curves anew takes, at the pace of the last sweep of this corpus.

    The settings read the default scorer alone.
    """
    pace = _PACES.get((loaded.space.embeddings.digest, queries.digest), FIRST_PACE)
    n_documents = max(len(loaded.space), k * k)
    return n_documents * len(queries) * (n_settings + CURVE_SETTINGS * n_curves) / pace


def _count_missing_settings(part: Sweep, begun: Sweep | None) -> int:
    """Return how many settings one judge's part of a sweep lacks beyond those begun, an exact curve as several."""
    n_settings = len(part.decoders) - (0 if begun is None else len(begun.decoders))
    if part.cells_key in _CELLS:
        n_settings = 0
    elif part.vectors is not None:
        n_settings = min(n_settings, count_missing_cells(**part.arguments(), store=open_store()))
    if begun is None:
        n_curves = len(part.exact_decoders) - len(load_stored_curves(part))
    else:
        # Where all settings are stored their curves are too, unless a person stopped before them.
        n_curves = len(part.exact_decoders) - len(begun.exact_decoders) if n_settings > 0 else 0
    return max(0, n_settings) + CURVE_SETTINGS * max(0, n_curves)


def _count_scores(part: Sweep, n_decoders: int) -> int:
    """Return the number of scores that measuring so many decoders takes on the queries of one judge."""
    return max(len(part.loaded.space), part.k * part.k) * len(part.queries) * n_decoders


def run_sweep(sweep: Sweep, job: Job) -> tuple[Cell, ...]:
    """Measure a sweep's missing decoders and exact curves in a job; return a cell for each decoder.

    Finished cells go to job.partial at once, for the page; curves go to the file only, as all that a model's judgements
    give.
    """
    # People's come first, so that a stop leaves what can be decided without the model.
    for part in sweep.parts:
        if part.vectors is None:
            part = replace(part, vectors=embed_missing(part.loaded, part.queries, job))
        _measure_part(part, job)
    return _order_cells(sweep, job.partial or ())


def _measure_part(sweep: Sweep, job: Job) -> None:
    """Measure a sweep's missing decoders and exact curves by one kind of judgements."""
    by_text = f" by {sweep.judge}" if sweep.judge else ""

    # The page counts settings, whatever the engine calls its steps.
    def report(n_done: int, n_total: int, label: str) -> None:
        """Report the progress to the job, under a label of the page."""
        # The baseline, measured first, is no setting that is tried.
        job.report(max(0, n_done - 1), n_total - 1, f"settings measured{by_text}")

    cell_store = open_store()
    n_missing = count_missing_cells(**sweep.arguments(), store=cell_store)
    start_time = time.perf_counter()
    for cell in engine.sweep(**sweep.arguments(), store=cell_store, progress=report, stop=job.stop):
        # The page draws people's cells as they come; a model's only correct them.
        if not sweep.judge:
            job.collect(cell)
    if n_missing:
        seconds = max(1e-3, time.perf_counter() - start_time)
        _PACES[sweep.cells_key[:2]] = _count_scores(sweep, n_missing) / seconds
    # Curves come last, so that a stop loses none of the cells.
    if job.stop.is_set():
        raise Cancelled("stopped")
    for decoder in sweep.exact_decoders:
        label = f"queries at every λ of {decoder.select.spec.title}{by_text}"

        def report_queries(n_done: int, n_total: int, _label: str, label: str = label) -> None:
            """Report how many queries are done to the job, under a label of the page."""
            job.report(n_done, n_total, label)

        options = sweep.curve_arguments() | decoder.limits
        exact_frontier(decoder.select, **options, store=cell_store, progress=report_queries, stop=job.stop)
