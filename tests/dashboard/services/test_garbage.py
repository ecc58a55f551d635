"""Garbage of all sessions is collected at intervals, while pages are drawn."""

import gc
import threading
import time
import weakref

import pytest

from dashboard.services import garbage, jobs
from support.patience import until


class Cycle:
    """An object that only the garbage collector frees."""

    def __init__(self):
        self.me = self


@pytest.fixture
def start_collecting(monkeypatch):
    """Collects every hundredth of a second until the test ends; Python itself collects nothing."""
    monkeypatch.setattr(garbage, "COLLECT_SECONDS", 0.01)
    server_end = threading.Event()
    monkeypatch.setattr(jobs, "_SHUTTING_DOWN", server_end)
    gc.disable()
    yield garbage.start_collecting
    gc.enable()
    server_end.set()
    until(lambda: all(thread.name != "garbage collection" for thread in threading.enumerate()))


def test_cycles_of_objects_are_freed_while_the_server_works(monkeypatch, start_collecting):
    monkeypatch.setattr(garbage, "_count_young_collections", iter(range(0, 10**6, 100)).__next__)
    cycle = weakref.ref(Cycle())
    assert cycle() is not None
    start_collecting()
    until(lambda: cycle() is None)


@pytest.mark.deep
def test_what_was_frozen_while_alive_is_freed_in_the_end(monkeypatch, start_collecting):
    """As a session that was open when a corpus was loaded."""
    monkeypatch.setattr(garbage, "_count_young_collections", iter(range(0, 10**6, 100)).__next__)
    monkeypatch.setattr(garbage, "FULL_COLLECTION_EVERY", 3)
    session = Cycle()
    frozen = weakref.ref(session)
    gc.freeze()
    del session
    start_collecting()
    until(lambda: frozen() is None)


def test_an_idle_server_collects_nothing(monkeypatch, start_collecting):
    looks = []
    monkeypatch.setattr(garbage, "_count_young_collections", lambda: looks.append(time.monotonic()) or 7)
    cycle = weakref.ref(Cycle())
    start_collecting()
    until(lambda: len(looks) > 5)
    assert cycle() is not None


def test_young_collections_grow_with_the_objects_that_are_made():
    before = garbage._count_young_collections()
    kept = [[number] for number in range(100_000)]
    assert garbage._count_young_collections() - before >= garbage.MIN_YOUNG_COLLECTIONS and len(kept) == 100_000
