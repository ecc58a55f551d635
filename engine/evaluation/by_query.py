"""Query by query: where one decoder has more of a metric than another, and where less."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from engine.evaluation.pairing import SAME, shared


@dataclass(frozen=True, slots=True)
class QueryDifference:
    """What two decoders have of a metric for one query. query: its id; difference: value − baseline, 0 for a tie."""

    query: str
    value: float
    baseline: float
    difference: float


def by_query(
    point: Any, baseline: Any, metric: str, k: int = 10, *, among: Iterable[Any] = ()
) -> tuple[QueryDifference, ...]:
    """The queries from the most won to the most lost, ties in between by id.

    point, baseline: of a sweep at k; among: the points they were compared with, so that the queries are the same as
    there: those for which all have the metric. Raises ParamError or DataError.
    """
    found = shared([point, baseline, *among], (metric,), k)
    at = [p.label for p in found.points]
    own, base = (found.values[metric][:, at.index(p.label)].tolist() for p in (point, baseline))
    rows = [
        QueryDifference(query, a, b, a - b if abs(a - b) > SAME else 0.0)
        for query, a, b in zip(found.queries, own, base, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: (-row.difference, row.query)))
