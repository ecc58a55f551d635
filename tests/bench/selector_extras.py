"""Two measurements apart from the grid: many settings in one call, and the memory that dpp takes."""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from harness import forget_peak, memory, one_thread, run_json, summary
from selector_cells import GRID, LONG, MEMORY, Bench, Row

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
    k = GRID_CELL[2]
    grid = [{"relevance_weight": w} for w in GRID_WEIGHTS]
    every = [(q, s) for q in range(len(bench.queries)) for s in range(len(grid))]
    sample = random.Random(0).sample(every, min(GRID_SINGLES, len(every)))

    def at_once(_: int) -> list[engine.Ranking]:
        return engine.select_grid("mmr", bench.vectors, bench.queries, k=k, grid=grid)

    def single(i: int) -> torch.Tensor:
        query, setting = sample[i]
        return engine.select("mmr", bench.vectors, bench.queries[query], k=k, **grid[setting]).index[0]

    bench.time_call(single, 0)
    seconds, answers = bench.time_call(at_once, 0)
    runs = min(runs, 3) if seconds > LONG else runs
    full_seconds, scaled, same, passes = [], [], [], []
    for part in range(runs):
        full_seconds.append(bench.time_call(at_once, 0)[0])
        for i in range(part, len(sample), runs):
            seconds, picks = bench.time_call(single, i)
            query, setting = sample[i]
            scaled.append(len(every) * seconds)
            same.append(torch.equal(picks, answers[setting].index[query]))
            passes.append(bench.time_call(bench.one_pass, query)[0])
    row = bench.row(GRID, k, None, "mmr", queries=len(every), pass_seconds=statistics.median(passes))
    # The mean, as the sum over all settings is wanted and the weights differ in cost.
    mean = {"seconds": statistics.mean(scaled), "same": statistics.mean(same)}
    note = f"{len(sample)} of {len(every)} calls, drawn at random and scaled"
    return [
        row | {"who": AT_ONCE, "runs": runs} | summary(full_seconds),
        row | {"who": ONE_BY_ONE, "runs": len(scaled), "note": note} | summary(scaled) | mean,
    ]


def memory_rows(bench: Bench, weights: tuple[float, ...]) -> list[Row]:
    """The most that dpp takes beyond the vectors, each weight in processes of its own."""
    n, d = bench.array.shape
    k, rows = MEMORY_CELL[2], []
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / "vectors.npy", Path(folder) / "query.npy"]
        np.save(files[0], bench.array)
        np.save(files[1], bench.points[0])
        for weight in weights:
            runs = [run_json(__file__, *files, weight, k) for _ in range(MEMORY_RUNS)]
            # The largest: what the allocator happens to have at hand differs by a few MiB between processes.
            answer = max(runs, key=lambda run: run["bytes"])
            note = "" if answer["pool"] is not None else "the answer names no pool: counted as 0"
            allowance = 4 * ((2 * k + (answer["pool"] or 0)) * d + 8 * n)
            figures = {"who": PEAK, "runs": len(runs), "bytes": answer["bytes"], "allowance": allowance, "note": note}
            rows.append(bench.row(MEMORY, k, weight, "dpp", **figures))
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
    rss_before = memory("VmRSS")
    info = engine.select("dpp", rows, point, k=k, relevance_weight=weight).info[0]
    return {"bytes": max(0, memory("VmHWM") - rss_before), "pool": info.get("pool")}


if __name__ == "__main__":
    print(json.dumps(measure_memory(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))))
