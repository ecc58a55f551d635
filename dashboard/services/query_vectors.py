"""Vectors of a corpus's queries: in memory, on the disk, or embedded now."""

from typing import Any

import engine
from dashboard.services.jobs import Job
from dashboard.services.memo import Memo
from dashboard.services.source import Loaded
from engine.data.encoders import read_embedded_texts
from engine.values import Embeddings, Queries

_VECTORS: Memo[Any, Embeddings] = Memo(4)


def known_vectors(loaded: Loaded, queries: Queries) -> Embeddings | None:
    """The queries' vectors, where they are in memory or on the disk; None where they have to be embedded."""
    space = loaded.space
    if (vectors := loaded.vectors_of(queries)) is not None or space.encoder is None:
        return vectors
    key = space.embeddings.encoder, queries.digest
    vectors = _VECTORS.get(key)
    if vectors is None:
        stored = read_embedded_texts(queries, space.encoder.name, dtype=space.encoder.dtype)
        if stored is not None:
            vectors = _VECTORS[key] = space.fitted(stored)
    return vectors


def query_vectors(loaded: Loaded, queries: Queries, job: Job) -> Embeddings:
    """The queries' vectors, embedded by the job where they are not known. Raises FrontierError."""
    vectors = known_vectors(loaded, queries)
    if vectors is None:
        vectors = engine.embed_queries(loaded.space, queries, progress=job.report, stop=job.stop)
        _VECTORS[loaded.space.embeddings.encoder, queries.digest] = vectors
    return vectors
