"""Logs that were replaced, damaged or made by somebody hostile: nothing is lost, and nothing odd gets in."""

import os

import pytest
from orag_kit import queries_near, random_space

from engine import orag


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
