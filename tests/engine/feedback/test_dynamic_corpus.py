"""Documents that come and go, questions of several hops, and corpora that change under their feedback."""

from dataclasses import replace

import numpy as np
import pytest

import engine
from engine import orag
from engine.values import EncoderRef
from support.feedback import feed_outcomes, feed_rounds, gradient, queries_near, random_space, space_of, vote

HOWS = ({}, {"mode": "full"}, {"preset": "paper"}, {"batch": 3})


@pytest.fixture(scope="module")
def space():
    return random_space(30, 8)


@pytest.mark.parametrize("how", HOWS)
def test_absent_documents_are_neither_drawn_nor_moved(space, how):
    away = [0, 3, 4, 20]
    start = orag.session(space, **how, temperature=0.3)
    smaller = orag.change(start, went=away)
    p = orag.probabilities(smaller, queries_near(space)[0][0])
    assert (p[away] == 0).all() and np.isclose(p.sum(), 1) and (np.delete(p, away) > 0).all()
    for k in (1, 4):
        after = feed_outcomes(smaller, 40, k)
        assert not {row for event in after.events for row in event.items} & set(away)
        assert after.exact[away].tobytes() == start.exact[away].tobytes()
        assert (after.exact != start.exact).any()
    assert set(orag.ask(smaller, queries_near(space)[0][0], k=50).items).isdisjoint(away)
    for call in (
        lambda: vote(smaller, 3),
        lambda: orag.feed(smaller, vote(start, "d3")),
        lambda: orag.outcome(smaller, orag.ask(start, space.vectors[3].numpy(), round=1), 1),
    ):
        with pytest.raises(engine.ParamError, match="available"):
            call()

    # What was said of them before they went may wait for a step that comes after.
    session = start
    for row in away[:2]:
        session = orag.feed(session, vote(session, row))
    departed = orag.change(session, went=away)
    after = feed_outcomes(departed, 28)
    assert after.round == 30 and after.exact[away].tobytes() == departed.exact[away].tobytes()
    assert (after.exact != departed.exact).any()


@pytest.mark.parametrize("how", HOWS)
def test_a_smaller_corpus_and_one_with_absent_documents_are_the_same(space, how):
    """Algorithm 3: what the others do is what they do where the absent ones have never been."""
    rows = [row for row in range(30) if row % 3]
    small = space_of(space.vectors.numpy()[rows], ids=[space.corpus.ids[row] for row in rows])
    queries = space.vectors.numpy()[rows][:10]
    reduced = orag.change(orag.session(space, **how, temperature=0.3), went=[row for row in range(30) if row % 3 == 0])
    small_session = orag.session(small, **how, temperature=0.3)
    for turn in range(30):
        a = orag.ask(reduced, queries[turn % 10])
        b = orag.ask(small_session, queries[turn % 10])
        assert space.corpus.ids[a.item] == small.corpus.ids[b.item]
        reduced = orag.feed(reduced, orag.outcome(reduced, a, turn % 2))
        small_session = orag.feed(small_session, orag.outcome(small_session, b, turn % 2))
    assert np.allclose(reduced.exact[rows], small_session.exact, atol=1e-13)


@pytest.mark.parametrize("how", HOWS)
def test_a_newcomer_starts_where_its_nearest_have_gone(space, how):
    start = orag.change(orag.session(space, **how, temperature=0.3), went=[7])
    earlier = feed_outcomes(start, 40)
    after = orag.change(earlier, came=[7])
    first = space.vectors.numpy().astype(np.float64)
    other_rows = np.delete(np.arange(30), 7)
    nearest = other_rows[np.argsort(-(first[other_rows] @ first[7]))[:5]]
    expected = first[7] + (earlier.exact - first)[nearest].mean(axis=0)
    preset = after.preset
    if preset.ball and np.linalg.norm(expected) > np.linalg.norm(first[7]):
        expected *= np.linalg.norm(first[7]) / np.linalg.norm(expected)
    assert np.allclose(after.row(7), expected, atol=1e-7) and (after.row(7) != first[7]).any()
    assert after.available.all() and (np.delete(after.exact, 7, 0) == np.delete(earlier.exact, 7, 0)).all()
    raw = orag.change(earlier, came=["d7"], warm=False)
    assert (raw.row(7) == first[7]).all()

    later = feed_outcomes(after, 10)
    assert orag.at(later, earlier.position).exact.tobytes() == earlier.exact.tobytes()
    assert orag.at(later, after.position).exact.tobytes() == after.exact.tobytes()
    assert (orag.at(later, earlier.position).available == earlier.available).all()
    empty = orag.reset(later)
    assert empty.exact.tobytes() == orag.session(space).exact.tobytes() and empty.available.all()
    undone = orag.undo(later, later.events[3].id)
    assert (undone.row(7) == later.row(7)).all() or preset.optimizer == "adamw" or preset.mode == "full"


def test_a_document_that_returns_keeps_what_it_learnt(space):
    session = orag.session(space, temperature=0.3)
    query = queries_near(space)[0][0]
    session = orag.feed(session, orag.thumb(session, query, 7, up=False))
    away = orag.change(session, went=[7])
    back = orag.change(away, came=[7])
    assert (back.row(7) == session.row(7)).all() and orag.change(back, came=[7]) is back
    with pytest.raises(engine.ParamError, match="at least one"):
        orag.change(session, went=range(30))
    with pytest.raises(engine.ParamError, match="'nobody'"):
        orag.change(session, went=["nobody"])


@pytest.mark.parametrize("how", HOWS)
def test_multi_hop_equals_consecutive_rounds(space, how):
    """Algorithm 4 is Algorithm 1 on the sub-questions, one after the other."""
    queries, right = queries_near(space)
    answers = {orag.session(space).resolve_query(q).digest: int(r) for q, r in zip(queries, right, strict=True)}
    plan = {"first": queries[:4], "second": queries[4:9]}
    hopped = by_rounds = orag.session(space, **how, temperature=0.3)
    events = []
    for name in plan:
        hopped, new = orag.multi_hop(hopped, name, plan.__getitem__, lambda q, item: answers[q.digest] == item)
        events += new
    for query, row in zip(queries[:9], right, strict=False):
        draw = orag.ask(by_rounds, query)
        by_rounds = orag.feed(by_rounds, orag.outcome(by_rounds, draw, draw.item == row))
    assert tuple(events) == by_rounds.events == hopped.events
    assert hopped.exact.tobytes() == by_rounds.exact.tobytes() and hopped.digest == by_rounds.digest
    hopped_once = orag.multi_hop(
        orag.session(space, **how, temperature=0.3), None, list(queries[:2]), lambda q, item: 1
    )[0]
    assert hopped_once.round == 2 and all(event.good for event in hopped_once.events)
    for nothing in ([], "words"):
        with pytest.raises(engine.ParamError, match="planner must"):
            orag.multi_hop(hopped, "q", nothing, lambda q, item: 1)


def test_carry_to_a_changed_corpus_keeps_unchanged_documents(space):
    """d0 has another text, d1 is gone, one is new, and the rest stand in another order."""
    session = feed_rounds(orag.session(space, temperature=0.3), 60, kinds="ostr")
    ids, vectors = space.corpus.ids, space.vectors.numpy()
    order = [row for row in np.random.default_rng(0).permutation(30).tolist() if row != 1]
    new_ids = ["fresh", *(ids[row] for row in order)]
    texts = ["a new text", *("changed" if row == 0 else space.corpus.texts[row] for row in order)]
    changed = space_of(np.concatenate([vectors[5:6] * 0.9, vectors[order]]), texts, ids=new_ids)
    after, notices = orag.carry(session, changed)
    assert [(n.remark.split(",")[0], n.first) for n in notices][:3] == [
        ("documents with another text", ("d0",)),
        ("documents that are gone", ("d1",)),
        ("documents that are new", ("fresh",)),
    ]
    lost = [e for e in session.events if e.item in (0, 1)]
    assert notices[3].count == len(lost) > 0
    assert {e.id for e in after.events} == {e.id for e in session.events} - {e.id for e in lost}
    rows = [row for row in order if row > 1]
    alone = orag.replay(orag.session(space, temperature=0.3), [e for e in session.events if e.item > 1])
    positions = [new_ids.index(ids[row]) for row in rows]
    assert after.exact[positions].tobytes() == alone.exact[rows].tobytes()
    assert (after.row(0) != changed.vectors[0].double().numpy()).any(), "the newcomer starts where its nearest went"
    old_event = after.events[0]
    assert gradient(old_event, 30).sum() == pytest.approx(sum(old_event.coefficients))
    undone = orag.undo(after, old_event.id)
    assert undone.status(old_event.id) == "undone"
    again, said = orag.carry(session, space)
    assert again.exact.tobytes() == session.exact.tobytes() and again.digest == session.digest and said == ()

    foreign = engine.Space(space.corpus, replace(space.embeddings, encoder=EncoderRef("other", "cd" * 32, "float32")))
    with pytest.raises(engine.DataError, match=r"given on made .*abababab.* and this corpus has other .*cdcdcdcd"):
        orag.carry(session, foreign)
