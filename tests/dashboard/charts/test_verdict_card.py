"""A verdict card: the page's frontier and choices, no text on another or outside, whatever it holds."""

import math
import re
from dataclasses import replace
from itertools import combinations, pairwise, product
from xml.etree import ElementTree

import pytest

import engine
from dashboard.charts.card_labels import estimate_width
from dashboard.charts.frontier import (
    JOIN_WIDTH,
    STRIP_PX,
    FrontierChart,
    build_lines,
    build_mark,
    fade,
    find_chance,
    group_curves,
    widen,
)
from dashboard.charts.frontier_layout import do_overlap
from dashboard.charts.palette import GREY, SANS_FONTS, method_style
from dashboard.charts.verdict_card import (
    BOTTOM,
    CARD_HEIGHT,
    CARD_MARGIN,
    CARD_WIDTH,
    CODE_COLUMNS,
    GUTTER_LEFT,
    GUTTER_RIGHT,
    LEFT,
    MAX_COLOURED_DECODERS,
    RIGHT,
    TOP,
    WARNING,
    VerdictCard,
    build_verdict_svg,
)
from dashboard.tradeoff.verdict import shorten_headlines
from engine.evaluation.decide import estimate_options
from engine.evaluation.decision import PASSAGES_CAUTION
from engine.evaluation.frontier import TIME_AXIS, frontier
from support.charts import have_crossing
from support.draws import deepen

NINE = tuple(engine.methods("selector"))
FOUR = ("top_k", "mmr", "dpp", "vrsd")
ONE = ("top_k", "mmr")
CODE = (
    'dataset = engine.load_dataset("numpy-api")',
    "space = engine.Space(dataset.corpus, engine.embed(dataset.corpus))",
    'decoder = engine.Decoder(select=engine.make("nnn", l1=0.06, l2=1.0, fill="fill"), depth=100)',
    "ranking = engine.decode(decoder, space, dataset.queries, k=10)",
)


@pytest.fixture(scope="module")
def measured(demo):
    """All nine decoders on 60 queries of the demo, three at every λ."""
    dataset, space = demo
    arguments = space, engine.embed(dataset.judged("dev").sample(60)), dataset.qrels["dev"], 10, ("recall", "ilad")
    decoders = []
    for name in NINE:
        decoders += engine.grid(name, 3) if name != "nnn" else []
    for l1 in (0.03, 0.06, 0.1):
        decoders += [engine.Decoder(engine.make("nnn", l1=l1, l2=l2, fill="fill")) for l2 in (0.1, 0.6, 1.0)]
    cells = list(engine.sweep(decoders, *arguments, split="dev"))
    curves = [engine.exact_frontier(name, *arguments, split="dev", resamples=100) for name in ("mmr", "dpp", "ssd")]
    return cells, curves


ESTIMATED = {}
"""Frontier, estimates and curves of what is measured, by the methods and the axis."""


def estimate(measured, methods, x):
    """Return the frontier, the estimates and the curves of some methods, computed once."""
    if (methods, x) not in ESTIMATED:
        cells, curves = ([point for point in points if point.method in methods] for points in measured)
        points = frontier(cells, x, "recall", cells[0].k, resamples=100)
        base = next(cell for cell in cells if cell.method == "top_k")
        estimates = estimate_options([*cells, *curves], baseline=base, metric="recall", objective=x, k=base.k)
        ESTIMATED[methods, x] = points, estimates, curves
    return ESTIMATED[methods, x]


def make_card(measured, methods=NINE, keep=0.95, x="ilad", **changes):
    """Make the card of some methods at a budget, as the page does."""
    points, estimates, curves = estimate(measured, methods, x)
    decision = estimates.decide(keep, with_options=False)
    chart = FrontierChart(frontier=points, dark=False, share=keep, estimates=estimates, exact=curves)
    content = {"headline": shorten_headlines(decision), "chart": chart, "decision": decision, "code": CODE}
    return VerdictCard(corpus="numpy-api", date="2026-11-27", **content | changes)


@pytest.fixture(scope="module")
def card(measured):
    """The card of all nine at the largest budget with a sure setting and a bet."""
    cards = (make_card(measured, keep=keep) for keep in (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6))
    return next(card for card in cards if card.decision.sure is not None and card.decision.bet is not None)


def read(card):
    """Return the card's elements without their namespace: (tag, element)."""
    return [(one.tag.rpartition("}")[2], one) for one in ElementTree.fromstring(build_verdict_svg(card)).iter()]


def texts(card):
    return [one.text for tag, one in read(card) if tag == "text"]


def colour_of(card, text):
    (element,) = [one for tag, one in read(card) if tag == "text" and one.text == text]
    return element.get("fill")


def locate(card, x, y):
    """Return the position on the chart's axes of one on the card in pixels."""
    (x_low, x_high), (y_low, y_high) = card.chart.view.x, card.chart.view.y
    x_share, y_share = (float(x) - LEFT) / (RIGHT - LEFT), (BOTTOM - float(y)) / (BOTTOM - TOP)
    return x_low + x_share * (x_high - x_low), y_low + y_share * (y_high - y_low)


def bound_text(element):
    """Return the box of a text, as wide and as high as it is in a widely set typeface."""
    size, is_bold = float(element.get("font-size")), element.get("font-weight") != "400"
    is_mono = "monospace" in element.get("font-family", "")
    n_ems = 0.0
    for letter in element.text:
        letter_em = 0.7 if letter.isupper() or letter in "m%≥→" else 0.6
        n_ems += 0.61 if is_mono else 0.35 if letter in " .,:·'-()il" else letter_em * (1.1 if is_bold else 1)
    x, y, width = float(element.get("x")), float(element.get("y")), n_ems * size
    left = x - {"start": 0, "middle": width / 2, "end": width}[element.get("text-anchor")]
    return left, left + width, y - 0.8 * size, y + 0.22 * size


def confirm(card, is_confirmed):
    """Return the card after both choices were measured on another split."""
    facts = {"confirmed": is_confirmed, "confirmed_share": 0.984 if is_confirmed else 0.934, "confirmed_low": 0.912}
    facts["confirmed_budget"] = card.decision.keep
    choices = {}
    for role in ("sure", "bet"):
        option = getattr(card.decision, role)
        choices[role] = option and replace(option, **facts)
    decision = replace(card.decision, confirm_split="test", confirm_queries=1158, **choices)
    return replace(card, decision=decision)


SETTINGS = list(product((NINE, FOUR, ONE), (0.95, 0.9, 0.7), (None, True, False)))
# Each pair of values is met in every run, the other combinations in deep ones.
SLOW_SETTINGS = [case for number, case in enumerate(SETTINGS) if (number // 9 + number // 3 + number) % 3]


@pytest.mark.parametrize(("methods", "keep", "is_confirmed"), deepen(SETTINGS, SLOW_SETTINGS))
def test_no_two_texts_overlap_and_none_leaves_the_card(measured, methods, keep, is_confirmed):
    card = make_card(measured, methods, keep)
    card = card if is_confirmed is None else confirm(card, is_confirmed)
    boxes = [(one.text, bound_text(one)) for tag, one in read(card) if tag == "text"]
    for text, (left, right, top, bottom) in boxes:
        assert left >= 0 and right <= CARD_WIDTH and top >= 0 and bottom <= CARD_HEIGHT, text
    for (first, box), (second, other_box) in combinations(boxes, 2):
        assert not do_overlap(box, other_box), (first, second)


def list_names(card):
    """Return the titles of the decoders that are named on the chart."""
    bold = [one.text for tag, one in read(card) if tag == "text" and one.get("font-weight") == "600"]
    names = [re.sub("^(sure|bet): |,? ?fills up to k$", "", text) for text in bold]
    return [name for name in names if name not in ("", "sure", "bet")]


@pytest.mark.parametrize("methods", [FOUR, ONE], ids=["four", "one"])
def test_each_of_few_decoders_has_one_label(measured, methods):
    card = make_card(measured, methods)
    assert sorted(list_names(card)) == sorted(engine.methods()[name].title for name in methods)
    assert not any(text.endswith("in grey") for text in texts(card))


@pytest.mark.parametrize("keep", [0.95, 0.9, 0.7])
def test_of_many_decoders_those_with_the_largest_gains_are_named_and_the_others_grey(measured, keep):
    card = make_card(measured, keep=keep)
    names, choices = list_names(card), list(filter(None, (card.decision.sure, card.decision.bet)))
    chosen = {option.decoder.select.spec.title for option in choices}
    assert len(names) == len(set(names)) == len(chosen) + 1 + MAX_COLOURED_DECODERS
    assert chosen | {"Top-k"} <= set(names)
    assert f"and {len(NINE) - len(names)} others in grey" in texts(card)
    # Exact curves of MMR, DPP and SSD reach farther than the few measured settings do.
    assert {"MMR", "DPP", "SSD"} <= set(names) | chosen or keep != 0.9
    colours = {one.get("stroke") for tag, one in read(card) if tag == "polyline" and one.get("stroke-opacity")}
    unnamed = {method_style(name).light for name in NINE if engine.methods()[name].title not in names}
    assert GREY[False] in colours and not unnamed & colours


@pytest.mark.parametrize("keep", [0.95, 0.9, 0.7])
def test_names_beside_the_chart_are_apart_and_between_it_and_the_choices(measured, keep):
    boxes = []
    for tag, one in read(make_card(measured, keep=keep)):
        if tag == "text" and float(one.get("x")) == GUTTER_LEFT:
            width = estimate_width(one.text, float(one.get("font-size")), one.get("font-weight") != "400")
            baseline = float(one.get("y"))
            boxes.append((GUTTER_LEFT, GUTTER_LEFT + width, baseline - 13, baseline + 4))
    assert len(boxes) > 5 and max(box[1] for box in boxes) <= GUTTER_RIGHT
    for first, second in combinations(boxes, 2):
        assert not do_overlap(first, second)
    for _, _, top, bottom in boxes:
        assert top >= TOP and bottom <= BOTTOM


@pytest.mark.parametrize("keep", [0.9, 0.7])
def test_lines_to_the_names_beside_the_chart_never_cross(measured, keep):
    leaders = []
    for tag, one in read(make_card(measured, keep=keep)):
        if tag == "polyline" and one.get("stroke-dasharray") == "1 3":
            leaders.append([tuple(map(float, place.split(","))) for place in one.get("points").split()])
    assert len(leaders) >= 4
    for first, second in combinations(leaders, 2):
        assert not any(have_crossing(one, other) for one in pairwise(first) for other in pairwise(second))


def test_symbols_of_lines_are_on_their_lines(card):
    """A dot beside a name would look like a point that lies off the curve."""
    elements = read(card)
    lines = [one.get("points").split() for tag, one in elements if tag == "polyline"]
    style = method_style("mmr")
    dots = [one for tag, one in elements if tag == "circle" and (one.get("fill"), one.get("r")) == (style.light, "5")]
    assert len(dots) == 1
    x, y = float(dots[0].get("cx")), float(dots[0].get("cy"))
    corners = [list(map(float, pair.split(","))) for points in lines for pair in points]
    assert min(math.dist((x, y), corner) for corner in corners) < 8


def test_lines_have_the_page_s_geometry_widths_and_window(card):
    expected, grey = [], []
    names = list_names(card)
    for curves, _ in group_curves(card.chart.frontier):
        method = curves[0][0].point.method
        is_named = engine.methods()[method].title in names
        for line in build_lines(card.chart, curves):
            chance = find_chance(card.chart, line.position)
            look = (method_style(method).light, f"{fade(chance):.3g}") if is_named else (GREY[False], "1")
            width = widen(chance) if line.is_exact else JOIN_WIDTH
            (expected if is_named else grey).append((look[0], f"{width:.3g}", look[1], line))
    drawn = [one for tag, one in read(card) if tag == "polyline" and one.get("stroke-opacity")]
    looks = [tuple(map(one.get, ("stroke", "stroke-width", "stroke-opacity"))) for one in drawn]
    # Those in grey are below the others.
    assert sorted(looks[: len(grey)]) == sorted(tuple(look) for *look, _ in grey)
    drawn, looks = drawn[len(grey) :], looks[len(grey) :]
    assert looks == [tuple(look) for *look, _ in expected] and len(looks) > 40
    assert len(set(looks)) > 10
    for one, (*_, line) in zip(drawn, expected, strict=True):
        x, y = locate(card, *one.get("points").split()[0].split(","))
        assert x == pytest.approx(line.x[0], abs=1e-4) and y == pytest.approx(line.y[0], abs=0.1)


def test_card_has_no_area_which_nothing_on_it_would_explain(card):
    assert any(point.point.method == "nnn" for point in card.chart.frontier.points), "a decoder with many settings"
    # Signs of decoders are polygons as well, and smaller than a line of text.
    for tag, one in read(card):
        if tag == "polygon":
            xs, ys = zip(*(map(float, corner.split(",")) for corner in one.get("points").split()), strict=True)
            assert max(xs) - min(xs) < 24 and max(ys) - min(ys) < 24


def test_choices_have_a_ring_and_a_strip_at_their_places(card):
    elements, window = read(card), card.chart.view
    choices = list(filter(None, (card.decision.sure, card.decision.bet)))
    rings = [one for tag, one in elements if tag == "circle" and one.get("fill") == "none"]
    assert len(rings) == len(choices) == 2
    for ring, option in zip(rings, choices, strict=True):
        mark = build_mark(card.chart, option)
        x, y = float(ring.get("cx")), float(ring.get("cy"))
        assert locate(card, x, y) == (pytest.approx(mark["x"], abs=1e-4), pytest.approx(mark["y"], abs=0.1))
        strips = [
            one
            for tag, one in elements
            if tag == "rect" and float(one.get("x")) == pytest.approx(x - STRIP_PX, abs=0.01)
        ]
        height = sum(float(one.get("height")) for one in strips)
        share = 100 * (option.high - option.sure_share) / (window.y[1] - window.y[0])
        assert len(strips) == 2 and height == pytest.approx(share * (BOTTOM - TOP), rel=1e-3)
        squares = [one for tag, one in elements if tag == "rect" and one.get("fill") == mark["colour"]]
        # Besides the squares a bar and the upper part of the strip have the colour.
        assert len(squares) == min(99, round(100 * option.chance)) + 2


def test_what_is_said_is_the_decision_s(card):
    assert read(card)[0][1].get("font-family") == SANS_FONTS, "the typefaces of the app"
    shown, budget = texts(card), card.decision.budget_text
    sure, bet = card.decision.sure, card.decision.bet
    assert shown[: len(card.headline)] == list(card.headline)
    titles = {"Recall@10, % of Top-k ↑", "Diversity (ILAD@10) →"}
    assert {sure.name, bet.name, f"keep ≥ {budget}"} | titles <= set(shown)
    gain = f"+{sure.gain:.0%} diversity · {sure.share_kept:.1%} of Top-k"
    for fact in (gain, f"chance to keep {budget}: {round(100 * bet.chance)} in 100"):
        assert any(text.startswith(fact) for text in shown), fact
    assert "Chosen on 60 queries of dev · numpy-api · k = 10" in shown and "27 Nov 2026" in shown
    assert not any("onfirmed" in text for text in shown)


def test_choices_and_footer_say_what_another_split_confirms(card):
    confirmed = confirm(card, is_confirmed=True)
    shown = texts(replace(confirmed, decision=replace(confirmed.decision, relevant_from=2)))
    assert shown.count("On test 98.4%, proven to 91.2%: confirmed") == 2
    assert shown[:2] == list(card.headline), "what holds stays as it is"
    assert shown[-3].startswith("Chosen on 60 queries of dev, measured on 1,158 of test · numpy-api · k = 10")
    assert "relevant from grade 2" in shown[-3] and shown[-2:] == ["27 Nov 2026", "Frontier"]


def test_headline_says_if_another_split_does_not_confirm_the_sure_setting(card):
    refuted = confirm(card, is_confirmed=False)
    sentence, outcome = f"On test 93.4%, below {card.decision.budget_text}", "On test 93.4%: did not hold"
    assert texts(refuted)[:2] == [card.headline[0], f"{sentence}."]
    assert texts(refuted).count(sentence) == texts(refuted).count(outcome) == 1
    assert {colour_of(refuted, text) for text in (sentence, outcome)} == {WARNING}
    # A bet need not hold, so the headline does not change for it alone.
    half = replace(refuted, decision=replace(refuted.decision, sure=card.decision.sure))
    assert texts(half)[:2] == list(card.headline) and texts(half).count(sentence) == 0
    bet = replace(refuted.decision.bet, has_held=True)
    held = replace(refuted, decision=replace(refuted.decision, bet=bet))
    assert texts(held).count("On test 93.4%: held") == 1


@pytest.mark.parametrize("n_words", [2, 40, 200])
def test_caution_of_passages_is_whole_below_a_headline_of_any_length(card, n_words):
    decision = replace(card.decision, is_on_passages=True)
    headline = ("word " * n_words, "Going for more is a bet.", PASSAGES_CAUTION)
    passages = replace(card, decision=decision, headline=headline)
    lines = [one for tag, one in read(passages) if tag == "text"]
    (caution,) = (line for line in lines if line.text == PASSAGES_CAUTION)
    size = float(caution.get("font-size"))
    assert (
        estimate_width(PASSAGES_CAUTION, size, True) <= CARD_WIDTH - 2 * CARD_MARGIN and caution.get("fill") == WARNING
    )
    above = [line for line in lines if float(line.get("y")) < float(caution.get("y"))]
    assert len(above) == 2 and all(float(caution.get("y")) - float(line.get("y")) > size for line in above)
    assert PASSAGES_CAUTION not in texts(replace(card, headline=headline)), "other queries have no caution"


def test_squares_of_the_choosing_split_say_so_once_another_was_asked(card):
    shown = texts(confirm(card, is_confirmed=True))
    chances = [text for text in shown if text.startswith("chance on dev: ")]
    assert len(chances) == 2 and all(" in 100 · at least " in text for text in chances), "the headline has the budget"
    assert not any(text.startswith("chance on dev") for text in texts(card))


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        '"&]]>\x00\x08\x1b\n‮',
        "word " * 200,
        "x" * 900,
        "日本語の文章" * 60,
        "\ud800 alone",
        "",
    ],
)
def test_any_text_is_shown_as_it_is_and_stays_inside(card, text):
    sure = replace(card.decision.sure, name=text)
    decision = replace(card.decision, sure=sure, split=text, baseline=text)
    changes = {"headline": (text, text), "corpus": text, "date": text, "code": (text,)}
    elements = read(replace(card, decision=decision, **changes))
    assert not [tag for tag, _ in elements if tag == "script"]
    lines = [one for tag, one in elements if tag == "text" and one.text]
    for line in lines:
        width = estimate_width(line.text, float(line.get("font-size")), line.get("font-weight") != "400")
        start = {"start": 0, "middle": width / 2, "end": width}[line.get("text-anchor")]
        left = float(line.get("x")) - start
        assert left >= 0 and left + width <= CARD_WIDTH and 0 < float(line.get("y")) < CARD_HEIGHT


def test_time_has_a_logarithmic_axis(measured):
    cells, curves = measured
    timed = [replace(cell, milliseconds=0.1 * 2**number) for number, cell in enumerate(cells)]
    card = make_card((timed, curves), FOUR, keep=0.7, x=TIME_AXIS)
    elements = read(card)
    in_ticks_row = [one for tag, one in elements if tag == "text" and float(one.get("y")) == BOTTOM + 20]
    assert len(in_ticks_row) > 2 and "← milliseconds a query" in texts(card)
    for one in in_ticks_row:
        assert locate(card, one.get("x"), 0)[0] == pytest.approx(math.log10(float(one.text)), abs=1e-3)
    base = next(one for tag, one in elements if tag == "polyline" and one.get("stroke") == method_style("top_k").light)
    middle = locate(card, base.get("points").split()[0].split(",")[0], 0)[0]
    assert middle == pytest.approx(math.log10(card.chart.base.x), abs=0.05)


def test_a_budget_below_the_window_is_named_without_a_line(measured):
    card = make_card(measured, ("top_k", "vrsd"), keep=0.5)
    assert card.chart.view.y[0] > 50 and "keep ≥ 50% ↓" in texts(card)
    lines = [one.get("points") for tag, one in read(card) if tag == "polyline"]
    heights = [float(place.split(",")[1]) for points in lines for place in points.split()]
    assert max(heights) <= BOTTOM


@pytest.mark.parametrize("line", [*CODE, 'path = "' + "x" * 200 + '"'])
def test_long_code_is_continued(card, line):
    shown = [one.text for tag, one in read(replace(card, code=(line,))) if "monospace" in one.get("font-family", "")]
    assert all(len(text) <= CODE_COLUMNS for text in shown)
    assert len(shown) >= len(line) / CODE_COLUMNS and all(text.startswith("    ") for text in shown[1:])
    assert "".join(shown).replace(" ", "") == line.replace(" ", "")
