"""Many decoders, many k, one set of judged queries: every cell measured once, kept when it is done."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import groupby, product
from numbers import Number
from pathlib import Path
from typing import Any, cast

import torch

from engine.decoder import SET_SIZE, Decoder, decoder_family
from engine.errors import DataError, ParamError
from engine.evaluation.aspects import Aspects
from engine.evaluation.metrics import METRICS, check_metrics
from engine.evaluation.sweep.cell import Cell, key_of
from engine.evaluation.sweep.compute import Task, Unit, digests_of, embedded
from engine.evaluation.sweep.executors import on_cluster, on_processes, run_serial
from engine.evaluation.sweep.store import Store
from engine.params import check_values, form_of, sweep_values
from engine.progress import Progress, Stop
from engine.space import Elsewhere, Space
from engine.stages import Selector, make, methods, spec_of
from engine.values import Embeddings, Qrels, Queries, Ranking, digest_of

TOGETHER = 12
"""Settings decoded together: more share more, and lose more where a sweep is killed."""


@dataclass(frozen=True, eq=False)
class _Request:
    """What `sweep` is asked for, checked."""

    task: Task
    decoders: tuple[Decoder, ...]
    ks: tuple[int, ...]
    store: Store | None

    def keys(self) -> dict[tuple[Decoder, int], str]:
        """(decoder, k) → the key of its cell."""
        task, data = self.task, {d: self.task.data_of(d) for d in self.decoders}
        return {(d, k): key_of(d, k, task.split, task.metrics, data[d]) for d in self.decoders for k in self.ks}


def grid(name: str, points: int = 11, **fixed: Any) -> list[Decoder]:
    """Decoders over the declared parameters of a selector, or of a scorer before top-k: `points` values each, or those
    that its paper names.

    fixed: parameters that stay as given, or take several values: grid("nnn", fill=("strict", "fill")) has the paper's
    decoder, whose sets may be shorter than k, beside the one whose sets a sweep fills up. Raises ParamError.
    """
    spec = spec_of(name)
    given = {n: tuple(v) if isinstance(v, list | tuple) else (v,) for n, v in fixed.items()}
    listed = {
        n: [check_values(spec.params, {n: v}, name)[n] for v in several(vs, n, "values")] for n, vs in given.items()
    }
    if isinstance(points, bool) or not isinstance(points, int) or points < 1:
        raise ParamError(f"points must be a whole number in [1, ∞); got {points!r}")
    single = {n: vs[0] for n, vs in listed.items() if len(vs) == 1}
    forms = [form if (form := form_of(p, single)[1]).swept is not None else p for p in spec.params]
    choices = [listed.get(p.name) or sweep_values(p, points) for p in forms]
    stages = [make(name, **dict(zip([p.name for p in spec.params], c, strict=True))) for c in product(*choices)]
    if spec.kind == "selector":
        return [Decoder(stage) for stage in stages]
    return [Decoder(make(next(iter(methods("selector")))), stage) for stage in stages]


def sweep(
    decoders: Sequence[Decoder],
    space: Space | Elsewhere,
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
    answers: Aspects | None = None,
) -> Iterator[Cell]:
    """Every decoder at every k, as Points, as they are finished; those that the store has come first.

    queries: those to decode, in their order, whose ids name the judgements; split: what the points call them; aspects,
    answers: for metrics that need them; store: a file of finished cells, made where there is none: what it holds is not
    computed again; workers: processes of this machine, none for this one; cluster: address of a Dask scheduler, which
    runs what its clients send it, so only one you trust; progress(done, total, label) counts cells. Raises ParamError
    or DataError before the first cell, and Cancelled when stopped: what is finished is in the store.
    """
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise ParamError(f"workers must be a whole number in [1, ∞) or None; got {workers!r}")
    if cluster is not None and not (isinstance(cluster, str) and cluster):
        raise ParamError(f"cluster must be the address of a Dask scheduler, tcp://host:port, or None; got {cluster!r}")
    if workers and cluster:
        raise ParamError("give workers or cluster, not both")
    _check_types(
        ("progress", progress, progress is None or callable(progress), "callable or None"),
        ("stop", stop, stop is None or hasattr(stop, "is_set"), "a threading.Event or None"),
    )
    request = _request(decoders, space, queries, qrels, k, metrics, split, aspects, store, answers)
    return _cells(request, workers, cluster, progress or (lambda *_: None), stop)


def stored_cells(
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
) -> tuple[list[Cell], int]:
    """The cells of a sweep that a store has, and how many it has not; nothing is computed. Raises as `sweep`."""
    request = _request(decoders, space, queries, qrels, k, metrics, split, aspects, store)
    keys = set(request.keys().values())
    cells = list(request.store.points(keys)) if request.store else []
    return cells, len(keys) - len(cells)


def _request(
    decoders: Any, space: Any, queries: Any, qrels: Any, k: Any, metrics: Any, split: Any, aspects: Any, store: Any,
    answers: Any = None,
) -> _Request:  # fmt: skip
    """The arguments of `sweep`, checked."""
    chosen = tuple(dict.fromkeys(several(decoders, "decoders", "a list of engine.Decoder", Decoder)))
    sizes: list[int] = [cast(int, k)] if isinstance(k, Number) else several(k, "k", "a whole number or a list of them")
    ks = tuple(sorted({SET_SIZE.check(size) for size in sizes}))
    named = [metrics] if isinstance(metrics, str) else several(metrics, "metrics", "a list of names", str)
    names = tuple(dict.fromkeys(named))
    check_metrics(names)
    _check_types(
        ("space", space, isinstance(space, Space | Elsewhere), "an engine.Space"),
        ("queries", queries, isinstance(queries, Queries | Embeddings), "engine.Queries or engine.Embeddings"),
        ("qrels", qrels, qrels is None or isinstance(qrels, Qrels), "engine.Qrels, as data.qrels['test'] is, or None"),
        ("split", split, isinstance(split, str), "text"),
        ("aspects", aspects, aspects is None or isinstance(aspects, Mapping), "a mapping, as data.aspects is, or None"),
        ("answers", answers, answers is None or isinstance(answers, Mapping), "a mapping, as aspects are, or None"),
        ("store", store, store is None or isinstance(store, Store | str | Path), "a path, a Store or None"),
    )
    if not len(queries):
        raise DataError("queries must hold at least one query; got none")
    vectors = embedded(space, queries)
    aspects, answers = (
        given if any(METRICS[m].needs == need for m in names) else None
        for need, given in (("aspects", aspects), ("answers", answers))
    )
    task = Task(
        space=space,
        vectors=vectors,
        qrels=qrels,
        aspects=aspects,
        metrics=names,
        split=split,
        data={},
        texts=digest_of(vectors.texts or ()),
        answers=answers,
    )
    # Whatever cannot be measured says so now, before anything is made of the aspects.
    index = torch.full((len(queries), ks[0]), -1)
    task.measure(Ranking(index, index.double(), ()), ks[0])
    return _Request(
        replace(task, data=digests_of(space, vectors, qrels, aspects, answers)), chosen, ks, Store.of(store)
    )


def _check_types(*arguments: tuple[str, Any, bool, str]) -> None:
    """Raise a DataError that names the first argument that is not right; each: name, value, right, what it must be."""
    for name, value, right, what in arguments:
        if not right:
            raise DataError(f"{name} must be {what}; got {type(value).__name__}")


def several(values: Any, name: str, what: str, kind: type = object) -> list[Any]:
    """The values as a list, or a ParamError that names the argument."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ParamError(f"{name} must be {what}; got {values!r}")
    listed = list(values)
    if not listed:
        raise ParamError(f"{name} must be {what}, at least one; got none")
    if wrong := [value for value in listed if not isinstance(value, kind)]:
        raise ParamError(f"{name} must be {what}; got {wrong[0]!r} among them")
    return listed


def _cells(
    request: _Request, workers: int | None, cluster: str | None, report: Progress, stop: Stop | None
) -> Iterator[Cell]:
    """The cells of a request: those of the store first, then the others as they are finished."""
    task, store, keys = request.task, request.store, request.keys()
    known = store.known(keys.values()) if store else set()
    total, done = len(keys), 0
    report(0, total, "sweeping")
    if store and known:
        for done, cell in enumerate(store.points(known), 1):
            report(done, total, "sweeping")
            yield cell
    missing = {cell for cell, key in keys.items() if key not in known}
    units = list(_units(request.decoders, request.ks, missing))
    if workers:
        computed = on_processes(task, units, workers, stop)
    elif cluster:
        computed = on_cluster(task, units, cluster, stop)
    else:
        computed = run_serial(task, units, stop)
    # Whatever happens here, workers are told to end.
    with closing(computed):
        for cell in computed:
            if store:
                store.put(cell)
            done += 1
            report(done, total, "sweeping")
            yield cell


def _units(decoders: Sequence[Decoder], ks: tuple[int, ...], missing: set[tuple[Decoder, int]]) -> Iterator[Unit]:
    """The missing cells, in pieces that share work; the order of the decoders is kept."""
    pending = [(d, tuple(k for k in ks if (d, k) in missing)) for d in decoders]
    for (_, sizes), group in groupby((p for p in pending if p[1]), key=lambda p: (decoder_family(p[0]), p[1])):
        members = [decoder for decoder, _ in group]
        kind = type(members[0].select)
        # A bound classmethod has the function of the class that defines it.
        own_grid: Any = kind.select_grid
        size = TOGETHER if own_grid.__func__ is not vars(Selector)["select_grid"].__func__ else 1
        # From 2 on: at k = 1 some methods just take the most relevant.
        shared = [k for k in sizes if kind.nested and k > 1]
        parts = ([tuple(shared)] if shared else []) + [(k,) for k in sizes if k not in shared]
        for start in range(0, len(members), size):
            for part in parts:
                yield Unit(tuple(members[start : start + size]), part)
