"""What is to be simulated, as a value, and the work it takes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import engine
from dashboard.jobs import Job
from dashboard.state import Loaded
from dashboard.tradeoff.cells import vectors_of
from engine.data import cache
from engine.data.degrade import shortened
from engine.decoder import Decoder
from engine.learning.forecast import Forecast, forecast
from engine.learning.orag.presets import Preset
from engine.learning.probes import own_queries
from engine.learning.simulation import Plan, Simulated, simulate
from engine.learning.streams import Stream
from engine.params import values_of
from engine.progress import watched
from engine.values import Embeddings, Qrels, digest_of

SECTION = "simulations"
"""Of the cache: simulations that were stopped, each until it has ended."""
PROBES = 200
"""Up to so many queries are followed over time, and so many documents ask for themselves where nothing is judged."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """learn: the split that is learned from, "" for documents that ask for themselves; report: the split that is only
    measured, None for a share of the first; words: to which documents are cut first, None for whole ones; the rest as
    `simulate` takes it."""

    learn: str
    report: str | None
    stream: Stream = field(default_factory=Stream)
    plan: Plan = field(default_factory=Plan)
    preset: Preset = field(default_factory=Preset)
    decoders: tuple[Decoder, ...]
    k: int
    words: int | None = None

    def digest(self, loaded: Loaded) -> str:
        """Names what this finds on a corpus."""
        judged = [loaded.dataset.qrels[split].digest for split in (self.learn, self.report) if split]
        said = [values_of(value) for value in (self.stream, self.plan, self.preset)]
        plain = json.dumps([*said, self.learn, self.report, self.k, self.words])
        told = [plain, *(decoder.label for decoder in self.decoders)]
        return digest_of([loaded.space.corpus.digest, loaded.space.embeddings.digest, *judged, *told])

    def forecast(self, loaded: Loaded) -> Forecast:
        """What it will take. Raises DataError, also where the splits share a query."""
        ids, qrels, held_out = self._judged(loaded)
        return forecast(
            ids,
            loaded.space.corpus.position,
            qrels,
            preset=self.preset,
            stream=self.stream,
            plan=self.plan,
            held_out=held_out,
            decoders=len(self.decoders),
        )

    def _judged(self, loaded: Loaded) -> tuple[tuple[str, ...], Qrels, Qrels | None]:
        if not self.learn:
            queries, qrels = own_queries(loaded.space, PROBES)
            return queries.ids, qrels, None
        qrels = loaded.dataset.qrels
        return loaded.dataset.queries.ids, qrels[self.learn], qrels[self.report] if self.report else None


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a simulation found.

    loaded: the corpus that it is of, with its documents cut where that was asked for; probes, qrels: the queries that
    are followed, and what is right for them; seconds: it took, None where it went on from a stop; forecast: of it.
    """

    request: Request
    key: str
    loaded: Loaded
    found: Simulated
    probes: Embeddings
    qrels: Qrels
    seconds: float | None
    forecast: Forecast


def run(request: Request, loaded: Loaded, job: Job) -> Outcome:
    """Simulate; the checkpoints on the way go to job.partial, and a file goes on from where it was stopped."""
    key, seen = request.digest(loaded), []
    whole, loaded = loaded, _cut(loaded, request.words, job)
    queries, qrels, held_out = _task(request, loaded, job)
    file = cache.section(SECTION) / f"{key[:32]}.npz"
    fresh, started = not file.exists(), time.monotonic()

    def noted(checkpoint: Any) -> None:
        seen.append(checkpoint)
        job.partial = list(seen)

    with watched(stop=job.stop):
        found = simulate(
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
            seen=noted,
        )
    seconds = time.monotonic() - started
    file.unlink(missing_ok=True)
    followed, right = probes(loaded, request.learn, _embedder(loaded, job), queries)
    told = request.forecast(whole)
    return Outcome(request, key, loaded, found, followed, right, seconds if fresh else None, told)


def kept(request: Request, loaded: Loaded) -> Path | None:
    """The file of this simulation where it was stopped once; None where it would begin anew."""
    file = cache.section(SECTION) / f"{request.digest(loaded)[:32]}.npz"
    return file if file.exists() else None


def _cut(loaded: Loaded, words: int | None, job: Job) -> Loaded:
    """The corpus with documents of so few words, embedded anew."""
    if words is None:
        return loaded
    ref, corpus = loaded.space.encoder, shortened(loaded.dataset.corpus, words)
    made = engine.embed(corpus, encoder=ref.name, dtype=ref.dtype, progress=job.report, stop=job.stop)
    space = loaded.space.with_documents(corpus, made)
    return replace(loaded, dataset=replace(loaded.dataset, corpus=corpus), space=space)


def _task(request: Request, loaded: Loaded, job: Job) -> tuple[Embeddings, Qrels, Qrels | None]:
    """The queries' vectors and what is judged right."""
    if not request.learn:
        return *own_queries(loaded.space, PROBES), None
    dataset = loaded.dataset
    names = [split for split in (request.learn, request.report) if split]
    judged = {query for split in names for query in dataset.qrels[split].grades}
    queries = dataset.queries.only(judged)
    vectors = vectors_of(loaded, queries) or _embedder(loaded, job)(queries)
    return vectors, dataset.qrels[request.learn], dataset.qrels[request.report] if request.report else None


def _embedder(loaded: Loaded, job: Job) -> Callable[[Any], Embeddings]:
    return partial(engine.embed_queries, loaded.space, progress=job.report, stop=job.stop)


def probes(
    loaded: Loaded, split: str, embedded: Callable[[Any], Embeddings], known: Embeddings | None = None
) -> tuple[Embeddings, Qrels]:
    """Queries whose answers are followed, and what is right for them: a seeded sample of a split's, or documents that
    ask for themselves where `split` is "".

    embedded: makes vectors that are not there; known: those that are.
    """
    if not split:
        return own_queries(loaded.space, PROBES)
    queries = loaded.dataset.judged(split).sample(PROBES)
    if known is not None:
        place = {query: row for row, query in enumerate(known.ids)}
        vectors = known.take([place[query] for query in queries.ids])
    else:
        vectors = vectors_of(loaded, queries) or embedded(queries)
    return vectors, loaded.dataset.qrels[split]
