"""The sets over the map in a real browser: other components move them, and they stay where their documents are."""

import pytest

from dashboard.charts.palette import method_style
from support.browser import BOTH_SCHEMES, MARKS, WAIT, idle, until, view

pytestmark = MARKS
OVERLAY = ".frontier-overlay"
PINS = """() => {
    const plot = document.querySelector('.js-plotly-plot'), {xaxis, yaxis} = plot._fullLayout, docs = plot._fullData[0];
    const at = new Map(Array.from(docs.customdata, (row, i) => [String(row), i]));
    return [...document.querySelectorAll('.frontier-overlay .document')].map(group => {
        const circle = group.querySelector('circle'), i = at.get(group.dataset.row);
        return {
            row: Number(group.dataset.row), pin: [Number(circle.getAttribute('cx')), Number(circle.getAttribute('cy'))],
            point: [xaxis._offset + xaxis.d2p(docs.x[i]), yaxis._offset + yaxis.d2p(docs.y[i])],
            text: group.querySelector('text')?.textContent ?? '',
            leader: group.querySelector('.leader')?.getAttribute('d').match(/-?[\\d.]+/g).map(Number) ?? null,
        };
    });
}"""
SEND = "sets => document.dispatchEvent(new CustomEvent('frontier:sets', {detail: sets}))"
REDRAWS = """() => {
    const shown = frontier.sets.map(set => ({name: set.key, rows: Int32Array.from(set.rows)})), took = [];
    for (let i = 0; i < 40; i++) {
        const sets = shown.map(set => ({...set, rows: set.rows.map(row => (row + 7 * i) % 800)}));
        const start = performance.now();
        document.dispatchEvent(new CustomEvent('frontier:sets', {detail: {sets}}));
        took.push(performance.now() - start);
    }
    document.dispatchEvent(new CustomEvent('frontier:sets', {detail: {sets: shown}}));
    return took.sort((a, b) => a - b);
}"""


def open_map(page, server, decoders="top_k,mmr,dpp,nnn"):
    page.goto(f"{server}/?v=1&corpus=numpy-api&decoders={decoders}&view=Map")
    page.get_by_text("t-SNE, perplexity").wait_for(timeout=WAIT)
    page.locator(f"{OVERLAY} .document").first.wait_for(state="attached", timeout=WAIT)
    page.locator(".frontier-box").scroll_into_view_if_needed()
    idle(page)


@pytest.fixture(scope="module")
def open_mapped_page(lasting_page, stand):
    """Open the map of four decoders on a page that tests share."""
    open_map(lasting_page, stand.server.url)
    return lasting_page


@pytest.fixture
def mapped_page(open_mapped_page):
    """The shared page, wide, with its pins in their places."""
    open_mapped_page.set_viewport_size({"width": 1440, "height": 900})
    until(open_mapped_page, lambda: are_pins_in_place(open_mapped_page))
    return open_mapped_page


def read_pins(page):
    return {pin["row"]: pin for pin in page.evaluate(PINS)}


def are_pins_in_place(page):
    """Return True if every pin stands on its document."""
    positions = read_pins(page)
    return bool(positions) and all(pin["pin"] == pytest.approx(pin["point"], abs=0.6) for pin in positions.values())


def find_crossings(lines):
    def side(a, b, c):
        return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

    def cross(p, q):
        a, b, c, d = p[:2], p[2:], q[:2], q[2:]
        return side(a, b, c) * side(a, b, d) < -1e-6 and side(c, d, a) * side(c, d, b) < -1e-6

    # On one side of the pins, where leaders begin in one column.
    return [(p, q) for i, p in enumerate(lines) for q in lines[:i] if p[0] == q[0] and cross(p, q)]


@BOTH_SCHEMES
def test_another_components_sets_are_drawn_at_once_where_their_documents_are(page, server):
    open_map(page, server)
    until(page, lambda: are_pins_in_place(page))
    old_sets = page.evaluate("frontier.sets.map(set => [set.key, Array.from(set.rows)])")
    assert [key for key, _ in old_sets] == ["top_k", "mmr", "dpp", "nnn"]
    kept_rows = {row for key, rows in old_sets if key != "mmr" for row in rows}
    new_rows = [row for row in range(0, 800, 60) if row not in kept_rows][:10]
    moved = page.evaluate(
        f"sets => {{ ({SEND})(sets); return ({PINS})() }}",
        {"sets": [{"name": "mmr", "rows": new_rows}, {"name": "none"}]},
    )
    shown_rows = {pin["row"] for pin in moved}
    inside = {pin["row"] for pin in moved if pin["row"] in new_rows}
    outside = page.locator(".frontier-legend span").filter(has_text="MMR").inner_text()
    assert inside and len(inside) + (int(outside.split("(")[1].split()[0]) if "(" in outside else 0) == len(new_rows)
    assert kept_rows <= shown_rows and all(pin["pin"] == pytest.approx(pin["point"], abs=0.6) for pin in moved)
    assert page.evaluate("frontier.sets.find(set => set.key === 'mmr').rows") == new_rows
    page.evaluate(SEND, {"query": "another", "sets": [{"name": "mmr", "rows": []}]})
    assert page.evaluate("frontier.sets.find(set => set.key === 'mmr').rows") == new_rows, "sets of another query"
    colour = method_style("mmr").colour(page.scheme == "dark")
    rings = page.locator(f"{OVERLAY} [data-row='{min(inside)}'] circle").nth(1)
    assert rings.get_attribute("stroke") == colour
    took = page.evaluate(REDRAWS)
    print(f"a redraw of 4 sets of 10: median {took[20]:.1f} ms, lowest {took[0]:.1f} ms")


def test_labels_do_not_cover_each_other_and_leaders_do_not_cross(mapped_page):
    page = mapped_page
    placed_pins = read_pins(page).values()
    named = [pin for pin in placed_pins if pin["leader"]]
    assert len(named) > 15 and not find_crossings([pin["leader"] for pin in named])
    assert all("numpy." not in pin["text"] for pin in named)
    boxes = page.evaluate(
        f"""() => [...document.querySelectorAll('{OVERLAY} text')].map(t => {{
        const b = t.getBoundingClientRect(); return [b.left, b.top + 3, b.right, b.bottom - 3] }})"""
    )
    covered = [
        (a, b)
        for i, a in enumerate(boxes)
        for b in boxes[:i]
        if a[0] < b[2] - 2 and b[0] < a[2] - 2 and a[1] < b[3] and b[1] < a[3]
    ]
    assert not covered, covered
    relevant = page.locator(f"{OVERLAY} text").filter(has_text="✓")
    assert relevant.count() >= 1 and page.locator(f"{OVERLAY} .query-mark").count() == 1


@pytest.mark.deep
def test_no_label_lies_below_the_controls_in_the_corner(page, server):
    open_map(page, server, "top_k,mmr,dpp,nnn,max_sum,facility_location")
    until(page, lambda: are_pins_in_place(page))
    covered = """() => {
        const controls = document.querySelector('.st-key-map-side').closest('.stColumn');
        const {left, bottom} = controls.getBoundingClientRect();
        const boxes = [...document.querySelectorAll('.frontier-overlay .document text')].map(
            text => text.getBoundingClientRect());
        const covered = boxes.filter(box => box.right > left && box.top + 3 < bottom);
        return [getComputedStyle(controls).position, boxes.length > 15, covered.length];
    }"""
    until(page, lambda: page.evaluate(covered) == ["absolute", True, 0])


def test_hovering_is_told_and_heard(mapped_page):
    page = mapped_page
    page.evaluate("document.addEventListener('frontier:hover', e => (globalThis.heard ??= []).push(e.detail.row))")
    box = page.locator(".frontier-box").bounding_box()
    placed_pins = read_pins(page)
    row, pin = max(
        placed_pins.items(),
        key=lambda item: min(
            abs(item[1]["pin"][0] - p["pin"][0]) + abs(item[1]["pin"][1] - p["pin"][1])
            for r, p in placed_pins.items()
            if r != item[0]
        ),
    )
    page.mouse.move(box["x"] + pin["pin"][0] + 2, box["y"] + pin["pin"][1])
    until(page, lambda: page.evaluate("globalThis.heard?.at(-1)") == row)
    assert page.locator(f"{OVERLAY} .hot").get_attribute("data-row") == str(row)
    assert page.locator(f"{OVERLAY} .pulse").count() == 0, "a pin under the mouse does not pulse"
    page.mouse.move(5, 5)
    until(page, lambda: page.evaluate("globalThis.heard.at(-1)") is None)
    page.evaluate("row => document.dispatchEvent(new CustomEvent('frontier:hover', {detail: {row}}))", row)
    assert page.locator(f"{OVERLAY} .pulse").get_attribute("data-row") == str(row)


def test_a_phone_shows_signs_in_place_of_names(mapped_page):
    page = mapped_page
    page.set_viewport_size({"width": 390, "height": 844})
    until(page, lambda: are_pins_in_place(page))
    until(page, lambda: not [p for p in read_pins(page).values() if p["leader"] or "masked" in p["text"]])
    assert page.locator(f"{OVERLAY} .document text").count() >= 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_pins_follow_the_zoom_and_the_window_and_go_with_the_plot(mapped_page):
    page = mapped_page
    first = read_pins(page)
    box = page.locator(".frontier-box").bounding_box()
    row = next(row for row, pin in first.items() if pin["text"])
    x, y = first[row]["pin"]
    page.mouse.move(box["x"] + x, box["y"] + y)
    page.mouse.wheel(0, -200)
    until(page, lambda: read_pins(page) != first and are_pins_in_place(page))
    page.set_viewport_size({"width": 1100, "height": 900})
    until(page, lambda: are_pins_in_place(page))
    page.get_by_text("Whole corpus").click()
    until(page, lambda: are_pins_in_place(page) and len(page.locator(f"{OVERLAY} .cluster").all()) > 5)
    view(page, "Redundancy")
    page.locator(OVERLAY).wait_for(state="detached", timeout=WAIT)
    page.evaluate(SEND, {"sets": [{"name": "mmr", "rows": [1, 2]}]})  # nobody listens any more


@pytest.mark.deep
def test_the_map_has_its_height_before_the_chart_library_is_there(page, server):
    page.route("**/vendor/plotly*", lambda route: page.wait_for_timeout(1500) or route.continue_())
    page.goto(f"{server}/?v=1&corpus=numpy-api&decoders=top_k,mmr&view=Map")
    box = page.locator(".frontier-plot")
    box.wait_for(state="attached", timeout=WAIT)
    first_height = box.bounding_box()["height"]
    page.locator(f"{OVERLAY} .document").first.wait_for(state="attached", timeout=WAIT)
    assert first_height == box.bounding_box()["height"] > 400


@pytest.mark.deep
def test_before_a_query_the_map_has_names_and_no_mark_and_a_suggested_search_runs(page, server):
    page.goto(f"{server}/?v=1&corpus=numpy-api&text=")
    page.get_by_text("The map keeps").wait_for(timeout=WAIT)
    page.locator(f"{OVERLAY} .cluster").first.wait_for(state="attached", timeout=WAIT)
    assert not page.locator(f"{OVERLAY} :is(.query-mark, .document)").count()
    search = page.locator("[class*=st-key-suggestions-explore] button").first
    text = search.inner_text()
    search.click()
    page.locator(".tile").first.wait_for(timeout=WAIT)
    assert page.get_by_label("Your query").input_value() == text
