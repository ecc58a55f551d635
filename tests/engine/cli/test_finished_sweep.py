"""Reports over a finished sweep take its encoder, its checkpoint and all that says how its corpus was read."""

import json
import string

import pytest

from support.cli import run
from support.datafiles import beir
from support.tiny_models import tiny_encoder

WORDS = ("red", "apple", "pie", "blue", "sky", "fast", "car", "green", "pear", "slow", "train", "old", "violin")
TEXTS = {
    "a": "red apple pie", "b": "red apple pie", "c": "red apple", "d": "blue sky", "e": "fast car", "f": "green pear",
    "g": "slow train", "h": "old violin",
}  # fmt: skip
QUERIES = {"a": "red apple pie", "q1": "fast train", "q2": "blue violin", "q3": "green apple"}
QRELS = "a\tc\t2\na\td\t1\nq1\te\t1\nq1\tg\t2\nq2\td\t1\nq2\th\t1\nq3\tf\t2\nq3\tb\t1\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of an encoder that is not the bundled one."""
    return str(tiny_encoder(tmp_path_factory.mktemp("models") / "tiny", (*WORDS, *string.ascii_lowercase)))


@pytest.fixture
def folder(tmp_path):
    """A BEIR folder in which b is a copy of a, and the query a is the document a."""
    corpus = [{"_id": doc_id, "text": text, "url": f"u{i // 3}"} for i, (doc_id, text) in enumerate(TEXTS.items())]
    queries = [{"_id": query_id, "text": text} for query_id, text in QUERIES.items()]
    return str(beir(tmp_path / "set", corpus, queries, qrels__test=QRELS))


@pytest.fixture
def run_file(tmp_path):
    """What another system returned: the query's own document first."""
    results = {query_id: {"a": 3.0, "e": 2.0, "d": 1.0} for query_id in QUERIES}
    path = tmp_path / "other.json"
    path.write_text(json.dumps(results), encoding="utf-8")
    return str(path)


def sweep(folder, store, *flags):
    """Sweep top_k and VRSD over a folder; return the path of the store."""
    run("sweep", "--corpus", folder, "--select", "top_k", "--select", "vrsd", "-k", "3", "--store", str(store), *flags)
    return str(store)


@pytest.mark.deep
def test_groups_by_vectors_take_the_encoder_of_the_sweep(folder, model, tmp_path):
    store = sweep(folder, tmp_path / "s.db", "--encoder", model)
    command = ("compare", store, "--corpus", folder, "--by", "correlation")
    assert "swept with other vectors than those of --encoder bundled" in run(*command, fails=True)
    groups = json.loads(run(*command, "--encoder", model, "--json"))["by"]["groups"]
    assert sum(row["queries"] for row in groups if row["label"] == groups[0]["label"]) == len(QUERIES)
    file = tmp_path / "report.html"
    run("report", store, "--corpus", folder, "--by", "correlation", "--encoder", model, "--out", str(file))
    assert "correlation" not in run("report", store, "--out", str(file)) and file.exists()


def test_near_duplicates_are_dropped_by_the_encoder_of_the_sweep(folder, model, run_file, tmp_path):
    # At this cosine the bundled encoder groups a and b alone, the other one d, f and g with them.
    dropped = ("--drop-duplicates", "near", "--duplicate-threshold", "0.9")
    store = sweep(folder, tmp_path / "s.db", "--encoder", model, *dropped)
    command = ("compare", store, "--corpus", folder, *dropped)
    for flags in (("--by", "length"), ("--by", "correlation"), ("--run", run_file)):
        assert "over 4 queries" in run(*command, *flags, "--encoder", model)
        assert "not swept on --corpus" in run(*command, *flags, fails=True)


def test_a_missing_checkpoint_of_the_sweep_is_named(folder, tmp_path):
    store = sweep(folder, tmp_path / "s.db")
    command = ("compare", store, "--corpus", folder, "--by", "correlation", "--trained", str(tmp_path / "gone"))
    assert str(tmp_path / "gone") in run(*command, fails=True)


@pytest.mark.parametrize("flag,mrr", [("--without-self", (1 / 2 + 1 / 2 + 1 / 3) / 4), ("--with-self", 7 / 24)])
def test_runs_are_measured_by_the_sources_and_the_own_documents_of_the_sweep(folder, run_file, tmp_path, flag, mrr):
    store = sweep(folder, tmp_path / "s.db", "--per-source", "url=none", flag)
    rows = json.loads(run("compare", store, "--corpus", folder, "--run", run_file, "--json"))["table"]["rows"]
    (means,) = [row["mean"] for row in rows if "other" in row["name"]]
    assert means["mrr"] == pytest.approx(mrr)
    # Of the documents a, e and d, the last two have one source.
    assert means["unique_sources"] == pytest.approx({"--without-self": 5 / 8, "--with-self": 2 / 3}[flag])
