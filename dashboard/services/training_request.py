"""A training as a value, and the work of running it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import engine
from dashboard.services.jobs import Job
from dashboard.services.request import JobRequest
from dashboard.services.source import Loaded
from engine.errors import ParamError
from engine.evaluation.paired import format_decoder
from engine.evaluation.splits import three_way
from engine.training.comparison import Table
from engine.training.experiment import Foreseen, course, foreseen, histories
from engine.training.metrics import Dev, Epoch
from engine.training.recipes import declared_params, make_recipe
from engine.values import Qrels

TRAINING, ESTIMATE_PURPOSE = "train", "train.look"
"""The jobs of a session that train, and that estimate how long training takes."""


@dataclass(frozen=True, kw_only=True)
class TrainingRequest(JobRequest):
    """Settings of a training: what it learns, by which method, and from which judged queries.

    Queries are divided into splits: one to learn from, one to choose the best state by (dev), one to report on.
    """

    method: str  # as `course` takes it
    params: tuple[tuple[str, Any], ...]  # as `course` takes them, without what the data decide
    train: str  # the split to learn from
    dev: str  # the split to choose by
    test: str | None  # the split to report on, None for dev
    divide: str | None = None  # the split that these three are drawn from, None for none
    parting: int = 0  # seed of that division
    seed: int = 0  # of the training
    passages: bool = False  # True if the queries are passages of the corpus

    def __post_init__(self) -> None:
        """Check the method and its parameters. Raises ParamError."""
        make_recipe(self.method, **dict(self.params))

    @property
    def split_names(self) -> tuple[str, ...]:
        """Names of the splits whose judgements are read: the one to divide, or those to train and report on."""
        if self.divide is not None:
            return (self.divide,)
        return (self.train, self.dev, *([self.test] if self.test is not None else []))

    def qrels(self, dataset: engine.Dataset) -> dict[str, Qrels]:
        """Return the relevance judgements that the training uses, by split.

        If the request divides a single split, they are its three parts: train, dev and test.
        Raises DataError if they are missing or too few.
        """
        qrels_by_split = super().qrels(dataset)
        return qrels_by_split if self.divide is None else three_way(qrels_by_split[self.divide], self.parting)

    def as_json(self) -> dict[str, Any]:
        """Return plain values; `from_json` reads them."""
        return {**super().as_json(), "params": dict(self.params)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TrainingRequest:
        """Build a request from the values in a file, as `as_json` wrote them.

        Raises ParamError, KeyError or TypeError for a file that is damaged or of another version.
        """
        params = values["params"]
        param_names = {declaration.name for declaration in declared_params(values["method"])}
        if not params.keys() <= param_names:
            raise ParamError(f"{values['method']} has no parameter {min(params.keys() - param_names)!r}")
        return cls(**{**values, "params": tuple(params.items())})


@dataclass(frozen=True)
class TrainingProgress:
    """Results so far of a running training, which has several stages one after the other."""

    histories: Mapping[str, tuple[Epoch, ...]]  # stage → its epochs
    lines: Mapping[str, Dev]  # name → the dev metrics of a system that does not learn

    def with_epoch(self, stage_name: str, epoch: Epoch) -> TrainingProgress:
        """Return a copy with the metrics of one more epoch (pass over the queries) of a stage.

        The stages are models trained one after the other: dense embeddings (the start), the same trained on without the
        method (its control), and with the method.
        """
        epochs = self.histories.get(stage_name, ())
        return replace(self, histories={**self.histories, stage_name: (*epochs, epoch)})


@dataclass(frozen=True)
class TrainingStage:
    """End of one stage of a training, such as its control, which trains as long without the method."""

    name: str
    best: int  # its best epoch, −1 for before training
    stopped: str  # reason of its end
    decoder: str  # name of the one that it is measured with


@dataclass(frozen=True, eq=False)
class TrainingOutcome:
    """Result of a training with all its stages, without its embeddings, which are on disk."""

    request: TrainingRequest
    table: Table | None  # None if it was stopped early
    verdict: str  # of the comparison with its control, which trained as long without the method
    stages: tuple[TrainingStage, ...]
    progress: TrainingProgress  # its epochs, those before an interruption too


def run_training(request: TrainingRequest, loaded: Loaded, folder: Path, job: Job) -> TrainingOutcome:
    """Train the models that a training compares, resuming from a folder; return how they compare.

    These stages are dense embeddings (the start), the same trained on without the method (its control), and with the
    method. Pages read the progress in job.partial, a TrainingProgress, which is replaced and never changed.
    """
    job.partial = TrainingProgress(histories(folder, request.method), {})

    def on_epoch(stage_name: str, epoch: Epoch) -> None:
        job.partial = job.partial.with_epoch(stage_name, epoch)

    def on_dev(system_name: str, dev_metrics: Dev) -> None:
        job.partial = replace(job.partial, lines={**job.partial.lines, system_name: dev_metrics})

    arguments = _course_arguments(request, loaded, job)
    # The engine calls `watch` after each epoch, and `lines` for each system that does not learn, a line in the chart.
    result = course(**arguments, folder=folder, seed=request.seed, watch=on_epoch, lines=on_dev, progress=job.report)
    runs = result.stages.items()
    stages = tuple(TrainingStage(name, run.best.epoch, run.stopped, format_decoder(run.decoder)) for name, run in runs)
    return TrainingOutcome(request, result.table, result.verdict, stages, job.partial)


def estimate_training(request: TrainingRequest, loaded: Loaded, job: Job) -> Foreseen:
    """Estimate how long a training takes, by timing the first steps of each model that it trains."""
    arguments = _course_arguments(request, loaded, job)
    job.report(0, 0, "timing the first steps")
    return foreseen(**arguments)


def _course_arguments(request: TrainingRequest, loaded: Loaded, job: Job) -> dict[str, Any]:
    """Return the arguments with which the engine trains (`course`) and estimates the time (`foreseen`).

    The queries are embedded first, by the job, unless their vectors are stored.
    """
    qrels = request.qrels(loaded.dataset)
    return {
        "method": request.method,
        "space": loaded.space,
        "queries": request.vectors(loaded, qrels, job),
        "qrels": qrels,
        "train": request.train,
        "dev": request.dev,
        # No split is called "": without a test split the table of results is measured on dev.
        "test": request.test or "",
        "stop": job.stop,
        **dict(request.params),
    }
