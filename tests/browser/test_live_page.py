"""A live page opened from a file, without a network: λ, the budget and the wall are moved, by pointer and by keys."""

import json
import re

import pytest

import engine
from support.browser import LISTS, MARKS, WAIT
from support.draws import deepen
from support.live_pages import build_toy, toy_content
from support.sweeps import toy

pytestmark = MARKS
SMALL_TEXTS = """() => {
    const roots = [document, ...[...document.querySelectorAll('*')].map(node => node.shadowRoot).filter(Boolean)];
    const nodes = roots.flatMap(root => [...root.querySelectorAll('*')]).filter(node => node.checkVisibility?.()
        && [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim()));
    return nodes.filter(node => parseFloat(getComputedStyle(node).fontSize) < 12).map(node => node.textContent);
}"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    file = tmp_path_factory.mktemp("live") / "live.html"
    file.write_text(build_toy("top_k", "mmr", "frank_wolfe", n_queries=4), encoding="utf-8")
    return file


@pytest.fixture
def live(browser, file, request):
    """The page in a browser that is offline; what it asks for, and what it logs as an error, fails the test."""
    width, scheme = request.param.split()
    context = browser.new_context(viewport={"width": int(width), "height": 900}, color_scheme=scheme, offline=True)
    context.set_default_timeout(WAIT)
    page, asked, wrong = context.new_page(), [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(file.as_uri())
    page.locator(".document[data-rank]:visible").first.wait_for()
    yield page
    context.close()
    assert asked == [file.as_uri()] and not wrong, (asked, wrong)


def sentence(page):
    return page.locator(".sentence").first.inner_text()


@pytest.mark.parametrize("live", ["1440 light"], indirect=True)
def test_lambda_budget_and_wall_are_moved_by_the_pointer(live):
    page, thumb = live, live.get_by_label("MMR λ")
    first_lists, first_words = page.evaluate(LISTS), page.locator(".reached").inner_text()
    first_dot = page.locator(".dot.touched").get_attribute("transform")
    wall = page.get_by_label("Wall of queries")
    first_squares = wall.inner_text()
    assert "by MMR · λ" in first_squares
    thumb.scroll_into_view_if_needed()
    box = thumb.bounding_box()
    page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + box["height"] / 2, steps=6)
    page.wait_for_function(f"before => JSON.stringify(({LISTS})()[1]) !== before", arg=as_javascript(first_lists[1]))
    assert page.evaluate(LISTS)[0] == first_lists[0], "the baseline has no λ"
    assert page.locator(".dot.touched").get_attribute("transform") != first_dot
    assert page.locator(".reached").inner_text() != first_words and wall.inner_text() != first_squares
    page.mouse.up()
    moved = page.evaluate(LISTS)[1]
    level, first_sentence = page.get_by_role("slider", name="Budget"), sentence(page)
    level.scroll_into_view_if_needed()
    box = level.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2 + 40, steps=6)
    page.mouse.up()
    share = float(level.get_attribute("aria-valuenow"))
    assert share < 95 and f"keep {share:g}% of Top-k's Recall@5" in sentence(page) != first_sentence
    assert page.evaluate(LISTS)[1] == moved, "the budget moves no list"
    heading, squares = page.locator("h2").nth(0), wall.get_by_role("button")
    first_heading = heading.inner_text()
    squares.nth(2).click()
    assert heading.inner_text() != first_heading and squares.nth(2).get_attribute("aria-pressed") == "true"
    page.wait_for_function(f"before => JSON.stringify(({LISTS})()[1]) !== before", arg=as_javascript(moved))
    assert page.get_by_label("MMR λ").get_attribute("aria-valuetext").split(":")[0] != "0.8", "λ stays where it was put"


@pytest.mark.parametrize(
    "live", deepen(["390 dark", "1440 dark", "390 light"], ["1440 dark", "390 light"]), indirect=True
)
def test_keys_move_all_three_and_no_text_is_small_or_cut(live):
    page = live
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    assert page.evaluate(SMALL_TEXTS) == []
    level, first_sentence = page.get_by_role("slider", name="Budget"), sentence(page)
    level.focus()
    level.press("PageDown")
    assert level.get_attribute("aria-valuenow") == "92.5"
    assert "92.5% of Top-k's" in sentence(page) != first_sentence
    thumb = page.get_by_label("MMR λ")
    value = thumb.get_attribute("aria-valuetext").split(":")[0]
    thumb.focus()
    thumb.press("Home")
    page.wait_for_function(
        "before => !frontier.page.tiles.touched.sliders[0].input.ariaValueText.startsWith(before)", arg=value
    )
    square = page.get_by_label("Wall of queries").get_by_role("button").nth(1)
    square.focus()
    square.press("Enter")
    assert square.get_attribute("aria-pressed") == "true"
    page.keyboard.press("j")
    assert square.get_attribute("aria-pressed") == "false"
    page.keyboard.press("k")
    assert square.get_attribute("aria-pressed") == "true"


@pytest.mark.parametrize("live", ["1440 light"], indirect=True)
def test_a_choice_sets_its_slider_and_a_document_is_marked_in_every_list(live):
    page = live
    choice = page.locator(".choice:visible").first
    name = choice.locator(".name").inner_text()
    choice.click()
    title, value = name.split(" ", 1)[1].rsplit(" · ", 1)
    slider = page.get_by_label(f"{title} {value[0]}")
    page.wait_for_function(
        "([node, value]) => node.ariaValueText.startsWith(value)", arg=[slider.element_handle(), value[2:]]
    )
    document = page.locator(".list").first.locator(".document[data-rank='1']")
    document.locator(".name").click()
    assert "opened" in document.get_attribute("class")
    document.locator(".name").press("Escape")
    assert "opened" not in document.get_attribute("class")


@pytest.mark.parametrize("live", ["1440 light"], indirect=True)
def test_a_budget_below_the_chart_widens_it_and_can_be_dragged_back(live):
    page, level = live, live.get_by_role("slider", name="Budget")
    plot = page.locator(".frontier-plot")
    widths = (
        "() => [...document.querySelectorAll('.frontier-svg .line:not(.join)')].map(line => line.style.strokeWidth)"
    )
    level.scroll_into_view_if_needed()
    for end in ("bottom", "top"):
        handle, area = level.bounding_box(), plot.bounding_box()
        x, y = handle["x"] + handle["width"] / 2, handle["y"] + handle["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x, area["y"] + (area["height"] + 60 if end == "bottom" else 20), steps=6)
        page.mouse.up()
        assert level.is_visible(), end
        handle = level.bounding_box()
        assert area["y"] <= handle["y"] < area["y"] + area["height"], end
        assert all(page.evaluate(widths)), "the lines are drawn anew, as wide as they are sure"
        reached = float(level.get_attribute("aria-valuenow"))
        assert (reached < 95) == (end == "bottom"), (end, reached)


def test_names_of_an_axis_stay_beside_the_tiles(browser, tmp_path):
    # In so many dimensions no two documents of the corpus are near-duplicates.
    space, queries, _qrels = toy("random", d=64, batch=24)
    content = toy_content(space=space, queries=queries.take(range(3)), judged=queries)
    every = engine.Qrels({query: dict.fromkeys(space.corpus.ids, 1) for query in content.qrels.grades})
    file = tmp_path / "many.html"
    file.write_text(build_toy(space=space, queries=content.queries, judged=queries, qrels=every), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(file.as_uri())
    label = page.locator(".front .label:not(.place)").last
    label.wait_for()
    assert f"{len(content.space)} of {len(content.space)}" == label.text_content()
    said = page.locator(".said b").inner_text()
    assert re.match(r"No near-duplicate pairs \(cosine ≥ 0\.\d{2,4}\)", said), "and not 0 → 0"
    assert label.bounding_box()["x"] >= page.locator("aside.side").bounding_box()["x"]
    page.close()


def as_javascript(value):
    """Return a value as JSON.stringify does."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
