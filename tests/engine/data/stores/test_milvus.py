"""Milvus: what is refused, a server that goes and comes back, and errors without a token."""

import logging
import pickle
import signal
import traceback

import numpy as np
import pytest

from engine.data.stores.milvus import MilvusStore
from engine.data.stores.milvus_collection import MilvusAccess, MilvusTable
from engine.errors import DataError
from support.instances import unit
from support.stores import free_port, make_collection, milvus_server

GONE = 5.0
ROWS = unit(np.random.default_rng(0).standard_normal((80, 8))).astype(np.float32)
IDS = [f'd "{row}"' for row in range(80)]
TOKEN = "t0ken-of-the-tests"


@pytest.fixture
def server():
    """One of the test's own, to be stopped."""
    with milvus_server() as own:
        yield own


def error_of(call):
    with pytest.raises(DataError) as caught:
        call()
    return caught.value


def test_no_call_waits_five_seconds_for_an_engine():
    assert MilvusAccess(name="milvus", uri="http://127.0.0.1:1").seconds < GONE


def test_a_server_that_is_killed_is_an_error_in_time_and_answers_once_it_is_back(server):
    access = MilvusAccess(name="milvus", uri=server.uri)
    make_collection(access.client(), "docs", IDS, ROWS, IDS)
    access.client().flush("docs")
    own = MilvusStore(access, MilvusTable(collection="docs"))
    expected = own.search(ROWS[:2], 5).ids
    server.stop(signal.SIGKILL)
    for call in (lambda: own.search(ROWS[:2], 5), lambda: own.count(), lambda: list(own.scan(10))):
        assert "is gone" in str(error_of(call))
    server.start()
    own.rows.call("load_collection")
    assert own.search(ROWS[:2], 5).ids == expected


@pytest.mark.parametrize("metric", ["COSINE", "L2"])
def test_another_metric_is_refused(engines, metric):
    access = MilvusAccess(name="lite", uri=str(engines.folder / "metrics.db"))
    make_collection(access.client(), metric.lower(), IDS, ROWS, IDS, metric=metric)
    with pytest.raises(DataError, match=f"metric {metric}; IP is needed"):
        MilvusStore(access, MilvusTable(collection=metric.lower()))


def test_a_graph_is_asked_but_never_exactly(engines):
    own = engines.store_of("milvus file", IDS, ROWS, index="hnsw")
    assert not own.search(ROWS[:1], 5).exact
    with pytest.raises(DataError, match=r"HNSW index.*index_type FLAT"):
        own.search(ROWS[:1], 5, exact=True)


def test_a_file_or_a_field_that_is_not_there_is_refused_by_name(engines):
    with pytest.raises(DataError, match="there is no file"):
        MilvusStore(MilvusAccess(name="lite", uri=str(engines.folder / "none.db")), MilvusTable(collection="docs"))
    there = engines.store_of("milvus file", IDS, ROWS)
    with pytest.raises(DataError, match="no field 'nosuch'; it has id, v"):
        MilvusStore(there.access, MilvusTable(collection=there.table.collection, vector="nosuch"))


def test_no_token_is_in_any_error_repr_pickle_or_log(engines, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("FRONTIER_TEST_TOKEN", f"root:{TOKEN}")
    access = MilvusAccess(name="milvus", uri=engines.milvus.uri, token_env="FRONTIER_TEST_TOKEN")
    make_collection(access.client(), "with_token", IDS, ROWS, IDS)
    own = MilvusStore(access, MilvusTable(collection="with_token"))
    gone = MilvusAccess(name="milvus", uri=f"http://127.0.0.1:{free_port()}", token_env="FRONTIER_TEST_TOKEN")
    assert "is gone" in str(error_of(gone.client))
    calls = [gone.client, lambda: own.rows.call("query", filter="nosuch = (", output_fields=["id"])]
    said = ["".join(traceback.format_exception(error_of(call))) for call in calls]
    for text in [
        *said,
        repr(own),
        repr(own.access),
        str(vars(own)),
        repr(own.ref),
        repr(pickle.dumps(own)),
        caplog.text,
    ]:
        assert TOKEN not in text
    monkeypatch.delenv("FRONTIER_TEST_TOKEN")
    with pytest.raises(DataError, match="FRONTIER_TEST_TOKEN, which is not set"):
        access.client()
