"""JSON documents: read whole, compressed or not, with errors that say where; repeated keys are refused."""

import gzip
import json

import pytest

import engine.data.json_files
from engine.data.json_files import is_json_lines, read_json_document
from engine.data.textfiles import MAX_LINE_BYTES
from engine.errors import DataError
from support.datafiles import write_file


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "A.JSON.GZ"])
def test_read_json_document_reads_bom_and_gzip(tmp_path, name):
    content = b"\xef\xbb\xbf" + '{"é": [1, 2]}'.encode()
    content = gzip.compress(content) if name.lower().endswith(".gz") else content
    assert read_json_document(write_file(tmp_path, name, content)) == {"é": [1, 2]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": 1,\n "b" 2}', "a.json line 2 column 6: not JSON"),
        ('{"a": 1, "a": 2}', "the key 'a' stands twice in one object"),
        ("[" * 100_000, "a.json"),
        (b'{"a": "\xe9"}', "not UTF-8: byte 0xe9 at offset 7"),
    ],
)
def test_read_json_document_says_where_a_file_is_wrong(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        read_json_document(write_file(tmp_path, "a.json", content))


def test_one_long_line_is_a_document(tmp_path):
    document = {"q": {"d" * MAX_LINE_BYTES: 1.5, "e": 2}}
    path = write_file(tmp_path, "a.json", json.dumps(document))
    assert path.stat().st_size > MAX_LINE_BYTES and not is_json_lines(path)
    assert read_json_document(path) == document


def test_read_json_document_refuses_what_is_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(engine.data.json_files, "MAX_JSON_BYTES", 1 << 20)
    for name, content in (("a.json", b" " * (2 << 20)), ("b.json.gz", gzip.compress(b" " * (2 << 20)))):
        with pytest.raises(DataError, match="has more than 1 MB"):
            read_json_document(write_file(tmp_path, name, content))


@pytest.mark.parametrize(
    ("content", "expected"),
    [('{"a": 1}\n\n{"a": 2}\n', True), ('{"a": 1}\n', False), ('{"a":\n1}', False), ("[1]\n[2]\n", False)],
)
def test_is_json_lines_needs_two_lines_of_which_the_first_is_an_object(tmp_path, content, expected):
    assert is_json_lines(write_file(tmp_path, "a.json", content)) is expected
