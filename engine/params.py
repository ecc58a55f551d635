"""Declared parameters: range, scale, symbol, help and source of each, as data.

Validation, command-line flags, widgets, sweep grids, links, the README's table and the tests' invalid inputs are all
derived from the declaration.
"""

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from numbers import Integral
from numbers import Real as RealNumber
from typing import Any, ClassVar, Literal, overload

from engine.display import OneLine
from engine.errors import ParamError
from engine.wording import suggest_name

UNSET = "none"
"""The text of an optional parameter without a value, in flags and links."""
WHOLE_NUMBERS, REAL_NUMBERS = (int, Integral), (int, float, RealNumber)
"""Types of numbers, Python's own first: an abstract class takes longer to ask."""


@dataclass(frozen=True, slots=True)
class Parameter(OneLine, ABC):
    """A declared parameter of a scorer, selector or command: its default, help and legal values, as data.

    default: the value used when none is passed
    symbol: the paper's symbol
    help: one line
    source: section or equation of the paper
    name: filled in from the dataclass field that declares it
    title: the name in plain words where `name` is too short for them; "" for `name` with spaces
    requires: (other parameter, its value), the only value at which this parameter has an effect
    advanced: displayed and swept only on request
    variants: (other parameter, its value, Param used instead), where the other parameter changes this one's unit; e.g.
        λ₁ under scale="support"
    swept: the values of a sweep, if they are not a grid over the range that sliders show
    """

    default: Any
    symbol: str
    _: KW_ONLY
    help: str = ""
    source: str = ""
    name: str = ""
    title: str = ""
    requires: tuple[str, Any] | None = None
    advanced: bool = False
    variants: tuple[tuple[str, Any, Any], ...] = ()
    swept: tuple[Any, ...] | None = None

    def _describe(self) -> str:
        symbol = "" if self.symbol == self.name else f" ({self.symbol})"
        return f"{self.name}{symbol}, {self.domain}, default {self.text(self.default)}"

    @property
    @abstractmethod
    def domain(self) -> str:
        """The legal values in words, as error messages and help texts say them."""

    @property
    def flag(self) -> str:
        """The command-line flag, for example --relevance-weight."""
        return "--" + self.name.replace("_", "-")

    @property
    def label(self) -> str:
        """The title, or the name with spaces, for widgets and sentences."""
        return self.title or self.name.replace("_", " ")

    def refuse(self, value: object) -> ParamError:
        """Return the error for a value outside the domain; it names argument, symbol, range and value."""
        symbol_suffix = "" if self.symbol == self.name else f" ({self.symbol})"
        return ParamError(f"{self.name}{symbol_suffix} must be {self.domain}; got {value!r}")

    def text(self, value: Any) -> str:
        """Return the value as flags and links write it; `parse` is the exact inverse."""
        return UNSET if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Number(Parameter):
    """A number in a range.

    comfortable: the range of sliders and sweeps, narrower than what is allowed; by default all that is allowed, up to
        100 without a limit
    unset: the meaning of None in words, which makes None legal
    """

    _: KW_ONLY
    comfortable: tuple[Any, Any] | None = None
    unset: str | None = None
    type: ClassVar[Any]

    @property
    @abstractmethod
    def range_text(self) -> str:
        """The range of legal values, in words for help texts and error messages."""

    @property
    def domain(self) -> str:
        return self.range_text + (f" or none ({self.unset})" if self.unset else "")

    @abstractmethod
    def check(self, value: Any) -> Any:
        """Return the value as a number of its type, or None where that is legal; raise ParamError."""

    def parse(self, value_text: str) -> Any:
        """Return the checked number that a text from a command-line flag or a link holds; raise ParamError.

        The word for "not set" gives None, where that is legal.
        """
        if value_text == UNSET and self.unset:
            return None
        try:
            return self.check(self.type(value_text))
        except ValueError:
            raise self.refuse(value_text) from None


@dataclass(frozen=True, slots=True)
class Real(Number):
    """A finite real number in [low, high].

    scale: "log" for steps of equal ratio; 0 stays a grid point when the range starts at 0
    """

    low: float
    high: float = math.inf
    _: KW_ONLY
    scale: Literal["linear", "log"] = "linear"
    type = float

    @property
    def range_text(self) -> str:
        return f"a number in [{self.low:g}, {self.high:g}{']' if math.isfinite(self.high) else ')'}"

    @property
    def comfortable_range(self) -> tuple[float, float]:
        """The range of sliders and sweeps, narrower than what is allowed if so declared, else all of it."""
        return self.comfortable or (self.low, self.high)

    @overload
    def check(self, value: float) -> float: ...
    @overload
    def check(self, value: object) -> float | None: ...
    def check(self, value: Any) -> float | None:
        """Return the value as a finite float in the range, or None where that is legal; raise ParamError."""
        if value is None and self.unset:
            return None
        if not _is_number(value):
            raise self.refuse(value)
        try:
            # Adding 0.0 removes negative zero, which equals 0 and reads differently.
            number = float(value) + 0.0
        except OverflowError:
            raise self.refuse(value) from None
        if not math.isfinite(number) or not self.low <= number <= self.high:
            raise self.refuse(value)
        return number

    def text(self, value: float | None) -> str:
        """Return the number as flags and links write it; `parse` reads it back exactly."""
        return UNSET if value is None else repr(float(value))

    def grid(self, points: int) -> tuple[float | None, ...]:
        """Return about `points` rounded values for a sweep, evenly spaced over `comfortable_range`.

        That is the range of sliders and sweeps, which may be narrower than what is allowed. None is added where it is
        legal, and 0 on a log scale that starts there; fewer than 2 points give the default.
        """
        low, high = self.comfortable_range
        if points < 2:
            return (self.default,)
        fractions = [step_index / (points - 1) for step_index in range(points)]
        unset_values = [None] if self.unset else []
        if self.scale == "log":
            # Equal ratios from end to end; declare() has made sure that low is above 0.
            inner_values = [_round_significant(low * (high / low) ** fraction, 3) for fraction in fractions]
            zero_point = [0.0] if self.low == 0 else []
            return tuple(dict.fromkeys([*zero_point, low, *inner_values[1:-1], high, *unset_values]))
        inner_values = [_round_significant(low + (high - low) * fraction, 6) for fraction in fractions[1:-1]]
        # Rounding may make neighbours equal; a dictionary drops the repeats and keeps the order.
        return tuple(dict.fromkeys([low, *inner_values, high, *unset_values]))


@dataclass(frozen=True, slots=True)
class Whole(Number):
    """A whole number in [low, high], without an upper limit if high is None."""

    low: int
    high: int | None = None
    type = int

    @property
    def range_text(self) -> str:
        return f"a whole number in [{self.low}, {'∞)' if self.high is None else f'{self.high}]'}"

    @property
    def comfortable_range(self) -> tuple[int, int]:
        """The range of sliders and sweeps, narrower than what is allowed if so declared, else all of it.

        An open range is cut at 100.
        """
        return self.comfortable or (self.low, self.high if self.high is not None else max(self.low + 1, 100))

    @overload
    def check(self, value: int) -> int: ...
    @overload
    def check(self, value: object) -> int | None: ...
    def check(self, value: Any) -> int | None:
        """Return the value as an int in the range, or None where that is legal; raise ParamError."""
        if value is None and self.unset:
            return None
        # 3.0 counts as a whole number: JSON and sliders do not tell it from 3.
        if not _is_number(value) or not (isinstance(value, WHOLE_NUMBERS) or float(value).is_integer()):
            raise self.refuse(value)
        if value < self.low or (self.high is not None and value > self.high):
            raise self.refuse(value)
        return int(value)

    def grid(self, points: int) -> tuple[int | None, ...]:
        """Return at most `points` whole numbers for a sweep, evenly spaced over `comfortable_range`.

        That is the range of sliders and sweeps, which may be narrower than what is allowed. None is added where it is
        legal; fewer than 2 points give the default.
        """
        low, high = self.comfortable_range
        if points < 2:
            return (self.default,)
        grid_values = [round(low + (high - low) * step_index / (points - 1)) for step_index in range(points)]
        # A short range has fewer whole numbers than points, so that values repeat.
        return tuple(dict.fromkeys([*grid_values, *([None] if self.unset else [])]))


@dataclass(frozen=True, slots=True)
class Choice(Parameter):
    """One of several named options."""

    options: tuple[str, ...]
    _: KW_ONLY
    switch: tuple[str, str] | None = None  # the options that False and True stand for, or None
    words: tuple[str, ...] = ()  # label of each option, for settings whose names always state the option
    type = str

    @property
    def domain(self) -> str:
        return "one of " + ", ".join(map(repr, self.options))

    def check(self, value: Any) -> str:
        """Return the option; with a `switch`, False and True stand for its two options. Raise ParamError."""
        # False and True index the two options of the switch.
        if isinstance(value, bool) and self.switch:
            return self.switch[value]
        if not isinstance(value, str) or value not in self.options:
            raise self.refuse(value)
        return value

    parse = check

    def grid(self, points: int) -> tuple[str, ...]:
        """Return every option, whatever the number of points that a sweep wants."""
        return self.options


@dataclass(frozen=True, slots=True)
class Flag(Parameter):
    """A boolean parameter."""

    type = bool

    @property
    def domain(self) -> str:
        return "true or false"

    def check(self, value: Any) -> bool:
        """Return the value if it is True or False; raise ParamError otherwise."""
        if not isinstance(value, bool):
            raise self.refuse(value)
        return value

    def parse(self, value_text: str) -> bool:
        """Return True or False for the texts "true" and "false"; raise ParamError for others."""
        match value_text:
            case "true":
                return True
            case "false":
                return False
        raise self.refuse(value_text)

    def text(self, value: bool) -> str:
        return "true" if value else "false"

    def grid(self, points: int) -> tuple[bool, ...]:
        """Return False and True."""
        return (False, True)


@dataclass(frozen=True, slots=True)
class Text(Parameter):
    """A non-blank line of at most `max_length` characters, such as a name; outer white space is stripped.

    choices: lists the lines that a page offers, where nothing is to be typed there
    """

    _: KW_ONLY
    max_length: int = 300
    choices: Callable[[], Sequence[str]] | None = None
    type = str

    @property
    def domain(self) -> str:
        return f"a line of 1 to {self.max_length} characters"

    def check(self, value: Any) -> str:
        """Return the line without outer white space; raise ParamError if it is blank, long or not printable."""
        line = value.strip() if isinstance(value, str) else ""
        if not line.isprintable() or not 0 < len(line) <= self.max_length:
            raise self.refuse(value)
        return line

    parse = check

    def grid(self, points: int) -> tuple[str, ...]:
        """Return the default alone."""
        return (self.default,)


Param = Real | Whole | Choice | Flag | Text


def declare(param: Param, help: str = "", **field_changes: Any) -> Any:
    """Return a dataclass field with a parameter's default, which carries the declaration in its metadata.

    For example `weight: float = declare(Real(0.5, "λ", 0, 1), "Share of …")`. field_changes: fields of `param` to
    replace, by name, such as symbol="θ". Raises ParamError if the default is not allowed, or if sliders and sweeps
    could not cover the parameter's range.
    """
    param = replace(param, help=help or param.help, **field_changes)
    param.check(param.default)
    # The comfortable range is that of sliders and sweeps, narrower than what is allowed. Where none is declared, it is
    # all that is allowed, which may be infinite, or begin at 0 where a log scale cannot.
    if isinstance(param, Real) and (
        not math.isfinite(param.comfortable_range[1]) or (param.scale == "log" and param.comfortable_range[0] <= 0)
    ):
        raise ParamError(f"{param.symbol} needs a comfortable range: finite, and above 0 on a log scale")
    return field(default=param.default, metadata={"param": param})


class Declared:
    """Base of frozen dataclasses with declared parameters, whose values are checked on construction.

    A subclass with its own `__post_init__` calls this one first; subclasses have no slots.
    """

    def __post_init__(self) -> None:
        """Check the values of all declared parameters and store them as checked; raise ParamError."""
        # The instance is frozen: checked values replace the given ones through `object`.
        for param in params_of(self):
            object.__setattr__(self, param.name, param.check(getattr(self, param.name)))


def form_of(param: Param, values: Mapping[str, Any]) -> tuple[str, Param]:
    """Return the value that decides which declaration of a parameter applies, and that declaration.

    The second is the parameter's form: its declaration beside the values of others. Some parameters change unit and
    range with another parameter. For instance, with scale="support" l1 is a number of documents: ("support", the
    variant of l1 that is declared for it). Without such a variant: ("", param).
    """
    for other_name, value, variant in param.variants:
        if values.get(other_name) == value:
            return str(value), variant
    return "", param


def drop_ineffective(params: Iterable[Param], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` without those of parameters that have no effect beside another parameter's value.

    For instance, rrf_constant has an effect with combination="rrf" only.
    """
    effective = dict(values)
    for param in params:
        # Compare with the given values, not with those that remain: the conditions do not cascade.
        if param.requires is not None and values.get(param.requires[0]) != param.requires[1]:
            effective.pop(param.name, None)
    return effective


def sweep_values(param: Param, n_points: int) -> tuple[Any, ...]:
    """Return the values of one parameter that a sweep tries: the declared ones, else a grid of `n_points`.

    An advanced parameter without declared values keeps its default.
    """
    if param.swept is not None:
        return param.swept
    return (param.default,) if param.advanced else param.grid(n_points)


def params_of(declared_class: Any) -> tuple[Param, ...]:
    """Return the parameters declared on a dataclass (class or instance), in order, with their names."""
    return _params_of(declared_class if isinstance(declared_class, type) else type(declared_class))


@functools.cache
def _params_of(declared_class: type) -> tuple[Param, ...]:
    """Return the parameters declared on a dataclass; decoders ask for them at each call."""
    all_fields = fields(declared_class)
    return tuple(replace(field.metadata["param"], name=field.name) for field in all_fields if "param" in field.metadata)


def check_values(params: tuple[Param, ...], values: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """Return the values by name, each checked; raise ParamError for a bad value or an unknown name.

    owner: what has the parameters, for the message
    """
    by_name = _index_by_name(params, values, owner)
    return {param_name: by_name[param_name].check(value) for param_name, value in values.items()}


def parse_values(params: tuple[Param, ...], value_texts: Mapping[str, str], owner: str) -> dict[str, Any]:
    """Return the values that texts from flags or links stand for, by name; raise ParamError for a bad one.

    owner: what has the parameters, for the message
    """
    by_name = _index_by_name(params, value_texts, owner)
    return {param_name: by_name[param_name].parse(value_text) for param_name, value_text in value_texts.items()}


def values_of(declared_instance: Any) -> dict[str, Any]:
    """Return the parameter values of a declared dataclass as plain JSON values."""
    return {param.name: getattr(declared_instance, param.name) for param in params_of(declared_instance)}


def _index_by_name(params: tuple[Param, ...], param_names: Mapping[str, Any], owner: str) -> dict[str, Param]:
    """Return the parameters by name; raise ParamError if one of `param_names` is none of `owner`'s."""
    by_name = {param.name: param for param in params}
    if unknown_names := [param_name for param_name in param_names if param_name not in by_name]:
        suggestion = suggest_name(unknown_names[0], by_name)
        raise ParamError(
            f"{owner} has no parameter {', '.join(unknown_names)}{suggestion}; it has {', '.join(by_name) or 'none'}"
        )
    return by_name


def _is_number(value: Any) -> bool:
    """Return True for real numbers, NumPy's too, but not for True and False."""
    # NumPy's are accepted, as a sweep over np.linspace should not need casts; bool is a subclass of int.
    return isinstance(value, REAL_NUMBERS) and not isinstance(value, bool)


def _round_significant(value: float, digits: int) -> float:
    """Round a number to some significant digits."""
    return float(f"{value:.{digits}g}")
