"""The settings of a stage that tuning tries: all of a grid, or those that a seeded search suggests."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

from engine.errors import Cancelled, FrontierError, ParamError
from engine.evaluation.sweep.sweep import grid
from engine.params import Choice, Flag, Param, Real, Text, Whole, check_values, form_of, sweep_values, values_of
from engine.progress import Stop
from engine.stages import Spec, Stage, make

EXHAUSTIVE = 2
"""Up to so many parameters every setting of a grid is tried."""
ROUND = 8
"""Settings that a search tries before it looks at how they did: more share more work, fewer learn sooner."""
DIGITS = 4
"""Searched numbers are rounded as a person would write them."""


@dataclass(frozen=True)
class Settings:
    """A grid over some of a stage's parameters, those that others hang on first."""

    spec: Spec
    free: Mapping[Param, tuple[Any, ...]]  # in the form that people set it in beside the others → its values
    rest: Mapping[str, Any]  # the values of the others

    @classmethod
    def of(cls, spec: Spec, points: int, free: str | Sequence[str] | None, fixed: Mapping[str, Any]) -> "Settings":
        """free: names, by default of what sweeps vary; the others are as `fixed` says, or as sweeps have them.

        Raises ParamError.
        """
        fixed = check_values(spec.params, fixed, spec.name)
        grid(spec.name, points, **fixed)  # says what is wrong with points
        declared = {p.name: p for p in spec.params}
        usual = {p.name: sweep_values(p, points) for p in spec.params}
        if free is None:
            free = [n for n, values in usual.items() if len(values) > 1 and n not in fixed]
        free = (free,) if isinstance(free, str) else tuple(dict.fromkeys(free))
        if unknown := [n for n in free if n not in declared or n in fixed]:
            raise ParamError(
                f"free must be parameters of {spec.name} that are not fixed; got {', '.join(map(str, unknown))}, it "
                f"has {', '.join(declared) or 'none'}"
            )
        if not free:
            raise ParamError(f"{spec.name} has no parameter to tune" + (" that is not fixed" if fixed else ""))
        chosen = sorted((declared[n] for n in free), key=lambda p: p.requires is not None)
        single = {n: values[0] for n, values in usual.items() if len(values) == 1}
        rest = {n: fixed.get(n, single.get(n, p.default)) for n, p in declared.items() if n not in free}
        forms = [form_of(p, rest)[1] for p in chosen]
        return cls(spec, {p: p.swept if p.swept and len(p.swept) > 1 else p.grid(points) for p in forms}, rest)

    @classmethod
    def every(cls, spec: Spec, points: int) -> "Settings":
        """All settings of a grid; the only one where a stage has no parameter to vary. Raises ParamError."""
        decoders = grid(spec.name, points)
        return cls(spec, {}, values_of(decoders[0].select)) if len(decoders) == 1 else cls.of(spec, points, None, {})

    @property
    def exhaustive(self) -> bool:
        """Whether they are few enough to try them all."""
        return len(self.free) <= EXHAUSTIVE

    def count(self, trials: int) -> int:
        """How many settings are measured, at most."""
        return sum(1 for _ in self) if self.exhaustive else trials

    def __iter__(self) -> Iterator[Stage]:
        """Every setting of the grid, once."""
        settings = (dict(zip(self.free, values, strict=True)) for values in product(*self.free.values()))
        return iter(dict.fromkeys(self.stage(setting.__getitem__) for setting in settings))

    def stage(self, value: Callable[[Param], Any]) -> Stage:
        """The stage with these values of the free parameters; one that does not count there stays at its default."""
        params = dict(self.rest)
        for p in self.free:
            counts = p.requires is None or params.get(p.requires[0]) == p.requires[1]
            params[p.name] = value(p) if counts else p.default
        stage: Stage = make(self.spec.name, **params)
        return stage


def search(
    settings: Settings,
    goals: Callable[[Iterable[Stage]], Mapping[Stage, tuple[float, ...] | None]],
    count: int,
    trials: int,
    seed: int,
    progress: Callable[[int, int], None],
    stop: Stop | None = None,
) -> None:
    """Let Optuna's TPE suggest `trials` settings, the default first; `goals` measures them.

    goals: settings → `count` numbers each to make large, None where a setting is no candidate. Numbers come from the
    comfortable range, without the 0 of a logarithmic scale. Same seed, same settings. Raises FrontierError without
    Optuna (extra `tune`), Cancelled.
    """
    try:
        import optuna
    except ImportError:
        names = ", ".join(p.name for p in settings.free)
        raise FrontierError(
            f"{len(settings.free)} parameters ({names}) are too many for a grid, and a search needs Optuna: "
            f"pip install 'frontier-retrieval[tune]', or free at most {EXHAUSTIVE} of them"
        ) from None
    with ExitStack() as stack:
        # Without Optuna's line a trial; how much it says elsewhere is the caller's.
        stack.callback(optuna.logging.set_verbosity, optuna.logging.get_verbosity())
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(directions=["maximize"] * count, sampler=optuna.samplers.TPESampler(seed=seed))
        study.enqueue_trial({p.name: p.default for p, values in settings.free.items() if _starts(p, values)})
        done = 0
        progress(0, trials)
        while done < trials:
            if stop is not None and stop.is_set():
                raise Cancelled("tuning was stopped; what is finished is kept where there is a store")
            batch = [study.ask() for _ in range(min(ROUND, trials - done))]
            stages = [settings.stage(partial(_suggested, settings, trial)) for trial in batch]
            numbers = goals(dict.fromkeys(stages))
            for trial, stage in zip(batch, stages, strict=True):
                if numbers[stage] is None:
                    study.tell(trial, state=optuna.trial.TrialState.FAIL)
                else:
                    study.tell(trial, numbers[stage])
            done += len(batch)
            progress(done, trials)


def _suggested(settings: Settings, trial: Any, param: Param) -> Any:
    """A trial's value of a parameter: of its comfortable range, or one of its grid where it is not just a number."""
    match param:
        case Real():
            value = trial.suggest_float(param.name, *param.comfortable_range, log=param.scale == "log")
            return param.check(float(f"{value:.{DIGITS}g}"))
        case Whole(unset=None):
            return param.check(trial.suggest_int(param.name, *param.comfortable_range))
    return trial.suggest_categorical(param.name, list(settings.free[param]))


def _starts(param: Param, values: Sequence[Any]) -> bool:
    """Whether a search over the parameter can start at its default."""
    if isinstance(param, Choice | Flag | Text) or (isinstance(param, Whole) and param.unset):
        return param.default in values
    low, high = param.comfortable_range
    return bool(low <= param.default <= high)


def far(stage: Stage) -> float:
    """How far a setting is from the default, in comfortable ranges: what settles ties.

    Summed over the parameters: a number by its place on its scale, whatever else 1 where it differs.
    """
    values = values_of(stage)
    return sum(_apart(form_of(p, values)[1], values[p.name]) for p in stage.spec.params)


def _apart(param: Param, value: Any) -> float:
    if value == param.default:
        return 0.0
    if not isinstance(param, Real | Whole) or None in (value, param.default):
        return 1.0
    low, high = param.comfortable_range
    if isinstance(param, Real) and param.scale == "log":
        return abs(math.log(value / param.default) / math.log(high / low)) if value and param.default else 1.0
    return float(abs(value - param.default) / (high - low))
