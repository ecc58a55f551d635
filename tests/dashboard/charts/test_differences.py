"""Bars of queries, and the dot plot of groups: what is drawn, in which order, what is grey."""

from types import SimpleNamespace

import pytest

from dashboard.charts.differences import (
    MIN_GROUP_QUERIES,
    SURE_END_NAME,
    ForestRow,
    plot_forest,
    plot_strata,
    plot_wins,
)
from dashboard.charts.palette import GREY, method_style
from engine.evaluation.paired import QueryDifference
from engine.evaluation.stratification import Stratum


def stratum(group, queries, label, mean):
    facts = {"lowest": 1, "highest": 1, "name": label.upper(), "low": mean - 0.1, "high": mean + 0.1}
    return Stratum(group=group, queries=queries, label=label, mean=mean, **facts)


def test_a_bar_a_query_in_order_with_its_card():
    rows = [QueryDifference(f"q{i}", 0.5 + d, 0.5, d) for i, d in enumerate((0.5, 0.1, 0.0, -0.3))]
    figure = plot_wins(rows, {"q0": "first"}, "mmr", "Recall@5", "Top-k", False)
    (bars,) = figure.data
    assert list(bars.y) == [0.5, 0.1, -0.3] and list(bars.customdata) == ["q0", "q1", "q3"]
    assert list(bars.hovertext) == ["first", "q1", "q3"]
    colour = method_style("mmr").colour(False)
    assert [c == colour for c in bars.marker.color] == [True, True, False]


def test_queries_without_a_difference_are_a_gap_with_their_number():
    rows = [QueryDifference(f"q{i}", 0.5 + d, 0.5, d) for i, d in enumerate((0.5, 0.1, *[0.0] * 140, -0.3))]
    figure = plot_wins(rows, {}, "mmr", "Recall@5", "Top-k", False)
    (bars,), (label,) = figure.data, figure.layout.annotations
    assert label.text == "140 the same" and bars.x[1] < label.x < bars.x[2]
    assert figure.layout.xaxis.range[1] < 10, "they take no width each"
    assert not plot_wins(rows[:2], {}, "mmr", "Recall@5", "Top-k", False).layout.annotations


@pytest.mark.parametrize("largest", [0.2, 0.5, 3.0])
def test_the_axis_fits_the_largest_difference_and_is_symmetric(largest):
    rows = [QueryDifference("q", largest, 0, largest), QueryDifference("p", 0, largest, -largest / 2)]
    low, high = plot_wins(rows, {}, "mmr", "m", "b", True).layout.yaxis.range
    assert low == -high and largest < high < 1.2 * largest


def test_a_row_a_decoder_and_a_panel_a_group_small_ones_grey():
    rows = [
        stratum(g, n, label, 0.1) for g, n in (("1", 50), ("2–9", MIN_GROUP_QUERIES - 1)) for label in ("mmr", "vrsd")
    ]
    figure = plot_strata(rows, {"mmr": "mmr", "vrsd": "vrsd"}, "relevant documents", "Recall@5", "Top-k", False)
    assert len(figure.data) == 4 and {t.xaxis for t in figure.data} == {"x", "x2"}
    assert list(figure.layout.yaxis.ticktext) == ["● MMR", "★ VRSD"]
    grey = {t.marker.color == GREY[0] for t in figure.data if t.xaxis == "x2"}
    assert grey == {True} and all(t.marker.color != GREY[0] for t in figure.data if t.xaxis == "x")
    assert [a.text for a in figure.layout.annotations] == ["1<br>50 queries", f"2–9<br>{MIN_GROUP_QUERIES - 1} queries"]
    assert figure.data[0].error_x.array[0] == pytest.approx(0.1)


def test_a_bound_on_one_side_is_a_tick_and_no_interval():
    facts = {"metric": "recall", "difference": -0.02, "baseline_mean": 0.5, "low": -0.1, "high": 0.06, "queries": 40}
    comparison = SimpleNamespace(baseline="Top-k", **facts)
    rows = [ForestRow("recall on test", "mmr", True, comparison, 0.93), ForestRow("on dev", "mmr", False, comparison)]
    figure = plot_forest(rows, {"recall": 0.95}, is_dark=False)
    (bound,) = [trace for trace in figure.data if trace.name == SURE_END_NAME]
    assert list(bound.x) == pytest.approx([-4.0, -7.0]) and list(bound.y) == [0, 0]
    assert list(bound.marker.symbol) == ["circle", "line-ns"], "the tick stands at the bound alone"
    sided, interval = [trace for trace in figure.data if trace.mode == "markers"]
    assert sided.error_x.visible is False and "surely −7.0% or more (95%, one-sided)" in sided.hovertext
    assert list(interval.error_x.array) == pytest.approx([16.0]) and "95% CI −20.0% to +12.0%" in interval.hovertext
