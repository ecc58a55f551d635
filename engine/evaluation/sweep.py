"""Many decoders, many k, one set of judged queries: every cell measured once, kept when it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby, product
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.decoder import SET_SIZE, Decoder, decode_grid, family, query_batch
from engine.errors import Cancelled, DataError, ParamError
from engine.evaluation.aspects import Aspects, digest_of_aspects
from engine.evaluation.metrics import METRICS, measure
from engine.evaluation.points import Point, as_json, from_json, key_of, point
from engine.evaluation.store import Store
from engine.params import checked, sweep_values
from engine.progress import Progress, Stop, watched, watcher
from engine.space import Space
from engine.stages import Selector, make, methods, spec_of
from engine.values import Embeddings, Qrels, Queries, Ranking, digest_of

STOPPED = "the sweep was stopped; what is finished is kept where there is a store"
BLOCK, FIRST_SCORES, PAUSE = 64, 100_000, 0.4
"""Between two looks at whether to stop: at most so many queries; at first no more than so many scores (documents ×
settings × queries), then what takes so many seconds."""
TOGETHER = 12
"""Settings decoded together: more share more, and lose more where a sweep is killed."""


@dataclass(frozen=True, eq=False)
class Task:
    """What every unit of a sweep needs. vectors: the queries' embeddings."""

    space: Space
    vectors: Embeddings
    qrels: Qrels | None
    aspects: Aspects | None
    metrics: tuple[str, ...]
    split: str
    data: Mapping[str, str]
    texts: str

    def data_of(self, decoder: Decoder) -> dict[str, str]:
        """Digests of all that a cell is computed from: the queries' texts too where a scorer reads them."""
        found = dict(self.data)
        for scorer in filter(None, (decoder.retrieve, decoder.rerank)):
            if scorer.words:
                found["texts"] = self.texts
            found.update(scorer.reads(self.space))
        return found


@dataclass(frozen=True)
class Unit:
    """Decoders of one family at ks that one decoding answers."""

    decoders: tuple[Decoder, ...]
    ks: tuple[int, ...]


def grid(name: str, points: int = 11, **fixed: Any) -> list[Decoder]:
    """Decoders over the declared parameters of a selector, or of a scorer before top-k: `points` values each, or those
    that its paper names.

    fixed: parameters that stay as given. Raises ParamError.
    """
    spec = spec_of(name)
    fixed = checked(spec.params, fixed, name)
    if isinstance(points, bool) or not isinstance(points, int) or points < 1:
        raise ParamError(f"points must be a whole number in [1, ∞); got {points!r}")
    choices = [(fixed[p.name],) if p.name in fixed else sweep_values(p, points) for p in spec.params]
    stages = [make(name, **dict(zip([p.name for p in spec.params], c, strict=True))) for c in product(*choices)]
    if spec.kind == "selector":
        return [Decoder(stage) for stage in stages]
    return [Decoder(make(next(iter(methods("selector")))), stage) for stage in stages]


def sweep(
    decoders: Sequence[Decoder],
    space: Space,
    queries: Queries | Embeddings,
    qrels: Qrels | None = None,
    k: int | Sequence[int] = (5, 10),
    metrics: Sequence[str] = ("recall", "comp", "ndcg", "ilad"),
    *,
    split: str = "",
    aspects: Aspects | None = None,
    store: Store | str | Path | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Iterator[Point]:
    """Every decoder at every k, as Points, as they are finished; those that the store has come first.

    queries: those to decode, in their order, whose ids name the judgements; split: what the points call them; aspects:
    for metrics that need them; store: a file of finished cells, made where there is none: what it holds is not computed
    again; workers: processes of this machine, none for this one; cluster: address of a Dask scheduler, which runs what
    its clients send it, so only one you trust; progress(done, total, label) counts cells. Raises ParamError or
    DataError before the first cell, and Cancelled when stopped: what is finished is in the store.
    """
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise ParamError(f"workers must be a whole number in [1, ∞) or None; got {workers!r}")
    if cluster is not None and not (isinstance(cluster, str) and cluster):
        raise ParamError(f"cluster must be the address of a Dask scheduler, tcp://host:port, or None; got {cluster!r}")
    if workers and cluster:
        raise ParamError("give workers or cluster, not both")
    for name, value, right, what in (
        ("progress", progress, progress is None or callable(progress), "callable or None"),
        ("stop", stop, stop is None or hasattr(stop, "is_set"), "a threading.Event or None"),
    ):
        if not right:
            raise DataError(f"{name} must be {what}; got {type(value).__name__}")
    task, wanted, ks, kept = _asked(decoders, space, queries, qrels, k, metrics, split, aspects, store)
    return _points(task, wanted, ks, kept, workers, cluster, progress, stop)


def held(
    decoders: Sequence[Decoder],
    space: Space,
    queries: Embeddings,
    qrels: Qrels | None = None,
    k: int | Sequence[int] = (5, 10),
    metrics: Sequence[str] = ("recall", "comp", "ndcg", "ilad"),
    *,
    split: str = "",
    aspects: Aspects | None = None,
    store: Store | str | Path,
) -> tuple[list[Point], int]:
    """The cells of a sweep that a store has, and how many it has not; nothing is computed. Raises as `sweep`."""
    task, wanted, ks, kept = _asked(decoders, space, queries, qrels, k, metrics, split, aspects, store)
    keys = _keys(task, wanted, ks).values()
    points = list(kept.points(keys))
    return points, len(set(keys)) - len(points)


def _keys(task: Task, decoders: Sequence[Decoder], ks: Sequence[int]) -> dict[tuple[Decoder, int], str]:
    data = {d: task.data_of(d) for d in decoders}
    return {(d, k): key_of(d, k, task.split, task.metrics, data[d]) for d in decoders for k in ks}


def _asked(
    decoders: Any, space: Any, queries: Any, qrels: Any, k: Any, metrics: Any, split: Any, aspects: Any, store: Any
) -> tuple[Task, list[Decoder], tuple[int, ...], Store | None]:
    """What `sweep` is asked for, checked."""
    wanted = list(dict.fromkeys(_several(decoders, "decoders", "a list of engine.Decoder", Decoder)))
    sizes = [k] if isinstance(k, Number) else _several(k, "k", "a whole number or a list of them")
    ks = tuple(sorted({SET_SIZE.check(size) for size in sizes}))
    named = [metrics] if isinstance(metrics, str) else _several(metrics, "metrics", "a list of names", str)
    names = tuple(dict.fromkeys(named))
    if unknown := [m for m in names if m not in METRICS]:
        raise ParamError(f"metrics must be among {', '.join(METRICS)}; got {', '.join(map(repr, unknown))}")
    for name, value, right, what in (
        ("space", space, isinstance(space, Space), "an engine.Space"),
        ("queries", queries, isinstance(queries, Queries | Embeddings), "engine.Queries or engine.Embeddings"),
        ("qrels", qrels, qrels is None or isinstance(qrels, Qrels), "engine.Qrels, as data.qrels['test'] is, or None"),
        ("split", split, isinstance(split, str), "text"),
        ("aspects", aspects, aspects is None or isinstance(aspects, Mapping), "a mapping, as data.aspects is, or None"),
        ("store", store, store is None or isinstance(store, Store | str | Path), "a path, a Store or None"),
    ):
        if not right:
            raise DataError(f"{name} must be {what}; got {type(value).__name__}")
    if not len(queries):
        raise DataError("queries must hold at least one query; got none")
    ids = queries.ids
    batch = query_batch(space, queries)
    vectors = Embeddings(batch.vectors.cpu(), ids, space.embeddings.encoder, batch.texts)
    if not any(METRICS[m].needs == "aspects" for m in names):
        aspects = None
    texts = digest_of(vectors.texts or ())
    task = Task(space, vectors, qrels, aspects, names, split, _data(space, vectors, qrels, aspects), texts)
    # Whatever cannot be measured says so now.
    _measured(task, _nothing(len(ids), min(ks)), min(ks))
    return task, wanted, ks, Store(store) if isinstance(store, str | Path) else store


def _several(values: Any, name: str, what: str, kind: type = object) -> list[Any]:
    """The values as a list, or a ParamError that names the argument."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ParamError(f"{name} must be {what}; got {values!r}")
    found = list(values)
    if not found:
        raise ParamError(f"{name} must hold at least one; got none")
    if wrong := [value for value in found if not isinstance(value, kind)]:
        raise ParamError(f"{name} must be {what}; got {wrong[0]!r} among them")
    return found


def _points(
    task: Task,
    decoders: list[Decoder],
    ks: tuple[int, ...],
    store: Store | None,
    workers: int | None,
    cluster: str | None,
    progress: Progress | None,
    stop: Stop | None,
) -> Iterator[Point]:
    from engine.evaluation.executors import here, on_cluster, on_processes

    keys = _keys(task, decoders, ks)
    known = store.known(keys.values()) if store else set()
    total, done = len(keys), 0
    report = progress or (lambda *_: None)
    report(0, total, "sweeping")
    if store and known:
        for found in store.points(known):
            done += 1
            report(done, total, "sweeping")
            yield found
    missing = {cell for cell, key in keys.items() if key not in known}
    units = list(_units(decoders, ks, missing))
    if workers:
        finished = on_processes(task, units, workers, stop)
    elif cluster:
        finished = on_cluster(task, units, cluster, stop)
    else:
        finished = here(task, units, stop)
    # Whatever happens here, workers are told to end.
    with closing(finished):
        for found in finished:
            if store:
                store.put(found)
            done += 1
            report(done, total, "sweeping")
            yield found


def _units(decoders: Sequence[Decoder], ks: tuple[int, ...], missing: set[tuple[Decoder, int]]) -> Iterator[Unit]:
    """The missing cells, in pieces that share work; the order of the decoders is kept."""
    wanted = [(d, tuple(k for k in ks if (d, k) in missing)) for d in decoders]
    for (_, _), group in groupby((w for w in wanted if w[1]), key=lambda w: (family(w[0]), w[1])):
        members = list(group)
        kind, own = type(members[0][0].select), members[0][1]
        size = TOGETHER if kind.select_grid.__func__ is not Selector.select_grid.__func__ else 1
        # From 2 on: at k = 1 some methods just take the most relevant.
        shared = [k for k in own if kind.nested and k > 1]
        parts = ([tuple(shared)] if shared else []) + [(k,) for k in own if k not in shared]
        for at in range(0, len(members), size):
            some = tuple(d for d, _ in members[at : at + size])
            for part in parts:
                yield Unit(some, part)


def computed(task: Task, unit: Unit, stopped: Callable[[], bool]) -> list[Point]:
    """The points of a unit; raises Cancelled when stopped, between two blocks of queries or inside a slow stage."""
    with watched(watcher()[0], _Asking(stopped)):
        return _computed(task, unit, stopped)


@dataclass(frozen=True)
class _Asking:
    is_set: Callable[[], bool]


def _computed(task: Task, unit: Unit, stopped: Callable[[], bool]) -> list[Point]:
    ids, largest = task.vectors.ids, max(unit.ks)
    answers: list[list[Ranking]] = []
    # What is compiled in a process's first call, or indexed, is no part of the time that a query takes.
    type(unit.decoders[0].select).warm()
    for scorer in filter(None, (unit.decoders[0].retrieve, unit.decoders[0].rerank)):
        scorer.prepare(task.space)
    started = time.perf_counter()
    at, size = 0, max(1, min(BLOCK, FIRST_SCORES // (len(task.space) * len(unit.decoders))))
    while at < len(ids):
        if stopped():
            raise Cancelled(STOPPED)
        began, end = time.perf_counter(), at + size
        some = task.vectors.take(range(at, min(end, len(ids))))
        answers.append(decode_grid(unit.decoders, task.space, some, largest))
        at = end
        size = min(BLOCK, max(1, int(size * PAUSE / max(time.perf_counter() - began, 1e-6))))
    took = 1000 * (time.perf_counter() - started) / (len(ids) * len(unit.decoders))
    points, data = [], {decoder: task.data_of(decoder) for decoder in unit.decoders}
    for decoder, parts in zip(unit.decoders, zip(*answers, strict=True), strict=True):
        if stopped():
            raise Cancelled(STOPPED)
        ranking = Ranking.joined([Ranking(part.index.cpu(), part.gain.cpu(), part.info) for part in parts])
        for k in unit.ks:
            values, left_out = _measured(task, ranking, k)
            returned = float((ranking.index[:, :k] >= 0).sum(1).double().mean())
            known = {"left_out": left_out, "returned": returned, "milliseconds": took}
            place = {"data": data[decoder], "device": task.space.device.type}
            points.append(point(decoder, k, task.split, ids, values, **known, **place))
    return points


def _measured(task: Task, ranking: Ranking, k: int) -> tuple[dict[str, np.ndarray], int]:
    found = measure(ranking, task.space, task.vectors, task.qrels, k, task.metrics, task.aspects)
    return dict(found.values), found.left_out


def _nothing(count: int, k: int) -> Ranking:
    index = torch.full((count, k), -1)
    return Ranking(index, index.double(), ())


def _data(space: Space, vectors: Embeddings, qrels: Qrels | None, aspects: Aspects | None) -> dict[str, str]:
    """Digests of what every cell is computed from."""
    found = {"corpus": space.corpus.digest, "embeddings": space.embeddings.digest, "queries": vectors.digest}
    if qrels is not None:
        found["qrels"] = qrels.digest
    if aspects is not None:
        found["aspects"] = digest_of_aspects(aspects)
    return found


def packed(unit: Unit) -> dict[str, Any]:
    """A unit as plain values, for another process; `unpacked` reads it."""
    return {"decoders": [as_json(d) for d in unit.decoders], "ks": list(unit.ks)}


def unpacked(values: Mapping[str, Any]) -> Unit:
    return Unit(tuple(from_json(d) for d in values["decoders"]), tuple(values["ks"]))
