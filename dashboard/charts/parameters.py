"""A metric over the parameters of a selector: a heat map of two, and slices along each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dashboard.charts.figure import TOOLTIP, apply_layout, escape, guide, new_figure, new_grid
from dashboard.charts.palette import GREY, INK, style_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.heat_map import HeatMap, Slice, Slices

OUTLINES = (("#000000", 5), ("#FFFFFF", 2.5))
"""The chosen cell's frame, one upon the other: one of the two stands out from any colour of the scale."""
TARGET = 34
"""Pixels of the invisible mark in a cell that takes a click: plotly selects no cell of a heat map itself."""
MOST_LABELLED = 200
"""A table of more cells shows its numbers to the mouse only."""
ROW_HEIGHT, MARGIN = 190, 70


def heat_map_figure(table: HeatMap, dark: bool, chosen: str | None = None, clickable: bool = False) -> Figure:
    """A metric over two parameters. chosen: key of the outlined cell; clickable: cells answer with their key."""
    rows, columns = ([escape(text) for text in axis.texts] for axis in (table.rows, table.columns))
    cells = [(i, j) for i in range(len(rows)) for j in range(len(columns)) if table.keys[i, j]]
    title = f"{table.title}@{table.k}"
    hover = f"{table.rows.symbol} %{{y}}, {table.columns.symbol} %{{x}}<br>%{{z:.4f}}<extra></extra>"
    figure = new_figure()
    figure.add_heatmap(
        z=table.values,
        x=columns,
        y=rows,
        colorscale="Cividis",
        xgap=1,
        ygap=1,
        texttemplate="%{z:.3f}" if len(cells) <= MOST_LABELLED else None,
        hovertemplate=None if clickable else hover,
        hoverinfo="skip" if clickable else None,
        colorbar={"title": title},
    )
    if clickable:
        figure.add_scatter(
            x=[columns[j] for _, j in cells],
            y=[rows[i] for i, _ in cells],
            mode="markers",
            marker={"symbol": "square", "size": TARGET, "opacity": 0},
            customdata=[table.keys[cell] for cell in cells],
            hovertext=[
                f"{table.rows.symbol} {rows[i]}, {table.columns.symbol} {columns[j]}<br>{title} "
                f"{table.values[i, j]:.4f} over {table.queries[i, j]:,} queries"
                for i, j in cells
            ],
            hovertemplate=TOOLTIP,
        )
    for i, j in cells:
        if table.keys[i, j] == chosen:
            for colour, width in OUTLINES:
                place = {"x0": j - 0.5, "x1": j + 0.5, "y0": i - 0.5, "y1": i + 0.5}
                figure.add_shape(type="rect", **place, line={"color": colour, "width": width})
    figure.update_xaxes(title=table.columns.symbol, **_categories(columns))
    figure.update_yaxes(title=table.rows.symbol, **_categories(rows))
    return apply_layout(figure)


def slices_figure(grid: Slices, dark: bool) -> Figure:
    """A column for each parameter, a row for each metric: every setting a point.

    Settings that differ from the chosen one in the column's parameter alone are joined; the chosen setting is on a
    dashed line, the baseline dotted.
    """
    rows, columns = len(grid.titles), max(1, len(grid.slices))
    gaps = {"horizontal_spacing": 0.08 / columns, "vertical_spacing": 0.06}
    figure = new_grid(rows, columns, shared_xaxes=True, shared_yaxes=True, **gaps)
    ink = INK.colour(dark)
    for column, line in enumerate(grid.slices, 1):
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in line.values)
        numeric = numbers and not (line.is_log and min(line.values, default=1) <= 0)
        x = line.values if numeric else line.texts
        axis = {"type": "log" if line.is_log else "linear"} if numeric else _categories(dict.fromkeys(line.texts))
        for row, (metric, title) in enumerate(grid.titles.items(), 1):
            place = {"row": row, "col": column}
            _add_settings(figure, grid, line, x, metric, place, dark)
            baseline = grid.base[metric]
            if baseline == baseline:
                figure.add_hline(y=baseline, line=guide(ink), **place)
            if line.chosen is not None:
                figure.add_vline(x=x[line.chosen], line=guide(ink, "dash"), **place)
            if column == 1:
                figure.update_yaxes(title=f"{title}@{grid.k}", **place)
            figure.update_xaxes(**axis, **place)
        title = line.symbol if line.symbol == line.name else f"{line.symbol} · {line.label}"
        figure.update_xaxes(title=title, row=rows, col=column)
    return apply_layout(figure, height=ROW_HEIGHT * rows + MARGIN)


def _add_settings(
    figure: Figure, grid: Slices, line: Slice, x: Sequence[Any], metric: str, place: dict[str, int], dark: bool
) -> None:
    style, means, title = style_of(grid.method), line.means[metric], f"{grid.titles[metric]}@{grid.k}"
    colour = style.colour(dark)
    hover = [f"{escape(name, 90)}<br>{title} {mean:.4f}" for name, mean in zip(line.names, means, strict=True)]
    for on_line in (False, True):
        positions = [i for i, on in enumerate(line.is_on_slice) if on is on_line]
        if positions:
            figure.add_scatter(
                x=[x[i] for i in positions],
                y=[means[i] for i in positions],
                mode="lines+markers" if on_line else "markers",
                line={"color": colour, "width": 2},
                marker={"symbol": style.symbol} | ({"size": 8} if on_line else {"size": 6, "color": GREY[dark]}),
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


def _categories(texts: Iterable[str]) -> dict[str, Any]:
    """An axis of texts in this order."""
    return {"type": "category", "categoryorder": "array", "categoryarray": list(texts)}
