"""A setting chosen on one split and reported on another, beside the baseline: how good, how sure, how much is luck."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from engine.decoder import SET_SIZE, Decoder
from engine.errors import DataError, ParamError
from engine.evaluation.metrics import METRICS
from engine.evaluation.objectives import Choosing, Objective
from engine.evaluation.pairing import chain_of, name_of, shared
from engine.evaluation.points import Point, as_json
from engine.evaluation.settings import Settings, far, search
from engine.evaluation.splits import judged_by
from engine.evaluation.statistics import RESAMPLES, SEED, Comparison, compare, holm, resampled_means, statement
from engine.evaluation.store import Store
from engine.evaluation.sweep import TOGETHER, sweep
from engine.params import Whole
from engine.progress import Progress, Stop
from engine.space import Space
from engine.stages import Stage, make, methods, spec_of
from engine.values import Embeddings, Qrels, Queries

REPORTED = ("recall", "comp", "ndcg", "ilad")
ENOUGH = 0.5
"""A setting that has the metrics on a smaller share of the queries on which the baseline has them is no candidate: all
would be compared on those few that it answers."""
ROUNDS = 12
"""Where somebody watches, settings are measured in about so many rounds: fewer share more, more show sooner."""
DRAWS = 200
"""So many sets of queries are drawn to see how firm a choice is."""
TRIALS = Whole(default=64, low=1, high=100_000, symbol="trials", name="trials", help="Settings a search tries.")


@dataclass(frozen=True, slots=True)
class Gap:
    """How far dev and test differ in a metric.

    dev, test: the chosen setting's means; gained_dev, gained_test: how much more than the baseline's; low, high: 95 %
    interval of gained_dev − gained_test, the two splits' queries drawn apart; None where a split has one query.
    """

    metric: str
    k: int
    dev: float
    test: float
    gained_dev: float
    gained_test: float
    low: float | None
    high: float | None

    @property
    def lost(self) -> float:
        """How much of what was gained on dev is not there on test."""
        return self.gained_dev - self.gained_test

    @property
    def text(self) -> str:
        """One sentence."""
        what = f"{METRICS[self.metric].title}@{self.k}"
        told = f"{what}: {_signed(self.gained_dev)} against the baseline on dev, {_signed(self.gained_test)} on test"
        if self.low is None:
            return f"{told}."
        whether = "no difference between the two can be told" if self.low <= 0 <= self.high else "the two differ"
        return f"{told}; {whether} (95 % interval of it {_signed(self.low)} to {_signed(self.high)})."


@dataclass(frozen=True, eq=False, kw_only=True)
class Tuned:
    """What tuning found.

    decoder: the chosen one; baseline: the first of its kind in its place; choosing: why, and whether it is what was
    asked for or only the nearest; firm: the share of DRAWS sets of queries, drawn from dev's with replacement, that
    lead to the same choice; searched: what it was chosen from, in words; points: every setting tried, on dev; chosen,
    base: the two on dev; chosen_test, base_test: on test, None without one; queries: on how many of dev the settings
    were compared; left_out: names of settings that were no candidates; held: whether the constraint holds on test, None
    without constraint or test; comparisons: with the baseline on test, a row a metric, Holm over the metrics; gaps: dev
    beside test.
    """

    objective: Objective
    k: int
    dev: str
    test: str | None
    searched: str
    decoder: Decoder
    baseline: Decoder
    choosing: Choosing
    firm: float
    points: tuple[Point, ...]
    chosen: Point
    base: Point
    chosen_test: Point | None
    base_test: Point | None
    queries: int
    left_out: tuple[str, ...]
    held: bool | None
    comparisons: tuple[Comparison, ...]
    gaps: tuple[Gap, ...]

    @property
    def satisfied(self) -> bool:
        """Whether the choice is what was asked for, and not only the nearest to it."""
        return self.choosing.satisfied

    @property
    def sentences(self) -> tuple[str, ...]:
        """What a person should read, in order."""
        return (*self.chosen_because, *self.reported)

    @property
    def chosen_because(self) -> tuple[str, ...]:
        """How the setting was chosen, and whether that holds on test."""
        found = [
            f"{_named(self.chosen, self.base)}: chosen from {self.searched} for {self.objective.text}, on "
            f"{self.queries:,} queries of {self.dev}.",
            self.choosing.said,
            f"Of {DRAWS} sets of queries drawn from the same ones {100 * self.firm:.0f} % lead to the same choice.",
        ]
        if self.left_out:
            found.append(f"No candidates, as they answer too few of the queries: {', '.join(self.left_out)}.")
        if self.test is None:
            return (*found, f"Nothing is known of other queries: on those of {self.dev} it was chosen to look good.")
        if self.held is not None:
            found.append(f"On {self.test} the constraint {'holds' if self.held else 'does not hold'}.")
        return tuple(found)

    @property
    def reported(self) -> tuple[str, ...]:
        """What can be told of it on test, and how far dev and test differ; nothing without a test."""
        return (*(f"On {self.test}: {statement(r)}" for r in self.comparisons), *(g.text for g in self.gaps))

    def as_json(self) -> dict[str, Any]:
        """The same as plain JSON values, NaN as null; `points.from_json` reads the decoders."""
        splits = {self.dev: (self.chosen, self.base)}
        if self.test is not None:
            splits[self.test] = (self.chosen_test, self.base_test)
        return _plain(
            {
                "objective": asdict(self.objective),
                "k": self.k,
                "dev": self.dev,
                "test": self.test,
                "searched": self.searched,
                "decoder": as_json(self.decoder),
                "baseline": as_json(self.baseline),
                "satisfied": self.satisfied,
                "held": self.held,
                "firm": self.firm,
                "queries": self.queries,
                "left_out": self.left_out,
                "means": {split: {"chosen": own.mean, "baseline": base.mean} for split, (own, base) in splits.items()},
                "comparisons": [{**asdict(r), "wins": r.wins._asdict(), "told": r.told} for r in self.comparisons],
                "gaps": [{**asdict(gap), "lost": gap.lost} for gap in self.gaps],
                "settings": [{"decoder": p.decoder, "mean": p.mean} for p in self.points],
                "sentences": self.sentences,
            }
        )


def tune(
    name: str,
    space: Space,
    queries: Queries | Embeddings,
    qrels: Mapping[str, Qrels],
    *,
    objective: Objective | str = "maximise",
    k: int = 10,
    dev: str = "dev",
    test: str | None = "test",
    points: int = 11,
    free: str | Sequence[str] | None = None,
    fixed: Mapping[str, Any] | None = None,
    like: Decoder | None = None,
    metrics: Sequence[str] = REPORTED,
    aspects: Mapping[str, Mapping[str, frozenset[str]]] | None = None,
    trials: int = TRIALS.default,
    seed: int = 0,
    resamples: int = RESAMPLES.default,
    store: Store | str | Path | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
    seen: Callable[[Point], None] | None = None,
) -> Tuned:
    """The best setting of a selector, or of a scorer, for an objective: chosen on dev, reported on test beside the
    baseline.

    name: of a selector, set against the first one, or of a scorer, in its place as retriever, set against the first.

    queries: at least those that the two splits judge; qrels: judgements by split, as a Dataset has them (`halved` makes
    two splits of one); objective: an Objective, or its aim; test: None for no report; points: values a parameter, as in
    `grid`; free: the parameters to set, by default those that sweeps vary; fixed: values of others; like: a decoder
    whose other stages and depth are kept; metrics: reported besides the objective's. Up to two parameters every
    setting of the grid is tried; beyond, Optuna's TPE (extra `tune`) tries `trials` of them, seeded. Of equally good
    settings the one closest to the default is chosen. Everything is measured by `sweep`, whose aspects, store, workers,
    cluster, progress and stop these are; seen gets every point of dev, the baseline's too, as soon as it is there.
    Raises ParamError, DataError, FrontierError, Cancelled.
    """
    objective = Objective(objective) if isinstance(objective, str) else objective
    if not isinstance(objective, Objective):
        raise ParamError(f"objective must be an Objective or its aim; got {objective!r}")
    k, trials, seed, resamples = SET_SIZE.check(k), TRIALS.check(trials), SEED.check(seed), RESAMPLES.check(resamples)
    spec = spec_of(name)
    first = next(iter(methods(spec.kind)))
    place = "select" if spec.kind == "selector" else "retrieve"
    if name == first:
        raise ParamError(f"{name} is what the others are compared with; tune another one")
    settings, plain = Settings.of(spec, points, free, fixed or {}), make(first)
    like = like or Decoder(make(next(iter(methods("selector")))))
    asked = judged_by(queries, qrels, dev, test)
    wanted = tuple(dict.fromkeys((*((metrics,) if isinstance(metrics, str) else metrics), *objective.metrics)))
    kept = Store(store) if isinstance(store, str | Path) else store
    told = progress or (lambda *_: None)

    def measured(stages: Iterable[Stage], split: str, progress: Progress | None = None) -> dict[Stage, Point]:
        """Stage → point, in the order of the stages, whatever order the sweep's cells come in."""
        decoders = {stage: replace(like, **{place: stage}) for stage in stages}
        how = {"store": kept, "workers": workers, "cluster": cluster, "progress": progress, "stop": stop}
        cells = list(decoders.values())
        by_label = {}
        for cell in sweep(cells, space, asked[split], qrels[split], k, wanted, split=split, aspects=aspects, **how):
            by_label[cell.label] = cell
            if seen is not None and split == dev:
                seen(cell)
        return {stage: by_label[decoder.label] for stage, decoder in decoders.items()}

    on_dev = f"tuning on {dev}"
    if settings.exhaustive:
        # The baseline first: what is finished before it could be compared with nothing.
        stages, found = [plain, *settings], {}
        watched = seen is not None and workers is None and cluster is None
        size = min(TOGETHER, max(2, len(stages) // ROUNDS)) if watched else len(stages)
        for at in range(0, len(stages), size):
            found.update(measured(stages[at : at + size], dev, lambda n, *_, at=at: told(at + n, len(stages), on_dev)))
        base = found.pop(plain)
    else:
        found, base = {}, measured([plain], dev)[plain]

        def goals(stages: Iterable[Stage]) -> dict[Stage, tuple[float, ...] | None]:
            if new := [stage for stage in stages if stage not in found]:
                found.update(measured(new, dev))
            return {
                s: objective.guide(found[s].mean, base.mean) if _answers(found[s], base, objective) else None
                for s in stages
            }

        count = len(objective.guide(base.mean, base.mean))
        search(settings, goals, count, trials, seed, lambda done, total: told(done, total, on_dev), stop)
    choosing, firm, stage, compared, left_out = _chosen(objective, found, base, k, seed)
    own_test = base_test = held = None
    rows: tuple[Comparison, ...] = ()
    if test is not None:
        on_test = measured([stage, plain], test, lambda done, total, _: told(done, total, f"reporting on {test}"))
        own_test, base_test = on_test[stage], on_test[plain]
        held = bool(objective.kept(own_test.mean, base_test.mean)) if objective.constrained else None
        rows = _compared(own_test, base_test, wanted, resamples, seed)
    return Tuned(
        objective=objective,
        k=k,
        dev=dev,
        test=test,
        searched=f"{'all' if settings.exhaustive else 'a search through'} {len(found):,} settings",
        decoder=replace(like, **{place: stage}),
        baseline=replace(like, **{place: plain}),
        choosing=choosing,
        firm=firm,
        points=tuple(found.values()),
        chosen=found[stage],
        base=base,
        chosen_test=own_test,
        base_test=base_test,
        queries=compared,
        left_out=left_out,
        held=held,
        comparisons=rows,
        gaps=tuple(_gap(r.metric, (found[stage], base), (own_test, base_test), resamples, seed) for r in rows),
    )


def _answers(point: Point, base: Point, objective: Objective) -> bool:
    """Whether a setting has the objective's metrics on enough of the queries on which the baseline has them."""
    own, its = (np.all([np.isfinite(p.values[m]) for m in objective.metrics], axis=0) for p in (point, base))
    both = int((own & its).sum())
    return both > 0 and both >= ENOUGH * its.sum()


def _chosen(
    objective: Objective, found: Mapping[Stage, Point], base: Point, k: int, seed: int
) -> tuple[Choosing, float, Stage, int, tuple[str, ...]]:
    """The choice, how firm it is, its stage, on how many queries, and the names of those that were no candidates."""
    stages = [stage for stage, point in found.items() if _answers(point, base, objective)]
    left_out = tuple(_named(point, base) for stage, point in found.items() if stage not in stages)
    if not stages:
        what = " and ".join(METRICS[m].title for m in objective.metrics)
        raise DataError(f"no setting has {what} on enough of the queries of {base.split} to be compared")
    both = shared([base, *(found[stage] for stage in stages)], objective.metrics, k)
    order = [(round(far(stage), 9), stage.label) for stage in stages]

    def choose(means: Mapping[str, np.ndarray]) -> Choosing:
        own, its = {m: v[1:] for m, v in means.items()}, {m: float(v[0]) for m, v in means.items()}
        return objective.choose(own, its, order, k, _named(base, base))

    choosing = choose({m: values.mean(0) for m, values in both.values.items()})
    # One seed, so every metric sees the same queries.
    means = {m: resampled_means(values, DRAWS, seed) for m, values in both.values.items()}
    same = sum(choose({m: v[at] for m, v in means.items()}).best == choosing.best for at in range(DRAWS))
    return choosing, same / DRAWS, stages[choosing.best], len(both.queries), left_out


def _compared(own: Point, base: Point, metrics: Sequence[str], resamples: int, seed: int) -> tuple[Comparison, ...]:
    """A row a metric that both have on some query, corrected over the metrics."""
    has = [m for m in metrics if (np.isfinite(own.values[m]) & np.isfinite(base.values[m])).any()]
    rows = [compare([base, own], m, base, own.k, resamples=resamples, seed=seed)[0] for m in has]
    corrected = holm([row.p for row in rows])
    return tuple(replace(row, p_holm=float(p), comparisons=len(rows)) for row, p in zip(rows, corrected, strict=True))


def _gap(metric: str, on_dev: tuple[Point, Point], on_test: tuple[Point, Point], resamples: int, seed: int) -> Gap:
    """on_dev, on_test: chosen and baseline."""
    means, gained = [], []
    for own, base in (on_dev, on_test):
        pairs = np.stack([own.values[metric], base.values[metric]], axis=1)
        pairs = pairs[np.isfinite(pairs).all(1)]
        means.append(float(pairs[:, 0].mean()) if len(pairs) else float("nan"))
        gained.append(pairs[:, :1] - pairs[:, 1:])
    low = high = None
    if min(map(len, gained)) > 1:
        # Two sets of queries, so two sequences of draws.
        again = [resampled_means(values, resamples, seed + at)[:, 0] for at, values in enumerate(gained)]
        low, high = np.percentile(again[0] - again[1], [2.5, 97.5]).tolist()
    more = [float(values.mean()) if len(values) else float("nan") for values in gained]
    return Gap(metric, on_dev[0].k, *means, *more, low, high)


def _signed(value: float) -> str:
    """With its sign, and no sign where nothing is left to see."""
    text = f"{value:+.4f}"
    return text.replace("-", "−") if float(text) else "0"


def _named(point: Point, base: Point) -> str:
    """The scorers go without saying where they are the baseline's."""
    return name_of(point.decoder, chain_of(point.decoder) != chain_of(base.decoder))


def _plain(value: Any) -> Any:
    """Lists for tuples, and None for NaN, which JSON does not have."""
    match value:
        case Mapping():
            return {name: _plain(v) for name, v in value.items()}
        case list() | tuple():
            return [_plain(v) for v in value]
        case float() if not np.isfinite(value):
            return None
    return value
