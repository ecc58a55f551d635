"""The notebook's widget in a browser, by the model that anywidget hands it: two on one page, and what they report."""

import json

import numpy as np
import pytest

import engine
from support.browser import MARKS
from support.file_server import serve_files

pytest.importorskip("anywidget")
from dashboard.notebook import explore

pytestmark = MARKS
STATE_NAMES = ("_queries", "_view", "_answers", "_document", "_error", "query")
# The model of a kernel that does not answer: what is saved is kept.
PAGE = """<!doctype html><body style="background: BACKGROUND"><div id="a"></div><div id="b"></div><script type="module">
import widget from "./widget.js";
window.saved = {};
for (const name of ["a", "b"]) {
  const state = structuredClone(STATE), changed = {};
  window.saved[name] = [];
  widget.render({ el: document.getElementById(name), model: {
    get: (key) => state[key] ?? null,
    set: (key, value) => (changed[key] = state[key] = value),
    save_changes: () => window.saved[name].push({ ...changed }),
    on() {},
  }});
}
</script></body>"""
LISTS = """name => [...document.getElementById(name).firstChild.shadowRoot.querySelectorAll(".list")].map(list =>
    [...list.querySelectorAll(".document[data-rank]")].sort((a, b) => a.dataset.rank - b.dataset.rank)
        .map(row => `d${row.dataset.row}`))"""


@pytest.fixture
def explorer():
    random = np.random.default_rng(3)
    ids = [f"d{i}" for i in range(60)]
    space = engine.Space.of(["<img src=x onerror=alert(1)>"] * 60, random.standard_normal((60, 6)), ids)
    return explore(space, random.standard_normal((2, 6)), ["top_k", "mmr"], k=5)


@pytest.fixture
def opened(page, explorer, tmp_path):
    """The page with two widgets of equal content on a dark ground."""
    state = {name: getattr(explorer, name) for name in STATE_NAMES}
    (tmp_path / "widget.js").write_text(explorer._esm, encoding="utf-8")
    html = PAGE.replace("STATE", json.dumps(state).replace("<", "\\u003c")).replace("BACKGROUND", "#111")
    (tmp_path / "index.html").write_text(html, encoding="utf-8")
    with serve_files(tmp_path) as address:
        page.goto(f"{address}/")
        page.wait_for_function(
            "document.getElementById('b').firstChild?.shadowRoot.querySelectorAll('.document').length"
        )
        yield page


def test_drag_moves_one_widget_alone_and_tells_the_kernel_once_released(opened, explorer):
    before = opened.evaluate(LISTS, "a")
    assert before == opened.evaluate(LISTS, "b") and len(before) == 2
    slider = opened.locator("#a .slider input")
    box = slider.bounding_box()
    middle = box["y"] + box["height"] / 2
    opened.mouse.move(box["x"] + 0.8 * box["width"], middle)
    opened.mouse.down()
    for step in range(20):
        opened.mouse.move(box["x"] + (0.8 - 0.035 * step) * box["width"], middle)
    opened.wait_for_function(f"before => String(({LISTS})('a')[1]) !== String(before)", arg=before[1])
    assert opened.evaluate("saved") == {"a": [], "b": []}
    opened.mouse.up()
    opened.wait_for_function("saved.a.length")
    (message,) = opened.evaluate("saved.a")
    assert list(message) == ["_committed"] and list(message["_committed"]["values"]) == ["mmr"]
    # What the browser drew of the sets along λ is the engine's answer.
    explorer._committed = message["_committed"]
    assert opened.evaluate(LISTS, "a")[1] == explorer.sets["mmr"] != before[1]
    assert opened.evaluate(LISTS, "b") == before and opened.evaluate("saved.b") == []


def test_keys_step_the_query_of_the_widget_in_focus_alone(opened):
    opened.locator("#b .slider input").focus()
    opened.keyboard.press("j")
    opened.wait_for_function("saved.b.length")
    assert opened.evaluate("saved") == {"a": [], "b": [{"query": "1"}]}
    assert opened.locator("#b select").input_value() == "1" and opened.locator("#a select").input_value() == "0"


def test_colours_follow_the_ground_of_the_notebook(opened):
    scheme = "getComputedStyle(document.getElementById('a').firstChild.shadowRoot.querySelector('.scrub')).colorScheme"
    assert opened.evaluate(scheme) == "dark"
    opened.evaluate("document.body.setAttribute('style', 'background: #fafafa')")
    opened.wait_for_function(f"{scheme} === 'light'")
    # A page of someone else gets no button before its own content.
    assert opened.evaluate("document.body.firstElementChild.id") == "a"
