"""How long every selector takes beside the libraries that people use, and what that is in passes over the vectors.

python tests/bench/bench_selectors.py [--quick] [--resume]              needs pip install '.[bench]'

Writes assets/results/selectors.md and the raw rows, selectors.csv, on one thread. A run that broke off goes on with
--resume: cells that the CSV has are not measured again. Cells are measured smallest matrix first. --quick: two
sizes, one dimension, two k, 3 runs, no memory; --no-real: without the demo python-api; --memory: only the memory of
dpp, the rest of the CSV is kept; --minutes: start no cell after so many.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import selector_data
import torch
from harness import Say, parse_arguments, stopwatch
from selector_cells import (
    CELL,
    COLUMNS,
    COVER_ROWS,
    DATA,
    GRID,
    KEYS,
    MEMORY,
    METHODS,
    UNWEIGHTED,
    WEIGHTS,
    Bench,
    Row,
    measure_cell,
)  # fmt: skip
from selector_data import Data
from selector_extras import GRID_CELL, MEMORY_CELL, grid_rows, memory_rows
from selector_report import report

SIZES, DIMS, KS = [1_000, 10_000, 100_000], [384, 1024], [10, 100, 500]
RUNS = 7


class Book:
    """The rows of a run and the CSV file that holds them, as they come; `resume` takes up what the file has."""

    def __init__(self, path: Path, resume: bool) -> None:
        self.path, self.rows = path, []
        if resume and path.is_file():
            stored = pd.read_csv(path).astype(object).fillna({"note": ""})
            self.rows: list[Row] = stored.replace({np.nan: None}).to_dict("records")
        # Written anew, so that columns of another version of this file never mix with ours.
        self._write(self.rows, "w")

    def __contains__(self, cell: tuple) -> bool:
        return any(tuple(row[key] for key in KEYS) == cell for row in self.rows)

    def add(self, rows: list[Row]) -> None:
        """Keep the rows of a whole cell: a run that is killed loses a cell, never half of one."""
        self.rows += rows
        self._write(rows, "a")

    def drop(self, part: str) -> None:
        """Forget what one measurement has found."""
        self.rows = [row for row in self.rows if row["part"] != part]
        self._write(self.rows, "w")

    def _write(self, rows: list[Row], mode: str) -> None:
        frame = pd.DataFrame(rows, columns=list(COLUMNS)).convert_dtypes()
        frame.to_csv(self.path, mode=mode, header=mode == "w", index=False, float_format="%.6g")


def main() -> None:
    args = parse_arguments(
        __doc__, quick=False, methods=list(METHODS), sizes=SIZES, dims=DIMS, ks=KS, no_real=False, memory=False,
        resume=False, minutes=float("inf"),
    )  # fmt: skip
    if args.quick:
        args.sizes, args.dims, args.ks = args.sizes[:2], args.dims[:1], args.ks[:2]
    say, book = stopwatch(), Book(args.out / "selectors.csv", args.resume or args.memory)
    devices = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
    notes = [] if args.memory else _grid(args, devices, book, say)
    if "dpp" in args.methods and (args.memory or not args.quick):
        _memory(args, book, say)
    print(*notes, sep="\n", file=sys.stderr)
    (args.out / "selectors.md").write_text(report(book.rows, args.command, devices, notes), encoding="utf-8")


def _grid(args: argparse.Namespace, devices: list[str], book: Book, say: Say) -> list[str]:
    """Measure the cells that the book lacks; returns what was left out and why."""
    notes, deadline, runs = [], time.monotonic() + 60 * args.minutes, 3 if args.quick else RUNS
    # A function each, as the largest matrices are not held together.
    sources = {("clustered", n, d): partial(selector_data.clustered, n, d) for n in args.sizes for d in args.dims}
    real: Data | str = "python-api was left out (--no-real)." if args.no_real else selector_data.real()
    if isinstance(real, str):
        notes.append(real)
    else:
        sources[real.name, *real.vectors.shape] = lambda: real
    if "facility_location" in args.methods and max(args.sizes) > COVER_ROWS:
        notes.append(f"facility_location is measured up to n = {COVER_ROWS:,}: its ground set is the whole corpus.")
    for (name, n, d), device in product(sorted(sources, key=lambda shape: shape[1] * shape[2]), devices):
        where = (device, name, n, d)
        cells = [
            (k, weight, method)
            for k, weight, method in _cells(args.methods, n, args.ks)
            if (CELL, *where, k, weight, method) not in book
        ]
        is_grid = "mmr" in args.methods and (name, n, d) == ("clustered", *GRID_CELL[:2])
        is_grid &= (GRID, *where, GRID_CELL[2], None, "mmr") not in book
        if not cells and not is_grid:
            continue
        bench = Bench(sources[name, n, d](), device)
        if (DATA, *where, 0, None, "") not in book:
            book.add([_describe_matrix(bench)])
        for k, weight, method in cells:
            if time.monotonic() > deadline:
                return [*notes, f"Stopped after {args.minutes:g} minutes; --resume goes on."]
            book.add(measure_cell(bench, method, k, weight, runs, book.rows))
            say(f"{device} {name} n={n} d={d} k={k} {method} {weight or ''}")
        if is_grid and time.monotonic() < deadline:
            book.add(grid_rows(bench, runs))
            say(f"{device} select_grid")
    return notes


def _cells(methods: list[str], n: int, ks: list[int]) -> Iterator[tuple[int, float | None, str]]:
    for k, method in product(sorted(ks), methods):
        if k <= n and (method != "facility_location" or n <= COVER_ROWS):
            yield from ((k, weight, method) for weight in ((None,) if method in UNWEIGHTED else WEIGHTS))


def _describe_matrix(bench: Bench) -> Row:
    """Describe the matrix: mean cosine, and the speeds of a product and of a plain sum over it."""
    inside = "row and nearest row" if bench.data.name == "python-api" else "same cluster"
    note = f"random rows {bench.data.apart:.2f}, {inside} {bench.data.together:.2f}"
    calls = (lambda i: bench.vectors.sum(), bench.one_pass)
    times = [[bench.time_call(call, i)[0] for call in calls for _ in range(2)] for i in range(RUNS + 1)][1:]
    # The second of two, as a selector's passes follow each other.
    read, one_pass = (statistics.median(pair[second] for pair in times) for second in (1, 3))
    return bench.row(DATA, 0, None, "", who="sum", runs=RUNS, seconds=read, pass_seconds=one_pass, note=note)


def _memory(args: argparse.Namespace, book: Book, say: Say) -> None:
    n, d, k = MEMORY_CELL
    if args.resume and (MEMORY, "cpu", "clustered", n, d, k, WEIGHTS[0], "dpp") in book:
        return
    say(f"memory of dpp at n = {n}")
    rows = memory_rows(Bench(selector_data.clustered(n, d), "cpu"), WEIGHTS)
    book.drop(MEMORY)
    book.add(rows)


if __name__ == "__main__":
    main()
