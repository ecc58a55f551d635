"""Files of judgements: found by name in qrels/ and beside the corpus; what is not read is named with the reason."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.data.judgement_files import has_judgement_suffix, is_judgement_name, list_candidates, name_split
from engine.data.readers import load_dataset
from engine.errors import DataError
from support.datafiles import beir, join_notices, write_file
from support.draws import deepen

LINE = "q0\td0\t1\n"
GRADES = {"q0": {"d0": 1}}


def load_with(folder, *names, **options):
    """Load a data set of q0 to q2 and d0 to d3, with these files, of one judgement each."""
    beir(folder)
    for name in names:
        write_file(folder, name, LINE)
    return load_dataset(folder, **options)


@pytest.mark.parametrize(
    "name",
    ["qrels/test.tsv", "qrels/test.txt", "qrels/test.csv", "qrels/test.qrels", "qrels/test.TSV", "qrels/qrels.test.tsv",
     "qrels/qrels", "qrels/test-qrels.txt", "qrels.tsv", "qrels.txt", "test.qrels", "qrels", "qrels.test.tsv",
     "my-qrels.csv", "covid.qrel", "judgements.tsv", "relevance_judgments.txt", "qrels.adhoc", "QRELS.TXT"],
)  # fmt: skip
def test_judgements_are_found_in_the_folder_and_beside_the_corpus(tmp_path, name):
    dataset = load_with(tmp_path, name)
    assert {split: qrels.grades for split, qrels in dataset.qrels.items()} == {"test": GRADES}
    assert dataset.notices == ()


def test_splits_beside_the_corpus_are_told_by_their_names(tmp_path):
    dataset = load_with(tmp_path, "qrels.train.tsv", "qrels.dev.small.txt", "test_qrels.csv")
    assert list(dataset.qrels) == ["train", "test", "dev-small"] and dataset.notices == ()


def test_parts_of_a_split_are_one(tmp_path):
    write_file(tmp_path, "qrels/test-00000-of-00002.tsv", LINE)
    write_file(tmp_path, "qrels/test-00001-of-00002.tsv", "q1\td1\t1\n")
    assert load_with(tmp_path).qrels["test"].grades == {"q0": {"d0": 1}, "q1": {"d1": 1}}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("qrels/test.tsv", "qrels/test.json", "qrels/test.tsv.gz"),
         "2 files are not read: the split test is read from qrels/test.tsv (first: 'qrels/test.json', 'qrels/test.tsv"),
        (("qrels/test.tsv", "qrels.csv"),
         "1 file is not read: judgements are those of the folder qrels (first: 'qrels.csv')"),
        (("qrels/test.tsv", "qrels/dev.xlsx"),
         "1 file is not read: judgements are .tsv, .txt, .csv, .qrels, .qrel, .trec, .jsonl, .ndjson, .json, "
         ".parquet, or those with .gz behind (first: 'qrels/dev.xlsx')"),
        (("qrels/test.tsv", "dev.tsv", "extra.docx"),
         "2 files are not read: not among corpus.jsonl, queries.jsonl, qrels/, aspects.tsv, "
         "answers.tsv, vectors.npy and query_vectors.npy, or .npz, with .ids.txt (first: 'dev.tsv', 'extra.docx')"),
        (("qrels/test.tsv", "qrels/old/dev.tsv"),
         "1 file is not read: judgements lie in qrels, in no folder inside it (first: 'dev.tsv')"),
        (("test.qrels", "qrels.xlsx"), "or those with .gz behind (first: 'qrels.xlsx')"),
    ],
)  # fmt: skip
def test_files_that_are_not_read_are_named_with_the_reason(tmp_path, names, message):
    dataset = load_with(tmp_path, *names)
    assert dataset.qrels["test"].grades == GRADES and message in join_notices(dataset.notices)


def test_hidden_files_and_documentation_are_passed_over(tmp_path):
    names = (
        "README.md",
        "LICENSE",
        "qrels/README.txt",
        ".DS_Store",
        "qrels/.keep",
        "paper.pdf",
        "sweep.db",
        "sweep.db-wal",
    )
    assert load_with(tmp_path, "qrels/test.tsv", *names).notices == ()


@pytest.mark.parametrize("folder", ["judgements", "qrel", "test-sets"])
def test_folders_that_may_hold_judgements_are_named(tmp_path, folder):
    dataset = load_with(tmp_path, f"{folder}/test.tsv")
    remark = f"1 folder may hold judgements and is not read, as its name is not qrels (first: {folder!r})"
    assert dataset.qrels == {} and remark in join_notices(dataset.notices)
    assert load_dataset(tmp_path, qrels=folder).qrels["test"].grades == GRADES


def test_qrels_may_name_a_file_in_the_folder_or_elsewhere(tmp_path):
    elsewhere = write_file(tmp_path, "elsewhere/covid-round5.txt", "q1 0 d1 2\n")
    folder = beir(tmp_path / "set", qrels__test=LINE)
    write_file(folder, "extra.dev.csv", "q2,d2,1\n")
    assert load_dataset(folder, qrels=str(elsewhere)).qrels["test"].grades == {"q1": {"d1": 2}}
    assert load_dataset(folder, qrels="extra.dev.csv").qrels["dev"].grades == {"q2": {"d2": 1}}
    with pytest.raises(DataError, match=r"has no judgements 'none.tsv'; it has qrels$"):
        load_dataset(folder, qrels="none.tsv")


def test_a_name_in_the_folder_is_no_path_elsewhere(tmp_path, monkeypatch):
    beir(tmp_path / "cwd/extra", queries=[{"_id": "q9", "text": "which"}], qrels__test="q9\td0\t1\n")
    monkeypatch.chdir(tmp_path / "cwd")
    folder = beir(tmp_path / "set", qrels__test=LINE)
    assert load_dataset(folder, qrels="extra").queries.ids == ("q9",)
    for name in ("extra", "extra/test.tsv"):
        inner = beir(tmp_path / name.replace("/", "-"), qrels__test=LINE)
        write_file(inner, name, "q0\td1\t2\n")
        assert load_dataset(inner, qrels=name).qrels["test"].grades == {"q0": {"d1": 2}}


@pytest.fixture(params=["file", "folder"])
def folder_named_so(request, tmp_path, monkeypatch):
    """The current folder, in which a file or a folder is called qrels."""
    (tmp_path / "cwd").mkdir()
    if request.param == "file":
        write_file(tmp_path / "cwd", "qrels", LINE)
    else:
        beir(tmp_path / "cwd/qrels", queries=[{"_id": "q0", "text": "which"}], qrels__test=LINE)
    monkeypatch.chdir(tmp_path / "cwd")


def test_the_default_name_is_nothing_of_the_current_folder(folder_named_so, tmp_path):
    assert load_with(tmp_path / "set").qrels == {}
    table = write_file(tmp_path, "docs.csv", "id,text\nd0,a\n")
    assert load_dataset(table).qrels == {} and len(load_dataset(table).queries) == 0


# The demo is made of the documentation of this Python, which takes seconds.
@pytest.mark.deep
@pytest.mark.parametrize("folder_named_so", deepen(["file", "folder"], ["file"]), indirect=True)
def test_the_default_name_of_a_demo_is_nothing_of_the_current_folder(folder_named_so):
    assert len(load_dataset("python-api").queries) == 0


@pytest.mark.parametrize("name", ["gold.tsv", "qrels/test.tsv", "qrels", "."])
def test_judgements_of_a_single_table_bring_the_queries_beside_them(tmp_path, name):
    table = write_file(tmp_path, "docs.csv", "id,text\nd0,a\nd1,b\n")
    judged = tmp_path / "judged"
    for file_name in ("gold.tsv", "qrels/test.tsv"):
        write_file(judged, file_name, LINE)
    with pytest.raises(
        DataError,
        match=r"has judgements, and the corpus has no queries: put queries\.csv or queries\.jsonl|no judgements",
    ):
        load_dataset(table, qrels=str(judged / name))
    write_file(judged, "queries.jsonl", '{"_id": "q0", "text": "which"}\n')
    dataset = load_dataset(table, qrels=str(judged / name))
    assert dataset.queries.ids == ("q0",)
    assert dataset.qrels["test"].grades == GRADES


def test_replaced_judgements_and_queries_are_not_read_and_named(tmp_path):
    folder = beir(tmp_path / "set", qrels__test=LINE + "q0\td0\t2\n", qrels__dev="no judgement")
    write_file(folder, "queries.jsonl", "broken")
    elsewhere = beir(tmp_path / "judged", queries=[{"_id": "q9", "text": "which"}], qrels__test="q9\td1\t1\n")
    dataset = load_dataset(folder, qrels=str(elsewhere))
    assert dataset.queries.ids == ("q9",) and dataset.qrels["test"].grades == {"q9": {"d1": 1}}
    remark = f"2 files are not read: queries and judgements are those of {elsewhere} (first: 'qrels/dev.tsv'"
    assert remark in join_notices(dataset.notices)
    with pytest.raises(DataError, match=r"queries\.jsonl"):
        load_dataset(folder)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("test.tsv", "test"), ("qrels.tsv", "test"), ("Qrels.DEV.tsv", "DEV"), ("qrels.dev.small.tsv", "dev-small"),
        ("nfcorpus-qrels-train.tsv.gz", "nfcorpus-train"), ("a b.tsv", "a b"), ("test-00000-of-00003.parquet", "test"),
    ],
)  # fmt: skip
def test_name_split_leaves_out_the_word_qrels(name, expected):
    assert name_split(Path(name)) == expected


def test_candidates_are_all_that_may_be_read(tmp_path):
    names = "qrels.txt", "aspects.csv", "gold/test.tsv.gz", "qrels/dev.json", "corpus.jsonl", "gold/a.npy", "b.qrels"
    for name in names:
        write_file(tmp_path, name, LINE)
    found = {path.relative_to(tmp_path).as_posix() for path in list_candidates(tmp_path)}
    assert found == {"qrels.txt", "aspects.csv", "gold/test.tsv.gz", "qrels/dev.json", "qrels", "b.qrels"}
    assert not is_judgement_name(".qrels") and not has_judgement_suffix("a.parquet.gz")


# Tables of documents and queries in other formats, and vectors, beside judgements


def test_judgements_belong_to_queries_in_any_format(tmp_path):
    write_file(tmp_path, "corpus.csv", "_id,text\nd0,a\nd1,b\n")
    write_file(tmp_path, "queries.tsv", "id\tquery\nq0\twhich\n")
    write_file(tmp_path, "qrels.json", '{"q0": {"d0": 1}}')
    dataset = load_dataset(tmp_path)
    assert dataset.queries.texts == ("which",) and dataset.qrels["test"].grades == GRADES
    assert "not read" not in join_notices(dataset.notices)


def test_a_folder_elsewhere_may_have_queries_in_any_format(tmp_path):
    beir(tmp_path / "set", qrels__test=LINE + "q0\td0\t2\n")
    write_file(tmp_path, "judged/queries.csv", "_id,text\nq9,which\n")
    write_file(tmp_path, "judged/test.qrels", "q9 0 d1 1\nq9 0 d1 3\n")
    dataset = load_dataset(tmp_path / "set", qrels=str(tmp_path / "judged"), conflicting_grades="max")
    assert dataset.queries.ids == ("q9",) and dataset.qrels["test"].grades == {"q9": {"d1": 3}}


def test_tables_of_one_name_are_named_with_the_one_that_is_read(tmp_path):
    dataset = load_with(tmp_path, "queries.csv", "corpus.parquet", "qrels/test.tsv")
    notices = join_notices(dataset.notices)
    assert "1 file is not read: queries.jsonl is read in its place (first: 'queries.csv')" in notices
    assert "1 file is not read: corpus.jsonl is read in its place (first: 'corpus.parquet')" in notices


@pytest.mark.parametrize("inner", deepen([".", "data"], ["."]))
def test_judgements_and_queries_beside_parquet_files_are_no_documents(tmp_path, inner):
    (tmp_path / inner).mkdir(exist_ok=True)
    texts = {"id": ["d0", "d1"], "text": ["a", "b"]}
    pq.write_table(pa.table(texts), tmp_path / inner / "train-00000-of-00001.parquet")
    pq.write_table(pa.table({"_id": ["q0"], "text": ["which"]}), tmp_path / "queries.parquet")
    pq.write_table(pa.table({"query-id": ["q0"], "corpus-id": ["d0"], "score": [1]}), tmp_path / "qrels.parquet")
    dataset = load_dataset(tmp_path)
    assert dataset.corpus.ids == ("d0", "d1") and dataset.queries.ids == ("q0",)
    assert dataset.qrels["test"].grades == GRADES and "not read" not in join_notices(dataset.notices)


def test_the_folder_of_documents_is_none_of_judgements(tmp_path):
    (tmp_path / "data").mkdir()
    pq.write_table(pa.table({"id": ["d0"], "text": ["a"]}), tmp_path / "data" / "train.parquet")
    assert "not read" not in join_notices(load_dataset(tmp_path).notices)


def test_files_of_vectors_are_read_whatever_they_are_called(tmp_path):
    beir(tmp_path, qrels__test=LINE)
    for stem, count in (("embeddings", 4), ("asked", 3)):
        np.save(tmp_path / f"{stem}.npy", np.eye(count, 4, dtype=np.float32))
    write_file(tmp_path, "asked.ids.txt", "q0\nq1\nq2\n")
    named_files = {"document_vectors": tmp_path / "embeddings.npy", "query_vectors": tmp_path / "asked.npy"}
    assert "not read" not in join_notices(load_dataset(tmp_path, **named_files).notices)
    assert "(first: 'asked.ids.txt', 'asked.npy', 'embeddings.npy')" in join_notices(load_dataset(tmp_path).notices)
