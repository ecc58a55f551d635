"""What the chart of a training run shows: its epochs as columns, its best one, and what it is to be compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.evaluation.metrics import METRICS
from engine.learning.training.course import CONTROL, START
from engine.learning.training.history import Dev, Epoch

WATCHED = (("comp", 5), ("comp", 3), ("recall", 5))
"""Metrics of the chart, the one that chooses the best epoch first."""
SHARES = {
    "empty": "queries without a document in the support",
    "outside": "relevant documents outside the support",
    "satisfied": "queries with a loss of 0",
}


@dataclass(frozen=True)
class Band:
    """A metric on dev by epoch: its mean, and one standard error to both sides; best: its mean at the best epoch."""

    title: str
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    best: float
    lines: Mapping[str, float]


@dataclass(frozen=True)
class Curves:
    """epochs: −1 is before the first; best: which of them was; bands: the metrics of WATCHED; loss, support, shares:
    None at epochs that have none, empty where no epoch has, as shares are where a method has no such thing."""

    epochs: tuple[int, ...]
    best: int
    bands: tuple[Band, ...]
    loss: tuple[float | None, ...]
    support: tuple[float | None, ...]
    shares: Mapping[str, tuple[float | None, ...]]


def best_of(history: Sequence[Epoch]) -> Epoch:
    """The epoch whose weights are kept: the first with the highest Comp@5 on dev."""
    return max(history, key=lambda epoch: (epoch.dev.comp5, -epoch.epoch))


def compared_with(stage: str, histories: Mapping[str, Sequence[Epoch]], untrained: Mapping[str, Dev]) -> dict[str, Dev]:
    """How dev is answered by what a stage is to be compared with: start and control at their best, what does not learn.

    histories: the epochs of every stage; untrained: by name.
    """
    known = {name: best_of(histories[name]).dev for name in (START, CONTROL) if name != stage and histories.get(name)}
    order = list(histories)
    # What comes later is no measure of a stage.
    known = {name: dev for name, dev in known.items() if stage not in order or order.index(name) < order.index(stage)}
    return known | (dict(untrained) if stage not in (START, CONTROL) else {})


def curves(history: Sequence[Epoch], lines: Mapping[str, Dev]) -> Curves:
    """One stage's epochs as columns; lines: name → dev, drawn across."""
    best = best_of(history)
    bands = []
    for metric, k in WATCHED:
        of = f"{metric}{k}"
        values = [getattr(epoch.dev, of) for epoch in history]
        errors = [getattr(epoch.dev, f"{of}_se") for epoch in history]
        bands.append(
            Band(
                f"{METRICS[metric].title}@{k}",
                tuple(values),
                tuple(value - error for value, error in zip(values, errors, strict=True)),
                tuple(value + error for value, error in zip(values, errors, strict=True)),
                getattr(best.dev, of),
                {name: getattr(dev, of) for name, dev in lines.items()},
            )
        )
    columns = {name: tuple(getattr(epoch, name) for epoch in history) for name in ("loss", "support", *SHARES)}
    known = {name: column for name, column in columns.items() if any(value is not None for value in column)}
    # A loss that is never 0, as of a method without weights, has no share of queries for which it is.
    if "support" not in known and not any(known.get("satisfied", ())):
        known.pop("satisfied", None)
    return Curves(
        tuple(epoch.epoch for epoch in history),
        best.epoch,
        tuple(bands),
        known.get("loss", ()),
        known.get("support", ()),
        {title: known[name] for name, title in SHARES.items() if name in known},
    )
