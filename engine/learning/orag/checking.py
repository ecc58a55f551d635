"""What a log may say: every value of a line is checked here once, whether it is read or about to be written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.errors import DataError, ParamError
from engine.learning.orag.events import SAYS, Event
from engine.learning.orag.presets import LEAST_TEMPERATURE, MODES

LATEST = 1e11
"""Seconds since 1970 after which no feedback was given: the year 5138."""
NONSENSE = (
    ArithmeticError, AttributeError, IndexError, KeyError, ParamError, RecursionError, TypeError, ValueError,
)  # fmt: skip
"""What reading a line may raise that holds something else than expected."""


def refuse_odd(event: Event) -> None:
    """Raise a DataError that names a value of an event which no feedback has. Rows are of the corpus already."""
    _that(_whole(event.round) and 1 <= event.round < 2**63, "round", "a whole number in [1, 2⁶³)", event.round)
    known = isinstance(event.kind, str) and isinstance(event.good, bool) and (event.kind, event.good) in SAYS
    _that(known, "kind and good", "what feedback can say", (event.kind, event.good))
    _that(event.mode in MODES, "mode", f"one of {', '.join(MODES)}", event.mode)
    chance = event.propensity
    _that(chance is None or (_real(chance) and 0 < chance <= 1), "propensity", "in (0, 1] or none", chance)
    time = event.time
    _that(time is None or (_real(time) and 0 <= time < LATEST), "time", f"in [0, {LATEST:g}) or none", time)
    for name, text in (("person", event.person), ("query's text", event.query.text)):
        _that(text is None or isinstance(text, str), name, "text or none", text)
    _that(isinstance(event.writer, str), "writer", "text", event.writer)
    _that(isinstance(event.id, str) and event.id != "", "id", "text", event.id)
    wide = isinstance(event.coefficients, np.ndarray)
    finite = np.isfinite(event.coefficients).all() if wide else all(map(_real, event.coefficients))
    _that(finite, "coefficients", "finite numbers", event.coefficients)
    _that(event.item in event.items, "item", "one of the documents that it moves", event.item)


def refuse_odd_beginning(body: Mapping[str, Any]) -> None:
    """Raise a DataError that names a value of a log's first line which cannot be."""
    texts = body.get("documents")
    _that(_named_texts(texts) and texts, "documents", "digests by id", texts)
    for name in ("corpus", "embeddings"):
        _that(isinstance(body.get(name), str), name, "text", body.get(name))
    encoder = body.get("encoder")
    _that(encoder is None or _named_texts(encoder), "encoder", "named texts or none", encoder)
    _that(_whole(body.get("dimension")) and body["dimension"] > 0, "dimension", "in [1, ∞)", body.get("dimension"))
    _that(isinstance(body.get("preset"), dict), "preset", "named values", body.get("preset"))
    heat = body.get("temperature")
    _that(_real(heat) and heat >= LEAST_TEMPERATURE, "temperature", f"in [{LEAST_TEMPERATURE:g}, ∞)", heat)


def list_of_texts(value: Any, name: str) -> list[str]:
    """The value, a list of texts. Raises DataError."""
    _that(isinstance(value, list) and all(isinstance(each, str) for each in value), name, "a list of texts", value)
    return value


def _that(holds: Any, name: str, domain: str, value: Any) -> None:
    if not holds:
        raise DataError(f"{name} must be {domain}; got {repr(value)[:80]}")


def _named_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def _whole(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _real(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
