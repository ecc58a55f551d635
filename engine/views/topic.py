"""The relevance below which a document is off the topic of a query."""

import math

import torch

from engine.candidates import without_autocast
from engine.space import Space
from engine.views.decision import relevances

ON_TOPIC_SHARE = 0.05
"""Share of the corpus, the documents most relevant to a query, that counts as on its topic."""
MAX_COMPARED = 200_000
"""Documents of a larger corpus that stand for all: the share among so many is within .1 % of that of the corpus."""


@without_autocast
def find_topic_floor(space: Space, query: torch.Tensor, k: int) -> float | None:
    """Return the 95th percentile of a query's relevance over the corpus, below which documents are off-topic.

    Relevance is the inner product with the query, (d,). None for a corpus so small that its first 5% are fewer than k
    documents: then Top-k itself would be off-topic.
    """
    vectors = space.vectors
    if math.ceil(ON_TOPIC_SHARE * len(vectors)) < k:
        return None
    rows = torch.arange(len(vectors))
    if len(rows) > MAX_COMPARED:
        # The same documents for every query, drawn at random as a corpus may be sorted by topic.
        rows = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:MAX_COMPARED].sort().values
        vectors = vectors[rows.to(vectors.device)]
    # Rounding may order two documents at the percentile otherwise, which moves it by as little as they differ.
    scores = vectors @ query.to(vectors.device, vectors.dtype)
    n_on_topic = math.ceil(ON_TOPIC_SHARE * len(rows))
    last_row = int(rows[scores.topk(n_on_topic).indices[-1].cpu()])
    # As exact as the relevance that is compared with it: the document at the percentile is on topic itself.
    return round(relevances(space, query, [last_row])[0], 6)
