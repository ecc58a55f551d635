"""The log of judgements: whatever is done in whatever order is what the file holds, for everyone who reads it."""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine.errors import DataError, FrontierError, ParamError
from engine.judging.log import GRADES, Judged, Judgement, JudgingLog
from support.processes import started

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
        st.tuples(st.just("tear"), st.integers(1, 30)),
        st.tuples(st.just("reopen")),
    ),
    max_size=25,
)


def plain(judged):
    """What counts, without times."""
    return [(g.query, g.document, g.grade, g.person) for g in judged.given]


def expected(done):
    """The same by going back and forth through all that was done."""
    taken = set()
    for number, operation in enumerate(done):
        if operation[0] == "undo":
            own = [n for n in range(number) if n not in taken and done[n][0] == "judge" and done[n][4] == operation[1]]
            taken |= set(own[-1:])
    left = [operation[1:] for number, operation in enumerate(done) if operation[0] == "judge" and number not in taken]
    return [
        said
        for place, said in enumerate(left)
        if not any(said[:2] + said[3:] == s[:2] + s[3:] for s in left[place + 1 :])
    ]


@settings(max_examples=100, deadline=None)
@given(OPERATIONS)
def test_any_order_of_operations(operations):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "new" / "log.jsonl"
        log, other = JudgingLog(path), JudgingLog(path)
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
                    judged = log.ask(engine.Queries((f"q-{text}",), (text,)))
                    texts[f"q-{text}"] = text
                case "tear", length:
                    if path.is_file() and path.stat().st_size:
                        with path.open("ab") as file:
                            file.write(b'{"query": "q1", "document": "d1"'[:length])
                    judged = log.read()
                case _:
                    log, judged = JudgingLog(path), log.read()
            assert plain(judged) == expected(operations[: number + 1])
            assert dict(judged.texts) == texts
            assert plain(other.read()) == plain(JudgingLog(path).read()) == plain(judged)
        times = [said.time for said in log.read().given]
        assert times == sorted(times)


MANY = """
import sys
from engine.judging.log import JudgingLog
log = JudgingLog(sys.argv[1])
for number in range(40):
    log.judge("q", f"d{number}", number % 4, sys.argv[2])
    if number % 10 == 9:
        log.undo(sys.argv[2])
"""


def test_two_processes_that_write_at_once_lose_nothing(tmp_path):
    path = tmp_path / "log.jsonl"
    writers = [started("-c", MANY, str(path), person) for person in PEOPLE]
    for writer in writers:
        _, complaint = writer.communicate()
        assert writer.returncode == 0, complaint
    judged = JudgingLog(path).read()
    for person in PEOPLE:
        own = [(g.document, g.grade) for g in judged.given if g.person == person]
        assert own == [(f"d{n}", n % 4) for n in range(40) if n % 10 != 9]


def test_what_is_there_counts_before_the_call_returns(tmp_path):
    log = JudgingLog(tmp_path / "log.jsonl")
    assert log.read() is not None and not log.path.exists(), "reading makes no file"
    log.judge("q", "d", 2, "ann")
    head, line = [json.loads(text) for text in log.path.read_text().splitlines()]
    assert head == {"log": "judgements", "version": 2}
    assert len(line.pop("seal")) == 16
    assert line | {"time": 0} == {"query": "q", "document": "d", "grade": 2, "person": "ann", "time": 0}


@pytest.mark.parametrize("grade", [4, -1, 1.0, True, "2"])
def test_no_other_grade_is_taken(tmp_path, grade):
    log = JudgingLog(tmp_path / "log.jsonl")
    with pytest.raises(ParamError, match="grade must be 0, 1, 2, 3, or none to skip"):
        log.add([Judgement(query="q", document="d", grade=1), Judgement(query="q", document="d", grade=grade)])
    assert not log.read().given, "neither is the first one written"


def test_a_first_line_that_was_torn_is_written_again(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"log": "judg')
    assert JudgingLog(path).read().given == ()
    assert plain(JudgingLog(path).judge("q", "d", 1)) == plain(JudgingLog(path).read()) == [("q", "d", 1, "")]


@pytest.mark.parametrize("content", ['{"_id": "d1", "text": "x"}\n', '{"_id": "d1"', "{}\n", '["log"]\n'])
def test_a_file_of_something_else_is_left_alone(tmp_path, content):
    path = tmp_path / "corpus.jsonl"
    path.write_text(content)
    for call in (lambda: JudgingLog(path).read(), lambda: JudgingLog(path).judge("q", "d", 1)):
        with pytest.raises(DataError, match="no log of judgements"):
            call()
    assert path.read_text() == content


@pytest.mark.parametrize(
    "line", ["{nonsense}", '{"query": "q", "document": "d", "grade": 9}', '{"query": 1, "text": "x"}', "[]", "3"]
)
def test_a_damaged_line_is_named(tmp_path, line):
    log = JudgingLog(tmp_path / "log.jsonl")
    log.judge("q", "d", 1)
    with log.path.open("a") as file:
        file.write(f"{line}\n")
    for call in (log.read, JudgingLog(log.path).read, lambda: log.judge("q", "d", 2)):
        with pytest.raises(DataError, match=r"log.jsonl line 3 is damaged .*head -n 2 log.jsonl"):
            call()


def test_a_file_put_in_its_place_is_read_anew(tmp_path):
    log, other = JudgingLog(tmp_path / "a.jsonl"), JudgingLog(tmp_path / "b.jsonl")
    for number in range(3):
        log.judge("q", f"d{number}", 1)
    other.judge("q", "other", 3)
    other.path.replace(log.path)
    assert [g.document for g in log.read().given] == ["other"]
    log.path.unlink()
    assert log.read().given == ()


def test_a_query_keeps_its_text(tmp_path):
    log = JudgingLog(tmp_path / "log.jsonl")
    log.ask(engine.Queries(("a", "b"), ("one", "two")))
    size = log.path.stat().st_size
    assert log.ask(engine.Queries(("b",), ("two",))).texts == {"a": "one", "b": "two"}
    assert log.path.stat().st_size == size
    with pytest.raises(DataError, match=r"'b' is 'two' in .*; give 'three' another id"):
        log.ask(engine.Queries(("c", "b"), ("new", "three")))
    assert set(log.read().texts) == {"a", "b"}
    known = engine.Queries(("z", "a"), ("old", "one"))
    assert log.read().queries(known).ids == ("z", "a", "b")


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FrontierError, match="cannot write"):
        JudgingLog(tmp_path / "file" / "log.jsonl").judge("q", "d", 1)


@pytest.mark.threat("a FIFO or a device as a log of judgements", "a DataError, without waiting")
def test_only_a_regular_file_is_a_log(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path, what in ((tmp_path / "fifo", "a FIFO"), (Path("/dev/zero"), "a device")):
        with pytest.raises(DataError, match=f"it is {what}"):
            JudgingLog(path).read()


def said(*rows):
    return Judged(tuple(Judgement(query=q, document=d, grade=g, person=p) for q, d, g, p in rows))


def test_what_remains_for_a_person():
    pairs = [("q", f"d{n}") for n in range(6)]
    judged = said(("q", "d0", 1, "ann"), ("q", "d2", 0, "ann"), ("q", "d3", None, "ann"), ("q", "d4", None, "bob"))
    assert judged.remaining(pairs, "ann") == (pairs[1], pairs[4], pairs[5])
    assert judged.remaining(pairs, "bob") == (pairs[1], pairs[3], pairs[5])
    assert judged.remaining(pairs, "bob", twice=2) == (pairs[0], pairs[1], pairs[3], pairs[5])
    assert judged.people == ("ann", "bob") and set(judged.grades) == {pairs[0], pairs[2]}


def test_judged_documents_that_a_corpus_lacks():
    judged = said(("q", "d0", 1, "ann"), ("q", "d9", 1, "ann"), ("q", "d9", 1, "bob"))
    (notice,) = judged.missing(engine.Corpus(("d0",), ("x",)))
    assert (notice.count, notice.first) == (1, ("d9",))
