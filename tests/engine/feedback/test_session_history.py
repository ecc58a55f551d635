"""Whatever is done in whatever order, a session is what a slow and plain fold makes of it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import orag
from engine.feedback import embedding_state
from support.draws import examples
from support.feedback import make_event, queries_near, random_space

SPACE = random_space(14, 5)
QUERIES, RIGHT = queries_near(SPACE)
HOWS = ({}, {"preset": "careful", "schedule": "sqrt"}, {"mode": "full"}, {"preset": "paper", "batch": 3}, {"batch": 2})
DEEDS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("ostrfttr"), st.integers(0, 2)),
        st.tuples(st.sampled_from(["undo", "redo"]), st.integers(0, 40)),
        st.tuples(st.sampled_from(["reset", "snapshot"]), st.none()),
        st.tuples(st.just("restore"), st.floats(0, 1)),
    ),
    min_size=20,
    max_size=40,
)


def replay_by_formulas(events: list[orag.Event], preset: orag.Preset) -> np.ndarray:
    """(n, d) Θ_t by the formulas, document by document, for steps of one round."""
    first = SPACE.vectors.numpy().astype(float)
    now = first.copy()
    votes = {}
    for event in events:
        if event.person is not None and event.kind in ("thumb", "right_one"):
            votes[event.query.digest, event.item if event.kind == "thumb" else -1, event.person] = event
    for event in events:
        if event.person is not None and event.kind in ("thumb", "right_one") and event not in votes.values():
            continue
        rate = preset.rate / (np.sqrt(event.round) if preset.schedule == "sqrt" else 1)
        for item, c in zip(event.items, event.coefficients, strict=True):
            k = np.clip(-rate * c, -preset.cap, preset.cap)
            theta = now[item] + k * event.query.vector.astype(float)
            difference = theta - first[item]
            theta = first[item] + difference * min(1, preset.trust / max(np.linalg.norm(difference), 1e-300))
            now[item] = theta / max(1, np.linalg.norm(theta) / max(1, np.linalg.norm(first[item])))
    return now


@pytest.fixture(autouse=True)
def states_are_kept_often(monkeypatch):
    monkeypatch.setattr(embedding_state, "CACHED_STATE_STRIDE", 4)
    monkeypatch.setattr(embedding_state, "MAX_CACHED_STATES", 3)


@pytest.mark.parametrize("how", HOWS)
@settings(max_examples=examples(20), deadline=None)
@given(deeds=DEEDS, seed=st.integers(0, 99))
def test_session_equals_the_formulas_for_any_history(how, deeds, seed):
    start = session = orag.session(SPACE, **how, temperature=0.2)
    rng, live, seen, names, lives = np.random.default_rng(seed), [], [], {}, [[]]
    for deed, value in deeds:
        previous = session
        match deed:
            case "undo" | "redo" if seen:
                event = seen[value % len(seen)]
                session = (orag.undo if deed == "undo" else orag.redo)(session, event.id)
                expected_ids = {e.id for e in live} ^ ({event.id} if (event in live) == (deed == "undo") else set())
                live = [e for e in seen if e.id in expected_ids]
            case "undo" | "redo":
                continue
            case "reset":
                session, live = orag.reset(session), []
            case "snapshot":
                session = orag.snapshot(session, f"name {len(names) % 3}")
                names[f"name {len(names) % 3}"] = session.position
            case "restore":
                then = int(value * session.position)
                session, live = orag.restore(session, then), lives[then]
            case _:
                event = make_event(session, deed, QUERIES[value], int(RIGHT[value]), rng)
                session = orag.feed(session, event)
                seen.append(event)
                live = [*live, event]
        lives += [live] * (session.position - previous.position)
    assert session.events == tuple(live) and session.history == tuple(seen) and session.snapshots == names
    assert session.exact.tobytes() == orag.replay(start, live).exact.tobytes()
    if session.preset.optimizer == "sgd" and session.preset.batch == 1:
        assert np.allclose(session.exact, replay_by_formulas(live, session.preset), rtol=0, atol=1e-13)
    for t in {0, len(lives) // 3, len(lives) // 2, len(lives) - 1}:
        past = orag.at(session, t)
        assert past.events == tuple(lives[t])
        assert past.exact.tobytes() == orag.replay(start, lives[t]).exact.tobytes()


def test_an_undo_folds_on_from_a_state_that_was_kept(monkeypatch):
    """Counted: the events that are folded again are those since the last state before the one undone."""
    session = orag.session(SPACE, mode="full", temperature=0.2)
    rng = np.random.default_rng(0)
    for turn in range(40):
        session = orag.feed(session, make_event(session, "o", QUERIES[turn % 15], int(RIGHT[turn % 15]), rng))
    positions = [position for position, _ in session.kept]
    assert 1 <= len(positions) <= 3 and positions[-1] == 40 and all(position % 4 == 0 for position in positions)
    folded = []
    take = embedding_state.MatrixState.fold_records

    def counting(self, origin, preset, records):
        records = list(records)
        folded.extend(records)
        return take(self, origin, preset, records)

    monkeypatch.setattr(embedding_state.MatrixState, "fold_records", counting)
    orag.undo(session, session.events[38].id)
    assert len(folded) == 40 - positions[-2] - 1
    monkeypatch.setattr(embedding_state, "MAX_CACHED_STATE_BYTES", 0)
    assert orag.feed(session, make_event(session, "o", QUERIES[0], 0, rng)).kept == ()
