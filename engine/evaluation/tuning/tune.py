"""Tuning: choice of a setting, or of a decoder, on one split, and its report on another beside the baseline."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, compress, filterfalse, product
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from engine.data.endpoints.consent import limit_tokens
from engine.decoder import SET_SIZE, Decoder, explain_ignored_scorer
from engine.errors import DataError, ParamError
from engine.evaluation import paired
from engine.evaluation.curve import Curve
from engine.evaluation.decide import OptionEstimates, estimate_options
from engine.evaluation.decision import COST_METRICS, Decision, Option, find_best
from engine.evaluation.duplicate_threshold import check_duplicate_threshold
from engine.evaluation.exact_frontier import compute_exact_frontiers, list_path_decoders
from engine.evaluation.judge_agreement import UNNAMED_JUDGE
from engine.evaluation.metrics import map_values, mean_of_defined, title_of
from engine.evaluation.splits import select_judged_queries
from engine.evaluation.statistics import RESAMPLES, SEED, Comparison, bootstrap_means
from engine.evaluation.sweep.cell import Cell
from engine.evaluation.sweep.store import Store
from engine.evaluation.sweep.sweep import DECODER_GROUP_SIZE, sweep
from engine.evaluation.tuning.model_judge import TuningJudge
from engine.evaluation.tuning.objectives import DIVERSE, RELEVANT, Objective, TunedChoice
from engine.evaluation.tuning.search_space import Settings, measure_distance_from_default, search
from engine.evaluation.tuning.tuned import N_DRAWS, NEAR_SHARE, Candidate, Gap, Tuned, average_over, compare_cells
from engine.params import Whole
from engine.progress import Progress, Stop, counted
from engine.selection.per_source import check_per_source, list_limitable_selectors
from engine.space import Space
from engine.stages import Scorer, Selector, Stage, make, make_selector, methods, spec_of
from engine.values import Embeddings, Qrels, Queries

REPORTED_METRICS = ("recall", "comp", "ndcg", "ilad")
N_MEASURING_ROUNDS = 12
"""Number of rounds of measuring where a caller watches: fewer share more work, more show results sooner."""
#: The measured settings of each family, and the baseline's cell.
TriedCells = tuple[list[dict[Stage, Cell]], Cell]
#: The best setting, the reason for it, and details for its Candidate.
StageChoice = tuple[Stage, TunedChoice, dict[str, Any]]
TRIALS = Whole(64, "trials", 1, 100_000, name="trials", help="Settings a search tries.")


@limit_tokens()
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
    metrics: Sequence[str] = REPORTED_METRICS,
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
    source: str | None = None,
    duplicate_threshold: float | None = None,
    model_qrels: Qrels | None = None,
    judge: str = UNNAMED_JUDGE,
) -> Tuned:
    """Find the best parameters of a selector or scorer for an objective: chosen on dev, reported on test.

    If the one free parameter has a λ path, the middle of the best interval of all its values is chosen, unless
    values="grid"; for the aim "diverse" the best hundredth of its range, as `decide` does. Otherwise every setting of
    the grid is tried for up to two parameters, and beyond that Optuna's TPE (extra `tune`) tries `trials` of them. Of
    equally good settings the one closest to the default is chosen, but for "diverse" that with the better chance.

    Parameters
    ----------
    name : str
        The name of a selector, which is compared with the first selector, or of a scorer, which is compared with
        the first scorer.
    space : Space
        The corpus to search.
    queries : Queries or Embeddings
        At least the queries that the two splits judge.
    qrels : mapping of str to Qrels
        Judgements by split. `engine.evaluation.splits.split_in_half` makes two of one.
    objective : Objective or str
        An Objective, or its aim.
    k : int
        The size of the retrieved sets.
    dev : str
        The split to choose on.
    test : str or None
        The split to report on; None for no report.
    points : int
        The number of values per parameter, as in `grid`.
    free : str, sequence of str or None
        The parameters to choose; by default those that sweeps vary.
    fixed : mapping of str to object or None
        Values of other parameters.
    like : Decoder or None
        A decoder whose other stages, depth and limits are kept.
    metrics : sequence of str
        Metrics to report besides the objective's.
    aspects : mapping or None
        Query id → aspect → ids of the documents that cover it.
    values : str
        "all" or "grid".
    trials : int
        The number of settings that TPE tries.
    seed : int
        The seed of the random numbers.
    resamples : int
        The number of draws of the intervals.
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
    seen : callable or None
        Called with each cell of dev when it is finished.
    source : str or None
        The metadata column of the corpus that names the sources, for the metric `unique_sources`; by default like's.
    duplicate_threshold : float or None
        The cosine from which on two documents are near-duplicates, for the metric `redundancy`, as `measure` takes it.
    model_qrels : Qrels or None
        A model's judgements of more queries than dev judges, which dev corrects: its queries must be a random sample of
        the model's. Those of test are left out. For the aim "diverse" alone.
    judge : str
        The model's name, for sentences.

    Returns
    -------
    Tuned
        The chosen decoder, and its comparison with the baseline on test.

    Raises
    ------
    ParamError, DataError, FrontierError
        If an argument is invalid, inputs do not belong together, or a worker fails.
    Cancelled
        If it is stopped.

    Examples
    --------
    >>> tuned = engine.tune("mmr", space, queries, {"dev": dev, "test": test})  # doctest: +SKIP
    """
    if values not in ("all", "grid"):
        raise ParamError(f'values must be "all" or "grid"; got {values!r}')
    trials, spec = TRIALS.check(trials), spec_of(name)
    baseline_name = next(iter(methods(spec.kind)))
    if name == baseline_name:
        raise ParamError(f"{name} is what the others are compared with; tune another one")
    like = like or make_baseline()
    family = Family(Settings.build(spec, points, free, fixed or {}), like)
    reported = (metrics,) if isinstance(metrics, str) else metrics
    options: dict[str, Any] = {"space": space, "aspects": aspects, "stop": stop, "source": source or like.source}
    options["duplicate_threshold"] = check_duplicate_threshold(duplicate_threshold)
    study = _Study.build(
        objective, k, options, (queries, qrels, dev, test), reported,
        {"store": Store.open_store(store), "workers": workers, "cluster": cluster}, seed, resamples, progress, seen,
        TuningJudge.build(model_qrels, judge, queries, qrels, dev, test),
    )  # fmt: skip
    return study.run([family], family.make_decoder(make(baseline_name)), n_trials=trials, every_value=values == "all")


@limit_tokens()
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
    per_source: int | None = None,
    source: str | None = None,
    without_self: bool | None = None,
    model_qrels: Qrels | None = None,
    judge: str = UNNAMED_JUDGE,
) -> Tuned:
    """Choose the best decoder for an objective on dev, and test all candidates on test.

    Each selector gets its best parameters on dev; the best of these by dev is chosen. On test every candidate is
    compared with the baseline, the first selector behind the first scorer, with Holm's correction over all of them. A
    selector with a λ path behind the first scorer gets the best of all its values. Results are kept in the store, so an
    interrupted call continues.

    Parameters
    ----------
    space : Space
        The corpus to search.
    queries : Queries or Embeddings
        At least the queries that the splits judge.
    qrels : mapping of str to Qrels
        Judgements by split.
    objective : Objective or str
        An Objective, or its aim.
    k : int
        The size of the retrieved sets.
    dev : str
        The split to choose on.
    test : str or None
        The split to report on; None for no report.
    selectors : sequence of str or None
        Names of selectors; by default all that can keep `per_source`.
    scorers : sequence of str or None
        Names of scorers to retrieve with; by default the first.
    points : int
        The number of values per parameter, as in `grid`.
    aspects : mapping or None
        Query id → aspect → ids of the documents that cover it.
    seed : int
        The seed of the random numbers.
    resamples : int
        The number of draws of the intervals.
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
    seen : callable or None
        Called with each cell of dev when it is finished.
    per_source : int or None
        The most documents of one source in a set, of all decoders, as a Decoder takes it; None for any number.
    source : str or None
        The metadata column of the corpus that names the sources, for `per_source` and the metric `unique_sources`.
    without_self : bool or None
        The treatment of queries that are documents, as a Decoder takes it.
    model_qrels : Qrels or None
        A model's judgements of more queries than dev judges, which dev corrects: its queries must be a random sample of
        the model's. Those of test are left out. For the aim "diverse" alone.
    judge : str
        The model's name, for sentences.

    Returns
    -------
    Tuned
        The chosen decoder, the candidates and their comparison on test.

    Raises
    ------
    ParamError, DataError, FrontierError
        If an argument is invalid, inputs do not belong together, or a worker fails.
    Cancelled
        If it is stopped.

    Examples
    --------
    >>> best = engine.choose(space, queries, {"dev": dev, "test": test})  # doctest: +SKIP
    """
    study = _Study.build(
        objective, k, {"space": space, "aspects": aspects, "stop": stop, "source": source},
        (queries, qrels, dev, test), (),
        {"store": Store.open_store(store), "workers": workers, "cluster": cluster}, seed, resamples, progress, seen,
        TuningJudge.build(model_qrels, judge, queries, qrels, dev, test),
    )  # fmt: skip
    limit_column = None if per_source is None else source
    reference = replace(make_baseline(), per_source=per_source, source=limit_column, without_self=without_self)
    return study.run(build_families(selectors, scorers, points, reference), reference, several=True)


def _check_names(argument: str, names: Sequence[str] | None, kind: Literal["selector", "scorer"]) -> list[str]:
    """Check names of stages of a kind; return them once each, an empty list for None. Raises ParamError."""
    available = list(methods(kind))
    if unknown := list(filterfalse(available.__contains__, names or ())):
        raise ParamError(f"{argument} must be among {', '.join(available)}; got {unknown[0]!r}")
    return list(dict.fromkeys(names or ()))


def make_baseline() -> Decoder:
    """Make the decoder that others are compared with: the first selector behind the first scorer."""
    # Stages are registered in the order of their lists; the first of each kind is the plainest.
    return Decoder(make(next(iter(methods("selector")))), make(next(iter(methods("scorer")))))


def build_families(
    selectors: Sequence[str] | None = None, scorers: Sequence[str] | None = None, points: int = 11,
    reference: Decoder | None = None,
) -> "list[Family]":  # fmt: skip
    """Build the candidates of `choose`: settings for each scorer and selector, but not the baseline.

    selectors, scorers: names, by default all selectors behind the first scorer, or with a limit per source those that
    can keep it; points: number of values per parameter; reference: the baseline, whose limits all have. Raises
    ParamError.
    """
    reference, selector_specs = reference or make_baseline(), methods("selector")
    scorer_names = _check_names("scorers", scorers, "scorer") or [reference.retrieve.spec.name]
    all_names = list(selector_specs) if reference.per_source is None else list_limitable_selectors()
    selector_names = _check_names("selectors", selectors, "selector") or all_names
    tuned_families = []
    reasons = []
    for scorer, name in product(scorer_names, selector_names):
        template, selector = replace(reference, retrieve=make(scorer)), make_selector(name)
        if reference.per_source is not None:
            check_per_source(selector)
        reason = explain_ignored_scorer(selector, template.retrieve, template.rerank, template.depth)
        if reason is not None:
            reasons.append(reason)
            continue
        family = Family(Settings.build_grid(selector_specs[name], points), template)
        # A family that holds nothing but the baseline has nothing to tune.
        if list(family) != [reference]:
            tuned_families.append(family)
    if not tuned_families and reasons:
        raise ParamError(reasons[0])
    if not tuned_families:
        first_name = reference.select.spec.name
        raise ParamError(f"selectors must name another one than {first_name}, what all are compared with")
    return tuned_families


@dataclass(frozen=True, eq=False)
class Family:
    """The settings of one selector or scorer, as decoders: each takes its place in a template decoder."""

    settings: Settings
    template: Decoder  # whose other stages and depth they have

    def make_decoder(self, stage: Stage) -> Decoder:
        """Return the template decoder with a setting, a selector or scorer, in the place of its own."""
        if isinstance(stage, Selector):
            return replace(self.template, select=stage)
        return replace(self.template, retrieve=cast(Scorer, stage))

    def get_stage(self, decoder: Decoder) -> Stage:
        """Return a decoder's stage of the kind that the family varies."""
        return decoder.retrieve if self.settings.spec.kind == "scorer" else decoder.select

    def has(self, decoder: Decoder) -> bool:
        """Return True if a decoder is one of the family's, whatever the values of its free parameters."""
        stage = self.get_stage(decoder)
        return stage.spec == self.settings.spec and self.make_decoder(stage) == decoder

    def has_option(self, option: Option) -> bool:
        """Return True if a decision's option is one of the family's."""
        return option.decoder is not None and self.has(option.decoder)

    def __iter__(self) -> Iterator[Decoder]:
        return map(self.make_decoder, self.settings)

    def __len__(self) -> int:
        return len(list(self.settings))

    def find_path_selector(self, stage: Stage) -> Selector | None:
        """Return the selector if it has a path over the family's free parameter; else None.

        A path is its rankings at all values of the parameter, solved at once. stage: one of the family's settings,
        which differ in free parameters only
        """
        if not isinstance(stage, Selector) or stage.path_range is None or len(self.settings.free) != 1:
            return None
        (param,) = self.settings.free
        # A path needs the inner products of all documents: no other scorer, no pool.
        is_plain = self.template == Decoder(self.template.select, **self.template.limits)
        is_path = param.name == stage.path_parameter and is_plain
        return stage if is_path else None


class _LacksAnswersError(DataError):
    """Each setting lacks a metric on some of the split's queries, so that none can be compared."""

    def __init__(self, objective: Objective, base: Cell) -> None:
        metric_titles = " and ".join(map(title_of, objective.metrics))
        super().__init__(f"no setting has {metric_titles} on every query of {base.split}, so none can be compared")


@dataclass(frozen=True, eq=False, kw_only=True)
class _Study:
    """The checked arguments of one call of `tune` or `choose`, and the steps that answer it."""

    objective: Objective
    splits: Mapping[str, Mapping[str, Any]]  # name, dev first → its queries and qrels, as options of `sweep`
    options: Mapping[str, Any]  # as `sweep` and exact frontiers take them: space, aspects, stop, source, threshold, k
    sweep_options: Mapping[str, Any]  # metrics, store, workers and cluster, for `sweep` only
    reported_metrics: tuple[str, ...]  # those of the metrics in which the choice is compared on test
    seed: int
    resamples: int
    report: Progress
    on_cell: Callable[[Cell], None] | None  # called with each cell of dev
    model: TuningJudge | None  # beside dev's judgements

    @classmethod
    def build(
        cls, objective: Any, k: int, options: Mapping[str, Any], judged_data: tuple[Any, Any, str, str | None],
        metrics: Iterable[str], sweep_options: Mapping[str, Any], seed: int, resamples: int, progress: Progress | None,
        on_cell: Callable[[Cell], None] | None, model: TuningJudge | None,
    ) -> "_Study":  # fmt: skip
        """Check a tuning's arguments, and store them as the steps of the study take them.

        options: space, aspects, stop, source and duplicate_threshold; judged_data: queries, judgements by split, names
        of dev and test; metrics: reported besides the objective's; sweep_options: store, workers and cluster. Raises
        ParamError or DataError.
        """
        objective = Objective(objective) if isinstance(objective, str) else objective
        if not isinstance(objective, Objective):
            raise ParamError(f"objective must be an Objective or its aim; got {objective!r}")
        if model is not None and not objective.constrained:
            raise ParamError(
                f'objective must be "diverse" where model_qrels is given, whose loss it corrects; got {objective.text}'
            )
        by_split, qrels = select_judged_queries(*judged_data), judged_data[1]
        reported = dict.fromkeys((*metrics, *objective.metrics))
        # What a choice that keeps Recall costs in other metrics is said beside it.
        all_metrics = reported | (dict.fromkeys(COST_METRICS) if objective.constrained else {})
        return cls(
            objective=objective,
            splits={name: {"queries": own, "qrels": qrels[name], "split": name} for name, own in by_split.items()},
            options={**options, "k": SET_SIZE.check(k)},
            sweep_options={**sweep_options, "metrics": tuple(all_metrics)},
            reported_metrics=tuple(reported),
            seed=SEED.check(seed),
            resamples=RESAMPLES.check(resamples),
            report=progress or (lambda *_: None),
            on_cell=on_cell,
            model=model,
        )

    @property
    def dev(self) -> str:
        """The name of the split to choose on, the first of `splits`."""
        return next(iter(self.splits))

    def run(
        self, families: Sequence[Family], reference: Decoder, *,
        several: bool = False, n_trials: int = 0, every_value: bool = True,
    ) -> Tuned:  # fmt: skip
        """Measure the settings on dev, choose, and compare the choice with the baseline on test.

        A family is the settings of one selector or scorer. reference: the baseline; several: choose among the families,
        each at its best setting, and not among one family's settings; n_trials: settings that a search tries;
        every_value: compare all values of a parameter where the selector can solve for them at once.
        """
        k, objective = self.options["k"], self.objective
        # The splits are dev and, unless nothing is to be reported, test.
        test_split = next(iter([*self.splits][1:]), None)
        # Beyond two free parameters a grid is too large; that happens only to the single family of `tune`.
        if all(family.settings.is_exhaustive for family in families):
            tried_cells, base = self._measure_all(families, reference, several)
        else:
            tried_cells, base = self._measure_searched(families[0], reference, n_trials)
        estimates: OptionEstimates | None = None
        if objective.constrained:
            candidates, estimates = self._find_deciding(families, tried_cells, base, every_value, several)
        else:
            candidates, choice = self._find_best_of_all(families, tried_cells, base, every_value, several)
        test_cells: dict[str, Cell] = {}
        comparisons: tuple[Comparison, ...] = ()
        gaps: tuple[Gap, ...] = ()
        base_candidate = Candidate(name=_format_cell(base, base), decoder=reference, settings=1, dev=base, test=None)
        if test_split is not None:
            progress = self._relabel_progress(f"reporting on {test_split}")
            decoders = [candidate.decoder for candidate in candidates]
            bets = [] if estimates is None else _list_bets(estimates, objective.share)
            # A decoder that is tried twice, as candidate and as bet, is measured once.
            test_cells = self._measure(list(dict.fromkeys([*decoders, *bets, reference])), test_split, progress)
            chosen_tests, base_test = [test_cells[decoder.label] for decoder in decoders], test_cells[reference.label]
            comparisons = compare_cells(
                chosen_tests, base_test, self.reported_metrics, several, self.resamples, self.seed
            )
            if not several:
                pairs = (candidates[0].dev, base), (chosen_tests[0], base_test)
                gaps = tuple(_measure_gap(row.metric, *pairs, self.resamples, self.seed) for row in comparisons)
        # One decoder is named by itself; several need names that tell them from one another.
        dev_cells = [candidate.dev for candidate in candidates]
        names = paired.short_names([base, *dev_cells]) if several else (base_candidate.name, candidates[0].name)
        final_candidates = []
        for candidate, name in zip([base_candidate, *candidates], names, strict=True):
            final_candidates.append(replace(candidate, name=name, test=test_cells.get(candidate.decoder.label)))
        points = tuple(dev_cells if several else tried_cells[0].values())
        decision = None if estimates is None else estimates.decide(objective.share, confirm=test_cells.values())
        if decision is not None:
            decision = decision.with_agreement(None if self.model is None else self.model.agreement)
            choice = TunedChoice(0, decision.sure is not None, " ".join(decision.sentences))
        return Tuned(
            objective=objective, k=k, dev=self.dev, test=test_split, several=several,
            candidates=tuple(final_candidates[1:]), reference=final_candidates[0], choosing=choice,
            decision=decision, estimates=estimates, points=points, comparisons=comparisons, gaps=gaps,
        )  # fmt: skip

    def _find_deciding(
        self, families: Sequence[Family], tried_cells: Sequence[dict[Stage, Cell]], base: Cell, every_value: bool,
        several: bool,
    ) -> tuple[list[Candidate], OptionEstimates]:  # fmt: skip
        """Estimate all settings on dev for a budget; return each family's best and the estimates.

        The budget is the share of the baseline's Recall that a setting must keep. Of the best ones the choice comes
        first. A family is the settings of one selector or scorer. Its best one is that with the largest gain among
        those that are sure to keep the share, else the one most likely to. If a family has an exact curve over all
        values of its parameter, its best setting may lie between the measured ones. tried_cells: each family's measured
        settings, to which such a setting is added; several: the families are compared.
        """
        objective, k, space = self.objective, self.options["k"], self.options["space"]
        points, on_paths = [base], list[Decoder]()
        for family, cells in zip(families, tried_cells, strict=True):
            points += cells.values()
            # None is found if the caller fixed the path's parameter, or if another parameter is free as well.
            on_paths += map(family.make_decoder, filter(family.find_path_selector, cells))
        path_decoders = list_path_decoders(on_paths, space) if every_value else ()
        curves = list(map(self._compute_curve, path_decoders))
        model_points = None
        if self.model is not None:
            # The same settings on the model's queries; what was measured before is in the store.
            model_options = {**self.options, **self.sweep_options, "progress": self.report}
            model_points = self.model.measure(points, model_options)
            model_points += [self._compute_curve(decoder, self.model.split_options) for decoder in path_decoders]
        estimates = estimate_options(
            [*points, *curves], baseline=base, metric=RELEVANT, objective=DIVERSE, k=k, model_judged=model_points
        )
        decision = estimates.decide(objective.share, with_next_level=False)
        # A family whose settings all lack a metric on some queries is left out, and the decision names them.
        answering = [any(map(family.has_option, decision.options)) for family in families]
        families, tried_cells = list(compress(families, answering)), list(compress(tried_cells, answering))
        if not families:
            raise _LacksAnswersError(objective, base)
        best_options = [_find_best_option(family, decision) for family in families]
        if decision.sure is None and decision.bet is not None and not several:
            best_options = [decision.bet]
        chosen = decision.sure or find_best(best_options)
        candidates = []
        for number, (family, cells, option) in enumerate(zip(families, tried_cells, best_options, strict=True)):
            compared_labels = {base.label, *estimates.position_of}
            names = tuple(_format_cell(cell, base) for cell in cells.values() if cell.label not in compared_labels)
            own_curves = [curve for curve in curves if curve.method == family.settings.spec.name]
            facts, step = {"queries": decision.queries, "left_out": names}, (number, len(families))
            candidates.append(self._measure_option(option, family, cells, base, own_curves, facts, several, step))
        # The choice first, then the others in the families' order.
        candidates.sort(key=lambda candidate: candidate.decoder.label != chosen.label)
        return candidates, estimates

    def _measure_option(
        self, option: Option, family: Family, cells: dict[Stage, Cell], base: Cell, curves: Sequence[Curve],
        facts: Mapping[str, Any], several: bool, step: tuple[int, int],
    ) -> Candidate:  # fmt: skip
        """Return a setting as a candidate for the choice; measure it on dev if it is on a curve only.

        A cell is one decoder's metrics, query by query, at one k. option: the setting with its estimates; family: all
        settings of its selector or scorer; cells: those that are measured, to which it is added; curves: the family's
        exact ones; facts: further fields of the candidate; several: the families are compared, else the new cell is
        passed to `on_cell`; step: number of families before this one, and of all
        """
        assert option.decoder is not None
        decoder, n_settings = option.decoder, len(cells)
        stage = family.get_stage(decoder)
        if stage not in cells:
            progress = self._relabel_progress(f"measuring the best {family.settings.spec.title}", *step)
            cells[stage] = self._measure([decoder], self.dev, progress, not several)[decoder.label]
        curve = next((curve for curve in curves if curve.has(decoder)), None)
        return Candidate(
            name=_format_cell(cells[stage], base), decoder=decoder, settings=n_settings, dev=cells[stage], test=None,
            stability=None, searched=_describe_extent(family, n_settings, curve), curve=curve, **facts,
        )  # fmt: skip

    def _find_best_of_all(
        self, families: Sequence[Family], tried_cells: Sequence[dict[Stage, Cell]], base: Cell, every_value: bool,
        several: bool,
    ) -> tuple[list[Candidate], TunedChoice]:  # fmt: skip
        """Choose each family's best setting on dev; return these candidates, and the choice with its reason.

        A family is the settings of one selector or scorer. several: there may be several families; the best of their
        candidates is chosen and moved to the front of the list. Otherwise there is one family, with one candidate.
        """
        objective, k = self.objective, self.options["k"]
        candidates, choices = [], []
        for family, cells in zip(families, tried_cells, strict=True):
            try:
                candidate, choice = self._find_best(family, cells, base, every_value, is_reported=not several)
            except _LacksAnswersError:
                if not several:
                    raise
                continue
            candidates.append(candidate)
            choices.append(choice)
        if not candidates:
            raise _LacksAnswersError(objective, base)
        return candidates, _move_best_first(objective, candidates, base, k) if several else choices[0]

    def _compute_curve(self, path_decoder: Decoder, split_options: Mapping[str, Any] | None = None) -> Curve:
        """Compute the exact curve of a decoder whose selector has a path; split_options: queries, by default dev's."""
        cost_metrics = COST_METRICS if self.objective.constrained else ()
        options = {**self.options, "metrics": (*self.objective.metrics, *cost_metrics)}
        options["set_sizes"] = (options.pop("k"),)
        (curve,) = compute_exact_frontiers(
            path_decoder, **(split_options or self.splits[self.dev]), **options, progress=self.report
        )
        return curve

    def _find_best(
        self, family: Family, cells: dict[Stage, Cell], base: Cell, every_value: bool, is_reported: bool
    ) -> tuple[Candidate, TunedChoice]:
        """Choose a family's best setting on dev; return it as a candidate, and the choice with its reason.

        family: settings of one selector or scorer; cells: the measured ones; every_value: if the rankings at all values
        of the parameter can be solved at once, along a path, choose among these, and add the choice to `cells`;
        is_reported: pass its cell to `on_cell`.
        """
        # Any setting tells what can be solved along a path: they differ in free parameters only.
        n_settings, stage = len(cells), next(iter(cells))
        # With a path every value of the parameter is compared, else the measured settings only.
        path_selector = family.find_path_selector(stage) if every_value else None
        if path_selector is None:
            stage, choice, details = choose_setting(self.objective, cells, base, self.options["k"], self.seed)
        else:
            curve = self._compute_curve(family.make_decoder(path_selector))
            stage, choice, details = choose_value(self.objective, curve, base, self.seed)
            decoder = family.make_decoder(stage)
            progress = self._relabel_progress(f"measuring the best {path_selector.spec.title}")
            cells[stage] = self._measure([decoder], self.dev, progress, is_reported)[decoder.label]
        decoder, cell = family.make_decoder(stage), cells[stage]
        details |= {"name": _format_cell(cell, base), "settings": n_settings}
        details["searched"] = _describe_extent(family, n_settings, details.get("curve"))
        return Candidate(decoder=decoder, dev=cell, test=None, **details), choice

    def _relabel_progress(self, label: str, n_before: int = 0, n_total: int | None = None) -> Progress:
        """Return a progress callback that reports a part of the work under another label.

        n_before, n_total: steps before this part, and of the work in all; by default the part stands for all.
        """
        return lambda n_done, n_part, _: self.report(max(0, n_before + n_done), n_total or n_part, label)

    def _measure(
        self, decoders: Sequence[Decoder], split: str, progress: Progress | None = None, is_reported: bool = False
    ) -> dict[str, Cell]:
        """Measure decoders on a split, or read their cells from the store; return label → cell.

        A cell is one decoder's metrics, query by query, at one k. is_reported: pass each cell to `on_cell` as it is
        finished
        """
        by_label, options = {}, {**self.splits[split], **self.options, **self.sweep_options}
        for cell in sweep(list(decoders), progress=progress, **options):
            by_label[cell.label] = cell
            if is_reported and self.on_cell is not None:
                self.on_cell(cell)
        # In the decoders' order, while cells come as they are finished.
        return {decoder.label: by_label[decoder.label] for decoder in decoders}

    def _measure_all(self, families: Sequence[Family], baseline: Decoder, several: bool) -> TriedCells:
        """Measure all settings of each selector or scorer (family) on dev, and the baseline.

        A cell is the measurement of one decoder. Return a list with a dictionary for each family, setting → cell; and
        the baseline's cell. several: the families are compared with each other, and measured in one sweep. A single one
        is measured in rounds if the caller takes each cell as it is finished, so that results are seen sooner.
        """
        # The baseline first, as settings that are finished before it have nothing to be compared with.
        decoders = [baseline, *chain.from_iterable(families)]
        is_local = self.sweep_options["workers"] is None and self.sweep_options["cluster"] is None
        takes_each_cell = self.on_cell is not None and is_local
        progress_label = f"{'measuring' if several else 'tuning'} on {self.dev}"
        round_size = len(decoders)
        # Many families go in one sweep, which yields each family as it is finished.
        if takes_each_cell and not several:
            round_size = min(DECODER_GROUP_SIZE, max(2, len(decoders) // N_MEASURING_ROUNDS))
        by_label: dict[str, Cell] = {}
        for round_start in range(0, len(decoders), round_size):
            # The baseline is no setting that is tried, and all else that counts settings leaves it out.
            progress = self._relabel_progress(progress_label, round_start - 1, len(decoders) - 1)
            round_decoders = decoders[round_start : round_start + round_size]
            by_label |= self._measure(round_decoders, self.dev, progress, is_reported=True)
        tried_cells = []
        for family in families:
            cells = {setting: by_label[family.make_decoder(setting).label] for setting in family.settings}
            tried_cells.append(cells)
        return tried_cells, by_label[baseline.label]

    def _measure_searched(self, family: Family, reference: Decoder, n_trials: int) -> TriedCells:
        """Let a search try settings of one selector or scorer on dev; measure them and the baseline.

        Return a list of one dictionary, setting → cell, and the baseline's cell, as `_measure_all` does; a cell is the
        measurement of one decoder. A round of settings is measured before the search suggests the next one. reference:
        the baseline
        """
        base = self._measure([reference], self.dev, is_reported=True)[reference.label]
        cells: dict[Stage, Cell] = {}

        def measure_goals(stages: Iterable[Stage]) -> dict[Stage, tuple[float, ...] | None]:
            """Measure settings; return each one's numbers to maximise, None if it answers too few queries.

            The cells are added to those of the search, and a setting that was measured before is not measured again.
            """
            goals: dict[Stage, tuple[float, ...] | None] = dict.fromkeys(stages)
            # A search may suggest a setting again, which is measured once.
            new_decoders = list(map(family.make_decoder, filterfalse(cells.__contains__, goals)))
            new_cells = self._measure(new_decoders, self.dev, is_reported=True) if new_decoders else {}
            for stage in goals:
                if stage not in cells:
                    cells[stage] = new_cells[family.make_decoder(stage).label]
                cell = cells[stage]
                if cell in paired.select_answering([base, cell], base, self.objective.metrics):
                    goals[stage] = self.objective.guide(cell.mean, base.mean)
            return goals

        def report_trials(n_done: int, n_total: int) -> None:
            """Report the search's progress under the label of the tuning."""
            self.report(n_done, n_total, f"tuning on {self.dev}")

        # The baseline's numbers tell how many there are: two for a frontier, else one.
        n_goals = len(self.objective.guide(base.mean, base.mean))
        search(family.settings, measure_goals, n_goals, n_trials, self.seed, report_trials, self.options["stop"])
        return [cells], base


def _describe_extent(family: Family, n_settings: int, curve: Curve | None) -> str:
    """Describe in words the settings that a family's best was chosen from.

    A family is the settings of one selector or scorer. curve: its exact curve, over every value of a parameter, or None
    """
    if curve is not None:
        return f"every {curve.symbol} from {curve.interval[0]:g} to {curve.interval[1]:g}"
    return f"{'all' if family.settings.is_exhaustive else 'a search through'} {counted(n_settings, 'setting')}"


def _move_best_first(objective: Objective, candidates: list[Candidate], base: Cell, k: int) -> TunedChoice:
    """Move the best family's candidate to the front of the list; return the choice with its reason."""
    dev_cells = [candidate.dev for candidate in candidates]
    common_cells = paired.align_on_common_queries([base, *dev_cells], objective.metrics, k)
    means = _split_off_baseline(common_cells.means)
    choice = objective.choose(*means, range(len(candidates)), k, _format_cell(base, base))
    candidates.insert(0, candidates.pop(choice.best))
    return choice


def _find_best_option(family: Family, decision: Decision) -> Option:
    """Return the decision's sure setting if it is the family's, else the best of the family's candidates."""
    # Another setting may equal the sure one in gain and chance, and the decision has settled on one of them.
    if decision.sure is not None and family.has_option(decision.sure):
        return decision.sure
    return find_best(filter(family.has_option, decision.options))


def _list_bets(estimates: OptionEstimates, share: float) -> list[Decoder]:
    """Return a list with the decoder of the bet at a budget; an empty list if there is no bet.

    The budget is the share of the baseline's Recall that a setting must keep, `share`. The bet is the setting with the
    largest gain among those that keep it with a moderate chance.
    """
    # with_options=False: only the bet is used, so the list of all settings, which takes longest, is not made.
    bet = estimates.decide(share, with_options=False).bet
    return [] if bet is None or bet.decoder is None else [bet.decoder]


def choose_setting(objective: Objective, cells: Mapping[Stage, Cell], base: Cell, k: int, seed: int) -> StageChoice:
    """Choose the best of the measured settings that have the metrics on every query.

    Return it, the choice with its reason, and details for its `Candidate`. Raises DataError if none does.
    """
    answering = paired.select_answering([base, *cells.values()], base, objective.metrics)
    stages = list(compress(cells, map(answering.__contains__, cells.values())))
    left_out = tuple(_format_cell(cell, base) for stage, cell in cells.items() if stage not in stages)
    if not stages:
        raise _LacksAnswersError(objective, base)
    common_cells = paired.align_on_common_queries([base, *map(cells.__getitem__, stages)], objective.metrics, k)
    # Of equally good settings the one nearest to the default is chosen, then the first by label.
    tie_order = [(round(measure_distance_from_default(stage), 9), stage.label) for stage in stages]

    def choose_by(means: Mapping[str, np.ndarray]) -> TunedChoice:
        """Choose among m settings by means: metric → (1 + m,), the baseline's first."""
        return objective.choose(*_split_off_baseline(means), tie_order, k, _format_cell(base, base))

    choice = choose_by(common_cells.means)
    # One seed, so that every metric is averaged over the same resampled queries.
    means = map_values(partial(bootstrap_means, resamples=N_DRAWS, seed=seed), common_cells.values)
    # The stability: how often other samples of the queries lead to the same choice.
    n_same = sum(choose_by(map_values(itemgetter(draw), means)).best == choice.best for draw in range(N_DRAWS))
    details = {"stability": n_same / N_DRAWS, "queries": len(common_cells.queries), "left_out": left_out}
    return stages[choice.best], choice, details


def _split_off_baseline(means: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Split each metric's row of means into the settings', (m,), and the baseline's, its first."""
    return {metric: row[1:] for metric, row in means.items()}, map_values(float, map_values(itemgetter(0), means))


def choose_value(objective: Objective, curve: Curve, base: Cell, seed: int) -> StageChoice:
    """Choose a parameter's value from an exact curve: a short number near the middle of the best interval.

    The curve has each query's metrics at every value, as pieces on which nothing changes. base: the baseline's cell.

    Return the selector, the choice with its reason, and details for its `Candidate`.
    """
    metrics, k = objective.metrics, curve.k
    is_common = paired.find_complete_queries(base, metrics)
    is_common &= paired.find_complete_queries(curve.steps, metrics)[curve.steps.first_steps]
    if not is_common.any():
        metric_titles = " and ".join(map(title_of, metrics))
        raise DataError(f"no query of {base.split} has {metric_titles}, by which a value could be chosen")
    base_means = average_over(base, metrics, is_common)
    steps, means = curve.steps.select_queries(is_common), {}
    for metric in metrics:
        piece_starts, means[metric] = steps.mean_pieces(metric, curve.tolerance)
    interval_edges = np.append(piece_starts, curve.interval[1])

    def choose_piece(means: Any, base_means: Any, values: np.ndarray) -> TunedChoice:
        """Choose among p values of the curve's parameter; ties go to the one nearest to the default.

        means: metric → (p,); base_means: the baseline's; values: (p,)
        """
        # Rounded, so that values equally far on both sides of the default tie.
        distances = np.abs(values - curve.declared.default).round(9)
        tie_order = list(zip(distances.tolist(), values.tolist(), strict=True))
        return objective.choose(means, base_means, tie_order, k, _format_cell(base, base))

    choice = choose_piece(means, base_means, (interval_edges[:-1] + interval_edges[1:]) / 2)
    is_same = np.all([np.abs(row - row[choice.best]) <= paired.TIE_TOLERANCE for row in means.values()], axis=0)
    different_pieces = np.flatnonzero(~is_same)
    next_different = int(np.searchsorted(different_pieces, choice.best))
    low_edge = interval_edges[different_pieces[next_different - 1] + 1] if next_different else interval_edges[0]
    has_next = next_different < len(different_pieces)
    high_edge = interval_edges[different_pieces[next_different] if has_next else -1]
    # The number with the fewest digits within the middle half of the interval.
    midpoint, tolerance = float(low_edge + high_edge) / 2, float(high_edge - low_edge) / 4
    rounded_values = map(partial(round, midpoint), range(1, 17))
    value = next((rounded for rounded in rounded_values if abs(rounded - midpoint) <= tolerance), midpoint)
    band_values = steps.evaluate_at(curve.band_positions)
    # One seed, so that every metric is averaged over the same resampled queries; the baseline's column comes first.
    columns = {m: np.column_stack([base.values[m][is_common], band_values[m]]) for m in metrics}
    drawn_means = map_values(partial(bootstrap_means, resamples=N_DRAWS, seed=seed), columns)
    near_distance, chosen_values = NEAR_SHARE * (curve.interval[1] - curve.interval[0]), []
    for draw in range(N_DRAWS):
        draw_means = _split_off_baseline(map_values(itemgetter(draw), drawn_means))
        draw_choice = choose_piece(*draw_means, curve.band_positions)
        chosen_values.append(curve.band_positions[draw_choice.best])
    details = {
        "stability": float(np.mean(np.abs(np.array(chosen_values) - value) <= near_distance)),
        "queries": int(is_common.sum()),
        "interval": (float(low_edge), float(high_edge)),
        "curve": curve,
    }
    return curve.make_stage(value), choice, details


def _measure_gap(metric: str, dev_cells: Sequence[Cell], test_cells: Sequence[Cell], resamples: int, seed: int) -> Gap:
    """Compare what the chosen setting gains over the baseline on dev with its gain on test, in one metric.

    dev_cells, test_cells: the chosen setting's cell and the baseline's on each split
    """
    split_means, split_gains = [], []
    for cell, base in (dev_cells, test_cells):
        paired_values = np.stack([cell.values[metric], base.values[metric]], axis=1)
        paired_values = paired_values[np.isfinite(paired_values).all(1)]
        split_means.append(mean_of_defined(paired_values[:, 0]))
        split_gains.append(paired_values[:, :1] - paired_values[:, 1:])
    (dev, test), (dev_gains, test_gains), low, high = split_means, split_gains, None, None
    if min(len(dev_gains), len(test_gains)) > 1:
        # The splits' queries are independent, so each split has its own seed.
        gap_draws = bootstrap_means(dev_gains, resamples, seed) - bootstrap_means(test_gains, resamples, seed + 1)
        low, high = np.percentile(gap_draws[:, 0], [2.5, 97.5]).tolist()
    dev_gain, test_gain = mean_of_defined(dev_gains[:, 0]), mean_of_defined(test_gains[:, 0])
    gains = {"dev": dev, "test": test, "gained_dev": dev_gain, "gained_test": test_gain}
    return Gap(metric=metric, k=dev_cells[0].k, low=low, high=high, **gains)


def _format_cell(cell: Cell, base: Cell) -> str:
    """Format a cell's decoder; its scorers only if they differ from the baseline's.

    A cell is one decoder's metrics, query by query, at one k.
    """
    return paired.format_decoder(cell.decoder, paired.scorer_chain(cell.decoder) != paired.scorer_chain(base.decoder))
