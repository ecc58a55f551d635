"""A verdict card: well-formed whatever it holds, inside its frame, and light on any page."""

from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from dashboard.charts.palette import method_style
from dashboard.charts.verdict_card import (
    BOTTOM,
    CARD_HEIGHT,
    CARD_WIDTH,
    CODE_COLUMNS,
    LEFT,
    RIGHT,
    TOP,
    build_verdict_svg,
)
from engine.views.verdict_card import CardCurve, VerdictCard

CARD = VerdictCard(
    sentence="VRSD is 36% more diverse than Top-k and loses no measurable Recall (−0.022). Better on 157 of 157.",
    curves=(
        CardCurve(method="top_k", label="Top-k", x=(0.41,), y=(0.672,)),
        CardCurve(method="mmr", label="MMR", x=(0.41, 0.47, 0.6), y=(0.672, 0.65, 0.5)),
        CardCurve(method="vrsd", label="VRSD", x=(0.558,), y=(0.65,)),
    ),
    titles=("Diversity (ILAD@10)", "Recall@10"),
    chosen=(0.558, 0.65),
    chosen_label="VRSD",
    queries=157,
    interval="95% CI +0.138 to +0.160",
    corpus="numpy-api",
    fingerprint="8b346597",
    code=("import engine", 'dataset = engine.load_dataset("numpy-api")'),
)


def read(card):
    """The card's elements without their namespace: (tag, element)."""
    return [(one.tag.rpartition("}")[2], one) for one in ElementTree.fromstring(build_verdict_svg(card)).iter()]


def texts(card):
    return [one.text for tag, one in read(card) if tag == "text"]


def test_it_holds_all_that_it_was_given():
    shown = texts(CARD)
    assert " ".join(shown).startswith(CARD.sentence)
    for text in ("157 queries · 95% CI +0.138 to +0.160", "numpy-api · embeddings 8b346597", *CARD.code):
        assert text in shown
    assert {"Diversity (ILAD@10) →", "Recall@10 →", "Top-k", "MMR"} <= set(shown)
    assert shown.count("VRSD") == 1, "the chosen point's label stands for its curve's"


def test_points_lie_where_the_axes_have_them():
    elements = read(CARD)
    circles = [(float(one.get("cx")), float(one.get("cy"))) for tag, one in elements if tag == "circle"]
    assert len(circles) == 6 and circles[-1] == circles[-2]
    assert all(LEFT < x < RIGHT and TOP < y < BOTTOM for x, y in circles)
    top_k, *mmr = circles[:4]
    assert top_k == mmr[0] and mmr[0][0] < mmr[1][0] < mmr[2][0] and mmr[0][1] < mmr[1][1] < mmr[2][1]
    share = (mmr[1][0] - mmr[0][0]) / (mmr[2][0] - mmr[0][0])
    assert share == pytest.approx((0.47 - 0.41) / (0.6 - 0.41), abs=1e-3)
    colours = {one.get("stroke") for tag, one in elements if tag == "polyline"}
    assert method_style("mmr").light in colours


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
def test_any_text_is_shown_as_it_is_and_stays_inside(text):
    card = replace(CARD, sentence=text, corpus=text, interval=text, chosen_label=text, code=(text,), fingerprint=text)
    elements = read(card)
    assert not [tag for tag, _ in elements if tag == "script"]
    lines = [one for tag, one in elements if tag == "text"]
    for line in lines:
        wide = any(ord(letter) > 0x2E80 for letter in line.text or "")
        narrow = 0.61
        across = len(line.text or "") * float(line.get("font-size")) * (1 if wide else narrow)
        assert across < CARD_WIDTH and 0 <= float(line.get("y")) < CARD_HEIGHT
    assert sum(line.get("font-size") == "32" for line in lines) <= 3


def test_a_card_without_curves_or_of_one_point_is_drawn():
    assert texts(replace(CARD, curves=(), chosen=None))
    one = replace(CARD, curves=(CardCurve(method="top_k", label="Top-k", x=(0.0,), y=(0.0,)),), chosen=None)
    assert "Top-k" in texts(one)


def test_labels_do_not_cover_each_other():
    same = tuple(CardCurve(method=m, label=m, x=(0.1, 0.5), y=(0.9, 0.5)) for m in ("mmr", "dpp", "nnn", "vrsd"))
    lines = [one for tag, one in read(replace(CARD, curves=same, chosen=None)) if tag == "text"]
    heights = sorted(float(one.get("y")) for one in lines if one.text in {curve.label for curve in same})
    assert all(b - a >= 16 for a, b in pairwise(heights)) and len(heights) == 4


def test_long_code_is_continued():
    line = 'decoder = engine.Decoder(select=engine.make("nnn", l1=0.1, l2=0.1), rerank=engine.make("bm25", k1=1.5))'
    shown = [one for one in texts(replace(CARD, code=(line,))) if "engine" in one or one.startswith("    ")]
    assert len(shown) > 1 and all(len(one) <= CODE_COLUMNS for one in shown)
    assert " ".join(one.strip() for one in shown) == line
