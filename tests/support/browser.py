"""Steps of tests and benches on a page in a real browser, and the server behind it."""

import os
import shutil
import signal
import socket
import tempfile
import threading
import time
import urllib.request
from contextlib import contextmanager

import pytest

from support import fork_server
from support.draws import deepen
from support.patience import PATIENCE, patient

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MARKS = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason="needs a chromium"),
]
BOTH_SCHEMES = pytest.mark.parametrize("page", deepen(["light", "dark"], ["dark"]), indirect=True)
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
COLUMNS = """name => [...document.querySelectorAll('[data-testid=stDataFrame] table')].map(grid => {
    const at = [...grid.querySelectorAll('thead th')].map(h => h.textContent.trim()).indexOf(name);
    return at < 0 ? [] : [...grid.querySelectorAll('tbody tr')].map(r => r.children[at].textContent.trim());
})"""
"""The cells of a column in each table from the grids' accessible twins; none where it is not there."""
ROOTS = "[...document.querySelectorAll('*')].map(node => node.shadowRoot).filter(Boolean)"
"""The shadow roots in which the views of Explore are drawn."""
LISTS = f"""() => {ROOTS}.flatMap(root => [...root.querySelectorAll('.list')]).map(list =>
    [...list.querySelectorAll('.document[data-rank]')].sort((a, b) => a.dataset.rank - b.dataset.rank)
        .map(row => [row.querySelector('.name').title,
            Number(row.querySelector('.score').textContent.replace('−', '-')),
            row.querySelector('.tag').textContent]))"""
"""The ranked lists: (document, score, tag) of each row."""
LISTS_DRAWN = f"""() => {{
    const views = {ROOTS}, lists = views.flatMap(root => [...root.querySelectorAll('.list')]);
    return lists.length > 0 && lists.length === (globalThis.frontier?.shown?.decoders.length ?? -1)
        && lists.every(list => list.querySelector('.document[data-rank]'));
}}"""
SILENCE_LIMIT_S = patient(120)
"""Seconds after which a silent server counts as gone."""
LASTING = 15
"""Seconds for which a finding that is there has to stay."""
STREAMLIT_RULES = ("presentation-role-conflict", "region")
"""Rules that Streamlit's own parts break: the box for uploads, and the places of popovers."""
MIN_TEXT_PX = 12
SMALL_TEXTS = f"""() => {{
    const isText = child => child.nodeType === 3 && child.textContent.trim();
    const own = node => [...node.childNodes].filter(isText).map(child => child.textContent.trim()).join("");
    const roots = [document, ...{ROOTS}], found = new Set();
    for (const node of roots.flatMap(root => [...root.querySelectorAll("body *, .scrub *")])) {{
        if (!own(node) || ["SCRIPT", "STYLE"].includes(node.tagName)) continue;
        const {{ width, height }} = node.getBoundingClientRect(), style = getComputedStyle(node);
        const matrix = node instanceof SVGElement && node.getScreenCTM?.();
        const scale = matrix ? Math.hypot(matrix.a, matrix.b) : 1;
        const size = parseFloat(style.fontSize) * scale;
        if (width && height && style.visibility !== "hidden" && size < {MIN_TEXT_PX} - .05)
            found.add(`${{size.toFixed(1)}} px: ${{own(node).slice(0, 40)}}`);
    }}
    return [...found];
}}"""
ROOT = tempfile.gettempdir()
"""Where the tests' files lie."""
START = "import sys; from dashboard.serve import main; sys.argv[0] = 'frontier'; main()"


class Server:
    """A dashboard of its own on a free port, which answers.

    code: what its process runs; base: its base path; root: where typed paths may lie, None for its default
    """

    def __init__(self, home, *flags, code=START, base="", root=ROOT, **variables):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}{base}"
        flags = (*flags, "--base-path", base) if base else flags
        flags = (*flags, "--root", root) if root else flags
        self.process = fork_server.start_python(
            code, ["serve", "--no-browser", "--port", str(port), *flags], FRONTIER_HOME=str(home), **variables
        )
        end = time.monotonic() + patient(60)
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                raise AssertionError(f"the server did not answer:\n{self.process.stdout.read()}")
            time.sleep(0.02)

    def answers(self):
        """Return True if its health check answers."""
        try:
            return urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=2).status == 200
        except OSError:
            return False

    def close(self):
        """End it by Ctrl-C and return what it printed."""
        self.process.send_signal(signal.SIGINT)
        try:
            status = self.process.wait(patient(60))
        finally:
            self.process.kill()
        printed = self.process.stdout.read()
        # On a busy machine a page may still compute after the seconds of grace, and then the server says so.
        assert status == 0 or (status == 130 and "Ended by force" in printed), "Ctrl-C must end the server cleanly"
        return printed


@contextmanager
def chromium(count=1):
    """Open headless browsers without a GPU."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browsers = [
            playwright.chromium.launch(executable_path=CHROMIUM, chromium_sandbox=False, args=FLAGS)
            for _ in range(count)
        ]
        yield browsers
        for browser in browsers:
            browser.close()


class Stand:
    """A server and a browser for tests, each started anew where the one before is gone.

    begin: starts a Server; playwright: started
    """

    def __init__(self, begin, playwright):
        self._begin, self._playwright = begin, playwright
        self._server = self._browser = None

    @property
    def server(self):
        """A server that answers."""
        if self._server is not None and not self._server.answers():
            self._server.process.kill()
            self._server = None
        self._server = self._server or self._begin()
        return self._server

    @property
    def browser(self):
        """A browser that is connected."""
        if self._browser is None or not self._browser.is_connected():
            self._browser = self._playwright.chromium.launch(
                executable_path=CHROMIUM, chromium_sandbox=False, args=FLAGS
            )
            process_info = self._browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
            self._pid = next(process["id"] for process in process_info if process["type"] == "browser")
        return self._browser

    @contextmanager
    def guard_against_silence(self, seconds=SILENCE_LIMIT_S):
        """End the browser if the server ends or is silent for `seconds`: a test that waits for a page then fails."""
        done, server, pid = threading.Event(), self._server, self._pid

        def end_when_silent():
            heard = time.monotonic()
            while server is not None and not done.wait(min(1.0, seconds / 10)):
                if server.answers():
                    heard = time.monotonic()
                elif server.process.poll() is not None or time.monotonic() - heard > seconds:
                    os.kill(pid, signal.SIGKILL)
                    return

        thread = threading.Thread(target=end_when_silent, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def close(self):
        """End both and return what the server printed, "" without one."""
        if self._browser is not None and self._browser.is_connected():
            self._browser.close()
        return "" if self._server is None else self._server.close()


def open_page(browser, url, **how):
    """Open a page of a visitor of its own."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}, **how).new_page()
    page.goto(url)
    return page


def columns(page, name):
    """Return the cells of a column, of every table that has it."""
    return [cells for cells in page.evaluate(COLUMNS, name) if cells]


def column(page, table, name):
    """Return the cells of a column of the nth table; none before it is drawn."""
    return dict(enumerate(page.evaluate(COLUMNS, name))).get(table, [])


def lists(page):
    """Return the documents of each ranked list."""
    return [[name for name, _, _ in rows] for rows in page.evaluate(LISTS)]


def scores(page):
    """Return the scores of the first ranked list."""
    return [score for _, score, _ in next(iter(page.evaluate(LISTS)), [])]


def tags(page):
    """Return the tags of each ranked list."""
    return [[tag for _, _, tag in rows] for rows in page.evaluate(LISTS)]


READ_DIVERSITY = "which => { const set = frontier.shown?.decoders[which]?.set; return set && [set.diversity]; }"


def diversity(page, which):
    """Return the ILAD of the set in the nth tile, which has none while the server's answer is on its way."""
    (value,) = page.wait_for_function(READ_DIVERSITY, arg=which, timeout=WAIT).json_value()
    return value


def until(page, condition):
    """Wait until a condition on the page holds; an element that is not drawn yet fails it."""
    from playwright.sync_api import Error

    obstacle = None
    for _ in range(WAIT // 100):
        try:
            if condition():
                return
            obstacle = None
        except (ValueError, AssertionError, LookupError, Error) as error:
            # The wait fails by itself when the page has closed.
            obstacle = error
        page.wait_for_timeout(100)
    pytest.fail(f"the page never came to show it{f': {obstacle}' if obstacle else ''}")


def fill_path(page, file):
    """Name a table or folder of this machine on the Data page."""
    page.get_by_text("Path", exact=True).click()
    box = page.get_by_label("File or folder on this machine")
    box.fill(str(file))
    box.press("Enter")


def ask_by(page, kind):
    """Choose the kind of query."""
    page.locator(".st-key-header-kind button").first.click()
    page.get_by_test_id("stPopoverBody").get_by_role("radio", name=kind, exact=True).click()
    page.keyboard.press("Escape")
    page.get_by_test_id("stPopoverBody").wait_for(state="hidden", timeout=WAIT)


def type_query(page, text):
    page.get_by_label("Your query").fill(text)
    page.get_by_label("Your query").press("Enter")


def choose(page, label, option):
    """Open a select box and take an option, by their texts."""
    page.get_by_test_id("stSelectbox").filter(has_text=label).locator("input").first.click()
    page.get_by_role("option", name=option, exact=isinstance(option, str)).click()


def slider(page, label="MMR λ"):
    return page.get_by_role("slider", name=label).first


def slide(page, key, label="MMR λ"):
    slider(page, label).focus()
    slider(page, label).press(key)


def view(page, name):
    """Choose a view of the page."""
    page.get_by_test_id("stMain").get_by_role("radio", name=name, exact=True).click()


def idle(page):
    """Wait until no script runs."""
    page.wait_for_timeout(300)
    page.get_by_test_id("stStatusWidget").wait_for(state="hidden", timeout=WAIT)


def settle(page):
    """Wait until the ranked lists are drawn, and no script runs."""
    page.wait_for_function(LISTS_DRAWN, timeout=WAIT)
    idle(page)


def findings(page):
    """Return the findings that last; one that goes when the script has ended does not count."""
    lasting = _findings(page)
    end = time.monotonic() + patient(LASTING)
    while lasting and time.monotonic() < end:
        page.wait_for_timeout(500)
        current = _findings(page)
        lasting = [finding for finding in lasting if finding in current]
    return lasting


def _findings(page):
    """Return rule, selector and help of each finding, best practices too; Streamlit's own chrome is its own."""
    from axe_playwright_python.sync_playwright import Axe

    violations = Axe().run(page).response["violations"]
    return [
        f"{rule['id']}: {node['target']} {node['failureSummary'].splitlines()[-1].strip()}"
        for rule in violations
        if rule["id"] not in STREAMLIT_RULES
        for node in rule["nodes"]
    ]


def chip(page):
    """Return the fingerprints in the header: of the corpus and, with feedback on, of its changed vectors."""
    page.locator(".st-key-header-corpus button").first.click()
    body = page.get_by_test_id("stPopoverBody")
    body.locator("code").first.wait_for(timeout=WAIT)
    fingerprints = body.locator("code").all_inner_texts()
    page.keyboard.press("Escape")
    body.wait_for(state="hidden", timeout=WAIT)
    return fingerprints


def read_first(page):
    """Open the first document of the first list."""
    page.locator(".list").first.locator(".document[data-rank='1'] .name").click()
    page.locator(".st-key-reading .st-key-vote-down button").first.wait_for(timeout=WAIT)
