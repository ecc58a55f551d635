"""How alike the documents of some sets are, a heat-map a set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dashboard.charts.palette import PALETTE, escaped, plain, style_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.views import Redundancy

HEIGHTS = {1: 470, 2: 430, 3: 320}
"""By the number of sets: their cells are square, so more of them are lower."""
GAP = 0.05
EVERY_RANK, TITLE = 12, 32
"""Up to so many documents every rank is on the axis, then every fifth; and so much of a title at the mouse."""


def redundancy_figure(sets: Sequence[tuple[str, str, Redundancy]], dark: bool) -> Figure:
    """The similarities in each set, (selector, title, its Redundancy), ranks on the axes, nothing on the diagonal.

    A point's id is "row:row", the two documents' positions in the corpus. Colours go from 0 to 1, values below and
    above are shown at the mouse as they are.
    """
    from plotly.graph_objects import Figure

    ink, figure = PALETTE[0].colour(dark), Figure()
    width = (1 - GAP * (len(sets) - 1)) / max(1, len(sets))
    for at, (name, title, found) in enumerate(sets):
        axis, size = "" if not at else str(at + 1), len(found.rows)
        left, ranks = at * (width + GAP), list(range(1, size + 1))
        pairs = [(i, j) for i in range(size) for j in range(size) if i != j]
        own = {"xaxis": f"x{axis}", "yaxis": f"y{axis}"}
        figure.add_heatmap(
            **own,
            x=ranks,
            y=ranks,
            z=[[None if i == j else float(found.similarity[i, j]) for j in range(size)] for i in range(size)],
            coloraxis="coloraxis",
            xgap=1 if size <= EVERY_RANK else 0,
            ygap=1 if size <= EVERY_RANK else 0,
            hoverinfo="skip",
        )
        said = [f"#{rank} {escaped(t or i, TITLE)}" for rank, t, i in zip(ranks, found.titles, found.ids, strict=True)]
        # A heat-map's cells cannot be clicked everywhere; unseen points on them can.
        figure.add_scatter(
            **own,
            x=[ranks[j] for _, j in pairs],
            y=[ranks[i] for i, _ in pairs],
            mode="markers",
            marker={"symbol": "square", "size": 14, "opacity": 0},
            customdata=[f"{found.rows[i]}:{found.rows[j]}" for i, j in pairs],
            hovertext=[f"{said[i]}<br>{said[j]}<br>similarity {found.similarity[i, j]:.3f}" for i, j in pairs],
            hovertemplate="%{hovertext}<extra></extra>",
        )
        ticks = ranks if size <= EVERY_RANK else [r for r in ranks if r == 1 or r % 5 == 0]
        shared = {
            "tickvals": ticks,
            "range": [0.5, max(size, 1) + 0.5],
            "showgrid": False,
            "zeroline": False,
            "ticks": "",
            "fixedrange": True,
            "constrain": "domain",
        }
        figure.update_layout(
            {
                f"xaxis{axis}": shared | {"domain": [left, left + width], "anchor": f"y{axis}"},
                f"yaxis{axis}": shared
                | {
                    "range": shared["range"][::-1],
                    "anchor": f"x{axis}",
                    "scaleanchor": f"x{axis}",
                    "constraintoward": "top",
                },
            }
        )
        style = style_of(name)
        figure.add_annotation(
            text=f'<span style="color: {style.colour(dark)}">{style.sign}</span> {escaped(title)}',
            x=left + width / 2,
            y=1,
            xref="paper",
            yref="paper",
            xanchor="center",
            yanchor="bottom",
            yshift=4,
            showarrow=False,
            font={"color": ink, "size": 14},
        )
    figure = plain(figure)
    return figure.update_layout(
        height=HEIGHTS.get(len(sets), min(HEIGHTS.values())),
        hoverdistance=40,
        coloraxis={
            "colorscale": "Cividis",
            "cmin": 0,
            "cmax": 1,
            "colorbar": {"title": "similarity", "thickness": 14, "tickvals": [0, 0.25, 0.5, 0.75, 1]},
        },
        margin={"l": 28, "r": 10, "t": 32, "b": 24},
    )
