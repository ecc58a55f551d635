"""The exact frontier: means over queries at every value of a selector's λ."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import filterfalse
from operator import itemgetter
from pathlib import Path as FilePath
from typing import Any

import numpy as np
import torch

from engine.decoder import SET_SIZE
from engine.errors import Cancelled, ParamError
from engine.evaluation.aspects import Aspects
from engine.evaluation.curve import N_BANDS, Curve, Steps
from engine.evaluation.frontier import BAND_RESAMPLES
from engine.evaluation.metrics import METRICS, RetrievedSets, check_metrics, map_values
from engine.evaluation.paired import format_stage_call
from engine.evaluation.path import Path, check_path_interval, make_path_stage, path
from engine.evaluation.statistics import RESAMPLES, SEED, bootstrap_intervals
from engine.evaluation.sweep.cell import PACKAGE, read_versions
from engine.evaluation.sweep.compute import collect_digests, embed_for_space, group_nested_sizes
from engine.evaluation.sweep.store import Store
from engine.params import Real, values_of
from engine.progress import Progress, Stop
from engine.space import Space
from engine.stages import Selector
from engine.values import Embeddings, Qrels, Queries, digest_of

BREAKPOINT_TOLERANCE = Real(
    1e-6, "tolerance", 0.0, 0.1, name="tolerance", help="Of breakpoints nearer than this some are merged."
)
QUERY_BLOCK_SIZE = 64
"""Queries whose paths are computed between two reports of progress."""
DEFAULT_FACTS: Mapping[str, Any] = {"tolerance": BREAKPOINT_TOLERANCE.default, "resamples": BAND_RESAMPLES, "seed": 0}
"""Default merging of breakpoints and draws of bands."""
StepArrays = tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]
"""Query index, start and metrics of steps."""


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
    **fixed
        The selector's other parameters.

    Returns
    -------
    Curve
        The means as step functions of λ, with bands.

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
    arguments = (make_path_stage(selector, fixed), space, queries, qrels, (k,), metrics, interval)
    # A store has no values of single queries, so a curve from there has none either, whether it was new or not.
    return compute_exact_frontiers(
        *arguments, split, aspects, facts, keep_steps=store is None, store=store, progress=progress, stop=stop
    )[0]


def compute_exact_frontiers(
    stage: Selector,
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
    keep_steps: bool = False,
    store: Store | str | FilePath | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> list[Curve]:
    """Compute a selector's mean metrics at every λ, a curve for each k; curves in the store are read.

    Work is shared among those k whose sets are the beginning of a larger set.

    stage: one with a path; facts: tolerance, resamples and seed; keep_steps: return the values of single queries with
    the curves, none of which is then read from the store.
    """
    set_sizes, curve_store = tuple(map(SET_SIZE.check, set_sizes)), Store.open_store(store)
    request = _CurveRequest.from_arguments(stage, space, queries, qrels, metrics, interval, split, aspects, facts)
    curve_of: dict[int, Curve] = {}
    if curve_store is not None and not keep_steps:
        curve_of = {curve.k: curve for curve in curve_store.read_curves(list(map(request.make_key, set_sizes)))}
    for size_group in group_nested_sizes(type(stage), list(filterfalse(curve_of.__contains__, set_sizes))):
        for curve in request.compute_curves(size_group, progress or (lambda *_: None), stop):
            curve_of[curve.k] = curve
            if curve_store is not None:
                curve_store.put_curve(curve)
    return [curve_of[k] if keep_steps else replace(curve_of[k], steps=None) for k in set_sizes]


def load_stored_curve(
    stage: Selector,
    space: Space,
    queries: Queries | Embeddings,
    qrels: Qrels | None,
    k: int,
    metrics: Sequence[str],
    *,
    split: str = "",
    aspects: Aspects | None = None,
    store: Store,
) -> Curve | None:
    """Look up in a store the curve that `exact_frontier` would compute; None if it is not there."""
    arguments = (stage, space, queries, qrels, metrics, (0.0, 1.0), split, aspects, DEFAULT_FACTS)
    request = _CurveRequest.from_arguments(*arguments)
    return next(store.read_curves([request.make_key(k)]), None)


@dataclass(frozen=True, eq=False, kw_only=True)
class _CurveRequest:
    """The checked arguments of `compute_exact_frontiers`: a curve at each k has a key and can be computed."""

    stage: Selector  # whose own λ is ignored
    space: Space
    vectors: Embeddings  # of the queries
    qrels: Qrels | None
    aspects: Aspects | None
    metrics: tuple[str, ...]
    interval: tuple[float, float]  # of λ
    split: str  # its name
    facts: Mapping[str, Any]  # tolerance, resamples and seed, as DEFAULT_FACTS has them

    @classmethod
    def from_arguments(
        cls, stage: Selector, space: Space, queries: Queries | Embeddings, qrels: Qrels | None, metrics: Sequence[str],
        interval: Sequence[float], split: str, aspects: Aspects | None, facts: Mapping[str, Any],
    ) -> "_CurveRequest":  # fmt: skip
        """Check the arguments of an exact frontier and embed its queries. Raises ParamError or DataError.

        interval: of λ; facts: tolerance, resamples and seed of the curves
        """
        names = tuple(dict.fromkeys((metrics,) if isinstance(metrics, str) else metrics))
        check_metrics(names)
        if unsupported := [name for name in names if METRICS[name].needs == "answers"]:
            raise ParamError(f"metrics of exact frontiers do without answers; got {', '.join(unsupported)}; use sweep")
        # Aspects that no metric needs must not change the key of a curve.
        used_aspects = aspects if any(METRICS[name].needs == "aspects" for name in names) else None
        return cls(
            stage=stage, space=space, vectors=embed_for_space(space, queries), qrels=qrels, aspects=used_aspects,
            metrics=names, interval=check_path_interval(stage, interval), split=split, facts=facts,
        )  # fmt: skip

    @property
    def settings(self) -> dict[str, Any]:
        """The selector's parameters, without the one that the curve varies."""
        return {name: value for name, value in values_of(self.stage).items() if name != self.stage.path_parameter}

    @cached_property
    def data(self) -> dict[str, str]:
        """The digests of the curve's inputs, by name."""
        return collect_digests(self.space, self.vectors, self.qrels, self.aspects)

    def make_key(self, k: int) -> str:
        """Compute the key by which the store knows the curve at k."""
        key_parts = ["curve", self.stage.spec.name, self.settings, k, self.split, sorted(self.metrics), self.interval]
        return digest_of([json.dumps([*key_parts, self.facts, sorted(self.data.items()), read_versions()[PACKAGE]])])

    def compute_curves(self, set_sizes: Sequence[int], report: Progress, stop: Stop | None) -> Iterator[Curve]:
        """Compute each query's rankings at every λ once, and yield the curve of the means at each k.

        set_sizes: k whose sets are the beginnings of the largest one's. Raises Cancelled when stopped.
        """
        step_blocks: dict[int, list[StepArrays]] = defaultdict(list)
        n_queries = len(self.vectors)
        progress_label = f"every {self.stage.path_parameter.replace('_', ' ')} of {self.stage.spec.name}"
        for block_start in range(0, n_queries, QUERY_BLOCK_SIZE):
            report(block_start, n_queries, progress_label)
            if stop is not None and stop.is_set():
                raise Cancelled(
                    "the exact frontier was stopped; curves that are finished are kept where there is a store"
                )
            block_queries = self.vectors.take(range(block_start, min(block_start + QUERY_BLOCK_SIZE, n_queries)))
            paths = path(self.stage, self.space, block_queries, max(set_sizes), self.interval)
            for k in set_sizes:
                step_blocks[k].append(self._measure_steps(paths, block_start, k))
        report(n_queries, n_queries, progress_label)
        for k in set_sizes:
            index_blocks, start_blocks, value_blocks = zip(*step_blocks[k], strict=True)
            values = {name: np.concatenate(list(map(itemgetter(name), value_blocks))) for name in self.metrics}
            query_index, step_starts = np.concatenate(index_blocks), np.concatenate(start_blocks)
            yield self._build_curve(k, Steps(query_index=query_index, step_starts=step_starts, values=values))

    def _measure_steps(self, paths: Sequence[Path], block_start: int, k: int) -> StepArrays:
        """Measure every set that some λ gives a query; return each one's query, first λ, and metrics.

        paths: rankings of consecutive queries over λ, the first of which is query `block_start`. Neighbours on a path
        with equal metrics become one step.
        """
        path_index = np.repeat(np.arange(len(paths)), list(map(len, paths)))
        step_starts = np.concatenate([np.append(self.interval[0], query_path.breakpoints) for query_path in paths])
        ranking_rows = np.concatenate([query_path.rankings[:, :k] for query_path in paths])
        # Rankings that differ beyond k only are one at k, so most steps need not be measured.
        is_kept = np.append(True, (np.diff(path_index) > 0) | (ranking_rows[1:] != ranking_rows[:-1]).any(1))
        path_index, step_starts, ranking_rows = path_index[is_kept], step_starts[is_kept], ranking_rows[is_kept]
        query_index = block_start + path_index
        sets = RetrievedSets(
            rows=torch.from_numpy(ranking_rows), space=self.space, ids=self.vectors.ids, qrels=self.qrels,
            aspects=self.aspects, query_vectors=self.vectors.vectors[query_index], query_index=query_index,
        )  # fmt: skip
        values = {name: np.asarray(METRICS[name].evaluate(sets), dtype=np.float64) for name in self.metrics}
        # NaN differs from itself, so undefined values are compared as infinity.
        value_table = np.nan_to_num(np.stack(list(values.values())), nan=np.inf)
        is_kept = np.append(True, (np.diff(path_index) > 0) | (value_table[:, 1:] != value_table[:, :-1]).any(0))
        return query_index[is_kept], step_starts[is_kept], map_values(itemgetter(is_kept), values)

    def _build_curve(self, k: int, steps: Steps) -> Curve:
        """Average the queries' metrics at every λ into the curve at k, with confidence bands at some λ.

        steps: each query's metrics as step functions of λ
        """
        metric_means = {}
        for name in self.metrics:
            # The starts depend on the steps alone, so they are equal for all metrics.
            piece_starts, metric_means[name] = steps.mean_pieces(name, self.facts["tolerance"])
        # Where no mean changes there is no breakpoint.
        mean_table = np.nan_to_num(np.stack(list(metric_means.values())), nan=np.inf)
        # NaN differs from itself, so undefined means were replaced by infinity to be comparable.
        is_kept = np.append(True, (mean_table[:, 1:] != mean_table[:, :-1]).any(0))
        low, high = self.interval
        positions = np.linspace(low, high, N_BANDS)
        values_at = steps.evaluate_at(positions)
        compute_bands = partial(_compute_bands, resamples=self.facts["resamples"], seed=self.facts["seed"])
        n_unjudged = 0
        if self.qrels is not None:
            n_unjudged = sum(not self.qrels.grades.get(query_id) for query_id in self.vectors.ids)
        name, settings, texts = self.stage.spec.name, self.settings, {}
        for param in self.stage.spec.params:
            if param.name in settings:
                texts[param.name] = param.text(settings[param.name])
        return Curve(
            selector={"name": name, **settings}, label=format_stage_call(name, texts), method=name,
            parameter=self.stage.path_parameter, interval=self.interval, k=k, split=self.split,
            queries=self.vectors.ids, breakpoints=piece_starts[is_kept][1:],
            means=map_values(itemgetter(is_kept), metric_means), band_positions=positions,
            bands=map_values(compute_bands, values_at), left_out=n_unjudged,
            provenance={**self.data, **read_versions(), "device": self.space.device.type},
            key=self.make_key(k), steps=steps, **self.facts,
        )  # fmt: skip


def _compute_bands(values: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Return (p, 2) bootstrap interval ends of the means over n queries at p values of λ; values: (n, p)."""
    # A query without a value somewhere would change the sample along the curve.
    values = values[~np.isnan(values).any(1)]
    if len(values) < 2:
        return np.full((values.shape[1], 2), np.nan)
    return np.array(bootstrap_intervals(values, resamples, seed), dtype=np.float64)
