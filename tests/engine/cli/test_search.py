"""depths, ann and --by from the command line, on the demo."""

import json
import sys

import numpy as np
import pytest

import engine
from engine.evaluation.decide import estimate_on_axes
from engine.evaluation.decision import list_best_options
from engine.evaluation.frontier import KEPT_SHARE, frontier
from engine.evaluation.stratification import QUERY_COUNT_TITLES, count_by_query
from engine.evaluation.sweep.store import Store
from support.cli import run
from support.datafiles import beir, beir_of_things
from support.demo import demo_counts


def test_depths_are_a_table_and_are_kept(tmp_path):
    command = ("depths", "--rerank", "bm25", "--depth", "10", "--depth", "50", "--store", str(tmp_path / "d.db"))
    output = run(*command, "--metric", "mrr", "--metric", "recall")
    for words in ("MRR@10 by depth", "Recall@10 by depth", f"2 cells of {demo_counts()['test']} queries"):
        assert words in output
    cells = [json.loads(line) for line in run(*command, "--metric", "mrr", "--json").splitlines()]
    assert [cell["decoder"]["depth"] for cell in cells] == [10, 50]
    for cell in cells:
        assert f"{cell['mean']['mrr']:.4f}" in output and cell["decoder"]["rerank"]["name"] == "bm25"


@pytest.mark.deep
def test_others_at_random_are_reranked_too():
    command = ("depths", "--rerank", "bm25", "--depth", "10", "--random", "20", "--seed", "1", "--metric", "recall")
    result = json.loads(run(*command, "--json"))
    assert (result["best"], result["random"], result["seed"]) == (10, 20, 1)
    assert f"{result['mean']['recall']:.4f}" in run(*command) and "Recall@10" in run(*command)


def test_passages_of_a_length_are_written(tmp_path):
    folder = str(tmp_path / "task")
    assert "of which 20 are distractors" in run("passages", "--count", "10", "--length", "40", "--out", folder)
    assert all(len(text.split()) <= 40 for text in engine.load_dataset(folder).corpus.texts)


def test_approximate_search_is_a_table_with_its_conclusion():
    pytest.importorskip("faiss")
    command = ("ann", "-k", "5", "--share", "0.9")
    output = run(*command, "--index", "ivf", "--index", "hnsw:links=16,breadth=40")
    assert "exact@5" in output and "MRR@5" in output and "hnsw(links=16, construction=100, breadth=40)" in output
    assert "of the exact answer" in output and f"{demo_counts()['test']} queries one at a time" in output
    rows = [json.loads(line) for line in run(*command, "--index", "ivf:cells=7,probes=7", "--json").splitlines()]
    assert [row["index"]["kind"] for row in rows] == ["exact", "ivf"]
    assert rows[1]["recall_of_exact"] == 1 and rows[1]["mean"] == rows[0]["mean"]


def test_bad_indexes_are_told(monkeypatch):
    pytest.importorskip("faiss")
    assert "--index must be one of hnsw, ivf" in run("ann", "--index", "tree", fails=True)
    assert "links (M) must be a whole number" in run("ann", "--index", "hnsw:links=1", fails=True)
    assert "found by nearest vectors" in run("ann", "--retrieve", "bm25", "--index", "ivf", fails=True)
    assert "share must be a number in [0, 1]" in run("ann", "--share", "2", fails=True)


def test_ann_without_faiss_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert "pip install 'frontier-retrieval[ann]'" in run("ann", fails=True)


def test_recall_in_a_budget_by_the_length_of_what_is_relevant(store, demo):
    command = ("compare", store, "-k", "5", "--y", "budget_recall", "--by", "length", "--corpus", "numpy-api")
    command += ("--metric", "budget_recall")
    output = run(*command)
    assert f"Recall in 400 words@5 by {QUERY_COUNT_TITLES['length']}, each method's best setting" in output
    result = json.loads(run(*command, "--json"))["by"]
    dataset, _ = demo
    counts = count_by_query(dataset.corpus, dataset.judged("test"), dataset.qrels["test"])["length"]
    groups = {(row["least"], row["most"]): row["queries"] for row in result["groups"]}
    assert len(groups) > 1
    for (low, high), count in groups.items():
        assert sum(low <= words <= high for words in counts.values()) == count
    cells = [cell for cell in Store(store).read_cells() if (cell.k, cell.split) == (5, "test")]
    base = next(cell for cell in cells if cell.label == result["baseline"])
    curves = [curve for curve in Store(store).read_curves() if curve.k == 5 and "budget_recall" in curve.means]
    estimates = estimate_on_axes(frontier(cells, "ilad", "budget_recall", 5), curves, base)
    best = {option.label for option in list_best_options(estimates.decide(KEPT_SHARE.default))}
    assert {row["label"] for row in result["groups"]} == {result["baseline"], *best}, "Trade-off shows the same"
    assert all(row["mean"] == 0 for row in result["differences"] if row["label"] == result["baseline"])


@pytest.mark.deep
def test_report_has_recall_by_the_length_of_what_is_relevant(store, tmp_path):
    file = tmp_path / "report.html"
    run("report", store, "--by", "length", "--corpus", "numpy-api", "--out", str(file))
    assert f"Recall@5 by {QUERY_COUNT_TITLES['length']}" in file.read_text(encoding="utf-8")


def test_strata_by_a_column_that_the_corpus_keeps(tmp_path):
    folder, store = beir_of_things(tmp_path / "things"), str(tmp_path / "things.db")
    file = folder / "corpus.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()]
    records_kept = [{**record, "department": ("sales", "law")[i > 2]} for i, record in enumerate(records)]
    file.write_text("".join(json.dumps(record) + "\n" for record in records_kept))
    run("sweep", "--corpus", str(folder), "--select", "top_k", "--select", "vrsd", "-k", "2", "--store", store)
    command = ("compare", store, "--corpus", str(folder), "--by")
    assert "Recall@2 by department, each method's best setting" in run(*command, "department")
    groups = {row["group"]: row["queries"] for row in json.loads(run(*command, "department", "--json"))["by"]["groups"]}
    assert groups == {"law": 4, "sales": 3}, "of one document each, the first one's"
    embedded = run("embed", "--corpus", str(folder), "--where", "department=law")
    assert embedded.startswith("3 vectors of") or "\n3 vectors of" in embedded
    assert "--where takes COLUMN=VALUE" in run("embed", "--corpus", str(folder), "--where", "department", fails=True)
    output = run(*command, "topic", fails=True)
    assert (
        "--by must be one of relevant, length, words, aspects, correlation, or a column" in output
        and "'topic'" in output
    )


def test_columns_that_no_name_tells_are_named(tmp_path):
    file = tmp_path / "odd.csv"
    file.write_text(
        "who,remark,said by\nana,a very long remark,cars\nben,another long remark,apples\n", encoding="utf-8"
    )
    command = ("decode", "--corpus", str(file), "--query", "fruit", "-k", "1", "--json")
    output = run(*command, "--column", "text=said by", "--column", "id=who")
    assert "ben" in output and "ben" not in run(*command)
    assert "--column takes ROLE=COLUMN" in run(*command, "--column", "who", fails=True)
    assert '"text": "a very long remark"' in run(*command, "--column", "id=who"), "roles not named are guessed"


def test_another_corpus_is_refused(store, tmp_path):
    file = tmp_path / "other.csv"
    file.write_text("id,text\na,one two three\n", encoding="utf-8")
    output = run("compare", store, "--by", "length", "--corpus", str(file), fails=True)
    assert "the store was not swept on --corpus" in output


def test_kinds_leave_out_what_no_query_has():
    corpus = engine.Corpus(("a", "b"), ("one two", "three"))
    queries = engine.Queries(("q",), ("what is it",))
    counts = {"relevant": {"q": 1}, "length": {"q": 2}, "words": {"q": 3}}
    assert count_by_query(corpus, queries, engine.Qrels({"q": {"a": 1}})) == counts
    assert list(count_by_query(corpus, queries, engine.Qrels({"other": {"a": 1}}))) == ["words"]


@pytest.mark.deep
def test_recall_by_how_like_others_the_relevant_documents_are(store, demo):
    command = ("compare", store, "-k", "5", "--by", "correlation", "--corpus", "numpy-api")
    assert f"Recall@5 by {QUERY_COUNT_TITLES['correlation']}, each method's best setting" in run(*command)
    dataset, _ = demo
    qrels, space = dataset.qrels["test"], engine.Space(dataset.corpus, engine.embed(dataset.corpus))
    values = count_by_query(dataset.corpus, dataset.judged("test"), qrels, space=space)["correlation"]
    cosines = space.vectors.double() @ space.vectors.double().T
    for query in dataset.judged("test").ids:
        rows = [space.corpus.position[doc] for doc in qrels.relevant(query)]
        other_rows = [row for row in range(len(space)) if row not in rows]
        assert abs(values[query] - 100 * float(cosines[rows][:, other_rows].max())) <= 0.5 + 1e-4
    for row in json.loads(run(*command, "--json"))["by"]["groups"]:
        assert (
            sum(row["least"] <= values[query] <= row["most"] for query in dataset.judged("test").ids) == row["queries"]
        )


def test_words_are_searched_in_a_corpus_with_vectors_of_its_own(tmp_path):
    documents = [{"_id": name, "text": text} for name, text in (("a", "a red cat"), ("b", "a dog"), ("c", "a red dog"))]
    folder = beir(tmp_path, documents, [{"_id": "q", "text": "red dog"}], qrels__test="q\tc\t1\n")
    np.save(tmp_path / "vectors.npy", np.eye(3, dtype=np.float32))
    command = ("decode", "--corpus", str(folder), "--retrieve", "bm25", "-k", "2")
    assert "1 query, 3 documents" in run(*command, "--query", "red", "--trace")
    (result,) = json.loads(run(*command, "--query-id", "q", "--json"))["results"]
    assert result["documents"][0]["id"] == "c"
    assert [d["relevance"] for d in result["documents"]] == pytest.approx([d["gain"] for d in result["documents"]])


def test_latency_by_k_and_weight_is_a_table_with_slopes():
    command = ("latency", "--select", "mmr", "--select", "top_k", "--weight", "0.5", "--calls", "2")
    output = run(*command, "-k", "2", "-k", "4", "-k", "8", "-k", "16")
    lines = [line.split("  ")[0] for line in output.splitlines()]
    assert lines[:4] == [
        "ms a query by k", "mmr(relevance_weight=0.5)",
        "mmr(relevance_weight=0.5), plain", "top_k",
    ]  # fmt: skip
    assert "slope" in output.splitlines()[0] and "Median milliseconds of 2 queries one at a time" in output
    rows = [json.loads(line) for line in run(*command, "-k", "2", "--no-plain", "--json").splitlines()]
    assert [(row["method"], row["weight"], row["k"]) for row in rows] == [("mmr", 0.5, 2), ("top_k", None, 2)]
    assert all(row["milliseconds"] > 0 and len(row["seconds"]) == 2 for row in rows)


def test_recall_and_answers_within_budgets_of_words(tmp_path):
    folder = beir_of_things(tmp_path / "things")
    command = ("budget", "--corpus", str(folder), "--words", "2", "--words", "9", "-k", "4")
    output = run(*command)
    assert "Recall within words" in output and "Of the first 4; in brackets how many documents are read." in output
    assert "has no answers.tsv" in run(*command, "--answers", fails=True)
    query, text = next(iter(engine.load_dataset(folder).qrels["test"].grades)), "no such words"
    (folder / "answers.tsv").write_text(f"{query}\t{text}\n")
    rows = [json.loads(line) for line in run(*command, "--answers", "--json").splitlines()]
    assert [(row["metric"], row["budget"]) for row in rows] == [
        (metric, words) for metric in ("budget_recall", "answer_coverage") for words in (2, 9)
    ]
    assert [(row["mean"], row["queries"]) for row in rows[2:]] == [(0, 1)] * 2
    store = str(tmp_path / "a.db")
    swept = ("sweep", "--corpus", str(folder), "--select", "top_k", "-k", "2", "--metric", "answer_coverage")
    (cell,) = [json.loads(line) for line in run(*swept, "--metric", "holes", "--store", store, "--json").splitlines()]
    assert cell["mean"]["answer_coverage"] == 0 and 0 <= cell["mean"]["holes"] <= 1
