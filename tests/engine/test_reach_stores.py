"""Reach over every kind of store: the whole corpus's answers, or not proven."""

import pickle

import numpy as np
import pytest

import engine
from support.draws import every_other
from support.instances import problem
from support.stores import KINDS, PASSWORD

K = 8
CELLS = [
    ("top_k", {}),
    ("mmr", {"relevance_weight": 0.5}),
    ("dpp", {"relevance_weight": 0.7}),
    ("max_sum", {"relevance_weight": 0.7, "polish": False}),
    ("nnn", {"l1": 0.1, "l2": 0.1}),
]


def decoder(name, params):
    return engine.Decoder(engine.make(name, **params))


def documents(n=1500, d=24, seed=5):
    rows, queries = problem("clustered", seed, n=n, d=d, batch=3)
    ids = tuple(f"d{row}" for row in range(n))
    space = engine.Space(engine.Corpus(ids, ("",) * n), engine.Embeddings(ids, rows))
    return ids, rows, queries, space


@pytest.mark.parametrize(("kind", "cells"), every_other(KINDS, [CELLS[::2], CELLS[1::2]]))
def test_exact_answers_are_those_of_the_whole_corpus(engines, kind, cells):
    ids, rows, queries, space = documents()
    reach = engine.Reach(engines.store_of(kind, ids, rows), exact=True)
    for name, params in cells:
        full = engine.decode(decoder(name, params), space, queries, K)
        answer = engine.decode(decoder(name, params), reach, queries, K)
        for q, info in enumerate(answer.info):
            expected = [ids[row] for row in full.rows(q)]
            if kind.startswith("milvus"):
                # Nothing says that Milvus showed one state of the collection to all questions.
                assert info["scope"] != "proven"
                assert info["scope"] == "pool" or list(info["ids"]) == expected
            else:
                assert info["scope"] == "proven" and list(info["ids"]) == expected, (name, q)
            named = [reach.space.corpus.ids[row] for row in answer.rows(q)]
            assert named == list(info["ids"]) and reach.space.corpus.texts[answer.rows(q)[0]] == f"text {named[0]}"


@pytest.mark.parametrize("kind", KINDS)
def test_filter_makes_a_corpus_of_what_matches(engines, kind):
    ids, rows, queries, _ = documents()
    chosen = list(range(0, len(ids), 2))
    part = tuple(ids[row] for row in chosen)
    space = engine.Space(engine.Corpus(part, ("",) * len(part)), engine.Embeddings(part, rows[chosen]))
    reach = engine.Reach(engines.store_of(kind, ids, rows), where={"parity": ["even"]}, exact=True)
    assert len(reach) == len(part)
    full = engine.decode(decoder("mmr", {"relevance_weight": 0.6}), space, queries, K)
    answer = engine.decode(decoder("mmr", {"relevance_weight": 0.6}), reach, queries, K)
    assert [list(info["ids"]) for info in answer.info] == [[part[r] for r in full.rows(q)] for q in range(3)]


@pytest.mark.deep
def test_index_of_pgvector_proves_nothing_and_a_proof_takes_at_most_three_scans(engines):
    ids, rows, queries, space = documents(n=6000, d=48)
    store = engines.store_of("pgvector", ids, rows, index="hnsw")
    store.table = type(store.table)(**{**vars(store.table), "force_index": True})
    reach = engine.Reach(store)
    missed = 0
    for name, params in [*CELLS, ("nnn", {"l1": 0.01, "l2": 0.01})]:
        full = engine.decode(decoder(name, params), space, queries, K)
        by_index = engine.decode(decoder(name, params), reach, queries, K)
        proved = reach.prove(decoder(name, params), queries, K)
        for q in range(len(queries)):
            expected, info, proof = [ids[row] for row in full.rows(q)], by_index.info[q], proved.info[q]
            assert info["plan"].startswith("index") and info["scope"] != "proven" and info["scans"] == 0
            missed += list(info["ids"]) != expected
            assert proof["scope"] == "proven" and proof["scans"] <= 3, (name, proof)
            assert list(proof["ids"]) == expected
    assert missed, "the index found everything: nothing is shown"


def test_weights_that_a_proof_certifies_have_no_violator_in_a_full_scan(engines):
    ids, rows, queries, _ = documents(n=6000, d=48)
    store = engines.store_of("pgvector", ids, rows, index="hnsw")
    store.table = type(store.table)(**{**vars(store.table), "force_index": True})
    for l1, l2 in ((0.1, 0.1), (0.01, 0.01)):
        proved = engine.Reach(store).prove(decoder("nnn", {"l1": l1, "l2": l2}), queries, 400)
        rows_by_name = {name: row for row, name in enumerate(ids)}
        for q, info in enumerate(proved.info):
            chosen = [rows_by_name[name] for name in info["ids"]]
            weights = proved.gain[q, : len(chosen)].numpy()
            residual = queries[q].astype(np.float64) - weights @ rows[chosen].astype(np.float64)
            violation = np.concatenate([block @ residual for _, block in store.scan(1000)]) - l1
            violation[chosen] -= l2 * weights
            assert info["scope"] == "proven" and violation.max() <= 1e-6


def test_rows_added_between_two_answers_are_seen(engines):
    ids, rows, queries, _ = documents()
    store = engines.store_of("pgvector", ids, rows)
    reach = engine.Reach(store, exact=True)
    first = engine.decode(decoder("top_k", {}), reach, queries[:1], 1).info[0]
    engines.add(store, "newcomer", queries[0])
    after = engine.decode(decoder("top_k", {}), reach, queries[:1], 1).info[0]
    assert first["ids"] != after["ids"] == ("newcomer",)
    assert after["documents"] == first["documents"] + 1 == len(reach)


def test_write_elsewhere_in_the_cluster_keeps_what_is_known_but_for_texts(engines):
    ids, rows, queries, _ = documents()
    store = engines.store_of("pgvector", ids, rows)
    reach = engine.Reach(store, exact=True)
    before = engine.decode(decoder("mmr", {}), reach, queries[:1], K)
    space, snapshot = reach.space, reach.ref.snapshot
    first = space.corpus.texts[before.rows(0)[0]]
    engines.pg.execute(f"UPDATE {store.table.table} SET txt = 'other'")
    after = engine.decode(decoder("mmr", {}), reach, queries[:1], K)
    assert reach.ref.snapshot != snapshot and reach.space is space and after.info[0]["scope"] == "proven"
    assert after.rows(0) == before.rows(0) and after.info[0]["trips"] < before.info[0]["trips"]
    assert space.corpus.texts[after.rows(0)[0]] == "other" != first


def test_milvus_that_changes_while_it_is_asked_is_refused(engines, monkeypatch):
    ids, rows, queries, _ = documents(n=800)
    store = engines.store_of("milvus file", ids, rows)
    reach = engine.Reach(store)
    search = store.search

    def searched(*args, **kwargs):
        engines.add(store, "newcomer", queries[0])
        return search(*args, **kwargs)

    monkeypatch.setattr(store, "search", searched)
    with pytest.raises(engine.DataError, match="changed while asked"):
        engine.decode(decoder("top_k", {}), reach, queries[:1], 3)


def test_what_travels_of_a_reach_is_its_name(engines):
    ids, rows, _, _ = documents(n=300)
    sent = pickle.dumps(engine.Reach(engines.store_of("pgvector", ids, rows)).__reduce__()[1])
    assert len(sent) < 1000 and PASSWORD.encode() not in sent
