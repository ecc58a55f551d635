"""Numbers of one cell, and of a column: what is a vector, and what is refused with file and row."""

import json

import numpy as np
import pytest

from engine.data.vector_column import VectorColumn, parse_numbers
from engine.errors import DataError


@pytest.mark.parametrize(
    "value",
    [
        [1, 2.5],
        (1, 2.5),
        np.array([1, 2.5], np.float32),
        "[1, 2.5]",
        " [1.0,2.5] ",
        "[1.  2.5]",
        "[1.\n 2.5]",
        "[np.float64(1.0), np.float32(2.5)]",
    ],
)
def test_lists_of_numbers_are_parsed(value):
    assert parse_numbers(value).tolist() == [1, 2.5]


@pytest.mark.parametrize(
    "value", [None, "", "text", "[]", [], "[a]", "[1] note", [True, False], [[1]], {"a": 1}, ["1"], 1.5, "[1 ... 2]"]
)
def test_other_values_are_no_numbers(value):
    assert parse_numbers(value) is None


def collect(*values):
    column = VectorColumn("emb", "a.csv line {}".format)
    for row_number, value in enumerate(values, 2):
        column.add_vector(value, row_number)
    return column


def test_rows_become_a_matrix():
    column = collect([1, 2], "[3, 4]", np.array([5, 6], np.float16))
    matrix = column.take_matrix(range(3))
    assert matrix.dtype == np.float32 and matrix.flags.writeable and matrix.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert column.take_matrix([2, 0]).tolist() == [[5, 6], [1, 2]]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 2, 3], "a.csv line 3: 'emb' has 3 numbers, and the rows before it have 2"),
        (None, "a.csv line 3: 'emb' must be a list of numbers; found nothing. Give every row a vector"),
        ("", "found nothing"),
        ("a text", "found 'a text' (str)"),
        ("[0.1 0.2 ... 0.3]", "cut off by '...', as NumPy prints long arrays"),
        ([1.0, float("nan")], "holds NaN, infinity or a number beyond float32"),
        ([1.0, 1e300], "holds NaN, infinity or a number beyond float32"),
        (json.loads("[1, " + "9" * 400 + "]"), "must be a list of numbers"),
    ],
)
def test_a_row_without_a_vector_raises_error(value, message):
    with pytest.raises(DataError) as error:
        collect([1, 2], value)
    assert message in str(error.value)
