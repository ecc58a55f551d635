"""A session is the fold of its feedback: replayed, undone in any order, looked back at, bit by bit."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine import orag
from engine.feedback.records import Undone
from engine.feedback.session import append_records
from support.draws import deepen, examples
from support.feedback import feed_rounds, make_event, queries_near, random_space, space_of, vote
from support.feedback import have_equal_vectors as same

HOWS = {
    "default": {},
    "careful": {"preset": "careful"},
    "paper": {"preset": "paper"},
    "full": {"mode": "full"},
    "falling rate": {"schedule": "sqrt"},
    "batches": {"batch": 4},
    "full batches": {"mode": "full", "batch": 3, "schedule": "sqrt"},
    "AdamW, chosen": {"optimizer": "adamw", "rate": 1e-3},
}


@pytest.fixture(scope="module", params=HOWS, ids=list(HOWS))
def session_pair(request, space):
    """(a session in which nothing has happened, the same after 45 rounds)."""
    start = orag.session(space, **HOWS[request.param], temperature=0.2)
    return start, feed_rounds(start, 45)


def test_the_same_seed_gives_the_same_session(space, session_pair):
    start, after = session_pair
    again = feed_rounds(orag.session(space, start.preset, temperature=0.2), 45)
    assert same(after, again) and after.digest == again.digest
    other_seed = feed_rounds(orag.session(space, start.preset, temperature=0.2, seed=1), 45)
    assert not same(after, other_seed) and after.digest != other_seed.digest


@pytest.mark.parametrize("seed", deepen(range(4), range(1, 4)))
def test_undo_in_any_order_is_the_fold_without_the_events(session_pair, seed):
    start, after = session_pair
    order = np.random.default_rng(seed).permutation(45)
    folded = after
    for turn, event in enumerate(after.events[index] for index in order):
        earlier, folded = folded, orag.undo(folded, event.id)
        if turn in (0, 9, 30):
            out = set(order[: turn + 1])
            assert same(folded, orag.replay(start, [e for index, e in enumerate(after.events) if index not in out]))
            assert (
                event not in folded.events and folded.history == after.history and folded.status(event.id) == "undone"
            )
            assert same(orag.redo(folded, event.id), earlier)
    assert same(folded, start) and folded.embeddings() == start.space.embeddings and folded.events == ()
    assert folded.round == 45, "the numbers of rounds that were undone are not drawn with again"


def test_reset_returns_to_the_initial_session(session_pair):
    start, after = session_pair
    empty = orag.reset(after)
    assert same(empty, start) and empty.embeddings() is start.space.embeddings
    third = after.events[3]
    assert same(orag.redo(empty, third.id), orag.replay(start, [third]))
    assert same(orag.at(empty, 45), after)


def test_replay_of_a_prefix_equals_the_session_then(session_pair):
    start, after = session_pair
    assert after.round == after.position == 45 and not same(start, after)
    for t in (0, 1, 16, 45):
        replayed = orag.replay(start, after.events[:t])
        assert same(orag.at(after, t), replayed) and same(orag.replay(replayed, after.events), after)
    named = orag.snapshot(orag.at(after, 20), "twenty")
    for event in after.events[20:]:
        named = orag.feed(named, event)
    assert named.snapshots == {"twenty": 21} and same(named, after)
    assert same(orag.at(named, "twenty"), orag.at(after, 20))
    undone = orag.undo(named, after.events[5].id)
    back = orag.restore(undone, "twenty")
    assert same(back, orag.at(after, 20)) and back.position == undone.position + 1
    assert same(orag.restore(back, undone.position), undone)
    for wrong in (-1, 99, "thirty", True, 1.5):
        with pytest.raises(engine.ParamError, match="must be"):
            orag.at(after, wrong)


def test_branches_of_a_session_are_independent(session_pair):
    start, after = session_pair
    middle = orag.at(after, 20)
    first, second = (orag.feed(middle, after.events[future]) for future in (20, 30))
    assert same(first, orag.replay(start, after.events[:21]))
    assert same(second, orag.replay(start, [*after.events[:20], after.events[30]]))
    assert same(middle, orag.at(after, 20)) and middle.events == after.events[:20]


def test_session_arrays_are_read_only(session_pair):
    _, after = session_pair
    row = after.events[0].item
    away = orag.change(after, went=[row]).available
    for array in (after.exact, after.vectors, after.origin, after.row(row), after.events[0].query.vector, away):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    after.embeddings().vectors[0] = 7
    assert abs(after.vectors[0]).max() < 7 and abs(after.space.vectors).max() < 7


def test_the_guards_hold_and_rows_stay_as_they_are(session_pair):
    start, after = session_pair
    preset = start.preset
    touched = {row for event in after.events for row in event.items}
    still = [row for row in range(len(start)) if row not in touched]
    if preset.optimizer == "sgd":
        assert after.exact[still].tobytes() == start.exact[still].tobytes()
    if preset.trust is not None:
        assert np.linalg.norm(after.exact - start.exact, axis=1).max() <= preset.trust * (1 + 1e-12)
    if preset.ball:
        radius = np.maximum(1, np.linalg.norm(start.exact, axis=1))
        assert (np.linalg.norm(after.exact, axis=1) <= radius * (1 + 1e-12)).all()


@settings(max_examples=examples(25), deadline=None)
@given(
    st.integers(0, 2**31),
    st.sampled_from(["chosen", "full"]),
    st.floats(1e-4, 1.0),
    st.floats(0, 1.0),
    st.floats(0, 1.0),
    st.floats(0.01, 2.0),
)
def test_the_guards_hold_after_any_stream(seed, mode, rate, cap, trust, length):
    space = random_space(12, 4, seed % 7)
    start = orag.session(space, mode=mode, rate=rate, cap=cap, trust=trust, temperature=0.1)
    rng = np.random.default_rng(seed)
    session = start
    for turn in range(25):
        query = (length * rng.standard_normal(4)).astype(np.float32)
        previous = session
        session = orag.feed(session, make_event(session, "ostrf"[turn % 5], query, int(rng.integers(12)), rng))
        step = np.linalg.norm(session.exact - previous.exact, axis=1)
        # Bringing a document back into convex sets that hold it cannot lengthen its step.
        assert (step <= cap * np.linalg.norm(query.astype(np.float64)) * (1 + 1e-9) + 1e-12).all()
    assert np.linalg.norm(session.exact - start.exact, axis=1).max() <= trust * (1 + 1e-12) + 1e-15
    radius = np.maximum(1, np.linalg.norm(start.exact, axis=1))
    assert (np.linalg.norm(session.exact, axis=1) <= radius * (1 + 1e-12)).all()


def test_feedback_moves_the_drawn_documents_towards_or_away(space):
    query, right = (part[0] for part in queries_near(space, 1))
    for mode in ("chosen", "full"):
        session = orag.session(space, mode=mode, temperature=0.2, ball=False, trust=None, cap=None)
        draw = orag.ask(session, query)
        for y in (0, 1):
            after = orag.feed(session, orag.outcome(session, draw, y))
            gained = after.scores(query) - session.scores(query)
            assert (gained[draw.item] > 0) == bool(y)
            other_rows = np.delete(np.arange(len(space)), draw.item)
            if mode == "chosen":
                assert after.exact[other_rows].tobytes() == session.exact[other_rows].tobytes()
            else:
                assert (gained[other_rows] < 0).all()
    clicked = orag.feed(session, orag.right_one(session, query, [3, int(right), 9], int(right)))
    gained = clicked.scores(query) - session.scores(query)
    assert gained[right] > 0 and gained[3] < 0 and gained[9] < 0 and np.count_nonzero(gained) == 3


def test_a_rate_of_zero_changes_nothing(space):
    for how in HOWS.values():
        preset = orag.session(space, **{**how, "rate": 0.0}, temperature=0.2)
        after = feed_rounds(preset, 20)
        assert same(after, preset) and after.round == 20
        assert engine.Space(space.corpus, after.embeddings()).embeddings == space.embeddings


def test_a_step_of_a_document_looks_at_no_other(monkeypatch):
    """Counted, not timed: rows that are read of Θ₁ or written, at 50 and at 5,000 documents."""
    for n in (50, 5000):
        session = orag.session(random_space(n), temperature=0.2)
        draws = [orag.ask(session, q) for q in queries_near(session.space, 12)[0]]
        reads = []
        monkeypatch.setattr(
            type(session.start), "row", lambda self, at, reads=reads: reads.append(at) or self.vectors[at].astype(float)
        )
        for draw in draws:
            session = orag.feed(session, orag.outcome(session, draw, 1))
        assert reads == [draw.item for draw in draws] and session.state.n_computed == 12
        last = session.events[-1]
        orag.undo(session, last.id)
        assert reads[12:] == [last.item]
        monkeypatch.undo()


def test_people_vote_once_and_a_newer_vote_counts(space):
    query = queries_near(space, 1)[0][0]
    start = orag.session(space)

    def thumb(session, item, up, person="ana"):
        return orag.thumb(session, query, item, up, person=person)

    first = orag.feed(start, thumb(start, 4, True))
    second = orag.feed(first, thumb(first, 4, False))
    old, new = second.events
    assert (second.status(old.id), second.status(new.id)) == ("replaced", "counts")
    assert same(second, orag.replay(start, [new]))
    assert same(orag.undo(second, new.id), first), "the older vote is back"
    assert same(orag.undo(second, old.id), second)
    assert same(orag.at(second, 1), first), "then it was not replaced yet"
    assert same(orag.feed(second, new), second) and orag.feed(second, new) is second

    two_votes = orag.feed(first, thumb(first, 4, True, "ben"))
    assert [two_votes.status(e.id) for e in two_votes.events] == ["counts", "counts"]
    other_item = orag.feed(first, thumb(first, 5, True))
    assert [other_item.status(e.id) for e in other_item.events] == ["counts", "counts"]
    unknown = orag.feed(start, thumb(start, 4, False, None))
    unknown = orag.feed(unknown, thumb(unknown, 4, False, None))
    assert [unknown.status(e.id) for e in unknown.events] == ["counts", "counts"]
    assert not same(unknown, orag.undo(unknown, unknown.events[0].id))

    click = orag.feed(start, orag.right_one(start, query, [1, 2, 3], 2, person="ana"))
    again = orag.feed(click, orag.right_one(click, query, [5, 6, 2], 5, person="ana"))
    assert same(again, orag.replay(click, again.events[1:]))
    assert same(again, orag.replay(start, again.events[1:])) and same(orag.undo(again, again.events[1].id), click)


def test_undo_of_an_undone_or_unknown_event_raises_error(space):
    after = feed_rounds(orag.session(space, temperature=0.2), 6)
    event = after.events[2]
    once = orag.undo(after, event.id)
    assert orag.undo(once, event.id) is once and orag.redo(after, event.id) is after
    assert orag.feed(once, event) is once, "fed again it stays undone; redo brings it back"
    for call in (orag.undo, orag.redo, lambda s, i: s.event(i), lambda s, i: s.status(i)):
        with pytest.raises(engine.ParamError, match="'nothing'"):
            call(after, "nothing")
    with pytest.raises(engine.ParamError):
        orag.undo(orag.at(after, 2), event.id)


def test_diff_lists_moved_documents_with_their_events(space):
    start = orag.session(space, temperature=0.2)
    after = feed_rounds(start, 10, kinds="ot")
    difference = orag.diff(start, after)
    counting = {e.id for e in after.events if after.status(e.id) == "counts"}
    assert {e.id for e in difference.added} == counting and difference.removed == ()
    assert set(difference.rows) == {
        row for e in difference.added for row in e.items if (after.row(row) != start.row(row)).any()
    }
    assert (np.diff(difference.moved) <= 0).all() and (difference.moved > 0).all()
    back = orag.diff(after, start)
    assert back.rows == difference.rows and {e.id for e in back.removed} == counting
    assert orag.diff(after, after).rows == ()
    with pytest.raises(engine.ParamError, match="same embeddings"):
        orag.diff(after, orag.session(random_space(seed=9)))


def test_adapted_documents_are_embeddings_like_any_other(space):
    after = feed_rounds(orag.session(space, temperature=0.2), 30)
    adapted = after.embeddings()
    assert adapted.encoder == space.embeddings.encoder and adapted.digest != space.embeddings.digest
    assert adapted.vectors.numpy().tobytes() == after.exact.astype(np.float32).tobytes()
    now = engine.Space(space.corpus, adapted)
    queries = engine.Embeddings(tuple("abcd"), torch.from_numpy(queries_near(space, 4)[0]))
    for name in engine.methods("selector"):
        ranking = engine.decode(engine.Decoder(engine.make(name)), now, queries, k=5)
        assert ranking.index.shape == (4, 5)
    best = engine.decode(engine.Decoder(engine.make("top_k")), now, queries, k=1).index[:, 0].tolist()
    assert best == [int(after.scores(q).argmax()) for q in queries.vectors.numpy()]


def test_vectors_in_double_precision_stay_so():
    rows = np.random.default_rng(0).standard_normal((8, 3))
    space = space_of(rows)
    after = feed_rounds(orag.session(space, temperature=0.2), 5)
    assert after.vectors.dtype == np.float64 and after.embeddings().vectors.dtype == torch.float64
    assert same(orag.reset(after), orag.session(space, temperature=0.2))


def test_feedback_about_a_document_or_dimension_that_is_not_there_is_refused(space):
    session = orag.session(space)
    for other_space in (random_space(41), random_space(40, 13)):
        event = vote(orag.session(other_space), len(other_space) - 1)
        for call in (orag.feed, lambda now, new: orag.replay(now, [new])):
            with pytest.raises(engine.DataError, match="must be about this session's 40 documents of dimension 12"):
                call(session, event)


def test_an_undo_of_feedback_that_was_never_given_is_refused(space):
    for ids in ({"ids": ("nothing",)}, {"back": ("nothing",)}):
        with pytest.raises(engine.DataError, match="undone that was never given \\('nothing'\\)"):
            append_records(orag.session(space), Undone(**ids))


def test_of_two_events_with_one_id_the_first_counts(space):
    start = orag.session(space)
    first, second = vote(start, 3), replace(vote(start, 4, up=False), id=vote(start, 3).id)
    assert same(orag.replay(start, [first, second]), orag.feed(orag.feed(start, first), second))
    assert orag.replay(start, [first, second]).events[0].item == 3
