"""Roles of columns: named ones, guesses for the others, what is never text, and tables without a header."""

import json

import numpy as np
import pandas as pd
import pytest

from engine import DataError, load_dataset
from engine.data.columns import (
    Columns,
    check_column_choice,
    choose_columns,
    describe_cell,
    describe_column,
    looks_like_data,
    name_columns,
)
from engine.data.tables import preview_table

VECTOR = [float(number) for number in range(1536)]


def describe(**columns):
    """Facts of columns by their values."""
    facts = {}
    for name, values in columns.items():
        texts = ["" if value is None else str(value) for value in values]
        facts[name] = describe_column(texts, list(map(describe_cell, values)))
    return facts


def write(folder, name, content):
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def test_roles_that_are_not_named_are_guessed(tmp_path):
    path = write(tmp_path, "a.csv", "id,chunk_text,source\nd7,hello,web\nd9,bye,book\n")
    corpus = load_dataset(path, columns={"text": "chunk_text"}).corpus
    assert (corpus.ids, corpus.texts) == (("d7", "d9"), ("hello", "bye"))
    corpus = load_dataset(path, columns={"text": "source"}).corpus
    assert (corpus.ids, corpus.texts) == (("d7", "d9"), ("web", "book"))
    assert load_dataset(path, columns={"id": "source"}).corpus.texts == ("hello", "bye")


@pytest.mark.parametrize("refusal", ["none", None])
def test_a_refused_role_is_not_guessed(tmp_path, refusal):
    path = write(tmp_path, "a.csv", "id,title,text\nd7,T,hello\n")
    dataset = load_dataset(path, columns={"id": refusal, "title": refusal})
    assert (dataset.corpus.ids, dataset.corpus.titles) == (("0",), ("",))
    assert "1 row without an id column" in str(dataset.notices[0])


def test_a_column_that_is_called_none_can_be_named(tmp_path):
    path = write(tmp_path, "a.csv", "none,text\nd7,hello\n")
    assert load_dataset(path, columns={"id": "none"}).corpus.ids == ("d7",)


def test_unknown_role_raises_error():
    with pytest.raises(DataError, match="columns may name id, text, title, vectors; got body"):
        check_column_choice({"body": "x"})


@pytest.mark.parametrize(
    "name", ["page_content", "chunk", "chunk_text", "contents", "content", "document", "passage", "sentence"]
)
def test_usual_names_of_text_are_known(tmp_path, name):
    dataset = load_dataset(write(tmp_path, "a.csv", f"id,note,{name}\n1,a long note of the row,x\n"))
    assert dataset.corpus.texts == ("x",) and not dataset.notices


def test_lists_and_objects_are_never_text():
    facts = describe(
        id=["a", "b"], metadata=[{"k": "long " * 50}, {}], embedding=[VECTOR, VECTOR], tags=[["x"], []], note=["x", "y"]
    )
    assert choose_columns(facts) == Columns(id="id", text="note")
    assert facts["embedding"].dimension == 1536 and facts["tags"].dimension is None


def test_texts_of_number_lists_are_never_text(tmp_path):
    numbers = json.dumps(VECTOR)
    pd.DataFrame({"note": ["x", "y"], "vector": [numbers, numbers]}).to_csv(tmp_path / "a.csv", index=False)
    dataset = load_dataset(tmp_path / "a.csv")
    assert dataset.corpus.texts == ("x", "y")
    assert any("use column 'vector' as vectors, 1,536 dimensions" in str(notice) for notice in dataset.notices)


def test_a_text_in_brackets_stays_a_text(tmp_path):
    path = write(tmp_path, "a.csv", 'id,text\n1,[1] a footnote\n2,[12]\n3,"[1, 2]"\n')
    assert load_dataset(path).corpus.texts == ("[1] a footnote", "[12]", "[1, 2]")


def test_a_named_text_of_numbers_raises_error_with_an_offer(tmp_path):
    pd.DataFrame({"id": ["a"], "embedding": [VECTOR]}).to_parquet(tmp_path / "a.parquet")
    for columns in (None, {"text": "embedding"}):
        with pytest.raises(
            DataError, match=r"use column 'embedding' as vectors, 1,536 dimensions \(vectors=embedding\)"
        ):
            load_dataset(tmp_path / "a.parquet", columns=columns)


def test_a_langchain_dump_is_read(tmp_path):
    records = [
        {"id": None, "metadata": {"source": f"s{n}"}, "page_content": f"t{n}", "type": "Document"} for n in (0, 1)
    ]
    for name, content in (("a.jsonl", "\n".join(map(json.dumps, records))), ("a.json", json.dumps(records))):
        dataset = load_dataset(write(tmp_path, name, content), metadata=("source",))
        assert dataset.corpus.texts == ("t0", "t1") and dataset.corpus.metadata["source"] == ("s0", "s1")
        assert dataset.corpus.ids == ("0", "1")


def test_of_two_usual_ids_the_one_that_tells_rows_apart_is_taken():
    facts = describe(doc_id=["a", "a"], chunk_id=["a-0", "a-1"], text=["x", "y"])
    assert choose_columns(facts).id == "chunk_id"


@pytest.mark.parametrize("name", ["collection.tsv", "collection.csv"])
def test_a_table_without_header_keeps_its_first_line(tmp_path, name):
    mark = "\t" if name.endswith("tsv") else ","
    path = write(tmp_path, name, "".join(f"{n}{mark}passage number {n}\n" for n in range(30)))
    dataset = load_dataset(path)
    assert dataset.corpus.ids == tuple(map(str, range(30))) and dataset.corpus.texts[0] == "passage number 0"
    (notice,) = dataset.notices
    assert "first line looks like data" in str(notice) and "'id', 'text'" in str(notice)
    assert preview_table(path).notices == (notice,)


def test_header_can_be_told(tmp_path):
    path = write(tmp_path, "a.tsv", "0\tzero\n1\tone\n")
    assert load_dataset(path, header="first", columns={"text": "zero", "id": "0"}).corpus.ids == ("1",)
    path = write(tmp_path, "b.tsv", "key\tvalue\nb\tone\n")
    assert load_dataset(path).corpus.texts == ("one",)
    dataset = load_dataset(path, header="none")
    assert dataset.corpus.ids == ("key", "b") and not dataset.notices
    with pytest.raises(DataError, match="header must be one of 'auto', 'first', 'none'; got 'no'"):
        load_dataset(path, header="no")


@pytest.mark.parametrize(
    ("rows", "is_data"),
    [
        ([["0", "a text"]], True),
        ([["MED-10", "a text"], ["MED-14", "b"], ["PLAIN-3", "c"]], True),
        ([["D1555982", "http://x", "a title", "a body"], ["D301595", "http://y", "b", "c"]], True),
        ([["3fa85f64-5717-4562-b3fc-2c963f66afa6", "a"], ["9b2d85f6-1234-4562-b3fc-2c963f66afa6", "b"]], True),
        ([["The cat sat on the mat today."], ["The dog did not."]], True),
        ([["id", "text"], ["0", "x"]], False),
        ([["pid", "zero"], ["0", "x"]], False),
        ([["key", "value"], ["0", "x"]], False),
        ([["0", "1"], ["17", "x"]], False),
        ([["", "0", "1"], ["0", "17", "x"]], False),
        ([["Name", "What do you think about our new service?"], ["Bob", "Good."]], False),
        ([["2021", "2022"], ["a", "b"]], False),
        ([["text"], ["x"]], False),
    ],
)
def test_a_first_line_of_data_is_recognised(rows, is_data):
    assert looks_like_data(rows) is is_data


def test_columns_without_header_are_named_by_their_content():
    assert name_columns([["a", "long text"], ["b", "longer text"]]) == ["id", "text"]
    assert name_columns([["D1", "http://x", "T", "a long body"]]) == ["id", "column 2", "column 3", "text"]
    assert name_columns([["a", "long text"], ["a", "longer text"]]) == ["column 1", "text"]
    assert name_columns([["only"], ["one"]]) == ["text"]


def test_whole_numbers_held_as_floats_are_ids(tmp_path):
    pd.DataFrame({"id": [1.0, 2.0, 1e15], "text": ["x", "y", "z"]}).to_parquet(tmp_path / "a.parquet")
    assert load_dataset(tmp_path / "a.parquet").corpus.ids == ("1", "2", "1000000000000000")
    pd.DataFrame({"id": [1.0, np.nan], "text": ["x", "y"]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match="row 2: the id in 'id' must be text or a whole number"):
        load_dataset(tmp_path / "a.parquet")
