"""A training as a value, and the work it takes."""

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
from engine.evaluation.splits import three_way
from engine.training.comparison import Table
from engine.training.experiment import Foreseen, course, foreseen, histories
from engine.training.metrics import Dev, Epoch
from engine.training.recipes import declared_params, make_recipe
from engine.values import Qrels

PURPOSE, LOOK = "train", "train.look"
"""The jobs of a session that train, and that estimate how long training takes."""


@dataclass(frozen=True, kw_only=True)
class TrainingRequest(JobRequest):
    """The settings of a training."""

    method: str  # as `course` takes it
    params: tuple[tuple[str, Any], ...]  # as `course` takes them, without what the data decide
    train: str  # the split to learn from
    dev: str  # the split to choose by
    test: str | None  # the split to report on, None for dev
    divide: str | None = None  # the split that these three are drawn from, None for none
    parting: int = 0  # seed of that division
    seed: int = 0  # of the training
    passages: bool = False  # whether the queries are passages of the corpus

    def __post_init__(self) -> None:
        make_recipe(self.method, **dict(self.params))

    @property
    def split_names(self) -> tuple[str, ...]:
        """The split that is divided, or those to learn from, to choose by, to report on."""
        if self.divide is not None:
            return (self.divide,)
        return (self.train, self.dev, *([self.test] if self.test is not None else []))

    def qrels(self, dataset: engine.Dataset) -> dict[str, Qrels]:
        """Return the judgements by split. Raises DataError where there are too few, or none."""
        judged = super().qrels(dataset)
        return judged if self.divide is None else three_way(judged[self.divide], self.parting)

    def as_json(self) -> dict[str, Any]:
        """Return plain values; `from_json` reads them."""
        return {**super().as_json(), "params": dict(self.params)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TrainingRequest:
        """The request of plain values. Raises ParamError, KeyError or TypeError where they make none."""
        params = values["params"]
        known = {p.name for p in declared_params(values["method"])}
        if not params.keys() <= known:
            raise ParamError(f"{values['method']} has no parameter {min(params.keys() - known)!r}")
        return cls(**{**values, "params": tuple(params.items())})


@dataclass(frozen=True)
class TrainingProgress:
    """Intermediate results of a course."""

    histories: Mapping[str, tuple[Epoch, ...]]  # stage → its epochs
    lines: Mapping[str, Dev]  # name → the dev metrics of a system that does not learn

    def after(self, stage: str, epoch: Epoch) -> TrainingProgress:
        """The same with one epoch more."""
        epochs = self.histories.get(stage, ())
        return replace(self, histories={**self.histories, stage: (*epochs, epoch)})


@dataclass(frozen=True)
class TrainingStage:
    """The end of a stage of a course."""

    name: str
    best: int  # its best epoch, −1 for before training
    stopped: str  # why it is over
    decoder: str  # label of the one that it is measured with


@dataclass(frozen=True, eq=False)
class TrainingOutcome:
    """The result of a course, without its embeddings, which lie on disk."""

    request: TrainingRequest
    table: Table | None  # None where it was stopped early
    verdict: str  # of its control
    stages: tuple[TrainingStage, ...]
    progress: TrainingProgress  # its epochs, those before an interruption too


def run(request: TrainingRequest, loaded: Loaded, folder: Path, job: Job) -> TrainingOutcome:
    """Run the course from where its folder has it; TrainingProgress goes to job.partial."""
    job.partial = TrainingProgress(histories(folder, request.method), {})

    def watch(stage: str, epoch: Epoch) -> None:
        job.partial = job.partial.after(stage, epoch)

    def lines(system: str, dev: Dev) -> None:
        job.partial = replace(job.partial, lines={**job.partial.lines, system: dev})

    arguments = _arguments(request, loaded, job)
    result = course(**arguments, folder=folder, seed=request.seed, watch=watch, lines=lines, progress=job.report)
    stages = tuple(TrainingStage(name, t.best.epoch, t.stopped, t.decoder.label) for name, t in result.stages.items())
    return TrainingOutcome(request, result.table, result.verdict, stages, job.partial)


def estimate(request: TrainingRequest, loaded: Loaded, job: Job) -> Foreseen:
    """Estimate how long training takes, by the first steps of every stage."""
    arguments = _arguments(request, loaded, job)
    job.report(0, 0, "timing the first steps")
    return foreseen(**arguments)


def _arguments(request: TrainingRequest, loaded: Loaded, job: Job) -> dict[str, Any]:
    """The arguments that `course` and `foreseen` share."""
    qrels = request.qrels(loaded.dataset)
    return {
        "method": request.method,
        "space": loaded.space,
        "queries": request.vectors(loaded, qrels, job),
        "qrels": qrels,
        "train": request.train,
        "dev": request.dev,
        "test": request.test or "",  # a split that is not there: the table is then of dev
        "stop": job.stop,
        **dict(request.params),
    }
