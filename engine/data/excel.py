"""Rows of the first sheet of an Excel workbook (.xlsx), through openpyxl, an optional package."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.data.files import check_growth, open_regular, translate_read_errors
from engine.errors import DataError, FrontierError
from engine.progress import Progress
from engine.values import Notice

# A cell in memory takes a few times its length in the XML of the sheet.
_MEMORY_PER_XML_BYTE = 2


def read_sheet_rows(path: Path, progress: Progress) -> tuple[Iterator[tuple[int, list[Any]]], tuple[Notice, ...]]:
    """Return the rows of a workbook's first sheet, with their numbers from 1, and a notice of further sheets.

    Empty rows are skipped, and all rows are as long as the first. Raises FrontierError without openpyxl, and DataError
    for a file that is no workbook or would take far more memory than its size.
    """
    try:
        import openpyxl
    except ImportError:
        raise FrontierError(
            f"reading {path.name} needs openpyxl: pip install 'frontier-retrieval[excel]', or save the sheet as .csv"
        ) from None
    _check_archive(path)
    try:
        # Read as a stream; formulas give the values that were stored with them.
        workbook = openpyxl.load_workbook(path, read_only=True, data_only=True)
        sheet = workbook.worksheets[0]
    # Broken files raise whatever the package meets first.
    except Exception as error:
        raise DataError(f"{path.name} is not a readable .xlsx workbook: {error}; save it anew, or as .csv") from None
    further_names = [other_sheet.title for other_sheet in workbook.worksheets[1:]]
    remark = f"sheets of {path.name} are not read, only the first, {sheet.title!r}"
    return _iterate_rows(path, sheet, progress), Notice.for_ids(remark, further_names)


def _check_archive(path: Path) -> None:
    """Raise DataError for a file that is no zip archive, or whose content is far larger than the file."""
    with open_regular(path) as opened_file, translate_read_errors(path):
        n_bytes = path.stat().st_size
        try:
            with zipfile.ZipFile(opened_file) as archive:
                content_bytes = sum(member.file_size for member in archive.infolist())
        except (zipfile.BadZipFile, ValueError, NotImplementedError):
            raise DataError(f"{path.name} is not a readable .xlsx workbook; save it anew, or as .csv") from None
    check_growth(path, n_bytes, _MEMORY_PER_XML_BYTE * content_bytes, "save the sheet as .csv")


def _iterate_rows(path: Path, sheet: Any, progress: Progress) -> Iterator[tuple[int, list[Any]]]:
    """Yield row number and cells of each row that is not empty, as long as the first such row."""
    n_columns, n_rows = 0, sheet.max_row or 0
    # The size that the file declares may be too small; it is used for the progress alone.
    sheet.reset_dimensions()
    try:
        for row_number, cells in enumerate(sheet.iter_rows(values_only=True), 1):
            progress(row_number, n_rows, f"reading {path.name}")
            fields = list(cells)
            # Formatting leaves empty cells behind the last column.
            while fields and fields[-1] is None:
                fields.pop()
            if not fields:
                continue
            n_columns = n_columns or len(fields)
            yield row_number, fields + [None] * (n_columns - len(fields))
    except (KeyError, ValueError, TypeError, zipfile.BadZipFile, SyntaxError) as error:
        raise DataError(f"{path.name} is not readable to its end: {error}; save it anew, or as .csv") from None
