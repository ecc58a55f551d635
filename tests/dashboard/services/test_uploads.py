"""What a browser sends is kept by content, in folders of our choosing."""

import json
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest

import engine
from dashboard.services import corpora, uploads
from dashboard.services.source import Source
from dashboard.tradeoff.system import write_record_call
from engine.errors import DataError
from engine.evaluation.export_decoder import ExportContext

_NUMBERS = count()


def sent(name, data):
    """An upload as Streamlit hands it over."""
    return SimpleNamespace(name=name, file_id=str(next(_NUMBERS)), getvalue=lambda: data)


@pytest.fixture(autouse=True)
def session(monkeypatch):
    monkeypatch.setattr(uploads.st, "session_state", {})


CORPUS = b'{"_id": "007", "text": "a red apple"}\n{"_id": "NA", "text": "a fast car"}\n'


def test_a_table_keeps_its_name_and_reads():
    path = uploads.save_uploads([sent("things.csv", b"id,text\n007,apple\n")])
    assert path.name == "things.csv" and engine.load_dataset(path).corpus.ids == ("007",)
    assert uploads.save_uploads([sent("things.csv", b"id,text\n007,apple\n")]) == path
    assert uploads.save_uploads([sent("things.csv", b"id,text\n008,apple\n")]) != path


def test_a_handful_becomes_a_beir_folder():
    files = [
        sent("corpus.jsonl", CORPUS),
        sent("queries.jsonl", b'{"_id": "q", "text": "fruit"}\n'),
        sent("test.tsv", b"query-id\tcorpus-id\tscore\nq\t007\t1\n"),
    ]
    dataset = engine.load_dataset(uploads.save_uploads(files))
    assert dataset.corpus.ids == ("007", "NA") and dataset.qrels["test"].grades == {"q": {"007": 1}}


def test_vectors_come_with_their_ids(tmp_path):
    np.save(tmp_path / "v.npy", np.eye(2, dtype=np.float32))
    path = uploads.save_uploads([sent("v.npy", (tmp_path / "v.npy").read_bytes()), sent("names.txt", b"a\nb\n")])
    assert path.name == "v.npy" and engine.load_dataset(path).vectors.ids == ("a", "b")


@pytest.mark.parametrize("name", ["../../evil.csv", "..\\..\\evil.csv", "/etc/evil.csv", "C:\\x\\evil.csv"])
def test_a_name_cannot_choose_a_folder(name):
    path = uploads.save_uploads([sent(name, b"id,text\n1,a\n")])
    assert path.name == "evil.csv" and path.parent.parent.name == uploads.UPLOADS_SECTION


@pytest.mark.parametrize(
    "names,message",
    [
        (["a.csv", "b.csv"], "a.csv and b.csv may each be the documents: call the documents' file corpus.csv"),
        (["queries.csv", "qrels.tsv"], "none of queries.csv, qrels.tsv holds documents"),
        (["a.csv", "new-queries.csv", "old_queries.csv"], "call the queries' file queries.csv"),
        (["a.csv", "a.csv"], "same name"),
        (["corpus.jsonl", "notes.docx"], "notes.docx is no part of a BEIR folder"),
        ([".."], "cannot be called"),
        ([".bashrc"], "cannot be called"),
        (["x" * 300 + ".csv"], "cannot be called"),
    ],
)
def test_what_makes_no_corpus_is_refused(names, message):
    with pytest.raises(engine.DataError, match=message):
        uploads.save_uploads([sent(name, CORPUS + b"\n" * number) for number, name in enumerate(names)])


def test_a_rerun_writes_nothing_again(monkeypatch):
    files = [sent("things.csv", b"id,text\n1,a\n")]
    path = uploads.save_uploads(files)
    monkeypatch.setattr(uploads, "_save_files", lambda files: pytest.fail("kept twice"))
    assert uploads.save_uploads(files) == path


def test_a_table_comes_with_the_vectors_of_its_rows(tmp_path):
    np.save(tmp_path / "v.npy", np.eye(2, dtype=np.float32))
    files = [sent("embeddings.npy", (tmp_path / "v.npy").read_bytes()), sent("things.csv", b"id,text\na,x\nb,y\n")]
    dataset = engine.load_dataset(uploads.save_uploads(files))
    assert dataset.vectors.ids == ("a", "b") and dataset.corpus.texts == ("x", "y")


def test_queries_and_judgements_come_in_any_format():
    files = [
        sent("corpus.jsonl", CORPUS),
        sent("queries.tsv", b"_id\ttext\nq\tfruit\n"),
        sent("test.json", b'{"q": {"007": 1}}'),
    ]
    dataset = engine.load_dataset(uploads.save_uploads(files))
    assert dataset.queries.texts == ("fruit",) and dataset.qrels["test"].grades == {"q": {"007": 1}}


def test_ids_of_vectors_come_with_a_folder(tmp_path):
    np.save(tmp_path / "v.npy", np.eye(2, dtype=np.float32))
    vectors = (tmp_path / "v.npy").read_bytes()
    files = [sent("corpus.jsonl", CORPUS), sent("docs.npy", vectors), sent("docs.ids.txt", b"NA\n007\n")]
    dataset = engine.load_dataset(uploads.save_uploads(files))
    assert dataset.vectors.ids == ("007", "NA") and dataset.vectors.vectors.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("names", [("vectors.npy", "query_vectors.npy"), ("docs.npy", "my-queries.npy")])
def test_vectors_of_documents_and_queries_come_with_a_folder(tmp_path, names):
    np.save(tmp_path / "v.npy", np.eye(2, dtype=np.float32))
    np.save(tmp_path / "q.npy", np.eye(1, 2, dtype=np.float32))
    files = [
        sent("corpus.jsonl", CORPUS),
        sent("queries.jsonl", b'{"_id": "q", "text": "fruit"}\n'),
        *(sent(name, (tmp_path / file).read_bytes()) for name, file in zip(names, ("v.npy", "q.npy"), strict=True)),
    ]
    dataset = engine.load_dataset(uploads.save_uploads(files))
    assert dataset.vectors.ids == ("007", "NA") and dataset.queries.embeddings.vectors.tolist() == [[1, 0]]
    with pytest.raises(engine.DataError, match="may hold the same vectors"):
        uploads.save_uploads([*files, sent("more.npy", b"x")])


def test_folder_of_all_uploads_is_no_upload():
    path = uploads.save_uploads([sent("a.csv", b"id,text\n1,x\n")])
    folder = path.parent.parent
    assert uploads.find_upload_folder(str(path)) == path.parent.name
    assert uploads.find_upload_folder(str(folder)) == uploads.find_upload_folder("uploads/a.csv") == ""


PAPERS = b"id,title,text\n1,Graphs,how graphs are searched\n2,Trees,how trees are grown\n"
JUDGED = b"query-id\tcorpus-id\tscore\nq1\t2\t1\nq2\t1\t2\n"


@pytest.mark.parametrize(
    "names",
    [
        ("papers.csv", "queries.csv", "qrels.tsv"),
        ("papers.csv", "my questions.csv", "test.tsv"),
        ("papers.csv", "asked.csv", "judged.tsv"),
        ("corpus.csv", "queries.csv", "qrels.txt"),
    ],
)
def test_tables_are_told_apart_by_names_and_columns(names):
    contents = PAPERS, b"id,query\nq1,growing trees\nq2,searching graphs\n", JUDGED
    path = uploads.save_uploads(list(map(sent, names, contents)))
    dataset = engine.load_dataset(path)
    assert dataset.corpus.ids == ("1", "2") and dataset.corpus.titles == ("Graphs", "Trees")
    assert dataset.queries.ids == ("q1", "q2")
    assert [qrels.grades for qrels in dataset.qrels.values()] == [{"q1": {"2": 1}, "q2": {"1": 2}}]
    assert path.name == dataset.corpus.name == names[0].removesuffix(".csv"), "no page shows the digest"
    assert uploads.find_upload_folder(str(path)) == path.parent.name


def test_a_judged_question_table_alone_stays_a_corpus():
    faq = b"id,question,label\n1,how do graphs work,0\n2,how do trees grow,1\n"
    files = [sent("faq.csv", faq), sent("queries.csv", b"id,query\nq1,trees\n"), sent("qrels.tsv", b"q1\t2\t1\n")]
    dataset = engine.load_dataset(uploads.save_uploads(files))
    assert dataset.corpus.texts[1] == "how do trees grow" and dataset.qrels["test"].grades == {"q1": {"2": 1}}


def test_code_names_files_as_the_person_has_them(tmp_path, monkeypatch):
    queries = b"id,query\nq1,growing trees\nq2,searching graphs\n"
    contents = {"papers.csv": PAPERS, "queries.csv": queries, "qrels.tsv": JUDGED}
    path = uploads.save_uploads([sent(name, content) for name, content in contents.items()])
    corpus, options = uploads.find_sent_files(str(path))
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    there, here = engine.load_dataset(path), engine.load_dataset(corpus, **options)
    assert (corpus, options) == ("papers.csv", {"qrels": "qrels.tsv"}) and here.corpus.digest == there.corpus.digest
    assert here.queries == there.queries and here.qrels == there.qrels
    table = uploads.save_uploads([sent("papers.csv", PAPERS)])
    assert uploads.find_sent_files(str(table)) == ("papers.csv", {})
    assert uploads.find_sent_files("sets/papers.csv") == ("sets/papers.csv", {})


def test_exported_code_runs_beside_the_files_that_its_comment_names(tmp_path, monkeypatch):
    kb = b"Doc Ref,Headline ,Body Text\nA1,Graphs,How graphs are searched\nA2,Trees,How trees are grown in spring\n"
    searches, judged = b"id,query\nq1,growing trees\nq2,searching graphs\n", b"q1 0 A2 1\nq2 0 A1 1\n"
    contents = {"kb_export.csv": kb, "searches.csv": searches, "judged.qrels": judged}
    path = str(uploads.save_uploads([sent(name, content) for name, content in contents.items()]))
    note = uploads.describe_sent_files(path)
    assert note == "searches.csv must lie beside it as queries.csv"
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    corpus, reading = uploads.find_sent_files(path)
    context = ExportContext(k=1, corpus=corpus, reading=reading, corpus_note=note)
    snippets = {
        target: engine.export(engine.Decoder(engine.make("mmr")), target, context).text
        for target in ("python", "command")
    }
    assert all(f"# {note}\n" in text for text in snippets.values())
    monkeypatch.chdir(tmp_path)
    # Until then the error names the file that is missing.
    with pytest.raises(DataError, match=r"put queries\.csv or queries\.jsonl"):
        exec(snippets["python"], {})
    (tmp_path / "searches.csv").rename(tmp_path / "queries.csv")
    printed = []
    exec(snippets["python"], {"print": printed.append})
    assert printed in ([["A1"]], [["A2"]])
    # The call that records a retriever's run reads the same files, and takes ids from the file's own field.
    call = write_record_call(Source(path))
    assert f"# {note}\n" in call
    scope = {"retriever": lambda query: [{"metadata": {"Doc Ref": "A2"}}]}
    exec(call, scope)
    assert json.loads((tmp_path / "system.json").read_text()) == {"q1": ["A2"], "q2": ["A2"]}
    columns = corpora.find_columns(Source(path))
    assert (columns.id, columns.title, columns.text) == ("Doc Ref", "Headline ", "Body Text")


def test_the_note_names_each_part_of_a_folder_and_vectors_beside_a_table(tmp_path):
    np.save(tmp_path / "v.npy", np.eye(2, dtype=np.float32))
    vectors = sent("emb.npy", (tmp_path / "v.npy").read_bytes())
    table = uploads.save_uploads([sent("papers.csv", PAPERS), vectors])
    assert uploads.describe_sent_files(str(table)) == "emb.npy must lie beside it as papers.vectors.npy"
    files = [
        sent("papers.csv", PAPERS),
        sent("questions.csv", b"id,query\nq1,trees\n"),
        sent("qrels.tsv", JUDGED),
        vectors,
    ]
    assert uploads.describe_sent_files(str(uploads.save_uploads(files))) == (
        "papers.csv must lie in it; qrels.tsv must lie in it as qrels/qrels.tsv; questions.csv must lie in it as "
        "queries.csv; emb.npy must lie in it as vectors.npy"
    )
    assert uploads.describe_sent_files("sets/papers.csv") == ""


def test_a_file_that_is_chosen_twice_counts_once():
    path = uploads.save_uploads([sent("papers.csv", PAPERS), sent("papers.csv", PAPERS)])
    assert path.name == "papers.csv" and uploads.save_uploads([sent("papers.csv", PAPERS)]) == path
