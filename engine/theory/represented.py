"""What margins are taken of: documents and queries as words or as the vectors of a space, in float64."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from engine.decoder import query_batch
from engine.errors import DataError
from engine.params import Choice, Whole
from engine.solvers.lexical import terms
from engine.space import Space
from engine.theory.words import WEIGHTING, bags
from engine.values import Corpus, Embeddings

VECTORS = Choice(
    default="bm25",
    options=(*WEIGHTING.options, "dense"),
    symbol="vectors",
    name="vectors",
    help="bm25 or boolean: bags of words; dense: the space's own vectors.",
)
BINS = Whole(default=4, low=1, high=100, symbol="bins", name="bins", help="How many groups of documents by length.")
SEED = Whole(default=0, low=0, symbol="seed", name="seed", help="Same seed, same answer.")
BLOCK = 64
"""Queries at a time."""
SAME = 1e-12
"""Rounding: below it, as a share of the squared lengths, a squared distance is none, and a margin is a tie."""

Rows = sparse.csr_array | np.ndarray


@dataclass(frozen=True, eq=False)
class Represented:
    """documents: (n, v) and queries: (B, v), CSR or dense float64; lengths: (n,) words a document."""

    documents: Rows
    queries: Rows
    lengths: np.ndarray


def represented(space: Space | Corpus, queries: Any, vectors: str) -> Represented:
    """A corpus (or a Space, which "dense" needs) and queries as vectors. Raises ParamError or DataError."""
    vectors = VECTORS.check(vectors)
    corpus = space.corpus if isinstance(space, Space) else space
    if vectors == "dense":
        if not isinstance(space, Space):
            raise DataError(
                f"dense vectors need an engine.Space, documents with their vectors; got {type(space).__name__}"
            )
        lengths = np.array([len(terms(text)) for text in corpus.passages])
        points = query_batch(space, queries).vectors
        return Represented(space.vectors.double().cpu().numpy(), points.double().cpu().numpy(), lengths)
    found = bags(space, texts_of(queries), vectors)
    return Represented(found.documents, found.queries, found.lengths)


def texts_of(queries: Any) -> Any:
    """Queries whose texts are known; raises DataError for vectors alone."""
    if not isinstance(queries, Embeddings):
        return queries
    if queries.texts is None:
        raise DataError("queries must have texts, as engine.Queries or plain text have; these are vectors alone")
    return queries.texts


def squares(rows: Rows) -> np.ndarray:
    """(n,) squared lengths."""
    return np.asarray((rows * rows).sum(axis=1)).ravel()


def inner(a: Rows, b: Rows) -> np.ndarray:
    """(n, m) inner products of all rows."""
    found = a @ b.T
    return found.toarray() if sparse.issparse(found) else found


def against_best(documents: Rows, queries: Rows) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray]]:
    """Block by block of b queries: which, (b,) the best document's row, (b, n) scores, (b, n) margins below the best.

    A margin is NaN where the document is the best one's vector again, and 0 where it ties; a query that
    scores them all 0 has no best document, −1, and no margins.
    """
    own = squares(documents)
    for start in range(0, queries.shape[0], BLOCK):
        which = slice(start, min(start + BLOCK, queries.shape[0]))
        block = queries[which]
        scores = inner(block, documents)
        best = scores.argmax(axis=1)
        top = scores[np.arange(len(best)), best]
        apart = own[best][:, None] + own - 2 * inner(documents[best], documents)
        apart = np.where(apart > SAME * (own[best][:, None] + own), apart, np.nan)
        length = np.sqrt(squares(block))[:, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            found = (top[:, None] - scores) / (length * np.sqrt(apart))
        # Rounding must not make a margin that no bound takes.
        np.minimum(found, 1, out=found)
        found[np.abs(found) <= SAME] = 0
        none = (top <= 0) & (scores.min(axis=1) == top)
        found[none] = np.nan
        yield which, np.where(none, -1, best), scores, found
