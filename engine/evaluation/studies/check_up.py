"""Check-up of a corpus: near-duplicates in each query's set, and the queries on which a decoder gains most."""

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
from engine.evaluation.duplicate_threshold import COSINE_TOLERANCE, resolve_duplicate_threshold, sample_random_pairs
from engine.evaluation.metrics import METRICS, compute_ilad, measure
from engine.matrix import CHUNK_NUMBERS
from engine.space import Space
from engine.values import Embeddings, Qrels


@dataclass(frozen=True, eq=False, kw_only=True)
class CheckUp:
    """Near-duplicates, documents with a cosine of a threshold or more, in the sets of B queries."""

    queries: tuple[str, ...]  # ids
    rows: np.ndarray  # (B, k) positions in the corpus, best first, −1 pads
    similarity: np.ndarray  # (B, k, k) float32 cosines within each set, NaN beside pads
    pairs: np.ndarray  # (B,) pairs of documents that reach the threshold
    groups: np.ndarray  # (B,) groups of near-duplicates: two or more documents, joined pair by pair
    ilad: np.ndarray  # (B,) NaN for fewer than two documents
    threshold: float
    random_ilad: float  # of random pairs of the corpus, NaN without a pair

    def __len__(self) -> int:
        return len(self.queries)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The queries' positions, the most redundant sets first: by near-duplicate pairs, then by low ILAD."""
        return tuple(np.lexsort((self.ilad, -self.pairs)).tolist())

    @property
    def n_redundant(self) -> int:
        """The number of queries whose set holds near-duplicates."""
        return int((self.pairs > 0).sum())


@without_autocast
def check_up(
    decoder: Decoder, space: Space, queries: Embeddings, k: int = 10, *, threshold: float | None = None
) -> CheckUp:
    """Count the near-duplicates in the sets that a decoder retrieves.

    threshold: the cosine from which on two documents are near-duplicates; None takes the default of the corpus, the
    larger of 0.9 and a high percentile of its random pairs. Raises ParamError or DataError.
    """
    threshold = resolve_duplicate_threshold(space, threshold)
    rows = decode(decoder, space, queries, k).index
    # Columns of padding only, where k exceeds the corpus, are cut off.
    rows = rows[:, : max(1, int((rows >= 0).sum(1).max()))]
    redundancy = measure_redundancy(space, rows, threshold)
    return CheckUp(
        queries=queries.ids, rows=rows.cpu().numpy(), similarity=redundancy.similarity, pairs=redundancy.pairs,
        groups=redundancy.groups, ilad=redundancy.ilad, threshold=threshold,
        random_ilad=sample_random_pairs(space).ilad,
    )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class SetRedundancy:
    """Redundancy of m sets of k documents; the fields are those of a CheckUp, by set."""

    similarity: np.ndarray  # (m, k, k) float32 cosines within each set, NaN beside pads
    pairs: np.ndarray  # (m,) pairs of near-duplicates
    groups: np.ndarray  # (m,) groups of near-duplicates
    ilad: np.ndarray  # (m,) NaN for fewer than two documents


@without_autocast
def measure_redundancy(space: Space, rows: torch.Tensor, threshold: float) -> SetRedundancy:
    """Count the near-duplicates in sets of documents.

    rows: (m, k) positions in the corpus, −1 pads; threshold: the cosine from which on two documents are near-duplicates
    """
    similarity = np.concatenate(list(_iterate_cosines(space, rows)))
    is_duplicate = np.triu(similarity >= threshold - COSINE_TOLERANCE, 1)
    return SetRedundancy(
        similarity=similarity.astype(np.float32),
        pairs=is_duplicate.sum((1, 2)),
        groups=_count_groups(is_duplicate),
        ilad=compute_ilad(space.vectors, rows).cpu().numpy(),
    )


def _iterate_cosines(space: Space, rows: torch.Tensor) -> Iterator[np.ndarray]:
    """Yield (b, k, k) cosines within each query's set for blocks of b queries, float64, NaN beside pads."""
    k = rows.shape[1]
    for block in rows.to(space.device).split(max(1, CHUNK_NUMBERS // (k * max(k, space.vectors.shape[1])))):
        # A pad, −1, reads row 0 until its cosines are masked.
        unit_vectors = normalize(space.vectors[block.clamp_min(0)].double(), dim=-1)
        is_padding = block < 0
        cosines = torch.bmm(unit_vectors, unit_vectors.transpose(1, 2))
        yield cosines.masked_fill_(is_padding.unsqueeze(1) | is_padding.unsqueeze(2), torch.nan).cpu().numpy()


def _count_groups(is_duplicate: np.ndarray) -> np.ndarray:
    """Count the groups of near-duplicates in each query's set; return (B,).

    is_duplicate: (B, k, k), True for pairs of ranks that are duplicates. A group is documents that such pairs connect.
    """
    # All sets are one graph of B · k nodes without edges between queries, so one call finds the components of all.
    n_queries, k, _k = is_duplicate.shape
    query_index, first_rank, second_rank = is_duplicate.nonzero()
    edge_nodes = query_index * k + first_rank, query_index * k + second_rank
    edge_matrix = coo_array((np.ones(len(query_index), dtype=bool), edge_nodes), shape=(n_queries * k, n_queries * k))
    _n_components, component_of = connected_components(edge_matrix, directed=False)
    # A component's first node tells the query that it belongs to.
    _components, first_nodes, component_sizes = np.unique(component_of, return_index=True, return_counts=True)
    return np.bincount(first_nodes[component_sizes > 1] // k, minlength=n_queries)


@dataclass(frozen=True, eq=False)
class QueryOrder:
    """Order of the queries, with the values that define it."""

    metric: str  # the metric whose differences the values are
    positions: tuple[int, ...]  # of all queries, the largest value first, then those without one
    values: np.ndarray  # (B,) by position, NaN where there is none


def rank_by_gain(
    decoder: Decoder, baseline: Decoder, space: Space, queries: Embeddings, qrels: Qrels | None = None, k: int = 10
) -> QueryOrder:
    """Order the queries by what the decoder gains over the baseline in Recall, ties by ILAD.

    queries: Embeddings, whose ids name the judgements; qrels: judgements; if they have none for these queries, the
    order is by ILAD alone. Raises ParamError or DataError.
    """
    judgements = qrels if qrels is not None and any(map(qrels.relevant, queries.ids)) else None
    metrics = ("ilad",) if judgements is None else ("recall", "ilad")

    def measure_decoder(decoder: Decoder) -> dict[str, np.ndarray]:
        """Return metric → (B,) values of a decoder on the queries."""
        return dict(measure(decode(decoder, space, queries, k), space, queries, judgements, k, metrics).values)

    decoder_values, baseline_values = measure_decoder(decoder), measure_decoder(baseline)
    gains = [decoder_values[metric] - baseline_values[metric] for metric in metrics]
    # NaN sorts last, and so stays last when negated; the last key of lexsort counts first.
    positions = np.lexsort(-np.array(gains[::-1]))
    return QueryOrder(METRICS[metrics[0]].title, tuple(positions.tolist()), gains[0])
