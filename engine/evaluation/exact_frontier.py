"""The exact frontier: means over queries at every value of a selector's λ."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any

import numpy as np
import torch

from engine.decoder import SET_SIZE
from engine.errors import Cancelled, ParamError
from engine.evaluation.aspects import Aspects
from engine.evaluation.curve import PLACES, Curve, Steps
from engine.evaluation.frontier import BAND_RESAMPLES
from engine.evaluation.metrics import METRICS, RetrievedSets, check_metrics
from engine.evaluation.path import Path, path, path_interval, stage_with_path
from engine.evaluation.statistics import RESAMPLES, SEED, intervals
from engine.evaluation.sweep.cell import PACKAGE, versions
from engine.evaluation.sweep.compute import digests_of, embedded
from engine.evaluation.sweep.store import Store
from engine.params import Real, values_of
from engine.progress import Progress, Stop
from engine.space import Space
from engine.stages import Selector
from engine.values import Embeddings, Qrels, Queries, digest_of

TOLERANCE = Real(1e-6, "tolerance", 0.0, 0.1, name="tolerance", help="Of breakpoints nearer than this some are merged.")
TOGETHER = 64
"""Queries whose paths are followed before anybody is told."""
USUAL: Mapping[str, Any] = {"tolerance": TOLERANCE.default, "resamples": BAND_RESAMPLES, "seed": 0}
"""How breakpoints are merged and bands drawn, where nothing else is said."""
Measured = tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]
"""Query, start and metrics of steps."""


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
    tolerance: float = TOLERANCE.default,
    resamples: int = BAND_RESAMPLES,
    seed: int = 0,
    progress: Progress | None = None,
    stop: Stop | None = None,
    **fixed: Any,
) -> Curve:
    """A selector's means over queries at every λ of an interval, where a sweep has them at some.

    selector, interval, fixed: as in `path`; queries, qrels, metrics, split, aspects, progress, stop: as in `sweep`;
    store: a file of a sweep: a curve that it has is not computed again; tolerance: in λ, of breakpoints nearer than
    this some are merged; resamples, seed: of the bands, which are those of `frontier`. Raises ParamError, DataError,
    Cancelled.
    """
    facts = {"tolerance": TOLERANCE.check(tolerance), "resamples": RESAMPLES.check(resamples), "seed": SEED.check(seed)}
    asked = (stage_with_path(selector, fixed), space, queries, qrels, (k,), metrics, interval)
    return exact_frontiers(*asked, split, aspects, facts, store=store, progress=progress, stop=stop)[0]


def exact_frontiers(
    stage: Selector,
    space: Space,
    queries: Queries | Embeddings,
    qrels: Qrels | None,
    ks: Sequence[int],
    metrics: Sequence[str],
    interval: Sequence[float] = (0.0, 1.0),
    split: str = "",
    aspects: Aspects | None = None,
    facts: Mapping[str, Any] = USUAL,
    *,
    keep_steps: bool = False,
    store: Store | str | FilePath | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> list[Curve]:
    """The same at several k, which share a path where the selector's answers are nested.

    stage: one with a path; facts: tolerance, resamples and seed; keep_steps: whether the curves have the queries' own
    values; none then comes from the store.
    """
    ks, file = tuple(SET_SIZE.check(k) for k in ks), Store.of(store)
    asked = _Asked.of(stage, space, queries, qrels, metrics, interval, split, aspects, facts)
    known = {} if file is None or keep_steps else {curve.k: curve for curve in file.curves([asked.key(k) for k in ks])}
    missing = [k for k in ks if k not in known]
    nested = [k for k in missing if stage.nested and k > 1]
    for group in ([nested] if nested else []) + [[k] for k in missing if k not in nested]:
        for curve in asked.curves(group, progress or (lambda *_: None), stop):
            known[curve.k] = curve
            if file is not None:
                file.put_curve(curve)
    return [known[k] if keep_steps else replace(known[k], steps=None) for k in ks]


def stored_curve(
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
    """The curve that `exact_frontier` would give, if a store has it; nothing is computed."""
    asked = _Asked.of(stage, space, queries, qrels, metrics, (0.0, 1.0), split, aspects, USUAL)
    return next(store.curves([asked.key(k)]), None)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Asked:
    """What `exact_frontiers` is asked for, checked."""

    stage: Selector
    space: Space
    vectors: Embeddings
    qrels: Qrels | None
    aspects: Aspects | None
    metrics: tuple[str, ...]
    interval: tuple[float, float]
    split: str
    facts: Mapping[str, Any]

    @classmethod
    def of(
        cls, stage: Selector, space: Space, queries: Queries | Embeddings, qrels: Qrels | None, metrics: Sequence[str],
        interval: Sequence[float], split: str, aspects: Aspects | None, facts: Mapping[str, Any],
    ) -> "_Asked":  # fmt: skip
        """The arguments, checked; facts: tolerance, resamples and seed."""
        names = tuple(dict.fromkeys((metrics,) if isinstance(metrics, str) else metrics))
        check_metrics(names)
        if needy := [name for name in names if METRICS[name].needs == "answers"]:
            raise ParamError(f"metrics of exact frontiers do without answers; got {', '.join(needy)}; use sweep")
        return cls(
            stage=stage,
            space=space,
            vectors=embedded(space, queries),
            qrels=qrels,
            aspects=aspects if any(METRICS[name].needs == "aspects" for name in names) else None,
            metrics=names,
            interval=path_interval(stage, interval),
            split=split,
            facts=facts,
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The selector's parameters but the one that the curve runs over."""
        return {name: value for name, value in values_of(self.stage).items() if name != self.stage.path_parameter}

    @cached_property
    def data(self) -> dict[str, str]:
        return digests_of(self.space, self.vectors, self.qrels, self.aspects)

    def key(self, k: int) -> str:
        """What names the curve at k."""
        what = ["curve", self.stage.spec.name, self.settings, k, self.split, sorted(self.metrics), self.interval]
        return digest_of([json.dumps([*what, self.facts, sorted(self.data.items()), versions()[PACKAGE]])])

    def curves(self, ks: Sequence[int], report: Progress, stop: Stop | None) -> Iterator[Curve]:
        """The curves at ks that one path answers."""
        blocks: dict[int, list[Measured]] = {k: [] for k in ks}
        count = len(self.vectors)
        label = f"every {self.stage.path_parameter.replace('_', ' ')} of {self.stage.spec.name}"
        for begin in range(0, count, TOGETHER):
            report(begin, count, label)
            if stop is not None and stop.is_set():
                raise Cancelled(
                    "the exact frontier was stopped; curves that are finished are kept where there is a store"
                )
            block = self.vectors.take(range(begin, min(begin + TOGETHER, count)))
            paths = path(self.stage, self.space, block, max(ks), self.interval)
            for k in ks:
                blocks[k].append(self._measured(paths, begin, k))
        report(count, count, label)
        for k in ks:
            query, start = (np.concatenate([part[at] for part in blocks[k]]) for at in (0, 1))
            values = {name: np.concatenate([part[2][name] for part in blocks[k]]) for name in self.metrics}
            yield self._curve(k, Steps(query=query, start=start, values=values))

    def _measured(
        self, paths: Sequence[Path], begin: int, k: int
    ) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Query, start and metrics of every step of some paths; neighbours that are alike in all are one."""
        of = np.repeat(np.arange(len(paths)), [len(p) for p in paths])
        start = np.concatenate([np.append(self.interval[0], p.breakpoints) for p in paths])
        rows = np.concatenate([p.rankings[:, :k] for p in paths])
        kept = np.append(True, (np.diff(of) > 0) | (rows[1:] != rows[:-1]).any(1))
        of, start, rows = of[kept], start[kept], rows[kept]
        sets = RetrievedSets(
            rows=torch.from_numpy(rows),
            space=self.space,
            ids=self.vectors.ids,
            qrels=self.qrels,
            aspects=self.aspects,
            points=self.vectors.vectors[begin + of],
            query=begin + of,
        )
        values = {name: np.asarray(METRICS[name].values(sets), dtype=np.float64) for name in self.metrics}
        table = np.nan_to_num(np.stack(list(values.values())), nan=np.inf)
        kept = np.append(True, (np.diff(of) > 0) | (table[:, 1:] != table[:, :-1]).any(0))
        return begin + of[kept], start[kept], {name: column[kept] for name, column in values.items()}

    def _curve(self, k: int, steps: Steps) -> Curve:
        found = {name: steps.means(name, self.facts["tolerance"]) for name in self.metrics}
        begins = next(iter(found.values()))[0]
        means = {name: column for name, (_, column) in found.items()}
        # Where no mean changes there is no breakpoint.
        table = np.nan_to_num(np.stack(list(means.values())), nan=np.inf)
        kept = np.append(True, (table[:, 1:] != table[:, :-1]).any(0))
        low, high = self.interval
        places = np.linspace(low, high, PLACES)
        at = steps.at(places)
        bands = {name: _bands(column, self.facts["resamples"], self.facts["seed"]) for name, column in at.items()}
        unjudged = 0 if self.qrels is None else sum(not self.qrels.grades.get(q) for q in self.vectors.ids)
        settings = ", ".join(
            f"{p.name}={p.text(self.settings[p.name])}" for p in self.stage.spec.params if p.name in self.settings
        )
        return Curve(
            selector={"name": self.stage.spec.name, **self.settings},
            label=f"{self.stage.spec.name}({settings})" if settings else self.stage.spec.name,
            method=self.stage.spec.name,
            parameter=self.stage.path_parameter,
            interval=self.interval,
            k=k,
            split=self.split,
            queries=self.vectors.ids,
            breakpoints=begins[kept][1:],
            means={name: column[kept] for name, column in means.items()},
            places=places,
            bands=bands,
            left_out=unjudged,
            provenance={**self.data, **versions(), "device": self.space.device.type},
            key=self.key(k),
            steps=steps,
            **self.facts,
        )


def _bands(values: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """(p, 2) ends of the means of (n, p) values, over the queries that have them everywhere."""
    values = values[~np.isnan(values).any(1)]
    if len(values) < 2:
        return np.full((values.shape[1], 2), np.nan)
    return np.array(intervals(values, resamples, seed), dtype=np.float64)
