"""What is to be tuned, as a value, and the work it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import engine
from dashboard.jobs import Job
from dashboard.state import Loaded
from engine.data import cache
from engine.decoder import Decoder
from engine.evaluation.objectives import Objective
from engine.evaluation.settings import Settings
from engine.evaluation.splits import drawn, halved, judged_by
from engine.evaluation.store import Store
from engine.evaluation.tune import Tuned, tune
from engine.progress import watched
from engine.stages import Scorer, make, methods, spec_of
from engine.values import Embeddings, Qrels, Queries

PURPOSE = "tune"
STORED = "sweeps"
"""The section of the cache that holds finished cells, one file a corpus."""


@dataclass(frozen=True)
class Splits:
    """qrels: judgements by name; dev, test: the names of those to choose on and to report on; queries: name → those
    judged; said: what should be known of how they came about, or ""."""

    qrels: Mapping[str, Qrels]
    dev: str
    test: str | None
    queries: Mapping[str, Queries]
    said: str

    @property
    def asked(self) -> Queries:
        """All queries of both, each split's together."""
        parts = list(self.queries.values())
        return Queries(tuple(i for p in parts for i in p.ids), tuple(t for p in parts for t in p.texts))


@dataclass(frozen=True, kw_only=True)
class Request:
    """choose: the split to choose on; report: the one to report on, None for none; halve: report on the one half of
    `choose` what was chosen on the other; most: so many queries of each, None for all; retrieve, rerank: the scorers,
    None for the first one and for none; the rest as `tune` takes it."""

    method: str
    objective: Objective
    k: int
    depth: int | None
    choose: str
    report: str | None
    halve: bool
    most: int | None
    free: tuple[str, ...]
    fixed: tuple[tuple[str, Any], ...]
    points: int
    trials: int
    retrieve: Scorer | None = None
    rerank: Scorer | None = None

    @property
    def like(self) -> Decoder:
        """The baseline behind the scorers that are tuned with: what differs is the selector alone."""
        plain = Decoder(make(baseline()), depth=self.depth)
        return replace(plain, retrieve=self.retrieve or plain.retrieve, rerank=self.rerank)

    @property
    def settings(self) -> Settings:
        """Raises ParamError."""
        return Settings.of(spec_of(self.method, "selector"), self.points, self.free, dict(self.fixed))

    def splits(self, dataset: engine.Dataset) -> Splits:
        """The judgements as asked for. Raises DataError, also where the two splits share a query."""
        dev, test, said = self.choose, self.report, []
        if self.halve:
            dev, test = (f"half {n} of {self.choose}" for n in (1, 2))
            qrels = dict(zip((dev, test), halved(dataset.qrels[self.choose]).values(), strict=True))
            said.append(f"The two halves of {self.choose} share no query: a query's id decides where it goes.")
        else:
            qrels = {name: dataset.qrels[name] for name in (dev, test) if name is not None and name in dataset.qrels}
        own = judged_by(dataset.queries, qrels, dev, test)
        if self.most is not None:
            there = {name: qrels[name].grades.keys() & set(found.ids) for name, found in own.items()}
            every = {name: Qrels({q: qrels[name].grades[q] for q in kept}) for name, kept in there.items()}
            qrels = {name: drawn(found, self.most) for name, found in every.items()}
            if short := [
                f"{len(qrels[n]):,} of {len(every[n]):,} queries of {n}" for n in own if len(qrels[n]) < len(every[n])
            ]:
                said.append(
                    f"A quick look: {' and '.join(short)}, drawn by their ids. Tune on all before you rely on it."
                )
            own = judged_by(dataset.queries, qrels, dev, test)
        return Splits(qrels, dev, test, own, " ".join(said))


@dataclass(frozen=True, eq=False)
class Outcome:
    """What tuning a request found; said: of its splits; documents: how many the corpus has."""

    request: Request
    tuned: Tuned
    said: str
    documents: int


def baseline() -> str:
    """The selector that the others are compared with."""
    return next(iter(methods("selector")))


def run(request: Request, loaded: Loaded, job: Job) -> Outcome:
    """Tune; what is finished on the way goes to job.partial and to the store."""
    splits = request.splits(loaded.dataset)
    vectors = _vectors(loaded, splits.asked, job)
    found: list[Any] = []

    def seen(point: Any) -> None:
        found.append(point)
        job.partial = list(found)

    store = cache.section(STORED) / f"{loaded.space.embeddings.digest[:16]}.db"
    # What is slow inside a stage ends too when this is stopped.
    with watched(stop=job.stop):
        tuned = _tuned(request, loaded, splits, vectors, Store(store), job, seen)
    return Outcome(request, tuned, splits.said, len(loaded.space))


def _tuned(
    request: Request,
    loaded: Loaded,
    splits: Splits,
    vectors: Embeddings,
    store: Store,
    job: Job,
    seen: Callable[[Any], None],
) -> Tuned:
    return tune(
        request.method,
        loaded.space,
        vectors,
        splits.qrels,
        objective=request.objective,
        k=request.k,
        dev=splits.dev,
        test=splits.test,
        points=request.points,
        free=request.free,
        fixed=dict(request.fixed),
        like=request.like,
        aspects=loaded.dataset.aspects,
        trials=request.trials,
        store=store,
        progress=job.report,
        stop=job.stop,
        seen=seen,
    )


def _vectors(loaded: Loaded, queries: Queries, job: Job) -> Embeddings:
    """The queries' vectors: those there are, or made now."""
    if (there := loaded.vectors_of(queries)) is not None:
        return there
    return engine.embed_queries(loaded.space, queries, progress=job.report, stop=job.stop)
