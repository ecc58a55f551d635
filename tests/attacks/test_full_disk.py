"""Disks that are full, and files that may not grow: said in a sentence, nothing half-written used, and it goes on."""

import random
import resource
from contextlib import contextmanager

import pytest

from engine.data.stores.load import load
from engine.errors import FrontierError
from support import durable
from support.draws import deepen
from support.feedback import random_space
from support.random_texts import corpus_of, space_of
from support.stores import pg_server

LOCAL_OPERATIONS = [name for name in durable.OPERATIONS if name not in durable.SERVED]
"""Operations that write to the disk of their own machine."""
SLOW = ["embed", "tune", "sweep", "train"]
ROOMS = pytest.mark.parametrize("rooms", [2, pytest.param(20, marks=pytest.mark.slow)])


def assert_nothing_lost(report, rooms):
    assert report["defects"] == [] and report["refused"] + report["ended"] == rooms
    assert report["silent"] == report["lost"] == 0 and report["other"] == []
    assert all("free some room" in message for message in report["messages"]), report["messages"]


@pytest.mark.threat(
    "a full disk of 20 MB under embedding, tuning, a sweep, training, feedback, judging, cache writes",
    "refused in a sentence or done uncached and said so; nothing half-written is used; with room it ends as ever",
)
@ROOMS
@pytest.mark.parametrize("name", deepen(LOCAL_OPERATIONS, [*SLOW, "cache"]))
def test_on_a_full_disk_it_says_so_and_goes_on_once_there_is_room(assailant, name, rooms):
    if assailant.disk is None:
        pytest.skip("no disk can be mounted here")
    assert_nothing_lost(assailant.ask("fill", name, assailant.disk / name, rooms, 7, "disk"), rooms)


@pytest.mark.threat(
    "files that may not grow beyond a limit, under the same operations",
    "refused in a sentence or done uncached and said so; nothing half-written is used; with room it ends as ever",
)
@ROOMS
@pytest.mark.parametrize("name", deepen(LOCAL_OPERATIONS, [*SLOW, "feedback", "judgements"]))
def test_where_files_may_not_grow_it_says_so_and_goes_on_once_they_may(assailant, tmp_path, name, rooms):
    assert_nothing_lost(assailant.ask("fill", name, tmp_path / name, rooms, 7, "file"), rooms)


@pytest.mark.deep
@pytest.mark.threat(
    "a vector engine whose disk is full while a corpus is loaded",
    "the load is refused with the engine's reason, and goes on once there is room, without a row lost or doubled",
)
def test_a_load_goes_on_once_the_engine_has_room(tmp_path, monkeypatch):
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path))
    chance, rows = random.Random(3), 12_000
    corpus = corpus_of([chance.randbytes(850).hex() for _ in range(rows)])
    space = space_of(corpus, random_space(rows).vectors)
    with pg_server() as server:
        (tmp_path / "stores.toml").write_text(server.toml())
        server.stop()
        with limit_file_size(LOG_FILE + (1 << 20)):
            server.start()
        with pytest.raises(FrontierError, match=r"File too large|could not extend"):
            load("pg/crowded", corpus, space.embeddings, batch=500)
        server.stop()
        server.start()
        done = load("pg/crowded", corpus, space.embeddings, batch=500)
    assert 0 < done.written < rows == done.count


LOG_FILE = 16 << 20
"""Bytes of each file of what PostgreSQL writes ahead."""


@contextmanager
def limit_file_size(size):
    """Limit the size of files of the processes that are started inside."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
