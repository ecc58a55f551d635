"""Runs in every usual form: TREC's and MS MARCO's columns, tables with a header, JSON, Parquet; compressed or not."""

import gzip
import json

import pytest

from engine.errors import DataError
from engine.evaluation.run_files import read_run_lines
from engine.evaluation.runs import read_run
from support.datafiles import json_lines, parquet, write_file

DOCS, QUERIES = [f"d{i}" for i in range(8)], ["q0", "q1"]
ANSWERS = {"q0": ("d3", "d1"), "q1": ("d0",)}
"""What each of the files below holds."""
SCORES = {"q0": {"d1": 7.5, "d3": 9}, "q1": {"d0": 0.001}}
ROWS = [("q0", "d1", 2, 7.5), ("q0", "d3", 1, 9.0), ("q1", "d0", 1, 0.001)]
FIELDS = ("query_id", "doc_id", "rank", "score")


def records(names=FIELDS):
    return [dict(zip(names, row, strict=True)) for row in ROWS]


TREC = "q0 Q0 d1 2 7.5 {tag}\nq0 Q0 d3 1 9 {tag}\nq1 Q0 d0 1 .001 {tag}\n"
KINDS = {
    "TREC": ("r.txt", TREC.format(tag="bm25")),
    "TREC with tabs": ("r.trec", TREC.format(tag="bm25").replace(" ", "\t")),
    "TREC with a tag of words": ("r.run", TREC.format(tag="BM25 + RM3 (k=10)")),
    "TREC with tabs and a tag of words": ("r.run", TREC.replace(" ", "\t").format(tag="BM25 + RM3, k=10")),
    "TREC without a tag": ("r.res", TREC.format(tag="")),
    "compressed TREC": ("r.res.gz", gzip.compress(TREC.format(tag="bm25").encode())),
    "MS MARCO": ("r.tsv", "q0\td3\t1\nq0\td1\t2\nq1\td0\t1\n"),
    "MS MARCO with spaces, in another order": ("r.txt", "q0 d1 2\nq1 d0 1\nq0 d3 1\nq0 d9 3\n"),
    "ranks from 0": ("r.tsv", "q0\td3\t0\nq0\td1\t1\nq1\td0\t0\n"),
    "ranks with gaps": ("r.tsv", "q0\td3\t1\nq0\td1\t5\nq1\td0\t2\n"),
    "three columns of scores": ("r.tsv", "q0\td1\t7.5\nq0\td3\t9.0\nq1\td0\t-1\n"),
    "three columns of falling whole scores": ("r.tsv", "q0\td3\t90\nq0\td1\t75\nq1\td0\t12\n"),
    "ColBERT": ("ranking.tsv", "q0\td3\t1\t9.0\nq0\td1\t2\t7.5\nq1\td0\t1\t0.1\n"),
    "a table": ("r.csv", "score,docno,qid\n7.5,d1,q0\n9,d3,q0\n.001,d0,q1\n"),
    "a table of PyTerrier": ("r.csv", "qid,docid,docno,rank,score,query\nq0,7,d1,1,7,a\nq0,4,d3,0,9,a\nq1,0,d0,0,1,\n"),
    "a dictionary": ("r.json", json.dumps(SCORES)),
    "a compressed dictionary": ("r.json.gz", gzip.compress(json.dumps(SCORES, indent=1).encode())),
    "a dictionary of lists": ("r.json", json.dumps({"q0": ["d3", "d1"], "q1": ["d0"]})),
    "a dictionary of pairs": ("r.json", json.dumps({"q0": [["d3", 9], ["d1", 7.5]], "q1": [["d0", 1]]})),
    "a dictionary of objects": ("r.json", json.dumps(
        {"q0": [{"corpus_id": "d3", "score": 9}, {"corpus_id": "d1", "score": 7}], "q1": [{"docid": "d0", "score": 1}]}
    )),
    "unsorted objects with ranks": ("r.json", json.dumps(
        {"q0": [{"docid": "d1", "rank": 2}, {"docid": "d3", "rank": 1}], "q1": [{"docid": "d0", "rank": 1}]}
    )),
    "MTEB": ("p.json", json.dumps({"mteb_model_meta": {"name": "x"}, "default": {"test": SCORES}})),
    "a list of objects": ("r.json", json.dumps(records())),
    "JSON Lines": ("r.jsonl", json_lines(records(("qid", "pid", "rank", "score")))),
    "JSON Lines in a .json": ("r.json", json_lines(records())),
    "compressed JSON Lines": ("r.jsonl.gz", gzip.compress(json_lines(records()).encode())),
    "Parquet": ("r.parquet", parquet(records(("q_id", "doc_id", "rank", "score")))),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_runs_are_read_in_every_usual_form(tmp_path, kind):
    name, content = KINDS[kind]
    run = read_run(write_file(tmp_path, name, content), [*DOCS, "d9"] if "another order" in kind else DOCS, QUERIES)
    assert {query: documents[:2] for query, documents in run.documents.items()} == ANSWERS
    remarks = [notice.remark for notice in run.notices]
    is_guessed = name in ("r.tsv",) or "MS MARCO" in kind
    assert len(remarks) == is_guessed and all("are read as query, document and" in remark for remark in remarks)


@pytest.mark.parametrize(
    ("kind", "tag"),
    [("TREC with a tag of words", "BM25 + RM3 (k=10)"), ("TREC with tabs and a tag of words", "BM25 + RM3, k=10"),
     ("TREC without a tag", "r"), ("a compressed dictionary", "r"), ("MS MARCO", "r")],
)  # fmt: skip
def test_a_run_is_called_by_its_tag_or_its_file(tmp_path, kind, tag):
    name, content = KINDS[kind]
    assert read_run(write_file(tmp_path, name, content), DOCS, QUERIES).name == tag


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.tsv", "q0\td1\t3\nq0\td2\t2\nq0\td3\t1\n", "the third column can be ranks or scores; name the columns"),
        ("r.tsv", "q0\td1\t5\nq0\td2\t9\nq0\td3\t7\n", "the third column can be ranks or scores"),
        ("r.tsv", "q0\td1\t5\nq1\td2\t9\n", "the third column can be ranks or scores"),
        ("r.tsv", "q0\td1\tx\n", "r.tsv line 1: the score must be a number; found 'x'"),
        ("r.txt", "q0 Q0 d1 1 1_000 x\n", "r.txt line 1: the score must be a number; found '1_000'"),
        ("r.json", '{"q0": {"d1": "1_0"}}', "document 'd1': the score must be a number; found '1_0'"),
        ("r.txt", "q0 0 d1 1\n", "line 1: query, 0, document and grade are judgements, not a run"),
        (
            "r.txt",
            "q0 Q0 d1 1 9\nq0 Q0 d2\n",
            "line 2: expected 5 fields .query iteration document rank score., found 3",
        ),
        ("r.txt", "q0 a b 1 9\n", "expected 6 fields .* found 5"),
        ("r.txt", "q0 Q0 d one 1 9 tag\n", "the rank must be a whole number from 0; found 'one'"),
        ("r.json", '{"q0": {"d1": NaN}}', "query 'q0', document 'd1': the score must be a number; found nan"),
        ("r.json", '{"q0": {"d1": "high"}}', "the score must be a number; found 'high'"),
        ("r.json", '{"q0": {"d1": 1}, "q0": {"d2": 1}}', "the key 'q0' stands twice"),
        ("r.json", '{"q0": 3}', "query 'q0': expected {document: score} or a list; found int"),
        ("r.json", '{"q0": [["d1", 1, 2]]}', "query 'q0', entry 1: expected a document, or a document and a score"),
        ("r.json", '{"q0": [null]}', "query 'q0', entry 1: the id in 'document' must be text"),
        (
            "r.json",
            '{"a": {"q0": {"d1": 1}}, "b": {"q0": {"d1": 1}}}',
            "holds several runs: 'a', 'b'; save each",
        ),
        ("r.json", '[["q0", "d1", 1]]', "value 1: expected an object with query, document, rank and score"),
        ("r.json", json.dumps([records()[0], {"query_id": "q0"}], indent=1), "r.json value 2: no 'document'"),
        ("r.json", '"q0"', "expected {query: {document: score}}; found str"),
        ("r.json", "{}", "r.json is empty; expected lines of query Q0"),
        ("r.json", '{"q0": {"d1": 1}', "r.json line 1 column 17: not JSON"),
        ("r.csv", 'qid,docid,rank\nq0,"d1,1\n', "r.csv line 2: not CSV"),
        ("r.txt.gz", b"q0 Q0 d1 1 1 x\n", "Not a gzipped file"),
        ("r.txt", "q" * 70_000, "line 1 has more than 65,536 bytes"),
        ("r.parquet", parquet([{"query": "q0", "document": "d1"}]), "row 1: neither 'rank' nor 'score'"),
    ],
)
def test_what_is_wrong_in_a_run_is_named_with_its_place(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message):
        read_run_lines(write_file(tmp_path, name, content))


def test_a_header_decides_between_ranks_and_scores(tmp_path):
    rows = "q0\td1\t3\nq0\td2\t2\nq0\td3\t1\n"
    for column, documents in (("rank", ("d3", "d2", "d1")), ("score", ("d1", "d2", "d3"))):
        path = write_file(tmp_path, f"{column}.tsv", f"query\tdocument\t{column}\n{rows}")
        assert read_run(path, DOCS, QUERIES).documents == {"q0": documents}
