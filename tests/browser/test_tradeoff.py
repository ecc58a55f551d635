"""Trade-off in a real browser: points open sets, the budget and λ are dragged without a message to the server."""

import re

import pytest

import engine
from support.browser import MARKS, WAIT, idle, lists, slide, until

pytestmark = MARKS
PLOT = ".js-plotly-plot"
BUTTONS = ["Cancel", "Pause"]
LONELIEST = f"""() => {{
    const plot = document.querySelector('{PLOT}'), box = plot.getBoundingClientRect();
    const {{xaxis, yaxis, _size}} = plot._fullLayout;
    const all = plot._fullData.filter(t => t.customdata && t.visible === true).flatMap(t => Array.from(t.x, (x, i) =>
        [String([t.customdata[i]].flat()[0]), xaxis.d2p(x), yaxis.d2p(t.y[i])]))
        .filter(([_, x, y]) => x >= 0 && x <= _size.w && y >= 0 && y <= _size.h);
    const apart = p => Math.min(...all.filter(o => o[0] !== p[0]).map(o => Math.hypot(o[1] - p[1], o[2] - p[2])));
    const [label, x, y] = all.reduce((best, p) => apart(p) > apart(best) ? p : best);
    return [label, box.x + _size.l + x, box.y + _size.t + y];
}}"""
RANGES = f"() => ['xaxis', 'yaxis'].map(name => document.querySelector('{PLOT}')._fullLayout[name].range)"
STRUCK = f"""() => {{
    const line = document.querySelector('.frontier-frame .line').getBoundingClientRect().top, struck = [];
    for (const label of document.querySelectorAll('{PLOT} .annotation')) {{
        // Its leader may end on the line.
        const {{ top, bottom }} = label.querySelector('.annotation-text-g').getBoundingClientRect();
        if (label.style.visibility !== 'hidden' && top < line && line < bottom) struck.push(label.textContent);
    }}
    return struck;
}}"""
"""Names on the chart that the budget's line strikes through."""
LINES_INSIDE = """() => [...document.querySelectorAll('.frontier-frame')].map(frame => {
    const line = frame.querySelector('.line').getBoundingClientRect(), box = frame.getBoundingClientRect();
    return line.bottom >= box.top && line.top < box.bottom;
})"""
"""Whether the budget's line is visible in each panel."""
DOT = "() => document.querySelector('.frontier-dot').style.transform"
UNREACHED_LINKS = """() => [...document.querySelectorAll('[data-testid=stTopNavLink]')].filter(link => {
    const { left, top, width, height } = link.getBoundingClientRect(), shares = [.1, .3, .5, .7, .9];
    return shares.some(share => !link.contains(document.elementFromPoint(left + share * width, top + height / 2)));
}).map(link => link.textContent)"""
PANELS = f"""() => {{
    const plot = document.querySelector('{PLOT}'), titles = [...(plot?.querySelectorAll('.annotation') ?? [])];
    if (!titles.length) return null;
    const plain = text => new DOMParser().parseFromString(text, 'text/html').body.textContent;
    const {{meta, annotations}} = plot.layout;
    return meta.panels.map((method, i) => [method, titles[i].textContent, plain(annotations[i].text)]);
}}"""
"""Each panel's method, the title that is drawn, and that of the server."""
LINE = "() => Number(document.querySelector('.frontier-level').getAttribute('aria-valuenow'))"
LOOKS = f"""() => {{
    const plot = document.querySelector('{PLOT}');
    const find = name => [...plot.querySelectorAll(`.scatterlayer .trace ${{name}}`)].map(getComputedStyle);
    const isDrawn = node => node.style.display !== 'none';
    const marks = [...document.querySelectorAll('.frontier-frame > :is(.sure, .bet)')].filter(isDrawn);
    const {{xaxis, yaxis}} = plot._fullLayout, pixels = (mark, name) => parseFloat(mark.style[name] || 0);
    const places = mark => [xaxis.p2d(pixels(mark, 'left')), yaxis.p2d(pixels(mark, 'top')),
        yaxis.p2d(pixels(mark, 'top') + pixels(mark, 'height'))];
    return {{
        widths: find('path.js-line').map(style => parseFloat(style.strokeWidth)),
        opacities: find('path.point').map(style => Number(style.opacity)),
        rings: marks.filter(mark => mark.classList.contains('ring')).map(mark => [mark.className, ...places(mark)]),
        strips: marks.filter(mark => mark.classList.contains('strip')).map(mark => [mark.className, ...places(mark)]),
        labels: [...document.querySelectorAll('.frontier-choice')].filter(isDrawn).map(label => label.textContent),
    }};
}}"""
"""Widths of lines, opacities of points, and the marks at the two choices, as they are drawn."""


def open_measured_page(page, server):
    """Open the page with few steps and wait until its job has ended."""
    page.goto(f"{server}/tradeoff")
    page.get_by_text("Setup", exact=True).click(timeout=WAIT)
    slide(page, "Home", "steps per parameter")
    page.keyboard.press("Escape")
    page.locator(PLOT).first.wait_for(timeout=2 * WAIT)
    page.get_by_text(re.compile("Mean of .* queries")).first.wait_for(timeout=3 * WAIT)
    until(page, lambda: page.get_by_text("Wins and losses", exact=True).count() == 1)
    wait_until_measured(page)


@pytest.fixture(scope="module")
def open_shared_page(lasting_page, stand):
    """Open the page once for tests that share it."""
    open_measured_page(lasting_page, stand.server.url)
    return lasting_page


@pytest.fixture
def shared_page(open_shared_page):
    """The shared page, wide and at its top; the test on it that opens other settings comes last."""
    page, wide = open_shared_page, {"width": 1440, "height": 900}
    page.get_by_test_id("stMain").evaluate("main => main.scrollTo(0, 0)")
    if page.viewport_size != wide:
        page.set_viewport_size(wide)
        # All plots take the width of the window one after the other.
        page.wait_for_timeout(1000)
        idle(page)
    return page


def wait_until_measured(page):
    """Wait until no job measures any more and the page that its end draws anew stands still."""
    until(page, lambda: all(page.get_by_text(name, exact=True).count() == 0 for name in BUTTONS))
    idle(page)
    page.wait_for_timeout(1000)


def record_sent_messages(page):
    """Record the messages of a page that is still to be opened, one entry each."""
    sent = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
    return sent


def click_last_bar(page):
    """Click on the last bar of the wins and losses and wait until its query is asked."""
    bars = page.locator(".st-key-tradeoff-wins, [class*=st-key-tradeoff]").locator(PLOT).last
    bars.scroll_into_view_if_needed()
    bar_position = page.evaluate(
        f"""() => {{ const plot = [...document.querySelectorAll('{PLOT}')].at(-1), box = plot.getBoundingClientRect();
        const {{xaxis, yaxis, _size}} = plot._fullLayout, {{x, y}} = plot.data[0];
        return [box.x + _size.l + xaxis.d2p(x.at(-1)), box.y + _size.t + yaxis.d2p(y.at(-1) / 2)]; }}"""
    )
    page.mouse.click(*bar_position)
    # The last bar is that of the last query, in the order of the differences.
    until(page, lambda: page.get_by_text(re.compile(r"^(\d+) of \1 · Recall −")).count() == 1)


def read_verdict(page):
    """Return the sentences above the chart, and role, name, coloured squares and chance of each choice."""
    choices = []
    for choice in page.locator(".choice:visible").all():
        role, name, chance = (choice.locator(f".{part}").inner_text() for part in ("role", "name", "chance"))
        choices.append((role, name, choice.locator(".kept").count(), chance))
    return page.locator(".sentence:visible").all_inner_texts(), choices


def assert_same_looks(looks, other_looks):
    """Assert that lines, points and marks look alike, up to the browser's approximation of chances."""
    # A hundredth of a chance is 0.05 pixels of a line's width, and 0.008 of a point's opacity.
    assert looks["widths"] == pytest.approx(other_looks["widths"], abs=0.051)
    assert looks["opacities"] == pytest.approx(other_looks["opacities"], abs=0.011)
    for name in ("rings", "strips"):
        assert [part for part, *_ in looks[name]] == [part for part, *_ in other_looks[name]]
        for (_, *places), (_, *other_places) in zip(looks[name], other_looks[name], strict=True):
            assert places == pytest.approx(other_places, abs=0.02)
    assert looks["labels"] == other_looks["labels"]


@pytest.mark.deep  # one chart's budget is dragged in every run
def test_panels_are_the_default_from_four_decoders_and_their_budget_is_dragged(page, server):
    sent = record_sent_messages(page)
    open_measured_page(page, server)
    for name, n_settings in (("DPP", 2), ("VRSD", 3)):
        page.locator(".st-key-tradeoff-decoders button").filter(has_text=name).click()
        page.get_by_role("button", name=f"Measure {n_settings} settings").wait_for(timeout=WAIT)
        idle(page)
    page.get_by_role("button", name="Measure 3 settings").click()
    page.get_by_text("Panels", exact=True).wait_for(timeout=3 * WAIT)
    # The baseline, a single point, has no panel of its own.
    until(page, lambda: page.locator(".frontier-frame").count() == 3)
    until(page, lambda: page.locator(".best tbody tr").count() == 3)
    wait_until_measured(page)
    # What is counted in the background comes above the chart, and moves it.
    places, n_equal = [], 15
    second = page.locator(".frontier-level").nth(1)
    until(page, lambda: places.append(second.bounding_box()) or places[-n_equal:] == [places[-1]] * n_equal)
    tops = page.evaluate(
        "() => [...document.querySelectorAll('.frontier-level')].map(node => node.getBoundingClientRect().y)"
    )
    box, first_verdict, n_sent_before = (
        page.locator(".frontier-level").nth(1).bounding_box(),
        read_verdict(page),
        len(sent),
    )
    # The line of the second panel moves those of all, and the words.
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y + 25, steps=4)
    moved = page.evaluate(
        "() => [...document.querySelectorAll('.frontier-level')].map(node => node.getBoundingClientRect().y)"
    )
    assert len(tops) == len(moved) == 3 and all(now > before + 15 for now, before in zip(moved, tops, strict=True))
    assert read_verdict(page) != first_verdict and len(sent) == n_sent_before
    # The titles follow with the table, and a line that is held does not leave its panel.
    page.mouse.move(x, y + 300, steps=4)
    gains = [re.sub(r"\s+", " ", text) for text in page.locator(".best tbody td:nth-of-type(1)").all_inner_texts()]
    shares = [re.sub(r"\s+", " ", text) for text in page.locator(".best tbody td:nth-of-type(3)").all_inner_texts()]
    table = {f"{gain}, {share}" for gain, share in zip(gains, shares, strict=True)}
    titles = page.locator(f"{PLOT} .annotation").all_text_contents()[:3]
    assert {re.sub(r"^.*? (?=[+−]?\d)", "", title) for title in titles} == table
    assert page.evaluate(LINES_INSIDE) == [True] * 3
    page.mouse.move(x, y + 25, steps=4)
    page.mouse.up()
    until(page, lambda: len(sent) == n_sent_before + 1)
    assert_panels_keep_their_names_when_a_budget_arranges_them_anew(page)
    assert_confirmation_is_said_at_its_budget_alone(page)


def assert_panels_keep_their_names_when_a_budget_arranges_them_anew(page):
    """Step the budget down until another decoder's panel comes first; each panel has the title of what is in it."""
    slider, titles = page.get_by_role("slider", name="Budget").first, engine.methods()
    wait_until_measured(page)
    until(page, lambda: page.evaluate(PANELS))
    first_order = [method for method, *_ in page.evaluate(PANELS)]
    for _ in range(20):
        share = page.evaluate(LINE)
        slider.press("ArrowDown")
        until(page, lambda at=share: page.evaluate(LINE) < at)
        page.wait_for_timeout(500)
        wait_until_measured(page)
        until(page, lambda: page.evaluate(PANELS))
        panels = page.evaluate(PANELS)
        for method, drawn, told in panels:
            assert drawn == told and titles[method].title in drawn
        if [method for method, *_ in panels] != first_order:
            return
    pytest.fail("no budget arranges the panels anew")


def assert_confirmation_is_said_at_its_budget_alone(page):
    """Confirm the choice on the other split; what that denies is no longer called sure, until the budget changes."""
    # A click before the page is drawn for the new budget would ask about the last one.
    share = f"{page.evaluate(LINE):g}%"
    until(page, lambda: share in page.locator(".budget").filter(has_text="Keep at least").inner_text())
    wait_until_measured(page)
    page.get_by_role("button", name="Confirm on test").click()
    said = re.compile(r"on test \d", re.IGNORECASE)
    page.locator(".choice:visible").filter(has_text=said).first.wait_for(timeout=WAIT)
    idle(page)
    is_denied = page.locator(".sentence:visible").first.inner_text().startswith("On dev ")
    role = page.locator(".choice:visible .role").first.inner_text()
    assert role == ("Looked sure on dev, not on test" if is_denied else "Sure")
    labels = page.locator(".frontier-choice").all_inner_texts()
    assert ("looked sure" in labels) == is_denied
    actions = page.locator(".st-key-tradeoff-actions")
    assert actions.is_visible()
    next_share = f"{page.evaluate(LINE) - 0.5:g}%"
    page.get_by_role("slider", name="Budget").press("ArrowDown")
    # The buttons are about the budget that the server knows, and all that the browser draws is about the next one.
    assert not actions.is_visible(), "buttons of the last budget step aside"
    drawn = page.locator(".best thead, .choice:visible .chance, .budget").all_inner_texts()
    assert len(drawn) >= 3 and all(next_share in text for text in drawn if text)
    assert page.locator(".choice:visible .role").first.inner_text() == "Sure"
    assert page.locator(".sentence:visible").first.inner_text().startswith("With ")
    until(page, actions.is_visible)


def test_the_chart_stands_just_below_the_sentences_which_no_help_hides(shared_page):
    page = shared_page
    sentences, plot = page.locator(".st-key-tradeoff-headline"), page.locator(".nsewdrag").first
    assert plot.bounding_box()["y"] - sentences.bounding_box()["y"] <= 200
    page.get_by_role("button", name="Confirm on test").hover()
    tooltip = page.get_by_test_id("stTooltipContent")
    tooltip.wait_for(timeout=WAIT)
    box = sentences.bounding_box()
    until(page, lambda: tooltip.bounding_box()["y"] >= box["y"] + box["height"])
    above = lambda: plot.bounding_box()["y"] - page.get_by_text("Show all").first.bounding_box()["y"]  # noqa: E731
    gap = above()
    page.get_by_test_id("stMain").evaluate("main => main.scrollBy(0, 200)")
    until(page, lambda: sentences.bounding_box()["y"] < box["y"] - 100)
    assert above() == pytest.approx(gap, abs=1), "the switch over the chart scrolls with it"


def test_on_a_phone_no_name_crosses_a_whisker_and_no_button_is_cut(shared_page):
    page = shared_page
    page.set_viewport_size({"width": 390, "height": 844})
    until(page, lambda: page.locator(".frontier-choice").all_inner_texts() == ["sure", "bet"])
    until(page, lambda: page.locator(".frontier-frame").first.bounding_box()["width"] < 390)
    boxes = [label.bounding_box() for label in page.locator(".frontier-choice:visible").all()]
    strips = [strip.bounding_box() for strip in page.locator(".frontier-frame .strip:visible").all()]
    assert len(boxes) == 2 and len(strips) >= 2
    for box in boxes:
        assert all(not box["x"] < strip["x"] < box["x"] + box["width"] for strip in strips)
    for name in ("Use in Explore", "Card", "Confirm on test"):
        box = page.get_by_role("button", name=name).first.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390, name


def test_on_a_phone_the_budget_stands_above_the_chart_and_stays_in_view_beside_it(shared_page):
    page = shared_page
    page.set_viewport_size({"width": 390, "height": 844})
    until(page, lambda: page.locator(".frontier-frame").first.bounding_box()["width"] < 390)
    budget, chart = page.locator(".st-key-tradeoff-budget-place"), page.locator(PLOT).first
    switch = page.locator(".st-key-tradeoff-switches-over")

    def read_bottom(part):
        box = part.bounding_box()
        return box["y"] + box["height"]

    assert read_bottom(budget) <= switch.bounding_box()["y"] and read_bottom(switch) <= chart.bounding_box()["y"] + 1
    page.get_by_text(re.compile("Mean of .* queries")).first.evaluate("node => node.scrollIntoView({block: 'start'})")
    until(page, lambda: read_bottom(chart) < 200)
    assert 0 < budget.bounding_box()["y"] < 100, "it sticks below the navigation"


def test_a_choice_and_a_row_open_their_settings_and_the_row_widens_its_decoders_lines(shared_page):
    page = shared_page
    wait_until_measured(page)
    names = [name.split(" ", 1)[1] for _, name, _, _ in read_verdict(page)[1]]
    heading = page.get_by_test_id("stMain").locator("strong")
    for number in (1, 0):
        page.locator(".choice:visible").nth(number).click()
        heading.filter(has_text=names[number]).first.wait_for(timeout=WAIT)
        idle(page)
    assert len(set(names)) == 2

    before = page.evaluate(LOOKS)["widths"]
    row = page.locator(".best tbody tr").first
    row.hover()
    until(page, lambda: page.evaluate(LOOKS)["widths"] == pytest.approx([width + 2 for width in before], abs=0.06))
    assert max(before) <= 3, "nine of them share a picture"
    page.mouse.move(5, 5)
    until(page, lambda: page.evaluate(LOOKS)["widths"] == pytest.approx(before, abs=0.06))
    name = row.locator("button span").inner_text()
    row.click()
    page.locator(".setting strong").filter(has_text=name).wait_for(timeout=WAIT)


@pytest.mark.deep  # a cell and a point of Explore's charts are clicked in every run
def test_a_click_on_a_bar_asks_its_query_and_one_on_a_point_opens_its_set(page, server):
    open_measured_page(page, server)
    click_last_bar(page)
    page.get_by_text("Show all", exact=True).click()
    idle(page)
    page.wait_for_timeout(1000)
    label, x, y = page.evaluate(LONELIEST)
    name = re.search(r"→ (\w+)", label).group(1)
    page.mouse.click(x, y)
    heading = page.get_by_test_id("stMain").locator("strong", has_text=engine.methods()[name].title)
    heading.first.wait_for(timeout=WAIT)
    until(page, lambda: len(lists(page)[0]) >= 5)
    assert page.evaluate(LONELIEST)[0] == label, "the point stays where it was"


def test_the_budget_is_dragged_in_the_browser_and_told_once_on_release(page, server):
    sent = record_sent_messages(page)
    open_measured_page(page, server)
    level = page.get_by_role("slider", name="Budget")
    level.scroll_into_view_if_needed()
    assert level.inner_text() == "keep ≥ 95% of Top-k's Recall"
    box, first_verdict, first_looks = level.bounding_box(), read_verdict(page), page.evaluate(LOOKS)
    assert "keep 95% of Top-k's Recall@10" in first_verdict[0][0]
    assert not page.evaluate(STRUCK)
    slider = page.locator(".budget").filter(has_text="Keep at least this share")
    x, y, n_sent_before = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, len(sent)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - 20, steps=4)
    for down in (10, 25, 40):
        page.mouse.move(x, y + down, steps=4)
        share, (sentences, choices) = page.evaluate(LINE), read_verdict(page)
        assert level.inner_text() == f"keep ≥ {share:g}% of Top-k's Recall"
        assert slider.locator("output").inner_text() == f"{share:g}%", "the slider beside the chart follows"
        assert page.locator(".best:visible th", has_text=f"Keeps {share:g}%").count() == 1
        assert f"keep {share:g}% of Top-k's Recall@10" in sentences[0]
        if choices[0][0] == "Sure":
            chosen = page.locator(".best:visible tbody tr").first
            assert "chosen" in chosen.get_attribute("class"), "the table follows, its first row is the sure setting"
            row = chosen.inner_text().replace("\N{NO-BREAK SPACE}", " ")
            assert choices[0][1].split(" ", 1)[1] in row and "sure" in row
        assert len(choices) == len(page.evaluate(LOOKS)["rings"]) > 0
        for (role, name, n_squares, chance), label in zip(choices, page.evaluate(LOOKS)["labels"], strict=True):
            assert name.split(" ", 1)[1] in " ".join(sentences) and f"{role.lower()}: {name.split(' ', 1)[1]}" == label
            reason = ", lowered as the best of many looks better than it is" if n_squares < 50 else ""
            assert chance.removesuffix(reason) == f"chance to keep {share:g}% of Recall: {n_squares} in 100"
            assert (n_squares >= 95) == (role == "Sure")
    assert 80 < share < 95 and len(sent) == n_sent_before, "the line follows, the server hears nothing"
    dragged_verdict, dragged_looks = read_verdict(page), page.evaluate(LOOKS)
    assert dragged_verdict != first_verdict and dragged_looks["rings"] != first_looks["rings"]
    assert len(dragged_looks["widths"]) == len(first_looks["widths"]) > 10
    widened = zip(dragged_looks["widths"], first_looks["widths"], strict=True)
    assert all(now > before - 0.051 for now, before in widened) and dragged_looks["widths"] != first_looks["widths"]
    page.mouse.up()
    until(page, lambda: f"{share:g}%" in slider.inner_text())
    assert len(sent) == n_sent_before + 1
    idle(page)
    page.wait_for_timeout(500)
    assert read_verdict(page) == dragged_verdict, "the server says what the browser said"
    assert_same_looks(page.evaluate(LOOKS), dragged_looks)
    level.focus()
    level.press("ArrowUp")
    until(page, lambda: f"{share + 0.5:g}%" in slider.inner_text())
    until(page, lambda: f"keep {share + 0.5:g}% of Top-k's" in read_verdict(page)[0][0])
    page.set_viewport_size({"width": 1024, "height": 900})
    # There is none while the page is drawn anew.
    until(page, lambda: (page.locator(PLOT).first.bounding_box() or {"width": 0})["width"] > 900)


def test_the_dot_runs_along_the_curve_under_the_finger(page, server):
    sent = record_sent_messages(page)
    open_measured_page(page, server)
    handle = page.get_by_role("slider", name="MMR λ")
    handle.scroll_into_view_if_needed()
    page.wait_for_function("[...frontier.paths?.values() ?? []].some(Boolean)", timeout=WAIT)
    dot, query_kind = (page.locator(f".st-key-{key}").bounding_box() for key in ("tour", "header-kind"))
    assert dot["width"] <= 24 and abs(dot["x"] + 12 - query_kind["x"]) < 2, "at its control"
    assert page.evaluate(UNREACHED_LINKS) == [], "and over nothing"
    idle(page)
    box, n_sent_before, places, sets = handle.bounding_box(), len(sent), set(), set()
    first_ranges, heading = page.evaluate(RANGES), page.locator(".setting strong")
    page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + box["height"] / 2)
    page.mouse.down()
    for step in range(1, 9):
        page.mouse.move(box["x"] + (0.8 + 0.02 * step) * box["width"], box["y"] + box["height"] / 2)
        places.add(page.evaluate(DOT))
        sets.add((page.locator(".reached").inner_text(), *lists(page)[0]))
    caption = page.locator(".frontier-scrub output").inner_text()
    value = float(re.match(r"λ (\S+)", caption).group(1))
    assert heading.inner_text() == f"MMR · λ {value:g}", "the heading follows too"
    assert len(sets) > 3, "the set beside the chart follows"
    assert (
        len(places) > 5
        and len(sent) == n_sent_before
        and re.fullmatch(r"λ 0\.\d\d · Recall [\d.]+% · ILAD 0\.\d{3}", caption)
    )
    page.mouse.up()
    shown_documents = lists(page)[0]
    until(page, lambda: len(sent) == n_sent_before + 1)
    idle(page)
    page.wait_for_timeout(500)
    assert heading.inner_text() == f"MMR · λ {value:g}" and len(sent) == n_sent_before + 1
    assert lists(page)[0] == shown_documents, "the engine's own answer is what was drawn"
    handle.press("ArrowLeft")
    then = f"MMR · λ {value - 0.01:.2f}".rstrip("0")
    page.get_by_test_id("stMain").locator("strong", has_text=then).first.wait_for(timeout=WAIT)
    handle.press("Home")
    # The last setting lies far outside the window, which is widened for it and is the page's own again after it.
    until(page, lambda: page.evaluate(RANGES) != first_ranges)
    plot, dot = (page.locator(selector).first.bounding_box() for selector in (PLOT, ".frontier-dot"))
    assert plot["x"] < dot["x"] < plot["x"] + plot["width"] and plot["y"] < dot["y"] < plot["y"] + plot["height"]
    page.get_by_test_id("stMain").locator("strong", has_text="MMR · λ 0").first.wait_for(timeout=WAIT)
    handle.press("End")
    until(page, lambda: page.evaluate(RANGES) == first_ranges)
