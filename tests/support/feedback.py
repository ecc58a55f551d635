"""Small spaces and streams of feedback for the tests of sessions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import engine
from engine import orag
from engine.values import EncoderRef
from support.instances import unit

ENCODER = EncoderRef("made", "ab" * 32, "float32")


def space_of(vectors: np.ndarray, texts=None, encoder: EncoderRef | None = ENCODER, ids=None) -> engine.Space:
    ids = tuple(ids or (f"d{row}" for row in range(len(vectors))))
    texts = tuple(texts or (f"text of {doc}" for doc in ids))
    embeddings = engine.Embeddings(ids, torch.from_numpy(np.array(vectors)), encoder)
    return engine.Space(engine.Corpus(ids, texts), embeddings, "cpu")


def random_space(n: int = 40, d: int = 12, seed: int = 0, **kwargs) -> engine.Space:
    rows = unit(np.random.default_rng(seed).standard_normal((n, d))).astype(np.float32)
    return space_of(rows, **kwargs)


def queries_near(space: engine.Space, count: int = 15, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Make (count, d) queries and return the row that each was made from."""
    rng = np.random.default_rng(seed)
    right = rng.integers(len(space), size=count)
    rows = space.vectors.numpy()[right]
    return unit(rows + 0.4 * unit(rng.standard_normal(rows.shape))).astype(np.float32), right


def have_equal_vectors(a: orag.Session, b: orag.Session) -> bool:
    """Return True if the vectors of two sessions are equal bit by bit."""
    return a.exact.tobytes() == b.exact.tobytes() and a.vectors.tobytes() == b.vectors.tobytes()


def are_identical(a: orag.Session, b: orag.Session) -> bool:
    """Return True if vectors and history of two sessions are equal bit by bit."""
    return have_equal_vectors(a, b) and a.digest == b.digest


def assert_refused(path, space: engine.Space, message_pattern: str) -> None:
    """Assert that opening and loading the log are both refused, with a message."""
    for call in (orag.log, orag.load):
        with pytest.raises(engine.DataError, match=message_pattern):
            call(path, space)


def vote(session: orag.Session, row: int = 1, up: bool = True, query: int = 0, **how) -> orag.Event:
    """Make a thumb on one of the queries."""
    return orag.thumb(session, queries_near(session.space)[0][query], row, up, **how)


def feed_outcomes(session: orag.Session, rounds: int, k: int = 1) -> orag.Session:
    """Feed rounds of draws, each a success if the document is the query's own."""
    queries, right = queries_near(session.space)
    for turn in range(rounds):
        draw = orag.ask(session, queries[turn % len(queries)], k=k)
        session = orag.feed(session, orag.outcome(session, draw, draw.item == right[turn % len(queries)]))
    return session


def feed_rounds(session: orag.Session, rounds: int = 40, seed: int = 2, kinds: str = "ostfr") -> orag.Session:
    """Feed several kinds in turn: o outcomes, s outcomes of several draws, t thumbs, r right one, f full."""
    rng = np.random.default_rng(seed)
    queries, right = queries_near(session.space)
    for turn in range(rounds):
        query_index = int(rng.integers(len(queries)))
        session = orag.feed(
            session, make_event(session, kinds[turn % len(kinds)], queries[query_index], int(right[query_index]), rng)
        )
    return session


def make_event(session: orag.Session, kind: str, query: np.ndarray, right: int, rng: np.random.Generator) -> orag.Event:
    match kind:
        case "o":
            draw = orag.ask(session, query)
            return orag.outcome(session, draw, draw.item == right)
        case "s":
            draw = orag.ask(session, query, k=3)
            return orag.outcome(session, draw, draw.item == right)
        case "t":
            # Few documents, so that people vote on one again.
            person, item = ("ana", "ben", None)[rng.integers(3)], (right + int(rng.integers(2))) % len(session)
            return orag.thumb(session, query, item, bool(rng.integers(2)), person=person)
        case "r":
            shown_items = list(dict.fromkeys([right, *rng.integers(len(session), size=4).tolist()]))
            return orag.right_one(session, query, shown_items, right, person=("ana", None)[rng.integers(2)])
        case "f":
            return orag.full_information(session, query, {right, int(rng.integers(len(session)))})
    raise AssertionError(kind)


def gradient(event: orag.Event, n: int) -> np.ndarray:
    """Return the (n,) coefficients of an event, 0 for a document that it does not move."""
    coefficients = np.zeros(n)
    coefficients[list(event.items)] = event.coefficients
    return coefficients
