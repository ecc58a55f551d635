"""Log header: corpus, encoder and preset, checks, and carrying over to a changed corpus."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from engine.errors import DataError
from engine.feedback.dynamic_corpus import drift_near
from engine.feedback.embedding_state import StartVectors
from engine.feedback.presets import Preset
from engine.feedback.records import CorpusChange, Record
from engine.feedback.serialization import NONSENSE, body_of, list_of_texts, record_of, refuse_odd_beginning, unpacked
from engine.feedback.session import Session, begun, recorded
from engine.space import Space
from engine.values import EncoderRef, Notice, digest_of


def body_of_beginning(session: Session) -> dict[str, Any]:
    """The header of a session's log, as plain JSON values."""
    space = session.space
    encoder = space.embeddings.encoder
    return {
        "op": "begin",
        "corpus": space.corpus.name,
        "embeddings": space.embeddings.digest,
        "encoder": None if encoder is None else asdict(encoder),
        "dimension": session.start.dimension,
        "preset": session.preset.as_json(),
        "temperature": session.temperature,
        "documents": _text_digests(space),
    }


def _text_digests(space: Space) -> dict[str, str]:
    """Short digests of the documents' texts, by id, in order."""
    corpus = space.corpus
    return {doc: digest_of([text])[:16] for doc, text in zip(corpus.ids, corpus.passages, strict=True)}


def _changes(documents: Mapping[str, str], space: Space) -> dict[str, tuple[str, ...]]:
    """How a space's corpus differs from documents known by their texts' digests: in what → ids."""
    now = _text_digests(space)
    return {
        "with another text": tuple(doc for doc, text in documents.items() if now.get(doc, text) != text),
        "gone": tuple(doc for doc in documents if doc not in now),
        "new": tuple(doc for doc in now if doc not in documents),
    }


def begin(body: Mapping[str, Any], space: Space, writer: str = "") -> Session:
    """The session that a log begins with, over a space. Raises DataError for a header that none has."""
    try:
        refuse_odd_beginning(body)
        preset = Preset(**body["preset"])
        if body["encoder"] is not None:
            EncoderRef(**body["encoder"])
    except NONSENSE as error:
        raise DataError(f"its header says nothing that can be used ({error})") from None
    return begun(StartVectors(space), preset, float(body["temperature"]), writer)


def refuse_other_vectors(body: Mapping[str, Any], space: Space) -> None:
    """Raise a DataError unless the space holds vectors of the encoder that the log began with."""
    was = EncoderRef(**body["encoder"]) if body["encoder"] else None
    now = space.embeddings.encoder
    if (was is None) != (now is None) or (was is not None and now is not None and was.digest != now.digest):
        raise DataError(
            f"its feedback was given on {_named(was)}, and this corpus has {_named(now)}: it says nothing about them; "
            "embed the corpus as then, or begin another log"
        )
    if body["dimension"] != space.vectors.shape[1]:
        raise DataError(
            f"its feedback was given on vectors of dimension {body['dimension']}, and these have "
            f"{space.vectors.shape[1]}; embed the corpus as then, or begin another log"
        )


def refuse_other_corpus(body: Mapping[str, Any], space: Space) -> tuple[Notice, ...]:
    """Raise a DataError unless the corpus is the log's; returns notices of small differences."""
    refuse_other_vectors(body, space)
    changes = _changes(body["documents"], space).items()
    if changed := ", ".join(f"{len(ids)} {what} (first: {ids[0]!r})" for what, ids in changes if ids):
        raise DataError(
            f"it was begun on another state of this corpus: {changed}; feedback about those no longer counts. To keep "
            "the rest, open it with carry=True"
        )
    if tuple(body["documents"]) == space.corpus.ids and body["embeddings"] != space.embeddings.digest:
        if space.embeddings.encoder is None:
            raise DataError("its feedback was given on other vectors of the same documents; begin another log")
        return (Notice("vectors that differ in their last digits from those the feedback was given on", len(space)),)
    return ()


def everyone(body: Mapping[str, Any], space: Space) -> Sequence[int]:
    """The rows of the documents that the log began with, in its order."""
    ids = tuple(body["documents"])
    return range(len(ids)) if ids == space.corpus.ids else tuple(space.corpus.position[doc] for doc in ids)


def carry(session: Session, space: Space) -> tuple[Session, tuple[Notice, ...]]:
    """The session over a changed corpus, embedded by the same encoder, and notices of what was lost.

    A document that keeps id and text keeps its feedback. Feedback about others no longer counts, and neither does their
    part in feedback about several. New documents start where their nearest have drifted to, as `change` has it. Raises
    DataError where the encoder is another.
    """
    bodies = [body_of(record, session.space.corpus) for record in session.records]
    return carried(body_of_beginning(session), bodies, space)


def carried(
    beginning: Mapping[str, Any], bodies: Sequence[Mapping[str, Any]], space: Space
) -> tuple[Session, tuple[Notice, ...]]:
    """The same from a log's header and records."""
    start = begin(beginning, space)
    refuse_other_vectors(beginning, space)
    other, gone, new = _changes(beginning["documents"], space).values()
    without = {*other, *gone}
    records: list[Record] = []
    lost: list[str] = []
    order = tuple(beginning["documents"])
    known: set[str] = set()
    for number, body in enumerate(bodies, 1):
        try:
            if body["op"] == "feed":
                if body["id"] in known:
                    raise DataError(f"feedback that is there already ({body['id']!r})")
                known.add(body["id"])
                if body["item"] in without:
                    lost.append(body["id"])
                    continue
            records.append(record_of(_thinned(body, order, without, lost), space.corpus, space.vectors.shape[1], ()))
        except NONSENSE as error:
            raise DataError(f"record {number}: {error}") from None
    session = recorded(start, *records)
    rows = session.resolve_items((*other, *new))
    existing = np.setdiff1d(np.arange(len(session)), np.array(rows, dtype=np.int64))
    if session.available is not None:
        existing = existing[session.available[existing]]
    drift = {row: moved for row in rows if (moved := drift_near(session, row, existing)) is not None}
    session = recorded(session, CorpusChange(rows, (), drift)) if drift else session
    counted = (
        ("documents with another text, about which feedback no longer counts", other),
        ("documents that are gone, and feedback about them with them", gone),
        ("documents that are new", new),
        ("pieces of feedback that no longer count", lost),
    )
    return session, tuple(notice for what, ids in counted for notice in Notice.for_ids(what, ids))


def _thinned(body: Mapping[str, Any], order: Sequence[str], gone: set[str], lost: Sequence[str]) -> dict[str, Any]:
    """A line without what is gone."""

    def remaining(docs: Sequence[str]) -> list[str]:
        return [doc for doc in list_of_texts(docs, "documents") if doc not in gone]

    match body["op"]:
        case "feed":
            items = order if body["items"] == "all" else list_of_texts(body["items"], "items")
            coefficients = body["coefficients"]
            values = unpacked(coefficients).tolist() if isinstance(coefficients, str) else coefficients
            left = [(doc, value) for doc, value in zip(items, values, strict=True) if doc not in gone]
            items, values = [doc for doc, _ in left], [value for _, value in left]
            return {**body, "items": items, "coefficients": values, "shown": remaining(body["shown"])}
        case "undo":
            ids, back = (
                [event for event in list_of_texts(body[key], key) if event not in lost] for key in ("ids", "back")
            )
            return {**body, "ids": ids, "back": back}
        case "documents":
            drift = {doc: vector for doc, vector in body["drift"].items() if doc not in gone}
            return {**body, "came": remaining(body["came"]), "went": remaining(body["went"]), "drift": drift}
    return dict(body)


def _named(encoder: EncoderRef | None) -> str:
    return "vectors without an encoder" if encoder is None else f"{encoder.name} (weights {encoder.digest[:8]})"
