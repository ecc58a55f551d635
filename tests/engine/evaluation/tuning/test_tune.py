"""Tuning against brute force: chosen on dev only, reported on test, and what is said when there is little to say."""

import json
import math
import sys
import threading
from importlib.util import find_spec
from itertools import product

import numpy as np
import pytest
import torch

import engine
from engine.evaluation.heat_map import build_slices, compute_importance, heat_map
from engine.evaluation.statistics import correct_holm
from engine.evaluation.sweep.cell import decoder_from_json
from engine.evaluation.sweep.store import Store
from engine.evaluation.sweep.sweep import grid, sweep
from engine.evaluation.tuning.objectives import Objective
from engine.evaluation.tuning.search_space import Settings, measure_distance_from_default
from engine.evaluation.tuning.tune import tune
from engine.evaluation.tuning.tuned import compare_on_dev
from engine.params import sweep_values
from engine.stages import spec_of
from support.bounds import bound_kept_share
from support.draws import deepen, every_other
from support.instances import clustered_rows, unit
from support.points import interval, p_value
from support.rankings import queries_of, space_of

N, D, B = 120, 12, 60


@pytest.fixture(scope="module")
def data():
    """(space, queries, judgements by split): clusters of near-duplicates, a relevant document in several."""
    rng = np.random.default_rng(3)
    rows = clustered_rows(rng, N, D).astype(np.float32)
    points = unit(rows[rng.integers(N, size=B)] + rows[rng.integers(N, size=B)]).astype(np.float32)
    near = np.argsort(-(points @ rows.T), axis=1)
    grades = {f"q{b}": {f"d{i}": 1 for i in near[b, rng.permutation(30)[:4]]} for b in range(B)}
    half = {"dev": range(0, B, 2), "test": range(1, B, 2)}
    qrels = {split: engine.Qrels({f"q{b}": grades[f"q{b}"] for b in part}) for split, part in half.items()}
    return space_of(rows), queries_of(points), qrels


def only(queries, ids):
    return queries.take([queries.position[i] for i in ids])


def brute(data, decoder, split, k, metrics=("recall", "comp", "ndcg", "ilad")):
    """(metric → per-query values) by decode and measure alone."""
    space, queries, qrels = data
    judged = only(queries, [q for q in queries.ids if q in qrels[split].grades])
    measures = engine.measure(engine.decode(decoder, space, judged, k), space, judged.ids, qrels[split], k, metrics)
    # By id, so that the same seed draws the same queries here and there.
    return {m: np.array([measures.per_query[m][q] for q in sorted(judged.ids)]) for m in metrics}


def decide_alone(data, split, decoders, share, curve_of=None, k=5):
    """Decide as `tune` should, from a sweep and an exact curve that are made here."""
    space, queries, qrels = data
    judged = only(queries, [q for q in queries.ids if q in qrels[split].grades])
    options = {"k": k, "metrics": ("recall", "ilad", "ndcg", "mrr"), "split": split}
    top = engine.Decoder(engine.make("top_k"))
    points = list(sweep([top, *decoders], space, judged, qrels[split], **options))
    if curve_of is not None:
        points.append(engine.exact_frontier(curve_of, space, judged, qrels[split], resamples=100, **options))
    return engine.decide(points, keep=share, k=k)


def bound_share(data, decoder, split, k=5):
    """(share of the baseline's Recall, one-sided 95% bound of it), by decode and measure alone."""
    decoders = decoder, engine.Decoder(engine.make("top_k"))
    return bound_kept_share(*(brute(data, each, split, k)["recall"] for each in decoders))


def weights():
    return [engine.Decoder(engine.make("mmr", relevance_weight=w / 10)) for w in range(11)]


def test_the_best_of_the_grid_on_dev_is_reported_on_test(data):
    objective = Objective("maximise", metric="ndcg")
    study = tune("mmr", *data, objective=objective, k=5, resamples=2000, values="grid")
    on_dev = {d: brute(data, d, "dev", 5) for d in weights()}
    best = max(on_dev, key=lambda d: (round(on_dev[d]["ndcg"].mean(), 9), -abs(d.select.relevance_weight - 0.8)))
    assert study.decoder == best and study.satisfied and len(study.points) == 11
    assert study.chosen.mean["ndcg"] == pytest.approx(on_dev[best]["ndcg"].mean())
    # The choice must not be the best of test by chance, else this test could not see which split decided.
    on_test = {d: brute(data, d, "test", 5)["ndcg"].mean() for d in weights()}
    assert max(on_test, key=on_test.get) != best

    top = brute(data, engine.Decoder(engine.make("top_k")), "test", 5)
    best_values = brute(data, best, "test", 5)
    rows = {row.metric: row for row in study.comparisons}
    assert set(rows) == {"recall", "comp", "ndcg", "ilad"}
    for metric, row in rows.items():
        assert row.mean == pytest.approx(best_values[metric].mean()) and row.comparisons == 4
        assert row.baseline_mean == pytest.approx(top[metric].mean())
        assert (row.single_low, row.single_high) == pytest.approx(interval(best_values[metric], top[metric], 2000))
        assert row.low <= row.single_low and row.single_high <= row.high
        assert row.p == pytest.approx(p_value(best_values[metric], top[metric], 2000))
    assert [row.p_holm for row in rows.values()] == pytest.approx(correct_holm([row.p for row in rows.values()]))


def test_redundancy_is_reported_at_the_given_threshold(data, tmp_path):
    space, queries, qrels = data
    judged, means = only(queries, [q for q in queries.ids if q in qrels["test"].grades]), {}
    for threshold in (None, 0.3, 0.7):
        options = {"metrics": ("recall", "redundancy"), "duplicate_threshold": threshold, "store": tmp_path / "s.db"}
        study = tune("mmr", *data, k=5, points=3, resamples=200, values="grid", **options)
        (row,) = [row for row in study.comparisons if row.metric == "redundancy"]
        ranking = engine.decode(study.decoder, space, judged, 5)
        measured = engine.measure(ranking, space, judged, None, 5, ("redundancy",), duplicate_threshold=threshold)
        assert row.mean == pytest.approx(measured.mean["redundancy"])
        means[threshold] = row.mean
    assert len(set(means.values())) == 3, "cells of one threshold are not read for another"
    with pytest.raises(engine.ParamError, match=r"duplicate_threshold .* must be a number"):
        tune("mmr", *data, duplicate_threshold=-1)


@pytest.mark.parametrize("aim", deepen(["recall", "ndcg", "ilad", "knee"], ["ndcg"]))
def test_the_best_of_all_values_is_chosen(data, aim):
    objective = Objective(aim) if aim == "knee" else Objective("maximise", metric=aim)
    study = tune("mmr", *data, objective=objective, k=5, test=None)
    low, high = study.interval
    value = study.decoder.select.relevance_weight
    assert low < value < high and len(f"{value:g}") <= 8 and study.curve.symbol == "λ"
    assert study.chosen.mean == {m: pytest.approx(v) for m, v in study.curve.at(value).items()} | study.chosen.mean
    assert any(f"Every λ from {low:.6g} to {high:.6g} is as good" in text for text in study.sentences)
    if aim == "knee":
        return

    def mean(value):
        return brute(data, engine.Decoder(engine.make("mmr", relevance_weight=value)), "dev", 5)[aim].mean()

    chosen_mean = mean(value)
    for weight in np.random.default_rng(1).random(20):
        assert mean(weight) <= chosen_mean + 1e-9
    # Both ends are ends: beyond them another set, and a different number.
    for beyond in (low - 1e-5, high + 1e-5):
        if 0 <= beyond <= 1:
            assert mean(beyond) < chosen_mean - 1e-9


def test_stability_of_best_of_all_values(data):
    study = tune("mmr", *data, objective=Objective("maximise", metric="ilad"), k=5, test=None)
    assert study.stability > 0.5 and any(
        "samples choose a λ within 5% of its range" in text for text in study.sentences
    )
    with pytest.raises(engine.ParamError, match='values must be "all" or "grid"'):
        tune("mmr", *data, k=5, values="some")


def test_dev_test_gap_matches_hand_computation(data):
    study = tune("mmr", *data, objective=Objective("maximise", metric="recall"), k=5, resamples=4000)
    first = engine.Decoder(engine.make("top_k"))
    gaps = {gap.metric: gap for gap in study.gaps}
    for metric in ("recall", "ilad"):
        gained = {
            s: brute(data, study.decoder, s, 5)[metric] - brute(data, first, s, 5)[metric] for s in ("dev", "test")
        }
        gap = gaps[metric]
        assert (gap.gained_dev, gap.gained_test) == pytest.approx((gained["dev"].mean(), gained["test"].mean()))
        assert gap.lost == pytest.approx(gained["dev"].mean() - gained["test"].mean())
        # Two independent means: the normal interval of their difference is close to the bootstrap's.
        error = math.sqrt(sum(v.var() / len(v) for v in gained.values()))
        assert (gap.low, gap.high) == pytest.approx(
            (gap.lost - 1.96 * error, gap.lost + 1.96 * error), abs=0.35 * error
        )
        assert ("no significant difference" in gap.text) == (gap.low <= 0 <= gap.high)


def test_stability_of_grid_choice(data):
    sure = tune("mmr", *data, objective=Objective("maximise", metric="ilad"), k=5, points=2, test=None, values="grid")
    assert sure.stability == 1.0
    objective = Objective("maximise", metric="ndcg")
    study = tune("mmr", *data, objective=objective, k=5, test=None, values="grid")
    values = np.stack([brute(data, d, "dev", 5)["ndcg"] for d in weights()])
    rng = np.random.default_rng(9)
    means = np.stack([values[:, rng.integers(values.shape[1], size=values.shape[1])].mean(1) for _ in range(2000)])
    near = [-abs(d.select.relevance_weight - 0.8) for d in weights()]
    best = [max(range(11), key=lambda i: (round(row[i], 9), near[i])) for row in means]
    expected = np.mean([weights()[i] == study.decoder for i in best])
    assert 0.2 < expected < 0.95 and study.stability == pytest.approx(expected, abs=0.12)
    assert f"Stability: {study.stability:.0%} of 200 bootstrap samples choose this setting." in study.sentences


@pytest.mark.parametrize(("share", "values"), every_other((0.6, 0.9, 0.97, 1.0), ("grid", "all"), step=4))
def test_most_diversity_within_a_budget_is_what_decide_takes(data, share, values):
    study = tune("mmr", *data, objective=Objective("diverse", share=share), k=5, resamples=200, values=values)
    expected = decide_alone(data, "dev", weights(), share, "mmr" if values == "all" else None)
    chosen = expected.sure or expected.bet
    assert study.decoder == chosen.decoder and study.satisfied == (expected.sure is not None)
    for role in ("sure", "bet", "nearest"):
        option, other = getattr(study.decision, role), getattr(expected, role)
        assert (option and (option.label, option.chance)) == (other and (other.label, pytest.approx(other.chance)))
    assert len(study.decision.options) == len(expected.options) == (101 if values == "all" else 11)
    reason, first = study.choosing.reason, expected.sentences[0]
    # The first sentence says where test denies a sure setting, and ends with it where test agrees without proof.
    sure = study.decision.sure
    opening = "On dev " if sure is not None and sure.is_denied else first
    if sure is not None and sure.agrees:
        opening = f"{first.removesuffix('.')}; on test {sure.confirmed_share:.1%}: agrees, not proven"
    # What test says of a bet ends the second sentence.
    assert expected.sentences[1].removesuffix(".") in reason and reason.startswith(opening)
    assert study.interval is study.stability is None and not any("Stability" in text for text in study.sentences)
    assert study.searched == ("every λ from 0 to 1" if values == "all" else "all 11 settings")
    assert (study.curve is None) == (values == "grid")
    if values == "all":
        weight = study.decoder.select.relevance_weight
        assert study.curve.has(study.decoder) and weight == round(weight, 2)
    dev_means = {metric: brute(data, study.decoder, "dev", 5)[metric].mean() for metric in ("recall", "ilad")}
    assert dev_means == {metric: pytest.approx(study.chosen.mean[metric]) for metric in dev_means}
    gains = {m: mean - base for m, mean, base in ((r.metric, r.mean, r.baseline_mean) for r in compare_on_dev(study))}
    assert gains == {m: pytest.approx(study.chosen.mean[m] - study.base.mean[m]) for m in ("recall", "ilad")}


@pytest.mark.parametrize(
    "dev, share, is_confirmed",
    [("dev", 0.5, False), ("dev", 0.9, False), ("test", 0.6, True), ("test", 0.8, True), ("test", 0.9, None)],
)
def test_budget_is_confirmed_by_the_bound_of_the_other_split(data, dev, share, is_confirmed):
    test = "dev" if dev == "test" else "test"
    options = {"k": 5, "resamples": 200, "values": "grid", "dev": dev, "test": test}
    study = tune("mmr", *data, objective=Objective("diverse", share=share), **options)
    chosen = [option for option in (study.decision.sure, study.decision.bet) if option is not None]
    for option in chosen:
        kept, low = bound_share(data, option.decoder, test)
        assert (option.confirmed_share, option.confirmed_low) == pytest.approx((kept, low))
        assert option.confirmed == (low >= share - 1e-9)
    kept, low = bound_share(data, study.decoder, test)
    # Where nothing is sure and no estimate keeps the budget, nothing is claimed that could be confirmed.
    assert study.is_confirmed is study.constraint_holds_on_test is is_confirmed
    assert bool(chosen) == (is_confirmed is not None)
    assert not chosen or (low >= share - 1e-9) == is_confirmed
    denial = f"Agrees on {test}, not proven" if kept >= share else f"Below {share:.0%} on {test}"
    verdict = {True: f"Confirmed on {test}", False: denial, None: f"Measured on {test}"}[is_confirmed]
    outcome = f"{verdict}: Recall is {kept:.1%} of Top-k's; you asked for {share:.0%}."
    assert any(text.startswith(outcome) for text in study.sentences) and outcome.lower().startswith(study.status)
    read = json.loads(json.dumps(study.as_json(), allow_nan=False))
    assert read["decision"] == json.loads(json.dumps(study.decision.as_json())) and read["held"] is is_confirmed
    assert read["decision"]["confirm_split"] == test and read["decision"]["confirm_queries"] == B / 2
    assert read["firm"] is None and "interval" not in read


def test_infeasible_budget_takes_the_likeliest_setting(data):
    """Without any relevance in it MMR loses Recall, however many picks it looks back on; λ stays as it was fixed."""
    options = {"objective": Objective("diverse", share=1.0), "k": 5, "free": "window", "resamples": 200}
    study = tune("mmr", *data, **options, fixed={"relevance_weight": 0.0})
    settings = [decoder_from_json(point.decoder) for point in study.points]
    assert len(settings) > 2 and {decoder.select.relevance_weight for decoder in settings} == {0.0}
    expected = decide_alone(data, "dev", settings, 1.0)
    assert expected.sure is expected.bet is study.decision.sure is study.decision.bet is None
    likeliest = max(expected.options, key=lambda option: (option.chance, option.gain))
    assert study.decoder == likeliest.decoder and len(study.decision.options) == len(settings)
    assert not study.satisfied and not study.as_json()["satisfied"]
    assert "No setting is more diverse and sure to keep 100% of Top-k's Recall@5." in study.sentences
    assert study.is_confirmed is None and study.status == "measured on test"
    # Pure relevance is the baseline: it loses nothing and gains nothing, so nothing can be recommended.
    same = tune("mmr", *data, **options, fixed={"relevance_weight": 1.0})
    assert not same.satisfied and same.decision.nearest is None and same.chosen.mean == same.base.mean


def test_paths_are_for_the_one_parameter_that_is_free(data):
    """A path for each value of another parameter was not asked for, nor one behind other stages."""
    objective = Objective("diverse", share=0.8)
    options = {"objective": objective, "k": 5, "points": 3, "test": None}
    for more in ({"free": ("relevance_weight", "window")}, {"like": engine.Decoder(engine.make("top_k"), depth=20)}):
        study = tune("mmr", *data, **options, **more)
        assert study.curve is None and len(study.decision.options) == len(study.points)
        assert {option.label for option in study.decision.options} == {point.label for point in study.points}
    window = tune("mmr", *data, **options, fixed={"window": 2})
    assert len(window.decision.options) == 101 and window.decoder.select.window == 2


def test_ties_go_to_the_setting_closest_to_the_default(data):
    space, queries, qrels = data
    everything = {s: engine.Qrels({q: {"d0": 1} for q in split_qrels.grades}) for s, split_qrels in qrels.items()}
    study = tune("mmr", space, queries, everything, objective="maximise", k=N, resamples=100, values="grid")
    assert study.decoder.select.relevance_weight == 0.8 and "11 settings tie" in study.choosing.reason
    near = tune("mmr", space, queries, everything, k=N, resamples=100, points=5, values="grid")
    assert near.decoder.select.relevance_weight == 0.75


def test_distance_to_the_default():
    assert measure_distance_from_default(engine.make("mmr")) == 0 == measure_distance_from_default(engine.make("nnn"))
    assert measure_distance_from_default(engine.make("mmr", relevance_weight=0.6)) == pytest.approx(0.2)
    assert measure_distance_from_default(engine.make("mmr", window=3)) == 1
    # l1 by ratios: .001 to 1 is the whole range, .1 to .01 a third of it; 0 lies on no such scale.
    assert measure_distance_from_default(engine.make("nnn", l1=0.01)) == pytest.approx(1 / 3)
    assert measure_distance_from_default(engine.make("nnn", l1=0.0, fill=True)) == 2


def test_a_grid_of_two_parameters_and_its_heat_map(data):
    study = tune("nnn", *data, objective=Objective("maximise", metric="recall"), k=5, test=None)
    assert len(study.points) == 49 and [decoder_from_json(p.decoder) for p in study.points] == grid("nnn")
    assert (
        study.test is study.is_confirmed is study.constraint_holds_on_test is None
        and not study.comparisons
        and not study.gaps
        and not study.reported
    )
    assert study.sentences[-1].startswith("Measured on dev only: Recall is ")
    chart = heat_map(study.points, "recall", 5)
    values = spec_of("nnn").params[0].swept
    assert (chart.rows.name, chart.columns.name) == ("l1", "l2") and chart.rows.values == values
    assert (chart.rows.symbol, chart.columns.symbol) == ("λ₁", "λ₂")
    for (i, l1), (j, l2) in product(enumerate(values), enumerate(values)):
        decoder = engine.Decoder(engine.make("nnn", l1=l1, l2=l2, fill=True))
        if (i + j) % 5 == 0:
            assert chart.values[i, j] == pytest.approx(brute(data, decoder, "dev", 5)["recall"].mean())
    assert chart.queries.min() == chart.queries.max() == B / 2
    assert np.nanmax(chart.values) == pytest.approx(study.chosen.mean["recall"])


def test_heat_map_marks_missing_cells_and_rejects_other_grids(data):
    space, queries, qrels = data
    dev_queries = only(queries, list(qrels["dev"].grades))

    def measured(*decoders, k=(3,)):
        return list(sweep(list(decoders), space, dev_queries, qrels["dev"], k, ("recall", "ilad")))

    def nnn(l1, l2, depth=None, **more):
        return engine.Decoder(engine.make("nnn", l1=l1, l2=l2, **more), depth=depth)

    points = measured(nnn(1e-5, 0.1), nnn(0.1, 0.1), nnn(0.1, 1.0), nnn(100, 1.0), k=(3, 5))
    grid = heat_map(reversed(points), "ilad", 3)
    assert grid.rows.values == (1e-5, 0.1, 100.0) and grid.columns.values == (0.1, 1.0)
    # Two were not measured; of the third no set has two documents.
    assert all(math.isnan(grid.values[cell]) and grid.queries[cell] == 0 for cell in [(0, 1), (2, 0), (2, 1)])
    assert np.isfinite(grid.values[0, 0]) and grid.k == 3
    line = measured(*weights()[:3])
    assert heat_map([*points, *line], "ilad", 3).method == "nnn"
    for wrong, metric, k, why in (
        (line, "ilad", 3, "mmr varies relevance_weight"),
        ([*points, *measured(nnn(0.2, 0.2, fill=True))], "ilad", 3, "nnn varies l1, l2, fill"),
        ([*points, *measured(nnn(0.1, 0.1, depth=50))], "ilad", 3, "differ in scorers, pool or limits"),
        (points, "comp", 3, "comp was not measured"),
        (points, "ilad", 7, "k = 7"),
    ):
        with pytest.raises(engine.DataError if k == 7 else engine.ParamError, match=why):
            heat_map(wrong, metric, k)


def test_settings_that_lack_queries_are_no_candidates(data):
    space, queries, qrels = data
    # Queries this short have no document with a weight where λ₁ is large; ten are long.
    length = torch.where(torch.arange(B) < 10, 1.0, 0.4).unsqueeze(1)
    short = engine.Embeddings(queries.ids, queries.vectors * length)
    options = {"objective": "knee", "k": 5, "fixed": {"fill": "strict", "l2": 0.1}, "resamples": 200}
    study = tune("nnn", space, short, qrels, **options)
    defined = {p.decoder["select"]["l1"]: int(np.isfinite(p.values["ilad"]).sum()) for p in study.points}
    assert defined[0.6] == 5 and defined[1.0] == 0 and defined[0.1] == 30
    assert [label.split()[3] for label in study.left_out] == ["0.3", "0.6", "1"]
    # With five queries to go by all would have been compared on those.
    assert study.queries == 30 and study.chosen.decoder["select"]["l1"] <= 0.1
    assert any("Left out, as" in text and study.left_out[0] in text for text in study.sentences)
    with pytest.raises(engine.DataError, match="no setting has Recall and ILAD on every"):
        tune("nnn", space, short, qrels, **options | {"fixed": {"fill": "strict", "l1": 9.0}})


@pytest.mark.parametrize("objective", ["diverse", "knee"])
def test_a_decoder_that_answers_few_queries_does_not_stop_the_choice(objective):
    random = torch.Generator().manual_seed(1)
    vectors, query_vectors = (torch.nn.functional.normalize(torch.randn(n, 16, generator=random)) for n in (200, 40))
    ids, query_ids = tuple(map(str, range(200))), tuple(f"q{i}" for i in range(40))
    space = engine.Space(
        engine.Corpus(ids, tuple(f"word{i % 10} other{i}" for i in range(200))), engine.Embeddings(ids, vectors)
    )
    # A fifth of the queries has no word of the corpus, so BM25 returns nothing there.
    texts = tuple(f"word{i % 10}" if i % 5 else f"unknown{i}" for i in range(40))
    queries = engine.Embeddings(query_ids, query_vectors, texts=texts)
    nearest = (query_vectors @ vectors.T).topk(8).indices.tolist()
    graded = {
        name: dict.fromkeys((ids[row] for row in rows[::2]), 1) for name, rows in zip(query_ids, nearest, strict=True)
    }
    qrels = {
        split: engine.Qrels({name: graded[name] for name in query_ids[start::2]})
        for start, split in enumerate(("dev", "test"))
    }
    options = {"objective": objective, "k": 5, "selectors": ["mmr"], "points": 3, "resamples": 200}
    study = engine.choose(space, queries, qrels, scorers=["dense", "bm25"], **options)
    assert [candidate.decoder.retrieve.spec.name for candidate in study.candidates] == ["dense"]
    if objective == "diverse":
        assert any(text.startswith("Left out: ") and "BM25" in text for text in study.sentences)


def test_the_store_is_used_and_results_are_repeatable(data, tmp_path):
    store, seen = tmp_path / "cells.db", []
    first = tune(
        "mmr", *data, k=5, points=5, resamples=200, store=store, progress=lambda *a: seen.append(a), values="grid"
    )
    assert len(Store(store).find_stored_keys({p.key for p in first.points})) == 5
    assert seen[0] == (0, 5, "tuning on dev") and (5, 5, "tuning on dev") in seen
    assert seen[-1] == (2, 2, "reporting on test")
    stopped = threading.Event()
    stopped.set()
    # Nothing is left to compute, so nothing is there to be stopped.
    again = tune("mmr", *data, k=5, points=5, resamples=200, store=Store(store), stop=stopped, values="grid")
    assert again.as_json() == first.as_json()
    with pytest.raises(engine.Cancelled):
        tune("mmr", *data, k=5, points=5, stop=stopped, values="grid")


def test_study_sentences_and_written_record(data):
    study = tune("mmr", *data, objective="knee", k=5, points=3, resamples=200)
    assert study.sentences == (*study.chosen_because, *study.reported)
    assert len(study.reported) == 2 * len(study.comparisons) and study.reported[0].startswith("On test: ")
    read = json.loads(json.dumps(study.as_json(), allow_nan=False))
    assert decoder_from_json(read["decoder"]) == study.decoder and read["objective"]["aim"] == "knee"
    assert read["means"]["test"]["chosen"]["recall"] == study.chosen_test.mean["recall"]
    assert read["comparisons"][0]["wins"].keys() == {"win", "tie", "loss"}


def test_tune_preserves_other_stages(data):
    like = engine.Decoder(engine.make("top_k"), rerank=engine.make("dense"), depth=20)
    study = tune("mmr", *data, k=5, points=3, like=like, resamples=200)
    for decoder in (study.decoder, study.baseline, *(decoder_from_json(p.decoder) for p in study.points)):
        assert (decoder.rerank, decoder.depth) == (like.rerank, 20)


def test_a_scorer_is_chosen_on_dev_too(data):
    like = engine.Decoder(engine.make("mmr"), depth=50)
    study = tune("truncated", *data, k=5, points=3, free="dimension", like=like, resamples=200)
    assert study.baseline == engine.Decoder(like.select, engine.make("dense"), depth=50)
    sizes = {decoder_from_json(p.decoder).retrieve.dimension for p in study.points}
    assert len(sizes) == 3 and {decoder_from_json(p.decoder).select for p in study.points} == {like.select}
    best = max(study.points, key=lambda p: p.mean["comp"])
    assert decoder_from_json(study.chosen.decoder).retrieve.spec.name == "truncated"
    assert study.chosen.mean["comp"] == best.mean["comp"]
    assert study.sentences[0].startswith("Fewer dimensions · k ") and study.comparisons
    assert [d.retrieve.dense_weight for d in grid("hybrid", 3)] == [0.0, 0.5, 1.0]
    assert {d.select for d in grid("hybrid", 3)} == {engine.make("top_k")}


FREE = ("relevance_weight", "loading", "polish")


@pytest.mark.skipif(find_spec("optuna") is None, reason="no Optuna")
class TestSearch:
    def test_beyond_two_parameters_a_seeded_search_approaches_the_grid(self, data):
        objective = Objective("maximise", metric="ndcg")
        options = {"objective": objective, "k": 5, "free": FREE, "trials": 20, "test": None}
        study = tune("frank_wolfe", *data, **options)
        assert "a search through" in study.sentences[0] and 8 < len(study.points) <= 20
        assert len({p.label for p in study.points}) == len(study.points)
        assert study.points[0].label == engine.Decoder(engine.make("frank_wolfe")).label, "the default comes first"
        for name in FREE:
            assert len({p.decoder["select"][name] for p in study.points}) > 1
        best = max(brute(data, d, "dev", 5)["ndcg"].mean() for d in grid("frank_wolfe", 11))
        assert study.chosen.mean["ndcg"] >= 0.97 * best
        assert study.chosen.mean["ndcg"] == pytest.approx(max(p.mean["ndcg"] for p in study.points))
        again = tune("frank_wolfe", *data, **options)
        assert [p.key for p in again.points] == [p.key for p in study.points] and again.decoder == study.decoder
        other_seed = tune("frank_wolfe", *data, **options, seed=1)
        assert {p.key for p in other_seed.points} != {p.key for p in study.points}

    def test_two_goals_and_a_constraint(self, data):
        for objective in (Objective("knee"), Objective("diverse", share=0.9)):
            study = tune("frank_wolfe", *data, objective=objective, k=5, free=FREE, trials=10, test=None)
            assert 0 < len(study.points) <= 10 and study.queries == B / 2

    def test_parameters_that_do_not_count_stay_at_their_default(self, data):
        study = tune("nnn", *data, k=5, free=("l1", "solver", "iterations"), trials=16, test=None)
        exact = [p.decoder["select"] for p in study.points if p.decoder["select"]["solver"] == "exact"]
        steps = {p.decoder["select"]["iterations"] for p in study.points if p.decoder["select"]["solver"] == "fista"}
        assert exact and {params["iterations"] for params in exact} == {50} and len(steps) > 1

    def test_progress_and_stop(self, data, tmp_path):
        seen, stop = [], threading.Event()

        def report(done, total, label):
            seen.append((done, total, label))
            if done >= 8:
                stop.set()

        with pytest.raises(engine.Cancelled):
            tune("frank_wolfe", *data, k=5, free=FREE, trials=32, progress=report, stop=stop)
        assert seen == [(0, 32, "tuning on dev"), (8, 32, "tuning on dev")]
        # What is in a store already can be stopped, too.
        options = {"free": FREE, "trials": 2, "store": tmp_path / "cells.db", "test": None}
        tune("frank_wolfe", *data, k=5, **options)
        with pytest.raises(engine.Cancelled):
            tune("frank_wolfe", *data, k=5, **options, stop=stop)

    def test_without_optuna_it_says_what_to_install(self, data, monkeypatch):
        monkeypatch.setitem(sys.modules, "optuna", None)
        with pytest.raises(engine.FrontierError, match=r"3 parameters .*pip install 'frontier-retrieval\[tune\]'"):
            tune("frank_wolfe", *data, free=FREE, trials=2)
        assert tune("mmr", *data, k=5, points=2, test=None).points


def test_settings_of_a_grid():
    for spec in list(engine.methods("selector").values()):
        if any(len(sweep_values(p, 4)) > 1 for p in spec.params):
            assert [engine.Decoder(s) for s in Settings.build(spec, 4, None, {})] == grid(spec.name, 4)
    nnn = spec_of("nnn")
    settings = list(Settings.build(nnn, 4, ("iterations", "solver"), {"l1": 0.2}))
    # iterations count for fista only: exact is there once.
    assert sorted((s.solver, s.iterations) for s in settings) == [
        ("exact", 50), ("fista", 1), ("fista", 134), ("fista", 267), ("fista", 400),
    ]  # fmt: skip
    assert {(s.l1, s.l2, s.fill) for s in settings} == {(0.2, 0.1, "fill")}


@pytest.mark.parametrize(
    "change,message",
    [
        (dict(name="nosuch"), "no method is called 'nosuch'"),
        (dict(name="dense"), "dense is what the others are compared with"),
        (dict(name="top_k"), "top_k is what the others are compared with"),
        (dict(name="vrsd"), "vrsd has no parameter to tune"),
        (dict(objective="best"), "aim must be one of"),
        (dict(objective=3), "objective must be an Objective"),
        (dict(k=0), "k must be a whole number"),
        (dict(points=0), "points must be a whole number"),
        (dict(free=("nosuch",)), "free must be parameters of mmr"),
        (dict(fixed={"relevance_weight": 2}), r"relevance_weight \(λ\) must be"),
        (dict(fixed={"relevance_weight": 0.5}), "no parameter to tune that is not fixed"),
        (dict(trials=0), "trials must be a whole number"),
        (dict(dev="train"), "no split 'train'; there are dev, test"),
        (dict(test="dev"), "'dev' and 'dev' share 30 queries"),
        (dict(qrels=engine.Qrels({"q0": {"d0": 1}})), "qrels must be judgements by split"),
        (dict(queries=["q0"]), "queries must be engine.Queries or engine.Embeddings"),
        (dict(metrics=("hits",)), "metrics must be among"),
    ],
)
def test_bad_argument_raises_error_that_explains_it(data, change, message):
    space, queries, qrels = data
    options = {"name": "mmr", "space": space, "queries": queries, "qrels": qrels, **change}
    with pytest.raises(engine.FrontierError, match=message):
        tune(**options)


@pytest.mark.deep
def test_every_point_of_dev_is_seen_as_it_is_finished(data, tmp_path):
    """The baseline first; what was seen before a stop is in the store, and the next run sees it at once."""
    options = {"objective": Objective("diverse"), "k": 5, "resamples": 200}
    all_points, calls = [], []
    study = tune("mmr", *data, **options, points=30, seen=all_points.append, progress=lambda *a: calls.append(a))
    assert all_points[0].label == study.base.label and [p.key for p in all_points[1:]] == [p.key for p in study.points]
    assert all(p.split == "dev" for p in all_points)
    on_dev = [done for done, total, label in calls if label == "tuning on dev" and total == 30]
    assert on_dev == sorted(on_dev) and on_dev[-1] == 30
    assert tune("mmr", *data, **options, points=30).as_json() == study.as_json()

    stop, seen, store = threading.Event(), [], tmp_path / "cells.db"

    def until_five(point):
        seen.append(point)
        if len(seen) == 5:
            stop.set()

    with pytest.raises(engine.Cancelled):
        tune("mmr", *data, **options, points=30, store=store, seen=until_five, stop=stop)
    assert 5 <= len(seen) < 12
    seen_keys = {p.key for p in seen}
    # One cell may have been finished after the last one that was shown.
    assert seen_keys <= Store(store).find_stored_keys(seen_keys)
    again = []
    resumed = tune("mmr", *data, **options, points=30, store=store, seen=again.append)
    assert resumed.as_json() == study.as_json() and seen_keys <= {p.key for p in again}


@pytest.mark.deep
def test_a_parameter_is_tuned_in_the_form_it_has_beside_the_others(data):
    nnn = spec_of("nnn")
    sized = Settings.build(nnn, 5, ("l1",), {"scale": "support"})
    ((param, values),) = sized.free.items()
    assert param.symbol == "m" and values == (1, 13, 26, 38, 50) and sized.count_trials(64) == 5
    assert [s.l1 for s in sized] == [1, 13, 26, 38, 50] and {s.scale for s in sized} == {"support"}
    assert (
        Settings.build(nnn, 5, ("l1",), {}).count_trials(64) == 7
        and Settings.build(nnn, 5, ("l1", "l2", "fill"), {}).count_trials(64) == 64
    )
    # Ten documents are the default of that form, whatever λ₁'s own is.
    near, far = (engine.make("nnn", l1=l1, scale="support") for l1 in (10, 20))
    assert measure_distance_from_default(near) == 1 < measure_distance_from_default(far)
    study = tune("nnn", *data, k=5, points=5, free=("l1", "l2"), fixed={"scale": "support"}, test=None)
    grid = heat_map(study.points, "ilad", 5)
    assert grid.rows.symbol == "m" and grid.rows.texts == ("1", "13", "26", "38", "50")
    assert grid.columns.symbol == "λ₂" and grid.keys[2, 3] == study.points[2 * 7 + 3].key


def test_parameter_importance_matches_analysis_of_variance(data):
    """Against the sums of squares of a two-way analysis of variance; what is no full grid has no answer."""
    space, queries, qrels = data
    dev_queries = only(queries, list(qrels["dev"].grades))
    cells = list(sweep(grid("nnn"), space, dev_queries, qrels["dev"], 5, ("recall", "ilad")))
    table = np.array([p.mean["ilad"] for p in sorted(cells, key=lambda p: (
        p.decoder["select"]["l1"], p.decoder["select"]["l2"]))]).reshape(7, 7)  # fmt: skip
    total = ((table - table.mean()) ** 2).sum()
    rows, columns = (7 * ((table.mean(axis) - table.mean()) ** 2).sum() / total for axis in (1, 0))
    assert compute_importance(cells, "ilad", 5) == {"λ₁": pytest.approx(rows), "λ₂": pytest.approx(columns)}
    assert rows > 0.02 and columns > 0.02 and rows + columns < 1
    line = [p for p in cells if p.decoder["select"]["l2"] == 0.1]
    assert compute_importance(cells[1:], "ilad", 5) == {} == compute_importance(line, "ilad", 5)


class TestSlices:
    def test_a_slice_holds_the_settings_that_differ_in_one_parameter(self, data):
        study = tune("nnn", *data, objective=Objective("maximise", metric="recall"), k=5, test=None)
        chart = build_slices(study.points, study.base, ("recall", "ilad"), 5, chosen_cell=study.chosen)
        assert [s.name for s in chart.slices] == ["l1", "l2"] and chart.split == "dev"
        assert chart.base == {m: study.base.mean[m] for m in ("recall", "ilad")}
        chosen = study.decoder.select
        for line, fixed_name in zip(chart.slices, ("l2", "l1"), strict=True):
            assert len(line.values) == 49 and list(line.values) == sorted(line.values) and line.is_log
            on = [
                decoder_from_json(p.decoder).select
                for p in study.points
                if p.key in np.array(line.keys)[list(line.is_on_slice)]
            ]
            assert len(on) == 7 and {getattr(s, fixed_name) for s in on} == {getattr(chosen, fixed_name)}
            assert line.keys[line.chosen] == study.chosen.key and line.values[line.chosen] == getattr(chosen, line.name)
            assert line.means["recall"][line.chosen] == study.chosen.mean["recall"]

    def test_without_a_choice_a_slice_needs_one_parameter(self, data):
        study = tune("mmr", *data, k=5, points=3, free=("relevance_weight", "window"), test=None)
        assert not any(any(s.is_on_slice) for s in build_slices(study.points, study.base, ("recall",), 5).slices)
        window = build_slices(study.points, study.base, ("recall",), 5, chosen_cell=study.chosen).slices[1]
        assert window.texts[-3:] == ("none",) * 3 and window.values[-1] is None, "what is unset comes last"
        line = [p for p in study.points if p.decoder["select"]["window"] is None]
        (only_slice,) = build_slices(line, study.base, ("recall",), 5).slices
        assert all(only_slice.is_on_slice) and only_slice.chosen is None and only_slice.texts == ("0", "0.5", "1")

    def test_mistakes_are_explained(self, data):
        space, queries, qrels = data
        judged = only(queries, list(qrels["dev"].grades))
        two = list(sweep([engine.Decoder(engine.make(n)) for n in ("top_k", "mmr")], space, judged, qrels["dev"], 5))
        with pytest.raises(engine.ParamError, match="one selector; got mmr, top_k"):
            build_slices(two, two[0], ("recall",), 5)
        with pytest.raises(engine.ParamError, match="mrr: not all were measured"):
            build_slices(two[1:], two[0], ("mrr",), 5)
