"""Many decoders, many k, one set of judged queries: every cell measured once, kept when it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from pathlib import Path
from typing import Any

import numpy as np

from engine.decoder import SET_SIZE, Decoder, decode_grid, family, query_batch
from engine.errors import Cancelled, DataError, ParamError
from engine.evaluation.metrics import METRICS, measure
from engine.evaluation.points import Point, as_json, from_json, key_of, point
from engine.evaluation.store import Store
from engine.params import checked, sweep_values
from engine.progress import Progress, Stop
from engine.space import Space
from engine.stages import Selector, make, spec_of
from engine.values import Embeddings, Qrels, Queries, Ranking, digest_of

BLOCK = 64
"""Queries decoded between two looks at whether to stop."""
TOGETHER = 12
"""Settings decoded together: more share more, and lose more where a sweep is killed."""


@dataclass(frozen=True, eq=False)
class Task:
    """What every unit of a sweep needs. vectors: the queries' embeddings."""

    space: Space
    vectors: Embeddings
    qrels: Qrels | None
    aspects: Mapping[str, Mapping[str, frozenset[str]]] | None
    metrics: tuple[str, ...]
    split: str
    data: Mapping[str, str]


@dataclass(frozen=True)
class Unit:
    """Decoders of one family at ks that one decoding answers."""

    decoders: tuple[Decoder, ...]
    ks: tuple[int, ...]


def grid(name: str, points: int = 11, **fixed: Any) -> list[Decoder]:
    """Decoders over a selector's declared parameters: `points` values each, fewer where its paper names them.

    fixed: parameters that stay as given. Raises ParamError.
    """
    spec = spec_of(name, "selector")
    fixed = checked(spec.params, fixed, name)
    if isinstance(points, bool) or not isinstance(points, int) or points < 1:
        raise ParamError(f"points must be a whole number in [1, ∞); got {points!r}")
    choices = [(fixed[p.name],) if p.name in fixed else sweep_values(p, points) for p in spec.params]
    return [Decoder(make(name, **dict(zip([p.name for p in spec.params], c, strict=True)))) for c in product(*choices)]


def sweep(
    decoders: Sequence[Decoder],
    space: Space,
    queries: Queries | Embeddings,
    qrels: Qrels | None = None,
    k: int | Sequence[int] = (5, 10),
    metrics: Sequence[str] = ("recall", "comp", "ndcg", "ilad"),
    *,
    split: str = "",
    aspects: Mapping[str, Mapping[str, frozenset[str]]] | None = None,
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
    ks = (k,) if isinstance(k, int) else tuple(dict.fromkeys(k))
    ks = tuple(sorted(SET_SIZE.check(value) for value in ks))
    if not ks or not decoders:
        raise ParamError(f"decoders and k must hold at least one each; got {len(decoders)} decoders, k {k!r}")
    for decoder in decoders:
        if not isinstance(decoder, Decoder):
            raise ParamError(f"decoders must be engine.Decoder; got {decoder!r}")
    names = (metrics,) if isinstance(metrics, str) else tuple(dict.fromkeys(metrics))
    if unknown := [m for m in names if m not in METRICS]:
        raise ParamError(f"metrics must be among {', '.join(METRICS)}; got {', '.join(map(repr, unknown))}")
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise ParamError(f"workers must be a whole number in [1, ∞) or None; got {workers!r}")
    if workers and cluster:
        raise ParamError("give workers or cluster, not both")
    if not isinstance(queries, Queries | Embeddings):
        raise DataError(f"queries must be engine.Queries or engine.Embeddings; got {type(queries).__name__}")
    if not len(queries):
        raise DataError("queries must hold at least one query; got none")
    ids = queries.ids
    vectors = Embeddings(query_batch(space, queries).vectors.cpu(), ids, space.embeddings.encoder)
    task = Task(space, vectors, qrels, aspects, names, split, _data(space, vectors, qrels, aspects))
    # Whatever cannot be measured says so now.
    _measured(task, Ranking(_nothing(min(ks), len(ids)), _nothing(min(ks), len(ids)).double(), ()), min(ks), ids)
    kept = Store(store) if isinstance(store, str | Path) else store
    return _points(task, list(dict.fromkeys(decoders)), ks, kept, workers, cluster, progress, stop)


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

    keys = {(d, k): key_of(d, k, task.split, task.metrics, task.data) for d in decoders for k in ks}
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
    """The points of a unit; raises Cancelled between two blocks of queries when stopped."""
    ids, largest = task.vectors.ids, max(unit.ks)
    answers: list[list[Ranking]] = []
    started = time.perf_counter()
    for at in range(0, len(ids), BLOCK):
        if stopped():
            raise Cancelled("the sweep was stopped; what is finished is kept where there is a store")
        some = Embeddings(task.vectors.vectors[at : at + BLOCK], ids[at : at + BLOCK], task.vectors.encoder)
        answers.append(decode_grid(unit.decoders, task.space, some, largest))
    took = 1000 * (time.perf_counter() - started) / (len(ids) * len(unit.decoders))
    points = []
    for decoder, parts in zip(unit.decoders, zip(*answers, strict=True), strict=True):
        ranking = Ranking.joined([Ranking(part.index.cpu(), part.gain.cpu(), part.info) for part in parts])
        for k in unit.ks:
            values, left_out = _measured(task, ranking, k, ids)
            returned = float((ranking.index[:, :k] >= 0).sum(1).double().mean())
            known = {"left_out": left_out, "returned": returned, "milliseconds": took}
            place = {"data": task.data, "device": task.space.device.type}
            points.append(point(decoder, k, task.split, ids, values, **known, **place))
    return points


def _measured(task: Task, ranking: Ranking, k: int, ids: Sequence[str]) -> tuple[dict[str, np.ndarray], int]:
    extra = {"aspects": task.aspects} if task.aspects is not None else {}
    found = measure(ranking, task.space, task.vectors, task.qrels, k, task.metrics, **extra)
    return {
        name: np.array([found.per_query[name].get(q, np.nan) for q in ids], dtype=np.float64) for name in task.metrics
    }, found.left_out


def _nothing(k: int, count: int) -> Any:
    import torch

    return torch.full((count, k), -1, dtype=torch.int64)


def _data(space: Space, vectors: Embeddings, qrels: Qrels | None, aspects: Any) -> dict[str, str]:
    """Digests of all that a cell is computed from."""
    found = {"corpus": space.corpus.digest, "embeddings": space.embeddings.digest, "queries": vectors.digest}
    if qrels is not None:
        found["qrels"] = qrels.digest
    if aspects is not None:
        flat = (part for q in sorted(aspects) for a in sorted(aspects[q]) for part in (q, a, *sorted(aspects[q][a])))
        found["aspects"] = digest_of(flat)
    return found


def packed(unit: Unit) -> dict[str, Any]:
    """A unit as plain values, for another process; `unpacked` reads it."""
    return {"decoders": [as_json(d) for d in unit.decoders], "ks": list(unit.ks)}


def unpacked(values: Mapping[str, Any]) -> Unit:
    return Unit(tuple(from_json(d) for d in values["decoders"]), tuple(values["ks"]))
