"""Trade-off in a real browser: points open sets, the budget and λ are dragged without a message to the server."""

import re

import pytest

import engine
from support.browser import MARKS, WAIT, idle, lists, slide, until

pytestmark = MARKS
PLOT = ".js-plotly-plot"
BUTTONS = ["Cancel", "Pause"]
LONELIEST = f"""() => {{
    const plot = document.querySelector('{PLOT}'), box = plot.getBoundingClientRect();
    const {{xaxis, yaxis, _size}} = plot._fullLayout;
    const all = plot._fullData.filter(t => t.customdata && t.visible === true).flatMap(t => Array.from(t.x, (x, i) =>
        [String([t.customdata[i]].flat()[0]), xaxis.d2p(x), yaxis.d2p(t.y[i])]))
        .filter(([_, x, y]) => x >= 0 && x <= _size.w && y >= 0 && y <= _size.h);
    const apart = p => Math.min(...all.filter(o => o[0] !== p[0]).map(o => Math.hypot(o[1] - p[1], o[2] - p[2])));
    const [label, x, y] = all.reduce((best, p) => apart(p) > apart(best) ? p : best);
    return [label, box.x + _size.l + x, box.y + _size.t + y];
}}"""
DOT = "() => document.querySelector('.frontier-dot').style.transform"
LINE = f"() => document.querySelector('{PLOT}').layout.shapes.filter(s => s.name === 'budget')[0].y0"


def open_measured_page(page, server, scope="All labelled queries"):
    """Open the page with few steps and wait until its job has ended."""
    page.goto(f"{server}/tradeoff")
    page.get_by_text("All labelled queries", exact=True).wait_for(timeout=WAIT)
    page.get_by_text("Setup", exact=True).click()
    slide(page, "Home", "steps per parameter")
    page.keyboard.press("Escape")
    page.get_by_role("radio", name=scope).click()
    page.locator(PLOT).first.wait_for(timeout=2 * WAIT)
    if scope != "This query":
        page.get_by_text(re.compile("Mean of .* queries")).first.wait_for(timeout=3 * WAIT)
        until(page, lambda: page.get_by_text("Wins and losses", exact=True).count() == 1)
    until(page, lambda: all(page.get_by_text(name, exact=True).count() == 0 for name in BUTTONS))
    idle(page)
    page.wait_for_timeout(1000)


def record_sent_messages(page):
    """Record the messages of a page that is still to be opened, one entry each."""
    sent = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
    return sent


@pytest.mark.parametrize("scope", ["This query", "All labelled queries"])
def test_a_click_on_a_point_opens_its_set(page, server, scope):
    open_measured_page(page, server, scope)
    page.get_by_text("Show all", exact=True).click()
    idle(page)
    page.wait_for_timeout(1000)
    label, x, y = page.evaluate(LONELIEST)
    name = re.search(r"→ (\w+)", label).group(1)
    page.mouse.click(x, y)
    heading = page.get_by_test_id("stMain").locator("strong", has_text=engine.methods()[name].title)
    heading.first.wait_for(timeout=WAIT)
    until(page, lambda: len(lists(page)[0]) >= 5)
    assert page.evaluate(LONELIEST)[0] == label, "the point stays where it was"


def test_the_budget_is_dragged_in_the_browser_and_told_once_on_release(page, server):
    sent = record_sent_messages(page)
    open_measured_page(page, server)
    level = page.get_by_role("slider", name="Budget")
    box = level.bounding_box()
    assert level.inner_text() == "keep ≥ 95% of Top-k's Recall"
    x, y, n_sent_before = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, len(sent)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - 20, steps=4)
    page.mouse.move(x, y + 40, steps=8)
    share = page.evaluate(LINE)
    assert 80 < share < 95 and len(sent) == n_sent_before, "the line follows, the server hears nothing"
    assert level.inner_text() == f"keep ≥ {share:g}% of Top-k's Recall"
    page.mouse.up()
    slider = page.get_by_test_id("stSlider").filter(has_text="Keep at least this share")
    until(page, lambda: f"{share:g}%" in slider.inner_text())
    assert len(sent) == n_sent_before + 1
    idle(page)
    level.focus()
    level.press("ArrowUp")
    until(page, lambda: f"{share + 1:g}%" in slider.inner_text())


def test_the_dot_runs_along_the_curve_under_the_finger(page, server):
    sent = record_sent_messages(page)
    open_measured_page(page, server)
    handle = page.get_by_role("slider", name="MMR λ")
    handle.scroll_into_view_if_needed()
    page.wait_for_function("[...frontier.paths?.values() ?? []].some(Boolean)", timeout=WAIT)
    assert page.locator(".st-key-tour").bounding_box()["y"] < 50, "beside the navigation, and over nothing"
    idle(page)
    box, n_sent_before, places, sets = handle.bounding_box(), len(sent), set(), set()
    page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + box["height"] / 2)
    page.mouse.down()
    for step in range(1, 9):
        page.mouse.move(box["x"] + (0.8 + 0.02 * step) * box["width"], box["y"] + box["height"] / 2)
        places.add(page.evaluate(DOT))
        sets.add((page.locator(".reached").inner_text(), *lists(page)[0]))
    caption = page.locator(".frontier-scrub output").inner_text()
    assert len(sets) > 3, "the set beside the chart follows"
    assert (
        len(places) > 5
        and len(sent) == n_sent_before
        and re.fullmatch(r"λ 0\.\d\d · Recall [\d.]+% · ILAD 0\.\d{3}", caption)
    )
    page.mouse.up()
    shown_documents = lists(page)[0]
    value = float(re.match(r"λ (\S+)", caption).group(1))
    page.get_by_test_id("stMain").locator("strong", has_text=f"MMR · λ {value:g}").first.wait_for(timeout=WAIT)
    assert len(sent) == n_sent_before + 1
    idle(page)
    assert lists(page)[0] == shown_documents, "the engine's own answer is what was drawn"
    handle.press("ArrowLeft")
    then = f"MMR · λ {value - 0.01:.2f}".rstrip("0")
    page.get_by_test_id("stMain").locator("strong", has_text=then).first.wait_for(timeout=WAIT)
    handle.press("Home")
    until(page, lambda: page.locator(".frontier-dot.outside").count() == 1)
    plot, dot = (page.locator(selector).first.bounding_box() for selector in (PLOT, ".frontier-dot"))
    assert plot["x"] < dot["x"] < plot["x"] + plot["width"] and plot["y"] < dot["y"] < plot["y"] + plot["height"]


def test_a_click_on_a_bar_asks_its_query(page, server):
    open_measured_page(page, server)
    bars = page.locator(".st-key-tradeoff-wins, [class*=st-key-tradeoff]").locator(PLOT).last
    bars.scroll_into_view_if_needed()
    bar_position = page.evaluate(
        f"""() => {{ const plot = [...document.querySelectorAll('{PLOT}')].at(-1), box = plot.getBoundingClientRect();
        const {{xaxis, yaxis, _size}} = plot._fullLayout, y = plot.data[0].y;
        return [box.x + _size.l + xaxis.d2p(y.length), box.y + _size.t + yaxis.d2p(y.at(-1) / 2), y.length]; }}"""
    )
    page.mouse.click(*bar_position[:2])
    until(page, lambda: page.get_by_text(f"{bar_position[2]} of {bar_position[2]} · Recall −").count() == 1)
