"""A thumb from Explore on the Drift page: recorded, shown then and now, taken back there, and all as it was."""

from urllib.parse import urlencode

import pytest

from support.browser import MARKS, WAIT, chip, first_set, read_first, scores, until

pytestmark = MARKS


def column(page, head):
    """The cells of that column of the first table that has it."""
    return page.evaluate(
        """head => {
            for (const grid of document.querySelectorAll('[data-testid=stDataFrame] table')) {
                const heads = [...grid.querySelectorAll('thead th')].map(h => h.textContent.trim());
                const at = heads.indexOf(head);
                if (at >= 0) return [...grid.querySelectorAll('tbody tr')].map(r => r.children[at].textContent.trim());
            }
            return [];
        }""",
        head,
    )


def view(page, name):
    page.get_by_test_id("stMain").get_by_role("radio", name=name, exact=True).click()


@pytest.mark.parametrize("page", ["light"], indirect=True)
def test_the_drift_page_records_a_thumb_and_undo_there_brings_back_what_was(page, server, narrow):
    split, query, titles = narrow
    asked = {"v": 1, "corpus": "numpy-api", "split": split, "query": query, "decoders": "top_k,mmr"}
    page.goto(f"{server}/?{urlencode(asked)}")
    until(page, lambda: first_set(page, "Document")[:2] == titles and len(scores(page)) == 10)
    order, before, (fingerprint,) = first_set(page, "Document"), scores(page), chip(page)
    read_first(page)
    page.get_by_role("button", name="Bad").click()
    until(page, lambda: first_set(page, "Document")[:2] == titles[::-1])

    page.get_by_role("link", name="Drift").click()
    page.get_by_text("after record 1").wait_for(timeout=WAIT)
    page.locator(".js-plotly-plot").first.wait_for(timeout=WAIT)
    view(page, "Then and now")
    until(page, lambda: column(page, "Change")[:2] == ["▲1", "▼1"])
    view(page, "Map")
    page.locator(".js-plotly-plot").first.wait_for(timeout=WAIT)
    view(page, "Feedback")
    until(page, lambda: column(page, "Said") == ["thumb down"])
    assert chip(page)[1] != fingerprint
    page.get_by_role("button", name="Undo the last").click()
    until(page, lambda: column(page, "Status") == ["undone"] and chip(page) == [fingerprint, fingerprint])

    page.get_by_role("link", name="Explore").click()
    until(page, lambda: first_set(page, "Document") == order and scores(page) == before)
