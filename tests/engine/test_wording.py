"""Numbers in words."""

import json
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.evaluation.statistics import format_p_value
from engine.wording import (
    CONTROL_CHARACTERS,
    command_line,
    decimal,
    format_budget,
    gain,
    in_json,
    percent,
    power,
    signed,
    singular_remark,
    visible,
)


def test_numbers_have_one_style():
    assert [decimal(v) for v in (0.1488, -0.0219, 0, 3, 0.0001)] == ["0.149", "−0.022", "0.000", "3.000", "0.0001"]
    assert [decimal(2e-15), power(0), power(-3.2e-7), power(4e12)] == ["2·10⁻¹⁵", "0", "−3·10⁻⁷", "4·10¹²"]
    assert [signed(v) for v in (0.149, -0.0219, 0.0001, -0.0001, 0)] == ["+0.149", "−0.022", "±0", "±0", "±0"]
    assert [decimal(v) for v in (0.0124, -0.3, 1.25, 0.00004, -0.0)] == ["0.012", "−0.300", "1.250", "0.00004", "0.000"]
    assert [gain(v) for v in (0.149, -0.0219, 0.0001, -0.0001, 0)] == ["+0.149", "−0.022", "+0.0001", "−0.0001", "±0"]
    assert [percent(0.95), percent(-0.012, 1)] == ["95%", "−1.2%"]
    assert [format_budget(v) for v in (0.95, 0.925, 1.005, 0.8)] == ["95%", "92.5%", "100.5%", "80%"]


def test_a_p_is_never_written_on_the_other_side_of_the_level():
    assert [format_p_value(p) for p in (0.0123, 0.0004, 0.0496, 0.04996, 1.0, 0.05)] == [
        "p = 0.012",
        "p < 0.001",
        "p = 0.0496",
        "p = 0.04996",
        "p > 0.99",
        "p = 0.050",
    ]


@pytest.mark.threat("marks of direction in exported code and commands", "escaped, so that what is read is what runs")
@given(text=st.text(st.sampled_from("ab '\"\\$\n\t\x1b\x7f\x9b\u061c\u200f\u2028\u202e\u2066é😀")))
def test_control_characters_are_escaped_reversibly(text):
    assert not CONTROL_CHARACTERS.search(visible(text)) and (visible(text) == text) == (
        not CONTROL_CHARACTERS.search(text)
    )
    assert json.loads(in_json(json.dumps(text, ensure_ascii=False))) == text
    command = command_line(["printf", "%s", text])
    assert not CONTROL_CHARACTERS.search(command)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs a Bash")
def test_a_shell_takes_an_escaped_word_as_it_was():
    words = ["a\u202eb 'c' \\d", "\x9b\x1b[2J", "plain", "it's"]
    command = command_line(["printf", r"%s\n", *words])
    done = subprocess.run(["bash", "-c", command], capture_output=True, env={"LC_ALL": "C.UTF-8"})
    assert done.stdout.decode().splitlines() == words


@pytest.mark.parametrize(
    ("remark", "singular"),
    [
        ("queries of x are not asked, and are left out", "query of x is not asked, and is left out"),
        ("documents are too long: their ends do not count", "document is too long: its ends do not count"),
        ("ids are not written as there, and were matched", "id is not written as there, and was matched"),
        ("rows have vectors of their own, which are not used", "row has vectors of its own, which are not used"),
        ("log was kept as x.bak", "log was kept as x.bak"),
    ],
)  # fmt: skip
def test_a_remark_after_1_is_in_the_singular(remark, singular):
    assert singular_remark(remark) == singular
