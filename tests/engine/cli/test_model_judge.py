"""`compare --model-judged`: a person's judgements of some queries and a model's of all, from files to sentences."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import engine
from support.cli import run

N_PERSON = 40
SELECTORS = ("--select", "top_k", "--select", "mmr:relevance-weight=0.9", "--select", "vrsd", "-k", "5")


def write_qrels(path, grades):
    """Write judgements as lines of TREC; return the path."""
    path.write_text(
        "".join(f"{query} 0 {doc} {grade}\n" for query, own in grades.items() for doc, grade in own.items())
    )
    return str(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files of a person's judgements of some queries of the demo, of a model's of all, and of one that is reversed."""
    folder, rng = tmp_path_factory.mktemp("judges"), np.random.default_rng(0)
    dataset = engine.load_dataset("numpy-api")
    grades, documents = dataset.qrels["test"].grades, dataset.corpus.ids
    person, model, against = {}, {}, {}
    for number, (query, own) in enumerate(grades.items()):
        others = [doc for doc in rng.choice(documents, 5, replace=False).tolist() if doc not in own]
        known = {**dict.fromkeys(own, 1), **dict.fromkeys(others, 0)}
        if number < N_PERSON:
            person[query] = known
        says = {doc: grade if rng.random() < 0.9 else 1 - grade for doc, grade in known.items()}
        model[query], against[query] = says, {doc: 1 - grade for doc, grade in known.items()}
    return {
        name: write_qrels(folder / f"{name}.qrels", each)
        for name, each in {"person": person, "Orakel-7b": model, "against": against}.items()
    } | {"queries": len(grades)}


@pytest.fixture(scope="module")
def store(files, tmp_path_factory):
    """The sweep by the person's judgements, which count as complete: they grade few of the documents."""
    path = str(tmp_path_factory.mktemp("sweep") / "person.db")
    run("sweep", *SELECTORS, "--qrels", files["person"], "--judgements", "complete", "--store", path)
    return path


def list_flags(files, judge):
    return (
        "--corpus",
        "numpy-api",
        "--qrels",
        files["person"],
        "--judgements",
        "complete",
        "--model-judged",
        files[judge],
        "--metric",
        "recall",
    )


@pytest.fixture(scope="module")
def compared(files, store):
    """What a comparison by both judges prints, and its JSON with the wins."""
    command = ("compare", store, *list_flags(files, "Orakel-7b"))
    return run(*command), json.loads(run(*command, "--wins", "--json"))


def test_sentences_name_the_model_its_queries_and_its_agreement(files, compared):
    output = compared[0]
    assert f"judged by Orakel-7b on {files['queries']} queries, corrected by {N_PERSON} of yours." in output
    assert re.search(
        r"Orakel-7b gives your grade to \d\d% of \d+ documents \(κ 0\.\d\d, 0\.\d\d to 0\.\d\d\)\.", output
    )


def test_queries_to_judge_next_are_those_that_only_the_model_judged(files, compared):
    output, values = compared
    (names,) = re.findall(r"judge these queries next: (.*)\.", output)
    person = {line.split()[0] for line in Path(files["person"]).read_text().splitlines()}
    assert values["next_queries"][:5] == names.split(", ")
    assert len(values["next_queries"]) == files["queries"] - N_PERSON and not person & set(values["next_queries"])


@pytest.mark.deep
def test_tuning_by_both_reports_on_queries_that_neither_chose_on(files, tmp_path):
    flags = ("--select", "mmr", "--corpus", "numpy-api", "--qrels", files["person"], "--judgements", "complete")
    flags = (
        *flags,
        "--dev",
        "test",
        "--halve",
        "-k",
        "5",
        "--points",
        "3",
        "--json",
        "--store",
        str(tmp_path / "t.db"),
    )
    both, alone = (json.loads(run("tune", *flags, *more)) for more in (("--model-judged", files["Orakel-7b"]), ()))
    judge, reported = both["decision"]["judge"], both["decision"]["confirm_queries"]
    assert alone["decision"]["judge"] is None and judge["judge"] == "Orakel-7b"
    # The half that reports is left out of the model's queries.
    assert judge["model_queries"] == files["queries"] - (N_PERSON - judge["person_queries"])
    assert judge["agreement"]["kappa"] > 0.5 and reported == N_PERSON - judge["person_queries"]
    assert "diverse" in run("tune", *flags, "--metric", "recall", "--model-judged", files["Orakel-7b"], fails=True)


def test_json_has_the_judge_and_the_corrected_comparisons(store, files, compared):
    values = compared[1]
    judge = values["decision"]["judge"]
    assert (judge["person_queries"], judge["model_queries"]) == (N_PERSON, files["queries"])
    assert judge["agreement"]["kappa"] > 0.5 and 0 < judge["weight"] <= 1
    assert all(row["judge"]["judge"] == "Orakel-7b" for row in values["wins"])
    alone = json.loads(run("compare", store, "--metric", "recall", "--wins", "--json"))
    assert all(row["judge"] is None for row in alone["wins"])
    widths = [sum(row["single_high"] - row["single_low"] for row in each["wins"]) for each in (values, alone)]
    assert widths[0] < widths[1]


def test_judge_against_the_person_missing_corpus_and_other_axes_are_refused(files, store):
    assert "against must agree with you better than chance" in run(
        "compare", store, *list_flags(files, "against"), fails=True
    )
    assert "--model-judged needs --corpus" in run("compare", store, "--model-judged", files["Orakel-7b"], fails=True)
    flags = (*list_flags(files, "Orakel-7b"), "--x", "recall", "--y", "ilad")
    assert "--model-judged needs a y axis that judgements decide" in run("compare", store, *flags, fails=True)


def test_runs_of_other_systems_are_measured_by_both(files, store, tmp_path):
    dataset = engine.load_dataset("numpy-api")
    path = tmp_path / "other.json"
    path.write_text(
        json.dumps({query: {doc: 1.0 for doc in own} for query, own in dataset.qrels["test"].grades.items()})
    )
    values = json.loads(run("compare", store, *list_flags(files, "Orakel-7b"), "--run", str(path), "--wins", "--json"))
    (row,) = [row for row in values["wins"] if row["label"] == "run other"]
    assert row["judge"]["model_queries"] == files["queries"] and row["difference"] > 0


def test_tuning_takes_the_models_queries_from_its_own_folder(files, tmp_path):
    dataset = engine.load_dataset("numpy-api")
    texts = dict(zip(dataset.queries.ids, dataset.queries.texts, strict=True))
    for name in ("person", "Orakel-7b"):
        (tmp_path / name / "qrels").mkdir(parents=True)
        rows = [line.split() for line in Path(files[name]).read_text().splitlines()]
        lines = [f"{query}\t{doc}\t{grade}" for query, _, doc, grade in rows]
        (tmp_path / name / "qrels" / "dev.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]) + "\n")
        # The person's export has the queries that the person judged, under ids of their own.
        queries = [json.dumps({"_id": query, "text": texts[query]}) for query in dict.fromkeys(row[0] for row in rows)]
        (tmp_path / name / "queries.jsonl").write_text("\n".join(queries) + "\n")
    flags = (
        "--select",
        "mmr",
        "--corpus",
        "numpy-api",
        "--qrels",
        str(tmp_path / "person"),
        "--judgements",
        "complete",
    )
    flags = (*flags, "--test", "none", "-k", "5", "--points", "3", "--json", "--store", str(tmp_path / "t.db"))
    judge = json.loads(run("tune", *flags, "--model-judged", str(tmp_path / "Orakel-7b")))["decision"]["judge"]
    assert (judge["model_queries"], judge["person_queries"]) == (files["queries"], N_PERSON)
