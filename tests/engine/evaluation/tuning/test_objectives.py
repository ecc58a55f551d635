"""What a setting is tuned for: every aim against its definition, in plain Python, and its corner cases."""

import math

import numpy as np
import pytest

import engine
from engine.evaluation.metrics import METRICS
from engine.evaluation.tuning.objectives import LESS_IS_BETTER, Objective, compute_chord_distances, find_knee
from support.points import cell

BASE = {"recall": 0.8, "ilad": 0.3, "comp": 0.5}


def choose(objective, recall=None, ilad=None, comp=None, order=None, base=BASE):
    values = {"recall": recall, "ilad": ilad, "comp": comp}
    means = {m: np.array(values[m], dtype=float) for m in objective.metrics}
    order = order or list(range(len(next(iter(means.values())))))
    return objective.choose(means, base, order, 10, "first")


def test_maximise_takes_the_most_and_the_first_in_order_of_equals():
    objective = Objective("maximise", metric="comp")
    choice = choose(objective, comp=[0.1, 0.4, 0.3])
    assert (choice.best, choice.satisfied) == (1, True) and choice.reason == "Highest Comp@10: 0.400 (first: 0.500)."
    tied = choose(objective, comp=[0.4, 0.1, 0.4 - 1e-12, 0.4], order=[3, 0, 1, 2])
    assert tied.best == 2 and "; 3 settings tie, and" in tied.reason
    assert choose(objective, comp=[0.4, 0.1, 0.4 - 1e-6, 0.4], order=[3, 0, 1, 2]).best == 3


def test_share_is_kept_from_its_exact_value_on():
    objective = Objective("diverse", share=0.7)
    kept = {recall: objective.kept({"recall": recall, "ilad": 0.1}, BASE) for recall in (0.1 * 7 * 0.8, 0.5599, 0.9)}
    assert list(kept.values()) == [True, False, True] and objective.constrained
    assert not Objective("knee").constrained and Objective("knee").kept({"recall": 0.0}, BASE)


def knee_by_definition(x, y):
    """The distances of the non-dominated points to the line through the ends, after scaling."""
    front = [
        i
        for i in range(len(x))
        if not any(x[j] >= x[i] and y[j] >= y[i] and (x[j] > x[i] or y[j] > y[i]) for j in range(len(x)))
    ]
    if len({(x[i], y[i]) for i in front}) == 1:
        return {i: 0.0 for i in front}
    lows, highs = [[f(v[i] for i in front) for v in (x, y)] for f in (min, max)]
    scaled = {i: [(v[i] - low) / (high - low) for v, low, high in zip((x, y), lows, highs, strict=True)] for i in front}
    (ax, ay), (bx, by) = min(scaled.values()), max(scaled.values())
    length = math.hypot(bx - ax, by - ay)
    # The cross product's sign says on which side: the outside is towards (1, 1).
    return {i: ((bx - ax) * (py - ay) - (by - ay) * (px - ax)) / length for i, (px, py) in scaled.items()}


def test_knee_is_furthest_beyond_the_chord():
    rng = np.random.default_rng(1)
    for _ in range(200):
        x, y = rng.uniform(0.1, 0.7, 15).round(2), rng.uniform(0.3, 0.9, 15).round(2)
        expected, got = knee_by_definition(x, y), compute_chord_distances(x, y)
        assert {i for i in range(15) if np.isfinite(got[i])} == set(expected)
        for i, distance in expected.items():
            assert got[i] == pytest.approx(distance, abs=1e-12)
        choice = choose(Objective("knee"), recall=y, ilad=x)
        assert expected[choice.best] == pytest.approx(max(expected.values()), abs=1e-8)
        assert choice.satisfied == (max(expected.values()) > 0.02)


@pytest.mark.parametrize(
    "recall, ilad, order, best, message",
    [
        ([1.0, 0.75, 0.5], [0.0, 0.25, 0.5], [2, 1, 0], 2, "does not bend outwards"),
        ([1.0, 0.55, 0.5], [0.0, 0.1, 0.5], [1, 0, 2], 0, "no knee"),
        ([1.0, 0.755, 0.5], [0.0, 0.25, 0.5], None, 1, "almost straight"),
        ([1.0, 0.755, 0.5], [0.0, 0.25, 0.5], None, 1, "lies only 0.007 beyond"),
        ([1.0, 0.5], [0.0, 0.5], [1, 0], 1, "two points"),
        ([1.0, 0.5], [0.6, 0.5], None, 0, "one point"),
    ],
)
def test_a_frontier_without_a_knee_says_so(recall, ilad, order, best, message):
    choice = choose(Objective("knee"), recall=recall, ilad=ilad, order=order)
    assert (choice.best, choice.satisfied) == (best, False) and message in choice.reason


def test_guide_rises_towards_the_choice():
    """Single numbers rise towards the choice, whatever the setting: also across the edge of the constraint."""
    objective = Objective("diverse", share=0.95)
    lacking = [objective.guide({"recall": r, "ilad": 0.9}, BASE)[0] for r in (0.1, 0.5, 0.759)]
    feasible_guides = [objective.guide({"recall": 0.76, "ilad": i}, BASE)[0] for i in (0.0, 0.2, 0.9)]
    assert (
        lacking == sorted(lacking)
        and feasible_guides == sorted(feasible_guides)
        and lacking[-1] < 0 <= feasible_guides[0]
    )
    assert Objective("maximise", metric="ndcg").guide({"ndcg": 0.3}, {}) == (0.3,)
    assert Objective("knee").guide({"recall": 0.3, "ilad": 0.4}, {}) == (0.3, 0.4)


@pytest.mark.parametrize(
    "objective,recall,message",
    [
        (Objective("diverse"), 0.755, "Recall is 94.4% of Top-k's; you asked for 95%. ILAD +20%."),
        (Objective("diverse"), 0.8, "Recall is 100.0% of Top-k's; you asked for 95%. ILAD +20%."),
        # Not so few digits that what is missed would seem to be kept.
        (Objective("diverse"), 0.75999, "Recall is 94.999% of Top-k's; you asked for 95%. ILAD +20%."),
        (Objective("knee"), 0.4, "Recall is 50.0% of Top-k's. ILAD +20%."),
        (Objective("maximise", metric="recall"), 0.4, "Recall is 0.400; Top-k's is 0.800."),
    ],
)
def test_outcome_states_constraint_before_gain(objective, recall, message):
    assert objective.describe_outcome({"recall": recall, "ilad": 0.36}, BASE, "Top-k") == message


def test_a_baseline_without_recall_or_diversity_is_no_divisor():
    sentence = Objective("diverse").describe_outcome(
        {"recall": 0.1, "ilad": 0.36}, {"recall": 0.0, "ilad": 0.0}, "Top-k"
    )
    assert sentence == "Recall is 0.100; Top-k's is 0. ILAD +0.360."


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"aim": "diverse", "metric": "ndcg"}, "metric must be left out with aim 'diverse', which gains ILAD"),
        ({"aim": "knee", "share": 0.9}, "share must be left out with aim 'knee'"),
        ({"aim": "maximise", "share": 0.9}, "share must be left out with aim 'maximise', .*; got 0.9. aim 'diverse'"),
    ],
)
def test_value_that_the_aim_would_ignore_is_refused(values, name):
    with pytest.raises(engine.ParamError, match=name):
        Objective(**values)


def test_objectives_are_declared():
    assert set(METRICS) - set(Objective.__dataclass_fields__["metric"].metadata["param"].options) == LESS_IS_BETTER
    for bad in ({"aim": "best"}, {"metric": "redundancy"}, {"metric": "hits"}, {"share": 1.1}, {"share": math.nan}):
        with pytest.raises(engine.ParamError, match=next(iter(bad))):
            Objective(**bad)
    text = "most diversity (ILAD), sure to keep 90% of the baseline's Recall"
    assert Objective("diverse", share=0.9).text == text
    assert Objective().metrics == ("comp",) and Objective("knee").metrics == ("recall", "ilad")


def build_bent_frontier(places):
    """A frontier of two queries through these places, (ILAD, Recall)."""
    weights = np.linspace(0, 1, len(places))
    cells = [
        cell("mmr", {"ilad": [x, x], "recall": [y, y]}, relevance_weight=float(w))
        for w, (x, y) in zip(weights, places, strict=True)
    ]
    return engine.frontier(cells)


def test_the_knee_of_a_frontier_is_where_it_bends_most_or_nowhere():
    knee = find_knee(build_bent_frontier([(0.1, 0.9), (0.5, 0.85), (0.8, 0.4), (0.9, 0.1)]))
    assert knee is not None and (knee.x, knee.y) == (0.5, 0.85)
    assert find_knee(build_bent_frontier([(0.1, 0.9), (0.5, 0.5), (0.9, 0.1)])) is None, "straight"
    assert find_knee(build_bent_frontier([(0.1, 0.9), (0.9, 0.8)])) is None, "two points"
