"""Lines of ids and numbers: separators, names of columns, and ids that are written in another form."""

import pytest

from engine.data.field_lines import (
    QUERY_NAMES,
    describe_matches,
    drop_empty_ends,
    find_columns,
    match_ids,
    normalize_column,
    read_field_lines,
)
from engine.errors import DataError
from support.datafiles import write_file

NAMES = {"query": QUERY_NAMES, "rank": ("rank",)}


@pytest.mark.parametrize("name", ["query-id", "Query ID", "query_id", "queryId", "#QUERY.ID"])
def test_normalize_column_leaves_small_letters(name):
    assert normalize_column(name) == "queryid"


def test_find_columns_prefers_the_surest_name():
    assert find_columns(["query", "x", "qid", "Rank"], NAMES, "f") == {"query": 2, "rank": 3}
    assert find_columns(["x"], NAMES, "f") == {}
    with pytest.raises(DataError, match="f: two columns are called 'Rank'; give each a name of its own"):
        find_columns(["Rank", "rank"], NAMES, "f")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a b\tc d\te\n", ["a b", "c d", "e"]),
        ("a 0\tb 1\n", ["a", "0", "b", "1"]),
        ("  a   b c \n", ["a", "b", "c"]),
        ("a,b b,c\n", ["a", "b b", "c"]),
        ('"a,a";b;c\n', ["a,a", "b", "c"]),
        ("a, b, c\n", ["a", "b", "c"]),
        ("a,1 b c\n", ["a,1", "b", "c"]),
        ("\n \na|b|c\n", ["a", "b", "c"]),
        ("alone\n", ["alone"]),
    ],
)
def test_the_first_line_decides_the_separator(tmp_path, content, expected):
    path = write_file(tmp_path, "a.txt", content)
    ((_, fields),) = read_field_lines(path, lambda fields: len(fields) in (3, 4))
    assert fields == expected


def test_drop_empty_ends_keeps_a_number_of_fields():
    assert drop_empty_ends(["a", "", " ", ""]) == ["a"]
    assert drop_empty_ends(["a", "", "", ""], 3) == ["a", "", ""]
    assert drop_empty_ends(["", "b"], 1) == ["", "b"]


def test_match_ids_finds_other_forms_of_unknown_ids_alone():
    known = dict.fromkeys(["12", "7.0", "a", " b", "3", "3.0", "-4"])
    matches = match_ids(["12.0", "7", '"a"', "b ", "3.00", "012", "-4.0", "12", "A", ""], known)
    assert matches == {"12.0": "12", "7": "7.0", '"a"': "a", "b ": " b", "-4.0": "-4"}
    assert describe_matches({"12.0": "12"}) == ["12.0 = 12"]
