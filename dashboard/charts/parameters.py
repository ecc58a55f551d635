"""A metric over the parameters of a selector: a heat map of two, and slices along each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress, product
from typing import TYPE_CHECKING, Any

import numpy as np

from dashboard.charts.figure import apply_layout, build_tooltip, escape, guide, new_figure, new_grid
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


def plot_heat_map(table: HeatMap, is_dark: bool, chosen_key: str | None = None, clickable: bool = False) -> Figure:
    """Plot a metric over two parameters of a selector as a heat map, a cell for each combination.

    chosen_key: key of the cell to outline; clickable: a click on a cell returns its key.
    """
    row_texts, column_texts = list(map(escape, table.rows.texts)), list(map(escape, table.columns.texts))
    axis_title = f"{table.title}@{table.k}"
    x, y, keys, hover_texts = [], [], [], []
    for cell_index in product(range(len(row_texts)), range(len(column_texts))):
        # Combinations that were not measured have no key.
        if table.keys[cell_index]:
            row_index, column = cell_index
            x.append(column_texts[column])
            y.append(row_texts[row_index])
            keys.append(table.keys[cell_index])
            setting = f"{table.rows.symbol} {row_texts[row_index]}, {table.columns.symbol} {column_texts[column]}"
            mean_text = f"{table.values[cell_index]:.4f} over {table.queries[cell_index]:,} queries"
            hover_texts.append(f"{setting}<br>{axis_title} {mean_text}")
    hover = f"{table.rows.symbol} %{{y}}, {table.columns.symbol} %{{x}}<br>%{{z:.4f}}<extra></extra>"
    figure = new_figure()
    figure.add_heatmap(
        z=table.values,
        x=column_texts,
        y=row_texts,
        colorscale="Cividis",
        xgap=1,
        ygap=1,
        texttemplate="%{z:.3f}" if len(keys) <= MAX_LABELLED_CELLS else None,
        hovertemplate=None if clickable else hover,
        hoverinfo="skip" if clickable else None,
        colorbar={"title": axis_title},
    )
    if clickable:
        marker = {"symbol": "square", "size": CLICK_TARGET_PX, "opacity": 0}
        figure.add_scatter(x=x, y=y, mode="markers", marker=marker, customdata=keys, **build_tooltip(hover_texts))
    if chosen_key:
        # On an axis of categories a cell is 1 wide, around its whole number.
        for row_index, column in np.argwhere(table.keys == chosen_key).tolist():
            for colour, width in CELL_OUTLINES:
                corners = {"x0": column - 0.5, "x1": column + 0.5, "y0": row_index - 0.5, "y1": row_index + 0.5}
                figure.add_shape(type="rect", **corners, line={"color": colour, "width": width})
    figure.update_xaxes(title=table.columns.symbol, **_category_axis(column_texts))
    figure.update_yaxes(title=table.rows.symbol, **_category_axis(row_texts))
    return apply_layout(figure)


def plot_slices(grid: Slices, is_dark: bool) -> Figure:
    """Plot metrics over a selector's parameters as a grid, a row per metric and a column per parameter.

    Every measured setting is a point. Settings that differ from the chosen one in the column's parameter
    alone (a slice) are joined; the chosen setting is on a dashed line, the baseline dotted.
    """
    n_rows, n_columns = len(grid.titles), max(1, len(grid.slices))
    gaps = {"horizontal_spacing": 0.08 / n_columns, "vertical_spacing": 0.06}
    figure = new_grid(n_rows, n_columns, shared_xaxes=True, shared_yaxes=True, **gaps)
    ink_colour = INK.colour(is_dark)
    for column_index, line in enumerate(grid.slices, 1):
        all_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in line.values)
        # A logarithmic axis has no place for 0 or less: such values become categories, as words do.
        is_numeric = all_numbers and not (line.is_log and min(line.values, default=1) <= 0)
        x = line.values if is_numeric else line.texts
        axis = {"type": "log" if line.is_log else "linear"} if is_numeric else _category_axis(dict.fromkeys(line.texts))
        for row_index, (metric, axis_title) in enumerate(grid.titles.items(), 1):
            subplot = {"row": row_index, "col": column_index}
            _add_settings(figure, grid, line, x, metric, subplot, is_dark)
            baseline = grid.base[metric]
            # NaN differs from itself: a baseline without this metric has no line.
            if baseline == baseline:
                figure.add_hline(y=baseline, line=guide(ink_colour), **subplot)
            if line.chosen is not None:
                figure.add_vline(x=x[line.chosen], line=guide(ink_colour, "dash"), **subplot)
            if column_index == 1:
                figure.update_yaxes(title=f"{axis_title}@{grid.k}", **subplot)
            figure.update_xaxes(**axis, **subplot)
        axis_title = line.symbol if line.symbol == line.name else f"{line.symbol} · {line.label}"
        figure.update_xaxes(title=axis_title, row=n_rows, col=column_index)
    return apply_layout(figure, height=SLICE_ROW_PX * n_rows + SLICES_MARGIN_PX)


def _add_settings(
    figure: Figure, grid: Slices, line: Slice, x: Sequence[Any], metric: str, subplot: dict[str, int], is_dark: bool
) -> None:
    """Add all settings to one panel of a grid of charts: one metric over one parameter.

    line: the settings, each marked if it differs from the chosen one in this parameter alone; x: their positions on
    the axis
    """
    style, means, axis_title = method_style(grid.method), line.means[metric], f"{grid.titles[metric]}@{grid.k}"
    colour = style.colour(is_dark)
    hover = [f"{escape(name, 90)}<br>{axis_title} {mean:.4f}" for name, mean in zip(line.names, means, strict=True)]
    # Settings off the slice are drawn first, below its line.
    for on_slice, marker in ((False, {"size": 6, "color": GREY[is_dark]}), (True, {"size": 8})):
        is_drawn = [is_on == on_slice for is_on in line.is_on_slice]
        if any(is_drawn):
            figure.add_scatter(
                x=list(compress(x, is_drawn)),
                y=list(compress(means, is_drawn)),
                mode="lines+markers" if on_slice else "markers",
                line={"color": colour, "width": 2},
                marker={"symbol": style.symbol} | marker,
                customdata=list(compress(line.keys, is_drawn)),
                **build_tooltip(list(compress(hover, is_drawn))),
                **subplot,
            )
    if line.chosen is not None:
        figure.add_scatter(
            x=[x[line.chosen]],
            y=[means[line.chosen]],
            mode="markers",
            marker={"symbol": f"{style.symbol}-open", "size": 16, "color": INK.colour(is_dark), "line": {"width": 2}},
            customdata=[line.keys[line.chosen]],
            **build_tooltip([f"{hover[line.chosen]}<br>chosen"]),
            **subplot,
        )


def _category_axis(texts: Iterable[str]) -> dict[str, Any]:
    """Return the plotly settings of an axis with these texts in this order."""
    return {"type": "category", "categoryorder": "array", "categoryarray": list(texts)}
