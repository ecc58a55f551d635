"""Numbers by the name of a cell: mapped, renamed, subtracted and rounded as they are stored."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

CellValue = TypeVar("CellValue")
NewValue = TypeVar("NewValue")


def map_values(function: Callable[[CellValue], NewValue], cells: Mapping[str, CellValue]) -> dict[str, NewValue]:
    """Return the cells, the values of a measurement by name, with a function applied to each value."""
    return {name: function(value) for name, value in cells.items()}


def rename_cells(cells: Mapping[str, CellValue], prefix: str = "", suffix: str = "") -> dict[str, CellValue]:
    """Return the cells, values of a measurement by name, with a prefix and a suffix added to the names."""
    return {f"{prefix}{name}{suffix}": value for name, value in cells.items()}


def subtract_cells(claimed: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return claimed less other values, cell by cell, for the names that the other has, in its order.

    A cell is an entry of the dictionary, such as a metric's name and its values by query.
    """
    return {name: claimed[name] - other_values for name, other_values in other.items()}


def round_cells(cells: Mapping[str, np.ndarray], digits: int = 4) -> dict[str, Any]:
    """Return the cells as plain lists, rounded to the digits that are stored."""
    return {name: values.round(digits).tolist() for name, values in cells.items()}


def round_significant(values: Iterable[float]) -> list[float]:
    """Return numbers rounded to six significant digits."""
    return [float(f"{value:.6g}") for value in values]
