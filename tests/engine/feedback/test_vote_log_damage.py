"""Logs that were replaced, damaged or made by somebody hostile: nothing is lost, and nothing odd gets in."""

import json
import re
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import engine
from dashboard.drift import feedback_log
from engine import orag
from engine.data.event_log import _checksum, read_jsonl
from engine.errors import DataError
from engine.feedback.records import KIND_OUTCOMES
from engine.views.drift import FEEDBACK_WORDS
from support.feedback import are_identical, feed_rounds, vote


def test_every_log_that_is_replaced_is_kept(tmp_path, space):
    """Taken over to another text and back, twice: each earlier log is there, in a file of its own."""
    path, corpus = tmp_path / "log.sqlite", space.corpus
    texts = [f"another {text}" if row == 3 else text for row, text in enumerate(corpus.texts)]
    changed = engine.Space(engine.Corpus(corpus.ids, tuple(texts)), space.embeddings, "cpu")
    session = orag.session(space, temperature=0.2)
    orag.save(orag.feed(session, vote(session, person="ana")), path)
    logs, was = [], space
    for now in (changed, space, changed):
        logs.append(orag.save(orag.load(path, was)[0], tmp_path / "was.jsonl").read_bytes())
        log, was = orag.log(path, now, carry=True), now
        log.feed(vote(log.session, 2))
    assert sorted(file.read_bytes() for file in tmp_path.glob("log.*.jsonl")) == sorted(logs)


def test_corpora_whose_names_differ_have_logs_of_their_own(space):
    names = ("日本語", "中文", "a b", "a-b", "A b", "x" * 41, "x" * 42, "corpus", "")
    spaces = [engine.Space(replace(space.corpus, name=name), space.embeddings, "cpu") for name in names]
    assert len({orag.place(each) for each in spaces}) == len(names)


def write_export(path, header, *events):
    """An export that says anything, with the checksums that it should have."""
    texts = [json.dumps(body, separators=(",", ":")) for body in (header, *events)]
    lines = [f'{{"checksum":"{_checksum(number, text)}",{text[1:]}' for number, text in enumerate(texts)]
    path.write_text("\n".join([*lines, f'{{"op":"end","events":{len(events)}}}\n']))
    return path


@pytest.fixture
def lines(tmp_path, space):
    """Return the lines of a log with a thumb, a chosen document, an outcome and an undo."""
    session = feed_rounds(orag.session(space, temperature=0.2), 3, kinds="tro")
    session = orag.undo(session, session.history[0].id)
    header, events = read_jsonl(orag.save(session, tmp_path / "good.jsonl"), "feedback")
    assert orag.load(write_export(tmp_path / "again.jsonl", header, *events), space)[0].digest == session.digest
    return [header, *events]


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
    bad = [{**body, **odd} if number == line else body for number, body in enumerate(lines)]
    path = write_export(tmp_path / "odd.jsonl", *bad)
    for carry in (False, True):
        with pytest.raises(DataError, match=rf"odd\.jsonl:? record {line}"):
            orag.load(path, space, carry=carry)


def test_a_questions_text_is_text(tmp_path, space, lines):
    lines[1]["query"]["text"] = 5
    with pytest.raises(DataError, match="record 1: query's text must be text or none; got 5"):
        orag.load(write_export(tmp_path / "odd.jsonl", *lines), space)


@pytest.mark.parametrize(
    "odd",
    [
        *({"temperature": heat} for heat in (0, -1, float("nan"), HUGE, 1e-7, "1", None, 10**400)),
        *({"documents": documents} for documents in (None, {}, [], {"d0": 5})),
        *({"dimension": dimension} for dimension in (None, 0, "12")),
        *({"encoder": encoder} for encoder in ({}, [], "made", {"name": "made"})),
        *({"preset": preset} for preset in (None, {"rate": "fast"}, {"wild": 1}, {"rate": float("nan")})),
        {"corpus": None}, {"embeddings": 5}, {"op": "feed"},
    ],
)  # fmt: skip
def test_a_beginning_that_no_log_has_is_refused(tmp_path, space, lines, odd):
    path = write_export(tmp_path / "odd.jsonl", {**lines[0], **odd}, *lines[1:])
    for carry in (False, True):
        with pytest.raises(DataError, match=r"odd\.jsonl: "):
            orag.load(path, space, carry=carry)


def test_unreadable_event_is_not_written(tmp_path, space):
    log = orag.log(tmp_path / "log.sqlite", space)
    event = vote(log.session, 1)
    for odd in ({"person": 5}, {"time": 1e300}, {"round": 0}, {"kind": "wild"}, {"coefficients": (HUGE,)}):
        with pytest.raises(DataError, match="must be"):
            log.feed(replace(event, **odd, id="odd"))
        assert orag.load(log.path, space)[0].position == log.session.round == 0
    log.feed(event)
    assert orag.load(log.path, space)[0].round == 1


def test_views_describe_every_kind_of_feedback():
    assert set(FEEDBACK_WORDS) == KIND_OUTCOMES


def test_other_feedback_under_the_same_id_is_another_session(tmp_path, space, lines):
    first = orag.load(write_export(tmp_path / "one.jsonl", *lines), space)[0]
    lines[2]["coefficients"] = [2 * c for c in lines[2]["coefficients"]]
    second = orag.load(write_export(tmp_path / "other.jsonl", *lines), space)[0]
    assert [e.id for e in first.history] == [e.id for e in second.history] and first.digest != second.digest


def test_non_finite_session_replaces_no_log(tmp_path, space, lines, monkeypatch):
    lines[0]["preset"] |= {"cap": None, "trust": None, "ball": False}
    lines[3]["coefficients"] = [1e308 for _ in lines[3]["coefficients"]]
    endless = orag.load(write_export(tmp_path / "endless.jsonl", *lines), space)[0]
    log_path = orag.save(orag.session(space), tmp_path / "own.sqlite")
    stored = orag.load(log_path, space)[0]
    monkeypatch.setattr(feedback_log.feedback, "get_log_path", lambda loaded: log_path)
    with pytest.raises(DataError, match="not finite"):
        feedback_log.replace_feedback(None, endless)
    assert orag.load(log_path, space)[0].digest == stored.digest and not list(tmp_path.glob("own.*.jsonl"))
    aside = feedback_log.replace_feedback(None, orag.session(space, temperature=0.2))
    assert orag.load(aside, space)[0].digest == stored.digest != orag.load(log_path, space)[0].digest


@pytest.mark.threat(
    "an exported feedback log is cut off, wherever", "refused by name, with a command that keeps the rest"
)
def test_an_export_that_was_cut_off_is_refused_and_what_is_left_can_be_kept(tmp_path, space):
    session = feed_rounds(orag.session(space, temperature=0.2), 3)
    full = orag.save(session, tmp_path / "whole.jsonl").read_bytes()
    lines, part = full.splitlines(keepends=True), tmp_path / "part.jsonl"
    part.write_bytes(full[:-1])
    assert are_identical(orag.load(part, space)[0], session), "a missing last line break is no loss"
    for count in range(1, len(lines)):
        for ending in (b"", lines[count][:20]):
            part.write_bytes(b"".join(lines[:count]) + ending)
            with pytest.raises(DataError, match=r"part\.jsonl (was cut off|line \d is not as)") as error:
                orag.load(part, space)
            command = re.search(r"(\(head|echo) .*", str(error.value))[0]
            subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)
            target = tmp_path / "kept.jsonl" if ending else part
            assert are_identical(orag.load(target, space)[0], orag.at(session, count - 1))


def test_an_export_with_a_damaged_line_is_refused_by_name(tmp_path, space, lines):
    full, path = write_export(tmp_path / "whole.jsonl", *lines).read_bytes(), tmp_path / "bad.jsonl"
    parts = full.split(b"\n")
    for bad, number in (
        ([*parts[:2], *parts[3:]], 3),
        ([*parts[:2], parts[3], parts[2], *parts[4:]], 3),
        ([*parts[:3], parts[2], *parts[3:]], 4),
        ([*parts[:2], parts[2][:50], *parts[3:]], 3),
        ([*parts[:2], b"", *parts[2:]], 3),
        ([*parts[:-2], parts[-2].replace(b"4", b"5"), b""], 6),
    ):
        path.write_bytes(b"\n".join(bad))
        with pytest.raises(DataError, match=rf"bad\.jsonl line {number} is not as it was written"):
            orag.load(path, space)
    for bad in (b"hello\n", parts[0][:99] + b"\n", b"x\n" + full, b""):
        path.write_bytes(bad)
        with pytest.raises(DataError, match="no log of feedback, or its first line is damaged"):
            orag.load(path, space)
    for index in np.random.default_rng(0).integers(len(full), size=60):
        flipped = bytearray(full)
        flipped[index] ^= 1
        path.write_bytes(flipped)
        with pytest.raises(DataError, match=r"bad\.jsonl"):
            orag.load(path, space)
    with pytest.raises(DataError, match=r"cannot read .*nowhere\.jsonl"):
        orag.load(tmp_path / "nowhere.jsonl", space)


def test_an_export_is_no_log_to_go_on_with(tmp_path, space, lines):
    path = write_export(tmp_path / "votes.jsonl", *lines)
    for call in (orag.log, orag.Log):
        for target in (path, tmp_path / "new.jsonl"):
            with pytest.raises(DataError, match=rf"{target.name} is an export by its ending.*'{target.stem}\.sqlite'"):
                call(target, space)
    session = orag.load(path, space)[0]
    log = orag.log(orag.save(session, tmp_path / "votes.sqlite"), space)
    assert are_identical(log.session, session) and log.snapshot("more").position == session.position + 1
    assert are_identical(orag.load(path, space)[0], session) and not (tmp_path / "new.jsonl").exists()
