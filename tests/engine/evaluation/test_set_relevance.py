"""Mean relevance of sets from the cosine of their sum and ILAD, against the mean of the cosines."""

import numpy as np
import pytest
import torch

from engine.evaluation.metrics import compute_cos_sum, compute_ilad
from engine.evaluation.set_relevance import compute_set_relevance, measure_corpus_relevance
from engine.space import Space
from engine.values import Embeddings


def draw_units(n_rows, seed):
    return torch.nn.functional.normalize(torch.randn(n_rows, 8, generator=torch.Generator().manual_seed(seed)), dim=1)


def test_set_relevance_is_the_mean_cosine_with_the_query():
    vectors, queries = draw_units(40, 0), draw_units(3, 1)
    rows = torch.tensor([[0, 1, 2, 3], [4, 5, -1, -1], [6, -1, -1, -1]])
    relevance = compute_set_relevance(
        compute_cos_sum(vectors, rows, queries).numpy(), compute_ilad(vectors, rows).numpy(), np.array([4, 2, 1])
    )
    expected = [(vectors[[0, 1, 2, 3]] @ queries[0]).mean(), (vectors[[4, 5]] @ queries[1]).mean()]
    assert relevance[:2] == pytest.approx(np.array(expected), abs=1e-6)
    assert np.isnan(relevance[2]), "one document has no ILAD"


def test_corpus_relevance_is_the_mean_cosine_with_all_documents():
    vectors, queries = draw_units(40, 2), draw_units(5, 3)
    space = Space.of([f"text {row}" for row in range(40)], vectors.numpy())
    expected = float((vectors @ queries.T).mean())
    assert measure_corpus_relevance(space, Embeddings(tuple("abcde"), queries)) == pytest.approx(expected, abs=1e-6)
