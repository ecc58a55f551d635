"""What `frontier store load` notes beside documents: their encoder, the digest of what is loaded, whether all is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from engine.errors import DataError
from engine.values import EncoderRef

KEY = "frontier"


def note_in(comment: str | None) -> dict[str, Any]:
    """What was noted in a comment; nothing where it is somebody else's."""
    try:
        noted = json.loads(comment or "{}")
    except ValueError:
        return {}
    own = noted.get(KEY) if isinstance(noted, dict) else None
    return own if isinstance(own, dict) else {}


def comment_of(encoder: EncoderRef | None, digest: str, complete: bool) -> str:
    """The comment that says so, as JSON."""
    own = {"encoder": asdict(encoder) if encoder else None, "digest": digest, "complete": complete}
    return json.dumps({KEY: own}, sort_keys=True)


def encoder_of(note: Mapping[str, Any]) -> EncoderRef | None:
    """The encoder that a note names."""
    own = note.get("encoder")
    return EncoderRef(**own) if own else None


def check_loaded(note: Mapping[str, Any], name: str) -> None:
    """Raise a DataError where loading has begun and not ended."""
    if note.get("complete") is False:
        raise DataError(f"{name} is not loaded to its end: run `frontier store load {name} …` again, it goes on")
