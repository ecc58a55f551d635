"""Sheets of answers: written safely for spreadsheets, filled in, and read with what they cannot say named."""

import csv

import numpy as np
import pytest

from engine.errors import DataError
from engine.judging.answer_sheet import SHEET_COLUMNS, order_queries, read_sheet, write_sheet

ANSWERS = {("q1", "first"): "=1+1\nis two", ("q1", "second"): "none", ("q2", "first"): "so", ("q2", "second"): ""}


def make_rows(**grades):
    return [
        dict(zip(SHEET_COLUMNS, (query, system, None, "text", answer, "documents"), strict=True))
        for (query, system), answer in ANSWERS.items()
    ]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_sheet_that_was_filled_in_gives_its_grades(tmp_path, separator):
    path = write_sheet(tmp_path / "sheet.csv", make_rows())
    assert read_sheet(path, ANSWERS) == {}
    with path.open(encoding="utf-8-sig", newline="") as file:
        head, *rows = csv.reader(file)
    assert rows[0][4] == "'=1+1\nis two", "no spreadsheet runs an answer"
    rows[0][2], rows[2][2] = "2", " 0 "
    # As spreadsheets write it: their separator, their names, another mark of the encoding.
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=separator).writerows([list(map(str.title, head)), *rows])
    assert read_sheet(path, ANSWERS) == {("q1", "first"): 2, ("q2", "first"): 0}
    # A grade is of an answer: not of another one that the decoder's set gives now.
    assert read_sheet(path, {**ANSWERS, ("q1", "first"): "other"}) == {("q2", "first"): 0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("query,decoder\nq1,first\n", "must have the columns query, decoder, grade; it lacks grade"),
        ("query,decoder,grade\nq1,third,1\n", "line 2: decoder must be one of first, second; got 'third'"),
        ("query,decoder,grade\nq1,first,3\n", "line 2: grade must be 0, 1, 2 or empty; got '3'"),
        ("query,decoder,grade\nq1,first,2.5\n", "grade must be 0, 1, 2 or empty"),
        ("query,decoder,grade\nq1,first,1\nq1,first,2\n", "line 3: 'q1' by first has two grades"),
        ("query,decoder,grade,answer\nq1,first,1,x y\nq1,second,2,x  y\n", "line 3: 'q1' by second has two grades"),
        ("", "must have the columns"),
    ],
)
def test_what_a_sheet_cannot_say_is_named(tmp_path, text, message):
    (tmp_path / "sheet.csv").write_text(text)
    # Before the answers are known, too: they cost something.
    for answers in (ANSWERS, dict.fromkeys(ANSWERS)):
        with pytest.raises(DataError, match=message):
            read_sheet(tmp_path / "sheet.csv", answers)


def test_rows_without_a_grade_and_of_other_queries_say_nothing(tmp_path):
    (tmp_path / "sheet.csv").write_text("query,decoder,grade,remark\nq9,first,2\nq1,first,\nq1\nq2,first,1,a,b\n")
    assert read_sheet(tmp_path / "sheet.csv", ANSWERS) == {("q2", "first"): 1}
    with pytest.raises(DataError, match="cannot be read as CSV"):
        read_sheet(tmp_path / "missing.csv", ANSWERS)


def test_a_person_grades_a_balanced_random_sample():
    queries = [f"q{number}" for number in range(40)]
    supported = np.zeros((40, 2))
    supported[:20, 1] = 1
    supported[39] = np.nan
    order = order_queries(queries, supported, ["q7"], seed=3)
    assert order[0] == "q7" and sorted(order) == sorted(queries) and order[-1] == "q39"
    # Of the first ten about half are queries on which the systems differ.
    assert 4 <= sum(int(query[1:]) < 20 for query in order[:10]) <= 6
    assert order != order_queries(queries, supported, ["q7"], seed=4)
