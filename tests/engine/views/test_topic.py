"""The relevance below which a document is off the topic of a query, and lists' counts, against NumPy's sort."""

import math

import numpy as np
import pytest
import torch

import engine
from engine.space import Space
from engine.values import Embeddings, Qrels
from engine.views.topic import count_off_topic, find_topic_floor, find_topic_floors


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


def count_by_definition(vectors, query, rows, k, relevant=()):
    """Count the rows whose inner product with a query is below that of the last document on topic, by a sort."""
    scores = vectors.astype(np.float64) @ query.astype(np.float64)
    floor = np.sort(scores)[::-1][max(math.ceil(0.05 * len(vectors)), 3 * k) - 1]
    return sum(scores[row] < floor - 1e-6 and row not in relevant for row in rows if row >= 0)


@pytest.mark.parametrize("decoder", [
    engine.Decoder(engine.make("top_k")), engine.Decoder(engine.make("mmr", relevance_weight=0.3)),
    engine.Decoder(engine.make("threshold", threshold=0.0)), engine.Decoder(engine.make("vrsd"), depth=40),
])  # fmt: skip
def test_mean_number_of_off_topic_documents_is_that_of_the_definition(decoder):
    rng = np.random.default_rng(5)
    vectors, points = rng.standard_normal((400, 8)), rng.standard_normal((20, 8))
    space = space_of(vectors.astype(np.float32))
    queries = Embeddings(tuple(map(str, range(20))), torch.nn.functional.normalize(torch.tensor(points).float()))
    rows = engine.decode(decoder, space, queries, k=5).index.tolist()
    unit_vectors, lists = space.vectors.numpy(), list(zip(queries.vectors.numpy(), rows, strict=True))
    expected = [count_by_definition(unit_vectors, query, row_list, 5) for query, row_list in lists]
    n_off = count_off_topic(space, decoder, queries, 5)
    assert n_off == pytest.approx(np.mean(expected)) and (n_off > 0) == (decoder.select.spec.name != "top_k")
    assert n_off == count_off_topic(space, decoder, queries, 5, find_topic_floors(space, queries, 5))
    # Judged relevant, a document is on topic wherever it lies.
    qrels = Qrels({str(query): {str(row_list[1]): 1} for query, row_list in enumerate(rows)})
    expected = [count_by_definition(unit_vectors, query, row_list, 5, {row_list[1]}) for query, row_list in lists]
    assert count_off_topic(space, decoder, queries, 5, qrels=qrels) == pytest.approx(np.mean(expected))


def test_off_topic_documents_are_counted_over_the_queries_that_have_a_floor():
    vectors = np.random.default_rng(0).standard_normal((60, 8)).astype(np.float32)
    space, decoder = space_of(vectors), engine.Decoder(engine.make("threshold", threshold=0.0))
    queries = Embeddings(("a", "b"), space.vectors[:2])
    assert find_topic_floors(space, queries, 10) == (None, None)
    assert count_off_topic(space, decoder, queries, 10) is None
    floors = find_topic_floors(space, queries, 5)
    only_first = count_off_topic(space, decoder, queries, 5, (floors[0], None))
    assert only_first == count_off_topic(space, decoder, queries.take([0]), 5)
