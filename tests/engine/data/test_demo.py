"""The built-in corpora and the judged tasks that come with them."""

import json
import re
import subprocess
import sys
from collections import Counter
from threading import Event

import pandas as pd
import pytest

import engine
from engine.data import demo
from support.paths import ROOT
from support.processes import environment

ASSETS = ROOT / "assets" / "demo" / "numpy-api"

DIGEST = "import engine; print(engine.load_dataset('numpy-api').corpus.digest)"
LARGE = """
import json, sys
from engine.data import demo
calls = []
documents = demo.python_api_documents(progress=lambda done, total, label: calls.append((done, total)))
ids = [doc for doc, _, _ in documents]
print(json.dumps({
    "count": len(ids), "distinct": len(set(ids)), "sorted": ids == sorted(ids), "calls": calls[-1],
    "absent": sorted({doc for doc, _, _ in demo.numpy_api_documents()} - set(ids)),
    "tests": [doc for doc in ids if ".tests." in doc], "blank": [doc for doc, _, text in documents if not text.strip()],
    "private": [doc for doc, _, text in documents if sys.prefix in text or sys.base_prefix in text or " at 0x" in text],
}))
"""


def python(code, *flags, seed="0"):
    command = [sys.executable, *flags, "-c", code]
    return subprocess.run(command, env=environment(PYTHONHASHSEED=seed), capture_output=True, text=True)


def words(text):
    return re.findall(r"\w+", text.lower())


@pytest.fixture(scope="module")
def documents():
    return {doc: (title, text) for doc, title, text in demo.numpy_api_documents()}


@pytest.fixture(scope="module")
def queries():
    lines = (ASSETS / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    return {task["_id"]: task["text"] for task in map(json.loads, lines)}


@pytest.fixture(scope="module")
def splits():
    """{split: {query: documents}} as the files have them, by whatever name a function is judged."""
    judged = {split: pd.read_csv(ASSETS / "qrels" / f"{split}.tsv", sep="\t") for split in ("dev", "test")}
    for rows in judged.values():
        assert list(rows) == ["query-id", "corpus-id", "score"]
        assert (rows.score == 1).all() and not rows.duplicated().any()
    return {split: rows.groupby("query-id")["corpus-id"].agg(list).to_dict() for split, rows in judged.items()}


@pytest.fixture(scope="module")
def golds(splits):
    return {**splits["dev"], **splits["test"]}


def test_documents_are_one_for_each_function_and_none_is_empty(documents):
    ids = [doc for doc, _, _ in demo.numpy_api_documents()]
    assert 600 <= len(ids) <= 1000 and ids == sorted(set(ids))
    assert all(text.strip() for _, text in documents.values())
    assert not [doc for doc, (_, text) in documents.items() if " at 0x" in text or sys.base_prefix in text]


def test_aliases_share_a_document_and_twins_do_not(documents):
    assert documents["numpy.absolute"][0] == "numpy.absolute (also numpy.abs)"
    assert "numpy.abs" not in documents
    assert demo.find_canonical_id("numpy.abs") == demo.find_canonical_id("numpy.absolute") == "numpy.absolute"
    assert {"numpy.sum", "numpy.nansum", "numpy.ma.sum", "numpy.ndarray.sum", "numpy.hsplit"} <= documents.keys()
    with pytest.raises(KeyError):
        demo.find_canonical_id("numpy.no_such_function")


@pytest.mark.deep
def test_every_process_reads_the_same_documents():
    digests = [python(DIGEST, seed=seed).stdout.strip() for seed in ("1", "2")]
    assert len(digests[0]) == 64 and digests[0] == digests[1]


def test_stripped_docstrings_are_an_error_that_says_what_to_do():
    code = (
        f"import importlib.util as u; s = u.spec_from_file_location('demo', {demo.__file__!r}); "
        "d = u.module_from_spec(s); s.loader.exec_module(d); d.numpy_api_documents()"
    )
    result = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True)
    assert result.returncode != 0 and "run without -OO" in result.stderr


def test_a_missing_package_is_left_out_and_reading_can_be_stopped(monkeypatch):
    monkeypatch.setattr(demo, "PACKAGES", ("numpy", "a_package_that_is_not_installed"))
    monkeypatch.setattr(demo, "_list_module_members", lambda name: [])  # NumPy's own functions only
    assert {doc.partition(".")[0] for doc, _, _ in demo.python_api_documents()} == {"numpy"}
    stop = Event()
    stop.set()
    with pytest.raises(engine.Cancelled):
        demo.python_api_documents(stop=stop)


@pytest.mark.slow
def test_the_large_corpus():
    result = python(LARGE)
    facts = json.loads(result.stdout)
    assert facts["count"] == facts["distinct"] > 10_000 and facts["sorted"]
    assert facts["calls"][0] == facts["calls"][1]
    assert not (facts["absent"] or facts["tests"] or facts["blank"] or facts["private"])


def test_tasks_are_distinct_and_each_is_judged_in_one_split(queries, splits):
    assert len(queries) >= 170
    assert len({" ".join(words(text)) for text in queries.values()}) == len(queries)
    assert not splits["dev"].keys() & splits["test"].keys()
    assert splits["dev"].keys() | splits["test"].keys() == queries.keys()
    assert abs(len(splits["dev"]) - len(splits["test"])) <= 2


def test_golds_exist_under_their_document_id(golds, documents):
    assert not [
        doc for docs in golds.values() for doc in docs if demo.find_canonical_id(doc) != doc or doc not in documents
    ]


def test_most_tasks_need_several_functions(splits):
    for judged in splits.values():
        sizes = Counter(len(docs) for docs in judged.values())
        assert set(sizes) <= set(range(1, 7))
        assert sum(count for size, count in sizes.items() if size >= 3) >= 0.55 * len(judged)


def test_tasks_reach_over_all_of_numpy(golds):
    areas = Counter(doc.rpartition(".")[0] for docs in golds.values() for doc in docs)
    assert min(areas[f"numpy.{area}"] for area in ("linalg", "fft", "random.Generator", "strings", "ma")) >= 20
    assert areas["numpy"] >= 200


def test_no_task_names_its_golds(queries, golds):
    for query, docs in golds.items():
        names = [name.lower() for name, doc in demo._index_numpy_ids().items() if doc in docs]
        assert not [name for name in names if name in queries[query].lower()]
        assert not {name.rpartition(".")[2] for name in names} & set(words(queries[query]))


def test_no_task_quotes_the_documentation_of_its_golds(queries, golds, documents):
    def runs(text):
        tokens = words(text)
        return {tuple(tokens[i : i + 4]) for i in range(len(tokens) - 3)}

    pairs = [(query, doc) for query, docs in golds.items() for doc in docs]
    assert not [pair for pair in pairs if runs(queries[pair[0]]) & runs(documents[pair[1]][1])]


def test_plain_cosine_finds_a_good_part_of_the_golds_but_far_from_all():
    data = engine.load_dataset("numpy-api")
    golds = {**data.qrels["dev"].grades, **data.qrels["test"].grades}
    documents = engine.embed(data.corpus, encoder="bundled").vectors
    tasks = engine.embed(data.queries, encoder="bundled").vectors
    best = (tasks @ documents.T).topk(10).indices.tolist()
    result = {query: {data.corpus.ids[row] for row in rows} for query, rows in zip(data.queries.ids, best, strict=True)}
    recall = [len(result[query] & docs.keys()) / len(docs) for query, docs in golds.items()]
    assert len(recall) >= 170
    assert 0.4 <= sum(recall) / len(recall) <= 0.85
