"""A metric over the parameters of a selector: a heat map of two, and slices along each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

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
        texttemplate="%{z:.3f}" if len(cells) <= MAX_LABELLED_CELLS else None,
        hovertemplate=None if clickable else hover,
        hoverinfo="skip" if clickable else None,
        colorbar={"title": title},
    )
    if clickable:
        figure.add_scatter(
            x=[columns[j] for _, j in cells],
            y=[rows[i] for i, _ in cells],
            mode="markers",
            marker={"symbol": "square", "size": CLICK_TARGET_PX, "opacity": 0},
            customdata=[table.keys[cell] for cell in cells],
            hovertext=[
                f"{table.rows.symbol} {rows[i]}, {table.columns.symbol} {columns[j]}<br>{title} "
                f"{table.values[i, j]:.4f} over {table.queries[i, j]:,} queries"
                for i, j in cells
            ],
            hovertemplate=TOOLTIP,
        )
    for i, j in cells:
        if table.keys[i, j] == chosen_key:
            for colour, width in CELL_OUTLINES:
                corners = {"x0": j - 0.5, "x1": j + 0.5, "y0": i - 0.5, "y1": i + 0.5}
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
    for on_line in (False, True):
        positions = [i for i, is_on in enumerate(line.is_on_slice) if is_on is on_line]
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
