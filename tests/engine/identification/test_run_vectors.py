"""Vectors of other encoders: which are at hand, what they are called, and that none is made."""

import json

import numpy as np
import pytest
import torch

import engine
from engine import DataError, ParamError
from engine.data import cache, encoders
from engine.data.models import encoder_model
from engine.identification.run_vectors import find_cached_vectors, find_dataset_vectors
from engine.identification.verdict import NEW_EMBEDDINGS
from engine.values import Dataset, Embeddings, EncoderRef, Qrels
from support.encoders import WORDS
from support.identified_runs import decode_run, list_langchain, make_world, name_lists
from support.tiny_models import tiny_encoder

DECODERS = ["top_k", "mmr"]
N_LISTS = 30


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A small encoder of the words of the corpus, with random weights."""
    return str(tiny_encoder(tmp_path_factory.mktemp("models") / "tiny", (*WORDS, *map(str, range(250)))))


@pytest.fixture
def encoded(monkeypatch):
    """The texts that go through a model."""
    seen, encode = [], encoder_model.Encoder.encode
    monkeypatch.setattr(
        encoder_model.Encoder, "encode", lambda self, texts, *args: seen.extend(texts) or encode(self, texts, *args)
    )
    return seen


@pytest.fixture(scope="module")
def texts():
    """A corpus of 250 texts, and forty queries."""
    rng = np.random.default_rng(0)
    docs = tuple(" ".join(rng.choice(WORDS, 8)) + f" {number}" for number in range(250))
    corpus = engine.Corpus(tuple(f"d{row}" for row in range(250)), docs)
    asked = tuple(" ".join(rng.choice(WORDS, 4)) + f" {number}" for number in range(40))
    return corpus, engine.Queries(tuple(f"q{row}" for row in range(40)), asked)


def embed_both(texts, encoder):
    """Return a space and query vectors by one encoder, which are in the cache then."""
    corpus, queries = texts
    space = engine.Space(corpus, engine.embed(corpus, encoder, dtype="float32"), "cpu")
    return space, engine.embed(queries, encoder, dtype="float32")


def make_run(space, queries, weight=0.6, depth=20):
    decoder = engine.Decoder(engine.make("mmr", relevance_weight=weight), depth=depth)
    return decode_run(space, queries, decoder, n_lists=N_LISTS)


def rotate(embeddings, seed=5):
    """Return embeddings in another basis: other numbers, the same products."""
    basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(embeddings.dimension,) * 2))[0]
    return Embeddings(embeddings.ids, (embeddings.vectors.double().numpy() @ basis).astype(np.float32))


@pytest.mark.deep
@pytest.mark.usefixtures("home")
def test_run_of_another_encoder_is_named_by_its_vectors_in_the_cache(texts, tiny, encoded):
    other_space, other_queries = embed_both(texts, tiny)
    run = make_run(other_space, other_queries)
    space, _ = embed_both(texts, "bundled")
    encoded.clear()
    identification = engine.identify(run, space, texts[1])
    best = identification.best
    assert identification.sure, identification.sentences
    assert best.encoder == tiny and best.label == f"MMR on dense vectors of {tiny}"
    assert best.depth[0] <= 20 <= best.depth[1] and best.explained == 1
    assert identification.sentences[0].startswith(best.label) and best.interval[0] <= 0.6 <= best.interval[1]
    as_json = json.loads(json.dumps(identification.as_json()))
    assert as_json["best"]["encoder"] == tiny and None in {each["encoder"] for each in as_json["hypotheses"]}
    # The words are the same for all encoders: what reads nothing else is tried once.
    labels = [each.label for each in identification.hypotheses]
    assert len(labels) == len(set(labels)) and f"Top-k on BM25 scores, vectors of {tiny}" not in labels
    assert f"MMR on BM25 scores, vectors of {tiny}" in labels
    assert not encoded, "an identification makes no vectors of another encoder"


@pytest.mark.deep
@pytest.mark.usefixtures("home")
def test_run_of_the_corpus_s_encoder_stays_sure_beside_a_weaker_one(texts, tiny):
    embed_both(texts, tiny)
    space, queries = embed_both(texts, "bundled")
    identification = engine.identify(make_run(space, queries), space, queries)
    assert identification.sure and identification.best.encoder is None
    assert identification.weaker_encoders == (tiny,)
    assert f"The vectors of {tiny} explain much less of a sample of the lists." in identification.sentences


@pytest.mark.deep
@pytest.mark.usefixtures("home")
def test_new_embeddings_are_offered_and_none_are_made(texts, tiny, encoded):
    space, queries = embed_both(texts, "bundled")
    run = make_run(*(embed_both(texts, tiny)))
    cache.clear(encoders.EMBEDDING_SECTION)
    encoded.clear()
    identification = engine.identify(run, space, queries)
    assert not identification.sure and NEW_EMBEDDINGS in identification.sentences and not encoded
    assert all(each.encoder is None for each in identification.hypotheses) and not identification.weaker_encoders


@pytest.mark.usefixtures("home")
def test_vectors_count_as_at_hand_with_all_documents_and_the_queries_of_a_split(texts, tiny):
    corpus, queries = texts
    space, _ = embed_both(texts, "bundled")
    dataset = Dataset(corpus, queries, {"test": Qrels({query: {"d1": 1} for query in queries.ids[:35]})})
    engine.embed(corpus, tiny, dtype="float32")
    (found,) = find_dataset_vectors(space, dataset)
    all_texts = dict(zip(queries.ids, queries.texts, strict=True))
    asked_texts = dict(list(all_texts.items())[:N_LISTS])
    assert found.encoder.name == tiny and found.read(asked_texts) is None
    expected = engine.embed(dataset.judged("test"), tiny, dtype="float32")
    documents, vectors = found.read(asked_texts)
    assert documents.ids == corpus.ids and torch.equal(vectors.vectors, expected.vectors)
    assert found.read(all_texts) is None, "five queries are of no split"
    assert found.read({**asked_texts, queries.ids[0]: "another text"}) is None, "an id may stand for another text"
    # A chunk that is gone, or of another corpus, is no vector at hand.
    next(iter(cache.list_files(cache.home() / encoders.EMBEDDING_SECTION))).unlink()
    assert find_cached_vectors(embed_both(texts, tiny)[0], [queries])[0].encoder.name == "bundled"


@pytest.mark.parametrize("decoders", [DECODERS, pytest.param(None, marks=pytest.mark.deep)])
def test_vectors_that_give_the_same_lists_count_as_one(decoders):
    space, queries = make_world()
    run = name_lists(space, queries, list_langchain(space, queries, 0.5, 20))
    pair = rotate(space.embeddings), rotate(queries)
    identification = engine.identify(run, space, queries, decoders=decoders, embeddings=[pair])
    assert identification.sure and identification.best.encoder is None, identification.sentences
    assert identification.best.same == ("MMR on dense vectors of embeddings 1",)


def test_two_encoders_that_explain_equally_and_differ_elsewhere_are_not_sure():
    space, queries = make_world()
    run = name_lists(space, queries, list_langchain(space, queries, 0.5, 20))
    rows = space.vectors.numpy()
    # Documents that no pool of the run reaches point elsewhere: nothing in the run tells the two apart.
    scores = rows @ queries.vectors[: len(run)].numpy().T
    is_reached = np.isin(np.arange(len(rows)), np.argsort(-scores, axis=0)[:21])
    other_rows = rows.copy()
    other_rows[~is_reached] = -np.roll(rows[~is_reached], 1, axis=0)
    other_rows[~is_reached] -= 2 * np.maximum(other_rows[~is_reached] @ rows.mean(0), 0)[:, None] * rows.mean(0)
    lead = (other_rows[~is_reached] @ queries.vectors[: len(run)].numpy().T).max(0) - np.sort(scores, axis=0)[-21]
    if (lead > -1e-3).any():
        other_rows[~is_reached] *= 0.2
    pair = Embeddings(space.corpus.ids, other_rows), queries
    identification = engine.identify(run, space, queries, decoders=DECODERS, embeddings=[pair])
    assert not identification.sure and "do not tell which of several" in identification.sentences[0]
    assert {identification.best.encoder, identification.runner_up.encoder} == {None, "embeddings 1"}


@pytest.mark.parametrize("made_by", ["own", "rounded"])
def test_vectors_that_rounding_tells_apart_count_as_one(made_by):
    space, queries = make_world()
    rounded_rows = torch.nn.functional.normalize(space.vectors.bfloat16().float())
    rounded = Embeddings(space.corpus.ids, rounded_rows)
    source = space if made_by == "own" else engine.Space(space.corpus, rounded, "cpu")
    run = decode_run(source, queries, engine.Decoder(engine.make("mmr", relevance_weight=0.5), depth=20))
    identification = engine.identify(run, space, queries, decoders=DECODERS, embeddings=[(rounded, queries)])
    assert identification.sure and identification.best.decoder.select.relevance_weight == pytest.approx(0.5, abs=0.01)
    assert identification.best.label.startswith("MMR on dense vectors") and not identification.weaker_encoders


def test_encoders_of_one_name_are_told_apart_in_words():
    space, queries = make_world()
    space = engine.Space(
        space.corpus, Embeddings(space.corpus.ids, space.vectors, EncoderRef("one", "a" * 64, "float32")), "cpu"
    )
    rng = np.random.default_rng(1)
    references = [EncoderRef("one", "a" * 64, "bfloat16"), EncoderRef("one", "b" * 64, "float32"), None]
    pairs = []
    for reference in references:
        documents, asked = (rng.normal(size=(size, 12)).astype(np.float32) for size in (300, 50))
        pairs.append((Embeddings(space.corpus.ids, documents, reference), Embeddings(queries.ids, asked, reference)))
    run = name_lists(space, queries, list_langchain(space, queries, 0.5, 20))
    identification = engine.identify(run, space, queries, decoders=DECODERS, embeddings=pairs)
    assert identification.weaker_encoders == ("one in bfloat16", "one in float32 (weights bbbbbbbb)", "embeddings 3")
    few = engine.identify(run, space, queries, decoders=DECODERS, embeddings=pairs * 2)
    assert "2 encoders with vectors" in " ".join(map(str, few.notices))


def test_unusable_embeddings_are_refused_by_name():
    space, queries = make_world()
    run = name_lists(space, queries, list_langchain(space, queries, 0.5, 20))
    short = queries.take(range(10))
    for embeddings, error, message in (
        (space.embeddings, ParamError, "embeddings must be a list of pairs"),
        ([space.embeddings], ParamError, "embeddings must be pairs"),
        ([(space.embeddings, short)], DataError, "embeddings 1 lacks 30"),
        ([(queries, queries)], DataError, "not of this corpus"),
    ):
        with pytest.raises(error, match=message):
            engine.identify(run, space, queries, decoders=DECODERS, embeddings=embeddings)
