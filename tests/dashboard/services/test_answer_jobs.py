"""Answers of sliders: one job an address, which ends with those who wait, beside the pages' own turns."""

import asyncio
import gzip
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dashboard.services import answer_jobs, jobs
from dashboard.services.memo import Memo
from engine.errors import DataError
from engine.progress import raise_if_stopped
from support.patience import patient, until


class Slow:
    """Request whose answer takes until it is let go, or until nobody waits."""

    def __init__(self):
        self.begun, self.go, self.calls = threading.Event(), threading.Event(), 0

    def answer(self):
        self.calls += 1
        self.begun.set()
        while not self.go.wait(0.01):
            raise_if_stopped("nobody waits")
        return {"calls": self.calls}


@pytest.fixture
def visit(monkeypatch):
    """Begin to wait for an answer, as a browser; return the future and the event by which the tab is closed."""
    monkeypatch.setattr(answer_jobs, "_BODIES", Memo(9, len, 1 << 20))
    monkeypatch.setattr(answer_jobs, "_JOBS", {})
    with ThreadPoolExecutor(9) as threads:

        def begin(request, digest="abc"):
            closed = threading.Event()

            async def is_gone():
                return closed.is_set()

            return threads.submit(asyncio.run, answer_jobs.fetch_body(digest, request, is_gone)), closed

        yield begin
        for job in answer_jobs._JOBS.values():
            job.cancel()


def read(visitor):
    return json.loads(gzip.decompress(visitor[0].result(patient(60))))


def test_those_who_ask_for_one_address_share_its_job_and_later_ones_its_result(visit):
    request = Slow()
    first, second = visit(request), visit(request)
    until(lambda: answer_jobs._JOBS and len(answer_jobs._JOBS["abc"].subscribers) == 2)
    request.go.set()
    assert read(first) == read(second) == read(visit(request)) == {"calls": 1}
    assert not answer_jobs._JOBS


def test_a_job_ends_with_the_last_who_waits_and_not_before(visit):
    request = Slow()
    first, second = visit(request), visit(request)
    until(lambda: answer_jobs._JOBS and len(answer_jobs._JOBS["abc"].subscribers) == 2)
    job = answer_jobs._JOBS["abc"]
    first[1].set()
    first[0].result(patient(60))
    assert job.is_active
    second[1].set()
    assert second[0].result(patient(60)) is job and not request.go.is_set()
    until(lambda: not job.running)
    assert job.cancelled and not answer_jobs._BODIES
    again = visit(request)
    request.go.set()
    assert read(again) == {"calls": 2}, "who comes after a stopped job gets a new one"


def test_one_answer_is_at_work_and_every_page_has_its_turn(visit, monkeypatch):
    monkeypatch.setattr(jobs, "_PAGE_SLOTS", threading.BoundedSemaphore(1))
    first, second = Slow(), Slow()
    one, other = visit(first), visit(second, "other")
    at_work = until(lambda: next((request for request in (first, second) if request.begun.is_set()), None))
    waiting = second if at_work is first else first
    with ThreadPoolExecutor(1) as page:
        assert page.submit(_take_turn).result(patient(30)), "a page waits for no slider"
    until(lambda: len(answer_jobs._JOBS) == 2)
    assert not waiting.begun.is_set()
    first.go.set()
    second.go.set()
    assert read(one) == read(other) == {"calls": 1}


def test_pages_with_large_sets_leave_a_slot_to_the_others(monkeypatch):
    monkeypatch.setattr(jobs, "_PAGE_SLOTS", threading.BoundedSemaphore(2))
    monkeypatch.setattr(jobs, "_LONG_SLOTS", threading.BoundedSemaphore(1))
    begun, go = [], threading.Event()

    def compute():
        with jobs.limit_page_computations(is_long=True):
            begun.append(1)
            go.wait(patient(60))

    with ThreadPoolExecutor(3) as pages:
        large = [pages.submit(compute) for _ in range(2)]
        until(lambda: begun)
        assert pages.submit(_take_turn).result(patient(30)) and len(begun) == 1
        go.set()
        for page in large:
            page.result(patient(60))


def _take_turn():
    with jobs.limit_page_computations():
        return jobs.is_at_work()


def test_results_in_memory_are_bounded_by_their_size(visit, monkeypatch):
    monkeypatch.setattr(answer_jobs, "_BODIES", Memo(9, len, 60))
    for digest in "ab":
        request = Slow()
        request.go.set()
        read(visit(request, digest))
    assert list(answer_jobs._BODIES) == ["b"]


def test_a_result_that_is_evicted_during_the_look_up_is_computed_again(visit, monkeypatch):
    class Evicting(Memo):
        """Another thread's eviction comes right after a look whether the key is there."""

        def __contains__(self, key):
            is_there = super().__contains__(key)
            self.forget(key)
            return is_there

    monkeypatch.setattr(answer_jobs, "_BODIES", Evicting(9, len, 1 << 20))
    request = Slow()
    request.go.set()
    assert read(visit(request)) == read(visit(request)) == {"calls": 1}


def test_an_answer_that_fails_says_why_and_is_tried_again(visit):
    class Refusing(Slow):
        def answer(self):
            super().answer()
            raise DataError("no longer in memory")

    request = Refusing()
    request.go.set()
    job = visit(request)[0].result(patient(60))
    assert job.error == "no longer in memory" and visit(request)[0].result(patient(60)) is not job


def test_what_a_page_computes_stops_with_the_server():
    """Its engine calls raise Cancelled, and it takes no further turn."""
    begun, ended = threading.Event(), []

    def compute():
        try:
            with jobs.limit_page_computations():
                begun.set()
                while True:
                    raise_if_stopped("the server ends")
        except jobs.Cancelled as error:
            ended.append(str(error))

    page = threading.Thread(target=compute, daemon=True)
    page.start()
    begun.wait(patient(30))
    try:
        assert jobs.is_at_work() and jobs.stop_all_jobs(patient(30))
        page.join(patient(30))
        compute()
    finally:
        jobs._SHUTTING_DOWN.clear()
    assert ended == ["the server ends", "stopped before its turn"]
