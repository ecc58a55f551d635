"""Two measurements apart from the grid: many settings in one call, and the memory that dpp takes."""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from harness import forget_peak, memory, one_thread, run_json
from selector_cells import LONG, Bench, timed_on
from selector_data import Data
from selector_rows import GRID, MEMORY, Row

import engine

GRID_CELL = (10_000, 384, 50)
GRID_WEIGHTS = tuple(w / 10 for w in range(1, 10))
GRID_SINGLES = 72
MEMORY_CELL = (100_000, 384, 100)
MEMORY_RUNS = 3
AT_ONCE, ONE_BY_ONE = "engine.select_grid", "engine.select, one by one"
PEAK = "engine, peak over the vectors"
WARM_ROWS = 2000


def grid_rows(bench: Bench, runs: int) -> list[Row]:
    """mmr for 64 queries at nine weights: one call of select_grid, between single calls of a sample of the 576."""
    n, d = bench.shape
    k = GRID_CELL[2]
    grid = [{"relevance_weight": w} for w in GRID_WEIGHTS]
    every = [(q, s) for q in range(len(bench.queries)) for s in range(len(grid))]
    sample = random.Random(0).sample(every, min(GRID_SINGLES, len(every)))

    def at_once(_: int) -> object:
        return engine.select_grid("mmr", bench.vectors, bench.queries, k=k, grid=grid)

    def single(i: int) -> torch.Tensor:
        query, setting = sample[i]
        return engine.select("mmr", bench.vectors, bench.queries[query], k=k, **grid[setting]).index[0]

    timed_on(bench.device, single, 0)
    seconds, answers = timed_on(bench.device, at_once, 0)
    runs = min(runs, 3) if seconds > LONG else runs
    whole, singles, same, passes = [], [], [], []
    for part in range(runs):
        whole.append(timed_on(bench.device, at_once, 0)[0])
        for i in range(part, len(sample), runs):
            seconds, picks = timed_on(bench.device, single, i)
            query, setting = sample[i]
            singles.append(seconds)
            same.append(torch.equal(picks, answers[setting].index[query]))
            passes.append(timed_on(bench.device, bench.one_pass, query)[0])
    row = Row(GRID, bench.device, bench.data.name, n, d, k, None, "mmr", AT_ONCE, len(every))
    row = replace(row, pass_seconds=statistics.median(passes))
    scaled = [len(every) * seconds for seconds in singles]
    note = f"{len(sample)} of {len(every)} calls, drawn at random and scaled"
    return [
        replace(row, runs=runs, seconds=statistics.median(whole), least=min(whole), most=max(whole)),
        replace(
            row,
            who=ONE_BY_ONE,
            runs=len(singles),
            # The mean, as the sum over all settings is wanted and the weights differ in cost.
            seconds=statistics.mean(scaled),
            least=min(scaled),
            most=max(scaled),
            same=statistics.mean(same),
            note=note,
        ),
    ]


def memory_rows(data: Data, weights: tuple[float, ...]) -> list[Row]:
    """The most that dpp takes beyond the vectors, each weight in processes of its own."""
    n, d = data.vectors.shape
    k = MEMORY_CELL[2]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / "vectors.npy", Path(folder) / "query.npy"]
        np.save(files[0], data.vectors.numpy())
        np.save(files[1], data.queries[0].numpy())
        for weight in weights:
            runs = [run_json(__file__, *files, weight, k) for _ in range(MEMORY_RUNS)]
            # The largest: what the allocator happens to have at hand differs by a few MiB between processes.
            answer = max(runs, key=lambda run: run["bytes"])
            row = Row(MEMORY, "cpu", data.name, n, d, k, weight, "dpp", PEAK, runs=len(runs), bytes=answer["bytes"])
            note = "" if answer["pool"] is not None else "the answer names no pool: counted as 0"
            allowance = 4 * ((2 * k + (answer["pool"] or 0)) * d + 8 * n)
            rows.append(replace(row, allowance=allowance, note=note))
    return rows


def measure_memory(vectors: str, query: str, weight: float, k: int) -> dict[str, int | None]:
    """Peak of this process over what it held with the vectors loaded and a small problem solved, and the pool used."""
    one_thread()
    rows, point = np.load(vectors), np.load(query)
    engine.select("dpp", rows[:WARM_ROWS], point, k=k, relevance_weight=weight)
    # The linear algebra keeps buffers from its first large product on; they are the library's, not the method's.
    for columns in (1, 2, 8, 32, 128):
        torch.from_numpy(rows) @ torch.from_numpy(rows[:columns]).T
    forget_peak()
    before = memory("VmRSS")
    info = engine.select("dpp", rows, point, k=k, relevance_weight=weight).info[0]
    return {"bytes": max(0, memory("VmHWM") - before), "pool": info.get("pool")}


if __name__ == "__main__":
    print(json.dumps(measure_memory(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))))
