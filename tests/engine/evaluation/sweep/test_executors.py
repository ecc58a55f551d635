"""Sweeps in processes and on a cluster: the same points as here, whoever is killed; a store travels as its name."""

import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.data.endpoints.consent import Estimate, require_consent
from engine.evaluation.sweep import compute, executors
from engine.evaluation.sweep.compute import MAX_BLOCK_QUERIES, Task, collect_digests, embed_for_space
from engine.evaluation.sweep.executors import MAX_WORKER_DEATHS
from engine.evaluation.sweep.store import Store
from engine.values import EncoderRef
from support.clusters import Cluster, dask
from support.instances import problem
from support.patience import patient, until
from support.points import digest_of_all
from support.sweeps import (
    KS,
    METRICS,
    count_units,
    end_process,
    is_alive,
    list_walkers,
    make_patients,
    put_patient,
    read_trail,
    start_client,
    toy,
)

STARTS = range(8)
CELLS = {(start, k) for start in STARTS for k in KS}
SOON = 5.0
"""Seconds: far more than a cancelled sweep takes to say so."""


def run_sweep(starts=STARTS, k=KS, **options):
    return engine.sweep(make_patients(starts), *toy(), k, METRICS, split="toy", **options)


@pytest.fixture
def trail(tmp_path, monkeypatch):
    """Return the file in which this process's patient selector records its calls."""
    put_patient(monkeypatch, tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def expected_digest(trail):
    """The digest of the sweep when nobody interferes."""
    digest = digest_of_all(run_sweep())
    trail.unlink()
    return digest


def read_output(process):
    """Return the client's output; it must have succeeded."""
    out, errors = process.communicate(timeout=patient(180))
    assert process.returncode == 0, errors
    return out.strip()


def wait_until_all_work(process, trail, workers):
    """Wait until all workers are at it."""
    until(lambda: process.poll() is not None or (len(count_units(trail)) > 4 and len(list_walkers(trail)) == workers))
    assert process.poll() is None, process.communicate()


def collect_starts(points):
    return {(p.decoder["select"]["start"], p.k) for p in points}


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.deep)])
def test_processes_give_the_points_of_this_one_and_count_their_cells(workers):
    all_decoders = [*engine.grid("mmr", 3), *engine.grid("facility_location", 2), *engine.grid("vrsd")]
    seen = []
    alone = list(engine.sweep(all_decoders, *toy(), (1, 3, 5)))
    points = list(
        engine.sweep(all_decoders, *toy(), (1, 3, 5), workers=workers, progress=lambda *said: seen.append(said[:2]))
    )
    assert len(points) == 18 and digest_of_all(points) == digest_of_all(alone)
    assert seen == [(done, 18) for done in range(19)]
    assert not multiprocessing.active_children()


def assert_ends_when_stopped(points, stop):
    next(points)
    stop.set()
    since = time.monotonic()
    with pytest.raises(engine.Cancelled, match="stopped"):
        list(points)
    assert time.monotonic() - since < SOON


@pytest.mark.deep
def test_workers_end_when_stopped_or_abandoned():
    stop = threading.Event()
    points = engine.sweep(engine.grid("frank_wolfe", 101), *toy(n=400, d=32, batch=64), 10, workers=1, stop=stop)
    assert_ends_when_stopped(points, stop)
    until(lambda: not multiprocessing.active_children())

    points = engine.sweep(engine.grid("frank_wolfe", 101), *toy(n=400, d=32, batch=64), 10, workers=1)
    next(points)
    points.close()
    assert not multiprocessing.active_children()


@pytest.mark.deep
def test_an_error_of_a_worker_is_that_of_its_cell(trail):
    """The workers of this process have never heard of the patient selector."""
    with pytest.raises(engine.ParamError, match="no method is called 'patient'"):
        list(run_sweep(workers=1))
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("workers", [None, pytest.param(2, marks=pytest.mark.deep)])
def test_a_killed_client_leaves_what_it_finished_and_no_worker(workers, tmp_path, trail, expected_digest):
    path, trail_path = tmp_path / "cells.db", tmp_path / "there"
    process = start_client(trail_path, STARTS, pace=0.2, store=str(path), **({"workers": workers} if workers else {}))
    try:
        wait_until_all_work(process, trail_path, workers or 1)
        process.kill()
        process.wait(patient(30))
        crew = list_walkers(trail_path)
        assert (process.pid in crew) == (not workers)
        until(lambda: not any(map(is_alive, crew)), 20)
    finally:
        end_process(process, trail_path)
    stored = collect_starts(Store(path).read_cells())
    assert 0 < len(stored) < len(CELLS), "killed in the middle"
    assert digest_of_all(run_sweep(store=path)) == expected_digest
    assert count_units(trail) == dict.fromkeys(CELLS - stored, 1), "what was missing, once, and nothing else"
    assert digest_of_all(Store(path).read_cells()) == expected_digest


@pytest.mark.deep
def test_ctrl_c_ends_the_workers_between_two_blocks_of_queries(tmp_path):
    trail_path = tmp_path / "there"
    process = start_client(trail_path, STARTS, 5, pace=0.2, workers=2, batch=60 * MAX_BLOCK_QUERIES)
    try:
        until(lambda: process.poll() is not None or len(read_trail(trail_path)) > 2)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=patient(60))
    finally:
        end_process(process, trail_path)
    assert process.returncode != 0 and not out and "KeyboardInterrupt" in errors
    assert max(count_units(trail_path).values()) < 60, "no unit was finished for nobody"
    assert not any(map(is_alive, list_walkers(trail_path)))


@pytest.mark.deep
def test_low_memory_leaves_one_worker(tmp_path, trail):
    """Two units at once exhaust a worker's memory, each alone does not."""
    process = start_client(tmp_path / "there", range(4), 5, pace=1, fatal="company", workers=2)
    try:
        assert read_output(process) == digest_of_all(run_sweep(range(4), 5))
    finally:
        end_process(process, tmp_path / "there")
    assert len(list_walkers(tmp_path / "there")) > 2


@pytest.mark.deep
def test_killed_worker_loses_only_its_unit(tmp_path, expected_digest):
    path, trail_path = tmp_path / "cells.db", tmp_path / "there"
    process = start_client(trail_path, STARTS, pace=0.2, store=str(path), workers=2)
    try:
        wait_until_all_work(process, trail_path, 2)
        starts_before, victim = collect_starts(Store(path).read_cells()), read_trail(trail_path)[-1][0]
        os.kill(victim, signal.SIGKILL)
        assert read_output(process) == expected_digest
    finally:
        end_process(process, trail_path)
    assert digest_of_all(Store(path).read_cells()) == expected_digest
    often = count_units(trail_path)
    assert set(often) == CELLS and all(often[cell] == 1 for cell in starts_before)
    assert sum(often.values()) <= len(CELLS) + 4, "only what was under way is computed again"
    assert len(list_walkers(trail_path)) > 2 and 0 < len(starts_before) < len(CELLS)


@pytest.mark.deep
def test_a_unit_whose_worker_always_dies_is_given_up_after_the_others(tmp_path, trail):
    path, trail_path = tmp_path / "cells.db", tmp_path / "there"
    process = start_client(trail_path, range(4), 5, fatal=1, store=str(path), workers=2)
    try:
        out, errors = process.communicate(timeout=patient(180))
    finally:
        end_process(process, trail_path)
    assert process.returncode == 1 and not out
    assert "FrontierError: workers keep dying, the last one at dense → patient(start=1)" in errors
    assert collect_starts(Store(path).read_cells()) == {(0, 5), (2, 5), (3, 5)}
    deaths = count_units(trail_path)[1, 5]
    assert MAX_WORKER_DEATHS <= deaths <= 2 * MAX_WORKER_DEATHS
    assert len(list_walkers(trail_path)) <= 2 * (deaths + 1), "no more pools than deaths"


def test_a_worker_of_a_cluster_sends_no_texts(monkeypatch):
    """Its allowance would be a new one for every unit."""
    monkeypatch.setattr(compute, "unpack_unit", lambda unit: unit)
    monkeypatch.setattr(compute, "compute_unit", lambda task, unit, stop: require_consent(Estimate(1, 2, "h")))
    with pytest.raises(engine.FrontierError, match=r"would send 1 text.*workers of a cluster send no texts"):
        compute.Task.cells(None, {})


def test_without_dask_it_says_what_to_install(trail, monkeypatch):
    monkeypatch.setitem(sys.modules, "dask.distributed", None)
    with pytest.raises(engine.FrontierError, match=r"pip install 'frontier-retrieval\[cluster\]'"):
        next(run_sweep(cluster="tcp://127.0.0.1:1"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    dask_cluster = Cluster(tmp_path_factory.mktemp("dask"))
    try:
        yield dask_cluster
    finally:
        dask_cluster.end()


@pytest.mark.deep
@dask
def test_a_cluster_gives_the_same_points_though_a_worker_is_killed(cluster, tmp_path, expected_digest):
    crew, path, points, seen = cluster.scale_to(2), tmp_path / "cells.db", [], []
    for point in run_sweep(cluster=crew.address, store=path, progress=lambda *said: seen.append(said[:2])):
        points.append(point)
        if len(points) == 6:
            until(lambda: len(count_units(crew.trail)) > 7)
            crew.kill(read_trail(crew.trail)[-1][0])
    assert digest_of_all(points) == expected_digest == digest_of_all(Store(path).read_cells())
    assert seen == [(done, len(CELLS)) for done in range(len(CELLS) + 1)]
    often = count_units(crew.trail)
    assert set(often) == CELLS and len(CELLS) < sum(often.values()) <= len(CELLS) + 6, "only what it had is lost"
    assert len(list_walkers(crew.trail)) == 2


@dask
def test_a_cluster_is_left_at_once_when_stopped(cluster, trail):
    crew, stop = cluster.scale_to(1), threading.Event()
    points = run_sweep(cluster=crew.address, stop=stop)
    assert_ends_when_stopped(points, stop)
    time.sleep(1)
    assert len(count_units(crew.trail)) < len(CELLS) / 2, "what was waiting is not computed"


@pytest.mark.deep
@dask
def test_a_cluster_gives_up_a_unit_that_kills_its_workers(cluster, trail):
    crew = cluster.scale_to(3)
    with pytest.raises(engine.FrontierError, match=r"workers keep dying at dense → patient\(start=33\)"):
        list(run_sweep([33], 5, cluster=crew.address))
    assert count_units(crew.trail) == {(33, 5): 2}


@pytest.mark.deep
@dask
def test_a_cluster_that_lost_the_data_with_a_worker_is_sent_them_again(cluster, expected_digest, monkeypatch):
    crew = cluster.scale_to(1)
    points = run_sweep(cluster=crew.address)
    first = next(points)
    monkeypatch.setattr(executors, "SCHEDULER_TIMEOUT_SECONDS", patient(60))
    crew.kill(crew.workers[0].pid)
    cluster.scale_to(1)
    assert digest_of_all([first, *points]) == expected_digest


@pytest.mark.deep
@dask
def test_a_cluster_that_loses_all_workers_says_so(cluster, tmp_path, expected_digest, monkeypatch):
    crew, path = cluster.scale_to(1), tmp_path / "cells.db"
    points = run_sweep(cluster=crew.address, store=path)
    next(points)
    monkeypatch.setattr(executors, "SCHEDULER_TIMEOUT_SECONDS", 1)
    for worker in list(crew.workers):
        crew.kill(worker.pid)
    with pytest.raises(engine.FrontierError, match="lost the sweep; sweep again: what is finished is kept"):
        list(points)
    with pytest.raises(engine.FrontierError, match=f"scheduler at '{crew.address}' has no workers"):
        list(run_sweep(cluster=crew.address))
    assert digest_of_all(run_sweep(store=path)) == expected_digest
    assert 0 < sum(count_units(tmp_path / "here").values()) < len(CELLS), "what was finished is not computed again"


@dask
@pytest.mark.parametrize("silent", [False, True])
def test_silent_scheduler_raises_error_and_leaves_no_threads(silent, trail, monkeypatch):
    """A Client that fails to start keeps its threads, and at the end the process, for a while."""
    monkeypatch.setattr(executors, "SCHEDULER_TIMEOUT_SECONDS", 2)
    threads_before = {t.name for t in threading.enumerate()}
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if silent:
            server.listen()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        since = time.monotonic()
        with pytest.raises(engine.FrontierError, match=f"no Dask scheduler answers at '{address}': .+"):
            list(run_sweep(cluster=address))
        assert time.monotonic() - since < 2 + SOON
    assert {t.name for t in threading.enumerate()} <= threads_before


@dask
@pytest.mark.parametrize("address", ["nonsense", "telnet://127.0.0.1:1"])
def test_invalid_address_raises_error_naming_it(address, trail):
    with pytest.raises(engine.FrontierError, match=f"no Dask scheduler answers at '{address}': "):
        list(run_sweep(cluster=address))


QUERIES, STORE_KS, STORE_METRICS = 3, (2, 5), ("recall", "ndcg", "ilad")


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
    return [engine.Decoder(pair_decoder.select, depth=60) for pair in families for pair_decoder in pair]


def pickle_data(reach, queries, qrels):
    """Pickle the data that every worker of a sweep is sent beside its units."""
    vectors = embed_for_space(reach, queries)
    data = collect_digests(reach, vectors, qrels)
    facts = {"qrels": qrels, "aspects": None, "metrics": STORE_METRICS, "split": "", "texts_digest": ""}
    return pickle.dumps(Task(space=reach, vectors=vectors, data_digests=data, **facts))


def test_a_sweep_of_a_store_ships_queries_judgements_and_a_name(problem_in_a_store):
    reach, queries, qrels = problem_in_a_store
    engine.decode(decoders()[0], reach, queries, 10)
    assert len(reach.space) > 50, "what came back so far stays here"
    assert len(pickle_data(*problem_in_a_store)) < 8_000 < 1500 * 8 * 4
    shipped = pickle.loads(pickle_data(*problem_in_a_store))
    assert shipped.space.digest == reach.digest and shipped.vectors == queries and shipped.qrels == qrels


def test_queries_that_are_part_of_a_larger_matrix_travel_alone(problem_in_a_store):
    reach, queries, qrels = problem_in_a_store
    matrix = np.concatenate([queries.vectors.numpy(), np.ones((50_000, 8), queries.vectors.numpy().dtype)])
    query_part = engine.Embeddings(
        queries.ids, engine.Embeddings(tuple(map(str, range(len(matrix)))), matrix).vectors[:QUERIES]
    )
    alone = pickle_data(reach, query_part, qrels)
    assert len(alone) < 8_000 and pickle.loads(alone).vectors == queries


@pytest.mark.deep
def test_the_encoder_of_a_reach_travels_by_name_without_its_weights(problem_in_a_store):
    ref = EncoderRef("an encoder that is not here", "f" * 64, "float32")
    reach = engine.reach.Reach(problem_in_a_store[0].store, encoder=ref)
    assert pickle.loads(pickle.dumps(reach)).encoder == ref


@pytest.mark.deep
@dask
def test_a_store_swept_on_a_cluster_is_complete_whoever_was_killed(problem_in_a_store, tmp_path, monkeypatch):
    # Whoever looked for the lost scheduler until this is over would meet the suite's limit.
    monkeypatch.setattr(executors, "SCHEDULER_TIMEOUT_SECONDS", patient(900))
    undisturbed = digest_of_all(engine.sweep(decoders(), *problem_in_a_store, STORE_KS, STORE_METRICS))
    path, cells, options = (
        tmp_path / "cells.db",
        [],
        {"k": STORE_KS, "metrics": STORE_METRICS, "store": tmp_path / "cells.db"},
    )
    crew = Cluster(tmp_path / "first")
    try:
        crew.scale_to(2)
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
    digests = [cell.digest for cell in Store(path).read_cells()]
    assert 10 <= len(digests) < 2 * len(decoders()), "killed in the middle"
    crew = Cluster(tmp_path / "second")
    try:
        again = list(engine.sweep(decoders(), *problem_in_a_store, **options, cluster=crew.scale_to(2).address))
    finally:
        crew.end()
    assert len(again) == 2 * len(decoders()) and set(digests) <= {cell.digest for cell in again}
    assert digest_of_all(again) == undisturbed == digest_of_all(Store(path).read_cells())
