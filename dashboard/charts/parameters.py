"""A metric over the parameters of a selector: a heat map of two, and slices along each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress, product
from typing import TYPE_CHECKING, Any

import numpy as np

from dashboard.charts.figure import TOOLTIP, apply_layout, escape, guide, new_figure, new_grid
from dashboard.charts.palette import GREY, INK, method_style

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.heat_map import HeatMap, Slice, Slices

CELL_OUTLINES = (("#000000", 5), ("#FFFFFF", 2.5))
"""Two frames of the chosen cell, one on the other: one of them contrasts with any colour of the scale."""
CLICK_TARGET_PX = 34
"""Size of the invisible mark that receives clicks, as plotly cannot select cells of a heat map."""
MAX_LABELLED_CELLS = 200
"""A larger table shows its numbers on hover only."""
SLICE_ROW_PX, SLICES_MARGIN_PX = 190, 70


def plot_heat_map(table: HeatMap, dark: bool, chosen_key: str | None = None, clickable: bool = False) -> Figure:
    """Plot a metric over two parameters. chosen_key: of the outlined cell; clickable: cells answer clicks."""
    rows, columns = list(map(escape, table.rows.texts)), list(map(escape, table.columns.texts))
    title = f"{table.title}@{table.k}"
    x, y, keys, hover_texts = [], [], [], []
    for cell in product(range(len(rows)), range(len(columns))):
        if table.keys[cell]:
            row, column = cell
            x.append(columns[column])
            y.append(rows[row])
            keys.append(table.keys[cell])
            setting = f"{table.rows.symbol} {rows[row]}, {table.columns.symbol} {columns[column]}"
            mean = f"{table.values[cell]:.4f} over {table.queries[cell]:,} queries"
            hover_texts.append(f"{setting}<br>{title} {mean}")
    hover = f"{table.rows.symbol} %{{y}}, {table.columns.symbol} %{{x}}<br>%{{z:.4f}}<extra></extra>"
    figure = new_figure()
    figure.add_heatmap(
        z=table.values,
        x=columns,
        y=rows,
        colorscale="Cividis",
        xgap=1,
        ygap=1,
        texttemplate="%{z:.3f}" if len(keys) <= MAX_LABELLED_CELLS else None,
        hovertemplate=None if clickable else hover,
        hoverinfo="skip" if clickable else None,
        colorbar={"title": title},
    )
    if clickable:
        figure.add_scatter(
            x=x,
            y=y,
            mode="markers",
            marker={"symbol": "square", "size": CLICK_TARGET_PX, "opacity": 0},
            customdata=keys,
            hovertext=hover_texts,
            hovertemplate=TOOLTIP,
        )
    if chosen_key:
        for row, column in np.argwhere(table.keys == chosen_key).tolist():
            for colour, width in CELL_OUTLINES:
                corners = {"x0": column - 0.5, "x1": column + 0.5, "y0": row - 0.5, "y1": row + 0.5}
                figure.add_shape(type="rect", **corners, line={"color": colour, "width": width})
    figure.update_xaxes(title=table.columns.symbol, **_category_axis(columns))
    figure.update_yaxes(title=table.rows.symbol, **_category_axis(rows))
    return apply_layout(figure)


def plot_slices(grid: Slices, dark: bool) -> Figure:
    """Plot a column per parameter and a row per metric: every setting a point.

    Settings that differ from the chosen one in the column's parameter alone are joined; the chosen setting is on a
    dashed line, the baseline dotted.
    """
    rows, columns = len(grid.titles), max(1, len(grid.slices))
    gaps = {"horizontal_spacing": 0.08 / columns, "vertical_spacing": 0.06}
    figure = new_grid(rows, columns, shared_xaxes=True, shared_yaxes=True, **gaps)
    ink = INK.colour(dark)
    for column, line in enumerate(grid.slices, 1):
        all_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in line.values)
        is_numeric = all_numbers and not (line.is_log and min(line.values, default=1) <= 0)
        x = line.values if is_numeric else line.texts
        axis = {"type": "log" if line.is_log else "linear"} if is_numeric else _category_axis(dict.fromkeys(line.texts))
        for row, (metric, title) in enumerate(grid.titles.items(), 1):
            panel = {"row": row, "col": column}
            _add_settings(figure, grid, line, x, metric, panel, dark)
            baseline = grid.base[metric]
            if baseline == baseline:
                figure.add_hline(y=baseline, line=guide(ink), **panel)
            if line.chosen is not None:
                figure.add_vline(x=x[line.chosen], line=guide(ink, "dash"), **panel)
            if column == 1:
                figure.update_yaxes(title=f"{title}@{grid.k}", **panel)
            figure.update_xaxes(**axis, **panel)
        title = line.symbol if line.symbol == line.name else f"{line.symbol} · {line.label}"
        figure.update_xaxes(title=title, row=rows, col=column)
    return apply_layout(figure, height=SLICE_ROW_PX * rows + SLICES_MARGIN_PX)


def _add_settings(
    figure: Figure, grid: Slices, line: Slice, x: Sequence[Any], metric: str, panel: dict[str, int], dark: bool
) -> None:
    style, means, title = method_style(grid.method), line.means[metric], f"{grid.titles[metric]}@{grid.k}"
    colour = style.colour(dark)
    hover = [f"{escape(name, 90)}<br>{title} {mean:.4f}" for name, mean in zip(line.names, means, strict=True)]
    # Settings off the slice are drawn first, below its line.
    for on_slice, marker in ((False, {"size": 6, "color": GREY[dark]}), (True, {"size": 8})):
        is_drawn = [is_on == on_slice for is_on in line.is_on_slice]
        if any(is_drawn):
            figure.add_scatter(
                x=list(compress(x, is_drawn)),
                y=list(compress(means, is_drawn)),
                mode="lines+markers" if on_slice else "markers",
                line={"color": colour, "width": 2},
                marker={"symbol": style.symbol} | marker,
                customdata=list(compress(line.keys, is_drawn)),
                hovertext=list(compress(hover, is_drawn)),
                hovertemplate=TOOLTIP,
                **panel,
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
            **panel,
        )


def _category_axis(texts: Iterable[str]) -> dict[str, Any]:
    """Return an axis of texts in this order."""
    return {"type": "category", "categoryorder": "array", "categoryarray": list(texts)}
