"""Sweep of decoders and k over a set of judged queries: every cell is measured once and stored when done."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, product
from numbers import Number
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import torch

from engine.data.endpoints.consent import Allowance, limit_tokens
from engine.decoder import SET_SIZE, Decoder, decoder_family
from engine.errors import DataError, ParamError
from engine.evaluation.aspects import Aspects
from engine.evaluation.duplicate_threshold import check_duplicate_threshold
from engine.evaluation.metrics import METRICS, check_metrics
from engine.evaluation.set_relevance import add_set_relevance, describe_corpus_relevance
from engine.evaluation.sweep.cell import Cell, compute_cell_key
from engine.evaluation.sweep.compute import (
    Task,
    Unit,
    collect_digests,
    embed_for_space,
    group_nested_sizes,
)
from engine.evaluation.sweep.executors import run_on_cluster, run_on_processes, run_serial
from engine.evaluation.sweep.store import Store
from engine.params import check_values, form_of, sweep_values
from engine.progress import Progress, Stop
from engine.space import Elsewhere, Space
from engine.stages import Selector, make, methods, spec_of
from engine.values import Embeddings, Qrels, Queries, Ranking, digest_of

DECODER_GROUP_SIZE = 12
"""Settings decoded together: larger groups share more work, and lose more where a sweep is killed."""


@dataclass(frozen=True, eq=False)
class _SweepRequest:
    """The checked arguments of `sweep`; every decoder is measured at every k."""

    task: Task  # space, queries, judgements and metrics
    decoders: tuple[Decoder, ...]  # each once
    ks: tuple[int, ...]  # sizes of the retrieved sets, rising
    store: Store | None  # file of finished cells

    def compute_keys(self) -> dict[tuple[Decoder, int], str]:
        """Compute the key of each cell, a digest of all that it depends on; return (decoder, k) → key."""
        task, cell_keys = self.task, {}
        for decoder in self.decoders:
            digests = task.collect_dependencies(decoder)
            for k in self.ks:
                cell_keys[decoder, k] = compute_cell_key(decoder, k, task.split, task.metrics, digests)
        return cell_keys


def grid(name: str, points: int = 11, **fixed: Any) -> list[Decoder]:
    """Build decoders over the parameters of a selector, or of a scorer before top-k.

    Parameters
    ----------
    name : str
        The name of a selector or scorer.
    points : int
        The number of values per parameter, if its paper names none.
    **fixed
        Parameters with one value, or with several to combine: `grid("nnn", fill=("strict", "fill"))` has the
        paper's decoder, whose sets can be shorter than k, beside the one that fills its sets up.

    Returns
    -------
    list of Decoder
        One decoder for each combination of values.

    Raises
    ------
    ParamError
        If a name or value is invalid.

    Examples
    --------
    >>> import engine
    >>> len(engine.grid("mmr", 3))
    3
    """
    spec = spec_of(name)
    checked_values = {}
    for option, value in fixed.items():
        values = check_list(value if isinstance(value, list | tuple) else (value,), option, "values")
        checked_values[option] = [check_values(spec.params, {option: value}, name)[option] for value in values]
    if isinstance(points, bool) or not isinstance(points, int) or points < 1:
        raise ParamError(f"points must be a whole number in [1, ∞); got {points!r}")
    single_values = {option: values[0] for option, values in checked_values.items() if len(values) == 1}
    choices = {}
    for param in spec.params:
        # A parameter's form is its declaration beside the fixed values of others: λ₁, for example, is a penalty or a
        # number of documents. The values of its form are swept, if it declares any.
        _deciding_value, form = form_of(param, single_values)
        active_form = param if form.swept is None else form
        choices[param.name] = checked_values.get(active_form.name) or sweep_values(active_form, points)
    stages = [make(name, **dict(zip(choices, chosen, strict=True))) for chosen in product(*choices.values())]
    if spec.kind == "selector":
        return list(map(Decoder, stages))
    # A scorer is measured behind the first selector, which is plain top-k.
    return list(map(partial(Decoder, make(next(iter(methods("selector"))))), stages))


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
    source: str | None = None,
    duplicate_threshold: float | None = None,
) -> Iterator[Cell]:
    """Measure decoders at every k, and yield each cell when it is finished.

    Cells that the store has come first.

    Parameters
    ----------
    decoders : sequence of Decoder
        The decoders to measure.
    space : Space or Elsewhere
        The corpus to search.
    queries : Queries or Embeddings
        The queries to decode, in this order; their ids name the judgements.
    qrels : Qrels or None
        Their judgements.
    k : int or sequence of int
        One or several sizes of the retrieved sets.
    metrics : sequence of str
        Names of metrics.
    split : str
        The name of the split in the cells.
    aspects : mapping or None
        Query id → aspect → ids of the documents that cover it.
    store : Store, str, Path or None
        A file of finished cells, created if need be; the cells in it are not computed again.
    workers : int or None
        The number of processes on this machine; by default none but this one.
    cluster : str or None
        The address of a Dask scheduler. It runs what its clients send, so use one that you trust.
    progress : callable or None
        Called repeatedly as progress(done, total, label).
    stop : callable or None
        The work is cancelled once it returns true.
    answers : mapping or None
        Query id → answer → ids of the documents that contain it.
    source : str or None
        The metadata column of the corpus that names the sources, for the metric `unique_sources`.
    duplicate_threshold : float or None
        The cosine from which on two documents are near-duplicates, for the metric `redundancy`, as `measure` takes it.

    Returns
    -------
    iterator of Cell
        One cell for each decoder and k.

    Raises
    ------
    ParamError, DataError
        If an argument is invalid or inputs do not belong together; before the first cell.
    Cancelled
        If it is stopped; finished cells are in the store.

    Examples
    --------
    >>> import engine, torch
    >>> corpus = engine.Corpus(("a", "b", "c"), ("red apple", "green apple", "blue sky"))
    >>> space = engine.Space(corpus, engine.Embeddings(("a", "b", "c"), torch.eye(3)))
    >>> queries, qrels = engine.Embeddings(("q",), torch.tensor([[1.0, 0.5, 0.1]])), engine.Qrels({"q": {"a": 1}})
    >>> cells = list(engine.sweep(engine.grid("mmr", 2), space, queries, qrels, k=1, metrics=["recall"]))
    >>> [cell.mean["recall"] for cell in cells]
    [1.0, 1.0]
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
    # The queries are embedded here, and the rest is sent as cells are asked for: one call in all.
    with limit_tokens() as allowance:
        request = _check_request(
            decoders, space, queries, qrels, k, metrics, split, aspects, store, answers, source, duplicate_threshold
        )
    return _iterate_cells(request, workers, cluster, progress or (lambda *_: None), stop, allowance)


def count_missing_cells(store: Store | str | Path, **arguments: Any) -> int:
    """Count the cells of a sweep that a store lacks, without reading those that it has.

    A cell is one decoder's metrics, query by query, at one k. arguments: those of `stored_cells`, by name. Raises as
    `sweep` does.
    """
    request = _check_request(store=store, **arguments)
    assert request.store is not None
    cell_keys = set(request.compute_keys().values())
    return len(cell_keys) - len(request.store.find_stored_keys(cell_keys))


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
    source: str | None = None,
    duplicate_threshold: float | None = None,
) -> tuple[list[Cell], int]:
    """Read a sweep's stored cells; return them and the number of missing ones. Raises as `sweep` does."""
    request = _check_request(
        decoders, space, queries, qrels, k, metrics, split, aspects, store, None, source, duplicate_threshold
    )
    cell_keys = set(request.compute_keys().values())
    stored = list(request.store.read_cells(cell_keys)) if request.store else []
    return stored, len(cell_keys) - len(stored)


def _check_request(
    decoders: Any, space: Any, queries: Any, qrels: Any, k: Any, metrics: Any, split: Any, aspects: Any, store: Any,
    answers: Any = None, source: Any = None, duplicate_threshold: Any = None,
) -> _SweepRequest:  # fmt: skip
    """Check the arguments of `sweep` and embed its queries; return what the sweep and its store need.

    Raises ParamError or DataError, also for metrics that these inputs do not allow.
    """
    distinct_decoders = tuple(dict.fromkeys(check_list(decoders, "decoders", "a list of engine.Decoder", Decoder)))
    set_sizes = [cast(int, k)] if isinstance(k, Number) else check_list(k, "k", "a whole number or a list of them")
    ks = tuple(sorted(set(map(SET_SIZE.check, set_sizes))))
    metric_list = [metrics] if isinstance(metrics, str) else check_list(metrics, "metrics", "a list of names", str)
    check_metrics(metric_list)
    _check_types(
        ("space", space, isinstance(space, Space | Elsewhere), "an engine.Space"),
        ("queries", queries, isinstance(queries, Queries | Embeddings), "engine.Queries or engine.Embeddings"),
        (
            "qrels",
            qrels,
            qrels is None or isinstance(qrels, Qrels),
            "engine.Qrels, as engine.load_qrels returns, or None",
        ),
        ("split", split, isinstance(split, str), "text"),
        ("aspects", aspects, aspects is None or isinstance(aspects, Mapping), "a mapping, as data.aspects is, or None"),
        ("answers", answers, answers is None or isinstance(answers, Mapping), "a mapping, as aspects are, or None"),
        ("source", source, source is None or isinstance(source, str), "the name of a column, or None"),
        ("store", store, store is None or isinstance(store, Store | str | Path), "a path, a Store or None"),
    )
    if not len(queries):
        raise DataError("queries must hold at least one query; got none")
    names = add_set_relevance(metric_list, split, queries.ids)
    query_vectors = embed_for_space(space, queries)
    # Data that no metric needs must not change the key of a cell.
    needs = {METRICS[metric].needs for metric in names}
    aspects, answers = aspects if "aspects" in needs else None, answers if "answers" in needs else None
    source = source if "source" in needs else None
    texts_digest = digest_of(query_vectors.texts or ())
    threshold = check_duplicate_threshold(duplicate_threshold)
    task = Task(
        space=space, vectors=query_vectors, qrels=qrels, aspects=aspects, metrics=names, split=split,
        data_digests={}, texts_digest=texts_digest, answers=answers, source=source,
        duplicate_threshold=threshold,
    )  # fmt: skip
    # Measuring an empty ranking raises now for metrics that cannot be measured, before the aspects are digested.
    empty_rows = torch.full((len(queries), ks[0]), -1)
    task.measure_ranking(Ranking(empty_rows, empty_rows.double(), ()), ks[0])
    data_digests = collect_digests(space, query_vectors, qrels, aspects, answers)
    data_digests |= describe_corpus_relevance(space, query_vectors, split)
    task = replace(task, data_digests=data_digests)
    return _SweepRequest(task, distinct_decoders, ks, Store.open_store(store))


def _check_types(*arguments: tuple[str, Any, bool, str]) -> None:
    """Raise a DataError for the first wrong argument of (name, value, is_right, expected)."""
    for argument, value, is_right, expected in arguments:
        if not is_right:
            raise DataError(f"{argument} must be {expected}; got {type(value).__name__}")


def check_list(values: Any, argument: str, expected: str, item_type: type = object) -> list[Any]:
    """Return the values as a non-empty list of one type, or raise a ParamError that names the argument."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ParamError(f"{argument} must be {expected}; got {values!r}")
    value_list = list(values)
    if not value_list:
        raise ParamError(f"{argument} must be {expected}, at least one; got none")
    for value in value_list:
        if not isinstance(value, item_type):
            raise ParamError(f"{argument} must be {expected}; got {value!r} among them")
    return value_list


def _iterate_cells(
    request: _SweepRequest,
    workers: int | None,
    cluster: str | None,
    progress: Progress,
    stop: Stop | None,
    allowance: Allowance,
) -> Iterator[Cell]:
    """Yield a sweep's cells: the stored ones, then the missing ones as they are computed and stored.

    A cell is the measurement of one decoder at one k. workers: processes on this machine, None for this one; cluster:
    address of a Dask scheduler, None for none; allowance: of the call. Raises Cancelled when stopped.
    """
    task, store, cell_keys = request.task, request.store, request.compute_keys()
    stored_keys = store.find_stored_keys(cell_keys.values()) if store else set()
    n_cells, n_done = len(cell_keys), 0
    progress(0, n_cells, "sweeping")
    if store and stored_keys:
        for n_done, cell in enumerate(store.read_cells(stored_keys), 1):
            progress(n_done, n_cells, "sweeping")
            yield cell
    missing = {cell for cell, cell_key in cell_keys.items() if cell_key not in stored_keys}
    units = list(_iterate_units(request.decoders, request.ks, missing))
    if workers:
        computed_cells = run_on_processes(task, units, workers, stop)
    elif cluster:
        computed_cells = run_on_cluster(task, units, cluster, stop)
    else:
        computed_cells = run_serial(task, units, stop)
    # Closing the generator ends its workers, whatever happens here.
    with closing(computed_cells):
        for cell in _limit_sending(computed_cells, allowance):
            if store:
                store.put_cell(cell)
            n_done += 1
            progress(n_done, n_cells, "sweeping")
            yield cell


def _limit_sending(cells: Iterator[Cell], allowance: Allowance) -> Iterator[Cell]:
    """Yield cells that are computed under the limit of tokens of one call."""
    # The limit is left before each cell is handed out: a block across a yield would hold for the caller's work too.
    while True:
        with limit_tokens(allowance):
            cell = next(cells, None)
        if cell is None:
            return
        yield cell


def _iterate_units(decoders: Sequence[Decoder], ks: Sequence[int], missing: set[tuple[Decoder, int]]) -> Iterator[Unit]:
    """Group missing cells, (decoder, k), into units of work: decoders and k that are computed together.

    A cell is one decoder's metrics, query by query, at one k. Neighbours of one family, decoders which differ only in
    the selector's parameters, share a unit where the selector can decode several settings at once. The order is the
    decoders'.
    """
    pending = []
    for decoder in decoders:
        if missing_ks := tuple(k for k in ks if (decoder, k) in missing):
            pending.append((decoder, missing_ks))
    for (_, missing_ks), group in groupby(pending, key=lambda pair: (decoder_family(pair[0]), pair[1])):
        members = list(map(itemgetter(0), group))
        selector_type = type(members[0].select)
        # Only selectors that override select_grid decode several settings at once. It is a classmethod, and bound
        # methods of two classes always differ, so the functions in them are compared.
        grid_method: Any = selector_type.select_grid
        has_own_grid = grid_method.__func__ is not vars(Selector)["select_grid"].__func__
        group_size = DECODER_GROUP_SIZE if has_own_grid else 1
        for group_start in range(0, len(members), group_size):
            for k_group in group_nested_sizes(selector_type, missing_ks):
                yield Unit(tuple(members[group_start : group_start + group_size]), k_group)
