"""bm25: Robertson & Zaragoza 2009, with the variants of Kamphuis et al. 2020 and Lv & Zhai 2011."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from engine.params import declare
from engine.space import QueryBatch, Space
from engine.stages import Scorer, register
from engine.text.bm25_index import BM25_B, BM25_K1, BM25_NGRAMS, BM25_VARIANT, Bm25Index, build_index
from engine.text.tokenizer import ANALYZER_VERSION


@register(
    "bm25",
    title="BM25",
    paper="Robertson & Zaragoza 2009",
    equation=r"r_i = \sum_{t\in q}\mathrm{idf}_t\,\frac{f_{ti}}{f_{ti}+k_1(1-b+b\,\ell_i/\bar\ell)}",
    cost="postings of the query's words",
    order=10,
)
@dataclass(frozen=True)
class BM25(Scorer):
    """Words in common, rare ones above all; titles count as text, case does not."""

    words: ClassVar[bool] = True
    vectors: ClassVar[bool] = False

    variant: str = declare(replace(BM25_VARIANT, advanced=True))
    k1: float = declare(BM25_K1)
    b: float = declare(BM25_B)
    ngrams: str = declare(replace(BM25_NGRAMS, advanced=True))

    @property
    def corpus_wide(self) -> bool:
        return True

    def prepare(self, space: Space) -> Bm25Index:
        return build_index(space, self.variant, self.k1, self.b, self.ngrams)

    def find_matches(self, space: Space, queries: QueryBatch, scores: Tensor) -> Tensor:
        """Return True for documents with a score above 0, which share a word with the query."""
        return scores > 0

    def cache_dependencies(self, space: Space) -> Mapping[str, str]:
        """Return what cached scores depend on beside the parameters: how words are cut."""
        return {"analyzer": ANALYZER_VERSION}

    def score(self, space: Space, queries: QueryBatch, rows: Tensor | None = None) -> Tensor:
        """Return scores (B, n) float32, or (B, m) for given rows; 0 where no word of the query occurs.

        They come from an index of the corpus's words, which the space caches.
        """
        index = self.prepare(space)
        scores = torch.from_numpy(np.stack([index.scores(text) for text in queries.required_texts])).to(space.device)
        return scores if rows is None else scores.gather(1, rows)
