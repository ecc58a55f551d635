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
from harness import arguments, machine, stopwatch, table, write_page
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


def exceptions(name, params, answer, whole, rows, queries, ids):
    """How many proven answers are not what they say."""
    wrong = 0
    for q, info in enumerate(answer.info):
        if info["scope"] != "proven":
            continue
        chosen = [int(one[1:]) for one in info["ids"]]
        if "swaps" in info:
            wrong += improvable(rows, queries[q], chosen, params["relevance_weight"])
        else:
            wrong += list(info["ids"]) != [ids[row] for row in whole.rows(q)]
    return wrong


def improvable(rows, query, chosen, weight):
    """Whether a swap with any document betters a set by more than rounding."""
    own, k = rows[chosen].astype(np.float64), len(chosen)
    for i in range(k):
        field = weight * (k - 1) * query - 2 * (1 - weight) * (own.sum(0) - own[i])
        gains = rows @ field.astype(np.float32)
        gains[chosen] = -np.inf
        if gains.max() > float(own[i] @ field) + 1e-5:
            return True
    return False


def proven_cells(store, space, queries, ids, k, say):
    """A row a decoder of what its exact answers prove, and took."""
    rows, points, found = space.vectors.numpy(), queries.double().numpy(), []
    for name, params in CELLS:
        decoder = engine.Decoder(engine.make(name, **params))
        started = time.process_time()
        answer = engine.decode(decoder, engine.Reach(store, exact=True), queries, k)
        seconds = (time.process_time() - started) / len(queries)
        whole = engine.decode(decoder, space, queries, k)
        told = answer.info
        proven = sum(info["scope"] == "proven" for info in told)
        wrong = exceptions(name, params, answer, whole, rows, points, ids)
        means = [np.mean([info[column] for info in told]) for column in ("trips", "questions", "rows", "open")]
        most = [max(info[column] for info in told) for column in ("trips", "rows")]
        found.append((decoder.label, proven, wrong, *means, *most, seconds))
        say(f"{decoder.label}: {proven} proven, {wrong} wrong, {means[0]:.2f} trips, {means[2]:.0f} rows")
    return found


def index_cells(store, space, queries, ids, k, say):
    """A row a decoder of what an index answers, and what a proof makes of it."""
    found = []
    for name, params in BY_INDEX:
        decoder = engine.Decoder(engine.make(name, **params))
        told, proof = (
            engine.decode(decoder, engine.Reach(store), queries, k).info,
            engine.Reach(store).prove(decoder, queries, k).info,
        )
        whole = engine.decode(decoder, space, queries, k)
        truth = [[ids[row] for row in whole.rows(q)] for q in range(len(queries))]
        right = sum(list(info["ids"]) == one for info, one in zip(told, truth, strict=True))
        claimed = sum(info["scope"] == "proven" for info in told)
        proven = sum(info["scope"] == "proven" for info in proof)
        wrong = sum(
            info["scope"] == "proven" and "swaps" not in info and list(info["ids"]) != one
            for info, one in zip(proof, truth, strict=True)
        )
        scans, trips = [info["scans"] for info in proof], np.mean([info["trips"] for info in proof])
        plans = ", ".join(sorted({info["plan"] for info in told}))
        row = (decoder.label, plans, right, claimed, proven, wrong, float(np.mean(scans)), max(scans), trips)
        found.append(row)
        say(f"{row}")
    return found


def main():
    given = arguments(__doc__, n=100_000, queries=64, k=10, memory=False, index=False)
    say, data = stopwatch(), clustered(given.n, 384)
    ids = tuple(f"d{row}" for row in range(given.n))
    space = engine.Space(engine.Corpus(ids, ("",) * given.n), engine.Embeddings(ids, data.vectors))
    queries, blocks = data.queries[: given.queries], []
    with Engines(given.out) as engines:
        if given.memory:
            store = ArrayStore(ids, data.vectors.numpy())
        else:
            engines.pg.table("rows", ids, data.vectors.numpy(), [""] * given.n)
            from engine.data.stores.pgvector import PgVectorStore
            from engine.data.stores.pgvector_rows import PgTable

            store = PgVectorStore(engines.pg.access(), PgTable(table="rows", place="place"))
        say("loaded")
        found = proven_cells(store, space, queries, ids, given.k, say)
        blocks.append(exact_table(found, given.queries))
        if given.index and not given.memory:
            engines.pg.execute("CREATE INDEX ON rows USING hnsw (v vector_ip_ops)")
            say("indexed")
            table_ = PgTable(table="rows", place="place", force_index=True)
            indexed = PgVectorStore(engines.pg.access(), table_)
            few = queries[:MOST_BY_INDEX]
            blocks.append(index_table(index_cells(indexed, space, few, ids, given.k, say), len(few)))
    kind = "an array in memory" if given.memory else "PostgreSQL 18 with pgvector 0.8, HNSW m 16, ef_construction 64"
    about = f"{given.n:,} rows, {given.queries} queries, k = {given.k}, {kind}. {HOW.split(';')[0]}."
    name = "reach" if given.memory else "reach-pgvector"
    write_page(given, name, "Answers from a vector engine", machine(["torch", "numpy"]), about, *chain(*blocks))


def exact_table(found, count):
    """What exact answers prove."""
    head = ["decoder", "proven", "exceptions", "trips", "most", "questions", "rows", "most", "picks open", "own CPU ms"]
    rows = [
        (f"`{label}`", percent(proven / count), wrong, f"{trips:.2f}", top, f"{asked:.1f}", f"{rows:,.0f}", f"{wide:,}",
         f"{left:.2f}", f"{1000 * seconds:.0f}")
        for label, proven, wrong, trips, asked, rows, left, top, wide, seconds in found
    ]  # fmt: skip
    every = [np.mean([row[at] for row in found]) for at in (3, 5)]
    total = sum(row[1] for row in found) / (count * len(found))
    wrong = sum(row[2] for row in found)
    words = (
        f"Of all answers {percent(total, 1)} are proven, {wrong} of them wrongly; {every[0]:.2f} trips and "
        f"{every[1]:,.0f} rows in the mean. Exceptions: proven, and not the ids and order that the whole corpus gives; "
        "of max_sum and frank_wolfe with swaps: a swap with some document betters the set. Rows: documents that came "
        "back, 500 of them the pool that a query begins with. CPU of this process an answer, the engine's not in it."
    )
    return ["## Exact searches", table(head, rows, "lr"), words]


def index_table(found, count):
    """What an index answers, and a proof."""
    head = ["decoder", "plan", "right", "called proven", "proven after Prove", "wrongly", "scans", "most", "trips"]
    rows = [
        (f"`{label}`", plan, right, claimed, proven, wrong, f"{scans:.2f}", most, f"{trips:.2f}")
        for label, plan, right, claimed, proven, wrong, scans, most, trips in found
    ]
    words = f"Of {count} queries each; right: the ids and order of the whole corpus, though nothing says so."
    return ["## By an HNSW index at its defaults", table(head, rows, "llr"), words]


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
