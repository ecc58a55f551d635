"""Snippets: each is run, parsed or held against the client that it is written for, and gives the same documents."""

import json
import re
import shlex

import numpy as np
import pytest

import engine
from dashboard.serve import main
from engine.cli.decode import decoder_from_flags
from engine.evaluation import export_decoder as exporting
from engine.evaluation.export_decoder import (
    EXPORT_TARGETS,
    ExportContext,
    export,
    export_all,
    read_setting,
    write_short_code,
)
from engine.evaluation.studies.pool_depth import PoolDepth
from engine.evaluation.sweep.cell import decoder_from_json
from support.instances import random_rows, unit
from support.rankings import queries_of, space_of

COLLECTION = "it's $(one) \n# é"
STORES = ("langchain", "qdrant", "opensearch")
HOSTILE = 'a "b" \'c\' $(touch x) `y` \\ \n"""\n; rm -rf / # é → 😀'


def toy(n=60, d=6, seed=0):
    """(space, query): vectors of length 1, none tied."""
    rng = np.random.default_rng(seed)
    rows, query = random_rows(rng, n, d).astype(np.float32), unit(rng.standard_normal(d)).astype(np.float32)
    return space_of(rows, tuple(f"text {i}" for i in range(n))), query


def decode_picks(space, query, decoder, k):
    return [space.corpus.ids[row] for row in engine.decode(decoder, space, queries_of(query[None]), k).rows()]


def mmr(weight, depth=None, **params):
    return engine.Decoder(engine.make("mmr", relevance_weight=weight, **params), depth=depth)


def every_decoder():
    """A decoder a selector, and one with every parameter, pool and reranker away from its default."""
    for spec in engine.methods("selector").values():
        changed = {p.name: next(v for v in p.grid(5) if v not in (p.default, None)) for p in spec.params}
        decoder = engine.Decoder(spec.cls())
        # A selector that reads the vectors alone takes no reranker.
        rerank = engine.make("dense") if spec.cls.by_scores else None
        yield from (decoder, engine.Decoder(spec.cls(**changed), rerank=rerank, depth=40))


EVERY = pytest.mark.parametrize("decoder", list(every_decoder()), ids=lambda d: d.label[:40])


@pytest.fixture
def table(tmp_path):
    """A corpus of a few documents as a CSV file whose name needs quoting."""
    path = tmp_path / 'it\'s a "corpus".csv'
    path.write_text("id,text\na,a red apple\nb,a green pear\nc,a fast car\nd,a slow train\n", encoding="utf-8")
    return str(path)


@EVERY
def test_python_runs_and_retrieves_the_same(decoder, table, capsys):
    snippet = export(decoder, "python", ExportContext(corpus=table, query="fast cars", k=3))
    scope = {}
    exec(compile(snippet.text, "snippet", "exec"), scope)
    assert scope["decoder"] == decoder
    printed = capsys.readouterr().out.strip()
    space = engine.Space(scope["dataset"].corpus, engine.embed(scope["dataset"].corpus))
    rows = engine.decode(decoder, space, ["fast cars"], k=3).rows()
    assert printed == str([space.corpus.ids[row] for row in rows]) and snippet.possible


def test_python_for_a_corpus_that_brought_its_vectors(tmp_path, monkeypatch, capsys):
    space, query = toy()
    np.savez(tmp_path / "corpus.npz", vectors=space.vectors.numpy(), ids=np.array(space.corpus.ids))
    np.savez(tmp_path / "queries.npz", vectors=query[None], ids=np.array(["q"]))
    text = export(mmr(0.6), "python", ExportContext(corpus=str(tmp_path / "corpus.npz"), encoder=None, k=4)).text
    exec(compile(text.replace("queries.npy", str(tmp_path / "queries.npz")), "snippet", "exec"), {})
    assert capsys.readouterr().out.strip() == str(decode_picks(space, query, mmr(0.6), 4))


@EVERY
def test_the_short_form_is_few_lines_and_makes_the_same_decoder(decoder, table):
    lines = write_short_code(decoder, ExportContext(k=3, corpus=str(table)))
    assert len(lines) == 4 and "decoder = " in lines[2]
    scope = {"engine": engine}
    exec("\n".join(lines[:3]), scope)
    assert scope["decoder"] == decoder and len(scope["space"]) == len(scope["dataset"].corpus)
    assert lines[3] == "ranking = engine.decode(decoder, space, dataset.queries, k=3)"
    short_code = write_short_code(decoder, ExportContext(encoder=None, trained="kept.safetensors"))
    assert [line for line in lines if "Decoder" in line] == [line for line in short_code if "Decoder" in line]
    assert "dataset.vectors" in short_code[1] and "kept.safetensors" in short_code[2] and "queries.npy" in short_code[4]


@EVERY
def test_json_is_read_back(decoder):
    settings = json.loads(export(decoder, "json", ExportContext(k=7)).text)
    assert decoder_from_json(settings["decoder"]) == decoder and settings["k"] == 7


def parse_command(text):
    """The command's parameters, as click reads what a shell hands over."""
    words = shlex.split(text)
    assert words[:2] == ["frontier", "decode"]
    command = main.commands["decode"]
    return command.make_context("decode", words[2:]).params


@EVERY
def test_the_command_is_parsed_by_the_command_line(decoder):
    params = parse_command(
        export(decoder, "command", ExportContext(k=7, query=HOSTILE, corpus="-odd name", encoder="other")).text
    )
    decoder_params = {
        name: value for name, value in params.items() if name not in ("corpus", "qrels", "texts", "encoder")
    }
    assert decoder_from_flags(decoder_params) == decoder
    assert (params["k"], params["texts"], params["corpus"]) == (7, (HOSTILE,), "-odd name")
    assert params["encoder"] == "other"


def test_export_includes_table_columns(tmp_path, capsys):
    path = tmp_path / "odd.csv"
    path.write_text("doc no\tbody\ttopic\na\ta red apple\tfood\na\ta pear\tfood\nb\ta car\tcars\n", encoding="utf-8")
    reading = {
        "columns": {"text": "body", "id": "doc no"},
        "where": {"topic": ["food"]},
        "separator": "\t",
        "repeated": "number",
    }
    use = ExportContext(corpus=str(path), reading=reading, query="fruit", k=2)
    exec(compile(export(mmr(0.4), "python", use).text, "snippet", "exec"), {})
    assert sorted(eval(capsys.readouterr().out)) == ["a", "a-2"]
    params = parse_command(export(mmr(0.4), "command", use).text)
    assert {name: params[name] for name in reading} == reading
    written = json.loads(export(mmr(0.4), "json", use).text)
    assert read_setting(written)[1].reading == reading
    with pytest.raises(engine.DataError, match="holds no decoder"):
        read_setting({**written, "reading": {"progress": 1}})


@pytest.mark.parametrize(("dropped", "threshold"), [("copies", None), ("near", 0.6)])
def test_every_form_drops_the_duplicates_that_were_dropped(dropped, threshold, tmp_path, capsys):
    path = tmp_path / "fruit.csv"
    path.write_text("id,text\na,a red apple\nb,a red apple\nc,a red apple!\nd,a slow train\n", encoding="utf-8")
    use = ExportContext(corpus=str(path), query="fruit", k=4, drop_duplicates=dropped, duplicate_threshold=threshold)
    exec(compile(export(mmr(0.4), "python", use).text, "snippet", "exec"), {})
    assert sorted(eval(capsys.readouterr().out)) == (["a", "c", "d"] if dropped == "copies" else ["a", "d"])
    params = parse_command(export(mmr(0.4), "command", use).text)
    read_back = read_setting(json.loads(export(mmr(0.4), "json", use).text))[1]
    for name, value in (("drop_duplicates", dropped), ("duplicate_threshold", threshold)):
        assert params[name] == getattr(read_back, name) == value


def test_the_command_runs(table):
    from click.testing import CliRunner

    text = export(mmr(0.4), "command", ExportContext(corpus=table, query="fruit", k=2)).text
    done = CliRunner().invoke(main, [*shlex.split(text)[1:], "--json"], catch_exceptions=False)
    assert done.exit_code == 0 and json.loads(done.stdout)["decoder"] == mmr(0.4).label
    no = export(mmr(0.4), "command", ExportContext(encoder=None))
    assert not no.possible and "own vectors" in no.text


def langchain_store(space, query):
    pytest.importorskip("langchain_core")
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    rows = dict(zip(space.corpus.texts, space.vectors.tolist(), strict=True))

    class Given(Embeddings):
        def embed_documents(self, texts):
            return [rows[text] for text in texts]

        def embed_query(self, text):
            assert text == HOSTILE
            return query.tolist()

    store = InMemoryVectorStore(Given())
    store.add_texts(list(space.corpus.texts), ids=list(space.corpus.ids))
    return store


def qdrant_client(space):
    qdrant = pytest.importorskip("qdrant_client")
    from qdrant_client import models

    client = qdrant.QdrantClient(":memory:")
    size, distance = space.vectors.shape[1], models.Distance.COSINE
    client.create_collection(COLLECTION, vectors_config=models.VectorParams(size=size, distance=distance))
    points = [models.PointStruct(id=i, vector=row) for i, row in enumerate(space.vectors.tolist())]
    client.upsert(COLLECTION, points)
    return client


def opensearch(space, query, text):
    """Answer a request as OpenSearch documents it."""
    comments, _, request = text.partition("POST ")
    assert all(line.startswith("#") for line in comments.strip().split("\n"))
    line, _, body = request.partition("\n")
    body = json.loads(body)
    assert line == "/documents/_search" and set(body) <= {"size", "query", "ext"}
    ((field, knn),) = body["query"]["knn"].items()
    assert field == "embedding" and set(knn) == {"vector", "k"} and all(type(v) is float for v in knn["vector"])
    # cosinesimil scores (1 + cos)/2, and that is what is compared, too.
    unit_rows = space.vectors.double().numpy()
    relevance, similar = (1 + unit_rows @ query.astype(float)) / 2, (1 + unit_rows @ unit_rows.T) / 2
    nearest = np.argsort(-relevance, kind="stable")[: knn["k"]].tolist()
    if "ext" not in body:
        return [space.corpus.ids[row] for row in nearest[: body["size"]]]
    assert all(name in comments for name in exporting.OPENSEARCH_FACTORIES)
    extension = body["ext"]["mmr"]
    assert set(extension) == {"diversity", "candidates"} and extension["candidates"] == knn["k"]
    share, chosen = extension["diversity"], []
    while len(chosen) < body["size"] and len(chosen) < len(nearest):
        remaining = [row for row in nearest if row not in chosen]
        worth = [(1 - share) * relevance[r] - share * max([0.0, *similar[r, chosen]]) for r in remaining]
        chosen.append(remaining[int(np.argmax(worth))])
    return [space.corpus.ids[row] for row in chosen]


def run_export(target, space, query, decoder, k=8, **use):
    snippet = export(decoder, target, ExportContext(k=k, query=HOSTILE, collection="documents", **use))
    assert snippet.possible, snippet.text
    match target:
        case "langchain":
            scope = {"store": langchain_store(space, query)}
            exec(compile(snippet.text, "snippet", "exec"), scope)
            return [document.id for document in scope["documents"]]
        case "qdrant":
            scope = {"client": qdrant_client(space), "vector": query.tolist()}
            text = export(decoder, target, ExportContext(k=k, collection=COLLECTION, **use)).text
            exec(compile(text, "snippet", "exec"), scope)
            return [space.corpus.ids[point.id] for point in scope["found"].points]
    return opensearch(space, query, snippet.text)


@pytest.mark.parametrize("target", STORES)
@pytest.mark.parametrize(
    "decoder, wrong",
    [
        *((mmr(weight), mmr(1 - weight)) for weight in (0.0, 0.2, 0.7, 1.0)),
        (mmr(0.5), None),
        (mmr(0.3, depth=12), mmr(0.3)),
        (engine.Decoder(engine.make("top_k")), None),
    ],
    ids=lambda decoder: decoder and decoder.label,
)
def test_store_export_picks_what_the_decoder_picks(target, decoder, wrong):
    for seed in range(1):
        space, query = toy(seed=seed)
        expected = decode_picks(space, query, decoder, 8)
        assert run_export(target, space, query, decoder, documents=60) == expected
        # The wrong direction, or another pool, would have been seen.
        assert wrong is None or expected != decode_picks(space, query, wrong, 8)


@pytest.mark.parametrize("target", STORES)
def test_a_store_gives_no_more_than_the_pool_and_searches_plainly_for_top_k(target):
    assert len(run_export(target, *toy(), mmr(0.3, depth=5))) == 5
    assert "mmr" not in export(engine.Decoder(engine.make("top_k")), target).text.lower()


def test_unsupported_store_export_says_so():
    kinds = {name: engine.Decoder(spec.cls()) for name, spec in engine.methods("selector").items()}
    for name, decoder in kinds.items():
        snippet = export(decoder, "opensearch")
        assert snippet.possible == (name in exporting.STORE_SEARCHES), snippet.text
        if not snippet.possible:
            assert "cannot express" in snippet.text and decoder.select.spec.title in snippet.text
            assert snippet.language == "text" and not re.search(r"client|store\.|POST", snippet.text)
    for decoder, why in (
        (mmr(0.5, window=3), "no window (w), which is 3"),
        (engine.Decoder(engine.make("mmr"), rerank=engine.make("dense")), "does not rerank by dense"),
    ):
        assert not export(decoder, "opensearch").possible and why in export(decoder, "opensearch").text


def llama_index_scope(space, query):
    pytest.importorskip("llama_index.core")
    from llama_index.core import VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.schema import TextNode

    rows = dict(zip(space.corpus.texts, space.vectors.tolist(), strict=True))

    class Given(BaseEmbedding):
        def _get_text_embedding(self, text):
            return rows[text]

        def _get_query_embedding(self, text):
            assert text == HOSTILE
            return query.tolist()

        async def _aget_query_embedding(self, text):
            raise NotImplementedError

    nodes = [TextNode(id_=i, text=text) for i, text in zip(space.corpus.ids, space.corpus.texts, strict=True)]
    return {"index": VectorStoreIndex(nodes, embed_model=Given()), "embed_model": Given()}


def haystack_scope(space, query):
    pytest.importorskip("haystack")
    from haystack import Document
    from haystack.components.retrievers import InMemoryEmbeddingRetriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store = InMemoryDocumentStore()
    corpus = zip(space.corpus.ids, space.corpus.texts, space.vectors.tolist(), strict=True)
    store.write_documents([Document(id=i, content=text, embedding=vector) for i, text, vector in corpus])
    return {"retriever": InMemoryEmbeddingRetriever(store, return_embedding=True), "vector": query.tolist()}


INTEGRATED = {
    "langchain": (lambda *of: {"store": langchain_store(*of)}, lambda s: [d.id for d in s["documents"]]),
    "llama_index": (llama_index_scope, lambda s: [node.node_id for node in s["nodes"]]),
    "haystack": (haystack_scope, lambda s: [document.id for document in s["documents"]]),
    "qdrant": (
        lambda space, query: {"client": qdrant_client(space), "vector": query.tolist()},
        lambda s: [f"d{point.id}" for point in s["points"]],
    ),
}


@pytest.mark.parametrize("target", INTEGRATED)
def test_framework_export_falls_back_to_the_engine(target):
    """Run against the real packages; the pool in the snippet is the one that is asked for."""
    space, query = toy()
    make, ids = INTEGRATED[target]
    other_decoders = [
        engine.Decoder(spec.cls())
        for name, spec in engine.methods("selector").items()
        if name not in exporting.STORE_SEARCHES
    ]
    reranked = engine.Decoder(engine.make("ssd"), rerank=engine.make("truncated", dimension=3), depth=20)
    scope = make(space, query)
    for decoder in (*other_decoders, mmr(0.3, window=3), engine.Decoder(engine.make("dpp"), depth=15), reranked):
        use = ExportContext(k=6, query=HOSTILE, collection=COLLECTION, documents=60)
        snippet = export(decoder, target, use)
        assert snippet.possible and "engine.integrations" in snippet.text
        ran = dict(scope)
        exec(compile(snippet.text, "snippet", "exec"), ran)
        assert ids(ran) == decode_picks(space, query, decoder, 6), decoder.label
        assert str(decoder.depth or 60) in snippet.text
    assert export(mmr(0.3), target).possible


@pytest.mark.parametrize("target", INTEGRATED)
def test_candidates_are_as_many_as_was_measured_or_it_says_that_nothing_was(target):
    decoder = engine.Decoder(engine.make("dpp"))
    measured = export(decoder, target, ExportContext(documents=5000, pool=PoolDepth(321, 0.9934, 158))).text
    comment = measured.replace("\n#   ", " ")
    assert "321 candidates: measured on 158 queries, of which 99.3% get the same documents as from all." in comment
    assert re.search(r"(k|top_k|limit)=321\b", measured)
    default = export(decoder, target, ExportContext(documents=5000)).text
    assert "200 candidates: not measured; engine.pool_depth" in default and re.search(r"(k|top_k|limit)=200\b", default)
    assert "All 60 documents are candidates" in export(decoder, target, ExportContext(documents=60)).text
    assert re.search(r"(k|top_k|limit)=300\b", export(decoder, target, ExportContext(k=300)).text)
    measured_pool = export(mmr(0.4), target, ExportContext(documents=5000, pool=PoolDepth(321, 1.0, 1))).text
    assert "321 candidates: measured on 1 query, of which 100%" in measured_pool.replace("\n#   ", " ")


@pytest.mark.parametrize("target", INTEGRATED)
def test_export_serves_decoders_that_candidates_cannot_express(target):
    words = engine.Decoder(engine.make("dpp"), retrieve=engine.make("bm25"))
    again = engine.Decoder(engine.make("dpp"), rerank=engine.make("bm25"), depth=50)
    for decoder in (words, again):
        snippet = export(decoder, target)
        assert not snippet.possible and "frontier answer" in snippet.text and "bm25" in snippet.text


def test_serve_export_is_a_valid_shell_command():
    lines = export(mmr(0.4), "service", ExportContext(query=HOSTILE)).text.splitlines(keepends=True)
    assert shlex.split(lines[1]) == ["frontier", "answer", "--decoder", "setting.json"]
    curl = shlex.split("".join(lines[3:]))
    assert json.loads(curl[curl.index("-d") + 1]) == {"queries": [HOSTILE]} and curl[-1].endswith(":8600/answer")
    assert '"vectors"' in export(mmr(0.4), "service", ExportContext(encoder=None)).text
    command = main.commands["answer"]
    assert command.make_context("answer", shlex.split(lines[1])[2:]).params["port"] == 8600


def test_settings_are_read_back_with_their_use(tmp_path):
    use = ExportContext(k=7, corpus="c", encoder="e", trained="t", dtype="float32")
    (tmp_path / "setting.json").write_text(export(mmr(0.4), "json", use).text, encoding="utf-8")
    assert read_setting(tmp_path / "setting.json") == (mmr(0.4), use)
    assert read_setting(mmr(0.4)) == (mmr(0.4), None)
    with pytest.raises(engine.DataError, match="holds no decoder"):
        read_setting({"decoder": {"select": "mmr"}})


@pytest.mark.parametrize(
    "target,limit", [("qdrant", exporting.MAX_QDRANT_POOL), ("opensearch", exporting.MAX_OPENSEARCH_POOL)]
)
def test_export_of_pool_beyond_store_limit_says_so(target, limit):
    assert export(mmr(0.5, depth=limit), target).possible
    beyond = export(mmr(0.5, depth=limit + 1), target)
    assert not beyond.possible and f"{limit:,} documents at most" in beyond.text
    assert f"--depth {limit}" in export(mmr(0.5), target, ExportContext(documents=10 * limit)).text.replace(
        "\n#   ", " "
    )


def test_qdrants_limit_is_the_clients():
    pytest.importorskip("qdrant_client")
    from qdrant_client.local.qdrant_local import QdrantLocal

    assert getattr(QdrantLocal, "MMR_CANDIDATES_LIMIT_MAX", exporting.MAX_QDRANT_POOL) == exporting.MAX_QDRANT_POOL


def test_forms_are_of_registered_selectors_and_their_weights():
    for name, form in exporting.STORE_SEARCHES.items():
        params = {p.name: p for p in engine.methods("selector")[name].params}
        assert form.weight is None or (params[form.weight].low, params[form.weight].high) == (0, 1)
        assert (form.search == "mmr") == (form.weight is not None)


def test_the_flipped_weight_is_written_as_a_person_would():
    assert "diversity=0.3," in export(mmr(0.7), "qdrant").text
    assert '"diversity": 0.1,' in export(mmr(0.9), "opensearch").text


def test_an_index_is_quoted_in_an_address():
    text = export(mmr(0.5), "opensearch", ExportContext(collection="a b/../_all\nDELETE /")).text
    assert "POST /a%20b%2F..%2F_all%0ADELETE%20%2F/_search\n" in text


def test_export_of_all_targets_and_unknown_target():
    assert [s.target for s in export_all(mmr(0.5))] == list(EXPORT_TARGETS)
    with pytest.raises(engine.ParamError, match="target must be one of python, json"):
        export(mmr(0.5), "nosuch")
    with pytest.raises(engine.ParamError, match="k must be a whole number"):
        ExportContext(k=0)
    with pytest.raises(engine.ParamError, match=r"must be an engine\.Decoder"):
        export("mmr", "json")


def test_the_level_of_relevance_goes_into_the_command_and_the_setting(tmp_path):
    use, file = ExportContext(relevant_from=2), tmp_path / "setting.json"
    assert parse_command(export(mmr(0.4), "command", use).text)["relevant_from"] == 2
    file.write_text(export(mmr(0.4), "json", use).text, encoding="utf-8")
    assert read_setting(file)[1].relevant_from == 2
    assert "relevant" not in export(mmr(0.4), "json").text + export(mmr(0.4), "command").text
