"""Logs that were replaced, damaged or made by somebody hostile: nothing is lost, and nothing odd gets in."""

import os
import uuid
from dataclasses import replace
from uuid import UUID

import pytest
from orag_kit import queries_near, random_space

import engine
from engine import orag
from engine.errors import DataError
from engine.learning.orag.aside import kept_beside


@pytest.fixture(scope="module")
def space():
    return random_space()


def thumbs(session, *people):
    """The session after a thumb of each."""
    query = queries_near(session.space)[0][0]
    for person in people:
        session = orag.feed(session, orag.thumb(session, query, 1, person=person))
    return session


def test_a_file_of_the_same_number_and_size_is_told_apart(tmp_path, space):
    """Rewritten twice, a log may get its old number back from the file system."""
    path, begun = tmp_path / "log.jsonl", orag.session(space, temperature=0.2)
    orag.save(thumbs(begun, "ana"), path)
    log = orag.log(path, space)
    was, other = path.stat(), orag.save(thumbs(begun, "ben"), tmp_path / "other.jsonl").read_bytes()
    with open(path, "rb+") as file:
        file.write(other)
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert (was.st_ino, was.st_size) == (path.stat().st_ino, path.stat().st_size)
    assert [event.person for event in log.refresh().events] == ["ben"]
    with open(path, "rb+") as file:
        file.write(orag.save(thumbs(begun, "eve"), tmp_path / "other.jsonl").read_bytes())
    log.feed(orag.thumb(log.session, queries_near(space)[0][1], 2, person="zoe"))
    assert [event.person for event in orag.load(path, space)[0].events] == ["eve", "zoe"]
    # A longer one of that number, too.
    with open(path, "rb+") as file:
        file.write(orag.save(thumbs(begun, "ana", "ben", "eve"), tmp_path / "other.jsonl").read_bytes())
    assert [event.person for event in log.refresh().events] == ["ana", "ben", "eve"]
    log.feed(orag.thumb(log.session, queries_near(space)[0][1], 2, person="zoe"))
    assert orag.load(path, space)[0].round == 4


def test_every_log_that_is_replaced_is_kept(tmp_path, space):
    """Taken over to another text and back, twice: each earlier log is there, in a file of its own."""
    path, corpus = tmp_path / "log.jsonl", space.corpus
    texts = [f"another {text}" if row == 3 else text for row, text in enumerate(corpus.texts)]
    other = engine.Space(engine.Corpus(corpus.ids, tuple(texts)), space.embeddings, "cpu")
    orag.save(thumbs(orag.session(space, temperature=0.2), "ana"), path)
    before = []
    for now in (other, space, other):
        before.append(path.read_bytes())
        log = orag.log(path, now, carry=True)
        log.feed(orag.thumb(log.session, queries_near(space)[0][0], 2))
    assert sorted(file.read_bytes() for file in tmp_path.glob("log.*.jsonl")) == sorted(before)


def test_a_name_that_is_taken_is_not_written_to(tmp_path, monkeypatch):
    names = iter([UUID(int=1), UUID(int=1), UUID(int=2 << 100)])
    monkeypatch.setattr(uuid, "uuid4", lambda: next(names))
    (tmp_path / "log.jsonl").write_bytes(b"one")
    first = kept_beside(tmp_path / "log.jsonl", ".aside")
    (tmp_path / "log.jsonl").write_bytes(b"two")
    second = kept_beside(tmp_path / "log.jsonl", ".aside")
    assert first != second and (first.read_bytes(), second.read_bytes()) == (b"one", b"two")


def test_corpora_whose_names_differ_have_logs_of_their_own(space):
    names = ("日本語", "中文", "a b", "a-b", "A b", "x" * 41, "x" * 42, "corpus", "")
    spaces = [engine.Space(replace(space.corpus, name=name), space.embeddings, "cpu") for name in names]
    assert len({orag.place(each) for each in spaces}) == len(names)


def test_a_last_line_that_is_whole_and_wrong_is_damage(tmp_path, space):
    """Only a line without its end was left by a writer that was killed; no other is cut off."""
    path = tmp_path / "log.jsonl"
    orag.save(thumbs(orag.session(space, temperature=0.2), "ana", "ben"), path)
    raw = path.read_bytes()
    for bad in (raw.replace(b'"ben"', b'"eve"'), raw + b"\n", raw + b'{"seal":"\n'):
        path.write_bytes(bad)
        for call in (orag.log, orag.load):
            with pytest.raises(DataError, match=f"line {bad.count(bytes([10]))} is not as it was written"):
                call(path, space)
        assert path.read_bytes() == bad
