"""Building blocks of figures: layout, legend, guides, bands, error bars, axes of groups, text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from engine.progress import shorten
from engine.wording import visible

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

LAYOUT: dict[str, Any] = {
    "showlegend": False,
    "margin": {"l": 10, "r": 10, "t": 24, "b": 10},
    "height": 430,
    "dragmode": "pan",
    "hovermode": "closest",
}
"""The layout of every chart, unless it says otherwise."""
TOOLTIP = "%{hovertext}<extra></extra>"
"""Hover template that shows a point's hovertext alone."""
SPREAD = 0.6
"""Share of a group's width over which its points are spread."""
TIMES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Milliseconds that an axis of times names."""


def new_figure() -> Figure:
    """An empty figure. Plotly is imported at the first one: that takes longer than a page's first paint may."""
    from plotly.graph_objects import Figure

    return Figure()


def new_grid(rows: int, columns: int, **how: Any) -> Figure:
    """An empty figure of several plots; how: options of plotly's `make_subplots`."""
    from plotly.subplots import make_subplots

    return make_subplots(rows, columns, **how)


def apply_layout(figure: Figure, **layout: Any) -> Figure:
    """The figure in the layout of every chart; layout: what differs."""
    # Without a distance the title stands where the widest tick label ends.
    return figure.update_layout(LAYOUT | layout).update_yaxes(title_standoff=10, automargin=True)


def legend_below(y: float) -> dict[str, Any]:
    """Layout: a horizontal legend under the plot, y: as a share of its height, below 0."""
    return {"showlegend": True, "legend": {"orientation": "h", "y": y, "x": 0}}


def guide(colour: str, dash: str = "dot") -> dict[str, Any]:
    """The thin line of a reference value or of the chosen setting."""
    return {"color": colour, "width": 1, "dash": dash}


def outline(x: Sequence[Any], low: Sequence[Any], high: Sequence[Any]) -> dict[str, Any]:
    """Trace values of a filled band between two curves over x."""
    return {"x": [*x, *reversed(x)], "y": [*high, *reversed(low)], "fill": "toself", "hoverinfo": "skip"}


def error_bars(values: Sequence[float], low: Sequence[float | None], high: Sequence[float | None]) -> dict[str, Any]:
    """Error bars from the ends of intervals, of no length where an end is None."""
    return {
        "symmetric": False,
        "array": [0 if end is None else end - value for value, end in zip(values, high, strict=True)],
        "arrayminus": [0 if end is None else value - end for value, end in zip(values, low, strict=True)],
        "width": 0,
    }


def strokes(starts: Iterable[Any], ends: Iterable[Any]) -> list[Any]:
    """One coordinate of separate line segments in one trace: start, end, gap."""
    return [value for start, end in zip(starts, ends, strict=True) for value in (start, end, None)]


def group_axis(texts: Sequence[str]) -> dict[str, Any]:
    """An axis of groups at 0, 1, 2 … with their names."""
    return {"tickvals": list(range(len(texts))), "ticktext": texts, "range": [-0.5, len(texts) - 0.5]}


def time_axis(title: str) -> dict[str, Any]:
    """An axis of milliseconds."""
    return {"type": "log", "title": title, "tickvals": list(TIMES), "ticktext": [f"{value:g}" for value in TIMES]}


def dodge(position: int, count: int, spread: float = SPREAD) -> float:
    """The offset from a group's middle of one of its `count` series."""
    return spread * ((position + 0.5) / count - 0.5)


def escape(text: str, limit: int = 40) -> str:
    """Text as plotly shows it literally, cut to `limit` characters: it would make links and formulas of some."""
    shown = visible(shorten(text, limit))
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("$", "&#36;")
