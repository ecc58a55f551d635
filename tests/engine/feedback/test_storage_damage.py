"""Logs that were replaced, damaged or made by somebody hostile: nothing is lost, and nothing odd gets in."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

import engine
from dashboard.drift import import_export
from engine import orag
from engine.errors import DataError
from engine.feedback.records import SAYS
from engine.feedback.serialization import START, _seal
from engine.views.drift import SAID
from support.feedback import assert_refused, lived, same, vote


def test_every_log_that_is_replaced_is_kept(tmp_path, space):
    """Taken over to another text and back, twice: each earlier log is there, in a file of its own."""
    path, corpus = tmp_path / "log.sqlite", space.corpus
    texts = [f"another {text}" if row == 3 else text for row, text in enumerate(corpus.texts)]
    other = engine.Space(engine.Corpus(corpus.ids, tuple(texts)), space.embeddings, "cpu")
    session = orag.session(space, temperature=0.2)
    orag.save(orag.feed(session, vote(session, person="ana")), path)
    before, was = [], space
    for now in (other, space, other):
        before.append(orag.save(orag.load(path, was)[0], tmp_path / "was").read_bytes())
        log, was = orag.log(path, now, carry=True), now
        log.feed(vote(log.session, 2))
    assert sorted(file.read_bytes() for file in tmp_path.glob("log.*.jsonl")) == sorted(before)


def test_corpora_whose_names_differ_have_logs_of_their_own(space):
    names = ("日本語", "中文", "a b", "a-b", "A b", "x" * 41, "x" * 42, "corpus", "")
    spaces = [engine.Space(replace(space.corpus, name=name), space.embeddings, "cpu") for name in names]
    assert len({orag.place(each) for each in spaces}) == len(names)


def made_of(path, *bodies):
    """A log of lines that say anything, sealed as they should be."""
    seal, text = START, ""
    for body in bodies:
        line = json.dumps(body, separators=(",", ":"))[1:]
        seal = _seal(line, seal)
        text += f'{{"seal":"{seal}",{line}\n'
    path.write_text(text)
    return path


@pytest.fixture
def lines(tmp_path, space):
    """What a log of a thumb, "this is the right one", an outcome and an undo holds, line by line."""
    session = lived(orag.session(space, temperature=0.2), 3, kinds="tro")
    session = orag.undo(session, session.history[0].id)
    found = [json.loads(line) for line in orag.save(session, tmp_path / "good.jsonl").read_text().splitlines()[:-1]]
    for body in found:
        del body["seal"]
    assert orag.load(made_of(tmp_path / "again.jsonl", *found), space)[0].digest == session.digest
    return found


HUGE = float("inf")
DEEP = json.loads("[" * 500 + "]" * 500)


@pytest.mark.parametrize(
    ("line", "odd"),
    [
        *(
            (1, odd)
            for odd in (
                {"round": HUGE}, {"round": 0}, {"round": 2**63}, {"round": 1.5}, {"round": True}, {"round": "1"},
                {"kind": "full", "good": False}, {"kind": "wild"}, {"kind": []}, {"good": 1}, {"good": None},
                {"person": []}, {"person": 5}, {"writer": None}, {"mode": "wild"}, {"mode": []}, {"time": 1e300},
                {"time": -1}, {"time": float("nan")}, {"time": "now"}, {"propensity": 0}, {"propensity": 1.1},
                {"propensity": float("nan")}, {"propensity": "1"}, {"item": "d39"}, {"item": "none"}, {"item": 3},
                {"item": []}, {"items": "d1"}, {"items": []}, {"items": [[]]}, {"shown": None}, {"shown": ["none"]},
                {"coefficients": [HUGE]}, {"coefficients": ["1"]}, {"coefficients": [10**400]},
                {"coefficients": [None]},
                {"coefficients": "f8:!"}, {"coefficients": []}, {"coefficients": None}, {"coefficients": DEEP},
                {"query": None}, {"query": {}}, {"query": {"text": 5, "vector": None}}, {"id": ""}, {"id": 5},
                {"id": []}, {"op": []}, {"op": "other"},
            )
        ),
        (2, {"good": False}), (2, {"id": "that of the first"}), (4, {"ids": "abc"}), (4, {"ids": None}),
        (4, {"ids": [5]}), (4, {"op": "snapshot", "name": 5}), (4, {"op": "documents", "drift": []}),
    ],
)  # fmt: skip
def test_a_line_that_no_feedback_makes_is_refused_and_named(tmp_path, space, lines, line, odd):
    if odd.get("id") == "that of the first":
        odd = {"id": lines[1]["id"]}
    bad = [{**body, **odd} if at == line else body for at, body in enumerate(lines)]
    path = made_of(tmp_path / "odd.jsonl", *bad)
    for carry in (False, True):
        with pytest.raises(DataError, match=rf"odd\.jsonl:? line {line + 1}"):
            orag.load(path, space, carry=carry)


def test_a_questions_text_is_text(tmp_path, space, lines):
    lines[1]["query"]["text"] = 5
    with pytest.raises(DataError, match="line 2: query's text must be text or none; got 5"):
        orag.load(made_of(tmp_path / "odd.jsonl", *lines), space)


@pytest.mark.parametrize(
    "odd",
    [
        *({"temperature": heat} for heat in (0, -1, float("nan"), HUGE, 1e-7, "1", None, 10**400)),
        *({"documents": documents} for documents in (None, {}, [], {"d0": 5})),
        *({"dimension": dimension} for dimension in (None, 0, "12")),
        *({"encoder": encoder} for encoder in ({}, [], "made", {"name": "made"})),
        *({"preset": preset} for preset in (None, {"rate": "fast"}, {"wild": 1}, {"rate": float("nan")})),
        {"corpus": None}, {"embeddings": 5}, {"format": None}, {"op": "feed"},
    ],
)  # fmt: skip
def test_a_beginning_that_no_log_has_is_refused(tmp_path, space, lines, odd):
    path = made_of(tmp_path / "odd.jsonl", {**lines[0], **odd}, *lines[1:])
    for carry in (False, True):
        with pytest.raises(DataError, match=r"odd\.jsonl: "):
            orag.load(path, space, carry=carry)
    with pytest.raises(DataError, match=r"odd\.jsonl: "):
        orag.log(path, space, carry=True)
    assert not (tmp_path / "odd.sqlite").exists()


def test_what_could_not_be_read_back_is_not_written(tmp_path, space):
    log = orag.log(tmp_path / "log.sqlite", space)
    event = vote(log.session, 1)
    for odd in ({"person": 5}, {"time": 1e300}, {"round": 0}, {"kind": "wild"}, {"coefficients": (HUGE,)}):
        with pytest.raises(DataError, match="must be"):
            log.feed(replace(event, **odd, id="odd"))
        assert orag.load(log.path, space)[0].position == log.session.round == 0
    log.feed(event)
    assert orag.load(log.path, space)[0].round == 1


def test_the_views_have_words_for_all_that_feedback_says():
    assert set(SAID) == SAYS


def test_other_feedback_under_the_same_id_is_another_session(tmp_path, space, lines):
    one = orag.load(made_of(tmp_path / "one.jsonl", *lines), space)[0]
    lines[2]["coefficients"] = [2 * c for c in lines[2]["coefficients"]]
    other = orag.load(made_of(tmp_path / "other.jsonl", *lines), space)[0]
    assert [e.id for e in one.history] == [e.id for e in other.history] and one.digest != other.digest


def test_a_session_that_is_no_numbers_replaces_nothing(tmp_path, space, lines, monkeypatch):
    lines[0]["preset"] |= {"cap": None, "trust": None, "ball": False}
    lines[3]["coefficients"] = [1e308 for _ in lines[3]["coefficients"]]
    endless = orag.load(made_of(tmp_path / "endless.jsonl", *lines), space)[0]
    own = orag.save(orag.session(space), tmp_path / "own.sqlite")
    before = orag.load(own, space)[0]
    monkeypatch.setattr(import_export.feedback, "path", lambda loaded: own)
    with pytest.raises(DataError, match="not finite"):
        import_export.put(None, endless)
    assert orag.load(own, space)[0].digest == before.digest and not list(tmp_path.glob("*.aside"))
    aside = import_export.put(None, orag.session(space, temperature=0.2))
    assert orag.load(aside, space)[0].digest == before.digest != orag.load(own, space)[0].digest


def changed(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)
    return path


@pytest.mark.threat("the last records of a feedback log are cut off", "refused by name, nobody votes on what is left")
@pytest.mark.parametrize("left", (0, 1, 4))
def test_a_log_whose_last_records_were_cut_off_is_refused_by_name(tmp_path, space, left):
    log = orag.log(tmp_path / "log.sqlite", space, temperature=0.2)
    for row in range(4):
        log.feed(vote(log.session, row))
    changed(log.path, f"DELETE FROM records WHERE number > {left}")
    said = rf"log\.sqlite ends at record {left}, and 5 were written: the last were cut off\. Copy the file back"
    assert_refused(log.path, space, said)
    for step in (log.refresh, lambda: log.snapshot("later")):
        with pytest.raises(DataError, match=said):
            step()


@pytest.mark.threat("a record is added to a feedback log by something that does not count", "refused by name")
def test_a_record_that_was_not_counted_is_refused_by_name(tmp_path, space):
    log = orag.log(tmp_path / "log.sqlite", space, temperature=0.2)
    longer = orag.save(orag.snapshot(log.session, "forged"), tmp_path / "longer.sqlite")
    with closing(sqlite3.connect(longer)) as db:
        ((line,),) = db.execute("SELECT line FROM records WHERE number = 2")
    with closing(sqlite3.connect(log.path)) as db, db:
        db.execute("INSERT INTO records VALUES (2, ?)", (line,))
    assert_refused(log.path, space, "line 2 is not as it was written; the 1 before it are whole")


def test_a_log_of_an_older_version_is_taken_and_counted_from_then_on(tmp_path, space):
    session = orag.feed(orag.session(space, temperature=0.2), vote(orag.session(space)))
    older = changed(orag.save(session, tmp_path / "log.sqlite"), "DROP TABLE last", "PRAGMA user_version = 1")
    raw = older.read_bytes()
    assert same(orag.load(older, space)[0], session) and older.read_bytes() == raw, "reading changes nothing"
    log = orag.log(older, space)
    assert same(log.session, session) and log.notices == ()
    after = log.snapshot("later")
    assert same(orag.load(older, space)[0], after)
    changed(older, "DELETE FROM records WHERE number = 3")
    assert_refused(older, space, "ends at record 2, and 3 were written")


@pytest.mark.threat("an exported feedback log is cut off at the end of a line", "imported with a notice")
def test_an_export_that_ends_early_at_a_lines_end_is_noticed(tmp_path, space):
    session = lived(orag.session(space, temperature=0.2), 3)
    whole = orag.save(session, tmp_path / "whole.jsonl").read_bytes()
    lines = whole.split(b"\n")
    part = tmp_path / "part.jsonl"
    for count in range(1, len(lines)):
        part.write_bytes(b"\n".join(lines[:count]) + b"\n")
        begun, notices = orag.load(part, space)
        assert begun.position == count - 1
        assert [notice.what for notice in notices] == [
            "file does not say how many records it holds: an older version wrote it, or its end is missing"
        ]
    for intact in (whole, whole + b"\n"):
        part.write_bytes(intact)
        assert orag.load(part, space)[1] == ()
    for bad in (b"\n".join(lines[:2] + lines[-1:]), whole.replace(b'"records":4', b'"records":5')):
        part.write_bytes(bad)
        with pytest.raises(DataError, match=r"part\.jsonl line \d ends another log than these"):
            orag.load(part, space)
    part.write_bytes(whole[:-9])
    assert "torn" in str(orag.load(part, space)[1])
