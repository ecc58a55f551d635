"""The share of a run's picks that each λ and each depth of the pool explain, as a heat map with its peak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dashboard.charts.figure import apply_layout, new_figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.identification.hypotheses import Hypothesis

FULL_ROW_RATIO = 1.3
"""Height of the row of the whole corpus below the deepest pool, as a ratio of depths."""
DEPTH_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
HALO, MARK = "#000000", "#FFFFFF"
"""The peak's mark is white with a black outline: it is seen on every colour of the scale."""


def plot_plane(hypothesis: Hypothesis, n_documents: int) -> Figure:
    """Plot the share of picks that a decoder explains, λ across and the depth of the pool downwards, logarithmic.

    The mark is the peak. The whole corpus is the lowest row; it is left out where the deepest pool is as large.
    """
    plane, figure = hypothesis.plane, new_figure()
    depths = [depth for depth in plane.depths if depth is not None]
    # Plotly takes plain numbers; three decimals are a tenth of a percent.
    shares = np.asarray(plane.shares, dtype=np.float64)
    pool_shares, full_shares = shares[: len(depths)], shares[len(depths) :]
    hover = "λ %{x:.2f} · pool of %{y:,.0f}<br>%{z:.0%} of picks explained<extra></extra>"
    figure.add_heatmap(
        x=plane.weights.tolist(), y=depths, z=pool_shares.round(3).tolist(), coloraxis="coloraxis", hovertemplate=hover
    )
    # Small corpora are traced to their last document: the two rows would be one.
    has_full_row = len(full_shares) > 0 and depths[-1] < n_documents
    full_position = depths[-1] * FULL_ROW_RATIO**2
    if has_full_row:
        # A row of its own: on the axis it would lie decades below the deepest pool that is looked at.
        full_hover = f"λ %{{x:.2f}} · all {n_documents:,} documents<br>%{{z:.0%}} of picks explained<extra></extra>"
        figure.add_heatmap(
            x=plane.weights.tolist(), y=[full_position / FULL_ROW_RATIO**0.5, full_position * FULL_ROW_RATIO**0.5],
            z=full_shares.round(3).tolist(), coloraxis="coloraxis", hovertemplate=full_hover,
        )  # fmt: skip
    # The last trace lies on top.
    _add_peak(figure, hypothesis, full_position if has_full_row else depths[-1])
    bottom = full_position * FULL_ROW_RATIO if has_full_row else depths[-1] * 1.05
    figure.update_xaxes(title="λ (weight of relevance) →", range=[-0.005, 1.005], showgrid=False, zeroline=False)
    figure.update_yaxes(
        _build_depth_ticks(depths[-1], n_documents, full_position if has_full_row else None),
        title="← Pool depth", type="log", range=[np.log10(bottom), np.log10(depths[0] * 0.9)], showgrid=False,
    )  # fmt: skip
    ticks = {"tickformat": ".0%", "tickvals": [0, 0.25, 0.5, 0.75, 1]}
    colour_bar = {"title": {"text": "Picks<br>explained"}, "thickness": 12} | ticks
    colours = {"colorscale": "Cividis", "cmin": 0, "cmax": 1, "colorbar": colour_bar}
    return apply_layout(figure, coloraxis=colours, height=430, uirevision=hypothesis.label)


def _add_peak(figure: Figure, hypothesis: Hypothesis, full_position: float) -> None:
    """Mark the peak, and the rectangle of λ and depth that resampling the queries leaves."""
    weight = getattr(hypothesis.decoder.select, "relevance_weight", None)
    if weight is None or hypothesis.interval is None:
        return
    # None stands for the whole corpus, whose row is not at its number of documents.
    depth = full_position if hypothesis.decoder.depth is None else hypothesis.decoder.depth
    low, high = hypothesis.interval
    first, last = hypothesis.depth
    depth_text = f"{first:,}" if first == last else f"{first:,} to {last:,}"
    text = (
        f"Peak: {hypothesis.explained:.1%} of picks<br>λ {low:.3f} to {high:.3f} · pool of {depth_text}<extra></extra>"
    )
    # Two rings in one another, of which one is seen on dark cells and the other one on light cells.
    for colour, size_px in ((HALO, 20), (MARK, 16)):
        marker = {"symbol": "circle-open", "size": size_px, "line": {"width": 2.5, "color": colour}, "color": colour}
        figure.add_scatter(x=[weight], y=[depth], mode="markers", marker=marker, hovertemplate=text, name="peak")


def _build_depth_ticks(deepest: int, n_documents: int, full_position: float | None) -> dict[str, Any]:
    """Return the ticks of the axis of depths; full_position: where the row of the whole corpus is, None without it."""
    values: list[float] = [tick for tick in DEPTH_TICKS if tick <= deepest]
    texts = [f"{tick:,.0f}" for tick in values]
    if full_position is not None:
        values, texts = [*values, full_position], [*texts, f"all {n_documents:,}"]
    return {"tickvals": values, "ticktext": texts}
