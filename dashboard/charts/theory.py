"""Theory: a query in a plane, margins by length, errors over the dimension, margins of segments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dashboard.charts.figure import (
    TOOLTIP,
    apply_layout,
    build_tooltip,
    dodge_offset,
    error_bars,
    escape,
    group_axis,
    guide,
    join_segments,
    legend_below,
    new_figure,
    read_column,
)
from dashboard.charts.palette import GREY, INK, method_style, series_style
from engine.progress import counted

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.theory.margins import RelevantMargins
    from engine.theory.measured_dimensions import LengthDimension
    from engine.theory.random_projections import PairErrors
    from engine.theory.segments import Segments
    from engine.views.theory import Turned

BIN_SPREAD = 0.5
"""Share of a bin's width over which its series are spread."""
THEORY_LEGEND = legend_below(-0.2)


def plot_plane(plane: Turned, is_dark: bool) -> Figure:
    """Plot three documents and a query as arrows in a plane; documents that get a weight are coloured.

    It is the example for Proposition 1 of the NNN paper, whose selector gives documents weights: at some angles of the
    query v, no ranking by score finds the documents with a weight.
    """
    from engine.views.theory import find_weighing_selector

    figure, grey, ink = new_figure(), GREY[is_dark], INK.colour(is_dark)
    support_colour = method_style(find_weighing_selector()).colour(is_dark)
    # The first document has the direction of the second: it is drawn on top, its name below.
    for row, (x, y) in reversed(list(enumerate(plane.points))):
        line_colour, line_width = (support_colour, 5) if row in plane.support else (grey, 2)
        name, marker = f"document {row + 1}", {"symbol": "circle", "size": [1, 12], "line": {"color": ink, "width": 1}}
        hover = f"{name}: score {plane.scores[row]:.3f}, weight {plane.weights[row]:.3f}"
        _add_arrow(figure, (x, y), {"color": line_colour, "width": line_width}, marker, hover)
        font, shift = {"color": ink, "size": 12}, 16 if row else -16
        figure.add_annotation(x=x, y=y, text=name, showarrow=False, yshift=shift, font=font)
    x, y = plane.query
    line_style, marker = {"color": ink, "width": 2, "dash": "dash"}, {"symbol": "diamond", "size": [1, 11]}
    _add_arrow(figure, (x, y), line_style, marker, f"v at {plane.angle:g}°")
    figure.add_annotation(x=x, y=y, text="v", showarrow=False, xshift=14, yshift=8, font={"color": ink, "size": 14})
    figure.update_xaxes(range=[-0.12, 1.25], zeroline=True, title="along document 2")
    figure.update_yaxes(range=[-0.2, 1.2], zeroline=True, scaleanchor="x", title="along document 3")
    return apply_layout(figure, height=360)


def _add_arrow(
    figure: Figure, tip: tuple[float, float], line_style: dict[str, Any], marker: dict[str, Any], hover_text: str
) -> None:
    """Add a line from the origin to a point, with a marker at its end."""
    arrow_look = {"mode": "lines+markers", "line": line_style, "marker": marker | {"color": line_style["color"]}}
    figure.add_scatter(x=[0, tip[0]], y=[0, tip[1]], **arrow_look, hovertext=[hover_text] * 2, hovertemplate=TOOLTIP)


def plot_margins(margins: Mapping[str, Sequence[RelevantMargins]], is_dark: bool) -> Figure:
    """Plot how clearly queries prefer relevant documents, by their length: median, middle half, and 5–95%.

    A margin is ⟨q, d₁ − d₂⟩ / (|q||d₁ − d₂|), above 0 if the relevant document d₁ scores higher than the irrelevant
    d₂; each relevant document counts with its smallest margin. margins: kind of vectors → a row for each range of
    lengths
    """
    figure, ink_colour = new_figure(), INK.colour(is_dark)
    for position, (vector_kind, rows) in enumerate(margins.items()):
        style, offset = series_style(position), dodge_offset(position, len(margins), BIN_SPREAD)
        colour, x, bins, hover_texts = style.colour(is_dark), [], [], []
        for bin_index, row in enumerate(rows):
            if len(row.values):
                x.append(bin_index + offset)
                bins.append(row)
                counts = f"{len(row.values):,} relevant documents, {row.first:.0%} above 0<br>median {row.median:.3f}"
                hover_texts.append(f"{vector_kind}, {row.least:,} to {row.most:,} words<br>{counts}")
        # The thick line is drawn over the thin one.
        for line_width, low_column, high_column in ((1.5, "low", "high"), (6, "lower", "upper")):
            y = join_segments(read_column(bins, low_column), read_column(bins, high_column))
            line_style = {"mode": "lines", "line": {"color": colour, "width": line_width}}
            figure.add_scatter(x=join_segments(x, x), y=y, **line_style, showlegend=False, hoverinfo="skip")
        figure.add_scatter(
            x=x,
            y=read_column(bins, "median"),
            mode="markers",
            name=vector_kind,
            marker={"symbol": style.symbol, "size": 10, "color": colour, "line": {"color": ink_colour, "width": 1}},
            **build_tooltip(hover_texts),
        )
    figure.add_hline(y=0, line=guide(ink_colour))
    _name_lengths(figure, next(iter(margins.values())), "Words in the relevant document")
    figure.update_yaxes(title="Smallest margin over the others")
    return apply_layout(figure, **THEORY_LEGEND)


def plot_dimension(errors: PairErrors, error: float, is_dark: bool) -> Figure:
    """Plot the share of document pairs whose order a random projection to k dimensions reverses, over k.

    Solid lines are measured; dashed ones are the bound that the sparse-dense paper proves (Lemma 1). There is a pair of
    lines for each range of the margin ε, which tells how clearly the query prefers one document to the other. error:
    the tolerated share β, a horizontal line.
    """
    figure, ink_colour = new_figure(), INK.colour(is_dark)
    for position, margin_bin in enumerate(errors.bins):
        series_look = series_style(position)
        series_name = f"ε {margin_bin.least:.2f} to {margin_bin.most:.2f}"
        bin_cells = [cell for cell in errors.cells if cell.bin == position]
        nonzero = [cell for cell in bin_cells if cell.error > 0]  # a logarithmic axis has no 0
        y, low_ends, high_ends = (read_column(nonzero, attribute) for attribute in ("error", "low", "high"))
        figure.add_scatter(
            x=read_column(nonzero, "k"),
            y=y,
            **series_look.curve(is_dark, 8),
            name=series_name,
            error_y=error_bars(y, low_ends, high_ends) | {"thickness": 1},
            hovertext=[
                f"{series_name}, {margin_bin.pairs:,} pairs<br>k = {cell.k:,}: {cell.error:.2%} reversed, bound "
                f"{'above 100%' if cell.bound >= 1 else f'{cell.bound:.2%}'}"
                for cell in nonzero
            ],
            hovertemplate=TOOLTIP,
        )
        bound_line = series_look.line(is_dark, "dash") | {"name": f"bound, {series_name}", "showlegend": False}
        x, y = read_column(bin_cells, "k"), read_column(bin_cells, "bound")
        figure.add_scatter(x=x, y=y, **bound_line, hoverinfo="skip")
    figure.add_hline(y=error, line=guide(ink_colour))
    # An annotation on a logarithmic axis is placed by the logarithm.
    anchor = {"x": 1, "xref": "paper", "y": math.log10(error), "xanchor": "right", "yshift": 9, "showarrow": False}
    figure.add_annotation(**anchor, text=f"β = {error:g}", font={"color": ink_colour})
    ticks = sorted(set(read_column(errors.cells, "k")))
    figure.update_xaxes(type="log", title="Dimensions k", tickvals=ticks, ticktext=list(map("{:,}".format, ticks)))
    figure.update_yaxes(
        type="log",
        title="Pairs reversed",
        range=[-4, 0.7],
        tickvals=[1e-4, 1e-3, 1e-2, 0.1, 1],
        ticktext=["0.01%", "0.1%", "1%", "10%", "100%"],
    )
    return apply_layout(figure, **THEORY_LEGEND)


def plot_recall(
    rows: Sequence[LengthDimension], smallest: Sequence[int | None], tried: Sequence[int], target: float, is_dark: bool
) -> Figure:
    """Plot the smallest sufficient number of dimensions over the length of the documents.

    rows: ranges of document lengths; smallest: the number for each, None if none was enough (an open symbol
    above all); tried: the numbers that were tried, rising; target: the required share of queries whose best
    document stays near the top.
    """
    figure, series_look, max_k = new_figure(), series_style(0), tried[-1]
    x, y, is_reached, hover_texts = [], [], [], []
    for bin_index, (length_bin, k) in enumerate(zip(rows, smallest, strict=True)):
        if length_bin.queries:
            x.append(bin_index)
            # Beyond all tried dimensions, but still inside the axis.
            y.append(2 * max_k if k is None else k)
            is_reached.append(k is not None)
            answer = f"k > {max_k:,}" if k is None else f"k = {k:,}"
            lengths = (
                f"{length_bin.least:,} to {length_bin.most:,} words, {counted(length_bin.queries, 'query', 'queries')}"
            )
            hover_texts.append(f"{lengths}<br>{answer} keeps {target:.0%}")
    figure.add_scatter(
        x=x,
        y=y,
        mode="lines+markers",
        line={"color": series_look.colour(is_dark), "width": 2},
        marker=series_look.marker(is_dark, 11, is_reached),
        **build_tooltip(hover_texts),
    )
    _name_lengths(figure, rows, "Words in the documents")
    figure.update_yaxes(
        type="log",
        title="Smallest k",
        tickvals=list(tried),
        ticktext=list(map("{:,}".format, tried)),
        range=[math.log10(tried[0] / 1.5), math.log10(max_k * 2.7)],
    )
    return apply_layout(figure)


def plot_segments(margins: Segments, document_names: Sequence[str], is_dark: bool) -> Figure:
    """Plot margins between passages over those between whole documents; above the diagonal passages gain.

    A margin tells how clearly a query prefers one document to another. Segments are parts of a document's
    vector that add up to it. Filled symbols are pairs that meet the premises of Theorem 1 of the sparse-dense paper:
    the margin of their segments is then at least that of the documents.
    """
    figure, documents = new_figure(), margins.documents.tolist()
    segments, passages = margins.segments.tolist(), margins.passages.tolist()
    # NaN differs from itself and is left out.
    finite_values = [value for value in (*documents, *segments, *passages) if value == value]
    axis_limits = [min(0.0, *finite_values), max(finite_values)] if len(finite_values) > 1 else [0.0, 1.0]
    diagonal = {"mode": "lines", "line": guide(INK.colour(is_dark)), "name": "equal margins"}
    figure.add_scatter(x=axis_limits, y=axis_limits, **diagonal, hoverinfo="skip")
    margin_series = {
        "segments": (segments, margins.promised.tolist()),
        "real passages (nothing proved)": (passages, [False] * len(passages)),
    }
    for position, (series_name, (values, is_proved)) in enumerate(margin_series.items()):
        figure.add_scatter(
            x=documents,
            y=values,
            mode="markers",
            name=series_name,
            marker=series_style(position).marker(is_dark, 10, is_proved),
            hovertext=list(map(escape, document_names)),
            hovertemplate="%{hovertext}<br>documents %{x:.3f}, " + series_name + " %{y:.3f}<extra></extra>",
        )
    figure.update_xaxes(title="Margin of the documents")
    figure.update_yaxes(title="Margin of the segments")
    return apply_layout(figure, **THEORY_LEGEND)


def _name_lengths(figure: Figure, bins: Sequence[RelevantMargins] | Sequence[LengthDimension], title: str) -> None:
    """Label the x axis with ranges of document lengths, in words."""
    figure.update_xaxes(title=title, **group_axis([f"{row.least:,} to {row.most:,}" for row in bins]))
