"""Trainings of the Train view that stop, fail, are damaged or shared, and go on."""

import threading
from dataclasses import replace

import pytest

from dashboard.services import jobs, training_request, training_runs
from engine.errors import FrontierError
from engine.training.checkpoints import keep_run
from engine.training.experiment import histories
from support.pages import csv_source, ended, keys, press, run, screen, tables, texts, worked
from support.patience import patient
from support.train_page import METHOD, THINGS, page


def test_a_stopped_training_keeps_its_best_and_goes_on(source, monkeypatch):
    real = training_request.course

    def stopping(*args, watch, stop, **kwargs):
        def seen(stage, epoch):
            watch(stage, epoch)
            if (stage, epoch.epoch) == ("dense", 1):
                stop.set()

        return real(*args, watch=seen, stop=stop, **kwargs)

    monkeypatch.setattr(training_request, "course", stopping)
    app = worked(page(source, **{f"train.{METHOD}.epochs": 8, "train.seed": 5}), "train.start", "train")
    monkeypatch.setattr(training_request, "course", real)
    job = app.session_state["jobs"]["train"]
    stopped = job.result
    assert stopped.table is None and "by hand" in stopped.stages[-1].stopped
    assert f"dense: {stopped.stages[-1].stopped}" in texts(app) and not tables(app, "System")
    # Another window, as after a reload: it is found among the trainings of this corpus.
    digest = app.session_state["train.mine"]
    other = press(page(source), f"train.open.{digest}")
    assert "Stopped in dense" in texts(other) and "train.use.dense" in keys(other)
    worked(other, "train.on", "train")
    outcome = other.session_state["train.outcomes"][digest]
    kept = [epoch.as_json() for epoch in stopped.progress.histories["dense"]]
    assert [epoch.as_json() for epoch in outcome.progress.histories["dense"]][: len(kept)] == kept
    assert tables(other, "System") and set(outcome.progress.histories) == {"dense", "dense-cont", METHOD}
    assert set(outcome.progress.lines) == {f"dense, {METHOD}"}


@pytest.fixture
def go_on(monkeypatch):
    """A training waits until this is set."""
    event, real = threading.Event(), training_runs.run

    def held(request, loaded, place, job):
        assert event.wait(patient(60))
        return real(request, loaded, place, job)

    monkeypatch.setattr(training_runs, "run", held)
    return event


def test_two_windows_share_a_training(source, go_on):
    first = press(page(source, **{"train.seed": 6}), "train.start")
    job = first.session_state["jobs"]["train"]
    digest = first.session_state["train.mine"]
    training_runs.forget(digest)  # as where a third window trains it anew
    assert (training_runs.folder(digest) / training_runs.FILE).exists(), "what is under way is not deleted"
    second = screen("tune", source)
    assert second.segmented_control(key="tune.page").value == "Train"
    assert second.session_state["jobs"]["train"] is job and "train.cancel" in keys(second)
    mine = first.session_state["jobs"]
    jobs._cancel_all(mine.line, mine.session)  # as when the first window is closed
    mine.line.clear()
    assert not job.stop.is_set()
    press(second, "train.cancel")
    assert second.button(key="train.cancel").disabled and second.button(key="train.cancel").label == "Stopping"
    go_on.set()
    assert "train.on" in keys(ended(second, "train")) and job.stop.is_set()


@pytest.mark.threat("cancelling a training that another window has joined", "it goes on there")
def test_cancelling_a_shared_training_lets_go_of_ones_own_part(source, go_on):
    first = press(page(source, **{"train.seed": 7}), "train.start")
    job = first.session_state["jobs"]["train"]
    second = screen("tune", source)
    assert second.session_state["jobs"]["train"] is job
    press(first, "train.cancel")
    assert job.going and "train.on" in keys(first) and "Progress is saved" in texts(first)
    assert second.button(key="train.cancel").label == "Cancel" and "train.cancel" in keys(run(second))
    press(first, "train.on")
    assert first.session_state["jobs"]["train"] is job and "train.cancel" in keys(first), "it is joined again"
    press(first, "train.cancel")
    press(second, "train.cancel")
    go_on.set()
    job.join(patient(60))
    assert job.stop.is_set()


def test_passages_stand_in_where_nothing_is_judged(own_home):
    rows = [(i, " ".join(f"{THINGS[i * k % 8]} {i * k % 37}" for k in range(1, 14))) for i in range(40)]
    app = page(replace(csv_source(own_home / "unlabelled.csv", rows), dtype="float32"))
    assert "Training needs judgements" in texts(app) and "train.start" not in keys(app)
    app.toggle(key="train.passages").set_value(True).run()
    assert not app.exception and "Random split of" in texts(app) and not app.button(key="train.start").disabled


def test_what_is_damaged_is_trained_anew(source):
    app = press(page(source, **{"train.seed": 8}), "train.start")
    app.session_state["jobs"]["train"].cancel()
    ended(app, "train")
    digest = app.session_state["train.mine"]
    for file in training_runs.folder(digest).glob("*.safetensors"):
        file.write_bytes(b"no checkpoint")
    (training_runs.folder(digest) / "dense.safetensors").write_bytes(b"no checkpoint")
    other = press(page(source, **{"train.seed": 8}), f"train.open.{digest}")
    assert "is not a checkpoint of Frontier" in texts(other) and "damaged" in texts(other)
    assert tables(worked(other, "train.anew", "train"), "System")


def test_a_full_disk_costs_no_epoch_that_is_written(source, monkeypatch):
    written = []

    def full(path, facts, now):
        written.append(path.stem)
        if len(written) > 2:
            raise FrontierError("there is no room left")
        keep_run(path, facts, now)

    monkeypatch.setattr("engine.training.train.keep_run", full)
    app = worked(page(source, **{"train.seed": 9}), "train.start", "train")
    assert "Training failed." in [e.value for e in app.error] and "there is no room left" in texts(app)
    monkeypatch.undo()
    left = histories(training_runs.folder(app.session_state["train.mine"]), METHOD)["dense"]
    assert [epoch.epoch for epoch in left] == [-1, 0]
    worked(app, "train.on", "train")
    after = app.session_state["jobs"]["train"].result.progress.histories["dense"]
    assert tables(app, "System") and after[:2] == left and len(after) > 2, "they are not trained again"
