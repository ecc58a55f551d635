"""A server of its own, a real browser, and pages that fail on what they log as an error or ask of other hosts."""

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
MARKS = [
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
