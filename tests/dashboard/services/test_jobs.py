"""Jobs end, whatever happens in them, and say how they ended."""

import gc
import threading
from types import SimpleNamespace

import pytest

from dashboard.services import jobs
from dashboard.services.jobs import Job
from engine.errors import Cancelled, DataError
from support.patience import patient, until


def ended(work, cancelled=False):
    """A job of this work that has ended."""
    job = Job("work", work)
    if cancelled:
        job.cancel()
    job.join(patient(60))
    return job


def test_a_result_and_its_progress(go):

    def work(job):
        job.report(1, 4, "counting")
        job.partial = "first"
        go.wait(patient(60))
        return 42

    job = Job("count", work)
    while job.partial is None:
        job.join(0.01)
    assert job.running and (job.progress.done, job.progress.total, job.progress.label) == (1, 4, "counting")
    go.set()
    job.join(patient(60))
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
        job.stop.wait(patient(60))
        raise Cancelled

    job = ended(work, cancelled=True)
    assert job.cancelled and job.error is None and job.result is None


def test_stop_all_waits_for_every_job():
    ended = []

    def work(job):
        job.stop.wait(patient(60))
        ended.append(job.title)

    started = [Job(f"job {i}", work) for i in range(3)]
    try:
        jobs.stop_all_jobs()
        late = Job("late", work)
        late.join(patient(60))
    finally:
        jobs._SHUTTING_DOWN.clear()
    assert ended.pop() == "late", "who comes after the end is stopped at once"
    assert sorted(ended) == ["job 0", "job 1", "job 2"] and not any(job.running for job in started)


# A session's line


class Held:
    """Work that says when it runs, and ends when it is let."""

    def __init__(self):
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self, job):
        job.report(3, 8, "counting")
        self.begun.set()
        while not self.go.is_set():
            if job.stop.wait(0.01):
                raise Cancelled
        return "done"


@pytest.fixture
def session(monkeypatch):
    """A session of the test's own on a server that does one thing at a time; calling it gives the next one's jobs."""
    monkeypatch.setattr(jobs, "_JOB_SLOTS", threading.BoundedSemaphore(1))
    sessions = []

    def another(name=None):
        sessions.append(jobs.SessionJobs(name))
        return sessions[-1]

    monkeypatch.setattr(jobs, "get_session_jobs", lambda: sessions[-1])
    another()
    yield another
    for own in sessions:
        for job in own.queue:
            job.cancel()
            job.join(patient(60))


def begun(work):
    assert work.begun.wait(patient(60))


def says(job, label):
    until(lambda: job.progress.label == label)


def test_a_job_starts_by_itself_when_the_one_before_has_ended(session):
    first, second, third = Held(), Held(), Held()
    one, two, three = (jobs.start_job(str(i), f"work {i}", work) for i, work in enumerate((first, second, third)))
    begun(first)
    says(two, "Queued behind “work 0”")
    assert (
        two.queued
        and two.is_active
        and not one.queued
        and jobs.find_blocker("1") is one
        and jobs.find_blocker("0") is two
    )
    first.go.set()
    begun(second)
    says(three, "Queued behind “work 1”")
    assert one.result == "done" and not third.begun.is_set() and jobs.find_blocker() is two
    second.go.set()
    third.go.set()
    three.join(patient(60))
    assert (two.result, three.result, jobs.find_blocker()) == ("done", "done", None)


def test_who_is_queued_can_leave(session):
    first, second, third = Held(), Held(), Held()
    one, two, three = (jobs.start_job(str(i), f"work {i}", work) for i, work in enumerate((first, second, third)))
    begun(first)
    two.cancel()
    two.join(patient(60))
    assert two.cancelled and not second.begun.is_set() and one.is_active
    first.go.set()
    begun(third)
    assert three.is_active


def test_the_next_for_a_purpose_waits_until_the_last_has_written_its_last(session):
    written = threading.Event()

    def slow(job):
        job.stop.wait(patient(60))
        assert written.wait(patient(60))
        raise Cancelled

    one = jobs.start_job("0", "work 0", slow)
    until(lambda: not one.queued)
    next_one = Held()
    two = jobs.start_job("0", "work 0, changed", next_one)
    says(two, "Waiting for another job to stop")
    assert not one.is_active and not next_one.begun.is_set()
    written.set()
    begun(next_one)
    assert one.cancelled


@pytest.mark.parametrize("purpose", ["0", "1"])
def test_another_sessions_job_that_this_one_joined_goes_on_and_is_waited_for(session, purpose):
    session("one")
    first, second = Held(), Held()
    one = jobs.start_job("0", "work 0", first)
    begun(first)
    session("two")
    jobs.attach_job("0", one)
    two = jobs.start_job(purpose, "work of its own", second)
    if purpose == "1":
        says(two, "Queued behind “work 0”")
        assert len(one.subscribers) == 2
    assert one.is_active and jobs.get_session_jobs()[purpose] is two
    first.go.set()
    begun(second)
    second.go.set()


def test_other_sessions_wait_for_the_server(session):
    first, second = Held(), Held()
    jobs.start_job("0", "work 0", first)
    begun(first)
    session()
    two = jobs.start_job("0", "work of another", second)
    says(two, "Queued behind another job on this server")
    assert jobs.find_blocker() is two
    first.go.set()
    begun(second)


def test_a_closed_tab_makes_room_for_others(session, monkeypatch):
    """Streamlit keeps a session for minutes after its socket has closed; one that is only cut off is back sooner."""
    open_tabs = {"one", "two"}
    server = SimpleNamespace(is_active_session=open_tabs.__contains__)
    monkeypatch.setattr(jobs, "runtime", SimpleNamespace(exists=lambda: True, get_instance=lambda: server))
    monkeypatch.setattr(jobs, "DISCONNECT_GRACE_SECONDS", 0.5)
    session("one")
    first, second = Held(), Held()
    one = jobs.start_job("0", "work 0", first)
    begun(first)
    session("two")
    two = jobs.start_job("0", "work 0", second)
    assert not second.begun.wait(1) and one.is_active, "its tab is open"
    open_tabs.remove("one")
    assert not second.begun.wait(0.2) and one.is_active, "it may be back"
    begun(second)
    assert one.cancelled and two.is_active


@pytest.mark.threat("cancelling the work of another visitor", "it goes on while anybody with an open tab wants it")
def test_leaving_a_job_stops_it_once_nobody_is_left_to_want_it(session, monkeypatch):
    open_tabs = {"one", "two"}
    server = SimpleNamespace(is_active_session=open_tabs.__contains__)
    monkeypatch.setattr(jobs, "runtime", SimpleNamespace(exists=lambda: True, get_instance=lambda: server))
    monkeypatch.setattr(jobs, "get_script_run_ctx", lambda suppress_warning=False: True)
    works = [Held() for _ in range(3)]
    # One that a session began and another joined; one of all sessions; and one whose other window is closed.
    one = session("one")
    own, third = jobs.start_job("0", "work 0", works[0]), Job("third", works[2])
    common = jobs.SharedJobs(2).get_or_start("key", "work 1", works[1])
    for job in (common, third):
        jobs.subscribe(job)
        jobs.subscribe(job)
    session("two")
    jobs.attach_job("0", own)
    for job in (common, third):
        jobs.subscribe(job)
        assert jobs.is_subscribed(job) and job.subscribers == (None, "one", "two")
    for job in (own, common):
        jobs.unsubscribe(job)
        jobs.subscribe(job)
        assert job.is_active and jobs.runs_for_others_only(job) and not jobs.is_subscribed(job), (
            "it is not joined again by looking at it"
        )
    assert jobs.find_blocker() is None
    open_tabs.remove("one")
    jobs.unsubscribe(third)
    assert not third.is_active and not jobs.runs_for_others_only(third)
    jobs.subscribe(common, resubscribe=True)
    assert jobs.is_subscribed(common) and not jobs.runs_for_others_only(common)
    open_tabs.add("one")
    jobs.unsubscribe(common)
    monkeypatch.setattr(jobs, "get_session_jobs", lambda: one)
    for job in (own, common):
        jobs.unsubscribe(job)
        job.join(patient(60))
        assert job.cancelled


def test_a_session_that_is_gone_stops_its_jobs(monkeypatch):
    work, own = Held(), [jobs.SessionJobs()]
    monkeypatch.setattr(jobs, "get_session_jobs", lambda: own[0])
    one = jobs.start_job("0", "work 0", work)
    begun(work)
    own.clear()
    gc.collect()
    one.join(patient(60))
    assert one.cancelled


@pytest.mark.threat(
    "as many pages at once as there are slots, each with a computation inside another",
    "each ends: the inner one has the outer one's slot, and waits for nobody",
)
@pytest.mark.parametrize("is_long", [False, True])
def test_computation_inside_another_waits_for_no_second_slot(monkeypatch, is_long):
    """Twenty visitors stopped a server for ever: every slot was held by a page that waited for one more."""
    n_pages = 2
    monkeypatch.setattr(jobs, "_PAGE_SLOTS", threading.BoundedSemaphore(n_pages))
    monkeypatch.setattr(jobs, "_LONG_SLOTS", threading.BoundedSemaphore(1))
    all_hold_one, ended = threading.Barrier(n_pages), []

    def compute_page():
        with jobs.limit_page_computations():
            all_hold_one.wait(patient(10))
            with jobs.limit_page_computations(is_long=is_long):
                assert jobs._COMPUTING_THREADS.count(threading.get_ident()) == 1
            assert jobs.is_at_work()
        ended.append(threading.get_ident())

    threads = [threading.Thread(target=compute_page, daemon=True) for _ in range(n_pages)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patient(10))
    assert len(ended) == n_pages and not set(ended).intersection(jobs._COMPUTING_THREADS)
