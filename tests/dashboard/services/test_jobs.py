"""Jobs end, whatever happens in them, and say how they ended."""

import threading

import pytest

from dashboard.services import jobs
from dashboard.services.jobs import Job
from engine.errors import Cancelled, DataError
from support.patience import patient


def ended(work, cancelled=False):
    """A job of this work that has ended."""
    job = Job("work", work)
    if cancelled:
        job.cancel()
    job.join(patient(10))
    return job


def test_a_result_and_its_progress():
    go = threading.Event()

    def work(job):
        job.report(1, 4, "counting")
        job.partial = "first"
        go.wait(patient(10))
        return 42

    job = Job("count", work)
    while job.partial is None:
        job.join(0.01)
    assert job.running and (job.progress.done, job.progress.total, job.progress.label) == (1, 4, "counting")
    go.set()
    job.join(patient(10))
    assert not job.running and job.result == 42 and job.error is None and not job.cancelled


def test_an_error_reaches_the_page():
    def refuse(job):
        raise DataError("line 3: no text")

    job = ended(refuse)
    assert job.result is None and job.error == "line 3: no text"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_defect_is_named_by_its_type():
    assert ended(lambda job: 1 / 0).error == "ZeroDivisionError: division by zero"


def test_cancel_stops_and_is_no_error():
    def work(job):
        job.stop.wait(patient(10))
        raise Cancelled

    job = ended(work, cancelled=True)
    assert job.cancelled and job.error is None and job.result is None


def test_stop_all_waits_for_every_job():
    ended = []

    def work(job):
        job.stop.wait(patient(10))
        ended.append(job.title)

    started = [Job(f"job {i}", work) for i in range(3)]
    try:
        jobs.stop_all()
        late = Job("late", work)
        late.join(patient(10))
    finally:
        jobs._CLOSED.clear()
    assert ended.pop() == "late", "who comes after the end is stopped at once"
    assert sorted(ended) == ["job 0", "job 1", "job 2"] and not any(job.running for job in started)
