"""What the sets of every method hold at every setting, and how the frontiers that they draw lie to one another."""

from collections.abc import Mapping, Sequence
from itertools import chain, product
from operator import itemgetter
from typing import Any

import numpy as np

import engine
from engine.evaluation.frontier import find_dominated
from engine.evaluation.statistics import bootstrap_means, percentile_ends
from engine.evaluation.sweep.store import cached_file
from engine.evaluation.sweep.sweep import sweep
from engine.evidence.claim import Measurement, define_measure
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.measures import CACHE_SECTION, MMR_GRID, POINTS, stack_values
from engine.evidence.rules import Effect, compare_frontiers, correlate_ranks

FRONTIER_SETS = ("perspectrum", "multihop-rag-summ500", "toolbank-numpy", "ultratool-en", "toollens")
FRONTIER_SIZES = (10, 50, 100)
FW, POLISHED, GREEDY, MMR, DPP, VRSD = "Frank–Wolfe", "Frank–Wolfe with swaps", "greedy", "MMR", "DPP", "VRSD"
METHOD_GRIDS = {
    FW: engine.grid("frank_wolfe", loading=1.0, polish=False),  # the paper's Algorithm 1
    MMR: MMR_GRID,
    DPP: engine.grid("dpp"),
    VRSD: engine.grid("vrsd"),
    POLISHED: engine.grid("frank_wolfe"),  # the same objective, never less of it
    GREEDY: engine.grid("max_sum", polish=False),  # the same objective, one document at a time
}
MAX_QUERIES, MAX_SCORED_PAIRS = 300, 600_000
"""Most queries of a set, and most queries times documents: one of 11,000 documents takes seconds for all settings."""
SMALL_WEIGHTS, LARGE_WEIGHTS = slice(0, 3), slice(5, None)
"""Of the eleven weights of relevance: up to .2, and from .5 on."""
AREA_PAIRS = ((FW, MMR), (FW, DPP), (FW, GREEDY), (POLISHED, FW))
FRONTIER_PARTS = ("means", "areas", "small", "practical", "steps", "points", "correlations", "spreads")
Table = Mapping[str, Mapping[str, np.ndarray]]
"""Method → metric → (n, settings) values, a row for each query, a column for each setting."""


@define_measure("frontiers")
def measure_frontiers(judged_sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Measure each method's frontier of Recall over diversity (ILAD), reached by its settings, by set.

    Return part → "set, k size" → numbers. means: method → ILAD, Recall and cos(sum, query) of each setting; small: by
    query, the points of Recall by which MMR leads Frank–Wolfe at small weights of relevance; practical: those by which
    Frank–Wolfe leads MMR at practical weights; spreads: by how many percent MMR's and DPP's spread of ILAD over k
    exceeds Frank–Wolfe's; areas: differences of the areas below frontiers; steps: how far DPP's ILAD moves over small
    weights, as a share of the others'; points: settings on the frontier; correlations: of cos(sum, query) with other
    metrics
    """
    parts: dict[str, dict[str, Any]] = {part_name: {} for part_name in FRONTIER_PARTS}
    for judged in judged_sets:
        by_size = measure_tables(judged, seed)
        for set_size, table in by_size.items():
            cell = f"{judged.name}, k {set_size}"
            for name, columns in table.items():
                parts["means"].setdefault(cell, {})[name] = _round_values(np.stack(compute_means(columns), axis=1))
            parts["areas"][cell] = compare_areas(table)
            # Differences are paired by query, so that bootstrap and sign flips may resample queries.
            differences = POINTS * (table[FW]["recall"] - table[MMR]["recall"])
            parts["small"][cell] = _round_values(-differences[:, SMALL_WEIGHTS].mean(1))
            parts["practical"][cell] = _round_values(differences[:, LARGE_WEIGHTS].mean(1))
            dpp_ilad = table[DPP]["ilad"]
            parts["steps"][cell] = {method: step_ratio(dpp_ilad, table[method]["ilad"]) for method in (FW, MMR)}
            parts["points"][cell] = {name: count_undominated(table[name]) for name in (VRSD, MMR, FW)}
            parts["correlations"][cell] = correlate_measures(table)
        # A spread over k needs at least two set sizes, which a small corpus does not have.
        if len(by_size) > 1:
            fw_spread = compute_spread(by_size, FW)
            for method in (MMR, DPP):
                percent_more = 100 * (compute_spread(by_size, method) - fw_spread) / fw_spread.mean()
                parts["spreads"].setdefault(judged.name, {})[method] = _round_values(percent_more)
    return parts


def measure_tables(judged_set: JudgedSet, seed: int) -> Mapping[int, Table]:
    """Return k → method → metric → (queries, settings) values, on at most 300 of the test queries."""
    all_queries, space = judged_set.queries("test"), judged_set.space
    # All methods, settings and sizes are swept, so that the number of scored pairs is bounded by fewer queries in a
    # large corpus.
    n_queries = min(MAX_QUERIES, max(1, MAX_SCORED_PAIRS // len(space)), len(all_queries))
    query_rows = np.sort(np.random.default_rng(seed).choice(len(all_queries), n_queries, replace=False)).tolist()
    metrics = ("recall", "ilad", "cos_sum", *(("alpha_ndcg",) if judged_set.dataset.aspects else ()))
    set_sizes = [size for size in FRONTIER_SIZES if size < len(space)] or [max(1, len(space) // 2)]
    swept_cells = sweep(
        list(chain.from_iterable(METHOD_GRIDS.values())), space, all_queries.take(query_rows),
        judged_set.splits["test"], set_sizes, metrics, split="test", aspects=judged_set.dataset.aspects,
        store=cached_file(CACHE_SECTION, "cells.db"),
    )  # fmt: skip
    # The sweep yields cells in any order: they are looked up by label and size.
    cells = {(cell.label, cell.k): cell for cell in swept_cells}
    tables: dict[int, dict[str, Mapping[str, np.ndarray]]] = {}
    for size, (name, decoders) in product(set_sizes, METHOD_GRIDS.items()):
        method_cells = [cells[decoder.label, size] for decoder in decoders]
        tables.setdefault(size, {})[name] = {metric: stack_values(method_cells, metric) for metric in metrics}
    return tables


def compute_means(metric_columns: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Return the mean ILAD, Recall and cos(sum, query) of each setting."""
    return [metric_columns[metric].mean(0) for metric in ("ilad", "recall", "cos_sum")]


def compare_areas(table: Table) -> dict[str, list[list[float | None]]]:
    """Return "method, other" → the difference of the areas below their frontiers, and the share dominated.

    A frontier is the best Recall that a method's settings reach at each diversity (ILAD). Each result is a value with
    its interval ends. table: method → metric → (queries, settings) values
    """
    get_ilad_and_recall, areas = itemgetter("ilad", "recall"), {}
    for method, other_method in AREA_PAIRS:
        if method in table and other_method in table:
            claimed_axes, other_axes = get_ilad_and_recall(table[method]), get_ilad_and_recall(table[other_method])
            # Stored without a name: the effects are named when they are read.
            area_difference, dominated_share = compare_frontiers(claimed_axes, other_axes, "")
            areas[f"{method}, {other_method}"] = [_store_effect(area_difference), _store_effect(dominated_share)]
    return areas


def step_ratio(claimed_ilad: np.ndarray, other_ilad: np.ndarray) -> list[float | None]:
    """Divide how far a method's mean ILAD moves over small weights by how far another's moves.

    Return the ratio and the two ends of its interval, a bootstrap over queries. claimed_ilad, other_ilad: (queries,
    settings)
    """
    weight_columns = np.concatenate([claimed_ilad[:, SMALL_WEIGHTS], other_ilad[:, SMALL_WEIGHTS]], axis=1)

    # The path of the mean ILAD over consecutive weights; a method that hardly moves there has a small ratio.
    def ratio(ilad_means: np.ndarray) -> np.ndarray:
        """Return the claimed path's length as a share of the other's, for means over queries in rows."""
        claimed_path, other_path = (np.abs(np.diff(half, axis=-1)).sum(-1) for half in np.split(ilad_means, 2, axis=-1))
        path_ratio: np.ndarray = claimed_path / np.maximum(other_path, 1e-12)
        return path_ratio

    # 1000 resamples of the queries, seed 0.
    drawn_ratios = ratio(bootstrap_means(weight_columns, 1000, 0))
    low, high = percentile_ends(drawn_ratios)
    return [float(ratio(weight_columns.mean(0))), low, high]


def count_undominated(metric_columns: Mapping[str, np.ndarray]) -> int:
    """Count the settings of a method on its frontier of Recall over ILAD; equal settings count once.

    metric_columns: metric → (queries, settings) values
    """
    # Rounded before comparison: equal settings must not count as points of their own by rounding errors.
    frontier_points = np.unique(np.round(np.stack(compute_means(metric_columns)[:2], axis=1), 9), axis=0)
    return int((~find_dominated(frontier_points)).sum())


def correlate_measures(method_table: Table) -> dict[str, list[float | None]]:
    """Return Spearman's correlations of cos(sum, query) with Recall, ILAD and α-nDCG over settings.

    Each is computed over all weights of relevance, and over practical ones. Recall and diversity (ILAD) nearly exclude
    one another over settings: so each is correlated with cos(sum, query) while the other is held fixed. VRSD's one
    setting counts as much as a grid of MMR's. Plain ranking is no method of its own here, as all grids end at it.
    """
    method_tables = itemgetter(MMR, DPP, FW, GREEDY, VRSD)(method_table)
    stored_effects = {}
    for weights, weight_slice in {"all θ": slice(None), "θ from .5": LARGE_WEIGHTS}.items():
        n_settings = len(MMR_GRID[weight_slice])

        def columns(metric: str, part: slice = weight_slice, width: int = n_settings) -> np.ndarray:
            """Return (queries, settings) of a metric, all methods side by side, each of the same width."""
            grids = []
            # A method with one setting is repeated, so that every method weighs as much in the correlation.
            for table in method_tables:
                grid = table[metric][:, part] if table[metric].shape[1] > 1 else table[metric]
                grids.append(np.repeat(grid, width // grid.shape[1], axis=1))
            return np.concatenate(grids, axis=1)

        # Recall and ILAD exclude one another over settings, so that each is held fixed while the other is correlated.
        cosines, recalls, ilads = map(columns, ("cos_sum", "recall", "ilad"))
        stored_effects[f"{weights}, Recall at equal ILAD"] = _store_effect(correlate_ranks(cosines, recalls, "", ilads))
        stored_effects[f"{weights}, ILAD at equal Recall"] = _store_effect(correlate_ranks(cosines, ilads, "", recalls))
        if "alpha_ndcg" in method_tables[0]:
            stored_effects[f"{weights}, α-nDCG"] = _store_effect(correlate_ranks(cosines, columns("alpha_ndcg"), ""))
    return stored_effects


def compute_spread(by_size: Mapping[int, Table], method: str) -> np.ndarray:
    """Return how much each query's diversity (ILAD) varies with the number of documents returned, (n,).

    That is the standard deviation over the set sizes, averaged over the settings of the method. by_size: set size →
    method → metric → (n, settings) values
    """
    ilad_by_size = np.stack([method_table[method]["ilad"] for method_table in by_size.values()])
    deviations: np.ndarray = ilad_by_size.std(0).mean(1)
    return deviations


def read_effect(effect_name: str, stored_effect: Sequence[float | None]) -> Effect:
    """Build an effect from its stored value and interval ends."""
    value, low, high = stored_effect
    return Effect(name=effect_name, value=np.nan if value is None else value, low=low, high=high)


def read_pairs(measured: Measurement, method: str, other_method: str) -> list[tuple[Effect, Effect]]:
    """Read for each data set and k two effects that say how much higher one method's frontier is.

    Frontiers are of Recall over diversity (ILAD). The first effect is the difference of the areas below the two; the
    second the share of the other method's points that are dominated. measured: the stored frontiers; sets and k without
    the two methods are left out.
    """
    pair = f"{method}, {other_method}"
    effect_pairs = []
    for cell, areas in measured["areas"].items():
        if pair in areas:
            stored_area, stored_share = areas[pair]
            area = read_effect(f"{cell}, to {other_method}: area", stored_area)
            # The share needs no name: it only decides how the area is judged.
            effect_pairs.append((area, read_effect("", stored_share)))
    return effect_pairs


def _store_effect(effect: Effect) -> list[float | None]:
    """Return an effect's value and interval ends as JSON numbers, None for NaN."""
    return [None if x is None or np.isnan(x) else float(x) for x in (effect.value, effect.low, effect.high)]


def _round_values(values: np.ndarray) -> Any:
    return np.round(values, 5).tolist()
