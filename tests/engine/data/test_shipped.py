"""The vectors that come with the demo: used where the cache has none, and never in place of anybody's own."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

import engine
from engine.data import encoders, shipped
from engine.data.models import encoder_model, precision
from engine.maps import layout
from support.encoders import TEXTS, entries, sentences
from support.random_texts import corpus_of

pytestmark = pytest.mark.usefixtures("home")
SHIPPED = TEXTS[:50]


@pytest.fixture
def shipped_vectors(monkeypatch, tmp_path):
    """Random unit rows that stand in for the bundled encoder's of COMING."""
    vectors = torch.nn.functional.normalize(torch.randn(len(SHIPPED), 384, generator=torch.manual_seed(0)))
    names = [shipped.text_digest("document", "", text) for text in SHIPPED]
    file = tmp_path / "vectors.safetensors"
    save_file(
        shipped.pack_vectors(names, vectors), file, {shipped.WEIGHTS_FIELD: encoder_model.find_source("bundled").digest}
    )
    monkeypatch.setattr(shipped, "shipped_file", lambda: file)
    return vectors


@pytest.fixture
def capable_hardware(monkeypatch):
    """Hardware whose bfloat16 is good enough, which nobody has tried yet."""
    monkeypatch.setattr(precision, "describe_hardware", lambda device: "cpu of the future")
    monkeypatch.setattr(precision, "_measured", {})
    monkeypatch.setattr(precision, "measure_fidelity", lambda *a: 0.9999)


def notices_of(result, texts=SHIPPED):
    return "".join(map(str, encoders.shipped_notices(corpus_of(texts), result)))


def test_shipped_vectors_are_not_embedded_again(shipped_vectors, batches):
    result = engine.embed(corpus_of(SHIPPED))
    assert not batches
    assert torch.allclose(result.vectors, shipped_vectors, atol=1e-3) and not torch.equal(
        result.vectors, shipped_vectors
    )
    assert torch.allclose(result.vectors.norm(dim=1), torch.ones(50), atol=1e-6), (
        "the float16 rows are not of unit length"
    )
    assert notices_of(result) == "50 precomputed vectors (float16)"


def test_only_texts_that_differ_are_embedded(shipped_vectors, batches):
    result = engine.embed(corpus_of(TEXTS))
    assert sorted(text for batch in batches for text in batch) == sorted(TEXTS[50:])
    assert torch.allclose(result.vectors[:50], shipped_vectors, atol=1e-3)
    assert torch.allclose(
        result.vectors[50:], engine.embed(TEXTS[50:], dtype="float32", cache=False).vectors, atol=1e-5
    )
    assert notices_of(result, TEXTS).startswith("50 precomputed vectors")


def test_second_start_returns_bitwise_equal_vectors(shipped_vectors, batches):
    first, stored = engine.embed(corpus_of(TEXTS)), [entry.read_bytes() for entry in entries()]
    batches.clear()
    again = engine.embed(corpus_of(TEXTS))
    assert again == first and again.digest == first.digest and not batches
    assert [entry.read_bytes() for entry in entries()] == stored


def test_a_home_with_vectors_of_its_own_keeps_them(shipped_vectors, monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        patch.setattr(shipped, "shipped_file", lambda: tmp_path / "none")
        first = engine.embed(corpus_of(SHIPPED))
    assert engine.embed(corpus_of(SHIPPED)).digest == first.digest
    assert notices_of(first) == ""


def test_partly_cached_texts_are_embedded_to_the_end(shipped_vectors, monkeypatch, batches):
    monkeypatch.setattr(encoders, "_MAX_CHUNK_TEXTS", 20)
    engine.embed(corpus_of(SHIPPED))
    entries()[0].unlink()
    engine.embed(corpus_of(SHIPPED))
    assert batches


def test_own_bfloat16_stays_and_is_never_replaced(shipped_vectors, capable_hardware):
    first = engine.embed(corpus_of(SHIPPED), dtype="bfloat16")
    assert not torch.allclose(first.vectors, shipped_vectors, atol=0.1)
    after = engine.embed(corpus_of(SHIPPED))
    assert after.encoder.dtype == "bfloat16" and after.digest == first.digest
    wide = engine.embed(corpus_of(SHIPPED), dtype="float32")
    assert not torch.allclose(wide.vectors, shipped_vectors, atol=0.1), "it is compared with what is there"


def test_shipped_vectors_need_no_precision_probe(shipped_vectors, capable_hardware, batches):
    labels = []
    result = engine.embed(corpus_of(SHIPPED), progress=lambda done, total, label: labels.append(label))
    assert result.encoder.dtype == "float32" and not batches and encoders.PROBING not in labels
    assert encoders.read_embedded_texts(corpus_of(SHIPPED)) == result
    # Another corpus has bfloat16 tried, and the demo stays as it was.
    assert engine.embed(["another text"]).encoder.dtype == "bfloat16"
    assert engine.embed(corpus_of(SHIPPED)).digest == result.digest


@pytest.mark.parametrize("how", ["few", "role", "weights", "cache"])
def test_shipped_vectors_are_unused_for_other_texts_roles_weights_or_without_cache(shipped_vectors, batches, copy, how):
    texts = corpus_of(sentences(60, seed=1) + SHIPPED[:20]) if how == "few" else corpus_of(SHIPPED[:20])
    how = {
        "few": {},
        "role": {"role": "query"},
        "weights": {"encoder": str(copy(config_sentence_transformers__json={"prompts": {"document": "passage: "}}))},
        "cache": {"cache": False},
    }[how]
    engine.embed(texts, dtype="float32", **how)
    assert sum(map(len, batches)) == len(texts)


def test_demo_is_fully_covered_by_shipped_vectors(batches):
    """With every NumPy that the file was made for; `frontier` then starts without an encoder."""
    dataset = engine.load_dataset("numpy-api")
    corpus, queries = engine.embed(dataset.corpus), engine.embed(dataset.queries)
    assert not batches, f"{len(batches)} batches had to be embedded: make the vectors again (assets/demo/README.md)"
    assert corpus.vectors.shape == (len(dataset.corpus), 384) and len(queries) == len(dataset.queries)
    sample = dataset.corpus.ids[::100]
    texts = [dataset.corpus.passages[dataset.corpus.position[doc]] for doc in sample]
    # What came is float32's; hardware that is fast at bfloat16 would take that.
    direct = engine.embed(texts, role="document", dtype="float32", cache=False)
    ours = corpus.take([dataset.corpus.position[doc] for doc in sample])
    assert (direct.vectors - ours.vectors).abs().max() < 3e-4, "what float16 leaves of a unit row"


@pytest.mark.deep
def test_the_shipped_map_is_what_the_shipped_vectors_give(monkeypatch):
    """With every NumPy that the file was made for; the first map then comes at once."""
    corpus = engine.load_dataset("numpy-api").corpus
    space = engine.Space(corpus, engine.embed(corpus))
    monkeypatch.setattr(layout, "_tsne", None)
    first = layout.layout(space)  # nothing is computed
    with pytest.raises(TypeError):
        layout.layout(space, seed=1)
    monkeypatch.undo()
    computed = layout.layout(space, cache=False)
    assert first.digest == computed.digest, "make the maps again (assets/demo/README.md)"
    vectors = space.embeddings.vectors.clone()
    vectors[0, 0] += 1e-6
    moved = space.with_embeddings(replace(space.embeddings, vectors=vectors))
    request = layout.LayoutRequest.check(moved, "tsne", 30.0, 0, len(corpus))
    assert shipped.find_shipped_map(request.key) is None, "one bit more or less is another map"


@pytest.mark.slow
def test_rankings_are_those_of_own_vectors():
    dataset = engine.load_dataset("numpy-api")
    parts = (dataset.corpus, dataset.queries)
    (documents, queries), (direct_documents, direct_queries) = (
        [engine.embed(part, cache=cache, dtype="float32").vectors for part in parts] for cache in (True, False)
    )
    cosines, direct_cosines = queries @ documents.T, direct_queries @ direct_documents.T
    assert (cosines - direct_cosines).abs().max() < 2e-4
    ranked = engine.select("top_k", documents, queries, k=10).index
    direct_ranked = engine.select("top_k", direct_documents, direct_queries, k=10).index
    assert (ranked == direct_ranked).all(1).float().mean() > 0.97
    # Where two lists part, the documents that change places are as relevant to within the rounding.
    mine, theirs = (direct_cosines.gather(1, rows) for rows in (ranked, direct_ranked))
    assert (mine - theirs).abs().max() < 2e-4
