"""The depth of a candidate pool that keeps a decoder's answers, on the corpus and queries of the page."""

from dashboard.services.memo import get_or_compute
from dashboard.services.query_vectors import find_query_vectors
from dashboard.services.source import Loaded
from engine.decoder import Decoder
from engine.errors import FrontierError
from engine.evaluation.studies.pool_depth import PoolDepth, pool_depth

MAX_DEPTH_QUERIES = 50
"""Queries on which the depth is measured."""


def measure_pool_depth(loaded: Loaded, decoder: Decoder, k: int) -> PoolDepth | None:
    """Find how many candidates a decoder needs so that 99% of the queries keep their k documents.

    None without queries and their vectors, if no number does, or if a document's score depends on the other candidates.
    """
    # A sample bounds the time, as the export dialog waits for this.
    queries = loaded.dataset.queries.sample(MAX_DEPTH_QUERIES)
    query_vectors = find_query_vectors(loaded, queries) if len(queries) else None
    if query_vectors is None or decoder.retrieve.corpus_wide:
        return None

    def compute_depth() -> PoolDepth | None:
        """Measure the depth; None if the decoder cannot run or no depth is enough."""
        try:
            return pool_depth(decoder, loaded.space, query_vectors, k)
        except FrontierError:
            return None

    return get_or_compute("export.depth", (loaded.key, decoder.label, k, queries.digest), compute_depth, 8)
