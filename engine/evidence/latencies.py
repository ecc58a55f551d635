"""Seconds of one query at a time, by k and by the weight of relevance, on real documents and on many drawn ones."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

import engine
from engine.evaluation.studies.latency import measure_latencies as time_selectors
from engine.evidence.claim import Measurement, define_measure
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Effect, slope

SETS = ("perspectrum",)
DOCUMENTS, DIMENSIONS, CLUSTER = 30_000, 384, 100
COMMON, TOPIC, NOISE = 0.2, 0.5, 0.5
"""Shares of a drawn document's squared length that all have in common and that its cluster has, the rest being its own;
the length of what is added to a document to make a query, whose cosine to it then is about .9."""
WEIGHTS, DPP_WEIGHT = (0.5, 0.9), 0.5
SIZES = (10, 20, 50, 100, 200)
CALLS, QUERIES = 10, 18
FW, MMR, PLAIN_MMR, PLAIN_DPP = "frank_wolfe", "mmr", "mmr, plain", "dpp, plain"
"""Plain ones are as their papers print them, one pass a pick; the engine's MMR looks only where a pick may be."""


@define_measure("latencies")
def measure_latencies(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Documents → sizes, and method and weight → seconds, (calls, sizes), one thread."""
    measured = {
        f"{judged.name}, {len(judged.space):,}": timed(judged.space, judged.queries("test"), CALLS) for judged in sets
    }
    measured[f"drawn, {DOCUMENTS:,}"] = timed(*drawn(DOCUMENTS, seed), CALLS)
    return measured


def timed(space: engine.Space, queries: engine.Embeddings, calls: int) -> Measurement:
    """Sizes, and method and weight → seconds, (calls, sizes)."""
    ks = [k for k in SIZES if k <= len(space)]
    columns: dict[str, list[list[float]]] = {}
    for stages, weights in (
        ([engine.make("frank_wolfe", loading=1.0, polish=False), engine.make("mmr")], WEIGHTS),
        ([engine.make("dpp")], (DPP_WEIGHT,)),
    ):
        for row in time_selectors(stages, space, queries, ks, weights, calls=calls):
            name = f"{row.method}{', plain' if row.plain else ''}, θ {row.weight}"
            columns.setdefault(name, []).append(row.seconds.round(7).tolist())
    return {"sizes": ks, "seconds": {name: list(zip(*by_size, strict=True)) for name, by_size in columns.items()}}


def drawn(count: int, seed: int) -> tuple[engine.Space, engine.Embeddings]:
    """Clustered documents without texts, and queries."""
    rows, points, _ = clustered(count, DIMENSIONS, QUERIES, seed)
    names, asked = tuple(map(str, range(count))), tuple(f"q{row}" for row in range(len(points)))
    space = engine.Space(engine.Corpus(names, ("",) * count), engine.Embeddings(names, rows))
    return space, engine.Embeddings(asked, points)


def clustered(count: int, dimensions: int, queries: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Unit rows in clusters that share a direction, as embeddings do, queries near some of them, and rows' clusters."""
    source = torch.Generator().manual_seed(seed)

    def units(rows: int) -> torch.Tensor:
        return torch.nn.functional.normalize(torch.randn(rows, dimensions, generator=source))

    topics = max(2, count // CLUSTER)
    member = torch.randint(topics, (count,), generator=source)
    base = COMMON**0.5 * units(1) + TOPIC**0.5 * units(topics)
    rows = units(count).mul_((1 - COMMON - TOPIC) ** 0.5)
    for part in torch.arange(count).split(1 << 14):
        rows[part] += base[member[part]]
    rows = torch.nn.functional.normalize(rows, out=rows)
    near = torch.randint(count, (queries,), generator=source)
    return rows, torch.nn.functional.normalize(rows[near] + NOISE * units(queries)), member


def seconds(measured: Measurement, method: str) -> Iterator[tuple[str, float, Sequence[int], np.ndarray]]:
    """(documents, weight, sizes, (calls, sizes) seconds) of a method."""
    for place, of in measured.items():
        for name, values in of["seconds"].items():
            if name.rpartition(", θ ")[0] == method:
                yield place, float(name.rpartition(" ")[2]), of["sizes"], np.array(values)


def slopes(measured: Measurement, method: str) -> list[Effect]:
    """How a method's time grows with k, at every weight."""
    return [
        slope(sizes, values, f"{place}, {method}, θ {weight:g}", ("k", "seconds of a query"))
        for place, weight, sizes, values in seconds(measured, method)
    ]


def ratios(measured: Measurement, method: str) -> Mapping[tuple[str, float], tuple[Sequence[int], np.ndarray]]:
    """Documents and weight → sizes, and how many times as long as Frank–Wolfe a method takes, (calls, sizes)."""
    own = {(place, weight): values for place, weight, _, values in seconds(measured, FW)}
    return {
        (place, weight): (sizes, values / own[place, weight])
        for place, weight, sizes, values in seconds(measured, method)
    }
