"""Which queries trained embeddings were learnt from: measured on those, they look better than they are."""

from __future__ import annotations

from typing import Any

from engine.errors import DataError
from engine.learning.training.adapters import Adapted
from engine.learning.training.samples import folded
from engine.space import Space
from engine.values import Embeddings, Queries, digest_of

DIGITS = 12
"""Of a digest: of a million queries and ten thousand, two meet by chance once in some ten thousand times."""


def marks(queries: Queries | Embeddings) -> frozenset[str]:
    """What queries that are learnt from are known by later: their texts, but for case and spaces, and their ids.

    An id alone counts only where one of the two sides has no text: other queries may have the same ids.
    """
    found = set()
    for name, text in _both(queries):
        found |= {_mark("id", name), _mark("text", text) if text else _mark("bare", name)}
    return frozenset(found)


def learnt_from(space: Space, queries: Queries | Embeddings) -> list[str]:
    """The ids of those queries that the space's embeddings, or those that it was trained on from, learnt from."""
    known = space.adapt.learnt if isinstance(space.adapt, Adapted) else frozenset()
    if not known:
        return []
    return [
        name
        for name, text in _both(queries)
        if known & ({_mark("text", text), _mark("bare", name)} if text else {_mark("id", name)})
    ]


def check_unseen(space: Space, queries: Queries | Embeddings, split: str, name: str = "space") -> None:
    """Raise a DataError where a trained space, `name` to people, learnt from queries that a split is to judge it by."""
    if not (found := learnt_from(space, queries)):
        return
    few = ", ".join(map(repr, found[:5]))
    raise DataError(
        f"{name} has learnt from {len(found):,} of the {len(queries.ids):,} queries of {split!r} (first: {few}), and "
        "what is learnt by heart would count as understood: take them out of that split, or begin with the encoder's "
        "own embeddings, or with a training on other queries"
    )


def said(facts: Any) -> frozenset[str]:
    """What a checkpoint says that it learnt from. Raises TypeError where that is no list of texts."""
    there = facts.get("learnt", [])
    if not isinstance(there, list) or not all(isinstance(mark, str) for mark in there):
        raise TypeError("what it learnt from is no list of texts")
    return frozenset(there)


def _both(queries: Queries | Embeddings) -> list[tuple[str, str]]:
    texts = queries.texts or ("",) * len(queries.ids)
    return [(name, folded(text)) for name, text in zip(queries.ids, texts, strict=True)]


def _mark(kind: str, text: str) -> str:
    return digest_of([kind, text])[:DIGITS]
