"""Workbooks: the first sheet is a table, further ones are named, and without the package the error says what to do."""

import sys
import zipfile

import pandas as pd
import pytest

from engine import DataError, load_dataset
from engine.errors import FrontierError


@pytest.fixture
def workbook(tmp_path):
    """Writes sheets by name into a workbook."""
    pytest.importorskip("openpyxl")

    def write(header=True, **sheets):
        with pd.ExcelWriter(tmp_path / "a.xlsx") as writer:
            for name, columns in sheets.items():
                pd.DataFrame(columns).to_excel(writer, sheet_name=name, index=False, header=header)
        return tmp_path / "a.xlsx"

    return write


def test_the_first_sheet_is_read_and_others_are_named(workbook):
    dataset = load_dataset(workbook(docs={"id": [1, 2.0], "text": ["x", None]}, more={"a": [1]}))
    assert dataset.corpus.ids == ("1", "2") and dataset.corpus.texts == ("x", "")
    assert "sheet of a.xlsx is not read, only the first, 'docs' (first: 'more')" in str(dataset.notices[0])


def test_a_sheet_without_header_keeps_its_first_row(workbook):
    path = workbook(header=False, docs={"a": ["D1", "D2"], "b": ["first text", "second text"]})
    assert load_dataset(path).corpus.ids == ("D1", "D2")


def test_rows_beyond_the_declared_size_are_read(workbook, tmp_path):
    path = workbook(docs={"id": ["a", "b", "c"], "text": ["x", "y", "z"]})
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(tmp_path / "b.xlsx", "w") as copy:
        for name in archive.namelist():
            copy.writestr(name, archive.read(name).replace(b'<dimension ref="A1:B4"', b'<dimension ref="A1"'))
    assert b'ref="A1"' in zipfile.ZipFile(tmp_path / "b.xlsx").read("xl/worksheets/sheet1.xml")
    assert load_dataset(tmp_path / "b.xlsx").corpus.texts == ("x", "y", "z")


def test_a_row_of_too_many_cells_is_named(workbook):
    path = workbook(header=False, docs={"a": ["id", "d0"], "b": ["text", "x"], "c": [None, "more"]})
    with pytest.raises(DataError, match=r"a\.xlsx row 2: expected 2 fields, found 3"):
        load_dataset(path)


def test_what_is_no_workbook_raises_error(tmp_path):
    pytest.importorskip("openpyxl")
    (tmp_path / "a.xlsx").write_text("id,text")
    with pytest.raises(DataError, match=r"a\.xlsx is not a readable \.xlsx workbook"):
        load_dataset(tmp_path / "a.xlsx")
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b" " * (100 << 20))
    with pytest.raises(DataError, match="at most 128 MB"):
        load_dataset(tmp_path / "a.xlsx")


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "a.xlsx").write_text("")
    with pytest.raises(FrontierError, match=r"pip install 'frontier-retrieval\[excel\]'"):
        load_dataset(tmp_path / "a.xlsx")
