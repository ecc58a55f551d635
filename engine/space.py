"""What a decoder searches: the texts and the vectors, on one device."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import DataError
from engine.values import Corpus, Embeddings


@dataclass(frozen=True, eq=False)
class QueryBatch:
    """Queries as scorers and selectors take them: ids, (B, d) vectors on the space's device, texts where known."""

    ids: tuple[str, ...]
    vectors: Tensor
    texts: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def block(self, start: int, stop: int) -> QueryBatch:
        """The queries from start to stop."""
        texts = self.texts[start:stop] if self.texts is not None else None
        return QueryBatch(self.ids[start:stop], self.vectors[start:stop], texts)


class Space:
    """A corpus and its embeddings on one device.

    corpus, embeddings: with the same ids in the same order; device: a torch device or None for the GPU where there
    is one. Raises DataError where ids differ, the corpus is empty or a vector is not finite.
    """

    def __init__(self, corpus: Corpus, embeddings: Embeddings, device: str | torch.device | None = None) -> None:
        if corpus.ids != embeddings.ids:
            raise DataError(
                f"the embeddings are not of this corpus: {len(corpus)} documents, {len(embeddings)} vectors, "
                f"{len(set(corpus.ids) & set(embeddings.ids))} ids in common; embed this corpus, or reorder the vectors"
            )
        self.corpus = corpus
        self.embeddings = embeddings
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.vectors = finite(embeddings.vectors, "vectors").to(self.device)
        self.norm = longest(self.vectors, "vectors")

    def __len__(self) -> int:
        return len(self.corpus)


def finite(vectors: Tensor, name: str) -> Tensor:
    """`vectors`, or a DataError that names the first rows with a NaN or an infinity, or an empty matrix."""
    if vectors.ndim != 2 or 0 in vectors.shape:
        raise DataError(
            f"{name} must be a matrix with at least one row and one column; got shape {tuple(vectors.shape)}"
        )
    # A finite sum proves every entry finite without a temporary; only a failure looks closer.
    if not bool(vectors.sum().isfinite()):
        bad = (~vectors.isfinite().all(1)).nonzero().flatten()
        if len(bad):
            rows = ", ".join(map(str, bad[:5].tolist()))
            raise DataError(f"{name} must be finite; {len(bad)} rows hold NaN or infinity (first rows: {rows})")
    return vectors


def longest(vectors: Tensor, name: str) -> float:
    """The largest Euclidean length of a row, or a DataError where products of such rows would overflow."""
    length = float(torch.linalg.vector_norm(vectors, dim=1).max())
    most = math.sqrt(torch.finfo(vectors.dtype).max) / 4
    if not length <= most:
        raise DataError(
            f"{name} must have rows of length at most {most:.3g} in {vectors.dtype}; the longest has {length:.3g}; "
            "scale them down, or pass float64"
        )
    return length
