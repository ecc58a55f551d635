"""Vectors of a corpus's queries: in memory, on disk, or embedded now."""

from typing import Any

import engine
from dashboard.services.jobs import Job
from dashboard.services.memo import Memo
from dashboard.services.sending import allow_typed
from dashboard.services.source import Loaded
from engine.data.encoders import read_embedded_texts
from engine.values import Embeddings, Queries

_QUERY_VECTORS: Memo[Any, Embeddings] = Memo(4)


def find_query_vectors(loaded: Loaded, queries: Queries) -> Embeddings | None:
    """Return the vectors of a corpus's queries if memory or disk has them; None if they must be embedded.

    None also if the corpus came with vectors and has no encoder for queries.
    """
    space = loaded.space
    vectors = loaded.vectors_of(queries)
    if vectors is not None or space.encoder is None:
        return vectors
    vectors_key = space.embeddings.encoder, queries.digest
    vectors = _QUERY_VECTORS.get(vectors_key)
    if vectors is None:
        stored_vectors = read_embedded_texts(queries, space.encoder.name, dtype=space.encoder.dtype)
        if stored_vectors is not None:
            # If the documents' vectors were trained, the queries' have to follow.
            vectors = _QUERY_VECTORS[vectors_key] = space.fitted(stored_vectors)
    return vectors


def embed_missing(loaded: Loaded, queries: Queries, job: Job) -> Embeddings:
    """Return the vectors of a corpus's queries, embedded by the job if neither memory nor disk has them.

    Raises FrontierError if they cannot be embedded, or a server would be sent more than a few typed queries.
    """
    vectors = find_query_vectors(loaded, queries)
    if vectors is None:
        with allow_typed():
            vectors = engine.embed_queries(loaded.space, queries, progress=job.report, stop=job.stop)
        _QUERY_VECTORS[loaded.space.embeddings.encoder, queries.digest] = vectors
    return vectors
