"""JSONL logs: read as they were written, and taken over into SQLite once, whole, and never changed."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from engine import orag
from engine.data.locks import locked
from engine.errors import DataError
from engine.feedback import storage
from engine.feedback.serialization import START, body_of, sealed
from support.feedback import assert_refused, lived, queries_near, random_space, same, vote
from support.feedback_writer import started, write_to


@pytest.fixture
def old(tmp_path, space):
    """A JSONL log of twelve pieces of feedback, one undone, and a name, as older versions wrote it."""
    session = lived(orag.session(space, temperature=0.2), 12)
    session = orag.snapshot(orag.undo(session, session.events[2].id), "named")
    return without_end(orag.save(session, tmp_path / "log.jsonl"))


def without_end(path):
    """A saved log without the count at its end: as one that is written to line by line."""
    whole, _, end = path.read_text().rpartition("\n")
    assert json.loads(end)["kind"] == "end"
    path.write_text(whole + "\n")
    return path


def add_to(path, session, count=1, who="old"):
    """Append votes to a JSONL log as older versions do, under its lock; returns the session after them."""
    with locked(path):
        seal = json.loads(path.read_text().splitlines()[-1])["seal"]
        for turn in range(count):
            event = orag.thumb(session, queries_near(session.space)[0][turn], turn, person=f"{who} {turn}")
            session = orag.feed(session, event)
            line, seal = sealed(body_of(event, session.space.corpus), seal)
            with open(path, "a", encoding="ascii") as file:
                file.write(line + "\n")
    return session


@pytest.mark.parametrize("name", ("log.jsonl", "log.sqlite"))
@pytest.mark.parametrize("opened", (orag.log, orag.Log))
def test_a_jsonl_log_goes_on_in_sqlite_and_stays_as_it_is(tmp_path, space, old, name, opened):
    raw, before = old.read_bytes(), orag.load(old, space)[0]
    log = opened(tmp_path / name, space)
    assert log.path == tmp_path / "log.sqlite" and same(log.session, before) and log.notices == ()
    log.feed(vote(log.session, 1))
    for path in (tmp_path / "log.jsonl", tmp_path / "log.sqlite"):
        assert same(orag.load(path, space)[0], log.session)
        again = opened(path, space)
        assert same(again.session, log.session) and again.notices == ()
    assert old.read_bytes() == raw
    old.unlink()
    for path in (tmp_path / "log.jsonl", tmp_path / "log.sqlite"):
        assert same(orag.load(path, space)[0], log.session) and same(opened(path, space).session, log.session)


def test_a_log_of_another_ending_goes_on_beside_it(tmp_path, space, old):
    other = old.rename(tmp_path / "feedback.v1")
    raw, log = other.read_bytes(), orag.log(other, space)
    assert log.path == tmp_path / "feedback.v1.sqlite" and log.session.position == 14
    log.snapshot("more")
    assert orag.load(other, space)[0].position == 15 and other.read_bytes() == raw


def test_lines_that_an_older_version_adds_are_taken_over(tmp_path, space, old):
    log = orag.log(old, space)
    session = add_to(old, log.session, 2)
    assert same(orag.load(old, space)[0], session) and same(orag.load(log.path, space)[0], session)
    assert log.session.position == 14 and same(log.refresh(), session) and log.notices == ()
    session = add_to(old, session, 1, "older")
    after = log.snapshot("here")
    assert after.position == 18 and after.events[-1].person == "older 0"
    assert same(orag.log(old, space).session, after) and orag.log(old, space).notices == ()


def test_lines_that_do_not_go_on_from_the_log_are_named(tmp_path, space, old):
    log = orag.log(old, space)
    before = log.session
    mine = log.feed(vote(before, 1, person="new"))
    add_to(old, before, 3)
    raw = old.read_bytes()
    assert log.refresh() is mine
    said = "3 lines of log.jsonl are not in this log, which was written to before they were; they stay there (first:"
    assert [str(notice) for notice in log.notices] == [f"{said} 'line 16')"]
    log.refresh()
    assert len(log.notices) == 1, "said once"
    for notices in (orag.log(old, space).notices, orag.load(old, space)[1], orag.load(log.path, space)[1]):
        assert [str(notice) for notice in notices] == [f"{said} 'line 16')"]
    assert same(orag.load(old, space)[0], mine) and old.read_bytes() == raw


def test_a_jsonl_log_begun_beside_a_sqlite_log_is_named(tmp_path, space, old):
    raw = old.read_bytes()
    old.unlink()
    log = orag.log(tmp_path / "log.sqlite", space, "careful")
    old.write_bytes(raw)
    assert log.refresh().position == 0 and "15 lines of log.jsonl are not in this log" in str(log.notices[0])
    # A log of that name is what the file says, as nothing went on from it.
    assert orag.load(old, space)[0].position == 14


def test_an_export_beside_its_log_is_nothing_to_say(tmp_path, space):
    log = orag.log(tmp_path / "log.sqlite", space, temperature=0.2)
    first = log.feed(vote(log.session, 1))
    orag.save(first, tmp_path / "log.jsonl")
    log.snapshot("later")
    assert log.refresh().position == 2 and log.notices == () == orag.log(log.path, space).notices


def test_what_is_saved_is_what_is_loaded(tmp_path, space, old):
    log = orag.log(old, space)
    after = log.snapshot("later")
    for session in (orag.at(after, 14), orag.at(after, 3), lived(orag.session(space), 20)):
        assert same(orag.load(orag.save(session, old), space)[0], session)
        assert same(orag.load(log.path, space)[0], after)


def test_a_log_that_is_replaced_stays_replaced(tmp_path, space, old):
    log = orag.log(old, space)
    other = lived(orag.session(space, temperature=0.2), 3)
    copy = storage.replace_log(other, log.path)
    assert without_end(copy).read_bytes() == old.read_bytes()
    assert same(log.refresh(), other) and log.notices == () == orag.log(old, space).notices
    assert log.snapshot("more").position == 4
    # What nobody has opened yet is kept all the same.
    raw = old.read_bytes()
    fresh = tmp_path / "fresh.jsonl"
    fresh.write_bytes(raw)
    copy = storage.replace_log(other, fresh)
    assert without_end(copy).read_bytes() == raw == fresh.read_bytes() and same(orag.log(fresh, space).session, other)


def test_a_log_that_cannot_be_used_is_not_taken_over(tmp_path, space, old):
    for other in (random_space(d=13), random_space(n=39)):
        for call in (orag.log, orag.Log):
            with pytest.raises(DataError, match=r"log\.jsonl: .*(dimension|gone)"):
                call(old, other)
    assert [file.name for file in tmp_path.iterdir() if file.suffix != ".lock"] == ["log.jsonl"]


def test_what_still_holds_of_a_jsonl_log_is_kept_in_sqlite(tmp_path, space, old):
    raw, before = old.read_bytes(), orag.load(old, space)[0]
    fewer = random_space(n=39)
    log = orag.log(old, fewer, carry=True)
    assert same(log.session, orag.load(old, fewer, carry=True)[0]) and old.read_bytes() == raw
    (copy,) = tmp_path.glob("log.*.jsonl")
    assert without_end(copy).read_bytes() == raw and same(orag.load(copy, space)[0], before)
    assert copy.name in str(log.notices[-1]) and orag.log(old, fewer).notices == ()


def test_a_torn_last_line_is_left_out_and_said(tmp_path, space, old):
    raw, session = old.read_bytes(), orag.load(old, space)[0]
    last = raw[raw[:-1].rfind(b"\n") + 1 :]
    for number, tear in enumerate((last[:1], last[:40], last[:-1], b"\0" * 300, b'{"seal":"')):
        path = tmp_path / f"torn{number}.jsonl"
        path.write_bytes(raw + tear)
        for found, said in (orag.load(path, space), (orag.log(path, space).session, orag.log(path, space).notices)):
            assert same(found, session) and "torn" in str(said[0]) and path.read_bytes() == raw + tear
    # An older version that goes on from there cuts it off.
    path.write_bytes(raw)
    assert same(orag.log(path, space).session, session)
    after = add_to(path, session)
    assert same(orag.log(path, space).session, after)


def test_damage_within_is_an_error_that_names_the_line(tmp_path, space, old):
    lines = old.read_bytes().split(b"\n")[:-1]
    changed = lines[4].replace(b'"round":4', b'"round":5')
    assert changed != lines[4]
    path = tmp_path / "bad.jsonl"
    for bad, line in (
        ([*lines[:4], changed, *lines[5:]], 5),
        ([*lines[:4], *lines[5:]], 5),
        ([*lines[:4], lines[5], lines[4], *lines[6:]], 5),
        ([*lines[:9], lines[9][:50], *lines[10:]], 10),
        ([*lines[:4], lines[3], *lines[4:]], 5),
        ([*lines, b""], 16),
        ([*lines, b'{"seal":"'], 16),
    ):
        path.write_bytes(b"\n".join(bad) + b"\n")
        assert_refused(path, space, rf"bad\.jsonl line {line} is not as it was written.*head -n {line - 1} bad")
    for bad in (b"hello\n", lines[0][:99] + b"\n", b"\n".join([b"x", *lines]), b"hello"):
        path.write_bytes(bad)
        assert_refused(path, space, "no log of feedback, or its first line is damaged")
    with pytest.raises(DataError, match=r"cannot read .*nowhere\.jsonl"):
        orag.load(tmp_path / "nowhere.jsonl", space)


def test_damage_after_it_was_taken_over_is_said(tmp_path, space, old):
    log = orag.log(old, space)
    raw = old.read_bytes()
    old.write_bytes(raw.replace(b'"round":4', b'"round":5'))
    assert log.refresh().position == 14 and log.notices == ()
    for bad, said in ((raw + b"hello\n", "line 16 is not as"), (b"hello\n", "is no log of feedback")):
        old.write_bytes(bad)
        assert log.refresh().position == 14 and said in str(log.notices[-1])
        assert orag.log(log.path, space).session.position == 14
    old.write_bytes(b"".join(raw.splitlines(keepends=True)[:5]))
    said = log.notices
    assert log.refresh().position == 14 and log.notices == said, "fewer of the same lines"


def test_a_flip_of_any_byte_is_found(tmp_path, space, old):
    raw = old.read_bytes()
    ends = [index for index, byte in enumerate(raw) if byte == 10]
    path = tmp_path / "flipped.jsonl"
    for index in np.random.default_rng(0).integers(ends[0], len(raw), size=60):
        bad = bytearray(raw)
        bad[index] ^= 1
        path.write_bytes(bad)
        try:
            session, said = orag.load(path, space)
        except DataError as error:
            assert "line" in str(error)
        else:
            assert index == ends[-1] and "torn" in str(said[0]) and session.position == 13


def test_processes_that_open_one_jsonl_log_take_it_over_once(tmp_path, space, old):
    raw, before = old.read_bytes(), orag.load(old, space)[0]
    with ThreadPoolExecutor(4) as threads:
        children = list(threads.map(lambda name: started(old, name, 20), "ab"))
        list(threads.map(lambda name: write_to(orag.log(old, space), name, 20), "cd"))
    for child in children:
        child.communicate()
        assert child.returncode == 0
    session, said = orag.load(old, space)
    assert said == () and session.position == 14 + 80 and old.read_bytes() == raw
    assert [record.id for record in session.records[:14]] == [record.id for record in before.records]


def test_an_older_version_that_writes_meanwhile_loses_nothing(tmp_path, space, old):
    """It holds the lock of its file while it writes, and whoever takes that over waits."""
    log = orag.log(old, space)
    session = log.session
    done = threading.Event()

    def look():
        while not done.is_set():
            log.refresh()

    thread = threading.Thread(target=look)
    thread.start()
    for turn in range(20):
        session = add_to(old, session, 1, f"turn {turn}")
    done.set()
    thread.join()
    assert same(log.refresh(), session) and not [n for n in log.notices if "torn" not in str(n)]


def test_the_first_seal_is_of_nothing(space, old):
    line = old.read_text().splitlines()[0]
    body = json.loads(line)
    del body["seal"]
    assert sealed(body, START)[0] == line
