"""Trade-off in a real browser: the chart draws itself, and a click on a point opens the set retrieved there."""

import re

import pytest

import engine
from support.browser import MARKS, WAIT, column, slide, until

pytestmark = MARKS
PLOT = ".js-plotly-plot"
LONELIEST = f"""() => {{
    const plot = document.querySelector('{PLOT}'), box = plot.getBoundingClientRect();
    const {{xaxis, yaxis, _size}} = plot._fullLayout;
    const all = plot._fullData.filter(t => t.customdata && t.visible === true).flatMap(t => Array.from(t.x, (x, i) =>
        [String([t.customdata[i]].flat()[0]), xaxis.d2p(x), yaxis.d2p(t.y[i])]));
    const apart = p => Math.min(...all.filter(o => o[0] !== p[0]).map(o => Math.hypot(o[1] - p[1], o[2] - p[2])));
    const [label, x, y] = all.reduce((best, p) => apart(p) > apart(best) ? p : best);
    return [label, box.x + _size.l + x, box.y + _size.t + y];
}}"""


@pytest.mark.parametrize("scope", ["This query", "All labelled queries"])
def test_a_click_on_a_point_opens_its_set(page, server, scope):
    page.goto(f"{server}/tradeoff")
    page.get_by_text("All labelled queries", exact=True).wait_for(timeout=WAIT)
    page.get_by_text("Grid", exact=True).click()
    slide(page, "Home", "values of each parameter")
    page.keyboard.press("Escape")
    page.get_by_role("radio", name=scope).click()
    page.locator(PLOT).first.wait_for(timeout=2 * WAIT)
    if scope != "This query":
        page.get_by_text(re.compile("Means over the")).wait_for(timeout=3 * WAIT)
        until(page, lambda: page.get_by_text("Differences", exact=True).count() == 1)
    until(page, lambda: page.get_by_text("Cancel", exact=True).count() == 0)
    page.get_by_test_id("stStatusWidget").wait_for(state="hidden", timeout=WAIT)
    page.wait_for_timeout(1000)
    label, x, y = page.evaluate(LONELIEST)
    assert page.get_by_text("Click a point of the chart").count() == 1
    name = re.search(r"→ (\w+)", label).group(1)
    page.mouse.click(x, y)
    shown = page.get_by_test_id("stMain").locator("strong", has_text=engine.methods()[name].title)
    shown.first.wait_for(timeout=WAIT)
    until(page, lambda: page.get_by_text("Click a point of the chart").count() == 0)
    until(page, lambda: len(column(page, 1, "Document")) >= 5 or len(column(page, 0, "Document")) >= 5)
    assert page.evaluate(LONELIEST)[0] == label, "the point stays where it was"
