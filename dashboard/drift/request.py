"""A simulation as a value, and the work it takes."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import engine
from dashboard.services.jobs import Job
from dashboard.services.query_vectors import embed_missing
from dashboard.services.request import JobRequest
from dashboard.services.source import Loaded
from engine.data import cache
from engine.data.degrade import shorten_documents
from engine.data.plans import expand_plans
from engine.decoder import Decoder
from engine.feedback.presets import Preset
from engine.simulation.feedback_model import Stream
from engine.simulation.self_queries import own_queries
from engine.simulation.simulate import Forecast, Plan, Simulated, forecast, simulate
from engine.simulation.variants import NEWCOMERS, Deployment
from engine.values import Embeddings, Qrels

SECTION = "simulations"
"""Of the cache: files of stopped simulations, each until it has ended."""
PROBES = 200
"""Queries that are followed at most; and documents that ask for themselves where nothing is judged."""


@dataclass(frozen=True, kw_only=True)
class SimulationRequest(JobRequest):
    """The settings of a simulation; fields without a line are parameters of `simulate`."""

    learn: str  # the split that is learned from, "" for documents that ask for themselves
    report: str | None  # the split that is only measured, None for a share of the first
    stream: Stream = field(default_factory=Stream)
    plan: Plan = field(default_factory=Plan)
    preset: Preset = field(default_factory=Preset)
    decoders: tuple[Decoder, ...]
    k: int
    words: int | None = None  # the number to which documents are cut first, None for whole ones
    reranker: str | None = None
    candidates: int | None = None
    arrivals: tuple[tuple[float, int], ...] = ()
    newcomers: str = NEWCOMERS.default
    by_hops: bool = False  # whether questions come by the steps of their plans
    updates: int | None = None

    @property
    def variant(self) -> dict[str, Any]:
        """What `simulate` is told beyond Algorithm 1, the hops left out."""
        names = ("reranker", "candidates", "arrivals", "newcomers", "updates")
        return {name: getattr(self, name) for name in names}

    @property
    def split_names(self) -> tuple[str, ...]:
        """The splits that are learned from and only measured; none for documents that ask for themselves."""
        return tuple(split for split in (self.learn, self.report) if split)

    def planned(self, loaded: Loaded) -> tuple[Loaded, Mapping[str, tuple[str, ...]] | None]:
        """The corpus with the queries that come, and the hops of each question. Raises DataError."""
        if not self.by_hops:
            return loaded, None
        found = expand_plans(loaded.dataset, loaded.source.path)
        return replace(loaded, dataset=found.dataset, queries=None), found.hops

    def forecast(self, loaded: Loaded) -> Forecast:
        """The work that it will take. Raises DataError, also where the splits share a query."""
        loaded, hops = self.planned(loaded)
        deployment = Deployment.of(self.reranker, self.candidates, self.arrivals, self.newcomers)
        deployment.inventory(len(loaded.space), self.preset.seed)
        splits, ids = self.qrels(loaded.dataset), loaded.dataset.queries.ids
        if self.learn:
            qrels = splits[self.learn]
        else:
            queries, qrels = own_queries(loaded.space, PROBES)
            ids = queries.ids
        given: dict[str, Any] = {"preset": self.preset, "stream": self.stream, "plan": self.plan}
        given["held_out"] = splits.get(self.report or "")
        given |= {"hops": hops, "updates": self.updates}
        return forecast(ids, loaded.space.corpus.position, qrels, decoders=len(self.decoders), **given)

    def file(self, loaded: Loaded) -> Path:
        """Where it is kept while it is stopped."""
        return cache.open_section(SECTION) / f"{self.digest(loaded)}.npz"


@dataclass(frozen=True, eq=False, kw_only=True)
class SimulationOutcome:
    """The result of a simulation."""

    request: SimulationRequest  # what was asked for
    key: str  # names it
    loaded: Loaded  # the corpus, with its documents cut where that was asked for
    simulated: Simulated
    queries: Embeddings  # whose answers are followed
    qrels: Qrels  # what is right for them
    seconds: float | None  # how long it took, None where it went on from a stop
    forecast: Forecast  # of the request


def run(request: SimulationRequest, loaded: Loaded, job: Job) -> SimulationOutcome:
    """Simulate, from where a file has it; checkpoints go to job.partial."""
    key, file, whole = request.digest(loaded), request.file(loaded), loaded
    loaded, hops = request.planned(_cut(loaded, request.words, job))
    held_out: Qrels | None = None
    if request.learn:
        splits = request.qrels(loaded.dataset)
        queries, qrels = request.vectors(loaded, splits, job), splits[request.learn]
        held_out = splits.get(request.report or "")
    else:
        queries, qrels = own_queries(loaded.space, PROBES)
    fresh, started = not file.exists(), time.monotonic()
    simulated = simulate(
        loaded.space,
        queries,
        qrels,
        preset=request.preset,
        stream=request.stream,
        plan=request.plan,
        held_out=held_out,
        decoders=request.decoders,
        k=request.k,
        file=file,
        progress=job.report,
        stop=job.stop,
        seen=job.collect,
        hops=hops,
        **request.variant,
    )
    seconds = time.monotonic() - started
    file.unlink(missing_ok=True)
    followed, right = probes(loaded, request.learn, job, queries)
    return SimulationOutcome(
        request=request,
        key=key,
        loaded=loaded,
        simulated=simulated,
        queries=followed,
        qrels=right,
        seconds=seconds if fresh else None,
        forecast=request.forecast(whole),
    )


def _cut(loaded: Loaded, words: int | None, job: Job) -> Loaded:
    """The corpus with its documents cut to `words`, embedded anew."""
    ref = loaded.space.encoder
    if words is None or ref is None:
        return loaded
    corpus = shorten_documents(loaded.dataset.corpus, words)
    embeddings = engine.embed(corpus, encoder=ref.name, dtype=ref.dtype, progress=job.report, stop=job.stop)
    space = loaded.space.with_documents(corpus, embeddings)
    return replace(loaded, dataset=replace(loaded.dataset, corpus=corpus), space=space)


def probes(loaded: Loaded, split: str, job: Job, known: Embeddings | None = None) -> tuple[Embeddings, Qrels]:
    """Queries whose answers are followed, and what is right for them.

    split: that a seeded sample is taken of, "" for documents that ask for themselves
    known: vectors of all its queries, None where the job finds or makes them
    """
    if not split:
        return own_queries(loaded.space, PROBES)
    queries = loaded.dataset.judged(split).sample(PROBES)
    if known is None:
        vectors = embed_missing(loaded, queries, job)
    else:
        place = {query: row for row, query in enumerate(known.ids)}
        vectors = known.take([place[query] for query in queries.ids])
    return vectors, loaded.dataset.qrels[split]
