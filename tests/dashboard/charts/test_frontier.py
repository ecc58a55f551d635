"""The frontier's figure: what fades, is joined or dragged; its window, and where its labels lie."""

import itertools
import random

import numpy as np
import pytest

import engine
from dashboard.charts.frontier import BUDGET_SHAPE, FADED, VEIL_SHAPE, FrontierChart, find_curve, plot_frontier
from dashboard.charts.frontier_layout import (
    CHARACTER_PX,
    LINE_PX,
    PLOT_PX,
    Window,
    compute_window,
    convex_hull,
    do_overlap,
    place_labels,
)
from dashboard.charts.frontier_panels import plot_panels
from dashboard.charts.palette import method_style, translucent
from engine.evaluation.frontier import frontier, select_best_per_method
from support.sweeps import toy

METHODS = ("top_k", "mmr", "nnn", "vrsd")
"""In the registry's order."""


@pytest.fixture(scope="module")
def toys():
    return toy(batch=24)


@pytest.fixture(scope="module")
def swept(toys):
    decoders = [*engine.grid("top_k"), *engine.grid("mmr", 5), *engine.grid("vrsd"), *engine.grid("nnn", 3)]
    return list(engine.sweep(decoders, *toys, 5, ("recall", "ilad")))


@pytest.fixture(scope="module")
def found(swept):
    return frontier(swept, "ilad", "recall", 5, resamples=200)


def points_of(figure):
    """Label → (x, y, colour, outline) of everything that can be clicked."""
    return {
        label: (x, y, colour, width)
        for trace in figure.data
        for label, x, y, colour, width in (
            zip(trace.customdata, trace.x, trace.y, trace.marker.color, trace.marker.line.width, strict=True)
            if trace.customdata is not None
            else ()
        )
    }


def test_points_stand_in_percent_of_the_baseline_and_the_dominated_are_pale(found):
    drawn = points_of(plot_frontier(FrontierChart(frontier=found, dark=False, share=0.9)))
    base = next(p for p in found.points if p.point.method == "top_k")
    assert set(drawn) == {p.point.label for p in found.points}
    for p in found.points:
        x, y, colour, width = drawn[p.point.label]
        own = method_style(p.point.method).colour(False)
        assert (x, y) == (p.x, pytest.approx(100 * p.y / base.y))
        assert (colour, width > 0) == ((translucent(own, 0.25), False) if p.dominated else (own, True))


def test_below_the_budget_all_fades_and_the_browser_can_drag_it(found):
    figure = plot_frontier(FrontierChart(frontier=found, dark=True, share=0.9))
    shapes = {shape.name: shape for shape in figure.layout.shapes}
    veil, line = shapes[VEIL_SHAPE], shapes[BUDGET_SHAPE]
    assert veil.y1 == line.y0 == line.y1 == pytest.approx(90) and veil.opacity == 1 - FADED and veil.layer == "above"
    assert veil.y0 <= min(y for _, y, _, _ in points_of(figure).values())
    level = figure.layout.meta["level"]
    assert (level["value"], level["low"], level["high"]) == (90, 50, 100) and "Top-k's Recall" in level["label"]
    plain = plot_frontier(FrontierChart(frontier=found, dark=True))
    assert not plain.layout.shapes and "level" not in plain.layout.meta


def test_the_window_is_the_budget_s_unless_all_is_asked_for(found):
    ranges = [
        plot_frontier(FrontierChart(frontier=found, dark=False, share=0.95, whole=whole)).layout.yaxis.range
        for whole in (False, True)
    ]
    lowest = min(100 * p.y / found.points[0].y for p in found.points)
    assert ranges[0][0] > lowest >= ranges[1][0]


def test_the_staircase_is_the_front(found):
    line = next(t for t in plot_frontier(FrontierChart(frontier=found, dark=False)).data if t.name == "Pareto frontier")
    assert list(line.x[1:-1]) == [p.x for p in found.front] and line.line.width == 2 and line.line.shape == "vh"
    assert line.line.dash is None and line.fill == "tozeroy"


def test_a_method_of_many_curves_is_an_outline_and_its_best_curve(found):
    figure = plot_frontier(FrontierChart(frontier=found, dark=False, share=0.9))
    own = [t for t in figure.data if t.legendgroup and t.legendgroup.startswith("nnn ")]
    outline = [t for t in own if t.fill == "toself"]
    lines = [t for t in own if t.mode == "lines"]
    places = [p for p in found.points if p.point.method == "nnn"]
    assert len(outline) == 1 and len(lines) == 1 and len({p.x for p in places}) > 3
    best = next(p for p in select_best_per_method(found, found.points[0].point.label, 0.9) if p.point.method == "nnn")
    assert best.x in lines[0].x, "the line is the curve of the best setting"
    assert max(outline[0].x) == pytest.approx(max(p.x for p in places))
    others = [t for t in figure.data if t.fill == "toself" and t not in outline]
    assert not others, "a method of one curve has no outline"


def test_labels_name_the_best_within_the_budget_and_cover_nothing(found):
    best = select_best_per_method(found, found.points[0].point.label, 0.8)
    callouts = {best[1].point.label: "+9% diversity, −1% Recall"}
    chart = FrontierChart(frontier=found, dark=False, share=0.8, callouts=callouts)
    labels = plot_frontier(chart).layout.annotations
    assert any(a.text == f"{best[1].name}: +9% diversity, −1% Recall" for a in labels)
    boxes = []
    for a in labels:
        (x, y), half = chart.view.to_pixels((a.x, a.y)), CHARACTER_PX * len(a.text) / 2
        boxes.append((x + a.xshift - half, x + a.xshift + half, y + a.yshift - LINE_PX / 2, y + a.yshift + LINE_PX / 2))
    assert not any(do_overlap(a, b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_what_is_read_under_the_mouse(found, swept):
    rows = {m: {r.label: r for r in engine.compare(swept, m, swept[0], 5)} for m in found.metrics}
    figure = plot_frontier(FrontierChart(frontier=found, dark=False, rows=rows))
    card = next(
        text
        for t in figure.data
        if t.customdata is not None
        for label, text in zip(t.customdata, t.hovertext, strict=True)
        if "vrsd" in label
    )
    p = next(p for p in found.points if p.point.method == "vrsd")
    win, tie, loss = rows["recall"][p.point.label].wins
    assert card.startswith("<b>★ VRSD</b><br>Recall@5 0.") and "of Top-k" in card
    assert f"({p.y_low:.3f}–{p.y_high:.3f})" in card and f"({p.x_low:.3f}–{p.x_high:.3f})" in card
    assert f"Recall: {win} won · {tie} tied · {loss} lost" in card


def test_the_open_point_has_the_interval_of_its_difference(found, swept):
    rows = {m: {r.label: r for r in engine.compare(swept, m, swept[0], 5)} for m in found.metrics}
    p = next(p for p in found.points if p.point.method == "vrsd")
    figure = plot_frontier(FrontierChart(frontier=found, dark=False, rows=rows, opened=p.point.label))
    cross = next(t for t in figure.data if t.name == "selected")
    row = rows["ilad"][p.point.label]
    assert cross.x == (p.x,) and cross.error_x.array[0] == pytest.approx(row.high - row.difference)
    assert cross.error_x.arrayminus[0] == pytest.approx(row.difference - row.low)


def test_the_dot_runs_along_the_exact_curve(toys, found):
    curve = engine.exact_frontier("mmr", *toys, 5, ("recall", "ilad"), resamples=100)
    point = next(p for p in found.points if p.point.method == "mmr")
    assert find_curve(point, found, [curve]) is curve
    assert find_curve(found.points[0], found, [curve]) is None
    chart = FrontierChart(frontier=found, dark=False, exact=[curve], scrub=(curve, 0.25))
    dot = plot_frontier(chart).layout.meta["curve"]
    assert dot["at"] == 25 and len(dot["values"]) == 101
    for at in (0, 25, 60, 100):
        means = curve.at(dot["values"][at])
        assert dot["x"][at] == pytest.approx(means["ilad"], abs=1e-5)
        assert dot["y"][at] == pytest.approx(100 * means["recall"] / chart.base.y, abs=1e-3)
    assert dot["texts"][25].startswith("λ 0.25 · Recall ") and "%" in dot["texts"][25]
    line = next(t for t in plot_frontier(chart).data if t.legendgroup == "mmr 0" and t.mode == "lines")
    assert len(line.x) > 5, "the curve itself, not five points joined"


def test_panels_show_every_point_of_a_method_in_its_panel(found):
    chart = FrontierChart(frontier=found, dark=False, share=0.9)
    figure = plot_panels(chart)
    own = [t for t in figure.data if t.customdata is not None]
    assert [a.text.split(" ", 1)[1] for a in figure.layout.annotations] == [
        engine.methods()[name].title for name in METHODS
    ]
    assert {i for t in own for i in t.customdata} == {p.point.label for p in found.points}
    assert len({t.xaxis for t in own}) == len(METHODS)
    lines = [t for t in figure.data if t.mode == "lines"]
    assert len(lines) == 2 and {t.line.width for t in lines} == {2}, "of MMR, and the best of NNN's"


def test_an_axis_of_times_runs_the_other_way(swept):
    timed = frontier(swept, "milliseconds", "recall", 5)
    chart = FrontierChart(frontier=timed, dark=False, share=0.9)
    figure = plot_frontier(chart)
    assert figure.layout.xaxis.type == "log" and figure.layout.xaxis.title.text.startswith("←")
    low, high = figure.layout.xaxis.range
    kept = [np.log10(p.x) for p in timed.points if p.y >= 0.9 * chart.base.y]
    assert low < min(kept) and max(kept) < high and isinstance(low, float), "what keeps the share is in view"


BASE = (0.4, 100.0)


def test_the_window_ends_just_below_the_budget_and_above_the_best():
    places = [BASE, (0.5, 98.0), (0.6, 94.0), (0.9, 10.0)]
    view = compute_window(places, BASE, 95.0)
    assert view.holds(BASE) and view.holds((0.5, 98.0)) and not view.holds((0.9, 10.0))
    assert 91 < view.y[0] < 95 and 100 < view.y[1] < 102
    assert compute_window(places, BASE, 95.0, show_all=True).holds((0.9, 10.0))
    assert compute_window(places, BASE, 95.0, required=[(0.9, 10.0)]).holds((0.9, 10.0)), "another system's point"
    assert compute_window(places, BASE, None).holds((0.9, 10.0)), "without a budget nothing is left out"


def test_where_nothing_keeps_the_budget_the_nearest_is_in_the_window():
    view = compute_window([BASE, (0.6, 40.0), (0.9, 10.0)], BASE, 95.0)
    assert view.holds((0.6, 40.0)) and view.holds(BASE) and not view.holds((0.9, 10.0))
    alone = compute_window([BASE], BASE, 95.0)
    assert alone.holds(BASE) and alone.x[0] < alone.x[1] and alone.y[0] < alone.y[1]


def test_a_lower_budget_shows_more():
    places = [BASE, *((0.4 + i / 100, 100.0 - i) for i in range(50))]
    bottoms = [compute_window(places, BASE, share).y[0] for share in (99, 95, 90, 70)]
    assert bottoms == sorted(bottoms, reverse=True) and len(set(bottoms)) == 4


@pytest.mark.parametrize("seed", range(20))
def test_labels_cover_neither_each_other_nor_the_edge(seed):
    rng = random.Random(seed)
    view = Window((0.0, 1.0), (0.0, 1.0))
    places = [(rng.random(), rng.random() ** 3) for _ in range(30)]
    texts = ["x" * rng.randint(3, 30) for _ in places]
    boxes = []
    for found, place in zip(
        place_labels([([t], p) for t, p in zip(texts, places, strict=True)], places, view), places, strict=True
    ):
        if found is not None:
            text, (across, up) = found
            (x, y), half = view.to_pixels(place), CHARACTER_PX * len(text) / 2
            boxes.append((x + across - half, x + across + half, y + up - LINE_PX / 2, y + up + LINE_PX / 2))
    assert len(boxes) > 5
    assert not any(do_overlap(a, b) for a, b in itertools.combinations(boxes, 2))
    assert all(b[0] >= 0 and b[1] <= PLOT_PX[0] and b[2] >= 0 and b[3] <= PLOT_PX[1] for b in boxes)


def test_a_label_without_a_place_takes_its_short_text_and_one_outside_has_none():
    view = Window((0.0, 1.0), (0.0, 1.0))
    wide = int(PLOT_PX[0] / CHARACTER_PX) + 1
    found = place_labels(
        [(["x" * wide, "short"], (0.5, 0.5)), (["far"], (2.0, 0.5)), (["x" * wide], (0.1, 0.1))], [], view
    )
    assert found[0][0] == "short" and found[1:] == [None, None]


def test_the_hull_holds_all_and_is_its_corners():
    square = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
    inner = [(0.5, 0.5), (0.2, 0.7), (0.9, 0.4)]
    assert sorted(convex_hull(square + inner)) == sorted(square)
    assert convex_hull([(0.0, 1.0)] * 3) == [(0.0, 1.0)]
    line = convex_hull([(0.0, 0.0), (0.5, 0.5), (1.0, 1.0)])
    assert {(0.0, 0.0), (1.0, 1.0)} <= set(line), "places on a line have an outline"
