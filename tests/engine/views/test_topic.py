"""The relevance below which a document is off the topic of a query, against NumPy's sort."""

import numpy as np
import pytest
import torch

from engine.space import Space
from engine.views import topic
from engine.views.topic import find_topic_floor


def space_of(vectors):
    return Space.of([f"text {row}" for row in range(len(vectors))], vectors)


@pytest.mark.parametrize(("n_documents", "n_on_topic"), [(20, 1), (100, 5), (101, 6), (819, 41)])
def test_floor_is_the_relevance_of_the_last_of_the_first_5_percent(n_documents, n_on_topic):
    rng = np.random.default_rng(n_documents)
    vectors, query = rng.standard_normal((n_documents, 8)).astype(np.float32), rng.standard_normal(8).astype(np.float32)
    space = space_of(vectors)
    scores = np.sort(space.vectors.double().numpy() @ query.astype(np.float64))[::-1]
    assert find_topic_floor(space, torch.tensor(query), n_on_topic) == pytest.approx(scores[n_on_topic - 1], abs=1e-6)
    assert find_topic_floor(space, torch.tensor(query), n_on_topic + 1) is None, "Top-k would be off-topic"


def test_of_equal_documents_none_is_off_topic():
    vectors = np.tile(np.array([[0.6, 0.8]], dtype=np.float32), (40, 1))
    query = torch.tensor([1.0, 0.0])
    assert find_topic_floor(space_of(vectors), query, 2) == pytest.approx(0.6, abs=1e-6)


def test_a_sample_stands_for_a_larger_corpus(monkeypatch):
    rng = np.random.default_rng(0)
    angles = np.sort(rng.uniform(0, np.pi, 20_000))
    space, query = (
        space_of(np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)),
        torch.tensor([1.0, 0.0]),
    )
    full = find_topic_floor(space, query, 5)
    monkeypatch.setattr(topic, "MAX_COMPARED", 4_000)
    sampled = find_topic_floor(space, query, 5)
    assert sampled == find_topic_floor(space, query, 5)
    # The 95th percentile of 4,000 is that of the corpus to within 1 %, though the corpus is sorted.
    share = float((space.vectors[:, 0] >= sampled).float().mean())
    assert sampled != full and abs(share - 0.05) < 0.01
