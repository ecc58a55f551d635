"""The exact frontier: means over queries at every value of a selector's λ."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import filterfalse
from operator import itemgetter
from pathlib import Path as FilePath
from typing import Any

import numpy as np
import torch

from engine.decoder import SET_SIZE, Decoder, format_limits
from engine.errors import Cancelled, DataError, ParamError
from engine.evaluation.aspects import Aspects
from engine.evaluation.curve import N_BANDS, Curve, Steps
from engine.evaluation.duplicate_threshold import check_duplicate_threshold
from engine.evaluation.frontier import BAND_RESAMPLES
from engine.evaluation.metrics import (
    METRICS,
    RetrievedSets,
    check_metrics,
    drop_own_coverage,
    drop_own_judgements,
    map_own_ids,
    map_values,
)
from engine.evaluation.paired import format_stage_call
from engine.evaluation.path import Path, check_path_interval, make_path_stage, path
from engine.evaluation.set_relevance import add_set_relevance, describe_corpus_relevance
from engine.evaluation.statistics import RESAMPLES, SEED, bootstrap_intervals
from engine.evaluation.sweep.cell import PACKAGE, read_versions
from engine.evaluation.sweep.compute import (
    collect_digests,
    digest_sources,
    embed_for_space,
    group_nested_sizes,
    name_duplicate_threshold,
)
from engine.evaluation.sweep.store import Store
from engine.matrix import GRAM_ROWS
from engine.params import Real, values_of
from engine.progress import Progress, Stop
from engine.selection.per_source import number_sources
from engine.space import Elsewhere, Space, find_own_documents
from engine.stages import Selector
from engine.values import Embeddings, Qrels, Queries, digest_of

BREAKPOINT_TOLERANCE = Real(
    1e-6, "tolerance", 0.0, 0.1, name="tolerance", help="Of breakpoints nearer than this some are merged."
)
BLOCK_QUERIES, BLOCK_SCORES = 8, 200_000
"""Queries whose paths are computed between two reports of progress, at most, and about how many scores they have.

The size of a block follows the corpus, not the clock: the last bits of a product of matrices depend on their shape.
"""
DEFAULT_FACTS: Mapping[str, Any] = {"tolerance": BREAKPOINT_TOLERANCE.default, "resamples": BAND_RESAMPLES, "seed": 0}
"""Default merging of breakpoints and draws of bands."""
StepArrays = tuple[np.ndarray, np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]
"""Query index, start, metrics and counts of documents of steps."""


def exact_frontier(
    selector: str | Selector,
    space: Space,
    queries: Queries | Embeddings,
    qrels: Qrels | None = None,
    k: int = 10,
    metrics: Sequence[str] = ("recall", "comp", "ndcg", "ilad"),
    interval: Sequence[float] = (0.0, 1.0),
    *,
    split: str = "",
    aspects: Aspects | None = None,
    store: Store | str | FilePath | None = None,
    tolerance: float = BREAKPOINT_TOLERANCE.default,
    resamples: int = BAND_RESAMPLES,
    seed: int = 0,
    progress: Progress | None = None,
    stop: Stop | None = None,
    per_source: int | None = None,
    source: str | None = None,
    without_self: bool | None = None,
    duplicate_threshold: float | None = None,
    **fixed: Any,
) -> Curve:
    """Compute a selector's means over queries at every λ of an interval; a sweep has them at some values only.

    Parameters
    ----------
    selector : str or Selector
        Its name, or a stage, whose own λ is ignored.
    space : Space
        The corpus to search.
    queries : Queries or Embeddings
        The queries to average over.
    qrels : Qrels or None
        Their judgements, for metrics that need them.
    k : int
        The size of the retrieved sets.
    metrics : sequence of str
        Names of metrics.
    interval : sequence of float
        The lowest and the highest λ; λ₁ for a selector with weights.
    split : str
        The name of the split, for the file.
    aspects : mapping or None
        Query id → aspect → ids of the documents that cover it.
    store : Store, str, Path or None
        A file of a sweep; a curve that it holds is not computed again.
    tolerance : float
        In λ; of breakpoints nearer than this some are merged.
    resamples : int
        The number of draws of the bands, which are those of `engine.frontier`.
    seed : int
        The seed of these draws.
    progress : callable or None
        Called repeatedly as progress(done, total, label).
    stop : callable or None
        The work is cancelled once it returns true.
    per_source : int or None
        The most documents of one source in a set, as a Decoder takes it; None for any number.
    source : str or None
        The metadata column of the corpus that names the sources, for `per_source` and the metric `unique_sources`.
    without_self : bool or None
        The treatment of queries that are documents, as a Decoder takes it.
    duplicate_threshold : float or None
        The cosine from which on two documents are near-duplicates, for the metric `redundancy`, as `measure` takes it.
    **fixed
        The selector's other parameters.

    Returns
    -------
    Curve
        The means as step functions of λ, with bands; at the interval's ends they are those of exactly that λ.

    Raises
    ------
    ParamError, DataError
        If an argument is invalid or inputs do not belong together.
    Cancelled
        If it is stopped.

    Examples
    --------
    >>> import engine, torch
    >>> corpus = engine.Corpus(("a", "b"), ("red", "blue"))
    >>> space = engine.Space(corpus, engine.Embeddings(("a", "b"), torch.eye(2)))
    >>> queries, qrels = engine.Embeddings(("q",), torch.tensor([[1.0, 0.5]])), engine.Qrels({"q": {"a": 1}})
    >>> selector = list(engine.methods("selector"))[1]
    >>> engine.exact_frontier(selector, space, queries, qrels, k=1, metrics=["recall"], resamples=100).at(0.5)
    {'recall': 1.0}
    """
    facts = {
        "tolerance": BREAKPOINT_TOLERANCE.check(tolerance),
        "resamples": RESAMPLES.check(resamples),
        "seed": SEED.check(seed),
    }
    limit_column = None if per_source is None else source
    stage = make_path_stage(selector, fixed)
    decoder = Decoder(stage, per_source=per_source, source=limit_column, without_self=without_self)
    (curve,) = compute_exact_frontiers(
        decoder, space, queries, qrels, (k,), metrics, interval, split, aspects, facts, source=source,
        duplicate_threshold=duplicate_threshold, store=store, progress=progress, stop=stop,
    )  # fmt: skip
    return curve


def compute_exact_frontiers(
    decoder: Decoder,
    space: Space,
    queries: Queries | Embeddings,
    qrels: Qrels | None,
    set_sizes: Sequence[int],
    metrics: Sequence[str],
    interval: Sequence[float] = (0.0, 1.0),
    split: str = "",
    aspects: Aspects | None = None,
    facts: Mapping[str, Any] = DEFAULT_FACTS,
    *,
    source: str | None = None,
    duplicate_threshold: float | None = None,
    store: Store | str | FilePath | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> list[Curve]:
    """Compute a decoder's mean metrics at every λ, a curve for each k; curves in the store are read.

    Work is shared among those k whose sets are the beginning of a larger set. decoder: a selector whose rankings at all
    λ can be computed at once, with its limits; facts: tolerance, resamples and seed; source: as `sweep` takes it;
    duplicate_threshold: as `measure` takes it
    """
    set_sizes, curve_store = tuple(map(SET_SIZE.check, set_sizes)), Store.open_store(store)
    arguments = (decoder, space, queries, qrels, metrics, interval, split, aspects, facts, source, duplicate_threshold)
    request = _CurveRequest.from_arguments(*arguments)
    curve_of: dict[int, Curve] = {}
    if curve_store is not None:
        curve_of = {curve.k: curve for curve in curve_store.read_curves(list(map(request.make_key, set_sizes)))}
    for size_group in group_nested_sizes(type(decoder.select), list(filterfalse(curve_of.__contains__, set_sizes))):
        for curve in request.compute_curves(size_group, progress or (lambda *_: None), stop):
            curve_of[curve.k] = curve
            if curve_store is not None:
                curve_store.put_curve(curve)
    return [curve_of[k] for k in set_sizes]


def load_stored_curve(
    decoder: Decoder,
    space: Space,
    queries: Queries | Embeddings,
    qrels: Qrels | None,
    k: int,
    metrics: Sequence[str],
    *,
    split: str = "",
    aspects: Aspects | None = None,
    store: Store,
    source: str | None = None,
    duplicate_threshold: float | None = None,
) -> Curve | None:
    """Look up in a store the curve that `exact_frontier` would compute; None if it is not there."""
    arguments = (decoder, space, queries, qrels, metrics, (0.0, 1.0), split, aspects, DEFAULT_FACTS)
    request = _CurveRequest.from_arguments(*arguments, source, duplicate_threshold)
    return next(store.read_curves([request.make_key(k)]), None)


def list_path_decoders(decoders: Iterable[Decoder], space: Space) -> tuple[Decoder, ...]:
    """Return a decoder for each group of those that can be measured exactly at every λ.

    The decoders of a group differ in λ alone, so one of them stands for all.

    The result is empty for a corpus whose inner products do not fit in memory.
    """
    if len(space) > GRAM_ROWS:
        return ()
    by_group: dict[Any, Decoder] = {}
    for decoder in decoders:
        select = decoder.select
        # A path needs the inner products of all documents: a scorer of these, no pool and no reranker.
        is_plain = decoder == Decoder(select, **decoder.limits)
        if is_plain and select.path_range is not None:
            others = [(name, value) for name, value in values_of(select).items() if name != select.path_parameter]
            by_group[type(select), *others, *decoder.limits.items()] = decoder
    return tuple(by_group.values())


@dataclass(frozen=True, eq=False, kw_only=True)
class _CurveRequest:
    """The checked arguments of `compute_exact_frontiers`: a curve at each k has a key and can be computed."""

    decoder: Decoder  # whose own λ is ignored
    space: Space
    vectors: Embeddings  # of the queries
    qrels: Qrels | None
    aspects: Aspects | None
    metrics: tuple[str, ...]
    interval: tuple[float, float]  # of λ
    split: str  # its name
    facts: Mapping[str, Any]  # tolerance, resamples and seed, as DEFAULT_FACTS has them
    source: str | None  # the column of the metric unique_sources, None if that is not measured
    duplicate_threshold: float | None  # cosine of near-duplicates, for the metric redundancy

    @classmethod
    def from_arguments(
        cls, decoder: Decoder, space: Space, queries: Queries | Embeddings, qrels: Qrels | None, metrics: Sequence[str],
        interval: Sequence[float], split: str, aspects: Aspects | None, facts: Mapping[str, Any],
        source: str | None = None, duplicate_threshold: float | None = None,
    ) -> "_CurveRequest":  # fmt: skip
        """Check the arguments of an exact frontier and embed its queries. Raises ParamError or DataError.

        interval: of λ; facts: tolerance, resamples and seed of the curves; source: column of the metric unique_sources
        """
        if isinstance(space, Elsewhere):
            raise space.refuse("an exact frontier")
        names = tuple(dict.fromkeys((metrics,) if isinstance(metrics, str) else metrics))
        check_metrics(names)
        # A frame or dictionary is refused here, as its truth value is an error of another library further on.
        if not isinstance(qrels, Qrels | None):
            raise DataError(f"qrels must be engine.Qrels, as engine.load_qrels returns; got {type(qrels).__name__}")
        needs = {METRICS[name].needs for name in names}
        if unsupported := [name for name in names if METRICS[name].needs == "answers"]:
            raise ParamError(f"metrics of exact frontiers do without answers; got {', '.join(unsupported)}; use sweep")
        if "source" in needs and source is None:
            raise DataError(f"{', '.join(names)} needs the column that names the documents' sources (source=)")
        # Before the queries are embedded, which may take long: a column that is not there.
        for column in filter(None, (decoder.source, source)):
            number_sources(space, column)
        # Aspects that no metric needs must not change the key of a curve.
        used_aspects = aspects if "aspects" in needs else None
        interval, vectors = check_path_interval(decoder.select, interval), embed_for_space(space, queries)
        return cls(
            decoder=decoder, space=space, vectors=vectors, qrels=qrels, aspects=used_aspects,
            metrics=add_set_relevance(names, split, vectors.ids), interval=interval, split=split, facts=facts,
            source=source if "source" in needs else None,
            duplicate_threshold=check_duplicate_threshold(duplicate_threshold),
        )  # fmt: skip

    @property
    def stage(self) -> Selector:
        """The selector, whose own λ is ignored."""
        return self.decoder.select

    @property
    def settings(self) -> dict[str, Any]:
        """The selector's parameters, without the one that the curve varies."""
        return {name: value for name, value in values_of(self.stage).items() if name != self.stage.path_parameter}

    @cached_property
    def data(self) -> dict[str, str]:
        """The digests of the curve's inputs, by name."""
        digests = collect_digests(self.space, self.vectors, self.qrels, self.aspects)
        digests |= digest_sources(self.space, (self.decoder.source, self.source))
        digests |= describe_corpus_relevance(self.space, self.vectors, self.split)
        return digests | name_duplicate_threshold(self.space, self.metrics, self.duplicate_threshold)

    @cached_property
    def own_ids(self) -> dict[str, str]:
        """The ids of the documents that queries are themselves, by query id."""
        own_rows = find_own_documents(self.space, self.vectors.ids, self.vectors.texts, self.decoder.without_self)
        return map_own_ids(self.space, self.vectors.ids, own_rows)

    def make_key(self, k: int) -> str:
        """Compute the key by which the store knows the curve at k."""
        key_parts = [
            "curve with counts",
            self.stage.spec.name,
            self.settings,
            self.decoder.limits,
            k,
            self.split,
            sorted(self.metrics),
            self.interval,
        ]
        return digest_of([json.dumps([*key_parts, self.facts, sorted(self.data.items()), read_versions()[PACKAGE]])])

    def compute_curves(self, set_sizes: Sequence[int], report: Progress, stop: Stop | None) -> Iterator[Curve]:
        """Compute each query's rankings at every λ once, and yield the curve of the means at each k.

        set_sizes: k whose sets are the beginnings of the largest one's. Raises Cancelled when stopped.
        """
        # k → the steps of each block of queries; a step is an interval of λ on which a query's metrics do not change.
        step_blocks: dict[int, list[StepArrays]] = defaultdict(list)
        n_queries = len(self.vectors)
        spec = self.stage.spec
        symbol = next(param.symbol for param in spec.params if param.name == self.stage.path_parameter)
        progress_label = f"every {symbol} of {spec.title}"
        block_size = max(1, min(BLOCK_QUERIES, BLOCK_SCORES // len(self.space)))
        for block_start in range(0, n_queries, block_size):
            report(block_start, n_queries, progress_label)
            if stop is not None and stop.is_set():
                raise Cancelled(
                    "the exact frontier was stopped; curves that are finished are kept where there is a store"
                )
            block_queries = self.vectors.take(range(block_start, min(block_start + block_size, n_queries)))
            paths = path(self.stage, self.space, block_queries, max(set_sizes), self.interval, **self.decoder.limits)
            for k in set_sizes:
                step_blocks[k].append(self._measure_steps(paths, block_start, k))
        report(n_queries, n_queries, progress_label)
        for k in set_sizes:
            index_blocks, start_blocks, value_blocks, count_blocks = zip(*step_blocks[k], strict=True)
            steps = Steps(
                interval=self.interval,
                query_index=np.concatenate(index_blocks),
                step_starts=np.concatenate(start_blocks),
                values=_join_blocks(value_blocks),
                counts=_join_blocks(count_blocks),
            )
            yield self._build_curve(k, steps)

    def _measure_steps(self, paths: Sequence[Path], block_start: int, k: int) -> StepArrays:
        """Measure every set that some λ gives a query; return each one's query, first λ, metrics and counts.

        paths: rankings of consecutive queries over λ, the first of which is query `block_start`. Neighbours on a path
        with equal metrics and counts of documents become one step, an interval of λ on which they do not change.
        """
        start_lists, ranking_lists = zip(*map(_list_rankings, paths), strict=True)
        path_index = np.repeat(np.arange(len(paths)), list(map(len, start_lists)))
        step_starts, ranking_rows = np.concatenate(start_lists), np.concatenate(ranking_lists)[:, :k]
        # Rankings that differ beyond k only are one at k, so most steps need not be measured.
        starts_set = np.append(True, (np.diff(path_index) > 0) | (ranking_rows[1:] != ranking_rows[:-1]).any(1))
        path_index, step_starts = path_index[starts_set], step_starts[starts_set]
        ranking_rows = ranking_rows[starts_set]
        query_index = block_start + path_index
        sets = RetrievedSets(
            rows=torch.from_numpy(ranking_rows), space=self.space, ids=self.vectors.ids,
            qrels=drop_own_judgements(self.qrels, self.own_ids),
            aspects=drop_own_coverage(self.aspects, self.own_ids),
            query_vectors=self.vectors.vectors, query_index=query_index, source=self.source,
            duplicate_threshold=self.duplicate_threshold,
        )  # fmt: skip
        values = {name: np.asarray(METRICS[name].evaluate(sets), dtype=np.float64) for name in self.metrics}
        counts = sets.count_documents(self.metrics)
        # NaN differs from itself, so undefined values are compared as infinity.
        value_table = np.nan_to_num(np.stack([*values.values(), *counts.values()]), nan=np.inf)
        starts_step = np.append(True, (np.diff(path_index) > 0) | (value_table[:, 1:] != value_table[:, :-1]).any(0))
        step_values, step_counts = (map_values(itemgetter(starts_step), columns) for columns in (values, counts))
        return query_index[starts_step], step_starts[starts_step], step_values, step_counts

    def _build_curve(self, k: int, steps: Steps) -> Curve:
        """Average the queries' metrics at every λ into the curve at k, with confidence bands at some λ.

        steps: each query's metrics as step functions of λ
        """
        breakpoints, means = steps.average(self.facts["tolerance"])
        positions = np.linspace(*self.interval, N_BANDS)
        values_at = steps.evaluate_at(positions)
        compute_bands = partial(_compute_bands, resamples=self.facts["resamples"], seed=self.facts["seed"])
        n_unjudged = 0
        if self.qrels is not None:
            n_unjudged = sum(not self.qrels.grades.get(query_id) for query_id in self.vectors.ids)
        name, settings, texts = self.stage.spec.name, self.settings, {}
        for param in self.stage.spec.params:
            if param.name in settings:
                texts[param.name] = param.text(settings[param.name])
        label = format_stage_call(name, texts) + format_limits(self.decoder.limits)
        return Curve(
            selector={"name": name, **settings}, limits=self.decoder.limits, label=label, method=name,
            parameter=self.stage.path_parameter, interval=self.interval, k=k, split=self.split,
            queries=self.vectors.ids, breakpoints=breakpoints, means=means, band_positions=positions,
            bands=map_values(compute_bands, values_at), left_out=n_unjudged,
            provenance={**self.data, **read_versions(), "device": self.space.device.type},
            key=self.make_key(k), steps=steps, **self.facts,
        )  # fmt: skip


def _join_blocks(blocks: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Join the columns of consecutive blocks of steps, name by name."""
    return {name: np.concatenate(list(map(itemgetter(name), blocks))) for name in blocks[0]}


def _list_rankings(query_path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the (s,) λ, ascending, at which a query's rankings begin to hold, and the (s, ·) rankings.

    The first ranking holds at the path's lowest λ alone, and the last at the highest alone: by a tie there, each can
    differ from the ranking next to it.
    """
    low, high = query_path.parameter.low, query_path.parameter.high
    # A path's piece includes its upper end. A piece that begins a float below the highest λ holds at that λ only.
    inner_starts = np.append(np.nextafter(low, high), query_path.breakpoints)
    starts = np.concatenate([[low], np.where(np.nextafter(inner_starts, high) < high, inner_starts, high), [high]])
    end_rankings = [query_path.at(end).index.cpu().numpy() for end in (low, high)]
    rankings = np.concatenate([end_rankings[0], query_path.rankings, end_rankings[1]])
    # Of rankings that would begin at one λ the last holds there.
    is_kept = np.append(starts[1:] > starts[:-1], True)
    return starts[is_kept], rankings[is_kept]


def _compute_bands(values: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Return (p, 2) bootstrap interval ends of the means over n queries at p values of λ; values: (n, p)."""
    # A query without a value somewhere would change the sample along the curve.
    values = values[~np.isnan(values).any(1)]
    if len(values) < 2:
        return np.full((values.shape[1], 2), np.nan)
    return np.array(bootstrap_intervals(values, resamples, seed), dtype=np.float64)
