"""Training chart data: a run's epochs as columns, its best epoch, and the lines it is compared with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.evaluation.metrics import METRICS
from engine.training.comparison import CONTROL, START
from engine.training.metrics import Dev, Epoch

WATCHED_METRICS = (("comp", 5), ("comp", 3), ("recall", 5))
"""Metrics of the chart, the one that chooses the best epoch first."""
SHARE_TITLES = {
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
    bands: tuple[Band, ...]  # the metrics of WATCHED_METRICS
    loss: tuple[float | None, ...]  # mean loss
    support: tuple[float | None, ...]  # mean count of documents with a weight
    shares: Mapping[str, tuple[float | None, ...]]  # the columns of SHARE_TITLES, by title


def find_best_epoch(history: Sequence[Epoch]) -> Epoch:
    """Find the epoch whose weights are stored: the first with the highest Comp@5 on dev."""
    return max(history, key=lambda epoch: (epoch.dev.comp5, -epoch.epoch))


def select_compared_systems(
    stage: str, histories: Mapping[str, Sequence[Epoch]], untrained: Mapping[str, Dev]
) -> dict[str, Dev]:
    """Select the dev metrics that a chart of a training stage compares it with, by system.

    A stage is one training of an experiment. The start is the training that the others continue, the control one that
    continues it with the start's loss. Systems to compare with are both at their best epoch, if they came before the
    stage, and untrained ones. histories: the epochs of every stage, in order; untrained: metrics by name.
    """
    stage_order = list(histories)
    # A stage is compared only with those before it.
    earlier = stage_order[: stage_order.index(stage)] if stage in stage_order else stage_order
    trained = {}
    for name in (START, CONTROL):
        if name in earlier and histories[name]:
            trained[name] = find_best_epoch(histories[name]).dev
    # Start and control are baselines themselves: untrained systems are not drawn beside them.
    return trained | (dict(untrained) if stage not in (START, CONTROL) else {})


def curves(history: Sequence[Epoch], lines: Mapping[str, Dev]) -> Curves:
    """Arrange the epochs of a training as columns of a chart: metrics on dev, loss, shares of queries.

    history: the epochs in order; lines: dev metrics of other systems by name, drawn as horizontal lines
    """
    best_epoch = find_best_epoch(history)
    bands = []
    for metric, k in WATCHED_METRICS:
        # Recall@5 is the field recall5, and its standard error recall5_se.
        metric_name = f"{metric}{k}"
        pairs = [(getattr(epoch.dev, metric_name), getattr(epoch.dev, f"{metric_name}_se")) for epoch in history]
        means, errors = np.array(pairs, dtype=np.float64).T
        middle, low, high = map(tuple, np.stack([means, means - errors, means + errors]).tolist())
        system_means = {system: getattr(dev_metrics, metric_name) for system, dev_metrics in lines.items()}
        best_mean = getattr(best_epoch.dev, metric_name)
        bands.append(Band(f"{METRICS[metric].title}@{k}", middle, low, high, best_mean, system_means))
    # Columns that have no number at any epoch are left out.
    column_by_name = {}
    for field_name in ("loss", "support", *SHARE_TITLES):
        column = tuple(getattr(epoch, field_name) for epoch in history)
        if set(column) != {None}:
            column_by_name[field_name] = column
    # `satisfied` is the share of queries with a loss of 0. The loss of a method without weights (no `support`) is never
    # 0: a share that is always 0 would say nothing.
    if "support" not in column_by_name and not any(column_by_name.get("satisfied", ())):
        column_by_name.pop("satisfied", None)
    epochs = tuple(epoch.epoch for epoch in history)
    loss, support = column_by_name.get("loss", ()), column_by_name.get("support", ())
    shares = {title: column_by_name[name] for name, title in SHARE_TITLES.items() if name in column_by_name}
    return Curves(epochs, best_epoch.epoch, tuple(bands), loss, support, shares)
