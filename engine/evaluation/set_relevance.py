"""Mean relevance of retrieved sets to their queries, from metrics that a sweep has, and that of the full corpus."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch

from engine.data.cloze import are_passages
from engine.matrix import CHUNK_NUMBERS
from engine.space import Elsewhere, Space
from engine.values import Embeddings

MIN_SET_RELEVANCE_SHARE = 0.8
"""Share of what the baseline's sets are more relevant than the corpus, below which sets stray from their queries.

Over 250 sentences of six topics, at this share three documents in four are of the query's topic; at .5 it is one in
two.
"""
SET_RELEVANCE_METRICS = ("cos_sum", "ilad")
CORPUS_RELEVANCE_ENTRY = "mean relevance of the corpus"
"""Entry of keys and provenance, on passages alone: the mean cosine of the queries with all documents."""


def add_set_relevance(metrics: Sequence[str], split: str, query_ids: Sequence[str]) -> tuple[str, ...]:
    """Return the metrics to measure: on passages with those from which the relevance of sets follows.

    Whoever decides from the result then leaves out the same settings, whatever metrics it asked for.
    """
    own_metrics = SET_RELEVANCE_METRICS if are_passages(split, query_ids) else ()
    return tuple(dict.fromkeys((*metrics, *own_metrics)))


def describe_corpus_relevance(space: Space | Elsewhere, queries: Embeddings, split: str) -> dict[str, str]:
    """Return the corpus's mean relevance to passages as an entry for keys and provenance; none for other queries."""
    if isinstance(space, Elsewhere) or not are_passages(split, queries.ids):
        return {}
    compute = partial(measure_corpus_relevance, space, queries)
    relevance = space.derived((CORPUS_RELEVANCE_ENTRY, queries.digest), compute)
    # Two devices add up in another order, and the same data must have one key.
    return {CORPUS_RELEVANCE_ENTRY: f"{relevance:.4f}"}


def compute_set_relevance(cos_sum: np.ndarray, ilad: np.ndarray, n_returned: np.ndarray) -> np.ndarray:
    """Return the mean cosine of each set's documents with the query; NaN where ILAD is undefined.

    All arrays have one value a set: the cosine of its sum with the query, ILAD, and its number of documents n. The sum
    of n unit vectors has the squared length n + n(n − 1)(1 − ILAD), and its inner product with the query is n times the
    mean cosine. Vectors of other lengths weigh by their length in `cos_sum`, so that the result is close only.
    """
    n_documents = np.maximum(n_returned, 1)
    squared_length = n_documents + n_documents * (n_documents - 1) * (1 - ilad)
    relevance: np.ndarray = cos_sum * np.sqrt(np.maximum(squared_length, 0)) / n_documents
    return relevance


def measure_corpus_relevance(space: Space, queries: Embeddings) -> float:
    """Return the mean cosine of queries with all documents of the corpus, in one pass over its vectors."""
    total = torch.zeros(space.vectors.shape[1], dtype=torch.float64)
    for block in space.vectors.split(max(1, CHUNK_NUMBERS // space.vectors.shape[1])):
        total += torch.nn.functional.normalize(block.double(), dim=1).sum(0).cpu()
    query_mean = torch.nn.functional.normalize(queries.vectors.double().cpu(), dim=1).mean(0)
    return float(total @ query_mean) / len(space)
