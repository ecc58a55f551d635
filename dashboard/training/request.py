"""What is to be trained, as a value, and the work it takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import engine
from dashboard.jobs import Job
from dashboard.state import Loaded
from engine.errors import ParamError
from engine.evaluation.splits import parted
from engine.learning.training.comparison import Table
from engine.learning.training.course import Foreseen, course, foreseen, histories
from engine.learning.training.history import Dev, Epoch
from engine.learning.training.recipes import declared, made
from engine.progress import watched
from engine.values import Embeddings, Qrels, digest_of

PURPOSE, LOOK = "train", "train.look"
"""What a session calls the job that trains, and the one that says beforehand how long it will take."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """method, params: as `course` takes them, without what the data decide; train, dev, test: the splits to learn from,
    to choose by and to report on, None: on dev; divide: the split that these three are drawn from, by `parting`, None
    for none; passages: whether the queries are passages of the corpus."""

    method: str
    params: tuple[tuple[str, Any], ...]
    train: str
    dev: str
    test: str | None
    divide: str | None = None
    parting: int = 0
    seed: int = 0
    passages: bool = False

    def __post_init__(self) -> None:
        made(self.method, **dict(self.params))

    def qrels(self, dataset: engine.Dataset) -> dict[str, Qrels]:
        """The judgements as asked for, by split. Raises DataError where there are too few, or none."""
        wanted = [self.divide] if self.divide is not None else [self.train, self.dev]
        wanted += [self.test] if self.divide is None and self.test is not None else []
        if missing := [name for name in wanted if name not in dataset.qrels]:
            raise engine.DataError(f"no split {missing[0]!r}; there are {', '.join(dataset.qrels) or 'none'}")
        if self.divide is not None:
            return parted(dataset.qrels[self.divide], self.parting)
        return {name: dataset.qrels[name] for name in wanted}

    def digest(self, loaded: Loaded) -> str:
        """Names the training of these parameters on this corpus and these judgements."""
        judged = [part for name, own in self.qrels(loaded.dataset).items() for part in (name, own.digest)]
        return digest_of([loaded.space.embeddings.digest, json.dumps(self.as_json(), sort_keys=True), *judged])[:32]

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "params": dict(self.params)}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Request:
        """Raises ParamError, KeyError or TypeError where the values make none."""
        params = given["params"]
        known = {p.name for p in declared(given["method"])}
        if not params.keys() <= known:
            raise ParamError(f"{given['method']} has no parameter {min(params.keys() - known)!r}")
        return cls(**{**given, "params": tuple(params.items())})


@dataclass(frozen=True)
class Seen:
    """What is known while a course is under way: the epochs of every stage; lines: systems that do not learn."""

    histories: Mapping[str, tuple[Epoch, ...]]
    lines: Mapping[str, Dev]

    def after(self, stage: str, epoch: Epoch) -> Seen:
        known = self.histories.get(stage, ())
        return replace(self, histories={**self.histories, stage: (*known, epoch)})


@dataclass(frozen=True)
class Stage:
    """How a stage of a course ended: its best epoch, why it is over, and the decoder that it is measured with."""

    name: str
    best: int
    stopped: str
    decoder: str


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a course came to, without its embeddings, which lie on disk.

    table: None where it was stopped early; verdict: of its control; seen: its epochs, those of an earlier sitting too.
    """

    request: Request
    table: Table | None
    verdict: str
    stages: tuple[Stage, ...]
    seen: Seen


def run(request: Request, loaded: Loaded, folder: Path, job: Job) -> Outcome:
    """The whole course, from where its folder has it; what happens on the way goes to job.partial."""
    job.partial = Seen(histories(folder, request.method), {})

    def watch(stage: str, epoch: Epoch) -> None:
        job.partial = job.partial.after(stage, epoch)

    def lines(system: str, dev: Dev) -> None:
        job.partial = replace(job.partial, lines={**job.partial.lines, system: dev})

    qrels, vectors = _data(request, loaded, job)
    with watched(stop=job.stop):
        found = course(
            request.method, loaded.space, vectors, qrels, **_splits(request), folder=folder, seed=request.seed,
            watch=watch, lines=lines, progress=job.report, stop=job.stop, **dict(request.params),
        )  # fmt: skip
    stages = tuple(Stage(name, t.best.epoch, t.stopped, t.decoder.label) for name, t in found.stages.items())
    return Outcome(request, found.table, found.verdict, stages, job.partial)


def look(request: Request, loaded: Loaded, job: Job) -> Foreseen:
    """How long it will take, by the first steps of every stage."""
    qrels, vectors = _data(request, loaded, job)
    job.report(0, 0, "timing the first steps")
    with watched(stop=job.stop):
        return foreseen(
            request.method, loaded.space, vectors, qrels, **_splits(request), stop=job.stop, **dict(request.params)
        )


def _splits(request: Request) -> dict[str, str]:
    # A split that is not there: the table is then of dev.
    return {"train": request.train, "dev": request.dev, "test": request.test or ""}


def _data(request: Request, loaded: Loaded, job: Job) -> tuple[dict[str, Qrels], Embeddings]:
    qrels = request.qrels(loaded.dataset)
    queries = loaded.dataset.queries.only({query for own in qrels.values() for query in own.grades})
    if (there := loaded.vectors_of(queries)) is not None:
        return qrels, there
    return qrels, engine.embed_queries(loaded.space, queries, progress=job.report, stop=job.stop)
