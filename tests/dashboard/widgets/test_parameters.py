"""Titles of parameters on pages."""

import re

import pytest

from dashboard.widgets.parameters import format_label
from engine.params import Whole
from engine.stages import methods
from engine.theory.segments import PASSAGE_LENGTH
from engine.theory.text_vectors import WEIGHTING

PARAMS = {f"{name}.{param.name}": param for name, spec in methods().items() for param in spec.params}
PARAMS |= {"theory.passage_words": PASSAGE_LENGTH, "theory.weighting": WEIGHTING}


@pytest.mark.parametrize("param", PARAMS.values(), ids=PARAMS)
def test_titles_are_words_with_a_capital_letter_and_symbols_of_formulas_only(param):
    for declared in (param, *(form for *_, form in param.variants)):
        title, _, symbol = format_label(declared).partition(" (")
        assert re.match("[A-Z][A-Za-z0-9]{2}", title) and "_" not in title and "·" not in title
        assert not symbol or (symbol == f"{declared.symbol})" and len(symbol) < 6)


def test_a_letter_alone_and_a_title_that_is_its_symbol_stand_once():
    assert format_label(Whole(10, "k", 1, name="k")) == "k"
    assert format_label(Whole(10, "Query sample", 1, name="Query sample")) == "Query sample"
