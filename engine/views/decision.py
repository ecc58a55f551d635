"""Relevance that a selector saw, and the reasons for a document in its set or out of it, in numbers to be checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates, scale_relevance, without_autocast
from engine.decoder import Decoder, ScoredCandidates, decode, select_from
from engine.evaluation.duplicate_threshold import normalize_rows
from engine.matrix import products
from engine.progress import counted
from engine.space import Space
from engine.stages import Selector, TradeOffSelector
from engine.values import Embeddings, Ranking
from engine.views.names import name_document
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
    """Return the relevance, as scores and ranks, that a selector gave to all documents for one query.

    None where these are plain inner products of documents and query, as `relevances` computes. They differ if another
    scorer gave them, if the selector scales them, or if other scores chose the pool, the candidates that the selector
    picks from. scored: the query's candidates, with the scores of the first and of the last scorer.
    """
    candidates, retrieved = scored.candidates, scored.retrieved.double()
    if isinstance(selector, TradeOffSelector):
        candidates = scale_relevance(candidates, selector.relevance_scale)
    is_scaled = candidates is not scored.candidates
    all_are_candidates = candidates.pool is None or (scored.reranked and candidates.count == len(retrieved))
    if not selector.by_scores and all_are_candidates:
        return None
    # One scorer, inner products, chose the pool and gave all scores.
    if candidates.inner_product and not scored.reranked:
        return None
    pool = torch.arange(len(retrieved), device=retrieved.device) if candidates.pool is None else candidates.pool[0]
    # A selector that does not read scores judges relevance by the vectors alone.
    pool_relevance = candidates.relevance if selector.by_scores else candidates.products(candidates.queries)
    pool_scores = pool_relevance[0].double()
    # Scores of documents outside the pool are comparable only if none of the pool's were replaced or scaled.
    is_comparable = selector.by_scores and not scored.reranked and not is_scaled
    score = retrieved.clone() if is_comparable else torch.full_like(retrieved, torch.nan)
    score[pool] = pool_scores
    # The pool ranks first, then the other rows by their first scores; equal scores by row, as the sorts are stable.
    outside = torch.ones_like(retrieved, dtype=torch.bool).index_fill_(0, pool, False).nonzero().flatten()
    best_in_pool = pool[pool_scores.argsort(descending=True, stable=True)]
    best_outside = outside[retrieved[outside].argsort(descending=True, stable=True)]
    row_order = torch.cat([best_in_pool, best_outside])
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
    twin: str | None  # the name of an exact duplicate that has a weight in its place
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
    nearest: str | None  # name of the most similar document ranked above it (for one that is out: in the set), if any
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
    where its sets are made of weights; depth: of the decoder's pool; known_rank: the row's rank from `find_ranks` if it
    has been computed, as that takes a pass over the corpus; relevance: of the selector if it is not the inner product.
    """
    # A selected document is compared with those ranked above it, another with the full set.
    rows = ranking.rows()
    index = rows.index(row) if row in rows else None
    other_rows = rows if index is None else rows[:index]
    # Of the documents compared, `n_ahead` are more relevant.
    score: float | None
    if relevance is None:
        rank = known_rank or find_ranks(space, query, [row])[0]
        score, *other_scores = relevances(space, query, [row, *other_rows])
        # Pairs of (−score, row) sort by score, and equal scores by row: the smaller pair is ahead.
        sort_keys = zip((-other_score for other_score in other_scores), other_rows, strict=True)
        n_ahead = sum(sort_key < (-score, row) for sort_key in sort_keys)
    else:
        rank, (score,) = int(relevance.ranks[row]), read_scores(relevance, [row])
        n_ahead = int((relevance.ranks[other_rows] < rank).sum())
    # Out of the set: less relevant documents in it. In the set: more relevant ones that are not ranked above it.
    n_overtaken = len(other_rows) - n_ahead if index is None else rank - 1 - n_ahead
    nearest = largest = None
    if other_rows:
        vectors = space.vectors[[row, *other_rows]].double()
        cosines = (vectors[1:] * vectors[0]).sum(1).tolist()
        largest = max(cosines)
        nearest = cosines.index(largest)
    dual = None
    # Without a candidate nothing was solved.
    if stage and stage.has_weights() and "support" in ranking.info[0]:
        dual = _compute_dual(space, query, ranking, row, stage, depth, relevance)
    return Why(
        row=row,
        rank=None if index is None else index + 1,
        size=len(rows),
        relevance=score,
        place=rank,
        overtaken=n_overtaken,
        nearest=None if nearest is None else name_document(space.corpus, other_rows[nearest]),
        nearest_rank=None if nearest is None else nearest + 1,
        similarity=largest,
        score=None if index is None else ranking.gain[0, index].item(),
        pool=depth if depth is not None and rank > depth else None,
        dual=dual,
    )


def describe_reasons(facts: Why, stage: Selector | None = None) -> str:
    """Explain in words why a document is in the set or not; stage: the selector that chose it, if it is known."""
    # `rank` is the rank in the set, None outside; `place` is the rank by relevance in the corpus.
    if facts.pool is not None and facts.rank is None:
        return f"Out: relevance rank {facts.place:,}, beyond the pool of {facts.pool:,}."
    # An elastic net, which chooses by weights, is explained by the document's dual score.
    if facts.dual is not None:
        return _describe_dual(facts, facts.dual)
    # `overtaken`: for a document in the set, the more relevant ones that are not ranked above it; for one out of the
    # set, the less relevant ones in it.
    if facts.rank is not None:
        if not facts.overtaken:
            # The first pick has nothing above it that it could repeat.
            has_redundancy = stage is not None and stage.reads_vectors and facts.rank > 1
            criterion = stage.criterion if stage and has_redundancy else "relevance"
            return f"In: highest {criterion} of those left." if criterion else "In: chosen for the set as a whole."
        return f"In: chosen over {counted(facts.overtaken, 'more relevant document')}."
    if not facts.size:
        return "Out: no document was selected."
    if not facts.overtaken:
        verb_text = "the only selected document is" if facts.size == 1 else f"all {facts.size:,} selected documents are"
        return f"Out: {verb_text} more relevant."
    return f"Out: {counted(facts.overtaken, 'less relevant document')} preferred."


def _describe_dual(facts: Why, dual: Dual) -> str:
    """Say in words why a document has a weight in the elastic net or none, by its dual score.

    The dual score is the document's product with the part of the query that the weighted documents do not rebuild. At
    the optimum it is λ₁ + λ₂w for documents with a weight w, and at most λ₁ for all others; a solver that stopped early
    is not certified and may miss this. facts: the document's place in the answer; dual: score, penalties and weight.
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
    # Within the solver's error the two numbers are equal: one number stands for both.
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
    """Compute one document's dual score u·(v − Uᵀw), which explains why an elastic net chose it or not.

    The elastic net rebuilds the query v from the documents U with weights w (its support). The score of a document u is
    its product with what they leave of the query: below λ₁ a document gets no weight. query: (d,); ranking: the answer;
    row: of the document; stage, depth, relevance: of the decoder, to solve again if the answer is cut.
    """
    info, weights = ranking.info[0], weights_of(ranking)
    if len(weights) < info["support"]:
        # The answer was cut to the k largest weights, but all of them rebuild the query.
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
        twin=None if twin_row is None else name_document(space.corpus, twin_row),
        residual=info["residual"], certified=info["certified"],
    )  # fmt: skip


def weights_of(ranking: Ranking) -> dict[int, float]:
    """Map the rows of one query's answer to their weights in the selector's solution.

    Documents with weight 0, which only fill the answer up to k, and the row −1, which pads it, are left out.
    """
    weighted_rows = zip(ranking.index[0].tolist(), ranking.gain[0].tolist(), strict=True)
    return {row: weight for row, weight in weighted_rows if row >= 0 and weight > 0}


@without_autocast
def relevances(space: Space, query: Tensor, rows: Sequence[int]) -> list[float]:
    """Compute the inner products of some documents with a query, (d,), in float64."""
    vectors = space.vectors[torch.as_tensor(rows, dtype=torch.int64, device=space.device)].double()
    return (vectors * _exact_query(space, query)).sum(1).tolist()


@without_autocast
def similarities(space: Space, rows: Sequence[int]) -> np.ndarray:
    """Compute the cosines of the documents at `rows` with one another, (m, m), in float64."""
    vectors = normalize_rows(space.vectors[torch.as_tensor(rows, dtype=torch.int64, device=space.device)])
    return (vectors @ vectors.T).cpu().numpy()


@without_autocast
def find_ranks(space: Space, query: Tensor, rows: Sequence[int]) -> list[int]:
    """Return the ranks of some documents by inner product with a query, (d,), among all documents.

    rows: the documents. Ranks count from 1; of equal documents the lower row is ahead. All vectors are read once.
    """
    point = query.to(space.device, space.vectors.dtype).unsqueeze(0)
    candidates = Candidates(space.vectors, products(space.vectors, point), point, space.matrix)
    # Scores in the vectors' precision, and a bound on their rounding error.
    scores, tolerance = candidates.relevance[0].double(), candidates.relevance_error.double()
    ranks = []
    for row, score in zip(rows, relevances(space, query, rows), strict=True):
        n_surely_ahead = int((scores > score + tolerance).sum())
        # What rounding cannot decide is scored again in float64. All rows are those of query 0, the only one.
        close_rows = ((scores - score).abs() <= tolerance).nonzero().flatten()
        exact_scores = candidates.exact_relevance(torch.zeros_like(close_rows), close_rows)
        is_ahead = (exact_scores > score) | ((exact_scores == score) & (close_rows < row))
        ranks.append(n_surely_ahead + int(is_ahead.sum()) + 1)
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
    if "matches" in info:
        phrases.append(_describe_matches(info["matches"]))
    # Each selector adds facts of its own: `support`, the number of documents with a weight, is the elastic net's;
    # `swaps` counts exchanges of documents that improved a set.
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


def _describe_matches(n_matches: int) -> str:
    """Say in words that fewer documents than were to be returned match the query's words."""
    if not n_matches:
        return "No word of the query occurs in the corpus"
    return f"Only {counted(n_matches, 'document')} {'shares' if n_matches == 1 else 'share'} a word with the query"


def describe_unmatched(n_unmatched: int) -> str | None:
    """Say in words how many queries got no document as no word of theirs occurs in the corpus; None for none."""
    if not n_unmatched:
        return None
    queries = counted(n_unmatched, "query", "queries")
    return f"no word of {queries} occurs in the corpus; nothing is retrieved for {'it' if n_unmatched == 1 else 'them'}"


def _scope(info: Mapping[str, Any]) -> list[str]:
    """Say in words for which documents an answer holds, where that may not be the full corpus.

    info: of a ranking of the documents that a vector engine returned. Its scope is "proven" if further searches show
    that no other document could change the answer, "engine" if they show it only as far as the engine's approximate
    index can be trusted, and "pool" if they leave some picks unproven.
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
            # `recall` is the index's, measured on plain queries, and on certificate queries, by which answers are
            # proven.
            recall_text = f"it finds {recall[0]:.0%} of what queries ask for, {recall[1]:.0%} of what a proof asks"
        return [f"Unproven: the engine's index found nothing better among {total} documents; {recall_text}"]
    n_picks = len(info["ids"])
    n_proven = n_picks - info["open"]
    if n_proven > 0:
        return [f"{n_proven} of {n_picks} picks proven for all {total} documents, the rest of {seen} only"]
    return [f"Unproven: of the {seen} that came back, of {total}"]


def _weights_trust(info: Mapping[str, Any], is_scoped: bool) -> list[str]:
    """Say in words how close the weights that rebuild the query are to the optimum.

    info: of an elastic-net ranking; is_scoped: True if an earlier phrase says that the answer may not hold for the full
    corpus, so that "Exact" would claim too much
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
