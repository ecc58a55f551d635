"""A link in a real browser: made in one session, opened in another, which then shows the same."""

import re

import pytest

from dashboard.sharing.dialogs import LINK, VIEWS
from support.browser import BOTH_SCHEMES, MARKS, ROOTS, WAIT, chip, idle, lists, settle, slide, slider, until, view

pytestmark = MARKS


def read_sliders(page):
    """Return the value of every decoder's slider by its label, and k.

    The handle of diversity is left out: it shows that of the decoder that was moved last, which no link has.
    """
    values = page.evaluate(
        f"""() => Object.fromEntries({ROOTS}.flatMap(root => [...root.querySelectorAll('.tile input[type=range]')])
            .map(input => [input.ariaLabel, input.ariaValueText]))"""
    )
    return values | {"k": page.locator(".st-key-header-k button").first.inner_text()}


def open_decoder_choice(page):
    """Open the choice of decoders, once the page is drawn: a button that is drawn anew loses the click."""
    idle(page)
    page.get_by_role("button", name="Decoders and settings").click()
    choice = page.get_by_test_id("stPopoverBody").get_by_role("toolbar", name="Decoders")
    choice.wait_for(timeout=WAIT)
    return choice


def close_overlay(page):
    """Close the overlay of the page."""
    page.keyboard.press("Escape")
    page.get_by_test_id("stPopoverBody").wait_for(state="hidden", timeout=WAIT)


def read_chosen_decoders(page):
    """Return the labels of the chosen decoders."""
    labels = open_decoder_choice(page).locator("[aria-pressed=true]").all_inner_texts()
    close_overlay(page)
    return labels


def open_dialog(page, option):
    """Open a dialog of the menu Share."""
    page.locator(".st-key-header-share button").first.click()
    page.get_by_role("menuitem", name=option).click()
    return page.get_by_role("dialog")


def read_link(page):
    """Return the link in the Share dialog."""
    dialog = open_dialog(page, LINK)
    dialog.get_by_text("Opens this page").wait_for(timeout=WAIT)
    address = dialog.locator("code").inner_text().replace("\n", "")
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden", timeout=WAIT)
    return address


def read_tables(page):
    """Return the documents of each set."""
    return lists(page)


def count_first_set(page):
    """Count the documents of the first set."""
    return len((read_tables(page) or [[]])[0])


@pytest.fixture
def second_page(browser, page):
    """Open a page of another session."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme=page.scheme)
    context.set_default_timeout(WAIT)
    yield context.new_page()
    context.close()


def test_a_link_opens_the_same_state_in_another_session(page, server, second_page):
    page.goto(server)
    settle(page)
    first_tables = read_tables(page)
    page.locator(".st-key-header").get_by_role("combobox").first.click()
    page.get_by_role("option").first.wait_for(timeout=WAIT)
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    until(page, lambda: read_tables(page) != first_tables)
    open_decoder_choice(page).get_by_role("button", name="NNN").click()
    close_overlay(page)
    until(page, lambda: len(read_tables(page)) == 3)
    settle(page)
    slider(page).focus()
    for _ in range(5):
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
        until(page, lambda: count_first_set(page) == count)  # noqa: B023
    close_overlay(page)
    idle(page)
    address = read_link(page)
    assert "k=13" in address and "mmr.relevance_weight=0.75" in address, address

    second_page.goto(address)
    settle(second_page)
    until(second_page, lambda: read_tables(second_page) == read_tables(page))
    until(second_page, lambda: read_sliders(second_page) == read_sliders(page))
    assert {"MMR λ", "NNN λ₁", "NNN λ₂"} <= read_sliders(second_page).keys() and read_sliders(second_page)[
        "k"
    ].startswith("k 13")
    assert (
        read_chosen_decoders(second_page) == read_chosen_decoders(page) and len(read_chosen_decoders(second_page)) == 3
    )
    assert (
        second_page.get_by_text("Not all of the link").count() == 0
        and second_page.get_by_text("Don't show again").count() == 0
    )


@pytest.mark.deep
def test_a_reload_gives_the_same_link_and_a_link_opens_its_view(page, server, second_page):
    page.goto(f"{server}/?v=1&corpus=numpy-api&k=13&decoders=top_k,mmr,nnn")
    settle(page)
    address, tables = read_link(page), read_tables(page)
    page.reload()
    settle(page)
    until(page, lambda: read_tables(page) == tables)
    idle(page)
    assert read_link(page) == address
    view(page, "NNN weights")
    page.get_by_text("linear segments").wait_for(timeout=WAIT)
    second_page.goto(read_link(page))
    second_page.get_by_text("linear segments").wait_for(timeout=WAIT)


@pytest.mark.deep  # dashboard/session/test_link.py does the same without a browser
def test_a_link_to_other_content_says_so(page, server):
    page.goto(f"{server}/?v=1&corpus=numpy-api&digest=000000000000&vectors=abcdef012345&k=4&decoders=top_k,mmr")
    page.get_by_text("Not all of the link could be taken").wait_for(timeout=WAIT)
    notice = page.get_by_text("it was made on other documents")
    until(page, lambda: count_first_set(page) == 4)
    assert "abcdef01" in notice.inner_text() and chip(page)[0] in notice.inner_text()
    page.get_by_role("button", name="OK", exact=True).click()
    notice.wait_for(state="hidden", timeout=WAIT)


PAPER, INK = (
    "getComputedStyle(document.querySelector('.stApp')).backgroundColor",
    "document.querySelector('.js-plotly-plot').layout.font.color",
)


def assert_repainted(page, scheme):
    """Wait until page and chart have the scheme's colours."""
    dark = scheme == "dark"
    until(page, lambda: (sum(map(int, re.findall(r"\d+", page.evaluate(PAPER))[:3])) < 150) == dark)
    until(page, lambda: (int(page.evaluate(INK)[1:3], 16) > 128) == dark)


@BOTH_SCHEMES
def test_a_theme_switch_keeps_the_state_and_repaints_page_and_charts(page, server):
    state = "k=6&text=median%20of%20an%20array&decoders=top_k,mmr&mmr.relevance_weight=0.25"
    page.goto(f"{server}/?v=1&corpus=numpy-api&{state}")
    until(page, lambda: count_first_set(page) >= 6)
    first_tables = read_tables(page)
    view(page, "Map")
    page.locator(".js-plotly-plot").first.wait_for(timeout=WAIT)
    idle(page)
    slider_values = read_sliders(page)
    assert_repainted(page, page.scheme)
    opposite_scheme = "dark" if page.scheme == "light" else "light"
    page.emulate_media(color_scheme=opposite_scheme)
    assert_repainted(page, opposite_scheme)
    idle(page)
    assert read_sliders(page) == slider_values and "0.25" in slider_values["MMR λ"]
    view(page, "Results")
    until(page, lambda: read_tables(page) == first_tables)
    assert page.get_by_label("Your query").input_value() == "median of an array"


@pytest.mark.deep  # dashboard/sharing/test_snapshots.py does the same without a keyboard
def test_a_snapshot_is_saved_and_opened_by_keyboard(page, server):
    page.goto(f"{server}/?v=1&corpus=numpy-api&k=7&text=sort%20an%20array&decoders=top_k,mmr")
    until(page, lambda: count_first_set(page) == 7)
    idle(page)
    saved_tables = read_tables(page)
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
    settle(page)
    dialog = open_dialog(page, VIEWS)
    dialog.get_by_text("sort an array").wait_for(timeout=WAIT)
    idle(page)  # a button that is drawn anew loses the key
    dialog.locator(".st-key-snapshot-open button").focus()
    page.keyboard.press("Enter")
    until(page, lambda: read_tables(page) == saved_tables)
    until(page, lambda: page.get_by_label("Your query").input_value() == "sort an array")


def test_a_link_to_another_page_is_applied_all_the_same(page, server):
    page.goto(f"{server}/data?v=1&corpus=numpy-api&k=6&decoders=top_k")
    page.get_by_text("Built in").wait_for(timeout=WAIT)
    page.get_by_text("Current corpus").wait_for(timeout=WAIT)
    body = page.inner_text("body")
    assert "Explore" in body and "Encoders" in body and "Cache" in body
    page.get_by_role("link", name="Explore").click()
    until(page, lambda: count_first_set(page) == 6)
    assert read_chosen_decoders(page) == ["✕ Top-k"]
