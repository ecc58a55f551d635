"""A metric over two parameters as a heat map."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.charts.figure import TOOLTIP, apply_layout, escape, new_figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.heat_map import HeatMap

OUTLINES = (("#000000", 5), ("#FFFFFF", 2.5))
"""The chosen cell's frame, one upon the other: one of the two stands out from any colour of the scale."""
TARGET = 34
"""Pixels of the invisible mark in a cell that takes a click: plotly selects no cell of a heat map itself."""
MOST_LABELLED = 200
"""A table of more cells shows its numbers to the mouse only."""


def heat_map_figure(table: HeatMap, dark: bool, chosen: str | None = None, clickable: bool = False) -> Figure:
    """A metric over two parameters, its value in every cell.

    chosen: the key of the outlined cell; clickable: cells answer a click with their key.
    """
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
    figure.update_xaxes(title=table.columns.symbol, type="category", categoryorder="array", categoryarray=columns)
    figure.update_yaxes(title=table.rows.symbol, type="category", categoryorder="array", categoryarray=rows)
    return apply_layout(figure)
