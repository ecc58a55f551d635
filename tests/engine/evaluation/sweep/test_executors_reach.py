"""Sweeps of a corpus in a vector engine on a cluster: what travels is its name, and every worker opens it itself."""

import pickle
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.evaluation.sweep import executors
from engine.evaluation.sweep.compute import Task, digests_of, embedded
from engine.evaluation.sweep.store import Store
from engine.values import EncoderRef
from support.clusters import Cluster, dask
from support.instances import problem
from support.patience import patient
from support.points import digest_of_all

QUERIES, KS, METRICS = 3, (2, 5), ("recall", "ndcg", "ilad")


@pytest.fixture
def problem_in_a_store(tmp_path, monkeypatch):
    """(reach, queries, judgements) over a mapped file that this process's FRONTIER_HOME names."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("FRONTIER_HOME", str(home))
    rows, points = problem("clustered", 0, n=1500, d=8, batch=QUERIES)
    np.save(home / "docs.npy", np.asarray(rows, np.float32))
    (home / "stores.toml").write_text(f'[files]\nkind = "vectors"\n\n[files.docs]\npath = "{home}/docs.npy"\n')
    reach = engine.attach("files/docs")
    queries = engine.Embeddings(tuple(f"q{row}" for row in range(QUERIES)), points)
    near = engine.decode(engine.Decoder(engine.make("top_k")), reach, queries, 5)
    return reach, queries, engine.Qrels({f"q{row}": dict.fromkeys(near.info[row]["ids"], 1) for row in range(QUERIES)})


def decoders(points=8):
    """Decoders of two families by turns, so that each is a unit of its own."""
    families = zip(engine.grid("mmr", points), engine.grid("ssd", points), strict=False)
    return [engine.Decoder(one.select, depth=60) for pair in families for one in pair]


def sent(reach, queries, qrels):
    """What every worker of a sweep is sent beside its units, pickled."""
    vectors = embedded(reach, queries)
    data = digests_of(reach, vectors, qrels)
    facts = {"qrels": qrels, "aspects": None, "metrics": METRICS, "split": "", "data": data, "texts": ""}
    return pickle.dumps(Task(space=reach, vectors=vectors, **facts))


def test_a_sweep_of_a_store_ships_queries_judgements_and_a_name(problem_in_a_store):
    reach, queries, qrels = problem_in_a_store
    engine.decode(decoders()[0], reach, queries, 10)
    assert len(reach.space) > 50, "what came back so far stays here"
    assert len(sent(*problem_in_a_store)) < 8_000 < 1500 * 8 * 4
    there = pickle.loads(sent(*problem_in_a_store))
    assert there.space.digest == reach.digest and there.vectors == queries and there.qrels == qrels


def test_queries_that_are_part_of_a_larger_matrix_travel_alone(problem_in_a_store):
    reach, queries, qrels = problem_in_a_store
    many = np.concatenate([queries.vectors.numpy(), np.ones((50_000, 8), queries.vectors.numpy().dtype)])
    few = engine.Embeddings(queries.ids, engine.Embeddings(tuple(map(str, range(len(many)))), many).vectors[:QUERIES])
    alone = sent(reach, few, qrels)
    assert len(alone) < 8_000 and pickle.loads(alone).vectors == queries


def test_the_encoder_of_a_reach_travels_by_name_without_its_weights(problem_in_a_store):
    ref = EncoderRef("an encoder that is not here", "f" * 64, "float32")
    reach = engine.reach.Reach(problem_in_a_store[0].store, encoder=ref)
    assert pickle.loads(pickle.dumps(reach)).encoder == ref


@dask
def test_a_store_swept_on_a_cluster_is_complete_whoever_was_killed(problem_in_a_store, tmp_path, monkeypatch):
    # Whoever looked for the lost scheduler until this is over would meet the suite's limit.
    monkeypatch.setattr(executors, "ANSWER", patient(900))
    undisturbed = digest_of_all(engine.sweep(decoders(), *problem_in_a_store, KS, METRICS))
    path, cells, options = tmp_path / "cells.db", [], {"k": KS, "metrics": METRICS, "store": tmp_path / "cells.db"}
    crew = Cluster(tmp_path / "first")
    try:
        crew.crew(2)
        with pytest.raises(engine.FrontierError, match=f"cluster at '{crew.address}' lost the sweep; sweep again"):
            for cell in engine.sweep(decoders(), *problem_in_a_store, **options, cluster=crew.address):
                cells.append(cell)
                if len(cells) == 4:
                    crew.kill(crew.workers[0].pid)
                if len(cells) == 10:
                    maps = Path(f"/proc/{crew.scheduler.pid}/maps")
                    assert not maps.exists() or "libtorch" not in maps.read_text(), "the scheduler imports no engine"
                    crew.scheduler.kill()
                    crew.scheduler.wait(patient(30))
    finally:
        crew.end()
    kept = [cell.digest for cell in Store(path).points()]
    assert 10 <= len(kept) < 2 * len(decoders()), "killed in the middle"
    crew = Cluster(tmp_path / "second")
    try:
        again = list(engine.sweep(decoders(), *problem_in_a_store, **options, cluster=crew.crew(2).address))
    finally:
        crew.end()
    assert len(again) == 2 * len(decoders()) and set(kept) <= {cell.digest for cell in again}
    assert digest_of_all(again) == undisturbed == digest_of_all(Store(path).points())
