"""Explore's charts in a real browser: they are saved, keep their zoom, and tell what was clicked."""

import re

import pytest

from engine import load_dataset
from support.browser import MARKS, ROOTS, WAIT, idle, settle, slide, slider, until, view
from support.draws import deepen

pytestmark = MARKS
PLOT = ".js-plotly-plot"
POINT_POSITION = """at => {
    const plot = document.querySelector('.js-plotly-plot'), box = plot.getBoundingClientRect();
    const {xaxis, yaxis, _size} = plot._fullLayout, trace = plot._fullData[0];
    return [box.x + _size.l + xaxis.d2p(trace.x[at]), box.y + _size.t + yaxis.d2p(trace.y[at])];
}"""


IS_STATE_CUT = f"""() => {ROOTS}.flatMap(root => [...root.querySelectorAll('.tile small')])
    .map(node => node.scrollWidth > node.clientWidth)"""


def open_view(page, name):
    view(page, name)
    if name == "Map":
        page.get_by_text("t-SNE, perplexity").wait_for(timeout=WAIT)  # until then another map stands in for it
        page.locator(".frontier-overlay .document").first.wait_for(state="attached", timeout=WAIT)
    page.locator(PLOT).first.wait_for(timeout=WAIT)
    page.wait_for_function(f"document.querySelector('{PLOT}').data?.length > 1", timeout=WAIT)
    page.locator(PLOT).first.scroll_into_view_if_needed()
    page.wait_for_timeout(300)


def list_overlay(page):
    """Return the documents of the sets, by decoder."""
    return page.evaluate("Object.fromEntries(frontier.sets.map(set => [set.title, Array.from(set.rows)]))")


def read_axis_range(page):
    return page.evaluate(f"document.querySelector('{PLOT}').layout.xaxis.range.map(Number)")


def find_isolated_point(page):
    """Find a document of the map without neighbours, so that a click is unambiguous."""
    return page.evaluate(
        f"""() => {{
        const plot = document.querySelector('{PLOT}'), {{xaxis, yaxis}} = plot._fullLayout, t = plot._fullData[0];
        const marked = plot._fullData.slice(1).filter(o => o.mode === 'markers');
        const at = (o, i) => [xaxis.d2p(o.x[i]), yaxis.d2p(o.y[i])];
        const all = [t, ...marked].flatMap((o, k) => Array.from(o.x, (_, i) => [k, i, ...at(o, i)]));
        let best = [0, -1];
        for (const [k, i, x, y] of all) {{
            if (k || x < 30 || y < 30 || x > xaxis._length - 30 || y > yaxis._length - 30) continue;
            const near = Math.min(...all.filter(o => o[0] !== k || o[1] !== i)
                .map(o => Math.hypot(o[2] - x, o[3] - y)));
            if (near > best[0]) best = [near, i];
        }}
        return best[1];
    }}"""
    )


def test_the_name_of_the_first_page_is_an_address_too(page, server):
    page.goto(f"{server}/explore?v=1&corpus=numpy-api&k=5")
    page.locator(".tile canvas").first.wait_for(timeout=WAIT)
    assert "/explore" not in page.url and "k=5" in page.url


def test_the_map_is_saved_keeps_its_zoom_tells_what_was_clicked_and_lists_what_is_inside(page, server):
    page.goto(server)
    settle(page)
    open_view(page, "Map")
    drawing, tools = (page.locator(f"{PLOT} {part}").first.bounding_box() for part in (".main-svg", ".modebar"))
    assert drawing["x"] + drawing["width"] <= tools["x"], "the tools cover nothing of the chart"
    assert tools["height"] > tools["width"] and tools["height"] <= drawing["height"]
    for title, suffix, begins in (
        ("Download as PNG", "png", b"\x89PNG"),
        ("Download as SVG", "svg", b"<svg"),
        ("Download as a page (HTML)", "html", b"<!doctype html>"),
    ):
        with page.expect_download(timeout=WAIT) as download:
            page.locator(f".modebar-btn[data-title='{title}']").click()
        content = download.value.path().read_bytes()
        assert download.value.suggested_filename == f"map.{suffix}" and content.startswith(begins)
    assert b"Plotly.newPlot" in content and b"MMR" in content

    page.evaluate(f"window.__node = document.querySelector('{PLOT}')")
    full_range = read_axis_range(page)
    box = page.locator(PLOT).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.wheel(0, -300)
    until(page, lambda: read_axis_range(page) != full_range)
    page.wait_for_timeout(500)
    zoomed, first_overlay = read_axis_range(page), list_overlay(page)
    slide(page, "Home")
    until(page, lambda: list_overlay(page)["MMR"] != first_overlay["MMR"])
    assert list_overlay(page)["Top-k"] == first_overlay["Top-k"]
    assert read_axis_range(page) == pytest.approx(zoomed)
    assert page.evaluate(f"window.__node === document.querySelector('{PLOT}')"), "the chart was made anew"

    # What the release of the slider changes may move the map: a click between looking and pressing hits another point.
    idle(page)
    page.locator(PLOT).first.scroll_into_view_if_needed()
    page.wait_for_timeout(300)
    point = find_isolated_point(page)
    name = page.evaluate(f"at => document.querySelector('{PLOT}').data[0].hovertext[at]", point)
    page.mouse.click(*page.evaluate(POINT_POSITION, point))
    page.get_by_text("nearest in the embedding space").wait_for(timeout=WAIT)
    page.get_by_test_id("stMain").get_by_text(name).first.wait_for(timeout=WAIT)
    page.wait_for_function(
        f"document.querySelector('{PLOT}').data.some(t => t.name === 'nearest' && t.x.length === 30)", timeout=WAIT
    )

    page.locator(".modebar-btn[data-title='Box Select']").click()
    box = page.locator(f"{PLOT} .nsewdrag").bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=8)
    page.mouse.up()
    inside = page.get_by_text("documents inside")
    inside.wait_for(timeout=WAIT)
    count = int(inside.inner_text().split()[0])
    with page.expect_download(timeout=WAIT) as download:
        page.get_by_text("Ids (.txt)").click()
    ids = download.value.path().read_text(encoding="utf-8").split()
    assert len(ids) == count > 5 and all(i.startswith("numpy") for i in ids)


def test_a_cell_of_the_redundancy_map_opens_both_documents(page, server):
    page.goto(server)
    settle(page)
    open_view(page, "Redundancy")
    shown_documents = page.evaluate(
        f"""() => {{
        const plot = document.querySelector('{PLOT}'), drawn = plot._fullData[0], box = plot.getBoundingClientRect();
        const x = plot._fullLayout[drawn.xaxis.replace('x', 'xaxis')];
        const y = plot._fullLayout[drawn.yaxis.replace('y', 'yaxis')];
        const at = [box.x + x._offset + x.d2p(drawn.x[0]), box.y + y._offset + y.d2p(drawn.y[4])];
        return [...at, drawn.z[4][0]];
    }}"""
    )
    page.mouse.click(*shown_documents[:2])
    page.get_by_text(f"Cosine of A and B: {shown_documents[2]:.2f}").wait_for(timeout=WAIT)


def test_four_lists_stand_below_their_tiles_and_none_is_cut_beside_an_open_document(page, server):
    page.set_viewport_size({"width": 1024, "height": 768})
    page.goto(server + "/?v=1&corpus=numpy-api&decoders=top_k,mmr,dpp,nnn")
    settle(page)
    read_edges = f"""name => {ROOTS}.flatMap(root => [...root.querySelectorAll(name)]).map(node => {{
        const {{left, right}} = node.getBoundingClientRect();
        return [Math.round(left), Math.round(right)];
    }})"""
    assert page.evaluate(read_edges, ".tile") == page.evaluate(read_edges, ".list")
    # Also the words of a tile with two sliders, which returns fewer documents, and the longest of the names.
    assert "returns 8 of 10" in page.locator(".tile small").last.inner_text()
    assert page.evaluate(IS_STATE_CUT) == [False] * 4
    longest = page.locator(".list").first.locator(".document[data-rank] .name").filter(has_text="masked_greater_equal")
    assert longest.evaluate("name => name.scrollWidth <= name.clientWidth")
    legend = "Above each slider: filled: diversity, grey: Recall, hatched: off-topic · Squares: cosines within a set"
    assert legend in page.locator(".reading").inner_text()
    # Below the tiles there is room for the trade-off, whose handle sets all decoders to one diversity.
    handle = page.get_by_role("slider", name="Diversity of all decoders")
    handle.evaluate("node => { node.value = 150; node.dispatchEvent(new Event('input')); }")
    page.locator(".document.off").first.wait_for(timeout=WAIT)
    assert handle.is_visible() and handle.bounding_box()["width"] > 600
    # All are read at once: rows change their order among themselves when they have come to rest.
    off_topic = page.locator(".document.off[data-rank]").evaluate_all(
        "rows => rows.map(row => ['.score', '.brief-mark'].every(name => row.querySelector(name).checkVisibility()))"
    )
    assert off_topic and all(off_topic), "the figure is there, and a mark for the word that has no room"
    names = page.locator(".list:last-child .document[data-rank] .name").all_inner_texts()
    assert len(set(names)) == len(names) > 3, names
    assert page.evaluate(IS_STATE_CUT) == [False] * 4
    page.locator(".list .name").nth(4).click()
    page.locator(".st-key-reading").wait_for(timeout=WAIT)
    until(page, lambda: page.evaluate(read_edges, ".lists")[0][1] < 800)
    page.wait_for_timeout(300)
    (_, edge), *_ = page.evaluate(read_edges, ".lists")
    lists = page.evaluate(read_edges, ".list")
    assert sum(right <= edge for _, right in lists) == 2 and not any(left < edge < right for left, right in lists)


@pytest.mark.parametrize("path", deepen(["/", "/tradeoff"], ["/tradeoff"]))
def test_ten_quick_clicks_on_the_arrow_go_ten_queries_on(page, server, path):
    page.goto(f"{server}{path}?v=1&corpus=numpy-api&decoders=top_k,mmr")
    arrow = page.get_by_test_id("stMain").locator(".st-key-header-step-1 button").first
    arrow.wait_for(timeout=WAIT)
    page.wait_for_timeout(1000)
    idle(page)
    labelled, picker = (
        load_dataset("numpy-api").judged("dev").texts,
        page.get_by_test_id("stSelectbox").locator("input"),
    )
    for _ in range(10):
        arrow.click(no_wait_after=True)
    until(page, lambda: picker.first.input_value() == labelled[10])
    idle(page)
    assert picker.first.input_value() == labelled[10]
    page.locator(".st-key-header-step--1 button").first.click()
    until(page, lambda: picker.first.input_value() == labelled[9])


@pytest.mark.deep  # the arrow is clicked in every run
def test_ten_quick_presses_of_j_go_ten_queries_on(page, server):
    page.goto(server + "/?v=1&corpus=numpy-api&decoders=top_k,mmr,nnn")
    settle(page)
    for _ in range(10):
        page.keyboard.press("j")
        # Shorter than the page takes: each press but the last comes while it is drawn anew.
        page.wait_for_timeout(300)
    labelled = load_dataset("numpy-api").judged("dev").texts
    picker = page.get_by_test_id("stSelectbox").locator("input").first
    until(page, lambda: picker.input_value() == labelled[10])
    idle(page)
    assert picker.input_value() == labelled[10]


@pytest.mark.deep
def test_headline_of_standard_settings_gives_way_to_the_setting_once_a_slider_was_moved(page, server):
    page.goto(server + "/?v=1&corpus=numpy-api&decoders=top_k,mmr,nnn")
    settle(page)
    headline = page.locator(".said b.wide")
    headline.wait_for(timeout=WAIT)
    slide(page, "ArrowLeft")
    headline.wait_for(state="detached", timeout=WAIT)
    view(page, "Redundancy")
    page.locator(PLOT).first.wait_for(timeout=WAIT)
    idle(page)
    assert headline.count() == 0, "the page was drawn anew with the same slider"
    # Back at its start the slider is spoken of like at any other value, also when the page is drawn anew.
    words = page.locator(".said span")
    for get_back in (lambda: slide(page, "ArrowRight"), lambda: slider(page).dblclick(), lambda: view(page, "Results")):
        get_back()
        until(page, lambda: words.inner_text().startswith("MMR · λ 0.8: "))
        idle(page)
        assert headline.count() == 0 and words.inner_text().startswith("MMR · λ 0.8: ")
    # It speaks of the standard settings again once the query has been left.
    picker = page.get_by_test_id("stSelectbox").locator("input").first
    query = picker.input_value()
    page.keyboard.press("j")
    until(page, lambda: picker.input_value() != query)
    idle(page)
    page.keyboard.press("k")
    headline.wait_for(timeout=WAIT)
    state = page.locator(".tile small").last.inner_text()
    assert re.fullmatch(r"(returns \d+ of 10 · )?every λ₁ exact · λ₂ in steps", state), state
