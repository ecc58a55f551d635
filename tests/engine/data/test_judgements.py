"""Judgements in every usual form: columns with and without a header, JSON, Parquet; subtopics; conflicts."""

import gzip
import json
import pickle

import pytest

from engine.data.readers import load_dataset
from engine.errors import ConflictingGradesError, DataError
from support.datafiles import beir, join_notices, json_lines, parquet, write_file

GRADES = {"q0": {"d0": 2, "d1": 0}, "q1": {"d2": 1}}
"""The judgements that most of the files below hold."""
ROWS = [("q0", "d0", 2), ("q0", "d1", 0), ("q1", "d2", 1)]


def load_judged(folder, name, content, **options):
    """Load a data set of q0 to q2 and d0 to d3, with one file of judgements."""
    beir(folder)
    write_file(folder, name, content)
    return load_dataset(folder, **options)


def lines(*row_texts, separator="\t", end="\n"):
    """Write rows of words that stand between spaces as lines of a file."""
    return "".join(separator.join(text.split()) + end for text in row_texts)


def records(names=("query-id", "corpus-id", "score"), rows=ROWS):
    """Return rows as objects."""
    return [dict(zip(names, row, strict=True)) for row in rows]


TREC = ("q0 0 d0 2", "q0 0 d1 0", "q1 0 d2 1")
BEIR = ("q0 d0 2", "q0 d1 0", "q1 d2 1")
KINDS = {
    "TREC with tabs": ("test.tsv", lines(*TREC)),
    "TREC with spaces": ("test.txt", lines(*TREC, separator="  ")),
    "TREC with a tab behind each line": ("test.txt", lines(*TREC, end="\t\n")),
    "TREC with tabs and spaces": ("test.qrels", "q0 0\td0 2\nq0 0\td1 0\nq1 0\td2 1\n"),
    "TREC that calls the iteration Q0": ("test.trec", lines(*TREC).replace("\t0\td", "\tQ0\td")),
    "TREC that begins with a grade of 0": ("test.qrels", lines(TREC[1], TREC[0], TREC[2], separator=" ")),
    "TREC without a suffix": ("test", lines(*TREC, separator=" ")),
    "BEIR": ("test.tsv", lines("query-id corpus-id score", *BEIR)),
    "BEIR with a tab behind each line": ("test.tsv", lines("query-id corpus-id score", *BEIR, end="\t\n")),
    "BEIR without a header": ("test.tsv", lines(*BEIR)),
    "CR LF and a byte order mark": ("test.tsv", "\ufeff" + lines("query-id corpus-id score", *BEIR, end="\r\n")),
    "commas": ("test.csv", lines("query-id corpus-id score", *BEIR, separator=",")),
    "commas without a header": ("test.csv", lines(*BEIR, separator=",")),
    "commas and spaces": ("test.txt", lines(*BEIR, separator=", ")),
    "commas in a .tsv": ("test.tsv", lines("query_id doc_id relevance", *BEIR, separator=",")),
    "semicolons": ("test.csv", lines("qid docid label", *BEIR, separator=";")),
    "bars": ("test.csv", lines("topic docno rel", *BEIR, separator="|")),
    "tabs in a .csv": ("test.csv", lines("qid pid grade", *BEIR)),
    "quoted fields": ("test.csv", '"query-id","corpus-id","score"\n"q0","d0","2"\n"q0","d1","0"\n"q1","d2","1"\n'),
    "a number before each row": ("test.csv", ",qid,docid,score\n0,q0,d0,2\n1,q0,d1,0\n2,q1,d2,1\n"),
    "truth values of pandas": ("test.csv", "qid,docid,relevant\nq0,d0,2\nq0,d1,False\nq1,d2,True\n"),
    "swapped columns": ("test.tsv", lines("score corpus-id query-id", "2 d0 q0", "0 d1 q0", "1 d2 q1")),
    "document before query": ("test.csv", "Doc ID,Query ID,qrel\nd0,q0,2\nd1,q0,0\nd2,q1,1\n"),
    "texts beside the ids": ("test.csv", "query,query_id,text,pid,label\na,q0,x,d0,2\na,q0,y,d1,0\nb,q1,z,d2,1\n"),
    "TREC with a header": ("test.tsv", lines("query_id iteration doc_id relevance", *TREC)),
    "a header with Q0": ("test.tsv", lines("topic Q0 docno rel", *TREC)),
    "whole floats as grades": ("test.tsv", lines("q0 d0 2.0", "q0 d1 0.0", "q1 d2 1.0")),
    "a dictionary": ("test.json", json.dumps(GRADES)),
    "a dictionary over many lines": ("test.json", json.dumps(GRADES, indent=2)),
    "a list of objects": ("test.json", json.dumps(records())),
    "JSON Lines": ("test.jsonl", json_lines(records(("qid", "doc_id", "relevance")))),
    "JSON Lines in a .json": ("test.json", json_lines(records())),
    "Parquet": ("test.parquet", parquet(records())),
    "Parquet of a part": ("test-00000-of-00001.parquet", parquet(records(("qid", "pid", "label")))),
    "compressed TREC": ("test.txt.gz", gzip.compress(lines(*TREC).encode(), mtime=0)),
    "compressed BEIR": ("test.tsv.gz", gzip.compress(lines("query-id corpus-id score", *BEIR).encode(), mtime=0)),
    "a compressed dictionary": ("test.json.gz", gzip.compress(json.dumps(GRADES).encode(), mtime=0)),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_judgements_are_read_in_every_usual_form(tmp_path, kind):
    name, content = KINDS[kind]
    dataset = load_judged(tmp_path, f"qrels/{name}", content)
    assert {split: qrels.grades for split, qrels in dataset.qrels.items()} == {"test": GRADES}
    assert dataset.aspects is None and dataset.notices == ()


@pytest.mark.parametrize(
    "dev", [{"q1": {"d2": 1}}, {"q1": ["d2"]}, [{"query-id": "q1", "corpus-id": "d2", "score": 1}]], ids=str
)
@pytest.mark.parametrize("name", ["qrels.json", "qrels/all.json.gz"])
def test_splits_of_one_json_file_are_read_as_splits(tmp_path, name, dev):
    content = json.dumps({"extra": {"q0": {"d0": 0}}, "test": GRADES, "dev": dev})
    content = gzip.compress(content.encode(), mtime=0) if name.endswith(".gz") else content
    dataset = load_judged(tmp_path, name, content)
    expected = {"dev": {"q1": {"d2": 1}}, "test": GRADES, "extra": {"q0": {"d0": 0}}}
    assert list(dataset.qrels) == list(expected) and dataset.notices == ()
    assert {split: qrels.grades for split, qrels in dataset.qrels.items()} == expected


def test_split_of_two_files_is_refused(tmp_path):
    write_file(tmp_path, "qrels/dev.tsv", lines(*BEIR))
    with pytest.raises(DataError, match=r"the split 'dev' is in dev.tsv and in x.json: leave one of them out"):
        load_judged(tmp_path, "qrels/x.json", json.dumps({"dev": GRADES}))


ONES = {"q0": {"d0": 1, "d1": 1}, "q1": {"d2": 1}}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("test.tsv", lines("q0 d0", "q0 d1", "q1 d2")),
        ("test.txt", lines("q0 d0", "q0 d1", "q1 d2", separator=" ")),
        ("test.csv", lines("q0 d0", "q0 d1", "q1 d2", separator=",")),
        ("test.csv", lines("query_id doc_id", "q0 d0", "q0 d1", "q1 d2", separator=",")),
        ("test.tsv", lines("corpus-id query-id", "d0 q0", "d1 q0", "d2 q1")),
        ("test.jsonl", '{"qid": "q0", "pid": "d0"}\n{"qid": "q0", "pid": "d1"}\n{"qid": "q1", "pid": "d2"}\n'),
    ],
)
def test_pairs_without_grades_have_grade_1_and_a_notice(tmp_path, name, content):
    dataset = load_judged(tmp_path, f"qrels/{name}", content)
    assert dataset.qrels["test"].grades == ONES
    assert join_notices(dataset.notices) == f"1 column of grades is missing in qrels/{name}: each pair has grade 1"


def test_an_unusual_header_of_pairs_is_recognised_by_its_unknown_ids(tmp_path):
    dataset = load_judged(tmp_path, "qrels/test.tsv", lines("frage dokument", "q0 d0", "q0 d1", "q1 d2"))
    assert dataset.qrels["test"].grades == ONES
    remark = "1 first line of qrels/test.tsv has no id that is known, and is read as names of columns"
    assert remark in join_notices(dataset.notices)
    write_file(tmp_path, "qrels/test.tsv", lines("q9 gone", "q8 gone", "q0 d0"))
    assert load_dataset(tmp_path).qrels["test"].grades == {"q9": {"gone": 1}, "q8": {"gone": 1}, "q0": {"d0": 1}}


@pytest.mark.parametrize(
    "document",
    [
        {"q0": ["d0", "d1"], "q1": ["d2"]},
        {"queries": {"q0": "a"}, "corpus": {"d0": "x"}, "relevant_docs": {"q0": ["d0", "d1"], "q1": ["d2"]}},
        {"q0": {"d0": True, "d1": 1}, "q1": {"d2": "1"}},
    ],
)
def test_dictionaries_of_lists_and_truths_have_grade_1(tmp_path, document):
    assert load_judged(tmp_path, "qrels/test.json", json.dumps(document)).qrels["test"].grades == ONES


# Subtopics

SUBTOPICS = ("q0 1 d0 1", "q0 2 d0 2", "q0 1 d1 0", "q0 2 d1 1", "q1 1 d2 1", "q1 2 d2 -2")
COVERED = {"q0": {"1": frozenset({"d0"}), "2": frozenset({"d0", "d1"})}, "q1": {"1": frozenset({"d2"})}}
BEST = {"q0": {"d0": 2, "d1": 1}, "q1": {"d2": 1}}


@pytest.mark.parametrize("separator", [" ", "\t"])
def test_trec_diversity_judgements_give_aspects_and_the_highest_grades(tmp_path, separator):
    dataset = load_judged(tmp_path, "qrels/test.txt", lines(*SUBTOPICS, separator=separator))
    assert dataset.aspects == COVERED and dataset.qrels["test"].grades == BEST
    assert "judgements in qrels/test.txt have subtopics in their second column" in join_notices(dataset.notices)


def test_subtopics_of_distinct_documents_are_aspects(tmp_path):
    dataset = load_judged(tmp_path, "qrels/test.txt", lines("q0 1 d0 1", "q0 2 d1 1", "q1 0 d2 0"))
    assert dataset.aspects == {"q0": {"1": frozenset({"d0"}), "2": frozenset({"d1"})}}


@pytest.mark.parametrize("name", ["subtopic", "aspect-id", "intent"])
def test_a_header_names_aspects(tmp_path, name):
    rows = lines(f"topic {name} docno grade", *SUBTOPICS, separator=",")
    dataset = load_judged(tmp_path, "qrels/test.csv", rows)
    assert dataset.aspects == COVERED and dataset.qrels["test"].grades == BEST and dataset.notices == ()


@pytest.mark.parametrize("order", [1, -1])
def test_objects_without_an_aspect_leave_those_of_others(tmp_path, order):
    rows = [{"qid": "q0", "subtopic": "a", "docid": "d0", "grade": 1}, {"qid": "q1", "docid": "d1", "grade": 1}]
    dataset = load_judged(tmp_path, "qrels/test.jsonl", json_lines(rows[::order]))
    assert dataset.aspects == {"q0": {"a": frozenset({"d0"})}, "q1": {"": frozenset({"d1"})}}


@pytest.mark.parametrize(
    "rows",
    [
        ("q0 0 d0 1", "q0 Q0 d1 1"),
        ("q0 0.5 d0 1", "q0 1 d1 1", "q0 1.5 d2 1"),
        ("q0 1 d0 1", "q1 2 d1 1"),
        ("topic round docid rel", "q0 1 d0 1", "q0 2 d1 1"),
    ],
)
def test_iterations_and_rounds_are_no_aspects(tmp_path, rows):
    dataset = load_judged(tmp_path, "qrels/test.txt", lines(*rows))
    assert dataset.aspects is None and dataset.notices == () and dataset.qrels["test"].grades["q0"]["d0"] == 1


def test_aspects_of_splits_are_joined_and_a_file_of_aspects_goes_before(tmp_path):
    write_file(tmp_path, "qrels/dev.txt", lines("q1 1 d2 1", "q1 2 d3 1"))
    dataset = load_judged(tmp_path, "qrels/test.txt", lines("q0 1 d0 1", "q0 2 d1 1"))
    assert list(dataset.aspects) == ["q1", "q0"]
    write_file(tmp_path, "aspects.csv", "query_id,aspect,doc_id\nq0,a,d3\n")
    dataset = load_dataset(tmp_path)
    assert dataset.aspects == {"q0": {"a": frozenset({"d3"})}}
    assert "2 queries have aspects in their judgements, which are not used: aspects.csv has" in join_notices(
        dataset.notices
    )


def test_documents_of_one_aspect_are_joined_over_splits(tmp_path):
    write_file(tmp_path, "qrels/dev.txt", lines("q0 1 d2 1", "q0 3 d3 1"))
    dataset = load_judged(tmp_path, "qrels/test.txt", lines("q0 1 d0 1", "q0 2 d1 1"))
    assert dataset.aspects == {"q0": {"1": {"d0", "d2"}, "2": {"d1"}, "3": {"d3"}}}


def test_aspects_of_another_query_with_the_same_id_are_left_out(tmp_path):
    load_judged(tmp_path / "a", "aspects.tsv", lines("q0 1 d0 1", "q0 2 d1 1", "q1 1 d2 1"))
    other_queries = [{"_id": "q0", "text": "about something else"}, {"_id": "q1", "text": "query 1"}]
    other = beir(tmp_path / "b", queries=other_queries, qrels__test=lines("q0 d3 1", "q1 d2 1"))
    dataset = load_dataset(tmp_path / "a", qrels=str(other))
    assert dataset.aspects == {"q1": {"1": frozenset({"d2"})}}
    assert "1 query has another text than the corpus's queries of these ids" in join_notices(dataset.notices)


# Two grades for a pair

CONFLICT = lines("q0 d0 2", "q1 d1 1", "q0 d0 0", "q0 d0 1")


def test_conflicting_grades_are_refused_with_both_lines_and_the_option(tmp_path):
    with pytest.raises(ConflictingGradesError) as error:
        load_judged(tmp_path, "qrels/test.tsv", CONFLICT)
    assert "qrels/test.tsv line 3: 'q0 d0' is judged 0 here and 2 on line 1" in str(error.value)
    assert "--conflicting-grades max or last" in str(error.value) and "--" not in error.value.finding
    assert pickle.loads(pickle.dumps(error.value)).finding == error.value.finding


@pytest.mark.parametrize(("rule", "grade", "word"), [("max", 2, "highest"), ("last", 1, "last")])
def test_conflicting_grades_are_resolved_by_a_rule(tmp_path, rule, grade, word):
    dataset = load_judged(tmp_path, "qrels/test.tsv", CONFLICT, conflicting_grades=rule)
    assert dataset.qrels["test"].grades == {"q0": {"d0": grade}, "q1": {"d1": 1}}
    remark = f"1 pair in qrels/test.tsv has different grades, of which the {word} counts (first: 'q0 d0')"
    assert join_notices(dataset.notices) == remark


def test_conflicting_rows_of_parquet_are_rows(tmp_path):
    with pytest.raises(ConflictingGradesError, match="row 2: 'q0 d0' is judged 2 here and 1 on row 1"):
        load_judged(tmp_path, "qrels/test.parquet", parquet(records(rows=[("q0", "d0", 1), ("q0", "d0", 2)])))


@pytest.mark.parametrize("source", ["numpy-api", None])
def test_an_unknown_rule_is_refused(tmp_path, source):
    message = "conflicting_grades must be one of 'refuse', 'max', 'last'; got 'min'"
    with pytest.raises(DataError, match=message):
        load_dataset(source or beir(tmp_path), conflicting_grades="min")


# Ids


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("test.csv", "query-id,corpus-id,score\n1.0,12.0,1\n"),
        ("test.tsv", '"1"\t"12"\t"1"\n'),
        ("test.csv", "query-id,corpus-id,score\n1 ,12 ,1\n"),
        ("test.json", '{"1.0": {"12.0": 1}}'),
        ("test.jsonl", '{"query-id": 1.0, "corpus-id": 12.0, "score": 1.0}\n'),
        ("test.parquet", parquet(records(rows=[(1.0, 12.0, 1.0)]))),
    ],
)
def test_ids_of_another_form_are_matched(tmp_path, name, content):
    beir(tmp_path, [{"_id": 12, "text": "x"}, {"_id": "7", "text": "y"}], [{"_id": "1", "text": "q"}])
    write_file(tmp_path, f"qrels/{name}", content)
    dataset = load_dataset(tmp_path)
    assert dataset.qrels["test"].grades == {"1": {"12": 1}}
    is_typed = name in ("test.jsonl", "test.parquet")
    remark = f"1 id in qrels/{name} is not written as in the corpus, and was matched"
    assert is_typed or remark in join_notices(dataset.notices)


def test_ids_that_exist_are_never_matched_to_others(tmp_path):
    beir(tmp_path, [{"_id": "12", "text": "x"}, {"_id": "12.0", "text": "y"}, {"_id": "007", "text": "z"}])
    write_file(tmp_path, "qrels/test.tsv", lines("q0 12 1", "q0 12.0 2", "q0 7 0", "q0 12.00 0"))
    dataset = load_dataset(tmp_path)
    assert dataset.qrels["test"].grades == {"q0": {"12": 1, "12.0": 2, "7": 0, "12.00": 0}}
    assert "2 documents judged in qrels/test.tsv are not in the corpus (first: '7', '12.00')" in join_notices(
        dataset.notices
    )


def test_matched_ids_with_two_grades_are_a_conflict(tmp_path):
    beir(tmp_path, [{"_id": "12", "text": "x"}])
    write_file(tmp_path, "qrels/test.tsv", lines("q0 12 1", "q0 12.0 2"))
    with pytest.raises(ConflictingGradesError, match="line 2: 'q0 12' is judged 2 here and 1 on line 1"):
        load_dataset(tmp_path)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (("7 d0 1",), "first: '7'\\) is in queries.jsonl, whose ids are like 'q0'; both must have the same ids"),
        (("q0 7 1",), "first: '7'\\) is not in the corpus, whose ids are like 'd0'"),
        (("d0 q0 1",), "Its documents are queries there: name its columns in a first line \\(query-id, corpus-id\\)"),
    ],
)
def test_judgements_of_other_ids_show_both_sides(tmp_path, rows, message):
    dataset = load_judged(tmp_path, "qrels/test.tsv", lines(*rows))
    with pytest.raises(DataError, match=message):
        dataset.judged("test")


# What is wrong


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("test.txt", "q0 Q0 d0 1 9.5 bm25\n", r"qrels/test.txt line 1: expected 3 fields .* found 6; is this a run\?"),
        ("test.csv", "a,b,c\nq0,d0,1\n", "test.csv line 1: the score must be a whole number; found 'c'; .* first line"),
        ("test.csv", "qid,docid,x,y\nq0,d0,1,1\n", "no column is called as one of grades is; it has 'qid', 'docid'"),
        ("test.csv", "qid,docid,qid,score\nq0,d0,q0,1\n", "two columns are called 'qid'"),
        ("test.csv", 'qid,docid,score\nq0,"d0,1\n', "test.csv line 2: not CSV"),
        ("test.csv", "qid,docid,score\nq0,d0,1,5\n", "line 2: expected 3 fields .qid, docid, score.* found 4"),
        (
            "test.csv",
            "qid,docid,grade\nq0,d0,good\n",
            "line 2: the score must be a whole number; found 'good' in column",
        ),
        ("test.json", '{"q0": {"d0": 0.5}}', "query 'q0', document 'd0': the score must be a whole number; found 0.5"),
        ("test.tsv", "q0\td0\t1\nq0\td1\t0.5\n", r"line 2: .* found '0.5'; multiply fractions by 100.*--relevant-from"),
        (
            "test.csv",
            "qid,docid,rel\nq0,d0,.25\n",
            r"line 2: .* found '.25' in column 'rel'; multiply fractions by 100",
        ),
        ("test.txt", "q0 0 d0 1e-3\n", "line 1: .* found '1e-3'; multiply fractions by 100"),
        (
            "test.jsonl",
            '{"qid": "q0", "pid": "d0", "score": 0.5}\n',
            "line 1: .* found 0.5 in column 'score'; multiply",
        ),
        ("test.json", '{"test": {"x": {"d0": 1}}}', "{'d0': 1}; the splits of one file must be .*ids of the corpus's"),
        ("test.json", '{"q0": {"d0": 1}, "q0": {"d1": 1}}', "the key 'q0' stands twice"),
        ("test.json", json.dumps(records(rows=[ROWS[0], ("q0", "d1", "x")]), indent=1), "test.json value 2: the score"),
        ("test.json", '{"q0": 1}', r"query 'q0': expected {document: grade}; found int"),
        ("test.json", '"q0"', r"expected {query: {document: grade}}; found str"),
        ("test.json", '[["q0", "d0", 1]]', "value 1: expected an object with query-id, corpus-id and score"),
        ("test.json", '{"q0": {"d0": 1}', "test.json line 1 column 17: not JSON"),
        ("test.jsonl", '{"query-id": null, "corpus-id": "d0", "score": 1}\n', "line 1: the id in 'query-id' must be"),
        ("test.jsonl", json_lines(records(rows=[("q0", 2.0**53, 1)])), "line 1: the id in 'corpus-id' must be text or"),
        (
            "test.jsonl",
            '{"query-id": "q0", "corpus-id": 1.5, "score": 1}\n',
            "the id in 'corpus-id' must be .*found 1.5",
        ),
        ("test.jsonl", '{"query-id": "q0", "corpus-id": "d0", "score": null}\n', "whole number; found None"),
        ("test.json", '{"q0": {"d0": [1]}}', r"whole number; found \[1\]"),
        ("test.tsv", "q0\td1\t2\t0\nq0\td2\t0\t0\n", "its second column holds documents, and its last one only 0"),
        ("test.tsv", "q0\td0\t1\rq1\td1\t1\r", "lines must end in LF or CRLF, not in CR alone"),
        ("test.tsv", gzip.compress(b"q0\td0\t1\n", mtime=0), "test.tsv is compressed by gzip; put .gz behind its name"),
        ("test.csv", b"PK\x03\x04xlsx", "test.csv is a zip archive or a spreadsheet"),
        ("test.txt.gz", b"plain", "Not a gzipped file"),
    ],
)
def test_what_is_wrong_in_judgements_is_named_with_its_place(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message):
        load_judged(tmp_path, f"qrels/{name}", content)


def test_columns_without_usual_names_are_read_in_order_and_said(tmp_path):
    dataset = load_judged(tmp_path, "qrels/test.tsv", lines("search product score", *BEIR))
    assert dataset.qrels["test"].grades == GRADES
    remark = "columns of qrels/test.tsv have no usual name, and are read as: search = query, product = document"
    assert remark in join_notices(dataset.notices)


@pytest.mark.parametrize("name", ["rank", "Position"])
def test_ranks_are_no_grades(tmp_path, name):
    with pytest.raises(DataError, match=f"line 1: '{name}' is a place in a list, not a grade; is this a run"):
        load_judged(tmp_path, "qrels/test.csv", f"query,document,{name}\nq0,d0,1\nq0,d1,2\n")


def test_row_names_of_r_are_passed_over_and_said(tmp_path):
    rows = '"query" "document" "grade"\n"1" "q0" "d0" 2\n"2" "q0" "d1" 0\n"3" "q1" "d2" 1\n'
    dataset = load_judged(tmp_path, "qrels/test.txt", rows)
    assert dataset.qrels["test"].grades == GRADES
    assert (
        "1 column more than qrels/test.txt names: the first field of each row is taken for its number"
        in join_notices(dataset.notices)
    )


def test_a_column_of_ids_in_place_of_grades_is_said(tmp_path):
    dataset = load_judged(tmp_path, "qrels/test.tsv", lines("q0 d0 7187158"))
    assert "1 grade in qrels/test.tsv is above 1,000; is the column of grades one of ids?" in join_notices(
        dataset.notices
    )
