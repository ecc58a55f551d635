"""Tuning: choose a setting on one split, report it on another beside the baseline, and say how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from engine.decoder import SET_SIZE, Decoder
from engine.errors import DataError, ParamError
from engine.evaluation.curve import Curve
from engine.evaluation.exact_frontier import exact_frontiers
from engine.evaluation.metrics import METRICS, defined_mean
from engine.evaluation.paired import SAME, chain_of, name_of, names, shared, written_out
from engine.evaluation.splits import judged_by
from engine.evaluation.statistics import RESAMPLES, SEED, Comparison, compare, holm, resampled_means, statement
from engine.evaluation.sweep.cell import Cell, as_json
from engine.evaluation.sweep.store import Store
from engine.evaluation.sweep.sweep import TOGETHER, sweep
from engine.evaluation.tuning.objectives import Objective, TunedChoice
from engine.evaluation.tuning.search_space import Settings, far, search
from engine.params import Whole
from engine.progress import Progress, Stop, counted
from engine.space import Space
from engine.stages import Scorer, Selector, Stage, make, methods, spec_of
from engine.values import Embeddings, Qrels, Queries
from engine.wording import percent, signed

REPORTED = ("recall", "comp", "ndcg", "ilad")
ENOUGH = 0.5
"""A setting that has the metrics on a smaller share of the queries on which the baseline has them is no candidate: all
would be compared on those few that it answers."""
ROUNDS = 12
"""Where somebody watches, settings are measured in about so many rounds: fewer share more, more show sooner."""
DRAWS = 200
"""So many sets of queries are drawn to see how firm a choice is."""
NEAR = 0.05
"""A value no further than this share of the range from another is much the same."""
VERDICTS = {True: "confirmed", False: "not confirmed", None: "measured"}
"""How test judges a choice, None for one that claims nothing."""
TRIALS = Whole(64, "trials", 1, 100_000, name="trials", help="Settings a search tries.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """How far dev and test differ in a metric."""

    metric: str
    k: int
    dev: float  # the chosen setting's means
    test: float
    gained_dev: float  # these minus the baseline's
    gained_test: float
    low: float | None  # 95% interval of gained_dev − gained_test, the two splits' queries drawn apart
    high: float | None  # None where a split has one query

    @property
    def lost(self) -> float:
        """How much of what was gained on dev is not there on test."""
        return self.gained_dev - self.gained_test

    @property
    def text(self) -> str:
        """One sentence."""
        what = f"{METRICS[self.metric].title}@{self.k}"
        gains = f"{what}: {signed(self.gained_dev)} vs the baseline on dev, {signed(self.gained_test)} on test"
        if self.low is None or self.high is None:
            return f"{gains}."
        whether = "no significant difference" if self.low <= 0 <= self.high else "a significant difference"
        return f"{gains}; {whether} between the two (95% CI {signed(self.low)} to {signed(self.high)})."


@dataclass(frozen=True, eq=False, kw_only=True)
class Tuned:
    """The setting that tuning chose, and its report."""

    objective: Objective
    k: int
    dev: str
    test: str | None
    searched: str  # what was chosen from, in words
    decoder: Decoder  # the chosen one
    baseline: Decoder  # the first of its kind in its place
    choosing: TunedChoice  # why, and whether it is what was asked for or only the nearest
    stability: float  # the share of DRAWS resampled sets of dev's queries that lead to the same choice
    points: tuple[Cell, ...]  # every setting tried, on dev
    chosen: Cell  # the two on dev
    base: Cell
    chosen_test: Cell | None  # on test, None without one
    base_test: Cell | None
    queries: int  # number of dev's that the settings were compared on
    left_out: tuple[str, ...]  # names of settings that were no candidates
    interval: tuple[float, float] | None  # from where to where the parameter is as good on dev, None for a grid
    curve: Curve | None  # the exact frontier on dev that it was chosen from, None for a grid
    constraint_holds_on_test: bool | None  # whether the constraint holds on test, None without either
    comparisons: tuple[Comparison, ...]  # with the baseline on test, a row a metric, Holm over the metrics
    gaps: tuple[Gap, ...]  # dev beside test

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
        sentences = [
            f"{_named(self.chosen, self.base)}: chosen from {self.searched} for {self.objective.text}, on {self.dev} "
            f"({counted(self.queries, 'query', 'queries')}).",
            self.choosing.said,
        ]
        same = "this setting"
        if self.interval is not None and self.curve is not None:
            low, high = self.interval
            symbol = self.curve.symbol
            sentences.append(f"Every {symbol} from {low:.6g} to {high:.6g} is as good ({high - low:.2g} wide).")
            same = f"a {symbol} within {percent(NEAR)} of its range of this one"
        sentences.append(f"Stability: {percent(self.stability)} of {DRAWS} bootstrap samples choose {same}.")
        if self.left_out:
            sentences.append(f"Left out, as they answer too few queries: {', '.join(self.left_out)}.")
        return (*sentences, f"{self.status[0].upper()}{self.status[1:]}: {self.reached}")

    @property
    def status(self) -> str:
        """Whether test confirms the choice, in a few words."""
        if self.test is None:
            return f"measured on {self.dev} only"
        return f"{VERDICTS[self.confirmed]} on {self.test}"

    @property
    def confirmed(self) -> bool | None:
        """Whether test shows what was asked for; None without test, and for an aim that claims nothing of it."""
        if self.test is None or self.objective.aim != "maximise":
            return self.constraint_holds_on_test
        own = next((r for r in self.comparisons if r.metric == self.objective.metric), None)
        return own is not None and own.significant and own.difference > 0

    @property
    def reached(self) -> str:
        """What it reaches on test, or else on dev, beside the baseline."""
        return self.objective.reached(*self.reached_means, _named(self.base, self.base))

    @property
    def reached_means(self) -> tuple[dict[str, float], dict[str, float]]:
        """Its means and the baseline's there, over the queries that a frontier counts."""
        cell, base = self.chosen_test or self.chosen, self.base_test or self.base
        common = shared([cell, base], self.objective.metrics, self.k)
        column = {p.label: place for place, p in enumerate(common.points)}
        own, others = (
            {m: float(values[:, column[c.label]].mean()) for m, values in common.values.items()} for c in (cell, base)
        )
        return own, others

    @cached_property
    def comparisons_on_dev(self) -> tuple[Comparison, ...]:
        """As `comparisons`, on dev, where the setting was chosen because it looks good."""
        return _compared(self.chosen, self.base, self.objective.metrics, RESAMPLES.default, 0)

    @property
    def reported(self) -> tuple[str, ...]:
        """How it does on test, and how far dev and test differ; nothing without a test."""
        return (*(f"On {self.test}: {statement(r)}" for r in self.comparisons), *(g.text for g in self.gaps))

    def as_json(self) -> dict[str, Any]:
        """The same as plain JSON values, NaN as null; `points.from_json` reads the decoders."""
        splits = {self.dev: (self.chosen, self.base)}
        if self.test is not None and self.chosen_test is not None and self.base_test is not None:
            splits[self.test] = (self.chosen_test, self.base_test)
        plain = ["k", "dev", "test", "searched", "satisfied", "queries", "left_out", "sentences"]
        plain += ["interval"] if self.interval else []
        values: dict[str, Any] = _plain(
            {
                **{name: getattr(self, name) for name in plain},
                "held": self.constraint_holds_on_test,
                "firm": self.stability,
                "objective": asdict(self.objective),
                "decoder": as_json(self.decoder),
                "baseline": as_json(self.baseline),
                "means": {split: {"chosen": a.mean, "baseline": b.mean} for split, (a, b) in splits.items()},
                "comparisons": self._comparisons_as_json(),
                "gaps": [{**asdict(gap), "lost": gap.lost} for gap in self.gaps],
                "settings": [{"decoder": p.decoder, "mean": p.mean} for p in self.points],
            }
        )
        return values

    def _comparisons_as_json(self) -> list[dict[str, Any]]:
        if self.chosen_test is None or self.base_test is None:
            return []
        name, baseline = names((self.chosen_test, self.base_test), written_out)
        written = {"name": name, "baseline": baseline}
        return [{**asdict(r), **written, "wins": r.wins._asdict(), "told": r.significant} for r in self.comparisons]


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
    values: str = "all",
    trials: int = TRIALS.default,
    seed: int = 0,
    resamples: int = RESAMPLES.default,
    store: Store | str | Path | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
    seen: Callable[[Cell], None] | None = None,
) -> Tuned:
    """The best setting of a selector, or of a scorer, for an objective: chosen on dev, reported on test beside the
    baseline.

    name: of a selector, set against the first one, or of a scorer, in its place as retriever, set against the first;
    queries: at least those that the two splits judge; qrels: by split, as a Dataset has them (`split_in_half` makes two
    of one); objective: an Objective, or its aim; test: None for no report; points: values a parameter, as in `grid`;
    free: the parameters to set, by default those that sweeps vary; fixed: values of others; like: a decoder whose other
    stages and depth are kept; metrics: reported besides the objective's; values: "all" or "grid". Where the one free
    parameter has a path, the middle of the interval that is best of all its values is chosen, unless "grid" is asked
    for. Otherwise up to two parameters every setting of the grid is tried; beyond, Optuna's TPE (extra `tune`) tries
    `trials` of them, seeded. Of equally good settings the one closest to the default is chosen. Everything is measured
    by `sweep`, whose aspects, store, workers, cluster, progress and stop these are; seen gets every point of dev, the
    baseline's too, as soon as it is there. Raises ParamError, DataError, FrontierError, Cancelled.
    """
    objective = Objective(objective) if isinstance(objective, str) else objective
    if not isinstance(objective, Objective):
        raise ParamError(f"objective must be an Objective or its aim; got {objective!r}")
    if values not in ("all", "grid"):
        raise ParamError(f'values must be "all" or "grid"; got {values!r}')
    k, trials, seed, resamples = SET_SIZE.check(k), TRIALS.check(trials), SEED.check(seed), RESAMPLES.check(resamples)
    target = _Target.of(name, points, free, fixed or {}, like)
    judged = judged_by(queries, qrels, dev, test)
    splits = {split: {"queries": own, "qrels": qrels[split], "split": split} for split, own in judged.items()}
    names = tuple(dict.fromkeys((*((metrics,) if isinstance(metrics, str) else metrics), *objective.metrics)))
    options: dict[str, Any] = {"space": space, "k": k, "metrics": names, "aspects": aspects}
    options |= {"store": Store.of(store), "workers": workers, "cluster": cluster, "stop": stop}
    run = _Run(target, objective, splits, options, progress or (lambda *_: None), seen)
    return run.choose_and_report(trials, seed, resamples, values == "all")


@dataclass(frozen=True, eq=False)
class _Target:
    """What is set: a selector's or a scorer's settings, in their place in a decoder, beside the baseline there."""

    settings: Settings
    baseline: Stage
    like: Decoder

    @classmethod
    def of(
        cls, name: str, points: int, free: str | Sequence[str] | None, fixed: Mapping[str, Any], like: Decoder | None
    ) -> _Target:
        """The arguments of `tune`, checked."""
        spec = spec_of(name)
        first = next(iter(methods(spec.kind)))
        if name == first:
            raise ParamError(f"{name} is what the others are compared with; tune another one")
        like = like or Decoder(make(next(iter(methods("selector")))))
        return cls(Settings.of(spec, points, free, fixed), make(first), like)

    def along_path(self, stage: Stage) -> Selector | None:
        """The selector, if its one free parameter has a path, and it chooses from all documents by their vectors."""
        if not isinstance(stage, Selector) or self.like != Decoder(self.like.select) or stage.path_range is None:
            return None
        return stage if [p.name for p in self.settings.free] == [stage.path_parameter] else None

    def decoder(self, stage: Stage) -> Decoder:
        """The decoder with a stage in its place."""
        if isinstance(stage, Selector):
            return replace(self.like, select=stage)
        return replace(self.like, retrieve=cast(Scorer, stage))


@dataclass(frozen=True, eq=False)
class _Run:
    """One call of `tune`."""

    target: _Target
    objective: Objective
    splits: Mapping[str, Mapping[str, Any]]  # dev first → options of `sweep`
    options: Mapping[str, Any]  # of `sweep`, for all splits
    report: Progress
    seen: Callable[[Cell], None] | None

    @property
    def dev(self) -> str:
        return next(iter(self.splits))

    def choose_and_report(self, trials: int, seed: int, resamples: int, every_value: bool) -> Tuned:
        """Measure the settings on dev, choose one, and set it against the baseline on test."""
        target, objective, plain = self.target, self.objective, self.target.baseline
        exhaustive = target.settings.exhaustive
        cells, base = self._all_settings() if exhaustive else self._searched_settings(trials, seed)
        facts: dict[str, Any] = {"interval": None, "curve": None}
        facts["searched"] = f"{'all' if exhaustive else 'a search through'} {len(cells):,} settings"
        stage: Stage
        if every_value and (along := target.along_path(next(iter(cells)))) is not None:
            stage, chosen = self._best_value(along, base, seed)
            cells |= self._measure([stage], self.dev)
        else:
            stage, chosen = choose_setting(objective, cells, base, self.options["k"], seed)
        facts |= chosen
        rows: tuple[Comparison, ...] = ()
        gaps: tuple[Gap, ...] = ()
        on_test: dict[Stage, Cell] = {}
        test = next((name for name in self.splits if name != self.dev), None)
        if test is not None:
            label = f"reporting on {test}"
            on_test = self._measure([stage, plain], test, lambda done, total, _: self.report(done, total, label))
            tests = on_test[stage], on_test[plain]
            rows = _compared(*tests, self.options["metrics"], resamples, seed)
            gaps = tuple(_gap(row.metric, (cells[stage], base), tests, resamples, seed) for row in rows)
        holds = None
        if on_test and objective.constrained:
            holds = bool(objective.kept(on_test[stage].mean, on_test[plain].mean))
        return Tuned(
            objective=objective,
            k=self.options["k"],
            dev=self.dev,
            test=test,
            decoder=target.decoder(stage),
            baseline=target.decoder(plain),
            points=tuple(cells.values()),
            chosen=cells[stage],
            base=base,
            chosen_test=on_test.get(stage),
            base_test=on_test.get(plain),
            constraint_holds_on_test=holds,
            comparisons=rows,
            gaps=gaps,
            **facts,
        )

    def _best_value(self, stage: Selector, base: Cell, seed: int) -> tuple[Selector, dict[str, Any]]:
        """The best of all values of the parameter that a selector has a path over, and what `Tuned` says of it."""
        k, metrics = self.options["k"], self.objective.metrics
        own = self.splits[self.dev]
        options = {"aspects": self.options["aspects"], "stop": self.options["stop"], "split": self.dev}
        (curve,) = exact_frontiers(
            stage, self.options["space"], own["queries"], own["qrels"], (k,), metrics, progress=self.report,
            keep_steps=True, **options,
        )  # fmt: skip
        return choose_value(self.objective, curve, base, seed)

    def _measure(self, stages: Iterable[Stage], split: str, progress: Progress | None = None) -> dict[Stage, Cell]:
        """Stage → cell, in the order of the stages, whatever order the sweep's cells come in."""
        decoders = {stage: self.target.decoder(stage) for stage in stages}
        by_label = {}
        for cell in sweep(list(decoders.values()), progress=progress, **self.splits[split], **self.options):
            by_label[cell.label] = cell
            if self.seen is not None and split == self.dev:
                self.seen(cell)
        return {stage: by_label[decoder.label] for stage, decoder in decoders.items()}

    def _all_settings(self) -> tuple[dict[Stage, Cell], Cell]:
        """Every setting of the grid, and the baseline, on dev."""
        # The baseline first: what is finished before it could be compared with nothing.
        stages: list[Stage] = [self.target.baseline, *self.target.settings]
        label = f"tuning on {self.dev}"
        watched = self.seen is not None and self.options["workers"] is None and self.options["cluster"] is None
        size = min(TOGETHER, max(2, len(stages) // ROUNDS)) if watched else len(stages)
        cells: dict[Stage, Cell] = {}
        for start in range(0, len(stages), size):

            def progress(done: int, _total: int, _label: str, start: int = start) -> None:
                self.report(start + done, len(stages), label)

            cells.update(self._measure(stages[start : start + size], self.dev, progress))
        return cells, cells.pop(self.target.baseline)

    def _searched_settings(self, trials: int, seed: int) -> tuple[dict[Stage, Cell], Cell]:
        """The settings that a search tries, and the baseline, on dev."""
        base = self._measure([self.target.baseline], self.dev)[self.target.baseline]
        cells: dict[Stage, Cell] = {}

        def goals(stages: Iterable[Stage]) -> dict[Stage, tuple[float, ...] | None]:
            if new := [stage for stage in stages if stage not in cells]:
                cells.update(self._measure(new, self.dev))
            return {
                stage: self.objective.guide(cells[stage].mean, base.mean, _margin(cells[stage], base, self.objective))
                if _answers(cells[stage], base, self.objective)
                else None
                for stage in stages
            }

        def progress(done: int, total: int) -> None:
            self.report(done, total, f"tuning on {self.dev}")

        count = len(self.objective.guide(base.mean, base.mean))
        search(self.target.settings, goals, count, trials, seed, progress, self.options["stop"])
        return cells, base


def _answers(point: Cell, base: Cell, objective: Objective) -> bool:
    """Whether a setting has the objective's metrics on enough of the queries on which the baseline has them."""
    has, base_has = (np.all([np.isfinite(p.values[m]) for m in objective.metrics], axis=0) for p in (point, base))
    both = int((has & base_has).sum())
    return both > 0 and both >= ENOUGH * int(base_has.sum())


def _margin(cell: Cell, base: Cell, objective: Objective) -> float:
    """How much less than its mean a setting keeps for certain."""
    slack = objective.slack(cell.values, base.values[objective.metrics[0]])
    slack = slack[np.isfinite(slack)]
    return float(objective.margin(slack.mean(), np.square(slack).mean(), len(slack)))


def choose_setting(
    objective: Objective, cells: Mapping[Stage, Cell], base: Cell, k: int, seed: int
) -> tuple[Stage, dict[str, Any]]:
    """The best of the settings that answer enough queries, and choosing, stability, queries and left_out of `Tuned`."""
    stages = [stage for stage, cell in cells.items() if _answers(cell, base, objective)]
    left_out = tuple(_named(cell, base) for stage, cell in cells.items() if stage not in stages)
    if not stages:
        what = " and ".join(METRICS[m].title for m in objective.metrics)
        raise DataError(f"no setting has {what} on enough of the queries of {base.split} to be compared")
    common = shared([base, *(cells[stage] for stage in stages)], objective.metrics, k)
    order = [(round(far(stage), 9), stage.label) for stage in stages]

    margin = margin_of(objective, common.values)

    def choose(means: Mapping[str, np.ndarray]) -> TunedChoice:
        own, baseline = {m: v[1:] for m, v in means.items()}, {m: float(v[0]) for m, v in means.items()}
        return objective.choose(own, baseline, order, k, _named(base, base), margin)

    choice = choose({m: values.mean(0) for m, values in common.values.items()})
    # One seed, so every metric sees the same queries.
    means = {m: resampled_means(values, DRAWS, seed) for m, values in common.values.items()}
    same = sum(choose({m: v[draw] for m, v in means.items()}).best == choice.best for draw in range(DRAWS))
    facts = {"choosing": choice, "stability": same / DRAWS, "queries": len(common.queries), "left_out": left_out}
    return stages[choice.best], facts


def margin_of(objective: Objective, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """(m,) how much less than its mean each of m settings keeps for certain; values: (n, 1 + m), the baseline first."""
    slack = objective.slack({m: v[:, 1:] for m, v in values.items()}, values[objective.metrics[0]][:, :1])
    margin: np.ndarray = objective.margin(slack.mean(0), np.square(slack).mean(0), len(slack))
    return margin


def choose_value(objective: Objective, curve: Curve, base: Cell, seed: int) -> tuple[Selector, dict[str, Any]]:
    """The selector at the middle of the best interval of a curve, and choosing, stability … of `Tuned`."""
    assert curve.steps is not None
    metrics, k = objective.metrics, curve.k
    first = {m: curve.steps.values[m][curve.steps.first] for m in metrics}
    common = np.all([np.isfinite(first[m]) & np.isfinite(base.values[m]) for m in metrics], axis=0)
    if not common.any():
        what = " and ".join(METRICS[m].title for m in metrics)
        raise DataError(f"no query of {base.split} has {what}, by which a value could be chosen")
    baseline = {m: float(base.values[m][common].mean()) for m in metrics}
    steps = curve.steps.only(common)
    found = {m: steps.means(m, curve.tolerance) for m in metrics}
    edges = np.append(found[metrics[0]][0], curve.interval[1])

    def choose(means: Any, baseline: Mapping[str, float], values: np.ndarray, margin: np.ndarray) -> TunedChoice:
        away = np.abs(values - curve.declared.default).round(9)
        order = list(zip(away.tolist(), values.tolist(), strict=True))
        return objective.choose(means, baseline, order, k, _named(base, base), margin)

    slack = objective.slack(steps.values, base.values[metrics[0]][steps.query])
    moments = replace(steps, values={"mean": slack, "square": np.square(slack)})
    first_two = [moments.means(name, curve.tolerance)[1] for name in moments.values]
    margin = objective.margin(first_two[0], first_two[1], int(common.sum()))
    means = {m: column for m, (_, column) in found.items()}
    choice = choose(means, baseline, (edges[:-1] + edges[1:]) / 2, margin)
    same = np.all([np.abs(column - column[choice.best]) <= SAME for column in means.values()], axis=0)
    differs = np.flatnonzero(~same)
    at = int(np.searchsorted(differs, choice.best))
    low = edges[differs[at - 1] + 1] if at else edges[0]
    high = edges[differs[at]] if at < len(differs) else edges[-1]
    value = _short(float(low), float(high))
    at_places = steps.at(curve.places)
    # One seed, so every metric sees the same queries; the baseline's column comes first.
    columns = {m: np.column_stack([base.values[m][common], at_places[m]]) for m in metrics}
    drawn = {m: resampled_means(column, DRAWS, seed) for m, column in columns.items()}
    margin = margin_of(objective, columns)
    near, chosen = NEAR * (curve.interval[1] - curve.interval[0]), []
    for draw in range(DRAWS):
        drawn_base = {m: float(v[draw, 0]) for m, v in drawn.items()}
        drawn_means = {m: v[draw, 1:] for m, v in drawn.items()}
        chosen.append(curve.places[choose(drawn_means, drawn_base, curve.places, margin).best])
    return curve.stage(value), {
        "choosing": choice,
        "stability": float(np.mean(np.abs(np.array(chosen) - value) <= near)),
        "queries": int(common.sum()),
        "left_out": (),
        "interval": (float(low), float(high)),
        "curve": curve,
        "searched": f"every {curve.symbol} from {curve.interval[0]:g} to {curve.interval[1]:g}",
    }


def _short(low: float, high: float) -> float:
    """The number of fewest digits in the middle half of an interval."""
    middle, room = (low + high) / 2, (high - low) / 4
    return next((v for digits in range(1, 17) if abs((v := round(middle, digits)) - middle) <= room), middle)


def _compared(cell: Cell, base: Cell, metrics: Sequence[str], resamples: int, seed: int) -> tuple[Comparison, ...]:
    """A row a metric that both have on some query, corrected over the metrics."""
    has = [m for m in metrics if (np.isfinite(cell.values[m]) & np.isfinite(base.values[m])).any()]
    rows = [compare([base, cell], m, base, cell.k, resamples=resamples, seed=seed)[0] for m in has]
    corrected = holm([row.p for row in rows])
    return tuple(replace(row, p_holm=float(p), comparisons=len(rows)) for row, p in zip(rows, corrected, strict=True))


def _gap(metric: str, on_dev: tuple[Cell, Cell], on_test: tuple[Cell, Cell], resamples: int, seed: int) -> Gap:
    """on_dev, on_test: chosen and baseline."""
    means, gains = [], []
    for cell, base in (on_dev, on_test):
        pairs = np.stack([cell.values[metric], base.values[metric]], axis=1)
        pairs = pairs[np.isfinite(pairs).all(1)]
        means.append(defined_mean(pairs[:, 0]))
        gains.append(pairs[:, :1] - pairs[:, 1:])
    low = high = None
    if min(map(len, gains)) > 1:
        # Two sets of queries, so two sequences of draws.
        draws = [resampled_means(values, resamples, seed + split)[:, 0] for split, values in enumerate(gains)]
        low, high = np.percentile(draws[0] - draws[1], [2.5, 97.5]).tolist()
    return Gap(
        metric=metric,
        k=on_dev[0].k,
        dev=means[0],
        test=means[1],
        gained_dev=defined_mean(gains[0][:, 0]),
        gained_test=defined_mean(gains[1][:, 0]),
        low=low,
        high=high,
    )


def _named(point: Cell, base: Cell) -> str:
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
