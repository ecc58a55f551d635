"""A tuning as a value, and the work it takes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import engine
from dashboard.services.jobs import Job
from dashboard.services.query_vectors import query_vectors
from dashboard.services.source import Loaded
from engine.data import cache
from engine.decoder import Decoder
from engine.evaluation.splits import judged_by, split_in_half, subsample
from engine.evaluation.sweep.store import Store
from engine.evaluation.tuning.objectives import Objective
from engine.evaluation.tuning.search_space import Settings
from engine.evaluation.tuning.tune import Tuned, tune
from engine.stages import Scorer, make, methods, spec_of
from engine.values import Qrels, Queries

PURPOSE = "tune"
STORED = "sweeps"
"""The section of the cache that holds finished cells, one file a corpus."""


@dataclass(frozen=True)
class Splits:
    """The judgements of a tuning."""

    qrels: Mapping[str, Qrels]  # by name
    dev: str  # the name of those to choose on
    test: str | None  # the name of those to report on
    queries: Mapping[str, Queries]  # name → the judged ones
    remarks: str  # how they came about, or ""

    @property
    def all_queries(self) -> Queries:
        """The queries of both, split by split."""
        parts = list(self.queries.values())
        return Queries(tuple(i for p in parts for i in p.ids), tuple(t for p in parts for t in p.texts))


@dataclass(frozen=True, kw_only=True)
class TuningRequest:
    """The settings of a tuning; fields without a remark are parameters of `tune`."""

    method: str
    objective: Objective
    k: int
    depth: int | None
    choose: str  # the split to choose on
    report: str | None  # the one to report on, None for none
    halve: bool  # report on one half of `choose`, and choose on the other
    most: int | None  # at most this many queries of each, None for all
    free: tuple[str, ...]
    fixed: tuple[tuple[str, Any], ...]
    points: int
    trials: int
    retrieve: Scorer | None = None  # None for the default one
    rerank: Scorer | None = None

    @property
    def like(self) -> Decoder:
        """The baseline behind the same scorers: only the selector differs."""
        plain = Decoder(make(baseline()), depth=self.depth)
        return replace(plain, retrieve=self.retrieve or plain.retrieve, rerank=self.rerank)

    @property
    def settings(self) -> Settings:
        """The settings to try. Raises ParamError."""
        return Settings.of(spec_of(self.method, "selector"), self.points, self.free, dict(self.fixed))

    def splits(self, dataset: engine.Dataset) -> Splits:
        """The judgements. Raises DataError, also where the two splits share a query."""
        dev, test, remarks, qrels = self.choose, self.report, [], dict(dataset.qrels)
        if self.halve:
            dev, test = (f"half {n} of {self.choose}" for n in (1, 2))
            qrels = dict(zip((dev, test), split_in_half(dataset.qrels[self.choose]).values(), strict=True))
            remarks.append(f"The two halves of {self.choose} share no query: a query's id decides where it goes.")
        qrels = {name: own for name, own in qrels.items() if name in (dev, test)}
        queries = cast("dict[str, Queries]", judged_by(dataset.queries, qrels, dev, test))
        if self.most is not None:
            ids = {name: qrels[name].grades.keys() & set(split.ids) for name, split in queries.items()}
            every = {name: Qrels({q: qrels[name].grades[q] for q in judged}) for name, judged in ids.items()}
            qrels = {name: subsample(judgements, self.most) for name, judgements in every.items()}
            short = [name for name in queries if len(qrels[name]) < len(every[name])]
            if short:
                sizes = " and ".join(f"{len(qrels[n]):,} of {len(every[n]):,} queries of {n}" for n in short)
                remarks.append(f"A quick look: {sizes}, drawn by their ids. Tune on all before you rely on it.")
            queries = cast("dict[str, Queries]", judged_by(dataset.queries, qrels, dev, test))
        return Splits(qrels, dev, test, queries, " ".join(remarks))


@dataclass(frozen=True, eq=False)
class TuningOutcome:
    """The result of a tuning."""

    request: TuningRequest  # what was asked for
    tuned: Tuned  # the result
    remarks: str  # on its splits
    documents: int  # the size of the corpus


def baseline() -> str:
    """The name of the selector that the others are compared with."""
    return next(iter(methods("selector")))


def run(request: TuningRequest, loaded: Loaded, job: Job) -> TuningOutcome:
    """Tune; finished cells go to job.partial and to the store."""
    splits = request.splits(loaded.dataset)
    vectors = query_vectors(loaded, splits.all_queries, job)
    tuned = tune(
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
        store=Store(cache.section(STORED) / f"{loaded.space.embeddings.digest[:16]}.db"),
        progress=job.report,
        stop=job.stop,
        seen=job.collect,
    )
    return TuningOutcome(request, tuned, splits.remarks, len(loaded.space))
