"""random_projection: ⟨Aq, Ad⟩ for bags of words and a random matrix A (Luan et al. 2021, §2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from engine.errors import DataError
from engine.matrix import steady_products
from engine.params import Choice, Whole, declare
from engine.progress import counted
from engine.space import QueryBatch, Space
from engine.stages import Scorer, register
from engine.text.bag_of_words import binary_counts, count_passage_words, count_words, idf, saturated_tf, with_values
from engine.text.bm25_index import BM25_B, BM25_K1
from engine.text.tokenizer import ANALYZER_VERSION

#: Columns of A drawn from one seed: few, as a query has few words; enough to make the generator worth its start.
SEED_BLOCK_WORDS = 64
#: Largest index that is built.
MAX_PROJECTION_BYTES = 8 << 30
#: Entries of A in memory at a time.
MAX_HELD_NUMBERS = 1 << 22


@register(
    "random_projection",
    title="Random projection",
    paper="Luan et al. 2021",
    equation=r"r_i = (A d_i)\cdot(A q)",
    cost="n·k",
    order=60,
)
@dataclass(frozen=True)
class RandomProjection(Scorer):
    """Approximation of BM25 or boolean scores in k random dimensions."""

    words: ClassVar[bool] = True
    vectors: ClassVar[bool] = False

    dimension: int = declare(
        Whole(768, "k", 1, 65536, comfortable=(32, 4096), source="§2.1"),
        "Dimensions of the projection: the error falls as 1/√k.",
    )
    matrix: str = declare(
        Choice("rademacher", "A", ("rademacher", "gaussian"), source="§2.1"),
        "Entries ±1/√k with equal chance, or normal with variance 1/k.",
    )
    weighting: str = declare(
        Choice("bm25", "d", ("bm25", "boolean"), title="weights of words", source="§2.2"),
        "What is projected: BM25's weights, or which words occur.",
    )
    k1: float = declare(BM25_K1, requires=("weighting", "bm25"), advanced=True)
    b: float = declare(BM25_B, requires=("weighting", "bm25"), advanced=True)
    seed: int = declare(
        Whole(0, "seed", 0, 2**31 - 1, comfortable=(0, 9), advanced=True), "Which random matrix is drawn."
    )

    @property
    def corpus_wide(self) -> bool:
        return True

    def prepare(self, space: Space) -> Tensor:
        """Return (n, k) projected documents, which the space caches; raise DataError if they are too large."""
        n_bytes = len(space) * self.dimension * 4
        if n_bytes > MAX_PROJECTION_BYTES:
            max_dimension = MAX_PROJECTION_BYTES // (4 * len(space))
            raise DataError(
                f"dimension (k) must be at most {max_dimension:,} for {counted(len(space), 'document')}: the "
                "projections would "
                f"take {n_bytes / 2**30:.0f} GiB; got {self.dimension:,}"
            )
        counts, _ = count_passage_words(space)
        cache_key = "random_projection", self
        return space.derived(cache_key, lambda: self._project(self._term_weights(counts)).to(space.device))

    def find_matches(self, space: Space, queries: QueryBatch, scores: Tensor) -> Tensor:
        """Return True for documents that share a word with the query: of the others a score is noise."""
        counts, columns = count_passage_words(space)
        query_counts, _ = count_words(queries.required_texts, columns)
        return torch.from_numpy((query_counts @ counts.T).toarray() > 0).to(space.device)

    def cache_dependencies(self, space: Space) -> Mapping[str, str]:
        """Return what cached scores depend on beside the parameters: how words are cut."""
        return {"analyzer": ANALYZER_VERSION}

    def score(self, space: Space, queries: QueryBatch, rows: Tensor | None = None) -> Tensor:
        """Return inner products of projected queries and documents, (B, n), or (B, m) for given rows, (B, m).

        Words of a query that occur in no document have no effect.
        """
        index, (_, columns) = self.prepare(space), count_passage_words(space)
        counts, _ = count_words(queries.required_texts, columns)
        query_counts = binary_counts(counts) if self.weighting == "boolean" else counts
        projected_queries = self._project(query_counts, np.float64).to(space.device)
        return steady_products(index, projected_queries, rows).to(space.vectors.dtype)

    def _term_weights(self, counts: csr_array) -> csr_array:
        """Return (n, v) weights of v words in n documents; their products with query counts are approximated.

        BM25's weights, or 1 for each word that occurs. counts: (n, v) numbers of occurrences
        """
        if self.weighting == "boolean":
            return binary_counts(counts)
        saturated = saturated_tf(counts, self.k1, self.b)
        return with_values(saturated, saturated.data * idf(counts)[saturated.indices])

    def _project(self, weights: csr_array, dtype: type = np.float32) -> Tensor:
        """Project word weights of texts, (n, v), to k dimensions, (n, k), by the random matrix Aᵀ, (v, k).

        Only some rows of Aᵀ exist at a time, as it is too large to hold.
        """
        projected: np.ndarray = np.zeros((weights.shape[0], self.dimension), dtype)
        columns = weights.astype(dtype).tocsc()
        # Blocks of words that occur in no row are not drawn, so a few queries need few blocks.
        used_blocks = np.unique(np.flatnonzero(np.diff(columns.indptr)) // SEED_BLOCK_WORDS)
        blocks_per_step = max(1, MAX_HELD_NUMBERS // (SEED_BLOCK_WORDS * self.dimension))
        for position in range(0, len(used_blocks), blocks_per_step):
            step_blocks = used_blocks[position : position + blocks_per_step]
            entries: np.ndarray = np.concatenate([self._draw_block(block) for block in step_blocks]).astype(dtype)
            word_indices = (step_blocks[:, None] * SEED_BLOCK_WORDS + np.arange(SEED_BLOCK_WORDS)).ravel()
            # The last block may be longer than the vocabulary.
            in_vocabulary = word_indices < weights.shape[1]
            projected += columns[:, word_indices[in_vocabulary]] @ entries[in_vocabulary]
        return torch.from_numpy(projected / dtype(self.dimension**0.5))

    def _draw_block(self, block: int) -> np.ndarray:
        """Draw the random numbers of one block of 64 words, (64, k), before they are divided by √k.

        They are rows of the transposed projection matrix; each block has its own seed, so it can be drawn without the
        others.
        """
        generator = np.random.default_rng([self.seed, block])
        shape = (SEED_BLOCK_WORDS, self.dimension)
        if self.matrix == "gaussian":
            return generator.standard_normal(shape)
        return generator.integers(0, 2, shape, dtype=np.int8) * 2.0 - 1.0
