"""What a person sees, in a real browser: the demo opens, a query is typed, λ moves, the answer changes."""

import re

from support.browser import (
    MARKS,
    WAIT,
    columns,
    fill_path,
    idle,
    metric,
    settled,
    slide,
    slider,
    type_query,
    until,
)  # fmt: skip

pytestmark = MARKS


def documents(page):
    """Those of each set."""
    return columns(page, "Document", sets=True)


def test_type_a_query_slide_read_and_reload(page, server):
    page.goto(server)
    settled(page)
    assert metric(page, "Recall@10", 0) >= 0
    page.get_by_text("Typed", exact=True).click()
    type_query(page, "sum of the elements ignoring missing values")
    page.get_by_text("Without judgements there is no Recall").wait_for(timeout=WAIT)
    settled(page)
    until(page, lambda: page.get_by_test_id("stMetric").filter(has_text="Recall@10").count() == 0)
    top, before = documents(page)
    spread = metric(page, "ILAD@10", 1)

    page.get_by_test_id("stDataFrame").first.click(position={"x": 150, "y": 48})
    page.get_by_text(re.compile(r"^relevance 0\.\d{3}, #\d+ of \d+")).wait_for(timeout=WAIT)
    panel = page.locator(".st-key-reading-panel")
    until(page, lambda: columns(page, "Why")[0][0].startswith("In"))
    until(page, lambda: panel.get_by_text(top[0], exact=True).count() == 1)

    assert page.get_by_test_id("stSlider").filter(has_text="relevance weight").count() == 1
    slide(page, "Home")
    until(page, lambda: metric(page, "ILAD@10", 1) > max(spread, 0.5) and documents(page)[1] != before)
    assert documents(page)[0] == top, "the baseline must not move with another decoder's slider"
    changes = columns(page, "Change", sets=True)[-1]
    assert changes[0] == "=" and "NEW" in changes and "DROPPED" in changes
    # The panel follows the document, not the place in the grid, when the set below changes.
    idle(page)
    assert panel.get_by_text(top[0], exact=True).count() == 1

    slide(page, "ArrowRight")
    until(page, lambda: "mmr.relevance_weight=0.01" in page.url)
    page.reload()
    settled(page)
    until(
        page,
        lambda: page.get_by_label("Your query").input_value() == "sum of the elements ignoring missing values",
    )
    until(page, lambda: float(slider(page).input_value()) == 0.01)


def test_a_path_is_loaded_found_after_a_reload_and_explored(page, server, tmp_path):
    file = tmp_path / "animals.csv"
    pairs = [(animal, verb) for animal in ("cat", "dog", "horse") for verb in ("runs", "sleeps", "eats", "jumps")]
    rows = "".join(f"00{i},a {animal} that {verb}\n" for i, (animal, verb) in enumerate(pairs))
    file.write_text(f"id,text\n{rows}", encoding="utf-8")
    page.goto(f"{server}/data")
    fill_path(page, file)
    page.get_by_text("Text column").wait_for(timeout=WAIT)
    page.get_by_text("Load and embed").click()
    page.get_by_text("animals").nth(0).wait_for(timeout=WAIT)
    page.get_by_text("12 documents").wait_for(timeout=WAIT)
    page.reload()
    page.get_by_text("12 documents").wait_for(timeout=WAIT)
    page.get_by_text("Explore", exact=True).click()
    type_query(page, "a sleeping cat")
    page.wait_for_function(
        "document.querySelectorAll('[data-testid=stDataFrame] table tbody tr').length >= 20", timeout=WAIT
    )
    assert documents(page)[0][0] == "a cat that sleeps"
