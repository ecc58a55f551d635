"""The frontier of a live page: measured, and as plain values that a script draws at every budget and every λ."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import engine
from dashboard.charts.frontier import (
    FrontierChart,
    build_chance_facts,
    build_controls,
    build_envelope,
    build_line_facts,
    build_lines,
    find_curve,
    find_positions,
    format_means,
    format_method,
    format_titles,
    group_curves,
)
from dashboard.charts.palette import method_look, method_style
from dashboard.charts.verdict_data import build_verdict_data, describe_scope, list_headlines
from dashboard.components.tile_data import list_sliders, name_decoders
from dashboard.session.decoders import make_baseline
from dashboard.session.tradeoff import N_VALUES, X_METRIC, Y_METRIC
from engine.decoder import Decoder
from engine.evaluation.curve import Curve
from engine.evaluation.decide import OptionEstimates, estimate_on_axes
from engine.evaluation.decision import Decision
from engine.evaluation.exact_frontier import exact_frontier, list_path_decoders
from engine.evaluation.frontier import KEPT_SHARE, FrontierPoint, frontier
from engine.evaluation.metrics import title_of
from engine.evaluation.paired import find_complete_queries
from engine.evaluation.sweep.cell import Cell
from engine.params import values_of
from engine.progress import Progress, Stop, counted
from engine.space import Space
from engine.values import Embeddings, Qrels
from engine.views.slider import stops
from engine.wording import visible

FindConfirming = Callable[[Decision, Cell], Sequence[Cell]]
"""Function that returns the cells by which another split judges a decision, () where it was not asked.

It takes the decision and the baseline's cell."""
COORDINATE_DIGITS = 5
"""Significant digits of coordinates: a chart of 2,000 pixels shows four."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredDecoders:
    """Decoders measured on judged queries, at some values and, where that can be, at every value of λ."""

    cells: Sequence[Cell]  # the baseline's first
    curves: Sequence[Curve]
    k: int


def measure_settings(
    space: Space,
    queries: Embeddings,
    qrels: Qrels,
    decoders: Sequence[Decoder],
    *,
    k: int,
    split: str = "",
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> MeasuredDecoders:
    """Measure decoders along their first sliders on judged queries. Raises DataError or Cancelled as a sweep does."""
    # Recall is undefined without a relevant document, and curves and settings are compared on the same queries.
    queries = queries.take([row for row, query_id in enumerate(queries.ids) if qrels.relevant(query_id)])
    settings = [make_baseline(None)]
    for decoder in decoders:
        settings.append(decoder)
        for param, form in list_sliders(decoder.select)[:1]:
            settings += [set_value(decoder, param.name, value) for value in form.grid(N_VALUES.default)]
    settings = list(dict.fromkeys(settings))
    options: dict[str, Any] = {
        "space": space,
        "queries": queries,
        "qrels": qrels,
        "k": k,
        "metrics": (Y_METRIC, X_METRIC),
    }
    options |= {"split": split, "progress": progress, "stop": stop}
    cells = list(engine.sweep(settings, **options))
    path_decoders = list_path_decoders(settings, space)
    curves = [exact_frontier(decoder.select, **options, **decoder.limits) for decoder in path_decoders]
    return MeasuredDecoders(cells=cells, curves=curves, k=k)


def set_value(decoder: Decoder, param_name: str, value: Any) -> Decoder:
    """Return a decoder with another value of one parameter of its selector."""
    select = decoder.select
    return replace(decoder, select=type(select)(**values_of(select) | {param_name: value}))


def build_frontier_data(
    measured: MeasuredDecoders, decoders: Mapping[str, Decoder], find_confirming: FindConfirming | None = None
) -> dict[str, Any] | None:
    """Build what the script live_frontier.js draws, and the verdict at every budget.

    decoders: key of the tile → decoder; find_confirming: finds what another split says of the choices. The result has
    means over queries only, nothing of a single one; None where the baseline's sets have fewer than two documents on
    every query. Raises DataError or ParamError as `engine.frontier` does.
    """
    # No set has a diversity, as of a corpus of one document.
    if not find_complete_queries(measured.cells[0], (X_METRIC, Y_METRIC)).any():
        return None
    cells = _drop_incomplete(measured.cells)
    points = frontier(cells, X_METRIC, Y_METRIC, measured.k)
    dropped = [cell for cell in measured.cells if cell not in cells]
    # A curve over other queries would not pass through the points, nor one with sets that have no diversity.
    exact = [
        curve
        for curve in measured.curves
        if len(curve.queries) == points.queries and not any(_is_on_curve(cell, curve) for cell in dropped)
    ]
    estimates = estimate_on_axes(points, exact, cells[0])
    chart = FrontierChart(frontier=points, dark=False, share=KEPT_SHARE.default, estimates=estimates, exact=exact)
    envelope = build_envelope(chart)
    data: dict[str, Any] = {
        "titles": list(map(visible, format_titles(chart))),
        "suffix": "%" if chart.relative else "",
        "unit": chart.unit,
        "queries": points.queries,
        "names": [title_of(points.x), title_of(points.y)],
        "base": visible(chart.base.name) if chart.relative and chart.base is not None else "",
        "window": {"x": _round(chart.view.x), "y": _round(chart.view.y)},
        "series": [_build_series(chart, curves) for curves, _ in group_curves(points)],
        "envelope": envelope and {"x": _round(envelope["x"]), "y": _round(envelope["y"])},
        "level": _build_level(chart),
        "dots": _build_dots(chart, decoders),
        "verdict": None,
        "settings": {},
        "notes": [],
    }
    if estimates is not None:
        data |= _build_verdict(estimates, decoders, find_confirming)
    if dropped:
        verb = "is" if len(dropped) == 1 else "are"
        settings = counted(len(dropped), "setting")
        data["notes"].append(f"{settings} returned fewer than two documents on some queries and {verb} left out.")
    return data


def _drop_incomplete(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells that have both metrics wherever the baseline, the first one, has them.

    A set of fewer than two documents has no diversity, and all means are over the queries that every cell has.
    """
    n_queries = find_complete_queries(cells[0], (X_METRIC, Y_METRIC)).sum()
    return [cell for cell in cells if find_complete_queries(cell, (X_METRIC, Y_METRIC)).sum() >= n_queries]


def _is_on_curve(cell: Cell, curve: Curve) -> bool:
    """Return True if a curve passes through a cell's setting."""
    others = {name: value for name, value in cell.decoder["select"].items() if name != curve.parameter}
    return others == curve.selector and cell.method == curve.method


def _build_series(chart: FrontierChart, curves: Sequence[Sequence[FrontierPoint]]) -> dict[str, Any]:
    """Build lines and points of one selector with one chain of scorers, and the facts of their chances."""
    points = [point for curve_points in curves for point in curve_points]
    method, lines = points[0].point.method, []
    for line in build_lines(chart, curves):
        facts = build_line_facts(chart, method, line)
        keep, is_exact = facts and facts["keep"], line.is_exact
        lines.append({"x": _round(line.x), "y": _round(line.y), "keep": keep, "isExact": is_exact})
    facts = build_chance_facts(chart, method, find_positions(chart, [point.point.label for point in points]))
    cards = [visible(f"{point.name}. {format_means(chart.frontier, point.x, point.y)}") for point in points]
    places = {axis: _round(values) for axis, values in chart.xy(points).items()}
    marks = {**places, "keep": facts and facts["keep"], "cards": cards}
    return method_look(method, visible(format_method(points[0]))) | {"method": method, "lines": lines, "points": marks}


def _build_level(chart: FrontierChart) -> dict[str, Any] | None:
    """Build the budget's line with the two choices at every budget; None if it cannot be dragged."""
    level: dict[str, Any] | None = build_controls(chart).get("level")
    if level is None:
        return None
    for option in level.get("options", ()):
        style = method_style(option["method"])
        # The page follows the reader's scheme, which is not known here.
        option["colour"] = f"light-dark({style.light}, {style.dark})"
    return level


def _build_dots(chart: FrontierChart, decoders: Mapping[str, Decoder]) -> dict[str, dict[str, Any]]:
    """Build the dot of each decoder that was measured, with the title of its tile."""
    names = name_decoders(list(decoders.values()), max_sliders=1)
    dots = {}
    for (key, decoder), (_, title) in zip(decoders.items(), names, strict=True):
        dot = _build_dot(chart, decoder, title)
        if dot is not None:
            dots[key] = dot
    return dots


def _build_dot(chart: FrontierChart, decoder: Decoder, title: str) -> dict[str, Any] | None:
    """Build the places of a decoder's dot for the values of its first slider; None if it was not measured."""
    own = next((point for point in chart.frontier.points if point.point.label == decoder.label), None)
    if own is None:
        return None
    sliders = list_sliders(decoder.select)[:1]
    curve = find_curve(own, chart.frontier, chart.exact)
    places: list[tuple[float, float, float]] = []
    if not sliders:
        places.append((0.0, own.x, own.y))
    elif curve is not None and curve.parameter == sliders[0][0].name:
        places += _follow_curve(chart, curve, stops(sliders[0][1], values_of(decoder.select)[curve.parameter], True))
    else:
        # Without a curve the dot stands at the nearest value that was measured.
        labels = {set_value(decoder, sliders[0][0].name, value).label: value for value in _list_values(decoder)}
        measured = [point for point in chart.frontier.points if point.point.label in labels]
        places += sorted((labels[point.point.label], point.x, point.y) for point in measured)
    values, x, y = zip(*places, strict=True)
    look = method_look(decoder.select.spec.name, title)
    axes = {"x": _round(x), "y": _round(value * chart.unit for value in y)}
    return look | axes | {"values": list(values), "symbol": sliders[0][1].symbol if sliders else ""}


def _follow_curve(chart: FrontierChart, curve: Curve, values: Iterable[float]) -> list[tuple[float, float, float]]:
    """Return (value, x, y) of an exact curve at the values of a slider inside the curve's interval."""
    low, high = curve.interval
    places = []
    for value in values:
        if low <= value <= high:
            means = curve.at(value)
            places.append((value, means[chart.frontier.x], means[chart.frontier.y]))
    return places


def _list_values(decoder: Decoder) -> list[Any]:
    """Return the values of a decoder's first slider that are measured, its own among them."""
    (param, form), *_ = list_sliders(decoder.select)
    return list(dict.fromkeys([*form.grid(N_VALUES.default), values_of(decoder.select)[param.name]]))


def _build_verdict(
    estimates: OptionEstimates, decoders: Mapping[str, Decoder], find_confirming: FindConfirming | None
) -> dict[str, Any]:
    """Build the verdict at every budget, the sentences on its origin, and the sliders' values of its choices."""
    decision = estimates.decide(KEPT_SHARE.default, with_options=False)
    confirming_cells = () if find_confirming is None else find_confirming(decision, estimates.baseline)
    if confirming_cells:
        decision = estimates.decide(KEPT_SHARE.default, confirming_cells, with_options=False)
    verdict = build_verdict_data(estimates, decision, False, describe_scope(estimates))
    # Both choices have what another split says of them in their boxes.
    origin_sentences = decision.sentences[len(list_headlines(decision)) :]
    origin = [text for text in origin_sentences if text not in decision.confirmations]
    settings = {}
    for option in verdict["options"]:
        place = _find_slider_value(estimates.find_decoder(option["label"]), decoders)
        if place is not None:
            settings[option["label"]] = place
    return {"verdict": verdict, "settings": settings, "notes": list(map(visible, origin))}


def _find_slider_value(chosen: Decoder | None, decoders: Mapping[str, Decoder]) -> tuple[str, Any] | None:
    """Return the tile whose slider can be set to a chosen setting, and the value; None if there is none."""
    for key, decoder in decoders.items():
        for param, _ in list_sliders(decoder.select)[:1]:
            value = None if chosen is None else values_of(chosen.select).get(param.name)
            if value is not None and chosen == set_value(decoder, param.name, value):
                return key, value
    return None


def _round(values: Iterable[float]) -> list[float]:
    """Return coordinates with as many digits as a chart can show."""
    return [float(f"{value:.{COORDINATE_DIGITS}g}") for value in values]
