"""What a log begins with: on which documents and vectors, and how its session learns; and whether that still holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.errors import DataError
from engine.learning.orag.checking import NONSENSE, refuse_odd_beginning
from engine.learning.orag.origin import Origin
from engine.learning.orag.presets import Preset
from engine.learning.orag.session import Session, begun
from engine.space import Space
from engine.values import EncoderRef, Notice, digest_of

FORMAT = 1


@dataclass(frozen=True)
class Changes:
    """How a corpus differs from an earlier state of it: ids."""

    other: tuple[str, ...]
    gone: tuple[str, ...]
    new: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.other or self.gone or self.new)

    def __str__(self) -> str:
        parts = [(self.other, "with another text"), (self.gone, "gone"), (self.new, "new")]
        return ", ".join(f"{len(ids)} {what} (first: {ids[0]!r})" for ids, what in parts if ids)


def body_of_beginning(session: Session) -> dict[str, Any]:
    """The first line of a session's log, as plain JSON values."""
    space = session.space
    encoder = space.embeddings.encoder
    return {
        "op": "begin",
        "format": FORMAT,
        "corpus": space.corpus.name,
        "embeddings": space.embeddings.digest,
        "encoder": None if encoder is None else asdict(encoder),
        "dimension": session.start.dimension,
        "preset": session.preset.as_json(),
        "temperature": session.temperature,
        "documents": text_digests(space),
    }


def text_digests(space: Space) -> dict[str, str]:
    """Short digests of the documents' texts, by id, in order."""
    corpus = space.corpus
    return {doc: digest_of([text])[:16] for doc, text in zip(corpus.ids, corpus.passages, strict=True)}


def changes(documents: Mapping[str, str], space: Space) -> Changes:
    """How a space's corpus differs from documents known by their texts' digests."""
    now = text_digests(space)
    other = tuple(doc for doc, text in documents.items() if now.get(doc, text) != text)
    gone = tuple(doc for doc in documents if doc not in now)
    return Changes(other, gone, tuple(doc for doc in now if doc not in documents))


def begin(body: Mapping[str, Any], space: Space, writer: str = "") -> Session:
    """The session that a log begins with, over a space. Raises DataError where the line is none of this version."""
    if body.get("op") != "begin" or body.get("format") != FORMAT:
        raise DataError(f"it is of another version of Frontier (format {body.get('format')!r}, not {FORMAT})")
    try:
        refuse_odd_beginning(body)
        preset = Preset(**body["preset"])
        if body["encoder"] is not None:
            EncoderRef(**body["encoder"])
    except NONSENSE as error:
        raise DataError(f"its first line says nothing that can be used ({error})") from None
    return begun(Origin(space), preset, float(body["temperature"]), writer)


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
    """Raise a DataError unless the corpus is the one that the log began with; notices of what differs a little."""
    refuse_other_vectors(body, space)
    if found := changes(body["documents"], space):
        raise DataError(
            f"it was begun on another state of this corpus: {found}; feedback about those no longer counts. To keep "
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


def _named(encoder: EncoderRef | None) -> str:
    return "vectors without an encoder" if encoder is None else f"{encoder.name} (weights {encoder.digest[:8]})"
