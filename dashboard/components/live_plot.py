"""A chart that keeps its zoom: one plot whose traces follow the slider, what is clicked or drawn round comes back.

`st.plotly_chart` makes its chart anew whenever the figure changes. This one updates what is there. Where the server has
no such component (another server's start, an older Streamlit) `st.plotly_chart` takes its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MODEBAR = {"displaylogo": False, "scrollZoom": True}


@dataclass(frozen=True)
class Backdrop:
    """What lies under a chart and does not follow the controls; the browser fetches it once.

    digest: names its content; traces: plotly's, as plain values, first in the figure.
    """

    digest: str
    traces: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Picked:
    """What a person pointed at, as the ids in the traces' customdata.

    clicked: the point clicked last, None before the first click; selected: those inside the last lasso or box, () for
    none; hovered: the point under the mouse, where it was asked for.
    """

    clicked: str | None = None
    selected: tuple[str, ...] = ()
    hovered: str | None = None


def plot(
    figure: Figure,
    key: str,
    *,
    backdrop: Backdrop | None = None,
    select: bool = False,
    hover: bool = False,
    file: str = "frontier",
) -> Picked:
    """Draw a figure and say what was pointed at.

    key: of this chart in the session; backdrop: traces below the figure's; select: offer lasso and box; hover: report
    the point under the mouse too; file: what a download is called. Points are known by their customdata: an id as text.
    """
    return _with_streamlit(figure, key, backdrop, select, file)


def _with_streamlit(figure: Figure, key: str, backdrop: Backdrop | None, select: bool, file: str) -> Picked:
    from plotly.graph_objects import Figure

    whole = Figure(data=[*(backdrop.traces if backdrop else ()), *figure.data], layout=figure.layout)
    config = MODEBAR | {"toImageButtonOptions": {"filename": file}}
    modes = ("points", "box", "lasso") if select else ("points",)
    event = st.plotly_chart(
        whole, key=key, config=config, on_select="rerun", selection_mode=modes, theme="streamlit", width="stretch"
    )
    found = tuple(str(_id(point["customdata"])) for point in event.selection.points if "customdata" in point)
    if len(found) == 1 and not event.selection.box and not event.selection.lasso:
        st.session_state[f"{key}.clicked"] = found[0]
        found = ()
    return Picked(st.session_state.get(f"{key}.clicked"), found)


def _id(customdata: Any) -> Any:
    return customdata[0] if isinstance(customdata, list | tuple) else customdata
