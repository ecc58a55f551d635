"""The verdict on a frontier: which setting, and every sentence by hand."""

from dataclasses import replace

import numpy as np
import pytest

from engine.errors import ParamError
from engine.evaluation.frontier import compute_floor, frontier, select_best_per_method
from engine.evaluation.statistics import compare
from engine.evaluation.verdict import change, find_verdict
from support.points import cell

N = 40
ONES = np.ones(N)
BASE = {"recall": 0.5 * ONES, "ilad": 0.4 * ONES}


def shift_baseline(x=0.0, y=0.0, noise=0.0):
    """The baseline's values with so much more ILAD and Recall; noise: up on one query and down on the next."""
    wave = noise * np.resize([1.0, -1.0], N)
    return {"recall": BASE["recall"] + y + wave, "ilad": BASE["ilad"] + x + wave}


def judge_cells(*cells, share=0.95, x="ilad", y="recall"):
    points = [cell("top_k", BASE), *cells]
    curves = frontier(points, x, y, points[0].k, resamples=200)
    rows = {m: {r.label: r for r in compare(points, m, points[0])} for m in curves.metrics}
    return find_verdict(curves, points[0].label, share, rows), rows


def text(*cells, **options):
    return judge_cells(*cells, **options)[0].text


def test_a_gain_without_a_measurable_loss():
    verdict, rows = judge_cells(
        cell("vrsd", shift_baseline(0.1, -0.001, 0.02)), cell("mmr", shift_baseline(0.02), relevance_weight=0.9)
    )
    assert verdict.text == (
        "VRSD is 25% more diverse than Top-k and loses no measurable Recall (−0.001, n.s.). "
        "More diverse on 40 of 40 queries."
    )
    assert verdict.best.name == "VRSD" and verdict.gain.significant and not verdict.cost.significant
    assert change(verdict.gain) == "+25% diversity" and change(verdict.cost) == "−0.2% Recall (n.s.)"
    assert rows["recall"][verdict.best.point.label] is verdict.cost


def test_gain_with_measurable_loss_states_its_cost():
    assert text(cell("vrsd", shift_baseline(0.1, -0.02))) == (
        "VRSD is 25% more diverse than Top-k and loses 4% of its Recall (−0.020). More diverse on 40 of 40 queries."
    )


def test_loss_is_judged_without_correction():
    verdict, rows = judge_cells(cell("vrsd", shift_baseline(0.1, -0.02)))
    insignificant = {"low": -0.04, "high": -0.001, "p_holm": 0.3}
    corrected = replace(verdict.cost, **insignificant), replace(verdict.gain, low=0.001, high=0.2, p_holm=0.3)
    assert [row.measurable for row in corrected] == [True, False] and not any(row.significant for row in corrected)
    points = [cell("top_k", BASE), cell("vrsd", shift_baseline(0.1, -0.02))]
    rows["recall"][verdict.best.point.label] = corrected[0]
    again = find_verdict(frontier(points, "ilad", "recall", points[0].k, resamples=200), points[0].label, 0.95, rows)
    assert "and loses 4% of its Recall (−0.020)." in again.text and change(corrected[0]) == "−4% Recall"


def test_a_gain_of_both_and_one_that_changes_nothing_else():
    assert "and has 4% more Recall (+0.020)." in text(cell("vrsd", shift_baseline(0.1, 0.02)))
    assert "than Top-k and has the same Recall." in text(cell("vrsd", shift_baseline(0.1)))


def test_verdict_without_measurable_gain():
    verdict, _ = judge_cells(cell("mmr", shift_baseline(-0.1), relevance_weight=0.8))
    assert verdict.text == "No setting that keeps 95% of Top-k's Recall is more diverse." and verdict.best is None
    assert text(cell("mmr", shift_baseline(0.004, 0, 0.2), relevance_weight=0.8), share=0.5) == (
        "No setting that keeps 50% of Top-k's Recall is measurably more diverse. The nearest: MMR · λ 0.8, +1% (n.s.)."
    )


def test_verdict_without_feasible_cells():
    verdict, _ = judge_cells(
        cell("vrsd", shift_baseline(0.3, -0.1)), cell("dpp", shift_baseline(0.2, -0.05), relevance_weight=0.5)
    )
    assert verdict.text == "No setting keeps 95% of Top-k's Recall. The nearest, DPP · λ 0.5, keeps 90%."
    assert verdict.best is verdict.gain is verdict.cost is None
    assert text() == "There is nothing to compare Top-k with."


def test_verdict_picks_most_diverse_feasible_cell():
    cells = [cell("mmr", shift_baseline(0.1 * i, -0.01 * i), relevance_weight=1 - i / 10) for i in range(6)]
    for share in (0.95, 0.93, 0.9):
        verdict, _ = judge_cells(*cells, share=share)
        feasible = [i for i in range(6) if 0.5 - 0.01 * i >= share * 0.5 - 1e-9]
        assert verdict.best.value == pytest.approx(1 - feasible[-1] / 10)
    with pytest.raises(ParamError, match="share"):
        judge_cells(*cells, share=1.5)


def test_an_unjudged_query_has_no_statistics():
    base_values = {"cos_sum": [0.8], "ilad": [0.4]}
    mmr_values = {"cos_sum": [0.78], "ilad": [0.5]}
    points = [cell("top_k", base_values), cell("vrsd", mmr_values)]
    curves = frontier(points, "ilad", "cos_sum", points[0].k)
    rows = {m: {r.label: r for r in compare(points, m, points[0])} for m in curves.metrics}
    verdict = find_verdict(curves, points[0].label, 0.95, rows)
    assert verdict.text == (
        "On this query VRSD is 25% more diverse than Top-k and loses 3% of its cos(sum, query) (−0.020). "
        "One query only."
    )
    assert change(verdict.cost) == "−3% cos(sum, query)"
    assert find_verdict(curves, points[0].label, 0.99, rows).text.startswith("No setting keeps 99% of")


def test_verdict_on_other_axes_and_time():
    assert text(cell("vrsd", shift_baseline(0.1, 0.1)), x="recall") == (
        "VRSD has 20% more Recall than Top-k. More Recall on 40 of 40 queries."
    )
    timed = [cell("top_k", BASE, latency=0.5), cell("vrsd", BASE, latency=2.0)]
    curves = frontier(timed, "milliseconds", "recall", timed[0].k)
    assert find_verdict(curves, timed[0].label, 0.95, {}).text == (
        "Of the settings that keep 95% of Top-k's Recall, VRSD is the fastest: 2 ms a query, Top-k 0.5 ms."
    )


def test_the_floor_is_below_a_negative_baseline_too():
    curves = frontier([cell("top_k", {"recall": -ONES, "ilad": ONES})], k=10)
    base = select_best_per_method(curves, curves.points[0].point.label, 0.9)[0]
    assert compute_floor(base, 0.9) == pytest.approx(-1.1) and compute_floor(base, 1.0) == pytest.approx(-1.0)
