"""Vectors from a column of a table: lists of numbers, or their text, collected as rows of one float32 matrix."""

import json
import re
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from engine.errors import DataError
from engine.progress import counted

# What NumPy writes in place of numbers when it shortens a long array.
_ELLIPSIS = "..."
_MAX_SHOWN_CHARS = 60
# A list of NumPy's own numbers, as Python prints it.
_NUMPY_SCALAR = re.compile(r"np\.float(?:16|32|64)\(([^()]*)\)")


def parse_numbers(value: Any) -> np.ndarray | None:
    """Return a list of numbers, or the text of one such as "[0.1, 0.2]", as a float64 vector; None for all else.

    Texts may have commas or spaces between the numbers, as JSON and NumPy write them.
    """
    if isinstance(value, np.ndarray):
        return value if value.ndim == 1 and value.dtype.kind in "fiu" else None
    if isinstance(value, str):
        stripped_text = value.strip()
        # Nearly all texts are told apart by their first and last characters.
        if not (stripped_text.startswith("[") and stripped_text.endswith("]")):
            return None
        number_texts = _NUMPY_SCALAR.sub(r"\1", stripped_text[1:-1]).replace(",", " ").split()
        try:
            return np.array(number_texts, np.float64) if number_texts else None
        except ValueError:
            return None
    if not isinstance(value, list | tuple) or not value:
        return None
    # True and False are numbers of Python, but no coordinates.
    if not all(type(number) in (float, int) for number in value):
        return None
    try:
        return np.array(value, np.float64)
    except OverflowError:
        return None


class VectorColumn:
    """Vectors of a table's rows as they are read: one float32 matrix that grows in place."""

    def __init__(self, column_name: str, locate_row: Callable[[int], str]) -> None:
        """Start without rows; the first one decides on the number of dimensions.

        locate_row: function from the number of a row to file and row as text, for errors.
        """
        self.column_name, self.dimension, self._locate_row = column_name, 0, locate_row
        # An array of the standard library grows by `realloc`, which moves pages instead of copying them, so that the
        # peak of memory is hardly above the matrix.
        self._numbers = array("f")

    def add_vector(self, value: Any, row_number: int) -> None:
        """Add the vector of the next row. Raises DataError for all but numbers of the first row's dimension."""
        numbers = parse_numbers(value)
        if numbers is None:
            cause = f"{self.column_name!r} must be a list of numbers; {_describe_fault(value)}"
            raise DataError(f"{self._locate_row(row_number)}: {cause}")
        self.dimension = self.dimension or len(numbers)
        if len(numbers) != self.dimension:
            raise DataError(
                f"{self._locate_row(row_number)}: {self.column_name!r} has {counted(len(numbers), 'number')}, and "
                "the rows "
                f"before it have {self.dimension:,}; all vectors must come from one encoder"
            )
        with np.errstate(over="ignore"):
            single_precision = numbers.astype(np.float32)
        if not np.isfinite(single_precision).all():
            cause = f"{self.column_name!r} holds NaN, infinity or a number beyond float32 (3.4e38)"
            raise DataError(f"{self._locate_row(row_number)}: {cause}")
        self._numbers.frombytes(single_precision.tobytes())

    def take_matrix(self, row_ids: Sequence[int]) -> np.ndarray:
        """Return the vectors of some rows as a writeable (n, d) matrix, without a copy if these are all rows."""
        matrix = np.frombuffer(self._numbers, np.float32).reshape(-1, max(1, self.dimension))
        return matrix if len(row_ids) == len(matrix) else matrix[np.asarray(row_ids, np.int64)]


def _describe_fault(value: Any) -> str:
    """Describe a value that is no vector, and what to do, for an error message."""
    if value is None or value == "":
        return "found nothing. Give every row a vector, or leave it out"
    if isinstance(value, str) and value.strip().startswith("[") and _ELLIPSIS in value:
        return (
            "found numbers cut off by '...', as NumPy prints long arrays. Write lists before the table is saved: "
            "frame['embedding'].map(list)"
        )
    shown_text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return f"found {shown_text[:_MAX_SHOWN_CHARS]!r} ({type(value).__name__})"
