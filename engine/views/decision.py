"""The relevance that a selector saw, and why a document is in its set or out of it, in numbers to be checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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

LEAST = 1e-16
"""Finest bound in float64."""


@dataclass(frozen=True, eq=False)
class Relevance:
    """What one query's documents were worth to a selector."""

    score: Tensor  # (n,) float64, NaN for a document outside the pool whose score is not of the same kind
    place: Tensor  # (n,) their ranks from 1, those of the pool first, then the others as they were retrieved
    found: ScoredCandidates  # what the selector chose from


@without_autocast
def relevance(selector: Selector, found: ScoredCandidates) -> Relevance | None:
    """The relevance that a selector saw; None where it is the inner product, and that chose the pool too."""
    c = found.candidates
    retrieved = found.retrieved.double()
    if not selector.by_scores and (c.pool is None or (found.reranked and c.count == len(retrieved))):
        return None
    if c.inner_product and not found.reranked:
        return None
    pool = torch.arange(len(retrieved), device=retrieved.device) if c.pool is None else c.pool[0]
    own = c.relevance[0].double() if selector.by_scores else c.products(c.queries)[0].double()
    same = selector.by_scores and not found.reranked
    score = retrieved.clone() if same else torch.full_like(retrieved, torch.nan)
    score[pool] = own
    # Equals are ordered by row, as everywhere: the sort is stable and the pool ascends.
    rest = torch.ones_like(retrieved, dtype=torch.bool).index_fill_(0, pool, False).nonzero().flatten()
    ranked = [at[values.argsort(descending=True, stable=True)] for at, values in ((pool, own), (rest, retrieved[rest]))]
    order = torch.cat(ranked)
    place = torch.empty_like(order)
    place[order] = torch.arange(1, len(order) + 1, device=order.device)
    return Relevance(score.cpu(), place.cpu(), found)


@dataclass(frozen=True, kw_only=True)
class Dual:
    """Dual score of a document u beside a set of weights w that rebuild the query v, in float64.

    At the minimiser score = λ₁ + λ₂w where w > 0, and score ≤ λ₁ elsewhere.
    """

    score: float  # u·(v − Uᵀw), what it would add
    l1: float  # λ₁ as used
    l2: float  # λ₂ as used
    weight: float  # of the document, 0 for most
    twin: str | None  # the id of an exact duplicate that has a weight in its place
    residual: float  # largest violation of the optimality conditions
    certified: bool  # whether that is within rounding


@dataclass(frozen=True, kw_only=True)
class Why:
    """One document against one decoder's set."""

    row: int  # position in the corpus
    rank: int | None  # in the set, from 1, None for out
    size: int  # of the set
    relevance: float | None  # inner product with the query, or another scorer's score, None where the selector saw none
    place: int  # rank by relevance in the corpus
    overtaken: int  # if it is in, the number of more relevant ones not ranked above it; else of less relevant ones in
    nearest: str | None  # id of the most similar document ranked above it (for one that is out: in the set), if any
    nearest_rank: int | None
    similarity: float | None
    score: float | None  # what the decoder ranked it by, None for out
    pool: int | None  # the size of the decoder's pool, None where this document is in it
    dual: Dual | None


@without_autocast
def why(
    space: Space,
    query: Tensor,
    ranking: Ranking,
    row: int,
    stage: Selector | None = None,
    depth: int | None = None,
    place: int | None = None,
    relevance: Relevance | None = None,
) -> Why:
    """Reasons for and against a document in one decoder's set for one query.

    query: (d,) its vector; ranking: of this query alone; row: the document; stage: the selector, for the dual score
    where its sets are made of weights; depth: of the decoder's pool; place: the row's rank as `places` has it, where it
    is known already (it takes a pass over the corpus); relevance: what the selector saw where that was not the inner
    product.
    """
    rows = ranking.rows()
    index = rows.index(row) if row in rows else None
    others = rows if index is None else rows[:index]
    score: float | None
    if relevance is None:
        place = place or places(space, query, [row])[0]
        score, *scores = relevances(space, query, [row, *others])
        # Equals are ordered by row, as everywhere.
        ahead = sum((-value, other) < (-score, row) for other, value in zip(others, scores, strict=True))
    else:
        place, (score,) = int(relevance.place[row]), known(relevance, [row])
        ahead = sum(int(relevance.place[other]) < place for other in others)
    near = value = None
    if others:
        vectors = space.vectors[[row, *others]].double()
        alike = (vectors[1:] * vectors[0]).sum(1).tolist()
        value = max(alike)
        near = alike.index(value)
    return Why(
        row=row,
        rank=None if index is None else index + 1,
        size=len(rows),
        relevance=score,
        place=place,
        overtaken=len(others) - ahead if index is None else place - 1 - ahead,
        nearest=None if near is None else replace_surrogates(space.corpus.ids[others[near]]),
        nearest_rank=None if near is None else near + 1,
        similarity=value,
        score=None if index is None else ranking.gain[0, index].item(),
        pool=depth if depth is not None and place > depth else None,
        dual=_dual(space, query, ranking, row, stage, depth, relevance) if stage and stage.has_weights() else None,
    )


def reasons(facts: Why) -> str:
    """Why a document is in or out, in words."""
    if facts.pool is not None and facts.rank is None:
        return f"Out: relevance rank {facts.place:,}, beyond the pool of {facts.pool:,}."
    if facts.dual is not None:
        return _weighed(facts, facts.dual)
    if facts.rank is not None:
        if not facts.overtaken:
            return "In: the most relevant document left."
        return f"In: chosen over {counted(facts.overtaken, 'more relevant document')}."
    if not facts.size:
        return "Out: no document was selected."
    if not facts.overtaken:
        every = "the only selected document is" if facts.size == 1 else f"all {facts.size:,} selected documents are"
        return f"Out: {every} more relevant."
    return f"Out: {counted(facts.overtaken, 'less relevant document')} chosen instead."


def _weighed(facts: Why, dual: Dual) -> str:
    adds, l1 = _apart(dual.score, dual.l1)
    if dual.weight > 0:
        if facts.rank is None:
            return f"Out: has weight {dual.weight:.3g}, less than all {counted(facts.size, 'selected document')}."
        start = f"In with weight {dual.weight:.3g}: adds"
        if not dual.certified:
            due, has = _apart(dual.l1 + dual.l2 * dual.weight, dual.score)
            return f"{start} {has}, not λ₁ + λ₂w = {due} as at the optimum: the solver stopped early."
        if dual.l2 == 0:
            return f"{start} {dual.l1:.3g} = λ₁."
        return f"{start} {dual.score:.3g} = λ₁ + λ₂w."
    head = "Out" if facts.rank is None else "Filled in"
    if dual.twin is not None:
        return f"{head}: exact duplicate of {dual.twin}, which stands for both."
    if not dual.certified and dual.score > dual.l1:
        return f"{head}, though it would add {adds}, more than λ₁ = {l1}: the solver stopped early."
    if abs(dual.score - dual.l1) <= dual.residual:
        return f"{head}: would add {dual.l1:.3g}, no more than λ₁."
    return f"{head}: would add {adds}, less than λ₁ = {l1}."


def _apart(one: float, other: float) -> tuple[str, str]:
    """Two numbers with as few digits as tell them apart."""
    for digits in range(3, 17):
        texts = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if one == other or texts[0] != texts[1]:
            break
    return texts


def known(relevance: Relevance, rows: Sequence[int]) -> list[float | None]:
    """The scores of some documents; None for those that have none."""
    return [None if score != score else score for score in relevance.score[list(rows)].tolist()]


def _dual(
    space: Space,
    query: Tensor,
    ranking: Ranking,
    row: int,
    stage: Selector,
    depth: int | None,
    relevance: Relevance | None,
) -> Dual:
    info, weights = ranking.info[0], weights_of(ranking)
    if len(weights) < info["support"]:
        # The set shows the k largest only, and all of them rebuild the query.
        if relevance is not None:
            weights = weights_of(select_from(stage, relevance.found, k=info["support"]))
        else:
            queries = Embeddings(("",), query.unsqueeze(0), space.embeddings.encoder)
            weights = weights_of(decode(Decoder(select=stage, depth=depth), space, queries, k=info["support"]))
    vectors = space.vectors[[row, *weights]].double()
    values = torch.tensor([list(weights.values())], dtype=torch.float64, device=vectors.device)
    left = _exact(space, query) - (values @ vectors[1:])[0]
    twin = next((one for one, others in info["tied"].items() if row in others), None)
    return Dual(
        score=(vectors[0] @ left).item(),
        l1=info["l1"],
        l2=info["l2"],
        weight=weights.get(row, 0.0),
        twin=None if twin is None else replace_surrogates(space.corpus.ids[twin]),
        residual=info["residual"],
        certified=info["certified"],
    )


def weights_of(ranking: Ranking) -> dict[int, float]:
    """Row → weight of one query's documents; those filled in have a gain of 0 or less, and no weight."""
    pairs = zip(ranking.index[0].tolist(), ranking.gain[0].tolist(), strict=True)
    return {row: weight for row, weight in pairs if row >= 0 and weight > 0}


@without_autocast
def relevances(space: Space, query: Tensor, rows: Sequence[int]) -> list[float]:
    """Inner products of some documents with a query, (d,), in float64."""
    vectors = space.vectors[torch.as_tensor(rows, dtype=torch.int64, device=space.device)].double()
    return (vectors * _exact(space, query)).sum(1).tolist()


@without_autocast
def similarities(space: Space, rows: Sequence[int]) -> np.ndarray:
    """(m, m) float64 inner products of the documents at `rows`; cosines where vectors are unit."""
    vectors = space.vectors[torch.as_tensor(rows, dtype=torch.int64, device=space.device)].double()
    return (vectors @ vectors.T).cpu().numpy()


@without_autocast
def places(space: Space, query: Tensor, rows: Sequence[int]) -> list[int]:
    """Ranks of documents by relevance in the whole corpus, from 1; of equals the lower row goes first."""
    point = query.to(space.device, space.vectors.dtype).unsqueeze(0)
    c = Candidates(space.vectors, products(space.vectors, point), point, space.matrix)
    scores, error, ranks = c.relevance[0].double(), c.relevance_error.double(), []
    for row, score in zip(rows, relevances(space, query, rows), strict=True):
        # What rounding cannot decide is scored again in float64.
        close = ((scores - score).abs() <= error).nonzero().flatten()
        exact = c.exact_relevance(torch.zeros_like(close), close)
        before = (exact > score) | ((exact == score) & (close < row))
        ranks.append(int((scores > score + error).sum()) + int(before.sum()) + 1)
    return ranks


def _exact(space: Space, query: Tensor) -> Tensor:
    """The query as decoders see it, in float64."""
    return query.to(space.device, space.vectors.dtype).double()


def trust(info: Mapping[str, Any]) -> str:
    """What a ranking says of itself, in words: how it was reached, and what it is certain of."""
    scope = _scope(info) if "scope" in info else []
    parts = list(scope)
    pool, of = info.get("pool"), info.get("candidates")
    if "support" in info:
        parts += _weights_trust(info, bool(scope))
    elif info.get("certified") and not scope:
        parts.append("Exact" if not pool or pool == of else f"Exact (proved from {counted(pool, 'candidate')})")
    elif info.get("whole") is False and not scope:
        parts.append(f"Only the {pool:,} most relevant were considered")
    if info.get("past_rank") is not None:
        parts.append(f"From rank {info['past_rank'] + 1} on by relevance alone: nothing left adds diversity")
    if "swaps" in info:
        swaps = counted(info["swaps"], "swap")
        parts.append(f"Locally optimal after {swaps}" if info.get("swap_optimal") else f"{swaps}, not all were tried")
    elif info.get("iterations") and "support" not in info:
        parts.append(counted(info["iterations"], "step"))
    return " · ".join(parts)


def _scope(info: Mapping[str, Any]) -> list[str]:
    """Of which documents an answer is the answer, where that need not be the whole corpus."""
    if "depth" in info:
        return [f"Of the {counted(info['depth'], 'most relevant document', 'most relevant documents')} only"]
    every, seen = f"{info['documents']:,}", counted(info["rows"], "document")
    if info["scope"] == "proven":
        if "swaps" in info:
            return [f"Proven: no swap with any of the {every} documents improves it"]
        return [f"Proven for all {every} documents, from {info['rows']:,}"]
    if info["scope"] == "engine":
        recall = info.get("recall")
        known = "how much it finds is not measured"
        if recall is not None:
            known = f"it finds {recall[0]:.0%} of what queries ask for, {recall[1]:.0%} of what a proof asks"
        return [f"Unproven: the engine's index found nothing better among {every} documents; {known}"]
    returned = len(info["ids"])
    if returned - info["open"] > 0:
        return [
            f"{returned - info['open']} of {returned} picks proven for all {every} documents, the rest of {seen} only"
        ]
    return [f"Unproven: of the {seen} that came back, of {every}"]


def _weights_trust(info: Mapping[str, Any], scoped: bool) -> list[str]:
    """What weights that rebuild the query rest on; scoped: of which documents is said already."""
    residual = f"KKT residual {power(max(info['residual'], LEAST))}"
    exact = "Solved" if scoped else "Exact ✓"
    if info.get("certified"):
        parts = [f"{exact} ({residual})" if info["support"] else exact]
    else:
        after = f" after {counted(info['iterations'], 'step')}" if "iterations" in info else ""
        parts = [f"Approximate: {residual}{after}"]
    if info["tied"]:
        others = sum(map(len, info["tied"].values()))
        parts.append(f"{counted(others, 'exact duplicate')} could take their place")
    return [*parts, *info["messages"]]
