"""Scrubbing in a real browser: every frame of a drag is the engine's answer, and nothing is sent before the release."""

import random
import re
import statistics
from itertools import pairwise

import numpy as np
import pytest

import engine
from engine.views.decision import similarities
from support.browser import MARKS, WAIT, idle, until
from support.draws import deepen

pytestmark = MARKS
FOUR = "/?v=1&corpus=numpy-api&decoders=top_k,mmr,dpp,nnn"
ROOTS = """() => [...document.querySelectorAll('*')].map(node => node.shadowRoot).filter(Boolean)"""
READ_LISTS = f"""() => Object.fromEntries(({ROOTS})().flatMap(root => [...root.querySelectorAll('.list')]).map(list =>
    [list.ariaLabel, [...list.querySelectorAll('.document[data-rank]')]
        .sort((a, b) => a.dataset.rank - b.dataset.rank).map(row => Number(row.dataset.row))]))"""
MOVE = f"""async ([label, values]) => {{
    const input = ({ROOTS})().flatMap(root => [...root.querySelectorAll('input[type=range]')])
        .find(input => input.ariaLabel === label);
    const drawn = {READ_LISTS}, frame = () => new Promise(requestAnimationFrame), found = [];
    for (const share of values) {{
        input.value = Math.round(share * input.max);
        input.dispatchEvent(new Event('input'));
        await frame();
        const decoder = globalThis.frontier.shown.decoders.find(decoder => label.startsWith(decoder.title));
        found.push([decoder.set?.rows ?? null, drawn()]);
    }}
    return [Number(input.max), found];
}}"""

SET_TO = "frontier.shown.decoders.find(d => d.name === 'mmr').sliders[0].value"
"""As the server has it."""


READ_PLACES = f"""() => ({ROOTS})().flatMap(root => [...root.querySelectorAll('.front .place')]).map(node => {{
    const {{left, width}} = node.getBoundingClientRect(), start = node.ownerSVGElement.getBoundingClientRect().left;
    const {{fontWeight}} = getComputedStyle(node);
    return [node.textContent, left + width / 2 - start, Number(node.getAttribute('x')), fontWeight];
}})"""
"""Each tick of the query's trade-off: text, the middle of it, the place that it names, and weight of its font."""


READ_RELEVANT = f"""() => {{
    const read = (query, each) => ({ROOTS})().flatMap(root => [...root.querySelectorAll(query)].map(each));
    const ranked = read('.document.right[data-rank] .name', node => node.title);
    const missed = read('.missed-by-all', node => node.textContent).join();
    return [[...new Set(ranked)], [...missed.matchAll(/([^ ,]+) \\(/g)].map(match => match[1])];
}}"""
"""The relevant documents of the lists, and those of the line that names what all miss."""
READ_GREY = f"""selector => ({ROOTS})().flatMap(root => [...root.querySelectorAll(`${{selector}}.unreached`)])
    .map(node => node.ariaLabel)"""
"""Names of the tiles or lists that are grey, as their decoders do not reach a diversity."""
DROP_OTHERS = """() => {
    frontier.shown = { ...frontier.shown, decoders: frontier.shown.decoders.filter(decoder => decoder.baseline) };
    document.dispatchEvent(new CustomEvent('frontier:sets', { detail: frontier.shown }));
}"""


def open_explore(page, server, address=FOUR):
    page.sent = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda text: page.sent.append(text)))
    page.goto(server + address)
    page.locator(".tile canvas").first.wait_for(timeout=WAIT)
    page.wait_for_function("globalThis.frontier?.paths?.size >= 4", timeout=WAIT)
    page.wait_for_function("[...globalThis.frontier.paths.values()].every(path => path)", timeout=WAIT)
    idle(page)


@pytest.fixture(scope="module")
def explored_page(lasting_page, stand):
    """A page of four decoders that tests share: keys step first, then sliders are moved and never let go."""
    open_explore(lasting_page, stand.server.url)
    return lasting_page


def slider(page, label):
    return page.get_by_role("slider", name=label, exact=True)


@pytest.mark.deep
def test_a_tile_says_that_its_curve_is_being_computed_until_it_is_there(page, server):
    """On a new machine that takes seconds, in which the page looked finished."""
    held = []
    page.route("**/answers/**", lambda route: held.append(route))
    page.goto(f"{server}/?v=1&corpus=numpy-api&decoders=top_k,mmr")
    tile = page.get_by_role("group", name="MMR")
    tile.get_by_text("computing every λ").wait_for(timeout=WAIT)
    assert page.locator(".tile.waiting .plot").count() == 1, "the baseline has no curve to wait for"
    while held:
        held.pop().continue_()
        page.wait_for_timeout(100)
    page.unroute("**/answers/**")
    tile.get_by_text("exact").wait_for(timeout=WAIT)
    assert not page.locator(".tile.waiting").count() and not tile.get_by_text("computing").count()


def test_a_drag_is_drawn_in_its_frames_and_sent_on_release(page, server):
    open_explore(page, server)
    box = slider(page, "MMR λ").bounding_box()
    point_at = lambda share: (box["x"] + 8 + (box["width"] - 16) * share, box["y"] + box["height"] / 2)  # noqa: E731
    page.evaluate("frontier.log = []")
    page.mouse.move(*point_at(0.8))
    page.mouse.down()
    page.wait_for_timeout(100)
    n_sent_before, first, splits = len(page.sent), page.evaluate(READ_LISTS), set()
    for step in range(60):
        page.mouse.move(*point_at(0.8 - 0.75 * step / 59))
        page.wait_for_timeout(20)
        ranked, missed = page.evaluate(READ_RELEVANT)
        splits.add((frozenset(ranked), frozenset(missed)))
    (relevant,) = {ranked | missed for ranked, missed in splits}
    assert not any(ranked & missed for ranked, missed in splits), "what all miss follows in the same frame"
    assert len(page.sent) == n_sent_before, "nothing is sent while the thumb is held"
    dragged_lists = page.evaluate(READ_LISTS)
    assert (
        dragged_lists["MMR"] != first["MMR"]
        and dragged_lists["DPP"] == first["DPP"]
        and dragged_lists["Top-k"] == first["Top-k"]
    )
    took = page.evaluate("frontier.log.filter(entry => entry.changed).map(entry => entry.took)")
    print(f"frames with a change: {len(took)}, median {statistics.median(took):.1f} ms, most {max(took):.1f} ms")
    assert len(took) > 10
    page.mouse.up()
    until(page, lambda: len(page.sent) > n_sent_before)
    until(page, lambda: 0 < page.evaluate(SET_TO) < 0.2 and f"mmr.relevance_weight={page.evaluate(SET_TO)}" in page.url)
    assert page.evaluate(READ_LISTS) == dragged_lists, "the engine's answer is what was drawn"
    # With the baseline's list alone more is missed, at once and without a message.
    n_missed, n_sent_before = len(page.evaluate(READ_RELEVANT)[1]), len(page.sent)
    page.evaluate(DROP_OTHERS)
    ranked, missed = page.evaluate(READ_RELEVANT)
    assert len(missed) > n_missed and {*ranked, *missed} == relevant and len(page.sent) == n_sent_before


def test_keys_step_from_one_change_of_the_set_to_the_next(explored_page):
    page = explored_page
    slider(page, "MMR λ").focus()
    length, seen = page.evaluate("history.length"), [page.evaluate(READ_LISTS)["MMR"]]
    for _ in range(3):
        page.keyboard.press("[")
        page.wait_for_timeout(50)
        seen.append(page.evaluate(READ_LISTS)["MMR"])
    sets = [frozenset(rows) for rows in seen]
    assert all(a != b for a, b in pairwise(sets)), "each press changes the set"
    until(page, lambda: page.evaluate(SET_TO) < 0.8 and f"mmr.relevance_weight={page.evaluate(SET_TO)}" in page.url)
    idle(page)
    assert page.evaluate(READ_LISTS)["MMR"] == seen[-1] and page.evaluate("history.length") == length


@pytest.mark.parametrize(
    "name, label, param",
    deepen(
        [("mmr", "MMR λ", "relevance_weight"), ("dpp", "DPP λ", "relevance_weight"), ("nnn", "NNN λ₁", "l1")],
        [("dpp", "DPP λ", "relevance_weight")],
    ),
)
def test_every_position_is_what_the_engine_answers(explored_page, demo, name, label, param):
    from engine.params import form_of
    from engine.views.slider import stops

    dataset, space = demo
    queries = engine.embed(dataset.judged("dev"))
    shares = [0, 1, *(random.Random(name).random() for _ in range(64))]
    last, drawn_answers = explored_page.evaluate(MOVE, [label, shares])
    stage = engine.make(name)
    declared = form_of(next(p for p in stage.spec.params if p.name == param), {})[1]
    values = stops(declared, getattr(stage, param), True)
    assert last == len(values) - 1
    for share, (rows, drawn_lists) in zip(shares, drawn_answers, strict=True):
        value = values[int(np.floor(share * last + 0.5))]
        answer = engine.decode(engine.Decoder(engine.make(name, **{param: value})), space, queries.take([0]), k=10)
        assert rows == drawn_lists[stage.spec.title] == answer.rows(), value


def test_the_handle_of_diversity_takes_each_decoder_to_the_largest_weight_that_has_it(page, server, demo):
    dataset, space = demo
    query = engine.embed(dataset.judged("dev")).take([0])
    open_explore(page, server)
    n_sent_before = len(page.sent)
    handle = page.get_by_role("slider", name="Diversity of all decoders")
    handle.evaluate("node => { node.value = 90; node.dispatchEvent(new Event('input')); }")
    until(page, lambda: "the most relevant" in page.locator(".said b").inner_text())
    sentence = page.locator(".said b").inner_text()
    assert len(page.sent) == n_sent_before, "nothing is sent while it is held"
    level, figures, off_topic = re.match(
        r"At diversity ≥ (0\.\d\d): (.*) (?:is|are) the most relevant, 0\.\d\d(.*)$", sentence
    ).groups()
    level, tiles = float(level), page.locator(".tile").all_inner_texts()
    relevance = re.search(r"most relevant, (0\.\d\d)", sentence)[1]
    # Diversity of documents that have nothing to do with the query is said with it.
    best = [tile for tile in tiles if re.search(rf"\b{re.escape(tile.split()[1])}\b", figures)]
    assert best and all(f"Relevance {relevance}" in tile for tile in best), (sentence, tiles)
    counts = {int(re.search(r"(\d+) of 10 off-topic", tile)[1]) for tile in best}
    said = " to ".join(map(str, sorted({min(counts), max(counts)})))
    assert off_topic == (f", {said} of 10 off-topic" if any(counts) else ""), (sentence, best)
    for text, middle, place, weight in page.evaluate(READ_PLACES):
        assert abs(middle - place) < 1 and weight == "400" and text == f"{float(text):g}", text
    # Lists have other columns than the tiles above, so that each says whose it is.
    heads = [text.split()[-1] for text in page.locator(".list-head:visible").all_inner_texts()]
    assert heads == ["Top-k", "MMR", "DPP", "NNN"]
    # A decoder that does not reach it is grey, its list as its tile.
    assert page.evaluate(READ_GREY, ".list") == page.evaluate(READ_GREY, ".tile")
    handle.evaluate("node => { node.value = 198; node.dispatchEvent(new Event('input')); }")
    until(page, lambda: page.evaluate(READ_GREY, ".tile") != [])
    until(page, lambda: page.evaluate(READ_GREY, ".list") == page.evaluate(READ_GREY, ".tile"))
    handle.evaluate("node => { node.value = 90; node.dispatchEvent(new Event('input')); }")
    until(page, lambda: page.locator(".said b").inner_text() == sentence)
    drawn = page.evaluate(READ_LISTS)
    handle.evaluate("node => node.dispatchEvent(new Event('change'))")
    until(page, lambda: page.evaluate(SET_TO) < 0.8 and f"mmr.relevance_weight={page.evaluate(SET_TO)}" in page.url)
    idle(page)
    values = page.evaluate("Object.fromEntries(frontier.shown.decoders.map(d => [d.title, d.sliders[0]?.value]))")
    assert page.evaluate(READ_LISTS) == drawn, "the engine's answers are what was drawn"

    def measure_diversity(rows):
        return 1 - similarities(space, rows)[np.triu_indices(len(rows), 1)].mean()

    for title, name in (("MMR", "mmr"), ("DPP", "dpp")):
        answers, value = engine.path(name, space.vectors, query.vectors[0], k=10)[0], values[title]
        assert measure_diversity(answers.at(value).rows()) >= level - 0.006
        larger = [weight for weight in answers.breakpoints if weight > value]
        for low, high in pairwise([*larger, 1.0]):
            assert measure_diversity(answers.at((low + high) / 2).rows()) < level + 0.006, (name, low)
    # Moved by itself, a decoder leaves the level.
    slider(page, "MMR λ").press("ArrowRight")
    until(page, lambda: "At diversity" not in page.locator(".said b").inner_text())


def test_sliders_stand_at_their_values_and_work_before_their_answers_have_come(page, server):
    page.route("**/answers/**", lambda route: None)  # none ever comes
    page.goto(server + FOUR)
    page.locator(".tile canvas").first.wait_for(timeout=WAIT)
    mmr = slider(page, "MMR λ")
    mmr.wait_for(timeout=WAIT)
    assert (mmr.input_value(), mmr.get_attribute("max")) == ("800", "1000")
    mmr.press("Home")
    until(page, lambda: page.evaluate(SET_TO) == 0)
    assert mmr.input_value() == "0"
