"""What an index finds, measured and kept, on a real HNSW index."""

import numpy as np
import pytest

from engine.data.stores.recall import measured_path, measured_recall, save_recall
from engine.errors import DataError
from engine.evaluation.studies.store_recall import find_exact_best, measure_store_recall, sample_queries
from support.instances import FAMILIES

ROWS, DIMENSION, N = 4_000, 48, 100
IDS = [f"d{row}" for row in range(ROWS)]


@pytest.fixture(scope="module")
def store(engines):
    rows = FAMILIES["random"](np.random.default_rng(7), ROWS, DIMENSION).astype(np.float32)
    return engines.store_of("pgvector", IDS, rows, index="hnsw").with_ef(10, force_index=True)


def test_recall_rises_with_effort_and_ends_where_it_is_enough(store):
    points = sample_queries(store, 6, seed=1)
    rows = measure_store_recall(store, points, N, efforts=(100, 1000))
    assert [row.ef for row in rows] == [10, 100, 1000][: len(rows)]
    assert rows[0].queries < rows[-1].queries and rows[0].residuals < rows[-1].residuals
    assert all(min(row.queries, row.residuals) < 0.95 for row in rows[:-1])
    assert not rows[0].sequential and "ef 10" in rows[0].plan and rows[0].asked == 6
    assert measure_store_recall(store, points, N, efforts=(100,), min_recall=0.0) == rows[:1]


def test_store_recall_is_cached_by_collection_and_ef(store, tmp_path, monkeypatch):
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path))
    assert measured_recall(store) is None
    rows = measure_store_recall(store, sample_queries(store, 2), N, efforts=(), min_recall=1.0)
    save_recall(rows)
    assert measured_recall(store) == rows[0]
    assert measured_recall(store.with_ef(11)) is None
    measured_path().write_text("{")
    with pytest.raises(DataError, match="measure again with frontier store check"):
        measured_recall(store)


def test_a_scan_of_all_vectors_agrees_with_the_exact_search(engines):
    rows = FAMILIES["clustered"](np.random.default_rng(2), 300, 12).astype(np.float32)
    points = np.random.default_rng(3).standard_normal((4, 12))
    by_search = find_exact_best(engines.store_of("pgvector", IDS[:300], rows), points, 20)
    by_scan = find_exact_best(engines.store_of("milvus file", IDS[:300], rows), points, 20)
    assert by_search[0] == by_scan[0]
    for searched, scanned in zip(by_search[1], by_scan[1], strict=True):
        np.testing.assert_allclose(searched, scanned, atol=1e-6)


def test_a_flat_collection_finds_everything(engines):
    rows = FAMILIES["clustered"](np.random.default_rng(2), 300, 12).astype(np.float32)
    store = engines.store_of("milvus file", IDS[:300], rows)
    recall = measure_store_recall(store, sample_queries(store, 3), 20)
    assert len(recall) == 1 and recall[0].queries > 0.99 and recall[0].residuals > 0.99


def test_an_array_has_no_index_to_measure(engines):
    store = engines.store_of("memory", IDS[:9], np.eye(9))
    with pytest.raises(DataError, match="no index"):
        measure_store_recall(store, np.ones((1, 9)))
