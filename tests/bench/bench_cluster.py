"""A sweep of a corpus in pgvector on a Dask cluster: the scheduler's memory, and the results after deaths.

    python tests/bench/bench_cluster.py --out assets/results

A worker is killed after a fifth of the cells, the scheduler after two fifths, and the sweep is run again on a new
cluster. The last row is a short sweep of the same corpus as a Space, whose vectors travel through the scheduler.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import arguments, machine, memory, table, verdict, write_page

import engine
from engine.data.stores.load import load
from engine.errors import FrontierError
from support.clusters import Cluster
from support.points import digest_of_all
from support.stores import PgServer, pg_server

QUERIES, DIMENSION, CENTRES, DEPTH = 64, 384, 500, 100
KS, METRICS = (5, 10, 20), ("recall", "ndcg", "ilad")
MOST = 10
"""MB that a scheduler may take beside what it takes idle and the queries."""
MB = 1e6


@dataclass
class Run:
    """One sweep on a cluster, in MB of the scheduler's resident memory."""

    name: str
    cells: int
    seconds: float
    idle: float
    peak: float
    digest: str


def clustered_store(
    server: PgServer, folder: Path, docs: int, seed: int = 0
) -> tuple[engine.reach.Reach, engine.Embeddings, engine.Qrels]:
    """Clustered unit vectors in a table, queries near documents, and the ten nearest judged relevant."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((CENTRES, DIMENSION), dtype=np.float32)
    rows = centres[rng.integers(CENTRES, size=docs)] + rng.standard_normal((docs, DIMENSION), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    np.save(folder / "docs.npy", rows)
    (folder / "stores.toml").write_text(server.toml())
    names = tuple(map(str, range(docs)))
    load("pg/docs", engine.Corpus(names, ("",) * docs), engine.Embeddings(names, rows), batch=5_000)
    points = rows[rng.integers(docs, size=QUERIES)] + 0.05 * rng.standard_normal((QUERIES, DIMENSION), dtype=np.float32)
    ids = tuple(f"q{row}" for row in range(QUERIES))
    queries = engine.Embeddings(ids, points / np.linalg.norm(points, axis=1, keepdims=True))
    reach = engine.attach("pg/docs")
    near = engine.decode(engine.Decoder(engine.make("top_k"), depth=DEPTH), reach, queries, 10)
    return reach, queries, engine.Qrels({q: dict.fromkeys(near.info[row]["ids"], 1) for row, q in enumerate(ids)})


def decoders(cells: int) -> list[engine.Decoder]:
    """mmr and dpp over λ, on the 100 most relevant, so that they have so many cells at all k."""
    each = max(2, cells // (2 * len(KS)))
    weights = np.linspace(0, 1, each).tolist()
    return [engine.Decoder(engine.make(n, relevance_weight=w), depth=DEPTH) for n in ("mmr", "dpp") for w in weights]


def swept(name: str, folder: Path, sweep: Callable[..., Any], deaths: tuple[int, int] | None = None) -> Run:
    """A sweep on a new cluster of two workers.

    deaths: after how many cells a worker is killed, and the scheduler
    """
    print(f"{time.strftime('%X')} {name}", flush=True)
    crew = Cluster(folder / name.replace(" ", "-"))
    try:
        crew.crew(2)
        time.sleep(3)
        pid, cells = crew.scheduler.pid, []
        idle = memory("VmRSS", pid) / MB
        peak, halt = [idle], threading.Event()
        watch = threading.Thread(target=_watch, args=(pid, peak, halt), daemon=True)
        watch.start()
        started = time.perf_counter()
        try:
            for cell in sweep(cluster=crew.address):
                cells.append(cell)
                if deaths and len(cells) == deaths[0]:
                    crew.kill(crew.workers[0].pid)
                if deaths and len(cells) == deaths[1]:
                    halt.set()
                    watch.join()
                    crew.scheduler.kill()
        except FrontierError as error:
            if not deaths:
                raise
            print(f"as it must: {error}", flush=True)
        seconds = time.perf_counter() - started
        halt.set()
        watch.join()
    finally:
        crew.end()
    return Run(name, len(cells), seconds, idle, peak[0], digest_of_all(cells))


def _watch(pid: int, peak: list[float], halt: threading.Event) -> None:
    """Keep the most that a process has resident, as seen every 5 ms."""
    while not halt.wait(0.005):
        peak[0] = max(peak[0], memory("VmRSS", pid) / MB)


def main() -> None:
    given = arguments(__doc__, docs=100_000, cells=600)
    loads = [os.getloadavg()[0]]
    with pg_server() as server, tempfile.TemporaryDirectory(prefix="frontier-cluster-") as name:
        folder = Path(name)
        os.environ["FRONTIER_HOME"] = name
        reach, queries, qrels = clustered_store(server, folder, given.docs)
        chosen, began = decoders(given.cells), time.perf_counter()

        def sweep(space: Any = reach, some: Any = chosen, **options: Any) -> Any:
            return engine.sweep(some, space, queries, qrels, KS, METRICS, **options)

        alone = list(sweep())
        serial, total = time.perf_counter() - began, len(alone)
        store = folder / "cells.db"

        def stored_sweep(**options: Any) -> Any:
            return sweep(store=store, **options)

        runs = [
            swept("undisturbed", folder, sweep),
            swept("a worker, then the scheduler killed", folder, stored_sweep, (total // 5, 2 * total // 5)),
            swept("run again", folder, stored_sweep),
        ]
        rows = np.load(folder / "docs.npy")
        ids = tuple(map(str, range(len(rows))))
        whole = engine.Space(engine.Corpus(ids, ("",) * len(ids)), engine.Embeddings(ids, rows), "cpu")
        runs.append(swept("a Space, for comparison", folder, lambda **o: sweep(whole, chosen[:2], **o)))
        loads.append(os.getloadavg()[0])
    _write(given, runs, serial, loads, digest_of_all(alone), queries.vectors.nbytes / MB)


def _write(given: Any, runs: list[Run], serial: float, loads: list[float], digest: str, queries: float) -> None:
    shown, total = [], runs[0].cells
    for run in runs:
        over = run.peak - run.idle - queries
        complete = run.cells == total
        same = ("yes" if run.digest == digest else "**no**") if complete else "–"
        met = verdict(over <= MOST) if run is not runs[-1] else "–"
        figures = (f"{run.seconds:.0f}", f"{run.idle:.1f}", f"{run.peak:.1f}", f"{over:.1f}")
        shown.append((run.name, run.cells, *figures, met, same))
    head = ("sweep", "cells", "seconds", "scheduler idle MB", "peak MB", "over idle + queries MB", f"≤ {MOST} MB",
            "identical")  # fmt: skip
    write_page(
        given,
        "cluster",
        "A corpus in a vector engine, swept on a cluster",
        f"{machine(['torch', 'dask', 'distributed'])}. {given.docs:,} clustered documents of dimension {DIMENSION} in "
        f"PostgreSQL with pgvector, without an index, {QUERIES} queries ({queries:.2f} MB), {total} cells: mmr and dpp "
        f"over λ on the {DEPTH} most relevant, k = {', '.join(map(str, KS))}. Server, scheduler and two workers of "
        f"one thread stood on this machine (load average {loads[0]:.1f} at the start, {loads[1]:.1f} at the end). In "
        f"one process the sweep took {serial:.0f} s.",
        table(head, shown, "lrrrrrll"),
        "Peak: resident memory of the scheduler, looked at every 5 ms from when it is idle with two workers until the "
        "sweep's end or its death. The second sweep ended with a FrontierError at once; its cells are those that had "
        "come by then, and are in the store, from which the third takes them. Identical: the digest of all cells is "
        "that of the sweep in one process. The last sweep is of 6 cells only, of the same documents as a Space.",
    )


if __name__ == "__main__":
    main()
