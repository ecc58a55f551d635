"""The non-dominated set, its curves, area and bands, and the strata: against brute force and by their properties."""

import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import DataError, ParamError
from engine.evaluation.frontier import (
    compute_floor,
    compute_hypervolume,
    find_dominated,
    frontier,
    select_best_per_method,
)
from engine.evaluation.stratification import collect_query_values, count_by_query, merge_into_ranges, stratify
from engine.values import Corpus, Qrels, Queries
from support.draws import examples
from support.points import cell, interval, recalls

PLACES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12)
WEIGHTS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def brute(where):
    return [any(q[0] >= p[0] and q[1] >= p[1] and q != p for q in where) for p in where]


@settings(deadline=None)
@given(PLACES)
def test_dominated_by_definition(where):
    """Integers up to 6: ties in one number and points at one place are frequent."""
    assert find_dominated(np.array(where)).tolist() == brute(where)


@settings(deadline=None)
@given(PLACES, st.tuples(st.integers(-2, 4), st.integers(-2, 4)))
def test_the_area_is_the_cells_that_are_dominated(where, reference):
    # Each the unit square above and right of (i, j).
    cells = {(i, j) for x, y in where for i in range(reference[0], x) for j in range(reference[1], y)}
    assert compute_hypervolume(np.array(where), reference) == len(cells)


def test_rounding_does_not_dominate():
    assert not find_dominated(np.array([[0.5, 0.5], [0.5 + 1e-15, 0.5], [0.5, 0.5 - 1e-14]])).any()
    assert find_dominated(np.array([[0.5, 0.5], [0.5 + 1e-6, 0.5]])).tolist() == [True, False]


def sweep(n=60, seed=0):
    """A curve that goes up and comes back, a baseline on it, a grid of two parameters, and a method without any."""
    rng = np.random.default_rng(seed)
    base = {"recall": recalls(seed, n), "ilad": rng.random(n)}

    def shifted(x, y):
        noise = 0.05 * rng.normal(size=(2, n))
        return {"recall": base["recall"] + y + noise[0], "ilad": base["ilad"] + x + noise[1]}

    points = [cell("top_k", base), cell("vrsd", shifted(0.1, -0.3))]
    points += [cell("mmr", shifted(0.3 * w * (1 - w), -0.1 * (1 - w)), relevance_weight=w) for w in WEIGHTS]
    grid = product((0.03, 0.3, 1.0), (0.1, 1.0))
    return points + [cell("nnn", shifted(a / 5, -b / 5), l1=a, l2=b, fill="fill") for a, b in grid]


def set_times(points, times):
    return [replace(point, latency=time) for point, time in zip(points, times, strict=True)]


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 6)), min_size=1, max_size=7))
def test_frontier_prefers_shorter_times(where):
    points = [cell("mmr", {"recall": [y] * 3}, relevance_weight=i / 10, latency=t) for i, (t, y) in enumerate(where)]
    curves = frontier(points, "milliseconds", "recall", resamples=100)
    placed = {p.value: p for p in curves.points}
    beaten = brute([(-t, y) for t, y in where])
    for i, (t, y) in enumerate(where):
        p = placed[i / 10 if len(where) > 1 else None]
        assert (p.x, p.y, p.dominated, p.x_low, p.x_high) == (t, y, beaten[i], None, None)
    longest, lowest = max(t for t, _ in where), min(y for _, y in where)
    assert curves.reference == (longest, lowest)
    assert (curves.metrics, curves.untimed, curves.remark) == (("recall",), 0, "")
    assert curves.hypervolume == compute_hypervolume(np.array([(-t, y) for t, y in where]), (-longest, lowest))


def test_points_without_a_time_are_left_out_of_its_axis_and_counted():
    points = sweep()
    times = [None if p.method == "nnn" else 1.0 + i for i, p in enumerate(points)]
    curves = frontier(set_times(points, times), "milliseconds", "recall")
    assert {p.point.method for p in curves.points} == {"top_k", "mmr", "vrsd"} and curves.untimed == 6
    assert curves.remark.startswith("6 settings have no time and were left out: cells of one query alone")
    full_curves = frontier(set_times(points, times))
    assert full_curves.untimed == 0 and values(full_curves) == values(frontier(points)), "other axes have all of them"
    base = curves.curves["Top-k"][0].point.label
    best = select_best_per_method(curves, base, 0.2)
    quickest = min((p for p in curves.curves["MMR"] if p.y >= 0.2 * best[0].y), key=lambda p: p.x)
    assert best[0].point.label == base and next(p for p in best if p.point.method == "mmr") is quickest
    with pytest.raises(DataError, match="no point at k = 10 has a time"):
        frontier(points, "milliseconds", "recall")
    with pytest.raises(ParamError, match="y must be a metric"):
        frontier(set_times(points, times), "ilad", "milliseconds")


def values(curves):
    return {
        label: [(p.name, p.value, p.x, p.y, p.x_low, p.x_high, p.y_low, p.y_high, p.dominated) for p in curve]
        for label, curve in curves.curves.items()
    }


def flatten_curves(curves):
    return [v for curve in values(curves).values() for p in curve for v in p[2:]]


def test_curves_follow_the_parameter_and_not_x():
    points = sweep()
    random.Random(1).shuffle(points)
    curves = frontier(points)
    assert list(curves.curves) == ["Top-k", "MMR", "NNN · λ₂ 0.1 · fills up to k", "NNN · λ₂ 1 · fills up to k", "VRSD"]
    assert [p.value for p in curves.curves["MMR"]] == list(WEIGHTS)
    x = [p.x for p in curves.curves["MMR"]]
    assert x != sorted(x) and x != sorted(x, reverse=True)
    for l2 in (0.1, 1.0):
        curve = curves.curves[f"NNN · λ₂ {l2:g} · fills up to k"]
        assert [(p.parameter, p.value) for p in curve] == [("l1", v) for v in (0.03, 0.3, 1.0)]
        assert {p.point.decoder["select"]["l2"] for p in curve} == {l2}
    assert [(p.name, p.parameter, p.value) for p in curves.curves["Top-k"]] == [("Top-k", "", None)]
    assert len(curves.points) == len(points)


def test_categorical_parameters_separate_curves():
    v = {"recall": recalls(0, 9), "ilad": recalls(1, 9)}
    unknown, deep = {"name": "not_registered", "weight": 0.1}, {"name": "not_registered", "weight": 0.7}
    points = [
        *(cell("nnn", v, l1=l1, fill=fill) for l1 in (0.3, 0.1) for fill in ("strict", "fill")),
        *(cell("mmr", v, window=w, relevance_weight=r) for w in (None, 12, 3) for r in (1.0, 0.5)),
        *(cell("vrsd", v, depth=d) for d in (None, 100, 20)),
        *(cell("top_k", v, retrieve=r) for r in (deep, unknown)),
        cell("top_k", v),
    ]
    curves = {label: [p.value for p in curve] for label, curve in frontier(points).curves.items()}
    assert curves == {
        "Dense → Top-k": [None],
        "not_registered → Top-k": [0.1, 0.7],
        "Dense → MMR · w 3": [0.5, 1.0],
        "Dense → MMR · w 12": [0.5, 1.0],
        "Dense → MMR": [0.5, 1.0],
        "Dense → NNN · λ₂ 0.1 · may return fewer": [0.1, 0.3],
        "Dense → NNN · λ₂ 0.1 · fills up to k": [0.1, 0.3],
        "Dense → VRSD": [20, 100, None],
    }
    single = frontier([cell("mmr", v, relevance_weight=0.5)])
    assert list(single.curves) == ["MMR · λ 0.5"]


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(0, 50), st.randoms(use_true_random=False))
def test_nothing_depends_on_the_order_of_points_or_queries(seed, rng):
    points = sweep(seed=seed)
    curves = frontier(points, resamples=100)
    mixed = []
    for point in points:
        rows = rng.sample(range(60), 60)
        queries, columns = tuple(point.queries[i] for i in rows), {name: v[rows] for name, v in point.values.items()}
        mixed.append(replace(point, queries=queries, values=columns))
    rng.shuffle(mixed)
    again = frontier(mixed, resamples=100)
    assert flatten_curves(again) == pytest.approx(flatten_curves(curves))
    assert [p.point.label for p in again.front] == [p.point.label for p in curves.front]
    assert again.hypervolume == pytest.approx(curves.hypervolume)
    assert (again.reference, again.queries) == (pytest.approx(curves.reference), curves.queries)


def test_dominated_points_change_no_other():
    points = sweep()
    curves = frontier(points, reference=(0, 0))
    worse = cell("dpp", {name: v - 0.5 for name, v in points[3].values.items()})
    worse_too = frontier([worse, *points], reference=(0, 0))
    assert worse_too.curves["DPP · λ 0.8"][0].dominated
    assert worse_too.hypervolume == pytest.approx(curves.hypervolume)
    assert [p.name for p in worse_too.front] == [p.name for p in curves.front]
    assert flatten_curves(curves) == pytest.approx(
        [v for label in curves.curves for p in values(worse_too)[label] for v in p[2:]]
    )


def test_front_holds_undominated_points():
    curves = frontier(sweep())
    assert [p.dominated for p in curves.points] == brute([(p.x, p.y) for p in curves.points])
    assert sorted(p.name for p in curves.front) == sorted(p.name for p in curves.points if not p.dominated)
    assert [p.x for p in curves.front] == sorted(p.x for p in curves.front)
    assert [p.y for p in curves.front] == sorted((p.y for p in curves.front), reverse=True)
    assert curves.reference == (min(p.x for p in curves.points), min(p.y for p in curves.points))
    assert curves.hypervolume == compute_hypervolume([(p.x, p.y) for p in curves.points], curves.reference)


def test_equal_points_stand_together_and_a_repeated_one_counts_once():
    v = {"recall": recalls(0, 20), "ilad": recalls(1, 20)}
    twin = {"recall": v["recall"], "ilad": v["ilad"] + 1e-14}
    curves = frontier([cell("top_k", v), cell("mmr", twin, relevance_weight=1.0), cell("top_k", v)])
    assert [p.name for p in curves.front] == ["MMR · λ 1", "Top-k"]
    assert curves.front[0].x_low == pytest.approx(curves.front[1].x_low)
    assert curves.hypervolume == pytest.approx(0)


def test_bands_hold_the_mean_and_are_the_bootstraps():
    curves = frontier(sweep(), seed=3, resamples=400)
    assert (curves.seed, curves.resamples) == (3, 400)
    for p in curves.points:
        assert p.x_low < p.x < p.x_high and p.y_low < p.y < p.y_high
        for name, ends in (("ilad", (p.x_low, p.x_high)), ("recall", (p.y_low, p.y_high))):
            assert ends == pytest.approx(interval(p.point.values[name], resamples=400, seed=3))
    assert values(frontier(sweep(), seed=3, resamples=400)) == values(curves)
    assert flatten_curves(frontier(sweep(), seed=4, resamples=400)) != pytest.approx(flatten_curves(curves))


def best_weight(baseline, share, **settings):
    """Return the MMR weight that best_of_each takes beside a baseline; settings: w1 … → (ilad, recall)."""
    cells = [cell("top_k", {"ilad": [baseline[0]], "recall": [baseline[1]]})]
    for i, (x, y) in enumerate(settings.values()):
        cells.append(cell("mmr", {"ilad": [x], "recall": [y]}, relevance_weight=i / 10))
    _, best = select_best_per_method(frontier(cells), cells[0].label, share)
    return list(settings)[round(10 * best.value)]


def test_the_best_of_each_method_has_the_most_x_above_the_floor():
    assert best_weight((0.2, 0.8), 0.9, far=(0.9, 0.5), near=(0.5, 0.73), safe=(0.3, 0.8)) == "near"
    assert best_weight((0.2, 0.8), 0.9, low=(0.9, 0.5), less_low=(0.1, 0.7)) == "less_low", "none reaches it"
    assert best_weight((0.2, 0.8), 0.7, on_the_floor=(0.6, 0.56 - 1e-12), above=(0.5, 0.8)) == "on_the_floor"
    assert best_weight((0.2, 0.8), 0.9, a_trifle_more=(0.5 + 1e-13, 0.75), as_much=(0.5, 0.79)) == "as_much"
    assert best_weight((0.2, -0.5), 0.9, within=(0.9, -0.54), better=(0.5, -0.4)) == "within"


def test_one_query_has_no_bands():
    (point,) = frontier([cell("top_k", {"recall": [0.5], "ilad": [0.2]})]).front
    assert (point.x, point.y) == (0.2, 0.5)
    assert (point.x_low, point.x_high, point.y_low, point.y_high) == (None,) * 4


def test_means_are_over_the_queries_of_the_baseline_and_who_lacks_one_is_left_out():
    undefined_from = np.where(np.arange(20) < np.array([[19], [0]]), 0.0, np.nan)
    recalls = {"recall": np.linspace(0, 1, 20)}
    base = cell("top_k", {"recall": recalls["recall"][::-1], "ilad": 0.2 + undefined_from[0]})
    enough = cell("mmr", recalls | {"ilad": np.full(20, 0.6)})
    scarce = cell("ssd", recalls | {"ilad": 0.9 + undefined_from[0][::-1]})
    none = cell("vrsd", recalls | {"ilad": undefined_from[1]})
    curves = frontier(iter([base, enough, scarce, none, cell("mmr", enough.values, k=5)]))
    assert (curves.k, curves.x, curves.y) == (10, "ilad", "recall")
    assert (curves.queries, curves.asked, curves.left_out) == (19, 20, ("VRSD", "SSD · λ 0.8"))
    assert {p.name: (p.x, p.y) for p in curves.points} == {
        "Top-k": (pytest.approx(0.2), pytest.approx(10 / 19)),
        "MMR · λ 0.8": (pytest.approx(0.6), pytest.approx(9 / 19)),
    }


def test_a_baseline_with_few_values_stays_and_sets_the_queries():
    ilad = np.where(np.arange(20) < 10, 0.5, np.nan)
    base = cell("top_k", {"recall": np.full(20, 0.5), "ilad": ilad})
    other = cell("mmr", {"recall": np.full(20, 0.4), "ilad": np.full(20, 0.6)})
    curves = frontier([other, base])
    assert (curves.queries, curves.left_out, curves.left_out_cells) == (10, (), ())
    assert {p.name for p in curves.points} == {"Top-k", "MMR · λ 0.8"}


def test_bad_argument_raises_error_naming_it():
    points = sweep(n=5)
    bad = {
        "ndcg was not measured": (ParamError, {"y": "ndcg"}),
        "k of the points: 10": (DataError, {"k": 3}),
        "k of the points: none": (DataError, {"points": []}),
        "k must be": (ParamError, {"k": 0}),
        "seed": (ParamError, {"seed": -1}),
        "x must be a metric of which more is better; got 'redundancy'": (ParamError, {"x": "redundancy"}),
        "y must be a metric of which more is better; got 'redundancy'": (ParamError, {"y": "redundancy"}),
    }
    for message, (error, change) in bad.items():
        with pytest.raises(error, match=message):
            frontier(**{"points": points, **change})
    for reference in ((1,), (1, np.nan), "ab", 3):
        with pytest.raises(ParamError, match="reference must be two finite numbers"):
            frontier(points, reference=reference)
    assert frontier(points, reference=np.array([0, 0])).reference == (0, 0)


@settings(deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.integers(1, 6))
def test_merge_into_ranges_covers_every_number_once(numbers, max_groups):
    ranges = merge_into_ranges(np.array(numbers), max_groups)
    assert 1 <= len(ranges) <= min(max_groups, len(set(numbers)))
    assert len(ranges) == min(max_groups, len(set(numbers)))
    assert [lowest for lowest, _ in ranges] == sorted(lowest for lowest, _ in ranges)
    assert all(sum(lowest <= v <= top for lowest, top in ranges) == 1 for v in numbers)
    assert {v for pair in ranges for v in pair} <= set(numbers)


def test_small_groups_join_their_smaller_neighbour():
    """The sizes of a set of tool queries by number of relevant tools."""
    numbers = np.repeat([1, 2, 3, 4, 5, 6, 7], [190, 563, 186, 50, 9, 1, 1])
    assert merge_into_ranges(numbers, 5) == [(1, 1), (2, 2), (3, 3), (4, 4), (5, 7)]
    assert merge_into_ranges(numbers, 3) == [(1, 1), (2, 2), (3, 7)]


def test_strata_are_the_means_of_their_queries():
    n = 40
    a, b = ({"recall": recalls(seed, n)} for seed in (0, 1))
    a["recall"][3] = np.nan
    points = [cell("top_k", a), cell("mmr", b, relevance_weight=0.5)]
    counts = {q: (1, 2, 2, 3)[i % 4] for i, q in enumerate(points[0].queries) if i != 5}
    rows = stratify(points, "recall", counts)
    assert [(r.group, r.name) for r in rows[:2]] == [("1", "Top-k"), ("1", "MMR · λ 0.5")]
    assert [r.queries for r in rows[::2]] == [10, 19, 9]
    for row in rows:
        positions = [i for i, q in enumerate(points[0].queries) if i != 3 and counts.get(q) == row.lowest]
        value = points[[p.label for p in points].index(row.label)].values["recall"][positions]
        assert row.mean == pytest.approx(value.mean())
        assert (row.low, row.high) == pytest.approx(interval(value, resamples=1000))
    assert [r.group for r in stratify(points, "recall", counts, groups=2)[::2]] == ["1", "2–3"]
    single = stratify(points, "recall", {"q0000": 0, "q0001": 4, "q0002": 4})
    assert [(r.group, r.queries, r.low is None) for r in single[::2]] == [("0", 1, True), ("4", 2, False)]
    with pytest.raises(DataError, match="none of the 39 queries"):
        stratify(points, "recall", {"elsewhere": 3})
    with pytest.raises(ParamError, match="groups"):
        stratify(points, "recall", counts, groups=0)


def test_strata_of_a_column_are_its_largest_values():
    points = [cell("top_k", {"recall": recalls(0, 12)}), cell("mmr", {"recall": recalls(1, 12)}, relevance_weight=0.5)]
    names = ["law", "sales", "sales", "it", "it", "it", "hr", "press"]
    values = {query: names[i] for i, query in enumerate(points[0].queries) if i < len(names)}
    rows = stratify(points, "recall", values, groups=3)[::2]
    assert [(r.group, r.queries, r.lowest, r.highest) for r in rows] == [
        ("it", 3, None, None), ("sales", 2, None, None), ("other", 3, None, None),
    ]  # fmt: skip
    assert rows[0].mean == pytest.approx(points[0].values["recall"][3:6].mean())
    assert rows[2].mean == pytest.approx(points[0].values["recall"][[0, 6, 7]].mean())
    assert [r.group for r in stratify(points, "recall", values)[::2]] == ["it", "sales", "hr", "law", "press"]
    years = {query: str(2000 + i) for i, query in enumerate(points[0].queries)}
    assert [(r.group, r.queries) for r in stratify(points, "recall", years, groups=2)[::2]] == [
        ("2000–2007", 8), ("2008–2011", 4)
    ]  # fmt: skip


def test_a_querys_value_is_its_own_or_that_of_most_of_what_is_relevant_to_it():
    department = ("sales", "law", "law", "", "it")
    corpus = Corpus(tuple("abcde"), ("x",) * 5, metadata={"department": department, "empty": ("",) * 5})
    qrels = Qrels({
        "most": {"a": 1, "b": 1, "c": 2, "e": 0}, "tie": {"b": 1, "a": 1, "gone": 1}, "none": {"d": 1}, "own": {"a": 1}
    })  # fmt: skip
    queries = Queries(("most", "tie", "none", "own"), ("q",) * 4)
    assert collect_query_values(corpus, queries, qrels) == {
        "department": {"most": "law", "tie": "sales", "own": "sales"}
    }
    named = Queries(queries.ids, queries.texts, {"department": ("", "", "", "hr"), "region": ("n", "", "", "s")})
    assert collect_query_values(corpus, named, qrels) == {
        "department": {"most": "law", "tie": "sales", "own": "hr"}, "region": {"most": "n", "own": "s"}
    }  # fmt: skip


def test_grouping_names_and_errors():
    qrels = Qrels({"a": {"d": 1, "e": 2, "f": 0}, "b": {"d": 0}, "c": {"e": 1}})
    queries = Queries(("a", "b"), ("the  sum of two", "sum"))
    aspects = {"a": {"pro": frozenset("d"), "con": frozenset("e")}, "b": {}}
    assert count_by_query(Corpus(("d", "f"), ("one two three", "one")), queries, qrels, aspects) == {
        "relevant": {"a": 2, "c": 1},
        "length": {"a": 3},
        "words": {"a": 4, "b": 1},
        "aspects": {"a": 2},
    }
    assert list(count_by_query(Corpus(("z",), ("",)), queries, Qrels({}))) == ["words"]


def test_the_floor_is_below_a_negative_baseline_too():
    curves = frontier([cell("top_k", {"recall": -np.ones(4), "ilad": np.ones(4)})], k=10)
    assert compute_floor(curves.points[0], 0.9) == pytest.approx(-1.1)
    assert compute_floor(curves.points[0], 1.0) == pytest.approx(-1.0)
