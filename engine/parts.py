"""Several vectors a document: its passages', or the first token states of an encoder trained so."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.errors import DataError
from engine.values import Corpus, Embeddings

SEPARATOR = "#"
BLOCK_NUMBERS = 1 << 22
"""How many float64 numbers a pass over the vectors holds at a time (32 MiB)."""


def part_id(document: str, number: int) -> str:
    """The id of a document's part, counted from 0: "id#3".

    No two parts meet in one id, whatever the documents are called: what follows the last "#" is the number, and what
    stands before it is the document's id, which may hold "#" itself.
    """
    return f"{document}{SEPARATOR}{number}"


def split_id(part: str) -> tuple[str, int]:
    """The document and the number that `part_id` made an id of. Raises DataError for an id that it cannot have made."""
    document, separator, number = part.rpartition(SEPARATOR)
    if not separator or not (number.isascii() and number.isdigit()) or str(int(number)) != number:
        raise DataError(f"a part's id must be its document's, {SEPARATOR!r} and its number, as in 'id#3'; got {part!r}")
    return document, int(number)


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

        Summed in float64 and rounded to float32, so that neither the batch nor the block a vector is in shows.
        """
        if rows is None:
            found = self._lowest(len(points), len(self.counts))
            step = max(1, BLOCK_NUMBERS // max(self.vectors.shape[1], len(points)))
            for at in range(0, len(self), step):
                block = slice(at, at + step)
                scores = points.double() @ self.vectors[block].double().T
                found.scatter_reduce_(1, self.documents[block].expand(len(points), -1), scores, "amax")
            return found.float()
        counts = self.counts[rows.flatten()]
        found = self._lowest(1, rows.numel())[0]
        slot = torch.repeat_interleave(torch.arange(rows.numel(), device=rows.device), counts)
        offset = torch.arange(len(slot), device=rows.device) - (counts.cumsum(0) - counts)[slot]
        part = self.starts[rows.flatten()][slot] + offset
        for s, p in zip(*(x.split(max(1, BLOCK_NUMBERS // points.shape[1])) for x in (slot, part)), strict=True):
            scores = (self.vectors[p].double() * points[s // rows.shape[1]].double()).sum(1)
            found.scatter_reduce_(0, s, scores, "amax")
        return found.view(rows.shape).float()

    def _lowest(self, *shape: int) -> Tensor:
        return torch.full(shape, -torch.inf, dtype=torch.float64, device=self.vectors.device)
