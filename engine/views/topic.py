"""The relevance below which a document is off the topic of a query, and how many documents of lists are."""

import math
from collections.abc import Sequence

import torch

from engine.candidates import without_autocast
from engine.decoder import Decoder, decode
from engine.progress import raise_if_stopped
from engine.space import Space
from engine.values import Embeddings, Qrels
from engine.views.decision import relevances

ON_TOPIC_SHARE, ON_TOPIC_SETS = 0.05, 3
"""On the topic of a query are this share of the corpus, or documents for this many sets of k where those are more."""
MIN_CORPUS_SETS = 2 * ON_TOPIC_SETS
"""Up to so many sets of k documents, half of the corpus would be on topic, so that no document is off-topic."""


@without_autocast
def find_topic_floor(space: Space, query: torch.Tensor, k: int) -> float | None:
    """Return the relevance of the last document on the topic of a query, below which documents are off-topic.

    On topic are the 5% of the corpus, or the 3·k documents where those are more, with the largest relevance, the inner
    product with the query, (d,). None for a corpus of at most 6·k documents, and where half of it is as relevant as
    the last of these.
    """
    # 5% of a small corpus are hardly more than k documents, which a rounding would tell from the next ones.
    if len(space) <= MIN_CORPUS_SETS * k:
        return None
    n_on_topic = max(math.ceil(ON_TOPIC_SHARE * len(space)), ON_TOPIC_SETS * k)
    # Rounding may order the last two documents otherwise, which moves it by as little as they differ.
    scores = space.vectors @ query.to(space.device, space.vectors.dtype)
    values, rows = scores.topk(n_on_topic)
    # Where half of the corpus is as relevant as these, nothing sets them apart.
    if values[-1] <= scores.median():
        return None
    # As exact as the relevance that is compared with it: the last document is on topic itself.
    return round(relevances(space, query, [int(rows[-1])])[0], 6)


def find_topic_floors(space: Space, queries: Embeddings, k: int) -> tuple[float | None, ...]:
    """Return the floor of `find_topic_floor` of each query."""
    # A corpus of few documents has no floor, whatever the query.
    if len(space) <= MIN_CORPUS_SETS * k:
        return (None,) * len(queries)
    floors = list[float | None]()
    for vector in queries.vectors:
        raise_if_stopped("counting off-topic documents was stopped")
        floors.append(find_topic_floor(space, vector, k))
    return tuple(floors)


def count_off_topic(
    space: Space,
    decoder: Decoder,
    queries: Embeddings,
    k: int,
    floors: Sequence[float | None] | None = None,
    qrels: Qrels | None = None,
) -> float | None:
    """Return the mean number of off-topic documents in a decoder's lists, over the queries that have a floor.

    None if no query has one. floors: of `find_topic_floors`, by default computed; qrels: documents judged relevant to
    a query are on its topic, whatever their inner product with it
    """
    query_floors = find_topic_floors(space, queries, k) if floors is None else floors
    positions = [position for position, floor in enumerate(query_floors) if floor is not None]
    if not positions:
        return None
    asked, n_off = queries.take(positions), 0
    rankings = decode(decoder, space, asked, k=k).index.cpu().tolist()
    for position, query_id, vector, row_list in zip(positions, asked.ids, asked.vectors, rankings, strict=True):
        floor = query_floors[position]
        assert floor is not None
        # −1 pads a list that is shorter than k.
        rows = [row for row in row_list if row >= 0]
        relevant_ids = frozenset[str]() if qrels is None else frozenset(qrels.relevant(query_id))
        # As exact as the floor, which has six digits.
        for row, relevance in zip(rows, relevances(space, vector, rows), strict=True):
            n_off += round(relevance, 6) < floor and space.corpus.ids[row] not in relevant_ids
    return n_off / len(positions)
