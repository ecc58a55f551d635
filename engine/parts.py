"""Several vectors a document: its passages', or the first token states of an encoder trained so."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.data.passages import split_id
from engine.errors import DataError
from engine.matrix import steady_products
from engine.values import Corpus, Embeddings

BLOCK_NUMBERS = 1 << 22
"""How many scores of parts are held at a time (16 MiB)."""


class Parts:
    """The vectors of all documents' parts, those of one document together.

    vectors: (r, d); documents: (r,) int64, the row of each one's document, ascending, every document at least once.
    """

    def __init__(self, vectors: Tensor, documents: Tensor) -> None:
        self.vectors, self.documents = vectors, documents
        self.counts = torch.bincount(documents)
        self.starts = self.counts.cumsum(0) - self.counts

    @classmethod
    def of(cls, embeddings: Embeddings, corpus: Corpus, like: Tensor) -> Parts:
        """The parts that embeddings hold of a corpus's documents, ids as `part_id` makes them, in any order.

        like: a tensor on the device and in the precision wanted. Raises DataError where an id names no document or a
        document has no part.
        """
        named = [split_id(part) for part in embeddings.ids]
        if strange := [doc for doc, _ in named if doc not in corpus.position]:
            raise DataError(f"parts must be of the corpus's documents; {len(strange)} are not (first: {strange[0]!r})")
        having = {doc for doc, _ in named}
        if bare := [doc for doc in corpus.ids if doc not in having]:
            raise DataError(f"every document needs a part; {len(bare)} have none (first: {bare[0]!r})")
        order = sorted(range(len(named)), key=lambda i: (corpus.position[named[i][0]], named[i][1]))
        rows = torch.tensor([corpus.position[named[i][0]] for i in order])
        return cls(embeddings.vectors[order].to(like), rows.to(like.device))

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def per_document(self) -> float:
        """m: how many vectors a document has on average, and so how much larger the index is than one vector each."""
        return len(self) / len(self.counts)

    @property
    def bytes(self) -> int:
        """What the vectors take."""
        return self.vectors.numel() * self.vectors.element_size()

    def first(self, most: int) -> Parts:
        """The same with at most so many of every document, the first ones."""
        number = torch.arange(len(self), device=self.documents.device) - self.starts[self.documents]
        kept = number < most
        return Parts(self.vectors[kept], self.documents[kept])

    def best(self, points: Tensor, rows: Tensor | None = None) -> Tensor:
        """(B, n) largest inner product of every document's parts with each point, points (B, d); (B, m) for given rows.

        As `steady_products`, so that neither the batch nor the block a vector is in shows.
        """
        if rows is None:
            found = self._lowest(len(points), len(self.counts))
            step = max(1, BLOCK_NUMBERS // len(points))
            for at in range(0, len(self), step):
                owners = self.documents[at : at + step].expand(len(points), -1)
                scores = steady_products(self.vectors[at : at + step], points)
                found.scatter_reduce_(1, owners, scores, "amax")
            return found
        # One row a pair of query and part: each document's parts stand together.
        counts = self.counts[rows.flatten()]
        pair = torch.repeat_interleave(torch.arange(rows.numel(), device=rows.device), counts)
        number = torch.arange(len(pair), device=rows.device) - (counts.cumsum(0) - counts)[pair]
        part = self.starts[rows.flatten()][pair] + number
        found = self._lowest(rows.numel())
        step = max(1, BLOCK_NUMBERS // points.shape[1])
        for own, some in zip(pair.split(step), part.split(step), strict=True):
            scores = steady_products(self.vectors, points[own // rows.shape[1]], some.unsqueeze(1)).squeeze(1)
            found.scatter_reduce_(0, own, scores, "amax")
        return found.view(rows.shape)

    def _lowest(self, *shape: int) -> Tensor:
        return torch.full(shape, -torch.inf, device=self.vectors.device)
