"""hybrid: combination of sparse and dense scores (sparse-dense §4.1), or of their ranks (Cormack et al. 2009)."""

from collections.abc import Mapping
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
from engine.text.bm25_index import BM25_B, BM25_K1, BM25_NGRAMS, Bm25Index

SCALE_VERSION = "1"
"""Part of the cache keys of what is selected by hybrid scores: raise it with every change of what spans their scale."""
DENSE_WEIGHT = Real(0.5, "λ", 0.0, 1.0, name="dense_weight", source="sparse-dense §4.1")
RAW_DENSE_WEIGHT = replace(
    DENSE_WEIGHT,
    comfortable=(0.5, 1.0),
    swept=(0.0, 0.5, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 1.0),
    help="1 is dense alone, 0 BM25 alone; raw scores of BM25 are tens of times cosines, and weigh alike at about 0.98.",
)
"""λ for raw scores, as the paper adds them; swept on a grid near 1, where neither score dominates."""


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
    """Weighted sum of dense and BM25 scores, normalised for each query over the best documents of either."""

    words: ClassVar[bool] = True

    dense_weight: float = declare(
        DENSE_WEIGHT, "1 is dense alone, 0 BM25 alone.", variants=(("normalisation", "none", RAW_DENSE_WEIGHT),)
    )
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
            title="RRF constant",
            comfortable=(1.0, 200.0),
            source="Cormack et al. 2009",
            requires=("combination", "rrf"),
            advanced=True,
        ),
        "The larger, the less the first ranks stand out.",
    )
    union: int = declare(
        Whole(100, "m", 1, title="best of either", comfortable=(10, 500), source="sparse-dense §4.1", advanced=True),
        "The best m of either are scored by both; all others rank after them, below 0 on a scale of relevance.",
    )
    k1: float = declare(BM25_K1, advanced=True)
    b: float = declare(BM25_B, advanced=True)
    ngrams: str = declare(BM25_NGRAMS, advanced=True)

    @property
    def corpus_wide(self) -> bool:
        return True

    @property
    def retrieves_all(self) -> bool:
        return self.dense_weight > 0

    def prepare(self, space: Space) -> Bm25Index:
        return self._bm25_scorer.prepare(space)

    @property
    def _bm25_scorer(self) -> BM25:
        return BM25(k1=self.k1, b=self.b, ngrams=self.ngrams)

    def find_matches(self, space: Space, queries: QueryBatch, scores: Tensor) -> Tensor | None:
        """Return True for documents that share a word with the query, where BM25 alone counts; else None."""
        return None if self.retrieves_all else self._bm25_scorer.score(space, queries) > 0

    def find_scale_basis(self, space: Space, queries: QueryBatch) -> Tensor | None:
        """Return True for the documents of the union: all others are moved below it, however relevant they are."""
        _, _, in_union = self._find_union(space, queries)
        return in_union

    def cache_dependencies(self, space: Space) -> Mapping[str, str]:
        """Return what cached results depend on beside the parameters: how words are cut, and what spans the scale."""
        return {**self._bm25_scorer.cache_dependencies(space), "scale of the union": SCALE_VERSION}

    def score(self, space: Space, queries: QueryBatch, rows: Tensor | None = None) -> Tensor:
        """Return combined dense and BM25 scores of all documents, (B, n), or of given rows, (B, m).

        A row's score does not depend on which rows are asked for. The best documents by dense or by BM25 form the
        union, in which BM25's must share a word with the query; their scores are combined among themselves. The scores
        of all other documents are combined too, and moved below the union's. Let g be the union's best score less its
        worst, or 1 if all are equal: the best of the others is g below the union's worst, and their worst 2g (all
        of them, if they are equal). In reciprocal ranks, equal scores share the better rank, and a document without a
        common word adds nothing.
        """
        dense_candidates, sparse_scores, in_union = self._find_union(space, queries)
        query_index, row_index = in_union.nonzero(as_tuple=True)
        # In float64 a score depends on its document and its query alone, and not on the batch.
        union_dense = dense_candidates.exact_relevance(query_index, row_index)
        union_sparse = sparse_scores[query_index, row_index].double()
        union_sizes = in_union.sum(1).tolist()
        union_scores = list(map(self._combine, union_dense.split(union_sizes), union_sparse.split(union_sizes)))
        all_scores = torch.zeros(in_union.shape, dtype=torch.float64, device=space.device)
        all_scores[query_index, row_index] = torch.cat(union_scores)
        outside_union = ~in_union
        # Outside the union, products that do not depend on the batch take the place of exact ones.
        steady_dense = steady_products(space.vectors, queries.vectors).double() if outside_union.any() else None
        for query_number, query_union in enumerate(union_scores):
            if steady_dense is not None and (outside_rows := outside_union[query_number]).any():
                outside_sparse = sparse_scores[query_number, outside_rows].double()
                outside_scores = self._combine(steady_dense[query_number, outside_rows], outside_sparse)
                gap = query_union.max() - query_union.min() + (query_union.max() == query_union.min()).double()
                outside_depth = 2 - _normalise_scores(outside_scores, "min-max")
                all_scores[query_number, outside_rows] = query_union.min() - gap * outside_depth
        final_scores = all_scores.to(space.vectors.dtype)
        return final_scores if rows is None else final_scores.gather(1, rows)

    def _find_union(self, space: Space, queries: QueryBatch) -> tuple[Candidates, Tensor, Tensor]:
        """Return the dense scores as candidates, those of BM25, and True for the best of either; all (B, n)."""
        dense_candidates = Candidates(space.vectors, Dense().score(space, queries), queries.vectors, space.matrix)
        sparse_scores = self._bm25_scorer.score(space, queries)
        sparse_candidates = replace(dense_candidates, relevance=sparse_scores, inner_product=False)
        best_sparse = _select_best(sparse_candidates, self.union) & (sparse_scores > 0)
        in_union = _select_best(dense_candidates, self.union) | best_sparse
        return dense_candidates, sparse_scores, in_union

    def _combine(self, dense_scores: Tensor, sparse_scores: Tensor) -> Tensor:
        """Combine dense and BM25 scores of one query's documents, (u,) each, by their ranks or their values.

        Returns (u,) float64 scores. Values are first brought to one scale over these u documents.
        """
        if self.combination == "rrf":
            # A document without a word of the query has no rank by BM25, so it adds nothing.
            dense_scores = 1 / (self.rrf_constant + _rank_scores(dense_scores))
            sparse_scores = torch.where(sparse_scores > 0, 1 / (self.rrf_constant + _rank_scores(sparse_scores)), 0)
        else:
            dense_scores = _normalise_scores(dense_scores, self.normalisation)
            sparse_scores = _normalise_scores(sparse_scores, self.normalisation)
        return self.dense_weight * dense_scores + (1 - self.dense_weight) * sparse_scores


def _select_best(candidates: Candidates, n_best: int) -> Tensor:
    """Return a (B, n) mask of the `n_best` most relevant documents of each query; ties go to lower rows."""
    n_best = min(n_best, candidates.count)
    errors, refine = candidates.relevance_error, candidates.exact_relevance
    best_rows, _ = rank_exactly(candidates.relevance, n_best, errors, refine, rescore_all=False)
    return torch.zeros_like(candidates.relevance, dtype=torch.bool).scatter_(1, best_rows, True)


def _normalise_scores(scores: Tensor, normalisation: str) -> Tensor:
    """Bring scores of one query, (u,), to a scale that other scorers share.

    normalisation: "min-max" for [0, 1], "z-score" for mean 0 and deviation 1, "none" for the scores as they are. If
    all scores are equal, the first two make them 0.
    """
    match normalisation:
        case "none":
            return scores
        case "min-max":
            min_score, max_score = scores.min(), scores.max()
            return (scores - min_score) / torch.where(max_score > min_score, max_score - min_score, 1)
    deviation = scores.std(correction=0)
    return (scores - scores.mean()) / torch.where(scores.max() > scores.min(), deviation, 1)


def _rank_scores(scores: Tensor) -> Tensor:
    """Return the ranks of scores, (u,), from 1 for the largest; equal scores share the better rank."""
    # The number of larger scores: negated, they stand before the score in ascending order.
    sorted_scores = scores.neg().sort().values
    return 1 + torch.searchsorted(sorted_scores, scores.neg()).double()
