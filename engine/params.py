"""A parameter, declared once: its range, scale, symbol, help and source, as data.

Validation, command-line flags, widgets, sweep grids, addresses, the table in the README and the bad
inputs that the tests try are all made from the declaration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from numbers import Real as RealNumber
from typing import Any, Literal

from engine.errors import ParamError

UNSET = "none"
"""How an optional parameter without a value is written in flags and addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What every kind of parameter has.

    default: the value taken when none is given; symbol: how the paper writes it; help: one line;
    source: where in the paper; name: filled from the field it stands on; needs: another parameter and the only value
    of it at which this one counts; advanced: for the few who look for it; forms: (another parameter, a value of it, how
    people set this one then), where that changes what the number means; swept: the values that sweeps take, where they
    are not a grid over the comfortable range.
    """

    default: Any
    symbol: str
    help: str
    source: str = ""
    name: str = ""
    needs: tuple[str, Any] | None = None
    advanced: bool = False
    forms: tuple[tuple[str, Any, Any], ...] = ()
    swept: tuple[Any, ...] | None = None

    @property
    def flag(self) -> str:
        """The command-line flag, for example --relevance-weight."""
        return "--" + self.name.replace("_", "-")

    @property
    def label(self) -> str:
        """The name as a person reads it."""
        return self.name.replace("_", " ")

    def refuse(self, value: object) -> ParamError:
        """The error for a value outside the domain: names argument, symbol, range and value."""
        symbol = "" if self.symbol == self.name else f" ({self.symbol})"
        return ParamError(f"{self.name}{symbol} must be {self.domain}; got {value!r}")

    def text(self, value: Any) -> str:
        """The value as flags and addresses write it; `parse` reads it back exactly."""
        return UNSET if value is None else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Real(Declared):
    """A finite real number in [low, high].

    comfortable: the part of the range that sliders and grids cover (default: all of it). scale "log": even
    steps are ratios; a log scale over a range that starts at 0 keeps 0 as a notch of its own. unset: makes None legal
    and says what it means.
    """

    low: float
    high: float = math.inf
    comfortable: tuple[float, float] | None = None
    scale: Literal["linear", "log"] = "linear"
    unset: str | None = None
    type = float

    @property
    def domain(self) -> str:
        range_ = f"a number in [{self.low:g}, {self.high:g}{']' if math.isfinite(self.high) else ')'}"
        return range_ + (f" or none ({self.unset})" if self.unset else "")

    @property
    def span(self) -> tuple[float, float]:
        """The ends of the comfortable range."""
        return self.comfortable or (self.low, self.high)

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

    def parse(self, text: str) -> float | None:
        if text == UNSET and self.unset:
            return None
        try:
            return self.check(float(text))
        except ValueError:
            raise self.refuse(text) from None

    def text(self, value: float | None) -> str:
        return UNSET if value is None else repr(float(value))

    def grid(self, points: int) -> tuple[float | None, ...]:
        """`points` values from end to end of the comfortable range, each rounded as a person would write it; and None
        where that is legal."""
        low, high = self.span
        if points < 2:
            return (self.default,)
        steps = [i / (points - 1) for i in range(points)]
        none = [None] if self.unset else []
        if self.scale == "log":
            inner = [_round(low * (high / low) ** s, 3) for s in steps]
            notch = [0.0] if self.low == 0 else []
            return tuple(dict.fromkeys([*notch, low, *inner[1:-1], high, *none]))
        return tuple(dict.fromkeys([low, *(_round(low + (high - low) * s, 6) for s in steps[1:-1]), high, *none]))

    def outside(self) -> tuple[Any, ...]:
        """Values that must be refused."""
        beyond = [self.low - 1] + ([self.high + 1] if math.isfinite(self.high) else [])
        return (*beyond, math.nan, math.inf, True, "much", *([] if self.unset else [None]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole(Declared):
    """A whole number in [low, high]; `unset` (for example "all chosen") makes None legal and says what it means."""

    low: int
    high: int | None = None
    comfortable: tuple[int, int] | None = None
    unset: str | None = None
    type = int

    @property
    def domain(self) -> str:
        top = f"{self.high}]" if self.high is not None else "∞)"
        return f"a whole number in [{self.low}, {top}" + (f" or none ({self.unset})" if self.unset else "")

    @property
    def span(self) -> tuple[int, int]:
        """The ends of the comfortable range."""
        return self.comfortable or (self.low, self.high if self.high is not None else max(self.low + 1, 100))

    def check(self, value: Any) -> int | None:
        if value is None and self.unset:
            return None
        if not _is_number(value):
            raise self.refuse(value)
        if not isinstance(value, Integral) and not float(value).is_integer():
            raise self.refuse(value)
        if value < self.low or (self.high is not None and value > self.high):
            raise self.refuse(value)
        return int(value)

    def parse(self, text: str) -> int | None:
        if text == UNSET and self.unset:
            return None
        try:
            return self.check(int(text))
        except ValueError:
            raise self.refuse(text) from None

    def grid(self, points: int) -> tuple[int | None, ...]:
        """At most `points` whole numbers over the comfortable range, and None where that is legal."""
        low, high = self.span
        if points < 2:
            return (self.default,)
        numbers = [round(low + (high - low) * i / (points - 1)) for i in range(points)]
        return tuple(dict.fromkeys([*numbers, *([None] if self.unset else [])]))

    def outside(self) -> tuple[Any, ...]:
        """Values that must be refused."""
        beyond = [self.low - 1] + ([self.high + 1] if self.high is not None else [])
        return (*beyond, self.low + 0.5, math.nan, True, "many", *([] if self.unset else [None]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Declared):
    """One of a few named options; switch: the two that False and True stand for, where they read naturally."""

    options: tuple[str, ...]
    switch: tuple[str, str] | None = None
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

    def outside(self) -> tuple[Any, ...]:
        """Values that must be refused."""
        return ("no such option", 1, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag(Declared):
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
        """Both."""
        return (False, True)

    def outside(self) -> tuple[Any, ...]:
        """Values that must be refused."""
        return ("maybe", 1, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Declared):
    """A line of text that is not blank, a name or a path, at most `longest` characters; white space around it goes."""

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
        """The default: nobody can list the others."""
        return (self.default,)

    def outside(self) -> tuple[Any, ...]:
        """Values that must be refused."""
        return ("", " ", "two\nlines", "x" * (self.longest + 1), 1, None)


Param = Real | Whole | Choice | Flag | Text


def declare(param: Param) -> Any:
    """A dataclass field that is a declared parameter: `weight: float = declare(Real(...))`."""
    param.check(param.default)
    if isinstance(param, Real) and (not math.isfinite(param.span[1]) or (param.scale == "log" and param.span[0] <= 0)):
        raise ParamError(f"{param.symbol} needs a comfortable range: finite, and above 0 on a log scale")
    return field(default=param.default, metadata={"param": param})


def form_of(param: Param, values: Mapping[str, Any]) -> tuple[str, Param]:
    """How people set a parameter beside the given values of others: the value that changes it, or "", and the form."""
    for other, value, form in param.forms:
        if values.get(other) == value:
            return str(value), form
    return "", param


def sweep_values(param: Param, points: int) -> tuple[Any, ...]:
    """What a sweep tries of a parameter: what it declares, else a grid, or for what few look for the default alone."""
    if param.swept is not None:
        return param.swept
    return (param.default,) if param.advanced else param.grid(points)


def params_of(stage: Any) -> tuple[Param, ...]:
    """The parameters declared on a stage (class or value), in order, with their names."""
    return tuple(replace(f.metadata["param"], name=f.name) for f in fields(stage) if "param" in f.metadata)


def checked(params: tuple[Param, ...], values: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """`values` validated against `params`; an unknown name is an error that lists the known ones."""
    known = {p.name: p for p in params}
    _refuse_unknown(known, values, owner)
    return {name: known[name].check(value) for name, value in values.items()}


def parsed(params: tuple[Param, ...], texts: Mapping[str, str], owner: str) -> dict[str, Any]:
    """The same from text, as flags and addresses carry it."""
    known = {p.name: p for p in params}
    _refuse_unknown(known, texts, owner)
    return {name: known[name].parse(text) for name, text in texts.items()}


def values_of(stage: Any) -> dict[str, Any]:
    """The parameters of a stage value as plain JSON values."""
    return {p.name: getattr(stage, p.name) for p in params_of(stage)}


def undeclared_fields(stage: type) -> list[str]:
    """Fields of a stage that are not declared parameters: a stage must have none."""
    return [f.name for f in fields(stage) if "param" not in f.metadata]


def _refuse_unknown(known: Mapping[str, Param], given: Mapping[str, Any], owner: str) -> None:
    if unknown := [name for name in given if name not in known]:
        has = "it has " + ", ".join(known) if known else "it has none"
        raise ParamError(f"{owner} has no parameter {', '.join(unknown)}; {has}")


def _is_number(value: Any) -> bool:
    # NumPy's scalars are numbers too: a sweep over np.linspace should not need casts. True and False are not.
    return isinstance(value, RealNumber) and not isinstance(value, bool)


def _round(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")
