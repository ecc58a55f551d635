"""A metric over two parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.charts.palette import plain

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.heat_map import HeatMap


def heat_map_figure(found: HeatMap, dark: bool) -> Figure:
    """A metric over two parameters, its value in every cell."""
    from plotly.graph_objects import Figure

    rows, columns = ([f"{v:g}" for v in axis.values] for axis in (found.rows, found.columns))
    figure = Figure()
    figure.add_heatmap(
        z=found.values,
        x=columns,
        y=rows,
        colorscale="Cividis",
        texttemplate="%{z:.3f}",
        hovertemplate=f"{found.rows.symbol} %{{y}}, {found.columns.symbol} %{{x}}<br>%{{z:.4f}}<extra></extra>",
        colorbar={"title": f"{found.title}@{found.k}"},
    )
    figure.update_xaxes(title=found.columns.symbol, type="category")
    figure.update_yaxes(title=found.rows.symbol, type="category")
    return plain(figure)
