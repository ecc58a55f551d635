"""The vectors that come with the demo: used where the cache has none, and never in place of anybody's own."""

import pytest
import torch
from safetensors.torch import save_file

import engine
from engine.data import encoders, shipped
from engine.data.models import encoder_model, precision
from support.encoders import TEXTS, entries, sentences
from support.random_texts import corpus_of

pytestmark = pytest.mark.usefixtures("home")
COMING = TEXTS[:50]


@pytest.fixture
def packed(monkeypatch, tmp_path):
    """Random unit rows that stand in for the bundled encoder's of COMING."""
    vectors = torch.nn.functional.normalize(torch.randn(len(COMING), 384, generator=torch.manual_seed(0)))
    names = [shipped.text_digest("document", "", text) for text in COMING]
    file = tmp_path / "vectors.safetensors"
    save_file(
        shipped.pack_vectors(names, vectors), file, {shipped.WEIGHTS_FIELD: encoder_model.find_source("bundled").digest}
    )
    monkeypatch.setattr(shipped, "shipped_file", lambda: file)
    return vectors


@pytest.fixture
def capable(monkeypatch):
    """Hardware whose bfloat16 is good enough, which nobody has tried yet."""
    monkeypatch.setattr(precision, "describe_hardware", lambda device: "cpu of the future")
    monkeypatch.setattr(precision, "_measured", {})
    monkeypatch.setattr(precision, "measure_fidelity", lambda *a: 0.9999)


def said(found, texts=COMING):
    return "".join(map(str, encoders.shipped_notices(corpus_of(texts), found)))


def test_an_empty_home_asks_the_encoder_for_nothing_that_came(packed, encoded):
    found = engine.embed(corpus_of(COMING))
    assert not encoded
    assert torch.allclose(found.vectors, packed, atol=1e-3) and not torch.equal(found.vectors, packed)
    assert torch.allclose(found.vectors.norm(dim=1), torch.ones(50), atol=1e-6), (
        "the float16 rows are not of unit length"
    )
    assert said(found) == "50 precomputed vectors (float16)"


def test_only_texts_that_differ_are_embedded(packed, encoded):
    found = engine.embed(corpus_of(TEXTS))
    assert sorted(text for batch in encoded for text in batch) == sorted(TEXTS[50:])
    assert torch.allclose(found.vectors[:50], packed, atol=1e-3)
    assert torch.allclose(found.vectors[50:], engine.embed(TEXTS[50:], dtype="float32", cache=False).vectors, atol=1e-5)
    assert said(found, TEXTS).startswith("50 precomputed vectors")


def test_the_second_start_is_the_first_to_the_last_bit(packed, encoded):
    first, kept = engine.embed(corpus_of(TEXTS)), [entry.read_bytes() for entry in entries()]
    encoded.clear()
    again = engine.embed(corpus_of(TEXTS))
    assert again == first and again.digest == first.digest and not encoded
    assert [entry.read_bytes() for entry in entries()] == kept


def test_a_home_with_vectors_of_its_own_keeps_them(packed, monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        patch.setattr(shipped, "shipped_file", lambda: tmp_path / "none")
        before = engine.embed(corpus_of(COMING))
    assert engine.embed(corpus_of(COMING)).digest == before.digest
    assert said(before) == ""


def test_what_the_cache_holds_in_part_is_embedded_to_its_end(packed, monkeypatch, encoded):
    monkeypatch.setattr(encoders, "_MAX_CHUNK_TEXTS", 20)
    engine.embed(corpus_of(COMING))
    entries()[0].unlink()
    engine.embed(corpus_of(COMING))
    assert encoded


def test_own_bfloat16_stays_and_is_never_replaced(packed, capable):
    before = engine.embed(corpus_of(COMING), dtype="bfloat16")
    assert not torch.allclose(before.vectors, packed, atol=0.1)
    after = engine.embed(corpus_of(COMING))
    assert after.encoder.dtype == "bfloat16" and after.digest == before.digest
    asked = engine.embed(corpus_of(COMING), dtype="float32")
    assert not torch.allclose(asked.vectors, packed, atol=0.1), "it is compared with what is there"


def test_what_came_needs_no_probe_of_the_precision(packed, capable, encoded):
    labels = []
    found = engine.embed(corpus_of(COMING), progress=lambda done, total, label: labels.append(label))
    assert found.encoder.dtype == "float32" and not encoded and encoders.PROBING not in labels
    assert encoders.read_embedded_texts(corpus_of(COMING)) == found
    # Another corpus has bfloat16 tried, and the demo stays as it was.
    assert engine.embed(["another text"]).encoder.dtype == "bfloat16"
    assert engine.embed(corpus_of(COMING)).digest == found.digest


@pytest.mark.parametrize("how", ["few", "role", "weights", "cache"])
def test_other_texts_roles_weights_and_no_cache_take_nothing(packed, encoded, copy, how):
    given = corpus_of(sentences(60, seed=1) + COMING[:20]) if how == "few" else corpus_of(COMING[:20])
    how = {
        "few": {},
        "role": {"role": "query"},
        "weights": {"encoder": str(copy(config_sentence_transformers__json={"prompts": {"document": "passage: "}}))},
        "cache": {"cache": False},
    }[how]
    engine.embed(given, dtype="float32", **how)
    assert sum(map(len, encoded)) == len(given)


def test_the_demo_comes_whole(encoded):
    """With every NumPy that the file was made for; `frontier` then starts without an encoder."""
    dataset = engine.load_dataset("numpy-api")
    corpus, queries = engine.embed(dataset.corpus), engine.embed(dataset.queries)
    assert not encoded, f"{len(encoded)} batches had to be embedded: make the vectors again (assets/demo/README.md)"
    assert corpus.vectors.shape == (len(dataset.corpus), 384) and len(queries) == len(dataset.queries)
    some = dataset.corpus.ids[::100]
    texts = [dataset.corpus.passages[dataset.corpus.position[doc]] for doc in some]
    # What came is float32's; hardware that is fast at bfloat16 would take that.
    own = engine.embed(texts, role="document", dtype="float32", cache=False)
    ours = corpus.take([dataset.corpus.position[doc] for doc in some])
    assert (own.vectors - ours.vectors).abs().max() < 3e-4, "what float16 leaves of a unit row"


@pytest.mark.slow
def test_rankings_are_those_of_own_vectors():
    dataset = engine.load_dataset("numpy-api")
    parts = (dataset.corpus, dataset.queries)
    (documents, queries), (own_documents, own_queries) = (
        [engine.embed(part, cache=cache, dtype="float32").vectors for part in parts] for cache in (True, False)
    )
    cosines, own_cosines = queries @ documents.T, own_queries @ own_documents.T
    assert (cosines - own_cosines).abs().max() < 2e-4
    ranked = engine.select("top_k", documents, queries, k=10).index
    own_ranked = engine.select("top_k", own_documents, own_queries, k=10).index
    assert (ranked == own_ranked).all(1).float().mean() > 0.97
    # Where two lists part, the documents that change places are as relevant to within the rounding.
    mine, theirs = (own_cosines.gather(1, rows) for rows in (ranked, own_ranked))
    assert (mine - theirs).abs().max() < 2e-4
