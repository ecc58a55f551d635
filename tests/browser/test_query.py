"""What a person sees, in a real browser: the demo opens, a query is typed, λ moves, the answer changes."""

import re

from support.browser import BOTH_SCHEMES, MARKS, WAIT, column, load_path, metric, settled, until

pytestmark = MARKS


@BOTH_SCHEMES
def test_type_a_query_slide_and_see_the_set_change(page, server):
    page.goto(server)
    settled(page)
    assert metric(page, "Recall@10", 0) >= 0
    dark = page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", dark)[:3])) < 150) == (page.scheme == "dark"), dark

    page.get_by_text("Typed", exact=True).click()
    page.get_by_label("Your query").fill("sum of the elements ignoring missing values")
    page.get_by_label("Your query").press("Control+Enter")
    page.get_by_text("Without judgements there is no Recall").wait_for(timeout=WAIT)
    settled(page)
    assert page.get_by_test_id("stMetric").filter(has_text="Recall@10").count() == 0
    top, before = column(page, 0, "Document"), column(page, 1, "Document")
    spread = metric(page, "ILAD@10", 1)

    slider = page.locator("[data-testid=stSlider]").filter(has_text="relevance weight").locator("input[type=range]")
    assert slider.count() == 1
    slider.focus()
    slider.press("Home")
    until(page, lambda: metric(page, "ILAD@10", 1) != spread and column(page, 1, "Document") != before)
    assert column(page, 0, "Document") == top, "the baseline must not move with another decoder's slider"
    assert metric(page, "ILAD@10", 1) > spread
    changes = column(page, 1, "Change")
    assert changes[0] == "=" and "NEW" in changes and "DROPPED" in changes


def test_a_click_opens_the_text_and_says_why(page, server):
    page.goto(server)
    settled(page)
    first = column(page, 0, "Document")[0]
    page.get_by_test_id("stDataFrame").first.click(position={"x": 150, "y": 48})
    page.get_by_text(re.compile(r"^relevance 0\.\d{3}, #\d+ of \d+")).wait_for(timeout=WAIT)
    panel = page.locator(".st-key-reading-panel")
    until(page, lambda: column(page, 0, "Why")[0].startswith("In"))
    assert panel.get_by_text(first, exact=True).count() == 1
    # The panel follows the document, not the place in the grid, when the set below changes.
    slider = page.locator("[data-testid=stSlider]").filter(has_text="relevance weight").locator("input[type=range]")
    slider.focus()
    slider.press("Home")
    until(page, lambda: metric(page, "ILAD@10", 1) > 0.5)
    assert panel.get_by_text(first, exact=True).count() == 1


def test_a_reload_comes_back_to_its_corpus(page, server, tmp_path):
    file = tmp_path / f"fruit-{page.scheme}.csv"
    file.write_text("id,text\n007,an apple\n1e5,a pear\nNA,a plum\n", encoding="utf-8")
    load_path(page, server, file)
    page.get_by_text("3 documents").wait_for(timeout=WAIT)
    page.reload()
    page.get_by_text("3 documents").wait_for(timeout=WAIT)


def test_a_deep_link_opens_data_and_lists_the_corpus(page, server):
    page.goto(f"{server}/data")
    page.get_by_text("Load and embed").wait_for(timeout=WAIT)
    page.get_by_text("In use").wait_for(timeout=WAIT)
    body = page.inner_text("body")
    assert "Explore" in body and "Encoders" in body and "Cache" in body


def test_a_path_is_loaded_and_explored(page, server, tmp_path):
    file = tmp_path / "animals.csv"
    file.write_text(
        "id,text\n"
        + "".join(
            f"00{i},a {a} that {v}\n"
            for i, (a, v) in enumerate(
                (a, v) for a in ("cat", "dog", "horse") for v in ("runs", "sleeps", "eats", "jumps")
            )
        ),
        encoding="utf-8",
    )
    load_path(page, server, file)
    page.get_by_text("animals").nth(0).wait_for(timeout=WAIT)
    page.get_by_text("12 documents").wait_for(timeout=WAIT)
    page.get_by_text("Explore", exact=True).click()
    page.get_by_label("Your query").fill("a sleeping cat")
    page.get_by_label("Your query").press("Control+Enter")
    page.wait_for_function(
        "document.querySelectorAll('[data-testid=stDataFrame] table tbody tr').length >= 20", timeout=WAIT
    )
    assert column(page, 0, "Document")[0] == "a cat that sleeps"


def test_a_reload_loses_nothing(page, server):
    page.goto(server)
    settled(page)
    page.get_by_text("Typed", exact=True).click()
    page.get_by_label("Your query").fill("sort rows by two keys")
    page.get_by_label("Your query").press("Control+Enter")
    page.get_by_text("Without judgements there is no Recall").wait_for(timeout=WAIT)
    settled(page)
    slider = page.locator("[data-testid=stSlider]").filter(has_text="relevance weight").locator("input[type=range]")
    slider.focus()
    slider.press("ArrowLeft")
    until(page, lambda: "mmr.relevance_weight=0.79" in page.url)
    page.reload()
    settled(page)
    assert page.get_by_label("Your query").input_value() == "sort rows by two keys"
    until(page, lambda: float(slider.input_value()) == 0.79)
