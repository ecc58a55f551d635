"""Parts of figures: layout, legend, guides, bands, error bars, axes of groups, text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from engine.progress import shorten
from engine.wording import visible

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

BASE_LAYOUT: dict[str, Any] = {
    "showlegend": False,
    "margin": {"l": 10, "r": 10, "t": 24, "b": 10},
    "height": 430,
    "dragmode": "pan",
    "hovermode": "closest",
}
"""Default layout of every chart."""
TOOLTIP = "%{hovertext}<extra></extra>"
"""Hover template that shows a point's hovertext alone."""
GROUP_SPREAD = 0.6
"""Share of a group's width over which its points are spread."""
TIMES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Milliseconds with a tick on a time axis."""


def new_figure() -> Figure:
    """Return an empty figure.

    Plotly is imported here and not with the module, as that takes longer than drawing a page.
    """
    from plotly.graph_objects import Figure

    return Figure()


def new_grid(n_rows: int, n_columns: int, **options: Any) -> Figure:
    """Return an empty figure of several plots; options: of plotly's `make_subplots`."""
    from plotly.subplots import make_subplots

    return make_subplots(n_rows, n_columns, **options)


def apply_layout(figure: Figure, **layout: Any) -> Figure:
    """Apply the layout that all charts share, with changes; return the figure."""
    # Without a distance the title stands where the widest tick label ends.
    return figure.update_layout(BASE_LAYOUT | layout).update_yaxes(title_standoff=10, automargin=True)


def legend_below(y_share: float) -> dict[str, Any]:
    """Return the plotly layout that puts a horizontal legend under the plot.

    y_share: distance from the plot's lower edge in heights of the plot, below 0
    """
    return {"showlegend": True, "legend": {"orientation": "h", "y": y_share, "x": 0}}


def guide(colour: str, dash_style: str = "dot") -> dict[str, Any]:
    """Return the plotly style of a thin line that marks a reference value or the chosen setting."""
    return {"color": colour, "width": 1, "dash": dash_style}


def band_outline(x: Sequence[Any], low_ends: Sequence[Any], high_ends: Sequence[Any]) -> dict[str, Any]:
    """Return the plotly values that draw a filled band between two curves over x, as one closed outline."""
    # The outline runs along the upper curve, and back along the lower one.
    return {"x": [*x, *reversed(x)], "y": [*high_ends, *reversed(low_ends)], "fill": "toself", "hoverinfo": "skip"}


def read_column(rows: Iterable[Any], attribute: str) -> list[Any]:
    """Return an attribute of every row, such as "mean" or "point.label", as a list."""
    return list(map(attrgetter(attribute), rows))


def build_tooltip(texts: str | Sequence[str], template: str = TOOLTIP) -> dict[str, Any]:
    """Return the plotly values of hover texts: one for each point, or one for all."""
    return {"hovertext": texts, "hovertemplate": template}


def error_bars(values: Sequence[float], low: Sequence[float | None], high: Sequence[float | None]) -> dict[str, Any]:
    """Return plotly error bars from the ends of intervals; an end that is None has no bar."""
    # Plotly takes lengths of error bars, not their ends.
    above, below = list(map(_bar_length, values, high)), list(map(_bar_length, low, values))
    return {"symmetric": False, "array": above, "arrayminus": below, "width": 0}


def _bar_length(segment_start: float | None, segment_end: float | None) -> float:
    """Return the distance from one end to the other, 0 if either is None."""
    return 0 if segment_start is None or segment_end is None else segment_end - segment_start


def join_segments(starts: Iterable[Any], ends: Iterable[Any]) -> list[Any]:
    """Return the x or the y values that draw separate line segments as one plotly trace.

    For each segment these are its start, its end, and None, at which plotly interrupts the line.
    """
    return [axis_value for start, end in zip(starts, ends, strict=True) for axis_value in (start, end, None)]


def group_axis(texts: Sequence[str]) -> dict[str, Any]:
    """Return the plotly settings of an axis with named groups at 0, 1, 2 and so on."""
    return {"tickvals": list(range(len(texts))), "ticktext": texts, "range": [-0.5, len(texts) - 0.5]}


def time_axis(title: str) -> dict[str, Any]:
    """Return the plotly settings of a logarithmic axis of milliseconds."""
    return {"type": "log", "title": title, "tickvals": list(TIMES), "ticktext": list(map("{:g}".format, TIMES))}


def dodge_offset(position: int, n_series: int, spread: float = GROUP_SPREAD) -> float:
    """Return the shift along the axis that puts points of several series side by side within a group.

    position: of the series, from 0; spread: share of the group's width that all of them take
    """
    return spread * ((position + 0.5) / n_series - 0.5)


def escape(display_text: str, limit: int = 40) -> str:
    """Escape text for plotly, which would interpret links and formulas; cut it to `limit` characters."""
    # Control characters are made visible first, so that the escapes below are the only markup.
    visible_text = visible(shorten(display_text, limit))
    return visible_text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("$", "&#36;")
