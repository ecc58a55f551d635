"""Answer strings of queries: how the file is read, and which documents contain them."""

import pytest

import engine
from engine.data.answers import containing_documents, match_answers, read_answers


def write_answers(folder, text):
    (folder / "answers.tsv").write_text(text, encoding="utf-8")
    return folder


def test_a_file_of_answers_is_read_in_order_each_once(tmp_path):
    text = "query-id\tanswer\nq1\tParis\nq2\ttwo words \n\nq1\tLyon, France\nq1\tParis\n"
    assert read_answers(write_answers(tmp_path, text)) == {"q1": ("Paris", "Lyon, France"), "q2": ("two words",)}
    assert read_answers(write_answers(tmp_path, "q\ta\tb\r\n")) == {"q": ("a\tb",)}


@pytest.mark.parametrize("header", ["qid\tanswer", "query_id\tanswers", "Topic\tNugget"])
def test_a_first_line_may_name_the_columns(tmp_path, header):
    assert read_answers(write_answers(tmp_path, f"{header}\nq1\tParis\n")) == {"q1": ("Paris",)}


def test_answers_are_matched_to_queries_or_refused():
    queries = engine.Queries(("1", "2"), ("a", "b"))
    assert match_answers({"1.0": ("x", "y"), "1": ("x",), "7": ("z",)}, queries) == {"1": ("x", "y"), "7": ("z",)}
    with pytest.raises(engine.DataError, match=r"none of its queries \(first: 'q7'\) is in .* whose ids are like '1'"):
        match_answers({"q7": ("x",)}, queries)


@pytest.mark.parametrize(
    "text, message",
    [
        ("q1 Paris\n", r"answers.tsv line 1: expected query-id, a tab and an answer; found 'q1 Paris'"),
        ("q1\tParis\nq2\t...\n", "line 2"),
        ("\tParis\n", "line 1"),
        ("query-id\tanswer\n", "holds no answer"),
    ],
)
def test_bad_answer_raises_error_naming_its_line(tmp_path, text, message):
    with pytest.raises(engine.DataError, match=message):
        read_answers(write_answers(tmp_path, text))


def test_a_folder_without_answers_says_what_it_lacks(tmp_path):
    with pytest.raises(engine.DataError, match=r"has no answers.tsv: a line an answer, query-id, a tab"):
        read_answers(tmp_path)


def test_answers_are_found_as_whole_words_one_after_the_other():
    corpus = engine.Corpus(("a", "b", "c"), ("In Lyon, France.", "lyon of france", "FRANCE; Lyon"), ("", "", "Paris"))
    documents = containing_documents(corpus, {"q": ("Lyon France", "paris", "Par", "lyon"), "r": ("lyon",)})
    assert documents == {
        "q": {"Lyon France": {"a"}, "paris": {"c"}, "Par": frozenset(), "lyon": {"a", "b", "c"}},
        "r": {"lyon": {"a", "b", "c"}},
    }
