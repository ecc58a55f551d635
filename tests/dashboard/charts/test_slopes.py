"""Slopegraph of a tuning: a line a decoder, the choice thick, and names that never overlap."""

import numpy as np
import pytest

from dashboard.charts.palette import method_style
from dashboard.charts.slopes import LABEL_GAP, LEADER_SHAPE, DecoderSlope, plot_slopes, spread_names

SLOPES = (
    DecoderSlope(name="MMR · λ 0.8", method="mmr", on_dev=0.97, on_test=0.961, is_chosen=True),
    DecoderSlope(name="VRSD", method="vrsd", on_dev=0.99, on_test=0.96, is_chosen=False),
    DecoderSlope(name="<b>DPP", method="dpp", on_dev=0.96, on_test=0.9, is_chosen=False),
)


def plot(slopes=SLOPES, is_dark=False):
    return plot_slopes(slopes, ("dev", "half <2>"), 0.95, "Recall@10", "Top-k", is_dark)


@pytest.mark.parametrize("is_dark", [False, True])
def test_line_of_a_decoder_goes_from_dev_to_test_in_its_colour(is_dark):
    lines = plot(is_dark=is_dark).data
    assert [list(line.x) for line in lines] == [[0, 1]] * 3
    for line, slope in zip(lines, SLOPES, strict=True):
        assert list(line.y) == pytest.approx([100 * slope.on_dev, 100 * slope.on_test])
        assert line.line.color == method_style(slope.method).colour(is_dark)


def test_chosen_line_alone_is_thick_opaque_and_has_a_bold_name():
    figure = plot()
    chosen, *remaining = figure.data
    assert all(chosen.line.width > line.line.width and chosen.opacity > line.opacity for line in remaining)
    assert [label.text.startswith("<b>") for label in figure.layout.annotations] == [True, False, False]
    assert "MMR · λ 0.8: 96.1%" in figure.layout.annotations[0].text


def test_names_are_escaped_and_axes_name_splits_budget_and_metric():
    figure = plot()
    texts = [label.text for label in figure.layout.annotations] + list(figure.layout.xaxis.ticktext)
    assert "&lt;b&gt;DPP" in texts[2] and "&lt;b&gt;DPP" in figure.data[2].hovertemplate
    assert texts[3:] == ["dev<br>chosen here", "half &lt;2&gt;<br>kept back"]
    assert figure.layout.yaxis.title.text == "Recall@10, % of Top-k's"
    (budget,) = [shape for shape in figure.layout.shapes if shape.name != LEADER_SHAPE]
    assert budget.y0 == budget.y1 == 95


def test_axis_holds_all_lines_and_the_budget_even_without_any_line():
    low, high = plot().layout.yaxis.range
    assert low < 90 and high > 99
    low, high = plot(slopes=()).layout.yaxis.range
    assert low < 95 < high


def test_line_leads_from_each_point_to_its_name():
    figure = plot()
    leaders = [shape for shape in figure.layout.shapes if shape.name == LEADER_SHAPE]
    assert [leader.y0 for leader in leaders] == pytest.approx([100 * slope.on_test for slope in SLOPES])
    assert [leader.y1 for leader in leaders] == [label.y for label in figure.layout.annotations]


def test_names_that_are_apart_stay_where_their_points_are():
    assert spread_names([80.0, 99.0, 90.0], (75, 100)) == [80.0, 99.0, 90.0]


@pytest.mark.parametrize("n_names", [2, 9, 20])
def test_names_never_overlap_keep_their_order_and_stay_inside(n_names):
    rng, gap = np.random.default_rng(n_names), LABEL_GAP * 20
    for spread in (0.0, 0.3, 20.0):
        for end in (80.0, 100.0):
            # All at one end, where there is no room on the other side of it.
            heights = np.clip(end + rng.uniform(-spread, spread, n_names), 80, 100)
            placed = np.array(spread_names(heights.tolist(), (80, 100)))
            assert np.diff(np.sort(placed)).min() >= gap - 1e-9
            assert (np.argsort(placed) == np.argsort(heights, kind="stable")).all()
            assert placed.min() >= 80 - 1e-9 and placed.max() <= 100 + 1e-9


def test_more_names_than_the_axis_holds_still_do_not_overlap():
    placed = spread_names([99.0] * 40, (80, 100))
    assert np.diff(np.sort(placed)).min() >= LABEL_GAP * 20 - 1e-9
