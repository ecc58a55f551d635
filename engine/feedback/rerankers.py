"""Who picks one of several documents that were drawn (Algorithm 2): any callable, or one of these.

A reranker is called as reranker(session, query, items) with the rows drawn, and returns the row it picks, or that and
the chance with which it picks it among these (1 where it does not say). The weights are unbiased where that chance is
right; of a reranker that errs always alike, its accuracy makes them so on average.
"""

from collections.abc import Callable, Collection
from typing import Any, Protocol

import numpy as np
import torch

from engine.errors import DataError, ParamError
from engine.feedback.events import Query
from engine.feedback.session import Session
from engine.space import QueryBatch
from engine.stages import Scorer


class Reranker(Protocol):
    """Picks a row, or a row and how sure that is."""

    def __call__(self, session: Session, query: Query, items: tuple[int, ...]) -> int | tuple[int, float]: ...


def cosine(session: Session, query: Query, items: tuple[int, ...]) -> int:
    """The document nearest to the query in the space that the session began with."""
    rows = session.origin[list(items)].astype(np.float64)
    length = np.linalg.norm(rows, axis=1)
    return items[int(np.argmax(rows @ query.exact / np.where(length > 0, length, 1.0)))]


def by_scorer(scorer: Scorer) -> Reranker:
    """A reranker from any scorer, a cross-encoder for example: the document that it gives the best score."""
    if not isinstance(scorer, Scorer):
        raise ParamError(f'scorer must be one made by engine.make("…"); got {scorer!r}')

    def best(session: Session, query: Query, items: tuple[int, ...]) -> int:
        space = session.space
        if scorer.words and query.text is None:
            raise DataError(f"{scorer.label} reads the query's words, and this query is a vector alone; ask in words")
        vectors = torch.from_numpy(query.vector.copy()).to(space.device, space.vectors.dtype).unsqueeze(0)
        batch = QueryBatch(("0",), vectors, None if query.text is None else (query.text,))
        rows = torch.tensor(sorted(items), device=space.device).unsqueeze(0)
        return int(rows[0, int(scorer.score(space, batch, rows)[0].argmax())])

    return best


def oracle(right: Callable[[Query], Collection[int]], noise: float = 0.0, seed: int = 0) -> Reranker:
    """Picks a right document where one was drawn; with probability `noise` any of those drawn instead.

    right: the right rows of a query; for simulation.
    """
    if not 0 <= noise <= 1:
        raise ParamError(f"noise must be a number in [0, 1]; got {noise!r}")

    def pick(session: Session, query: Query, items: tuple[int, ...]) -> tuple[int, float]:
        good = [item for item in items if item in right(query)]
        # A stream of its own: the rounds' numbers have been spent on the draw.
        rng = np.random.default_rng([seed, session.round, 1])
        any_ = noise / len(items) if good else 1 / len(items)
        item = items[int(rng.integers(len(items)))] if not good or rng.random() < noise else good[0]
        return item, any_ + (1 - noise if good and item == good[0] else 0.0)

    return pick


def picked(reranker: Any, session: Session, query: Query, items: tuple[int, ...]) -> tuple[int, float]:
    """A reranker's pick and its probability. Raises ParamError for a pick that is not among the items."""
    pick = reranker(session, query, items)
    item, sure = pick if isinstance(pick, tuple) else (pick, 1.0)
    if item not in items:
        raise ParamError(f"reranker must pick one of the {len(items)} rows drawn, {items}; got {item!r}")
    if not 0 < sure <= 1:
        raise ParamError(f"reranker must be sure with a chance in (0, 1]; got {sure!r}")
    return int(item), float(sure)
