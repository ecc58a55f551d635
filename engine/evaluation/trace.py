"""Trace of a ranking: each pick's relevance and cosine, the nearest document listed before it, and its score."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.candidates import without_autocast
from engine.decoder import QueryLike, resolve_search_inputs
from engine.display import OneLine
from engine.errors import DataError, ParamError
from engine.matrix import Matrix
from engine.progress import counted
from engine.space import Elsewhere, Space, resolve_local_space
from engine.values import Embeddings, Ranking, real_tensor

TraceValue = str | int | float | None
_NO_NEAREST = {"nearest": None, "similarity": None}


@dataclass(frozen=True, eq=False)
class Trace(OneLine):
    """The numbers behind every pick of a ranking, each (B, k), 0 on pads."""

    index: Tensor  # row of the corpus, −1 pads
    relevance: Tensor  # as the selector saw it: the inner product with the query, or as given
    cosine: Tensor  # of document and query, NaN where the queries have no vectors
    nearest: Tensor  # row of the most similar document listed before, −1 for the first
    similarity: Tensor  # inner product with that one
    score: Tensor  # the ranking's gain, by which the method ranks

    def rows(self, query: int = 0) -> list[Mapping[str, TraceValue]]:
        """Return a record of each pick of a query, best first: rank, row, relevance, nearest earlier, score."""
        tensors = (self.index, self.relevance, self.cosine, self.nearest, self.similarity, self.score)
        columns = [tensor[query].tolist() for tensor in tensors]
        pick_rows: list[Mapping[str, TraceValue]] = []
        for row, relevance, cosine, nearest, similarity, score in zip(*columns, strict=True):
            if row < 0:
                break
            # NaN, which alone differs from itself, stands for no number.
            facts: dict[str, TraceValue] = {"rank": len(pick_rows) + 1, "row": row}
            facts |= {"relevance": None if relevance != relevance else relevance}
            facts |= {"cosine": None if cosine != cosine else cosine}
            # The first pick has no earlier document.
            facts |= {"nearest": nearest, "similarity": similarity} if nearest >= 0 else _NO_NEAREST
            pick_rows.append({**facts, "score": score})
        return pick_rows


@without_autocast
def trace(ranking: Ranking, space: Space | Any, queries: QueryLike | Any, relevance: Tensor | None = None) -> Trace:
    """Compute the relevance, nearest earlier document and score of each pick of a ranking, in float64.

    Methods that do not pick one by one are traced in the order of their list.

    Parameters
    ----------
    ranking : Ranking
        (B, k), of any selector.
    space : Space, ndarray or Tensor
        A Space, or the (n, d) vectors that the ranking's rows refer to.
    queries : Queries, str, sequence of str, Embeddings, ndarray or Tensor
        The queries, as `decode` (with a Space) or `select` (with vectors) took them.
    relevance : Tensor or None
        (B, n) relevance of all documents as the selector saw it, if that was no inner product. The queries then serve
        for the cosines only, which are left out of queries without vectors.

    Returns
    -------
    Trace
        The numbers behind every pick.

    Raises
    ------
    ParamError
        If `ranking` is not a Ranking.
    DataError
        If the shapes do not fit.

    Examples
    --------
    >>> import engine, torch
    >>> vectors, query = torch.eye(3, dtype=torch.float64), torch.tensor([[1.0, 0.5, 0.25]])
    >>> ranking = engine.select(list(engine.methods("selector"))[0], vectors, query, k=2)
    >>> [pick["relevance"] for pick in engine.trace(ranking, vectors, query).rows()]
    [1.0, 0.5]
    """
    if not isinstance(ranking, Ranking):
        raise ParamError(f"ranking must be a Ranking, as engine.select and engine.decode return; got {ranking!r}")
    space = resolve_local_space(space) if isinstance(space, Elsewhere) else space
    query_vectors: Tensor | None = None
    if relevance is not None and not _has_vectors(queries):
        vectors = (space.matrix if isinstance(space, Space) else Matrix(real_tensor(space, "vectors"))).vectors
    else:
        matrix, query_vectors = resolve_search_inputs(space, queries)
        vectors = matrix.vectors
        if query_vectors.shape != (len(ranking), vectors.shape[1]):
            raise DataError(
                f"queries must be those of the ranking: {len(ranking)} of dimension {vectors.shape[1]}; "
                f"got shape {tuple(query_vectors.shape)}"
            )
    row_index = ranking.index.to(vectors.device)
    if int(row_index.max()) >= len(vectors):
        raise DataError(f"the ranking holds row {int(row_index.max())}, of {counted(len(vectors), 'vector')}")
    if relevance is not None and relevance.shape != (len(ranking), len(vectors)):
        raise DataError(f"relevance must be {(len(ranking), len(vectors))} scores; got shape {tuple(relevance.shape)}")
    pick_relevance = torch.zeros(row_index.shape, dtype=torch.float64, device=vectors.device)
    similarity, nearest = torch.zeros_like(pick_relevance), torch.full_like(row_index, -1)
    cosine = torch.full_like(pick_relevance, 0.0 if query_vectors is not None else torch.nan)
    # Rankings may be of different length, so each is traced alone; pads keep 0, and −1 as the nearest document.
    for query_index in range(len(ranking)):
        picked_rows = row_index[query_index, row_index[query_index] >= 0]
        n_picks, picked_vectors = len(picked_rows), vectors[picked_rows].double()
        if query_vectors is not None:
            query_vector = query_vectors[query_index].to(picked_vectors)
            pick_relevance[query_index, :n_picks] = query_products = picked_vectors @ query_vector
            lengths = torch.linalg.vector_norm(picked_vectors, dim=1) * torch.linalg.vector_norm(query_vector)
            cosine[query_index, :n_picks] = torch.where(lengths > 0, query_products / lengths, 0.0)
        if relevance is not None:
            pick_relevance[query_index, :n_picks] = relevance[query_index, picked_rows].to(picked_vectors)
        if n_picks > 1:
            is_earlier = torch.ones(n_picks, n_picks, dtype=torch.bool, device=picked_vectors.device).tril_(-1)
            earlier_products = (picked_vectors @ picked_vectors.T).masked_fill_(~is_earlier, -torch.inf)
            # The first pick has no earlier document, so the maximum is taken from the second row on.
            max_products, nearest_position = earlier_products[1:].max(1)
            similarity[query_index, 1:n_picks] = max_products
            nearest[query_index, 1:n_picks] = picked_rows[nearest_position]
    return Trace(row_index, pick_relevance, cosine, nearest, similarity, ranking.gain.to(vectors.device))


def _has_vectors(queries: QueryLike | Any) -> bool:
    """Return True if queries are vectors, and no texts that an encoder would have to embed."""
    return isinstance(queries, Embeddings | Tensor | np.ndarray)
