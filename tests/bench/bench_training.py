"""What an epoch of training takes: seconds a step, and memory, each way in a process of its own.

python tests/bench/bench_training.py --data <folder of judged sets>      writes assets/results/training-speed.md

--data: a folder that has toolbank-numpy and toollens in BEIR layout; what is not there is left out. One thread.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from itertools import islice, product
from pathlib import Path
from typing import Any

import harness
import torch
from selector_data import clustered

import engine
from engine.training.dataset import Samples, gather_samples
from engine.training.loop import generator_of
from engine.training.recipes import make_recipe
from engine.training.train import prepare_run

D, BATCH, QUERIES = 384, 64, 13_515
"""Queries: of toollens; an epoch of made data is one of so many."""
IMPLICIT, UNROLLED = "implicit, eq. 6", "unrolled, T = 50, eq. 6"
PENALTIES = {"l1": 0.1, "l2": 0.1}
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "dense": ("dense", {}),
    IMPLICIT: ("nnn", {**PENALTIES, "loss": "eq6"}),
    "implicit, extended": ("nnn", PENALTIES),
    UNROLLED: ("nnn", {**PENALTIES, "loss": "eq6", "gradient": "unrolled"}),
}
REAL = {"toollens": "qrels", "toolbank-numpy": "qrels_resplit"}
MADE_SIZES = {"clustered, 10,000": 10_000, "clustered, 50,000": 50_000}
STEPS = {"toollens": 40, "toolbank-numpy": 40, "clustered, 10,000": 8, "clustered, 50,000": 4}
ROUNDS = 2
"""Processes of each cell, taking turns; the fastest counts."""
HEAD = (
    "data", "n", "queries", "way", "support", "a step", "an epoch", "memory", "time ÷ implicit", "memory ÷ implicit",
)  # fmt: skip


def _load_problem(where: str, data: Path) -> tuple[engine.Space, Samples, int]:
    """Space, samples, and queries an epoch."""
    if where in REAL:
        judged = harness.Judged(data / where, REAL[where])
        learnt = {q for split in ("train", "dev") for q in judged.data.qrels[split].grades}
        queries = engine.embed(judged.data.queries.only(learnt), device="cpu")
        samples = gather_samples(judged.space, queries, judged.data.qrels, "train", "dev")
        return judged.space, samples, len(samples)
    n, count = MADE_SIZES[where], BATCH * (max(STEPS.values()) + 1)
    space = harness.space_of(clustered(n, D).vectors)
    source = torch.Generator().manual_seed(1)
    relevant = torch.randint(n, (count, 3), generator=source)
    noise = 0.02 * torch.randn(count, D, generator=source)
    query_vectors = torch.nn.functional.normalize(space.vectors[relevant].mean(1) + noise)
    grades = {f"q{i}": {str(j): 1 for j in relevant_rows} for i, relevant_rows in enumerate(relevant.tolist())}
    queries, (last, *_) = engine.Embeddings(tuple(grades), query_vectors), reversed(grades)
    qrels = {"dev": engine.Qrels({last: grades.pop(last)}), "train": engine.Qrels(grades)}
    return space, gather_samples(space, queries, qrels, "train", "dev"), QUERIES


def cell(where: str, mode: str, steps: int, data: Path) -> dict[str, Any]:
    """One way, some steps: the median of a step's seconds on one core, and the most memory on top.

    The clock runs only while the process does, so that what else the machine has to do counts little.
    """
    space, samples, queries = _load_problem(where, data)
    method, params = WAYS[mode]
    job = prepare_run(make_recipe(method, **params), samples, 0)
    type(make_recipe(method, **params).decoder().select).warm()
    batches = islice(job.batches(generator_of(0, 0)), steps + 1)
    harness.forget_peak()
    rss_before, seconds, supports = harness.memory("VmRSS"), [], []
    for batch in batches:
        spent, (losses, _) = harness.time_call(job.built.step, batch, 1.0, clock=time.process_time)
        seconds.append(spent)
        if losses.weights is not None:
            supports.append(float(losses.weights[0].double().mean()))
    return {
        "where": where,
        "n": len(space),
        "way": mode,
        "queries": queries,
        "step": statistics.median(seconds[1:]),
        "bytes": max(0, harness.memory("VmHWM") - rss_before),
        "support": statistics.mean(supports) if supports else None,
    }


def measure(args: argparse.Namespace, say: harness.Say) -> list[dict[str, Any]]:
    """Every cell, the fastest of some processes."""
    names = [name for name in REAL if (args.data / name).is_dir()] + list(MADE_SIZES)
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    for name, _, mode in product(names, range(ROUNDS), WAYS):
        if name in MADE_SIZES and mode == "dense":
            continue
        steps = args.steps or STEPS[name]
        measured = harness.run_json(__file__, "--data", args.data, "--cell", name, mode, steps)
        row = cells.setdefault((name, mode), measured)
        row["step"] = min(row["step"], measured["step"])
        say(f"{name}: {mode}: {measured['step']:.3f} s a step, {measured['bytes'] / 2**20:.0f} MiB")
    return list(cells.values())


def tables(figures: list[dict[str, Any]]) -> list[harness.Block]:
    """The section as Markdown."""
    cells = {(row["where"], row["way"]): row for row in figures}
    rows = []
    for row in figures:
        base = cells.get((row["where"], IMPLICIT), row)
        steps = -(-row["queries"] // BATCH)
        support = "" if row["support"] is None else f"{row['support']:.1f}"
        times = (f"{row['step']:.3f} s", f"{steps * row['step']:.1f} s", f"{row['bytes'] / 2**20:,.0f} MiB")
        ratios = (f"{row['step'] / base['step']:.2f}", f"{row['bytes'] / base['bytes']:.1f}")
        rows.append((row["where"], f"{row['n']:,}", f"{row['queries']:,}", row["way"], support, *times, *ratios))
    targets = []
    for name, key, min_ratio in (
        ("toollens", "step", 2.3), ("clustered, 50,000", "step", 5), ("clustered, 50,000", "bytes", 10),
    ):  # fmt: skip
        if (name, UNROLLED) in cells:
            ratio = cells[name, UNROLLED][key] / cells[name, IMPLICIT][key]
            better = "faster" if key == "step" else "less memory"
            target = f"{name}: at least {min_ratio} × {better} than unrolled"
            targets.append((target, f"{ratio:.1f} ×", harness.verdict(ratio >= min_ratio)))
    return [
        harness.table(HEAD, rows, "lrrlrrrrrr"),
        harness.table(("asked", "measured", "met"), targets),
        f"Batches of {BATCH}, adapters of width 768 on d = {D}, λ₁ = λ₂ = .1, the encoder's own vectors at the start. "
        "A step: encoding, solving, backward, clipping, AdamW, in seconds of one core; the median of "
        f"{STEPS['toollens']} steps (of {STEPS['clustered, 10,000']} and {STEPS['clustered, 50,000']} for the made "
        f"sets), the fastest of {ROUNDS} processes, which take turns. An epoch: that times the steps of all its "
        "queries, without the look at dev. Memory: the process's peak beyond what it held before the first step. "
        "Support: documents with a weight, in the mean; of the unrolled way, after 50 steps of FISTA. clustered: unit "
        "rows in clusters of about 100; queries are the mean of three rows with noise.",
    ]


def main() -> None:
    args, say = harness.parse_arguments(__doc__, data=True, cell=[""], steps=0), harness.stopwatch()
    if args.cell != [""]:
        where, mode, steps = args.cell
        print(json.dumps(cell(where, mode, int(steps), args.data)))
        return
    about = f"{harness.machine(('torch', 'numpy', 'numba'))}."
    harness.write_page(args, "training-speed", "An epoch of training", about, *tables(measure(args, say)))


if __name__ == "__main__":
    main()
