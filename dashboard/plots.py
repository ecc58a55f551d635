"""The pages' charts as plotly figures of the engine's values, for notebooks and scripts.

Each function draws with the chart of a page; `dark=True` takes its colours for a dark background.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dashboard.charts.drift_time import plot_sparklines
from dashboard.charts.frontier import FrontierChart, plot_named_budget
from dashboard.charts.identification import plot_plane
from dashboard.charts.map import Marks, build_map, build_set_traces, full_extent, plot_backdrop
from dashboard.charts.redundancy import plot_redundancy
from dashboard.charts.weights import plot_weights
from engine.decoder import QueryLike, query_batch
from engine.drift.measures import Drift
from engine.errors import DataError, ParamError
from engine.evaluation.curve import Curve
from engine.evaluation.decide import estimate_on_axes
from engine.evaluation.decision import Decision
from engine.evaluation.frontier import Frontier
from engine.evaluation.frontier import frontier as build_frontier
from engine.evaluation.statistics import resolve_baseline
from engine.evaluation.studies.check_up import CheckUp
from engine.identification.identification import Identification
from engine.maps.density import estimate_density
from engine.maps.layout import Layout, place
from engine.maps.layout import layout as build_layout
from engine.solvers.elastic_net.path import WeightPath
from engine.space import Space
from engine.stages import methods
from engine.values import Qrels, Ranking
from engine.views.drift import share_axes, sparklines
from engine.views.names import name_document
from engine.views.redundancy import redundancy as measure_redundancy
from engine.views.sets import weight_lines

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

TEMPLATES = ("plotly_white", "plotly_dark")
"""Templates of plotly for a light and a dark background; a page of the dashboard brings its own."""
CHECK_UP_SETS = 3
"""Sets of a check-up that are drawn side by side."""


def frontier(
    points: Frontier | Iterable[Any],
    *,
    x: str = "ilad",
    y: str = "recall",
    k: int = 10,
    curves: Sequence[Curve] = (),
    keep: float | None = None,
    dark: bool = False,
) -> Figure:
    """Plot settings by diversity and relevance, as Trade-off does.

    points: a Frontier, or the cells of a sweep with the axes x and y at k; curves: exact frontiers of the same queries,
    in place of lines between points; keep: the share of the baseline's y to keep, which adds the line of the budget and
    the settings that are chosen within it. Raises ParamError or DataError as `engine.frontier` does.
    """
    # A frontier that was computed before has its own axes and k.
    values = points if isinstance(points, Frontier) else build_frontier(points, x, y, k)
    # Curves over other queries would not pass through the points.
    exact = [curve for curve in curves if curve.k == values.k and len(curve.queries) == values.queries]
    estimates = None
    # Chances of keeping the budget take a second for many settings, so that they are estimated on request only.
    if keep is not None:
        base = FrontierChart(frontier=values, dark=dark).base
        estimates = None if base is None else estimate_on_axes(values, exact, base.point)
    chart = FrontierChart(frontier=values, dark=dark, legend=True, share=keep, estimates=estimates, exact=exact)
    return _finish(plot_named_budget(chart), dark)


def path(
    curves: Curve | Sequence[Curve],
    points: Iterable[Any],
    *,
    x: str = "ilad",
    y: str = "recall",
    keep: float | None = None,
    dark: bool = False,
) -> Figure:
    """Plot decoders at every value of their parameter, through the settings that were measured.

    curves: of `engine.exact_frontier`; points: cells of the same queries, the baseline among them; x, y, keep: as of
    `frontier`.
    """
    exact = [curves] if isinstance(curves, Curve) else list(curves)
    if not exact:
        raise ParamError("curves must hold at least one curve of engine.exact_frontier; got none")
    return frontier(points, x=x, y=y, k=exact[0].k, curves=exact, keep=keep, dark=dark)


def decision(chosen: Decision, points: Iterable[Any], *, curves: Sequence[Curve] = (), dark: bool = False) -> Figure:
    """Plot a decision: its budget, its sure setting and its bet among all settings.

    points: the cells that it was made from. Raises DataError if its baseline is not among them.
    """
    cells = list(points)
    # A decision may have another baseline than the chart, which is the first registered selector's.
    label = resolve_baseline(cells, chosen.baseline, chosen.k).label
    values = build_frontier(cells, chosen.objective, chosen.metric, chosen.k)
    base = FrontierChart(frontier=values, dark=dark).base
    if base is None or base.point.label != label:
        raise DataError(
            f"the chart's budget is a share of {next(iter(methods()))}'s {chosen.metric}; the decision's is one of "
            f"{chosen.baseline}'s. Draw the settings by frontier"
        )
    return frontier(values, curves=curves, keep=chosen.keep, dark=dark)


def map(
    space: Space,
    rankings: Mapping[str, Ranking] | None = None,
    query: QueryLike | None = None,
    *,
    layout: Layout | None = None,
    dark: bool = False,
) -> Figure:
    """Plot the map of a corpus, with the sets of one query.

    rankings: by the name of a selector, whose symbol marks the documents; query: its place is marked; layout: of
    `engine.layout`, None to compute it. Raises DataError if it is of another corpus.
    """
    placed = build_layout(space) if layout is None else layout
    positions = dict(zip(placed.rows.tolist(), placed.points, strict=True))
    names = {row: name_document(space.corpus, row) for row in positions}
    figure = plot_backdrop(placed.points, list(names), list(names.values()), dark, estimate_density(placed.points))
    sets = []
    for selector, ranking in (rankings or {}).items():
        # A map of a large corpus is one of a sample, which lacks some documents.
        rows = [row for row in ranking.rows() if row in positions]
        places = np.array([positions[row] for row in rows], dtype=float).reshape(-1, 2)
        sets.append((selector, selector, Marks(places, [str(row) for row in rows], [names[row] for row in rows])))
    query_place = None if query is None else place(placed, space, query_batch(space, query).vectors)[0]
    figure.add_traces(build_set_traces(sets, query_place, None, dark))
    # The frame of the page's map, whose sets the browser would draw.
    figure.update_layout(build_map(None, full_extent(placed.points), bool(sets), dark)["layout"])
    return _finish(figure, dark)


def redundancy(space: Space, rankings: Mapping[str, Ranking], *, dark: bool = False) -> Figure:
    """Plot how similar the documents of each set are, as Explore does. rankings: of one query, by a selector's name."""
    sets = [(name, name, measure_redundancy(space, ranking)) for name, ranking in rankings.items()]
    return _finish(plot_redundancy(_check_pairs(sets), dark), dark)


def check_up(checked: CheckUp, space: Space, *, n_sets: int = CHECK_UP_SETS, dark: bool = False) -> Figure:
    """Plot the most redundant sets of a check-up. n_sets: how many of them."""
    sets = []
    # The symbol before a title is that of the first method: a check-up does not know which decoder it was made of.
    for position in checked.order[:n_sets]:
        row_index = torch.from_numpy(checked.rows[position : position + 1])
        ranking = Ranking(row_index, torch.zeros(row_index.shape), ({},))
        similarities = measure_redundancy(space, ranking, checked.threshold)
        sets.append((next(iter(methods())), checked.queries[position], similarities))
    return _finish(plot_redundancy(_check_pairs(sets), dark), dark)


def weights(
    space: Space,
    weight_path: WeightPath,
    l1: float,
    *,
    query_id: str = "",
    qrels: Qrels | None = None,
    selector: str = "nnn",
    dark: bool = False,
) -> Figure:
    """Plot the documents' weights along λ₁, as Explore does.

    weight_path: of `engine.weight_path`; l1: the value that is marked, at which documents are coloured; query_id,
    qrels: documents judged relevant are thick; selector: whose colour is taken. Raises DataError for an empty path.
    """
    if not len(weight_path):
        raise DataError("no document scores above the lowest λ₁ of the path: there is no weight to plot")
    lowest, highest = float(weight_path.levels[-1]), float(weight_path.levels[0])
    lines = weight_lines(space, query_id, weight_path, l1, qrels)
    span = min(lowest, l1), max(highest, l1)
    return _finish(plot_weights(lines, l1, span, selector, (), dark), dark)


def drift(history: Sequence[Drift], *, step: int | None = None, unit: str = "event", dark: bool = False) -> Figure:
    """Plot the measures of drift along a feedback session's log, as Drift does.

    history: of engine.drift.history.history; step: the moment whose values are written out, None for the last; unit: of
    a step. Raises ParamError for no moment.
    """
    if not history:
        raise ParamError("history must hold at least one moment; got none")
    steps = [moment.step for moment in history]
    if step is not None and step not in steps:
        raise ParamError(f"step must be one of {', '.join(str(each) for each in steps)}; got {step}")
    index = len(steps) - 1 if step is None else steps.index(step)
    return _finish(plot_sparklines(share_axes(sparklines(history)), steps, index, unit, dark), dark)


def identification(found: Identification, space: Space, *, position: int = 0, dark: bool = False) -> Figure:
    """Plot the share of picks that a hypothesis explains, over λ and depth, as Your system does.

    space: the corpus of the run; position: of the hypothesis, 0 for the best. Raises ParamError if there is none.
    """
    if not 0 <= position < len(found.hypotheses):
        raise ParamError(f"position must be from 0 to {len(found.hypotheses) - 1}; got {position}")
    # The best may be the simplest of several that explain as much, and not the first of the list.
    hypothesis = found.best if position == 0 else found.hypotheses[position]
    return _finish(plot_plane(hypothesis, len(space)), dark)


def _check_pairs(sets: Sequence[tuple[str, str, Any]]) -> list[tuple[str, str, Any]]:
    """Return the sets of two documents and more; raise DataError if there is none."""
    if not (drawn := [each for each in sets if each[2].pairs]):
        raise DataError("every set has fewer than two documents: there is nothing to compare")
    return drawn


def _finish(figure: Figure, dark: bool) -> Figure:
    """Return a figure with a background of its own, which a page would give it."""
    return figure.update_layout(template=TEMPLATES[dark])
