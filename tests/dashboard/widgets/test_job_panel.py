"""A panel on a page: its job started, queued, cancelled, resumed."""

import sys
import threading
from types import ModuleType

import pytest

from dashboard.services import jobs
from dashboard.widgets.job_panel import _describe_time_left
from support.pages import draw_page, job_of, keys, press, run, texts
from support.patience import patient, until


def page():
    import streamlit as st
    from tests_work import WORK

    from dashboard.widgets.job_panel import JobPanel

    for purpose, (work, options) in WORK.items():
        with st.container(key=f"box.{purpose}"):
            result = JobPanel(
                purpose=purpose, key=1, title=f"working on {purpose}", work=work, **options
            ).draw_until_result()
            if result is not None:
                st.text(f"{purpose}: {result}")


class Held:
    """Work that ends when it is let, and fails where it is told to."""

    def __init__(self):
        self.begun, self.go, self.error = threading.Event(), threading.Event(), None

    def __call__(self, job):
        job.report(34, 88, "settings measured")
        self.begun.set()
        while not self.go.is_set():
            if job.stop.wait(0.01):
                raise jobs.Cancelled
        if self.error:
            raise jobs.FrontierError(self.error)
        return "done"


@pytest.fixture
def made(monkeypatch):
    """Draws panels: makes the page of the works and options given by purpose."""
    module = ModuleType("tests_work")
    module.WORK = {}
    monkeypatch.setitem(sys.modules, "tests_work", module)
    monkeypatch.setattr(jobs, "_JOB_SLOTS", threading.BoundedSemaphore(1))
    apps = []

    def make(**panels):
        module.WORK.update(panels)
        apps.append(draw_page(page))
        return apps[-1]

    yield make
    for app in apps:
        for purpose in module.WORK:
            if job := job_of(app, purpose):
                job.cancel()
                job.join(patient(60))


def let_end(app, purpose, work):
    work.go.set()
    job_of(app, purpose).join(patient(60))
    return run(app)


def label(app, key):
    return app.button(key=key).label


def test_the_second_is_queued_and_starts_by_itself(made):
    first, second = Held(), Held()
    app = made(one=(first, {}), two=(second, {"start_label": "Run", "autostart": False}))
    assert first.begun.wait(patient(60))
    run(app)
    assert label(app, "two.start") == "Queue" and "Working on one is running (34 of 88)" in texts(app)
    press(app, "two.start")
    until(lambda: job_of(app, "two").progress.label == "Queued behind “working on one”")
    run(app)
    assert "Queued behind “working on one”" in texts(app) and {"one.cancel", "two.cancel"} <= {*keys(app)}
    let_end(app, "one", first)
    assert "one: done" in texts(app) and second.begun.wait(patient(60))
    assert "two: done" in texts(let_end(app, "two", second))


def test_the_first_is_cancelled_beside_the_second_and_resumes_behind_it(made):
    first, second = Held(), Held()
    app = made(one=(first, {}), two=(second, {"start_label": "Run", "autostart": False}))
    assert first.begun.wait(patient(60))
    job_of(press(run(app), "two.start.cancel"), "one").join(patient(60))
    assert [label(run(app), key) for key in ("one.on", "two.start")] == ["Resume", "Run"]
    press(app, "two.start")
    assert second.begun.wait(patient(60)) and label(run(app), "one.on") == "Queue"
    first.begun.clear()
    press(app, "one.on")
    let_end(app, "two", second)
    assert first.begun.wait(patient(60)), "its turn has come"
    assert "one: done" in texts(let_end(app, "one", first))


def test_a_queued_job_is_taken_out(made):
    first, second = Held(), Held()
    app = made(one=(first, {}), two=(second, {"start_label": "Run", "autostart": False}))
    press(run(app), "two.start")
    press(app, "two.cancel")
    job_of(app, "two").join(patient(60))
    let_end(app, "one", first)
    assert not second.begun.is_set() and label(run(app), "two.start") == "Resume"


def test_nothing_begins_by_itself_while_this_session_has_another_job(made):
    first, second = Held(), Held()
    app = made(one=(first, {}), two=(second, {}))
    assert job_of(app, "two") is None and label(app, "two.start") == "Queue"
    let_end(app, "one", first)
    assert second.begun.wait(patient(60)), "then it does"


@pytest.mark.parametrize("start,key", [("", "one.on"), ("Run", "one.start")])
def test_a_stopped_job_resumes_and_a_failed_one_is_retried(made, start, key):
    work = Held()
    app = made(one=(work, {"start_label": start, "autostart": not start}))
    if start:
        assert label(app, key) == start
        press(app, key)
    assert label(app, "one.cancel") == "Cancel"
    job_of(press(app, "one.cancel"), "one").join(patient(60))
    assert label(run(app), key) == "Resume"
    work.error = "the disk is full"
    let_end(press(app, key), "one", work)
    assert label(app, key) == "Retry" and "the disk is full" in texts(app)


@pytest.mark.parametrize(
    ("whole_s", "part_s", "text"),
    [
        (None, None, ""),
        (100, None, "about 2 min left"),
        (100, 20, "about 20 s left in this step, about 2 min in all"),
        (None, 20, "about 20 s left in this step"),
        (20, 21, "about 20 s left"),
    ],
)
def test_time_left_names_the_step_under_way_where_it_is_shorter(whole_s, part_s, text):
    assert _describe_time_left(jobs.Progress(1, 2, "a part", whole_s, 0.5, part_s)) == text
