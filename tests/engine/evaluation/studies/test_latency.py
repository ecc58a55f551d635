"""What one query takes: who is asked, how often and on how many threads; and slopes by hand."""

from collections import Counter

import numpy as np
import pytest
import torch

import engine
from engine.evaluation.studies import latency
from engine.evaluation.studies.latency import PLAIN_SELECTORS, Latency, fit_slope, measure_latencies
from support.instances import problem
from support.rankings import queries_of, space_of


@pytest.fixture(scope="module")
def data():
    rows, points = problem("clustered", 3, n=60, d=8, batch=20)
    return space_of(rows), queries_of(torch.from_numpy(points))


def test_every_selector_is_timed_at_every_weight_and_k(data):
    stages = [engine.make("mmr"), engine.make("max_sum"), engine.make("max_sum", polish=False), engine.make("vrsd")]
    rows = list(measure_latencies(stages, *data, (5, 2, 100), (0.5, 0.9), calls=3))
    assert Counter((row.method, row.plain, row.weight) for row in rows) == {
        **{("mmr", is_plain, w): 3 for is_plain in (False, True) for w in (0.5, 0.9)},
        **{("max_sum", False, w): 6 for w in (0.5, 0.9)},
        **{("max_sum", True, w): 3 for w in (0.5, 0.9)},
        ("vrsd", False, None): 3,
    }
    assert [row.k for row in rows[:3]] == [2, 5, 60] and {row.documents for row in rows} == {60}
    assert all(row.seconds.shape == (3,) and (row.seconds > 0).all() for row in rows)
    assert rows[3].name == "mmr(relevance_weight=0.5), plain"
    alone = list(measure_latencies([engine.make("mmr", window=2)], *data, (2,), (0.5,), calls=1))
    assert [row.plain for row in alone] == [False], "the plain one has no window"
    assert not any(row.plain for row in measure_latencies([engine.make("dpp")], *data, (2,), (0.5,), plain=False))


def test_queries_come_one_at_a_time_on_one_thread_and_the_first_is_no_part(data, monkeypatch):
    seen = []

    def answered(stage, space, k, is_plain):
        return lambda query: seen.append((k, query.ids, torch.get_num_threads())) or torch.zeros(1)

    monkeypatch.setattr(latency, "_make_answerer", answered)
    threads_before = torch.get_num_threads()
    (row,) = measure_latencies([engine.make("top_k")], *data, (4,), calls=3)
    assert seen == [(4, (name,), 1) for name in ("q0", "q0", "q9", "q19")] and len(row.seconds) == 3
    assert torch.get_num_threads() == threads_before


def make_timing(k, seconds):
    return Latency(label="a", method="a", plain=False, weight=None, k=k, documents=9, seconds=np.array(seconds))


def test_slopes_by_hand():
    rows = [make_timing(k, [0.1 * k, 0.2 * k, 0.3 * k]) for k in (1, 2, 5, 10)]
    assert fit_slope(rows).value == pytest.approx(1)
    flat = fit_slope([make_timing(k, [0.2] * 5) for k in (1, 2, 4, 8)])
    assert (flat.value, flat.low, flat.high) == pytest.approx((0, 0, 0))
    rng = np.random.default_rng(0)
    noisy = fit_slope([make_timing(k, k**0.5 * np.exp(0.3 * rng.standard_normal(40))) for k in (1, 4, 16, 64)])
    assert noisy.low < 0.5 < noisy.high and noisy.high - noisy.low < 0.2
    expected = np.polyfit(np.log([1, 4, 16, 64]), np.log([1.0, 3.0, 5.0, 20.0]), 1)[0]
    assert fit_slope(
        [make_timing(k, [s]) for k, s in zip((1, 4, 16, 64), (1, 3, 5, 20), strict=True)]
    ).value == pytest.approx(expected)
    for bad in (rows[:3], [*rows[:3], make_timing(10, [1.0])]):
        with pytest.raises(engine.ParamError, match="at 4 k or more, over the same queries"):
            fit_slope(bad)


def test_bad_arguments_are_named_before_anything_is_timed(data):
    stages = [engine.make("mmr")]
    for change, message in (
        ({"selectors": ["mmr"]}, r"selectors must be a list of engine\.make"),
        ({"sizes": ()}, "sizes must be a list of whole numbers, at least one"),
        ({"sizes": (0,)}, "k must be a whole number"),
        ({"weights": (2,)}, r"relevance_weight \(λ\) must be a number in \[0, 1\]; got 2"),
        ({"calls": 0}, "calls must be a whole number"),
    ):
        options = {"selectors": stages, **change}
        with pytest.raises(engine.ParamError, match=message):
            measure_latencies(options.pop("selectors"), *data, **options)


@pytest.mark.parametrize("name", PLAIN_SELECTORS)
def test_a_plain_greedy_picks_what_the_selector_picks(name):
    """In float64, on tie-free data; max_sum without swaps, and as sets: the selector orders them by what each adds."""
    params = {"polish": False} if name == "max_sum" else {}
    for seed in range(12):
        rows, queries = problem("random", seed, n=70, d=24, batch=2, dtype=np.float64)
        for k, weight in ((1, 0.5), (4, 0.05), (9, 0.3), (20, 0.95), (20, 1.0)):
            expected = engine.select(name, rows, queries, k=k, relevance_weight=weight, **params).index
            inputs = torch.from_numpy(rows), torch.from_numpy(queries)
            for b in range(2):
                picks, selected = (
                    PLAIN_SELECTORS[name](inputs[0], inputs[1][b], k, weight).tolist(),
                    expected[b].tolist(),
                )
                if name == "max_sum":
                    picks, selected = sorted(picks), sorted(selected)
                assert picks == selected, (seed, k, weight)
