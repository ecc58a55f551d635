"""Several people at once: each page keeps its own state, and nothing of another's shows."""

import pytest

from support.browser import MARKS, WAIT, ask_by, diversity, lists, open_page, settle, slide, slider, type_query, until

pytestmark = MARKS
PEOPLE = {"sort": "PageDown", "inverse": "PageUp"}
"""What each asks, and the way that their λ goes, so that their ends differ."""


def answer(page):
    return lists(page)[-1], diversity(page, 1)


def wait_for_answer(page):
    """Wait until the answer is stable: a slider pressed many times may have the page run again."""
    last = None
    while (now := answer(page)) != last:
        last = now
        page.wait_for_timeout(1000)
        page.get_by_test_id("stStatusWidget").wait_for(state="hidden", timeout=WAIT)
    return last


@pytest.mark.deep  # two voters share a server in every run
def test_sessions_slide_at_once_without_a_word_of_each_other(browser, server):
    """Each has its own query and λ; moved together they end where each would alone."""
    pages, wrong = {}, []
    for query in PEOPLE:
        page = pages[query] = open_page(browser, server)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        settle(page)
        ask_by(page, "Your own")
        type_query(page, f"query of a person: {query}")
        until(page, lambda p=page: not p.locator(".tile .right").first.is_visible())
        settle(page)
    for step in range(4):
        for query, page in pages.items():
            slide(page, PEOPLE[query] if step < 3 else "ArrowLeft")
    first_answers = {query: wait_for_answer(page) for query, page in pages.items()}
    for query, page in pages.items():
        body = page.inner_text("body") + page.get_by_label("Your query").input_value()
        assert [person for person in PEOPLE if f"query of a person: {person}" in body] == [query]
        assert page.get_by_test_id("stException").count() == 0 == page.get_by_test_id("stAlertContentError").count()
    ends = [float(slider(page).input_value()) for page in pages.values()]
    assert len(set(ends)) == len(PEOPLE), ends
    # Alone, one after the other, each answer stays what it is.
    for query, page in pages.items():
        slide(page, "ArrowLeft")
        slide(page, "ArrowRight")
        until(page, lambda p=page, q=query: answer(p) == first_answers[q])
        page.context.close()
    assert not wrong, wrong
