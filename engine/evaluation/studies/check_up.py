"""A corpus's check-up: near-duplicates in each query's set, and the queries on which a decoder gains most."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch.nn.functional import normalize

from engine.candidates import without_autocast
from engine.decoder import Decoder, decode
from engine.evaluation.metrics import METRICS, REDUNDANT_COSINE, compute_ilad, measure
from engine.matrix import CHUNK_NUMBERS
from engine.params import Real
from engine.space import Space
from engine.values import Embeddings, Qrels

THRESHOLD = Real(
    REDUNDANT_COSINE, "τ", 0, 1, name="threshold", help="The cosine from which on two documents are duplicates."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class CheckUp:
    """Near-duplicates in the sets of B queries."""

    queries: tuple[str, ...]  # ids
    rows: np.ndarray  # (B, k) positions in the corpus, best first, −1 pads
    similarity: np.ndarray  # (B, k, k) float32 cosines within each set, NaN beside pads
    pairs: np.ndarray  # (B,) pairs of documents that reach the threshold
    groups: np.ndarray  # (B,) groups of near-duplicates: two or more documents, joined pair by pair
    ilad: np.ndarray  # (B,) NaN for fewer than two documents
    threshold: float

    def __len__(self) -> int:
        return len(self.queries)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Positions of the queries, most redundant first: by pairs, then the least ILAD."""
        return tuple(np.lexsort((self.ilad, -self.pairs)).tolist())

    @property
    def redundant(self) -> int:
        """The number of queries whose set holds near-duplicates."""
        return int((self.pairs > 0).sum())


@without_autocast
def check_up(
    decoder: Decoder, space: Space, queries: Embeddings, k: int = 10, *, threshold: float = THRESHOLD.default
) -> CheckUp:
    """How redundant the sets are that a decoder retrieves for each query, of at least one.

    Raises ParamError or DataError.
    """
    threshold = THRESHOLD.check(threshold)
    index = decode(decoder, space, queries, k).index
    # Padding beyond the corpus would only be drawn.
    index = index[:, : max(1, int((index >= 0).sum(1).max()))]
    similarity = np.concatenate(list(_cosines(space, index)))
    close = np.triu(similarity >= threshold, 1)
    return CheckUp(
        queries=queries.ids,
        rows=index.cpu().numpy(),
        similarity=similarity.astype(np.float32),
        pairs=close.sum((1, 2)),
        groups=_groups(close),
        ilad=compute_ilad(space.vectors, index).cpu().numpy(),
        threshold=threshold,
    )


def _cosines(space: Space, index: torch.Tensor) -> Iterator[np.ndarray]:
    """Block by block (b, k, k) cosines in float64, NaN beside pads."""
    k = index.shape[1]
    for block in index.to(space.device).split(max(1, CHUNK_NUMBERS // (k * max(k, space.vectors.shape[1])))):
        unit = normalize(space.vectors[block.clamp_min(0)].double(), dim=-1)
        absent = block < 0
        cosines = torch.bmm(unit, unit.transpose(1, 2))
        yield cosines.masked_fill_(absent.unsqueeze(1) | absent.unsqueeze(2), torch.nan).cpu().numpy()


def _groups(close: np.ndarray) -> np.ndarray:
    """(B,) connected components of two documents or more in graphs whose edges are `close`, (B, k, k)."""
    count, k, _ = close.shape
    query, one, other = close.nonzero()
    nodes = query * k + one, query * k + other
    edges = coo_array((np.ones(len(query), dtype=bool), nodes), shape=(count * k, count * k))
    labels = connected_components(edges, directed=False)[1]
    _, first, sizes = np.unique(labels, return_index=True, return_counts=True)
    return np.bincount(first[sizes > 1] // k, minlength=count)


@dataclass(frozen=True, eq=False)
class QueryOrder:
    """Queries in an order, with the values it goes by."""

    metric: str  # what the values are differences of
    positions: tuple[int, ...]  # of all queries, the largest value first, then those without one
    values: np.ndarray  # (B,) by position, NaN where there is none


def largest_gain(
    decoder: Decoder, baseline: Decoder, space: Space, queries: Embeddings, qrels: Qrels | None = None, k: int = 10
) -> QueryOrder:
    """The queries, those first on which a decoder gains most over the baseline: Recall, of equals ILAD.

    queries: Embeddings, their ids name the judgements; qrels: without any for these queries it is ILAD alone. Raises
    ParamError or DataError.
    """
    judged = qrels is not None and any(qrels.relevant(query) for query in queries.ids)
    metrics = ("recall", "ilad") if judged else ("ilad",)
    own, base = (
        measure(decode(each, space, queries, k), space, queries, qrels if judged else None, k, metrics).values
        for each in (decoder, baseline)
    )
    gains = [own[metric] - base[metric] for metric in metrics]
    # NaN sorts last, and so stays last when negated; the last key of lexsort counts first.
    positions = np.lexsort([-gain for gain in reversed(gains)])
    return QueryOrder(METRICS[metrics[0]].title, tuple(positions.tolist()), gains[0])
