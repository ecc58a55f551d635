"""Live feedback without a browser: one log for everybody, whose vote is taken back, what it makes of the corpus."""

import sqlite3
import threading
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial

import pytest
import torch

import engine
from dashboard.drift import feedback_log
from dashboard.services import feedback
from dashboard.services.source import Source
from engine import orag, space
from engine.views import drift
from engine.views.sets import before_after
from support.live_feedback import HOSTILE, N, add, corpus, explore, read, thumb, vectors
from support.pages import assert_plain, component, pick, press, screen, texts, tiles
from support.patience import patient

pytestmark = pytest.mark.usefixtures("home")


def digest(loaded):
    return feedback.adapt_corpus(loaded).space.embeddings.digest


def test_looking_writes_nothing(home):
    loaded = corpus()
    assert (
        feedback.session(loaded).round == feedback.count_events(loaded) == 0 and feedback.adapt_corpus(loaded) is loaded
    )
    assert not home.exists()


def test_feedback_makes_a_corpus_of_its_own_and_undo_gives_the_first_one_back():
    loaded = corpus()
    now = add(loaded, thumb())
    adapted = feedback.adapt_corpus(loaded)
    moved = (adapted.space.vectors != loaded.space.vectors).any(1).nonzero().flatten().tolist()
    assert moved == [3] and adapted.origin is loaded is adapted.origin
    assert adapted.space.embeddings.digest != loaded.space.embeddings.digest
    assert adapted.space.corpus is loaded.space.corpus and feedback.adapt_corpus(adapted) is adapted
    expected = loaded.space.vectors[3].double() - now.preset.rate * torch.from_numpy(vectors()[7]).double()
    assert adapted.space.vectors[3].numpy() == pytest.approx(expected.numpy(), abs=1e-7)
    feedback.open_or_create_log(adapted).undo(now.events[0].id)
    assert feedback.adapt_corpus(loaded) is loaded
    feedback.open_or_create_log(loaded).redo(now.events[0].id)
    assert digest(loaded) == adapted.space.embeddings.digest
    feedback.open_or_create_log(loaded).reset()
    assert feedback.adapt_corpus(loaded) is loaded and feedback.count_events(loaded) == 0


def test_a_vote_replaces_the_earlier_one_and_undo_brings_that_back():
    loaded = corpus()
    add(loaded, thumb(up=False))
    down = digest(loaded)
    now = add(loaded, thumb(up=True))
    assert feedback.count_events(loaded) == 1 and len(now.events) == 2
    up = digest(loaded)
    add(loaded, thumb(up=True, person="bob"))
    assert feedback.count_events(loaded) == 2 and digest(loaded) not in (up, down)
    feedback.open_or_create_log(loaded).undo(feedback.session(loaded).events[-1].id)
    assert digest(loaded) == up
    feedback.open_or_create_log(loaded).undo(now.events[-1].id)
    assert digest(loaded) == down


def test_what_another_process_adds_is_seen_and_nothing_is_lost():
    loaded = corpus()
    add(loaded, thumb(person="here"))
    other = orag.log(feedback.get_log_path(loaded), corpus().space)
    assert other.session.round == 1

    def mine(person):
        for i in range(20):
            add(loaded, thumb(row=i, person=person))

    def theirs():
        for i in range(20):
            other.feed(orag.thumb(other.session, vectors()[9], i, person="there"))

    works = [partial(mine, "ana"), theirs, partial(mine, "bob")]
    workers = [threading.Thread(target=work) for work in works]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(patient(60))
    assert feedback.session(loaded).round == other.refresh().round == 1 + 60
    assert feedback.session(loaded).vectors.tobytes() == other.session.vectors.tobytes()


def test_a_corpus_that_has_changed_is_said_and_what_holds_is_kept():
    add(corpus(), thumb(row=3))
    add(corpus(), thumb(row=5))
    changed = corpus(changed=(5,))
    with pytest.raises(engine.DataError, match=r"another state of this corpus: 1 with another text"):
        feedback.session(changed)
    message = " ".join(map(str, feedback.carry(changed)))
    assert "1 vote" in message and feedback.count_events(changed) == 1
    assert len(list(feedback.get_log_path(changed).parent.glob("*.jsonl"))) == 1, "the old log stays"


def test_two_corpora_of_one_name_have_their_own_logs():
    one, other = corpus(), corpus(n=N - 10)
    add(one, thumb(row=3))
    other_path = feedback.get_log_path(other)
    # Without an encoder vectors say which corpus it is.
    assert other_path != feedback.get_log_path(one) and feedback.count_events(other) == 0
    add(other, thumb(row=4))
    add(one, thumb(row=9))
    assert (feedback.count_events(one), feedback.count_events(other)) == (2, 1)


def test_a_damaged_log_is_named_and_another_one_begins_beside_it(monkeypatch):
    loaded = corpus()
    for row in range(4):
        add(loaded, thumb(row=row))
    file = feedback.get_log_path(loaded)
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute("UPDATE events SET body = replace(body, 'thumb', 'thomb') WHERE number = 3")
    monkeypatch.setattr(feedback, "_OPEN_LOGS", feedback.Memo(3))  # as after a restart
    with pytest.raises(engine.DataError, match="event 3 is not as it was written"):
        feedback.session(loaded)
    assert feedback.begin_new_log(loaded) == file and file.is_file()
    assert feedback.count_events(loaded) == 0 and feedback.get_log_path(loaded) != file
    add(loaded, thumb())
    assert feedback.count_events(loaded) == 1


def test_a_log_begun_anew_twice_moves_the_first_of_them_aside():
    loaded = corpus()
    add(loaded, thumb(row=4))
    first = feedback.get_log_path(loaded)
    assert (
        feedback.begin_new_log(loaded) == first
        and feedback.count_events(loaded) == 0
        and feedback.list_notices(loaded) == ()
    )
    old = feedback.begin_new_log(loaded)
    assert ".aside" in old.name and orag.load(old, loaded.space)[0].round == 0 and feedback.count_events(loaded) == 0


def test_a_log_that_is_deleted_is_forgotten():
    loaded = corpus()
    add(loaded, thumb())
    feedback.get_log_path(loaded).unlink()
    assert feedback.count_events(loaded) == 0 and feedback.adapt_corpus(loaded) is loaded


def shown(app):
    """All that is drawn of each set, and of the open document: documents, relevance, cosines."""
    return [tile["now"] for tile in tiles(app).values()], [c.value for c in app.caption if "Relevance" in c.value]


def answered(app, loaded):
    """The row that stands first."""
    return tiles(app)["top_k"]["set"].rows()[0]


def test_a_thumb_moves_the_document_and_every_session_sees_it(folder):
    app, loaded = explore(folder)
    before = shown(app)
    assert not app.toggle(key=feedback.LIVE_KEY).value and "moved by" not in texts(app)
    assert component(app, "explore.lists")["votes"] is None, "no thumbs until feedback is on"
    press(app, "vote.down")
    assert component(app, "explore.lists")["votes"] == {"5": "down"}
    assert app.toggle(key=feedback.LIVE_KEY).value and "moved by 1 vote" in texts(app)
    assert "Your last: less like this" in texts(app) and feedback.count_events(loaded) == 1
    (event,) = feedback.session(loaded).events
    assert (event.item, event.good, event.propensity, event.kind) == (5, False, None, "thumb")
    other, _ = explore(folder, row=6)
    assert shown(other)[0] == before[0], "off until somebody wants it"
    other.toggle(key=feedback.LIVE_KEY).set_value(True).run()
    assert "moved by 1 vote" in texts(other)
    press(other, "vote.up")
    assert feedback.count_events(loaded) == 2 and len({e.person for e in feedback.session(loaded).events}) == 2
    app.run()
    assert "moved by 2 votes" in texts(app)
    press(app, "feedback.undo")
    assert [e.item for e in feedback.session(loaded).events] == [6], "Undo takes back one's own"
    press(other, "feedback.undo")
    assert feedback.adapt_corpus(loaded) is loaded and shown(other)[0] == before[0]


def test_the_same_button_takes_a_vote_back_and_the_other_replaces_it(folder):
    app, loaded = explore(folder)
    press(app, "vote.down")
    down = digest(loaded)
    press(app, "vote.up")
    assert feedback.count_events(loaded) == 1 and digest(loaded) != down
    press(app, "vote.up")
    assert feedback.adapt_corpus(loaded) is loaded and feedback.count_events(loaded) == 0, (
        "the thumb that it had replaced stays out"
    )
    press(app, "vote.down")
    assert digest(loaded) == down


def test_a_thumb_opens_the_log_once_and_each_run_of_the_page_once_more(folder, monkeypatch):
    app, _ = explore(folder)
    press(app, "vote.down")
    opened, connect = [], sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **kwargs: opened.append(args) or connect(*args, **kwargs))
    press(app, "vote.up")
    assert 1 <= len(opened) <= 3, "the page is drawn twice"


def test_the_right_one_counts_against_the_list_that_was_shown(folder):
    app, loaded = explore(folder)
    row = answered(app, loaded)
    read(app, loaded, row)
    press(app, "vote.right")
    (event,) = feedback.session(loaded).events
    assert event.kind == "right_one" and event.item == row and len(event.shown) == 10
    out = next(r for r in range(N) if r not in event.shown)
    app.session_state["decoders"] = ["top_k"]
    read(app, loaded, out)
    assert app.button(key="vote.right").disabled and not app.button(key="vote.up").disabled


def test_the_switch_gives_the_corpus_as_it_was_embedded(folder):
    app, loaded = explore(folder)
    read(app, loaded, answered(app, loaded))
    before = shown(app)
    press(app, "vote.down")
    on = shown(app)
    app.toggle(key=feedback.LIVE_KEY).set_value(False).run()
    assert shown(app) == before != on and "moved by" not in texts(app)
    app.toggle(key=feedback.LIVE_KEY).set_value(True).run()
    assert shown(app) == on


def test_a_link_names_the_corpus_as_it_was_embedded(folder):
    app, loaded = explore(folder)
    press(app, "vote.down")
    app.slider(key="k").set_value(7).run()
    assert feedback.adapt_corpus(loaded) is not loaded
    assert app.query_params["vectors"] == loaded.space.embeddings.digest[:12]


def test_other_screens_work_on_the_corpus_that_feedback_made(folder):
    _, loaded = explore(folder)
    add(loaded, thumb(row=5))
    for name in ("tradeoff", "tune", "theory"):
        app = screen(name, Source(str(folder)), **{feedback.LIVE_KEY: True})
        assert "moved by 1 vote" in texts(app)


def test_text_of_documents_is_no_markup(folder):
    app, _ = explore(folder)
    press(app, "vote.down")
    for form in ("Lists", "Table"):
        pick(app, "Form", form)
        assert_plain(app, *HOSTILE)
    labels = [e.label for kind in (app.button, app.toggle) for e in kind]
    assert labels and not [label for label in labels if any(bad in label for bad in HOSTILE)]


def test_a_log_that_cannot_be_used_is_said_and_can_be_left_behind(folder):
    app, loaded = explore(folder)
    press(app, "vote.down")
    feedback.get_log_path(loaded).unlink()
    feedback.get_log_path(loaded).write_text("nothing of the kind\n", encoding="utf-8")
    app.run()
    assert not app.exception and "cannot be used" in texts(app) and "is no log of feedback" in texts(app)
    press(app, "vote.up")
    assert "This vote was not taken." in texts(app)
    press(app, "live.carry")
    assert "This did not work" in texts(app)
    press(app, "live.anew")
    assert "A new log has begun" in texts(app) and "cannot be used" not in texts(app)
    press(app, "vote.up")
    assert feedback.count_events(loaded) == 1 and "moved by 1 vote" in texts(app)


def test_before_and_after_name_what_changed_and_nothing_else():
    loaded, query = corpus(), torch.from_numpy(vectors()[7])
    top = engine.Decoder(engine.make("top_k"))
    asked = engine.Embeddings(("q",), query.unsqueeze(0))
    first = engine.decode(top, loaded.space, asked, k=10)
    second, third = first.index[0, 1].item(), first.index[0, 2].item()
    lead = float(first.gain[0, 1] - first.gain[0, 2])
    steps = int(lead / orag.PRESETS[feedback.NEW_LOG_PRESET].rate) + 1
    for i in range(steps):
        add(loaded, thumb(row=second, person=f"p{i}"))
    now = feedback.adapt_corpus(loaded)
    ranking = engine.decode(top, now.space, asked, k=10)
    result = before_after(loaded.space, now.space, query, {"top_k": (first, ranking)})
    assert result[0].row == second and result[0].ranks["top_k"][0] == 2 and result[0].ranks["top_k"][1] != 2
    exact = now.space.vectors[second].double() @ query.double()
    assert result[0].after == pytest.approx(exact.item(), abs=1e-12) and result[0].after < result[0].before
    assert third in [one.row for one in result] and all(one.before == one.after for one in result[1:])
    order, then = ranking.index[0].tolist(), first.index[0].tolist()
    still = [row for row in order if row in then and order.index(row) == then.index(row)]
    assert len(still) >= 1 and not {one.row for one in result} & (set(still) - {second})
    assert before_after(loaded.space, loaded.space, query, {"top_k": (first, first)}) == ()


def test_a_thumb_is_taken_back_with_those_it_had_replaced(folder):
    app, loaded = explore(folder)
    other = add(loaded, thumb(row=5, person="somebody else")).events[0]
    for key in ("vote.up", "vote.down", "vote.up", "vote.down"):
        press(app, key)
    assert feedback.count_events(loaded) == 2 and len(feedback.session(loaded).events) == 5
    press(app, "vote.down")
    now = feedback.session(loaded)
    assert [event.id for event in now.events if now.status(event.id) == "counts"] == [other.id]


def test_ones_own_last_comes_before_anothers():
    loaded = corpus()
    add(loaded, thumb(row=1, person="ana"))
    add(loaded, thumb(row=2, person="ana"))
    now = add(loaded, thumb(row=3, person="bob"))
    entries = drift.feedback(now)
    assert feedback_log.find_last(entries, "ana").row == 2 and feedback_log.find_last(entries, "eve").row == 3
    now = feedback.open_or_create_log(loaded).undo(feedback_log.find_last(entries, "ana").id)
    assert feedback_log.find_last(drift.feedback(now), "ana").row == 1
    assert feedback_log.find_last(drift.feedback(feedback.open_or_create_log(loaded).reset()), "ana") is None


@contextmanager
def held(monkeypatch, owner, name):
    """While inside, whoever calls that function stands in it until the end; gives the event of somebody's arrival."""
    arrived, go_on, real = threading.Event(), threading.Event(), getattr(owner, name)

    def slow(*args, **kwargs):
        arrived.set()
        assert go_on.wait(patient(60))
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
    worker.join(patient(60))
    return result[0] if result else None


@pytest.mark.parametrize(("module", "name"), [(orag, "log"), (space, "Space")], ids=["replay", "adapt"])
def test_replaying_a_long_log_and_making_the_adapted_corpus_hold_nobody_up(monkeypatch, module, name):
    loaded, other = corpus(), corpus(n=30)
    add(loaded, thumb(row=1))
    add(other, thumb(row=2))
    again, result = replace(loaded, space=corpus().space), []
    work = (lambda: feedback.session(again)) if module is orag else (lambda: feedback.adapt_corpus(loaded))
    with held(monkeypatch, module, name) as arrived:
        workers = [threading.Thread(target=lambda: result.append(work())) for _ in range(2)]
        for worker in workers:
            worker.start()
        assert arrived.wait(patient(60)) and beside(lambda: feedback.count_events(other)) == 1
    for worker in workers:
        worker.join(patient(60))
    if module is orag:
        assert feedback.session(again).round == 1
    else:
        assert result[0] is result[1] is feedback.adapt_corpus(loaded) is not loaded
