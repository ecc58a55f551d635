"""The cells that the page shows: asked for once, kept in a file between sessions, computed by a job."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Any

import streamlit as st

import engine
from dashboard import jobs
from dashboard.explore import setting
from dashboard.jobs import Job
from dashboard.state import Loaded
from engine.data import cache
from engine.data.encoders import embedded
from engine.decoder import Decoder
from engine.errors import Cancelled
from engine.evaluation.aspects import digest_of_aspects
from engine.evaluation.points import Point
from engine.evaluation.store import Store
from engine.evaluation.sweep import held
from engine.progress import watched
from engine.values import Embeddings, Qrels, Queries

PURPOSE = "tradeoff"
SECTION, FILE = "sweeps", "cells.db"
AT_ONCE, BY_ITSELF = 500_000, 40_000_000
"""Scores (documents × queries × settings): up to so many the page computes while it draws; up to so many a job begins
without being asked."""
MOST_NUMBERS = 20_000_000
"""Of finished cells in memory, for all sessions."""


@dataclass(frozen=True, eq=False)
class Sweep:
    """What is measured: decoders on queries, at one k.

    queries: the labelled ones, or the one that is asked; vectors: theirs, None before they are embedded; kept: in the
    file, not for one query alone.
    """

    loaded: Loaded
    decoders: tuple[Decoder, ...]
    queries: Queries
    vectors: Embeddings | None
    qrels: Qrels | None
    split: str
    k: int
    metrics: tuple[str, ...]
    kept: bool

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for sweeps with equal cells."""
        one = b"" if self.kept else self.vectors.vectors.numpy().tobytes()
        judged = self.qrels.digest if self.qrels is not None else ""
        embeddings = self.loaded.space.embeddings.digest
        aspects = digest_of_aspects(self.loaded.dataset.aspects)
        return embeddings, self.queries.digest, one, judged, aspects, self.split, self.k, self.metrics, self.decoders

    @property
    def baseline(self) -> Decoder:
        """What the others are compared with."""
        return self.decoders[0]

    @property
    def pairs(self) -> int:
        """How many pairs of query and document a slow scorer has to read."""
        slow = sum(d.depth for d in self.decoders if d.rerank is not None and d.rerank.for_pools)
        return slow * len(self.queries)

    @property
    def scores(self) -> int:
        """How many scores it takes: documents × queries × settings."""
        return max(len(self.loaded.space), self.k * self.k) * len(self.queries) * len(self.decoders)

    def arguments(self) -> dict[str, Any]:
        """What `engine.sweep` takes."""
        aspects = self.loaded.dataset.aspects
        return {
            "decoders": self.decoders,
            "space": self.loaded.space,
            "queries": self.vectors,
            "qrels": self.qrels,
            "k": self.k,
            "metrics": self.metrics,
            "split": self.split,
            "aspects": aspects,
        }


@dataclass(frozen=True, eq=False)
class Cells:
    """points: finished, in the order of the decoders; missing: how many are not; job: at work on them, or ended."""

    points: tuple[Point, ...]
    missing: int
    job: Job | None = None

    @property
    def running(self) -> bool:
        return self.job is not None and self.job.running


@dataclass
class _Memory:
    """What was asked last, by whatever session: the points are never changed."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    cells: OrderedDict[Any, tuple[Point, ...]] = field(default_factory=OrderedDict)
    vectors: OrderedDict[Any, Embeddings] = field(default_factory=OrderedDict)


_MEMORY = _Memory()


def store() -> Store:
    """The file of finished cells, made where there is none."""
    return Store(cache.section(SECTION) / FILE)


def vectors_of(loaded: Loaded, queries: Queries) -> Embeddings | None:
    """The queries' vectors, where they are in memory or on the disk; None where they have to be embedded."""
    if (there := loaded.vectors_of(queries)) is not None:
        return there
    space = loaded.space
    key = space.embeddings.encoder, queries.digest
    with _MEMORY.lock:
        found = _MEMORY.vectors.get(key)
    if found is None and (there := embedded(queries, space.encoder.name, dtype=space.encoder.dtype)) is not None:
        found = space.fitted(there)
        _remember(key, found)
    return found


def _remember(key: Any, vectors: Embeddings) -> None:
    with _MEMORY.lock:
        _MEMORY.vectors[key] = vectors
        while len(_MEMORY.vectors) > 4:
            _MEMORY.vectors.popitem(last=False)


def find(sweep: Sweep) -> Cells:
    """What is there of a sweep, and the job that is at work on it."""
    job = jobs.mine().get(PURPOSE)
    if job is not None and st.session_state.get("tradeoff.key") != sweep.key:
        # The cells that it has finished are kept, and the new question is what counts now.
        job.cancel()
        job = None
    if job is not None and job.result is not None:
        points = job.result
        _keep(sweep, points)
    elif job is not None and (job.running or job.partial):
        points = _ordered(sweep, job.partial or ())  # a job begins with what the file has
    else:
        points = _known(sweep)
    return Cells(points, len(sweep.decoders) - len(points), job)


def _known(sweep: Sweep) -> tuple[Point, ...]:
    """From memory, else from the file; a single small question is answered on the spot."""
    with _MEMORY.lock:
        points = _MEMORY.cells.get(sweep.key)
    if points is None and sweep.kept and sweep.vectors is not None:
        points = _ordered(sweep, held(**sweep.arguments(), store=store())[0])
        if len(points) == len(sweep.decoders):
            _keep(sweep, points)
    elif points is None and not sweep.kept and sweep.scores <= AT_ONCE and all(map(setting.plain, sweep.decoders)):
        with jobs.turn():
            points = _ordered(sweep, engine.sweep(**sweep.arguments()))
        _keep(sweep, points)
    return points or ()


def _ordered(sweep: Sweep, points: Any) -> tuple[Point, ...]:
    found = {point.label: point for point in points}
    return tuple(found[d.label] for d in sweep.decoders if d.label in found)


def _keep(sweep: Sweep, points: tuple[Point, ...]) -> None:
    with _MEMORY.lock:
        cells = _MEMORY.cells
        cells[sweep.key] = points
        while len(cells) > 1 and sum(len(p.queries) * len(p.values) for all_ in cells.values() for p in all_) > (
            MOST_NUMBERS
        ):
            cells.popitem(last=False)


def begin(sweep: Sweep) -> Job:
    """Compute what is missing, beside the page."""
    st.session_state["tradeoff.key"] = sweep.key
    st.session_state.pop("tradeoff.stopped", None)
    return jobs.start(PURPOSE, "Measuring the trade-off", lambda job: _work(job, sweep))


def begins_by_itself(sweep: Sweep) -> bool:
    """Whether it is so little that nobody has to be asked, and nobody has stopped it."""
    embedded_ = sweep.vectors is not None
    little = sweep.scores <= BY_ITSELF and not sweep.pairs
    return embedded_ and little and st.session_state.get("tradeoff.stopped") != sweep.key


def stop(sweep: Sweep, job: Job) -> None:
    """Stop, and do not begin again unasked."""
    st.session_state["tradeoff.stopped"] = sweep.key
    job.cancel()


def _work(job: Job, sweep: Sweep) -> tuple[Point, ...]:
    if sweep.vectors is None:
        space = sweep.loaded.space
        found = engine.embed_queries(space, sweep.queries, progress=job.report, stop=job.stop)
        _remember((space.embeddings.encoder, sweep.queries.digest), found)
        sweep = replace(sweep, vectors=found)

    def report(done: int, total: int, label: str) -> None:
        job.report(done, total, "settings measured")

    points: list[Point] = []
    kept = store() if sweep.kept else None
    # What is slow inside a scorer, an index or a model, ends too when this is stopped.
    with watched(stop=job.stop):
        for point in engine.sweep(**sweep.arguments(), store=kept, progress=report, stop=job.stop):
            points.append(point)
            job.partial = tuple(points)
    if job.stop.is_set():
        raise Cancelled("stopped")
    return _ordered(sweep, points)
