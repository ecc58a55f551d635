"""Answers from a vector engine: what is proven of them, and how much is asked for that.

python tests/bench/bench_reach.py [--n 100000] [--queries 64] [--k 10] [--memory] [--index]
writes reach.md with --memory, else reach-pgvector.md

Unit rows of 384 dimensions in clusters of about 100 (`selector_data`) in PostgreSQL with pgvector, started here on
loopback; --memory: in an array asked as an engine is. Every answer is held against `engine.decode` on the whole
corpus by ids and order, sets against every swap with any document. --index adds an HNSW index
at pgvector's defaults (ef 40, iterative scan), by which nothing can be proven, and what a proof then takes.
"""

import time
from itertools import chain

import numpy as np
import torch
from harness import machine, parse_arguments, stopwatch, table, write_page
from selector_data import HOW, clustered

import engine
from engine.data.stores.arrays import ArrayStore
from engine.wording import percent
from support.stores import Engines

WEIGHTS = (0.9, 0.7, 0.5)
MOST_BY_INDEX = 16
"""Queries that an index is asked at most."""
CELLS = [
    ("top_k", {}),
    *[(name, {"relevance_weight": w}) for name in ("mmr", "dpp", "ssd", "max_sum", "frank_wolfe") for w in WEIGHTS],
    ("max_sum", {"relevance_weight": 0.5, "polish": False}),
    ("facility_location", {"relevance_weight": 0.7}),
    *[("nnn", {"l1": l1, "l2": l2}) for l1, l2 in ((0.1, 0.1), (0.03, 0.1), (0.1, 0.0), (0.01, 0.01))],
]
BY_INDEX = [
    ("top_k", {}),
    ("mmr", {"relevance_weight": 0.7}),
    ("dpp", {"relevance_weight": 0.7}),
    ("max_sum", {"relevance_weight": 0.7}),
    ("nnn", {"l1": 0.1, "l2": 0.1}),
    ("nnn", {"l1": 0.01, "l2": 0.01}),
]


def count_exceptions(name, params, answer, full_ranking, rows, queries, ids):
    """Count the proven answers that are wrong."""
    wrong = 0
    for q, info in enumerate(answer.info):
        if info["scope"] != "proven":
            continue
        chosen = [int(doc_id[1:]) for doc_id in info["ids"]]
        if "swaps" in info:
            wrong += is_improvable(rows, queries[q], chosen, params["relevance_weight"])
        else:
            wrong += list(info["ids"]) != [ids[row] for row in full_ranking.rows(q)]
    return wrong


def is_improvable(rows, query, chosen, weight):
    """Return True if a swap with any document improves a set by more than rounding."""
    chosen_rows, k = rows[chosen].astype(np.float64), len(chosen)
    for i in range(k):
        field = weight * (k - 1) * query - 2 * (1 - weight) * (chosen_rows.sum(0) - chosen_rows[i])
        gains = rows @ field.astype(np.float32)
        gains[chosen] = -np.inf
        if gains.max() > float(chosen_rows[i] @ field) + 1e-5:
            return True
    return False


def proven_cells(store, space, queries, ids, k, say):
    """A row a decoder of what its exact answers prove, and took."""
    rows, points, cells = space.vectors.numpy(), queries.double().numpy(), []
    for name, params in CELLS:
        decoder = engine.Decoder(engine.make(name, **params))
        started = time.process_time()
        answer = engine.decode(decoder, engine.Reach(store, exact=True), queries, k)
        seconds = (time.process_time() - started) / len(queries)
        full_ranking = engine.decode(decoder, space, queries, k)
        infos = answer.info
        proven = sum(info["scope"] == "proven" for info in infos)
        wrong = count_exceptions(name, params, answer, full_ranking, rows, points, ids)
        means = [np.mean([info[column] for info in infos]) for column in ("trips", "questions", "rows", "open")]
        maxima = [max(info[column] for info in infos) for column in ("trips", "rows")]
        cells.append((decoder.label, proven, wrong, *means, *maxima, seconds))
        say(f"{decoder.label}: {proven} proven, {wrong} wrong, {means[0]:.2f} trips, {means[2]:.0f} rows")
    return cells


def index_cells(store, space, queries, ids, k, say):
    """A row a decoder of what an index answers, and what a proof makes of it."""
    cells = []
    for name, params in BY_INDEX:
        decoder = engine.Decoder(engine.make(name, **params))
        infos, proof = (
            engine.decode(decoder, engine.Reach(store), queries, k).info,
            engine.Reach(store).prove(decoder, queries, k).info,
        )
        full_ranking = engine.decode(decoder, space, queries, k)
        truth = [[ids[row] for row in full_ranking.rows(q)] for q in range(len(queries))]
        right = sum(list(info["ids"]) == full_ids for info, full_ids in zip(infos, truth, strict=True))
        claimed = sum(info["scope"] == "proven" for info in infos)
        proven = sum(info["scope"] == "proven" for info in proof)
        wrong = sum(
            info["scope"] == "proven" and "swaps" not in info and list(info["ids"]) != full_ids
            for info, full_ids in zip(proof, truth, strict=True)
        )
        scans, trips = [info["scans"] for info in proof], np.mean([info["trips"] for info in proof])
        plans = ", ".join(sorted({info["plan"] for info in infos}))
        row = (decoder.label, plans, right, claimed, proven, wrong, float(np.mean(scans)), max(scans), trips)
        cells.append(row)
        say(f"{row}")
    return cells


def main():
    args = parse_arguments(__doc__, n=100_000, queries=64, k=10, memory=False, index=False)
    say, data = stopwatch(), clustered(args.n, 384)
    ids = tuple(f"d{row}" for row in range(args.n))
    space = engine.Space(engine.Corpus(ids, ("",) * args.n), engine.Embeddings(ids, data.vectors))
    queries, blocks = data.queries[: args.queries], []
    with Engines(args.out) as engines:
        if args.memory:
            store = ArrayStore(ids, data.vectors.numpy())
        else:
            engines.pg.table("rows", ids, data.vectors.numpy(), [""] * args.n)
            from engine.data.stores.pgvector import PgVectorStore
            from engine.data.stores.pgvector_rows import PgTable

            store = PgVectorStore(engines.pg.access(), PgTable(table="rows", place="place"))
        say("loaded")
        cells = proven_cells(store, space, queries, ids, args.k, say)
        blocks.append(exact_table(cells, args.queries))
        if args.index and not args.memory:
            engines.pg.execute("CREATE INDEX ON rows USING hnsw (v vector_ip_ops)")
            say("indexed")
            table_ = PgTable(table="rows", place="place", force_index=True)
            indexed = PgVectorStore(engines.pg.access(), table_)
            first_queries = queries[:MOST_BY_INDEX]
            blocks.append(index_table(index_cells(indexed, space, first_queries, ids, args.k, say), len(first_queries)))
    kind = "an array in memory" if args.memory else "PostgreSQL 18 with pgvector 0.8, HNSW m 16, ef_construction 64"
    about = f"{args.n:,} rows, {args.queries} queries, k = {args.k}, {kind}. {HOW.split(';')[0]}."
    name = "reach" if args.memory else "reach-pgvector"
    write_page(args, name, "Answers from a vector engine", machine(["torch", "numpy"]), about, *chain(*blocks))


def exact_table(cells, count):
    """Build the section on exact answers."""
    head = ["decoder", "proven", "exceptions", "trips", "most", "questions", "rows", "most", "picks open", "own CPU ms"]
    rows = [
        (f"`{label}`", percent(proven / count), wrong, f"{trips:.2f}", top, f"{n_queries:.1f}", f"{rows:,.0f}",
         f"{wide:,}", f"{n_left:.2f}", f"{1000 * seconds:.0f}")
        for label, proven, wrong, trips, n_queries, rows, n_left, top, wide, seconds in cells
    ]  # fmt: skip
    means = [np.mean([row[column] for row in cells]) for column in (3, 5)]
    total = sum(row[1] for row in cells) / (count * len(cells))
    wrong = sum(row[2] for row in cells)
    words = (
        f"Of all answers {percent(total, 1)} are proven, {wrong} of them wrongly; {means[0]:.2f} trips and "
        f"{means[1]:,.0f} rows in the mean. Exceptions: proven, and not the ids and order that the whole corpus gives; "
        "of max_sum and frank_wolfe with swaps: a swap with some document betters the set. Rows: documents that came "
        "back, 500 of them the pool that a query begins with. CPU of this process an answer, the engine's not in it."
    )
    return ["## Exact searches", table(head, rows, "lr"), words]


def index_table(cells, count):
    """Build the section on an index's answers and their proofs."""
    head = ["decoder", "plan", "right", "called proven", "proven after Prove", "wrongly", "scans", "most", "trips"]
    rows = [
        (f"`{label}`", plan, right, claimed, proven, wrong, f"{scans:.2f}", max_scans, f"{trips:.2f}")
        for label, plan, right, claimed, proven, wrong, scans, max_scans, trips in cells
    ]
    words = f"Of {count} queries each; right: the ids and order of the whole corpus, though nothing says so."
    return ["## By an HNSW index at its defaults", table(head, rows, "llr"), words]


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
