"""Whose vote is taken back, and that others' pages need not wait while one is at work."""

import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from dashboard.drift import feedback_log
from dashboard.services import feedback as live
from engine import orag, space
from engine.views.drift import feedback
from support.live_feedback import add, corpus, explore, thumb
from support.pages import press
from support.patience import patient

pytestmark = pytest.mark.usefixtures("home")


def test_a_thumb_is_taken_back_with_those_it_had_replaced(folder):
    app, loaded = explore(folder)
    other = add(loaded, thumb(row=5, person="somebody else")).events[0]
    for key in ("vote.up", "vote.down", "vote.up", "vote.down"):
        press(app, key)
    assert live.count(loaded) == 2 and len(live.session(loaded).events) == 5
    press(app, "vote.down")
    now = live.session(loaded)
    assert [event.id for event in now.events if now.status(event.id) == "counts"] == [other.id]


def test_ones_own_last_comes_before_anothers():
    loaded = corpus()
    add(loaded, thumb(row=1, person="ana"))
    add(loaded, thumb(row=2, person="ana"))
    now = add(loaded, thumb(row=3, person="bob"))
    entries = feedback(now)
    assert feedback_log.last_of(entries, "ana").row == 2 and feedback_log.last_of(entries, "eve").row == 3
    now = live.log_of(loaded).undo(feedback_log.last_of(entries, "ana").id)
    assert feedback_log.last_of(feedback(now), "ana").row == 1
    assert feedback_log.last_of(feedback(live.log_of(loaded).reset()), "ana") is None


@contextmanager
def held(monkeypatch, owner, name):
    """While inside, whoever calls that function stands in it until the end; gives the event of somebody's arrival."""
    arrived, go_on, real = threading.Event(), threading.Event(), getattr(owner, name)

    def slow(*args, **kwargs):
        arrived.set()
        assert go_on.wait(patient(30))
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, slow)
    try:
        yield arrived
    finally:
        go_on.set()
        monkeypatch.setattr(owner, name, real)


def beside(work):
    """What a thread's work gives, or None where it has not ended in a while."""
    result = []
    worker = threading.Thread(target=lambda: result.append(work()), daemon=True)
    worker.start()
    worker.join(patient(10))
    return result[0] if result else None


@pytest.mark.parametrize(("module", "name"), [(orag, "log"), (space, "Space")], ids=["replay", "adapt"])
def test_replaying_a_long_log_and_making_the_adapted_corpus_hold_nobody_up(monkeypatch, module, name):
    loaded, other = corpus(), corpus(n=30)
    add(loaded, thumb(row=1))
    add(other, thumb(row=2))
    again, result = replace(loaded, space=corpus().space), []
    work = (lambda: live.session(again)) if module is orag else (lambda: live.adapted(loaded))
    with held(monkeypatch, module, name) as arrived:
        workers = [threading.Thread(target=lambda: result.append(work())) for _ in range(2)]
        for worker in workers:
            worker.start()
        assert arrived.wait(patient(30)) and beside(lambda: live.count(other)) == 1
    for worker in workers:
        worker.join(patient(30))
    if module is orag:
        assert live.session(again).round == 1
    else:
        assert result[0] is result[1] is live.adapted(loaded) is not loaded
