"""Why each document was picked: its relevance, the nearest one already chosen, and its score at that moment."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engine.candidates import without_autocast
from engine.decoder import QueryLike, resolve_search_inputs
from engine.errors import DataError, ParamError
from engine.matrix import Matrix
from engine.space import Elsewhere, Space, resolve_local_space
from engine.values import Ranking, real_tensor

Column = str | int | float | None


@dataclass(frozen=True, eq=False)
class Trace:
    """The numbers behind every pick of a ranking, each (B, k), 0 on pads."""

    index: Tensor  # row of the corpus, −1 pads
    relevance: Tensor  # inner product with the query, or as given
    nearest: Tensor  # row of the most similar document listed before, −1 for the first
    similarity: Tensor  # inner product with that one
    score: Tensor  # the ranking's gain, by which the method ranks

    def rows(self, query: int = 0) -> list[Mapping[str, Column]]:
        """One mapping a pick of one query, best first; nearest and similarity are None for the first."""
        columns = (self.index, self.relevance, self.nearest, self.similarity, self.score)
        picks: list[Mapping[str, Column]] = []
        for row, relevance, near, similarity, score in zip(*(c[query].tolist() for c in columns), strict=True):
            if row < 0:
                break
            nearest = (
                {"nearest": near, "similarity": similarity} if near >= 0 else {"nearest": None, "similarity": None}
            )
            picks.append({"rank": len(picks) + 1, "row": row, "relevance": relevance, **nearest, "score": score})
        return picks


@without_autocast
def trace(ranking: Ranking, space: Space | Any, queries: QueryLike | Any, relevance: Tensor | None = None) -> Trace:
    """What each pick of a ranking was worth when it was made.

    ranking: (B, k), of any selector; space: a Space, or the (n, d) vectors that the ranking's rows are of; queries:
    what was asked, as decode (with a Space) or select (with vectors) took it; relevance: (B, n) scores of all documents
    where the selector's were not inner products: the queries are not read then, and may be text that nothing embeds.
    Methods that do not pick one by one are traced in the order of their list. In float64. Raises DataError where the
    shapes do not fit.
    """
    if not isinstance(ranking, Ranking):
        raise ParamError(f"ranking must be a Ranking, as engine.select and engine.decode return; got {ranking!r}")
    space = resolve_local_space(space) if isinstance(space, Elsewhere) else space
    if relevance is None:
        matrix, points = resolve_search_inputs(space, queries)
        vectors = matrix.vectors
        if points.shape != (len(ranking), vectors.shape[1]):
            raise DataError(
                f"queries must be those of the ranking: {len(ranking)} of dimension {vectors.shape[1]}; "
                f"got shape {tuple(points.shape)}"
            )
    else:
        vectors = (space.matrix if isinstance(space, Space) else Matrix(real_tensor(space, "vectors"))).vectors
    index = ranking.index.to(vectors.device)
    if int(index.max()) >= len(vectors):
        raise DataError(f"the ranking holds row {int(index.max())}, but there are {len(vectors):,} vectors")
    if relevance is not None and relevance.shape != (len(ranking), len(vectors)):
        raise DataError(f"relevance must be {(len(ranking), len(vectors))} scores; got shape {tuple(relevance.shape)}")
    picked = torch.zeros(index.shape, dtype=torch.float64, device=vectors.device)
    similarity, nearest = torch.zeros_like(picked), torch.full_like(index, -1)
    for b in range(len(ranking)):
        picks = index[b, index[b] >= 0]
        count, rows = len(picks), vectors[picks].double()
        picked[b, :count] = rows @ points[b].to(rows) if relevance is None else relevance[b, picks].to(rows)
        if count > 1:
            before = torch.ones(count, count, dtype=torch.bool, device=rows.device).tril_(-1)
            value, position = (rows @ rows.T).masked_fill_(~before, -torch.inf)[1:].max(1)
            similarity[b, 1:count], nearest[b, 1:count] = value, picks[position]
    return Trace(index, picked, nearest, similarity, ranking.gain.to(vectors.device))
