"""Votes as judgements: listed, never written, and never over what a person judged."""

import pytest

import engine
from engine import orag
from engine.judging.log import Judged, Judgement
from engine.judging.votes import convert_votes
from support.feedback import random_space


@pytest.fixture
def session():
    return orag.session(random_space(8, 4), queries=engine.Embeddings(("t",), [[1.0, 0, 0, 0]]))


def query_of(session, text):
    """A query with a text, as a page has it."""
    vector = session.origin[0]
    return orag.Query(vector, text)


def feed_all(session, *events):
    for make in events:
        session = orag.feed(session, make(session))
    return session


def test_the_votes_that_count_are_listed(session):
    how, new = query_of(session, "how"), query_of(session, " new  one ")
    after = feed_all(
        session,
        lambda s: orag.thumb(s, how, 1, True, person="ann"),
        lambda s: orag.thumb(s, how, 2, True, person="ann"),
        lambda s: orag.thumb(s, how, 2, False, person="ann"),
        lambda s: orag.right_one(s, new, [3, 4], 4, person="bob"),
        lambda s: orag.thumb(s, how, 5, True),
        lambda s: orag.thumb(s, session.origin[1], 6, True, person="ann"),
        lambda s: orag.thumb(s, how, 7, True, person="bob"),
    )
    after = orag.undo(after, after.events[-1].id)
    queries = engine.Queries(("q1",), ("how",))
    judged = Judged((Judgement(query="q1", document="d1", grade=3, person="ann"),))
    converted = convert_votes(after, judged, queries, grade=3)
    (query,) = converted.queries.ids
    assert converted.queries.texts == ("new one",)
    assert [(j.query, j.document, j.grade, j.person) for j in converted.judgements] == [
        ("q1", "d2", 0, "ann"), (query, "d4", 3, "bob"), ("q1", "d5", 3, ""),
    ]  # fmt: skip
    assert [(n.count, n.remark.split(",")[0]) for n in converted.notices] == [
        (1, "votes have no text of a query"),
        (1, "votes are on pairs that the same person has judged"),
    ]
    assert [j.grade for j in convert_votes(after, Judged(), queries).judgements] == [2, 0, 2, 2]


def test_converting_votes_twice_adds_nothing(session, tmp_path):
    from engine.judging.log import JudgingLog

    after = feed_all(session, lambda s: orag.thumb(s, query_of(s, "how"), 1, True, person="ann"))
    log = JudgingLog(tmp_path / "log.sqlite")
    converted = convert_votes(after, log.read())
    log.add_queries(converted.queries)
    again = convert_votes(after, log.add(converted.judgements))
    assert again.judgements == () and len(again.queries) == 0 and again.notices[0].count == 1
    assert log.read().judgements[0].query == converted.queries.ids[0]


def test_no_votes_convert_to_nothing_and_bad_grade_raises(session):
    converted = convert_votes(session, Judged())
    assert (len(converted.queries), converted.judgements, converted.notices) == (0, (), ())
    with pytest.raises(engine.ParamError, match="grade must be 1, 2, 3; got 0"):
        convert_votes(session, Judged(), grade=0)
