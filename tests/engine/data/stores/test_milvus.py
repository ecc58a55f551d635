"""Milvus: what is refused, a server that goes and comes back, and errors without a token."""

import builtins
import logging
import os
import pickle
import signal
import threading
import traceback

import numpy as np
import pytest

from engine.data.stores.milvus import MilvusStore
from engine.data.stores.milvus_collection import MilvusAccess, MilvusTable, translate_errors
from engine.errors import DataError
from support.instances import unit
from support.stores import free_port, make_collection, milvus_server, skip_without

MAX_WAIT_S = 5.0
ROWS = unit(np.random.default_rng(0).standard_normal((80, 8))).astype(np.float32)
IDS = [f'd "{row}"' for row in range(80)]
TOKEN = "t0ken-of-the-tests"


@pytest.fixture
def server():
    """One of the test's own, to be stopped."""
    with milvus_server() as started:
        yield started


@pytest.fixture
def new_clients(monkeypatch):
    """The clients that are made."""
    opened, client = [], MilvusAccess.client
    monkeypatch.setattr(MilvusAccess, "client", lambda self: opened.append(client(self)) or opened[-1])
    return opened


def error_of(call):
    with pytest.raises(DataError) as caught:
        call()
    return caught.value


def test_no_call_waits_five_seconds_for_an_engine():
    assert MilvusAccess(name="milvus", uri="http://127.0.0.1:1").timeout < MAX_WAIT_S


@pytest.mark.deep
def test_a_server_that_is_killed_is_an_error_in_time_and_answers_once_it_is_back(server):
    access = MilvusAccess(name="milvus", uri=server.uri)
    make_collection(access.client(), "docs", IDS, ROWS, IDS)
    access.client().flush("docs")
    store = MilvusStore(access, MilvusTable(collection="docs"))
    expected = store.search(ROWS[:2], 5).ids
    server.stop(signal.SIGKILL)
    for call in (lambda: store.search(ROWS[:2], 5), lambda: store.count(), lambda: list(store.scan(10))):
        assert "is gone" in str(error_of(call))
    server.start()
    store.rows.call("load_collection")
    assert store.search(ROWS[:2], 5).ids == expected


def test_an_engine_that_is_only_slow_says_what_to_raise_and_keeps_its_client(engines, new_clients):
    store = engines.store_of("milvus server", IDS, ROWS)
    n_before = len(new_clients)
    engines.milvus.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, engines.milvus.process.pid, os.WSTOPPED)
    try:
        message = str(error_of(lambda: store.rows.call("query", timeout=0.3, filter="", output_fields=["count(*)"])))
    finally:
        engines.milvus.process.send_signal(signal.SIGCONT)
    assert "no answer within 0.3 s" in message and "raise its `timeout`" in message and "is gone" not in message
    assert store.count() == 80 and len(new_clients) == n_before


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("ValueError", f"no such thing as {TOKEN}", "cannot answer: ValueError"),
        ("PermissionError", f"/data/{TOKEN}", "cannot answer: PermissionError"),
        ("ValueError", "Cannot invoke RPC on closed channel!", "is gone"),
        ("MilvusException", "Retry timeout: StatusCode.DEADLINE_EXCEEDED", "gave no answer within"),
        ("MilvusException", "Retry timeout: StatusCode.UNAVAILABLE, failed to connect", "is gone"),
        ("MilvusException", "field authors not found", "cannot answer: field authors"),
        ("MilvusException", "auth check failure", r"refused the token \(no token_env"),
    ],
)
def test_error_message_names_its_kind(kind, text, message):
    skip_without("pymilvus")
    from pymilvus.exceptions import MilvusException

    error = MilvusException(message=text) if kind == "MilvusException" else getattr(builtins, kind)(text)
    with pytest.raises(DataError, match=message) as caught, translate_errors(MilvusAccess(name="milvus", uri="a.db")):
        raise error
    assert TOKEN not in str(caught.value)


def test_threads_share_one_client(engines, new_clients):
    store = engines.store_of("milvus file", IDS, ROWS)
    n_before = len(new_clients)
    threads = [threading.Thread(target=store.count) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(new_clients) == n_before


@pytest.mark.parametrize("metric", ["COSINE", "L2"])
def test_another_metric_is_refused(engines, metric):
    access = MilvusAccess(name="lite", uri=str(engines.folder / "metrics.db"))
    make_collection(access.client(), metric.lower(), IDS, ROWS, IDS, metric=metric)
    with pytest.raises(DataError, match=f"metric {metric}; IP is needed"):
        MilvusStore(access, MilvusTable(collection=metric.lower()))


def test_a_graph_is_asked_but_never_exactly(engines):
    store = engines.store_of("milvus file", IDS, ROWS, index="hnsw")
    assert not store.search(ROWS[:1], 5).exact
    with pytest.raises(DataError, match=r"HNSW index.*index_type FLAT"):
        store.search(ROWS[:1], 5, exact=True)


def test_a_file_or_a_field_that_is_not_there_is_refused_by_name(engines):
    with pytest.raises(DataError, match="there is no file"):
        MilvusStore(MilvusAccess(name="lite", uri=str(engines.folder / "none.db")), MilvusTable(collection="docs"))
    store = engines.store_of("milvus file", IDS, ROWS)
    with pytest.raises(DataError, match="no field 'nosuch'; it has id, v"):
        MilvusStore(store.access, MilvusTable(collection=store.table.collection, vector="nosuch"))


def test_no_token_is_in_any_error_repr_pickle_or_log(engines, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("FRONTIER_TEST_TOKEN", f"root:{TOKEN}")
    access = MilvusAccess(name="milvus", uri=engines.milvus.uri, token_env="FRONTIER_TEST_TOKEN")
    make_collection(access.client(), "with_token", IDS, ROWS, IDS)
    store = MilvusStore(access, MilvusTable(collection="with_token"))
    unreachable = MilvusAccess(name="milvus", uri=f"http://127.0.0.1:{free_port()}", token_env="FRONTIER_TEST_TOKEN")
    assert "is gone" in str(error_of(unreachable.client))
    calls = [unreachable.client, lambda: store.rows.call("query", filter="nosuch = (", output_fields=["id"])]
    outputs = ["".join(traceback.format_exception(error_of(call))) for call in calls]
    for text in [
        *outputs,
        repr(store),
        repr(store.access),
        str(vars(store)),
        repr(store.ref),
        repr(pickle.dumps(store)),
        caplog.text,
    ]:
        assert TOKEN not in text
    monkeypatch.delenv("FRONTIER_TEST_TOKEN")
    with pytest.raises(DataError, match="FRONTIER_TEST_TOKEN, which is not set"):
        access.client()
