"""Whose vote is taken back, and that others' pages need not wait while one is at work."""

import threading
from contextlib import contextmanager
from dataclasses import replace

from test_feedback import corpus, explore, folder, home, press, thumb  # noqa: F401

from dashboard.drift import told
from dashboard.feedback import live
from engine import orag, space
from engine.views.drift import feedback


def test_a_thumb_is_taken_back_with_those_it_had_replaced(folder):  # noqa: F811
    app, loaded = explore(folder)
    other = live.add(loaded, thumb(row=5, person="somebody else")).events[0]
    for key in ("vote.up", "vote.down", "vote.up", "vote.down"):
        press(app, key)
    assert live.count(loaded) == 2 and len(live.session(loaded).events) == 5
    press(app, "vote.down")
    now = live.session(loaded)
    assert [event.id for event in now.events if now.status(event.id) == "counts"] == [other.id]


def test_ones_own_last_comes_before_anothers():
    loaded = corpus()
    live.add(loaded, thumb(row=1, person="ana"))
    live.add(loaded, thumb(row=2, person="ana"))
    now = live.add(loaded, thumb(row=3, person="bob"))
    entries = feedback(now)
    assert told.last_of(entries, "ana").row == 2 and told.last_of(entries, "eve").row == 3
    now = live.undo(loaded, told.last_of(entries, "ana").id)
    assert told.last_of(feedback(now), "ana").row == 1
    assert told.last_of(feedback(live.reset(loaded)), "ana") is None


@contextmanager
def held(monkeypatch, owner, name):
    """While inside, whoever calls that function stands in it until the end; gives the event of somebody's arrival."""
    arrived, go_on, real = threading.Event(), threading.Event(), getattr(owner, name)

    def slow(*args, **kwargs):
        arrived.set()
        assert go_on.wait(30)
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, slow)
    try:
        yield arrived
    finally:
        go_on.set()
        monkeypatch.setattr(owner, name, real)


def beside(work):
    """What a thread's work gives, or None where it has not ended in a while."""
    found = []
    worker = threading.Thread(target=lambda: found.append(work()), daemon=True)
    worker.start()
    worker.join(10)
    return found[0] if found else None


def test_a_new_setting_that_embeds_queries_holds_nobody_up(monkeypatch):
    loaded, other = corpus(), corpus(n=30)
    live.add(loaded, thumb(row=1))
    live.add(other, thumb(row=2))
    # Another perplexity needs another temperature.
    perplexity = (live.session(loaded).preset.perplexity or 10) + 2
    with held(monkeypatch, live, "_fresh") as arrived:
        worker = threading.Thread(target=lambda: live.settings(loaded, perplexity=perplexity))
        worker.start()
        assert arrived.wait(30)
        assert beside(lambda: live.count(other)) == 1
        assert beside(lambda: live.add(loaded, thumb(row=4)).round) == 2, "nor on the same log"
    worker.join(30)
    now = live.session(loaded)
    assert now.preset.perplexity == perplexity and [event.item for event in now.events] == [1, 4]


def test_a_long_log_that_is_replayed_holds_no_other_up(monkeypatch):
    loaded, other = corpus(), corpus(n=30)
    live.add(loaded, thumb(row=1))
    live.add(other, thumb(row=2))
    again = replace(loaded, space=corpus().space)
    with held(monkeypatch, orag, "log") as arrived:
        workers = [threading.Thread(target=lambda: live.session(again)) for _ in range(2)]
        for worker in workers:
            worker.start()
        assert arrived.wait(30) and beside(lambda: live.count(other)) == 1
    for worker in workers:
        worker.join(30)
    assert live.session(again).round == 1


def test_making_the_adapted_corpus_holds_nobody_up(monkeypatch):
    loaded, other = corpus(), corpus(n=30)
    live.add(loaded, thumb(row=1))
    live.add(other, thumb(row=2))
    found = []
    with held(monkeypatch, space, "Space") as arrived:
        workers = [threading.Thread(target=lambda: found.append(live.adapted(loaded))) for _ in range(2)]
        for worker in workers:
            worker.start()
        assert arrived.wait(30) and beside(lambda: live.count(other)) == 1
    for worker in workers:
        worker.join(30)
    assert found[0] is found[1] is live.adapted(loaded) is not loaded
