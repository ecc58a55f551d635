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
    # Empty cells have no group and no number.
    text_counts = Counter(filter(None, texts))
    number_by_text = {text: _parse_number(text) for text in text_counts}
    # A few distinct numbers are codes or years: they make groups, and so does a single text that is no number.
    is_quantity = len(number_by_text) > MOST_GROUPS and None not in number_by_text.values()
    if is_quantity:
        return Numbers(np.array([number_by_text.get(text, np.nan) for text in texts]))
    # Ties go to the alphabet, so that a column has the same colours in every run.
    largest_first = sorted(text_counts, key=lambda text: (-text_counts[text], text))
    names = largest_first if len(largest_first) <= MOST_GROUPS else [*largest_first[: MOST_GROUPS - 1], OTHERS_GROUP]
    # All groups without a colour of their own share the last one.
    group_index = {text: min(position, len(names) - 1) for position, text in enumerate(largest_first)}
    return Groups(tuple(names), np.array([group_index.get(text, -1) for text in texts], dtype=np.int64))


def _parse_number(text: str) -> float | None:
    """Return a text as a finite number, or None if it is not one."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None
