"""The setting of a family that explains most picks of a run, and the intervals that resampling leaves."""

from dataclasses import dataclass

import numpy as np

from engine.display import OneLine
from engine.evaluation.statistics import percentile_ends
from engine.identification.evidence import Traces
from engine.solvers.explained_weights import count_on_grid, find_intervals, sweep_depths

Array = np.ndarray

N_GRID_STEPS = 500
"""Steps of λ on the grid that finds the depths worth a closer look."""
GRID_MARGIN = 0.03
"""Share of picks that the grid may miss, as the interval of λ at a peak can lie between two of its values."""
N_RESAMPLES = 200
MAX_RESAMPLED_DEPTHS = 40
PLANE_WEIGHTS = 101
MAX_PLANE_DEPTHS = 80


@dataclass(frozen=True, kw_only=True, eq=False)
class Plane(OneLine):
    """The share of picks that each depth and λ explain, for a heat map.

    depths: ascending, None last for the whole corpus; weights: (L,); shares: (len(depths), L)
    """

    depths: tuple[int | None, ...]
    weights: Array
    shares: Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Peak:
    """The setting of a family that explains most picks, and how well it is known.

    is_explained: (P,) of each pick; weight, depth_index: a setting at the peak, None without a weight; peak_weights:
    the interval of λ at the peak; weights, depths: intervals that resampling the queries leaves; plane: all settings
    """

    is_explained: Array
    weight: float | None
    depth_index: int
    peak_weights: tuple[float, float] | None
    weights: tuple[float, float] | None
    depths: tuple[int, int]
    plane: Plane

    @property
    def n_explained(self) -> int:
        """The number of picks that are explained."""
        return int(self.is_explained.sum())

    @property
    def share_explained(self) -> float:
        """The share of picks that are explained."""
        return self.n_explained / max(len(self.is_explained), 1)


def explain_picks(traces: Traces, depth_index: int, weight: float | None) -> Array:
    """Return (P,) True for the picks that one depth and one λ explain. depth_index: n_depths + 1 is all documents."""
    low, high = _find_intervals(traces, depth_index)
    is_inside = low <= high if weight is None else (low <= weight + 1e-9) & (weight <= high + 1e-9)
    # A pick may have several ranges of λ: one of them suffices.
    is_explained: Array = np.zeros(traces.n_picks, np.bool_)
    is_explained[traces.pick_index[is_inside]] = True
    return is_explained


def find_peak(traces: Traces, depth: int | None, seed: int) -> Peak:
    """Find the λ and the depth that explain most picks, and resample the queries for their intervals.

    depth: the only depth to look at; None for all of them
    """
    n_picks = max(traces.n_picks, 1)
    grid = _count_explained(traces)
    depths, counts, lows, highs = _sweep_best_depths(traces, grid, depth)
    is_best = counts == counts.max()
    depth_index = _choose_depth(depths[is_best], traces.n_depths)
    position = int(np.flatnonzero(depths == depth_index)[0])
    has_weight = traces.family.has_weight
    peak_weights = (float(lows[is_best].min()), float(highs[is_best].max()))
    weight = choose_weight(lows[position], highs[position]) if has_weight else None
    # The peak itself is inside its interval, whatever the draws say.
    weight_ends, depth_ends = _resample(traces, depths, counts, seed)
    best_depths = depths[is_best]
    depth_ends = min(depth_ends[0], int(best_depths[0])), max(depth_ends[1], int(best_depths[-1]))
    weight_ends = min(weight_ends[0], peak_weights[0]), max(weight_ends[1], peak_weights[1])
    return Peak(
        is_explained=explain_picks(traces, depth_index, weight), weight=weight, depth_index=depth_index,
        peak_weights=peak_weights if has_weight else None, weights=weight_ends if has_weight else None,
        depths=depth_ends, plane=_build_plane(grid, traces.n_depths, n_picks),
    )  # fmt: skip


def count_at_peak(traces: Traces, depth: int | None) -> int:
    """Return how many picks the best λ and depth explain. depth: the only one to look at; None for all of them"""
    _, counts, _, _ = _sweep_best_depths(traces, _count_explained(traces), depth)
    return int(counts.max())


def _count_explained(traces: Traces) -> Array:
    """Return (depths + 1, L + 1) the picks that each depth and each λ of a grid explain."""
    grid = np.empty((traces.n_depths + 2, N_GRID_STEPS + 2), np.int32)
    count_on_grid(*traces.arrays, grid)
    return grid


def _sweep_best_depths(traces: Traces, grid: Array, depth: int | None) -> tuple[Array, Array, Array, Array]:
    """Return the depths worth a closer look, and of each the most picks that a λ explains and the ends of such λ.

    grid: of `_count_explained`; it finds the depths, whose intervals are then exact
    """
    best_by_depth, n_rows = grid[:, :-1].max(1), len(grid)
    searched = np.arange(1, n_rows) if depth is None else np.array([min(depth, n_rows - 1)])
    # The grid may step over a narrow interval, so depths a little below its best are searched too.
    threshold = best_by_depth[searched].max() - max(2.0, GRID_MARGIN * max(traces.n_picks, 1))
    depths = searched[best_by_depth[searched] >= threshold]
    counts, lows, highs = np.empty(len(depths), np.int64), np.empty(len(depths)), np.empty(len(depths))
    sweep_depths(*traces.arrays, depths, counts, lows, highs)
    return depths, counts, lows, highs


def choose_weight(low: float, high: float) -> float:
    """Choose the λ of an interval with the fewest decimals, the one nearest to its middle."""
    middle = (low + high) / 2
    # People set λ to round values.
    for decimals in range(1, 7):
        rounded = round(middle, decimals)
        if low <= rounded <= high:
            return float(rounded)
    return float(middle)


def _choose_depth(best_depths: Array, n_depths: int) -> int:
    """Choose one of the depths at the peak: the whole corpus if it is one, else the roundest in the middle."""
    if best_depths[-1] == n_depths + 1:
        return int(best_depths[-1])
    middle = best_depths[len(best_depths) // 2]
    for unit in (1000, 500, 100, 50, 10, 5):
        round_depths = best_depths[best_depths % unit == 0]
        if len(round_depths):
            return int(round_depths[np.argmin(np.abs(round_depths - middle))])
    return int(middle)


def _find_intervals(traces: Traces, depth_index: int) -> tuple[Array, Array]:
    """Return every pick's interval of λ at one depth, (P,) low and high ends."""
    low, high = np.empty(len(traces.pick_starts)), np.empty(len(traces.pick_starts))
    find_intervals(*traces.arrays, depth_index, low, high)
    return low, high


def _resample(traces: Traces, depths: Array, counts: Array, seed: int) -> tuple[tuple[float, float], tuple[int, int]]:
    """Return the intervals of λ and of the depth that draws of the queries with replacement leave.

    depths: those that may be best in a draw; counts: picks that each explains
    """
    if len(depths) > MAX_RESAMPLED_DEPTHS:
        # The best ones, and of equals some all along the range.
        ranked = np.lexsort((np.arange(len(depths)), -counts))
        n_best = int((counts == counts.max()).sum())
        best = np.sort(ranked[:n_best])
        spread = best[np.linspace(0, n_best - 1, min(n_best, MAX_RESAMPLED_DEPTHS // 2)).astype(int)]
        more = ranked[n_best : n_best + MAX_RESAMPLED_DEPTHS - len(spread)]
        depths = np.sort(depths[np.concatenate([spread, more])])
    # Queries are what was drawn from all that people ask; picks of one list belong together.
    n_queries = len(traces.ratios)
    draws = np.random.default_rng(seed).multinomial(n_queries, np.full(n_queries, 1 / n_queries), size=N_RESAMPLES)
    best_counts = np.full(N_RESAMPLES, -1)
    lows, highs = np.ones(N_RESAMPLES), np.zeros(N_RESAMPLES)
    shallowest, deepest = np.zeros(N_RESAMPLES, np.int64), np.zeros(N_RESAMPLES, np.int64)
    for depth in depths:
        depth_counts, depth_lows, depth_highs = _sweep_draws(traces, int(depth), draws)
        # Each draw has a peak of its own, over λ and depth.
        is_better, is_equal = depth_counts > best_counts, depth_counts == best_counts
        lows = np.where(is_better, depth_lows, np.where(is_equal, np.minimum(lows, depth_lows), lows))
        highs = np.where(is_better, depth_highs, np.where(is_equal, np.maximum(highs, depth_highs), highs))
        shallowest = np.where(is_better, depth, shallowest)
        deepest = np.where(is_better | is_equal, depth, deepest)
        best_counts = np.maximum(best_counts, depth_counts)
    weight_ends = percentile_ends(lows)[0], percentile_ends(highs)[1]
    depth_low = int(np.percentile(shallowest, 2.5, method="lower"))
    return weight_ends, (depth_low, int(np.percentile(deepest, 97.5, method="higher")))


def _sweep_draws(traces: Traces, depth: int, draws: Array) -> tuple[Array, Array, Array]:
    """Return the largest number of explained picks in each draw at one depth, and the ends of its interval of λ.

    draws: (R, Q) how often each query is drawn
    """
    low, high = _find_intervals(traces, depth)
    valid = np.flatnonzero(low <= high)
    if not len(valid):
        return np.zeros(len(draws), np.int64), np.zeros(len(draws)), np.ones(len(draws))
    points = np.concatenate([low[valid], high[valid]])
    steps = np.concatenate([np.ones(len(valid), np.int64), -np.ones(len(valid), np.int64)])
    # Of equal points those where an interval begins come first, as intervals are closed.
    order = np.lexsort((-steps, points))
    queries = np.concatenate([traces.query_index[valid]] * 2)[order]
    # Along λ each interval adds its query's number at its low end, and takes it off at its high end.
    running = np.cumsum(draws[:, queries] * steps[order], axis=1)
    best = running.max(1)
    is_best = running == best[:, None]
    first = is_best.argmax(1)
    last = len(order) - 1 - is_best[:, ::-1].argmax(1)
    sorted_points = points[order]
    return best, sorted_points[first], sorted_points[np.minimum(last + 1, len(order) - 1)]


def _build_plane(grid: Array, n_depths: int, n_picks: int) -> Plane:
    """Thin the grid of explained picks to depths in about equal ratios, and a hundred steps of λ."""
    # Small pools differ more from one another than large ones.
    indices = np.unique(np.geomspace(1, n_depths, MAX_PLANE_DEPTHS).round().astype(int))
    columns = np.linspace(0, N_GRID_STEPS, PLANE_WEIGHTS).round().astype(int)
    rows = [*indices.tolist(), n_depths + 1]
    shares = grid[np.ix_(rows, columns)] / n_picks
    depths: list[int | None] = [*indices.tolist(), None]
    return Plane(depths=tuple(depths), weights=columns / N_GRID_STEPS, shares=shares.astype(np.float32))
