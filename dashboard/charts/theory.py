"""Theory: a query among documents in a plane, margins by length, errors over the dimension, margins of segments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dashboard.charts.palette import GREY, PALETTE, Style, escaped, plain, style_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.theory.dimensions import LengthDimension
    from engine.theory.projections import PairErrors
    from engine.theory.relevant import RelevantMargins
    from engine.theory.segmented import Segments
    from engine.views.theory import Turned

INK, REST = PALETTE[0], PALETTE[1:]
SPREAD, FLOOR = 0.5, 1e-4
"""The share of a bin's width that its bars take; the lowest error that is drawn."""
BELOW = {"showlegend": True, "legend": {"orientation": "h", "y": -0.2, "x": 0}}


def plane_figure(found: Turned, dark: bool) -> Figure:
    """Documents and the query as arrows from the origin; those with a weight in colour."""
    from plotly.graph_objects import Figure

    from engine.views.theory import weighing

    figure, grey, ink = Figure(), GREY[dark], INK.colour(dark)
    colour = style_of(weighing()).colour(dark)
    # The first document lies along the second: it is drawn over it, its name below.
    for row, (x, y) in reversed(list(enumerate(found.points))):
        inside = row in found.support
        figure.add_scatter(
            x=[0, x],
            y=[0, y],
            mode="lines+markers",
            line={"color": colour if inside else grey, "width": 5 if inside else 2},
            marker={
                "symbol": "circle",
                "size": [1, 12],
                "color": colour if inside else grey,
                "line": {"color": ink, "width": 1},
            },
            hovertext=[f"document {row + 1}: score {found.scores[row]:.3f}, weight {found.weights[row]:.3f}"] * 2,
            hovertemplate="%{hovertext}<extra></extra>",
        )
        figure.add_annotation(
            x=x,
            y=y,
            text=f"document {row + 1}",
            showarrow=False,
            yshift=16 if row else -16,
            font={"color": ink, "size": 12},
        )
    x, y = found.query
    figure.add_scatter(
        x=[0, x],
        y=[0, y],
        mode="lines+markers",
        line={"color": ink, "width": 2, "dash": "dash"},
        marker={"symbol": "diamond", "size": [1, 11], "color": ink},
        hovertext=[f"v at {found.angle:g}°"] * 2,
        hovertemplate="%{hovertext}<extra></extra>",
    )
    figure.add_annotation(x=x, y=y, text="v", showarrow=False, xshift=14, yshift=8, font={"color": ink, "size": 14})
    figure.update_xaxes(range=[-0.12, 1.25], zeroline=True, title="along document 2")
    figure.update_yaxes(range=[-0.2, 1.2], zeroline=True, scaleanchor="x", title="along document 3")
    return plain(figure).update_layout(height=360)


def margins_figure(found: Mapping[str, Sequence[RelevantMargins]], dark: bool) -> Figure:
    """For each kind of vectors and each bin of lengths a median dot, a thick middle half and thin 5 to 95 %."""
    from plotly.graph_objects import Figure

    figure, kinds = Figure(), list(found)
    for at, (kind, rows) in enumerate(found.items()):
        style: Style = REST[at % len(REST)]
        colour = style.colour(dark)
        there = [(place + SPREAD * ((at + 0.5) / len(kinds) - 0.5), r) for place, r in enumerate(rows) if len(r.values)]
        for width, ends in ((1.5, ("low", "high")), (6, ("lower", "upper"))):
            x = [c for place, _ in there for c in (place, place, None)]
            y = [c for _, r in there for c in (getattr(r, ends[0]), getattr(r, ends[1]), None)]
            figure.add_scatter(
                x=x, y=y, mode="lines", line={"color": colour, "width": width}, showlegend=False, hoverinfo="skip"
            )
        figure.add_scatter(
            x=[place for place, _ in there],
            y=[r.median for _, r in there],
            mode="markers",
            name=kind,
            marker={
                "symbol": style.symbol,
                "size": 10,
                "color": colour,
                "line": {"color": INK.colour(dark), "width": 1},
            },
            hovertext=[
                f"{kind}, {r.least:,} to {r.most:,} words<br>{len(r.values):,} relevant documents, {r.first:.0%} above "
                f"0<br>median {r.median:.3f}"
                for _, r in there
            ],
            hovertemplate="%{hovertext}<extra></extra>",
        )
    first = next(iter(found.values()))
    figure.add_hline(y=0, line={"color": INK.colour(dark), "width": 1, "dash": "dot"})
    figure.update_xaxes(
        title="words of the relevant document",
        tickvals=list(range(len(first))),
        ticktext=[f"{r.least:,} to {r.most:,}" for r in first],
        range=[-0.5, len(first) - 0.5],
    )
    figure.update_yaxes(title="smallest margin over the rest")
    return plain(figure).update_layout(BELOW)


def dimension_figure(found: PairErrors, error: float, dark: bool) -> Figure:
    """Measured pair error over k for each bin of margins, its bound dashed, and β as a line."""
    from plotly.graph_objects import Figure

    figure = Figure()
    for at, own in enumerate(found.bins):
        style = REST[at % len(REST)]
        colour = style.colour(dark)
        cells = [c for c in found.cells if c.bin == at]
        name = f"ε {own.least:.2f} to {own.most:.2f}"
        seen = [c for c in cells if c.error > 0]
        figure.add_scatter(
            x=[c.k for c in seen],
            y=[c.error for c in seen],
            mode="lines+markers",
            name=name,
            line={"color": colour, "width": 2},
            marker={"symbol": style.symbol, "size": 8},
            error_y={
                "symmetric": False,
                "array": [c.high - c.error for c in seen],
                "arrayminus": [c.error - c.low for c in seen],
                "thickness": 1,
                "width": 0,
            },
            hovertext=[
                f"{name}, {own.pairs:,} pairs<br>k = {c.k:,}: {c.error:.2%} turned round, bound "
                f"{'of no use' if c.bound >= 1 else f'{c.bound:.2%}'}"
                for c in seen
            ],
            hovertemplate="%{hovertext}<extra></extra>",
        )
        figure.add_scatter(
            x=[c.k for c in cells],
            y=[c.bound for c in cells],
            mode="lines",
            name=f"bound, {name}",
            showlegend=False,
            line={"color": colour, "width": 2, "dash": "dash"},
            hoverinfo="skip",
        )
    ink = INK.colour(dark)
    figure.add_hline(y=error, line={"color": ink, "width": 1, "dash": "dot"})
    # An annotation on a logarithmic axis is placed by the logarithm.
    place = {"x": 1, "xref": "paper", "y": math.log10(error), "xanchor": "right", "yshift": 9, "showarrow": False}
    figure.add_annotation(**place, text=f"β = {error:g}", font={"color": ink})
    ks = sorted({c.k for c in found.cells})
    figure.update_xaxes(type="log", title="dimension k", tickvals=ks, ticktext=[f"{k:,}" for k in ks])
    figure.update_yaxes(
        type="log",
        title="share of pairs turned round",
        range=[-4, 0.7],
        tickvals=[1e-4, 1e-3, 1e-2, 0.1, 1],
        ticktext=["0.01 %", "0.1 %", "1 %", "10 %", "100 %"],
    )
    return plain(figure).update_layout(BELOW)


def recall_figure(
    rows: Sequence[LengthDimension], smallest: Sequence[int | None], tried: Sequence[int], target: float, dark: bool
) -> Figure:
    """The smallest dimension over the length of the documents; open, above all that were tried, where none is enough.

    smallest: of each row, None for none; tried: the dimensions, rising.
    """
    from plotly.graph_objects import Figure

    figure, style = Figure(), REST[0]
    there = [(at, row, k) for at, (row, k) in enumerate(zip(rows, smallest, strict=True)) if row.queries]
    figure.add_scatter(
        x=[at for at, _, _ in there],
        y=[2 * tried[-1] if k is None else k for _, _, k in there],
        mode="lines+markers",
        line={"color": style.colour(dark), "width": 2},
        marker={
            "symbol": [f"{style.symbol}-open" if k is None else style.symbol for _, _, k in there],
            "size": 11,
            "color": style.colour(dark),
            "line": {"width": 2, "color": style.colour(dark)},
        },
        hovertext=[
            f"{row.least:,} to {row.most:,} words, {row.queries:,} queries<br>"
            + (f"k = {k:,}" if k is not None else f"k > {tried[-1]:,}")
            + f" keeps {target:.0%}"
            for _, row, k in there
        ],
        hovertemplate="%{hovertext}<extra></extra>",
    )
    figure.update_xaxes(
        title="words of the documents",
        tickvals=list(range(len(rows))),
        ticktext=[f"{row.least:,} to {row.most:,}" for row in rows],
        range=[-0.5, len(rows) - 0.5],
    )
    figure.update_yaxes(
        type="log",
        title="smallest dimension k",
        tickvals=list(tried),
        ticktext=[f"{k:,}" for k in tried],
        range=[math.log10(tried[0] / 1.5), math.log10(tried[-1] * 2.7)],
    )
    return plain(figure)


def segments_figure(found: Segments, names: Sequence[str], dark: bool) -> Figure:
    """Margins of segments and of passages over the documents' own; above the diagonal they gain."""
    from plotly.graph_objects import Figure

    figure, ink = Figure(), INK.colour(dark)
    columns = [found.documents.tolist(), found.segments.tolist(), found.passages.tolist()]
    numbers = [value for column in columns for value in column if value == value]
    ends = [min(0.0, *numbers), max(numbers)] if len(numbers) > 1 else [0.0, 1.0]
    figure.add_scatter(
        x=ends, y=ends, mode="lines", line={"color": ink, "width": 1, "dash": "dot"}, name="as much", hoverinfo="skip"
    )
    for at, (name, values) in enumerate((("segments", columns[1]), ("passages, nothing proved", columns[2]))):
        style = REST[at]
        sure = [at == 0 and promised for promised in found.promised.tolist()]
        figure.add_scatter(
            x=columns[0],
            y=values,
            mode="markers",
            name=name,
            marker={
                "symbol": [style.symbol if s else f"{style.symbol}-open" for s in sure],
                "size": 10,
                "color": style.colour(dark),
                "line": {"width": 2, "color": style.colour(dark)},
            },
            hovertext=[escaped(text) for text in names],
            hovertemplate="%{hovertext}<br>documents %{x:.3f}, " + name + " %{y:.3f}<extra></extra>",
        )
    figure.update_xaxes(title="margin of the documents")
    figure.update_yaxes(title="margin of the segments")
    return plain(figure).update_layout(BELOW)
