"""Colours of documents by a column: which columns are quantities, and which groups have a colour."""

import numpy as np
import pytest

from engine.views.colouring import MOST_GROUPS, OTHERS_GROUP, Groups, Numbers, colouring


def test_numbers_are_a_quantity_with_gaps_where_there_is_no_value():
    found = colouring([*map(str, range(9)), "", " 1e3 ", "-0.5"])
    assert isinstance(found, Numbers)
    np.testing.assert_array_equal(found.values, [*range(9), np.nan, 1000, -0.5])


def test_few_numbers_are_groups_the_largest_first():
    found = colouring(["2", "10", "10", "", "2", "10"])
    assert isinstance(found, Groups) and found.names == ("10", "2") and found.of.tolist() == [1, 0, 0, -1, 1, 0]


def test_groups_beyond_the_colours_are_one():
    values = [f"g{i}" for i in range(MOST_GROUPS + 3) for _ in range(30 - i)]
    found = colouring(values)
    assert found.names == (*(f"g{i}" for i in range(MOST_GROUPS - 1)), OTHERS_GROUP)
    assert set(found.of[np.array(values) == "g10"]) == {MOST_GROUPS - 1}
    assert len(colouring([f"g{i}" for i in range(MOST_GROUPS)]).names) == MOST_GROUPS


@pytest.mark.parametrize("odd", ["n/a", "nan", "inf", "1,5"])
def test_one_value_that_is_no_number_makes_groups(odd):
    assert isinstance(colouring([*map(str, range(20)), odd]), Groups)


def test_nothing_to_colour():
    for values in ([], ["", " "]):
        found = colouring(values)
        assert isinstance(found, Groups) and found.names == () and (found.of == -1).all()
