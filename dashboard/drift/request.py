"""A simulation as a value, and its run."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import engine
from dashboard.services.jobs import Job
from dashboard.services.query_vectors import embed_missing
from dashboard.services.request import JobRequest
from dashboard.services.sending import allow_typed
from dashboard.services.source import Loaded
from engine.data import cache
from engine.data.degrade import shorten_documents
from engine.data.plans import expand_plans
from engine.decoder import Decoder
from engine.feedback.presets import Preset
from engine.simulation.feedback_model import Stream
from engine.simulation.self_queries import sample_self_queries
from engine.simulation.simulate import Forecast, Plan, Simulated, forecast, simulate
from engine.simulation.variants import NEWCOMER_START, Deployment
from engine.values import Embeddings, Qrels

SIMULATIONS_SECTION = "simulations"
"""Cache section of the files of stopped simulations, each until it has ended."""
MAX_PROBES = 200
"""Number of probe queries, or without judgements of documents as their own queries."""


@dataclass(frozen=True, kw_only=True)
class SimulationRequest(JobRequest):
    """Settings of a simulation; fields without a comment are parameters of the engine's `simulate`."""

    learn: str  # the split to learn from, "" for documents as their own queries
    report: str | None  # the split that is only measured, None for a share of the first
    stream: Stream = field(default_factory=Stream)
    plan: Plan = field(default_factory=Plan)
    preset: Preset = field(default_factory=Preset)
    decoders: tuple[Decoder, ...]
    k: int  # documents per set, in measurements
    words: int | None = None  # maximal number per document, None for full documents
    reranker: str | None = None  # picks the document shown among several drawn, None for one drawn
    candidates: int | None = None  # number drawn for the reranker
    arrivals: tuple[tuple[float, int], ...] = ()  # (share of the documents, round after which they come)
    newcomers: str = NEWCOMER_START.default  # how the vectors of documents that come later start
    by_hops: bool = False  # True if queries are the steps of their plans
    updates: int | None = None

    @property
    def variant(self) -> dict[str, Any]:
        """Arguments of `simulate` that go beyond the basic algorithm: reranker and arriving documents."""
        names = ("reranker", "candidates", "arrivals", "newcomers", "updates")
        return {name: getattr(self, name) for name in names}

    @property
    def split_names(self) -> tuple[str, ...]:
        """Names of the judged splits in use: the one whose judgements vote, and the one that is only measured.

        Empty if documents are their own queries.
        """
        return tuple(split for split in (self.learn, self.report) if split)

    def expand_hops(self, loaded: Loaded) -> tuple[Loaded, Mapping[str, tuple[str, ...]] | None]:
        """Return the corpus with each step of a question's plan as a query, and question → its steps (hops).

        Returns the corpus unchanged, and None, if questions are asked as a whole. Raises DataError if the plans cannot
        be read.
        """
        if not self.by_hops:
            return loaded, None
        expanded = expand_plans(loaded.dataset, loaded.source.path)
        return replace(loaded, dataset=expanded.dataset, queries=None), expanded.hops

    def forecast(self, loaded: Loaded) -> Forecast:
        """Forecast how much work the simulation is, such as rounds and queries, before it runs.

        Raises FrontierError for impossible settings, also if the splits share a query.
        """
        loaded, hops = self.expand_hops(loaded)
        deployment = Deployment.build(self.reranker, self.candidates, self.arrivals, self.newcomers)
        # Called for its errors: impossible arrivals are refused before the run.
        deployment.plan_inventory(len(loaded.space), self.preset.seed)
        splits, query_ids = self.qrels(loaded.dataset), loaded.dataset.queries.ids
        if self.learn:
            qrels = splits[self.learn]
        else:
            queries, qrels = sample_self_queries(loaded.space, MAX_PROBES)
            query_ids = queries.ids
        options: dict[str, Any] = {"preset": self.preset, "stream": self.stream, "plan": self.plan}
        options["held_out"] = splits.get(self.report or "")
        options |= {"hops": hops, "updates": self.updates}
        return forecast(query_ids, loaded.space.corpus.position, qrels, n_decoders=len(self.decoders), **options)

    def file(self, loaded: Loaded) -> Path:
        """Return the file that a stopped simulation leaves, to be resumed."""
        return cache.open_section(SIMULATIONS_SECTION) / f"{self.digest(loaded)}.npz"


@dataclass(frozen=True, eq=False, kw_only=True)
class SimulationOutcome:
    """Result of a simulation, with the request and the probe queries by which drift is measured."""

    request: SimulationRequest  # what was asked for
    key: str  # names it
    loaded: Loaded  # the corpus, with its documents cut where that was asked for
    simulated: Simulated
    queries: Embeddings  # whose answers are followed
    qrels: Qrels  # what is right for them
    seconds: float | None  # how long it took, None where it went on from a stop
    forecast: Forecast  # of the request


def run_simulation(request: SimulationRequest, loaded: Loaded, job: Job) -> SimulationOutcome:
    """Run a simulation in a job and return its outcome; a stopped one resumes from its file.

    Measurements go to job.partial as they come, for the page.
    """
    key, state_file, full_corpus = request.digest(loaded), request.file(loaded), loaded
    loaded, hops = request.expand_hops(_shorten_corpus(loaded, request.words, job))
    held_out: Qrels | None = None
    if request.learn:
        splits = request.qrels(loaded.dataset)
        queries, qrels = request.vectors(loaded, splits, job), splits[request.learn]
        held_out = splits.get(request.report or "")
    else:
        queries, qrels = sample_self_queries(loaded.space, MAX_PROBES)
    # The time of a resumed run would mislead the forecast of others.
    is_fresh, start_time = not state_file.exists(), time.monotonic()
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
        file=state_file,
        progress=job.report,
        stop=job.stop,
        seen=job.collect,
        hops=hops,
        **request.variant,
    )
    seconds = time.monotonic() - start_time
    # The file exists only to resume: a finished simulation is in memory.
    state_file.unlink(missing_ok=True)
    probe_vectors, probe_qrels = find_probes(loaded, request.learn, job, queries)
    return SimulationOutcome(
        request=request,
        key=key,
        loaded=loaded,
        simulated=simulated,
        queries=probe_vectors,
        qrels=probe_qrels,
        seconds=seconds if is_fresh else None,
        forecast=request.forecast(full_corpus),
    )


def _shorten_corpus(loaded: Loaded, n_words: int | None, job: Job) -> Loaded:
    """Return the corpus with its documents cut to `n_words` and embedded again, in a job.

    Unchanged if n_words is None, or without an encoder.
    """
    encoder = loaded.space.encoder
    if n_words is None or encoder is None:
        return loaded
    corpus = shorten_documents(loaded.dataset.corpus, n_words)
    with allow_typed():
        embeddings = engine.embed(corpus, encoder=encoder.name, dtype=encoder.dtype, progress=job.report, stop=job.stop)
    space = loaded.space.with_documents(corpus, embeddings)
    return replace(loaded, dataset=replace(loaded.dataset, corpus=corpus), space=space)


def find_probes(loaded: Loaded, split: str, job: Job, available: Embeddings | None = None) -> tuple[Embeddings, Qrels]:
    """Return the probes, queries by whose answers drift is measured, and their judgements.

    The sample is always the same, so that measurements at different steps compare. split: judged queries to sample
    from, "" for documents as their own queries; available: vectors of all queries of the split, None if the job has to
    find or make them
    """
    if not split:
        return sample_self_queries(loaded.space, MAX_PROBES)
    queries = loaded.dataset.judged(split).sample(MAX_PROBES)
    if available is None:
        vectors = embed_missing(loaded, queries, job)
    else:
        positions = {query: position for position, query in enumerate(available.ids)}
        vectors = available.take([positions[query] for query in queries.ids])
    return vectors, loaded.dataset.qrels[split]
