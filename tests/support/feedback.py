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
    """(count, d) queries and the row that each was made from."""
    rng = np.random.default_rng(seed)
    right = rng.integers(len(space), size=count)
    rows = space.vectors.numpy()[right]
    return unit(rows + 0.4 * unit(rng.standard_normal(rows.shape))).astype(np.float32), right


def alike(a: orag.Session, b: orag.Session) -> bool:
    """Whether the documents of two sessions are equal bit by bit."""
    return a.exact.tobytes() == b.exact.tobytes() and a.vectors.tobytes() == b.vectors.tobytes()


def same(a: orag.Session, b: orag.Session) -> bool:
    """Whether two sessions are equal bit by bit, with all that happened."""
    return alike(a, b) and a.digest == b.digest


def assert_refused(path, space: engine.Space, said: str) -> None:
    """Neither is the log opened nor loaded, and the error says why."""
    for call in (orag.log, orag.load):
        with pytest.raises(engine.DataError, match=said):
            call(path, space)


def vote(session: orag.Session, row: int = 1, up: bool = True, query: int = 0, **how) -> orag.Event:
    """A thumb of one of the queries."""
    return orag.thumb(session, queries_near(session.space)[0][query], row, up, **how)


def outcomes(session: orag.Session, rounds: int, k: int = 1) -> orag.Session:
    """A session after rounds of draws whose outcomes are right where the document is the query's own."""
    queries, right = queries_near(session.space)
    for turn in range(rounds):
        draw = orag.ask(session, queries[turn % len(queries)], k=k)
        session = orag.feed(session, orag.outcome(session, draw, draw.item == right[turn % len(queries)]))
    return session


def lived(session: orag.Session, rounds: int = 40, seed: int = 2, kinds: str = "ostfr") -> orag.Session:
    """A session after feedback of several kinds: o outcomes, s of several drawn, t thumbs, r the right one, f all."""
    rng = np.random.default_rng(seed)
    asked, right = queries_near(session.space)
    for turn in range(rounds):
        at = int(rng.integers(len(asked)))
        session = orag.feed(session, made(session, kinds[turn % len(kinds)], asked[at], int(right[at]), rng))
    return session


def made(session: orag.Session, kind: str, query: np.ndarray, right: int, rng: np.random.Generator) -> orag.Event:
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
            shown = list(dict.fromkeys([right, *rng.integers(len(session), size=4).tolist()]))
            return orag.right_one(session, query, shown, right, person=("ana", None)[rng.integers(2)])
        case "f":
            return orag.full_information(session, query, {right, int(rng.integers(len(session)))})
    raise AssertionError(kind)


def gradient(event: orag.Event, n: int) -> np.ndarray:
    """(n,) coefficients of an event, 0 for what it does not move."""
    found = np.zeros(n)
    found[list(event.items)] = event.coefficients
    return found
