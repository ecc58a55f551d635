"""DE-k and ME-k: the loss and its negatives against plain loops, where training starts, what comes of it."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

import engine
from engine.decoder import explain_ignored_scorer
from engine.multi_vector import Parts
from engine.training.loop import generator_of
from engine.training.projections import initial_heads, mean_direction
from engine.training.recipes import make_recipe
from engine.values import Corpus, EncoderRef
from support.instances import random_rows
from support.training import PROJECTED, StopAfter, demo_splits, drop_times, plant, quality, restrict, split_queries

METHODS = ("dual_encoder", "multi_vector")


@pytest.fixture(scope="module")
def trained(data):
    return {method: engine.train(method, *data, **PROJECTED) for method in METHODS}


def documents(corpus, rows):
    return Corpus(tuple(corpus.ids[row] for row in rows), tuple(corpus.texts[row] for row in rows))


# Where it starts


@pytest.mark.parametrize("method", METHODS)
def test_it_starts_with_the_principal_axes(data, method):
    still = {**PROJECTED, "epochs": 1, "rate": 0.0} | ({"spread": 0.0} if method == "multi_vector" else {})
    result, dev = engine.train(method, *data, **still), split_queries(data)
    pca = engine.Decoder(engine.make("top_k"), engine.make("truncated", dimension=6, method="pca"))
    assert engine.decode(result.decoder, result.space, dev, 5).index.equal(engine.decode(pca, data[0], dev, 5).index)
    comp = quality(pca, data[0], data)["comp"]
    assert result.history[0].dev.comp5 == pytest.approx(comp) == result.history[1].dev.comp5


def test_few_documents_and_rows_of_zeros_have_a_direction():
    rows = torch.zeros(3, 8)
    rows[0, 0] = 1.0
    for start in ("pca", "random"):
        heads = initial_heads(rows, 4, 2, start, 0.1, generator_of(0, -1))
        single, parts = heads.documents(rows)
        assert parts.shape == (3, 2, 4)
        for result in (single, parts, heads.query(rows)):
            assert result.norm(dim=-1).allclose(torch.ones(result.shape[:-1]), atol=1e-6)
    with pytest.raises(engine.ParamError, match=r"dimension \(k\) must be at most that of the embeddings, 8; got 9"):
        initial_heads(rows, 9, None, "pca", 0.1, generator_of(0, -1))


def test_projections_start_near_the_axes_and_apart_by_the_spread():
    rows = torch.from_numpy(random_rows(np.random.default_rng(0), 400, 60))
    heads = initial_heads(rows, 40, 3, "pca", 0.2, generator_of(0, -1))
    weight = heads.corpus.weight.detach()
    assert weight[0].equal(heads.query.weight) and (weight[0] @ weight[0].T).allclose(torch.eye(40).double(), atol=1e-9)
    for first, second in ((0, 1), (0, 2), (1, 2)):
        far = 0.2 if first == 0 else 0.2 * 2**0.5
        assert float((weight[first] - weight[second]).norm(dim=1).mean()) == pytest.approx(far, rel=0.05)
    norms = initial_heads(rows[:5], 40, None, "pca", 0.0, generator_of(0, -1)).query.weight.detach().norm(dim=1)
    assert norms[:5].allclose(torch.ones(5).double()) and float(norms[5:].max()) < 1e-5, "what has no axis says nothing"


def test_the_one_vector_is_nearest_to_all():
    parts = torch.from_numpy(random_rows(np.random.default_rng(1), 20, 3)).view(5, 4, 3)
    result = mean_direction(parts)
    random_points = torch.from_numpy(random_rows(np.random.default_rng(2), 500, 3))
    for vector, vectors in zip(result, parts, strict=True):
        assert float((vectors @ vector).mean()) >= float((vectors @ random_points.T).mean(0).max())
    against = torch.tensor([[[1.0, 0.0], [-1.0, 0.0]]])
    assert mean_direction(against).tolist() == [[1.0, 0.0]]


# What it yields


@pytest.mark.parametrize("method", METHODS)
def test_a_planted_set_is_learnt(data, method):
    """Queries that are sums of three documents, turned: half the dimensions, and the turn undone."""
    params = {**PROJECTED, "dimension": 8, "epochs": 10, "patience": None}
    result = engine.train(method, *data, **params)
    first, after = result.history[0].dev, result.best.dev
    assert after.recall5 > first.recall5 + 0.15 and after.comp5 > first.comp5 + 0.05
    assert result.history[-1].loss < result.history[1].loss - 0.2


def test_with_one_vector_me_is_de(data, trained):
    single = engine.train("multi_vector", *data, **PROJECTED, vectors=1)
    two = trained["dual_encoder"]
    assert drop_times(single.history) == drop_times(two.history)
    assert single.space.embeddings.vectors.equal(two.space.embeddings.vectors)
    assert single.space.parts.vectors.equal(two.space.vectors) and two.space.parts is None
    rows, same = (engine.decode(t.decoder, t.space, split_queries(data), 5).index for t in (single, two))
    assert rows.equal(same)


def test_dev_is_decoded_as_max_sim_does(data, trained):
    result = trained["multi_vector"]
    assert result.decoder.retrieve.spec.name == "max_sim" and result.space.parts.per_document == 4
    ranking = engine.decode(result.decoder, result.space, split_queries(data), 5)
    parts = result.space.parts.vectors.view(80, 4, 6).double()
    points = result.queries(split_queries(data)).vectors.double()
    by_hand = torch.einsum("bk,nmk->bnm", points, parts).amax(2).topk(5, dim=1).indices
    assert ranking.index.equal(by_hand)
    measured = quality(result.decoder, result.space, data, metrics=("comp", "recall"))
    assert measured["comp"] == pytest.approx(result.best.dev.comp5)
    assert measured["recall"] == pytest.approx(result.best.dev.recall5)
    spread = parts.unsqueeze(1) @ parts.unsqueeze(1).mT
    assert float(spread.min()) < 0.99, "the projections have become different"


@pytest.mark.parametrize("method", METHODS)
def test_a_checkpoint_decodes_the_same_and_goes_on(data, trained, method, tmp_path):
    space, path = data[0], tmp_path / "run.safetensors"
    in_the_third_epoch = StopAfter(25)  # of ten steps
    half = engine.train(method, *data, checkpoint=path, stop=in_the_third_epoch, **PROJECTED)
    assert half.stopped == "stopped by hand in epoch 2" and engine.load_trained(path, space).digest == half.digest
    full, again = trained[method], engine.train(method, *data, checkpoint=path, **PROJECTED)
    assert drop_times(again.history) == drop_times(full.history) and again.digest == full.digest
    read = engine.load_trained(path, space)
    assert read.digest == full.digest and read.recipe == full.recipe and read.decoder == full.decoder
    assert read.space.embeddings == full.space.embeddings and read.space.given_parts == full.space.given_parts
    restored = pickle.loads(pickle.dumps(read.space))
    for second in (read.space, restored):
        result = engine.decode(read.decoder, second, split_queries(data), 5)
        assert result.index.equal(engine.decode(full.decoder, full.space, split_queries(data), 5).index)
    with pytest.raises(engine.DataError, match="dimension is 6 there and 5 here"):
        engine.train(method, *data, checkpoint=path, **{**PROJECTED, "dimension": 5})


@pytest.mark.parametrize("method", METHODS)
def test_every_selector_searches_the_space(data, trained, method):
    result, sample = trained[method], data[1].take(range(5))
    assert result.space.embeddings.dimension == 6 and data[0].embeddings.dimension == 16
    for name in engine.methods("selector"):
        stage = engine.make(name)
        # A selector that reads the vectors alone needs a depth behind other scores, which then choose the pool.
        ignores_scores = explain_ignored_scorer(stage, result.decoder.retrieve, None, None) is not None
        decoder = replace(result.decoder, select=stage, depth=20 if ignores_scores else None)
        rows = engine.decode(decoder, result.space, sample, 4).index
        assert all(len(set(row)) == len(row) for row in ([j for j in r if j >= 0] for r in rows.tolist()))
        unprojected = engine.decode(engine.Decoder(engine.make(name)), result.space, sample, 4)
        by_hand = engine.select(name, result.space.embeddings.vectors, result.queries(sample).vectors, 4)
        assert unprojected.index.equal(by_hand.index), name
    with pytest.raises(engine.DataError, match="queries must be vectors of the encoder that the adapters take"):
        engine.decode(
            result.decoder, result.space, replace(sample, encoder=EncoderRef("other", "2" * 64, "float32")), 3
        )
    with pytest.raises(engine.DataError, match="projected from 16 to 6 dimensions, so it cannot be trained on"):
        engine.train("dense", result.space, *data[1:])


@pytest.mark.parametrize("method", METHODS)
def test_other_documents_are_projected_alike(data, trained, method):
    space, result = data[0], trained[method].space
    rows = range(10, 30)
    fewer = result.with_documents(documents(space.corpus, rows), space.embeddings.take(rows))
    assert fewer.embeddings.vectors.allclose(result.embeddings.vectors[10:30], atol=1e-6)
    assert fewer.embeddings.encoder == result.embeddings.encoder
    if method == "multi_vector":
        assert fewer.parts.vectors.allclose(result.parts.vectors[40:120], atol=1e-6)
    else:
        assert fewer.parts is None


def test_dense_adapters_below_stay_as_they_are(data, tmp_path):
    dense = engine.train("dense", *data, hidden=16, epochs=1)
    path = tmp_path / "over"
    result = engine.train("multi_vector", dense.space, *data[1:], checkpoint=path, **PROJECTED)
    mine, below = result.space.adapt.adapters, dense.space.adapt.adapters
    assert mine.query.outer.weight.equal(below.query.outer.weight) and len(mine.corpus) == 1
    assert mine.corpus[0].outer.weight.equal(below.corpus[0].outer.weight)
    dev, head = split_queries(data), mine.heads
    assert result.queries(dev).vectors.allclose(head.query(dense.queries(dev).vectors), atol=1e-6)
    assert result.space.parts.vectors.allclose(head.corpus(dense.space.vectors).flatten(0, 1), atol=1e-6)
    read = engine.load_trained(path, data[0])
    assert read.space.embeddings == result.space.embeddings and read.space.given_parts == result.space.given_parts


def test_a_course_compares_them_as_any_other(data):
    space, queries, qrels = data
    ids = list(qrels["dev"].grades)
    splits = {
        "train": qrels["train"],
        "dev": restrict(qrels["dev"], ids[:50]),
        "test": restrict(qrels["dev"], ids[50:]),
    }
    start = engine.train("dense", space, queries, splits, hidden=16, epochs=1)
    result = engine.course("multi_vector", space, queries, splits, start=start, **{**PROJECTED, "epochs": 1})
    assert list(result.stages) == ["dense-cont", "multi_vector"]
    assert list(result.table.values) == ["encoder", "dense", "dense-cont", "multi_vector"]
    last = result.last
    mean = quality(last.decoder, last.space, (space, queries, splits), "test", ("recall",))["recall"]
    assert last.decoder.retrieve.spec.name == "max_sim"
    assert result.table.mean("multi_vector", "recall", 5)[0] == pytest.approx(mean)
    assert [row.name for row in result.table.told] == ["multi_vector"] * 3


@pytest.mark.deep
def test_passages_of_a_text_are_projected_as_documents(demo):
    dataset, space = demo
    splits = demo_splits(dataset)
    sample = [i for i, text in enumerate(space.corpus.texts) if len(text) < 400][:40]
    wanted = {doc for judged in splits.values() for grades in judged.grades.values() for doc in grades}
    rows = sorted({*sample, *(space.corpus.position[doc] for doc in wanted if doc in space.corpus.position)})
    sample_space = engine.Space(documents(space.corpus, rows), space.embeddings.take(rows))
    result = engine.train("dual_encoder", sample_space, dataset.queries, splits, dimension=32, epochs=1)
    scorer = engine.make("max_sim", length=30)
    parts = scorer.index(result.space)
    assert isinstance(parts, Parts) and parts.vectors.shape[1] == 32 and parts.per_document > 1
    assert parts.vectors.norm(dim=1).allclose(torch.ones(len(parts)), atol=1e-5)
    raw = engine.make("max_sim", length=30).index(sample_space)
    assert parts.vectors.allclose(result.space.adapt.adapters.heads.corpus(raw.vectors), atol=1e-5)
    ranking = engine.decode(engine.Decoder(engine.make("top_k"), scorer), result.space, "sort an array", 5)
    assert (ranking.index >= 0).all()


def test_no_negatives_at_all_are_refused():
    with pytest.raises(engine.ParamError, match="uniform, hard and in_batch give no negatives"):
        make_recipe("dual_encoder", uniform=0, hard=0, in_batch=False)


def test_vectors_without_texts_train_in_float64(data):
    space, queries, qrels = plant(encoder=None)
    double = engine.Space(space.corpus, replace(space.embeddings, vectors=space.vectors.double()))
    result = engine.train("multi_vector", double, replace(queries, texts=None), qrels, **{**PROJECTED, "hard": 0})
    assert result.space.vectors.dtype == result.space.parts.vectors.dtype == torch.float64
    assert result.best.dev.recall5 > result.history[0].dev.recall5
