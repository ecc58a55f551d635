"""One server, one browser, and pages that fail on what they log as an error or ask of other hosts."""

import re
from contextlib import suppress

import pytest

import engine
from support import warm_home
from support.browser import CHROMIUM, WAIT, Server, Stand

NARROW = (0.002, 0.009)
"""A thumb down takes .01 from a score: a lead between these it turns round, whatever rounding does."""


LONGEST = 2000
"""Characters of a page that a failure shows."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Add the text of every open page to the report of a failure."""
    report = yield
    browser = item.funcargs.get("browser")
    if report.when == "call" and report.failed and browser is not None:
        for page in (page for context in browser.contexts for page in context.pages):
            with suppress(Exception):  # a page that hangs says nothing
                report.sections.append((page.url, page.locator("body").inner_text(timeout=2000)[:LONGEST]))
    return report


@pytest.fixture(scope="package")
def stand(warm, tmp_path_factory):
    """Share one server and browser among all tests here; replace either after a test that ended it.

    Both end with the last test here: while Playwright runs, asyncio.run() fails on its thread.
    """
    from playwright.sync_api import sync_playwright

    if CHROMIUM is None:
        pytest.fail("CI needs a chromium for the tests of the page")
    with sync_playwright() as playwright:
        new_stand = Stand(lambda: Server(warm_home.copy(tmp_path_factory.mktemp("served") / "home")), playwright)
        yield new_stand
        printed = new_stand.close()
    assert not any(word in printed for word in ("Traceback", "Aborted", "please restart")), printed


@pytest.fixture
def server(stand):
    return stand.server.url


@pytest.fixture
def browser(stand):
    return stand.browser


@pytest.fixture(params=["light"])
def page(request, browser, stand):
    """A page of its own session; whatever it logs as an error, or asks of another host, fails the test."""
    if "server" not in request.fixturenames:
        yield from _page(browser, request.param)
        return
    request.getfixturevalue("server")
    with stand.guard_against_silence():
        yield from _page(browser, request.param)


@pytest.fixture(scope="module")
def lasting_page(stand):
    """A page that tests of a file share: each has to leave it, or to find it, as it needs it."""
    assert stand.server.url
    browser = stand.browser
    with stand.guard_against_silence():
        yield from _page(browser, "light")


def _page(browser, scheme):
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme=scheme)
    # Playwright's own 30 s are too few while a server embeds and compiles on a busy machine.
    context.set_default_timeout(WAIT)
    page = context.new_page()
    page.scheme = scheme
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
    assert not wrong, wrong


@pytest.fixture(scope="module")
def narrow(demo):
    """(split, query's id, the first two titles) of a labelled query whose first result leads by little."""
    dataset, space = demo
    split = next(iter(dataset.qrels))
    queries = dataset.judged(split)
    vectors = engine.embed(queries)
    ranking = engine.decode(engine.Decoder(engine.make("top_k")), space, vectors, k=2)
    leads = (ranking.gain[:, 0] - ranking.gain[:, 1]).tolist()
    index = next(i for i, lead in enumerate(leads) if NARROW[0] < lead < NARROW[1])
    titles = [space.corpus.titles[row] or space.corpus.texts[row] for row in ranking.index[index].tolist()]
    return split, queries.ids[index], titles
