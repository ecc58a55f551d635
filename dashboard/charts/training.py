"""A training run by epoch: metrics on dev, the loss and the shares of its batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dashboard.charts.figure import (
    apply_layout,
    band_outline,
    build_tooltip,
    error_bars,
    escape,
    group_axis,
    legend_below,
    new_figure,
    new_grid,
)
from dashboard.charts.palette import DASHES, GREY, INK, SERIES, Style, translucent
from engine.wording import decimal, signed

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evidence.rules import Effect
    from engine.views.training import Band, Curves

TRAINING_PX, BAND_OPACITY = 480, 0.15
GAIN_ROW_PX, GAIN_MARGIN_PX = 40, 70
"""Height of a data set in a figure of gains, and of what is around all of them."""
MAX_TICKED_EPOCHS = 8
"""Up to this many epochs each has a tick, as plotly would add ticks between few."""
RUN_STYLE, *REFERENCE_STYLES = SERIES
SHARE_STYLES = SERIES[1:4]


def plot_training(stage_name: str, curves: Curves, is_dark: bool) -> Figure:
    """Plot a training over its epochs: metrics on validation queries above, loss and shares below.

    stage_name: of what is trained, such as an encoder
    """
    quantities: dict[str, tuple[Mapping[str, Sequence[float | None]], Sequence[Style]]] = {
        "loss": ({"loss": curves.loss}, [RUN_STYLE]),
        "shares of the training batches": (curves.shares, SHARE_STYLES),
        "documents with a weight, a query": ({"documents": curves.support}, [RUN_STYLE]),
    }
    # Quantities that this training does not have get no panel.
    lower_panels = {title: (lines, styles) for title, (lines, styles) in quantities.items() if any(lines.values())}
    n_bands = len(curves.bands)
    titles = [*(f"{band.title} on dev" for band in curves.bands), *lower_panels]
    layout = {"subplot_titles": list(map(escape, titles)), "horizontal_spacing": 0.07, "vertical_spacing": 0.17}
    figure = new_grid(2 if lower_panels else 1, n_bands, **layout)
    # Titles of subplots are annotations.
    figure.update_annotations(font_size=13)
    for column, band in enumerate(curves.bands, 1):
        _add_metric(figure, stage_name, curves, band, column, is_dark)
    for column, (lines, styles) in enumerate(lower_panels.values(), 1):
        for line_style, (title, values) in zip(styles, lines.items(), strict=False):
            figure.add_scatter(
                x=list(curves.epochs),
                y=list(values),
                **line_style.curve(is_dark, 6),
                name=escape(title, 60),
                # Only the panel of shares has several lines to tell apart.
                showlegend=lines is curves.shares,
                hovertemplate="epoch %{x}: %{y:.4g}<extra>" + escape(title, 60) + "</extra>",
                row=2,
                col=column,
            )
        if lines is curves.shares:
            figure.update_yaxes(range=[-0.03, 1.03], tickformat=".0%", row=2, col=column)
    figure.update_xaxes(nticks=6, dtick=1 if len(curves.epochs) <= MAX_TICKED_EPOCHS else None, zeroline=False)
    for column in range(1, max(n_bands, len(lower_panels)) + 1):
        figure.update_xaxes(title="epoch", title_standoff=4, row=2 if lower_panels else 1, col=column)
    height = TRAINING_PX if lower_panels else TRAINING_PX // 2 + 40
    return apply_layout(figure, **legend_below(-0.14), height=height, margin={"l": 10, "r": 10, "t": 44, "b": 10})


def _add_metric(figure: Figure, stage_name: str, curves: Curves, metric_band: Band, column: int, is_dark: bool) -> None:
    """Add a metric on the validation queries: its error band, reference lines, curve, and best epoch.

    stage_name: of what is trained; metric_band: the metric by epoch, with other systems' values as lines;
    column: of the panel
    """
    subplot = {"row": 1, "col": column, "showlegend": column == 1}
    colour, epochs = RUN_STYLE.colour(is_dark), list(curves.epochs)
    figure.add_scatter(
        **band_outline(epochs, metric_band.low, metric_band.high),
        mode="lines",
        fillcolor=translucent(colour, BAND_OPACITY),
        line={"width": 0},
        name="± 1 standard error",
        legendgroup="band",
        **subplot,
    )
    for position, (reference, value) in enumerate(metric_band.lines.items()):
        line_style, dash = REFERENCE_STYLES[position % len(REFERENCE_STYLES)], DASHES[1 + position % (len(DASHES) - 1)]
        figure.add_scatter(
            # Before the first step there is epoch −1 alone: the line then reaches to 0.
            x=[min(epochs), max(*epochs, 0)],
            y=[value, value],
            **line_style.line(is_dark, dash),
            name=escape(reference),
            legendgroup=reference,
            hovertemplate="%{y:.4f}<extra>" + escape(reference) + "</extra>",
            **subplot,
        )
    figure.add_scatter(
        x=epochs,
        y=list(metric_band.values),
        **RUN_STYLE.curve(is_dark, 6),
        name=escape(stage_name),
        legendgroup=stage_name,
        customdata=[str(epoch) for epoch in epochs],
        hovertemplate="epoch %{x}: %{y:.4f}<extra>" + escape(stage_name) + "</extra>",
        **subplot,
    )
    figure.add_scatter(
        x=[curves.best],
        y=[metric_band.best],
        mode="markers",
        marker={"symbol": "circle-open", "size": 15, "color": colour, "line": {"width": 2}},
        name="best epoch",
        legendgroup="best",
        hovertemplate="best, epoch %{x}: %{y:.4f}<extra></extra>",
        **subplot,
    )
    figure.update_yaxes(nticks=6, row=1, col=column)


def plot_gains(effects: Sequence[Effect], is_dark: bool) -> Figure:
    """Plot what a training gained on some data sets, each with its 95% interval, and its name at the left.

    A name has the gain beside it, and says where it is not certain that there is any. effects: all of one
    unit, named as "data set: unit, …"
    """
    figure, colour, ink = new_figure(), SERIES[0].colour(is_dark), INK.colour(is_dark)
    labels = []
    for row, effect in enumerate(effects):
        low, high = (effect.value if end is None else end for end in (effect.low, effect.high))
        # Where queries are compared the sign allows for the number of data sets, and the interval does not.
        is_certain = bool(effect.sign)
        data_set = effect.name.partition(": ")[0]
        certainty = "" if is_certain else " (not certain)"
        # Two lines, as a phone has room for little more than the interval.
        labels.append(f"{escape(data_set)}:<br><b>{signed(effect.value, 1)}</b>{certainty}")
        look = {"color": colour if is_certain else ink, "symbol": "circle" if is_certain else "circle-open"}
        figure.add_scatter(
            x=[effect.value],
            y=[row],
            mode="markers",
            marker=look | {"size": 10, "line": {"width": 2, "color": look["color"]}},
            error_x=error_bars([effect.value], [low], [high]) | {"thickness": 2.5, "color": look["color"]},
            **build_tooltip(
                f"{escape(data_set)}: {signed(effect.value, 1)}<br>95% CI {decimal(low)} to {decimal(high)}"
            ),
        )
    unit = effects[0].name.partition(": ")[2].partition(",")[0]
    figure.add_vline(x=0, line={"color": GREY[is_dark], "width": 1})
    figure.update_xaxes(title=escape(unit), zeroline=False)
    figure.update_yaxes(**group_axis(labels) | {"range": [len(effects) - 0.5, -0.5]}, showgrid=False, zeroline=False)
    height = GAIN_ROW_PX * len(effects) + GAIN_MARGIN_PX
    return apply_layout(figure, height=height, margin={"l": 10, "r": 14, "t": 10, "b": 10})
