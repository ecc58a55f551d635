"""The live plot without a browser: the values it sends, the routes it serves, its replacement."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from plotly.graph_objects import Figure
from starlette.requests import Request

from dashboard.components import live_plot, vendor
from dashboard.components.live_plot import Backdrop, Picked


@pytest.fixture(autouse=True)
def no_backdrops():
    vendor._BACKDROPS.clear()


def answer_of(route, digest=""):
    """What a route answers; in a thread of its own, as the browser tests leave a loop running in this one."""
    request = Request({"type": "http", "path_params": {"name": digest}, "headers": []})
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, route(request)).result()


def figure(count=3):
    x, ids = np.arange(count, dtype=np.float32), [str(i) for i in range(count)]
    return Figure().add_scatter(x=x, y=np.ones(count), customdata=ids)


def test_backdrop_is_made_once_and_served_by_digest():
    made = []
    under = Backdrop("abc", lambda: made.append(1) or figure())
    address = live_plot._backdrop_address(under)
    assert live_plot._backdrop_address(under) == address and len(made) == 1
    name = address.removeprefix(f"{vendor.BACKDROPS}/").removesuffix(".json")
    answer = answer_of(vendor._send_backdrop, name)
    traces = json.loads(answer.body)
    assert len(traces) == 1 and traces[0]["x"]["dtype"] == "f4" and "immutable" in answer.headers["cache-control"]
    assert answer_of(vendor._send_backdrop, "abc").status_code == 404, "a digest alone is no name"


def test_backdrops_beyond_the_limit_drop_the_least_recently_used():
    for i in range(vendor.MAX_BACKDROPS):
        live_plot._backdrop_address(Backdrop(str(i), figure))
    live_plot._backdrop_address(Backdrop("0", figure))
    live_plot._backdrop_address(Backdrop("new", figure))
    assert vendor.backdrop_url("1") is None and vendor.backdrop_url("0")
    assert len(vendor._BACKDROPS) == vendor.MAX_BACKDROPS
    assert live_plot._backdrop_address(Backdrop("1", figure)) and vendor.backdrop_url("1")


def test_library_is_the_installed_plotly():
    answer = answer_of(vendor._send_library)
    assert Path(answer.path).stat().st_size > 1e6 and vendor.library_url().startswith(vendor.LIBRARY + "?")


def test_figure_is_sent_without_a_template():
    assert "template" not in live_plot._as_json(figure())["layout"]


@pytest.mark.parametrize(
    "customdata,ident", [("7", "7"), (["7", "x"], "7"), (7, "7"), (None, None), ([], None), (0, "0"), ([0], "0")]
)
def test_id_is_the_first_value_of_the_customdata(customdata, ident):
    assert live_plot._point_id({"customdata": customdata} if customdata is not None else {}) == ident


def test_clicks_and_selections_are_remembered_until_they_change(monkeypatch):
    monkeypatch.setattr(live_plot.st, "session_state", {})
    assert live_plot.get_picked("c") == Picked()
    live_plot._remember("c", "clicked", "5")
    live_plot._remember("c", "selected", ["1", "2"])
    assert live_plot.get_picked("c") == Picked("5", ("1", "2"), clicks=1)
    live_plot._remember("c", "selected", [])
    live_plot._remember("c", "clicked", "5")
    assert live_plot.get_picked("c") == Picked("5", clicks=2), "the same point clicked again is another click"


def test_live_plot_is_available_only_with_its_routes(monkeypatch):
    monkeypatch.setattr(vendor, "_SERVED", type(vendor._SERVED)())
    assert not live_plot.is_available()
    vendor.build_routes()
    assert live_plot.is_available()


def test_an_overlay_becomes_traces_where_charts_are_not_live(monkeypatch):
    drawn = []
    monkeypatch.setattr(live_plot.st, "plotly_chart", lambda figure, **_: drawn.append(figure))
    above = live_plot.Overlay({}, [{"type": "scatter", "name": "set", "x": [1], "y": [2]}])
    live_plot._draw_static(figure(), "k", Backdrop("a", figure), above, False, False, "f")
    assert [trace.name for trace in drawn[0].data] == [None, None, "set"]
