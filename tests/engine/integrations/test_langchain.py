"""The LangChain compressor: metadata as a source of vectors and scores, and what comes back."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import engine
from support.instances import random_rows

pytest.importorskip("langchain_core")

from langchain_core.documents import Document

from engine.integrations.langchain import FrontierCompressor, FrontierEmbeddings

MMR = engine.Decoder(engine.make("mmr", relevance_weight=0.4))
ROWS = random_rows(np.random.default_rng(0), 20, 4).astype(np.float32)
POINT = ROWS[3]


def point_alone(texts, role):
    assert role == "query", "vectors of documents come from their metadata"
    return [POINT] * len(texts)


def documents(**keys):
    """Documents whose metadata has the given values, by key."""
    return [Document(f"text {i}", metadata={"n": i} | {k: v[i] for k, v in keys.items()}) for i in range(len(ROWS))]


def test_vectors_in_the_metadata_are_used_and_the_documents_are_left_as_they_are():
    given = documents(vector=ROWS.tolist())
    compressor = FrontierCompressor(decoder=MMR, k=4, encoder=point_alone)
    found = compressor.compress_documents(given, "q")
    ranking = engine.select(MMR.select, ROWS, POINT, k=4)
    assert [document.metadata["n"] for document in found] == ranking.rows()
    assert [document.metadata["frontier_score"] for document in found] == ranking.gain[0].tolist()
    assert all("frontier_score" not in document.metadata for document in given)
    assert compressor.answer(given, "q").certificate == ranking.info[0]
    with ThreadPoolExecutor(1) as thread:  # a browser's test leaves this one with a running loop
        assert thread.submit(asyncio.run, compressor.acompress_documents(given, "q")).result() == found
    other = FrontierCompressor(decoder=MMR, k=4, encoder=point_alone, vector_key="embedding")
    assert other.compress_documents(documents(embedding=ROWS), "q") != []


def test_scores_in_the_metadata_stand_for_the_store():
    words = engine.Decoder(engine.make("top_k"), retrieve=engine.make("bm25"))
    scored = documents(vector=ROWS.tolist(), rank=list(range(20)))
    found = FrontierCompressor(decoder=words, k=3, encoder=point_alone, score_key="rank").compress_documents(
        scored, "q"
    )
    assert [document.metadata["n"] for document in found] == [19, 18, 17]


def test_a_store_can_hold_the_vectors_that_were_measured():
    texts, ours = ["a red apple", "a fast car"], FrontierEmbeddings()
    assert np.allclose(ours.embed_documents(texts), engine.embed(texts).vectors, atol=1e-6)
    assert np.allclose(ours.embed_query("fruit"), engine.embed(["fruit"], role="query").vectors[0], atol=1e-6)


def test_what_is_wrong_is_said():
    given = documents(vector=ROWS.tolist())
    del given[7].metadata["vector"]
    with pytest.raises(engine.DataError, match=r"1 of 20 candidates have no metadata\['vector'\]"):
        FrontierCompressor(decoder=MMR, encoder=point_alone).compress_documents(given, "q")
    with pytest.raises(ValueError, match=r"nosuch\.json cannot be read"):
        FrontierCompressor(decoder="nosuch.json")
