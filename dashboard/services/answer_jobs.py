"""Answers to requests of browsers, such as a slider's: one job an address, which those who ask for it share."""

import asyncio
import gzip
import json
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from dashboard.services.jobs import Job
from dashboard.services.memo import Memo
from engine.progress import raise_if_stopped

MAX_BODY_BYTES = 64 << 20
"""Size of all answers in memory, compressed; the least recently used goes first."""
MAX_BODIES = 4096
MIN_POLL_SECONDS, MAX_POLL_SECONDS = 0.01, 0.25
"""Seconds between two looks at a job: the first ones, as most answers take milliseconds, and the later ones."""


class Answerable(Protocol):
    """Request of a browser, with the JSON values that answer it."""

    def answer(self) -> Any: ...


#: At most one answer is computed at a time, and none holds a place that pages wait for.
_WORK_SLOT = threading.BoundedSemaphore(1)
_BODIES: Memo[str, bytes] = Memo(MAX_BODIES, len, MAX_BODY_BYTES)
_JOBS: dict[str, Job] = {}
_LOCK = threading.Lock()
"""Held while a request joins or leaves a job."""
_FIRST_REQUEST = threading.Event()


async def fetch_body(digest: str, answerable: Answerable, is_gone: Callable[[], Awaitable[bool]]) -> Job | bytes:
    """Wait for the answer to a request, which is computed if it is not in memory; return it as gzipped JSON.

    If there is no answer, return the job that failed or was stopped. digest: of all that the answer depends on;
    is_gone: returns True once the browser no longer waits. When none waits the job stops.
    """
    # One look-up: another thread may evict the body between two.
    if (body := _BODIES.get(digest)) is not None:
        return body
    job, pause = _join_job(digest, answerable), MIN_POLL_SECONDS
    try:
        # The event loop serves all visitors, and its few threads other requests: this one holds none of them.
        while job.running and not await is_gone():
            await asyncio.sleep(pause)
            pause = min(MAX_POLL_SECONDS, 1.5 * pause)
    finally:
        with _LOCK:
            job.remove_subscriber()
    return job if job.result is None else job.result


def was_asked() -> bool:
    """Return True once a browser has asked this process for an answer: its page is there."""
    return _FIRST_REQUEST.is_set()


def is_busy() -> bool:
    """Return True while an answer is being computed, or waits for its turn."""
    return bool(_JOBS)


def _join_job(digest: str, answerable: Answerable) -> Job:
    """Return the job that computes this answer, started if there is none; the caller counts as its subscriber."""
    _FIRST_REQUEST.set()
    with _LOCK:
        job = _JOBS.get(digest)
        # A job that everybody has left is stopping, and gives no answer to who comes now.
        if job is not None and job.is_active:
            job.add_subscriber()
            return job
        _JOBS[digest] = job = Job("answer of a slider", lambda job: _compute_body(job, digest, answerable))
        return job


def _compute_body(job: Job, digest: str, answerable: Answerable) -> bytes:
    """Compute an answer in its job's thread, once no other one is at work; return it as gzipped JSON."""
    try:
        while not _WORK_SLOT.acquire(timeout=MAX_POLL_SECONDS):
            raise_if_stopped("the answer was stopped")
        try:
            raise_if_stopped("the answer was stopped")
            values = answerable.answer()
            body = gzip.compress(json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode(), 5)
        finally:
            _WORK_SLOT.release()
        _BODIES[digest] = body
        return body
    finally:
        with _LOCK:
            # Another job of this name may have begun since this one was left.
            if _JOBS.get(digest) is job:
                del _JOBS[digest]
