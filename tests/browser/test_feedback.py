"""Live feedback in a real browser: a thumb moves a document at once, Drift records it, undo gives back every bit."""

import re
from urllib.parse import urlencode

import pytest

from support.browser import MARKS, WAIT, chip, columns, idle, lists, read_first, scores, until, view

pytestmark = MARKS


def first(page):
    """The documents of the first list."""
    return lists(page)[0]


# A long run gives votes by the thumbs of a row too, and takes them back where they were given.
@pytest.mark.parametrize(
    "is_brief", [pytest.param(True, id="brief"), pytest.param(False, id="long", marks=pytest.mark.deep)]
)
def test_a_thumb_takes_the_first_result_from_its_place_and_undo_puts_it_back(page, server, narrow, is_brief):
    split, query, titles = narrow
    parameters = {"v": 1, "corpus": "numpy-api", "split": split, "query": query, "decoders": "top_k,mmr"}
    page.goto(f"{server}/?{urlencode(parameters)}")
    until(page, lambda: first(page)[:2] == titles and len(scores(page)) == 10)
    order, first_scores, (fingerprint,) = first(page), scores(page), chip(page)
    read_first(page)
    page.locator(".st-key-vote-down button").first.click()
    until(page, lambda: first(page)[:2] == titles[::-1])
    assert scores(page)[1] == pytest.approx(first_scores[0] - 0.01, abs=0.0011) and scores(page)[0] == first_scores[1]
    page.get_by_text("Your last: less like this").wait_for(timeout=WAIT)
    page.get_by_text(re.compile(r"0\.\d{3} → 0\.\d{3}, #2 instead of #1")).wait_for(timeout=WAIT)
    idle(page)
    fingerprints = chip(page)
    assert fingerprints[0] == fingerprint != fingerprints[1], "what is searched is another corpus"
    thumb = page.locator(".list").first.locator(".document[data-rank='2']").get_by_role("button", name="Less like this")
    assert thumb.get_attribute("aria-pressed") == "true"

    page.get_by_role("link", name="Drift").click()
    page.get_by_text("after record 1").wait_for(timeout=WAIT)
    page.locator(".js-plotly-plot").first.wait_for(timeout=WAIT)
    view(page, "Then and now")
    until(page, lambda: columns(page, "Change")[0][:2] == ["▲1", "▼1"])
    view(page, "Map")
    page.locator(".js-plotly-plot").first.wait_for(timeout=WAIT)
    view(page, "Votes")
    until(page, lambda: columns(page, "Vote") == [["less like this"]])
    page.get_by_role("button", name="Undo the last").click()
    # Equal digests: every vector is as it was, bit by bit.
    until(page, lambda: columns(page, "Status") == [["undone"]] and chip(page) == [fingerprint, fingerprint])
    page.get_by_role("link", name="Explore").click()
    until(page, lambda: first(page) == order and scores(page) == first_scores)
    if is_brief:
        return

    read_first(page)
    page.locator(".st-key-vote-down button").first.click()
    until(page, lambda: first(page)[:2] == titles[::-1])
    page.get_by_role("button", name="Undo").click()
    until(page, lambda: first(page) == order and scores(page) == first_scores)
    until(page, lambda: chip(page) == [fingerprint, fingerprint])
    # The thumbs of a row do what those of the open document do.
    page.locator(".list").first.locator(".document[data-rank='1']").hover()
    page.locator(".list").first.locator(".document[data-rank='1']").get_by_role("button", name="Less like this").click()
    until(page, lambda: first(page)[:2] == titles[::-1])
    page.locator(".list").first.locator(".document[data-rank='2']").hover()
    page.locator(".list").first.locator(".document[data-rank='2']").get_by_role("button", name="Less like this").click()
    until(page, lambda: first(page) == order and scores(page) == first_scores)
    page.locator(".st-key-header-corpus button").first.click()
    page.get_by_test_id("stPopoverBody").get_by_text("Apply votes").click()
    until(page, lambda: page.get_by_test_id("stPopoverBody").locator("code").all_inner_texts() == [fingerprint])
    until(page, lambda: first(page) == order)
