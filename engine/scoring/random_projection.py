"""random_projection: ⟨Aq, Ad⟩, a random A over bags of words; Luan et al. 2021, §2."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from engine.errors import DataError
from engine.matrix import steady_products
from engine.params import Choice, Whole, declare
from engine.space import QueryBatch, Space
from engine.stages import Scorer, register
from engine.text.bag_of_words import binary, count_words, idf, saturated_tf, with_values, words_of
from engine.text.bm25_index import K1, B

BLOCK_WORDS = 64
"""So many columns of A are drawn from one seed: few enough for a query's words, enough for the generator."""
MOST_BYTES = 8 << 30
"""A larger index is refused."""
HELD_NUMBERS = 1 << 22
"""How many entries of A are held at a time."""


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
    """BM25 or boolean scores, as far as k random dimensions hold them."""

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
        Choice("bm25", "d", ("bm25", "boolean"), source="§2.2"),
        "What is projected: BM25's weights, or which words occur.",
    )
    k1: float = declare(K1, requires=("weighting", "bm25"), advanced=True)
    b: float = declare(B, requires=("weighting", "bm25"), advanced=True)
    seed: int = declare(
        Whole(0, "seed", 0, 2**31 - 1, comfortable=(0, 9), advanced=True), "Which random matrix is drawn."
    )

    @property
    def corpus_wide(self) -> bool:
        return True

    def prepare(self, space: Space) -> Tensor:
        if (size := len(space) * self.dimension * 4) > MOST_BYTES:
            raise DataError(
                f"dimension (k) must be at most {MOST_BYTES // (4 * len(space)):,} for {len(space):,} documents: the "
                f"projections would take {size / 2**30:.0f} GiB; got {self.dimension:,}"
            )
        counts, _ = words_of(space)
        key = "random_projection", self
        return space.derived(key, lambda: self._projected(self._weights(counts)).to(space.device))

    def score(self, space: Space, queries: QueryBatch, rows: Tensor | None = None) -> Tensor:
        """(B, n), or (B, m) for given rows; words of a query that no document holds do not count."""
        index, (_, columns) = self.prepare(space), words_of(space)
        counts, _ = count_words(queries.required_texts, columns)
        asked = binary(counts) if self.weighting == "boolean" else counts
        points = self._projected(asked, np.float64).to(space.device)
        return steady_products(index, points, rows).to(space.vectors.dtype)

    def _weights(self, counts: csr_array) -> csr_array:
        """(n, v) whose inner products with the counts of queries are what is projected."""
        if self.weighting == "boolean":
            return binary(counts)
        soft = saturated_tf(counts, self.k1, self.b)
        return with_values(soft, soft.data * idf(counts)[soft.indices])

    def _projected(self, weights: csr_array, dtype: type = np.float32) -> Tensor:
        """(n, k) the rows of `weights`, (n, v), times Aᵀ, of which some rows are there at a time."""
        out: np.ndarray = np.zeros((weights.shape[0], self.dimension), dtype)
        columns = weights.astype(dtype).tocsc()
        # Of a block in which no row has a word, nothing is drawn: a few queries need a few blocks.
        used = np.unique(np.flatnonzero(np.diff(columns.indptr)) // BLOCK_WORDS)
        for at in range(0, len(used), step := max(1, HELD_NUMBERS // (BLOCK_WORDS * self.dimension))):
            blocks = used[at : at + step]
            entries: np.ndarray = np.concatenate([self._entries(block) for block in blocks]).astype(dtype)
            own = (blocks[:, None] * BLOCK_WORDS + np.arange(BLOCK_WORDS)).ravel()
            held = own < weights.shape[1]
            out += columns[:, own[held]] @ entries[held]
        return torch.from_numpy(out / dtype(self.dimension**0.5))

    def _entries(self, block: int) -> np.ndarray:
        """(64, k) rows of √k·Aᵀ: each block from a seed of its own, so that any can be drawn without the others."""
        draw = np.random.default_rng([self.seed, block])
        shape = (BLOCK_WORDS, self.dimension)
        if self.matrix == "gaussian":
            return draw.standard_normal(shape)
        return draw.integers(0, 2, shape, dtype=np.int8) * 2.0 - 1.0
