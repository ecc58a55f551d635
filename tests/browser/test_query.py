"""What a person sees, in a real browser: the demo opens, a query is typed, λ moves, the answer changes."""

import re

import pytest

from support.browser import (
    MARKS,
    ROOTS,
    WAIT,
    ask_by,
    diversity,
    fill_path,
    idle,
    lists,
    settle,
    slide,
    slider,
    tags,
    type_query,
    until,
)  # fmt: skip

pytestmark = MARKS
COVERED = f"""() => {{
    const drawer = document.querySelector(".st-key-reading").getBoundingClientRect();
    return {ROOTS}.flatMap(root => [...root.querySelectorAll(".tile, .list, .said, .advice, .side")])
        .filter(node => node.getBoundingClientRect().right > drawer.left).map(node => node.className);
}}"""
"""Parts of tiles and lists below the open document."""


def test_type_a_query_slide_read_and_reload(page, server):
    page.goto(server)
    settle(page)
    page.wait_for_function("frontier.shown?.decoders[0].set?.found >= 0")
    assert page.locator(".tile .right").first.is_visible()
    ask_by(page, "Your own")
    type_query(page, "sum of the elements ignoring missing values")
    until(page, lambda: not page.locator(".tile .right").first.is_visible())
    settle(page)
    top, first_lists = lists(page)
    spread = diversity(page, 1)

    page.locator(".list").first.get_by_role("button", name=top[0].rpartition(".")[2]).first.click()
    drawer = page.locator(".st-key-reading")
    drawer.get_by_text(re.compile(r"^Relevance 0\.\d{3}, rank \d+ of \d+")).wait_for(timeout=WAIT)
    drawer.get_by_text(re.compile(r"Top-k #1\. In")).wait_for(timeout=WAIT)
    for width in (1024, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        until(page, lambda: not page.evaluate(COVERED))
    until(page, lambda: drawer.get_by_text(top[0], exact=True).count() == 1)

    assert page.locator(".tile").get_by_role("slider").count() == 1
    slide(page, "Home")
    until(page, lambda: diversity(page, 1) > max(spread, 0.5) and lists(page)[1] != first_lists)
    assert lists(page)[0] == top, "the baseline must not move with another decoder's slider"
    assert tags(page)[1][0] == "" and "NEW" in tags(page)[1] and not any(tags(page)[0])
    dropped = page.locator(".list").nth(1).locator(".document.out .name")
    assert sorted(dropped.evaluate_all("all => all.map(one => one.title)")) == sorted(set(top) - set(lists(page)[1]))
    # The drawer follows the document, not its place, when the sets change.
    idle(page)
    assert drawer.get_by_text(top[0], exact=True).count() == 1
    page.keyboard.press("Escape")
    drawer.wait_for(state="hidden", timeout=WAIT)

    slide(page, "ArrowRight")
    until(page, lambda: "mmr.relevance_weight=0.01" in page.url)
    page.reload()
    settle(page)
    until(
        page,
        lambda: page.get_by_label("Your query").input_value() == "sum of the elements ignoring missing values",
    )
    until(page, lambda: float(slider(page).input_value()) == 10)


@pytest.mark.deep
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
    page.get_by_text("12 documents · 384").wait_for(timeout=WAIT)
    page.reload()
    page.get_by_text("12 documents · 384").wait_for(timeout=WAIT)
    page.get_by_role("link", name="Explore").click()
    type_query(page, "a sleeping cat")
    settle(page)
    assert lists(page)[0][0] == "a cat that sleeps" and [len(documents) for documents in lists(page)] == [10, 10]
