"""Tuning: a setting, or a decoder, is chosen on one split and reported on another beside the baseline."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from engine.decoder import SET_SIZE, Decoder
from engine.errors import DataError, ParamError
from engine.evaluation.curve import Curve
from engine.evaluation.exact_frontier import compute_exact_frontiers
from engine.evaluation.metrics import METRICS, mean_of_defined
from engine.evaluation.paired import (
    TIE_TOLERANCE,
    align_on_common_queries,
    format_decoder,
    scorer_chain,
    short_names,
)
from engine.evaluation.splits import select_judged_queries
from engine.evaluation.statistics import RESAMPLES, SEED, Comparison, bootstrap_means
from engine.evaluation.sweep.cell import Cell
from engine.evaluation.sweep.store import Store
from engine.evaluation.sweep.sweep import TOGETHER, sweep
from engine.evaluation.tuning.objectives import Objective, TunedChoice
from engine.evaluation.tuning.search_space import Settings, far, search
from engine.evaluation.tuning.tuned import DRAWS, NEAR, Candidate, Gap, Tuned, compare_cells
from engine.params import Whole
from engine.progress import Progress, Stop
from engine.space import Space
from engine.stages import Scorer, Selector, Stage, make, methods, spec_of
from engine.values import Embeddings, Qrels, Queries

REPORTED = ("recall", "comp", "ndcg", "ilad")
ENOUGH = 0.5
"""A setting that has the metrics on a smaller share of the queries on which the baseline has them is no candidate: all
would be compared on those few that it answers."""
ROUNDS = 12
"""Where somebody watches, settings are measured in about so many rounds: fewer share more, more show sooner."""
TRIALS = Whole(64, "trials", 1, 100_000, name="trials", help="Settings a search tries.")


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
    if values not in ("all", "grid"):
        raise ParamError(f'values must be "all" or "grid"; got {values!r}')
    trials, spec = TRIALS.check(trials), spec_of(name)
    first = next(iter(methods(spec.kind)))
    if name == first:
        raise ParamError(f"{name} is what the others are compared with; tune another one")
    family = Family(Settings.of(spec, points, free, fixed or {}), like or baseline())
    reported = (metrics,) if isinstance(metrics, str) else metrics
    study = _Study.of(
        objective, k, {"space": space, "aspects": aspects, "stop": stop}, (queries, qrels, dev, test), reported,
        {"store": Store.of(store), "workers": workers, "cluster": cluster}, seed, resamples, progress, seen,
    )  # fmt: skip
    return study.run([family], family.decoder(make(first)), trials=trials, every_value=values == "all")


def choose(
    space: Space,
    queries: Queries | Embeddings,
    qrels: Mapping[str, Qrels],
    *,
    objective: Objective | str = "diverse",
    k: int = 10,
    dev: str = "dev",
    test: str | None = "test",
    selectors: Sequence[str] | None = None,
    scorers: Sequence[str] | None = None,
    points: int = 11,
    aspects: Mapping[str, Mapping[str, frozenset[str]]] | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES.default,
    store: Store | str | Path | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
    seen: Callable[[Cell], None] | None = None,
) -> Tuned:
    """The best decoder for an objective: every one at its best on dev, the best of these by dev, all tested on test.

    queries: at least those that the splits judge; qrels: by split; selectors: names, by default all; scorers: names of
    those to retrieve with, by default the first alone; points: values a parameter, as in `grid`. A selector with a path
    behind the first scorer is given the best of all its values. On test every candidate is compared with the baseline,
    the first selector behind the first scorer, and Holm's correction is over all of them; the choice is dev's. What is
    measured is kept in the store, so the same call goes on where it was stopped. seen: told every cell of dev as it is
    finished. Raises ParamError, DataError, FrontierError, Cancelled.
    """
    study = _Study.of(
        objective, k, {"space": space, "aspects": aspects, "stop": stop}, (queries, qrels, dev, test), (),
        {"store": Store.of(store), "workers": workers, "cluster": cluster}, seed, resamples, progress, seen,
    )  # fmt: skip
    return study.run(families(selectors, scorers, points), baseline(), several=True)


def _named(argument: str, given: Sequence[str] | None, kind: Literal["selector", "scorer"]) -> list[str]:
    """The names that were given, checked; none for none. Raises ParamError."""
    known = list(methods(kind))
    if unknown := [name for name in given or () if name not in known]:
        raise ParamError(f"{argument} must be among {', '.join(known)}; got {unknown[0]!r}")
    return list(dict.fromkeys(given or ()))


def baseline() -> Decoder:
    """What all are compared with: the first selector behind the first scorer."""
    return Decoder(make(next(iter(methods("selector")))), make(next(iter(methods("scorer")))))


def families(
    selectors: Sequence[str] | None = None, scorers: Sequence[str] | None = None, points: int = 11
) -> "list[Family]":
    """The settings that `choose` measures, a family for every selector behind every scorer, without the baseline.

    The arguments are those of `choose`. Raises ParamError.
    """
    plain, known = baseline(), methods("selector")
    chains = _named("scorers", scorers, "scorer") or [plain.retrieve.spec.name]
    picked = _named("selectors", selectors, "selector") or list(known)
    all_families = [
        Family(Settings.every(known[name], points), replace(plain, retrieve=make(scorer)))
        for scorer in chains
        for name in picked
    ]
    found = [family for family in all_families if list(family) != [plain]]
    if not found:
        raise ParamError(f"selectors must name another one than {plain.select.spec.name}, what all are compared with")
    return found


@dataclass(frozen=True, eq=False)
class Family:
    """The settings of a selector, or of a scorer, in its place in a decoder."""

    settings: Settings
    like: Decoder  # whose other stages and depth they have

    def decoder(self, stage: Stage) -> Decoder:
        """The decoder with a stage in its place."""
        if isinstance(stage, Selector):
            return replace(self.like, select=stage)
        return replace(self.like, retrieve=cast(Scorer, stage))

    def __iter__(self) -> Iterator[Decoder]:
        return map(self.decoder, self.settings)

    def __len__(self) -> int:
        return sum(1 for _ in self.settings)

    def along_path(self, stage: Stage) -> Selector | None:
        """The selector, if its one free parameter has a path, and it chooses from all documents by their vectors."""
        if not isinstance(stage, Selector) or self.like != Decoder(self.like.select) or stage.path_range is None:
            return None
        return stage if [p.name for p in self.settings.free] == [stage.path_parameter] else None


@dataclass(frozen=True, eq=False, kw_only=True)
class _Study:
    """One call of `tune` or `choose`."""

    objective: Objective
    splits: Mapping[str, Mapping[str, Any]]  # dev first → options of `sweep`
    options: Mapping[str, Any]  # of whatever measures, for all splits
    swept: Mapping[str, Any]  # of `sweep` besides
    seed: int
    resamples: int
    report: Progress
    seen: Callable[[Cell], None] | None

    @classmethod
    def of(
        cls, objective: Any, k: int, options: Mapping[str, Any], judged: tuple[Any, Any, str, str | None],
        metrics: Iterable[str], swept: Mapping[str, Any], seed: int, resamples: int, progress: Progress | None,
        seen: Callable[[Cell], None] | None,
    ) -> "_Study":  # fmt: skip
        """Check the arguments. judged: queries, judgements by split, names of dev and test; metrics: reported too."""
        objective = Objective(objective) if isinstance(objective, str) else objective
        if not isinstance(objective, Objective):
            raise ParamError(f"objective must be an Objective or its aim; got {objective!r}")
        by_split, qrels = select_judged_queries(*judged), judged[1]
        return cls(
            objective=objective,
            splits={name: {"queries": own, "qrels": qrels[name], "split": name} for name, own in by_split.items()},
            options={**options, "k": SET_SIZE.check(k)},
            swept={**swept, "metrics": tuple(dict.fromkeys((*metrics, *objective.metrics)))},
            seed=SEED.check(seed),
            resamples=RESAMPLES.check(resamples),
            report=progress or (lambda *_: None),
            seen=seen,
        )

    @property
    def dev(self) -> str:
        return next(iter(self.splits))

    def run(
        self, families: Sequence[Family], plain: Decoder, *,
        several: bool = False, trials: int = 0, every_value: bool = True,
    ) -> Tuned:  # fmt: skip
        """Measure the settings on dev, choose, and set what was chosen against the baseline on test."""
        k, objective = self.options["k"], self.objective
        if all(family.settings.exhaustive for family in families):
            tried, base = self._all_settings(families, plain, several)
        else:
            tried, base = self._searched_settings(families[0], plain, trials)
        bests, choice = [], None
        for family, cells in zip(families, tried, strict=True):
            best, choice = self._best_of(family, cells, base, every_value, told=not several)
            bests.append(best)
        if several:
            choice = self._best_first(bests, base)
        assert choice is not None
        test = next((name for name in self.splits if name != self.dev), None)
        on_test: dict[str, Cell] = {}
        rows: tuple[Comparison, ...] = ()
        gaps: tuple[Gap, ...] = ()
        reference = Candidate(name=_named_cell(base, base), decoder=plain, settings=1, dev=base, test=None)
        if test is not None:
            label = f"reporting on {test}"
            on_test = self._measure([best.decoder for best in bests] + [plain], test, self._progress(label))
            tests, tested = [on_test[best.decoder.label] for best in bests], on_test[plain.label]
            rows = compare_cells(tests, tested, self.swept["metrics"], several, self.resamples, self.seed)
            if not several:
                pairs = (bests[0].dev, base), (tests[0], tested)
                gaps = tuple(_gap(row.metric, *pairs, self.resamples, self.seed) for row in rows)
        everything = [reference, *bests]
        if several:
            written = short_names([one.dev for one in everything])
            everything = [replace(one, name=name) for one, name in zip(everything, written, strict=True)]
        everything = [replace(one, test=on_test.get(one.decoder.label)) for one in everything]
        return Tuned(
            objective=objective,
            k=k,
            dev=self.dev,
            test=test,
            several=several,
            candidates=tuple(everything[1:]),
            reference=everything[0],
            choosing=choice,
            points=tuple(one.dev for one in bests) if several else tuple(tried[0].values()),
            comparisons=rows,
            gaps=gaps,
        )

    def _best_of(
        self, family: Family, cells: dict[Stage, Cell], base: Cell, every_value: bool, told: bool
    ) -> tuple[Candidate, TunedChoice]:
        """The best setting of a family, and why; what is measured for it is added to its cells."""
        count, stage = len(cells), next(iter(cells))
        along = family.along_path(stage) if every_value else None
        if along is None:
            stage, choice, facts = choose_setting(self.objective, cells, base, self.options["k"], self.seed)
            facts["searched"] = f"{'all' if family.settings.exhaustive else 'a search through'} {count:,} settings"
        else:
            options = {name: value for name, value in self.options.items() if name != "k"}
            options |= {"set_sizes": (self.options["k"],), "metrics": self.objective.metrics, "keep_steps": True}
            (curve,) = compute_exact_frontiers(along, **self.splits[self.dev], **options, progress=self.report)
            stage, choice, facts = choose_value(self.objective, curve, base, self.seed)
            decoder = family.decoder(stage)
            label = self._progress(f"measuring the best {along.spec.title}")
            cells[stage] = self._measure([decoder], self.dev, label, told)[decoder.label]
        decoder, cell = family.decoder(stage), cells[stage]
        best = Candidate(name=_named_cell(cell, base), decoder=decoder, settings=count, dev=cell, test=None, **facts)
        return best, choice

    def _best_first(self, bests: list[Candidate], base: Cell) -> TunedChoice:
        """Move the best candidate to the front; return why it is the best."""
        objective, k = self.objective, self.options["k"]
        common = align_on_common_queries([base, *(best.dev for best in bests)], objective.metrics, k)
        means = {metric: values.mean(0) for metric, values in common.values.items()}
        own, first = {m: v[1:] for m, v in means.items()}, {m: float(v[0]) for m, v in means.items()}
        margin = margin_of(objective, common.values)
        choice = objective.choose(own, first, list(range(len(bests))), k, _named_cell(base, base), margin)
        bests.insert(0, bests.pop(choice.best))
        return choice

    def _progress(self, label: str, start: int = 0, total: int | None = None) -> Progress:
        """Progress of a part of the work, under another label."""
        return lambda done, count, _: self.report(start + done, total or count, label)

    def _measure(
        self, decoders: Sequence[Decoder], split: str, progress: Progress | None = None, told: bool = False
    ) -> dict[str, Cell]:
        """Label → cell, in the order of the decoders, whatever order the sweep's come in; told: to who watches."""
        cells = {}
        for cell in sweep(list(decoders), progress=progress, **self.splits[split], **self.options, **self.swept):
            cells[cell.label] = cell
            if told and self.seen is not None:
                self.seen(cell)
        return {decoder.label: cells[decoder.label] for decoder in decoders}

    def _all_settings(
        self, families: Sequence[Family], plain: Decoder, several: bool
    ) -> tuple[list[dict[Stage, Cell]], Cell]:
        """Every setting of each family's grid, and the baseline, on dev."""
        # The baseline first: what is finished before it could be compared with nothing.
        decoders = [plain, *(decoder for family in families for decoder in family)]
        watched = self.seen is not None and self.swept["workers"] is None and self.swept["cluster"] is None
        # Many families in one sweep: it hands out each as it is finished.
        in_rounds, label = watched and not several, f"{'measuring' if several else 'tuning'} on {self.dev}"
        size = min(TOGETHER, max(2, len(decoders) // ROUNDS)) if in_rounds else len(decoders)
        cells: dict[str, Cell] = {}
        for start in range(0, len(decoders), size):
            progress = self._progress(label, start, len(decoders))
            cells |= self._measure(decoders[start : start + size], self.dev, progress, told=True)
        tried = [{stage: cells[family.decoder(stage).label] for stage in family.settings} for family in families]
        return tried, cells[plain.label]

    def _searched_settings(self, family: Family, plain: Decoder, trials: int) -> tuple[list[dict[Stage, Cell]], Cell]:
        """The settings that a search tries, and the baseline, on dev."""
        base = self._measure([plain], self.dev, told=True)[plain.label]
        cells: dict[Stage, Cell] = {}

        def goals(stages: Iterable[Stage]) -> dict[Stage, tuple[float, ...] | None]:
            if new := {stage: family.decoder(stage) for stage in stages if stage not in cells}:
                measured = self._measure(list(new.values()), self.dev, told=True)
                cells.update({stage: measured[decoder.label] for stage, decoder in new.items()})
            return {
                stage: self.objective.guide(cells[stage].mean, base.mean, _margin(cells[stage], base, self.objective))
                if _answers(cells[stage], base, self.objective)
                else None
                for stage in stages
            }

        def progress(done: int, total: int) -> None:
            self.report(done, total, f"tuning on {self.dev}")

        count = len(self.objective.guide(base.mean, base.mean))
        search(family.settings, goals, count, trials, self.seed, progress, self.options["stop"])
        return [cells], base


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
) -> tuple[Stage, TunedChoice, dict[str, Any]]:
    """The best of the settings that answer enough queries, why, and what its `Candidate` says of that."""
    stages = [stage for stage, cell in cells.items() if _answers(cell, base, objective)]
    left_out = tuple(_named_cell(cell, base) for stage, cell in cells.items() if stage not in stages)
    if not stages:
        what = " and ".join(METRICS[m].title for m in objective.metrics)
        raise DataError(f"no setting has {what} on enough of the queries of {base.split} to be compared")
    common = align_on_common_queries([base, *(cells[stage] for stage in stages)], objective.metrics, k)
    order = [(round(far(stage), 9), stage.label) for stage in stages]

    margin = margin_of(objective, common.values)

    def choose(means: Mapping[str, np.ndarray]) -> TunedChoice:
        own, baseline = {m: v[1:] for m, v in means.items()}, {m: float(v[0]) for m, v in means.items()}
        return objective.choose(own, baseline, order, k, _named_cell(base, base), margin)

    choice = choose({m: values.mean(0) for m, values in common.values.items()})
    # One seed, so every metric sees the same queries.
    means = {m: bootstrap_means(values, DRAWS, seed) for m, values in common.values.items()}
    same = sum(choose({m: v[draw] for m, v in means.items()}).best == choice.best for draw in range(DRAWS))
    facts = {"stability": same / DRAWS, "queries": len(common.queries), "left_out": left_out}
    return stages[choice.best], choice, facts


def margin_of(objective: Objective, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """(m,) how much less than its mean each of m settings keeps for certain; values: (n, 1 + m), the baseline first."""
    slack = objective.slack({m: v[:, 1:] for m, v in values.items()}, values[objective.metrics[0]][:, :1])
    margin: np.ndarray = objective.margin(slack.mean(0), np.square(slack).mean(0), len(slack))
    return margin


def choose_value(
    objective: Objective, curve: Curve, base: Cell, seed: int
) -> tuple[Selector, TunedChoice, dict[str, Any]]:
    """The selector at the middle of the best interval of a curve, why, and what its `Candidate` says of that."""
    assert curve.steps is not None
    metrics, k = objective.metrics, curve.k
    first = {m: curve.steps.values[m][curve.steps.first_steps] for m in metrics}
    common = np.all([np.isfinite(first[m]) & np.isfinite(base.values[m]) for m in metrics], axis=0)
    if not common.any():
        what = " and ".join(METRICS[m].title for m in metrics)
        raise DataError(f"no query of {base.split} has {what}, by which a value could be chosen")
    baseline = {m: float(base.values[m][common].mean()) for m in metrics}
    steps = curve.steps.select_queries(common)
    found = {m: steps.mean_pieces(m, curve.tolerance) for m in metrics}
    edges = np.append(found[metrics[0]][0], curve.interval[1])

    def choose(means: Any, baseline: Mapping[str, float], values: np.ndarray, margin: np.ndarray) -> TunedChoice:
        away = np.abs(values - curve.declared.default).round(9)
        order = list(zip(away.tolist(), values.tolist(), strict=True))
        return objective.choose(means, baseline, order, k, _named_cell(base, base), margin)

    slack = objective.slack(steps.values, base.values[metrics[0]][steps.query_index])
    moments = replace(steps, values={"mean": slack, "square": np.square(slack)})
    first_two = [moments.mean_pieces(name, curve.tolerance)[1] for name in moments.values]
    margin = objective.margin(first_two[0], first_two[1], int(common.sum()))
    means = {m: column for m, (_, column) in found.items()}
    choice = choose(means, baseline, (edges[:-1] + edges[1:]) / 2, margin)
    same = np.all([np.abs(column - column[choice.best]) <= TIE_TOLERANCE for column in means.values()], axis=0)
    differs = np.flatnonzero(~same)
    at = int(np.searchsorted(differs, choice.best))
    low = edges[differs[at - 1] + 1] if at else edges[0]
    high = edges[differs[at]] if at < len(differs) else edges[-1]
    # The number of fewest digits in the middle half of the interval.
    middle, room = float(low + high) / 2, float(high - low) / 4
    value = next((v for digits in range(1, 17) if abs((v := round(middle, digits)) - middle) <= room), middle)
    at_places = steps.evaluate_at(curve.band_positions)
    # One seed, so every metric sees the same queries; the baseline's column comes first.
    columns = {m: np.column_stack([base.values[m][common], at_places[m]]) for m in metrics}
    drawn = {m: bootstrap_means(column, DRAWS, seed) for m, column in columns.items()}
    margin = margin_of(objective, columns)
    near, chosen = NEAR * (curve.interval[1] - curve.interval[0]), []
    for draw in range(DRAWS):
        drawn_base = {m: float(v[draw, 0]) for m, v in drawn.items()}
        drawn_means = {m: v[draw, 1:] for m, v in drawn.items()}
        chosen.append(curve.band_positions[choose(drawn_means, drawn_base, curve.band_positions, margin).best])
    return (
        curve.make_stage(value),
        choice,
        {
            "stability": float(np.mean(np.abs(np.array(chosen) - value) <= near)),
            "queries": int(common.sum()),
            "interval": (float(low), float(high)),
            "curve": curve,
            "searched": f"every {curve.symbol} from {curve.interval[0]:g} to {curve.interval[1]:g}",
        },
    )


def _gap(metric: str, on_dev: tuple[Cell, Cell], on_test: tuple[Cell, Cell], resamples: int, seed: int) -> Gap:
    """on_dev, on_test: chosen and baseline."""
    means, gains = [], []
    for cell, base in (on_dev, on_test):
        pairs = np.stack([cell.values[metric], base.values[metric]], axis=1)
        pairs = pairs[np.isfinite(pairs).all(1)]
        means.append(mean_of_defined(pairs[:, 0]))
        gains.append(pairs[:, :1] - pairs[:, 1:])
    low = high = None
    if min(map(len, gains)) > 1:
        # Two sets of queries, so two sequences of draws.
        draws = [bootstrap_means(values, resamples, seed + split)[:, 0] for split, values in enumerate(gains)]
        low, high = np.percentile(draws[0] - draws[1], [2.5, 97.5]).tolist()
    return Gap(
        metric=metric,
        k=on_dev[0].k,
        dev=means[0],
        test=means[1],
        gained_dev=mean_of_defined(gains[0][:, 0]),
        gained_test=mean_of_defined(gains[1][:, 0]),
        low=low,
        high=high,
    )


def _named_cell(point: Cell, base: Cell) -> str:
    """The scorers go without saying where they are the baseline's."""
    return format_decoder(point.decoder, scorer_chain(point.decoder) != scorer_chain(base.decoder))
