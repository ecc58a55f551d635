"""A chart that keeps its zoom while its traces change, and reports clicks, hovering and lassos.

`st.plotly_chart` makes its chart anew whenever the figure changes. This one updates it in place. Where the server lacks
the component (another server's start, an older Streamlit) `st.plotly_chart` takes its place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import streamlit as st

from dashboard.components import vendor

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

VIEW_NAME = "live_plot"
DEFAULT_HEIGHT_PX = 430
"""Height of a chart whose layout does not set one."""
SLIDER_HEIGHT_PX = 40
"""Height of the slider below a chart with a curve to drag along (plot_controls.js)."""
MODEBAR = {"displaylogo": False}
TOOLS_PX = 36
"""Margin right of a static chart for the upright bar of tools, which covers nothing there."""


@dataclass(frozen=True)
class Backdrop:
    """Part of a chart that does not follow the controls: drawn below the figure, fetched once."""

    digest: str  # names its content
    make: Callable[[], Figure] = field(compare=False)  # its traces, as a figure


@dataclass(frozen=True)
class Overlay:
    """Result sets over a map, drawn by the browser, where other components may change them."""

    data: Mapping[str, Any] = field(compare=False)  # for map_overlay.js
    traces: Sequence[dict[str, Any]] = field(compare=False)  # their replacement where charts are not live


@dataclass(frozen=True)
class Picked:
    """Points that a person pointed at, as the ids in the traces' customdata."""

    clicked: str | None = None  # the last point clicked, None before the first click
    selected: tuple[str, ...] = ()  # the points inside the last lasso or box
    hovered: str | None = None  # the point under the mouse, in charts that report it
    clicks: int = 0  # number of clicks so far: the same point may be clicked again


def plot(
    figure: Figure | dict[str, Any],
    key: str,
    *,
    backdrop: Backdrop | None = None,
    overlay: Overlay | None = None,
    select: bool = False,
    hover: bool = False,
    scroll: bool = False,
    file: str = "frontier",
    label: str = "Chart",
    on_adjust: Callable[[str, float], None] | None = None,
) -> Picked:
    """Draw a chart; return the points that the person has clicked, selected or pointed at.

    figure: plotly's, or its data and layout as plain JSON values, which is quicker; key: of this chart in the session;
    backdrop: traces below the figure's; overlay: sets above them; select: offer lasso and box; hover: report the point
    under the mouse too; scroll: zoom by the wheel; file: name of a download; label: for screen readers; on_adjust:
    called with "level" or "curve" and its value, before the page is drawn again, after a drag of a handle that the
    layout's meta declares (plot_controls.js). A point's id is its customdata, as text. Zoom stays for as long as the
    layout's `uirevision`, or else the key.
    """
    if is_available():
        options: dict[str, bool | str] = {"select": select, "hover": hover, "scroll": scroll}
        _draw_live(figure, key, backdrop, overlay, on_adjust, file=file, label=label, **options)
    else:
        _draw_static(figure, key, backdrop, overlay, select, scroll, file)
    return get_picked(key)


def is_dark() -> bool:
    """Return True if the page is dark."""
    return bool(st.context.theme.type == "dark")


def is_available() -> bool:
    """Return True if charts are live on this server."""
    return vendor.is_serving() and hasattr(getattr(st.components, "v2", None), "component")


def _draw_live(
    figure: Figure | dict[str, Any],
    key: str,
    backdrop: Backdrop | None,
    overlay: Overlay | None,
    on_adjust: Callable[[str, float], None] | None,
    **options: bool | str,
) -> None:
    """Draw the chart by a script in the browser, which gets the data only and reports what is picked.

    The parameters are those of `plot`; options: of the script.
    """
    figure_json = _as_json(figure)
    layout = figure_json["layout"] = {"height": DEFAULT_HEIGHT_PX, "uirevision": key} | figure_json["layout"]
    data = {
        "figure": figure_json,
        "backdrop": backdrop and _backdrop_address(backdrop),
        "overlay": overlay and overlay.data,
        "library": vendor.library_url(),
        "dark": is_dark(),
        **options,
    }
    # The script draws only data of a version that it has not drawn yet.
    data["version"] = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
    event_names = ("clicked", "selected", "hovered")
    callbacks: dict[str, Any] = {event_name: partial(_remember, key, event_name) for event_name in event_names}
    if on_adjust is not None:
        # A drag of a handle is reported as {"name": "level" or "curve", "value": a number}.
        callbacks["adjusted"] = lambda dragged: on_adjust(dragged["name"], float(dragged["value"]))
    # A change between dark and light needs a new run of the page and nothing else.
    callbacks["dark"] = lambda _: None
    # The height is fixed before the script arrives, so that the page below does not jump.
    meta = layout.get("meta") or {}
    height: int | str = layout["height"] + (SLIDER_HEIGHT_PX if "curve" in meta else 0)
    # How many heat maps stand in a row depends on the browser's width, and with it their height and that of a map.
    if "matrices" in meta or overlay is not None:
        height = "content"
    vendor.draw_view(VIEW_NAME, key, data, callbacks, height=height, isolate_styles=False)


def _backdrop_address(backdrop: Backdrop) -> str:
    """Return the URL of a chart's backdrop, its fixed part; compute and serve its traces if needed."""
    served_url = vendor.backdrop_url(backdrop.digest)
    # The traces are computed only if the server does not have them under this digest.
    return served_url or vendor.serve_backdrop(backdrop.digest, json.dumps(_as_json(backdrop.make())["data"]).encode())


def get_picked(key: str) -> Picked:
    """Return the points picked in a chart so far; callable before the chart is drawn."""
    selection: Picked = st.session_state.get(f"{key}.picked", Picked())
    return selection


def _remember(key: str, event_name: str, value: Any) -> None:
    """Store what the browser reported of a chart: a click, a selection or the point under the mouse.

    key: of the chart; event_name: the field of Picked: "clicked", "selected" or "hovered"
    """
    if event_name == "selected":
        value = tuple(value)
    previous = get_picked(key)
    clicks = previous.clicks + (event_name == "clicked")
    st.session_state[f"{key}.picked"] = replace(previous, **{event_name: value}, clicks=clicks)


def _as_json(figure: Figure | dict[str, Any]) -> dict[str, Any]:
    """Return a plotly figure as plain values, without its template: the browser's script sets the colours."""
    if isinstance(figure, dict):
        return figure
    figure_json: dict[str, Any] = json.loads(figure.to_json())
    figure_json["layout"].pop("template", None)
    return figure_json


def _draw_static(
    figure: Figure | dict[str, Any],
    key: str,
    backdrop: Backdrop | None,
    overlay: Overlay | None,
    select: bool,
    scroll: bool,
    file: str,
) -> None:
    """Draw the chart by Streamlit's own component, on servers without the live chart's routes.

    The parameters are those of `plot`; backdrop and overlay become further traces of the figure.
    """
    from plotly.graph_objects import Figure

    figure = Figure(figure)
    if backdrop:
        figure = Figure(data=[*backdrop.make().data, *figure.data], layout=figure.layout)
    if overlay:
        figure.add_traces(overlay.traces)
    margin_px = max(figure.layout.margin.r or 0, TOOLS_PX)
    figure.update_layout(modebar_orientation="v", margin_r=margin_px)
    config = MODEBAR | {"scrollZoom": scroll, "toImageButtonOptions": {"filename": file}}
    modes: list[Literal["points", "box", "lasso"]] = ["points", "box", "lasso"] if select else ["points"]
    st.plotly_chart(figure, key=key, config=config, on_select=partial(_remember_static, key), selection_mode=modes)


def _remember_static(key: str) -> None:
    """Store the points picked in a chart that Streamlit's own component has drawn; for a callback."""
    selection, previous = st.session_state[key].selection, get_picked(key)
    point_ids = tuple(point_id for point in selection.points if (point_id := _point_id(point)) is not None)
    # A click selects one point without a box or a lasso.
    if selection.box or selection.lasso or not point_ids:
        picked = replace(previous, selected=point_ids)
    else:
        picked = replace(previous, clicked=point_ids[0], selected=(), clicks=previous.clicks + 1)
    st.session_state[f"{key}.picked"] = picked


def _point_id(point: Mapping[str, Any]) -> str | None:
    """Return the id in a picked point's customdata, which is a list or a value; None without one."""
    customdata = point.get("customdata")
    first_value = customdata[0] if isinstance(customdata, list | tuple) and customdata else customdata
    return None if first_value is None or first_value == [] else str(first_value)
