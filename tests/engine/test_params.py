"""Declared parameters: what they accept, refuse, write and spread over."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ParamError
from engine.params import Choice, Declared, Flag, Real, Text, Whole, declare
from support.parameters import invalid_values

WEIGHT = Real(0.5, "λ", 0, 1, name="weight", help="h")
PENALTY = Real(0.1, "λ₁", 0, name="l1", comfortable=(0.001, 1), scale="log", help="h")
WINDOW = Whole(None, "w", 1, name="window", unset="all chosen", help="h")
SOLVER = Choice("exact", "solver", ("exact", "fista"), name="solver", help="h")
POLISH = Flag(True, "polish", name="polish", help="h")

MODEL = Text("a/b", "f", name="model", max_length=20, help="h")


@given(st.floats(0, 1))
def test_real_text_parses_back_to_the_same_float(value):
    assert WEIGHT.parse(WEIGHT.text(value)) == value


@given(st.integers(1, 10**30) | st.none())
def test_whole_text_parses_back_to_the_same_number(value):
    assert WINDOW.parse(WINDOW.text(value)) == value


@pytest.mark.parametrize("text", ["3.0", "1e2", "2.5", "", "one", "inf"])
def test_text_that_is_no_integer_is_refused_by_whole(text):
    with pytest.raises(ParamError, match="window"):
        WINDOW.parse(text)


@given(st.one_of(st.floats(), st.integers(), st.text(max_size=5), st.booleans(), st.none()))
def test_real_takes_numbers_in_range_and_nothing_else(value):
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and 0 <= value <= 1:
        assert WEIGHT.check(value) == value
    else:
        with pytest.raises(ParamError, match="weight"):
            WEIGHT.check(value)


def test_a_number_may_be_left_unset_where_that_means_something():
    bound = Real(0.1, "cap", 0, name="cap", comfortable=(0, 0.2), unset="no bound", help="h")
    assert bound.check(None) is None and bound.parse(bound.text(None)) is None and bound.text(0.5) == "0.5"
    assert bound.grid(3) == (0.0, 0.1, 0.2, None) and None not in invalid_values(bound)
    with pytest.raises(ParamError, match=r"cap must be a number in \[0, inf\) or none \(no bound\); got -1"):
        bound.check(-1)
    with pytest.raises(ParamError, match="weight"):
        WEIGHT.check(None)
    assert None in invalid_values(WEIGHT) and None not in WEIGHT.grid(3)


@given(st.text(max_size=8))
def test_nothing_but_a_number_parses_as_one(text):
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if 0 <= number <= 1:
        assert WEIGHT.parse(text) == number
    else:
        with pytest.raises(ParamError):
            WEIGHT.parse(text)


def test_numpy_numbers_are_numbers():
    assert WEIGHT.check(np.float32(0.5)) == 0.5 and type(WEIGHT.check(np.float64(0.5))) is float
    assert WINDOW.check(np.int64(3)) == 3
    with pytest.raises(ParamError):
        WEIGHT.check(np.array([0.5]))


@pytest.mark.parametrize(
    "value", [np.bool_(True), np.str_("0.5"), np.complex64(1), np.datetime64("2020"), math.inf, "1"]
)
def test_number_lookalikes_raise_error(value):
    for param in (WEIGHT, WINDOW):
        with pytest.raises(ParamError, match=param.name):
            param.check(value)


def test_zero_has_one_sign():
    assert WEIGHT.text(WEIGHT.check(-0.0)) == "0.0"


def test_an_endless_range_needs_a_comfortable_part():
    with pytest.raises(ParamError, match="comfortable"):
        declare(Real(1, "x", 0), "h")
    with pytest.raises(ParamError, match="comfortable"):
        declare(Real(1, "x", 0, 2, scale="log"), "h")


def test_a_stage_may_hide_no_field():
    from dataclasses import dataclass

    from engine.stages import Selector, register

    with pytest.raises(RuntimeError, match="not declared parameters: hidden"):

        @register("hider", title="t", paper="p", equation="e", cost="c")
        @dataclass(frozen=True)
        class Hider(Selector):
            """Hides."""

            hidden: float = 3.0

            def select(self, candidates, k):
                raise AssertionError


def test_a_log_grid_keeps_zero_as_a_notch_and_both_ends():
    assert PENALTY.grid(4) == (0.0, 0.001, 0.01, 0.1, 1)
    assert PENALTY.grid(5) == (0.0, 0.001, 0.00562, 0.0316, 0.178, 1), "rounded to three digits"
    assert WEIGHT.grid(5) == (0, 0.25, 0.5, 0.75, 1)
    assert WINDOW.grid(3)[-1] is None
    assert PENALTY.grid(1) == (0.1,)


def test_unset_is_legal_only_where_it_means_something():
    assert WINDOW.parse("none") is None and WINDOW.text(None) == "none"
    with pytest.raises(ParamError, match="k"):
        Whole(1, "k", 1, name="k", help="h").check(None)


def test_choice_and_flag_parse_and_check():
    assert SOLVER.parse("fista") == "fista" and POLISH.parse(POLISH.text(False)) is False
    for param, bad in ((SOLVER, "magic"), (POLISH, "yes")):
        with pytest.raises(ParamError, match=param.name):
            param.parse(bad)


@given(st.text(max_size=25))
def test_text_is_one_line_and_reads_back(value):
    if 0 < len(value.strip()) <= 20 and value.strip().isprintable():
        text = MODEL.check(value)
        assert text == value.strip() == MODEL.parse(MODEL.text(text))
    else:
        with pytest.raises(ParamError, match="model"):
            MODEL.check(value)


def test_text_loses_outer_white_space():
    assert MODEL.check("  a/b\u00a0 ") == MODEL.parse("\ta/b") == "a/b"
    with pytest.raises(ParamError):
        MODEL.check("x" * 21)


def test_a_declared_dataclass_checks_its_values():
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Settings(Declared):
        weight: float = declare(WEIGHT)
        label: str = "free"

    assert Settings(1).weight == 1.0 and type(Settings(1).weight) is float and Settings(label="x").label == "x"
    with pytest.raises(ParamError, match=r"weight \(λ\) must be a number in \[0, 1\]; got 2"):
        Settings(2)


def test_a_default_outside_its_own_range_cannot_be_declared():
    with pytest.raises(ParamError):
        declare(Real(2, "x", 0, 1), "h")
