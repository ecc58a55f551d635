"""Trainings begun on this machine: their folders, which are under way, how to start and resume them."""

import json
import shutil
import threading
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from dashboard.services import jobs
from dashboard.services.jobs import Job
from dashboard.services.source import Loaded
from dashboard.services.trained import LENGTH, SECTION
from dashboard.services.training_request import PURPOSE, TrainingOutcome, TrainingRequest, TrainingStage, run
from engine.data import cache
from engine.errors import FrontierError
from engine.paths import cache_folders
from engine.training.checkpoints import read
from engine.training.experiment import checkpoint, histories, is_course_finished, list_planned_stages
from engine.training.recipes import RECIPES
from engine.training.trained import decoder_at
from engine.values import replace_surrogates

FILE = "request.json"
_LOCK = threading.Lock()
_UNDER_WAY: dict[str, tuple[str, Job]] = {}
"""Digest → the embeddings and the job: two windows must not train the same twice."""


@dataclass(frozen=True)
class TrainingJob:
    """A training on disk."""

    digest: str  # of the request, names its folder
    request: TrainingRequest  # what was asked for
    begun: float  # in seconds since 1970


def folder(digest: str) -> Path:
    """The folder of a training's checkpoints."""
    return cache.entry_path(SECTION, cache.check_name(digest))


def start(loaded: Loaded, request: TrainingRequest) -> str:
    """Begin a training, go on with it, or join it where another window has it under way; returns its digest.

    Raises FrontierError.
    """
    digest = request.digest(loaded)
    if (job := under_way(digest)) is not None:
        jobs.share(PURPOSE, job)
        return digest
    place = folder(digest)
    facts = {"request": request.as_json(), "embeddings": loaded.space.embeddings.digest}
    text = json.dumps(facts | {"corpus": loaded.space.corpus.name}).encode()
    # Looking at a finished training again does not make it the last one begun.
    if not (is_finished(digest, request) and (place / FILE).exists()):
        cache.write(place / FILE, text)
    with _LOCK:
        _, before = _UNDER_WAY.get(digest, ("", None))

    def work(job: Job) -> TrainingOutcome:
        if before is not None:
            before.join()  # it is about to stop, and has to write its last
        return run(request, loaded, place, job)

    job = jobs.start(PURPOSE, f"training {RECIPES[request.method].title}", work)
    with _LOCK:
        _UNDER_WAY[digest] = (loaded.space.embeddings.digest, job)
    return digest


def under_way(digest: str) -> Job | None:
    """The job of a training, begun in any window; None where none is at work."""
    with _LOCK:
        for gone in [d for d, (_, job) in _UNDER_WAY.items() if not job.running]:
            del _UNDER_WAY[gone]
        _, job = _UNDER_WAY.get(digest, ("", None))
    return job if job is not None and not job.stop.is_set() else None


def at_work(loaded: Loaded) -> bool:
    """Whether a training on these embeddings is under way in any window."""
    with _LOCK:
        return any(
            embeddings == loaded.space.embeddings.digest and job.running for embeddings, job in _UNDER_WAY.values()
        )


def trainings_of(loaded: Loaded) -> list[TrainingJob]:
    """Trainings begun on these embeddings, the last one first; what cannot be read is skipped."""
    names = {file.parent.name for folder in cache_folders() for file in (folder / SECTION).glob(f"*/{FILE}")}
    known = [_read(name) for name in names if len(name) == LENGTH]
    digest = loaded.space.embeddings.digest
    rows = [training for facts, training in filter(None, known) if facts.get("embeddings") == digest]
    return sorted(rows, key=lambda row: -row.begun)


def describe(digest: str) -> str | None:
    """A training as the list of the cache names it; None where there is none of that name."""
    if (known := _read(digest)) is None or "corpus" not in known[0]:
        return None
    return replace_surrogates(f"{known[0]['corpus']}: training of {known[1].request.method}")


def _read(digest: str) -> tuple[dict[str, Any], TrainingJob] | None:
    """What the file of a training holds, and the training; None where it cannot be read."""
    try:
        file = folder(digest) / FILE
        facts = json.loads(file.read_bytes())
        request = TrainingRequest.from_json(facts["request"])
        return facts, TrainingJob(digest, request, file.stat().st_mtime)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, FrontierError):
        return None


def status(training: TrainingJob) -> str:
    """The status of a training in words."""
    if under_way(training.digest) is not None:
        return "under way"
    place = folder(training.digest)
    files = [checkpoint(place, stage) for stage in list_planned_stages(training.request.method)]
    changed = tuple(file.stat().st_mtime_ns if file.exists() else 0 for file in files)
    return _status(place, training.request.method, changed)


@lru_cache(maxsize=64)
def _status(place: Path, method: str, changed: tuple[int, ...]) -> str:
    """changed: when the files did, as reading all of them takes a while."""
    try:
        epochs = histories(place, method)
        if not epochs:
            return "not begun"
        stage, history = list(epochs.items())[-1]
        return "finished" if is_course_finished(place, method) else f"stopped in {stage}, epoch {history[-1].epoch}"
    except FrontierError:
        return "damaged: train it anew"


def stages(digest: str, request: TrainingRequest) -> tuple[TrainingStage, ...]:
    """The stages that a training's folder holds, in order. Raises DataError where a checkpoint is damaged."""
    files = {stage: checkpoint(folder(digest), stage) for stage in list_planned_stages(request.method)}
    return tuple(_stage(name, file, file.stat().st_mtime_ns) for name, file in files.items() if file.exists())


@lru_cache(maxsize=64)
def _stage(name: str, file: Path, changed: int) -> TrainingStage:
    checkpoint_run = read(file).run
    return TrainingStage(name, checkpoint_run.best, checkpoint_run.stopped, decoder_at(file).label)


def is_finished(digest: str, request: TrainingRequest) -> bool:
    """Whether a training is finished; one whose files are damaged is not."""
    try:
        return is_course_finished(folder(digest), request.method)
    except FrontierError:
        return False


def forget(digest: str) -> None:
    """Delete a training's checkpoints, so that it is trained anew; not one under way. Raises FrontierError."""
    if under_way(digest) is not None:
        return
    place = folder(digest)
    with cache.translate_write_errors(place):
        if place.is_dir():
            shutil.rmtree(place)
