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

NAME = "live_plot"
HEIGHT = 430
"""Pixels of a chart whose layout does not say."""
SLIDER = 40
"""Pixels of the slider below a chart with a curve to drag along (plot_controls.js)."""
MODEBAR = {"displaylogo": False}


@dataclass(frozen=True)
class Backdrop:
    """The part of a chart that does not follow the controls: drawn below the figure, fetched once by the browser."""

    digest: str  # names its content
    make: Callable[[], Figure] = field(compare=False)  # its traces, as a figure


@dataclass(frozen=True)
class Overlay:
    """Result sets over a map, drawn by the browser, where other components may change them."""

    data: Mapping[str, Any] = field(compare=False)  # what map_overlay.js takes
    traces: Sequence[dict[str, Any]] = field(compare=False)  # their replacement where charts are not live


@dataclass(frozen=True)
class Picked:
    """The points that a person pointed at, as the ids in the traces' customdata."""

    clicked: str | None = None  # the last point clicked, None before the first click
    selected: tuple[str, ...] = ()  # the points inside the last lasso or box
    hovered: str | None = None  # the point under the mouse, in charts that report it
    clicks: int = 0  # how many clicks there have been: the same point may be clicked again


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
    """Draw a figure; returns the points that were pointed at.

    figure: plotly's, or its data and layout as plain JSON values, which is quicker; key: of this chart in the session;
    backdrop: traces below the figure's; overlay: sets above them; select: offer lasso and box; hover: report the point
    under the mouse too; scroll: zoom by the wheel; file: name of a download; label: for screen readers; on_adjust:
    called with "level" or "curve" and its value, before the page is drawn again, when a person has dragged what the
    layout's meta declares (plot_controls.js). A point's id is its customdata, as text. Zoom stays for as long as the
    layout's `uirevision`, or else the key.
    """
    if available():
        options: dict[str, bool | str] = {"select": select, "hover": hover, "scroll": scroll}
        _draw_live(figure, key, backdrop, overlay, on_adjust, file=file, label=label, **options)
    else:
        _draw_static(figure, key, backdrop, overlay, select, scroll, file)
    return picked(key)


def is_dark() -> bool:
    """Whether the page is dark."""
    return bool(st.context.theme.type == "dark")


def available() -> bool:
    """Whether charts are live on this server."""
    return vendor.served() and hasattr(getattr(st.components, "v2", None), "component")


def _draw_live(
    figure: Figure | dict[str, Any],
    key: str,
    backdrop: Backdrop | None,
    overlay: Overlay | None,
    on_adjust: Callable[[str, float], None] | None,
    **options: bool | str,
) -> None:
    values = _as_json(figure)
    values["layout"] = {"height": HEIGHT, "uirevision": key} | values["layout"]
    data = {
        "figure": values,
        "backdrop": backdrop and _backdrop_address(backdrop),
        "overlay": overlay and overlay.data,
        "library": vendor.library(),
        "dark": is_dark(),
        **options,
    }
    data["version"] = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
    events = ("clicked", "selected", "hovered")
    callbacks: dict[str, Any] = {name: partial(_remember, key, name) for name in events}
    if on_adjust is not None:
        callbacks["adjusted"] = lambda dragged: on_adjust(dragged["name"], float(dragged["value"]))
    # That the page became dark or light needs a new run, and no more. The height is there before the script is.
    callbacks["dark"] = lambda _: None
    height = values["layout"]["height"] + (SLIDER if "curve" in (values["layout"].get("meta") or {}) else 0)
    vendor.view(NAME, key, data, callbacks, height=height, isolate_styles=False)


def _backdrop_address(backdrop: Backdrop) -> str:
    return vendor.address_of(backdrop.digest) or vendor.keep(
        backdrop.digest, json.dumps(_as_json(backdrop.make())["data"]).encode()
    )


def picked(key: str) -> Picked:
    """The points pointed at in a chart so far; may be asked before the chart is drawn, which may depend on it."""
    selection: Picked = st.session_state.get(f"{key}.picked", Picked())
    return selection


def _remember(key: str, name: str, value: Any) -> None:
    if name == "selected":
        value = tuple(value)
    before = picked(key)
    clicks = before.clicks + (name == "clicked")
    st.session_state[f"{key}.picked"] = replace(before, **{name: value}, clicks=clicks)


def _as_json(figure: Figure | dict[str, Any]) -> dict[str, Any]:
    """A figure as JSON values without a template: the browser's side gives it the page's colours."""
    if isinstance(figure, dict):
        return figure
    values: dict[str, Any] = json.loads(figure.to_json())
    values["layout"].pop("template", None)
    return values


def _draw_static(
    figure: Figure | dict[str, Any],
    key: str,
    backdrop: Backdrop | None,
    overlay: Overlay | None,
    select: bool,
    scroll: bool,
    file: str,
) -> None:
    from plotly.graph_objects import Figure

    figure = Figure(figure)
    if backdrop:
        figure = Figure(data=[*backdrop.make().data, *figure.data], layout=figure.layout)
    if overlay:
        figure.add_traces(overlay.traces)
    config = MODEBAR | {"scrollZoom": scroll, "toImageButtonOptions": {"filename": file}}
    modes: list[Literal["points", "box", "lasso"]] = ["points", "box", "lasso"] if select else ["points"]
    st.plotly_chart(figure, key=key, config=config, on_select=partial(_remember_static, key), selection_mode=modes)


def _remember_static(key: str) -> None:
    selection, before = st.session_state[key].selection, picked(key)
    ids = tuple(ident for point in selection.points if (ident := _id(point)) is not None)
    if selection.box or selection.lasso or not ids:
        now = replace(before, selected=ids)
    else:
        now = replace(before, clicked=ids[0], selected=(), clicks=before.clicks + 1)
    st.session_state[f"{key}.picked"] = now


def _id(point: Mapping[str, Any]) -> str | None:
    customdata = point.get("customdata")
    first = customdata[0] if isinstance(customdata, list | tuple) and customdata else customdata
    return None if first is None or first == [] else str(first)
