"""The relevance below which a document is off the topic of a query, against NumPy's sort."""

import numpy as np
import pytest
import torch

from engine.space import Space
from engine.views.topic import find_topic_floor


def space_of(vectors):
    return Space.of([f"text {row}" for row in range(len(vectors))], vectors)


@pytest.mark.parametrize(
    ("n_documents", "k", "n_on_topic"), [(61, 10, 30), (250, 10, 30), (600, 10, 30), (601, 10, 31), (819, 10, 41)]
)
def test_floor_is_the_relevance_of_the_last_of_5_percent_or_of_3k_documents(n_documents, k, n_on_topic):
    rng = np.random.default_rng(n_documents)
    vectors, query = rng.standard_normal((n_documents, 8)).astype(np.float32), rng.standard_normal(8).astype(np.float32)
    space = space_of(vectors)
    scores = np.sort(space.vectors.double().numpy() @ query.astype(np.float64))[::-1]
    assert find_topic_floor(space, torch.tensor(query), k) == pytest.approx(scores[n_on_topic - 1], abs=1e-6)


@pytest.mark.parametrize(("n_documents", "has_floor"), [(5, False), (60, False), (61, True)])
def test_a_corpus_of_at_most_6k_documents_has_no_floor(n_documents, has_floor):
    vectors = np.random.default_rng(0).standard_normal((n_documents, 8)).astype(np.float32)
    assert (find_topic_floor(space_of(vectors), torch.tensor(vectors[0]), 10) is not None) == has_floor


@pytest.mark.parametrize("query", [[1.0, 0.0], [-0.8, 0.6]])
def test_where_half_of_the_corpus_is_as_relevant_nothing_is_off_topic(query):
    vectors = np.tile(np.array([[0.6, 0.8]], dtype=np.float32), (40, 1))
    vectors[:15] = [-0.6, -0.8]
    assert find_topic_floor(space_of(vectors), torch.tensor(query), 2) is None
