"""Systems side by side: a space and a decoder each, on the same queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.decoder import Decoder, decode
from engine.errors import DataError
from engine.evaluation.metrics import METRICS, measure
from engine.evaluation.statistics import RESAMPLES, Comparison, holm, intervals, sign_flips, statement, wins
from engine.evaluation.strata import grouped
from engine.learning.training.history import SIZES, Dev
from engine.space import Space
from engine.values import Embeddings, Qrels

REPORTED = tuple((metric, k) for metric in ("recall", "comp") for k in SIZES)
"""The table's metrics, as in the paper."""
DECIDES = ("comp", 5)
"""What systems are compared in."""
GROUPS = 5
"""How many groups of like |S| at most."""


@dataclass(frozen=True, eq=False)
class System:
    """A decoder in a space, by a name."""

    name: str
    space: Space
    decoder: Decoder


@dataclass(frozen=True, slots=True)
class Group:
    """Queries with so many relevant documents, "3" or "5–7": how many there are, and by system the mean of Comp@5 and
    its standard error."""

    relevant: str
    queries: int
    means: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Table:
    """Systems side by side on the queries of a split.

    values: name → (metric, k) → (B,), without queries that have no relevant document; told: the last system against
    every other in Comp@5, with Holm's correction over them; relevant: (B,) how many documents are, |S|.
    """

    split: str
    queries: int
    values: Mapping[str, Mapping[tuple[str, int], np.ndarray]]
    told: tuple[Comparison, ...]
    relevant: np.ndarray

    @property
    def head(self) -> tuple[str, ...]:
        return ("", *(f"{METRICS[metric].title}@{k}" for metric, k in REPORTED))

    def mean(self, name: str, metric: str, k: int) -> tuple[float, float]:
        """A system's mean over the queries, and its standard error."""
        return _mean(self.values[name][metric, k])

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """A row a system, in percent with standard errors."""
        cells = {name: [self.mean(name, *column) for column in REPORTED] for name in self.values}
        return tuple((n, *(percent(*cell) for cell in own)) for n, own in cells.items())

    @property
    def records(self) -> tuple[dict[str, Any], ...]:
        """A row a system, as numbers with standard errors: for files."""
        found = []
        for name in self.values:
            row: dict[str, Any] = {"system": name, "split": self.split, "queries": self.queries}
            for metric, k in REPORTED:
                mean, error = self.mean(name, metric, k)
                row |= {f"{METRICS[metric].title}@{k}": mean, f"{METRICS[metric].title}@{k} se": error}
            found.append(row)
        return tuple(found)

    def groups(self, most: int = GROUPS) -> tuple[Group, ...]:
        """Comp@5 by how many documents are relevant (paper, Fig. 4), in groups that rise."""
        found = []
        for least, top in grouped(self.relevant, most):
            rows = (self.relevant >= least) & (self.relevant <= top)
            means = {name: _mean(own[DECIDES][rows]) for name, own in self.values.items()}
            found.append(Group(f"{least}" if least == top else f"{least}–{top}", int(rows.sum()), means))
        return tuple(found)

    def dev(self, name: str) -> Dev:
        """A system's row as an epoch has it."""
        cells = {f"{metric}{k}": self.mean(name, metric, k) for metric, k in REPORTED}
        return Dev(**{n: m for n, (m, _) in cells.items()}, **{f"{n}_se": se for n, (_, se) in cells.items()})

    @property
    def sentences(self) -> tuple[str, ...]:
        """What can be told of the last system beside the others, and no more."""
        return tuple(statement(row) for row in self.told)


def compared(systems: Sequence[System], queries: Embeddings, qrels: Qrels, split: str = "", seed: int = 0) -> Table:
    """Decode and measure. queries: those that the judgements are of, as the encoder embedded them. Raises DataError."""
    rows = [row for row, query in enumerate(queries.ids) if qrels.relevant(query)]
    if not rows:
        raise DataError(f"no query of {split!r} has a relevant document")
    asked = queries.take(rows)
    values = {}
    for system in systems:
        found = decode(system.decoder, system.space, asked, max(SIZES))
        of = {k: measure(found, system.space, asked, qrels, k, ("recall", "comp")).values for k in SIZES}
        values[system.name] = {(metric, k): of[k][metric] for metric, k in REPORTED}
    relevant = np.array([len(qrels.relevant(query)) for query in asked.ids])
    return Table(split, len(asked), values, _told(values, seed), relevant)


def percent(mean: float, error: float) -> str:
    """A mean and its standard error as tables have them."""
    return f"{100 * mean:.1f} ± {100 * error:.1f}"


def _mean(column: np.ndarray) -> tuple[float, float]:
    return float(column.mean()), float(column.std(ddof=1) / np.sqrt(len(column))) if len(column) > 1 else 0.0


def _told(values: Mapping[str, Mapping[tuple[str, int], np.ndarray]], seed: int) -> tuple[Comparison, ...]:
    metric, k = DECIDES
    *others, last = values
    if not others:
        return ()
    own, theirs = values[last][DECIDES], np.stack([values[name][DECIDES] for name in others], axis=1)
    differences = own[:, None] - theirs
    ends = intervals(differences, RESAMPLES.default, seed)
    p = sign_flips(differences, RESAMPLES.default, seed)
    corrected = holm(p)
    return tuple(
        Comparison(
            name=last,
            label=last,
            baseline=name,
            metric=metric,
            k=k,
            queries=len(own),
            mean=float(own.mean()),
            baseline_mean=float(theirs[:, i].mean()),
            difference=float(differences[:, i].mean()),
            low=None if ends is None else float(ends[0, i]),
            high=None if ends is None else float(ends[1, i]),
            p=float(p[i]),
            p_holm=float(corrected[i]),
            comparisons=len(p),
            wins=wins(own, theirs[:, i]),
        )
        for i, name in enumerate(others)
    )
