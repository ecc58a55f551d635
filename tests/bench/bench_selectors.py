"""How long every selector takes beside the libraries that people use, and what that is in passes over the vectors.

python tests/bench/bench_selectors.py [--quick] [--resume]              needs pip install '.[bench]'

Writes assets/results/selectors.md and the raw rows, selectors.csv, on one thread. A run that broke off goes on with
--resume: cells that the CSV has are not measured again. Cells are measured smallest matrix first.
"""

import os
import sys
from pathlib import Path

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB_MAXIMUM")})
# The checkout is measured, whatever copy of the engine is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import argparse
import shlex
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace

import selector_data
import torch
from selector_cells import COVER_ROWS, METHODS, UNWEIGHTED, WEIGHTS, Bench, measured, timed
from selector_data import Data
from selector_extras import GRID_CELL, MEMORY_CELL, grid_rows, memory_rows
from selector_report import report
from selector_rows import DATA, GRID, MEMORY, Book, Row

import engine

SIZES, DIMS, KS = (1_000, 10_000, 100_000), (384, 1024), (10, 100, 500)
RUNS = 7
PASSES = {"top_k": 1, "mmr": 4, "dpp": 6, "vrsd": 1, "frank_wolfe": 4, "max_sum": 3, "facility_location": 2, "ssd": 8}
"""About how many passes a pick costs all contestants together: only for the time left."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="n up to 10,000, d = 384, k up to 100, 3 runs, no memory")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--sizes", nargs="+", type=int)
    parser.add_argument("--dims", nargs="+", type=int)
    parser.add_argument("--ks", nargs="+", type=int)
    parser.add_argument("--no-real", action="store_true", help="without the demo python-api")
    parser.add_argument("--memory", action="store_true", help="only the memory of dpp; the rest of the CSV is kept")
    parser.add_argument("--resume", action="store_true", help="go on with the CSV that is there")
    parser.add_argument("--minutes", type=float, help="start no cell after so many minutes")
    out = Path(__file__).resolve().parents[2] / "assets" / "results"
    parser.add_argument("--out", type=Path, default=out, metavar="DIR")
    given = parser.parse_args()
    given.runs = 3 if given.quick else RUNS
    given.sizes = sorted(given.sizes or (SIZES[:2] if given.quick else SIZES))
    given.dims = sorted(given.dims or (DIMS[:1] if given.quick else DIMS))
    given.ks = sorted(given.ks or (KS[:2] if given.quick else KS))
    return given


class Progress:
    """What is done, to stderr; the time left goes by passes × size of what was measured and what is not yet."""

    def __init__(self, total: float, minutes: float | None) -> None:
        self.total, self.done, self.started, self.minutes = total, 0.0, time.monotonic(), minutes

    @property
    def out_of_time(self) -> bool:
        return self.minutes is not None and time.monotonic() - self.started > 60 * self.minutes

    def tell(self, work: float, what: str) -> None:
        self.done += work
        spent = time.monotonic() - self.started
        left = spent * (self.total - self.done) / self.done if self.done else 0
        print(f"[{spent / 60:6.1f} min, about {left / 60:5.1f} left] {what}", file=sys.stderr, flush=True)


def main() -> None:
    given = arguments()
    torch.set_num_threads(1)
    book = Book(given.out / "selectors.csv", given.resume or given.memory)
    known = engine.methods("selector")
    methods = [m for m in given.methods if m in known]
    notes = [f"{m} is not registered in this engine and was skipped." for m in given.methods if m not in known]
    devices = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
    if not given.memory:
        notes += _grid(given, methods, devices, book)
    if "dpp" in methods and (given.memory or not given.quick):
        _memory(given, book)
    for note in notes:
        print(note, file=sys.stderr)
    command = f"python tests/bench/bench_selectors.py {shlex.join(sys.argv[1:])}".strip()
    (given.out / "selectors.md").write_text(report(book.rows, command, devices, notes), encoding="utf-8")


def _grid(given: argparse.Namespace, methods: list[str], devices: list[str], book: Book) -> list[str]:
    """Measure the cells that the book lacks; returns what was left out and why."""
    notes = []
    real: Data | str = "" if given.no_real else selector_data.real()
    if isinstance(real, str):
        notes.append(real or "python-api was left out (--no-real).")
    shapes = [(n, d) for n in given.sizes for d in given.dims]
    sources = [*shapes, *([] if isinstance(real, str) else [real])]
    sources.sort(key=lambda s: s.vectors.numel() if isinstance(s, Data) else s[0] * s[1])

    def shape(source: Data | tuple[int, int]) -> tuple[int, int]:
        return tuple(source.vectors.shape) if isinstance(source, Data) else source

    plans = {at: list(_cells(methods, shape(source), given.ks)) for at, source in enumerate(sources)}
    work = {
        at: [PASSES[m] * (k + 5) * shape(sources[at])[0] * shape(sources[at])[1] for m, k, _ in cells]
        for at, cells in plans.items()
    }
    progress = Progress(sum(map(sum, work.values())) * len(devices), given.minutes)
    for at, source in enumerate(sources):
        n, d = shape(source)
        data: Data | None = None
        for device in devices:
            name = source.name if isinstance(source, Data) else "clustered"
            todo = [
                (cell, w)
                for cell, w in zip(plans[at], work[at], strict=True)
                if ("cell", device, name, n, d, cell[1], cell[2], cell[0]) not in book
            ]
            progress.total -= sum(work[at]) - sum(w for _, w in todo)
            wants_grid = "mmr" in methods and name == "clustered" and (n, d) == GRID_CELL[:2]
            wants_grid &= (GRID, device, name, n, d, GRID_CELL[2], None, "mmr") not in book
            if not todo and not wants_grid:
                continue
            data = data or (source if isinstance(source, Data) else selector_data.clustered(n, d))
            bench = Bench(data, device)
            _describe(bench, book)
            for (method, k, weight), amount in todo:
                if progress.out_of_time:
                    return [*notes, f"Stopped after {given.minutes:g} minutes; --resume goes on."]
                book.add(measured(bench, method, k, weight, given.runs, book.rows))
                progress.tell(amount, f"{device} {name} n={n} d={d} k={k} {method} {weight or ''}")
            if wants_grid and not progress.out_of_time:
                book.add(grid_rows(bench, given.runs))
                progress.tell(0, f"{device} select_grid")
    if "facility_location" in methods and any(n > COVER_ROWS for n in given.sizes):
        notes.append(f"facility_location is measured up to n = {COVER_ROWS:,}: its ground set is the whole corpus.")
    return notes


def _cells(methods: list[str], shape: tuple[int, int], ks: list[int]) -> Iterator[tuple[str, int, float | None]]:
    for k in ks:
        for method in methods:
            if k <= shape[0] and (method != "facility_location" or shape[0] <= COVER_ROWS):
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
    times = [[timed(bench.device, call, i)[0] for call in calls for _ in range(2)] for i in range(RUNS + 1)][1:]
    # The second of two, as a selector's passes follow each other.
    read, product = (statistics.median(found[at] for found in times) for at in (1, 3))
    book.add([replace(row, runs=RUNS, seconds=read, pass_seconds=product, note=note)])


def _memory(given: argparse.Namespace, book: Book) -> None:
    n, d, k = MEMORY_CELL
    if given.resume and (MEMORY, "cpu", "clustered", n, d, k, WEIGHTS[0], "dpp") in book:
        return
    print(f"memory of dpp at n = {n}", file=sys.stderr, flush=True)
    found = memory_rows(selector_data.clustered(n, d), WEIGHTS)
    book.drop(MEMORY)
    book.add(found)


if __name__ == "__main__":
    main()
