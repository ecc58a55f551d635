"""random_projection against scikit-learn's counts and a dense matrix, truncated against NumPy's and scikit-learn's."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import CountVectorizer

import engine
from engine.matrix import steady_products
from engine.scoring import random_projection
from engine.scoring.truncated import principal_axes
from engine.space import QueryBatch
from engine.text.bag_of_words import binary_counts, count_words
from support.bm25_oracle import bm25, cut
from support.instances import problem
from support.rankings import space_of

VOCABULARY = [f"word{i}" for i in range(300)] + ["Straße", "ÉCOLE", "x_y", "3.14", "水 火", "İ"]


def texts(n, seed, most=60):
    draw = np.random.default_rng(seed)
    weight = 1 / np.arange(1, len(VOCABULARY) + 1)
    return [" ".join(draw.choice(VOCABULARY, draw.integers(0, most), p=weight / weight.sum())) for _ in range(n)]


@pytest.fixture(scope="module")
def space():
    found = [*texts(40, 0), "", "!?"]
    return space_of(problem("clustered", 0, n=len(found), d=12)[0], found, ("A Title", *[""] * (len(found) - 1)))


@pytest.fixture(scope="module")
def batch(space):
    asked = (*texts(5, 1, most=8), "word1 word1 word1", "nobody wrote this", "")
    points = torch.tensor(problem("clustered", 1, n=20, d=12, batch=len(asked))[1])
    return QueryBatch(tuple(map(str, range(len(asked)))), points, asked)


# Bags of words


def test_counts_are_scikit_learns(space, batch):
    counts, columns = count_words(space.corpus.passages)
    asked, _ = count_words(batch.texts, columns)
    theirs = CountVectorizer(tokenizer=cut, token_pattern=None, lowercase=False)
    expected = theirs.fit_transform(space.corpus.passages)
    assert list(columns) == theirs.get_feature_names_out().tolist()
    assert (counts != expected).nnz == 0 and (asked != theirs.transform(batch.texts)).nnz == 0


@pytest.mark.parametrize("k1, b", [(1.2, 0.75), (0.0, 0.5), (2.0, 0.0), (0.9, 1.0)])
def test_bm25_is_lucenes_formula(space, batch, k1, b):
    counts, columns = count_words(space.corpus.passages)
    weights = engine.make("random_projection", k1=k1, b=b)._term_weights(counts)
    found = (count_words(batch.texts, columns)[0] @ weights.T).toarray()
    expected = np.array(bm25(space.corpus.passages, batch.texts, k1=k1, b=b))
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-15)


# Random projections


def dense_matrix(stage, words):
    """(v, k) Aᵀ, all at once."""
    blocks = [stage._draw_block(b) for b in range(-(-words // random_projection.SEED_BLOCK_WORDS))]
    return np.concatenate(blocks)[:words] / stage.dimension**0.5


@pytest.mark.parametrize("matrix", ["rademacher", "gaussian"])
@pytest.mark.parametrize("weighting", ["bm25", "boolean"])
def test_scores_are_those_of_a_dense_matrix(space, batch, matrix, weighting, monkeypatch):
    monkeypatch.setattr(random_projection, "MAX_HELD_NUMBERS", 64 * 48 * 2)  # two blocks at a time
    stage = engine.make("random_projection", dimension=48, matrix=matrix, weighting=weighting, seed=3)
    counts, columns = count_words(space.corpus.passages)
    documents, asked = stage._term_weights(counts).toarray(), count_words(batch.texts, columns)[0].toarray()
    if weighting == "boolean":
        documents, asked = (counts.toarray() > 0) * 1.0, (asked > 0) * 1.0
    a = dense_matrix(stage, len(columns))
    expected = (asked @ a) @ (documents @ a).T
    assert np.allclose(stage.score(space, batch), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("matrix", ["rademacher", "gaussian"])
def test_entries_have_the_declared_distribution(matrix):
    a = dense_matrix(engine.make("random_projection", dimension=256, matrix=matrix), 64 * 20)
    assert abs(a.mean()) < 4 / (256 * a.size) ** 0.5
    assert a.var() == pytest.approx(1 / 256, rel=0.02)
    if matrix == "rademacher":
        assert np.allclose(np.abs(a), 1 / 16)
    else:
        assert np.mean(np.abs(a) < 1 / 16) == pytest.approx(0.6827, abs=0.005)


@pytest.mark.parametrize("weighting", ["bm25", "boolean"])
def test_the_error_falls_with_the_dimension(space, batch, weighting):
    documents, columns = count_words(space.corpus.passages)
    counts, _ = count_words(batch.texts, columns)
    if weighting == "boolean":
        exact = (binary_counts(counts) @ binary_counts(documents).T).toarray()
    else:
        exact = (counts @ engine.make("random_projection")._term_weights(documents).T).toarray()
    errors = []
    for k in (32, 512, 8192):
        stage = engine.make("random_projection", dimension=k, weighting=weighting)
        errors.append(np.sqrt(np.mean((stage.score(space, batch).numpy() - exact) ** 2)))
    assert errors[0] > 2 * errors[1] > 4 * errors[2] > 0


def test_a_query_is_projected_alike_in_any_company(space, batch):
    stage = engine.make("random_projection", dimension=64)
    scores = stage.score(space, batch)
    for b in range(len(batch)):
        assert torch.equal(stage.score(space, batch.block(b, b + 1))[0], scores[b])
    assert (scores[-2:] == 0).all() and (scores[:, -2:] == 0).all(), "no known word: 0, not undefined"


def test_a_corpus_without_words_scores_nothing():
    batch = QueryBatch(("q",), torch.ones(1, 2), ("anything",))
    assert engine.make("random_projection").score(space_of(torch.eye(2), ("?", "")), batch).tolist() == [[0.0, 0.0]]


# Fewer dimensions


def test_the_first_dimensions(space, batch):
    rows, points = space.vectors.double(), batch.vectors.double()
    for k in (1, 5, 12, 100):
        raw = engine.make("truncated", dimension=k, renormalise=False).score(space, batch)
        assert torch.allclose(raw.double(), points[:, :k] @ rows[:, :k].T, atol=1e-6)
        scaled = engine.make("truncated", dimension=k).score(space, batch)
        cosine = torch.cosine_similarity(points[:, None, :k], rows[None, :, :k], dim=2)
        assert torch.allclose(scaled.double(), cosine, atol=1e-6)


@pytest.mark.parametrize("method", ["first", "pca"])
def test_all_dimensions_are_the_dense_score(space, batch, method):
    stage = engine.make("truncated", dimension=12, method=method, renormalise=False)
    assert torch.allclose(stage.score(space, batch), engine.make("dense").score(space, batch), atol=1e-6)


def test_principal_axes_are_scikit_learns(space):
    axes = principal_axes(space.matrix).numpy()
    theirs = PCA(svd_solver="full").fit(space.vectors.double().numpy()).components_.T
    assert np.allclose(np.abs((axes * theirs).sum(0)), 1, atol=1e-8)
    assert (np.take_along_axis(axes, np.abs(axes).argmax(0)[None], 0) > 0).all()
    assert np.allclose(axes.T @ axes, np.eye(12), atol=1e-12)


def test_pca_ranks_as_scikit_learns_does(space, batch):
    """It takes the mean off, which adds the same to all of a query's scores."""
    rows, points = space.vectors.double().numpy(), batch.vectors.double().numpy()
    fitted = PCA(4, svd_solver="full").fit(rows)
    theirs = points @ fitted.components_.T @ fitted.transform(rows).T
    ours = engine.make("truncated", dimension=4, method="pca", renormalise=False).score(space, batch).numpy()
    apart = ours - theirs
    assert np.allclose(apart, apart[:, :1], atol=1e-6) and np.abs(apart).max() > 1e-3


def test_pca_needs_fewer_dimensions_where_the_corpus_lies_in_few(batch):
    draw = torch.Generator().manual_seed(0)
    flat = torch.randn(50, 3, generator=draw) @ torch.randn(3, 12, generator=draw)
    space = space_of(flat)
    stage = engine.make("truncated", dimension=3, method="pca", renormalise=False)
    assert torch.allclose(stage.score(space, batch), engine.make("dense").score(space, batch), atol=1e-4)


def test_zero_rows_score_zero():
    space, batch = space_of([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]), QueryBatch(("q",), torch.tensor([[1.0, 0.0, 0.0]]))
    assert engine.make("truncated", dimension=2).score(space, batch).tolist() == [[0.0, 1.0]]


# Products


@pytest.mark.parametrize("numbers", [1, 700, 1 << 22])
def test_neither_block_nor_batch_shows(monkeypatch, numbers):
    draw = torch.Generator().manual_seed(5)
    rows, points = torch.randn(300, 32, generator=draw), torch.randn(9, 32, generator=draw)
    rows[150:] = rows[:150]
    index = torch.randint(300, (9, 11), generator=draw)
    whole = steady_products(rows, points)
    assert torch.equal(whole[:, :150], whole[:, 150:])
    assert torch.allclose(whole, points @ rows.T, atol=1e-5)
    monkeypatch.setattr("engine.matrix.STEADY_BLOCK_NUMBERS", numbers)
    assert torch.equal(steady_products(rows, points), whole)
    assert torch.equal(steady_products(rows, points, index), whole.gather(1, index))
    assert torch.equal(torch.cat([steady_products(rows, p.unsqueeze(0)) for p in points]), whole)
