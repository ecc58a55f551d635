"""Multi-vector documents: vectors of passages, or first token states of a trained encoder."""

import torch
from torch import Tensor

from engine.data.passages import split_id
from engine.errors import DataError
from engine.matrix import steady_products
from engine.values import Corpus, Embeddings

MAX_PART_SCORES = 1 << 22
"""Scores of parts in memory at a time (16 MiB)."""


class Parts:
    """The vectors of all documents' parts (passages or tokens), grouped by document.

    vectors: (r, d)
    documents: (r,) int64, ascending row of each part's document; every document has a part
    """

    def __init__(self, vectors: Tensor, documents: Tensor) -> None:
        """Take vectors of parts, (r, d), and each part's document, (r,) ascending; count the parts."""
        # counts: number of parts of each document; starts: the position of each document's first part, as all parts of
        # a document stand together.
        self.vectors, self.documents = vectors, documents
        self.counts = torch.bincount(documents)
        self.starts = self.counts.cumsum(0) - self.counts

    @classmethod
    def from_embeddings(cls, embeddings: Embeddings, corpus: Corpus, target: Tensor) -> "Parts":
        """Group embeddings of documents' parts by document, on the device and in the dtype of `target`.

        The ids are a document's id with the part's number ("id#0"). Raises DataError if an id names no document or a
        document has no part.
        """
        split_ids = list(map(split_id, embeddings.ids))
        if unknown_ids := [doc_id for doc_id, _ in split_ids if doc_id not in corpus.position]:
            first = unknown_ids[0]
            raise DataError(f"parts must be of the corpus's documents; {len(unknown_ids)} are not (first: {first!r})")
        present_ids = {doc_id for doc_id, _ in split_ids}
        if missing_ids := [doc_id for doc_id in corpus.ids if doc_id not in present_ids]:
            raise DataError(f"every document needs a part; {len(missing_ids)} have none (first: {missing_ids[0]!r})")
        # Sorted by document, then by number: the other methods rely on ascending rows.
        positions = [(corpus.position[doc_id], number) for doc_id, number in split_ids]
        part_order = sorted(range(len(positions)), key=positions.__getitem__)
        doc_rows = torch.tensor([positions[part_index][0] for part_index in part_order])
        return cls(embeddings.vectors[part_order].to(target), doc_rows.to(target.device))

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def per_document(self) -> float:
        """m: mean vectors per document, the size of the index relative to one vector each."""
        return len(self) / len(self.counts)

    @property
    def bytes(self) -> int:
        """The memory that the vectors take, in bytes."""
        return self.vectors.numel() * self.vectors.element_size()

    def keep_first(self, max_parts: int) -> "Parts":
        """Return the parts with only the first `max_parts` vectors of every document."""
        is_selected = torch.arange(len(self), device=self.documents.device) - self.starts[self.documents] < max_parts
        return Parts(self.vectors[is_selected], self.documents[is_selected])

    def best(self, points: Tensor, row_ids: Tensor | None = None) -> Tensor:
        """Return (B, n) scores of documents: the largest product of their parts with each query point, (B, d).

        With row_ids, (B, m), only of these documents. Uses `steady_products`: a score depends on neither the batch nor
        the block.
        """
        if row_ids is None:
            # Reduce block by block; a document's parts may lie in two blocks.
            best_scores = self._empty_scores(len(points), len(self.counts))
            block_size = max(1, MAX_PART_SCORES // len(points))
            for start in range(0, len(self), block_size):
                doc_rows = self.documents[start : start + block_size].expand(len(points), -1)
                scores = steady_products(self.vectors[start : start + block_size], points)
                best_scores.scatter_reduce_(1, doc_rows, scores, "amax")
            return best_scores
        # One row per pair of query and part; each document's parts stand together.
        part_counts = self.counts[row_ids.flatten()]
        pair = torch.repeat_interleave(torch.arange(row_ids.numel(), device=row_ids.device), part_counts)
        part_number = torch.arange(len(pair), device=row_ids.device) - (part_counts.cumsum(0) - part_counts)[pair]
        part = self.starts[row_ids.flatten()][pair] + part_number
        best_scores = self._empty_scores(row_ids.numel())
        block_size = max(1, MAX_PART_SCORES // points.shape[1])
        for pair_block, part_block in zip(pair.split(block_size), part.split(block_size), strict=True):
            query_points = points[pair_block // row_ids.shape[1]]
            scores = steady_products(self.vectors, query_points, part_block.unsqueeze(1)).squeeze(1)
            best_scores.scatter_reduce_(0, pair_block, scores, "amax")
        return best_scores.view(row_ids.shape)

    def _empty_scores(self, *shape: int) -> Tensor:
        """Return scores of −∞, which any score replaces by a maximum."""
        return torch.full(shape, -torch.inf, device=self.vectors.device)
