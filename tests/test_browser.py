"""What a person sees, in a real browser: the demo opens, a query is typed, λ moves, the answer changes."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from conftest import ROOT

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium"),
]
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
WAIT = 90_000


@pytest.fixture(scope="module")
def server():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "dashboard.serve", "--no-browser", "--port", str(port)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ},
    )
    url = f"http://127.0.0.1:{port}"
    for _ in range(300):
        try:
            if urllib.request.urlopen(f"{url}/_stcore/health", timeout=2).status == 200:
                break
        except OSError:
            time.sleep(0.2)
    else:
        process.kill()
        pytest.fail(f"the server did not answer:\n{process.stdout.read()}")
    yield url
    process.send_signal(signal.SIGINT)
    try:
        assert process.wait(30) == 0, "Ctrl-C must end the server cleanly"
    finally:
        process.kill()
    printed = process.stdout.read()
    assert "Traceback" not in printed and "Aborted" not in printed, printed


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, chromium_sandbox=False, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(params=["light", "dark"])
def page(request, browser):
    """A page of its own session; whatever it logs as an error, or asks of another host, fails the test."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme=request.param)
    page = context.new_page()
    page.scheme = request.param
    wrong, strangers = [], []
    page.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: wrong.append(str(e)))
    page.on(
        "request",
        lambda r: strangers.append(r.url) if not re.match(r"(http|ws)://127\.0\.0\.1|data:|blob:", r.url) else None,
    )
    yield page
    context.close()
    assert not strangers, strangers
    # A deep link asks for health and host-config under its own path first, and gets 404 twice.
    assert not [w for w in wrong if "404" not in w], wrong


def column(page, table, name):
    """The cells of a column of the nth table, from the grid's accessible twin."""
    return page.evaluate(
        """([table, name]) => {
            const grid = document.querySelectorAll('[data-testid=stDataFrame] table')[table];
            const heads = [...grid.querySelectorAll('thead th')].map(h => h.textContent.trim());
            const at = heads.indexOf(name);
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
        except (ValueError, AssertionError):
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


def test_type_a_query_slide_and_see_the_set_change(page, server):
    page.goto(server)
    settled(page)
    assert metric(page, "Recall@10", 0) >= 0
    dark = page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", dark)[:3])) < 150) == (page.scheme == "dark"), dark

    page.get_by_text("Typed", exact=True).click()
    page.get_by_label("Your query").fill("sum of the elements ignoring missing values")
    page.get_by_label("Your query").press("Control+Enter")
    page.get_by_text("Without judgements there is no Recall").wait_for(timeout=WAIT)
    settled(page)
    assert page.get_by_test_id("stMetric").filter(has_text="Recall@10").count() == 0
    top, before = column(page, 0, "Document"), column(page, 1, "Document")
    spread = metric(page, "ILAD@10", 1)

    slider = page.locator("[data-testid=stSlider]").filter(has_text="relevance weight").locator("input[type=range]")
    assert slider.count() == 1
    slider.focus()
    slider.press("Home")
    until(page, lambda: metric(page, "ILAD@10", 1) != spread and column(page, 1, "Document") != before)
    assert column(page, 0, "Document") == top, "the baseline must not move with another decoder's slider"
    assert metric(page, "ILAD@10", 1) > spread
    changes = column(page, 1, "Change")
    assert changes[0] == "=" and "NEW" in changes and "DROPPED" in changes


def test_a_click_opens_the_text(page, server):
    page.goto(server)
    settled(page)
    first = column(page, 0, "Document")[0]
    page.get_by_test_id("stDataFrame").first.click(position={"x": 150, "y": 48})
    page.get_by_text(re.compile(r"^numpy\.\S+ · .* when picked · relevance 0\.\d{4}")).first.wait_for(timeout=WAIT)
    assert first in page.inner_text("body")
    # The panel follows the document, not the place in the grid, when the set below changes.
    opened = page.get_by_text(re.compile("when picked")).inner_text().split(" · ")[0]
    slider = page.locator("[data-testid=stSlider]").filter(has_text="relevance weight").locator("input[type=range]")
    slider.focus()
    slider.press("Home")
    until(page, lambda: metric(page, "ILAD@10", 1) > 0.5)
    assert page.get_by_text(re.compile("when picked")).inner_text().split(" · ")[0] == opened


def test_a_reload_comes_back_to_its_corpus(page, server, tmp_path):
    file = tmp_path / f"fruit-{page.scheme}.csv"
    file.write_text("id,text\n007,an apple\n1e5,a pear\nNA,a plum\n", encoding="utf-8")
    load_path(page, server, file)
    page.get_by_text("3 documents").wait_for(timeout=WAIT)
    page.reload()
    page.get_by_text("3 documents").wait_for(timeout=WAIT)


def test_a_deep_link_opens_data_and_lists_the_corpus(page, server):
    page.goto(f"{server}/data")
    page.get_by_text("Load and embed").wait_for(timeout=WAIT)
    page.get_by_text("In use").wait_for(timeout=WAIT)
    body = page.inner_text("body")
    assert "Explore" in body and "Encoders" in body and "Cache" in body


def test_a_path_is_loaded_and_explored(page, server, tmp_path):
    file = tmp_path / "animals.csv"
    file.write_text(
        "id,text\n"
        + "".join(
            f"00{i},a {a} that {v}\n"
            for i, (a, v) in enumerate(
                (a, v) for a in ("cat", "dog", "horse") for v in ("runs", "sleeps", "eats", "jumps")
            )
        ),
        encoding="utf-8",
    )
    load_path(page, server, file)
    page.get_by_text("animals").nth(0).wait_for(timeout=WAIT)
    page.get_by_text("12 documents").wait_for(timeout=WAIT)
    page.get_by_text("Explore", exact=True).click()
    page.get_by_label("Your query").fill("a sleeping cat")
    page.get_by_label("Your query").press("Control+Enter")
    page.wait_for_function(
        "document.querySelectorAll('[data-testid=stDataFrame] table tbody tr').length >= 20", timeout=WAIT
    )
    assert column(page, 0, "Document")[0] == "a cat that sleeps"
