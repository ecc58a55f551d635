"""A decoder over candidates: what it takes, what it embeds, what the store stands for, and what is refused."""

import json

import numpy as np
import pytest
import torch

import engine
from engine.integrations import Answerer, answer
from engine.integrations import candidates as module
from support.instances import random_rows, unit

MMR = engine.Decoder(engine.make("mmr", relevance_weight=0.4))
TEXTS = [f"text {i}" for i in range(30)]


@pytest.fixture
def rows():
    return random_rows(np.random.default_rng(1), 30, 5).astype(np.float32)


@pytest.fixture
def point():
    return unit(np.random.default_rng(2).standard_normal(5)).astype(np.float32)


def expected(decoder, rows, point, k):
    return tuple(engine.select(decoder.select, rows, point, k=k, pool=decoder.depth).rows())


def test_arrays_tensors_and_lists_are_the_same_vectors(rows, point):
    for kind in (np.asarray, torch.tensor, np.ndarray.tolist, list):
        vectors = kind(rows)
        found = answer(MMR, None, vectors=vectors, query_vector=kind(point), k=6)
        assert found.rows == expected(MMR, rows, point, 6)
    ranking = engine.select(MMR.select, rows, point, k=6)
    assert found.ids == tuple(map(str, found.rows)) and found.scores == tuple(ranking.gain[0].tolist())
    assert found.certificate == ranking.info[0] and found.certificate["certified"]


def test_texts_are_embedded_once_and_the_oldest_are_forgotten(rows, point, monkeypatch):
    asked = []

    def encode(texts, role):
        asked.append((role, list(texts)))
        return [point] if role == "query" else [rows[TEXTS.index(text)] for text in texts]

    answerer = Answerer(MMR, k=4, encoder=encode)
    assert answerer("q", TEXTS[:20]).rows == expected(MMR, rows[:20], point, 4)
    order = [*range(25, 10, -1), 12]  # one text twice
    assert answerer("q", [TEXTS[i] for i in order]).rows == expected(MMR, rows[order], point, 4)
    documents = [texts for role, texts in asked if role == "document"]
    assert documents == [TEXTS[:20], [TEXTS[i] for i in range(25, 19, -1)]]
    monkeypatch.setattr(module, "MAX_CACHED_VECTORS", 10)
    answerer("q", TEXTS[26:28])
    assert answerer("q", TEXTS[26:28]).rows and asked[-2][0] == "query", "the newest are kept"
    answerer("q", TEXTS[:1])
    assert asked[-2] == ("document", TEXTS[:1])


def test_an_encoder_by_name_embeds_as_the_engine_does_and_leaves_the_disk_alone(demo):
    from engine.data import cache, encoders

    dataset, _ = demo
    corpus = engine.Corpus(dataset.corpus.ids[:40], dataset.corpus.texts[:40])
    space = engine.Space(corpus, engine.embed(corpus, cache=False))
    query = "sort along an axis as nobody asked before"
    before = set(cache.list_files(cache.home() / encoders.EMBEDDING_SECTION))
    found = answer(MMR, query, corpus.texts, encoder="bundled", ids=corpus.ids, k=5)
    assert set(cache.list_files(cache.home() / encoders.EMBEDDING_SECTION)) == before
    assert found.ids == tuple(corpus.ids[row] for row in engine.decode(MMR, space, [query], k=5).rows())


def test_the_exported_file_says_decoder_k_and_encoder(tmp_path, rows, point):
    from engine.evaluation.export_decoder import ExportContext, export

    text = export(MMR, "json", ExportContext(k=3, encoder="bundled")).text
    (tmp_path / "setting.json").write_text(text, encoding="utf-8")
    for setting in (tmp_path / "setting.json", str(tmp_path / "setting.json"), json.loads(text)):
        answerer = Answerer(setting)
        assert (answerer.decoder, answerer.k, answerer.encoder) == (MMR, 3, "bundled")
        assert len(answerer(None, vectors=rows, query_vector=point).rows) == 3
    trained = json.loads(export(MMR, "json", ExportContext(trained="kept.safetensors")).text)
    assert Answerer(trained).encoder is None
    with pytest.raises(engine.DataError, match=r"exported for those of kept\.safetensors"):
        answer(trained, "q", TEXTS)


def test_the_store_stands_for_a_scorer_of_the_whole_corpus(rows, point):
    words = engine.Decoder(MMR.select, retrieve=engine.make("bm25"), depth=12)
    scores = np.linspace(3, 1, 30)
    with pytest.raises(engine.DataError, match=r"bm25.*needs the whole corpus.*frontier answer"):
        answer(words, "q", vectors=rows, query_vector=point)
    found = answer(words, "q", vectors=rows, query_vector=point, scores=scores.tolist(), k=5)
    # MMR by hand: the store's scores, from 0 to 1 over the pool, and cosines of the vectors.
    scores, chosen = (scores - scores[11]) / (scores[0] - scores[11]), []
    while len(chosen) < 5:
        worth = {
            r: 0.4 * np.float32(scores[r]) - 0.6 * max([rows[r] @ rows[c] for c in chosen], default=0)
            for r in range(12)
            if r not in chosen
        }
        chosen.append(max(worth, key=worth.get))
    assert list(found.rows) == chosen
    with pytest.raises(engine.DataError, match="scores must be finite"):
        answer(words, "q", vectors=rows, query_vector=point, scores=[np.nan] * 30)
    # Before a reranker the order says who is in its pool.
    again = engine.Decoder(MMR.select, retrieve=engine.make("bm25"), rerank=engine.make("dense"), depth=12)
    assert answer(again, "q", vectors=rows, query_vector=point, k=5).rows == expected(MMR, rows[:12], point, 5)
    with pytest.raises(engine.DataError, match="reranks by the whole corpus"):
        Answerer(engine.Decoder(MMR.select, rerank=engine.make("bm25")))


def test_the_query_is_embedded_where_the_candidates_are(rows, point):
    """A vector that a framework made with another model is not mixed with them."""
    given = Answerer(MMR, k=4, encoder=lambda texts, role: np.stack([point] if role == "query" else rows[: len(texts)]))
    other = -point
    assert given("q", TEXTS, query_vector=other).rows == expected(MMR, rows, point, 4)
    assert given("q", TEXTS, vectors=rows, query_vector=other).rows == expected(MMR, rows, other, 4)


def test_few_candidates_and_none(rows, point):
    assert len(answer(MMR, None, vectors=rows[:3], query_vector=point, k=10).rows) == 3
    assert answer(MMR, "q", [], encoder="bundled").rows == ()
    assert answer(MMR, "q", ["one"], encoder=lambda texts, role: [point] * len(texts)).rows == (0,)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "candidates need texts or vectors"),
        ({"texts": TEXTS}, "no encoder; name the one"),
        ({"vectors": np.eye(5), "ids": ["a"]}, "ids must have one entry a candidate, 5; got 1"),
        ({"vectors": np.eye(5), "texts": TEXTS}, "vectors must have one entry a candidate, 30; got 5"),
        ({"vectors": np.eye(5), "query_vector": np.ones(4)}, "dimension"),
        ({"vectors": np.eye(5), "query_vector": np.ones(5), "k": 0}, "k must be a whole number"),
        ({"vectors": np.full((5, 5), np.inf), "query_vector": np.ones(5)}, "finite"),
    ],
)
def test_what_cannot_be_answered_is_said(given, why):
    with pytest.raises(engine.FrontierError, match=why):
        answer(MMR, "q", **given)
    with pytest.raises(engine.DataError, match="query must be a text"):
        answer(MMR, None, vectors=np.eye(5))
