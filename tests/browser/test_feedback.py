"""Live feedback in a real browser: a thumb moves a document at once, Drift records it, undo gives back every bit."""

from urllib.parse import urlencode

import pytest

from support.browser import MARKS, WAIT, chip, columns, first_set, read_first, scores, until, view

pytestmark = MARKS


def test_a_thumb_takes_the_first_result_from_its_place_and_undo_puts_it_back(page, server, narrow):
    split, query, titles = narrow
    asked = {"v": 1, "corpus": "numpy-api", "split": split, "query": query, "decoders": "top_k,mmr"}
    page.goto(f"{server}/?{urlencode(asked)}")
    until(page, lambda: first_set(page, "Document")[:2] == titles and len(scores(page)) == 10)
    order, before, (fingerprint,) = first_set(page, "Document"), scores(page), chip(page)
    read_first(page)
    page.get_by_role("button", name="Bad").click()
    until(page, lambda: first_set(page, "Document")[:2] == titles[::-1])
    assert scores(page)[1] == pytest.approx(before[0] - 0.01, abs=0.0011) and scores(page)[0] == before[1]
    page.get_by_text("learned from 1 piece of feedback").wait_for(timeout=WAIT)
    page.get_by_text("Your last: thumb down").wait_for(timeout=WAIT)
    until(page, lambda: chip(page)[0] == fingerprint != chip(page)[1])

    page.get_by_role("link", name="Drift").click()
    page.get_by_text("after record 1").wait_for(timeout=WAIT)
    page.locator(".js-plotly-plot").first.wait_for(timeout=WAIT)
    view(page, "Then and now")
    until(page, lambda: columns(page, "Change")[0][:2] == ["▲1", "▼1"])
    view(page, "Map")
    page.locator(".js-plotly-plot").first.wait_for(timeout=WAIT)
    view(page, "Feedback")
    until(page, lambda: columns(page, "Said") == [["thumb down"]])
    page.get_by_role("button", name="Undo the last").click()
    # Equal digests: every vector is as it was, bit by bit.
    until(page, lambda: columns(page, "Status") == [["undone"]] and chip(page) == [fingerprint, fingerprint])
    page.get_by_role("link", name="Explore").click()
    until(page, lambda: first_set(page, "Document") == order and scores(page) == before)

    read_first(page)
    page.get_by_role("button", name="Bad").click()
    until(page, lambda: first_set(page, "Document")[:2] == titles[::-1])
    page.get_by_role("button", name="Undo").click()
    until(page, lambda: first_set(page, "Document") == order and scores(page) == before)
    until(page, lambda: chip(page) == [fingerprint, fingerprint])
    page.get_by_test_id("stSidebar").get_by_text("Live feedback").click()
    until(page, lambda: chip(page) == [fingerprint] and first_set(page, "Document") == order)
