"""The log of judgements: whatever is done in whatever order is what the file holds, for everyone who reads it."""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine import orag
from engine.data.event_log import _checksum
from engine.judging.log import GRADES, Judged, Judgement, JudgingLog
from support.draws import examples
from support.feedback import random_space
from support.fork_server import fork_python

PEOPLE, QUERIES, DOCS = ("ann", "bob"), ("q1", "q2"), ("d1", "d2", "d3")
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(
            st.just("judge"),
            st.sampled_from(QUERIES),
            st.sampled_from(DOCS),
            st.sampled_from([*GRADES, None]),
            st.sampled_from(PEOPLE),
        ),
        st.tuples(st.just("undo"), st.sampled_from(PEOPLE)),
        st.tuples(st.just("ask"), st.sampled_from(["how", "what"])),
        st.tuples(st.just("reopen")),
    ),
    max_size=25,
)


def without_times(judged):
    """Return the judgements that count, without times."""
    return [(g.query, g.document, g.grade, g.person) for g in judged.judgements]


def replay_judgements(done):
    """Compute the judgements that count by replaying all operations."""
    undone = set()
    for number, operation in enumerate(done):
        if operation[0] == "undo":
            candidates = [
                n for n in range(number) if n not in undone and done[n][0] == "judge" and done[n][4] == operation[1]
            ]
            undone |= set(candidates[-1:])
    remaining = [
        operation[1:] for number, operation in enumerate(done) if operation[0] == "judge" and number not in undone
    ]
    return [
        judgement
        for position, judgement in enumerate(remaining)
        if not any(judgement[:2] + judgement[3:] == s[:2] + s[3:] for s in remaining[position + 1 :])
    ]


@settings(max_examples=examples(100), deadline=None)
@given(OPERATIONS)
def test_log_equals_replay_for_any_operations(operations):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "new" / "log.sqlite"
        log, other_log = JudgingLog(path), JudgingLog(path)
        texts = {}
        for number, operation in enumerate(operations):
            match operation:
                case "judge", query, document, grade, person:
                    judged = log.judge(query, document, grade, person)
                case "undo", person:
                    before = log.read()
                    judged, newest = log.undo(person)
                    assert (newest is None) == (person not in before.people)
                case "ask", text:
                    judged = log.add_queries(engine.Queries((f"q-{text}",), (text,)))
                    texts[f"q-{text}"] = text
                case _:
                    log, judged = JudgingLog(path), log.read()
            assert without_times(judged) == replay_judgements(operations[: number + 1])
            assert dict(judged.texts) == texts
            assert without_times(other_log.read()) == without_times(JudgingLog(path).read()) == without_times(judged)
        times = [judgement.time for judgement in log.read().judgements]
        assert times == sorted(times)


WRITER = """
import sys
from engine.judging.log import JudgingLog
log = JudgingLog(sys.argv[1])
for number in range(40):
    log.judge("q", f"d{number}", number % 4, sys.argv[2])
    if number % 10 == 9:
        log.undo(sys.argv[2])
"""


def test_two_processes_that_write_at_once_lose_nothing(tmp_path):
    path = tmp_path / "log.sqlite"
    writers = [fork_python("-c", WRITER, str(path), person) for person in PEOPLE]
    for writer in writers:
        _, complaint = writer.communicate()
        assert writer.returncode == 0, complaint
    judged = JudgingLog(path).read()
    for person in PEOPLE:
        grades = [(g.document, g.grade) for g in judged.judgements if g.person == person]
        assert grades == [(f"d{n}", n % 4) for n in range(40) if n % 10 != 9]


def test_judgement_is_stored_when_the_call_returns(tmp_path):
    log = JudgingLog(tmp_path / "log.sqlite")
    assert log.read() is not None and not log.path.exists(), "reading makes no file"
    log.judge("q", "d", 2, "ann")
    assert events_of(log.path) == [{"query": "q", "document": "d", "grade": 2, "person": "ann", "time": 0}]


def events_of(path):
    """The events of a log, as another program reads them, without their times."""
    with closing(sqlite3.connect(path)) as db:
        return [json.loads(body) | {"time": 0} for (body,) in db.execute("SELECT body FROM events ORDER BY number")]


@pytest.mark.parametrize("grade", [4, -1, 1.0, True, "2"])
def test_invalid_grade_raises_error(tmp_path, grade):
    log = JudgingLog(tmp_path / "log.sqlite")
    with pytest.raises(engine.ParamError, match="grade must be 0, 1, 2, 3, or none to skip"):
        log.add([Judgement(query="q", document="d", grade=1), Judgement(query="q", document="d", grade=grade)])
    assert not log.read().judgements, "neither is the first one written"


def test_a_file_that_a_killed_process_left_empty_is_a_new_log(tmp_path):
    path = tmp_path / "log.sqlite"
    path.touch()
    assert JudgingLog(path).read().judgements == ()
    assert (
        without_times(JudgingLog(path).judge("q", "d", 1))
        == without_times(JudgingLog(path).read())
        == [("q", "d", 1, "")]
    )


def test_a_log_of_votes_is_no_log_of_judgements(tmp_path):
    space = random_space()
    path = orag.log(tmp_path / "log.sqlite", space).path
    with pytest.raises(engine.DataError, match="is a log of feedback, not of judgements"):
        JudgingLog(path).judge("q", "d", 1)
    judging = JudgingLog(tmp_path / "judged.sqlite")
    judging.judge("q", "d", 1)
    for call in (orag.log, orag.load):
        with pytest.raises(engine.DataError, match="is a log of judgements, not of feedback"):
            call(judging.path, space)


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ('{"query": "q", "document": "d", "grade": 9}', "is no judgement .grade must be"),
        ('{"query": 1, "text": "x"}', "is no judgement"),
        ("[]", "is not as Frontier writes it"),
        ("3", "is not as Frontier writes it"),
        (None, "is not as it was written; the 1 before it are whole"),
    ],
)
def test_a_damaged_event_is_named(tmp_path, event, message):
    log = JudgingLog(tmp_path / "log.sqlite")
    for document in ("d", "e"):
        log.judge("q", document, 1)
    reader = JudgingLog(log.path)
    with closing(sqlite3.connect(log.path, isolation_level=None)) as db:
        row = (event, _checksum(2, event)) if event else ('{"query":"q"}', "0" * 16)
        db.execute("UPDATE events SET body = ?, checksum = ? WHERE number = 2", row)
    for call in (reader.read, reader.read, lambda: reader.judge("q", "d", 2)):
        with pytest.raises(engine.DataError, match=rf"log\.sqlite event 2 {message}"):
            call()
    assert len(events_of(log.path) if event is None else [1, 2]) == 2, "nothing is added to it"


def test_a_file_put_in_its_place_is_read_anew(tmp_path):
    log, other_log = JudgingLog(tmp_path / "a.sqlite"), JudgingLog(tmp_path / "b.sqlite")
    for number in range(3):
        log.judge("q", f"d{number}", 1)
    other_log.judge("q", "other", 3)
    other_log.path.replace(log.path)
    assert [g.document for g in log.read().judgements] == ["other"]
    log.path.unlink()
    assert log.read().judgements == ()


def test_a_query_keeps_its_text(tmp_path):
    log = JudgingLog(tmp_path / "log.sqlite")
    log.add_queries(engine.Queries(("a", "b"), ("one", "two")))
    events = events_of(log.path)
    assert log.add_queries(engine.Queries(("b",), ("two",))).texts == {"a": "one", "b": "two"}
    assert events_of(log.path) == events
    with pytest.raises(engine.DataError, match=r"'b' is 'two' in .*; give 'three' another id"):
        log.add_queries(engine.Queries(("c", "b"), ("new", "three")))
    assert set(log.read().texts) == {"a", "b"}
    queries = engine.Queries(("z", "a"), ("old", "one"))
    assert log.read().queries(queries).ids == ("z", "a", "b")


def test_uncreatable_folder_raises_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(engine.FrontierError, match="cannot write"):
        JudgingLog(tmp_path / "file" / "log.sqlite").judge("q", "d", 1)


@pytest.mark.threat("a FIFO or a device as a log of judgements", "a DataError, without waiting")
def test_only_a_regular_file_is_a_log(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path, kind in ((tmp_path / "fifo", "a FIFO"), (Path("/dev/zero"), "a device")):
        with pytest.raises(engine.DataError, match=f"it is {kind}"):
            JudgingLog(path).read()


def note_lines(*rows):
    return Judged(tuple(Judgement(query=q, document=d, grade=g, person=p) for q, d, g, p in rows))


def test_remaining_pairs_of_a_person():
    pairs = [("q", f"d{n}") for n in range(6)]
    judged = note_lines(
        ("q", "d0", 1, "ann"), ("q", "d2", 0, "ann"), ("q", "d3", None, "ann"), ("q", "d4", None, "bob")
    )
    assert judged.remaining(pairs, "ann") == (pairs[1], pairs[4], pairs[5])
    assert judged.remaining(pairs, "bob") == (pairs[1], pairs[3], pairs[5])
    assert judged.remaining(pairs, "bob", n_shared=2) == (pairs[0], pairs[1], pairs[3], pairs[5])
    assert judged.people == ("ann", "bob") and set(judged.grades) == {pairs[0], pairs[2]}


def test_judged_documents_that_a_corpus_lacks():
    judged = note_lines(("q", "d0", 1, "ann"), ("q", "d9", 1, "ann"), ("q", "d9", 1, "bob"))
    (notice,) = judged.missing(engine.Corpus(("d0",), ("x",)))
    assert (notice.count, notice.first) == (1, ("d9",))


def test_touched_pairs_stay_after_an_undo_and_leave_out_skipped_ones(tmp_path):
    log = JudgingLog(tmp_path / "log.sqlite")
    log.judge("q1", "d1", 2, "ann")
    log.judge("q1", "d2", None, "ann")
    log.undo("ann")
    judged, undone = log.undo("ann")
    assert undone is not None and undone.document == "d1" and not judged.grades
    assert judged.touched_pairs == JudgingLog(tmp_path / "log.sqlite").read().touched_pairs == {("q1", "d1")}
