"""Decoders over the first n candidates of a store, and each adapter over its framework's own store.

python tests/bench/bench_integrations.py --data <folder of judged sets> --sets cranfield --skip facility_location
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness import Block, Judged, arguments, machine, ms, table, timed, write_page

import engine
from support.adapters import ADAPTERS

K, QUERIES = 10, 200
DEPTHS, FETCHED = (20, 50, 100, 200, 500), (50, 200)
DEMO = "numpy-api"


def at_defaults() -> list[engine.Decoder]:
    """Every selector with its default parameters."""
    return [engine.Decoder(spec.cls()) for spec in engine.methods("selector").values()]


def more_diverse() -> list[engine.Decoder]:
    """Those with a λ at 0.5."""
    specs = engine.methods("selector").values()
    weighed = [spec for spec in specs if any(p.name == "relevance_weight" for p in spec.params)]
    return [engine.Decoder(spec.cls(relevance_weight=0.5)) for spec in weighed]


def ids_of(space: engine.Space, ranking: engine.Ranking) -> list[list[str]]:
    """Each query's documents."""
    return [[space.corpus.ids[row] for row in ranking.rows(b)] for b in range(len(ranking))]


def percent(same: Sequence[bool]) -> str:
    return f"{100 * sum(same) / len(same):.1f}%"


def by_depth(space: engine.Space, queries: engine.Embeddings, skip: Sequence[str]) -> list[list[str]]:
    """A row a decoder: the smallest depth that keeps 99 % of the answers, and the share that some depths keep."""
    rows = []
    for decoder in at_defaults() + more_diverse():
        if decoder.select.spec.name in skip:
            continue
        whole = engine.decode(decoder, space, queries, K).index
        shares = []
        for n in DEPTHS:
            index = engine.decode(replace(decoder, depth=n), space, queries, K).index
            shares.append(percent((index == whole).all(1).tolist()))
        smallest = engine.pool_depth(decoder, space, queries, K)
        rows.append([decoder.select.label, f"{smallest.depth:,}", *shares])
        print(rows[-1], flush=True)
    return rows


def by_adapter(space: engine.Space, queries: engine.Embeddings) -> list[list[str]]:
    """A row an adapter: how often its ids are those of the engine, all decoders together."""
    texts, rows = queries.texts or (), []
    for name, make in ADAPTERS.items():
        fetch, adapt = make(space, queries)
        cells = [name]
        for n in (*FETCHED, len(space)):
            if name == "sklearn" and n < len(space):
                cells.append("–")
                continue
            fetched = [fetch(text, n) for text in texts]
            same: list[bool] = []
            for decoder in at_defaults():
                ask = adapt(decoder, K)
                expected = ids_of(space, engine.decode(replace(decoder, depth=n), space, queries, K))
                seconds, found = timed(lambda: [ask(text, f) for text, f in zip(texts, fetched, strict=True)])  # noqa: B023
                same += [one == other for one, other in zip(found, expected, strict=True)]
                if n == FETCHED[-1] and decoder == at_defaults()[1]:
                    time = ms(seconds / len(texts))
            cells.append(percent(same))
        rows.append([*cells, "–" if name == "sklearn" else time])
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    given = arguments(__doc__, data=True, sets=["cranfield"], skip=[""])
    blocks: list[Block] = [
        f"{machine(['torch', 'langchain-core', 'llama-index-core', 'haystack-ai', 'scikit-learn'])}. k = {K}, bundled "
        f"encoder, {QUERIES} queries drawn with seed 0. The stores hold the vectors that engine.decode searches."
    ]
    for name in (DEMO, *given.sets):
        judged = Judged(DEMO if name == DEMO else given.data / name)
        queries = engine.embed(judged.data.queries.sample(QUERIES), device="cpu")
        blocks.append(f"## {name}: {len(judged.space):,} documents, {len(queries)} queries")
        if name == DEMO:
            blocks += [
                "Each adapter over the candidates that the store of its framework fetched: share of the same ids, in "
                f"the same order, as engine.decode at that depth, {len(at_defaults())} decoders (every selector at its "
                f"defaults) with {len(queries)} queries each. Time: of selecting, the second decoder, a query at "
                f"n = {FETCHED[-1]}.",
                table(
                    ("integration", *(f"n = {n}" for n in FETCHED), "all", "time"),
                    by_adapter(judged.space, queries),
                    "lr",
                ),
            ]
        blocks += [
            "Share of the queries that have from the first n candidates the ids of the whole corpus, in the same "
            "order; before it, the smallest n at which 99 % have (`engine.pool_depth`).",
            table(
                ("selector", "99 % from n", *(f"n = {n}" for n in DEPTHS)),
                by_depth(judged.space, queries, given.skip),
                "lr",
            ),
        ]
        write_page(given, "integrations", "Decoders over the candidates of other people's stores", *blocks)


if __name__ == "__main__":
    main()
