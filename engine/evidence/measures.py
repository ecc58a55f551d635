"""What several claims measure: decoders chosen on one split and reported on another, query by query."""

from collections.abc import Mapping, Sequence

import numpy as np

import engine
from engine.decoder import Decoder
from engine.evaluation.metrics import METRICS
from engine.evaluation.sweep.cell import Cell
from engine.evaluation.sweep.store import cached_file
from engine.evaluation.sweep.sweep import sweep
from engine.evidence.claim import Measurement, define_measure
from engine.evidence.judged_sets import JudgedSet
from engine.stages import make

DENSE = Decoder(make("top_k"))
BM25 = Decoder(make("top_k"), engine.make("bm25"))
MMR_GRID = engine.grid("mmr")
ELASTIC_GRID = engine.grid("nnn", fill="strict")
"""The paper's 7 × 7 values of λ₁ and λ₂, and its decoder: the support alone."""
L1_GRID = [d for d in engine.grid("nnn", fill="strict", l2=0.0)]
L2_GRID = [d for d in engine.grid("nnn", fill="strict", l1=0.0)]
POINTS = 100
"""Differences are told in points of a hundred, as the papers have them."""
SECTION = "evidence"
"""Of the cache: measurements, and the cells that several of them share."""


@define_measure("tuned differences")
def tuned_differences(
    sets: Sequence[JudgedSet],
    _: int,
    claimed: Sequence[Decoder],
    others: Mapping[str, Sequence[Decoder]],
    metrics: tuple[str, ...] = ("comp",),
    k: tuple[int, ...] = (5,),
) -> Measurement:
    """Paired differences in points of one decoder to others, each the best of its settings on dev, reported on test.

    The cells of the measurement: set, metric, k and the other's name → differences query by query.
    """
    return {
        f"{judged.name}: points of {METRICS[metric].title}@{size} over {name}": (
            tuned(judged, claimed, metric, size) - tuned(judged, other, metric, size)
        ).tolist()
        for judged in sets
        for metric in metrics
        for size in k
        for name, other in others.items()
    }


def cells(
    judged: JudgedSet,
    decoders: Sequence[Decoder],
    split: str,
    metrics: Sequence[str],
    k: int,
    space: engine.Space | None = None,
) -> list[Cell]:
    """Every decoder on a split, in the order given; what another claim has measured is read.

    space: of other embeddings than the set's own
    """
    queries, qrels, store = judged.queries(split), judged.splits[split], cached_file(SECTION, "cells.db")
    measured = sweep(decoders, space or judged.space, queries, qrels, k, metrics, split=split, store=store)
    by_label = {cell.label: cell for cell in measured}
    return [by_label[decoder.label] for decoder in decoders]


def best_on_dev(judged: JudgedSet, decoders: Sequence[Decoder], metric: str, k: int) -> Decoder:
    """The decoder with the best mean on the queries to choose on, then the best Recall, then the first."""
    measured = cells(judged, decoders, "dev", (metric, "recall"), k)
    at = max(range(len(decoders)), key=lambda i: (measured[i].mean[metric], measured[i].mean["recall"], -i))
    return decoders[at]


def tuned(judged: JudgedSet, decoders: Sequence[Decoder], metric: str, k: int) -> np.ndarray:
    """(n,) values, in points, on the queries to report on of the decoder that is best on the others."""
    best = decoders[0] if len(decoders) == 1 else best_on_dev(judged, decoders, metric, k)
    (cell,) = cells(judged, [best], "test", (metric,), k)
    return POINTS * cell.values[metric]


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """The rows scaled to length 1."""
    scaled: np.ndarray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled
