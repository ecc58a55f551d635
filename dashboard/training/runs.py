"""Trainings that were begun on this machine: where they lie, which are under way, and how to go on with them."""

from __future__ import annotations

import json
import shutil
import threading
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from dashboard import jobs
from dashboard.jobs import Job
from dashboard.state import Loaded
from dashboard.training.kept import LENGTH, SECTION
from dashboard.training.request import PURPOSE, Outcome, Request, Stage, run
from engine.data import cache
from engine.errors import FrontierError
from engine.learning.training.checkpoints import read
from engine.learning.training.course import checkpoint, finished, histories, planned
from engine.learning.training.recipes import RECIPES
from engine.learning.training.trained import decoder_at
from engine.values import showable

FILE = "request.json"
_LOCK = threading.Lock()
_UNDER_WAY: dict[str, tuple[str, Job]] = {}
"""Run → the embeddings it is of, and its job: two windows must not train the same twice."""


@dataclass(frozen=True)
class Run:
    """digest: of the request, names its folder; begun: in seconds since 1970."""

    digest: str
    request: Request
    begun: float


def folder(digest: str) -> Path:
    """Where a run's checkpoints are."""
    return cache.section(SECTION) / cache.checked(digest)


def start(loaded: Loaded, request: Request) -> str:
    """Begin a run, go on with it, or join it where another window has it under way; returns its digest.

    Raises FrontierError, and RuntimeError as `jobs.start`.
    """
    digest = request.digest(loaded)
    if (job := under_way(digest)) is not None:
        jobs.share(PURPOSE, job)
        return digest
    place = folder(digest)
    said = {"request": request.as_json(), "embeddings": loaded.space.embeddings.digest}
    text = json.dumps(said | {"corpus": loaded.space.corpus.name}).encode()
    # Looking at a finished run again does not make it the last one begun.
    if not (over(digest, request) and (place / FILE).exists()):
        cache.write(place / FILE, text)
    with _LOCK:
        _, before = _UNDER_WAY.get(digest, ("", None))
    work = partial(_after, before, request, loaded, place)
    job = jobs.start(PURPOSE, f"training {RECIPES[request.method].title}", work)
    with _LOCK:
        _UNDER_WAY[digest] = (loaded.space.embeddings.digest, job)
    return digest


def _after(before: Job | None, request: Request, loaded: Loaded, place: Path, job: Job) -> Outcome:
    """The run, once a job that is about to stop has written its last."""
    if before is not None:
        before.join()
    return run(request, loaded, place, job)


def under_way(digest: str) -> Job | None:
    """The job of a run, in whatever window it was begun; None where it is not at work."""
    with _LOCK:
        for gone in [d for d, (_, job) in _UNDER_WAY.items() if not job.running]:
            del _UNDER_WAY[gone]
        _, job = _UNDER_WAY.get(digest, ("", None))
    return job if job is not None and not job.stop.is_set() else None


def at_work(loaded: Loaded) -> bool:
    """Whether a run on these embeddings is under way, in whatever window."""
    with _LOCK:
        return any(of == loaded.space.embeddings.digest and job.running for of, job in _UNDER_WAY.values())


def of(loaded: Loaded) -> list[Run]:
    """The runs that were begun on these embeddings, the last one first; what cannot be read is passed over."""
    found = []
    for file in cache.section(SECTION).glob(f"*/{FILE}"):
        try:
            said = json.loads(file.read_bytes())
            if said["embeddings"] == loaded.space.embeddings.digest and len(file.parent.name) == LENGTH:
                found.append(Run(file.parent.name, Request.from_json(said["request"]), file.stat().st_mtime))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, FrontierError):
            continue
    return sorted(found, key=lambda one: -one.begun)


def described(digest: str) -> str | None:
    """A run as the list of what is kept on disk has it; None where there is none of that name."""
    try:
        said = json.loads((folder(digest) / FILE).read_bytes())
        return showable(f"{said['corpus']}: training of {Request.from_json(said['request']).method}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, FrontierError):
        return None


def standing(one: Run) -> str:
    """How far a run has come, in words."""
    if under_way(one.digest) is not None:
        return "under way"
    place = folder(one.digest)
    files = [checkpoint(place, stage) for stage in planned(one.request.method)]
    changed = tuple(file.stat().st_mtime_ns if file.exists() else 0 for file in files)
    return _standing(place, one.request.method, changed)


@lru_cache(maxsize=64)
def _standing(place: Path, method: str, changed: tuple[int, ...]) -> str:
    """changed: when the files did, as reading all of them takes a while."""
    try:
        known = histories(place, method)
        if not known:
            return "not begun"
        stage, history = list(known.items())[-1]
        return "finished" if finished(place, method) else f"stopped in {stage}, epoch {history[-1].epoch}"
    except FrontierError:
        return "damaged: train it anew"


def stages(digest: str, request: Request) -> tuple[Stage, ...]:
    """The stages that a run's folder holds, in their order. Raises DataError where a checkpoint is damaged."""
    files = {stage: checkpoint(folder(digest), stage) for stage in planned(request.method)}
    return tuple(_stage(name, file, file.stat().st_mtime_ns) for name, file in files.items() if file.exists())


@lru_cache(maxsize=64)
def _stage(name: str, file: Path, changed: int) -> Stage:
    kept = read(file).run
    return Stage(name, kept.best, kept.stopped, decoder_at(file).label)


def over(digest: str, request: Request) -> bool:
    """Whether a run is finished; one whose files are damaged is not."""
    try:
        return finished(folder(digest), request.method)
    except FrontierError:
        return False


def forget(digest: str) -> None:
    """Delete a run's checkpoints, so that it is trained anew; not of one that another window has under way.

    Raises FrontierError.
    """
    if under_way(digest) is not None:
        return
    place = folder(digest)
    with cache.explained(place):
        if place.is_dir():
            shutil.rmtree(place)
