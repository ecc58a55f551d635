"""Tables of a data set told apart by names, columns and first rows, and the documents' table of a folder."""

import pytest

import engine
from engine.data.table_kinds import find_corpus_table, is_judgement_table


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\n", True),
        ("a.csv", "query,document,grade\nq1,d1,0\nq2,d1,2\n", True),
        ("a.tsv", "q1\t0\td1\t1\nq1\t0\td2\t0\n", True),
        ("a.tsv", "q1\td1\t1\nq2\td2\t0\n", True),
        ("a.txt", "1 0 d1 1\n1 Q0 d2 0\n", True),
        ("a.jsonl", '{"query_id": "q", "doc_id": "d", "relevance": 1}\n', True),
        ("a.csv", "id,question,label\n1,how do graphs work,0\n", False),
        ("a.csv", "query,document,clicks\ngreen tea,d1,3\n", False),
        ("a.csv", "id,title,year\n1,Alien,1979\n2,Brazil,1985\n", False),
        ("a.csv", "id,query\nq1,cats\n", False),
        ("a.txt", "sum without the missing values\ntop 10 of 2\n", False),
        ("a.csv", "", False),
    ],
)
def test_judgements_are_told_by_columns_and_rows(tmp_path, name, text, expected):
    (tmp_path / name).write_text(text)
    assert is_judgement_table(tmp_path / name) is expected


def write_parts(folder, **texts):
    """Write tables, named by their stems, as .csv files."""
    for stem, text in texts.items():
        (folder / f"{stem}.csv").write_text(text)


QUERIES, JUDGED = "id,query\nq1,growing trees\n", "query-id,corpus-id,score\nq1,2,1\n"
PAPERS = "id,title,text\n1,Graphs,how graphs are searched\n2,Trees,how trees are grown\n"


def test_a_folder_with_one_more_table_than_queries_and_judgements_loads(tmp_path):
    write_parts(tmp_path, papers=PAPERS, queries=QUERIES, qrels=JUDGED)
    (tmp_path / "README.md").write_text("about")
    dataset = engine.load_dataset(tmp_path)
    assert dataset.corpus.titles == ("Graphs", "Trees") and dataset.qrels["test"].grades == {"q1": {"2": 1}}
    assert not dataset.notices, "no file of it is called unread"


def test_two_tables_that_may_be_the_documents_are_named_with_the_fix(tmp_path):
    write_parts(tmp_path, papers=PAPERS, more=PAPERS, queries=QUERIES)
    with pytest.raises(engine.DataError, match=r"more.csv and papers.csv may each .* file corpus\.csv"):
        engine.load_dataset(tmp_path)
    write_parts(tmp_path, corpus=PAPERS)
    assert find_corpus_table(tmp_path).name == "corpus.csv" and len(engine.load_dataset(tmp_path).queries) == 1


def test_tables_without_queries_or_judgements_are_no_data_set(tmp_path):
    write_parts(tmp_path, papers=PAPERS)
    with pytest.raises(engine.DataError, match=r"has no corpus\.jsonl"):
        engine.load_dataset(tmp_path)
