"""Metrics along each parameter of a selector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dashboard.charts.figure import TOOLTIP, apply_layout, escape, guide
from dashboard.charts.palette import GREY, INK, style_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.heat_map import Slice, Slices

ROW_HEIGHT, MARGIN = 190, 70


def slices_figure(grid: Slices, dark: bool) -> Figure:
    """A column for each parameter, a row for each metric: every setting a point.

    Settings that differ from the chosen one in the column's parameter alone are joined; the chosen setting is on a
    dashed line, the baseline dotted.
    """
    from plotly.subplots import make_subplots

    rows, columns = len(grid.titles), max(1, len(grid.slices))
    gaps = {"horizontal_spacing": 0.08 / columns, "vertical_spacing": 0.06}
    figure = make_subplots(rows=rows, cols=columns, shared_xaxes=True, shared_yaxes=True, **gaps)
    ink = INK.colour(dark)
    for column, line in enumerate(grid.slices, 1):
        x = line.values if _numeric(line) else line.texts
        for row, (metric, title) in enumerate(grid.titles.items(), 1):
            place = {"row": row, "col": column}
            _add_settings(figure, grid, line, metric, place, dark)
            baseline = grid.base[metric]
            if baseline == baseline:
                figure.add_hline(y=baseline, line=guide(ink), **place)
            if line.chosen is not None:
                figure.add_vline(x=x[line.chosen], line=guide(ink, "dash"), **place)
            if column == 1:
                figure.update_yaxes(title=f"{title}@{grid.k}", **place)
            figure.update_xaxes(**_axis(line), **({"title": _title(line)} if row == rows else {}), **place)
    return apply_layout(figure, height=ROW_HEIGHT * rows + MARGIN)


def _add_settings(figure: Figure, grid: Slices, line: Slice, metric: str, place: dict[str, int], dark: bool) -> None:
    style, means, title = style_of(grid.method), line.means[metric], f"{grid.titles[metric]}@{grid.k}"
    colour = style.colour(dark)
    x = line.values if _numeric(line) else line.texts
    hover = [f"{escape(name, 90)}<br>{title} {mean:.4f}" for name, mean in zip(line.names, means, strict=True)]
    for on_line in (False, True):
        positions = [i for i, on in enumerate(line.on) if on is on_line]
        if positions:
            figure.add_scatter(
                x=[x[i] for i in positions],
                y=[means[i] for i in positions],
                mode="lines+markers" if on_line else "markers",
                line={"color": colour, "width": 2},
                marker={
                    "symbol": style.symbol,
                    "size": 8 if on_line else 6,
                    "color": colour if on_line else GREY[dark],
                },
                customdata=[line.keys[i] for i in positions],
                hovertext=[hover[i] for i in positions],
                hovertemplate=TOOLTIP,
                **place,
            )
    if line.chosen is not None:
        figure.add_scatter(
            x=[x[line.chosen]],
            y=[means[line.chosen]],
            mode="markers",
            marker={"symbol": f"{style.symbol}-open", "size": 16, "color": INK.colour(dark), "line": {"width": 2}},
            customdata=[line.keys[line.chosen]],
            hovertext=[f"{hover[line.chosen]}<br>chosen"],
            hovertemplate=TOOLTIP,
            **place,
        )


def _numeric(line: Slice) -> bool:
    """Whether the values have a place on a scale: a logarithmic one has none for 0."""
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in line.values)
    return numbers and not (line.log and min(line.values, default=1) <= 0)


def _axis(line: Slice) -> dict[str, Any]:
    if _numeric(line):
        return {"type": "log" if line.log else "linear"}
    return {"type": "category", "categoryorder": "array", "categoryarray": list(dict.fromkeys(line.texts))}


def _title(line: Slice) -> str:
    return line.symbol if line.symbol == line.name else f"{line.symbol} · {line.label}"
