"""How many candidates of a store keep a decoder's answers, on the corpus and the queries that the page has."""

from dashboard.services.memo import remembered
from dashboard.services.query_vectors import known_vectors
from dashboard.services.source import Loaded
from engine.decoder import Decoder
from engine.errors import FrontierError
from engine.evaluation.studies.pool_depth import PoolDepth, pool_depth

MOST = 50
"""Queries that it is measured on."""


def measured_depth(loaded: Loaded, decoder: Decoder, k: int) -> PoolDepth | None:
    """The depth that keeps 99% of the answers; None where the corpus has no queries, or the decoder no such depth."""
    queries = loaded.dataset.queries.sample(MOST)
    vectors = known_vectors(loaded, queries) if len(queries) else None
    if vectors is None or decoder.retrieve.corpus_wide:
        return None

    def measure() -> PoolDepth | None:
        try:
            return pool_depth(decoder, loaded.space, vectors, k)
        except FrontierError:
            return None

    return remembered("export.depth", (loaded.key, decoder.label, k, queries.digest), measure, 8)
