"""Live feedback in a real browser: a thumb moves a document at once, and undo gives back what was, to the last bit."""

from urllib.parse import urlencode

import pytest
from browser_kit import MARKS, WAIT, browser, page, server, until

import engine

pytestmark = MARKS
NARROW = (0.002, 0.009)
"""A thumb down takes .01 from a score: a lead between these it turns round, whatever rounding does."""
SET = """head => {
    for (const grid of document.querySelectorAll('[data-testid=stDataFrame] table')) {
        const heads = [...grid.querySelectorAll('thead th')].map(h => h.textContent.trim());
        if (!heads.includes('#') || !heads.includes(head)) continue;
        const at = heads.indexOf(head);
        return [...grid.querySelectorAll('tbody tr')].map(r => r.children[at].textContent.trim());
    }
    return [];
}"""


@pytest.fixture(scope="module")
def narrow(demo):
    """(split, query's id, the first two titles) of a labelled query whose first result leads by little."""
    dataset, space = demo
    split = next(iter(dataset.qrels))
    queries = dataset.judged(split)
    vectors = engine.embed(queries)
    ranking = engine.decode(engine.Decoder(engine.make("top_k")), space, vectors, k=2)
    leads = (ranking.gain[:, 0] - ranking.gain[:, 1]).tolist()
    at = next(i for i, lead in enumerate(leads) if NARROW[0] < lead < NARROW[1])
    titles = [space.corpus.titles[row] or space.corpus.texts[row] for row in ranking.index[at].tolist()]
    return split, queries.ids[at], titles


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


@pytest.mark.parametrize("page", ["light"], indirect=True)
def test_a_thumb_down_takes_the_first_result_from_its_place_and_undo_puts_it_back(page, server, narrow):
    split, query, titles = narrow
    asked = {"v": 1, "corpus": "numpy-api", "split": split, "query": query, "decoders": "top_k,mmr"}
    page.goto(f"{server}/?{urlencode(asked)}")
    until(page, lambda: first_set(page, "Document")[:2] == titles and len(scores(page)) == 10)
    order, before = first_set(page, "Document"), scores(page)
    (fingerprint,) = chip(page)
    read_first(page)

    page.get_by_role("button", name="Bad").click()
    until(page, lambda: first_set(page, "Document")[:2] == titles[::-1])
    assert scores(page)[1] == pytest.approx(before[0] - 0.01, abs=0.0011) and scores(page)[0] == before[1]
    page.get_by_text("learned from 1 piece of feedback").wait_for(timeout=WAIT)
    page.get_by_text("Your last: thumb down").wait_for(timeout=WAIT)
    assert chip(page)[0] == fingerprint != chip(page)[1]

    page.get_by_role("button", name="Undo").click()
    until(page, lambda: first_set(page, "Document") == order and scores(page) == before)
    # Equal digests: every vector is as it was, bit by bit.
    until(page, lambda: chip(page) == [fingerprint, fingerprint])
    page.get_by_test_id("stSidebar").get_by_text("Live feedback").click()
    until(page, lambda: chip(page) == [fingerprint] and first_set(page, "Document") == order)
