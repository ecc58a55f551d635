"""The relevance below which a document is off the topic of a query."""

import math

import torch

from engine.candidates import without_autocast
from engine.space import Space
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
