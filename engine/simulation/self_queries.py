"""Queries for a corpus that has none: documents that ask for themselves."""

import numpy as np

from engine.errors import ParamError
from engine.params import Whole
from engine.space import Space
from engine.values import Embeddings, Qrels

MOST = Whole(200, "most", 1, 100_000, name="most", help="So many documents ask.")


def own_queries(space: Space, most: int = 200, seed: int = 0) -> tuple[Embeddings, Qrels]:
    """A seeded sample of documents as queries, each its own right answer; easier than people's queries.

    Raises ParamError.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ParamError(f"seed must be a whole number in [0, ∞); got {seed!r}")
    count, embeddings = len(space), space.embeddings
    most = MOST.check(most)
    rows = np.arange(count)
    if count > most:
        rows = np.sort(np.random.default_rng(seed).choice(count, most, replace=False))
    ids = tuple(embeddings.ids[row] for row in rows.tolist())
    texts = tuple(space.corpus.passages[row] for row in rows.tolist())
    return Embeddings(embeddings.vectors[rows].cpu(), ids, embeddings.encoder, texts), Qrels({i: {i: 1} for i in ids})
