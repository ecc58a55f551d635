"""A chart that keeps its zoom: one plot whose traces follow the slider, what is clicked or drawn round comes back.

`st.plotly_chart` makes its chart anew whenever the figure changes. This one updates what is there. Where the server has
no such component (another server's start, an older Streamlit) `st.plotly_chart` takes its place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from dashboard.components import vendor

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

NAME = "frontier_live_plot"
SCRIPT = Path(__file__).with_suffix(".js")
MODEBAR = {"displaylogo": False}


@dataclass(frozen=True)
class Backdrop:
    """What lies under a chart and does not follow the controls; the browser fetches it once.

    digest: names its content; make: its traces, drawn below the figure's.
    """

    digest: str
    make: Callable[[], Figure] = field(compare=False)


@dataclass(frozen=True)
class Picked:
    """What a person pointed at, as the ids in the traces' customdata.

    clicked: the point clicked last, None before the first click; selected: those inside the last lasso or box, () for
    none; hovered: the point under the mouse, where it was asked for; clicks: how many there have been, as the same one
    may be clicked again.
    """

    clicked: str | None = None
    selected: tuple[str, ...] = ()
    hovered: str | None = None
    clicks: int = 0


def plot(
    figure: Figure | dict[str, Any],
    key: str,
    *,
    backdrop: Backdrop | None = None,
    select: bool = False,
    hover: bool = False,
    scroll: bool = False,
    file: str = "frontier",
    label: str = "Chart",
) -> Picked:
    """Draw a figure and say what was pointed at.

    figure: plotly's, or its data and layout as plain JSON values, which is quicker; key: of this chart in the session;
    backdrop: traces below the figure's; select: offer lasso and box; hover: report the point under the mouse too;
    scroll: zoom by the wheel; file: what a download is called; label: for who cannot see it. Points are known by their
    customdata: an id as text. Zoom stays for as long as the layout's `uirevision`, or else the key.
    """
    if available():
        return _live(figure, key, backdrop, select, hover, scroll, file, label)
    return _with_streamlit(figure, key, backdrop, select, scroll, file)


def available() -> bool:
    """Whether charts are live here."""
    return vendor.served() and hasattr(getattr(st.components, "v2", None), "component")


def _live(
    figure: Figure | dict[str, Any],
    key: str,
    backdrop: Backdrop | None,
    select: bool,
    hover: bool,
    scroll: bool,
    file: str,
    label: str,
) -> Picked:
    shown = _plain(figure)
    shown["layout"].setdefault("uirevision", key)
    data = {
        "figure": shown,
        "backdrop": _address(backdrop) if backdrop else None,
        "library": vendor.library(),
        "select": select,
        "hover": hover,
        "scroll": scroll,
        "file": file,
        "label": label,
        "dark": st.context.theme.type == "dark",
    }
    data["version"] = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
    told = {f"on_{name}_change": partial(_remember, key, name) for name in ("clicked", "selected", "hovered")}
    _component()(key=key, data=data, on_dark_change=_nothing, **told)
    return picked(key)


def _nothing() -> None:
    """That the page became dark or light needs a new run, and no more."""


def picked(key: str) -> Picked:
    """What was pointed at in a chart, before it is drawn again: what is drawn may depend on it."""
    return st.session_state.get(f"{key}.picked", Picked())


def _remember(key: str, name: str) -> None:
    value = st.session_state[key].get(name)
    if name == "selected":
        value = tuple(value or ())
    elif value is None:
        return
    before = picked(key)
    clicks = before.clicks + (name == "clicked")
    st.session_state[f"{key}.picked"] = replace(before, **{name: value}, clicks=clicks)


def _component() -> Any:
    # Registered anew in every run: a component belongs to the server's runtime, which outlives no test.
    return st.components.v2.component(NAME, js=SCRIPT.read_text(encoding="utf-8"), isolate_styles=False)


def _plain(figure: Figure | dict[str, Any]) -> dict[str, Any]:
    """A figure as JSON values without a template: the browser's side gives it the page's colours."""
    if isinstance(figure, dict):
        return figure
    shown = json.loads(figure.to_json())
    shown["layout"].pop("template", None)
    return shown


def _address(backdrop: Backdrop) -> str:
    found = vendor.kept(backdrop.digest)
    if found is None:
        traces = _plain(backdrop.make())["data"]
        found = vendor.keep(backdrop.digest, json.dumps(traces).encode())
    return found


def _with_streamlit(
    figure: Figure | dict[str, Any], key: str, backdrop: Backdrop | None, select: bool, scroll: bool, file: str
) -> Picked:
    from plotly.graph_objects import Figure

    whole = Figure(figure)
    under = backdrop.make().data if backdrop else ()
    figure = Figure(data=[*under, *whole.data], layout=whole.layout)
    config = MODEBAR | {"scrollZoom": scroll, "toImageButtonOptions": {"filename": file}}
    modes = ("points", "box", "lasso") if select else ("points",)
    st.plotly_chart(figure, key=key, config=config, on_select=partial(_selected, key), selection_mode=modes)
    return picked(key)


def _selected(key: str) -> None:
    selection = st.session_state[key].selection
    found = tuple(id_ for point in selection.points if (id_ := _id(point)) is not None)
    drawn = selection.box or selection.lasso
    if drawn or not found:
        now = replace(picked(key), selected=found)
    else:
        before = picked(key)
        now = replace(before, clicked=found[0], selected=(), clicks=before.clicks + 1)
    st.session_state[f"{key}.picked"] = now


def _id(point: Mapping[str, Any]) -> str | None:
    given = point.get("customdata")
    first = given[0] if isinstance(given, list | tuple) and given else given
    return None if first is None or first == [] else str(first)
