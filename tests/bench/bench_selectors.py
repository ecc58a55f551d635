"""How long every selector takes beside the libraries that people use, and what that is in passes over the vectors.

python tests/bench/bench_selectors.py [--quick] [--resume]              needs pip install '.[bench]'

Writes assets/results/selectors.md and the raw rows, selectors.csv, on one thread. A run that broke off goes on with
--resume: cells that the CSV has are not measured again. Cells are measured smallest matrix first.
"""

import argparse
import shlex
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product

import selector_data
import torch
from harness import Say, one_thread, options, stopwatch
from selector_cells import COVER_ROWS, METHODS, UNWEIGHTED, WEIGHTS, Bench, measured, timed_on
from selector_data import Data
from selector_extras import GRID_CELL, MEMORY_CELL, grid_rows, memory_rows
from selector_report import report
from selector_rows import DATA, GRID, MEMORY, Book, Row

SIZES, DIMS, KS = (1_000, 10_000, 100_000), (384, 1024), (10, 100, 500)
RUNS = 7


def arguments() -> argparse.Namespace:
    parser = options(__doc__)
    parser.add_argument("--quick", action="store_true", help="n up to 10,000, d = 384, k up to 100, 3 runs, no memory")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--sizes", nargs="+", type=int)
    parser.add_argument("--dims", nargs="+", type=int)
    parser.add_argument("--ks", nargs="+", type=int)
    parser.add_argument("--no-real", action="store_true", help="without the demo python-api")
    parser.add_argument("--memory", action="store_true", help="only the memory of dpp; the rest of the CSV is kept")
    parser.add_argument("--resume", action="store_true", help="go on with the CSV that is there")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no cell after so many minutes")
    given = parser.parse_args()
    given.runs = 3 if given.quick else RUNS
    given.sizes = sorted(given.sizes or (SIZES[:2] if given.quick else SIZES))
    given.dims = sorted(given.dims or (DIMS[:1] if given.quick else DIMS))
    given.ks = sorted(given.ks or (KS[:2] if given.quick else KS))
    return given


def main() -> None:
    given, say = arguments(), stopwatch()
    one_thread()
    book = Book(given.out / "selectors.csv", given.resume or given.memory)
    devices = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
    notes = [] if given.memory else _grid(given, devices, book, say)
    if "dpp" in given.methods and (given.memory or not given.quick):
        _memory(given, book, say)
    print(*notes, sep="\n", file=sys.stderr)
    command = f"python tests/bench/bench_selectors.py {shlex.join(sys.argv[1:])}".strip()
    (given.out / "selectors.md").write_text(report(book.rows, command, devices, notes), encoding="utf-8")


def _grid(given: argparse.Namespace, devices: list[str], book: Book, say: Say) -> list[str]:
    """Measure the cells that the book lacks; returns what was left out and why."""
    notes, deadline = [], time.monotonic() + 60 * given.minutes
    # A function each, as the largest matrices are not held together.
    sources = {("clustered", n, d): partial(selector_data.clustered, n, d) for n in given.sizes for d in given.dims}
    real: Data | str = "python-api was left out (--no-real)." if given.no_real else selector_data.real()
    if isinstance(real, str):
        notes.append(real)
    else:
        sources[real.name, *real.vectors.shape] = lambda: real
    if "facility_location" in given.methods and max(given.sizes) > COVER_ROWS:
        notes.append(f"facility_location is measured up to n = {COVER_ROWS:,}: its ground set is the whole corpus.")
    for (name, n, d), device in product(sorted(sources, key=lambda shape: shape[1] * shape[2]), devices):
        cells = [
            (method, k, weight)
            for method, k, weight in _cells(given.methods, n, given.ks)
            if ("cell", device, name, n, d, k, weight, method) not in book
        ]
        many = "mmr" in given.methods and (name, n, d) == ("clustered", *GRID_CELL[:2])
        many &= (GRID, device, name, n, d, GRID_CELL[2], None, "mmr") not in book
        if not cells and not many:
            continue
        bench = Bench(sources[name, n, d](), device)
        _describe(bench, book)
        for method, k, weight in cells:
            if time.monotonic() > deadline:
                return [*notes, f"Stopped after {given.minutes:g} minutes; --resume goes on."]
            book.add(measured(bench, method, k, weight, given.runs, book.rows))
            say(f"{device} {name} n={n} d={d} k={k} {method} {weight or ''}")
        if many and time.monotonic() < deadline:
            book.add(grid_rows(bench, given.runs))
            say(f"{device} select_grid")
    return notes


def _cells(methods: list[str], n: int, ks: list[int]) -> Iterator[tuple[str, int, float | None]]:
    for k, method in product(ks, methods):
        if k <= n and (method != "facility_location" or n <= COVER_ROWS):
            for weight in (None,) if method in UNWEIGHTED else WEIGHTS:
                yield method, k, weight


def _describe(bench: Bench, book: Book) -> None:
    """One row that says what the matrix is like, how fast a product reads it and how fast a plain sum does."""
    n, d = bench.shape
    row = Row(DATA, bench.device, bench.data.name, n, d, 0, None, "", "sum")
    if row.cell in book:
        return
    inside = "row and nearest row" if bench.data.name == "python-api" else "same cluster"
    note = f"random rows {bench.data.apart:.2f}, {inside} {bench.data.together:.2f}"
    calls = (lambda i: bench.vectors.sum(), bench.one_pass)
    times = [[timed_on(bench.device, call, i)[0] for call in calls for _ in range(2)] for i in range(RUNS + 1)][1:]
    # The second of two, as a selector's passes follow each other.
    read, one_pass = (statistics.median(pair[second] for pair in times) for second in (1, 3))
    book.add([replace(row, runs=RUNS, seconds=read, pass_seconds=one_pass, note=note)])


def _memory(given: argparse.Namespace, book: Book, say: Say) -> None:
    n, d, k = MEMORY_CELL
    if given.resume and (MEMORY, "cpu", "clustered", n, d, k, WEIGHTS[0], "dpp") in book:
        return
    say(f"memory of dpp at n = {n}")
    rows = memory_rows(selector_data.clustered(n, d), WEIGHTS)
    book.drop(MEMORY)
    book.add(rows)


if __name__ == "__main__":
    main()
