"""The report of a sweep in a browser: its first picture is the page's frontier, and nothing is cut or covered."""

from itertools import combinations

import pytest

import engine
from dashboard.report import build_page
from support.browser import MARKS, WAIT
from support.draws import deepen

pytestmark = MARKS
K = 10
NAMES = """() => {
    const plot = document.querySelector('.js-plotly-plot'), {x, y, right, bottom} =
        plot.querySelector('.nsewdrag').getBoundingClientRect();
    const names = [...plot.querySelectorAll('.annotation')].filter(name => name.style.visibility !== 'hidden');
    const boxes = names.map(name => name.querySelector('.annotation-text-g').getBoundingClientRect())
        .map(box => [box.x, box.right, box.y, box.bottom]);
    return {area: [x, right, y, bottom], boxes, texts: names.map(name => name.textContent)};
}"""
"""The edges of the first plot, and the texts and boxes of the names on it, without the lines that lead to them."""


@pytest.fixture(scope="module")
def report(demo):
    """Return the report of all decoders on 30 queries as HTML."""
    dataset, space = demo
    arguments = space, engine.embed(dataset.judged("dev").sample(30)), dataset.qrels["dev"], K, ("recall", "ilad")
    decoders = []
    for name in engine.methods("selector"):
        decoders += engine.grid(name, 3)
    cells = list(engine.sweep(decoders, *arguments, split="dev"))
    curves = [engine.exact_frontier("mmr", *arguments, split="dev", resamples=100)]
    return build_page(cells, "ilad", "recall", K, curves=curves)


@pytest.fixture(scope="module")
def reported_page(lasting_page, report):
    """The report on a page that tests share."""
    lasting_page.set_content(report)
    lasting_page.locator(".annotation").first.wait_for(timeout=WAIT)
    return lasting_page


@pytest.mark.parametrize("width", deepen([1440, 390], [390]))
def test_names_in_the_report_are_inside_and_apart_at_every_width(reported_page, width):
    page = reported_page
    page.set_viewport_size({"width": width, "height": 900})
    names = page.evaluate(NAMES)
    assert names["texts"][0] == "keep ≥ 95% of Top-k's Recall" and names["texts"][1].startswith(("sure: ", "bet: "))
    left, right, _, _ = names["area"]
    for text, box in zip(names["texts"], names["boxes"], strict=True):
        assert left - 1 <= box[0] and box[1] <= right + 1, text
    for (left, right, top, bottom), other in combinations(names["boxes"], 2):
        assert right <= other[0] or other[1] <= left or bottom <= other[2] or other[3] <= top
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "wide tables scroll by themselves"


def test_a_double_click_shows_the_settings_below_the_window(reported_page):
    page = reported_page
    page.set_viewport_size({"width": 1440, "height": 900})
    read_bottom = "document.querySelector('.js-plotly-plot')._fullLayout.yaxis.range[0]"
    bottom = page.evaluate(read_bottom)
    assert 80 < bottom < 95, "as on the page"
    page.locator(".nsewdrag").first.dblclick()
    page.wait_for_function(f"{read_bottom} < {bottom} - 20", timeout=WAIT)
