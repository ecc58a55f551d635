"""The exact frontier against decoding and measuring at single values, and what is kept of it."""

import sqlite3
import threading
from dataclasses import replace

import numpy as np
import pytest

import engine
from engine.evaluation import exact_frontier
from engine.evaluation.curve import N_BANDS, Steps
from engine.evaluation.exact_frontier import compute_exact_frontiers, list_path_decoders, load_stored_curve
from engine.evaluation.sweep.store import Store
from engine.evaluation.sweep.sweep import sweep
from engine.stages import Selector, methods
from support.draws import deep, every_other
from support.instances import clustered_rows, duplicated_rows, few_or_all, random_rows, unit
from support.rankings import queries_of, space_of
from support.source_oracles import draw_sources, make_sourced_space

N, D, B = 90, 10, 24
METRICS = ("recall", "comp", "ndcg", "ilad", "alpha_ndcg", "s_recall", "cos_sum", "redundancy")
SELECTORS = {"mmr": {}, "dpp": {}, "ssd": {"window": 3}, "max_sum": {"polish": False}}
PATHS = [
    ("mmr", {}),
    ("mmr", {"window": 2}),
    ("dpp", {}),
    ("dpp", {"window": 3}),
    ("ssd", {}),
    ("ssd", {"window": 3}),
    ("max_sum", {"polish": False}),
    ("facility_location", {}),
    ("facility_location", {"ground_set": 20}),
    ("nnn", {}),
    ("threshold", {}),
    ("threshold", {"fill": "fill"}),
]
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
        curves = compute_exact_frontiers(engine.Decoder(stage), space, queries, qrels, *options, aspects=aspects)
        for curve, k in zip(curves, (1, 4, 9), strict=True):
            assert curve.k == k and curve.left_out == 2 and curve.interval == (0, 1) and curve.method == name
            assert (np.diff(curve.breakpoints) > 0).all() and set(curve.means) == set(METRICS)
            values = np.random.default_rng(seed).random(8)
            gaps = np.abs(values[:, None] - curve.breakpoints).min(1, initial=1) > 2e-6
            for value in values[gaps]:
                assert curve.at(value) == pytest.approx(at(case, name, value, k), abs=1e-12, nan_ok=True)
            for metric, column in curve.steps.evaluate_at(values).items():
                expected = [curve.at(v)[metric] for v in values]
                means = [np.nanmean(c) if np.isfinite(c).any() else np.nan for c in column.T]
                assert np.array(means)[gaps] == pytest.approx(np.array(expected)[gaps], abs=1e-12, nan_ok=True)
        assert len(curves[2]) > 100 > len(curves[0])


@pytest.mark.parametrize(
    ("name", "params"),
    [("mmr", {}), ("mmr", {"window": 2}), ("dpp", {}), ("ssd", {"window": 3}),
     pytest.param("threshold", {}, marks=deep), ("threshold", {"fill": "fill"})],
)  # fmt: skip
@few_or_all(range(1), range(12))
def test_limited_means_are_those_of_decoding_at_any_value(name, params, seeds, tmp_path):
    for seed in seeds:
        rng, (space, queries, qrels, _) = np.random.default_rng([seed, len(name)]), toy(seed)
        sourced = make_sourced_space(space.vectors.numpy(), draw_sources(rng, N, int(rng.integers(1, 12))))
        limits = {"per_source": int(rng.integers(1, 4)), "source": "source", "without_self": [None, True][seed % 2]}
        metrics, k = ("recall", "ndcg", "ilad", "unique_sources"), int(rng.integers(2, 9))
        options = {**params, **limits, "store": tmp_path / f"{seed}.db"}
        curve = engine.exact_frontier(name, sourced, queries, qrels, k, metrics, **options)
        values = rng.random(6)
        for value in values[np.abs(values[:, None] - curve.breakpoints).min(1, initial=1) > 2e-6].tolist():
            ranking = engine.decode(curve.make_decoder(value), sourced, queries, k)
            direct = engine.measure(ranking, sourced, queries, qrels, k, metrics, source="source", without_self=True)
            assert curve.at(value) == pytest.approx(direct.mean, abs=1e-12, nan_ok=True), (seed, value)
        stored = engine.exact_frontier(name, sourced, queries, qrels, k, metrics, **options)
        assert (
            stored.limits == curve.limits
            and stored.label == curve.label
            and f"{limits['per_source']} per" in curve.label
        )


def test_limited_path_ends_where_rounding_fills_another_source_in_each_search():
    rng, (space, queries, *_) = np.random.default_rng([8, len("threshold")]), toy(8)
    sources = draw_sources(rng, N, int(rng.integers(1, 12)))
    sourced = make_sourced_space(space.vectors.numpy(), sources)
    for path in engine.path("threshold", sourced, queries, 4, per_source=1, source="source", fill="fill"):
        for ranking in path.rankings:
            named = [sources[row] for row in ranking if row >= 0 and sources[row]]
            assert len(named) == len(set(named))


def test_curves_of_two_columns_and_limits_are_not_mixed(tmp_path):
    space, queries, qrels, _ = toy(2)
    store, curves = tmp_path / "s.db", {}
    for name, n_sources, limit in (("few", 3, 1), ("many", 20, 1), ("few", 3, 2), ("none", 3, None)):
        sources = draw_sources(np.random.default_rng(n_sources), N, n_sources)
        limits = {} if limit is None else {"per_source": limit, "source": "source"}
        curves[name, limit] = engine.exact_frontier(
            "mmr",
            make_sourced_space(space.vectors.numpy(), sources),
            queries,
            qrels,
            5,
            ["ilad"],
            store=store,
            **limits,
        )
    assert len({curve.key for curve in curves.values()}) == len(curves) == len(list(Store(store).read_curves()))
    assert len({curve.at(0.9)["ilad"] for curve in curves.values()}) == len(curves)


@pytest.mark.parametrize("block_scores, block_size", [(10**9, 8), (3 * N, 3), (1, 1)])
def test_blocks_between_two_reports_follow_the_corpus_and_change_no_curve(monkeypatch, block_scores, block_size):
    space, queries, qrels, _ = toy(2)
    usual = engine.exact_frontier("threshold", space, queries, qrels, 5)
    monkeypatch.setattr(exact_frontier, "BLOCK_SCORES", block_scores)
    reports = []
    curve = engine.exact_frontier("threshold", space, queries, qrels, 5, progress=lambda done, *_: reports.append(done))
    assert reports == [*range(0, B, block_size), B]
    assert np.array_equal(curve.breakpoints, usual.breakpoints)
    for metric, means in usual.means.items():
        assert np.array_equal(curve.means[metric], means)


def test_curves_of_two_duplicate_thresholds_are_not_mixed(tmp_path):
    space, queries, qrels, _ = toy(2)
    store, curves = Store(tmp_path / "s.db"), {}
    arguments = space, queries, qrels, 5, ["redundancy"]
    for threshold in (None, 0.2, 0.6):
        curves[threshold] = engine.exact_frontier("mmr", *arguments, duplicate_threshold=threshold, store=store)
        decoder = engine.Decoder(engine.make("mmr", relevance_weight=0.7))
        ranking = engine.decode(decoder, space, queries, 5)
        measured = engine.measure(ranking, *arguments[:3], 5, ["redundancy"], duplicate_threshold=threshold)
        assert curves[threshold].at(0.7)["redundancy"] == pytest.approx(measured.mean["redundancy"])
    assert (
        len({curve.at(0.7)["redundancy"] for curve in curves.values()})
        == len(curves)
        == len({curve.key for curve in curves.values()})
    )
    for threshold, curve in curves.items():
        stored = load_stored_curve(decoder, *arguments, store=store, duplicate_threshold=threshold)
        assert stored.key == curve.key and stored.at(0.7) == curve.at(0.7)
    assert load_stored_curve(decoder, *arguments, store=store, duplicate_threshold=0.3) is None
    with pytest.raises(engine.ParamError, match=r"duplicate_threshold .* must be a number in \[0, 1\] .*; got 2"):
        engine.exact_frontier("mmr", *arguments, duplicate_threshold=2)


def test_stored_curve_of_sources_is_found_by_its_column(tmp_path):
    space, queries, qrels, _ = toy(2)
    sourced = make_sourced_space(space.vectors.numpy(), draw_sources(np.random.default_rng(3), N, 3))
    arguments, store = (sourced, queries, qrels, 5, ["unique_sources"]), Store(tmp_path / "s.db")
    curve = engine.exact_frontier("mmr", *arguments, source="source", store=store)
    decoder = engine.Decoder(engine.make("mmr"))
    assert load_stored_curve(decoder, *arguments, store=store, source="source").key == curve.key


def test_curve_with_a_limit_is_refused_by_name_with_a_way_on():
    space, queries, qrels, _ = toy(2)
    sourced = make_sourced_space(space.vectors.numpy(), ["s"] * N)
    for name in ("nnn", "max_sum", "facility_location"):
        params = {"polish": False} if name == "max_sum" else {}
        with pytest.raises(engine.ParamError, match=rf"per_source is for.*mmr.*got {name}, which chooses.*together"):
            engine.exact_frontier(name, sourced, queries, qrels, per_source=1, source="source", **params)
    with pytest.raises(engine.DataError, match=r"source must be a metadata column.*'url'"):
        engine.exact_frontier("mmr", sourced, queries, qrels, per_source=1, source="url")
    with pytest.raises(engine.ParamError, match="source is not given"):
        engine.exact_frontier("mmr", sourced, queries, qrels, per_source=1)
    with pytest.raises(engine.DataError, match="unique_sources needs the column"):
        engine.exact_frontier("mmr", sourced, queries, qrels, metrics=["unique_sources"])


def test_judgements_of_another_kind_are_refused_with_the_fix():
    space, queries, qrels, _ = toy(2)
    with pytest.raises(engine.DataError, match=r"qrels must be engine\.Qrels, as engine\.load_qrels returns; got dict"):
        engine.exact_frontier("mmr", space, queries, qrels.grades)


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


def low_rank_rows(rng, n, d):
    """Unit rows of rank 5: after so many picks nothing is new to a selector by residuals."""
    return unit(rng.standard_normal((n, 5)) @ rng.standard_normal((5, d)))


FAMILIES = {
    "random": random_rows,
    "clustered": clustered_rows,
    "duplicated": duplicated_rows,
    "low rank": low_rank_rows,
}


def instance(family, seed, k=10):
    """Space, queries and judgements of 40 rows."""
    rng = np.random.default_rng([seed, len(family)])
    rows = FAMILIES[family](rng, 40, 12).astype(np.float32)
    points = unit(rows[rng.integers(40, size=6)] + 0.3 * unit(rng.standard_normal((6, 12)))).astype(np.float32)
    near = np.argsort(-(points @ rows.T), axis=1)
    grades = {f"q{b}": {f"d{i}": 1 for i in near[b, rng.permutation(15)[:6]]} for b in range(6)}
    return space_of(rows), queries_of(points), engine.Qrels(grades)


def test_ends_are_tried_with_every_selector_that_has_a_path():
    having = {name for name, spec in methods("selector").items() if spec.cls.lambda_path is not Selector.lambda_path}
    assert having == {name for name, _ in PATHS}


@few_or_all(range(2), range(8), quick=1)
@pytest.mark.parametrize(("family", "name", "params"), every_other(FAMILIES, PATHS, step=4))
def test_ends_of_a_curve_equal_the_cells_of_a_sweep(name, params, family, seeds):
    for seed in seeds:
        case = instance(family, seed)
        stage = engine.make(name, **params)
        for interval in ((0.0, 1.0), (0.25, 0.5), (0.5, 0.5)):
            curves = compute_exact_frontiers(
                engine.Decoder(stage), *case, (3, 10), ("recall", "ndcg", "ilad"), interval
            )
            for curve in curves:
                for end, band in zip(interval, (0, -1), strict=True):
                    decoder = engine.Decoder(curve.make_stage(end))
                    (cell,) = sweep([decoder], *case, curve.k, ("recall", "ndcg", "ilad"))
                    assert curve.at(end) == pytest.approx(cell.mean, abs=1e-12, nan_ok=True)
                    single_values = curve.steps.evaluate_at(np.array(interval))
                    for metric, column in cell.values.items():
                        assert single_values[metric][:, band] == pytest.approx(column, abs=1e-12, nan_ok=True)
                assert (np.diff(curve.breakpoints) > 0).all()
                for metric, means in curve.means.items():
                    middle_means = [curve.at(middle)[metric] for middle in curve.middles]
                    assert np.array_equal(middle_means, means, equal_nan=True)


def test_end_with_sets_of_its_own_is_a_piece_of_one_value():
    """Past the rank ssd has ties at λ = 0 alone: there the first rows win, next to it the most relevant."""
    curve = engine.exact_frontier("ssd", *instance("low rank", 0), 10)
    lowest, highest = curve.piece_ends
    assert lowest[0] == highest[0] == 0 and (lowest < highest)[1:].all() and highest[-1] == 1
    assert curve.at(0.0)["recall"] < curve.at(1e-300)["recall"] == curve.means["recall"][1]
    rough = engine.exact_frontier("ssd", *instance("low rank", 0), 10, tolerance=0.1)
    assert len(rough) <= 12 and rough.at(0.0) == pytest.approx(curve.at(0.0)) and rough.at(1.0) == curve.at(1.0)
    best = replace(curve, means={"recall": np.append(1.0, curve.means["recall"][1:])})
    assert best.find_best_interval("recall") == (0.0, 0.0)


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
        assert (curve.breakpoints == first.breakpoints).all()
        assert np.array_equal(curve.steps.query_index, first.steps.query_index)
        assert np.array_equal(curve.steps.step_starts, first.steps.step_starts)
        for metric in first.means:
            assert np.array_equal(curve.steps.values[metric], first.steps.values[metric], equal_nan=True)
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
    assert calls == [(0, B, "every λ of MMR")]


def test_path_selectors_are_one_for_settings_that_differ_in_the_weight_alone(monkeypatch):
    space, *_ = toy(7)

    def decoder(name, depth=None, retrieve="dense", rerank=None, **params):
        scorers = {"rerank": rerank and engine.make(rerank), "depth": depth}
        return engine.Decoder(engine.make(name, **params), engine.make(retrieve), **scorers)

    on_paths = [
        decoder("mmr", relevance_weight=0.2), decoder("mmr", relevance_weight=0.7), decoder("dpp"),
        decoder("mmr", relevance_weight=0.2, window=2), decoder("mmr", relevance_weight=0.9, window=2),
        decoder("max_sum", polish=False),
    ]  # fmt: skip
    without = [
        decoder("top_k"), decoder("vrsd"), decoder("frank_wolfe"), decoder("max_sum"), decoder("ssd", depth=20),
        decoder("ssd", retrieve="truncated"), decoder("ssd", rerank="dense", depth=20),
    ]  # fmt: skip
    path_decoders = list_path_decoders([*without, *on_paths], space)
    stages = [each.select for each in path_decoders]
    kinds = [(stage.spec.name, getattr(stage, "window", None), getattr(stage, "polish", None)) for stage in stages]
    assert kinds == [("mmr", None, None), ("dpp", None, None), ("mmr", 2, None), ("max_sum", None, False)]
    for each in path_decoders:
        assert len(compute_exact_frontiers(each, *toy(7)[:3], (4,), ("recall",))[0]) > 1
    limited = [
        replace(decoder("mmr", relevance_weight=w), per_source=m, source="url") for w in (0.2, 0.7) for m in (1, 2)
    ]
    assert [each.per_source for each in list_path_decoders([*limited, on_paths[0]], space)] == [1, 2, None]
    assert list_path_decoders(without, space) == list_path_decoders([], space) == ()
    monkeypatch.setattr("engine.evaluation.exact_frontier.GRAM_ROWS", N - 1)
    assert list_path_decoders(on_paths, space) == ()


def test_many_close_breakpoints_are_merged_a_few_at_a_time():
    start = np.linspace(0, 1, 3001)[:-1]
    values = {"recall": start}
    steps = Steps(interval=(0.0, 1.0), query_index=np.zeros(3000, int), step_starts=start, values=values)
    begins, means = steps.mean_pieces("recall", 1e-3)
    assert 900 < len(begins) < 1100 and np.abs(means - begins).max() < 1.1e-3
    begins, means = steps.mean_pieces("recall", 0.0)
    assert np.allclose(begins, start, atol=0) and np.allclose(means, start, atol=1e-12)
