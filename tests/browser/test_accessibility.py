"""Every page against axe-core, best practices too, light or dark, wide or narrow; and no text too small to read."""

import pytest

from support.browser import BOTH_SCHEMES, MARKS, SMALL_TEXTS, WAIT, findings, idle, read_first, settle, until, view
from support.draws import deepen

pytestmark = MARKS
PAGES = ["", "tradeoff", "tune", "drift", "theory", "evidence", "data"]


@BOTH_SCHEMES
@pytest.mark.parametrize("name", deepen(PAGES, ["tune", "drift", "evidence"]))
def test_no_finding_and_no_small_text(page, server, name):
    page.goto(f"{server}/{name}")
    page.get_by_test_id("stMain").wait_for(timeout=WAIT)
    if not name:
        page.locator(".tile canvas").first.wait_for(timeout=WAIT)
    if name == "drift":  # what a job draws anew fades meanwhile
        page.locator(".js-plotly-plot").first.wait_for(timeout=2 * WAIT)
        until(page, lambda: page.get_by_role("button", name="Cancel").count() == 0)
    page.wait_for_timeout(1500)
    idle(page)
    assert not findings(page) and not page.evaluate(SMALL_TEXTS)
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(500)
    idle(page)
    assert not findings(page) and not page.evaluate(SMALL_TEXTS)
    # The navigation is one button there, and the page's name stands beside it.
    title, button = page.locator("h1.frontier-title"), page.get_by_test_id("stExpandSidebarButton")
    box, beside = title.bounding_box(), button.bounding_box()
    assert title.inner_text() and 0 < box["x"] - beside["x"] - beside["width"] < 20
    assert abs(box["y"] + box["height"] / 2 - beside["y"] - beside["height"] / 2) < 3


@pytest.mark.deep
def test_no_finding_in_other_views_and_popovers(page, server):
    page.goto(f"{server}/data")
    for name in ("Judge", "Encoders", "Cache"):
        view(page, name)
        idle(page)
        assert not findings(page) and not page.evaluate(SMALL_TEXTS), name
    page.goto(server)
    settle(page)
    read_first(page)
    idle(page)
    assert not findings(page) and not page.evaluate(SMALL_TEXTS)
    page.locator(".st-key-explore-settings button").first.click()
    page.get_by_test_id("stPopoverBody").wait_for(timeout=WAIT)
    idle(page)
    assert not findings(page) and not page.evaluate(SMALL_TEXTS)


def test_lambda_is_a_few_tab_stops_away(page, server):
    page.goto(server)
    page.locator(".tile canvas").first.wait_for(timeout=WAIT)
    idle(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to λ"
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.shadowRoot?.activeElement?.ariaLabel === 'MMR λ'", timeout=WAIT)
