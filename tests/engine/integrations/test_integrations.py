"""What every adapter has in common: over a whole corpus it is engine.decode, and absent frameworks are named."""

import subprocess
import sys

import numpy as np
import pytest

import engine
from engine.integrations import FRAMEWORKS
from support.adapters import ADAPTERS, PACKAGES
from support.instances import random_rows, unit
from support.processes import environment
from support.rankings import space_of

DECODERS = [
    *(engine.Decoder(spec.cls()) for spec in engine.methods("selector").values()),
    engine.Decoder(engine.make("mmr", relevance_weight=0.2), depth=20),
    engine.Decoder(engine.make("dpp", relevance_weight=0.5), rerank=engine.make("truncated", dimension=3), depth=20),
]


def toy(n=60, d=6, batch=3):
    """(space, queries with their texts): no ties."""
    rng = np.random.default_rng(0)
    space = space_of(random_rows(rng, n, d).astype(np.float32), [f"text {i}" for i in range(n)])
    points = unit(rng.standard_normal((batch, d))).astype(np.float32)
    names = tuple(f"q{i}" for i in range(batch))
    return space, engine.Embeddings(names, points, texts=tuple(f"query {i}" for i in range(batch)))


@pytest.mark.parametrize("name", ADAPTERS)
def test_over_the_whole_corpus_it_is_decode(name):
    pytest.importorskip(PACKAGES.get(name, "engine"))
    space, queries = toy()
    fetch, adapt = ADAPTERS[name](space, queries)
    for decoder in DECODERS:
        ranking, ask = engine.decode(decoder, space, queries, k=7), adapt(decoder, 7)
        for b, text in enumerate(queries.texts):
            assert ask(text, fetch(text, 60)) == [space.corpus.ids[row] for row in ranking.rows(b)], decoder.label


@pytest.mark.parametrize("name", [name for name in ADAPTERS if name != "sklearn"])
def test_over_fewer_candidates_it_is_the_decoder_with_that_depth(name):
    pytest.importorskip(PACKAGES.get(name, "engine"))
    space, queries = toy()
    fetch, adapt = ADAPTERS[name](space, queries)
    changed = 0
    for decoder in (engine.Decoder(engine.make("mmr", relevance_weight=0.2)), engine.Decoder(engine.make("nnn"))):
        whole = engine.decode(decoder, space, queries, k=7)
        ranking, ask = engine.decode(engine.Decoder(decoder.select, depth=15), space, queries, k=7), adapt(decoder, 7)
        for b, text in enumerate(queries.texts):
            assert ask(text, fetch(text, 15)) == [space.corpus.ids[row] for row in ranking.rows(b)], decoder.label
        changed += int((whole.index != ranking.index).any(1).sum())
    assert changed  # else the depth would show nothing


@pytest.mark.deep
def test_frameworks_are_imported_when_asked_for_and_named_where_they_are_absent():
    code = "import sys, engine; engine.integrations.answer\n"
    for name, package in PACKAGES.items():
        pytest.importorskip(package)
        top = package.split(".")[0]
        code += (
            f"assert {top!r} not in sys.modules; sys.modules[{top!r}] = None\n"
            f"try: engine.integrations.{name}\nexcept ImportError as error: print(error)\n"
            f"del sys.modules[{top!r}]\n"
        )
    code += "".join(f"print(engine.integrations.{name}.__name__)\n" for name in FRAMEWORKS)
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    refusals, modules = done.stdout.splitlines()[: len(PACKAGES)], done.stdout.splitlines()[len(PACKAGES) :]
    for name, refusal in zip(PACKAGES, refusals, strict=True):
        assert f"pip install 'frontier-retrieval[{name.replace('_', '-')}]'" in refusal
    assert modules == [f"engine.integrations.{name}" for name in FRAMEWORKS]


def test_there_are_no_others():
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        engine.integrations.nosuch  # noqa: B018


def test_sources_of_candidates_limit_the_answer():
    decoder = engine.Decoder(engine.make("mmr"), per_source=1, source="url")
    vectors = np.eye(4, 3) + 0.2
    options = {"vectors": vectors, "query_vector": np.array([1.0, 0.8, 0.6]), "k": 4}
    picked = engine.integrations.answer(decoder, None, sources=["x", "x", None, ""], **options)
    assert sorted(picked.rows) == [0, 2, 3]
    with pytest.raises(engine.DataError, match=r"sources must be given: .* takes them from 'url'"):
        engine.integrations.answer(decoder, None, **options)
    with pytest.raises(engine.DataError, match="sources must have one entry a candidate, 4; got 1"):
        engine.integrations.answer(decoder, None, sources=["x"], **options)


def test_langchain_documents_name_their_sources():
    documents = pytest.importorskip("langchain_core.documents")
    from engine.integrations.langchain import FrontierCompressor

    decoder = engine.Decoder(engine.make("top_k"), per_source=1, source="url")
    compressor = FrontierCompressor(decoder=decoder, k=3, encoder=lambda texts, role: np.eye(3)[: len(texts)] + 0.1)
    urls = ({"url": "x"}, {"url": "x"}, {})
    fetched = [documents.Document(page_content=f"text {i}", metadata=url) for i, url in enumerate(urls)]
    chosen = compressor.compress_documents(fetched, "query")
    assert [document.page_content for document in chosen] == ["text 0", "text 2"]
