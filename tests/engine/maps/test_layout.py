"""Maps: the same input gives the same map, no corpus is too small or too odd, and a query falls where it belongs."""

import sys
import threading

import numpy as np
import pytest
import torch

import engine
from engine.data import cache
from engine.maps import layout
from engine.maps.tsne import SEARCH_STEPS
from support.draws import every_other
from support.instances import unit
from support.parameters import invalid_values
from support.rankings import space_of

GROUPS = 6
N_DOCS, N_MAPPED = 160, 110
each_method = pytest.mark.parametrize("method", ["tsne", "pca"])


def clustered(n, d=24, seed=0, spread=0.35):
    """(n, d) float32 unit rows in GROUPS groups, and (n,) which one."""
    draw = np.random.default_rng(seed)
    centre = np.random.default_rng(99).normal(size=(GROUPS, d))
    group = draw.integers(0, GROUPS, n)
    return unit(centre[group] + spread * draw.normal(size=(n, d))).astype(np.float32), group


def group_on(made, points, group):
    """(B,) the group of the mapped document nearest to each point; group: of the mapped ones."""
    return group[np.linalg.norm(points[:, None] - made.points[None], axis=2).argmin(1)]


@pytest.fixture(scope="module")
def groups():
    """(space, group of each document, t-SNE map)."""
    rows, group = clustered(N_DOCS)
    space = space_of(rows)
    return space, group, engine.layout(space, cache=False)


def test_the_same_embeddings_and_seed_give_the_same_map(groups):
    space, _, first = groups
    again = engine.layout(space_of(space.vectors.clone()), cache=False)
    assert again == first and again.points.tobytes() == first.points.tobytes()
    assert first.points.dtype == np.float32 and first.points.shape == (N_DOCS, 2)
    assert engine.layout(space, seed=1, cache=False).points.tobytes() != first.points.tobytes()
    assert not first.sampled and first.perplexity == first.asked == 30


@each_method
def test_a_map_cannot_be_written_to(groups, method):
    made = engine.layout(groups[0], method, most=50, cache=False)
    for array in (made.points, made.rows, made.mean, made.axes):
        if array is not None:
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


def test_neighbours_on_the_map_are_of_one_group(groups):
    _, group, made = groups
    gap = np.linalg.norm(made.points[:, None] - made.points[None], axis=2)
    np.fill_diagonal(gap, np.inf)
    near = gap.argsort(1)[:, :10]
    assert (group[near] == group[:, None]).mean() > 0.95


def test_a_new_vector_falls_in_its_group_and_moves_nothing(groups):
    space, group, made = groups
    rows, own = clustered(80, seed=5)
    placed = layout.place(made, space, rows)
    assert placed.shape == (80, 2) and placed.dtype == np.float32
    assert (group_on(made, placed, group) == own).mean() > 0.95
    one_by_one = np.concatenate([layout.place(made, space, row) for row in rows])
    assert placed.tobytes() == one_by_one.tobytes()


@each_method
def test_a_vector_of_the_corpus_falls_on_its_document(groups, method):
    space = groups[0]
    made = engine.layout(space, method, cache=False)
    for scale in (1, 3.7, torch.linspace(0.5, 4, N_DOCS).unsqueeze(1)):
        np.testing.assert_allclose(layout.place(made, space, space.vectors * scale), made.points, rtol=0, atol=1e-6)
    rounded = space.vectors.double() * (1 + 1e-7 * torch.randn(space.vectors.shape, dtype=torch.float64))
    np.testing.assert_allclose(layout.place(made, space, rounded), made.points, rtol=0, atol=1e-5)


@each_method
def test_a_sample_leaves_every_document_placeable(groups, method):
    space, group, _ = groups
    made = engine.layout(space, method, most=N_MAPPED, cache=False)
    assert made.sampled and len(made) == N_MAPPED and made.of == N_DOCS
    assert (np.diff(made.rows) > 0).all() and made.rows.dtype == np.int64
    everywhere = layout.find_positions(made, space, range(N_DOCS))
    assert everywhere.shape == (N_DOCS, 2) and np.isfinite(everywhere).all()
    assert everywhere[made.rows].tobytes() == made.points.tobytes()
    if method == "tsne":
        assert (group_on(made, everywhere, group[made.rows]) == group).mean() > 0.95
    some = [N_DOCS - 1, 3, 3, int(made.rows[0])]
    assert layout.find_positions(made, space, some).tobytes() == everywhere[some].tobytes()
    assert layout.find_positions(made, space, []).shape == (0, 2)
    assert list(engine.layout(space, method, most=N_MAPPED, seed=1, cache=False).rows) != list(made.rows)


DRAW = np.random.default_rng(3)
ODD = {
    "one document": [[1.0, 2.0, 3.0]],
    "two": DRAW.normal(size=(2, 5)),
    "three": DRAW.normal(size=(3, 5)),
    "five": DRAW.normal(size=(5, 5)),
    "fewer than thrice the perplexity": DRAW.normal(size=(50, 8)),
    "all the same": np.ones((40, 4)),
    "all zero": np.zeros((7, 3)),
    "some zero": np.concatenate([np.zeros((5, 6)), DRAW.normal(size=(20, 6))]),
    "opposite": np.concatenate([np.ones((9, 3)), -np.ones((9, 3))]),
    "duplicates": np.repeat(DRAW.normal(size=(12, 6)), 4, axis=0),
    "nearly the same": np.ones((60, 4)) + 1e-7 * DRAW.normal(size=(60, 4)),
    "one column": DRAW.normal(size=(30, 1)),
    "two columns": DRAW.normal(size=(120, 2)),
    "on one line": np.outer(np.linspace(-1, 1, 40), [1.0, 0, 0]) + np.array([0, 1.0, 0]),
    "far more columns than rows": DRAW.normal(size=(6, 300)),
    "very short": DRAW.normal(size=(30, 4)) * 1e-30,
    "very long": DRAW.normal(size=(30, 4)) * 1e17,
}


@pytest.mark.parametrize(("case", "method"), every_other(ODD, ["tsne", "pca"]))
def test_no_corpus_is_too_odd(case, method):
    rows = torch.tensor(np.asarray(ODD[case]), dtype=torch.float32)
    space = space_of(rows)
    made = engine.layout(space, method, cache=False)
    assert made.points.shape == (len(rows), 2) and np.isfinite(made.points).all()
    assert engine.layout(space, method, cache=False) == made
    assert (made.perplexity != made.asked) == (method == "tsne" and len(rows) < 91)
    placed = layout.place(made, space, torch.cat([rows, torch.zeros(1, rows.shape[1]), torch.ones(1, rows.shape[1])]))
    assert np.isfinite(placed).all()
    assert 0 <= layout.measure_fidelity(made, space) <= 1
    if case != "nearly the same":
        np.testing.assert_allclose(placed[: len(rows)], made.points, rtol=1e-6, atol=1e-6)
    # Equal vectors share one point.
    twin = np.unique(rows.numpy(), axis=0, return_inverse=True)[1].ravel()
    for kind in range(twin.max() + 1):
        assert len(np.unique(made.points[twin == kind], axis=0)) == 1


def test_pca_is_scikit_learns_up_to_sign(groups):
    from sklearn.decomposition import PCA

    for rows in (groups[0].vectors.numpy(), clustered(15, d=40)[0], clustered(1100, d=300)[0]):
        made = engine.layout(space_of(rows), "pca", cache=False)
        theirs = PCA(2, svd_solver="full").fit_transform(rows.astype(np.float64))
        for axis in range(2):
            sign = np.sign((theirs[:, axis] * made.points[:, axis]).sum())
            np.testing.assert_allclose(made.points[:, axis], sign * theirs[:, axis], rtol=0, atol=1e-6)
        assert made.perplexity is None and made.asked is None


def test_only_making_a_tsne_map_needs_opentsne(groups, monkeypatch):
    space, _, made = groups
    monkeypatch.setitem(sys.modules, "openTSNE", None)
    for usable in (made, engine.layout(space, "pca", cache=False)):
        assert layout.place(usable, space, space.vectors[:3]).shape == (3, 2)
        assert layout.measure_fidelity(usable, space) > 0
    with pytest.raises(ImportError):
        engine.layout(space, cache=False)


@pytest.mark.deep
def test_progress_rises_to_its_end(groups):
    told = []
    engine.layout(groups[0], cache=False, progress=lambda *args: told.append(args))
    done, total, labels = zip(*told, strict=True)
    assert list(done) == sorted(done) and len(set(total)) == 1 and done[-1] == total[0]
    assert list(dict.fromkeys(labels)) == ["finding neighbours", "arranging the map"]


def kept():
    """The maps on the disk."""
    return list(cache.list_files(cache.open_section("maps")))


@pytest.fixture
def empty():
    cache.clear("maps")


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize("at", [0, SEARCH_STEPS, 2 * SEARCH_STEPS, 300])
def test_a_stop_is_heard_and_leaves_nothing_behind(groups, at):
    stop, told = threading.Event(), []

    def progress(done, total, label):
        told.append(done)
        if done >= at:
            stop.set()

    with pytest.raises(engine.Cancelled, match="stopped"):
        engine.layout(groups[0], seed=41, progress=progress, stop=stop)
    assert told[-1] == at and not kept()


@pytest.mark.usefixtures("empty")
@each_method
def test_a_map_is_kept_on_disk(method):
    space = space_of(clustered(120, seed=8)[0])
    first = engine.layout(space, method, most=100)
    assert len(kept()) == 1
    told = []
    again = engine.layout(space, method, most=100, progress=lambda *args: told.append(args))
    assert told == [(1, 1, "reading the cache")] and again == first
    for name in ("points", "rows", "mean", "axes", "perplexity", "asked", "seed", "of", "sampled"):
        np.testing.assert_array_equal(getattr(again, name), getattr(first, name))
    np.testing.assert_array_equal(*(layout.place(one, space, space.vectors[:9]) for one in (again, first)))
    for other, more in (({"perplexity": 5.0}, method == "tsne"), ({"seed": 1}, True), ({"most": 99}, True)):
        before = len(kept())
        engine.layout(space, method, **{"most": 100, **other})
        assert len(kept()) == before + more


@pytest.mark.usefixtures("empty")
def test_a_damaged_entry_is_made_again():
    space = space_of(clustered(60, seed=9)[0])
    first = engine.layout(space)
    (entry,) = kept()
    raw = bytearray(entry.read_bytes())
    raw[len(raw) // 2] ^= 1
    entry.write_bytes(raw)
    assert engine.layout(space) == first and kept() == [entry] and entry.read_bytes() != raw


def test_errors_name_the_argument_the_range_and_the_value(groups):
    space, _, made = groups
    for param in (layout.LAYOUT_METHOD, layout.PERPLEXITY, layout.SEED, layout.MAX_MAPPED):
        for bad in invalid_values(param):
            with pytest.raises(engine.ParamError) as error:
                engine.layout(space, **{param.name: bad})
            assert all(part in str(error.value) for part in (param.name, param.domain, repr(bad)))
    for bad in (-1, N_DOCS, 1.5, True):
        with pytest.raises(engine.ParamError, match=rf"row must be a whole number in \[0, {N_DOCS - 1}\]"):
            layout.find_neighbours(space, bad)
    for bad in ([-1], [N_DOCS], [0.5], [[1]]):
        with pytest.raises(engine.DataError, match=rf"rows must be whole numbers in \[0, {N_DOCS - 1}\]"):
            layout.find_positions(made, space, bad)
    with pytest.raises(engine.ParamError, match="count must be"):
        layout.find_neighbours(space, 0, 0)
    with pytest.raises(engine.ParamError, match="k must be"):
        layout.measure_fidelity(made, space, 0)
    with pytest.raises(engine.DataError, match="dimension; got 3, the corpus has 24"):
        layout.place(made, space, [1.0, 2.0, 3.0])
    with pytest.raises(engine.DataError, match="vectors must be finite"):
        layout.place(made, space, [float("nan")] * 24)
    other = space_of(clustered(N_DOCS, seed=4)[0])
    for call in (layout.place, layout.find_positions, layout.measure_fidelity):
        with pytest.raises(engine.DataError, match="other embeddings"):
            call(made, other, other.vectors[:1])


@pytest.mark.parametrize("kind", ["unit", "any length", "duplicates and zeros"])
def test_neighbours_are_those_of_brute_force(kind):
    rows = clustered(300, seed=2)[0]
    if kind == "any length":
        rows = rows * np.random.default_rng(0).uniform(0.1, 9, (300, 1)).astype(np.float32)
    if kind == "duplicates and zeros":
        rows[100:160] = rows[:60]
        rows[160:170] = rows[0]
        rows[200:205] = 0
    space = space_of(rows)
    exact = unit(rows.astype(np.float64))
    for row in (0, 7, 100, 165, 200, 299):
        found = layout.find_neighbours(space, row, 20)
        assert len(found) == 20 and row not in dict(found)
        cosine = exact @ exact[row]
        np.testing.assert_allclose([s for _, s in found], cosine[[r for r, _ in found]], rtol=0, atol=1e-12)
        # Equal to the last digits that brute force has; and equals in the order of their rows.
        order = sorted((r for r in range(300) if r != row), key=lambda r: (-round(cosine[r], 12), r))[:20]
        assert [r for r, _ in found] == order
    assert len(layout.find_neighbours(space, 3, 1000)) == 299
    assert layout.find_neighbours(space_of(rows[:1]), 0) == []


def test_fidelity_is_the_share_of_neighbours_kept(groups):
    space, _, made = groups
    exact, points = unit(space.vectors.double().numpy()), made.points.astype(np.float64)
    similarity = exact @ exact.T
    gap = ((points[:, None] - points[None]) ** 2).sum(2)
    np.fill_diagonal(similarity, -np.inf)
    np.fill_diagonal(gap, np.inf)
    true, shown = (-similarity).argsort(1)[:, :10], gap.argsort(1)[:, :10]
    kept = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(true, shown, strict=True)])
    assert layout.measure_fidelity(made, space) == pytest.approx(kept, abs=1e-9)
    assert kept > layout.measure_fidelity(engine.layout(space, "pca", cache=False), space)
    flat = space_of(unit(np.random.default_rng(1).normal(size=(200, 2))).astype(np.float32))
    assert layout.measure_fidelity(engine.layout(flat, "pca", cache=False), flat) > 0.99
