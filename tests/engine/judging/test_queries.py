"""Queries to judge: read from lines and tables, each once, under ids that depend on the text alone."""

import pytest

import engine
from engine.judging.queries import collect_queries, read_queries

DATASET_QUERIES = engine.Queries(("k1", "a"), ("sort an  array", "other"))


def test_read_queries_deduplicates_lines_of_text(tmp_path):
    path = tmp_path / "searches.txt"
    path.write_text("how to sort\n\n  sort an array \nhow  to sort\nwhat\n")
    queries = read_queries(path, dataset_queries=DATASET_QUERIES)
    sort, array, question = queries.queries.ids
    assert array == "k1" and queries.queries.texts == ("how to sort", "sort an  array", "what")
    assert queries.counts == {sort: 2, "k1": 1, question: 1}
    assert queries.lines == (sort, None, "k1", sort, question)
    assert [str(n) for n in queries.notices] == ["1 query was asked more than once, judged once"]
    assert collect_queries(["how to sort"]).queries.ids == (sort,), "the same id everywhere"
    assert sort.startswith("q-") and len({sort, question}) == 2


@pytest.mark.parametrize(
    ("name", "content", "column"),
    [
        ("log.csv", "time,Query\n1,how\n2,what\n", None),
        ("log.csv", "query,said\nno,how\nno,what\n", "said"),
        ("log.tsv", "text\tn\nhow\t1\nwhat\t2\n", None),
        ("log.jsonl", '{"search": "how", "id": 7}\n{"search": "what", "id": 8}\n', None),
        ("log.csv", "stamp,words\n1,how\n2,what\n", "words"),
    ],
)
def test_a_column_of_a_table(tmp_path, name, content, column):
    path = tmp_path / name
    path.write_text(content)
    queries = read_queries(path, column)
    assert queries.queries.texts == ("how", "what")
    assert queries.queries.ids == (("7", "8") if "jsonl" in name else collect_queries(["how", "what"]).queries.ids)


def test_ids_that_stand_for_several_queries_are_not_used():
    queries = collect_queries(["how", "what", "how", "x"], DATASET_QUERIES, ["s1", "s1", "s2", "a"])
    first, second, third = queries.queries.ids
    assert (
        first == "s1"
        and second == collect_queries(["what"]).queries.ids[0]
        and third == collect_queries(["x"]).queries.ids[0]
    )
    assert queries.lines == ("s1", second, "s1", third)
    (notice,) = [n for n in queries.notices if "another query already" in n.remark]
    assert notice.first == ("s1", "a")


@pytest.mark.parametrize(
    ("name", "content", "column", "message"),
    [
        ("a.txt", "\n  \n", None, "a.txt holds no query; expected one a line"),
        ("a.csv", "query,n\nx,1\n", "words", r"a.csv has no column 'words'; it has 'query', 'n'"),
        ("a.pdf", "x", None, "cannot read .pdf"),
    ],
)
def test_unreadable_queries_raise_error(tmp_path, name, content, column, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(engine.DataError, match=message):
        read_queries(tmp_path / name, column)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("qrels.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\n"),
        ("judged.txt", "1 0 d1 1\n1 0 d2 0\n"),
        ("pairs.csv", "query,shown,weight\n17,4,0.5\n18,9,0.25\n"),
    ],
)
def test_judgements_are_refused_as_searches(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(engine.DataError, match="holds judgements, not searches") as refusal:
        read_queries(tmp_path / name)
    assert refusal.value.finding == "These are judgements: add them under Data → Corpus."
