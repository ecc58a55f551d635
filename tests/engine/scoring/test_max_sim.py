"""max_sim: the best of a document's passages, against plain loops."""

import pickle
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

import engine
from engine.data.passages import cut_passages
from engine.decoder import query_batch
from engine.multi_vector import Parts
from engine.progress import report_to
from support.random_texts import corpus_of

WORDS = ("river", "stone", "paper", "engine", "cloud", "market", "violin", "harvest", "lantern", "bridge", "copper")


def texts(n, seed=0):
    draw = np.random.default_rng(seed)
    return tuple(" ".join(draw.choice(WORDS, draw.integers(1, 30))) for _ in range(n))


@pytest.fixture(scope="module")
def space():
    corpus = corpus_of(texts(25))
    return engine.Space(corpus, engine.embed(corpus))


@pytest.fixture(scope="module")
def batch(space):
    return query_batch(space, list(texts(4, seed=1)))


def by_hand(space, batch, length, overlap, most=None):
    passages = cut_passages(space.corpus, length, overlap)
    vectors = engine.embed(passages.corpus).vectors.double()
    scores = np.full((len(batch), len(space)), -np.inf)
    taken = [0] * len(space)
    for vector, doc in zip(vectors, passages.documents.tolist(), strict=True):
        taken[doc] += 1
        if most is None or taken[doc] <= most:
            scores[:, doc] = np.maximum(scores[:, doc], (batch.vectors.cpu().double() @ vector).numpy())
    return torch.tensor(scores).float()


@pytest.mark.parametrize(
    "length, overlap, most", [(5, 0.0, None), (5, 0.5, None), (5, 0.5, 2), (9, 0.5, 2), (9, 0.5, 1)]
)
def test_equals_a_loop_over_passages(space, batch, length, overlap, most):
    """One space keeps the passages of every length apart."""
    stage = engine.make("max_sim", length=length, overlap=overlap, most=most)
    assert torch.allclose(stage.score(space, batch).cpu(), by_hand(space, batch, length, overlap, most), atol=1e-6)


def test_one_whole_passage_a_document_is_dense(space, batch):
    stage = engine.make("max_sim", length=400)
    assert stage.index(space).per_document == 1
    assert torch.allclose(stage.score(space, batch), engine.make("dense").score(space, batch), atol=1e-6)


def test_the_index_says_what_it_takes(space):
    stage = engine.make("max_sim", length=5, overlap=0.0)
    index, rows = stage.index(space), len(cut_passages(space.corpus, 5, 0.0))
    assert len(index) == rows and index.per_document == rows / 25 and index.bytes == rows * 384 * 4
    assert stage.index(space) is index, "kept with the space"
    fewer = engine.make("max_sim", length=5, overlap=0.0, most=2).index(space)
    assert len(fewer) == int(index.counts.clamp_max(2).sum()) and int(fewer.counts.max()) == 2


def test_only_the_rows_asked_for_are_multiplied():
    """A part that is not finite shows in the scores of whatever reads it."""
    vectors = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
    vectors[4:6] = torch.nan
    parts = Parts(vectors, torch.tensor([0, 0, 1, 1, 2, 2, 3, 4, 4]))
    points = torch.randn(2, 4, generator=torch.Generator().manual_seed(1))
    rows = torch.tensor([[4, 0], [3, 1]])
    found = parts.best(points, rows)
    assert torch.isfinite(found).all() and not torch.isfinite(parts.best(points)).all()
    slow = [[(vectors[parts.documents == r] @ points[b]).max() for r in rows[b].tolist()] for b in range(2)]
    assert torch.allclose(found, torch.tensor(slow), atol=1e-6)


@pytest.mark.parametrize("numbers", [1, 100, 1 << 22])
def test_blocks_do_not_show(monkeypatch, numbers):
    draw = torch.Generator().manual_seed(2)
    documents = torch.cat([torch.arange(30), torch.randint(30, (170,), generator=draw)]).sort().values
    parts = Parts(torch.randn(200, 16, generator=draw), documents)
    points, rows = torch.randn(5, 16, generator=draw), torch.randint(30, (5, 8), generator=draw)
    whole, some = parts.best(points), parts.best(points, rows)
    monkeypatch.setattr("engine.multi_vector.MAX_PART_SCORES", numbers)
    assert torch.equal(parts.best(points), whole) and torch.equal(parts.best(points, rows), some)
    assert torch.equal(whole.gather(1, rows), some)
    assert torch.equal(torch.cat([parts.best(p.unsqueeze(0)) for p in points]), whole)


def test_equal_documents_tie(space):
    corpus = corpus_of(texts(20) * 2)
    twice = engine.Space(corpus, engine.embed(corpus))
    scores = engine.make("max_sim", length=5).score(twice, query_batch(twice, list(texts(3, seed=4))))
    assert torch.equal(scores[:, :20], scores[:, 20:])


def test_given_parts_are_searched_and_travel():
    draw = torch.Generator().manual_seed(3)
    corpus = engine.Corpus(("a", "b#1"), ("x", "y"))
    own = engine.Embeddings(corpus.ids, torch.randn(2, 5, generator=draw))
    parts = engine.Embeddings(("b#1#0", "a#0", "b#1#2", "a#1", "b#1#1"), torch.randn(5, 5, generator=draw))
    space = engine.Space(corpus, own, parts=parts)
    queries = engine.Embeddings(("q", "r", "s"), torch.randn(3, 5, generator=draw))
    batch = query_batch(space, queries)
    scores = queries.vectors @ parts.vectors.T
    expected = torch.stack([scores[:, [1, 3]].amax(1), scores[:, [0, 2, 4]].amax(1)], dim=1)
    assert torch.allclose(engine.make("max_sim").score(space, batch).cpu(), expected, atol=1e-6)
    assert torch.allclose(engine.make("max_sim", most=1).score(space, batch).cpu(), scores[:, [1, 0]], atol=1e-6)
    there = pickle.loads(pickle.dumps(space))
    assert torch.equal(there.parts.vectors, space.parts.vectors)


@pytest.mark.parametrize(
    "ids, message",
    [(("a#0", "c#0"), "1 are not .*'c'"), (("a#0", "a#1"), "1 have none .*'b'"), (("a#0", "b"), "part's id")],
)
def test_parts_that_do_not_fit_are_refused(ids, message):
    corpus = engine.Corpus(("a", "b"), ("x", "y"))
    own = engine.Embeddings(corpus.ids, torch.eye(2))
    with pytest.raises(engine.DataError, match=message):
        engine.Space(corpus, own, parts=engine.Embeddings(ids, torch.eye(2)))
    with pytest.raises(engine.DataError, match="dimension, 2; got 3"):
        engine.Space(corpus, own, parts=engine.Embeddings(("a#0", "b#0"), torch.ones(2, 3)))
    with pytest.raises(engine.DataError, match="parts must be finite"):
        engine.Space(corpus, own, parts=engine.Embeddings(("a#0", "b#0"), torch.tensor([[1.0, torch.nan]] * 2)))


def test_vectors_without_an_encoder_or_with_another_are_refused(space, batch):
    bare = engine.Space(space.corpus, engine.Embeddings(space.corpus.ids, space.embeddings.vectors))
    with pytest.raises(engine.DataError, match=r"came with its own vectors; embed the corpus with engine\.embed"):
        engine.make("max_sim").score(bare, batch)
    ref = replace(space.embeddings.encoder, digest="0" * 64)
    other = engine.Space(space.corpus, engine.Embeddings(space.corpus.ids, space.embeddings.vectors, ref))
    with pytest.raises(engine.DataError, match="other weights"):
        engine.make("max_sim").score(other, batch)


def test_embedding_passages_is_watched_and_can_be_stopped(space, batch):
    seen, stop = [], threading.Event()
    stage = engine.make("max_sim", length=7, overlap=0.1)
    stop.set()
    with pytest.raises(engine.Cancelled), report_to(stop=stop):
        stage.score(space, batch)
    with report_to(lambda done, total, label: seen.append((done, total))):
        stage.score(space, batch)
    passages = len(cut_passages(space.corpus, 7, 0.1))
    assert seen[-1] == (passages, passages)
