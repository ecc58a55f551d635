"""Reach under attack: corpora and settings by which an answer was once called proven that was not the corpus's."""

import numpy as np
import pytest
import torch

import engine
from engine.data.stores.arrays import ArrayStore
from engine.data.stores.store import VectorStore, is_unit
from engine.matrix import Matrix
from engine.reach import Reach
from support.instances import problem, unit
from support.reaches import K, LossyStore, corpus, decoder, same_as_whole

ATTACKED = [("mmr", {}), ("ssd", {}), ("dpp", {}), ("nnn", {}), ("max_sum", {"polish": False})]


@pytest.mark.parametrize(("name", "params"), ATTACKED, ids=str)
def test_queries_are_scaled_as_all_documents_have_it_not_as_two_of_them(small_pools, name, params):
    rows, queries = problem("clustered", 6, n=1000, d=16, batch=4)
    rows[777] *= 0.5
    ids, _ = corpus(rows)
    assert same_as_whole(Reach(ArrayStore(ids, rows), exact=True), rows, ids, 5 * queries, name, params)[0]


@pytest.mark.parametrize(("name", "params"), ATTACKED, ids=str)
def test_lengths_are_those_of_the_documents_as_they_are_now(small_pools, name, params):
    rows, queries = problem("clustered", 6, n=1500, d=16, batch=4)
    ids, _ = corpus(rows)
    store = ArrayStore(ids, 0.05 * rows)
    reach = Reach(store, exact=True)
    engine.decode(decoder(name, params), reach, queries, K)
    store.vectors = (rows * np.random.default_rng(1).lognormal(size=(len(rows), 1))).astype(np.float32)
    store.version = "longer"
    assert same_as_whole(reach, store.vectors, ids, queries, name, params)[0]


@pytest.mark.parametrize(("name", "params"), ATTACKED, ids=str)
def test_lengths_are_those_of_what_a_filter_lets_through(small_pools, name, params):
    rows, queries = problem("clustered", 6, n=1200, d=16, batch=4)
    rows[1::2] *= 0.5
    ids, _ = corpus(rows)
    kinds = ["even" if row % 2 == 0 else "odd" for row in range(len(rows))]
    for kind, start in (("even", 0), ("odd", 1)):
        reach = Reach(ArrayStore(ids, rows, columns={"kind": kinds}), where={"kind": [kind]}, exact=True)
        assert same_as_whole(reach, rows[start::2], ids[start::2], 3 * queries, name, params)[0]


def test_rows_whose_squares_vanish_in_float32_have_a_length(small_pools):
    rows, queries = problem("clustered", 6, n=1000, d=16, batch=4)
    ids, _ = corpus(rows)
    tiny = (1e-23 * rows).astype(np.float32)
    store = ArrayStore(ids, tiny)
    assert 0.9e-23 < store.ref.longest < 1.1e-23
    assert same_as_whole(Reach(store, exact=True), tiny, ids, queries, "max_sum", {"polish": False})[0]


@pytest.mark.parametrize("seed", range(6))
def test_greed_among_copies_is_proven_only_where_its_steps_are_known(small_pools, seed):
    rows, queries = problem("duplicated", seed, n=800, d=12, batch=4)
    rows = np.round(rows * 4).astype(np.float32) / 4
    ids, _ = corpus(rows)
    params = {"relevance_weight": 0.3, "polish": False}
    assert same_as_whole(Reach(ArrayStore(ids, rows), exact=True), rows, ids, queries, "max_sum", params)[0]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("l2", [0.0, 1e-9, 0.1])
@pytest.mark.parametrize("fill", ["strict", "fill"])
def test_weights_that_rounding_could_order_otherwise_are_not_proven(small_pools, seed, l2, fill):
    rng = np.random.default_rng(seed)
    copies = unit(rng.standard_normal((300, 16)))[rng.integers(300, size=1500)].astype(np.float32)
    near = unit(copies[:3] + 0.1 * rng.standard_normal((3, 16))).astype(np.float32)
    grid = rng.integers(-2, 3, size=(700, 3 + 2 * (seed % 2))).astype(np.float32)
    points = rng.integers(-2, 3, size=(3, grid.shape[1])).astype(np.float32)
    for rows, queries in ((copies, near), (grid, points)):
        ids, _ = corpus(rows)
        reach = Reach(ArrayStore(ids, rows), exact=True)
        for k in (8, 40):
            for l1 in (0.0, 0.05, 0.1):
                params = {"l1": l1, "l2": l2, "fill": fill}
                assert same_as_whole(reach, rows, ids, queries, "nnn", params, k)[0], (l1, k)


def test_weights_of_ordinary_documents_are_proven_at_every_preset(small_pools):
    rows, queries = problem("clustered", 3, n=3000, d=64, batch=8)
    ids, _ = corpus(rows)
    reach = Reach(ArrayStore(ids, rows), exact=True)
    for l2 in (0.0, 1e-6, 0.1):
        info = engine.decode(decoder("nnn", {"l1": 0.1, "l2": l2}), reach, queries, K).info
        assert [own["scope"] for own in info] == ["proven"] * len(queries)


class UnmeasuredStore(ArrayStore):
    """A store that says of filtered documents only what holds of all."""

    ref = property(lambda self: ArrayStore.ref_of(self, None))

    def ref_of(self, where):
        return VectorStore.ref_of(self, where)


@pytest.mark.parametrize(("name", "params"), ATTACKED, ids=str)
def test_few_documents_of_unknown_length_are_not_taken_for_unit(name, params):
    rng = np.random.default_rng(0)
    rows = unit(rng.standard_normal((2000, 6)))
    few = np.sort(rng.choice(2000, 100, replace=False))
    rows[few] *= rng.uniform(0.5, 2, (100, 1))
    rows, ids = rows.astype(np.float32), tuple(f"d{row}" for row in range(2000))
    kinds = np.where(np.isin(np.arange(2000), few), "few", "many").tolist()
    reach = Reach(UnmeasuredStore(ids, rows, columns={"kind": kinds}), where={"kind": ["few"]}, exact=True)
    queries = 3 * unit(rng.standard_normal((3, 6))).astype(np.float32)
    assert same_as_whole(reach, rows[few], [ids[row] for row in few], queries, name, params)[0]


def test_whether_rows_are_unit_is_said_only_where_float32_says_the_same():
    eps, rng = np.finfo(np.float32).eps, np.random.default_rng(0)
    for factor in np.linspace(6, 10, 200):
        rows = unit(rng.standard_normal((50, 24)))
        rows[0] *= 1 + factor * eps
        rows = rows.astype(np.float32)
        said = ArrayStore(tuple(map(str, range(50))), rows).ref.unit
        assert said in (None, Matrix(torch.from_numpy(rows)).unit)
    assert is_unit(0.0) and is_unit(1e-3) is False


def test_gains_that_are_equal_up_to_rounding_are_not_proven_to_differ(small_pools):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        rows = (unit(rng.standard_normal((3000, 3))) * rng.uniform(0.5, 2, (3000, 1))).astype(np.float32)
        longest = rows[[np.linalg.norm(rows, axis=1).argmax()]]
        ids, _ = corpus(rows)
        reach = Reach(ArrayStore(ids, rows), exact=True)
        for factor, weight in ((2, 1 / 3), (1, 0.5)):
            assert same_as_whole(reach, rows, ids, factor * longest, "mmr", {"relevance_weight": weight}, 2)[0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("name", "params"), [("top_k", {}), *ATTACKED, ("facility_location", {})], ids=str)
def test_documents_that_are_all_zero_tie_and_prove_nothing(name, params):
    rows, ids = np.zeros((700, 4), np.float32), tuple(f"d{row}" for row in range(700))
    reach = Reach(ArrayStore(ids, rows), exact=True)
    for k in (1, 3):
        assert same_as_whole(reach, rows, ids, np.ones((1, 4), np.float32), name, params, k)[0]


@pytest.mark.parametrize(("name", "params"), [*ATTACKED, ("vrsd", {})], ids=str)
def test_pool_of_exactly_all_documents_is_the_corpus(name, params):
    rows, queries = problem("clustered", 2, n=500, d=16, batch=2)
    ids, _ = corpus(rows)
    reach = Reach(ArrayStore(ids, rows), exact=True)
    same, _ = same_as_whole(reach, rows, ids, queries, name, params)
    assert same
    assert [info["scope"] for info in engine.decode(decoder(name, params), reach, queries, K).info] == ["proven"] * 2


@pytest.mark.parametrize(("name", "weight"), [("mmr", 0.3), ("dpp", 0.5)])
def test_index_that_ends_early_leaves_picks_open_and_a_proof_goes_past_it(name, weight):
    rng = np.random.default_rng(0)
    rows = unit(rng.standard_normal((2000, 8))).astype(np.float32)
    queries = unit(rng.standard_normal((1, 8))).astype(np.float32)
    ids, _ = corpus(rows)
    reach, chosen = Reach(LossyStore(ids, rows)), decoder(name, {"relevance_weight": weight})
    assert engine.decode(chosen, reach, queries, K).info[0]["scope"] != "proven"
    assert reach.prove(chosen, queries, K).info[0]["scans"] > 0


def test_picks_of_equal_gain_are_not_proven_to_be_in_order(small_pools):
    # The contributions of two to their own distance are equal.
    for seed in range(6):
        rng = np.random.default_rng(seed)
        rows = 1000 * unit(rng.standard_normal((2500, 24))).astype(np.float32)
        ids, _ = corpus(rows)
        queries = rows[:6] + rng.standard_normal((6, 24)).astype(np.float32)
        params = {"relevance_weight": 0.0, "polish": False}
        assert same_as_whole(Reach(ArrayStore(ids, rows), exact=True), rows, ids, queries, "max_sum", params, 2)[0]
