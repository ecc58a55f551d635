"""Colours of documents by a column of their metadata: numbers, or the largest of its groups."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

MOST_GROUPS = 8
"""Groups with a colour of their own; a column of fewer numbers than that is groups too."""
OTHERS_GROUP, ABSENT_GROUP = "other", "no value"


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of documents by their value in a column, the largest first.

    of: (n,) index of each document's name, −1 for those without a value
    """

    names: tuple[str, ...]
    of: np.ndarray


@dataclass(frozen=True, eq=False)
class Numbers:
    """A quantity: (n,) float64, NaN where a document has no value."""

    values: np.ndarray


def colouring(values: Sequence[str]) -> Groups | Numbers:
    """Choose how a column of metadata colours documents: as a quantity, or as groups of equal texts.

    A quantity if all its distinct values are numbers, and more than eight; else groups, the largest first.
    """
    texts = list(map(str.strip, values))
    counted = Counter(filter(None, texts))
    numbers = dict(zip(counted, map(_parse_number, counted), strict=True))
    # A single text that is no number makes the column groups, as a few distinct numbers do: they are codes or years.
    if len(numbers) > MOST_GROUPS and None not in numbers.values():
        return Numbers(np.array([numbers.get(text, np.nan) for text in texts]))
    # Ties go to the alphabet, so that a column has the same colours in every run.
    order = sorted(counted, key=lambda text: (-counted[text], text))
    names = order if len(order) <= MOST_GROUPS else [*order[: MOST_GROUPS - 1], OTHERS_GROUP]
    # All groups without a colour of their own share the last one.
    group_index = {text: min(position, len(names) - 1) for position, text in enumerate(order)}
    return Groups(tuple(names), np.array([group_index.get(text, -1) for text in texts], dtype=np.int64))


def _parse_number(text: str) -> float | None:
    """Return a text as a finite number, or None if it is not one."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None
