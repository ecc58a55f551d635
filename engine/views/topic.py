"""The relevance below which a document is off the topic of a query."""

import math

import torch

from engine.candidates import without_autocast
from engine.space import Space
from engine.views.decision import relevances

ON_TOPIC_SHARE = 0.05
"""Share of the corpus, the documents most relevant to a query, that counts as on its topic."""


@without_autocast
def find_topic_floor(space: Space, query: torch.Tensor, k: int) -> float | None:
    """Return the 95th percentile of a query's relevance over the corpus, below which documents are off-topic.

    Relevance is the inner product with the query, (d,). None for a corpus so small that its first 5% are fewer than k
    documents, as then Top-k itself would be off-topic, and where half of the corpus is as relevant as its first 5%.
    """
    n_on_topic = math.ceil(ON_TOPIC_SHARE * len(space))
    if n_on_topic < k:
        return None
    # Rounding may order two documents at the percentile otherwise, which moves it by as little as they differ.
    scores = space.vectors @ query.to(space.device, space.vectors.dtype)
    values, rows = scores.topk(n_on_topic)
    # Where half of the corpus is as relevant as these, nothing sets them apart.
    if values[-1] <= scores.median():
        return None
    # As exact as the relevance that is compared with it: the document at the percentile is on topic itself.
    return round(relevances(space, query, [int(rows[-1])])[0], 6)
