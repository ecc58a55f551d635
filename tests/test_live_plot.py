"""The live plot without a browser: what it sends, what it serves, and what takes its place."""

import asyncio
import json

import numpy as np
import pytest
from plotly.graph_objects import Figure
from starlette.requests import Request

from dashboard.components import live_plot, vendor
from dashboard.components.live_plot import Backdrop, Picked


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(vendor, "_KEPT", type(vendor._KEPT)())


def asked(digest):
    return Request({"type": "http", "path_params": {"digest": digest}, "headers": []})


def figure(count=3):
    drawn = Figure()
    drawn.add_scatter(x=np.arange(count, dtype=np.float32), y=np.ones(count), customdata=[str(i) for i in range(count)])
    return drawn


def test_a_backdrop_is_served_by_digest_and_nothing_else_is():
    made = []
    under = Backdrop("abc", lambda: made.append(1) or figure())
    address = live_plot._address(under)
    assert live_plot._address(under) == address == f"{vendor.BACKDROPS}/abc.json" and len(made) == 1
    answer = asyncio.run(vendor._backdrop(asked("abc")))
    traces = json.loads(answer.body)
    assert len(traces) == 1 and traces[0]["x"]["dtype"] == "f4" and "immutable" in answer.headers["cache-control"]
    assert asyncio.run(vendor._backdrop(asked("abd"))).status_code == 404


def test_the_backdrop_not_used_for_longest_goes_first_and_comes_back():
    for i in range(vendor.MOST_KEPT):
        live_plot._address(Backdrop(str(i), figure))
    live_plot._address(Backdrop("0", figure))
    live_plot._address(Backdrop("new", figure))
    assert vendor.kept("1") is None and vendor.kept("0") and len(vendor._KEPT) == vendor.MOST_KEPT
    assert live_plot._address(Backdrop("1", figure)) and vendor.kept("1")


def test_the_chart_library_is_the_installed_one():
    answer = asyncio.run(vendor._library(asked("")))
    assert answer.path.stat().st_size > 1e6 and vendor.library().startswith(vendor.LIBRARY + "?")


def test_a_figure_is_sent_without_a_template():
    assert "template" not in live_plot._plain(figure())["layout"]


@pytest.mark.parametrize(
    "given,found", [("7", "7"), (["7", "x"], "7"), (7, "7"), (None, None), ([], None), (0, "0"), ([0], "0")]
)
def test_ids_are_the_first_of_the_customdata(given, found):
    assert live_plot._id({"customdata": given} if given is not None else {}) == found


def test_what_was_pointed_at_is_remembered_until_it_changes(monkeypatch):
    session = {}
    monkeypatch.setattr(live_plot.st, "session_state", session)
    assert live_plot.picked("c") == Picked()
    session["c"] = {"clicked": "5"}
    live_plot._remember("c", "clicked")
    session["c"] = {"clicked": None, "selected": ["1", "2"]}
    live_plot._remember("c", "clicked")
    live_plot._remember("c", "selected")
    assert live_plot.picked("c") == Picked("5", ("1", "2"), clicks=1)
    session["c"] = {"selected": []}
    live_plot._remember("c", "selected")
    session["c"] |= {"clicked": "5"}
    live_plot._remember("c", "clicked")
    assert live_plot.picked("c") == Picked("5", clicks=2), "the same point clicked again is another click"


def test_without_its_server_there_is_no_live_plot(monkeypatch):
    monkeypatch.setattr(vendor, "_SERVED", type(vendor._SERVED)())
    assert not live_plot.available()
    vendor.routes()
    assert live_plot.available()
