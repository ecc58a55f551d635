"""A training run epoch by epoch: how dev is answered, what it is compared with, and what happens in the batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.charts.palette import DASHES, PALETTE, escaped, faint, plain

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.views.training import Band, Curves

HEIGHT, OPACITY = 480, 0.15
FEW = 8
OWN = PALETTE[1]
LINES = (PALETTE[0], PALETTE[4], PALETTE[3], PALETTE[5])
SHARES = (PALETTE[2], PALETTE[3], PALETTE[5])


def training_figure(name: str, found: Curves, dark: bool) -> Figure:
    """name: of the stage. Above the metrics on dev with what they are compared with; below loss, shares and support."""
    from plotly.subplots import make_subplots

    below = [
        *([("loss", "loss")] if found.loss else []),
        *([("shares", "shares of the training batches")] if found.shares else []),
    ]
    below += [("support", "documents with a weight, a query")] if found.support else []
    width = len(found.bands)
    titles = [*(f"{band.title} on dev" for band in found.bands), *(title for _, title in below)]
    figure = make_subplots(
        rows=2 if below else 1,
        cols=width,
        subplot_titles=[escaped(title) for title in titles],
        horizontal_spacing=0.07,
        vertical_spacing=0.17,
    )
    figure.update_annotations(font_size=13)
    for column, band in enumerate(found.bands, 1):
        _band(figure, name, found, band, column, dark)
    for column, (what, _) in enumerate(below, 1):
        at = {"row": 2, "col": column}
        if what == "loss":
            _line(figure, found, found.loss, "loss", OWN.colour(dark), OWN.symbol, False, at)
        elif what == "support":
            _line(figure, found, found.support, "documents", OWN.colour(dark), OWN.symbol, False, at)
        else:
            for style, (title, values) in zip(SHARES, found.shares.items(), strict=False):
                _line(figure, found, values, title, style.colour(dark), style.symbol, True, at)
            figure.update_yaxes(range=[-0.03, 1.03], tickformat=".0%", **at)
    # Plotly would put ticks between few epochs.
    figure.update_xaxes(nticks=6, dtick=1 if len(found.epochs) <= FEW else None, zeroline=False)
    for column in range(1, max(width, len(below)) + 1):
        figure.update_xaxes(title="epoch", title_standoff=4, row=2 if below else 1, col=column)
    return plain(figure).update_layout(
        height=HEIGHT if below else HEIGHT // 2 + 40,
        showlegend=True,
        legend={"orientation": "h", "y": -0.14, "x": 0},
        margin={"l": 10, "r": 10, "t": 44, "b": 10},
    )


def _band(figure: Figure, name: str, found: Curves, band: Band, column: int, dark: bool) -> None:
    at = {"row": 1, "col": column}
    colour = OWN.colour(dark)
    epochs = list(found.epochs)
    figure.add_scatter(
        x=[*epochs, *reversed(epochs)],
        y=[*band.high, *reversed(band.low)],
        mode="lines",
        fill="toself",
        fillcolor=faint(colour, OPACITY),
        line={"width": 0},
        hoverinfo="skip",
        name="± 1 standard error",
        legendgroup="band",
        showlegend=column == 1,
        **at,
    )
    for i, (called, value) in enumerate(band.lines.items()):
        figure.add_scatter(
            x=[min(epochs), max(*epochs, 0)],
            y=[value, value],
            mode="lines",
            line={"color": LINES[i % len(LINES)].colour(dark), "width": 2, "dash": DASHES[1 + i % (len(DASHES) - 1)]},
            name=escaped(called),
            legendgroup=called,
            showlegend=column == 1,
            hovertemplate="%{y:.4f}<extra>" + escaped(called) + "</extra>",
            **at,
        )
    figure.add_scatter(
        x=epochs,
        y=list(band.values),
        mode="lines+markers",
        line={"color": colour, "width": 2},
        marker={"symbol": OWN.symbol, "size": 6},
        name=escaped(name),
        legendgroup=name,
        showlegend=column == 1,
        customdata=[str(epoch) for epoch in epochs],
        hovertemplate="epoch %{x}: %{y:.4f}<extra>" + escaped(name) + "</extra>",
        **at,
    )
    figure.add_scatter(
        x=[found.best],
        y=[band.best],
        mode="markers",
        marker={"symbol": "circle-open", "size": 15, "color": colour, "line": {"width": 2}},
        name="best epoch",
        legendgroup="best",
        showlegend=column == 1,
        hovertemplate="best, epoch %{x}: %{y:.4f}<extra></extra>",
        **at,
    )
    figure.update_yaxes(nticks=6, **at)


def _line(
    figure: Figure,
    found: Curves,
    values: tuple[float | None, ...],
    title: str,
    colour: str,
    symbol: str,
    named: bool,
    at: dict[str, int],
) -> None:
    """A column by epoch; those before the first have none."""
    figure.add_scatter(
        x=list(found.epochs),
        y=list(values),
        mode="lines+markers",
        line={"color": colour, "width": 2},
        marker={"symbol": symbol, "size": 6},
        name=escaped(title, 60),
        showlegend=named,
        hovertemplate="epoch %{x}: %{y:.4g}<extra>" + escaped(title, 60) + "</extra>",
        **at,
    )
