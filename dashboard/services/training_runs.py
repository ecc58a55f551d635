"""Trainings on this machine: their folders, the running ones, and how to start and resume them."""

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
from dashboard.services.trained import TRAINED_NAME_LENGTH, TRAINED_SECTION
from dashboard.services.training_request import TRAINING, TrainingOutcome, TrainingRequest, TrainingStage, run_training
from engine.data import cache
from engine.errors import FrontierError
from engine.evaluation.paired import format_decoder
from engine.paths import cache_folders
from engine.training.checkpoints import read
from engine.training.experiment import checkpoint, histories, is_course_finished, list_planned_stages
from engine.training.recipes import RECIPES
from engine.training.trained import decoder_at
from engine.values import replace_surrogates

REQUEST_FILE = "request.json"
_TRAININGS_LOCK = threading.Lock()
_TRAININGS: dict[str, tuple[str, Job]] = {}
"""Digest → the embeddings and the job: two windows must not train the same twice."""


@dataclass(frozen=True)
class TrainingJob:
    """Training on disk."""

    digest: str  # of the request, names its folder
    request: TrainingRequest  # what was asked for
    begun: float  # in seconds since 1970


def training_folder(digest: str) -> Path:
    """Return the folder of a training's checkpoints."""
    return cache.entry_path(TRAINED_SECTION, cache.check_name(digest))


def start_training(loaded: Loaded, request: TrainingRequest) -> str:
    """Start or resume a training, or attach to one that runs in another window; return its digest.

    The digest names the request on this corpus, and the folder of its checkpoints. Raises FrontierError, before
    anything starts, if judgements are missing or the folder cannot be written.
    """
    digest = request.digest(loaded)
    # Another window may run the same training: attach to its job.
    if (job := find_training_job(digest)) is not None:
        jobs.attach_job(TRAINING, job)
        return digest
    folder = training_folder(digest)
    facts = {"request": request.as_json(), "embeddings": loaded.space.embeddings.digest}
    request_bytes = json.dumps(facts | {"corpus": loaded.space.corpus.name}).encode()
    # The list is ordered by this file's time: opening a finished training must not make it the newest.
    if not (is_training_finished(digest, request) and (folder / REQUEST_FILE).exists()):
        cache.write(folder / REQUEST_FILE, request_bytes)
    # A job for this training that was cancelled may still be writing its checkpoint.
    with _TRAININGS_LOCK:
        _, previous_job = _TRAININGS.get(digest, ("", None))

    def run_job(job: Job) -> TrainingOutcome:
        """Train in a job, once the previous job for the same training has ended."""
        if previous_job is not None:
            previous_job.join()  # it is about to stop, and has to write its last
        return run_training(request, loaded, folder, job)

    job = jobs.start_job(TRAINING, f"training {RECIPES[request.method].title}", run_job)
    with _TRAININGS_LOCK:
        _TRAININGS[digest] = (loaded.space.embeddings.digest, job)
    return digest


def find_training_job(digest: str) -> Job | None:
    """Return the job of a training that runs in any window; None if none runs or it is stopping.

    Trainings whose jobs have ended are forgotten by the way.
    """
    with _TRAININGS_LOCK:
        for ended_digest in [key for key, (_, job) in _TRAININGS.items() if not job.running]:
            del _TRAININGS[ended_digest]
        _, job = _TRAININGS.get(digest, ("", None))
    return job if job is not None and not job.stop.is_set() else None


def is_training(loaded: Loaded) -> bool:
    """Return True if a training on this corpus's embeddings runs in any window."""
    with _TRAININGS_LOCK:
        return any(digest == loaded.space.embeddings.digest and job.running for digest, job in _TRAININGS.values())


def list_trainings(loaded: Loaded) -> list[TrainingJob]:
    """Return the trainings on disk that were started on this corpus's embeddings, the newest first.

    Unreadable ones are skipped.
    """
    # All cache folders are searched, not only the one that is written to; a training's folder is named by a digest.
    request_files = [
        file for folder in cache_folders() for file in (folder / TRAINED_SECTION).glob(f"*/{REQUEST_FILE}")
    ]
    names = {file.parent.name for file in request_files}
    readable = [_read_training(name) for name in names if len(name) == TRAINED_NAME_LENGTH]
    digest = loaded.space.embeddings.digest
    trainings = [training for facts, training in filter(None, readable) if facts.get("embeddings") == digest]
    return sorted(trainings, key=lambda training: -training.begun)


def describe_training(digest: str) -> str | None:
    """Return a training's title, corpus and method, for the list of the cache; None if it is unreadable."""
    facts, training = _read_training(digest) or ({}, None)
    if training is None or "corpus" not in facts:
        return None
    return replace_surrogates(f"{facts['corpus']}: training of {training.request.method}")


def _read_training(digest: str) -> tuple[dict[str, Any], TrainingJob] | None:
    """Read the file that a training was started with; return its content and the training.

    None if there is no such file or it cannot be read.
    """
    try:
        request_file = training_folder(digest) / REQUEST_FILE
        facts = json.loads(request_file.read_bytes())
        request = TrainingRequest.from_json(facts["request"])
        return facts, TrainingJob(digest, request, request_file.stat().st_mtime)
    # Whatever a damaged file, or one of another version, raises.
    except (OSError, ValueError, KeyError, TypeError, AttributeError, FrontierError):
        return None


def describe_status(training: TrainingJob) -> str:
    """Describe in words how far a training on disk has come: "under way", "finished", or where it stopped."""
    if find_training_job(training.digest) is not None:
        return "under way"
    folder = training_folder(training.digest)
    paths = [checkpoint(folder, stage) for stage in list_planned_stages(training.request.method)]
    # Reading checkpoints takes a while: the answer is cached until one of the files changes.
    changed_ns = tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in paths)
    return _describe_folder(folder, training.request.method, changed_ns)


@lru_cache(maxsize=64)
def _describe_folder(folder: Path, method: str, changed_ns: tuple[int, ...]) -> str:
    """Describe in words how far the training in a folder has come, by its checkpoints (saved states).

    changed_ns: modification times of its files, only there so that the cached answer is not used after a change
    """
    try:
        epochs = histories(folder, method)
        if not epochs:
            return "not begun"
        stage_name, history = list(epochs.items())[-1]
        stopped_text = f"stopped in {stage_name}, epoch {history[-1].epoch}"
        return "finished" if is_course_finished(folder, method) else stopped_text
    except FrontierError:
        return "damaged: train it anew"


def load_stages(digest: str, request: TrainingRequest) -> tuple[TrainingStage, ...]:
    """Load how each stage of a training (the start, its control, the method) ended, in this order.

    Stages without a checkpoint, a saved state, are left out. Raises DataError if one is damaged.
    """
    paths = {stage: checkpoint(training_folder(digest), stage) for stage in list_planned_stages(request.method)}
    return tuple(_load_stage(name, path, path.stat().st_mtime_ns) for name, path in paths.items() if path.exists())


@lru_cache(maxsize=64)
def _load_stage(stage_name: str, checkpoint_file: Path, changed_ns: int) -> TrainingStage:
    """Read from a checkpoint, a saved state, how a stage of a training ended; cached by file time.

    The stages are models trained one after the other: dense embeddings (the start), the same trained on without the
    method (its control), and with the method. changed_ns: the file's modification time, only there to be part of the
    cache's key
    """
    checkpoint_run, decoder = read(checkpoint_file).run, decoder_at(checkpoint_file)
    return TrainingStage(stage_name, checkpoint_run.best, checkpoint_run.stopped, format_decoder(decoder))


def is_training_finished(digest: str, request: TrainingRequest) -> bool:
    """Return True if all stages of a training (the start, its control, the method) have ended.

    False also if a file is damaged.
    """
    try:
        return is_course_finished(training_folder(digest), request.method)
    except FrontierError:
        return False


def delete_training(digest: str) -> None:
    """Delete a training's checkpoints, unless it is running. Raises FrontierError."""
    if find_training_job(digest) is not None:
        return
    folder = training_folder(digest)
    with cache.translate_write_errors(folder):
        if folder.is_dir():
            shutil.rmtree(folder)
