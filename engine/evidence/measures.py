"""What several claims measure: decoders chosen on one split and reported on another, query by query."""

from collections.abc import Iterable, Sequence

import numpy as np

import engine
from engine.decoder import Decoder
from engine.evaluation.sweep.cell import Cell
from engine.evaluation.sweep.sweep import sweep
from engine.evidence.judged_sets import JudgedSet
from engine.stages import make

DENSE = Decoder(make("top_k"))
MMR_GRID = engine.grid("mmr")
ELASTIC_GRID = engine.grid("nnn", fill="strict")
"""The paper's 7 × 7 values of λ₁ and λ₂, and its decoder: the support alone."""
L1_GRID = [d for d in engine.grid("nnn", fill="strict", l2=0.0)]
L2_GRID = [d for d in engine.grid("nnn", fill="strict", l1=0.0)]
POINTS = 100
"""Differences are told in points of a hundred, as the papers have them."""


def cells(judged: JudgedSet, decoders: Sequence[Decoder], split: str, metrics: Sequence[str], k: int) -> list[Cell]:
    """Every decoder on a split, in the order given."""
    measured = sweep(decoders, judged.space, judged.queries(split), judged.splits[split], k, metrics, split=split)
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


def tuned_differences(
    sets: Iterable[JudgedSet], claimed: Sequence[Decoder], other: Sequence[Decoder], metric: str, k: int
) -> dict[str, list[float]]:
    """Set → paired differences in points, both sides chosen on dev and reported on test."""
    return {
        f"{judged.name}, {metric}@{k}": (tuned(judged, claimed, metric, k) - tuned(judged, other, metric, k)).tolist()
        for judged in sets
    }


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """The rows scaled to length 1."""
    scaled: np.ndarray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled
