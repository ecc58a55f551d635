"""The raw figures: one row for each contestant in each cell of the grid, kept as CSV as they come."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, dataclass, fields
from pathlib import Path

DATA, CELL, GRID, MEMORY = "data", "cell", "grid", "memory"
Key = tuple[str | int | float | None, ...]


@dataclass(frozen=True)
class Row:
    """What one contestant needed in one cell.

    part: which measurement; queries: how many one call answers; runs: timed calls; seconds, least, most: median and
    range of a call, None where there was none; pass_seconds: median of one product of all vectors with one vector,
    measured among those calls; same: share of the queries for which the picks were ours, in order; objective: share
    for which our set's objective is no lower; bytes, allowance: memory over the resident vectors, and its target;
    note: why a call is missing.
    """

    part: str
    device: str
    data: str
    n: int
    d: int
    k: int
    weight: float | None
    method: str
    who: str
    queries: int = 1
    runs: int = 0
    seconds: float | None = None
    least: float | None = None
    most: float | None = None
    pass_seconds: float | None = None
    same: float | None = None
    objective: float | None = None
    bytes: int | None = None
    allowance: int | None = None
    note: str = ""

    @property
    def cell(self) -> Key:
        """Rows of one cell, measured together, share it."""
        return (self.part, self.device, self.data, self.n, self.d, self.k, self.weight, self.method)

    @property
    def passes(self) -> float | None:
        """The call in units of one product over the vectors."""
        return self.seconds / self.pass_seconds if self.seconds and self.pass_seconds else None


NAMES = [f.name for f in fields(Row)]
_READ = {"str": str, "int": int, "float | None": float, "int | None": int}
_KINDS = {f.name: str(f.type) for f in fields(Row)}


class Book:
    """The rows of a run and the CSV file that holds them; `resume` takes up what the file has."""

    def __init__(self, path: Path, resume: bool) -> None:
        self.path = path
        self.rows: list[Row] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        if resume and path.is_file():
            with open(path, newline="", encoding="utf-8") as file:
                self.rows = [_row(result) for result in csv.DictReader(file)]
        # Written anew, so that columns of another version of this file never mix with ours.
        self._write(self.rows, "w")

    def __contains__(self, cell: Key) -> bool:
        return any(row.cell == cell for row in self.rows)

    def add(self, rows: list[Row]) -> None:
        """Keep the rows of a whole cell: a run that is killed loses a cell, never half of one."""
        self.rows += rows
        self._write(rows, "a")

    def drop(self, part: str) -> None:
        """Forget what one measurement has found."""
        self.rows = [row for row in self.rows if row.part != part]
        self._write(self.rows, "w")

    def _write(self, rows: list[Row], mode: str) -> None:
        text = io.StringIO()
        writer = csv.DictWriter(text, NAMES, lineterminator="\n")
        if mode == "w":
            writer.writeheader()
        writer.writerows({name: _text(value) for name, value in asdict(row).items()} for row in rows)
        with open(self.path, mode, encoding="utf-8") as file:
            file.write(text.getvalue())


def _row(found: dict[str, str]) -> Row:
    return Row(
        **{
            name: None if found[name] == "" and "None" in kind else _READ[kind](found[name])
            for name, kind in _KINDS.items()
        }
    )


def _text(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value
