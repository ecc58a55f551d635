"""The relevance that a decoder's selector saw, where that is not the inner product with the query."""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.candidates import without_autocast
from engine.decoder import ScoredCandidates
from engine.stages import Selector


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
