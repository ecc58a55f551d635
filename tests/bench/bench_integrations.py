"""Each adapter of engine.integrations over its framework's own store: same ids as engine.decode, by candidates fetched.

python tests/bench/bench_integrations.py --data <folder of judged sets> --sets cranfield --out assets/results
"""

from __future__ import annotations

import time
from collections import Counter

from harness import Block, Judged, arguments, machine, ms, table, write_page

import engine
from support.adapters import ADAPTERS

K, QUERIES, DEPTHS, TIMED = 10, 200, (20, 50, 100, 200, 500), 200
DEMO = "numpy-api"


def decoders() -> list[engine.Decoder]:
    """Every selector at its defaults, and at λ = 0.5 where it has one."""
    stages = []
    for spec in engine.methods("selector").values():
        stages.append(spec.cls())
        if any(p.name == "relevance_weight" for p in spec.params):
            stages.append(spec.cls(relevance_weight=0.5))
    return [engine.Decoder(stage) for stage in stages]


def percent(count: float, of: float) -> str:
    return f"{100 * count / of:.1f}%"


def measured(space: engine.Space, queries: engine.Embeddings) -> tuple[list[list[str]], list[list[str]]]:
    """Rows of decoders by depth, and rows of adapters."""
    depths = [n for n in DEPTHS if n < len(space)] + [len(space)]
    same: dict[str, Counter[str]] = {name: Counter() for name in ADAPTERS}
    seconds: Counter[str] = Counter()
    rows, asked, count = [], queries.texts or (), len(queries)
    for decoder in decoders():
        ranking = engine.decode(decoder, space, queries, K)
        whole = [[space.corpus.ids[row] for row in ranking.rows(b)] for b in range(count)]
        by_depth: dict[int, list[list[str]]] = {}
        for name, make in ADAPTERS.items():
            ask = make(decoder, space, queries, K)
            for n in depths:
                if name == "sklearn" and n < len(space):
                    continue
                started = time.perf_counter()
                found = [ask(text, n) for text in asked]
                seconds[name] += (time.perf_counter() - started) if n == min(TIMED, len(space)) else 0
                expected = by_depth.setdefault(n, found)
                same[name]["all" if n == len(space) else "fewer"] += sum(
                    one == other for one, other in zip(found, whole if n == len(space) else expected, strict=True)
                )
        depth = engine.pool_depth(decoder, space, queries, K)
        shares = [percent(sum(a == b for a, b in zip(by_depth[n], whole, strict=True)), count) for n in depths]
        rows.append([decoder.label, f"{depth.depth:,}", *shares])
        print(rows[-1], flush=True)
    total = count * len(decoders())
    return rows, [
        [
            name,
            percent(same[name]["all"], total),
            "–" if name == "sklearn" else percent(same[name]["fewer"], total * (len(depths) - 1)),
            "–" if name == "sklearn" else ms(seconds[name] / total),
        ]
        for name in ADAPTERS
    ]


def main() -> None:
    given = arguments(__doc__, data=True, sets=["cranfield"])
    blocks: list[Block] = [
        f"{machine(['torch', 'langchain-core', 'llama-index-core', 'haystack-ai', 'scikit-learn'])}. k = {K}, bundled "
        f"encoder, up to {QUERIES} queries drawn with seed 0. The stores hold the vectors that engine.decode searches.",
    ]
    for name in (DEMO, *given.sets):
        judged = Judged(DEMO if name == DEMO else given.data / name)
        queries = engine.embed(judged.data.queries.sample(QUERIES), device="cpu")
        rows, adapters = measured(judged.space, queries)
        depths = [f"n = {n}" for n in DEPTHS if n < len(judged.space)]
        blocks += [
            f"## {name}: {len(judged.space):,} documents, {len(queries)} queries",
            "Share of queries with the ids of engine.decode over all documents, in the same order, from the first n "
            "candidates (plain function); first the smallest n that keeps 99 % (`engine.pool_depth`).",
            table(("decoder", "99 % from n", *depths, "all"), rows, "lr"),
            "Each adapter over the store of its framework, all decoders together: the same ids as engine.decode where "
            "all documents are candidates; the same as the plain function at every smaller n above; a query at n = "
            f"{TIMED}, fetching included.",
            table(("integration", "all: same as decode", "fewer: same as the function", "a query"), adapters, "lr"),
        ]
    write_page(given, "integrations", "Decoders over the candidates of other people's stores", *blocks)


if __name__ == "__main__":
    main()
