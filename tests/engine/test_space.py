"""A space of one's own texts and vectors, and queries given as arrays or, to words alone, as texts."""

import numpy as np
import pytest
import torch

import engine
from support.instances import unit

TEXTS = ("a red apple", "a fast car", "a red car", "green apples")
RNG = np.random.default_rng(0)
ROWS = 3 * RNG.standard_normal((4, 5))
QUERIES = 7 * RNG.standard_normal((2, 5))
DECODERS = [engine.Decoder(engine.make(name)) for name in ("top_k", "mmr", "vrsd", "nnn", "dpp")]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_own_vectors_become_unit_rows_and_the_given_ones_stay(kind):
    vectors = ROWS.astype(kind)
    space = engine.Space.of(list(TEXTS), vectors)
    assert space.corpus.ids == ("0", "1", "2", "3") and space.corpus.texts == TEXTS and space.encoder is None
    assert space.vectors.cpu().numpy() == pytest.approx(unit(ROWS), abs=1e-6) and space.matrix.unit
    assert np.array_equal(vectors, ROWS.astype(kind)), "the array is left as it was"
    named = engine.Space.of(TEXTS, torch.from_numpy(vectors), ids=["a", "b", "c", "d"])
    assert named.corpus.ids == named.embeddings.ids == ("a", "b", "c", "d")
    assert torch.equal(named.vectors, space.vectors)


@pytest.mark.parametrize(
    ("texts", "vectors", "ids", "message"),
    [
        (TEXTS[:3], ROWS, None, r"one row per text: 3 texts, shape \(4, 5\)"),
        (TEXTS, ROWS[0], None, r"vectors must be a matrix .* got shape \(5,\)"),
        (TEXTS, ROWS * [[1], [np.nan], [1], [1]], None, "vectors .*finite"),
        (TEXTS, ROWS * [[1], [0], [1], [0]], None, r"2 are all zero \(first: rows 1, 3\)"),
        (TEXTS, [["x"]] * 4, None, "vectors must be"),
        (TEXTS, ROWS, ["a", "b", "c"], "3 ids, 4 texts"),
        (TEXTS, ROWS, ["a", "b", "c", "a"], "more than once"),
        ((*TEXTS[:3], None), ROWS, None, "corpus texts must be strings; number 3 is None"),
    ],
)
def test_mismatched_texts_vectors_or_ids_raise_error(texts, vectors, ids, message):
    with pytest.raises(engine.DataError, match=message):
        engine.Space.of(texts, vectors, ids)


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: decoder.select.spec.name)
@pytest.mark.parametrize("as_given", [np.asarray, torch.from_numpy, lambda rows: rows.astype(np.float32)])
def test_arrays_are_queries_of_length_one(decoder, as_given):
    space = engine.Space.of(TEXTS, ROWS.astype(np.float32))
    expected = engine.decode(decoder, space, engine.Embeddings(("0", "1"), unit(QUERIES).astype(np.float32)), k=3)
    answer = engine.decode(decoder, space, as_given(QUERIES), k=3)
    assert torch.equal(answer.index, expected.index) and answer.gain.numpy() == pytest.approx(
        expected.gain.numpy(), abs=1e-5
    )
    single = engine.decode(decoder, space, as_given(QUERIES)[1], k=3)
    assert single.index.tolist() == expected.index[1:].tolist()


def test_arrays_stay_as_they_are_where_documents_have_other_lengths():
    corpus = engine.Corpus(tuple("abcd"), TEXTS)
    space = engine.Space(corpus, engine.Embeddings(corpus.ids, ROWS))
    answer = engine.decode(DECODERS[0], space, QUERIES, k=4)
    assert answer.gain.numpy() == pytest.approx(np.sort(QUERIES @ ROWS.T, axis=1)[:, ::-1])


def test_lists_of_numbers_and_of_arrays_are_vectors():
    space = engine.Space.of(TEXTS, ROWS)
    expected = engine.decode(DECODERS[1], space, QUERIES)
    for queries in (list(QUERIES), QUERIES.tolist()):
        assert engine.decode(DECODERS[1], space, queries).index.equal(expected.index)


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (QUERIES[:, :3], "dimension; got 3, the corpus has 5"),
        (QUERIES * np.nan, "queries .*finite"),
        (QUERIES[None], "queries must be a matrix"),
        ([None], r"array or engine\.Embeddings\(ids, vectors\); got NoneType among them"),
        (7, r"engine\.Embeddings\(ids, vectors\); got int among them"),
        (["a red car"], r"as an array or as engine\.Embeddings"),
    ],
)
def test_other_queries_are_refused_by_name(queries, message):
    with pytest.raises(engine.DataError, match=message):
        engine.decode(DECODERS[1], engine.Space.of(TEXTS, ROWS), queries)


def test_a_sweep_asks_for_ids_that_name_the_judgements():
    space = engine.Space.of(TEXTS, ROWS)
    with pytest.raises(engine.DataError, match=r"engine\.Queries or engine\.Embeddings; got ndarray"):
        next(engine.sweep(DECODERS, space, QUERIES, engine.Qrels({"0": {"0": 1}})))
    ranking = engine.decode(DECODERS[0], space, QUERIES)
    with pytest.raises(engine.DataError, match=r"engine\.Embeddings, or a list of distinct query ids"):
        engine.measure(ranking, space, QUERIES, metrics=["ilad"])


@pytest.mark.parametrize("select", ["top_k", "mmr", "dpp"])
def test_words_alone_need_no_encoder(select):
    space = engine.Space.of(TEXTS, ROWS)
    decoder = engine.Decoder(engine.make(select), retrieve=engine.make("bm25"))
    named = engine.Embeddings(("0", "1"), QUERIES, texts=("red car", "apples"))
    for queries in (["red car", "apples"], engine.Queries.of(["red car", "apples"])):
        answer = engine.decode(decoder, space, queries, k=2)
        assert torch.equal(answer.index, engine.decode(decoder, space, named, k=2).index)
    assert engine.decode(engine.Decoder(engine.make("top_k"), engine.make("bm25")), space, "red car", k=1).rows() == [2]


@pytest.mark.parametrize(
    "decoder",
    [
        engine.Decoder(engine.make("nnn"), engine.make("bm25"), depth=2),
        engine.Decoder(engine.make("vrsd"), engine.make("bm25")),
        engine.Decoder(engine.make("top_k"), engine.make("hybrid")),
        engine.Decoder(engine.make("top_k"), engine.make("bm25"), engine.make("dense")),
    ],
    ids=lambda decoder: decoder.label,
)
def test_vector_stage_on_words_alone_raises_error(decoder):
    with pytest.raises(engine.DataError, match="came with its own vectors and no encoder"):
        engine.decode(decoder, engine.Space.of(TEXTS, ROWS), ["red car"], k=2)


@pytest.mark.threat(
    "CUDA has no room for the vectors", "the CPU searches them, and it is said; an error where CUDA was asked for"
)
def test_vectors_that_a_gpu_has_no_room_for_are_searched_on_the_cpu(monkeypatch, caplog):
    corpus = engine.Corpus(("a", "b"), ("one", "two"))
    embeddings = engine.Embeddings(corpus.ids, torch.eye(2))
    real = torch.Tensor.to

    def to(self, place, *options, **settings):
        if str(place) == "cuda":
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(self, place, *options, **settings)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.Tensor, "to", to)
    space = engine.Space(corpus, embeddings)
    assert space.device.type == "cpu" and space.vectors.equal(embeddings.vectors)
    assert "cuda has no room for 2 vectors, so the CPU searches them" in caplog.text
    with pytest.raises(engine.FrontierError, match="cuda has no room for 2 vectors: take device='cpu'"):
        engine.Space(corpus, embeddings, "cuda")
