"""hybrid: sparse and dense scores combined, sparse-dense §4.1; or their ranks, Cormack et al. 2009."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import steady_products
from engine.params import Choice, Real, Whole, declare
from engine.scoring.bm25 import BM25
from engine.scoring.dense import Dense
from engine.solvers.tie_breaking import rank_exactly
from engine.space import QueryBatch, Space
from engine.stages import Scorer, register
from engine.text.bm25_index import K1, NGRAMS, B, Bm25Index

WEIGHT = Real(0.5, "λ", 0.0, 1.0, name="dense_weight", source="sparse-dense §4.1")
RAW = replace(
    WEIGHT,
    comfortable=(0.5, 1.0),
    swept=(0.0, 0.5, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 1.0),
    help="1 is dense alone, 0 BM25 alone; raw scores of BM25 are tens of times cosines, and weigh alike at about 0.98.",
)
"""λ of raw scores, as the paper adds them: an even grid would have nothing between BM25 alone and dense alone."""


@register(
    "hybrid",
    title="Hybrid",
    paper="Luan et al. 2021",
    equation=r"r_i = \lambda\,\tilde r^{\mathrm{dense}}_i+(1-\lambda)\,\tilde r^{\mathrm{sparse}}_i",
    cost="n·d + postings",
    order=20,
)
@dataclass(frozen=True, kw_only=True)
class Hybrid(Scorer):
    """Dense and BM25 scores of the best of either, normalised for each query and added."""

    words: ClassVar[bool] = True

    dense_weight: float = declare(WEIGHT, "1 is dense alone, 0 BM25 alone.", variants=(("normalisation", "none", RAW),))
    combination: str = declare(
        Choice("linear", "combination", ("linear", "rrf"), swept=("linear",)),
        "linear adds scores; rrf adds 1/(constant + rank).",
    )
    normalisation: str = declare(
        Choice(
            "min-max", "norm", ("min-max", "z-score", "none"), requires=("combination", "linear"), swept=("min-max",)
        ),
        "How the scores of either are brought to one scale, over the union of one query; none: as in the paper.",
    )
    rrf_constant: float = declare(
        Real(
            60.0,
            "c",
            0.0,
            1e6,
            comfortable=(1.0, 200.0),
            source="Cormack et al. 2009",
            requires=("combination", "rrf"),
            advanced=True,
        ),
        "The larger, the less the first ranks stand out.",
    )
    union: int = declare(
        Whole(100, "m", 1, comfortable=(10, 500), source="sparse-dense §4.1", advanced=True),
        "So many of the best of either are scored by both; all others rank after them.",
    )
    k1: float = declare(K1, advanced=True)
    b: float = declare(B, advanced=True)
    ngrams: str = declare(NGRAMS, advanced=True)

    @property
    def corpus_wide(self) -> bool:
        return True

    def prepare(self, space: Space) -> Bm25Index:
        return self._words.prepare(space)

    @property
    def _words(self) -> BM25:
        return BM25(k1=self.k1, b=self.b, ngrams=self.ngrams)

    def score(self, space: Space, queries: QueryBatch, rows: Tensor | None = None) -> Tensor:
        """(B, n), or (B, m) for given rows, whose scores are those among all documents.

        The union holds the best of dense and the best of BM25, those without a word in common not counted. The others
        are combined among themselves and stand below: the best of them as far below the union's worst as that is
        below its best (1 where all are alike), and their worst as far again. Reciprocal ranks: of equals all have the
        better rank, and no word in common adds nothing.
        """
        dense = Candidates(space.vectors, Dense().score(space, queries), queries.vectors, space.matrix)
        sparse = self._words.score(space, queries)
        matches = replace(dense, relevance=sparse, inner_product=False)
        inside = _best(dense, self.union) | (_best(matches, self.union) & (sparse > 0))
        batch, row = inside.nonzero(as_tuple=True)
        # In float64: a score then depends on nothing but its document and its query.
        by_dense, by_words = dense.exact_relevance(batch, row), sparse[batch, row].double()
        sizes = inside.sum(1).tolist()
        parts = zip(by_dense.split(sizes), by_words.split(sizes), strict=True)
        combined = [self._combined(d, s) for d, s in parts]
        whole = torch.zeros(inside.shape, dtype=torch.float64, device=space.device)
        whole[batch, row] = torch.cat(combined)
        outside = ~inside
        # Steady, so that a score shows nothing of the batch; what is in the union is exact anyway.
        steady = steady_products(space.vectors, queries.vectors).double() if outside.any() else None
        for b, own in enumerate(combined):
            if steady is not None and (left := outside[b]).any():
                rest = self._combined(steady[b, left], sparse[b, left].double())
                gap = own.max() - own.min() + (own.max() == own.min()).double()
                whole[b, left] = own.min() - gap * (2 - _normalised(rest, "min-max"))
        found = whole.to(space.vectors.dtype)
        return found if rows is None else found.gather(1, rows)

    def _combined(self, dense: Tensor, sparse: Tensor) -> Tensor:
        """(u,) of one query's union, float64."""
        if self.combination == "rrf":
            constant = self.rrf_constant
            dense = 1 / (constant + _ranks(dense))
            sparse = torch.where(sparse > 0, 1 / (constant + _ranks(sparse)), 0)
        else:
            dense, sparse = _normalised(dense, self.normalisation), _normalised(sparse, self.normalisation)
        return self.dense_weight * dense + (1 - self.dense_weight) * sparse


def _best(scored: Candidates, count: int) -> Tensor:
    """(B, n) bool: the `count` most relevant of each query, the lower rows of equals."""
    count = min(count, scored.count)
    rows = rank_exactly(scored.relevance, count, scored.relevance_error, scored.exact_relevance, rescore_all=False)[0]
    return torch.zeros_like(scored.relevance, dtype=torch.bool).scatter_(1, rows, True)


def _normalised(scores: Tensor, how: str) -> Tensor:
    """(u,) scores on a common scale; all 0 where they are alike."""
    match how:
        case "none":
            return scores
        case "min-max":
            low, high = scores.min(), scores.max()
            return (scores - low) / torch.where(high > low, high - low, 1)
    spread = scores.std(correction=0)
    return (scores - scores.mean()) / torch.where(scores.max() > scores.min(), spread, 1)


def _ranks(scores: Tensor) -> Tensor:
    """(u,) 1 for the best; equals share the better rank."""
    ordered = scores.neg().sort().values
    return 1 + torch.searchsorted(ordered, scores.neg()).double()
