"""Rows of .json files: arrays and objects one after the other, in pieces, refused with row and character."""

import gzip
import json

import pytest

from engine.data import files, json_array
from engine.data.files import HeldFile
from engine.data.json_array import read_json_array
from engine.data.readers import load_dataset
from engine.errors import DataError

RECORDS = [{"id": str(n), "text": f"text {n} {{[,]}} é"} for n in range(50)]


def read(path):
    return [record for _, record in read_json_array(path)]


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1 << 19])
@pytest.mark.parametrize("indent", [None, 2])
def test_arrays_are_read_in_pieces(tmp_path, monkeypatch, chunk_bytes, indent):
    monkeypatch.setattr(json_array, "_CHUNK_BYTES", chunk_bytes)
    path = tmp_path / "a.json"
    for text in (json.dumps(RECORDS, indent=indent), "\ufeff" + json.dumps(RECORDS, ensure_ascii=False)):
        path.write_text(text, encoding="utf-8")
        assert read(path) == read(HeldFile(path)) == RECORDS


def test_objects_one_after_the_other_are_read(tmp_path):
    path = tmp_path / "a.json"
    for mark, indent in (("\n", None), ("\n", 2), ("", None)):
        path.write_text(mark.join(json.dumps(record, indent=indent) for record in RECORDS))
        assert read(path) == RECORDS


def test_an_object_that_maps_ids_to_documents_has_a_row_for_each(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"d1": {"title": "one", "text": "x"}, "7": {"text": "y"}}))
    corpus = load_dataset(path).corpus
    assert (corpus.ids, corpus.titles, corpus.texts) == (("d1", "7"), ("one", ""), ("x", "y"))
    # As pandas writes a frame with orient="index": the id inside counts, not the number of the row.
    path.write_text(json.dumps({str(n): record for n, record in enumerate(reversed(RECORDS))}))
    assert read(path) == RECORDS[::-1]
    path.write_text(json.dumps({"0": {"ID": "d7", "Text": "x"}, "1": {"ID": "d9", "Text": "y"}}))
    assert load_dataset(path).corpus.ids == ("d7", "d9")
    # A single document is a row, whatever it is called.
    for single in ({"id": "a", "text": "x"}, {"abstract": "x"}, {"text": "x", "source": "y"}):
        path.write_text(json.dumps(single))
        assert read(path) == [single]


def test_a_compressed_array_is_read(tmp_path, monkeypatch):
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(json.dumps(RECORDS).encode()))
    assert load_dataset(path).corpus.ids == tuple(record["id"] for record in RECORDS)
    monkeypatch.setattr(files, "FREE_GROWTH_BYTES", 4 << 20)
    path.write_bytes(gzip.compress(b"[" + b" " * (8 << 20) + b"]"))
    with pytest.raises(DataError, match="at most 4 MB"):
        read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"id": "a"}, 5]', "a.json row 2, character 15: every element must be a JSON object; found '5'"),
        ('[{"id": "a"}, ', "row 2, character 15: every element must be a JSON object; the file ends here"),
        ('[{"id": "a"', "row 1, character 13: Expecting ',' delimiter"),
        ('[{"id": "a"} {"id": "b"}]', "row 2, character 14: expected ',' or ']' before the object; found '{'"),
        ('[{"id": "a"}', "ends before its closing ']'"),
        ('[{"id": "a"}] 1', "goes on behind its array"),
        ('[{"id": "a", "id": "b"}]', "the key 'id' stands twice"),
        ("text", "begins with 't'; expected an array of objects"),
        ("", "begins with ''"),
        ('{"id": {"0": "a"}, "text": {"0": "x"}}', 'frame.to_json(path, orient="records")'),
        ('{"version": 1, "data": [{"id": "a"}]}', "is one object with 'version', 'data'"),
        ('{"a": "first text", "b": "second text"}', 'if its keys are ids, write {"id": {"text": "…"}, …}'),
        ('{"corpus": {"a": "x"}, "queries": {"q": "y"}}', "is one object with 'corpus', 'queries'"),
        ('{"a": {"text": "x"}, "b": {"n": 1}}', "is one object with 'a', 'b'"),
    ],
)
def test_broken_files_name_row_and_character(tmp_path, content, message):
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(DataError) as error:
        read(path)
    assert message in str(error.value)


def test_bytes_that_are_not_utf8_raise_error(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b'[{"id": "\xff"}]')
    with pytest.raises(DataError, match="not UTF-8 near byte 9"):
        read(path)


def test_an_array_in_a_file_of_lines_raises_error_with_advice(tmp_path):
    path = tmp_path / "a.jsonl"
    for text in (json.dumps(RECORDS), json.dumps(RECORDS, indent=1)):
        path.write_text(text)
        with pytest.raises(DataError, match=r"one array of objects must end in \.json"):
            load_dataset(path)


def test_rows_of_a_compressed_array_count_what_they_take_in_memory(tmp_path, monkeypatch):
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b"[" + b",".join([b"{}"] * 150_000) + b"]"))
    monkeypatch.setattr(files, "FREE_GROWTH_BYTES", 4 << 20)
    with pytest.raises(DataError, match="decompress it"):
        read(path)
