"""A training run by epoch: metrics on dev, the loss and the shares of its batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dashboard.charts.figure import apply_layout, escape, legend_below, new_grid, outline
from dashboard.charts.palette import DASHES, SERIES, Style, translucent

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.views.training import Band, Curves

HEIGHT, OPACITY = 480, 0.15
FEW = 8
"""Epochs up to which each has its tick: plotly would put ticks between few."""
RUN, *REFERENCES = SERIES
SHARES = SERIES[1:4]


def training_figure(name: str, curves: Curves, dark: bool) -> Figure:
    """Above, the metrics on dev with their references; below, loss, shares and support. name: of the stage."""
    quantities: dict[str, tuple[Mapping[str, Sequence[float | None]], Sequence[Style]]] = {
        "loss": ({"loss": curves.loss}, [RUN]),
        "shares of the training batches": (curves.shares, SHARES),
        "documents with a weight, a query": ({"documents": curves.support}, [RUN]),
    }
    below = {title: (lines, styles) for title, (lines, styles) in quantities.items() if any(lines.values())}
    width = len(curves.bands)
    figure = new_grid(
        2 if below else 1,
        width,
        subplot_titles=[escape(title) for title in (*(f"{band.title} on dev" for band in curves.bands), *below)],
        horizontal_spacing=0.07,
        vertical_spacing=0.17,
    )
    figure.update_annotations(font_size=13)
    for column, band in enumerate(curves.bands, 1):
        _add_metric(figure, name, curves, band, column, dark)
    for column, (lines, styles) in enumerate(below.values(), 1):
        for style, (title, values) in zip(styles, lines.items(), strict=False):
            figure.add_scatter(
                x=list(curves.epochs),
                y=list(values),
                **style.curve(dark, 6),
                name=escape(title, 60),
                showlegend=lines is curves.shares,
                hovertemplate="epoch %{x}: %{y:.4g}<extra>" + escape(title, 60) + "</extra>",
                row=2,
                col=column,
            )
        if lines is curves.shares:
            figure.update_yaxes(range=[-0.03, 1.03], tickformat=".0%", row=2, col=column)
    figure.update_xaxes(nticks=6, dtick=1 if len(curves.epochs) <= FEW else None, zeroline=False)
    for column in range(1, max(width, len(below)) + 1):
        figure.update_xaxes(title="epoch", title_standoff=4, row=2 if below else 1, col=column)
    return apply_layout(
        figure,
        **legend_below(-0.14),
        height=HEIGHT if below else HEIGHT // 2 + 40,
        margin={"l": 10, "r": 10, "t": 44, "b": 10},
    )


def _add_metric(figure: Figure, name: str, curves: Curves, band: Band, column: int, dark: bool) -> None:
    """One metric on dev: its band, the references across, the run, and its best epoch."""
    common = {"row": 1, "col": column, "showlegend": column == 1}
    colour, epochs = RUN.colour(dark), list(curves.epochs)
    figure.add_scatter(
        **outline(epochs, band.low, band.high),
        mode="lines",
        fillcolor=translucent(colour, OPACITY),
        line={"width": 0},
        name="± 1 standard error",
        legendgroup="band",
        **common,
    )
    for i, (reference, value) in enumerate(band.lines.items()):
        style, dash = REFERENCES[i % len(REFERENCES)], DASHES[1 + i % (len(DASHES) - 1)]
        figure.add_scatter(
            x=[min(epochs), max(*epochs, 0)],
            y=[value, value],
            **style.line(dark, dash),
            name=escape(reference),
            legendgroup=reference,
            hovertemplate="%{y:.4f}<extra>" + escape(reference) + "</extra>",
            **common,
        )
    figure.add_scatter(
        x=epochs,
        y=list(band.values),
        **RUN.curve(dark, 6),
        name=escape(name),
        legendgroup=name,
        customdata=[str(epoch) for epoch in epochs],
        hovertemplate="epoch %{x}: %{y:.4f}<extra>" + escape(name) + "</extra>",
        **common,
    )
    figure.add_scatter(
        x=[curves.best],
        y=[band.best],
        mode="markers",
        marker={"symbol": "circle-open", "size": 15, "color": colour, "line": {"width": 2}},
        name="best epoch",
        legendgroup="best",
        hovertemplate="best, epoch %{x}: %{y:.4f}<extra></extra>",
        **common,
    )
    figure.update_yaxes(nticks=6, row=1, col=column)
