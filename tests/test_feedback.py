"""Live feedback without a browser: one log for everybody, what it makes of the corpus, the buttons that write it."""

import json
import threading
from collections import OrderedDict
from functools import partial

import numpy as np
import pytest
import torch
from test_pages import screen, texts

import engine
from dashboard import state
from dashboard.explore.reading import Opened
from dashboard.feedback import live
from dashboard.state import Loaded, Source
from engine import orag
from engine.errors import DataError
from engine.values import Dataset
from engine.views import before_after

N, D = 40, 16
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "![x](http://192.0.2.1/x.png)",
    "$\\href{javascript:alert(1)}{y}$",
    ":red[z]",
)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home of its own: every test begins without feedback."""
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def vectors(n=N, seed=3):
    rows = np.random.default_rng(seed).standard_normal((n, D)) + 1
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype("float32")


def corpus(n=N, changed=()):
    ids = tuple(f"d{i} {HOSTILE[i % 4]}" for i in range(n))
    documents = engine.Corpus(ids, tuple(f"{HOSTILE[i % 4]} text {i}{'!' * (i in changed)}" for i in range(n)))
    space = engine.Space(documents, engine.Embeddings(torch.from_numpy(vectors(n)), ids), "cpu")
    return Loaded(Source("made"), Dataset(documents, engine.Queries((), ())), space, None)


def digest(loaded):
    return live.adapted(loaded).space.embeddings.digest


def thumb(row=3, up=False, person="ana", query=7):
    return lambda now: orag.thumb(now, vectors()[query], row, up=up, person=person)


def test_looking_writes_nothing(home):
    loaded = corpus()
    assert live.session(loaded).round == live.count(loaded) == 0 and live.adapted(loaded) is loaded
    assert not home.exists()


def test_feedback_makes_a_corpus_of_its_own_and_undo_gives_the_first_one_back():
    loaded = corpus()
    now = live.add(loaded, thumb())
    adapted = live.adapted(loaded)
    moved = (adapted.space.vectors != loaded.space.vectors).any(1).nonzero().flatten().tolist()
    assert moved == [3] and adapted.origin is loaded is live.origin(adapted)
    assert adapted.space.embeddings.digest != loaded.space.embeddings.digest
    assert adapted.space.corpus is loaded.space.corpus and live.adapted(adapted) is adapted
    expected = loaded.space.vectors[3].double() - now.preset.rate * torch.from_numpy(vectors()[7]).double()
    assert adapted.space.vectors[3].numpy() == pytest.approx(expected.numpy(), abs=1e-7)
    live.undo(adapted, now.events[0].id)
    assert live.adapted(loaded) is loaded
    live.redo(loaded, now.events[0].id)
    assert digest(loaded) == adapted.space.embeddings.digest
    live.reset(loaded)
    assert live.adapted(loaded) is loaded and live.count(loaded) == 0


def test_a_vote_replaces_the_earlier_one_and_undo_brings_that_back():
    loaded = corpus()
    live.add(loaded, thumb(up=False))
    down = digest(loaded)
    now = live.add(loaded, thumb(up=True))
    assert live.count(loaded) == 1 and len(now.events) == 2
    up = digest(loaded)
    live.add(loaded, thumb(up=True, person="bob"))
    assert live.count(loaded) == 2 and digest(loaded) not in (up, down)
    live.undo(loaded, live.session(loaded).events[-1].id)
    assert digest(loaded) == up
    live.undo(loaded, now.events[-1].id)
    assert digest(loaded) == down


def test_what_another_process_adds_is_seen_and_nothing_is_lost():
    loaded = corpus()
    live.add(loaded, thumb(person="here"))
    other = orag.log(live.path(loaded), corpus().space)
    assert other.session.round == 1

    def mine(person):
        for i in range(20):
            live.add(loaded, thumb(row=i, person=person))

    def theirs():
        for i in range(20):
            other.feed(orag.thumb(other.session, vectors()[9], i, person="there"))

    works = [partial(mine, "ana"), theirs, partial(mine, "bob")]
    workers = [threading.Thread(target=work) for work in works]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert live.session(loaded).round == other.refresh().round == 1 + 60
    assert live.session(loaded).vectors.tobytes() == other.session.vectors.tobytes()


def test_another_setting_folds_the_same_feedback_again():
    loaded = corpus()
    now = live.add(loaded, thumb())
    live.snapshot(loaded, "one")
    live.add(loaded, thumb(row=5))
    before, names = digest(loaded), live.session(loaded).snapshots
    assert now.preset.name == live.PRESET
    faster = live.settings(loaded, "default")
    assert faster.preset.name == "default" and faster.temperature == now.temperature
    assert [e.id for e in faster.events] == [e.id for e in live.session(loaded).events] and digest(loaded) != before
    assert orag.load(live.path(loaded), loaded.space)[0].digest == faster.digest
    back = live.settings(loaded, live.PRESET)
    assert digest(loaded) == before and back.snapshots == names
    live.restore(loaded, "one")
    assert live.count(loaded) == 1


def test_a_corpus_that_has_changed_is_said_and_what_holds_is_kept():
    live.add(corpus(), thumb(row=3))
    live.add(corpus(), thumb(row=5))
    changed = corpus(changed=(5,))
    with pytest.raises(DataError, match=r"another state of this corpus: 1 with another text"):
        live.session(changed)
    said = " ".join(map(str, live.carry(changed)))
    assert "1 pieces of feedback" in said and live.count(changed) == 1
    assert len(list(live.path(changed).parent.glob("*.jsonl"))) == 2, "the old log stays"


def test_two_corpora_of_one_name_have_their_own_logs():
    one, other = corpus(), corpus(n=N - 10)
    live.add(one, thumb(row=3))
    other_path = live.path(other)
    # Without an encoder vectors say which corpus it is.
    assert other_path != live.path(one) and live.count(other) == 0
    live.add(other, thumb(row=4))
    live.add(one, thumb(row=9))
    assert (live.count(one), live.count(other)) == (2, 1)


def test_a_damaged_log_is_named_and_another_one_begins_beside_it(monkeypatch):
    loaded = corpus()
    for row in range(4):
        live.add(loaded, thumb(row=row))
    file = live.path(loaded)
    lines = file.read_text(encoding="ascii").splitlines()
    lines[2] = lines[2].replace("thumb", "thomb")
    file.write_text("\n".join(lines) + "\n", encoding="ascii")
    monkeypatch.setattr(live, "_LOGS", OrderedDict())  # as after a restart
    with pytest.raises(DataError, match="line 3 is not as it was written"):
        live.session(loaded)
    assert live.begin_anew(loaded) == file and file.is_file()
    assert live.count(loaded) == 0 and live.path(loaded) != file
    live.add(loaded, thumb())
    assert live.count(loaded) == 1


def test_a_log_that_is_deleted_is_forgotten():
    loaded = corpus()
    live.add(loaded, thumb())
    live.path(loaded).unlink()
    assert live.count(loaded) == 0 and live.adapted(loaded) is loaded


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A corpus on disk whose texts try to be markup, with its vectors."""
    path = tmp_path_factory.mktemp("live") / "hostile"
    path.mkdir()
    made = corpus().space.corpus
    rows = ({"_id": i, "title": "", "text": t} for i, t in zip(made.ids, made.texts, strict=True))
    (path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    np.save(path / "vectors.npy", vectors())
    return path


def explore(folder, row=5, **session):
    """Explore with a document open; returns the session and the corpus."""
    source = Source(str(folder))
    app = screen("explore", source, decoders=["top_k", "mmr"], **session)
    loaded = state.loading(source).result
    asked = loaded.space.corpus.passages[0]
    app.session_state["reading"] = Opened(loaded.space.corpus.digest, asked, row, "top_k")
    app.run()
    assert not app.exception, app.exception
    return app, loaded


def press(app, key):
    app.button(key=key).click().run()
    assert not app.exception, app.exception


def sets(app):
    return [t.value for t in app.dataframe if "#" in t.value]


def same(one, other):
    return all(a.drop(columns=["up", "down"], errors="ignore").equals(b) for a, b in zip(one, other, strict=True))


def plain(app):
    return [t.drop(columns=["Nearest"], errors="ignore") for t in sets(app)]


def answered(app, loaded):
    """The row that stands first."""
    text = sets(app)[0]["Document"][0]
    return next(i for i, t in enumerate(loaded.space.corpus.texts) if t[:200] == text)


def test_a_thumb_moves_the_document_and_every_session_sees_it(folder):
    app, loaded = explore(folder)
    before = plain(app)
    assert not app.toggle(key=live.ON).value and "learned" not in texts(app)
    press(app, "vote.down")
    assert app.toggle(key=live.ON).value and "learned from 1 piece of feedback" in texts(app)
    assert "Your last: thumb down" in texts(app) and live.count(loaded) == 1
    (event,) = live.session(loaded).events
    assert (event.item, event.good, event.propensity, event.kind) == (5, False, None, "thumb")
    other, _ = explore(folder, row=6)
    assert same(plain(other), before), "off until somebody wants it"
    other.toggle(key=live.ON).set_value(True).run()
    assert "learned from 1 piece" in texts(other)
    press(other, "vote.up")
    assert live.count(loaded) == 2 and len({e.person for e in live.session(loaded).events}) == 2
    app.run()
    assert "learned from 2 pieces" in texts(app)
    press(app, "feedback.undo")
    assert [e.item for e in live.session(loaded).events] == [6], "Undo takes back one's own"
    press(other, "feedback.undo")
    assert live.adapted(loaded) is loaded and same(plain(other), before)


def test_the_same_button_takes_a_vote_back_and_the_other_replaces_it(folder):
    app, loaded = explore(folder)
    press(app, "vote.down")
    down = digest(loaded)
    press(app, "vote.up")
    assert live.count(loaded) == 1 and digest(loaded) != down
    press(app, "vote.up")
    assert live.adapted(loaded) is loaded and live.count(loaded) == 0, "the thumb that it had replaced stays out"
    press(app, "vote.down")
    assert digest(loaded) == down


def test_the_right_one_counts_against_the_list_that_was_shown(folder):
    app, loaded = explore(folder)
    row = answered(app, loaded)
    app.session_state["reading"] = Opened(loaded.space.corpus.digest, loaded.space.corpus.passages[0], row, "top_k")
    app.run()
    press(app, "vote.right")
    (event,) = live.session(loaded).events
    assert event.kind == "right_one" and event.item == row and len(event.shown) == 10
    out = next(r for r in range(N) if r not in event.shown)
    app.session_state["reading"] = Opened(loaded.space.corpus.digest, loaded.space.corpus.passages[0], out, "top_k")
    app.session_state["decoders"] = ["top_k"]
    app.run()
    assert app.button(key="vote.right").disabled and not app.button(key="vote.up").disabled


def test_the_switch_gives_the_corpus_as_it_was_embedded(folder):
    app, _ = explore(folder)
    before = sets(app)
    press(app, "vote.down")
    on = plain(app)
    app.toggle(key=live.ON).set_value(False).run()
    assert all(a.equals(b) for a, b in zip(sets(app), before, strict=True)) and "learned" not in texts(app)
    app.toggle(key=live.ON).set_value(True).run()
    assert all(a.equals(b) for a, b in zip(plain(app), on, strict=True))


def test_a_link_names_the_corpus_as_it_was_embedded(folder):
    app, loaded = explore(folder)
    press(app, "vote.down")
    app.slider(key="k").set_value(7).run()
    assert live.adapted(loaded) is not loaded
    assert app.query_params["vectors"] == loaded.space.embeddings.digest[:12]


def test_other_screens_work_on_the_corpus_that_feedback_made(folder):
    _, loaded = explore(folder)
    live.add(loaded, thumb(row=5))
    for name in ("tradeoff", "tune", "theory"):
        app = screen(name, Source(str(folder)), **{live.ON: True})
        assert "learned from 1 piece of feedback" in texts(app)


def test_text_of_documents_is_no_markup(folder):
    app, _ = explore(folder)
    press(app, "vote.down")
    app.session_state["ranked.layout"] = "One table"
    app.run()
    kinds = (app.markdown, app.caption, app.info, app.warning, app.error)
    assert not [e.value for kind in kinds for e in kind if any(bad in e.value for bad in HOSTILE)]
    labels = [e.label for kind in (app.button, app.toggle) for e in kind]
    assert labels and not [label for label in labels if any(bad in label for bad in HOSTILE)]


def test_a_log_that_cannot_be_used_is_said_and_can_be_left_behind(folder):
    app, loaded = explore(folder)
    press(app, "vote.down")
    live.path(loaded).write_text("nothing of the kind\n", encoding="utf-8")
    app.run()
    assert not app.exception and "cannot be used" in texts(app) and "is no log of feedback" in texts(app)
    press(app, "vote.up")
    assert "This feedback was not taken." in texts(app)
    press(app, "live.carry")
    assert "This did not work" in texts(app)
    press(app, "live.anew")
    assert "A new log has begun" in texts(app) and "cannot be used" not in texts(app)
    press(app, "vote.up")
    assert live.count(loaded) == 1 and "learned from 1 piece" in texts(app)


def test_before_and_after_name_what_changed_and_nothing_else():
    loaded, query = corpus(), torch.from_numpy(vectors()[7])
    top = engine.Decoder(engine.make("top_k"))
    asked = engine.Embeddings(query.unsqueeze(0), ("q",))
    first = engine.decode(top, loaded.space, asked, k=10)
    second, third = first.index[0, 1].item(), first.index[0, 2].item()
    lead = float(first.gain[0, 1] - first.gain[0, 2])
    steps = int(lead / orag.PRESETS[live.PRESET].rate) + 1
    for i in range(steps):
        live.add(loaded, thumb(row=second, person=f"p{i}"))
    now = live.adapted(loaded)
    ranking = engine.decode(top, now.space, asked, k=10)
    found = before_after(loaded.space, now.space, query, {"top_k": (first, ranking)})
    assert found[0].row == second and found[0].ranks["top_k"][0] == 2 and found[0].ranks["top_k"][1] != 2
    exact = now.space.vectors[second].double() @ query.double()
    assert found[0].after == pytest.approx(exact.item(), abs=1e-12) and found[0].after < found[0].before
    assert third in [one.row for one in found] and all(one.before == one.after for one in found[1:])
    order, then = ranking.index[0].tolist(), first.index[0].tolist()
    still = [row for row in order if row in then and order.index(row) == then.index(row)]
    assert len(still) >= 1 and not {one.row for one in found} & (set(still) - {second})
    assert before_after(loaded.space, loaded.space, query, {"top_k": (first, first)}) == ()
