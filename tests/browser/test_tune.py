"""Tuning in a real browser: started, cancelled, what is known kept, gone on with, finished, applied to Explore."""

import re

import pytest

from support.browser import MARKS, WAIT, slider, until
from support.demo import demo_counts

pytestmark = MARKS
WORK = 3 * WAIT
"""For what is computed: a busy machine takes ten times as long."""


def number(page, label, value):
    box = page.get_by_test_id("stNumberInput").filter(has_text=label).locator("input")
    box.fill(str(value))
    box.press("Enter")


def run_button(page):
    return page.get_by_role("button", name="Run", exact=True)


def read_progress(page):
    """Read (measured settings, all settings) of a run."""
    counts = re.compile(r"So far: ([\d,]+) of ([\d,]+) settings")
    # The page draws it after the heading.
    page.get_by_text(counts).wait_for(timeout=WAIT)
    match = counts.search(page.inner_text("body"))
    assert match
    return tuple(int(n.replace(",", "")) for n in match.groups())


@pytest.mark.deep  # dashboard/tuning/test_page.py does the same without a browser
def test_cancel_go_on_and_apply(page, server):
    page.goto(f"{server}/tune")
    run_button(page).wait_for(timeout=WAIT)
    # Two parameters and many queries: seconds on a fast machine, so that it can be cancelled, a minute on a busy one.
    page.locator(".st-key-tune-goal input").first.click()
    page.get_by_role("option", name=re.compile("SSD")).click()
    page.get_by_text("Advanced", exact=True).click()
    page.get_by_role("button", name="Window (w)", exact=True).click()
    page.get_by_text(re.compile(r"[1-9]\d\d settings × ")).wait_for(timeout=WAIT)
    n_queries = 120
    number(page, "Query sample", n_queries)
    page.get_by_text(re.compile(rf"[1-9]\d\d settings × {n_queries} queries")).wait_for(timeout=WAIT)

    run_button(page).click()
    page.get_by_text("Cancel", exact=True).wait_for(timeout=WAIT)
    page.get_by_text(re.compile("So far: ")).wait_for(timeout=WORK)
    page.get_by_text("Cancel", exact=True).click()
    page.get_by_text("Stopped. Progress is saved.").wait_for(timeout=WAIT)
    n_measured, total = read_progress(page)
    assert 0 < n_measured < total > 100
    page.locator(".js-plotly-plot").first.wait_for(timeout=WAIT)
    until(page, lambda: page.get_by_text("Cancel", exact=True).count() == 0)

    resume = page.locator(".st-key-tune-on button")
    resume.click()
    resume.wait_for(state="hidden", timeout=WAIT)
    # Another page and back: the work goes on meanwhile.
    page.get_by_role("link", name="Explore").click()
    page.locator(".tile canvas").first.wait_for(timeout=WAIT)
    page.get_by_text("Tune", exact=True).first.click()
    until(page, lambda: page.get_by_text("Code and files", exact=True).count() or read_progress(page)[0] > n_measured)
    page.get_by_text("Code and files", exact=True).wait_for(timeout=WORK)
    page.get_by_text("Table and details", exact=True).click()
    page.get_by_text(re.compile(f"chosen from all {total:,} settings")).wait_for(timeout=WAIT)
    body = page.inner_text("body")
    assert f"A quick look: {n_queries} of {demo_counts()['dev']} queries of dev" in body
    setting = re.search(r"SSD · (?:window \S+ · )?\S+ ([\d.]+)", body).group(1)

    page.get_by_text("Use in Explore", exact=True).first.click()
    page.locator(".tile canvas").first.wait_for(timeout=WAIT)
    weight = slider(page, re.compile("^SSD "))
    until(page, lambda: float((weight.get_attribute("aria-valuetext") or "nan").split(":")[0]) == float(setting))
