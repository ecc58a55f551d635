"""The frontier's figure: chances as widths, the two choices, what is dragged; its window, and its labels."""

import html
import itertools
import random
import re
from dataclasses import replace
from types import SimpleNamespace
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats

import engine
from dashboard.charts.frontier import (
    BUDGET_SHAPE,
    JOIN_WIDTH,
    LONE_OPACITY,
    MAX_CURVES,
    MIN_OPACITY,
    MIN_WIDTH,
    RING_PX,
    SEGMENTS,
    UNKNOWN_WIDTH,
    VEIL_OPACITY,
    VEIL_SHAPE,
    WIDTH_RANGE,
    FrontierChart,
    build_chance_facts,
    build_lines,
    build_mark,
    fade,
    find_chance,
    find_curve,
    group_curves,
    list_budgets,
    name_denied_role,
    plot_frontier,
    plot_named_budget,
    widen,
)
from dashboard.charts.frontier_layout import (
    CHARACTER_PX,
    LINE_PX,
    PLOT_PX,
    Window,
    compute_window,
    do_overlap,
    needs_leader,
    place_labels,
    trace_envelope,
)
from dashboard.charts.frontier_legend import describe_marks, format_legend, list_lines_and_points, list_marks
from dashboard.charts.frontier_panels import BEST_NAME, Y_TITLE, plot_panels
from dashboard.charts.palette import method_style
from engine.evaluation.choice_calibration import Calibration
from engine.evaluation.decide import estimate_options
from engine.evaluation.decision import SURE_CHANCE
from engine.evaluation.frontier import frontier, select_best_per_method
from engine.evaluation.loss_model import LossEstimate
from engine.wording import signed
from support.sweeps import toy

METHODS = ("top_k", "mmr", "nnn", "vrsd")
PANELLED = ("mmr", "vrsd", "nnn", "max_sum", "dpp")
"""In the registry's order."""


@pytest.fixture(scope="module")
def toys():
    space, queries, qrels = toy(batch=150)
    # A grade of 0 would make the judgements pooled.
    return (
        space,
        queries,
        engine.Qrels({query: grades for query, grades in qrels.grades.items() if any(grades.values())}),
    )


@pytest.fixture(scope="module")
def swept(toys):
    decoders = [*engine.grid("top_k"), *engine.grid("mmr", 5), *engine.grid("vrsd"), *engine.grid("nnn", 3)]
    return list(engine.sweep(decoders, *toys, 5, ("recall", "ilad")))


@pytest.fixture(scope="module")
def found(swept):
    return frontier(swept, "ilad", "recall", 5, resamples=200)


@pytest.fixture(scope="module")
def curve(toys):
    return engine.exact_frontier("mmr", *toys, 5, ("recall", "ilad"), resamples=100)


@pytest.fixture(scope="module")
def estimates(swept, curve):
    return estimate_options([*swept, curve], baseline=swept[0], k=5)


@pytest.fixture
def estimated_chart(found, curve, estimates):
    return FrontierChart(frontier=found, dark=False, share=0.9, estimates=estimates, exact=[curve])


def read_points(figure):
    """Return label → (x, y, colour, opacity) of everything that can be clicked."""
    points = {}
    for trace in figure.data:
        if trace.customdata is not None:
            columns = trace.customdata, trace.x, trace.y, trace.marker.opacity
            for label, x, y, opacity in zip(*columns, strict=True):
                points[label] = x, y, trace.marker.color, opacity
    return points


def read_lines(figure, method):
    """Return the traces of a method's lines."""
    return [trace for trace in figure.data if trace.mode == "lines" and trace.legendgroup == f"{method} 0"]


def read_shapes(figure):
    return {shape.name: shape for shape in figure.layout.shapes}


def test_points_are_in_percent_of_the_baseline_and_as_opaque_as_they_are_sure(found, estimates, estimated_chart):
    drawn_points = read_points(plot_frontier(estimated_chart))
    base = next(p for p in found.points if p.point.method == "top_k")
    chances = estimates.find_chances(0.9)
    assert set(drawn_points) == {p.point.label for p in found.points}
    for p in found.points:
        x, y, colour, opacity = drawn_points[p.point.label]
        assert (x, y) == (p.x, pytest.approx(100 * p.y / base.y))
        assert colour == method_style(p.point.method).colour(False)
        chance = 1.0 if p is base else chances[estimates.position_of[p.point.label]]
        # A decoder of one point, which no line shows, is never as pale as the others.
        lone = LONE_OPACITY + (1 - LONE_OPACITY) * chance
        assert opacity == pytest.approx(lone if p.point.method in ("top_k", "vrsd") else fade(chance))
    assert len({opacity for *_, opacity in drawn_points.values()}) > 10, "chances differ"


def test_setting_that_is_left_out_is_as_pale_as_one_that_hardly_keeps_the_budget(estimates, estimated_chart):
    is_left_out = np.arange(len(estimates.gains)) == 1
    partly = replace(estimates)
    vars(partly)["is_left_out"] = is_left_out
    chart = replace(estimated_chart, estimates=partly)
    chances = estimates.find_chances(chart.share)
    assert [find_chance(chart, position) for position in (0, 1)] == [chances[0], 0] and chances[1] > 0
    assert build_chance_facts(chart, "mmr", [0, 1])["keep"][1] == [-1.0, 0.0, 0.0, 1.0], "a loss of everything"


def test_points_and_lines_look_alike_without_estimates(found):
    figure = plot_frontier(FrontierChart(frontier=found, dark=False, share=0.7))
    assert {opacity for *_, opacity in read_points(figure).values()} == {1.0}
    assert {(line.line.width, line.line.dash) for line in read_lines(figure, "mmr")} == {(JOIN_WIDTH, "dot")}
    assert not [trace for trace in figure.data if trace.meta] and not set(read_shapes(figure)) - {
        VEIL_SHAPE, BUDGET_SHAPE
    }  # fmt: skip


def test_width_and_opacity_rise_from_their_least_to_their_greatest_with_the_chance():
    assert (widen(0), widen(1)) == (MIN_WIDTH, MIN_WIDTH + WIDTH_RANGE)
    assert (fade(0), fade(1)) == (MIN_OPACITY, 1) and fade(0.5) == pytest.approx((MIN_OPACITY + 1) / 2)


def test_exact_curve_is_as_wide_as_the_setting_in_the_middle_of_each_part_is_sure(curve, estimates, estimated_chart):
    lines = read_lines(plot_frontier(estimated_chart), "mmr")
    positions = estimates.find_positions(curve)
    assert len(lines) == SEGMENTS and len(positions) == 101
    for number, line in enumerate(lines):
        position = positions[round((number + 0.5) / SEGMENTS * 100)]
        assert line.line.width == pytest.approx(widen(estimates.find_chances(0.9)[position]))
        assert estimates.build_option(position, 0.9).decoder.select.relevance_weight == pytest.approx(
            (number + 0.5) / SEGMENTS, abs=0.011
        )
    widths = [line.line.width for line in lines]
    assert min(widths) < MIN_WIDTH + 0.1 and max(widths) > widen(0.99), "from hardly any to sure"
    for line, next_line in itertools.pairwise(lines):
        assert (line.x[-1], line.y[-1]) == (next_line.x[0], next_line.y[0]), "each ends where the next begins"


def test_settings_without_a_curve_are_joined_by_dots_that_no_budget_widens(found, estimated_chart):
    lines = read_lines(plot_frontier(estimated_chart), "nnn")
    xs = {point.x for point in found.points if point.point.method == "nnn"}
    assert lines and all(len(line.x) > 2 and {*line.x} <= xs for line in lines)
    assert {(line.line.width, line.line.dash, line.meta) for line in lines} == {(JOIN_WIDTH, "dot", None)}


def test_lines_of_many_curves_pass_through_both_recommended_settings(found, estimated_chart):
    curves, _ = next(group for group in group_curves(found) if group[0][0][0].point.method == "nnn")
    assert len(curves) > MAX_CURVES, "or else all are drawn"
    for choices in ([curves[0][0], curves[-1][-1]], [curves[1][0]]):
        sure, bet = [SimpleNamespace(label=point.point.label) for point in choices] + [None] * (2 - len(choices))
        chart = replace(estimated_chart)
        vars(chart)["decision"] = SimpleNamespace(sure=sure, bet=bet)
        lines = build_lines(chart, curves)
        assert [(line.x[0], line.is_exact) for line in lines] == [
            (estimated_chart.xy(curve)["x"][0], False)
            for curve in curves
            if {point.point.label for point in curve} & {choice.point.label for choice in choices}
        ]


def test_browser_gets_the_numbers_behind_every_chance(estimates, estimated_chart):
    figure = plot_frontier(estimated_chart)
    level, budgets = figure.layout.meta["level"], list_budgets()
    assert level["sureScore"] == pytest.approx(stats.t.ppf(SURE_CHANCE, level["degrees"]))
    assert len(level["calibrations"]) == len(budgets)
    for trace in figure.data:
        if trace.customdata is None or trace.legendgroup == "top_k 0":
            continue
        mean, std_error, skew_loss, largest_loss = np.transpose(trace.meta["keep"])
        facts = {"degrees": level["degrees"], "n_at_stake": level["atStake"], "largest_loss": largest_loss}
        losses = LossEstimate(mean=mean, std_error=std_error, skew_loss=skew_loss, **facts)
        positions = [estimates.position_of[label] for label in trace.customdata]
        for number in (0, 20, 45):
            calibration = Calibration(*level["calibrations"][number])
            chances = calibration.to_chances(losses.score(mean, budgets[number]), level["degrees"])
            assert chances == pytest.approx(estimates.find_chances(budgets[number])[positions], abs=1e-3)
    baseline = next(trace for trace in figure.data if trace.legendgroup == "top_k 0")
    assert baseline.meta["keep"] == [None], "the baseline keeps every budget"


def test_budget_is_a_line_with_a_veil_below_and_can_be_dragged(found, estimated_chart):
    figure = plot_frontier(replace(estimated_chart, share=0.9, dark=True))
    shapes = read_shapes(figure)
    veil, line = shapes[VEIL_SHAPE], shapes[BUDGET_SHAPE]
    assert veil.y1 == line.y0 == line.y1 == pytest.approx(90)
    assert veil.opacity == VEIL_OPACITY and veil.layer == "below"
    assert veil.y0 <= min(y for _, y, _, _ in read_points(figure).values())
    level = figure.layout.meta["level"]
    assert (level["value"], level["low"], level["high"], level["step"]) == (90, 80, 105, 0.5)
    assert "Top-k's Recall" in level["label"]
    no_budget = plot_frontier(FrontierChart(frontier=found, dark=True))
    assert not no_budget.layout.shapes and "level" not in no_budget.layout.meta


def test_budgets_run_from_the_low_to_the_high_end_in_half_percents():
    budgets = list_budgets()
    assert budgets == [round(0.8 + 0.005 * step, 3) for step in range(51)] and budgets[-1] == 1.05


def test_both_choices_have_a_ring_a_strip_of_their_interval_and_a_name(found, estimates, estimated_chart):
    figure, decision = plot_frontier(estimated_chart), estimates.decide(0.9)
    shapes, base = read_shapes(figure), estimated_chart.base
    labels = {label.name: label for label in figure.layout.annotations}
    for role, option in (("sure", decision.sure), ("bet", decision.bet)):
        x, y = estimates.find_means(option.label)
        ring, kept, missed = (shapes[f"{role} {part}"] for part in ("ring", "kept", "missed"))
        assert (ring.xanchor, ring.yanchor) == (pytest.approx(x), pytest.approx(100 * y / base.y))
        assert (ring.x0, ring.x1, ring.y0, ring.y1) == (-RING_PX, RING_PX, -RING_PX, RING_PX)
        middle = max(90, 100 * option.sure_share)
        assert (missed.y0, missed.y1) == pytest.approx((100 * option.sure_share, middle))
        assert (missed.y0 == missed.y1) == option.is_sure, "a sure setting has nothing below the budget"
        ends = {shapes[f"{role} {end} end"].yanchor: shapes[f"{role} {end} end"].fillcolor for end in ("low", "high")}
        assert list(ends) == pytest.approx([100 * option.sure_share, 100 * option.high])
        assert set(ends.values()) == ({kept.fillcolor} if option.is_sure else {kept.fillcolor, missed.fillcolor})
        assert (kept.y0, kept.y1) == pytest.approx((middle, 100 * option.high))
        own_colour = method_style(option.decoder.select.spec.name).colour(False)
        assert kept.fillcolor == ring.line.color == own_colour != missed.fillcolor
        label = labels[f"{role} label"]
        assert label.text == f"{role}: {option.name}" and (label.x, label.y) == (ring.xanchor, ring.yanchor)
        assert option.name not in [other.text for other in figure.layout.annotations], "it is named once"


def test_up_to_three_settings_of_explore_have_names(found):
    """Nine names lay over the lines of nine decoders, each with a leader of its own."""
    labels = [point.point.label for point in found.points]
    for current in (labels[:1], labels[:4]):
        figure = plot_frontier(FrontierChart(frontier=found, dark=False, current=current))
        rings = [trace for trace in figure.data if trace.name == "Explore"]
        assert [len(ring.x) for ring in rings] == [len(current)]
        names = [label.text for label in figure.layout.annotations if (label.text or "").startswith("Explore")]
        assert bool(names) == (len(current) == 1)


def test_sure_setting_that_another_split_denies_is_named_so_at_its_budget(estimated_chart):
    sure = replace(estimated_chart.estimates.decide(0.9).sure, confirmed=False, confirmed_low=0.997, confirmed_gain=0.1)
    assert name_denied_role(None) == name_denied_role(replace(sure, confirmed=True)) == ""
    assert name_denied_role(replace(sure, confirmed_gain=-0.002)) == "sure, gains nothing"
    roles = "", name_denied_role(sure)
    plain, denied = (plot_frontier(replace(estimated_chart, denied_role=role)) for role in roles)
    names = [[label.text.split(":")[0] for label in figure.layout.annotations] for figure in (plain, denied)]
    assert "sure" in names[0] and "looked sure" not in names[0]
    assert "looked sure" in names[1] and "sure" not in names[1]
    assert [figure.layout.meta["level"]["denied"] for figure in (plain, denied)] == [None, 90]


def test_legend_names_the_marks_that_a_chart_has(found, estimated_chart):
    strip, step = (
        "whisker: likely range of what a choice keeps, low end 95% sure, grey below the budget",
        "grey step: best of all",
    )
    width, shade = "width and opacity: chance to keep the budget", "shade: below the budget"
    assert describe_marks(estimated_chart) == [width, strip, step, shade]
    assert describe_marks(replace(estimated_chart, share=1.05, has_envelope=False)) == [width, shade], "no choice"
    assert describe_marks(FrontierChart(frontier=found, dark=False)) == [step]


def test_legend_and_budget_have_the_budgets_own_digits(estimated_chart):
    """At 92.5 and 96.5 the legend once read 92% and 96%, beside a handle with the true share."""
    chart = replace(estimated_chart, share=0.925)
    assert list_marks(chart)[0].words == "likelier to keep 92.5%"
    names = [each.text for each in plot_named_budget(chart).layout.annotations if "keep ≥" in (each.text or "")]
    assert names == ["keep ≥ 92.5% of Top-k's Recall"]


@pytest.mark.parametrize("is_dark", [False, True])
def test_legend_draws_each_mark_beside_four_words_at_most_and_tells_its_meaning(estimated_chart, is_dark):
    chart = replace(estimated_chart, dark=is_dark, current=[estimated_chart.frontier.points[-1].point.label])
    entries = [*list_marks(chart), *list_lines_and_points(chart, has_panels=True)]
    assert [entry.words for entry in entries] == [
        "likelier to keep 90%", "choice, likely range", "best of all", "set in Explore", "below the budget",
        "best setting", "every λ", "joins settings", "click for results",
    ]  # fmt: skip
    assert all(len(entry.words.split()) <= 4 for entry in entries)
    without_curves = list_lines_and_points(replace(chart, exact=[]), has_panels=False)
    assert [entry.words for entry in without_curves] == ["joins settings", "click for results"]
    chosen = method_style(chart.decision.sure.decoder.select.spec.name)
    assert all(chosen.colour(is_dark) in entry.drawing for entry in entries[:2]), "in the colour that the chart has"
    legend = ElementTree.fromstring(format_legend(entries).partition("</style>")[2])
    for item, entry in zip(legend, entries, strict=True):
        # Screen readers read the meaning in place of the few words.
        spoken = [span.text for span in item.iter("span") if span.get("aria-hidden") is None and span.text]
        assert spoken == [entry.description] and item.find("img").get("alt") == ""
        drawing = ElementTree.fromstring(unquote(item.find("img").get("src")).partition(",")[2])
        assert len(drawing) and drawing.get("viewBox").split()[2] == drawing.get("width") == item.find("img").get(
            "width"
        )


def test_unlikely_settings_can_be_seen_on_a_dark_page(estimated_chart):
    figure = plot_frontier(replace(estimated_chart, dark=True))
    opacities = [opacity for *_, opacity in read_points(figure).values()]
    assert min(opacities) >= fade(0, is_dark=True) == figure.layout.meta["level"]["minOpacity"] >= 0.45
    for trace in figure.data:
        if trace.mode == "lines" and str(trace.line.color).startswith("rgba"):
            assert float(trace.line.color.split(",")[-1].strip(" )")) >= 0.45


def test_without_a_choice_there_are_no_marks(estimated_chart, estimates):
    assert estimates.decide(1.05).sure is estimates.decide(1.05).bet is None
    figure = plot_frontier(replace(estimated_chart, share=1.05))
    names = [part.name or "" for part in (*figure.layout.shapes, *figure.layout.annotations)]
    assert VEIL_SHAPE in names and not any(name.startswith(("sure ", "bet ")) for name in names)


def test_marks_of_every_budget_are_those_of_its_decision(estimates, estimated_chart):
    level = plot_frontier(estimated_chart).layout.meta["level"]
    budgets = list_budgets()
    assert len(level["choices"]) == len(budgets) and level["degrees"] == len(estimates.aligned.queries) - 1
    for share, pair, ends in zip(budgets, level["choices"], level["sureEnds"], strict=True):
        decision = estimates.decide(share, with_options=False)
        for number, end, option in zip(pair, ends, (decision.sure, decision.bet), strict=True):
            assert (number is None) == (option is None) == (end is None), share
            # The rule has one side: a two-sided interval may reach below the budget.
            assert option is not decision.sure or option is None or end >= 100 * share - 1e-4
            if option is not None:
                mark, (x, y) = level["options"][number], estimates.find_means(option.label)
                assert (mark["name"], mark["x"]) == (option.name, x)
                assert mark["y"] == pytest.approx(100 * y / estimated_chart.base.y)
                assert (end, mark["high"]) == (pytest.approx(100 * option.sure_share, abs=1e-4), 100 * option.high)


def test_marks_of_choices_on_fewer_queries_stand_at_the_gain_and_share_that_are_said(found, toys, estimated_chart):
    """Settings with few values leave fewer queries than the points are over: rings floated off their curves."""
    space, queries, qrels = toys
    judged = engine.Qrels(dict(list(qrels.grades.items())[:-4]))
    decoders = [*engine.grid("top_k"), *engine.grid("mmr", 5)]
    cells = list(engine.sweep(decoders, space, queries, judged, found.k, ("recall", "ilad")))
    chart = replace(estimated_chart, estimates=estimate_options(cells, k=found.k), exact=[])
    assert len(chart.estimates.aligned.queries) < found.queries
    for option in chart.estimates.decide(0.5).options:
        mark = build_mark(chart, option)
        assert mark["y"] == pytest.approx(100 * option.share_kept)
        assert mark["x"] == pytest.approx(chart.base.x * (1 + option.gain))


def test_the_window_is_the_budget_s_unless_all_is_asked_for(found):
    ranges = [
        plot_frontier(FrontierChart(frontier=found, dark=False, share=0.95, whole=whole)).layout.yaxis.range
        for whole in (False, True)
    ]
    lowest = min(100 * p.y / found.points[0].y for p in found.points)
    assert ranges[0][0] > lowest >= ranges[1][0]


def test_axes_stay_while_the_budget_moves_inside_the_default_window(found):
    views = [FrontierChart(frontier=found, dark=False, share=share).view for share in (0.8, 0.94, 0.95, 0.975, 1.05)]
    assert views[1] == views[2] == views[3] == views[4] and views[0].y[0] < views[1].y[0]


def test_fixed_budget_and_both_intervals_are_in_the_window(found, curve, estimates):
    chart = FrontierChart(frontier=found, dark=False, share=0.9, estimates=estimates, exact=[curve], has_handles=False)
    low, high = chart.view.y
    choices = filter(None, (chart.decision.sure, chart.decision.bet))
    ends = [100 * end for option in choices for end in (option.sure_share, option.high)]
    assert ends and low <= min(*ends, chart.floor) and high >= max(ends)


def test_whiskers_of_every_budget_that_can_be_dragged_to_end_in_the_window(estimated_chart, estimates):
    # As of fewer queries: the likely best of a choice lies above all points.
    unsure = replace(estimates)
    vars(unsure)["intervals"] = estimates.intervals[0], estimates.intervals[1] + 0.2
    tops = []
    for share in list_budgets():
        decision = unsure.decide(share, with_options=False)
        tops += [100 * option.high for option in (decision.sure, decision.bet) if option is not None]
    views = [replace(estimated_chart, estimates=unsure, share=share).view for share in (0.95, 0.98)]
    assert views[0].y == views[1].y and views[0].y[1] > max(tops) > estimated_chart.view.y[1]


def test_curve_that_is_not_estimated_has_one_width_and_keeps_it(found, curve, swept):
    """None stands for the baseline too, which is sure: a curve was drawn as certain down to its end."""
    alone = estimate_options(swept, baseline=swept[0], k=5)
    chart = FrontierChart(frontier=found, dark=False, share=0.9, estimates=alone, exact=[curve], has_envelope=False)
    lines = read_lines(plot_frontier(chart), "mmr")
    assert {(line.line.width, line.meta) for line in lines} == {(UNKNOWN_WIDTH, None)} and len(lines) > 3
    assert widen(0) < UNKNOWN_WIDTH < widen(1)


def test_one_query_is_drawn_in_its_own_unit(swept):
    first = [
        replace(cell, queries=cell.queries[:1], values={m: v[:1] for m, v in cell.values.items()}) for cell in swept
    ]
    chart = FrontierChart(frontier=frontier(first, "ilad", "recall", 5), dark=False)
    figure = plot_frontier(chart)
    assert chart.unit == 1 and not chart.relative and figure.layout.yaxis.title.text == "Recall@5 ↑"
    places = {label: y for label, (_, y, _, _) in read_points(figure).items()}
    assert places == {point.point.label: point.y for point in chart.frontier.points} and len(set(places.values())) > 1


def test_a_method_of_many_curves_is_its_points_and_its_best_curve(found):
    figure = plot_frontier(FrontierChart(frontier=found, dark=False, share=0.9))
    own = [t for t in figure.data if t.legendgroup and t.legendgroup.startswith("nnn ")]
    lines = [t for t in own if t.mode == "lines"]
    places = [p for p in found.points if p.point.method == "nnn"]
    assert len(lines) == 1 and len({p.x for p in places}) > 3
    best = next(p for p in select_best_per_method(found, found.points[0].point.label, 0.9) if p.point.method == "nnn")
    assert best.x in lines[0].x, "the line is the curve of the best setting"
    assert {x for t in own if t.mode == "markers" for x in t.x} == {p.x for p in places}


@pytest.mark.parametrize("smaller_is_better", [False, True])
def test_envelope_is_what_no_other_position_beats_on_both_axes(smaller_is_better):
    rng = np.random.default_rng(0)
    xs = np.round(rng.uniform(size=80), 1)
    gain = -1 if smaller_is_better else 1
    # The farther right, the lower, as a frontier is; with ties on both axes.
    places = np.column_stack([xs, np.round(rng.uniform(size=80) - gain * xs, 1)]).tolist()
    xs, ys = trace_envelope(map(tuple, places), smaller_is_better)

    def is_beaten(x, y):
        """Return True if another position is as good on both axes and better on one."""
        return any(gain * (a - x) >= 0 and b >= y and (a, b) != (x, y) for a, b in places)

    expected = sorted({(x, y) for x, y in places if not is_beaten(x, y)})
    assert list(zip(xs, ys, strict=True)) == expected and len(expected) > 2


def test_envelope_has_exact_curves_and_is_drawn_from_two_decoders_on(found, curve, estimated_chart):
    envelope = next(t for t in plot_frontier(estimated_chart).data if t.name == "best of all")
    assert envelope.line.shape == "vh" and list(envelope.y) == sorted(envelope.y, reverse=True)
    curve_places = set(
        zip(curve.means["ilad"].tolist(), (curve.means["recall"] * estimated_chart.unit).tolist(), strict=True)
    )
    assert len(curve_places.intersection(zip(envelope.x, envelope.y, strict=True))) > 2
    kept = {label: points for label, points in found.curves.items() if points[0].point.method in ("top_k", "mmr")}
    alone = plot_frontier(FrontierChart(frontier=replace(found, curves=kept), dark=False))
    assert "best of all" not in [t.name for t in alone.data]


def test_labels_name_the_best_within_the_budget_and_cover_nothing(found):
    best = select_best_per_method(found, found.points[0].point.label, 0.8)
    chart = FrontierChart(frontier=found, dark=False, share=0.8)
    labels = plot_frontier(chart).layout.annotations
    names = [label.text for label in labels]
    assert best[1].name not in names and "MMR" in names, "a best point has its decoder's name alone"
    boxes = []
    for label in labels:
        (x, y), half = chart.view.to_pixels((label.x, label.y)), CHARACTER_PX * len(label.text) / 2
        x, y = x + label.xshift, y + label.yshift
        boxes.append((x - half, x + half, y - LINE_PX / 2, y + LINE_PX / 2))
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
    assert f"Recall: {win:,} better · {tie:,} same · {loss:,} worse" in card


def test_open_point_has_a_ring_and_its_name(found):
    p = next(p for p in found.points if p.point.method == "vrsd")
    figure = plot_frontier(FrontierChart(frontier=found, dark=False, opened=p.point.label))
    ring = next(t for t in figure.data if t.name == "selected")
    assert ring.x == (p.x,) and ring.marker.symbol == "circle-open" and ring.error_x.array is None
    assert "VRSD" in [label.text for label in figure.layout.annotations]
    closed = plot_frontier(FrontierChart(frontier=found, dark=False))
    assert next(t for t in closed.data if t.name == "selected").x == ()


def test_the_dot_runs_along_the_exact_curve(found, curve):
    point = next(p for p in found.points if p.point.method == "mmr")
    assert find_curve(point, found, [curve]) is curve
    assert find_curve(found.points[0], found, [curve]) is None
    chart = FrontierChart(frontier=found, dark=False, exact=[curve], scrub=(curve, 0.25))
    dot = plot_frontier(chart).layout.meta["curve"]
    assert dot["at"] == 25 and len(dot["values"]) == 101
    for at in (0, 25, 60, 100):
        means = curve.at(dot["values"][at])
        assert dot["settings"][at] == f"MMR · λ {dot['values'][at]:g}" and dot["method"] == "mmr"
        assert f"Recall@5 {means['recall']:.3f} · Diversity (ILAD@5) {means['ilad']:.3f}" in dot["means"][at]
        assert dot["x"][at] == pytest.approx(means["ilad"], abs=1e-5)
        assert dot["y"][at] == pytest.approx(100 * means["recall"] / chart.base.y, abs=1e-3)
    assert dot["texts"][25].startswith("λ 0.25 · Recall ") and "%" in dot["texts"][25]
    line = next(t for t in plot_frontier(chart).data if t.legendgroup == "mmr 0" and t.mode == "lines")
    assert len(line.x) > 5, "the curve itself, not five points joined"


def test_line_leaves_out_ends_with_sets_of_their_own(found, curve):
    breakpoints = np.concatenate([[np.nextafter(0, 1)], curve.breakpoints, [1.0]])
    means = {metric: np.pad(column, 1, constant_values=0.125) for metric, column in curve.means.items()}
    ended = replace(curve, breakpoints=breakpoints, means=means)
    points = [point for point in found.points if point.point.method == "mmr"]
    lines = []
    for exact_curve in (curve, ended):
        chart = FrontierChart(frontier=found, dark=False, exact=[exact_curve])
        lines.append(build_lines(chart, [points]))
    assert lines[0] == lines[1] and ended.at(0.0)["ilad"] == ended.at(1.0)["ilad"] == 0.125


def test_panels_show_every_point_of_a_method_in_its_panel(found, estimated_chart):
    chart = FrontierChart(frontier=found, dark=False, share=0.9)
    figure = plot_panels(chart)
    own = [t for t in figure.data if t.customdata is not None]
    assert [a.text.split(" ", 1)[1] for a in figure.layout.annotations if a.name != Y_TITLE] == [
        engine.methods()[name].title for name in METHODS[1:]
    ]
    assert {i for t in own for i in t.customdata} == {p.point.label for p in found.points} - {chart.base.point.label}
    assert len({t.xaxis for t in own}) == len(METHODS) - 1, "the baseline, one point, has no panel"
    lines = [t for t in figure.data if t.mode == "lines" and t.name != "best of all"]
    assert len(lines) == 2 and {t.line.width for t in lines} == {JOIN_WIDTH}, "of MMR, and the best of NNN's"
    panels, main_chart = plot_panels(estimated_chart), plot_frontier(estimated_chart)
    widths, main_chart_widths = (
        sorted(t.line.width for t in each.data if t.meta is not None and t.mode == "lines")
        for each in (panels, main_chart)
    )
    assert widths == main_chart_widths and len(set(widths)) > 5
    assert panels.layout.meta["level"] == main_chart.layout.meta["level"], "the budget can be dragged in panels too"
    estimates, names = estimated_chart.estimates, panels.layout.meta["panels"]
    best = [
        estimates.build_option(position, estimated_chart.share)
        for position in estimates.find_best_positions(estimated_chart.share)
    ]
    assert names == [option.decoder.select.spec.name for option in best] and set(names) == set(METHODS[1:])
    for option, title in zip(best, panels.layout.annotations, strict=False):
        certainty = "sure" if option.is_sure else f"{round(100 * option.chance)} in 100"
        assert re.sub("</?b>", "", title.text).endswith(f" {signed(100 * option.gain, 0)}%, {certainty}")
    dots = [(t.xaxis, tuple(t.y)) for t in panels.data if t.mode == "markers" and t.name != BEST_NAME]
    assert len({axis for axis, _ in dots}) == len(dots) == len(names), "no other decoder's points in a panel"
    ring = read_shapes(panels)["sure ring"]
    number = names.index(estimated_chart.decision.sure.decoder.select.spec.name)
    refs = tuple(f"{axis}{number + 1 if number else ''}" for axis in "xy")
    assert (ring.xref, ring.yref) == refs, "in its decoder's panel"
    frame, titles = read_shapes(panels)["chosen"], panels.layout.annotations[: len(METHODS) - 1]
    assert (frame.xref, frame.yref) == tuple(f"{ref} domain" for ref in refs)
    assert [title.text.startswith("<b>") for title in titles] == [at == number for at in range(len(titles))]
    assert len({title.font.color for title in titles}) == len(titles), "each in its decoder's colour"


@pytest.mark.deep
def test_panels_have_their_titles_at_every_budget_that_can_be_dragged_to(estimated_chart):
    meta = plot_panels(estimated_chart).layout.meta
    names, titles = meta["panels"], meta["titles"]
    assert len(titles["gains"]) == len(titles["settings"]) == len(list_budgets())
    for share, gains in list(zip(list_budgets(), titles["gains"], strict=True))[::7]:
        # A chart that is drawn at this budget has the same titles, in an order of its own.
        panels = plot_panels(replace(estimated_chart, share=share))
        drawn = dict(zip(panels.layout.meta["panels"], panels.layout.annotations, strict=False))
        texts = [f"{name} {gain}" for name, gain in zip(titles["names"], gains, strict=True)]
        assert texts == [html.unescape(re.sub("</?b>", "", drawn[name].text)) for name in names]
    assert len(set(map(tuple, titles["gains"]))) > 3 and len(set(map(tuple, titles["settings"]))) > 1


def test_panels_mark_the_setting_of_their_title_on_its_points_or_line_and_never_pale(estimated_chart, curve):
    chart = replace(estimated_chart, share=0.99)
    panels, decision = plot_panels(chart), chart.decision
    names, estimates = panels.layout.meta["panels"], chart.estimates
    marks = {int(trace.xaxis[1:] or 1) - 1: trace for trace in panels.data if trace.name == BEST_NAME}
    points, n_on_line = {point.point.label: point for point in chart.frontier.points}, 0
    for number, position in enumerate(estimates.find_best_positions(chart.share)):
        option = estimates.build_option(position, chart.share)
        if option.label in [each.label for each in (decision.sure, decision.bet) if each is not None]:
            assert number not in marks, "it has a ring"
            continue
        mark = marks.pop(number)
        assert mark.marker.opacity is None and mark.customdata == (option.label,) and option.name in mark.hovertext[0]
        if option.label in points:
            x, y = points[option.label].x, points[option.label].y
        else:
            means = curve.at(getattr(option.decoder.select, curve.parameter))
            x, y, n_on_line = means["ilad"], means["recall"], n_on_line + 1
        assert (mark.x[0], mark.y[0]) == pytest.approx((x, y * chart.unit)), names[number]
    assert not marks


def test_only_point_of_a_decoder_is_never_pale_in_the_browser_either(estimated_chart):
    chart = replace(estimated_chart, share=1.05)
    for figure in (plot_frontier(chart), plot_panels(chart)):
        points = [t for t in figure.data if t.customdata is not None and t.meta is not None]
        vrsd, mmr = (next(t for t in points if t.meta["method"] == name) for name in ("vrsd", "mmr"))
        assert len(vrsd.x) == 1 and min(vrsd.marker.opacity) >= LONE_OPACITY == vrsd.meta["minOpacity"]
        assert min(mmr.marker.opacity) < LONE_OPACITY and "minOpacity" not in mmr.meta


def test_every_panel_has_numbers_below_and_each_row_has_some_at_its_left(toys):
    decoders = [*engine.grid("top_k"), *(engine.Decoder(engine.make(name)) for name in PANELLED)]
    chart = FrontierChart(
        frontier=frontier(engine.sweep(decoders, *toys, 5, ("recall", "ilad")), "ilad", "recall", 5), dark=False
    )
    layout = plot_panels(chart).layout
    axes = [[getattr(layout, f"{letter}axis{n if n > 1 else ''}") for n in range(1, 6)] for letter in "xy"]
    assert [axis.showticklabels for axis in axes[0]] == [True] * 5
    assert [axis.showticklabels is not False for axis in axes[1]] == [True, False, False, True, False]
    # Titles of the horizontal axis stand at the foot of each column, and one of the vertical axis above all panels.
    titles = ["Diversity (ILAD@5) →" if n >= 2 else None for n in range(5)]
    assert [axis.title.text for axis in axes[0]] == titles and not any(axis.title.text for axis in axes[1])
    assert [a.text for a in layout.annotations if a.name == Y_TITLE] == ["Recall@5, % of Top-k ↑"]


def test_rings_of_both_choices_lie_over_both_whiskers(estimated_chart):
    names = [shape.name for shape in plot_frontier(estimated_chart).layout.shapes]
    rings = [names.index(f"{role} ring") for role in ("sure", "bet")]
    assert min(rings) > max(names.index(f"{role} {part}") for role in ("sure", "bet") for part in ("kept", "low end"))


def test_line_through_the_baseline_hides_neither_its_name_nor_its_mark(estimated_chart):
    figure, base = plot_frontier(estimated_chart), estimated_chart.base
    last = [t for t in figure.data if t.customdata is not None][-1]
    assert list(last.customdata) == [base.point.label], "drawn over the others"
    label = next(each for each in figure.layout.annotations if each.text == base.name)
    x, y = estimated_chart.view.to_pixels((label.x, label.y))
    x, y, half = x + label.xshift, y + label.yshift, CHARACTER_PX * len(label.text) / 2
    for trace in read_lines(figure, "mmr"):
        for place in zip(trace.x, trace.y, strict=True):
            line_x, line_y = estimated_chart.view.to_pixels(place)
            assert not (abs(line_x - x) < half and abs(line_y - y) < LINE_PX / 2)


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


def test_a_label_moves_from_a_crowd_with_a_line_to_its_point_and_covers_no_other_text():
    view, point = Window((0.0, 1.0), (0.0, 1.0)), (0.5, 0.5)
    x, y = view.to_pixels(point)
    (near,) = place_labels([(["name"], point)], [], view)
    assert not needs_leader(*near)
    taken = (x - 90, x + 90, y - 40, y + 40)
    (far,) = place_labels([(["name"], point)], [], view, [taken])
    assert needs_leader(*far)
    half, (across, up) = CHARACTER_PX * len("name") / 2, far[1]
    assert not do_overlap((x + across - half, x + across + half, y + up - LINE_PX / 2, y + up + LINE_PX / 2), taken)
    crowd = [(0.5 + step / 700, 0.5 + row / 450) for step in range(-45, 46, 5) for row in range(-25, 26, 5)]
    (moved,) = place_labels([(["name"], point)], crowd, view)
    assert needs_leader(*moved), "it rather moves than cover a crowd"


def test_a_label_without_a_place_takes_its_short_text_and_one_outside_has_none():
    view = Window((0.0, 1.0), (0.0, 1.0))
    wide = int(PLOT_PX[0] / CHARACTER_PX) + 1
    found = place_labels(
        [(["x" * wide, "short"], (0.5, 0.5)), (["far"], (2.0, 0.5)), (["x" * wide], (0.1, 0.1))], [], view
    )
    assert found[0][0] == "short" and found[1:] == [None, None]
