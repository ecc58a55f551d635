"""Below a base path: sliders, charts, links and another corpus of the server, from first to last by its addresses."""

import re

import pytest

from dashboard.sharing.dialogs import LINK
from support import warm_home
from support.browser import MARKS, WAIT, Server, diversity, settle, slide, slider, until, view

pytestmark = MARKS
BASE = "/frontier/api"


@pytest.fixture(scope="module")
def below(warm, tmp_path_factory):
    """The address of a server whose pages lie below a path, and the path of its second corpus."""
    folder = tmp_path_factory.mktemp("below")
    table = folder / "things.csv"
    table.write_text("id,text\n" + "".join(f"{i},thing number {i} of a kind\n" for i in range(30)))
    home = warm_home.copy(folder / "home")
    server = Server(home, "--corpus", "numpy-api", "--corpus", str(table), base=BASE)
    yield server.url, table
    printed = server.close()
    assert "Traceback" not in printed, printed
    assert printed.startswith(f"Frontier is at {server.url}\nFolder: {home}\nCtrl-C ends it.\n"), printed


def test_below_a_base_path_sliders_and_charts_work(below, page):
    url, _table = below
    requested_urls = []
    page.on("request", lambda request: requested_urls.append(request.url))
    page.goto(url)
    settle(page)
    old_diversity = diversity(page, 1)
    slide(page, "PageUp")
    until(page, lambda: diversity(page, 1) != old_diversity)
    settle(page)
    view(page, "Redundancy")
    page.locator(".main-svg").first.wait_for(timeout=WAIT)
    kinds = rf"{url}/(module|vendor|answers)/"
    until(page, lambda: len({match[1] for url_ in requested_urls if (match := re.match(kinds, url_))}) == 3)
    root = url.removesuffix(BASE)
    assert not [url_ for url_ in requested_urls if url_.startswith(root) and not url_.startswith(url)]


@pytest.mark.deep  # one page asks for all kinds of addresses in every run
def test_below_a_base_path_links_and_another_corpus_work(below, page, browser):
    url, table = below
    page.goto(url)
    settle(page)
    slide(page, "PageUp")
    settle(page)
    view(page, "Redundancy")
    page.locator(".main-svg").first.wait_for(timeout=WAIT)
    page.locator(".st-key-header-share button").first.click()
    page.get_by_role("menuitem", name=LINK).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Opens this page").wait_for(timeout=WAIT)
    link = dialog.locator("code").inner_text().replace("\n", "")
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden", timeout=WAIT)
    assert link.startswith(url)
    second_page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    second_page.set_default_timeout(WAIT)
    second_page.goto(link)
    second_page.locator(".main-svg").first.wait_for(timeout=WAIT)
    until(second_page, lambda: slider(second_page).input_value() == slider(page).input_value())
    until(second_page, lambda: diversity(second_page, 1) == diversity(page, 1))
    second_page.goto(f"{url}/data?corpus={table}")
    second_page.get_by_text("30 documents").first.wait_for(timeout=WAIT)
    second_page.context.close()
