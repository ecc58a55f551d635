"""What several claims measure: decoders chosen on one split and reported on another, query by query."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product

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
L1_GRID = engine.grid("nnn", fill="strict", l2=0.0)
L2_GRID = engine.grid("nnn", fill="strict", l1=0.0)
POINTS = 100
"""Differences are told in points of a hundred, as the papers have them."""
CACHE_SECTION = "evidence"
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
    """Measure by how many points a decoder beats each rival, both tuned on dev and reported on test.

    claimed, others: the settings that dev chooses from, of the claimed method and by a rival's name. Return
    "set: points of metric@k over rival" → paired differences, query by query.
    """
    cells = {}
    for judged_set, metric, size, (other_name, other_decoders) in product(sets, metrics, k, others.items()):
        claimed_values = measure_tuned(judged_set, claimed, metric, size)
        differences = claimed_values - measure_tuned(judged_set, other_decoders, metric, size)
        cells[f"{judged_set.name}: points of {METRICS[metric].title}@{size} over {other_name}"] = differences.tolist()
    return cells


def get_cells(
    judged_set: JudgedSet,
    decoders: Sequence[Decoder],
    split: str,
    metrics: Sequence[str],
    k: int,
    space: engine.Space | None = None,
) -> list[Cell]:
    """Return the measurements of decoders on a split at k, one cell each in their order, cached.

    A cell holds one decoder's values by metric and query. space: other embeddings to use in place of the set's own.
    """
    queries, qrels, store = judged_set.queries(split), judged_set.splits[split], cached_file(CACHE_SECTION, "cells.db")
    swept_cells = sweep(decoders, space or judged_set.space, queries, qrels, k, metrics, split=split, store=store)
    # The store returns cells in the order of computation, and callers pair them with their decoders.
    by_label = {cell.label: cell for cell in swept_cells}
    return [by_label[decoder.label] for decoder in decoders]


def stack_values(cells: Iterable[Cell], metric: str) -> np.ndarray:
    """Return (n, cells) values of a metric, query by query."""
    return np.stack([cell.values[metric] for cell in cells], axis=1)


def choose_on_dev(judged_set: JudgedSet, decoders: Sequence[Decoder], metric: str, k: int) -> Decoder:
    """Return the decoder with the best mean metric on dev; ties go to better Recall, then the first."""
    dev_cells = get_cells(judged_set, decoders, "dev", (metric, "recall"), k)
    # Ties go to the better Recall, and then to the earlier setting, so that the choice is reproducible.
    best_index = max(range(len(decoders)), key=lambda i: (dev_cells[i].mean[metric], dev_cells[i].mean["recall"], -i))
    return decoders[best_index]


def measure_tuned(judged_set: JudgedSet, decoders: Sequence[Decoder], metric_name: str, k: int) -> np.ndarray:
    """Tune a decoder on dev, and return its (n,) values on the test queries, in points of a hundred.

    decoders: the settings to choose from; a single one is taken without a choice
    """
    best_decoder = decoders[0] if len(decoders) == 1 else choose_on_dev(judged_set, decoders, metric_name, k)
    (cell,) = get_cells(judged_set, [best_decoder], "test", (metric_name,), k)
    return POINTS * cell.values[metric_name]


def scale_rows(row_vectors: np.ndarray) -> np.ndarray:
    """Return the rows scaled to length 1."""
    unit_vectors: np.ndarray = row_vectors / np.linalg.norm(row_vectors, axis=1, keepdims=True)
    return unit_vectors
