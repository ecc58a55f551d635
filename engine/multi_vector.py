"""Multi-vector documents: the vectors of passages, or the first token states of an encoder trained for them."""

import torch
from torch import Tensor

from engine.data.passages import split_id
from engine.errors import DataError
from engine.matrix import steady_products
from engine.values import Corpus, Embeddings

BLOCK_NUMBERS = 1 << 22
"""Scores of parts in memory at a time (16 MiB)."""


class Parts:
    """The vectors of all documents' parts, those of one document next to each other.

    vectors: (r, d)
    documents: (r,) int64, ascending row of each part's document; every document has a part
    """

    def __init__(self, vectors: Tensor, documents: Tensor) -> None:
        self.vectors, self.documents = vectors, documents
        self.counts = torch.bincount(documents)
        self.starts = self.counts.cumsum(0) - self.counts

    @classmethod
    def of(cls, embeddings: Embeddings, corpus: Corpus, like: Tensor) -> "Parts":
        """Parts from embeddings with ids as of `part_id`, on the device and in the precision of `like`.

        Raises DataError when an id names no document or a document has no part.
        """
        named = [split_id(part) for part in embeddings.ids]
        if unknown := [doc for doc, _ in named if doc not in corpus.position]:
            raise DataError(f"parts must be of the corpus's documents; {len(unknown)} are not (first: {unknown[0]!r})")
        present = {doc for doc, _ in named}
        if missing := [doc for doc in corpus.ids if doc not in present]:
            raise DataError(f"every document needs a part; {len(missing)} have none (first: {missing[0]!r})")
        order = sorted(range(len(named)), key=lambda i: (corpus.position[named[i][0]], named[i][1]))
        rows = torch.tensor([corpus.position[named[i][0]] for i in order])
        return cls(embeddings.vectors[order].to(like), rows.to(like.device))

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def per_document(self) -> float:
        """m: mean vectors per document, the size of the index relative to one vector each."""
        return len(self) / len(self.counts)

    @property
    def bytes(self) -> int:
        """Memory of the vectors."""
        return self.vectors.numel() * self.vectors.element_size()

    def first(self, most: int) -> "Parts":
        """The first `most` parts of every document."""
        chosen = torch.arange(len(self), device=self.documents.device) - self.starts[self.documents] < most
        return Parts(self.vectors[chosen], self.documents[chosen])

    def best(self, points: Tensor, rows: Tensor | None = None) -> Tensor:
        """(B, n) largest inner product of every document's parts with each point, points (B, d); (B, m) for given rows.

        By `steady_products`, so that a score depends on neither the batch nor the block.
        """
        if rows is None:
            best = self._lowest(len(points), len(self.counts))
            step = max(1, BLOCK_NUMBERS // len(points))
            for start in range(0, len(self), step):
                documents = self.documents[start : start + step].expand(len(points), -1)
                scores = steady_products(self.vectors[start : start + step], points)
                best.scatter_reduce_(1, documents, scores, "amax")
            return best
        # One row per pair of query and part; each document's parts stand together.
        counts = self.counts[rows.flatten()]
        pair = torch.repeat_interleave(torch.arange(rows.numel(), device=rows.device), counts)
        number = torch.arange(len(pair), device=rows.device) - (counts.cumsum(0) - counts)[pair]
        part = self.starts[rows.flatten()][pair] + number
        best = self._lowest(rows.numel())
        step = max(1, BLOCK_NUMBERS // points.shape[1])
        for pairs, parts in zip(pair.split(step), part.split(step), strict=True):
            scores = steady_products(self.vectors, points[pairs // rows.shape[1]], parts.unsqueeze(1)).squeeze(1)
            best.scatter_reduce_(0, pairs, scores, "amax")
        return best.view(rows.shape)

    def _lowest(self, *shape: int) -> Tensor:
        return torch.full(shape, -torch.inf, device=self.vectors.device)
