"""What tests do with a page in a real browser."""

import os
import shutil

import pytest

from support.patience import PATIENCE

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MARKS = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason="needs a chromium"),
]
BOTH_SCHEMES = pytest.mark.parametrize("page", ["light", "dark"], indirect=True)
"""For tests of what depends on the scheme."""
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WAIT = int(90_000 * PATIENCE)
"""Milliseconds."""
SET = """head => {
    for (const grid of document.querySelectorAll('[data-testid=stDataFrame] table')) {
        const heads = [...grid.querySelectorAll('thead th')].map(h => h.textContent.trim());
        if (!heads.includes('#') || !heads.includes(head)) continue;
        const at = heads.indexOf(head);
        return [...grid.querySelectorAll('tbody tr')].map(r => r.children[at].textContent.trim());
    }
    return [];
}"""


def column(page, table, name):
    """The cells of a column of the nth table, from the grid's accessible twin."""
    return page.evaluate(
        """([table, name]) => {
            const grid = document.querySelectorAll('[data-testid=stDataFrame] table')[table];
            if (!grid) return [];
            const heads = [...grid.querySelectorAll('thead th')].map(h => h.textContent.trim());
            const at = heads.indexOf(name);
            if (at < 0) return [];
            return [...grid.querySelectorAll('tbody tr')].map(r => r.children[at].textContent.trim());
        }""",
        [table, name],
    )


def metric(page, label, which):
    text = (
        page.get_by_test_id("stMetric").filter(has_text=label).nth(which).get_by_test_id("stMetricValue").inner_text()
    )
    return float(text)


def until(page, condition):
    """Wait for what the page shows to come true; what is not drawn yet is not true yet."""
    for _ in range(WAIT // 100):
        try:
            if condition():
                return
        except (ValueError, AssertionError, LookupError):
            pass
        page.wait_for_timeout(100)
    pytest.fail("the page never came to show it")


def load_path(page, server, file):
    """Load a table through the Data page."""
    page.goto(f"{server}/data")
    page.get_by_text("Path", exact=True).click()
    page.get_by_label("File or folder on this machine").fill(str(file))
    page.get_by_label("File or folder on this machine").press("Enter")
    page.get_by_text("Text column").wait_for(timeout=WAIT)
    page.get_by_text("Load and embed").click()


def settled(page):
    page.wait_for_function(
        "document.querySelectorAll('[data-testid=stDataFrame] table tbody tr').length > 12", timeout=WAIT
    )
    page.get_by_test_id("stStatusWidget").wait_for(state="hidden", timeout=WAIT)


def first_set(page, head):
    return page.evaluate(SET, head)


def scores(page):
    return [float(cell) for cell in first_set(page, "Relevance")]


def chip(page):
    """The fingerprints that the sidebar shows: of the corpus, and of what feedback made of it, if it is on."""
    return page.get_by_test_id("stSidebar").locator("code").all_inner_texts()


def read_first(page):
    """Open the first document of the first set: a click on a grid that is being laid out is lost."""
    from playwright.sync_api import TimeoutError

    grid = page.locator(".st-key-ranked-sets [data-testid=stDataFrame]").first
    for _ in range(10):
        box = grid.bounding_box()
        page.mouse.move(box["x"] + 150, box["y"] + 46)
        page.wait_for_timeout(300)
        page.mouse.click(box["x"] + 150, box["y"] + 46)
        try:
            return page.get_by_role("button", name="Bad").wait_for(timeout=5_000)
        except TimeoutError:
            continue
    pytest.fail("the document never opened")
