"""Compute one unit of a sweep: decode blocks of queries with decoders of one family, then measure every cell."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from engine.decoder import Decoder, decode, decode_grid, query_batch
from engine.errors import Cancelled
from engine.evaluation.aspects import Aspects, digest_of_aspects
from engine.evaluation.metrics import measure
from engine.evaluation.sweep.cell import Cell, as_json, from_json, make_cell
from engine.progress import Stop, current_reporter, report_to
from engine.space import Elsewhere, Space, probe_of
from engine.values import Embeddings, Qrels, Queries, Ranking

STOPPED = "the sweep was stopped; what is finished is kept where there is a store"
BLOCK = 64
"""Most queries between two looks at whether to stop."""
FIRST_SCORES = 100_000
"""Most scores (documents × settings × queries) of the first block."""
PAUSE = 0.4
"""Seconds that a later block is to take."""
CALLS = 5
"""Queries that a decoder is asked one at a time, to time it; some of them again where there are fewer."""
CORPUS, ENCODER, DATE = "corpus name", "encoder", "date"
"""Entries of a cell's provenance, of cells measured since they are kept."""
SHARE, LEAST = 0.02, 0.01
"""How much of the time of all queries together those may take, and how many seconds in any case."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """What every unit of a sweep needs."""

    space: Space | Elsewhere
    vectors: Embeddings  # the queries' embeddings
    qrels: Qrels | None
    aspects: Aspects | None
    metrics: tuple[str, ...]
    split: str
    data: Mapping[str, str]  # digest by name of what every cell is computed from
    texts: str  # digest of the queries' texts
    answers: Aspects | None = None

    def data_of(self, decoder: Decoder) -> dict[str, str]:
        """Digests of all that a cell is computed from: the queries' texts too where a scorer reads them."""
        digests = dict(self.data)
        for scorer in filter(None, (decoder.retrieve, decoder.rerank)):
            if scorer.words:
                digests["texts"] = self.texts
            digests.update(scorer.cache_dependencies(probe_of(self.space)))
        return digests

    def cells(self, unit: Mapping[str, Any]) -> list[Cell]:
        """The cells of a unit that was `packed`, computed to the end."""
        return compute_unit(self, unpacked(unit), lambda: False)

    def measure(self, ranking: Ranking, k: int) -> tuple[dict[str, np.ndarray], int]:
        """The metrics at k of a ranking, query by query, and how many queries have no relevant document."""
        measures = measure(ranking, self.space, self.vectors, self.qrels, k, self.metrics, self.aspects, self.answers)
        return dict(measures.values), measures.left_out


def facts_of(space: Space | Elsewhere) -> dict[str, str]:
    """What a report says of a measurement beside digests: the names of corpus and encoder, and today's date."""
    encoder, name = space.encoder, "own vectors"
    if encoder is not None:
        path = Path(encoder.name)
        name = f"{path.name if path.is_absolute() else encoder.name}, {encoder.dtype}"
    trained = ", trained" if probe_of(space).adapt is not None else ""
    return {
        CORPUS: space.name if isinstance(space, Elsewhere) else space.corpus.name,
        ENCODER: f"{name}{trained}",
        DATE: date.today().isoformat(),
    }


def embedded(space: Space | Elsewhere, queries: Queries | Embeddings) -> Embeddings:
    """The queries as the space searches for them, on the CPU."""
    batch = query_batch(space, queries)
    vectors = batch.vectors.cpu()
    if vectors.untyped_storage().nbytes() > vectors.nbytes:
        # A part of a larger matrix would take all of it along to other processes.
        vectors = vectors.clone()
    return Embeddings(queries.ids, vectors, probe_of(space).embeddings.encoder, batch.texts)


def digests_of(
    space: Space | Elsewhere,
    queries: Embeddings,
    qrels: Qrels | None,
    aspects: Aspects | None = None,
    answers: Aspects | None = None,
) -> dict[str, str]:
    """Digests, by name, of what is measured and against what."""
    digests = {"queries": queries.digest}
    if isinstance(space, Elsewhere):
        digests["store"] = space.digest
    else:
        digests |= {"corpus": space.corpus.digest, "embeddings": space.embeddings.digest}
    if qrels is not None:
        digests["qrels"] = qrels.digest
    if aspects is not None:
        digests["aspects"] = digest_of_aspects(aspects)
    if answers is not None:
        digests["answers"] = digest_of_aspects(answers)
    return digests


@dataclass(frozen=True)
class Unit:
    """Decoders of one family at ks that one decoding answers."""

    decoders: tuple[Decoder, ...]
    ks: tuple[int, ...]


def packed(unit: Unit) -> dict[str, Any]:
    """A unit as plain values, for another process; `unpacked` reads it."""
    return {"decoders": [as_json(d) for d in unit.decoders], "ks": list(unit.ks)}


def unpacked(values: Mapping[str, Any]) -> Unit:
    """The unit that `packed` made plain values of."""
    return Unit(tuple(from_json(d) for d in values["decoders"]), tuple(values["ks"]))


def compute_unit(task: Task, unit: Unit, stopped: Callable[[], bool]) -> list[Cell]:
    """The cells of a unit; raises Cancelled when stopped, between two blocks of queries or inside a slow stage."""
    with report_to(current_reporter()[0], cast(Stop, SimpleNamespace(is_set=stopped))):
        rankings, seconds = _decode(task, unit, stopped)
        most = max(LEAST, SHARE * seconds / (len(unit.decoders) * len(unit.ks)))
        # Who asks one query waits for its answer, and not several times as long for a time that says little of others.
        timed = len(task.vectors) > 1
        for k in unit.ks if timed else ():
            # What the first call at a k makes ready is no part of the time of the next.
            latency(unit.decoders[0], task.space, task.vectors, k, 0, stopped)
        milliseconds, calls = 1000 * seconds / len(unit.decoders), 0
        cells = []
        for decoder, ranking in zip(unit.decoders, rankings, strict=True):
            if stopped():
                raise Cancelled(STOPPED)
            data = task.data_of(decoder)
            for k in unit.ks:
                values, left_out = task.measure(ranking, k)
                if timed:
                    milliseconds, calls = latency(decoder, task.space, task.vectors, k, most, stopped)
                cell = make_cell(
                    decoder,
                    k,
                    task.split,
                    task.vectors.ids,
                    values,
                    left_out=left_out,
                    returned=float((ranking.index[:, :k] >= 0).sum(1).double().mean()),
                    milliseconds=milliseconds,
                    data=data,
                    device=probe_of(task.space).device.type,
                    calls=calls,
                    facts=facts_of(task.space),
                )
                cells.append(cell)
        return cells


def make_ready(decoder: Decoder, space: Space | Elsewhere) -> None:
    """Compile and index what a process's first call would: that is no part of the time that a query takes."""
    type(decoder.select).warm()
    for scorer in filter(None, (decoder.retrieve, decoder.rerank)):
        if isinstance(space, Space):
            scorer.prepare(space)


def latency(
    decoder: Decoder,
    space: Space | Elsewhere,
    queries: Queries | Embeddings,
    k: int,
    most: float,
    stopped: Callable[[], bool] = lambda: False,
) -> tuple[float, int]:
    """The median milliseconds of single calls, for queries from all over the list, and how many calls those were.

    most: seconds after which no further call begins. Raises Cancelled when stopped.
    """
    seconds: list[float] = []
    for row in np.linspace(0, len(queries) - 1, CALLS, dtype=int).tolist():
        if stopped():
            raise Cancelled(STOPPED)
        query = queries.take([row]) if isinstance(queries, Embeddings) else queries.only([queries.ids[row]])
        started = time.perf_counter()
        decode(decoder, space, query, k).index.cpu()  # where it was computed elsewhere, that is waited for
        seconds.append(time.perf_counter() - started)
        if sum(seconds) >= most:
            break
    return 1000 * statistics.median(seconds), len(seconds)


def _decode(task: Task, unit: Unit, stopped: Callable[[], bool]) -> tuple[list[Ranking], float]:
    """A ranking a decoder, on the CPU, at the largest k; and the seconds that it took."""
    count, largest = len(task.vectors), max(unit.ks)
    blocks: list[list[Ranking]] = []
    make_ready(unit.decoders[0], task.space)
    started = time.perf_counter()
    start, size = 0, max(1, min(BLOCK, FIRST_SCORES // (len(task.space) * len(unit.decoders))))
    while start < count:
        if stopped():
            raise Cancelled(STOPPED)
        began, end = time.perf_counter(), start + size
        block = task.vectors.take(range(start, min(end, count)))
        blocks.append(decode_grid(unit.decoders, task.space, block, largest))
        start = end
        size = min(BLOCK, max(1, int(size * PAUSE / max(time.perf_counter() - began, 1e-6))))
    seconds = time.perf_counter() - started
    rankings = [
        Ranking.joined([Ranking(part.index.cpu(), part.gain.cpu(), part.info) for part in parts])
        for parts in zip(*blocks, strict=True)
    ]
    return rankings, seconds
