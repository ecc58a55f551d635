"""One question has one answer: from choose, tune, sweep with compare and report, and Trade-off's cells and curves."""

import json
from pathlib import Path

import pytest

import engine
from dashboard.charts.html import escape_html
from dashboard.services import sweeps
from dashboard.services.jobs import Job
from dashboard.services.query_vectors import embed_missing
from dashboard.services.source import Source
from dashboard.services.sweeps import Sweep
from engine.evaluation.metrics import available_metrics
from engine.evaluation.sweep.sweep import grid
from support import datafiles, pages
from support.cli import run
from support.judged_sets import DATA, SETS

K, POINTS, SPLIT = 5, 2, "dev"


def write_sample(folder, name, split, n_queries):
    """Write a data set with a sample of a split's queries, judged on the split SPLIT; return its path."""
    dataset = engine.load_dataset(name)
    corpus, queries = dataset.corpus, dataset.judged(split).sample(n_queries)
    documents = zip(corpus.ids, corpus.titles, corpus.texts, strict=True)
    corpus_rows = [{"_id": doc_id, "title": title, "text": text} for doc_id, title, text in documents]
    query_rows = [{"_id": query_id, "text": text} for query_id, text in zip(queries.ids, queries.texts, strict=True)]
    judged = ["query-id\tcorpus-id\tscore\n"]
    for query_id in queries.ids:
        grades = dataset.qrels[split].grades[query_id]
        judged += [f"{query_id}\t{doc_id}\t{grade}\n" for doc_id, grade in grades.items()]
    return str(datafiles.beir(folder, corpus_rows, query_rows, **{f"qrels__{SPLIT}": "".join(judged)}))


def decide_by_choose(path, store):
    dataset = engine.load_dataset(path)
    space = engine.Space(dataset.corpus, engine.embed(dataset.corpus))
    queries = engine.embed_queries(space, dataset.judged(SPLIT))
    tuned = engine.choose(
        space, queries, dataset.qrels, objective="diverse", k=K, dev=SPLIT, test=None, points=POINTS, store=store
    )
    return tuned.decision.as_json()


def decide_on_the_page(path):
    """Decide on what Trade-off measures: cells and exact curves of every selector over its usual values."""
    loaded = pages.load(Source(path))
    queries, qrels = loaded.dataset.judged(SPLIT), loaded.dataset.qrels[SPLIT]
    vectors = embed_missing(loaded, queries, Job("idle", lambda _: None))
    decoders = [decoder for name in engine.methods("selector") for decoder in grid(name, POINTS)]
    sweep = Sweep(
        loaded=loaded, decoders=tuple(decoders), queries=queries, vectors=vectors, qrels=qrels, split=SPLIT, k=K,
        metrics=available_metrics(qrels, None, vectors),
    )  # fmt: skip
    job = Job("sweep", lambda job: sweeps.run_sweep(sweep, job))
    job.join(pages.PATIENCE)
    assert job.error is None and len(job.result) == len(decoders)
    return engine.decide([*job.result, *sweeps.load_stored_curves(sweep)], k=K).as_json()


MANY = [("numpy-api", "dev", 150), ("toollens", "dev", 150), ("ultratool-en", "test", 150)]


@pytest.mark.deep  # each page is compared with the engine in every run
@pytest.mark.parametrize("name,split,n_queries", [("numpy-api", "dev", 60), *MANY])
def test_everybody_gives_one_answer(name, split, n_queries, tmp_path):
    if name != "numpy-api" and name not in SETS:
        pytest.skip("the judged sets are not on this machine (set FRONTIER_DATA)")
    path = write_sample(tmp_path / "data", name if name == "numpy-api" else str(DATA / name), split, n_queries)
    tune_store, sweep_store, report = (str(tmp_path / file) for file in ("tune.db", "sweep.db", "report.html"))
    question = ("--corpus", path, "-k", str(K), "--points", str(POINTS))
    chosen = decide_by_choose(path, tune_store)
    tuned = run("tune", "--select", "all", "--test", "none", *question, "--store", tune_store, "--json")
    run("sweep", "--split", SPLIT, *question, "--store", sweep_store)
    compared = run("compare", sweep_store, "--json")
    run("report", sweep_store, "--out", report)
    html = Path(report).read_text(encoding="utf-8")
    assert chosen["sure"] is not None and len(chosen["sentences"]) > 2
    for decision in (json.loads(tuned)["decision"], json.loads(compared)["decision"], decide_on_the_page(path)):
        assert decision["sentences"] == chosen["sentences"]
        for role in ("sure", "bet"):
            option, reference = decision[role], chosen[role]
            assert (option and option["decoder"]) == (reference and reference["decoder"])
            assert option is None or option["chance"] == pytest.approx(reference["chance"])
    assert all(escape_html(sentence) in html for sentence in chosen["sentences"])
