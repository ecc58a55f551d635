"""Relevance that a selector saw, and the reasons for a document in its set or out of it, in numbers to be checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import neg
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates, without_autocast
from engine.decoder import Decoder, ScoredCandidates, decode, select_from
from engine.matrix import products
from engine.progress import counted
from engine.space import Space
from engine.stages import Selector
from engine.values import Embeddings, Ranking, replace_surrogates
from engine.wording import power

MIN_RESIDUAL = 1e-16
"""Finest bound in float64."""


@dataclass(frozen=True, eq=False)
class Relevance:
    """Relevance of one query's documents to a selector."""

    score: Tensor  # (n,) float64, NaN for a document outside the pool whose score is not of the same kind
    ranks: Tensor  # (n,) their ranks from 1, those of the pool first, then the others as they were retrieved
    scored: ScoredCandidates  # the candidates of the selector


@without_autocast
def relevance(selector: Selector, scored: ScoredCandidates) -> Relevance | None:
    """Return the scores by which a selector saw documents' relevance; None if they are inner products.

    They differ where another scorer gave them, or where the pool was chosen by other scores. scored: one query's
    candidates
    """
    c, retrieved = scored.candidates, scored.retrieved.double()
    if not selector.by_scores and (c.pool is None or (scored.reranked and c.count == len(retrieved))):
        return None
    if c.inner_product and not scored.reranked:
        return None
    pool = torch.arange(len(retrieved), device=retrieved.device) if c.pool is None else c.pool[0]
    pool_scores = c.relevance[0].double() if selector.by_scores else c.products(c.queries)[0].double()
    # Scores of documents outside the pool are comparable only if no other scorer took over within it.
    is_comparable = selector.by_scores and not scored.reranked
    score = retrieved.clone() if is_comparable else torch.full_like(retrieved, torch.nan)
    score[pool] = pool_scores
    # Equals are ordered by row, as everywhere: the sort is stable and the pool ascends.
    outside = torch.ones_like(retrieved, dtype=torch.bool).index_fill_(0, pool, False).nonzero().flatten()
    best_in_pool = pool[pool_scores.argsort(descending=True, stable=True)]
    row_order = torch.cat([best_in_pool, outside[retrieved[outside].argsort(descending=True, stable=True)]])
    ranks = torch.empty_like(row_order)
    ranks[row_order] = torch.arange(1, len(row_order) + 1, device=row_order.device)
    return Relevance(score.cpu(), ranks.cpu(), scored)


@dataclass(frozen=True, kw_only=True)
class Dual:
    """A document's optimality condition in the elastic net, whose weights rebuild the query's vector.

    In float64. At the minimiser the score is λ₁ + λ₂w where the document has a weight w > 0, and at most λ₁ elsewhere.
    """

    score: float  # u·(v − Uᵀw), the document's product with the part of the query not rebuilt yet
    l1: float  # λ₁ as used
    l2: float  # λ₂ as used
    weight: float  # of the document, 0 for most
    twin: str | None  # the id of an exact duplicate that has a weight in its place
    residual: float  # largest violation of the optimality conditions
    certified: bool  # True if that is within rounding


@dataclass(frozen=True, kw_only=True)
class Why:
    """The facts that explain why a document is in one decoder's set for a query, or out of it."""

    row: int  # position in the corpus
    rank: int | None  # in the set, from 1, None for out
    size: int  # of the set
    relevance: float | None  # inner product with the query, or another scorer's score, None where the selector saw none
    place: int  # rank by relevance in the corpus
    overtaken: int  # if it is in, the number of more relevant ones not ranked above it; else of less relevant ones in
    nearest: str | None  # id of the most similar document ranked above it (for one that is out: in the set), if any
    nearest_rank: int | None
    similarity: float | None
    score: float | None  # the decoder's score, None for out
    pool: int | None  # the size of the decoder's pool, None where this document is in it
    dual: Dual | None


@without_autocast
def explain_document(
    space: Space,
    query: Tensor,
    ranking: Ranking,
    row: int,
    stage: Selector | None = None,
    depth: int | None = None,
    known_rank: int | None = None,
    relevance: Relevance | None = None,
) -> Why:
    """Collect the facts that explain why a document is in one decoder's set for a query, or out of it.

    query: (d,) its vector; ranking: of this query alone; row: the document; stage: the selector, for the dual score
    where its sets are made of weights; depth: of the decoder's pool; known_rank: the row's rank as of `find_ranks` if
    it has been computed, which takes a pass over the corpus; relevance: of the selector if it is not the inner product.
    """
    # A selected document is compared with those ranked above it, another with the full set.
    rows = ranking.rows()
    index = rows.index(row) if row in rows else None
    other_rows = rows if index is None else rows[:index]
    score: float | None
    if relevance is None:
        rank = known_rank or find_ranks(space, query, [row])[0]
        score, *scores = relevances(space, query, [row, *other_rows])
        # Equals are ordered by row, as everywhere.
        # Pairs of (−score, row) sort by score, then by row: the smaller one is ahead.
        n_ahead = sum(pair < (-score, row) for pair in zip(map(neg, scores), other_rows, strict=True))
    else:
        rank, (score,) = int(relevance.ranks[row]), read_scores(relevance, [row])
        n_ahead = int((relevance.ranks[other_rows] < rank).sum())
    nearest = largest = None
    if other_rows:
        vectors = space.vectors[[row, *other_rows]].double()
        cosines = (vectors[1:] * vectors[0]).sum(1).tolist()
        largest = max(cosines)
        nearest = cosines.index(largest)
    dual = None
    if stage and stage.has_weights():
        dual = _compute_dual(space, query, ranking, row, stage, depth, relevance)
    return Why(
        row=row,
        rank=None if index is None else index + 1,
        size=len(rows),
        relevance=score,
        place=rank,
        overtaken=len(other_rows) - n_ahead if index is None else rank - 1 - n_ahead,
        nearest=None if nearest is None else replace_surrogates(space.corpus.ids[other_rows[nearest]]),
        nearest_rank=None if nearest is None else nearest + 1,
        similarity=largest,
        score=None if index is None else ranking.gain[0, index].item(),
        pool=depth if depth is not None and rank > depth else None,
        dual=dual,
    )


def describe_reasons(facts: Why) -> str:
    """Explain in words why a document is in the set or not."""
    if facts.pool is not None and facts.rank is None:
        return f"Out: relevance rank {facts.place:,}, beyond the pool of {facts.pool:,}."
    if facts.dual is not None:
        return _describe_dual(facts, facts.dual)
    if facts.rank is not None:
        if not facts.overtaken:
            return "In: highest relevance of those left."
        return f"In: chosen over {counted(facts.overtaken, 'more relevant document')}."
    if not facts.size:
        return "Out: no document was selected."
    if not facts.overtaken:
        verb_text = "the only selected document is" if facts.size == 1 else f"all {facts.size:,} selected documents are"
        return f"Out: {verb_text} more relevant."
    return f"Out: {counted(facts.overtaken, 'less relevant document')} preferred."


def _describe_dual(facts: Why, dual: Dual) -> str:
    """Say in words why a document has a weight in the elastic net or none, by its dual score.

    The dual score is λ₁ + λ₂w for documents with a weight w, and at most λ₁ for all others; see `Dual`.
    """
    score_text, l1_text = _format_apart(dual.score, dual.l1)
    if dual.weight > 0:
        if facts.rank is None:
            return f"Out: has weight {dual.weight:.3g}, less than all {counted(facts.size, 'selected document')}."
        opening = f"In, weight {dual.weight:.3g}"
        if not dual.certified:
            due_text, has_text = _format_apart(dual.l1 + dual.l2 * dual.weight, dual.score)
            return f"{opening}: adds {has_text}, not λ₁ + λ₂w = {due_text} as at the optimum: the solver stopped early."
        return f"{opening}."
    verdict = "Out" if facts.rank is None else "Filled in"
    if dual.twin is not None:
        return f"{verdict}: exact duplicate of {dual.twin}, which stands for both."
    if not dual.certified and dual.score > dual.l1:
        return f"{verdict}, though it would add {score_text}, more than λ₁ = {l1_text}: the solver stopped early."
    if abs(dual.score - dual.l1) <= dual.residual:
        return f"{verdict}: would add {dual.l1:.3g}, no more than λ₁."
    return f"{verdict}: would add {score_text}, less than λ₁ = {l1_text}."


def _format_apart(first: float, second: float) -> tuple[str, str]:
    """Format two numbers with the fewest digits, 3 or more, at which they look different if they differ."""
    for n_digits in range(3, 17):
        texts = f"{first:.{n_digits}g}", f"{second:.{n_digits}g}"
        if first == second or texts[0] != texts[1]:
            break
    return texts


def read_scores(relevance: Relevance, rows: Sequence[int]) -> list[float | None]:
    """Return the scores of some documents; None for those that have none."""
    # NaN, which no number equals, stands for a missing score.
    return [None if score != score else score for score in relevance.score[list(rows)].tolist()]


def _compute_dual(
    space: Space,
    query: Tensor,
    ranking: Ranking,
    row: int,
    stage: Selector,
    depth: int | None,
    relevance: Relevance | None,
) -> Dual:
    """Compute one document's dual score u·(v − Uᵀw): its product with what a set leaves of the query.

    The elastic net rebuilds the query v by the set's documents U with weights w; u is the document. query: (d,); row:
    the document; stage, depth, relevance: of the decoder, to solve again for members beyond the k returned
    """
    info, weights = ranking.info[0], weights_of(ranking)
    if len(weights) < info["support"]:
        # The set shows the k largest only, and all of them rebuild the query.
        if relevance is not None:
            weights = weights_of(select_from(stage, relevance.scored, k=info["support"]))
        else:
            queries = Embeddings(("",), query.unsqueeze(0), space.embeddings.encoder)
            weights = weights_of(decode(Decoder(select=stage, depth=depth), space, queries, k=info["support"]))
    vectors = space.vectors[[row, *weights]].double()
    weight_row = torch.tensor([list(weights.values())], dtype=torch.float64, device=vectors.device)
    residual = _exact_query(space, query) - (weight_row @ vectors[1:])[0]
    # At λ₂ = 0 one of several exact duplicates has the weight; `tied` lists the others under its row.
    twin_row = next((kept_row for kept_row, duplicates in info["tied"].items() if row in duplicates), None)
    return Dual(
        score=(vectors[0] @ residual).item(), l1=info["l1"], l2=info["l2"], weight=weights.get(row, 0.0),
        twin=None if twin_row is None else replace_surrogates(space.corpus.ids[twin_row]),
        residual=info["residual"], certified=info["certified"],
    )  # fmt: skip


def weights_of(ranking: Ranking) -> dict[int, float]:
    """Return the weights of one query's documents by row; documents that were filled in have none."""
    pairs = zip(ranking.index[0].tolist(), ranking.gain[0].tolist(), strict=True)
    return {row: weight for row, weight in pairs if row >= 0 and weight > 0}


@without_autocast
def relevances(space: Space, query: Tensor, rows: Sequence[int]) -> list[float]:
    """Compute the inner products of some documents with a query, (d,), in float64."""
    vectors = space.vectors[torch.as_tensor(rows, dtype=torch.int64, device=space.device)].double()
    return (vectors * _exact_query(space, query)).sum(1).tolist()


@without_autocast
def similarities(space: Space, rows: Sequence[int]) -> np.ndarray:
    """Compute the inner products of the documents at `rows` with one another, (m, m), in float64.

    They are cosines where vectors have length 1.
    """
    vectors = space.vectors[torch.as_tensor(rows, dtype=torch.int64, device=space.device)].double()
    return (vectors @ vectors.T).cpu().numpy()


@without_autocast
def find_ranks(space: Space, query: Tensor, rows: Sequence[int]) -> list[int]:
    """Return the ranks of the documents at `rows` by relevance in the corpus, from 1; ties by row.

    query: (d,); one pass over all vectors
    """
    point = query.to(space.device, space.vectors.dtype).unsqueeze(0)
    candidates = Candidates(space.vectors, products(space.vectors, point), point, space.matrix)
    scores, tolerance, ranks = candidates.relevance[0].double(), candidates.relevance_error.double(), []
    for row, score in zip(rows, relevances(space, query, rows), strict=True):
        # What rounding cannot decide is scored again in float64.
        close_rows = ((scores - score).abs() <= tolerance).nonzero().flatten()
        exact_scores = candidates.exact_relevance(torch.zeros_like(close_rows), close_rows)
        is_before = (exact_scores > score) | ((exact_scores == score) & (close_rows < row))
        ranks.append(int((scores > score + tolerance).sum()) + int(is_before.sum()) + 1)
    return ranks


def _exact_query(space: Space, query: Tensor) -> Tensor:
    """Return a query, (d,), rounded to the vectors' precision as decoders see it, then in float64."""
    return query.to(space.device, space.vectors.dtype).double()


def describe_trust(info: Mapping[str, Any]) -> str:
    """Say in words how far a ranking can be trusted: how it was computed and what is proven of it.

    info: of the ranking, as decoders return it
    """
    # Answers from an engine's first documents may not hold for the corpus: that scope is said first.
    scope = _scope(info) if "scope" in info else []
    phrases = list(scope)
    pool, count = info.get("pool"), info.get("candidates")
    if "support" in info:
        phrases += _weights_trust(info, bool(scope))
    elif info.get("certified") and not scope:
        phrases.append("Exact" if not pool or pool == count else f"Exact (proved from {counted(pool, 'candidate')})")
    elif info.get("whole") is False and not scope:
        phrases.append(f"Only the {pool:,} most relevant were considered")
    if info.get("past_rank") is not None:
        phrases.append(f"From rank {info['past_rank'] + 1} on by relevance alone: nothing left adds diversity")
    if "swaps" in info:
        swaps = counted(info["swaps"], "swap")
        phrases.append(f"Locally optimal after {swaps}" if info.get("swap_optimal") else f"{swaps}, not all were tried")
    elif info.get("iterations") and "support" not in info:
        phrases.append(counted(info["iterations"], "step"))
    return " · ".join(phrases)


def _scope(info: Mapping[str, Any]) -> list[str]:
    """Say in words for which documents an answer holds, where that may not be the full corpus.

    info: of a ranking over an engine's, or a pool's, documents
    """
    if "depth" in info:
        return [f"Of the {counted(info['depth'], 'most relevant document', 'most relevant documents')} only"]
    total, seen = f"{info['documents']:,}", counted(info["rows"], "document")
    if info["scope"] == "proven":
        if "swaps" in info:
            return [f"Proven: no swap with any of the {total} documents improves it"]
        return [f"Proven for all {total} documents, from {info['rows']:,}"]
    if info["scope"] == "engine":
        recall = info.get("recall")
        recall_text = "how much it finds is not measured"
        if recall is not None:
            # The first is measured on plain queries, the second on the queries of proofs.
            recall_text = f"it finds {recall[0]:.0%} of what queries ask for, {recall[1]:.0%} of what a proof asks"
        return [f"Unproven: the engine's index found nothing better among {total} documents; {recall_text}"]
    returned = len(info["ids"])
    proven = returned - info["open"]
    if proven > 0:
        return [f"{proven} of {returned} picks proven for all {total} documents, the rest of {seen} only"]
    return [f"Unproven: of the {seen} that came back, of {total}"]


def _weights_trust(info: Mapping[str, Any], is_scoped: bool) -> list[str]:
    """Say in words how close the weights that rebuild the query are to the optimum.

    info: of an elastic-net ranking; is_scoped: it has been said already for which documents
    """
    residual = f"KKT residual {power(max(info['residual'], MIN_RESIDUAL))}"
    solved_text = "Solved" if is_scoped else "Exact ✓"
    if info.get("certified"):
        phrases = [f"{solved_text} ({residual})" if info["support"] else solved_text]
    else:
        steps_text = f" after {counted(info['iterations'], 'step')}" if "iterations" in info else ""
        phrases = [f"Approximate: {residual}{steps_text}"]
    if info["tied"]:
        n_duplicates = sum(map(len, info["tied"].values()))
        phrases.append(f"{counted(n_duplicates, 'exact duplicate')} could take their place")
    return [*phrases, *info["messages"]]
