"""decode: the selector on a space, through retrieve, rerank and pool; and who may ask what of which space."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
import torch

import engine
from engine.values import EncoderRef
from support.instances import FAMILIES, near_ties, problem
from support.rankings import backwards, queries_of, space_of

TOP = engine.Decoder(select=engine.make("top_k"))


@pytest.mark.parametrize("name", engine.methods("selector"))
@pytest.mark.parametrize("family", FAMILIES)
def test_decode_is_select_on_the_space(name, family):
    for seed in range(3):
        rows, queries = problem(family, seed, n=60, d=7)
        for depth in (None, 5, 20, 1000):
            decoder = engine.Decoder(select=engine.make(name), depth=depth)
            decoded = engine.decode(decoder, space_of(rows), queries_of(queries), k=8)
            selected = engine.select(name, rows, queries, k=8, pool=depth)
            assert torch.equal(decoded.index, selected.index)
            assert torch.allclose(decoded.gain, selected.gain, rtol=0, atol=1e-12)


def test_a_space_settles_near_ties_in_float64():
    rows, query, order = near_ties(1, 200, 64, 1e-6)
    assert engine.decode(TOP, space_of(rows), queries_of(query[None]), k=30).index[0].tolist() == order[:30]


@pytest.fixture
def by_position(monkeypatch):
    return backwards(monkeypatch)


def test_rerank_orders_the_pool_that_retrieve_chose(by_position):
    rows, queries = problem("random", 2, n=40, d=6)
    pool = engine.select("top_k", rows, queries, k=9).index
    decoder = engine.Decoder(select=engine.make("top_k"), rerank=by_position, depth=9)
    answer = engine.decode(decoder, space_of(rows), queries_of(queries), k=5)
    assert answer.index.tolist() == pool.sort(descending=True).values[:, :5].tolist()
    assert answer.gain.tolist() == answer.index.double().tolist()


def test_a_scorer_of_its_own_numbers_can_retrieve(by_position):
    rows, queries = problem("random", 2, n=40, d=6)
    decoder = engine.Decoder(select=engine.make("top_k"), retrieve=by_position)
    answer = engine.decode(decoder, space_of(rows), queries_of(queries), k=3)
    assert answer.index.tolist() == [[39, 38, 37]] * len(queries)


def test_text_is_embedded_as_the_corpus_was(demo):
    dataset, _ = demo
    corpus = engine.Corpus(dataset.corpus.ids[:50], dataset.corpus.texts[:50])
    space = engine.Space(corpus, engine.embed(corpus, dtype="float32"), "cpu")
    texts = ["sort an array"]
    answer = engine.decode(TOP, space, texts, k=5)
    same, bf16_answer = (engine.decode(TOP, space, engine.embed(texts, dtype=d), k=5) for d in ("float32", "bfloat16"))
    assert torch.equal(answer.gain, same.gain)
    assert not torch.equal(answer.gain, bf16_answer.gain), "if both were alike the test could not fail"


def test_queries_of_another_encoder_are_refused():
    rows, queries = problem("random", 1, n=10, d=4)
    space = space_of(rows, encoder=EncoderRef("ours", "aaaa", "float32"))
    engine.decode(TOP, space, queries_of(queries, EncoderRef("ours", "aaaa", "bfloat16")), k=2)
    engine.decode(TOP, space, queries_of(queries), k=2)
    with pytest.raises(engine.DataError, match=r"embedded by theirs .* the corpus by ours"):
        engine.decode(TOP, space, queries_of(queries, EncoderRef("theirs", "bbbb", "float32")), k=2)


@pytest.mark.parametrize(
    "ask,message",
    [
        (lambda s, d: engine.decode(d, s, ["text"]), "came with its own vectors and no encoder"),
        (lambda s, d: engine.decode(d, s, []), "at least one query"),
        (lambda s, d: engine.decode(d, s, queries_of(np.ones((1, 9)))), "dimension; got 9, the corpus has 4"),
        (lambda s, d: engine.decode("mmr", s, queries_of(np.ones((1, 4)))), "decoder must be an engine.Decoder"),
        (lambda s, d: engine.Decoder(select="mmr"), "select must be a Selector"),
        (lambda s, d: engine.Decoder(select=engine.make("dense")), "select must be a Selector"),
        (lambda s, d: engine.Decoder(select=engine.make("mmr"), depth=0), "depth .n. must be a whole number"),
        (lambda s, d: engine.Space(s.corpus, engine.Embeddings(s.corpus.ids[::-1], np.eye(10))), "not of this corpus"),
        (lambda s, d: engine.Embeddings(("a", "a"), np.eye(2)), "1 id more than once"),
        (lambda s, d: engine.Embeddings(("a",), np.eye(2)), "one row per id"),
        (lambda s, d: engine.Corpus(("a", 7), ("x", "y")), "corpus ids must be strings; number 1 is 7"),
        (lambda s, d: engine.Corpus(("a",), (None,)), "corpus texts must be strings; number 0 is None"),
        (lambda s, d: engine.Queries("ab", ("x", "y")), "query ids must be a list of strings"),
    ],
)
def test_mistakes_are_named(ask, message):
    rows, _ = problem("random", 1, n=10, d=4)
    with pytest.raises(engine.FrontierError, match=message):
        ask(space_of(rows), engine.Decoder(select=engine.make("mmr")))


def test_values_with_equal_contents_are_equal():
    def corpus(*ids):
        return engine.Corpus(ids, ("x",) * len(ids))

    assert corpus("a", "bc") == corpus("a", "bc") and corpus("a", "bc") != corpus("ab", "c")
    assert hash(corpus("a")) == hash(corpus("a")) and corpus("a") != engine.Queries(("a",), ("x",))
    rows = np.eye(2, dtype=np.float32)
    embeddings = engine.Embeddings(["a", "b"], rows)
    assert embeddings == engine.Embeddings(("a", "b"), torch.tensor(rows)) and embeddings != engine.Embeddings(
        ("a", "b"), -rows
    )


def test_lowest_twin_finds_exactly_the_identical_rows():
    from engine.matrix import first_duplicate

    rng = np.random.default_rng(3)
    for dtype in (torch.float32, torch.float64):
        rows = torch.tensor(rng.standard_normal((7, 5)), dtype=dtype)[torch.tensor(rng.integers(7, size=200))]
        rows[50] += 1e-6
        assert first_duplicate(rows).tolist() == [(rows == row).all(1).int().argmax() for row in rows]


def test_a_scorer_without_a_finite_score_is_named(monkeypatch):
    from engine.scoring.dense import Dense

    space, queries = space_of(torch.eye(4)), queries_of(torch.eye(4)[:1])
    # Inner products of checked vectors are always finite.
    monkeypatch.setattr(Dense, "inner_product", False)
    for bad in (-torch.inf, torch.nan):
        scores = torch.tensor([[1.0, bad, 0.0, 0.5]])
        monkeypatch.setattr(Dense, "score", lambda *_, scores=scores: scores)
        with pytest.raises(engine.DataError, match="dense gave a document no finite score"):
            engine.decode(engine.Decoder(select=engine.make("mmr")), space, queries, k=2)
    ranking = torch.tensor([[3, 1, 2, 0]])
    monkeypatch.setattr(Dense, "score", lambda *_: ranking)
    assert engine.decode(TOP, space, queries, k=4).index.tolist() == [[0, 2, 1, 3]]


ROWS = np.array([[1.0, 0.0, 0.1], [0.2, 0.9, 0.0], [0.0, 0.8, 0.5], [0.3, 0.1, 0.9]], np.float32)
QUERY = np.array([0.1, 0.9, 0.2])
ARRAYS = {
    "lists": ROWS.tolist(),
    "frame": pd.DataFrame(ROWS),
    "column of arrays": pd.Series(list(ROWS)),
    "tensor with gradient": torch.tensor(ROWS, requires_grad=True),
    "list of tensors": list(torch.tensor(ROWS, requires_grad=True)),
    "arrow lists": pa.array(ROWS.tolist()),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ARRAYS)
def test_vectors_of_every_usual_kind_are_read(kind):
    expected = engine.select("mmr", ROWS, QUERY, k=3).index
    assert engine.select("mmr", ARRAYS[kind], QUERY, k=3).index.equal(expected)
    space = engine.Space.of(pd.Series(list("abcd")), ARRAYS[kind])
    decoder = engine.Decoder(engine.make("top_k"))
    assert engine.decode(decoder, space, ARRAYS[kind], k=1).index.equal(engine.decode(decoder, space, ROWS, k=1).index)


def test_vectors_and_texts_of_polars_are_read():
    polars = pytest.importorskip("polars")
    for vectors in (polars.DataFrame(ROWS), polars.Series(ROWS.tolist())):
        assert engine.select("mmr", vectors, QUERY, k=3).rows() == engine.select("mmr", ROWS, QUERY, k=3).rows()
    assert engine.Corpus(polars.Series(["a"]), polars.Series(["text"])).texts == ("text",)


@pytest.mark.parametrize(
    "queries",
    [pd.Series(["a c"]), np.array(["a c"]), np.array(["a c"], object), {"q": "a c"}, ("a c",)],
    ids=["column", "array", "objects", "dictionary", "tuple"],
)
def test_texts_of_every_usual_kind_are_queries(queries):
    space = engine.Space.of(["a", "b", "c a"], ROWS[:3])
    decoder = engine.Decoder(engine.make("top_k"), engine.make("bm25"))
    assert engine.decode(decoder, space, queries, k=1).rows() == [2]


SPACE = engine.Space.of(list("abcd"), ROWS)
TOP_K = engine.Decoder(engine.make("top_k"))


@pytest.mark.parametrize(
    "ask,message",
    [
        (lambda: engine.select("mmr", QUERY, ROWS), "vectors and queries stand in each other's place"),
        (lambda: engine.path("mmr", QUERY, ROWS), "vectors and queries stand in each other's place"),
        (lambda: engine.select("mmr", ROWS.T, QUERY), r"pass vectors\.T"),
        (lambda: engine.select("mmr", ROWS, np.ones((3, 2))), r"pass queries\.T"),
        (lambda: engine.decode(TOP_K, ["text"], SPACE), "space must be an engine.Space; got list.*each other's place"),
        (lambda: engine.decode(TOP_K, SPACE.corpus, QUERY), "got Corpus. Build one by engine.Space"),
        (lambda: engine.decode(TOP_K, SPACE, SPACE), "queries must be text.*got a Space"),
        (lambda: engine.select("mmr", scipy.sparse.csr_array(ROWS), QUERY), r"vectors must be .*Call \.toarray"),
        (lambda: engine.select("mmr", torch.tensor(ROWS).to_sparse(), QUERY), r"dense array.*Call \.to_dense"),
        (lambda: engine.select("mmr", ["a", "b"], QUERY), "vectors must be .*Texts are embedded by engine.embed"),
        (lambda: engine.select("mmr", pd.DataFrame({"a": ["x"]}), QUERY), "Choose its columns of numbers"),
        (lambda: engine.Corpus(["a"], {"a": "text"}), "corpus texts must be .* got dict. Pass a list of its values"),
        (lambda: engine.Corpus(["a"], pd.DataFrame({"a": ["x"]})), "got DataFrame. Pass one of its columns"),
        (lambda: engine.Corpus([1], ["x"]), "corpus ids must be strings; number 0 is 1. Convert them"),
        (lambda: engine.embed(pd.DataFrame({"a": ["x"]})), "got DataFrame. Pass one of its columns"),
        (lambda: engine.Queries.of(pd.DataFrame({"a": ["x"]})), "texts; got DataFrame. Pass one of its columns"),
        (
            lambda: engine.decode(TOP_K, SPACE, pd.DataFrame({"a": ["x"]})),
            r"Choose its columns of numbers\..* make engine\.Queries",
        ),
        (lambda: engine.Queries(("q",), ("x",), vectors=QUERY), r"got ndarray. Pass engine\.Embeddings\(ids, vectors"),
        (lambda: engine.Qrels(pd.DataFrame({"a": ["x"]})), "got DataFrame. engine.load_qrels reads frames"),
        (lambda: engine.Qrels({"q": ["a"]}), "got lists of documents. engine.load_qrels reads"),
    ],
)
def test_values_in_the_wrong_place_or_of_the_wrong_kind_are_refused_with_the_fix(ask, message):
    with pytest.raises(engine.DataError, match=message):
        ask()
