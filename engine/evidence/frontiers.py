"""What the sets of every method hold at every setting, and how the frontiers that they draw lie to one another."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import engine
from engine.evaluation.frontier import find_dominated
from engine.evaluation.statistics import bootstrap_means, percentile_ends
from engine.evaluation.sweep.store import cached_file
from engine.evaluation.sweep.sweep import sweep
from engine.evidence.claim import Measurement, define_measure
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.measures import MMR_GRID, POINTS, SECTION
from engine.evidence.rules import Effect, dominance, rank_correlation

SETS = ("perspectrum", "multihop-rag-summ500", "toolbank-numpy", "ultratool-en", "toollens")
SIZES = (10, 50, 100)
FW, POLISHED, GREEDY, MMR, DPP, VRSD = "Frank–Wolfe", "Frank–Wolfe with swaps", "greedy", "MMR", "DPP", "VRSD"
METHODS = {
    FW: engine.grid("frank_wolfe", loading=1.0, polish=False),  # the paper's Algorithm 1
    MMR: MMR_GRID,
    DPP: engine.grid("dpp"),
    VRSD: engine.grid("vrsd"),
    POLISHED: engine.grid("frank_wolfe"),  # the same objective, never less of it
    GREEDY: engine.grid("max_sum", polish=False),  # the same objective, one document at a time
}
QUERIES, LOOKED_AT = 300, 600_000
"""Most queries of a set, and most queries times documents: one of 11,000 documents takes seconds for all settings."""
SMALL, PRACTICAL = slice(0, 3), slice(5, None)
"""Of the eleven weights of relevance: up to .2, and from .5 on."""
AREAS = ((FW, MMR), (FW, DPP), (FW, GREEDY), (POLISHED, FW))
PARTS = ("means", "areas", "small", "practical", "steps", "points", "correlations", "spreads")
Table = Mapping[str, Mapping[str, np.ndarray]]
"""Method → metric → (n, settings) values, a row for each query, a column for each setting."""


@define_measure("frontiers")
def measure_frontiers(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Part → set and k → numbers; every part is told by the function that makes it.

    means: method → ILAD, Recall and cos(sum, query) of each setting; small, practical: by how many points of Recall MMR
    leads Frank–Wolfe at small weights, and Frank–Wolfe MMR at practical ones, query by query; spreads: by how many
    percent others' exceed Frank–Wolfe's
    """
    parts: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
    for judged in sets:
        by_size = tables(judged, seed)
        for k, table in by_size.items():
            cell = f"{judged.name}, k {k}"
            parts["means"][cell] = {name: _plain(np.stack(means(columns), axis=1)) for name, columns in table.items()}
            parts["areas"][cell] = areas(table)
            apart = POINTS * (table[FW]["recall"] - table[MMR]["recall"])
            parts["small"][cell] = _plain(-apart[:, SMALL].mean(1))
            parts["practical"][cell] = _plain(apart[:, PRACTICAL].mean(1))
            parts["steps"][cell] = {other: step_ratio(table[DPP]["ilad"], table[other]["ilad"]) for other in (FW, MMR)}
            parts["points"][cell] = {name: undominated(table[name]) for name in (VRSD, MMR, FW)}
            parts["correlations"][cell] = correlations(table)
        if len(by_size) > 1:
            own = spread(by_size, FW)
            more = {other: 100 * (spread(by_size, other) - own) / own.mean() for other in (MMR, DPP)}
            parts["spreads"][judged.name] = {other: _plain(percent) for other, percent in more.items()}
    return parts


def tables(judged: JudgedSet, seed: int) -> Mapping[int, Table]:
    """k → what every method's sets are worth, on some queries of the split to report on."""
    every, space = judged.queries("test"), judged.space
    most = min(QUERIES, max(1, LOOKED_AT // len(space)), len(every))
    rows = np.sort(np.random.default_rng(seed).choice(len(every), most, replace=False)).tolist()
    metrics = ("recall", "ilad", "cos_sum", *(("alpha_ndcg",) if judged.dataset.aspects else ()))
    ks = [k for k in SIZES if k < len(space)] or [max(1, len(space) // 2)]
    measured = sweep(
        [decoder for decoders in METHODS.values() for decoder in decoders], space, every.take(rows),
        judged.splits["test"], ks, metrics, split="test", aspects=judged.dataset.aspects,
        store=cached_file(SECTION, "cells.db"),
    )  # fmt: skip
    values = {(cell.label, cell.k): cell.values for cell in measured}
    return {
        k: {
            name: {metric: np.stack([values[d.label, k][metric] for d in decoders], axis=1) for metric in metrics}
            for name, decoders in METHODS.items()
        }
        for k in ks
    }


def means(columns: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """ILAD, Recall and cos(sum, query) of each setting."""
    return [columns[metric].mean(0) for metric in ("ilad", "recall", "cos_sum")]


def areas(table: Table) -> dict[str, list[list[float | None]]]:
    """Pair → how a frontier of Recall over ILAD lies to another: `dominance`'s two effects."""
    axes = {name: (columns["ilad"], columns["recall"]) for name, columns in table.items()}
    pairs = [(one, other) for one, other in AREAS if one in table and other in table]
    return {f"{one}, {other}": [_ends(e) for e in dominance(axes[one], axes[other], "")] for one, other in pairs}


def step_ratio(ilad: np.ndarray, other: np.ndarray) -> list[float | None]:
    """How far one method's mean ILAD moves over small weights, as a share of how far another's does."""
    columns = np.concatenate([ilad[:, SMALL], other[:, SMALL]], axis=1)

    def ratio(values: np.ndarray) -> np.ndarray:
        one, two = (np.abs(np.diff(part, axis=-1)).sum(-1) for part in np.split(values, 2, axis=-1))
        shares: np.ndarray = one / np.maximum(two, 1e-12)
        return shares

    drawn = ratio(bootstrap_means(columns, 1000, 0))
    low, high = percentile_ends(drawn)
    return [float(ratio(columns.mean(0))), low, high]


def undominated(columns: Mapping[str, np.ndarray]) -> int:
    """How many places a method has on its own frontier of Recall over ILAD."""
    places = np.unique(np.round(np.stack(means(columns)[:2], axis=1), 9), axis=0)
    return int((~find_dominated(places)).sum())


def correlations(table: Table) -> dict[str, list[float | None]]:
    """Measure → Spearman's correlation of cos(sum, query) with it over settings, over all and over practical weights.

    Recall and diversity nearly exclude one another over settings, and so are correlated with it at equal values of the
    other. VRSD's one setting counts as much as a grid of MMR's. All grids end at the most relevant documents, which
    therefore are no method of their own.
    """
    methods = [table[name] for name in (MMR, DPP, FW, GREEDY, VRSD)]
    told = {}
    for weights, part in {"all θ": slice(None), "θ from .5": PRACTICAL}.items():
        width = len(MMR_GRID[part])

        def columns(metric: str, part: slice = part, width: int = width) -> np.ndarray:
            grids = [of[metric][:, part] if of[metric].shape[1] > 1 else of[metric] for of in methods]
            return np.concatenate([np.repeat(grid, width // grid.shape[1], axis=1) for grid in grids], axis=1)

        own, recall, ilad = (columns(metric) for metric in ("cos_sum", "recall", "ilad"))
        told[f"{weights}, Recall at equal ILAD"] = _ends(rank_correlation(own, recall, "", ilad))
        told[f"{weights}, ILAD at equal Recall"] = _ends(rank_correlation(own, ilad, "", recall))
        if "alpha_ndcg" in methods[0]:
            told[f"{weights}, α-nDCG"] = _ends(rank_correlation(own, columns("alpha_ndcg"), ""))
    return told


def spread(by_size: Mapping[int, Table], name: str) -> np.ndarray:
    """(n,) by how much ILAD a method's answer at one weight differs over k: standard deviation, mean over weights."""
    ilad = np.stack([table[name]["ilad"] for table in by_size.values()])
    deviations: np.ndarray = ilad.std(0).mean(1)
    return deviations


def as_effect(name: str, numbers: Sequence[float | None]) -> Effect:
    """An effect from a value and its ends as they are stored."""
    value, low, high = numbers
    return Effect(name=name, value=np.nan if value is None else value, low=low, high=high)


def pairs_of(measured: Measurement, one: str, other: str) -> list[tuple[Effect, Effect]]:
    """Cell by cell, what `areas` has of two methods, as `rules.above` takes it."""
    stored = {cell: of[f"{one}, {other}"] for cell, of in measured["areas"].items() if f"{one}, {other}" in of}
    return [
        (as_effect(f"{cell}, to {other}: area", area), as_effect("", beaten))
        for cell, (area, beaten) in stored.items()
    ]  # fmt: skip


def _ends(effect: Effect) -> list[float | None]:
    return [None if x is None or np.isnan(x) else float(x) for x in (effect.value, effect.low, effect.high)]


def _plain(values: np.ndarray) -> Any:
    return np.round(values, 5).tolist()
