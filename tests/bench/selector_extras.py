"""Two measurements apart from the grid: many settings in one call, and the memory that dpp takes."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from selector_cells import LONG, Bench, timed
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
CHILD = Path(__file__).with_name("selector_memory.py")


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

    timed(bench.device, single, 0)
    seconds, answers = timed(bench.device, at_once, 0)
    runs = min(runs, 3) if seconds > LONG else runs
    whole, singles, same, passes = [], [], [], []
    for part in range(runs):
        whole.append(timed(bench.device, at_once, 0)[0])
        for i in range(part, len(sample), runs):
            seconds, picks = timed(bench.device, single, i)
            query, setting = sample[i]
            singles.append(seconds)
            same.append(torch.equal(picks, answers[setting].index[query]))
            passes.append(timed(bench.device, bench.one_pass, query)[0])
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
    found = []
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / "vectors.npy", Path(folder) / "query.npy"]
        np.save(files[0], data.vectors.numpy())
        np.save(files[1], data.queries[0].numpy())
        for weight in weights:
            command = [sys.executable, str(CHILD), *map(str, files), str(weight), str(k)]
            runs = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(MEMORY_RUNS)]
            # The largest: what the allocator happens to have at hand differs by a few MiB between processes.
            answer = max((json.loads(run.stdout) for run in runs), key=lambda told: told["bytes"])
            row = Row(MEMORY, "cpu", data.name, n, d, k, weight, "dpp", PEAK, runs=len(runs), bytes=answer["bytes"])
            note = "" if answer["pool"] is not None else "the answer names no pool: counted as 0"
            allowance = 4 * ((2 * k + (answer["pool"] or 0)) * d + 8 * n)
            found.append(replace(row, allowance=allowance, note=note))
    return found
