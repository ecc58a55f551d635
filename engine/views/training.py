"""Training chart data: a run's epochs as columns, its best epoch, and the lines it is compared with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.evaluation.metrics import METRICS
from engine.training.comparison import CONTROL, START
from engine.training.metrics import Dev, Epoch

WATCHED = (("comp", 5), ("comp", 3), ("recall", 5))
"""Metrics of the chart, the one that chooses the best epoch first."""
SHARES = {
    "empty": "queries without a document in the support",
    "outside": "relevant documents outside the support",
    "satisfied": "queries with a loss of 0",
}


@dataclass(frozen=True)
class Band:
    """A metric on dev by epoch."""

    title: str  # its name
    values: tuple[float, ...]  # means
    low: tuple[float, ...]  # one standard error below
    high: tuple[float, ...]  # one standard error above
    best: float  # the mean at the best epoch
    lines: Mapping[str, float]  # other systems' means, by name


@dataclass(frozen=True)
class Curves:
    """Columns of a training run; None at epochs without a number, empty where no epoch has one."""

    epochs: tuple[int, ...]  # their numbers, −1 before the first step
    best: int  # number of the best one
    bands: tuple[Band, ...]  # the metrics of WATCHED
    loss: tuple[float | None, ...]  # mean loss
    support: tuple[float | None, ...]  # mean count of documents with a weight
    shares: Mapping[str, tuple[float | None, ...]]  # the columns of SHARES, by title


def best_of(history: Sequence[Epoch]) -> Epoch:
    """The epoch whose weights are kept: the first with the highest Comp@5 on dev."""
    return max(history, key=lambda epoch: (epoch.dev.comp5, -epoch.epoch))


def compared_with(stage: str, histories: Mapping[str, Sequence[Epoch]], untrained: Mapping[str, Dev]) -> dict[str, Dev]:
    """Dev metrics of the systems that a stage is compared with: start and control at their best, untrained systems.

    histories: the epochs of every stage; untrained: by name.
    """
    order = list(histories)
    # Later stages are no measure of a stage.
    earlier = order[: order.index(stage)] if stage in order else order
    trained = {name: best_of(histories[name]).dev for name in (START, CONTROL) if name in earlier and histories[name]}
    return trained | (dict(untrained) if stage not in (START, CONTROL) else {})


def curves(history: Sequence[Epoch], lines: Mapping[str, Dev]) -> Curves:
    """One stage's epochs as columns; lines: name → dev, drawn across."""
    best = best_of(history)
    bands = []
    for metric, k in WATCHED:
        name = f"{metric}{k}"
        means = [(getattr(epoch.dev, name), getattr(epoch.dev, f"{name}_se")) for epoch in history]
        bands.append(
            Band(
                f"{METRICS[metric].title}@{k}",
                tuple(value for value, _ in means),
                tuple(value - error for value, error in means),
                tuple(value + error for value, error in means),
                getattr(best.dev, name),
                {system: getattr(dev, name) for system, dev in lines.items()},
            )
        )
    columns = {name: tuple(getattr(epoch, name) for epoch in history) for name in ("loss", "support", *SHARES)}
    present = {name: column for name, column in columns.items() if any(value is not None for value in column)}
    # A loss that is never 0, as of a method without weights, has no share of satisfied queries.
    if "support" not in present and not any(present.get("satisfied", ())):
        present.pop("satisfied", None)
    return Curves(
        tuple(epoch.epoch for epoch in history),
        best.epoch,
        tuple(bands),
        present.get("loss", ()),
        present.get("support", ()),
        {title: present[name] for name, title in SHARES.items() if name in present},
    )
