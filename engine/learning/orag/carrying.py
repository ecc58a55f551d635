"""Feedback taken over to a corpus that has changed: what still holds of it, and what does not, said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.errors import DataError
from engine.learning.orag.beginning import begin, body_of_beginning, changes, refuse_other_vectors
from engine.learning.orag.checking import NONSENSE, list_of_texts
from engine.learning.orag.documents import drift_near
from engine.learning.orag.folding import recorded
from engine.learning.orag.journal import Changed, Record
from engine.learning.orag.lines import body_of, record_of, unpacked
from engine.learning.orag.session import Session
from engine.space import Space
from engine.values import Notice


def carry(session: Session, space: Space) -> tuple[Session, tuple[Notice, ...]]:
    """The session over a corpus that has changed since, embedded by the same encoder, and what was lost on the way.

    A document that keeps id and text keeps its feedback. Feedback about others no longer counts, and neither does their
    part in feedback about several. New documents start where their nearest have drifted to, as `change` has it. Raises
    DataError where the encoder is another.
    """
    bodies = [body_of(record, session.space.corpus) for record in session.records]
    return carried(body_of_beginning(session), bodies, space)


def carried(
    beginning: Mapping[str, Any], bodies: Sequence[Mapping[str, Any]], space: Space
) -> tuple[Session, tuple[Notice, ...]]:
    """The same from the lines of a log: its first, and the others."""
    start = begin(beginning, space)
    refuse_other_vectors(beginning, space)
    found = changes(beginning["documents"], space)
    gone = {*found.other, *found.gone}
    kept: list[Record] = []
    lost: list[str] = []
    order = tuple(beginning["documents"])
    known: set[str] = set()
    for number, body in enumerate(bodies, 2):
        try:
            if body["op"] == "feed" and body["id"] in known:
                raise DataError(f"feedback that is there already ({body['id']!r})")
            if body["op"] == "feed":
                known.add(body["id"])
            if body["op"] == "feed" and body["item"] in gone:
                lost.append(body["id"])
            else:
                kept.append(record_of(_thinned(body, order, gone, lost), space.corpus, space.vectors.shape[1], ()))
        except NONSENSE as error:
            raise DataError(f"line {number}: {error}") from None
    session = recorded(start, *kept)
    session = _greeted(session, (*found.other, *found.new))
    said = (
        ("documents with another text, about which feedback no longer counts", found.other),
        ("documents that are gone, and feedback about them with them", found.gone),
        ("documents that are new", found.new),
        ("pieces of feedback that no longer count", lost),
    )
    return session, tuple(Notice(what, len(ids), tuple(ids[:5])) for what, ids in said if ids)


def _thinned(body: Mapping[str, Any], order: Sequence[str], gone: set[str], lost: Sequence[str]) -> dict[str, Any]:
    """A line without what is gone."""

    def there(docs: Sequence[str]) -> list[str]:
        return [doc for doc in list_of_texts(docs, "documents") if doc not in gone]

    match body["op"]:
        case "feed":
            items = order if body["items"] == "all" else list_of_texts(body["items"], "items")
            coefficients = body["coefficients"]
            values = unpacked(coefficients).tolist() if isinstance(coefficients, str) else coefficients
            left = [(doc, value) for doc, value in zip(items, values, strict=True) if doc not in gone]
            items, values = [doc for doc, _ in left], [value for _, value in left]
            return {**body, "items": items, "coefficients": values, "shown": there(body["shown"])}
        case "undo":
            ids, back = (
                [event for event in list_of_texts(body[key], key) if event not in lost] for key in ("ids", "back")
            )
            return {**body, "ids": ids, "back": back}
        case "documents":
            drift = {doc: vector for doc, vector in body["drift"].items() if doc not in gone}
            return {**body, "came": there(body["came"]), "went": there(body["went"]), "drift": drift}
    return dict(body)


def _greeted(session: Session, newcomers: Sequence[str]) -> Session:
    """The session with its newcomers where their nearest have drifted to."""
    rows = session.rows_of(newcomers)
    existing = np.setdiff1d(np.arange(len(session)), np.array(rows, dtype=np.int64))
    if session.available is not None:
        existing = existing[session.available[existing]]
    drift = {row: moved for row in rows if (moved := drift_near(session, row, existing)) is not None}
    return recorded(session, Changed(rows, (), drift)) if drift else session
