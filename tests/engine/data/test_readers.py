"""Data sets: folders in BEIR layout, the demos and every judged set; progress and stopping for every source."""

import pickle
import re
import subprocess
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import engine.data.demo
import engine.data.readers
from engine.data.readers import load_dataset
from engine.data.tables import Columns
from engine.errors import Cancelled, DataError
from support.datafiles import TEXT, beir, join_notices, triples, write_file
from support.draws import deepen
from support.field_files import FIELD_FILES, VECTORS
from support.judged_sets import DATA, SETS, needs_data

# Folders in BEIR layout


def test_load_dataset_reads_every_file_of_a_folder(tmp_path):
    corpus = [{"_id": "d1", "title": "T", "text": "x", "metadata": {"answer": "secret"}}, {"_id": 7, "text": "y"}]
    folder = beir(
        tmp_path / "my set",
        corpus,
        [{"_id": 1, "text": "q", "metadata": {"evidence": "secret"}}],
        qrels__zulu="1\td1\t1\n",
        qrels__test="query-id\tcorpus-id\tscore\r\n1\td1\t2\r\n1\t7\t0\r\n",
        qrels__alpha="1\t7\t1.0\n",
        qrels__train="1 0 d1 1\n1  0  7  -1\n",
        qrels__dev="1\tQ0\td1\t3\n",
        qrels_resplit__test="1\t7\t1\n",
        aspects="query-id\taspect-id\tcorpus-id\tscore\n1\ta\td1\t1\n1\tb\t7\t0\n",
    )
    dataset = load_dataset(folder)
    assert triples(dataset.corpus) == [("d1", "x", "T"), ("7", "y", "")] and dataset.corpus.name == "my set"
    assert dataset.queries.ids == ("1",) and dataset.queries.texts == ("q",)
    assert list(dataset.qrels) == ["train", "dev", "test", "alpha", "zulu"]
    assert {split: qrels.grades for split, qrels in dataset.qrels.items()} == {
        "train": {"1": {"d1": 1, "7": -1}},
        "dev": {"1": {"d1": 3}},
        "test": {"1": {"d1": 2, "7": 0}},
        "alpha": {"1": {"7": 1}},
        "zulu": {"1": {"d1": 1}},
    }
    assert dataset.aspects == {"1": {"a": frozenset({"d1"})}}
    assert dataset.notices == () and dataset.vectors is None and dataset.judged("test").ids == ("1",)
    assert "secret" not in repr(dataset)
    assert load_dataset(str(folder), qrels="qrels_resplit").qrels["test"].grades == {"1": {"7": 1}}
    with pytest.raises(DataError, match="no judgements 'qrels_x'; it has qrels, qrels_resplit"):
        load_dataset(folder, qrels="qrels_x")


@given(
    st.lists(
        st.tuples(TEXT.filter(lambda s: "\t" not in s and "\n" not in s), st.integers(-9, 0)),
        min_size=1,
        unique_by=lambda row: row[0],
    )
)
def test_judgements_keep_ids_byte_for_byte(rows):
    with tempfile.TemporaryDirectory() as folder:
        lines = "".join(f'"q\t{d}\t{g}\n' for d, g in rows)
        beir(folder, None, [{"_id": '"q', "text": "x"}], qrels__test=f"query-id\tcorpus-id\tscore\n{lines}")
        assert load_dataset(folder).qrels["test"].grades == {'"q': dict(rows)}


def test_only_the_corpus_is_needed(tmp_path):
    write_file(tmp_path, "corpus.jsonl", '\n{"_id": "a", "text": "x"}\n  \n')
    dataset = load_dataset(tmp_path)
    assert len(dataset.corpus) == 1 and len(dataset.queries) == 0 and dataset.qrels == {} and dataset.aspects is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("q0\td0\t0.5\n", "line 1: the score must be a whole number; found '0.5'"),
        ("q0\td0\t1\n\nq0\td1\tx\n", "line 3: the score must be a whole number; found 'x'"),
        ("q0\td0\t1_0\n", "whole number"),
        ("q0\td0\t\n", "whole number"),
        ("q0\td0\t１\n", "whole number"),
        ("q0\td0\tinf\n", "whole number"),
        ("q0\td0\t1e2\n", "whole number"),
        ("q0\td0\t" + "9" * 5000, "whole number"),
        ("query-id\tcorpus-id\tscore\nq0\td0\n", "line 2: expected 3 fields (query-id, corpus-id, score) separated by"),
        (
            "q0\t0\td0\t1\nq0\td1\t1\n",
            "line 2: expected 4 fields (query, 0, document, grade) separated by tabs, found 3",
        ),
        ("q0\n", "line 1: expected 3 fields"),
        ("q0\td0\t1\nq0\td0\t2\n", "line 2: 'q0 d0' is judged 2 here and 1 on line 1; keep one of them"),
        (b"q0\td0\t1\nq\xe9\td0\t1\n", "line 2 is not UTF-8: byte 0xe9 at offset 9"),
    ],
)
def test_broken_judgements_say_where(tmp_path, content, message):
    with pytest.raises(DataError) as error:
        load_dataset(beir(tmp_path, qrels__test=content))
    assert message in str(error.value) and "test.tsv" in str(error.value)


@pytest.mark.parametrize("name", ["score", "Grade", "relevance", "rel", "label", "judgement", "judgment"])
def test_a_header_with_a_usual_grade_name_is_skipped(tmp_path, name):
    dataset = load_dataset(beir(tmp_path, qrels__test=f"query-id\tcorpus-id\t{name}\nq0\td0\t1\n"))
    assert dataset.qrels["test"].grades == {"q0": {"d0": 1}}


def test_scores_have_at_most_18_digits(tmp_path):
    longest = "9" * 18
    grades = load_dataset(beir(tmp_path / "a", qrels__test=f"q0\td0\t{longest}\n")).qrels["test"].grades
    assert grades == {"q0": {"d0": int(longest)}}
    with pytest.raises(DataError, match="whole number"):
        load_dataset(beir(tmp_path / "b", qrels__test=f"q0\td0\t{longest}9\n"))


def test_a_relative_folder_names_the_corpus(tmp_path, monkeypatch):
    beir(tmp_path / "my set")
    monkeypatch.chdir(tmp_path / "my set")
    assert load_dataset(".").corpus.name == "my set"


def test_judgements_of_what_does_not_exist_stay_with_a_notice(tmp_path):
    lines = "".join(f"q0\tgone{i}\t1\n" for i in range(7)) + "q8\td0\t1\nq9\tgone0\t1\n"
    lines += "".join(f"q{query}\td{i}\t1\n" for query in (0, 1) for i in range(4))
    dataset = load_dataset(beir(tmp_path, qrels__test=lines, aspects="q7\ta\td0\t1\nq0\ta\td0\t1\n"))
    assert dataset.qrels["test"].count == 17 and dataset.aspects.keys() == {"q0", "q7"}
    documents, queries, aspects = dataset.notices
    assert (documents.count, documents.first) == (7, tuple(f"gone{i}" for i in range(5)))
    assert "documents judged in qrels/test.tsv are not in the corpus" in str(documents)
    assert (queries.count, queries.first) == (2, ("q8", "q9")) and "queries.jsonl" in queries.remark
    assert aspects.first == ("q7",) and "aspects.tsv" in aspects.remark


@pytest.mark.threat("judgements of other documents or queries", "never measured: an error that names file and share")
@pytest.mark.parametrize(
    ("lines", "said_"),
    [
        ("q0\tx1\t1\nq1\tx2\t1\n", r"qrels/test.tsv: 100% of what it calls relevant \(2 of 2; first: 'x1', 'x2'\)"),
        (
            "q0\tx1\t1\nq1\tx2\t1\nq1\td0\t1\n",
            r"67% .* \(2 of 3; first: 'x1', 'x2'\) .* ids are like 'd0'.*column of its ids",
        ),
        # What one query has in the corpus does not stand for documents that others name, nor what is not relevant.
        ("q0\tx1\t1\nq0\td0\t0\nq0\td1\t0\n", r"100% .*\(1 of 1"),
        ("q0\tx1\t1\nz\td0\t1\nz\td1\t1\n", r"100% .*\(1 of 1"),
        ("z\td0\t1\n", r"none of its queries \(first: 'z'\) is in queries.jsonl"),
        ("query-id\tcorpus-id\tscore\n", "qrels/test.tsv judges nothing"),
    ],
)
def test_judgements_of_other_documents_are_never_measured(tmp_path, lines, said_):
    dataset = load_dataset(beir(tmp_path, qrels__dev="q0\td0\t1\n", qrels__test=lines))
    assert list(dataset.qrels) == ["dev"] and dataset.judged("dev").ids == ("q0",)
    for use in (dataset.judged, dataset.qrels.__getitem__):
        with pytest.raises(DataError, match=said_):
            use("test")
    assert re.search(r"judgements? (is|are) left out: qrels/test.tsv", join_notices(dataset.notices))
    copied = pickle.loads(pickle.dumps(dataset.qrels))
    assert copied == dataset.qrels and copied.refusals == dataset.qrels.refusals


def test_half_of_the_relevant_documents_may_be_missing(tmp_path):
    dataset = load_dataset(beir(tmp_path, qrels__test="q0\td0\t1\nq0\tx\t1\nq1\tx\t0\nq1\ty\t0\n"))
    assert dataset.qrels["test"].count == 4 and "2 documents judged in qrels/test.tsv" in join_notices(dataset.notices)


def test_aspects_of_other_documents_are_left_out(tmp_path):
    dataset = load_dataset(beir(tmp_path, qrels__test="q0\td0\t1\n", aspects="q0\ta\tx\t1\n"))
    assert dataset.aspects is None and "1 aspect is left out: aspects.tsv: 100%" in join_notices(dataset.notices)


def test_a_choice_that_leaves_nothing_judged_says_so(tmp_path):
    rows = [{"_id": f"d{i}", "text": "x", "kind": "ab"[i % 2]} for i in range(4)]
    folder = beir(tmp_path, rows, qrels__test="q0\td0\t1\n", qrels__dev="q0\td1\t1\n", qrels__other="q0\tx\t1\n")
    dataset = load_dataset(folder, where={"kind": ["a"]})
    assert list(dataset.qrels) == ["test"]
    with pytest.raises(DataError, match="where= leaves no judgement of split 'dev'"):
        dataset.judged("dev")
    with pytest.raises(DataError, match="100%"):
        dataset.judged("other")


def test_repeated_judgements_give_a_notice(tmp_path):
    dataset = load_dataset(beir(tmp_path, qrels__test="q0\td0\t1\nq0\td0\t1\nq0\td0\t1.0\n"))
    assert dataset.qrels["test"].count == 1
    assert [(n.count, n.first) for n in dataset.notices] == [(2, ("q0 d0", "q0 d0"))]


def test_ids_that_occur_twice_are_an_error(tmp_path):
    corpus = [{"_id": doc, "text": "x"} for doc in "abbaccddeeffg"]
    with pytest.raises(
        DataError, match=r"^corpus\.jsonl line 3: line 2 has the id 'b' already \(6 rows repeat an id\)"
    ):
        load_dataset(beir(tmp_path, corpus))
    assert "".join(load_dataset(tmp_path, repeated="first").corpus.ids) == "abcdefg"
    with pytest.raises(
        DataError, match=r"^queries\.jsonl line 2: line 1 has the id 'q' already \(1 row repeats an id\)"
    ):
        load_dataset(beir(tmp_path, queries=[{"_id": "q", "text": "x"}] * 2))
    dataset = load_dataset(tmp_path, repeated="number")
    assert dataset.queries.ids == ("q", "q-2") and "1 row has an id" in join_notices(dataset.notices)


def test_named_columns_alone_are_kept_as_metadata(tmp_path):
    corpus = [
        {"_id": "d1", "text": "x", "year": 1999, "metadata": {"department": "sales", "answer": "secret"}},
        {"_id": "d2", "text": "y", "metadata": "none"},
    ]
    queries = [{"_id": "q", "text": "z", "metadata": {"department": "law", "evidence": "secret"}}]
    folder = beir(tmp_path, corpus, queries, qrels__test="q\td1\t1\n")
    dataset = load_dataset(folder, metadata=("department", "year"))
    assert dataset.corpus.metadata == {"department": ("sales", ""), "year": ("1999", "")}
    assert dataset.queries.metadata == {"department": ("law",)} == dataset.judged("test").metadata
    assert "secret" not in repr(dataset) and dataset.queries == load_dataset(folder).queries
    with pytest.raises(DataError, match="neither documents nor queries have a column 'topic'"):
        load_dataset(folder, metadata=["topic"])


def test_documents_are_chosen_by_a_column_with_what_is_judged_of_them(tmp_path):
    corpus = [{"_id": f"d{i}", "text": f"x{i}", "topic": t, "year": i % 2} for i, t in enumerate(["a", "b", "a", "c"])]
    folder = beir(
        tmp_path,
        corpus,
        qrels__test="q0\td0\t1\nq0\td1\t1\nq1\td3\t1\nq1\tgone\t1\nq2\td3\t1\n",
        aspects="q0\tone\td0\t1\nq0\ttwo\td1\t1\nq1\tone\td3\t1\n",
    )
    np.save(tmp_path / "vectors.npy", np.eye(4, dtype=np.float32))
    chosen = load_dataset(folder, where={"topic": ["a", "b"]})
    assert chosen.corpus.ids == ("d0", "d1", "d2") and chosen.corpus.metadata == {"topic": ("a", "b", "a")}
    assert chosen.qrels["test"].grades == {"q0": {"d0": 1, "d1": 1}, "q1": {"gone": 1}}
    assert chosen.aspects == {"q0": {"one": frozenset({"d0"}), "two": frozenset({"d1"})}}
    assert chosen.vectors.ids == chosen.corpus.ids and chosen.vectors.vectors.tolist() == np.eye(4)[:3].tolist()
    assert "1 document was left out by topic (first: 'd3')" in join_notices(chosen.notices)
    filtered = load_dataset(folder, where={"topic": ["a"], "year": {"0"}})
    assert filtered.corpus.ids == ("d0", "d2") and filtered.aspects == {"q0": {"one": frozenset({"d0"})}}
    with pytest.raises(DataError, match=r"where= leaves no document: 'topic' is 'a', 'b', 'c' …, and \['d'\]"):
        load_dataset(folder, where={"topic": ["d"]})
    for wrong in ({"topic": "a"}, {"nothing": ["x0"]}):
        with pytest.raises(DataError, match=r"where= must be columns|neither documents nor queries"):
            load_dataset(folder, where=wrong)


def test_messages_name_files_without_their_folder(tmp_path):
    contents = {
        "a.csv": "id,text\n1,x,y\n",
        "a.jsonl": "{",
        "a.parquet": "x",
        "a.npy": "x",
        "a.tsv": b"id\ttext\n\xe9\n",
    }
    sources = [write_file(tmp_path, name, content) for name, content in contents.items()]
    sources += [beir(tmp_path / "b", qrels__test="q\n"), beir(tmp_path / "c", aspects="q\n")]
    for source in sources:
        with pytest.raises(DataError) as error:
            load_dataset(source)
        assert str(tmp_path) not in str(error.value)


def test_empty_texts_stay_with_a_notice(tmp_path):
    corpus = [{"_id": f"d{i}", "title": " ", "text": None if i % 2 else ""} for i in range(6)]
    corpus += [{"_id": "t", "title": "T", "text": ""}]
    dataset = load_dataset(beir(tmp_path, corpus, [{"_id": "q", "text": " "}]))
    assert len(dataset.corpus) == 7 and dataset.corpus.titles[0] == " "
    assert [(n.count, n.first) for n in dataset.notices] == [(6, ("d0", "d1", "d2", "d3", "d4")), (1, ("q",))]


def test_missing_file_error_says_what_is_expected(tmp_path):
    (tmp_path / "empty").mkdir()
    files = [write_file(tmp_path, name, b"") for name in ("a.gz", "a")]
    for source in (tmp_path / "empty", tmp_path / "nothing", *files):
        with pytest.raises(DataError, match=r"corpus\.jsonl") as error:
            load_dataset(source)
        assert (source.name if source in files else str(source)) in str(error.value)
    with pytest.raises(DataError, match="holds no documents"):
        load_dataset(beir(tmp_path / "x", corpus=[]))
    for source in (beir(tmp_path / "y"), "numpy-api", tmp_path / "v.npy"):
        with pytest.raises(DataError, match="columns= is for tables"):
            load_dataset(source, columns=Columns(text="text"))
    with pytest.raises(
        DataError, match=r"qrels='q' must be a folder with queries.jsonl and qrels/, or a file of judgements beside"
    ):
        load_dataset(write_file(tmp_path, "a.csv", "id,text\na,x\n"), qrels="q")


# Progress and stopping


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet", "a.npy", "folder"])
def test_reading_reports_and_stops(tmp_path, name):
    path = tmp_path / name
    match path.suffix:
        case ".parquet":
            pq.write_table(pa.table({"id": list(map(str, range(9000))), "text": ["x"] * 9000}), path)
        case ".npy":
            np.save(path, np.ones((9000, 1000), np.float16))
        case ".jsonl":
            write_file(tmp_path, name, "".join(f'{{"id": {i}, "text": "x"}}\n' for i in range(9000)))
        case "":
            beir(path)
        case suffix:
            gap = "," if suffix == ".csv" else "\t"
            write_file(tmp_path, name, f"id{gap}text\n" + "".join(f"{i}{gap}x\n" for i in range(9000)))
    seen, stop = [], threading.Event()
    load_dataset(path, progress=lambda *step: seen.append(step), stop=stop)
    assert all(0 <= done <= total for done, total, _ in seen) and seen[-1][0] == seen[-1][1]
    assert name == "folder" or (len(seen) >= 3 and name in seen[0][2])
    stop.set()
    with pytest.raises(Cancelled):
        load_dataset(path, stop=stop)


# Built-in demos


def test_the_numpy_demo_judges_functions_by_any_of_their_names(tmp_path, monkeypatch):
    names = {"numpy.abs": 1, "numpy.absolute": 3, "numpy.fabs": 2, "numpy.no": 1}
    judged = "".join(f"q1\t{name}\t{grade}\n" for name, grade in names.items())
    beir(tmp_path / "numpy-api", None, [{"_id": "q1", "text": "a"}], qrels__dev="q1\tnumpy.no\t1\n", qrels__test=judged)
    monkeypatch.setattr(engine.data.demo, "demo_folder", lambda: tmp_path)
    dataset = load_dataset("numpy-api")
    absolute = engine.data.demo.find_canonical_id("numpy.abs")
    assert dataset.corpus.name == "numpy-api" and absolute in dataset.corpus.position
    assert list(dataset.qrels) == ["test"] and dataset.qrels.refusals == {"dev": "qrels/dev.tsv judges nothing"}
    assert dataset.qrels["test"].grades == {"q1": {absolute: 3, engine.data.demo.find_canonical_id("numpy.fabs"): 2}}
    assert "1 function judged in qrels/test.tsv is not in the installed NumPy and left out" in join_notices(
        dataset.notices
    )


def test_the_python_demo_passes_progress_and_stop_on(monkeypatch):
    def documents(progress, stop):
        progress(1, 2, "os")
        if stop.is_set():
            raise Cancelled("stopped")
        return [("os", "os", "x"), ("os.path", "os.path", "")]

    monkeypatch.setattr(engine.data.demo, "python_api_documents", documents)
    seen, stop = [], threading.Event()
    dataset = load_dataset("python-api", progress=lambda *step: seen.append(step), stop=stop)
    assert triples(dataset.corpus) == [("os", "x", "os"), ("os.path", "", "os.path")] and seen == [(1, 2, "os")]
    stop.set()
    with pytest.raises(Cancelled):
        load_dataset("python-api", progress=lambda *step: None, stop=stop)


def test_the_demo_module_wins_over_the_installed_demo_folder(tmp_path):
    """A wheel installs a folder engine/data/demo beside engine/data/demo.py."""
    source = Path(engine.data.__file__).parent
    for name in ("__init__.py", "demo.py"):
        write_file(tmp_path, f"engine/data/{name}", (source / name).read_bytes())
    write_file(tmp_path, "engine/__init__.py", "")
    for name in ("errors.py", "progress.py"):
        write_file(tmp_path, f"engine/{name}", (source.parent / name).read_bytes())
    write_file(tmp_path, "engine/data/demo/numpy-api/queries.jsonl", "")
    code = (
        "import engine.data.demo as demo; from importlib import resources; print(demo.__file__, demo.demo_folder);"
        "print((resources.files('engine.data') / 'demo' / 'numpy-api' / 'queries.jsonl').is_file())"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert str(tmp_path / "engine/data/demo.py") in run.stdout and run.stdout.endswith("True\n")


pytestmark = needs_data


def _readme(name):
    return (DATA / name / "README.md").read_text(encoding="utf-8")


def _number(pattern, text):
    return int(re.search(pattern, text)[1])


@cache
def load_set(name):
    """Load a judged set once for all tests that only look at it."""
    return load_dataset(DATA / name)


@pytest.mark.parametrize("name", SETS)
def test_counts_are_those_of_the_readme(name):
    text, dataset = _readme(name), load_set(name)
    assert len(dataset.corpus) == _number(r"\|corpus\| = (\d+)", text)
    assert dataset.corpus.name == name
    # Where only some splits of the source were taken, the README's head gives the queries that are left.
    part = re.search(r"^The .* claims \((\d+) queries\)", text, re.M)
    assert len(dataset.queries) == (int(part[1]) if part else _number(r"queries in queries\.jsonl = (\d+)", text))
    rows = re.findall(r"^\| (\w+) \| (\d+) \|.*\| (\d+) \|$", text, re.M)
    stated = {split: (int(queries), int(judgements)) for split, queries, judgements in rows}
    found = {split: (len(qrels), qrels.count) for split, qrels in dataset.qrels.items()}
    assert found and found == {split: counts for split, counts in stated.items() if part is None or split in found}


@pytest.mark.parametrize("name", SETS)
def test_judgements_name_what_exists_and_every_text_is_text(name):
    dataset = load_set(name)
    copies = len(dataset.corpus) - len(set(zip(dataset.corpus.titles, dataset.corpus.texts, strict=True)))
    assert [notice.count for notice in dataset.notices] == [copies] * (copies > 0), "nothing else is amiss"
    assert not any('"metadata"' in text for text in (*dataset.corpus.passages, *dataset.queries.texts))
    for split, qrels in dataset.qrels.items():
        assert len(dataset.judged(split)) == len(qrels)
        assert all(qrels.relevant(query) <= dataset.corpus.position.keys() for query in qrels.grades)


@pytest.mark.parametrize("name", SETS)
def test_resplits_part_the_judged_queries(name):
    if not (DATA / name / "qrels_resplit").is_dir():
        pytest.skip("no resplit")
    stated = re.search(r"60/20/20 = (\d+)/(\d+)/(\d+) queries", _readme(name))
    official, resplit = load_dataset(DATA / name).qrels, load_dataset(DATA / name, qrels="qrels_resplit").qrels
    assert list(resplit) == ["train", "dev", "test"]
    assert [len(qrels) for qrels in resplit.values()] == [int(count) for count in stated.groups()]
    together = {query: grades for qrels in resplit.values() for query, grades in qrels.grades.items()}
    assert together == {query: grades for qrels in official.values() for query, grades in qrels.grades.items()}


def test_aspects_cover_the_judged_documents():
    if "perspectrum" not in SETS:
        pytest.skip("perspectrum is not here")
    dataset = load_dataset(DATA / "perspectrum")
    for qrels in dataset.qrels.values():
        for query in qrels.grades:
            assert frozenset().union(*dataset.aspects[query].values()) == qrels.relevant(query)


DEEP_FIELD_FILES = ("Parquet with emb, vectors=emb", "Parquet with ids as floats", "Parquet of ids and vectors alone")
"""Names of files whose content other tests read, each by processes of its own."""


@pytest.mark.parametrize(
    "case",
    deepen(FIELD_FILES, [case for case in FIELD_FILES if case.name in DEEP_FIELD_FILES]),
    ids=lambda case: case.name,
)
def test_files_of_other_tools_are_read_or_refused_with_a_way_on(tmp_path, case):
    if ".xlsx" in case.name:
        pytest.importorskip("openpyxl")
    path = case.write(tmp_path)
    if case.error:
        with pytest.raises(DataError) as error:
            load_dataset(path, **case.options)
        assert case.error in str(error.value)
        return
    dataset = load_dataset(path, **case.options)
    assert list(dataset.corpus.ids) == case.ids and all("text" in text for text in dataset.corpus.texts)
    assert case.said in " ".join(map(str, dataset.notices))
    if case.has_vectors:
        assert np.allclose(dataset.vectors.vectors, VECTORS, atol=1e-6)
    else:
        assert dataset.vectors is None
