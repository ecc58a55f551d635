"""What every kind of store owes to those who ask it, against float64 sums over all documents."""

import math
import pickle

import numpy as np
import pytest

from engine.data.stores.results import CHANGED
from engine.errors import DataError
from support.instances import FAMILIES, unit
from support.stores import KINDS

ROWS, DIMENSION = 300, 24
IDS = [f"d{row}" for row in range(ROWS)]
UNKNOWN = "no such document"


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def rows():
    return FAMILIES["clustered"](np.random.default_rng(7), ROWS, DIMENSION).astype(np.float32)


@pytest.fixture(scope="module")
def store(engines, kind, rows):
    """300 documents in clusters; only read."""
    return engines.store_of(kind, IDS, rows)


def points(count, seed=1):
    """Return random query points of any length."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, DIMENSION)) * rng.choice([0.01, 1.0, 30.0], size=(count, 1))


def check(result, queries, vectors, ids, n):
    """The n best by float64 sums, but for ties within float32's rounding, and floors that no other document exceeds."""
    position = {name: row for row, name in enumerate(ids)}
    exact = vectors.astype(np.float64) @ queries.T
    for b, names in enumerate(result.ids):
        scores, length = exact[:, b], np.linalg.norm(queries[b])
        columns = [position[name] for name in names]
        assert len(columns) == len(set(columns)) == min(n, len(ids))
        np.testing.assert_array_equal(result.vectors[b], vectors[columns])
        np.testing.assert_allclose(result.scores[b], scores[columns], rtol=1e-12, atol=1e-12 * length)
        outside = np.delete(scores, columns)
        longest = np.linalg.norm(vectors, axis=1).max()
        off = 1e-6 * length * longest
        if len(outside):
            assert result.scores[b].min() >= outside.max() - off
            assert outside.max() <= result.floor[b] <= result.scores[b].min() + 20 * off
        else:
            assert result.floor[b] == -math.inf
        assert (np.diff(result.scores[b]) <= off).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_an_exact_search_returns_the_best_and_bounds_all_others(engines, kind, family):
    vectors = FAMILIES[family](np.random.default_rng(3), 120, DIMENSION).astype(np.float32)
    searched = engines.store_of(kind, IDS[:120], vectors)
    queries = points(6)
    result = searched.search(queries, 25, exact=True)
    assert result.exact
    check(result, queries, vectors, IDS[:120], 25)


def test_many_points_are_answered_together_as_one_by_one(store, rows):
    queries = points(40)
    together = store.search(queries, 7, exact=True)
    check(together, queries, rows, IDS, 7)
    assert [store.search(point, 7, exact=True).ids[0] for point in queries[:3]] == list(together.ids[:3])


def test_a_point_of_zeros_has_a_floor_of_zero(store):
    result = store.search(np.zeros(DIMENSION), 5, exact=True)
    assert len(result.ids[0]) == 5 and result.floor[0] == 0


def test_search_for_more_than_all_returns_all_with_no_floor(store, rows):
    queries = points(2)
    check(store.search(queries, ROWS + 50, exact=True), queries, rows, IDS, ROWS)


def test_places_follow_row_order(store):
    result = store.search(points(3), 9, exact=True)
    for ids, places in zip(result.ids, result.places, strict=True):
        assert [IDS[row] for row in places] == list(ids)


def test_a_filter_leaves_the_others_out(store, rows):
    queries = points(3)
    result = store.search(queries, 10, exact=True, where={"parity": ["odd"]})
    check(result, queries, rows[1::2], IDS[1::2], 10)
    assert store.count({"parity": ["odd"]}) == ROWS // 2
    assert store.count({"parity": ["odd", "even"]}) == store.count() == ROWS


@pytest.mark.parametrize("value", ['"] or parity in ["odd', "' or '1'='1", "\\", "%s; --"])
def test_a_filter_s_value_is_never_part_of_a_statement(store, value):
    assert store.count({"parity": [value]}) == 0


def test_a_filter_of_an_unknown_column_is_refused_by_name(store):
    with pytest.raises(DataError, match="nosuch"):
        store.search(points(1), 3, where={"nosuch": ["x"]})


def test_points_that_do_not_fit_are_refused(store):
    for bad in (np.zeros((1, DIMENSION + 1)), np.full((1, DIMENSION), np.nan)):
        with pytest.raises(DataError, match=f"dimension, {DIMENSION}"):
            store.search(bad, 3)


def test_texts_come_by_id_in_the_order_asked(store):
    assert store.texts(["d5", "d0", "d299"]) == ["text d5", "text d0", "text d299"]
    with pytest.raises(DataError, match=UNKNOWN):
        store.texts(["d1", UNKNOWN])


def test_a_sample_is_seeded_and_of_real_rows(store, rows):
    ids, vectors = store.sample(20, seed=4)
    again, _ = store.sample(20, seed=4)
    sample, _ = store.sample(20, seed=5)
    assert ids == again and set(ids) != set(sample) and len(set(ids)) == 20
    np.testing.assert_array_equal(vectors, rows[[IDS.index(name) for name in ids]])
    assert len(store.sample(ROWS + 9)[0]) == ROWS


@pytest.mark.parametrize("size", [77, ROWS, 1000])
def test_a_scan_gives_every_row_once(store, rows, size):
    parts = list(store.scan(size))
    assert all(len(ids) == len(vectors) <= size for ids, vectors in parts)
    seen = {name: vector for ids, vectors in parts for name, vector in zip(ids, vectors, strict=True)}
    assert len(seen) == sum(len(ids) for ids, _ in parts) == ROWS
    np.testing.assert_array_equal(np.stack([seen[name] for name in IDS]), rows)


def test_a_scan_may_be_left_after_its_first_rows(store, rows):
    ids, vectors = next(store.scan(2))
    assert ids == ("d0", "d1")
    np.testing.assert_array_equal(vectors, rows[:2])
    with store.snapshot():
        assert next(store.scan(2))[0] == next(store.scan(2))[0] == ids
        assert store.search(rows[:1], 1, exact=True).ids == (("d0",),)


def test_no_vector_is_longer_than_the_store_says(engines, kind):
    vectors = FAMILIES["degenerate"](np.random.default_rng(5), 60, DIMENSION).astype(np.float32)
    searched = engines.store_of(kind, IDS[:60], vectors)
    longest = np.linalg.norm(vectors.astype(np.float64), axis=1).max()
    assert (
        searched.ref.longest is None
        if kind.startswith("milvus")
        else longest <= searched.ref.longest <= longest * (1 + 1e-5)
    )


def test_ref_is_stable_while_documents_are(store):
    first = store.ref
    store.search(points(2), 5)
    with store.snapshot() as inside:
        store.search(points(2), 5)
        assert inside == first.snapshot
    assert store.ref == first
    assert (first.count, first.dimension) == (ROWS, DIMENSION)


def test_a_write_is_another_state(engines, kind):
    written = engines.store_of(kind, IDS[:20], unit(np.eye(20, DIMENSION)))
    ref_before = written.ref
    engines.add(written, "new", np.ones(DIMENSION) / math.sqrt(DIMENSION))
    assert written.ref != ref_before and written.ref.count == 21
    assert written.search(np.ones(DIMENSION), 1).ids[0] == ("new",)


def test_rows_written_while_asking_are_not_seen_or_are_an_error(engines, kind):
    """A snapshot sees one state; where there is none, the end of it says so."""
    written = engines.store_of(kind, IDS[:20], unit(np.eye(20, DIMENSION)))
    if written.snapshots and kind != "pgvector":
        pytest.skip("an array that somebody changes is another store")
    point = np.ones(DIMENSION) / math.sqrt(DIMENSION)
    if written.snapshots:
        with written.snapshot():
            engines.add(written, "new", point)
            assert "new" not in written.search(point, 20).ids[0] and written.ref.count == 20
        assert written.ref.count == 21
        return
    with pytest.raises(DataError, match=CHANGED), written.snapshot():
        engines.add(written, "new", point)


def test_a_store_travels_and_answers_there(kind, store):
    if kind == "memory":
        pytest.skip("an array travels whole")
    restored = pickle.loads(pickle.dumps(store))
    try:
        assert restored.search(points(2), 5, exact=True).ids == store.search(points(2), 5, exact=True).ids
    finally:
        restored.close()
