"""The log on disk: nothing acknowledged is lost, nothing damaged is taken for whole, several may write."""

import json
import os
import re
import signal
import sqlite3
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import engine
from engine import orag
from engine.data import event_log
from engine.judging.log import JudgingLog
from engine.values import EncoderRef
from support.feedback import (
    are_identical,
    assert_refused,
    feed_rounds,
    have_equal_vectors,
    queries_near,
    random_space,
    space_of,
    vote,
)
from support.feedback_writer import start_writer, write_to


def fill_log(path, space, rounds=12, **how):
    """A log of some feedback, one piece undone, a name given."""
    log = orag.log(path, space, **{"temperature": 0.2, **how})
    in_memory = feed_rounds(log.session, rounds)
    for event in in_memory.events:
        log.feed(event)
    assert have_equal_vectors(log.session, in_memory)
    log.undo(log.session.events[2].id)
    log.snapshot("named")
    return log


@pytest.fixture
def log(tmp_path, space):
    return fill_log(tmp_path / "log.sqlite", space)


@pytest.fixture
def in_memory(tmp_path):
    """A folder in memory where there is one: what a killed process wrote outlives it there too, and sooner."""
    try:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            yield Path(folder)
    except OSError:
        yield tmp_path


def bodies_of(path):
    """The events of a log, as another program reads them."""
    with closing(sqlite3.connect(path)) as db:
        return [body for (body,) in db.execute("SELECT body FROM events ORDER BY number")]


def spoil_log(path, *statements):
    """A copy of a log that is closed, with something done to it."""
    copy = path.with_name("bad.sqlite")
    copy.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(copy, isolation_level=None)) as db:
        for statement in statements:
            db.execute(*([statement] if isinstance(statement, str) else statement))
    return copy


@pytest.mark.parametrize("how", ({}, {"mode": "full"}, {"preset": "paper"}, {"schedule": "sqrt", "batch": 2}))
def test_a_log_read_again_is_the_same_session(tmp_path, space, how):
    log = fill_log(tmp_path / "log.sqlite", space, **how)
    log.change(went=["d1", "d2"])
    log.change(came=["d2"])
    log.redo(log.session.history[2].id)
    log.restore("named")
    again = orag.log(tmp_path / "log.sqlite", space)
    assert are_identical(again.session, log.session) and again.notices == ()
    assert again.session.preset == log.session.preset and again.session.snapshots == {"named": 14}
    assert (again.session.available == log.session.available).all()
    loaded, notices = orag.load(tmp_path / "log.sqlite", space)
    assert are_identical(loaded, log.session) and notices == ()
    for name in ("copy.jsonl", "copy.sqlite"):
        assert are_identical(orag.load(orag.save(loaded, tmp_path / name), space)[0], log.session)
    times = [e.time for e in loaded.events]
    assert times == [e.time for e in log.session.events] and all(times)
    reset = log.reset()
    assert reset.embeddings() == space.embeddings
    assert orag.load(tmp_path / "log.sqlite", space)[0].embeddings() == space.embeddings


def test_events_are_plain_json_about_documents_by_id(tmp_path, space, log):
    events = [json.loads(body) for body in bodies_of(log.path)]
    assert [event["op"] for event in events] == [*["feed"] * 12, "undo", "snapshot"]
    assert events[0]["item"] == space.corpus.ids[log.session.history[0].item]
    with closing(sqlite3.connect(log.path)) as db:
        ((kind, header),) = db.execute("SELECT kind, body FROM meta")
    assert kind == "feedback" and json.loads(header)["preset"]["rate"] == 0.02


def test_text_of_any_kind_comes_back(tmp_path):
    odd = ('a "quote"', "new\nline", "\ud800 alone", "ünï", " ")
    space = space_of(np.eye(5, dtype=np.float32), odd, ids=("a b", "ü", '"', "\n", "\ud800"))
    log = orag.log(tmp_path / "log.sqlite", space)
    for turn, text in enumerate(odd):
        query = orag.Query(space.vectors[turn].numpy(), text)
        log.feed(orag.thumb(log.session, query, space.corpus.ids[turn], person=text))
    log.snapshot("\ud800\n")
    again, _ = orag.load(tmp_path / "log.sqlite", space)
    assert are_identical(again, log.session) and [e.query.text for e in again.events] == list(odd)
    assert [e.person for e in again.events] == list(odd) and list(again.snapshots) == ["\ud800\n"]


def test_export_of_a_log_holds_the_same_events_and_their_number(tmp_path, space, log):
    header, *events, end = map(json.loads, orag.save(log.session, tmp_path / "copy.jsonl").read_text().splitlines())
    assert header.pop("op") == "begin" and end == {"op": "end", "events": 14}
    assert all(event.pop("checksum") for event in events) and events == list(map(json.loads, bodies_of(log.path)))
    saved = orag.save(log.session, tmp_path / "copy.sqlite")
    assert bodies_of(saved) == bodies_of(log.path)


@pytest.fixture
def statements(monkeypatch):
    """Record the statements that SQLite executes."""
    executed, connect = [], sqlite3.connect

    def traced(*args, **kwargs):
        db = connect(*args, **kwargs)
        db.set_trace_callback(executed.append)
        return db

    monkeypatch.setattr(sqlite3, "connect", traced)
    return executed


def test_a_log_is_written_ahead_and_synchronously(tmp_path, space, statements):
    log = orag.log(tmp_path / "log.sqlite", space, temperature=0.2)
    statements.clear()
    log.write(lambda now: orag.multi_hop(now, None, queries_near(space)[0][:3], lambda query, item: 1)[0])
    assert "PRAGMA synchronous = FULL" in statements
    writes = [s for s in statements if s.startswith(("BEGIN", "INSERT", "COMMIT"))]
    assert [s.split()[0] for s in writes] == ["BEGIN", *["INSERT"] * 3, "COMMIT"], "one transaction"
    with closing(sqlite3.connect(log.path)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_refresh_of_an_unchanged_log_writes_nothing_and_reads_no_new_record(tmp_path, space, statements, monkeypatch):
    monkeypatch.setattr(
        event_log, "MTIME_RESOLUTION_NS", 10**18
    )  # however slow the machine, the files have changed just now
    log, other_log = fill_log(tmp_path / "log.sqlite", space), orag.log(tmp_path / "log.sqlite", space)
    session = log.refresh()
    statements.clear()
    assert log.refresh() is session and "BEGIN" in statements and not [s for s in statements if "INSERT" in s]
    assert not [s for s in statements if "body" in s and "number > 14" not in s]
    other_log.snapshot("more")
    assert log.refresh().position == session.position + 1


@pytest.mark.threat(
    "events of a log changed, moved, put in or deleted by hand, but for the last ones deleted, which nothing notices",
    "refused by name",
)
def test_damage_within_is_an_error_that_names_the_event(tmp_path, space, log):
    bodies, change = bodies_of(log.path), "UPDATE events SET body = ? WHERE number = ?"
    changed = bodies[4].replace('"round":5', '"round":6')
    assert changed != bodies[4]
    for done, number in (
        ([(change, (changed, 5))], 5),
        (["DELETE FROM events WHERE number = 5"], 5),
        (["UPDATE events SET number = 0 - number", "UPDATE events SET number = 15 + number"], 1),
        ([(change, (bodies[9][:50], 10))], 10),
        ([(change, (bodies[3], 5))], 5),
        ([(change, (7, 4))], 4),
        ([(change, (bodies[3].encode(), 4))], 4),
        ([(change, (bodies[3] + "\xe9", 4))], 4),
        (["UPDATE events SET checksum = '' WHERE number = 4"], 4),
        (["INSERT INTO events SELECT 15, body, checksum FROM events WHERE number = 14"], 15),
        (["UPDATE events SET number = 20 WHERE number = 14"], 14),
        (["DELETE FROM events WHERE number = 1"], 1),
    ):
        bad = spoil_log(log.path, *done)
        assert_refused(bad, space, rf"bad\.sqlite event {number} is not as it was written; the {number - 1} before it")
    for done in ("UPDATE meta SET body = replace(body, '0.02', '0.03')", "UPDATE meta SET id = 'another'"):
        assert_refused(spoil_log(log.path, done), space, r"bad\.sqlite is damaged: its header is not as it was written")


def test_the_events_before_damage_are_kept_by_the_command_that_is_named(tmp_path, space, log):
    bad = spoil_log(log.path, "UPDATE events SET body = replace(body, 'thumb', 'thomb') WHERE number >= 6")
    with pytest.raises(engine.DataError, match=r"keep those only: sqlite3 bad\.sqlite") as error:
        orag.load(bad, space)
    number, statement = re.search(r'event (\d+) .*"(DELETE .*)"', str(error.value)).groups()
    with closing(sqlite3.connect(bad, isolation_level=None)) as db:
        db.execute(statement)
    assert are_identical(orag.load(bad, space)[0], orag.at(log.session, int(number) - 1))


def test_a_flip_of_any_byte_is_found(tmp_path, space):
    """Wherever it is: the log is read as it was, or not at all."""
    path = tmp_path / "log.sqlite"
    session = fill_log(path, space, 4).session
    raw = path.read_bytes()
    refused = 0
    for index in np.random.default_rng(0).integers(len(raw), size=100):
        bad = bytearray(raw)
        bad[index] ^= 1
        copy = tmp_path / "bad.sqlite"
        copy.write_bytes(bad)
        try:
            assert are_identical(orag.load(copy, space)[0], session)
        except engine.DataError:
            refused += 1
    assert refused > 20


def test_another_corpus_or_encoder_is_refused(tmp_path, space, log):
    path = log.path
    corpus, embeddings = space.corpus, space.embeddings
    texts = list(corpus.texts)
    texts[3] = "now this"
    retexted = engine.Space(engine.Corpus(corpus.ids, tuple(texts)), embeddings, "cpu")
    shrunk = space_of(space.vectors.numpy()[1:], ids=corpus.ids[1:])
    foreign = engine.Space(corpus, replace(embeddings, encoder=EncoderRef("other", "cd" * 32, "float32")), "cpu")
    own_space = engine.Space(corpus, replace(embeddings, encoder=None), "cpu")
    wide = random_space(d=13)
    for now, message in (
        (retexted, "1 with another text .first: 'd3'"),
        (shrunk, "1 gone .first: 'd0'"),
        (foreign, "given on made .* and this corpus has other"),
        (own_space, "and this corpus has vectors without an encoder"),
        (wide, "dimension 12, and these have 13"),
    ):
        assert_refused(path, now, rf"log\.sqlite: .*{message}")

    nearly = engine.Space(corpus, replace(embeddings, vectors=embeddings.vectors * 1.0000001), "cpu")
    assert "last digits" in str(orag.log(path, nearly).notices[0])
    shuffled = space_of(space.vectors.numpy()[::-1].copy(), corpus.texts[::-1], ids=corpus.ids[::-1])
    for how in ({}, {"mode": "full"}):
        straight = fill_log(tmp_path / f"{len(how)}.sqlite", space, **how).session
        turned, message = orag.load(tmp_path / f"{len(how)}.sqlite", shuffled)
        assert message == () and np.allclose(turned.exact[::-1], straight.exact, rtol=0, atol=1e-15)
        back, message = orag.load(orag.save(turned, tmp_path / "turned.jsonl"), space)
        assert message == () and np.allclose(back.exact, straight.exact, rtol=0, atol=1e-15)
    orag.save(orag.session(own_space), tmp_path / "own.sqlite")
    with pytest.raises(engine.DataError, match="other vectors of the same documents"):
        orag.log(tmp_path / "own.sqlite", engine.Space(corpus, replace(nearly.embeddings, encoder=None), "cpu"))


def test_carry_keeps_events_of_unchanged_documents(tmp_path, space, log):
    path, old_session = log.path, log.session
    texts = list(space.corpus.texts)
    about = old_session.events[0].item
    texts[about] = "now this"
    changed = engine.Space(engine.Corpus(space.corpus.ids, tuple(texts)), space.embeddings, "cpu")
    log = orag.log(path, changed, carry=True)
    assert {e.id for e in log.session.events} == {e.id for e in old_session.events if e.item != about}
    assert any("no longer count" in str(notice) for notice in log.notices)
    (export,) = tmp_path.glob("log.*.jsonl")
    assert are_identical(orag.load(export, space)[0], old_session) and export.name in str(log.notices[-1])
    assert orag.log(path, changed, carry=True).notices == ()
    assert are_identical(orag.load(export, changed, carry=True)[0], log.session)


def test_an_existing_log_keeps_its_preset_and_says_so(tmp_path, space):
    path = tmp_path / "log.sqlite"
    orag.log(path, space, "careful")
    assert orag.log(path, space).session.preset.name == "careful" and orag.log(path, space).notices == ()
    assert "preset ignored: this log was created with preset 'careful'" in str(
        orag.log(path, space, "default").notices[0]
    )
    assert "preset ignored" in str(orag.log(path, space, rate=0.5).notices[0])
    with pytest.raises(engine.ParamError, match="preset must be"):
        orag.log(tmp_path / "new.sqlite", space, "wild")
    assert not (tmp_path / "new.sqlite").exists()


def test_a_failed_write_leaves_nothing_behind(tmp_path, space, log, monkeypatch):
    path = log.path
    lines, old_session, connect = bodies_of(path), log.session, sqlite3.connect

    def full(*args, **kwargs):
        db = connect(*args, **kwargs)
        db.execute(f"PRAGMA max_page_count = {pages}")
        return db

    with closing(connect(path)) as db:
        (pages,) = db.execute("PRAGMA page_count").fetchone()
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", full)
        with pytest.raises(engine.FrontierError, match=r"cannot write .*log\.sqlite: .*full; free some room"):
            for turn in range(50):
                old_session = log.feed(vote(log.session, 1, person=f"p{turn}"))
                lines = bodies_of(path)
    assert bodies_of(path) == lines and log.session is old_session
    event = vote(log.session, 1)
    assert log.feed(event).round == old_session.round + 1 and are_identical(orag.load(path, space)[0], log.session)


def test_a_log_that_cannot_be_written_can_be_loaded(tmp_path, space, log):
    path, session = log.path, log.session
    for file in (path, *tmp_path.iterdir()):
        file.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        assert are_identical(orag.load(path, space)[0], session)
        if not os.access(path, os.W_OK):  # root writes to anything
            with pytest.raises(engine.FrontierError, match="cannot write"):
                orag.log(path, space)
    finally:
        tmp_path.chmod(0o755)


def test_a_step_that_fails_leaves_the_log_free_for_others(tmp_path, space, log):
    other_log = orag.log(log.path, space)
    with pytest.raises(ZeroDivisionError):
        log.write(lambda now: 1 / 0)
    assert other_log.snapshot("free").position == log.refresh().position


@pytest.mark.parametrize(
    ("make_file", "message"),
    [
        *((raw, "is no log of feedback") for raw in (b"nothing of the kind\n", b"SQLite", b"\0" * 5000)),
        (b"SQLite format 3\0" + bytes(4000), "is no log of feedback|is damaged"),
        (["CREATE TABLE other (a)"], "is a database, but no log of feedback"),
        (["PRAGMA application_id = 7"], "is a database, but no log of feedback"),
        (["CREATE TABLE records (number INTEGER PRIMARY KEY, line TEXT NOT NULL)"], "is a database, but no log"),
        (["PRAGMA application_id = 0x46524C47"], "is a database, but no log"),
    ],
)
def test_foreign_file_raises_error(tmp_path, space, make_file, message):
    path = tmp_path / "log.sqlite"
    if isinstance(make_file, bytes):
        path.write_bytes(make_file)
    else:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            for statement in make_file:
                db.execute(statement)
    raw = path.read_bytes()
    assert_refused(path, space, message)
    assert path.read_bytes() == raw


@pytest.mark.parametrize(
    "odd",
    [
        "CREATE TABLE more (a)",
        "CREATE VIEW more AS SELECT 1",
        "CREATE TRIGGER more AFTER INSERT ON events BEGIN DELETE FROM events; END",
        "ALTER TABLE events ADD COLUMN more",
        "DROP TABLE meta",
    ],
)
def test_a_log_of_another_schema_is_refused(tmp_path, space, odd):
    fill_log(tmp_path / "log.sqlite", space, 4)
    assert_refused(
        spoil_log(tmp_path / "log.sqlite", odd), space, "of another version of Frontier|of this version of Frontier"
    )


def test_two_open_logs_of_one_file_lose_no_event(tmp_path, space):
    """Each sees a session that is out of date by the time it writes."""
    path = tmp_path / "log.sqlite"
    a, b = orag.log(path, space, temperature=0.2), orag.log(path, space)
    query = queries_near(space)[0][0]
    for turn in range(6):
        a.feed(orag.thumb(a.session, query, 1, turn % 2 == 0))
        b.feed(orag.thumb(b.session, query, 1, turn % 2 == 0))
    assert a.refresh().round == 12 and are_identical(a.session, b.session)
    assert a.refresh() is a.session
    stale = orag.at(a.session, 3)
    a.undo(stale.events[0].id)
    b.undo(stale.events[0].id)
    assert a.refresh().position == 13 and are_identical(a.session, b.session)

    shared = orag.log(path, space)
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda name: write_to(shared, name, 20), "abc"))
    assert shared.session.round == 72 and are_identical(orag.load(path, space)[0], shared.session)


def test_feed_continues_from_the_stored_session(tmp_path, space, log):
    lines, old_session = bodies_of(log.path), log.session
    for step in (
        lambda now: orag.at(now, 3),
        lambda now: feed_rounds(orag.session(space), 30),
        lambda now: orag.at(now, 0),
    ):
        with pytest.raises(engine.ParamError, match="step must go on"):
            log.write(step)
    assert log.session is old_session and bodies_of(log.path) == lines
    hops = log.write(lambda now: orag.multi_hop(now, None, queries_near(space)[0][:3], lambda query, item: 1)[0])
    assert hops.round == old_session.round + 3 and are_identical(orag.load(tmp_path / "log.sqlite", space)[0], hops)
    assert log.write(lambda now: now) is hops


def test_a_file_put_in_its_place_is_read_anew(tmp_path, space, log):
    orag.save(orag.at(log.session, 5), tmp_path / "other.sqlite").replace(tmp_path / "log.sqlite")
    assert log.refresh().position == 5
    log.feed(vote(log.session, 1))
    assert orag.load(tmp_path / "log.sqlite", space)[0].position == 6
    (tmp_path / "log.sqlite").unlink()
    with pytest.raises(engine.DataError, match="does not exist"):
        log.undo(log.session.events[0].id)
    # Begun anew at the same place, it is another log; what the first had not yet merged into its file is not in it.
    again = orag.log(tmp_path / "log.sqlite", space)
    assert log.refresh().position == again.session.position == 0
    again.snapshot("new")
    assert orag.load(tmp_path / "log.sqlite", space)[0].position == 1


def test_a_log_saved_over_is_read_anew_by_those_who_have_it_open(tmp_path, space, log):
    old_session = log.session
    orag.save(orag.at(old_session, 5), log.path)
    assert log.refresh().position == 5
    orag.save(old_session, log.path)
    assert log.feed(vote(old_session, 1)).position == old_session.position + 1
    assert orag.load(log.path, space)[0].position == old_session.position + 1


def test_a_killed_writer_loses_nothing_it_acknowledged(in_memory, space):
    """1,000 events, of which the first writer is killed at the 600th; this process writes the others."""
    path, lines = in_memory / "log.sqlite", []
    with start_writer(path, "w", 1000) as child:
        for line in child.stdout:
            lines.append(line.strip())
            if len(lines) == 600:
                child.send_signal(signal.SIGKILL)
                break
        lines += [line.strip() for line in child.stdout if line.endswith("\n")]
    assert child.returncode == -signal.SIGKILL and len(lines) < 1000
    log = orag.log(path, space)
    people = [event.person for event in log.session.events]
    assert people[: len(lines)] == lines and len(people) - len(lines) in (0, 1)
    write_to(log, "w", 1000)
    session, notices = orag.load(path, space)
    assert [event.person for event in session.events] == [f"w {number}" for number in range(1000)] and notices == ()
    assert len(bodies_of(path)) == 1000


def test_two_writers_of_five_hundred(in_memory, space):
    path = in_memory / "log.sqlite"
    log = orag.log(path, space, temperature=0.2)
    with start_writer(path, "a", 500) as child:
        write_to(log, "b", 500)
        child.communicate()
    assert child.returncode == 0
    session, notices = orag.load(path, space)
    people = [event.person for event in session.events]
    assert notices == () and sorted(people) == sorted(f"{name} {number}" for name in "ab" for number in range(500))
    assert sum(a[0] != b[0] for a, b in pairwise(people)) > 5, "they wrote by turns"
    assert are_identical(log.refresh(), session)


def test_default_log_path(space, tmp_path, monkeypatch):
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path))
    assert orag.place(space) == tmp_path / "feedback" / "corpus-abababab.sqlite"
    log = orag.log(orag.place(space), space)
    log.feed(vote(log.session, 1))
    from engine.data import cache

    cache.clear()
    assert orag.load(orag.place(space), space)[0].round == 1, "feedback is no cache"


@pytest.mark.parametrize("make_file", ["PRAGMA user_version = 1", "PRAGMA journal_mode = WAL"])
def test_a_file_that_somebody_is_just_making_is_no_log_yet(tmp_path, space, make_file):
    path = tmp_path / "log.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(make_file)
    assert path.stat().st_size
    with pytest.raises(engine.DataError, match="does not exist"):
        orag.Log(path, space)
    assert JudgingLog(path).read().judgements == ()
    assert orag.log(path, space).snapshot("begun").position == 1


def test_a_vote_given_again_is_taken_back_with_the_one_it_had_replaced(tmp_path, space):
    log = orag.log(tmp_path / "log.sqlite", space, temperature=0.2)
    start, query = log.session, log.session.resolve_query(queries_near(space)[0][0])
    ben = orag.toggle_vote(log, query, 3, "up", person="ben")
    for kind in ("up", "down", "up", "down"):
        orag.toggle_vote(log, query, "d3", kind, person="ana")
    right = orag.toggle_vote(log, query, 3, "right", person="ana", shown=(1, 3))
    assert [event.kind for event in right.effective_events] == ["thumb", "thumb", "right_one"]
    assert [event.good for event in right.effective_events] == [True, False, True] and all(e.time for e in right.events)
    orag.toggle_vote(log, query, 3, "right", person="ana", shown=(1, 3))
    now = orag.toggle_vote(log, query, 3, "down", person="ana")
    assert [event.person for event in now.effective_events] == ["ben"] and have_equal_vectors(now, ben)
    assert have_equal_vectors(orag.toggle_vote(log, query, 3, "up", person="ben"), start)
    assert are_identical(orag.load(log.path, space)[0], log.session)
    with pytest.raises(engine.ParamError, match="shown must hold"):
        orag.toggle_vote(log, query, 3, "right", person="ana")
