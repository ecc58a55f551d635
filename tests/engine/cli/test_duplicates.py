"""The command `duplicates`, and the flags that drop duplicates and set the threshold of near-duplicates."""

import json

import numpy as np
import pytest

from support.cli import run
from support.datafiles import beir

TEXTS = {"a": "red", "b": "red", "c": "crimson", "d": "sky", "e": "blue"}
VECTORS = [[1, 0, 0], [1, 0, 0], [0.95, 0.312, 0], [0, 1, 0], [0, 0, 1]]
QRELS = "q\tb\t2\nq\ta\t1\nq\tc\t1\n"


@pytest.fixture
def folder(tmp_path):
    """A BEIR folder with vectors of its own: a and b are copies, c has a cosine of .95 with both."""
    corpus = [{"_id": doc_id, "text": text} for doc_id, text in TEXTS.items()]
    path = beir(tmp_path / "set", corpus, [{"_id": "q", "text": "red"}], qrels__test=QRELS)
    np.save(path / "vectors.npy", np.array(VECTORS, dtype=np.float32))
    np.save(path / "query_vectors.npy", np.array([[1, 0.2, 0.1]], dtype=np.float32))
    return str(path)


def test_groups_are_printed_with_what_dropping_leaves(folder):
    output = run("duplicates", "--corpus", folder)
    assert "3 of 5 documents (60%) have a near-duplicate (cosine ≥ 0.9), 0 of them 5 or more." in output
    assert "1 group of near-duplicates, 3 documents: 3 are left with one of each." in output
    assert "1 group of copies, 2 documents: 4 are left without copies." in output
    assert output.splitlines()[-1].split() == ["3", "red", "red,", "crimson"]
    told = json.loads(run("duplicates", "--corpus", folder, "--duplicate-threshold", "0.97", "--json"))
    assert (told["threshold"], told["groups"], told["copies"]) == (0.97, [["a", "b"]], [["a", "b"]])
    assert (told["with_neighbours"], told["without_near"], told["without_copies"]) == (2, 4, 4)
    few = run("duplicates", "--corpus", folder, "--groups", "0")
    assert "and 1 more group" in few
    none = run("duplicates", "--corpus", folder, "--drop-duplicates", "near")
    assert "None of 3 documents has a near-duplicate" in none


def test_commands_load_the_corpus_without_duplicates(folder):
    sizes = json.loads(run("data", "--corpus", folder, "--drop-duplicates", "copies", "--json"))
    assert sizes["documents"] == 4
    command = ("decode", "--corpus", folder, "--split", "test", "-k", "3")
    for flags, n_documents, recall in (
        ((), 5, "1.0000"),
        (("--drop-duplicates", "copies"), 4, "1.0000"),
        (("--drop-duplicates", "near"), 3, "1.0000"),
        (("--drop-duplicates", "near", "--duplicate-threshold", "0.96"), 4, "1.0000"),
    ):
        output = run(*command, *flags)
        assert f"1 query, {n_documents} documents" in output and f"Recall@3 {recall}" in output
        assert ("dropped as a duplicate" in output or "dropped as duplicates" in output) == bool(flags)
        # b was judged 2 and a 1: of a and b one stays, with the higher grade.
        assert ("1 pair of a query and a document has duplicates with different grades" in output) == bool(flags)
    assert "Redundancy@3 0.6667" in run(*command) and "Redundancy@3 0.3333" in run(
        *command, "--duplicate-threshold", "0.97"
    )


def test_thresholds_are_kept_apart_in_a_store(folder, tmp_path):
    store = str(tmp_path / "s.db")
    command = ("sweep", "--corpus", folder, "--select", "top_k", "--select", "vrsd", "-k", "3", "--store", store)
    assert "Redundancy: near-duplicates have a cosine ≥ 0.9" in run(*command)
    assert "Redundancy: near-duplicates have a cosine ≥ 0.9" in run("compare", store)
    run(*command, "--duplicate-threshold", "0.97")
    assert "near-duplicates of cosine 0.9 and 0.97, which cannot be compared" in run("compare", store, fails=True)


@pytest.mark.parametrize("text", ["1.5", "near"])
def test_a_wrong_threshold_is_refused_before_anything_is_read(text):
    output = run("decode", "--corpus", "nowhere", "--duplicate-threshold", text, "--query", "x", fails=True)
    assert "duplicate_threshold (τ) must be a number in [0, 1]" in output and text in output


def test_copies_that_were_dropped_are_not_announced(folder):
    remark = "1 document is a copy"
    assert remark in run("data", "--corpus", folder)
    command = ("decode", "--corpus", folder, "--split", "test", "-k", "3")
    assert remark in run(*command)
    for dropped in ("copies", "near"):
        output = run(*command, "--drop-duplicates", dropped)
        assert remark not in output and " dropped as a" in output.replace("as duplicates", "as a")


@pytest.mark.parametrize(
    "command,message",
    [
        (("decode", "--split", "nosuch"), "no split 'nosuch'; there are test"),
        (("decode", "--query-id", "nobody"), "no query 'nobody' in this corpus"),
        (("sweep", "--split", "nosuch", "--select", "top_k"), "no split 'nosuch'; there are test"),
        (("tune", "--select", "mmr", "--dev", "nosuch"), "no split 'nosuch'; there are test (--halve makes"),
        (("orag", "simulate", "--split", "nosuch"), "no split 'nosuch'; there are test"),
        (("train", "dense", "--divide", "nosuch", "--out", "out"), "no split 'nosuch'; there are test"),
    ],
)
@pytest.mark.parametrize("dropped", ["copies", "near"])
def test_a_missing_split_is_refused_before_the_corpus_is_embedded(tmp_path, monkeypatch, command, message, dropped):
    corpus = [{"_id": doc_id, "text": text} for doc_id, text in TEXTS.items()]
    folder = beir(tmp_path / "set", corpus, [{"_id": "q", "text": "red"}], qrels__test=QRELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("engine.embed", None)
    assert message in run(*command, "--corpus", str(folder), "--drop-duplicates", dropped, fails=True)
