"""Selectors over small corpora, a batch at a time and one call at a time, beside top_k in the same run.

python tests/bench/bench_batches.py --out assets/results
"""

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from harness import machine, parse_arguments, space_of, table, write_page
from selector_data import clustered

import engine

K, BATCH, RUNS = 10, 100, 15
SELECTORS: tuple[tuple[str, dict[str, object], float | None], ...] = (
    ("top_k", {}, None),
    ("mmr", {}, 3),
    ("dpp", {}, 3),
    ("ssd", {}, 3),
    ("max_sum", {"polish": False}, 3),
    ("max_sum", {}, None),
    ("vrsd", {}, 4),
    ("frank_wolfe", {}, 15),
    ("facility_location", {}, 15),
)
"""Selector, parameters, and how many times top_k's time a batch may take."""


def corpora() -> dict[str, tuple[engine.Space, torch.Tensor]]:
    """Name → space and (BATCH, d) queries: a document each with noise of half its length."""
    demo = engine.embed(engine.load_dataset("numpy-api").corpus, device="cpu").vectors.float()
    spaces = {"numpy-api, 819": demo}
    spaces |= {f"clustered, {n:,}": clustered(n, 384).vectors for n in (1000, 2000)}
    problems = {}
    for name, rows in spaces.items():
        rng = np.random.default_rng(0)
        noise = rng.standard_normal((BATCH, rows.shape[1]))
        points = (
            rows[rng.integers(len(rows), size=BATCH)].numpy() + 0.5 * noise / np.linalg.norm(noise, axis=1)[:, None]
        )
        points /= np.linalg.norm(points, axis=1)[:, None]
        problems[name] = space_of(rows), torch.as_tensor(points, dtype=torch.float32)
    return problems


def median(call: Callable[[int], object], runs: int) -> float:
    """Microseconds of a call after one that is not timed."""
    call(0)
    spent = []
    for run in range(runs):
        started = time.perf_counter()
        call(run)
        spent.append(1e6 * (time.perf_counter() - started))
    return statistics.median(spent)


def main() -> None:
    args = parse_arguments(__doc__)
    rows = []
    for corpus, (space, points) in corpora().items():
        several = engine.Embeddings(tuple(map(str, range(BATCH))), points)
        singles = [engine.Embeddings(("0",), points[i : i + 1]) for i in range(BATCH)]
        baseline = None
        for name, fixed, max_ratio in SELECTORS:
            decoder = engine.Decoder(engine.make(name, **fixed))
            batch = median(lambda _, d=decoder, s=space, q=several: engine.decode(d, s, q, K), RUNS) / BATCH
            single = median(lambda i, d=decoder, s=space, q=singles: engine.decode(d, s, q[i % BATCH], K), BATCH)
            baseline = baseline or batch
            times = batch / baseline
            # The ground set of more documents is another one for each query.
            has_target = max_ratio is not None and not (name == "facility_location" and len(space) > 1000)
            verdict = f"≤ {max_ratio}: {'met' if times <= (max_ratio or 0) else '**not met**'}" if has_target else ""
            rows.append([corpus, decoder.select.label, f"{batch:.0f}", f"{times:.1f}", verdict, f"{single:.0f}"])
            print(rows[-1], flush=True)
    write_page(
        args,
        "batches",
        "Small corpora",
        machine(("numpy", "torch", "numba")) + f", one thread. k = {K}; medians: of {RUNS} batches of {BATCH} queries "
        f"over a Space, whose inner products are kept, and of {BATCH} single calls of `engine.decode`, all of it.",
        table(("corpus", "selector", "µs a query in a batch", "× top_k", "asked", "µs a single call"), rows, "llrrlr"),
    )


if __name__ == "__main__":
    main()
