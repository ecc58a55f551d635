"""Every page over data whose ids, texts and names try to be markup, links, formulas or marks of direction."""

import time
import urllib.request
from contextlib import suppress
from urllib.parse import urlencode

import pytest

from dashboard.explore.page import VIEWS
from dashboard.explore.results import LISTS, TABLE
from dashboard.server import HEALTH_PATH
from dashboard.session.view_names import RESULTS
from dashboard.sharing.dialogs import EXPORT, LINK
from dashboard.sharing.dialogs import VIEWS as SAVED
from dashboard.theory.page import GROUPS
from support import hostile, warm_home
from support.browser import MARKS, WAIT, Server, ask_by, idle, read_first, settle, type_query, until, view
from support.cli import run
from support.draws import deepen, examples
from support.patience import patient

pytestmark = MARKS
PLOT = ".js-plotly-plot"
ACTING = """() => {
    const roots = [document, ...[...document.querySelectorAll('*')].map(node => node.shadowRoot).filter(Boolean)];
    const away = url => { const to = new URL(url, location.href);
        return !['blob:', 'data:'].includes(to.protocol) && to.host !== location.host; };
    const made = node => {
        const address = node.href?.baseVal ?? node.href ?? node.src?.baseVal ?? node.src ?? node.data ?? '';
        const own = [...node.childNodes].filter(child => child.nodeType === 3).map(child => child.data.trim()).join('');
        return (/^(a|area|img|image|iframe|object|embed|script|link|video|audio|source|use|form)$/.test(node.localName)
                && typeof address === 'string' && address && (away(address) || node.getAttribute('src') === 'x'))
            || [...node.attributes].some(one => /^on/.test(one.name) && /alert/.test(one.value))
            || (node.localName === 'script' && node.textContent.trim().startsWith('alert(1)'))
            || (/^(a|b|strong|em|i|del|s|code|h[1-6]|pre|tspan)$/.test(node.localName)
                && ['bold', 'code', 'gone', 'link', 'picture', 't', 'fence', 'item'].includes(own))
            || (/bold/.test(node.getAttribute('style') ?? '') && own === 'bold')
            || (node.matches('.katex, math') && /[xy]/.test(node.textContent))
            || (node.matches('[data-testid=stIconMaterial]') && own === 'home')
            || (node.matches('.stMarkdownColoredText') && own === 'x');
    };
    // What fills a block turns nothing beside it.
    const alone = (node, text) => {
        for (let box = node; box; box = box.parentElement)
            if (!getComputedStyle(box).display.startsWith('inline')) return box.textContent.trim() === text.trim();
        return false;
    };
    const steering = /[\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\x80-\\x9f]/;
    const found = [];
    for (const node of roots.flatMap(root => [...root.querySelectorAll('body *, :host > *, *')])) {
        if (made(node)) found.push(`made of data: ${node.outerHTML.slice(0, 300)}`);
        if (/^(script|style|title)$/.test(node.localName)) continue;
        for (const child of node.childNodes)
            if (child.nodeType === 3 && steering.test(child.data) && !alone(node, child.data))
                found.push(`steers: ${JSON.stringify(child.data.slice(0, 200))} in ${node.outerHTML.slice(0, 200)}`);
    }
    return [...new Set(found)];
}"""
"""What on a page acts, or turns what stands beside it, because of the data."""
POINTS = f"""() => {{
    const plot = document.querySelector('{PLOT}'), box = plot.getBoundingClientRect();
    const {{xaxis, yaxis}} = plot._fullLayout;
    return plot._fullData.filter(t => t.x && t.y && t.visible === true && xaxis?.d2p).flatMap(t => Array.from(t.x,
        (x, i) => [box.x + xaxis._offset + xaxis.d2p(x), box.y + yaxis._offset + yaxis.d2p(t.y[i])]))
        .filter(([x, y]) => x > box.x && y > box.y && x < box.right && y < box.bottom);
}}"""


MAX_POINTS = examples(60)
"""How many points of a plot the mouse visits."""


@pytest.fixture(scope="module")
def hostile_server(warm, tmp_path_factory):
    """A server over such a corpus, and the address of its first page."""
    path = tmp_path_factory.mktemp("hostile")
    corpus = hostile.folder(path / hostile.to_file_name(hostile.MARKUP[1] + hostile.STEERED[3]))
    server = Server(warm_home.copy(path / "home"), "--corpus", str(corpus))
    end = time.monotonic() + patient(300)
    while not _is_loaded(server.url) and time.monotonic() < end:
        time.sleep(0.2)
    yield server.url
    printed = server.close()
    assert "Traceback" not in printed and hostile.find_control_characters(printed) == [], printed


def _is_loaded(url):
    with suppress(OSError):
        return urllib.request.urlopen(f"{url}{HEALTH_PATH}", timeout=5).status == 200


@pytest.fixture
def assert_nothing_acts(page):
    """Fails on dialogs, and gives what asserts that nothing acts on the page as it is now."""
    dialogs = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))

    def check(where):
        assert dialogs == [] and page.evaluate(ACTING) == [], where

    yield check
    assert dialogs == []


def hover_over_points(page, assert_nothing_acts):
    """Look at what every point of the first plot says."""
    page.locator(PLOT).first.scroll_into_view_if_needed()
    hover_texts = set()
    for x, y in page.evaluate(POINTS)[:MAX_POINTS]:
        page.mouse.move(x, y)
        page.wait_for_timeout(60)
        hover_texts |= set(page.locator(".hoverlayer text").all_text_contents())
        assert_nothing_acts(f"hover: {sorted(hover_texts)[-1:]}")
    return hover_texts


def visit_explore(page, assert_nothing_acts, url):
    page.goto(url)
    settle(page)
    for name in (*VIEWS, RESULTS, TABLE):
        view(page, name)
        idle(page)
        page.wait_for_timeout(500)
        assert_nothing_acts(name)
        if name == TABLE:
            # Streamlit's CSV would hold live formulas; its other buttons stay.
            page.get_by_test_id("stDataFrame").first.hover()
            page.get_by_role("button", name="Search").first.wait_for(timeout=WAIT)
            assert not page.get_by_role("button", name="Download as CSV").count()
    view(page, LISTS)
    settle(page)
    for row in page.locator(".list .document[data-rank]").all()[:12]:
        row.hover()
        assert_nothing_acts("list")
    read_first(page)
    assert_nothing_acts("reading")
    page.locator(".st-key-reading").get_by_role("button").first.press("Escape")
    ask_by(page, "Your own")
    type_query(page, " ".join(hostile.MARKUP[:5]))
    settle(page)
    assert_nothing_acts("typed")


def visit_map(page, assert_nothing_acts, url):
    page.goto(f"{url}/?{urlencode({'v': 1, 'view': 'Map'})}")
    page.locator(PLOT).first.wait_for(timeout=WAIT)
    page.get_by_text("t-SNE, perplexity").wait_for(timeout=WAIT)
    idle(page)
    assert len(hover_over_points(page, assert_nothing_acts)) > 5


def visit_dialogs(page, assert_nothing_acts, url):
    page.goto(url)
    settle(page)
    for option in (LINK, EXPORT, SAVED):
        page.locator(".st-key-header-share button").first.click()
        page.get_by_role("menuitem", name=option).click()
        dialog = page.get_by_role("dialog")
        dialog.wait_for(timeout=WAIT)
        idle(page)
        if option == SAVED:
            for name in (hostile.MARKUP[0], hostile.MARKUP[2] + hostile.STEERED[3]):
                dialog.get_by_label("Name", exact=True).fill(name)
                dialog.get_by_role("button", name="Save view").click()
                dialog.get_by_text("✓ Saved").wait_for(timeout=WAIT)
                idle(page)
            dialog.get_by_test_id("stSelectbox").last.locator("input").click()
            page.get_by_role("option").first.wait_for(timeout=WAIT)
            assert_nothing_acts("saved views, open")
            page.keyboard.press("Escape")
        assert_nothing_acts(option)
        page.keyboard.press("Escape")
        dialog.wait_for(state="hidden", timeout=WAIT)


def visit_data(page, assert_nothing_acts, url):
    page.goto(f"{url}/data")
    page.get_by_text("Built in").wait_for(timeout=WAIT)
    page.get_by_text("Upload", exact=True).click()
    rows = "\n".join(f'"{name}","text {name}"'.replace('""', '"') for name in (hostile.MARKUP[0], hostile.FORMULA))
    table = f'"{hostile.MARKUP[2]}","{hostile.MARKUP[0]}"\n{rows}\n'
    files = {"name": hostile.to_file_name(hostile.MARKUP[0]) + ".csv", "mimeType": "text/csv", "buffer": table.encode()}
    page.locator("input[type=file]").set_input_files(files)
    page.get_by_text("Text column").wait_for(timeout=WAIT)
    idle(page)
    assert_nothing_acts("upload")
    for head in page.locator("details summary").all():
        head.click()
        idle(page)
    assert_nothing_acts("open")


def visit_tradeoff(page, assert_nothing_acts, url):
    page.goto(f"{url}/tradeoff")
    page.locator(PLOT).first.wait_for(timeout=3 * WAIT)
    until(page, lambda: page.get_by_role("button", name="Cancel").count() == 0)
    idle(page)
    hover_over_points(page, assert_nothing_acts)
    page.get_by_text("Setup", exact=True).click()
    assert_nothing_acts("setup")


def visit_tune(page, assert_nothing_acts, url):
    page.goto(f"{url}/tune")
    page.get_by_role("button", name="Run", exact=True).wait_for(timeout=WAIT)
    for box in page.get_by_test_id("stSelectbox").locator("input").all():
        box.click()
        page.wait_for_timeout(300)
        assert_nothing_acts("options")
        page.keyboard.press("Escape")
    assert_nothing_acts("tune")


def visit_drift(page, assert_nothing_acts, url):
    page.goto(f"{url}/drift")
    page.locator(PLOT).first.wait_for(timeout=3 * WAIT)
    until(page, lambda: page.get_by_role("button", name="Cancel").count() == 0)
    idle(page)
    for name in page.get_by_test_id("stMain").get_by_role("radio").all_inner_texts():
        view(page, name)
        idle(page)
        assert_nothing_acts(name)
        if name == "Map":
            page.locator(PLOT).first.wait_for(timeout=WAIT)
            hover_over_points(page, assert_nothing_acts)


def visit_theory(page, assert_nothing_acts, url):
    page.goto(f"{url}/theory")
    page.locator(PLOT).first.wait_for(timeout=3 * WAIT)
    for group, views in GROUPS.items():
        for name in views:
            page.get_by_text(group, exact=True).click()
            page.get_by_text(name, exact=True).click()
            idle(page)
            assert_nothing_acts(name)


@pytest.mark.threat("markup in the HTML report", "0 requests elsewhere, 0 dialogs, 0 elements made of data")
def test_nothing_in_data_acts_in_the_report(page, assert_nothing_acts, warm, tmp_path):
    corpus = hostile.folder(tmp_path / hostile.to_file_name(hostile.MARKUP[0]))
    run_file, store, file = hostile.write_run(tmp_path), tmp_path / "sweep.db", tmp_path / "report.html"
    about = ("--corpus", str(corpus), "-k", "3")
    run("sweep", *about, "--select", "top_k", "--select", "mmr", "--points", "3", "--store", str(store))
    run("report", str(store), *about, "--by", "kind", "--run", str(run_file), "--out", str(file))
    page.set_content(file.read_text("utf-8"))
    page.locator(PLOT).first.wait_for(timeout=WAIT)
    assert_nothing_acts("report")
    assert hover_over_points(page, assert_nothing_acts)
    assert hostile.MARKUP[0] in page.locator("body").inner_text(), "names are shown as they are"


@pytest.mark.threat(
    "markup, links, formulas and marks of direction in ids, texts and names, on every page",
    "0 requests elsewhere, 0 dialogs, 0 elements made of data, nothing beside it turned",
)
@pytest.mark.parametrize(
    "visit",
    deepen(
        [visit_explore, visit_map, visit_dialogs, visit_data, visit_tradeoff, visit_tune, visit_drift, visit_theory],
        [visit_map, visit_dialogs, visit_tradeoff, visit_tune, visit_drift, visit_theory],
    ),
)
def test_nothing_in_data_acts_on_a_page(page, hostile_server, assert_nothing_acts, visit):
    visit(page, assert_nothing_acts, hostile_server)
