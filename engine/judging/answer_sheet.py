"""Sheets of answers for a person to grade: a CSV file with a row for each answer, filled in and read again."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from engine.data.cache import write
from engine.errors import DataError
from engine.evaluation.answer_support import SUPPORT_METRIC
from engine.evaluation.next_queries import list_next_queries
from engine.evaluation.tables import format_csv, unguard_formula
from engine.judging.answer_log import SUPPORT_GRADES
from engine.judging.pool import Pair

REQUIRED_COLUMNS = ("query", "decoder", "grade")
SHEET_COLUMNS = (*REQUIRED_COLUMNS, "text", "answer", "relevant documents")
"""Columns of a written sheet; the last three are what the person reads."""
MAX_CELL_CHARACTERS = 32_000
"""Characters of a cell, of which spreadsheets take 32,767."""


def order_queries(
    queries: Sequence[str], supported: np.ndarray, graded_queries: Sequence[str], seed: int = 0
) -> list[str]:
    """Return queries in the order in which a person grades them: a random sample at any time, balanced as it grows.

    graded_queries: those that the person has graded, which come first; supported: (n_queries, n_systems) by the model,
    NaN for no grade; seed: of the order. Queries without a grade of the model come last
    """
    columns = [SimpleNamespace(queries=tuple(queries), values={SUPPORT_METRIC: column}) for column in supported.T]
    next_queries = list_next_queries(graded_queries, columns, SUPPORT_METRIC, seed)
    return list(dict.fromkeys((*graded_queries, *next_queries, *queries)))


def write_sheet(path: str | Path, rows: Sequence[Mapping[str, object]]) -> Path:
    """Write rows of a sheet as CSV, safe in spreadsheets.

    rows: values by the names of SHEET_COLUMNS; the grade may be None. Raises FrontierError if it cannot be written.
    """
    import pandas as pd

    frame = pd.DataFrame(list(rows), columns=list(SHEET_COLUMNS), dtype=object)
    # A mark at the beginning has spreadsheets read it as UTF-8.
    write(Path(path), format_csv(frame).encode("utf-8-sig"))
    return Path(path)


def read_sheet(path: str | Path, answers: Mapping[Pair, str | None]) -> dict[Pair, int]:
    """Read a person's grades by query and system from a CSV file with the columns query, decoder and grade.

    answers: texts by query and system. A row without a grade says nothing; a row whose answer is another one now, or
    whose query is not asked, is left out. Raises DataError for a file of another form, an unknown decoder, another
    grade, and two grades of one answer.
    """
    path, grades, read_grades = Path(path), dict[Pair, int](), dict[Pair, str]()
    queries, systems = {query for query, _ in answers}, dict.fromkeys(system for _, system in answers)
    for line_number, row in _read_rows(path):
        query, system, grade_text = (row[name] for name in REQUIRED_COLUMNS)
        if not grade_text or query not in queries:
            continue
        location = f"{path} line {line_number}"
        if system not in systems:
            raise DataError(f"{location}: decoder must be one of {', '.join(systems)}; got {system!r}")
        if grade_text not in map(str, SUPPORT_GRADES):
            raise DataError(
                f"{location}: grade must be {', '.join(map(str, SUPPORT_GRADES))} or empty; got {grade_text!r}"
            )
        pair, answer = (query, system), row.get("answer")
        # Of one answer, whoever gave it; before answers are known, so that the file is refused before they are paid.
        graded = (query, " ".join(answer.split())) if answer else pair
        if read_grades.setdefault(graded, grade_text) != grade_text:
            raise DataError(f"{location}: {query!r} by {system} has two grades; keep one of them")
        # Grades are of an answer: those of one that another model or set gave before say nothing of this one.
        if answer is None or answer.split() == (answers.get(pair) or "").split():
            grades[pair] = int(grade_text)
    return grades


def _read_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield line number and values by lower-case column of each row of a CSV file. Raises DataError."""
    try:
        # Answers have line breaks, and lines of older spreadsheets begin with a mark.
        with path.open(encoding="utf-8-sig", newline="") as file:
            head = file.readline()
            file.seek(0)
            # Spreadsheets of many countries separate by semicolons.
            separator = max(",;\t", key=head.count)
            reader = csv.DictReader(file, delimiter=separator)
            names = [unguard_formula(name or "").strip().lower() for name in reader.fieldnames or ()]
            if missing := [name for name in REQUIRED_COLUMNS if name not in names]:
                raise DataError(f"{path} must have the columns {', '.join(REQUIRED_COLUMNS)}; it lacks {missing[0]}")
            reader.fieldnames = names
            for row in reader:
                cells = {name: cell for name, cell in row.items() if isinstance(name, str) and isinstance(cell, str)}
                values = {name: unguard_formula(cell).strip() for name, cell in cells.items()}
                yield reader.line_num, dict.fromkeys(REQUIRED_COLUMNS, "") | values
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as CSV: {error}") from None
