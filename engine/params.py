"""Declared parameters: range, scale, symbol, help and source of each, as data.

Validation, command-line flags, widgets, sweep grids, addresses, the table of methods and the tests' invalid inputs
are all made from the declaration.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from numbers import Integral
from numbers import Real as RealNumber
from typing import Any, ClassVar, Literal, overload

from engine.errors import ParamError

UNSET = "none"
"""How an optional parameter without a value is written in flags and addresses."""


@dataclass(frozen=True, slots=True)
class Parameter(ABC):
    """The fields and text forms that every kind of parameter has.

    default: the value taken when none is passed
    symbol: the paper's symbol
    help: one line
    source: section or equation of the paper
    name: filled in from the dataclass field that declares it
    requires: (other parameter, its value), the only value at which this parameter has an effect
    advanced: shown and swept only on request
    variants: (other parameter, its value, Param shown instead), when the other parameter changes this one's unit; e.g.
        λ₁ under scale="support"
    swept: the values of a sweep, when they are not a grid over the comfortable range
    """

    default: Any
    symbol: str
    _: KW_ONLY
    help: str = ""
    source: str = ""
    name: str = ""
    requires: tuple[str, Any] | None = None
    advanced: bool = False
    variants: tuple[tuple[str, Any, Any], ...] = ()
    swept: tuple[Any, ...] | None = None

    @property
    @abstractmethod
    def domain(self) -> str:
        """The legal values, in words."""

    @property
    def flag(self) -> str:
        """The command-line flag, for example --relevance-weight."""
        return "--" + self.name.replace("_", "-")

    @property
    def label(self) -> str:
        """The name with spaces, as widgets show it."""
        return self.name.replace("_", " ")

    def refuse(self, value: object) -> ParamError:
        """The error for a value outside the domain: names argument, symbol, range and value."""
        symbol = "" if self.symbol == self.name else f" ({self.symbol})"
        return ParamError(f"{self.name}{symbol} must be {self.domain}; got {value!r}")

    def text(self, value: Any) -> str:
        """The value as flags and addresses write it; `parse` is its exact inverse."""
        return UNSET if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Number(Parameter):
    """A number in a range.

    comfortable: the part of the range that sliders and grids cover; default: all of it, to 100 without a limit
    unset: makes None legal, and says what None means
    """

    _: KW_ONLY
    comfortable: tuple[Any, Any] | None = None
    unset: str | None = None
    type: ClassVar[Any]

    @property
    @abstractmethod
    def range_text(self) -> str:
        """The range, in words."""

    @property
    def domain(self) -> str:
        return self.range_text + (f" or none ({self.unset})" if self.unset else "")

    @abstractmethod
    def check(self, value: Any) -> Any:
        """The value as a number of its type, or None where that is legal. Raises ParamError."""

    def parse(self, text: str) -> Any:
        if text == UNSET and self.unset:
            return None
        try:
            return self.check(self.type(text))
        except ValueError:
            raise self.refuse(text) from None


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
        """The ends of the comfortable range."""
        return self.comfortable or (self.low, self.high)

    @overload
    def check(self, value: float) -> float: ...
    @overload
    def check(self, value: object) -> float | None: ...
    def check(self, value: Any) -> float | None:
        if value is None and self.unset:
            return None
        if not _is_number(value):
            raise self.refuse(value)
        try:
            number = float(value) + 0.0  # no negative zero: it equals 0 and reads differently
        except OverflowError:
            raise self.refuse(value) from None
        if not math.isfinite(number) or not self.low <= number <= self.high:
            raise self.refuse(value)
        return number

    def text(self, value: float | None) -> str:
        return UNSET if value is None else repr(float(value))

    def grid(self, points: int) -> tuple[float | None, ...]:
        """`points` values from end to end of the comfortable range, rounded to a few digits, and None where legal."""
        low, high = self.comfortable_range
        if points < 2:
            return (self.default,)
        steps = [i / (points - 1) for i in range(points)]
        none = [None] if self.unset else []
        if self.scale == "log":
            inner = [_round(low * (high / low) ** s, 3) for s in steps]
            notch = [0.0] if self.low == 0 else []
            return tuple(dict.fromkeys([*notch, low, *inner[1:-1], high, *none]))
        return tuple(dict.fromkeys([low, *(_round(low + (high - low) * s, 6) for s in steps[1:-1]), high, *none]))


@dataclass(frozen=True, slots=True)
class Whole(Number):
    """A whole number in [low, high]; high None: no limit."""

    low: int
    high: int | None = None
    type = int

    @property
    def range_text(self) -> str:
        return f"a whole number in [{self.low}, {'∞)' if self.high is None else f'{self.high}]'}"

    @property
    def comfortable_range(self) -> tuple[int, int]:
        """The ends of the comfortable range."""
        return self.comfortable or (self.low, self.high if self.high is not None else max(self.low + 1, 100))

    @overload
    def check(self, value: int) -> int: ...
    @overload
    def check(self, value: object) -> int | None: ...
    def check(self, value: Any) -> int | None:
        if value is None and self.unset:
            return None
        if not _is_number(value) or not (isinstance(value, Integral) or float(value).is_integer()):
            raise self.refuse(value)
        if value < self.low or (self.high is not None and value > self.high):
            raise self.refuse(value)
        return int(value)

    def grid(self, points: int) -> tuple[int | None, ...]:
        """At most `points` whole numbers over the comfortable range, and None where legal."""
        low, high = self.comfortable_range
        if points < 2:
            return (self.default,)
        numbers = [round(low + (high - low) * i / (points - 1)) for i in range(points)]
        return tuple(dict.fromkeys([*numbers, *([None] if self.unset else [])]))


@dataclass(frozen=True, slots=True)
class Choice(Parameter):
    """One of a few named options."""

    options: tuple[str, ...]
    _: KW_ONLY
    switch: tuple[str, str] | None = None  # the options that False and True stand for, or None
    words: tuple[str, ...] = ()  # of each option, where names of settings always have to say which it is
    type = str

    @property
    def domain(self) -> str:
        return "one of " + ", ".join(map(repr, self.options))

    def check(self, value: Any) -> str:
        if isinstance(value, bool) and self.switch:
            return self.switch[value]
        if not isinstance(value, str) or value not in self.options:
            raise self.refuse(value)
        return value

    parse = check

    def grid(self, points: int) -> tuple[str, ...]:
        """Every option."""
        return self.options


@dataclass(frozen=True, slots=True)
class Flag(Parameter):
    """True or false."""

    type = bool

    @property
    def domain(self) -> str:
        return "true or false"

    def check(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise self.refuse(value)
        return value

    def parse(self, text: str) -> bool:
        match text:
            case "true":
                return True
            case "false":
                return False
        raise self.refuse(text)

    def text(self, value: bool) -> str:
        return "true" if value else "false"

    def grid(self, points: int) -> tuple[bool, ...]:
        """False and True."""
        return (False, True)


@dataclass(frozen=True, slots=True)
class Text(Parameter):
    """A non-blank line of text, such as a name or a path, of at most `longest` characters; outer white space goes."""

    _: KW_ONLY
    longest: int = 300
    type = str

    @property
    def domain(self) -> str:
        return f"a line of 1 to {self.longest} characters"

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or not value.strip().isprintable() or not 0 < len(value.strip()) <= self.longest:
            raise self.refuse(value)
        return value.strip()

    parse = check

    def grid(self, points: int) -> tuple[str, ...]:
        """The default alone."""
        return (self.default,)


Param = Real | Whole | Choice | Flag | Text


def declare(param: Param, help: str = "", **changes: Any) -> Any:
    """A dataclass field that is a declared parameter: `weight: float = declare(Real(0.5, "λ", 0, 1), "How much …")`.

    changes: fields of `param` that differ here. Raises ParamError where the default or the range is impossible.
    """
    param = replace(param, help=help or param.help, **changes)
    param.check(param.default)
    if isinstance(param, Real) and (
        not math.isfinite(param.comfortable_range[1]) or (param.scale == "log" and param.comfortable_range[0] <= 0)
    ):
        raise ParamError(f"{param.symbol} needs a comfortable range: finite, and above 0 on a log scale")
    return field(default=param.default, metadata={"param": param})


class Declared:
    """Base of a frozen dataclass with declared parameters: their values are checked when an instance is made.

    A subclass with its own `__post_init__` calls this one first; subclasses take no slots.
    """

    def __post_init__(self) -> None:
        for param in params_of(self):
            object.__setattr__(self, param.name, param.check(getattr(self, param.name)))


def form_of(param: Param, values: Mapping[str, Any]) -> tuple[str, Param]:
    """The variant of a parameter beside the given values of others: (value of the other, variant), or ("", param)."""
    for other, value, form in param.variants:
        if values.get(other) == value:
            return str(value), form
    return "", param


def counting(params: Iterable[Param], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values without those that others make meaningless."""
    meaningless = {p.name for p in params if p.requires is not None and values.get(p.requires[0]) != p.requires[1]}
    return {name: value for name, value in values.items() if name not in meaningless}


def sweep_values(param: Param, points: int) -> tuple[Any, ...]:
    """The values that a sweep tries: the declared ones, the default alone of an advanced parameter, else a grid."""
    if param.swept is not None:
        return param.swept
    return (param.default,) if param.advanced else param.grid(points)


def params_of(declared: Any) -> tuple[Param, ...]:
    """The parameters declared on a dataclass (class or instance), in order, with their names."""
    return tuple(replace(f.metadata["param"], name=f.name) for f in fields(declared) if "param" in f.metadata)


def checked(params: tuple[Param, ...], values: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """`values` validated against `params`; an unknown name is an error that lists the known ones."""
    known = _known(params, values, owner)
    return {name: known[name].check(value) for name, value in values.items()}


def parsed(params: tuple[Param, ...], texts: Mapping[str, str], owner: str) -> dict[str, Any]:
    """`checked` for text values, as flags and addresses carry them."""
    known = _known(params, texts, owner)
    return {name: known[name].parse(text) for name, text in texts.items()}


def values_of(declared: Any) -> dict[str, Any]:
    """The parameter values of a declared dataclass as plain JSON values."""
    return {p.name: getattr(declared, p.name) for p in params_of(declared)}


def _known(params: tuple[Param, ...], given: Mapping[str, Any], owner: str) -> dict[str, Param]:
    """The parameters by name, having refused names that are none of theirs."""
    known = {p.name: p for p in params}
    if unknown := [name for name in given if name not in known]:
        raise ParamError(f"{owner} has no parameter {', '.join(unknown)}; it has {', '.join(known) or 'none'}")
    return known


def _is_number(value: Any) -> bool:
    # NumPy's scalars are numbers too: a sweep over np.linspace should not need casts. True and False are not.
    return isinstance(value, RealNumber) and not isinstance(value, bool)


def _round(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")
