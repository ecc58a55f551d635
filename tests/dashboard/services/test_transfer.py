"""Data sets sent between processes: they arrive as they were, and are opened with their own vectors."""

import io

import pytest
import torch

import engine
from dashboard.services import corpora, transfer
from dashboard.services.source import Source
from engine.values import EncoderRef
from support.pages import fresh_corpora, load

CORPUS = engine.Corpus(("a", "b"), ("one \ud800", "<b>two</b>"), ("A", ""), "my papers", {"year": ("1999", "")})
VECTORS = torch.tensor([[3.0, 4.0], [0.1, -2.0]], dtype=torch.float64)
QUERIES = engine.Queries(("q",), ("find",), {"kind": ("x",)}, engine.Embeddings(("q",), [[1.0, 0.5]]))
DATASET = engine.Dataset(
    CORPUS,
    QUERIES,
    {"dev": engine.Qrels({"q": {"a": 2, "b": 1}}, 2, "complete")},
    {"q": {"sense": frozenset("ab")}},
    engine.Embeddings(CORPUS.ids, VECTORS),
)


def send(dataset):
    stream = io.BytesIO()
    transfer.send_dataset(dataset, {"port": 1}, stream)
    return stream.getvalue()


def test_data_set_arrives_as_it_was_sent():
    received, settings = transfer.receive_dataset(io.BytesIO(send(DATASET)))
    assert settings == {"port": 1}
    assert (received.corpus, received.queries, received.qrels) == (CORPUS, QUERIES, DATASET.qrels)
    assert received.aspects == DATASET.aspects and received.vectors.digest == DATASET.vectors.digest
    assert (received.corpus.metadata, received.corpus.name) == (CORPUS.metadata, CORPUS.name)
    assert (received.queries.metadata, received.qrels["dev"].relevant_from) == (QUERIES.metadata, 2)


@pytest.mark.parametrize("n_missing", [1, 40, 10_000])
def test_stream_that_ends_early_raises_eof_error(n_missing):
    with pytest.raises(EOFError):
        transfer.receive_dataset(io.BytesIO(send(DATASET)[:-n_missing]))


def test_pages_open_the_vectors_level_and_kind_of_judgements_that_were_sent(monkeypatch):
    fresh_corpora(monkeypatch)
    source = transfer.register_dataset(transfer.receive_dataset(io.BytesIO(send(DATASET)))[0])
    assert source == Source("memory://my papers", relevant=2, judgements="complete") and source.name == "my papers"
    loaded = load(source).with_judged_as(source)
    assert loaded.space.embeddings.digest == DATASET.vectors.digest and loaded.space.encoder is None
    assert torch.equal(loaded.queries, QUERIES.vectors.vectors)
    assert loaded.dataset.qrels["dev"] == DATASET.qrels["dev"]
    # A lower level on the Data page has to count every grade again.
    assert loaded.with_judged_as(Source(source.path)).dataset.qrels["dev"].relevant("q") == {"a", "b"}


def test_vectors_of_an_encoder_are_opened_as_its_own_and_its_queries_embedded(monkeypatch):
    fresh_corpora(monkeypatch)
    texts = engine.Corpus(("a", "b"), ("sort a list", "read a file"))
    ref = engine.embed(texts, dtype="float32").encoder
    # Vectors that feedback has moved, say: the encoder would make others of these texts.
    vectors = engine.Embeddings(texts.ids, torch.eye(2, 384), EncoderRef(ref.name, ref.digest, ref.dtype))
    queries = engine.Queries(("q",), ("sort",))
    sent = transfer.receive_dataset(io.BytesIO(send(engine.Dataset(texts, queries, vectors=vectors))))[0]
    loaded = load(transfer.register_dataset(sent))
    assert loaded.space.embeddings.digest == vectors.digest and loaded.space.encoder == ref
    assert torch.equal(loaded.queries, engine.embed(queries, dtype="float32").vectors)


def test_other_paths_are_no_data_set_that_was_sent():
    assert transfer.find_dataset("memory://nobody") is None
    with pytest.raises(engine.DataError, match="lies in no file"):
        engine.load_dataset("memory://nobody")
    with pytest.raises(engine.DataError):
        corpora.read_dataset(Source("memory://nobody"))
