"""Rare and popular documents: for how many queries each one is right."""

from collections.abc import Mapping, Sequence

import numpy as np

from engine.values import Qrels

POPULAR = 0.5
"""Popular documents: those most often right, until they hold this share of all right answers."""


def right_counts(right: Sequence[np.ndarray], n: int) -> np.ndarray:
    """(n,) for how many queries each row is right."""
    return np.bincount(np.concatenate([*right, np.empty(0, np.int64)]).astype(np.int64), minlength=n)


def popular_rows(times: np.ndarray) -> np.ndarray:
    """(n,) bool: the fewest rows that hold half of all right answers; ties go to the lower row."""
    order = np.argsort(-times, kind="stable")
    before = np.cumsum(times[order]) - times[order]
    popular = np.zeros(len(times), dtype=bool)
    popular[order[(before < POPULAR * times.sum()) & (times[order] > 0)]] = True
    return popular


def rare_rows(times: np.ndarray) -> np.ndarray:
    """(n,) bool: the half of the rows that are right least often, with ties; none where all are equal."""
    middle = np.median(times)
    rare: np.ndarray = times <= middle if middle < times.max() else times < middle
    return rare


def right_rows(qrels: Qrels, ids: Sequence[str], position: Mapping[str, int]) -> list[np.ndarray]:
    """Per query the rows judged right, ascending; judged documents that the corpus lacks are left out.

    ids: of the queries; position: the row of a document.
    """
    return [np.array(sorted(position[d] for d in qrels.relevant(q) if d in position), dtype=np.int64) for q in ids]
