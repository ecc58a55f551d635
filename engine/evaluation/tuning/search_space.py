"""Search spaces of tuning: a stage's settings on a grid, or those that a seeded search suggests."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import product, starmap
from typing import Any

from engine.errors import Cancelled, FrontierError, ParamError
from engine.evaluation.sweep.sweep import grid
from engine.params import Choice, Flag, Param, Real, Text, Whole, check_values, form_of, sweep_values, values_of
from engine.progress import Stop, counted
from engine.stages import Spec, Stage, make

MAX_GRID_DIMS = 2
"""Up to this many parameters every setting of a grid is tried; beyond, a search."""
TRIALS_PER_ROUND = 8
"""Settings that a search tries before it reads their results: more share work, fewer learn sooner."""
SEARCH_DIGITS = 4
"""Searched numbers are rounded as a person would write them."""


@dataclass(frozen=True)
class Settings:
    """A grid over the free parameters of a selector or scorer, those that others depend on first.

    A parameter's form is its declaration beside the values of others, with a range and symbol of its own: λ₁, for
    example, is a penalty or a number of documents.
    """

    spec: Spec
    free: Mapping[Param, tuple[Any, ...]]  # in the form that counts beside the fixed values → its values
    fixed_values: Mapping[str, Any]  # the values of the others

    @classmethod
    def build(cls, spec: Spec, points: int, free: str | Sequence[str] | None, fixed: Mapping[str, Any]) -> "Settings":
        """Build the grid over the `free` parameters, other ones fixed as given or as sweeps fix them.

        free: names, by default of the parameters that sweeps vary. Raises ParamError.
        """
        fixed = check_values(spec.params, fixed, spec.name)
        grid(spec.name, points, **fixed)  # raises for wrong points
        declared, swept_values = {}, {}
        for param in spec.params:
            declared[param.name], swept_values[param.name] = param, sweep_values(param, points)
        if free is None:
            free = [name for name, values in swept_values.items() if len(values) > 1 and name not in fixed]
        free_names = (free,) if isinstance(free, str) else tuple(dict.fromkeys(free))
        if unknown := [name for name in free_names if name not in declared or name in fixed]:
            raise ParamError(
                f"free must be parameters of {spec.name} that are not fixed; got {', '.join(map(str, unknown))}, it "
                f"has {', '.join(declared) or 'none'}"
            )
        if not free_names:
            raise ParamError(f"{spec.name} has no parameter to tune" + (" that is not fixed" if fixed else ""))
        # Parameters that others depend on come first, as their values decide the others' forms: λ₁, for example, is a
        # penalty or a number of documents.
        free_params = sorted(map(declared.__getitem__, free_names), key=lambda param: param.requires is not None)
        fixed_values = {}
        for name, values in swept_values.items():
            if name not in free_names:
                fixed_values[name] = fixed.get(name, values[0] if len(values) == 1 else declared[name].default)
        free_values = {}
        for param in free_params:
            # The parameter's declaration beside the fixed values, with the range that is to be covered.
            form = form_of(param, fixed_values)[1]
            # The values that the paper names, if several; else evenly spaced ones.
            free_values[form] = form.swept if form.swept and len(form.swept) > 1 else form.grid(points)
        return cls(spec, free_values, fixed_values)

    @classmethod
    def build_grid(cls, spec: Spec, points: int) -> "Settings":
        """Build the grid over all parameters that sweeps vary; one setting if there are none.

        spec: the registration of a selector or scorer; points: number of values per parameter. Raises ParamError.
        """
        decoders = grid(spec.name, points)
        return cls(spec, {}, values_of(decoders[0].select)) if len(decoders) == 1 else cls.build(spec, points, None, {})

    @property
    def is_exhaustive(self) -> bool:
        """True if every setting of the grid is tried; a search tries some beyond MAX_GRID_DIMS parameters."""
        return len(self.free) <= MAX_GRID_DIMS

    def count_trials(self, n_trials: int) -> int:
        """Return the number of settings measured at most: all of a grid, or those that a search may try."""
        return len(list(self)) if self.is_exhaustive else n_trials

    def __iter__(self) -> Iterator[Stage]:
        """Iterate over the distinct settings of the grid, as selectors or scorers."""
        stages: dict[Stage, None] = {}
        for values in product(*self.free.values()):
            # Values of an ineffective parameter make equal stages, of which the dict keeps one.
            stages[self.make_stage(dict(zip(self.free, values, strict=True)).__getitem__)] = None
        return iter(stages)

    def make_stage(self, get_value: Callable[[Param], Any]) -> Stage:
        """Make the selector or scorer with given free parameters; get_value: function from parameter to value.

        A parameter that another one's value makes ineffective stays at its default.
        """
        param_values = dict(self.fixed_values)
        for param in self.free:
            is_active = param.requires is None or param_values.get(param.requires[0]) == param.requires[1]
            param_values[param.name] = get_value(param) if is_active else param.default
        stage: Stage = make(self.spec.name, **param_values)
        return stage


def search(
    settings: Settings,
    measure_goals: Callable[[Iterable[Stage]], Mapping[Stage, tuple[float, ...] | None]],
    n_goals: int,
    n_trials: int,
    seed: int,
    progress: Callable[[int, int], None],
    stop: Stop | None = None,
) -> None:
    """Measure `n_trials` settings that Optuna's TPE suggests, the default first.

    measure_goals: settings → `n_goals` numbers each to maximise, None where a setting is no candidate. Numbers come
    from a parameter's usual range, without the 0 of a logarithmic scale. Same seed, same settings. Raises FrontierError
    without Optuna (extra `tune`), Cancelled.
    """
    try:
        import optuna
    except ImportError:
        param_names = ", ".join(param.name for param in settings.free)
        raise FrontierError(
            f"{counted(len(settings.free), 'parameter')} ({param_names}) are too many for a grid, and a search needs "
            "Optuna: "
            f"pip install 'frontier-retrieval[tune]', or free at most {MAX_GRID_DIMS} of them"
        ) from None
    with ExitStack() as exit_stack:
        # Silence Optuna's line per trial; the caller's level is restored at the end.
        exit_stack.callback(optuna.logging.set_verbosity, optuna.logging.get_verbosity())
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(directions=["maximize"] * n_goals, sampler=optuna.samplers.TPESampler(seed=seed))
        start_values = {}
        for param, values in settings.free.items():
            if _can_start_at_default(param, values):
                start_values[param.name] = param.default
        study.enqueue_trial(start_values)
        n_done = 0
        progress(0, n_trials)
        while n_done < n_trials:
            if stop is not None and stop.is_set():
                raise Cancelled("tuning was stopped; what is finished is kept where there is a store")
            trial_batch = [study.ask() for _trial in range(min(TRIALS_PER_ROUND, n_trials - n_done))]
            stages = [settings.make_stage(partial(_suggest_value, settings, trial)) for trial in trial_batch]
            goal_values = measure_goals(dict.fromkeys(stages))
            for trial, stage in zip(trial_batch, stages, strict=True):
                # A failed trial tells the sampler that the setting is no candidate. With the state None Optuna
                # takes the trial as complete.
                state = optuna.trial.TrialState.FAIL if goal_values[stage] is None else None
                study.tell(trial, goal_values[stage], state=state)
            n_done += len(trial_batch)
            progress(n_done, n_trials)


def _suggest_value(settings: Settings, trial: Any, param: Param) -> Any:
    """Let an Optuna trial suggest a parameter's value: a number of its usual range, else one of its grid."""
    match param:
        case Real():
            value = trial.suggest_float(param.name, *param.comfortable_range, log=param.scale == "log")
            return param.check(float(f"{value:.{SEARCH_DIGITS}g}"))
        case Whole(unset=None):
            return param.check(trial.suggest_int(param.name, *param.comfortable_range))
    return trial.suggest_categorical(param.name, list(settings.free[param]))


def _can_start_at_default(param: Param, grid_values: Sequence[Any]) -> bool:
    """Return True if a search can try the parameter's default first: it is a value that it suggests."""
    if isinstance(param, Choice | Flag | Text) or (isinstance(param, Whole) and param.unset):
        return param.default in grid_values
    minimum, maximum = param.comfortable_range
    return bool(minimum <= param.default <= maximum)


def measure_distance_from_default(stage: Stage) -> float:
    """Measure how far a setting is from the default; the smaller distance wins ties.

    Each parameter adds a distance: a number its difference as a share of the range of sliders and sweeps, anything else
    1 if it differs.
    """
    param_values = values_of(stage)
    # A parameter's range and scale may depend on the other values: λ₁ is a penalty or a number of documents. So each is
    # measured by its form, the declaration that applies beside these.
    forms = [(form_of(param, param_values)[1], param_values[param.name]) for param in stage.spec.params]
    return sum(starmap(_measure_param_distance, forms))


def _measure_param_distance(param: Param, value: Any) -> float:
    """Return how far a value is from the default, as a share of the parameter's usual range."""
    if value == param.default:
        return 0.0
    if not isinstance(param, Real | Whole) or None in (value, param.default):
        return 1.0
    minimum, maximum = param.comfortable_range
    if isinstance(param, Real) and param.scale == "log":
        # On a logarithmic scale 0 lies infinitely far away, which counts as 1.
        return abs(math.log(value / param.default) / math.log(maximum / minimum)) if value and param.default else 1.0
    return float(abs(value - param.default) / (maximum - minimum))
