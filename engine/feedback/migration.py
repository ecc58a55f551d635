"""Log header: corpus, encoder and preset, checks, and carrying over to a changed corpus."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from itertools import chain, starmap
from typing import Any

import numpy as np

from engine.errors import DataError
from engine.feedback.dynamic_corpus import compute_warm_drifts
from engine.feedback.embedding_state import StartVectors
from engine.feedback.presets import Preset
from engine.feedback.records import CorpusChange, Record
from engine.feedback.serialization import (
    PARSE_ERRORS,
    decode_array,
    parse_record,
    parse_text_list,
    record_to_json,
    validate_header,
)
from engine.feedback.session import Session, append_records, empty_session
from engine.space import Space
from engine.values import EncoderRef, Notice, digest_of


def header_to_json(session: Session) -> dict[str, Any]:
    """Return the header of a feedback session's log as JSON values: corpus, encoder, preset, temperature."""
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
        "documents": _digest_texts(space),
    }


def _digest_texts(space: Space) -> dict[str, str]:
    """Map each document id, in corpus order, to a short digest of its text."""
    corpus = space.corpus
    # 64 bits detect an edited text, and keep the header of a large corpus small.
    return {doc_id: digest_of([passage])[:16] for doc_id, passage in zip(corpus.ids, corpus.passages, strict=True)}


def _compare_documents(old_digests: Mapping[str, str], space: Space) -> dict[str, tuple[str, ...]]:
    """Find the documents in which a log and a corpus differ; map the kinds of difference to their ids.

    The kinds, always in this order, are: with another text, gone, new. old_digests: digest of each document's text by
    id, as the log's header has them.
    """
    new_digests = _digest_texts(space)
    common_ids = [doc_id for doc_id in old_digests if doc_id in new_digests]
    return {
        "with another text": tuple(doc_id for doc_id in common_ids if new_digests[doc_id] != old_digests[doc_id]),
        "gone": tuple(doc_id for doc_id in old_digests if doc_id not in new_digests),
        "new": tuple(doc_id for doc_id in new_digests if doc_id not in old_digests),
    }


def begin_session(header: Mapping[str, Any], space: Space, writer: str = "") -> Session:
    """Create the feedback session, without records, that a log's header describes.

    Raises DataError for an invalid header.
    """
    try:
        validate_header(header)
        preset = Preset(**header["preset"])
        if header["encoder"] is not None:
            EncoderRef(**header["encoder"])
    except PARSE_ERRORS as error:
        raise DataError(f"invalid log header: {error}") from None
    return empty_session(StartVectors(space), preset, float(header["temperature"]), writer)


def check_same_encoder(header: Mapping[str, Any], space: Space) -> None:
    """Raise a DataError unless the space holds vectors of the encoder that the log began with."""
    old_encoder = EncoderRef(**header["encoder"]) if header["encoder"] else None
    new_encoder = space.embeddings.encoder
    # Vectors that came without an encoder have no digest.
    old_digest = None if old_encoder is None else old_encoder.digest
    new_digest = None if new_encoder is None else new_encoder.digest
    if old_digest != new_digest:
        raise DataError(
            f"its feedback was given on {_describe_encoder(old_encoder)}, and this corpus has "
            f"{_describe_encoder(new_encoder)}: it says nothing about them; embed the corpus as then, or begin another "
            "log"
        )
    if header["dimension"] != space.vectors.shape[1]:
        raise DataError(
            f"its feedback was given on vectors of dimension {header['dimension']}, and these have "
            f"{space.vectors.shape[1]}; embed the corpus as then, or begin another log"
        )


def check_same_corpus(header: Mapping[str, Any], space: Space) -> tuple[Notice, ...]:
    """Raise a DataError unless the corpus is the one that a log began with, also in its texts.

    Returns a notice if the vectors differ slightly.
    """
    check_same_encoder(header, space)
    ids_by_change = _compare_documents(header["documents"], space).items()
    differences = [f"{len(doc_ids)} {name} (first: {doc_ids[0]!r})" for name, doc_ids in ids_by_change if doc_ids]
    if differences:
        problem = (
            f"it was begun on another state of this corpus: {', '.join(differences)}; feedback about those no longer "
            "counts"
        )
        raise DataError(f"{problem}. To keep the rest, open it with carry=True", problem)
    # The same encoder on other hardware can differ in the last digits of its vectors, which feedback survives.
    if tuple(header["documents"]) == space.corpus.ids and header["embeddings"] != space.embeddings.digest:
        if space.embeddings.encoder is None:
            raise DataError("its feedback was given on other vectors of the same documents; begin another log")
        return (Notice("vectors that differ in their last digits from those the votes were given on", len(space)),)
    return ()


def header_rows(header: Mapping[str, Any], space: Space) -> Sequence[int]:
    """Return the rows, in this space, of the documents that the log began with, in the log's order.

    An event of the log that moves "all" documents lists its coefficients in this order.
    """
    doc_ids = tuple(header["documents"])
    if doc_ids == space.corpus.ids:
        return range(len(doc_ids))
    return tuple(space.corpus.position[doc_id] for doc_id in doc_ids)


def carry(session: Session, space: Space) -> tuple[Session, tuple[Notice, ...]]:
    """Transfer a session to a changed corpus that was embedded by the same encoder.

    A document that keeps id and text keeps its feedback. Feedback about other documents no longer counts, nor does
    their part in feedback about several. New documents start with the mean drift of their nearest, as in `change`.

    Parameters
    ----------
    session : Session
        Stays as it is.
    space : Space
        The changed corpus.

    Returns
    -------
    session : Session
        A session over `space`.
    notices : tuple of Notice
        Changed, missing and new documents, and lost feedback.

    Raises
    ------
    DataError
        If the space was embedded by another encoder.

    Examples
    --------
    >>> carried, notices = orag.carry(session, space)
    """
    bodies = [record_to_json(record, session.space.corpus) for record in session.records]
    return carry_records(header_to_json(session), bodies, space)


def carry_records(
    header: Mapping[str, Any], bodies: Sequence[Mapping[str, Any]], space: Space
) -> tuple[Session, tuple[Notice, ...]]:
    """Rebuild a feedback session from a log over a changed corpus, with the feedback that still applies.

    header, bodies: header and records of the log as plain JSON values. Returns the session, and notices of changed,
    missing and new documents and of lost feedback. Raises DataError for an invalid record or another encoder.
    """
    empty = begin_session(header, space)
    check_same_encoder(header, space)
    changed_ids, missing_ids, new_ids = _compare_documents(header["documents"], space).values()
    dropped_ids = {*changed_ids, *missing_ids}
    records: list[Record] = []
    lost_ids: list[str] = []
    original_ids = tuple(header["documents"])
    seen_ids: set[str] = set()
    for record_number, body in enumerate(bodies, 1):
        try:
            if body["op"] == "feed":
                if body["id"] in seen_ids:
                    raise DataError(f"feedback that is there already ({body['id']!r})")
                seen_ids.add(body["id"])
                # An event about a dropped document is lost whole; another one loses only its dropped rows.
                if body["item"] in dropped_ids:
                    lost_ids.append(body["id"])
                    continue
            remaining_body = _drop_documents(body, original_ids, dropped_ids, lost_ids)
            # No row stands for "all" any more: the remaining documents are listed one by one.
            records.append(parse_record(remaining_body, space.corpus, space.vectors.shape[1], ()))
        except PARSE_ERRORS as error:
            raise DataError(f"record {record_number}: {error}") from None
    # A document with another text is treated as a new one.
    session = _start_warm(append_records(empty, *records), (*changed_ids, *new_ids))
    notice_ids = (
        ("documents with another text, about which votes no longer count", changed_ids),
        ("documents that are gone, and the votes on them", missing_ids),
        ("documents that are new", new_ids),
        ("votes that no longer count", lost_ids),
    )
    return session, tuple(chain.from_iterable(starmap(Notice.for_ids, notice_ids)))


def _start_warm(session: Session, new_ids: Sequence[str]) -> Session:
    """Return the feedback session in which new documents start with the mean drift of their neighbours.

    A drift is how far feedback has moved a document from its first vector.
    """
    new_rows = session.resolve_items(new_ids)
    existing_rows = np.setdiff1d(np.arange(len(session)), np.array(new_rows, dtype=np.int64))
    if session.available is not None:
        existing_rows = existing_rows[session.available[existing_rows]]
    drifts = compute_warm_drifts(session, new_rows, existing_rows)
    return append_records(session, CorpusChange(new_rows, (), drifts)) if drifts else session


def _drop_documents(
    body: Mapping[str, Any], original_ids: Sequence[str], dropped_ids: set[str], lost_ids: Sequence[str]
) -> dict[str, Any]:
    """Return a log record, JSON values, without the documents that a changed corpus no longer has.

    original_ids: documents of the log, which "all" stands for; dropped_ids: documents that are gone or have another
    text; lost_ids: events about them.
    """

    def remaining(key: str, dropped: Collection[str], field_name: str = "documents") -> list[str]:
        """Return the ids in the record's field `key` that are not among `dropped`; field_name: for errors."""
        return [text for text in parse_text_list(body[key], field_name) if text not in dropped]

    match body["op"]:
        case "feed":
            item_ids = original_ids if body["items"] == "all" else parse_text_list(body["items"], "items")
            # An encoded array, or a list of numbers.
            coefficients = body["coefficients"]
            if isinstance(coefficients, str):
                coefficients = decode_array(coefficients).tolist()
            pairs = [pair for pair in zip(item_ids, coefficients, strict=True) if pair[0] not in dropped_ids]
            items, coefficients = [doc_id for doc_id, _ in pairs], [coefficient for _, coefficient in pairs]
            return {**body, "items": items, "coefficients": coefficients, "shown": remaining("shown", dropped_ids)}
        case "undo":
            # The events that the record undoes, and those that it restores.
            undone_ids, restored_ids = remaining("ids", lost_ids, "ids"), remaining("back", lost_ids, "back")
            return {**body, "ids": undone_ids, "back": restored_ids}
        case "documents":
            drift = {doc_id: vector for doc_id, vector in body["drift"].items() if doc_id not in dropped_ids}
            came, went = remaining("came", dropped_ids), remaining("went", dropped_ids)
            return {**body, "came": came, "went": went, "drift": drift}
    return dict(body)


def _describe_encoder(encoder: EncoderRef | None) -> str:
    """Describe an encoder in an error message."""
    return "vectors without an encoder" if encoder is None else f"{encoder.name} (weights {encoder.digest[:8]})"
