"""The language of the source, in figures whose limits may only fall towards those of libraries that read well."""

import pytest

from support.language import measure_language
from support.paths import ROOT

LIMITS = {
    "empty_names_per_1000": 3.6,
    "question_docstrings_percent": 0.0,
    "participle_functions_percent": 0.66,
    "comprehensions_per_100_lines": 4.0,
    "constants_in_three_modules": 9,
}
"""Largest figure of engine and dashboard; the aim is 10, 1, 3, 4.5 and 20."""
MINIMA = {"mean_name_length": 7.5, "comment_lines_percent": 3.6}
"""Smallest figure; the aim is 7 letters and 2 per cent."""
SLACK = 0.1
"""Share by which a figure may be better than its limit before the limit has to follow."""


@pytest.fixture(scope="module")
def figures():
    return measure_language([file for package in ("engine", "dashboard") for file in (ROOT / package).rglob("*.py")])


@pytest.mark.parametrize("name", LIMITS)
def test_figure_is_below_its_limit_and_the_limit_follows(figures, name):
    assert LIMITS[name] * (1 - SLACK) <= figures[name] <= LIMITS[name]


@pytest.mark.parametrize("name", MINIMA)
def test_figure_is_above_its_minimum_and_the_minimum_follows(figures, name):
    assert MINIMA[name] <= figures[name] <= MINIMA[name] * (1 + SLACK)


def test_words_and_openings_are_counted(tmp_path):
    file = tmp_path / "sample.py"
    file.write_text(
        '"""Sample."""\n\nLIMIT = 1\n\n\ndef kept(found, row_index):\n    """Whether it is."""\n'
        "    # A reason.\n    return [x for x in found]\n",
        encoding="utf-8",
    )
    figures = measure_language([file])
    assert figures["empty_names_per_1000"] == 1000 * 2 / 5  # kept and found, of LIMIT, kept, found, row_index and x
    assert figures["mean_name_length"] == (5 + 4 + 5 + 9 + 1) / 5
    assert figures["question_docstrings_percent"] == figures["participle_functions_percent"] == 100
    assert figures["comment_lines_percent"] == pytest.approx(100 / 9)
    assert figures["comprehensions_per_100_lines"] == pytest.approx(100 / 3)
    assert figures["constants_in_three_modules"] == 0
