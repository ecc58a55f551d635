"""A sweep's points are decode and measure, cell by cell; keys and digests say what was asked and what came out."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

import engine
from engine.decoder import decode, decode_grid
from engine.evaluation.duplicate_threshold import resolve_duplicate_threshold
from engine.evaluation.sweep import compute
from engine.evaluation.sweep import sweep as sweeping
from engine.evaluation.sweep.cell import compute_result_digest, decoder_from_json, decoder_to_json
from engine.evaluation.sweep.compute import pack_unit, unpack_unit
from engine.evaluation.sweep.store import Store
from engine.evaluation.sweep.sweep import grid
from support.draws import deepen
from support.instances import FAMILIES
from support.patience import patient
from support.points import digest_of_all
from support.sweeps import count_units, make_patients, put_patient, toy
from support.training import StopAfter

JUDGED = ("recall", "comp", "ndcg", "mrr", "precision", "ilad", "cos_sum", "redundancy")
ASPECTS = {
    "q0": {"a": frozenset({"d0", "d1"}), "b": frozenset({"d2"})},
    "q3": {"a": frozenset({f"d{i}" for i in range(0, 60, 3)}), "c": frozenset({"d5"})},
}


def decoders():
    """Families one after the other and one between another's; settings, depths, and one that comes twice."""
    pooled = [engine.Decoder(d.select, depth=12) for d in grid("mmr", 3)]
    return [
        *grid("top_k"), *grid("mmr", 4), *grid("dpp", 3), *grid("frank_wolfe", 2), *pooled, *grid("vrsd"),
        *grid("nnn", l1=0.1), *grid("nnn", l1=0.01, l2=0.1, fill="strict"), *grid("max_sum", 2),
        *grid("facility_location", 2), *grid("ssd", 3), grid("mmr", 4)[2],
    ]  # fmt: skip


def assert_measured(point, decoder, data, k, aspects=None):
    """A point is what decode and measure say of its decoder at its k."""
    space, queries, qrels = data
    ranking = engine.decode(decoder, space, queries, k)
    measures = engine.measure(ranking, space, queries, qrels, k, tuple(point.values), aspects)
    assert (point.label, point.method, point.k) == (decoder.label, decoder.select.spec.name, k)
    assert decoder_from_json(point.decoder) == decoder and point.queries == queries.ids
    for name, values in point.values.items():
        expected = [measures.per_query[name].get(query, np.nan) for query in queries.ids]
        assert values.dtype == np.float64 and np.array_equal(values, expected, equal_nan=True), (point.label, k, name)
        assert np.array_equal(point.mean[name], measures.mean[name], equal_nan=True)
    assert point.left_out == measures.left_out
    assert point.returned == pytest.approx(ranking.returned.double().mean())
    assert point.milliseconds > 0


@pytest.mark.parametrize("family", deepen(FAMILIES, ["random", "duplicated", "degenerate"]))
def test_sweep_cells_equal_decode_and_measure(family, monkeypatch):
    monkeypatch.setattr(compute, "MAX_BLOCK_QUERIES", 4)
    monkeypatch.setattr(sweeping, "DECODER_GROUP_SIZE", 3)
    data = toy(family, seed=3)
    all_decoders = decoders()
    points = list(engine.sweep(all_decoders, *data, (8, 1, 3, 8), JUDGED, split="test"))
    cells = {(p.label, p.k): p for p in points}
    assert len(points) == len(cells) == 3 * len(set(all_decoders))
    for decoder in all_decoders:
        for k in (1, 3, 8):
            assert_measured(cells[decoder.label, k], decoder, data, k)
    assert all(p.left_out == 2 and np.isnan(p.values["recall"]).sum() == 2 and p.split == "test" for p in points)


def test_aspects_reach_the_metrics_that_need_them_and_only_their_keys():
    data = toy()
    wanted = ("alpha_ndcg", "s_recall", "recall")
    for point in engine.sweep(grid("mmr", 3), *data, 5, wanted, aspects=ASPECTS):
        assert_measured(point, decoder_from_json(point.decoder), data, 5, ASPECTS)
        assert np.isfinite(point.values["s_recall"]).sum() == 2
    with_ = [p.key for p in engine.sweep(grid("mmr", 3), *data, 5, "recall", aspects=ASPECTS)]
    assert with_ == [p.key for p in engine.sweep(grid("mmr", 3), *data, 5, "recall")]


def test_a_corpus_smaller_than_k_and_queries_without_judgements():
    space, queries, _ = data = toy(n=4, d=3)
    (point,) = engine.sweep(grid("mmr", relevance_weight=0.5), *data, 10)
    assert_measured(point, decoder_from_json(point.decoder), data, 10)
    assert point.returned == 4
    (point,) = engine.sweep(grid("top_k"), space, queries, None, 3, "ilad")
    assert_measured(point, decoder_from_json(point.decoder), (space, queries, None), 3)
    assert point.left_out == 0 and "qrels" not in point.provenance


def test_values_follow_query_order():
    space, queries, qrels = toy()
    turned = engine.Embeddings(queries.ids[::-1], queries.vectors.flip(0))
    runs = (engine.sweep(grid("mmr", 3), space, ordered_queries, qrels, 5) for ordered_queries in (queries, turned))
    for a, b in zip(*runs, strict=True):
        assert b.queries == a.queries[::-1]
        assert all(np.array_equal(b.values[m], a.values[m][::-1], equal_nan=True) for m in a.values)


def test_text_is_embedded_as_the_corpus_was(demo):
    dataset, space = demo
    queries = dataset.judged("dev")
    five = engine.Queries(queries.ids[:5], queries.texts[:5])
    (point,) = engine.sweep(grid("top_k"), space, five, dataset.qrels["dev"], 10)
    ranking = engine.decode(grid("top_k")[0], space, five, 10)
    assert point.mean == engine.measure(ranking, space, five, dataset.qrels["dev"], 10).mean
    assert 0 < point.mean["recall"] <= 1


def test_decoding_is_shared_across_k(monkeypatch):
    monkeypatch.setattr(compute, "MAX_BLOCK_QUERIES", 100)
    monkeypatch.setattr(sweeping, "DECODER_GROUP_SIZE", 4)
    calls = []
    monkeypatch.setattr(
        compute, "decode_grid", lambda some, *rest: calls.append((len(some), rest[-1])) or decode_grid(some, *rest)
    )

    def decodings(all_decoders, k):
        calls.clear()
        assert len(list(engine.sweep(all_decoders, *toy(), k))) == len(all_decoders) * len(k)
        return sorted(calls)

    assert decodings(grid("mmr", 6), (3, 5, 10)) == [(2, 10), (4, 10)], "nested: the largest k answers all"
    assert decodings(grid("mmr", 6), (1, 5, 10)) == [(2, 1), (2, 10), (4, 1), (4, 10)], "but for k = 1"
    assert decodings(grid("facility_location", 2), (3, 5)) == [(2, 3), (2, 5)], "settings shared, sizes not"
    assert decodings(grid("vrsd") + grid("top_k"), (3, 5)) == [(1, 5), (1, 5)]
    between = [grid("mmr", 2)[0], *grid("vrsd"), grid("mmr", 2)[1]]
    assert decodings(between, (5,)) == [(1, 5)] * 3, "the order of the decoders is kept"


@pytest.mark.parametrize("batch", [9, 3])
def test_the_time_of_a_cell_is_the_median_of_single_calls(batch, tmp_path, monkeypatch):
    put_patient(monkeypatch, tmp_path / "trail")
    kind, pause, batch_sizes = type(make_patients([0])[0].select), 0.002, []
    original_select = kind.select

    def slow(self, candidates, k):
        batch_sizes.append((candidates.batch, k))
        time.sleep(pause)
        return original_select(self, candidates, k)

    monkeypatch.setattr(kind, "select", slow)
    monkeypatch.setattr(compute, "MIN_TIMING_SECONDS", patient(60))
    space, queries, _ = toy(batch=9)
    points = list(engine.sweep(make_patients([0]), space, queries.take(range(batch)), None, (2, 5), "ilad"))
    for point in points:
        assert point.provenance["timed"] == "median of 5 single calls"
        assert point.latency == point.milliseconds >= 1000 * pause, "of all queries together each has a part of it"
        # One decoding of all, a call that is not counted, and those that are.
        assert batch_sizes.count((1, point.k)) == 6 and batch_sizes.count((batch, point.k)) == 1
    monkeypatch.setattr(compute, "MIN_TIMING_SECONDS", 0)
    once = list(engine.sweep(make_patients([0]), space, queries.take(range(batch)), None, (2, 5), "ilad"))
    assert [p.provenance["timed"] for p in once] == ["median of 1 single call"] * 2, "no more than a share of the sweep"
    assert digest_of_all(once) == digest_of_all(points)
    (alone,) = engine.sweep(make_patients([0]), space, queries.take([0]), None, 2, "ilad")
    assert alone.latency is None and alone.milliseconds >= 1000 * pause, "one query is not asked again to be timed"


def test_a_sweep_can_be_stopped_between_two_calls_that_are_timed(tmp_path, monkeypatch):
    put_patient(monkeypatch, tmp_path / "trail")
    data, stop, calls = toy(), threading.Event(), []

    def time_one_call(*options):
        calls.append(stop.set())
        return decode(*options)

    monkeypatch.setattr(compute, "decode", time_one_call)
    with pytest.raises(engine.Cancelled):
        list(engine.sweep(make_patients([0]), *data, 5, "recall", stop=stop))
    assert len(calls) == 1


def build_alterations():
    """One thing changed at a time, each of which a result may depend on: name → (decoder, data, keywords)."""
    space, queries, qrels = data = toy()
    corpus, rows = space.corpus, space.embeddings.vectors.clone()
    rows[3, 2] += 1e-6
    text = replace(corpus, texts=("x", *corpus.texts[1:]))
    points = queries.vectors.clone()
    points[0, 0] += 1e-6
    judged = {q: dict(grades) for q, grades in qrels.grades.items()}
    judged["q1"]["d7"] = judged["q1"].get("d7", 0) + 1
    mmr = engine.Decoder(engine.make("mmr", relevance_weight=0.5))
    spread = {"metrics": ("recall", "s_recall")}
    return {
        "nothing": (mmr, data, {}),
        "corpus": (mmr, (engine.Space(text, space.embeddings, "cpu"), queries, qrels), {}),
        "embeddings": (mmr, (engine.Space(corpus, engine.Embeddings(corpus.ids, rows), "cpu"), queries, qrels), {}),
        "queries": (mmr, (space, engine.Embeddings(queries.ids, points), qrels), {}),
        "ids of queries": (mmr, (space, engine.Embeddings(("x", *queries.ids[1:]), queries.vectors), qrels), {}),
        "qrels": (mmr, (space, queries, engine.Qrels(judged)), {}),
        "parameter": (engine.Decoder(engine.make("mmr", relevance_weight=0.6)), data, {}),
        "selector": (engine.Decoder(engine.make("dpp", relevance_weight=0.5)), data, {}),
        "depth": (engine.Decoder(mmr.select, depth=60), data, {}),
        "rerank": (engine.Decoder(mmr.select, rerank=engine.make("dense")), data, {}),
        "k": (mmr, data, {"k": 4}),
        "split": (mmr, data, {"split": "dev"}),
        "metrics": (mmr, data, {"metrics": ("recall", "ilad", "mrr")}),
        "aspects": (mmr, data, {**spread, "aspects": ASPECTS}),
        "other aspects": (mmr, data, {**spread, "aspects": {"q0": ASPECTS["q0"]}}),
        # Written one after the other, the names of these two are the same.
        "an empty aspect": (mmr, data, {**spread, "aspects": {"q0": {"a": frozenset({"d1"}), "z": frozenset()}}}),
        "one aspect": (mmr, data, {**spread, "aspects": {"q0": {"a": frozenset({"d1", "q0", "z"})}}}),
    }  # fmt: skip


def test_cell_key_changes_with_every_input():
    keys = {}
    for name, (decoder, data, options) in build_alterations().items():
        (point,) = engine.sweep([decoder], *data, **{"k": 5, "metrics": ("recall", "ilad"), "split": "", **options})
        keys.setdefault(point.key, []).append(name)
        assert point.provenance["corpus"] == data[0].corpus.digest
        assert point.provenance["embeddings"] == data[0].embeddings.digest
        assert point.provenance["qrels"] == data[2].digest and point.provenance["device"] == "cpu"
        assert {"queries", "python", "torch", "numpy", "frontier-retrieval"} <= set(point.provenance)
    assert len(keys) == len(build_alterations()), [names for names in keys.values() if len(names) > 1]


def test_another_version_of_frontier_computes_its_cells_anew(monkeypatch):
    """A fixed bug must not return from the store of an older release."""
    from engine.evaluation.sweep import cell as points

    decoder, data = engine.Decoder(engine.make("mmr")), {"corpus": "a"}
    key_before = points.compute_cell_key(decoder, 5, "", ("recall",), data)
    assert points.compute_cell_key(decoder, 5, "", ("recall",), data) == key_before
    monkeypatch.setattr(points, "read_versions", lambda: {points.PACKAGE: "next"})
    assert points.compute_cell_key(decoder, 5, "", ("recall",), data) != key_before


def test_digest_is_independent_of_how_results_were_computed(tmp_path, monkeypatch):
    """Whatever store, order, grouping, name of the corpus or number of threads."""
    space, queries, qrels = data = toy(n=200, d=16, batch=20)
    all_decoders = [*grid("mmr", 3), *grid("nnn", l1=0.1), *grid("frank_wolfe", 2)]
    first = {p.key: p for p in engine.sweep(all_decoders, *data, (3, 8), JUDGED)}
    named = engine.Space(replace(space.corpus, name="another"), space.embeddings, "cpu")
    store = tmp_path / "cells.db"
    monkeypatch.setattr(compute, "MAX_BLOCK_QUERIES", 7)
    monkeypatch.setattr(sweeping, "DECODER_GROUP_SIZE", 2)
    try:
        torch.set_num_threads(2)
        reordered = list(engine.sweep(all_decoders[::-1], named, queries, qrels, [8, 3], JUDGED[::-1], store=store))
    finally:
        torch.set_num_threads(1)
    stored = list(Store(store).read_cells())
    assert {p.key for p in reordered} == {p.key for p in stored} == set(first)
    assert digest_of_all(reordered) == digest_of_all(stored) == digest_of_all(first.values())
    point = stored[0]
    nudged = {**point.values, "ndcg": point.values["ndcg"] + 1e-16}
    assert compute_result_digest(point.key, nudged) == point.digest, "the last bits of a mean are no result"
    moved = {**point.values, "ndcg": point.values["ndcg"] + 1e-9}
    assert compute_result_digest(point.key, moved) != point.digest
    assert digest_of_all(stored[:-1]) != digest_of_all(stored)


def test_decoders_and_units_round_trip_as_plain_values():
    all_decoders = [*decoders(), engine.Decoder(engine.make("mmr"), rerank=engine.make("dense"), depth=7)]
    assert [decoder_from_json(decoder_to_json(d)) for d in all_decoders] == all_decoders
    unit = compute.Unit(tuple(all_decoders), (3, 5))
    assert unpack_unit(pack_unit(unit)) == unit


@pytest.mark.threat("a stored cell whose decoder has no depth", "refused by name where a decision builds the decoder")
def test_a_decoder_without_a_depth_is_refused():
    plain_values = decoder_to_json(engine.Decoder(engine.make("mmr"), depth=7))
    del plain_values["depth"]
    with pytest.raises(engine.ParamError, match="depth must be given with a decoder's stages"):
        decoder_from_json(plain_values)


def test_grids_come_from_the_declarations():
    assert [d.select.relevance_weight for d in grid("mmr")] == [round(i / 10, 1) for i in range(11)]
    nnn = grid("nnn")
    assert len(set(nnn)) == 49 and {d.select.fill for d in nnn} == {"fill"}
    assert {d.select.l1 for d in nnn} == {d.select.l2 for d in nnn} == {0.01, 0.03, 0.06, 0.1, 0.3, 0.6, 1.0}
    fixed = grid("nnn", l1=0.2, fill="strict")
    assert len(fixed) == 7 and {(d.select.l1, d.select.fill) for d in fixed} == {(0.2, "strict")}
    filled_grid = grid("nnn", l1=0.2, fill=("strict", "fill"))
    assert len(filled_grid) == 14 and {d for d in filled_grid if d.select.fill == "strict"} == set(fixed)
    assert [d.select.relevance_weight for d in grid("mmr", relevance_weight=[0.2, 0.4])] == [0.2, 0.4]
    for wrong, message in (({"fill": ()}, "at least one"), ({"fill": ("strict", "some")}, "got 'some'")):
        with pytest.raises(engine.ParamError, match=message):
            grid("nnn", **wrong)
    assert grid("mmr", 1) == [engine.Decoder(engine.make("mmr"))]
    for name in engine.methods("selector"):
        assert len(set(grid(name, 3))) == len(grid(name, 3))


def test_stored_cells_come_first_without_recomputation(tmp_path, monkeypatch):
    put_patient(monkeypatch, tmp_path / "trail")
    data, store = toy(), tmp_path / "cells.db"
    list(engine.sweep(make_patients([0, 1]), *data, (2, 5), "recall", store=store))
    assert set(count_units(tmp_path / "trail")) == {(s, k) for s in (0, 1) for k in (2, 5)}
    (tmp_path / "trail").unlink()
    all_decoders = make_patients([2, 1, 0])
    points = list(engine.sweep(all_decoders, *data, (2, 5, 7), "recall", store=Store(store)))
    assert count_units(tmp_path / "trail") == {(2, 2): 1, (2, 5): 1, (2, 7): 1, (1, 7): 1, (0, 7): 1}
    old = [(p.decoder["select"]["start"], p.k) for p in points[:4]]
    assert sorted(old) == [(0, 2), (0, 5), (1, 2), (1, 5)] and len(points) == 9
    assert digest_of_all(points) == digest_of_all(engine.sweep(all_decoders, *data, (2, 5, 7), "recall"))
    (tmp_path / "trail").unlink()
    assert len(list(engine.sweep(all_decoders[:1], *data, 5, "recall", store=store))) == 1
    assert not count_units(tmp_path / "trail"), "nothing was left to do"
    list(engine.sweep(all_decoders[:1], *data, 5, ("recall", "ilad"), store=store))
    assert count_units(tmp_path / "trail") == {(2, 5): 1}, "other metrics are another cell"


def test_progress_counts_cells(tmp_path):
    all_decoders, options = grid("mmr", 5) + grid("vrsd"), {"k": (3, 5), "store": tmp_path / "cells.db"}
    for _ in range(2):
        seen = []
        run = engine.sweep(all_decoders, *toy(), **options, progress=lambda *said, seen=seen: seen.append(said))
        assert [seen[-1][0] for _ in run] == list(range(1, 13))
        assert seen == [(done, 12, "sweeping") for done in range(13)]


def test_stopped_between_blocks_it_keeps_what_is_finished(tmp_path, monkeypatch):
    put_patient(monkeypatch, tmp_path / "trail")
    monkeypatch.setattr(compute, "MAX_BLOCK_QUERIES", 3)
    stop, data, store = threading.Event(), toy(), Store(tmp_path / "cells.db")

    # Asked for the third time in the middle of the first unit.
    with pytest.raises(engine.Cancelled, match="stopped"):
        list(engine.sweep(make_patients([0]), *data, 5, store=store, stop=StopAfter(2)))
    assert len(count_units(tmp_path / "trail")) == 1 and not list(store.read_cells())

    run = engine.sweep(make_patients([0, 1, 2]), *data, 5, store=store, stop=stop)
    next(run)
    stop.set()
    with pytest.raises(engine.Cancelled):
        next(run)
    assert len(list(store.read_cells())) == 1
    assert len(list(engine.sweep(make_patients([0, 1, 2]), *data, 5, store=store))) == 3


BAD = [
    ("decoders", {"decoders": []}, "at least one; got none"),
    ("decoders", {"decoders": "mmr"}, "engine.Decoder; got 'mmr'"),
    ("decoders", {"decoders": engine.Decoder(engine.make("mmr"))}, "a list of engine.Decoder"),
    ("decoders", {"decoders": [engine.make("mmr")]}, "engine.Decoder; got MMR"),
    ("space", {"space": np.eye(3)}, "engine.Space; got ndarray"),
    ("queries", {"queries": ["text"]}, "engine.Queries or engine.Embeddings; got list"),
    ("queries", {"queries": engine.Queries((), ())}, "at least one"),
    ("queries", {"queries": engine.Embeddings(("q",), np.ones((1, 9)))}, "dimension; got 9"),
    ("qrels", {"qrels": {"q0": {"d0": 1}}}, "engine.Qrels.*got dict"),
    ("qrels", {"qrels": None}, "recall.* needs? judgements"),
    *[("k", {"k": bad}, "whole number") for bad in (0, -1, 2.5, True, None, "10", [5, 0], [[5]], ["5"], object())],
    ("k", {"k": []}, "at least one"),
    ("metrics", {"metrics": "accuracy"}, "among recall, .*; got 'accuracy'"),
    ("metrics", {"metrics": ()}, "at least one"),
    ("metrics", {"metrics": None}, "got None"),
    ("metrics", {"metrics": [["recall"]]}, "got .'recall'."),
    ("split", {"split": None}, "text; got NoneType"),
    ("aspects", {"metrics": "s_recall"}, "s_recall needs? aspects"),
    ("aspects", {"aspects": ["a"]}, "mapping.*got list"),
    ("aspects", {"metrics": "s_recall", "aspects": {"q0": {"a": 3}}}, "set of document ids"),
    ("store", {"store": 5}, "a path, a Store or None; got int"),
    ("store", {"store": "/no/such/folder/cells.db"}, "folder that exists; there is no '/no/such/folder'"),
    *[("workers", {"workers": bad}, "whole number in .1") for bad in (0, -1, 1.5, True, "2")],
    *[("cluster", {"cluster": bad}, "address of a Dask scheduler") for bad in ("", 8786)],
    ("cluster", {"workers": 2, "cluster": "tcp://127.0.0.1:1"}, "not both"),
    ("progress", {"progress": 3}, "callable or None; got int"),
    ("stop", {"stop": True}, "threading.Event or None; got bool"),
]  # fmt: skip


@pytest.mark.parametrize("name,wrong,message", BAD)
def test_a_bad_argument_of_sweep_names_itself_before_the_first_cell(name, wrong, message):
    space, queries, qrels = toy()
    right = {"decoders": grid("top_k"), "space": space, "queries": queries, "qrels": qrels}
    list(engine.sweep(**right))
    with pytest.raises(engine.FrontierError, match=rf"(?s)\b{name}\b.*{message}|{message}.*\b{name}\b"):
        engine.sweep(**{**right, **wrong})


@pytest.mark.parametrize(
    "ask,message",
    [
        (lambda: grid("nosuch"), "no method is called 'nosuch'; there are top_k, mmr"),
        (lambda: grid(None), "no method is called None"),
        (lambda: grid("mmr", diversity=0.3), "mmr has no parameter diversity; it has relevance_weight"),
        (lambda: grid("mmr", relevance_weight=1.5), r"relevance_weight .λ. must be .* in \[0, 1\]; got 1.5"),
        *[(lambda bad=bad: grid("mmr", bad), "points must be a whole number") for bad in (0, 2.5, True, "5", None)],
    ],
)
def test_a_bad_argument_of_grid_names_itself(ask, message):
    with pytest.raises(engine.ParamError, match=message):
        ask()


def test_grid_accepts_numpy_numbers():
    points = list(engine.sweep(grid("top_k"), *toy(), np.array([3, 5])))
    assert [p.k for p in points] == [3, 5] and all(type(p.k) is int for p in points)
    assert next(engine.sweep(grid("top_k"), *toy(), np.int64(3))).key == points[0].key


def test_answers_are_measured_where_they_are_asked_for_and_name_the_cells():
    space, queries, qrels = toy()
    decoders, ids = [engine.Decoder(engine.make("top_k"))], space.corpus.ids
    answers = {query: {"x": frozenset(ids[:3]), "y": frozenset()} for query in queries.ids}
    options = (decoders, space, queries, qrels, 3)
    (cell,) = engine.sweep(*options, ("recall", "answer_coverage"), answers=answers)
    ranking = engine.decode(decoders[0], space, queries, k=3)
    expected = engine.measure(ranking, space, queries, qrels, 3, ("answer_coverage",), answers=answers)
    assert cell.mean["answer_coverage"] == expected.mean["answer_coverage"]
    (changed,) = engine.sweep(
        *options, ("recall", "answer_coverage"), answers={queries.ids[0]: {"x": frozenset(ids[:1])}}
    )
    assert changed.key != cell.key
    (unanswered,), (answered,) = engine.sweep(*options, "recall"), engine.sweep(*options, "recall", answers=answers)
    assert unanswered.key == answered.key
    with pytest.raises(engine.DataError, match="answer_coverage needs answers"):
        engine.sweep(*options, "answer_coverage")
    with pytest.raises(engine.DataError, match="answers must be a mapping"):
        engine.sweep(*options, "recall", answers=[1])


def test_two_thresholds_of_near_duplicates_never_share_a_cell(tmp_path):
    space, queries, qrels = toy("clustered", seed=3)
    asked = (grid("top_k"), space, queries, qrels, 8)
    cells = {}
    for threshold in (None, 0.5, 0.99):
        options = {"store": tmp_path / "s.db", "duplicate_threshold": threshold}
        (cells[threshold],) = engine.sweep(*asked, ("redundancy",), **options)
    assert len(Store(tmp_path / "s.db").find_stored_keys({cell.key for cell in cells.values()})) == 3
    assert cells[0.5].mean["redundancy"] > cells[0.99].mean["redundancy"]
    entries = [cell.provenance["near-duplicate cosine"] for cell in cells.values()]
    assert entries == [repr(resolve_duplicate_threshold(space)), "0.5", "0.99"]
    # The threshold is no part of a cell that does not depend on it.
    keys = {next(engine.sweep(*asked, ("ilad",), duplicate_threshold=threshold)).key for threshold in (None, 0.5)}
    assert len(keys) == 1
