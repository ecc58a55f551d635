"""Inputs of commands: columns, first lines, own vectors, texts that are cut off, limits per source, own documents."""

import json

import numpy as np
import pandas as pd
import pytest

from support.cli import run
from support.datafiles import beir
from support.draws import deepen

DOCUMENTS = [
    ("a", "the red apple is sweet", "x"),
    ("b", "a red apple tastes sweet", "x"),
    ("c", "green apples are sour", "x"),
    ("d", "the blue sky", "y"),
    ("e", "a sweet red fruit", ""),
    ("f", "sour green fruit", ""),
]
QUERIES = [("a", "the red apple is sweet"), ("q", "sour fruit"), ("c", "something else")]


@pytest.fixture
def folder(tmp_path):
    corpus = [{"_id": doc_id, "text": text, "metadata": {"url": url}} for doc_id, text, url in DOCUMENTS]
    queries = [{"_id": query_id, "text": text} for query_id, text in QUERIES]
    return str(beir(tmp_path / "set", corpus, queries, qrels__test="a\tb\t1\na\ta\t1\nq\tf\t1\nc\td\t1\n"))


def list_ids(output):
    return [document["id"] for document in json.loads(output)["results"][0]["documents"]]


def test_own_document_is_left_out_and_said(folder, tmp_path):
    command = ("decode", "--corpus", folder, "--split", "test", "-k", "1")
    output = run(*command)
    assert "1 of 3 queries is a document of the corpus, with the same id and text" in output
    assert "MRR@1 1.0000" in output and "--with-self" in output
    with_self = run(*command, "--with-self")
    assert "is a document" not in with_self and "[with self]" in with_self and "Recall@1 0.8333" in with_self
    by_id = run(*command, "--without-self")
    assert "2 of 3 queries are documents of the corpus, with the same id:" in by_id
    store = "--store", str(tmp_path / "tune.db")
    tuned = run(
        "tune", "--corpus", folder, "--select", "mmr", "--points", "2", "--dev", "test", "--test", "none", *store
    )
    assert "1 of 3 queries is a document" in tuned and "--with-self" in tuned


def test_documents_of_one_source_are_limited_and_measured(folder):
    command = ("decode", "--corpus", folder, "--query-id", "q", "-k", "6", "--json")
    free = json.loads(run(*command, "--per-source", "url=none"))
    assert free["mean"]["unique_sources"] == pytest.approx(4 / 6) and "per url" not in free["decoder"]
    limited = run(*command, "--per-source", "url=1", "--select", "mmr")
    assert len(list_ids(limited)) == 4 and {"d", "e", "f"} < set(list_ids(limited))
    assert json.loads(limited)["mean"]["unique_sources"] == 1


def test_sweep_measures_the_selectors_that_keep_the_limit(folder, tmp_path):
    command = ("sweep", "--corpus", folder, "--points", "2", "-k", "3", "--store", str(tmp_path / "s.db"))
    output = run(*command, "--per-source", "url=1")
    assert "left out, as they choose their documents together: frank_wolfe, nnn" in output
    assert "unique_sources" in output and "[1 per url]" in output and "is a document of the corpus" in output
    for flags, message in (
        (("--per-source", "url=1", "--select", "nnn"), "per_source is for selectors.*got nnn"),
        (("--per-source", "url=1", "--select", "max_sum:polish=false", "--values", "all"), "got max_sum"),
        (("--per-source", "author=1", "--select", "mmr", "--values", "all"), "have a column 'author'"),
    ):
        assert_fails(message, *command, *flags)


def test_exact_curves_have_the_limits(folder, tmp_path):
    command = ("sweep", "--corpus", folder, "-k", "3", "--store", str(tmp_path / "s.db"), "--values", "all")
    curves = {}
    for flags in ((), ("--per-source", "url=1"), ("--per-source", "url=2"), ("--with-self",)):
        (curve,) = map(json.loads, run(*command, "--select", "mmr", "--json", *flags).splitlines()[-1:])
        curves[curve["key"]] = curve
    limits = [curve["label"].partition(")")[2] for curve in curves.values()]
    assert limits == ["", " [1 per url]", " [2 per url]", " [with self]"]
    assert set(list(curves.values())[1]["means"]["unique_sources"]) == {1.0}


def test_judgements_are_declared_complete(folder, tmp_path):
    with (tmp_path / "set/qrels/test.tsv").open("a") as stream:
        stream.write("q\ta\t0\n")
    store = str(tmp_path / "s.db")
    command = ("sweep", "--corpus", folder, "-k", "3", "--points", "2", "--select", "top_k", "--select", "mmr")
    kinds = {}
    for kind in ("auto", "complete"):
        output = run(*command, "--store", store, "--judgements", kind, "--json")
        kinds[kind] = {json.loads(line)["provenance"].get("judgements") for line in output.splitlines() if "{" in line}
    assert kinds == {"auto": {"pooled"}, "complete": {"declared complete"}}
    output = run("compare", store, fails=True)
    assert "points must be measured with the same judgements" in output


def test_tuned_settings_have_the_limits(folder, tmp_path):
    command = ("tune", "--corpus", folder, "--dev", "test", "--test", "none", "-k", "3", "--points", "2", "--json")
    command = (*command, "--per-source", "url=1", "--store", str(tmp_path / "t.db"))
    one = json.loads(run(*command, "--select", "mmr"))
    best = json.loads(run(*command, "--select", "all", "--metric", "unique_sources"))
    for study in (one, best):
        assert "[1 per url]" in json.dumps(study)
    assert_fails("per_source is for selectors.*got nnn", *command, "--select", "nnn")
    history = run("tune", "--history", "--store", str(tmp_path / "t.db"), "--json").splitlines()
    assert [json.loads(study)["asked"]["limits"] for study in history] == [{"per_source": 1, "source": "url"}] * 2


def assert_fails(message, *command):
    output = run(*command, fails=True)
    parts = message.split(".*")
    assert all(part in output for part in parts), output


@pytest.mark.parametrize(
    ("flag_text", "message"),
    [
        ("url", "--per-source takes COLUMN=NUMBER, url=1 say; got 'url'"),
        ("=1", "--per-source takes COLUMN=NUMBER, url=1 say; got '=1'"),
        ("url=0", "per_source (m) must be a whole number in [1"),
        ("url=", "per_source (m) must be a whole number in [1"),
        ("author=1", "have a column 'author'"),
    ],
)
def test_bad_limit_is_refused(folder, flag_text, message):
    assert_fails(message, "decode", "--corpus", folder, "--query-id", "q", "--per-source", flag_text)


N_DOCUMENTS, N_QUERIES, DIMENSION = 60, 24, 1536
GROUPS = np.arange(N_DOCUMENTS) % 6


@pytest.fixture
def judged(tmp_path):
    """(folder of queries with their vectors and judgements, ids of documents, vectors of documents)."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(6, DIMENSION))
    documents = centres[GROUPS] + random.normal(size=(N_DOCUMENTS, DIMENSION))
    queries = centres[np.arange(N_QUERIES) % 6] + 2 * random.normal(size=(N_QUERIES, DIMENSION))
    documents, queries = (
        (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32) for rows in (documents, queries)
    )
    ids = [f"d{row}" for row in range(N_DOCUMENTS)]
    folder = tmp_path / "judged"
    (folder / "qrels").mkdir(parents=True)
    lines = [json.dumps({"_id": f"q{row}", "text": f"query {row}"}) for row in range(N_QUERIES)]
    (folder / "queries.jsonl").write_text("\n".join(lines))
    for split, first in (("dev", 0), ("test", N_QUERIES // 2)):
        pairs = ["query-id\tcorpus-id\tscore"]
        for query in range(first, first + N_QUERIES // 2):
            pairs += [f"q{query}\t{ids[row]}\t1" for row in np.flatnonzero(query % 6 == GROUPS)]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(pairs) + "\n")
    np.save(folder / "query_vectors.npy", queries)
    return folder, ids, documents


@pytest.fixture(params=["parquet", "npy"])
def flags(request, judged, tmp_path):
    """Flags that read the corpus with vectors from a column of a table, or from a file in its folder."""
    folder, ids, documents = judged
    texts = [f"document {doc_id}" for doc_id in ids]
    if request.param == "parquet":
        pd.DataFrame({"id": ids, "text": texts, "embedding": list(documents)}).to_parquet(tmp_path / "docs.parquet")
        return "--corpus", str(tmp_path / "docs.parquet"), "--column", "vectors=embedding", "--qrels", str(folder)
    records = [json.dumps({"_id": doc_id, "text": text}) for doc_id, text in zip(ids, texts, strict=True)]
    (folder / "corpus.jsonl").write_text("\n".join(records))
    np.save(folder / "vectors.npy", documents)
    return "--corpus", str(folder)


@pytest.mark.parametrize("flags", deepen(["parquet", "npy"], ["npy"]), indirect=True)
def test_own_vectors_decode_sweep_and_tune(flags, tmp_path):
    output = run("decode", *flags, "--query-id", "q1", "-k", "3", "--json")
    (entry,) = json.loads(output)["results"]
    assert [GROUPS[int(document["id"][1:])] for document in entry["documents"]] == [1, 1, 1]
    store = str(tmp_path / "cells.db")
    output = run("sweep", *flags, "--select", "mmr", "--points", "2", "-k", "5", "--store", store)
    assert f"2 cells of {N_QUERIES // 2} queries" in output
    output = run("tune", *flags, "--select", "mmr", "--metric", "ndcg", "--store", store)
    assert "MMR" in output and "--split test" in output


@pytest.mark.parametrize("flags", deepen(["parquet", "npy"], ["parquet"]), indirect=True)
def test_a_typed_query_without_encoder_raises_error_with_a_way_on(flags):
    assert "query_vectors.npy beside queries.jsonl" in run("decode", *flags, "--query", "words", fails=True)


@pytest.mark.parametrize("flags", deepen(["parquet", "npy"], ["parquet"]), indirect=True)
def test_queries_without_vectors_raise_error_with_a_way_on(flags, judged):
    (judged[0] / "query_vectors.npy").unlink()
    assert "--query-vectors FILE" in run("sweep", *flags, "--select", "mmr", fails=True)


def test_roles_that_are_not_named_are_guessed(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,chunk_text,source\nd7,a red apple,web\nd9,a green pear,book\n")
    flags = ("decode", "--corpus", str(path), "--query", "apple", "-k", "1")
    assert "d7" in run(*flags, "--column", "text=chunk_text")
    output = run(*flags, "--column", "text=chunk_text", "--column", "id=none")
    assert "d7" not in output and "rows without an id column" in output


def test_a_first_line_of_data_is_said_and_can_be_told(tmp_path):
    path = tmp_path / "collection.tsv"
    path.write_text("0\ta red apple\n1\ta green pear\n2\ta fast car\n")
    output = run("data", "--corpus", str(path))
    assert "first line looks like data" in output and "3" in output
    output = run("data", "--corpus", str(path), "--header", "first")
    assert "first line looks like data" not in output and "2" in output


@pytest.mark.parametrize("command", [("embed",), ("decode", "--query", "word", "-k", "1")])
def test_texts_that_are_cut_off_are_said(tmp_path, command):
    path = tmp_path / "long.jsonl"
    path.write_text("\n".join(json.dumps({"id": str(n), "text": "word " * 400 + str(n)}) for n in range(3)))
    assert "3 documents are longer than the encoder reads" in run(*command, "--corpus", str(path))


def test_a_table_without_judgements_is_told_how_to_get_them(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("id,text\na,red apples\nb,green pears\n", encoding="utf-8")
    output = run("tune", "--corpus", str(table), "--select", "mmr", "--store", str(tmp_path / "s.db"), fails=True)
    assert "no split 'dev'; there are no judgements. --qrels takes a folder with queries.jsonl" in output
    assert "--halve" not in output, "there is nothing to halve"
    swept = run("sweep", "--corpus", str(table), "--select", "mmr", "--store", str(tmp_path / "s.db"), fails=True)
    assert "no split 'test'; there are no judgements. --qrels takes a folder" in swept
