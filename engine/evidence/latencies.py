"""Seconds of one query at a time, by k and by the weight of relevance, on real documents and on many drawn ones."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

import engine
from engine.evaluation.studies.latency import measure_latencies as time_selectors
from engine.evidence.claim import Measurement, define_measure
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Effect, slope

LATENCY_SETS = ("perspectrum",)
N_DRAWN_DOCUMENTS, N_DIMENSIONS, CLUSTER_SIZE = 30_000, 384, 100
COMMON_SHARE, TOPIC_SHARE, QUERY_NOISE = 0.2, 0.5, 0.5
"""Shares of a drawn document's squared length that all have in common and that its cluster has, the rest being its own;
the length of what is added to a document to make a query, whose cosine to it then is about .9."""
LATENCY_WEIGHTS, DPP_WEIGHT = (0.5, 0.9), 0.5
LATENCY_SIZES = (10, 20, 50, 100, 200)
N_CALLS, N_DRAWN_QUERIES = 10, 18
FW, MMR, PLAIN_MMR, PLAIN_DPP = "frank_wolfe", "mmr", "mmr, plain", "dpp, plain"
"""Plain ones are as their papers print them, one pass a pick; the engine's MMR looks only where a pick may be."""


@define_measure("latencies")
def measure_latencies(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Time Frank–Wolfe, MMR and DPP query by query, in one thread, on each set and on drawn documents.

    Return "name, number of documents" → the seconds by method, weight of relevance and k, with the values of k.
    """
    measured_sets = {}
    for judged in sets:
        name = f"{judged.name}, {len(judged.space):,}"
        measured_sets[name] = time_methods(judged.space, judged.queries("test"), N_CALLS)
    measured_sets[f"drawn, {N_DRAWN_DOCUMENTS:,}"] = time_methods(*draw_space(N_DRAWN_DOCUMENTS, seed), N_CALLS)
    return measured_sets


def time_methods(space: engine.Space, queries: engine.Embeddings, n_calls: int) -> Measurement:
    """Time the selection of k documents by Frank–Wolfe, MMR and DPP, one query per call.

    Return "sizes": the values of k that the space has documents for; "seconds": "method, θ weight" → one row per call,
    one column per k. θ is the weight of relevance against diversity. "Plain" methods run as their papers print them;
    without the word it is this package's code, which skips work that cannot change the picks.
    """
    ks = [set_size for set_size in LATENCY_SIZES if set_size <= len(space)]
    columns: dict[str, list[list[float]]] = {}
    # As the paper runs Frank–Wolfe: without the search for a better set after it, the polish.
    for selectors, weights in (
        ([engine.make("frank_wolfe", loading=1.0, polish=False), engine.make("mmr")], LATENCY_WEIGHTS),
        ([engine.make("dpp")], (DPP_WEIGHT,)),
    ):
        for latency_row in time_selectors(selectors, space, queries, ks, weights, calls=n_calls):
            name = f"{latency_row.method}{', plain' if latency_row.plain else ''}, θ {latency_row.weight}"
            columns.setdefault(name, []).append(latency_row.seconds.round(7).tolist())
    # Transposed: the lists are one for each k, the rows of the result one for each call.
    return {"sizes": ks, "seconds": {name: list(zip(*by_size, strict=True)) for name, by_size in columns.items()}}


def draw_space(n_documents: int, seed: int) -> tuple[engine.Space, engine.Embeddings]:
    """Draw a space of clustered random documents, whose texts are empty, and query vectors near some."""
    doc_vectors, points, _ = draw_clusters(n_documents, N_DIMENSIONS, N_DRAWN_QUERIES, seed)
    doc_ids, query_ids = tuple(map(str, range(n_documents))), tuple(f"q{row_index}" for row_index in range(len(points)))
    space = engine.Space(engine.Corpus(doc_ids, ("",) * n_documents), engine.Embeddings(doc_ids, doc_vectors))
    return space, engine.Embeddings(query_ids, points)


def draw_clusters(
    count: int, dimensions: int, queries: int, seed: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Draw clustered unit vectors; return (documents, queries near some of them, each document's cluster).

    A document is the weighted sum of a direction that all have in common, its cluster's and one of its own: see
    COMMON_SHARE. Shapes: (count, dimensions), (queries, dimensions), (count,).
    """
    generator = torch.Generator().manual_seed(seed)

    def units(n_rows: int) -> torch.Tensor:
        return torch.nn.functional.normalize(torch.randn(n_rows, dimensions, generator=generator))

    n_topics = max(2, count // CLUSTER_SIZE)
    cluster_index = torch.randint(n_topics, (count,), generator=generator)
    # Shares are of squared length, so that the vectors enter with their square roots.
    cluster_vectors = COMMON_SHARE**0.5 * units(1) + TOPIC_SHARE**0.5 * units(n_topics)
    doc_vectors = units(count).mul_((1 - COMMON_SHARE - TOPIC_SHARE) ** 0.5)
    # Rows are filled block by block in place: the whole sum would need a second matrix of that size.
    for block in torch.arange(count).split(1 << 14):
        doc_vectors[block] += cluster_vectors[cluster_index[block]]
    doc_vectors = torch.nn.functional.normalize(doc_vectors, out=doc_vectors)
    docs = torch.randint(count, (queries,), generator=generator)
    return doc_vectors, torch.nn.functional.normalize(doc_vectors[docs] + QUERY_NOISE * units(queries)), cluster_index


def iterate_seconds(measured_sets: Measurement, method: str) -> Iterator[tuple[str, float, Sequence[int], np.ndarray]]:
    """Yield (set title, weight θ, values of k, (calls, k) seconds) of one method from measurements."""
    for set_name, set_values in measured_sets.items():
        for cell_name, cell_seconds in set_values["seconds"].items():
            # Cells are named "method, θ weight" by `time_methods`.
            cell_method, _, weight = cell_name.rpartition(", θ ")
            if cell_method == method:
                yield set_name, float(weight), set_values["sizes"], np.array(cell_seconds)


def fit_slopes(measured: Measurement, method: str) -> list[Effect]:
    """Fit the exponent with which a method's time grows with k, by set and weight; 1 is proportional."""
    return [
        slope(set_sizes, cell_seconds, f"{set_name}, {method}, θ {weight:g}", ("k", "seconds of a query"))
        for set_name, weight, set_sizes, cell_seconds in iterate_seconds(measured, method)
    ]


def compute_ratios(measured: Measurement, method: str) -> Mapping[tuple[str, float], tuple[Sequence[int], np.ndarray]]:
    """Return (set, weight θ) → (values of k, (calls, k) times of a method divided by Frank–Wolfe's)."""
    fw_seconds = {(set_name, weight): seconds for set_name, weight, _, seconds in iterate_seconds(measured, FW)}
    ratios = {}
    for set_name, weight, set_sizes, method_seconds in iterate_seconds(measured, method):
        ratios[(set_name, weight)] = (set_sizes, method_seconds / fw_seconds[set_name, weight])
    return ratios
