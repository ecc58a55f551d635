"""A link in a real browser: made in one session, opened in another, which then shows the same."""

import re

import pytest

from dashboard.sharing.dialogs import LINK, VIEWS
from support.browser import (
    BOTH_SCHEMES,
    MARKS,
    ROOTS,
    WAIT,
    chip,
    idle,
    lists,
    slide,
    slider,
    until,
    view,
    wait_until_settled,
)

pytestmark = MARKS


def sliders(page):
    """What every slider shows, by its label, and k."""
    shown = page.evaluate(
        f"""() => Object.fromEntries({ROOTS}.flatMap(root => [...root.querySelectorAll('input[type=range]')])
            .map(input => [input.ariaLabel, input.ariaValueText]))"""
    )
    return shown | {"k": page.locator(".st-key-header-k button").first.inner_text()}


def decoders(page):
    """The choice of decoders, opened."""
    page.get_by_role("button", name="Decoders and settings").click()
    choice = page.get_by_test_id("stPopoverBody").get_by_role("toolbar", name="Decoders")
    choice.wait_for(timeout=WAIT)
    return choice


def close(page):
    """Close what was opened over the page."""
    page.keyboard.press("Escape")
    page.get_by_test_id("stPopoverBody").wait_for(state="hidden", timeout=WAIT)


def chosen(page):
    """The labels of the decoders that are chosen."""
    labels = decoders(page).locator("[aria-pressed=true]").all_inner_texts()
    close(page)
    return labels


def shared(page, option):
    """Open a dialog by the menu Share."""
    page.locator(".st-key-header-share button").first.click()
    page.get_by_role("menuitem", name=option).click()
    return page.get_by_role("dialog")


def linked(page):
    """The link that the Share dialog shows."""
    dialog = shared(page, LINK)
    dialog.get_by_text("Opens this page").wait_for(timeout=WAIT)
    address = dialog.locator("code").inner_text().replace("\n", "")
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden", timeout=WAIT)
    return address


def tables(page):
    """The documents of each set shown."""
    return lists(page)


def first(page):
    """How many documents the first set has."""
    return len((tables(page) or [[]])[0])


@pytest.fixture
def other(browser, page):
    """A page of another session."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme=page.scheme)
    yield context.new_page()
    context.close()


def test_a_link_opens_the_same_state_in_another_session(page, server, other):
    page.goto(server)
    wait_until_settled(page)
    before = tables(page)
    page.locator(".st-key-header").get_by_role("combobox").first.click()
    page.get_by_role("option").first.wait_for(timeout=WAIT)
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    until(page, lambda: tables(page) != before)
    decoders(page).get_by_role("button", name="NNN").click()
    close(page)
    until(page, lambda: len(tables(page)) == 3)
    wait_until_settled(page)
    slider(page).focus()
    for _ in range(45):
        page.keyboard.press("ArrowLeft")
    idle(page)
    slide(page, "ArrowLeft", "NNN λ₁")
    idle(page)
    page.locator(".st-key-header-k button").first.click()
    size = page.get_by_test_id("stPopoverBody").get_by_test_id("stSlider").locator("input[type=range]")
    size.wait_for(timeout=WAIT)
    idle(page)
    for count in (11, 12, 13):
        size.press("ArrowRight")
        until(page, lambda: first(page) == count)  # noqa: B023
    close(page)
    idle(page)
    address = linked(page)
    assert "k=13" in address and "mmr.relevance_weight=0.35" in address, address

    other.goto(address)
    wait_until_settled(other)
    until(other, lambda: tables(other) == tables(page))
    until(other, lambda: sliders(other) == sliders(page))
    assert {"MMR λ", "NNN λ₁", "NNN λ₂"} <= sliders(other).keys() and sliders(other)["k"].startswith("k 13")
    assert chosen(other) == chosen(page) and len(chosen(other)) == 3
    assert other.get_by_text("Not all of the link").count() == 0 and other.get_by_text("Don't show again").count() == 0
    other.reload()
    wait_until_settled(other)
    until(other, lambda: tables(other) == tables(page))
    idle(other)
    assert linked(other) == address

    view(page, "NNN weights")
    page.get_by_text("linear segments").wait_for(timeout=WAIT)
    other.goto(linked(page))
    other.get_by_text("linear segments").wait_for(timeout=WAIT)


def test_a_link_to_other_content_says_so(page, server):
    page.goto(f"{server}/?v=1&corpus=numpy-api&digest=000000000000&vectors=abcdef012345&k=4&decoders=top_k,mmr")
    page.get_by_text("Not all of the link could be taken").wait_for(timeout=WAIT)
    said = page.get_by_text("it was made on other documents")
    until(page, lambda: first(page) == 4)
    assert "abcdef01" in said.inner_text() and chip(page)[0] in said.inner_text()
    page.get_by_role("button", name="OK", exact=True).click()
    said.wait_for(state="hidden", timeout=WAIT)


PAPER, INK = (
    "getComputedStyle(document.querySelector('.stApp')).backgroundColor",
    "document.querySelector('.js-plotly-plot').layout.font.color",
)


def assert_repainted(page, scheme):
    """Page and chart come to have the scheme's colours."""
    dark = scheme == "dark"
    until(page, lambda: (sum(map(int, re.findall(r"\d+", page.evaluate(PAPER))[:3])) < 150) == dark)
    until(page, lambda: (int(page.evaluate(INK)[1:3], 16) > 128) == dark)


@BOTH_SCHEMES
def test_a_theme_switch_keeps_the_state_and_repaints_page_and_charts(page, server):
    state = "k=6&text=median%20of%20an%20array&decoders=top_k,mmr&mmr.relevance_weight=0.25"
    page.goto(f"{server}/?v=1&corpus=numpy-api&{state}")
    until(page, lambda: first(page) >= 6)
    kept = tables(page)
    view(page, "Map")
    page.locator(".js-plotly-plot").first.wait_for(timeout=WAIT)
    idle(page)
    shown = sliders(page)
    assert_repainted(page, page.scheme)
    other = "dark" if page.scheme == "light" else "light"
    page.emulate_media(color_scheme=other)
    assert_repainted(page, other)
    idle(page)
    assert sliders(page) == shown and "0.25" in shown["MMR λ"]
    view(page, "Results")
    until(page, lambda: tables(page) == kept)
    assert page.get_by_label("Your query").input_value() == "median of an array"


def test_a_snapshot_is_saved_and_opened_by_keyboard(page, server):
    page.goto(f"{server}/?v=1&corpus=numpy-api&k=7&text=sort%20an%20array&decoders=top_k,mmr")
    until(page, lambda: first(page) == 7)
    idle(page)
    shown = tables(page)
    page.locator(".st-key-header-share button").first.focus()
    page.keyboard.press("Enter")
    page.locator("[role=menu]:focus-within").wait_for(timeout=WAIT)
    item = page.locator("[role=menuitem]:focus", has_text=VIEWS)
    until(page, lambda: item.count() or page.keyboard.press("ArrowUp"))
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_label("Name", exact=True).wait_for(timeout=WAIT)
    idle(page)
    page.get_by_role("dialog").get_by_label("Name", exact=True).fill(f"seven {page.scheme}")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_text(f"✓ Saved: seven {page.scheme}").wait_for(timeout=WAIT)
    page.keyboard.press("Escape")
    page.goto(server)
    wait_until_settled(page)
    dialog = shared(page, VIEWS)
    dialog.get_by_text("sort an array").wait_for(timeout=WAIT)
    dialog.locator(".st-key-snapshot-open button").focus()
    page.keyboard.press("Enter")
    until(page, lambda: tables(page) == shown)
    until(page, lambda: page.get_by_label("Your query").input_value() == "sort an array")


def test_a_link_to_another_page_is_applied_all_the_same(page, server):
    page.goto(f"{server}/data?v=1&corpus=numpy-api&k=6&decoders=top_k")
    page.get_by_text("Load and embed").wait_for(timeout=WAIT)
    page.get_by_text("Current corpus").wait_for(timeout=WAIT)
    body = page.inner_text("body")
    assert "Explore" in body and "Encoders" in body and "Cache" in body
    page.get_by_text("Explore", exact=True).click()
    until(page, lambda: first(page) == 6)
    assert chosen(page) == ["✕ Top-k"]
