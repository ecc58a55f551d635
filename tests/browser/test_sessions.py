"""Several people at once: each page keeps its own state, and nothing of another's shows."""

from support.browser import MARKS, WAIT, column, metric, settled, until

pytestmark = MARKS
PEOPLE = 3


def slider(page):
    return page.get_by_test_id("stSlider").filter(has_text="relevance weight").first.locator("input[type=range]")


def test_three_sessions_slide_at_once_without_a_word_of_each_other(browser, server):
    """Each has its own query and λ; moved together they end where each would alone."""
    contexts = [browser.new_context(viewport={"width": 1440, "height": 900}) for _ in range(PEOPLE)]
    pages = [context.new_page() for context in contexts]
    wrong = []
    for at, page in enumerate(pages):
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(server)
        settled(page)
        page.get_by_text("Typed", exact=True).click()
        page.get_by_label("Your query").fill(f"query of person {at}: " + ("sort", "mean", "inverse")[at])
        page.get_by_label("Your query").press("Control+Enter")
        page.get_by_text("Without judgements there is no Recall").wait_for(timeout=WAIT)
        settled(page)
        slider(page).focus()
    for step in range(12):
        for at, page in enumerate(pages):
            # They go different ways, so that their ends differ.
            slider(page).press(("PageDown", "ArrowLeft", "PageUp")[at] if step < 8 else "ArrowLeft")
    for page in pages:
        page.get_by_test_id("stStatusWidget").wait_for(state="hidden", timeout=WAIT)
    ends = []
    for at, page in enumerate(pages):
        body = page.inner_text("body")
        assert f"query of person {at}: " in body
        assert not any(f"query of person {other}" in body for other in range(PEOPLE) if other != at)
        assert page.get_by_test_id("stException").count() == 0 == page.get_by_test_id("stAlertContentError").count()
        ends.append(float(slider(page).input_value()))
    assert len(set(ends)) == PEOPLE, ends
    # Alone, one after the other, each answer stays what it is.
    for page in pages:
        shown, spread = column(page, len(column_heads(page)) - 1, "Document"), metric(page, "ILAD@10", 1)
        slider(page).press("ArrowLeft")
        slider(page).press("ArrowRight")
        until(page, lambda p=page, s=spread: metric(p, "ILAD@10", 1) == s)
        page.get_by_test_id("stStatusWidget").wait_for(state="hidden", timeout=WAIT)
        until(page, lambda p=page, s=shown: column(p, len(column_heads(p)) - 1, "Document") == s)
    for context in contexts:
        context.close()
    assert not wrong, wrong


def column_heads(page):
    return page.locator("[data-testid=stDataFrame] table").all()
