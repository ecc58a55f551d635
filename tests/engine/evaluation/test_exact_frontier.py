"""The exact frontier against decoding and measuring at single values, and what is kept of it."""

import sqlite3
import threading

import numpy as np
import pytest

import engine
from engine.evaluation.curve import N_BANDS, Steps
from engine.evaluation.exact_frontier import compute_exact_frontiers
from engine.evaluation.sweep.store import Store
from engine.evaluation.sweep.sweep import sweep
from support.instances import clustered_rows, few_or_all, unit
from support.rankings import queries_of, space_of

N, D, B = 90, 10, 24
METRICS = ("recall", "comp", "ndcg", "ilad", "alpha_ndcg", "s_recall", "cos_sum", "redundancy")
SELECTORS = {"mmr": {}, "dpp": {}, "ssd": {"window": 3}, "max_sum": {"polish": False}}
each = pytest.mark.parametrize("name", SELECTORS)


def toy(seed):
    """(space, queries, judgements, aspects), with exact copies and two queries that nothing is known of."""
    rng = np.random.default_rng(seed)
    rows = clustered_rows(rng, N, D).astype(np.float32)
    rows[-5:] = rows[:5]
    points = unit(rows[rng.integers(N, size=B)] + rows[rng.integers(N, size=B)]).astype(np.float32)
    near = np.argsort(-(points @ rows.T), axis=1)
    listed = {f"q{b}": [f"d{i}" for i in near[b, rng.permutation(20)[:4]]] for b in range(2, B)}
    qrels = engine.Qrels({q: {doc: 1 + rank % 2 for rank, doc in enumerate(docs)} for q, docs in listed.items()})
    aspects = {q: {"a": frozenset(docs[:2]), "b": frozenset(docs[1:])} for q, docs in listed.items()}
    return space_of(rows), queries_of(points), qrels, aspects


def at(case, name, value, k):
    space, queries, qrels, aspects = case
    stage = engine.make(name, **SELECTORS[name], relevance_weight=value)
    ranking = engine.decode(engine.Decoder(stage), space, queries, k)
    return engine.measure(ranking, space, queries, qrels, k, METRICS, aspects).mean


@each
@few_or_all(range(1), range(6))
def test_means_are_those_of_decoding_at_any_value(name, seeds):
    for seed in seeds:
        case = toy(seed)
        space, queries, qrels, aspects = case
        options = ((1, 4, 9), METRICS)
        stage = engine.make(name, **SELECTORS[name])
        curves = compute_exact_frontiers(stage, space, queries, qrels, *options, aspects=aspects, keep_steps=True)
        for curve, k in zip(curves, (1, 4, 9), strict=True):
            assert curve.k == k and curve.left_out == 2 and curve.interval == (0, 1) and curve.method == name
            assert (np.diff(curve.breakpoints) > 0).all() and set(curve.means) == set(METRICS)
            values = np.random.default_rng(seed).random(25)
            gaps = np.abs(values[:, None] - curve.breakpoints).min(1, initial=1) > 2e-6
            for value in values[gaps]:
                assert curve.at(value) == pytest.approx(at(case, name, value, k), abs=1e-12, nan_ok=True)
            for metric, column in curve.steps.evaluate_at(values).items():
                expected = [curve.at(v)[metric] for v in values]
                means = [np.nanmean(c) if np.isfinite(c).any() else np.nan for c in column.T]
                assert np.array(means)[gaps] == pytest.approx(np.array(expected)[gaps], abs=1e-12, nan_ok=True)
        assert len(curves[2]) > 100 > len(curves[0])


def test_bands_equal_frontier_bands():
    space, queries, qrels, _ = toy(3)
    # The frontier draws from the queries that have both metrics, by id.
    queries = queries.take([queries.position[query] for query in sorted(qrels.grades)])
    weights = (0.0, 0.3, 0.8, 1.0)
    cells = list(
        sweep([engine.Decoder(engine.make("mmr", relevance_weight=w)) for w in weights], space, queries, qrels, 5)
    )
    curve = engine.exact_frontier("mmr", space, queries, qrels, 5)
    for point in engine.frontier(cells, k=5).points:
        band = round(point.value * (N_BANDS - 1))
        assert curve.bands["ilad"][band] == pytest.approx((point.x_low, point.x_high), abs=1e-9)
        assert curve.bands["recall"][band] == pytest.approx((point.y_low, point.y_high), abs=1e-9)
    low, high = curve.find_best_interval("recall")
    assert curve.at((low + high) / 2)["recall"] == max(curve.means["recall"])
    assert curve.make_stage(0.25) == engine.make("mmr", relevance_weight=0.25)
    with pytest.raises(engine.ParamError, match=r"value must be in \[0, 1\]; got 1.5"):
        curve.at(1.5)


def test_a_part_of_the_interval_is_a_part_of_the_curve():
    space, queries, qrels, _ = toy(4)
    full = engine.exact_frontier("dpp", space, queries, qrels, 6)
    part = engine.exact_frontier("dpp", space, queries, qrels, 6, interval=(0.5, 0.9))
    inside = (full.breakpoints > 0.5) & (full.breakpoints < 0.9)
    assert part.breakpoints == pytest.approx(full.breakpoints[inside], abs=1e-12) and part.interval == (0.5, 0.9)
    assert part.band_positions[0] == 0.5 and part.band_positions[-1] == 0.9
    rough = engine.exact_frontier("dpp", space, queries, qrels, 6, tolerance=0.05)
    assert len(rough) < 25 and rough.at(1.0) == pytest.approx(full.at(1.0))


def test_curves_are_kept_beside_the_cells_and_not_computed_again(tmp_path, monkeypatch):
    case = toy(5)
    space, queries, qrels, _ = case
    file = tmp_path / "cells.db"
    cells = list(sweep([engine.Decoder(engine.make("mmr"))], space, queries, qrels, 5, store=file))
    first = engine.exact_frontier("mmr", space, queries, qrels, 5, split="dev", store=file)
    monkeypatch.setattr("engine.evaluation.exact_frontier.path", None)
    again = engine.exact_frontier("mmr", space, queries, qrels, 5, split="dev", store=file)
    (stored,) = Store(file).read_curves()
    for curve in (again, stored):
        assert (curve.breakpoints == first.breakpoints).all() and curve.steps is None
        for metric in first.means:
            assert np.array_equal(curve.means[metric], first.means[metric], equal_nan=True)
            assert np.array_equal(curve.bands[metric], first.bands[metric], equal_nan=True)
        for name in ("selector", "label", "interval", "queries", "left_out", "provenance", "key", "tolerance", "split"):
            assert getattr(curve, name) == getattr(first, name)
    assert [p.digest for p in Store(file).read_cells()] == [c.digest for c in cells]
    with sqlite3.connect(file) as db:
        db.execute("UPDATE curves SET arrays = x'00'")
    with pytest.raises(engine.DataError, match="a curve is damaged; delete the file, sweep again"):
        list(Store(file).read_curves())


def test_selector_without_path_raises_error_and_stop_is_honoured():
    space, queries, qrels, _ = toy(6)
    with pytest.raises(engine.ParamError, match=r"max_sum has no path with swaps.*polish=False"):
        engine.exact_frontier("max_sum", space, queries, qrels)
    with pytest.raises(engine.ParamError, match="vrsd has no path"):
        engine.exact_frontier("vrsd", space, queries, qrels)
    with pytest.raises(engine.ParamError, match="relevance_weight is what the path runs over"):
        engine.exact_frontier("mmr", space, queries, qrels, relevance_weight=0.5)
    stop, calls = threading.Event(), []
    stop.set()
    with pytest.raises(engine.Cancelled):
        engine.exact_frontier("mmr", space, queries, qrels, stop=stop, progress=lambda *a: calls.append(a))
    assert calls == [(0, B, "every relevance weight of mmr")]


def test_many_close_breakpoints_are_merged_a_few_at_a_time():
    start = np.linspace(0, 1, 3001)[:-1]
    steps = Steps(query_index=np.zeros(3000, int), step_starts=start, values={"recall": start})
    begins, means = steps.mean_pieces("recall", 1e-3)
    assert 900 < len(begins) < 1100 and np.abs(means - begins).max() < 1.1e-3
    begins, means = steps.mean_pieces("recall", 0.0)
    assert np.allclose(begins, start, atol=0) and np.allclose(means, start, atol=1e-12)
