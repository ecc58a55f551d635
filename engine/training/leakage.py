"""Leakage check: which queries a trained space has learnt from, and so would be judged too well by."""

from collections.abc import Mapping
from typing import Any

from engine.errors import DataError
from engine.progress import counted
from engine.space import Space
from engine.training.adapters import adapted_of
from engine.training.dataset import normalize_text
from engine.values import Embeddings, Queries, digest_of

HASH_DIGITS = 12
"""Digits of a hash: of a million queries and ten thousand, two meet by chance once in some ten thousand times."""


def training_query_hashes(queries: Queries | Embeddings) -> frozenset[str]:
    """Hash the texts and ids of training queries, to recognise them later among queries to test on.

    Queries match by their text; by their id only where the training query or the later one has no text, as other
    queries may have the same ids.
    """
    # The "id" hash is matched by later queries without a text; "bare" marks the ids of training queries without a text.
    hashes = set()
    for query_id, query_text in _ids_and_texts(queries):
        hashes |= {_hash("id", query_id), _hash("text", query_text) if query_text else _hash("bare", query_id)}
    return frozenset(hashes)


def learnt_from(space: Space, queries: Queries | Embeddings) -> list[str]:
    """Return the ids of those queries that the space, or an earlier training below it, was trained on."""
    adapted = adapted_of(space)
    if adapted is None or not adapted.learnt:
        return []
    leaked = []
    for query_id, query_text in _ids_and_texts(queries):
        # A query with a text matches by its text, or by the id of a training query that had none.
        hashes = {_hash("text", query_text), _hash("bare", query_id)} if query_text else {_hash("id", query_id)}
        if not adapted.learnt.isdisjoint(hashes):
            leaked.append(query_id)
    return leaked


def check_unseen(space: Space, queries: Queries | Embeddings, split: str, name: str = "space") -> None:
    """Raise a DataError if a trained space learnt from queries of the split that is to judge it."""
    if not (leaked := learnt_from(space, queries)):
        return
    examples = ", ".join(map(repr, leaked[:5]))
    raise DataError(
        f"{name} has learnt from {len(leaked):,} of the {counted(len(queries.ids), 'query', 'queries')} of {split!r} "
        f"(first: {examples}), "
        "and what is learnt by heart would count as understood: take them out of that split, or begin with the "
        "encoder's own embeddings, or with a training on other queries"
    )


def stored_hashes(facts: Mapping[str, Any]) -> frozenset[str]:
    """Return the training query hashes in a checkpoint's facts. Raises TypeError if they are no texts."""
    hashes = facts.get("learnt", [])
    if not isinstance(hashes, list) or not all(isinstance(hash_text, str) for hash_text in hashes):
        raise TypeError("what it learnt from is no list of texts")
    return frozenset(hashes)


def _ids_and_texts(queries: Queries | Embeddings) -> list[tuple[str, str]]:
    """Return (id, normalised text) of the queries, "" for those without a text."""
    texts = queries.texts or ("",) * len(queries.ids)
    return [(query_id, normalize_text(query_text)) for query_id, query_text in zip(queries.ids, texts, strict=True)]


def _hash(kind: str, text: str) -> str:
    """Return a short hash of a text under a kind, so that an id and a text never collide."""
    return digest_of([kind, text])[:HASH_DIGITS]
