"""The log on disk: nothing acknowledged is lost, nothing damaged is taken for whole, several may write."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import orag_writer
import pytest
from conftest import ROOT
from orag_kit import lived, queries_near, random_space, space_of
from orag_writer import write_to

import engine
from engine import orag
from engine.errors import DataError, FrontierError, ParamError
from engine.values import EncoderRef


@pytest.fixture(scope="module")
def space():
    return random_space()


def same(a, b):
    return a.exact.tobytes() == b.exact.tobytes() and a.digest == b.digest


def filled(path, space, rounds=12, **how):
    """A log of some feedback, one piece undone, a name given."""
    log = orag.log(path, space, **{"temperature": 0.2, **how})
    for event in lived(log.session, rounds).events:
        log.feed(event)
    log.undo(log.session.events[2].id)
    log.snapshot("named")
    return log


@pytest.fixture
def in_memory(tmp_path):
    """A folder in memory where there is one: what a killed process wrote outlives it there too, and sooner."""
    try:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            yield Path(folder)
    except OSError:
        yield tmp_path


def writer(path, name, count):
    """Another process that writes so many events."""
    paths = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    command = [sys.executable, orag_writer.__file__, str(path), name, str(count)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env={**os.environ, **paths})


def started(child):
    assert child.stdout.readline() == "ready\n"
    child.stdin.write("\n")
    child.stdin.flush()


@pytest.mark.parametrize("how", ({}, {"mode": "full"}, {"preset": "paper"}, {"schedule": "sqrt", "batch": 2}))
def test_a_log_read_again_is_the_same_session(tmp_path, space, how):
    log = filled(tmp_path / "log.jsonl", space, **how)
    log.change(went=["d1", "d2"])
    log.change(came=["d2"])
    log.redo(log.session.history[2].id)
    log.restore("named")
    again = orag.log(tmp_path / "log.jsonl", space)
    assert same(again.session, log.session) and again.notices == ()
    assert again.session.preset == log.session.preset and again.session.snapshots == {"named": 14}
    assert (again.session.available == log.session.available).all()
    loaded, said = orag.load(tmp_path / "log.jsonl", space)
    assert same(loaded, log.session) and said == ()
    saved = orag.save(loaded, tmp_path / "copy.jsonl")
    assert same(orag.log(saved, space).session, log.session)
    assert [e.time for e in loaded.events] == [e.time for e in log.session.events] and all(
        e.time for e in loaded.events
    )
    reset = log.reset()
    assert reset.embeddings() == space.embeddings
    assert orag.load(tmp_path / "log.jsonl", space)[0].embeddings() == space.embeddings


def test_a_log_in_memory_and_on_disk_fold_alike(tmp_path, space):
    session = lived(orag.session(space, temperature=0.2), 20)
    log = orag.log(tmp_path / "log.jsonl", space, temperature=0.2)
    for event in session.events:
        log.feed(event)
    assert log.session.exact.tobytes() == session.exact.tobytes()


def test_lines_are_plain_json_about_documents_by_id(tmp_path, space):
    log = filled(tmp_path / "log.jsonl", space)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["op"] for line in lines] == ["begin", *["feed"] * 12, "undo", "snapshot"]
    assert lines[1]["item"] == space.corpus.ids[log.session.history[0].item] and lines[0]["preset"]["rate"] == 0.02


def test_text_of_any_kind_comes_back(tmp_path):
    odd = ('a "quote"', "new\nline", "\ud800 alone", "ünï", " ")
    space = space_of(np.eye(5, dtype=np.float32), odd, ids=("a b", "ü", '"', "\n", "\ud800"))
    log = orag.log(tmp_path / "log.jsonl", space)
    for turn, text in enumerate(odd):
        query = orag.Query(space.vectors[turn].numpy(), text)
        log.feed(orag.thumb(log.session, query, space.corpus.ids[turn], person=text))
    log.snapshot("\ud800\n")
    again, _ = orag.load(tmp_path / "log.jsonl", space)
    assert same(again, log.session) and [e.query.text for e in again.events] == list(odd)
    assert [e.person for e in again.events] == list(odd) and list(again.snapshots) == ["\ud800\n"]


def test_a_torn_last_line_is_set_aside_and_said(tmp_path, space):
    path = tmp_path / "log.jsonl"
    log = filled(path, space)
    raw = path.read_bytes()
    last = raw[raw[:-1].rfind(b"\n") + 1 :]
    for tear in (last[:1], last[:40], last[:-1], b"\0" * 300, b'{"seal":"'):
        path.write_bytes(raw + tear)
        session, said = orag.load(path, space)
        assert same(session, log.session) and "torn" in str(said[0]) and path.read_bytes() == raw + tear
        again = orag.log(path, space)
        assert same(again.session, log.session) and path.read_bytes() == raw
        assert "torn" in str(again.notices[0]) and "log.jsonl.torn" in str(again.notices[0])
    torn = [json.loads(line) for line in (tmp_path / "log.jsonl.torn").read_text().splitlines()]
    assert [entry["torn"].encode("latin-1") for entry in torn][1] == last[:40] and torn[0]["at"] == len(raw)

    # One that is open meets what another left behind, before it writes.
    path.write_bytes(raw + last[:33])
    log.feed(orag.thumb(log.session, queries_near(space)[0][0], 1))
    assert same(orag.load(path, space)[0], log.session) and log.notices


def test_damage_within_is_an_error_that_names_the_line(tmp_path, space):
    path = tmp_path / "log.jsonl"
    filled(path, space)
    raw = path.read_bytes()
    lines = raw.split(b"\n")[:-1]
    changed = lines[4].replace(b'"round":4', b'"round":5')
    assert changed != lines[4]
    for bad, named in (
        ([*lines[:4], changed, *lines[5:]], "line 5"),
        ([*lines[:4], *lines[5:]], "line 5"),
        ([*lines[:4], lines[5], lines[4], *lines[6:]], "line 5"),
        ([*lines[:9], lines[9][:50], *lines[10:]], "line 10"),
        ([*lines[:4], lines[3], *lines[4:]], "line 5"),
    ):
        path.write_bytes(b"\n".join(bad) + b"\n")
        for call in (orag.log, orag.load):
            with pytest.raises(DataError, match=f"{named} is not as it was written"):
                call(path, space)
    for bad in (b"hello\n", lines[0][:99] + b"\n", b"\n".join([b"x", *lines])):
        path.write_bytes(bad)
        with pytest.raises(DataError, match="no log of feedback, or its first line is damaged"):
            orag.log(path, space)


def test_a_flip_of_any_byte_is_found(tmp_path, space):
    path = tmp_path / "log.jsonl"
    filled(path, space, 4)
    raw = path.read_bytes()
    ends = [at for at, byte in enumerate(raw) if byte == 10]
    for at in np.random.default_rng(0).integers(ends[0], len(raw), size=60):
        bad = bytearray(raw)
        bad[at] ^= 1
        path.write_bytes(bad)
        try:
            session, said = orag.load(path, space)
        except DataError as error:
            assert "line" in str(error)
        else:
            assert at == ends[-1] and "torn" in str(said[0]) and session.position == 5


def test_another_corpus_or_encoder_is_refused(tmp_path, space):
    path = tmp_path / "log.jsonl"
    filled(path, space)
    corpus, embeddings = space.corpus, space.embeddings
    texts = list(corpus.texts)
    texts[3] = "now this"
    other = engine.Space(engine.Corpus(corpus.ids, tuple(texts)), embeddings, "cpu")
    shrunk = space_of(space.vectors.numpy()[1:], ids=corpus.ids[1:])
    foreign = engine.Space(corpus, replace(embeddings, encoder=EncoderRef("other", "cd" * 32, "float32")), "cpu")
    own = engine.Space(corpus, replace(embeddings, encoder=None), "cpu")
    wide = random_space(d=13)
    for now, said in (
        (other, "1 with another text .first: 'd3'"),
        (shrunk, "1 gone .first: 'd0'"),
        (foreign, "given on made .* and this corpus has other"),
        (own, "and this corpus has vectors without an encoder"),
        (wide, "dimension 12, and these have 13"),
    ):
        for call in (orag.log, orag.load):
            with pytest.raises(DataError, match=rf"log\.jsonl: .*{said}"):
                call(path, now)

    nearly = engine.Space(corpus, replace(embeddings, vectors=embeddings.vectors * 1.0000001), "cpu")
    assert "last digits" in str(orag.log(path, nearly).notices[0])
    shuffled = space_of(space.vectors.numpy()[::-1].copy(), corpus.texts[::-1], ids=corpus.ids[::-1])
    for how in ({}, {"mode": "full"}):
        straight = filled(tmp_path / f"{len(how)}.jsonl", space, **how).session
        turned, said = orag.load(tmp_path / f"{len(how)}.jsonl", shuffled)
        assert said == () and np.allclose(turned.exact[::-1], straight.exact, rtol=0, atol=1e-15)
        back, said = orag.load(orag.save(turned, tmp_path / "turned.jsonl"), space)
        assert said == () and np.allclose(back.exact, straight.exact, rtol=0, atol=1e-15)
    orag.save(orag.session(own), tmp_path / "own.jsonl")
    with pytest.raises(DataError, match="other vectors of the same documents"):
        orag.log(tmp_path / "own.jsonl", engine.Space(corpus, replace(nearly.embeddings, encoder=None), "cpu"))


def test_what_still_holds_can_be_kept(tmp_path, space):
    path = tmp_path / "log.jsonl"
    before = filled(path, space).session
    texts = list(space.corpus.texts)
    about = before.events[0].item
    texts[about] = "now this"
    other = engine.Space(engine.Corpus(space.corpus.ids, tuple(texts)), space.embeddings, "cpu")
    log = orag.log(path, other, carry=True)
    assert {e.id for e in log.session.events} == {e.id for e in before.events if e.item != about}
    assert any("no longer count" in str(notice) for notice in log.notices)
    (kept,) = tmp_path.glob("log.*.jsonl")
    assert same(orag.load(kept, space)[0], before) and kept.name in str(log.notices[-1])
    assert orag.log(path, other, carry=True).notices == ()
    assert same(orag.load(kept, other, carry=True)[0], log.session)


def test_a_log_learns_as_it_was_begun_to(tmp_path, space):
    path = tmp_path / "log.jsonl"
    orag.log(path, space, "careful")
    assert orag.log(path, space).session.preset.name == "careful" and orag.log(path, space).notices == ()
    assert "learns as it was begun to (careful)" in str(orag.log(path, space, "default").notices[0])
    assert "learns as" in str(orag.log(path, space, rate=0.5).notices[0])
    with pytest.raises(ParamError, match="preset must be"):
        orag.log(tmp_path / "new.jsonl", space, "wild")
    assert not (tmp_path / "new.jsonl").exists()


def test_a_failed_write_leaves_nothing_behind(tmp_path, space, monkeypatch):
    path = tmp_path / "log.jsonl"
    log = filled(path, space)
    raw, before = path.read_bytes(), log.session

    def half(handle, data):
        if len(data) > 50:
            return real(handle, bytes(data)[:50])
        raise OSError(28, "No space left on device")

    real = os.write
    event = orag.thumb(log.session, queries_near(space)[0][0], 1)
    monkeypatch.setattr(os, "write", lambda h, d: real(h, bytes(d)[:50]) if full.pop() else half(h, d[:9]))
    full = [False, True]
    with pytest.raises(FrontierError, match="No space left"):
        log.feed(event)
    monkeypatch.undo()
    assert path.read_bytes() == raw and log.session is before
    assert log.feed(event).round == before.round + 1 and same(orag.load(path, space)[0], log.session)


def test_two_in_one_process_lose_nothing(tmp_path, space):
    """Each sees a session that is out of date by the time it writes."""
    path = tmp_path / "log.jsonl"
    a, b = orag.log(path, space, temperature=0.2), orag.log(path, space)
    query = queries_near(space)[0][0]
    for turn in range(6):
        a.feed(orag.thumb(a.session, query, 1, turn % 2 == 0))
        b.feed(orag.thumb(b.session, query, 1, turn % 2 == 0))
    assert a.refresh().round == 12 and same(a.session, b.session)
    assert a.refresh() is a.session
    stale = orag.at(a.session, 3)
    a.undo(stale.events[0].id)
    b.undo(stale.events[0].id)
    assert a.refresh().position == 13 and same(a.session, b.session)

    shared = orag.log(path, space)
    threads = [
        threading.Thread(
            target=lambda name=name: [
                shared.feed(orag.thumb(shared.session, query, 2, person=f"{name} {at}")) for at in range(20)
            ]
        )
        for name in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shared.session.round == 72 and same(orag.load(path, space)[0], shared.session)


def test_a_step_goes_on_from_what_is_there(tmp_path, space):
    log = filled(tmp_path / "log.jsonl", space)
    raw, before = (tmp_path / "log.jsonl").read_bytes(), log.session
    for step in (lambda now: orag.at(now, 3), lambda now: lived(orag.session(space), 30), lambda now: orag.at(now, 0)):
        with pytest.raises(ParamError, match="step must go on"):
            log.write(step)
    assert log.session is before and (tmp_path / "log.jsonl").read_bytes() == raw
    hops = log.write(lambda now: orag.multi_hop(now, None, queries_near(space)[0][:3], lambda query, item: 1)[0])
    assert hops.round == before.round + 3 and same(orag.load(tmp_path / "log.jsonl", space)[0], hops)
    assert log.write(lambda now: now) is hops


def test_a_file_put_in_its_place_is_read_anew(tmp_path, space):
    log = filled(tmp_path / "log.jsonl", space)
    orag.save(orag.at(log.session, 5), tmp_path / "other.jsonl").replace(tmp_path / "log.jsonl")
    assert log.refresh().position == 5
    log.feed(orag.thumb(log.session, queries_near(space)[0][0], 1))
    assert orag.load(tmp_path / "log.jsonl", space)[0].position == 6
    (tmp_path / "log.jsonl").unlink()
    with pytest.raises(DataError, match="does not exist"):
        log.undo(log.session.events[0].id)


def test_a_killed_writer_loses_nothing_it_acknowledged(in_memory, space):
    """1,000 events, of which the first writer is killed at the 600th; this process writes the others."""
    path, said = in_memory / "log.jsonl", []
    with writer(path, "w", 1000) as child:
        started(child)
        for line in child.stdout:
            said.append(line.strip())
            if len(said) == 600:
                child.send_signal(signal.SIGKILL)
                break
        said += [line.strip() for line in child.stdout if line.endswith("\n")]
    assert child.returncode == -signal.SIGKILL and len(said) < 1000
    log = orag.log(path, space)
    people = [event.person for event in log.session.events]
    assert people[: len(said)] == said and len(people) - len(said) in (0, 1)
    write_to(log, "w", 1000)
    session, notices = orag.load(path, space)
    assert [event.person for event in session.events] == [f"w {at}" for at in range(1000)] and notices == ()
    assert path.read_bytes().count(b"\n") == 1001


def test_two_writers_of_five_hundred(in_memory, space):
    path = in_memory / "log.jsonl"
    log = orag.log(path, space, temperature=0.2)
    with writer(path, "a", 500) as child:
        started(child)
        write_to(log, "b", 500)
        child.communicate()
    assert child.returncode == 0
    session, notices = orag.load(path, space)
    people = [event.person for event in session.events]
    assert notices == () and sorted(people) == sorted(f"{name} {at}" for name in "ab" for at in range(500))
    assert sum(a[0] != b[0] for a, b in pairwise(people)) > 5, "they wrote by turns"
    assert same(log.refresh(), session)


def test_where_a_log_belongs(space, tmp_path, monkeypatch):
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path))
    assert orag.place(space) == tmp_path / "feedback" / "corpus-abababab.jsonl"
    log = orag.log(orag.place(space), space)
    log.feed(orag.thumb(log.session, queries_near(space)[0][0], 1))
    from engine.data import cache

    cache.clear()
    assert orag.load(orag.place(space), space)[0].round == 1, "feedback is no cache"
