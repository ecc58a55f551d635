"""Where the units of a sweep are computed: here, in processes of this machine, or on a Dask cluster.

Each yields points as they are finished and raises Cancelled when stopped. A worker that dies costs the unit it was at,
which another one computes again.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any

from engine.errors import Cancelled, FrontierError
from engine.evaluation.points import Point
from engine.evaluation.sweep import Task, Unit, computed, packed, unpacked
from engine.progress import Stop
from engine.solvers.threads import limit_blas

LOOK = 0.2
"""Seconds between two looks at whether to stop."""
ATTEMPTS = 3
"""A unit that takes its worker down so often is given up."""
STOPPED = "the sweep was stopped; what is finished is kept where there is a store"


def here(task: Task, units: Sequence[Unit], stop: Stop | None) -> Iterator[Point]:
    """One unit after the other in this process."""
    for unit in units:
        yield from computed(task, unit, stop.is_set if stop else lambda: False)


def on_processes(task: Task, units: Sequence[Unit], workers: int, stop: Stop | None) -> Iterator[Point]:
    """In `workers` processes of one thread each; a pool that breaks is made anew with what is left."""
    open_ = deque((unit, 1) for unit in units)
    context = multiprocessing.get_context("spawn")
    while open_:
        halt = context.Event()
        pool = ProcessPoolExecutor(min(workers, len(open_)), context, _ready, (task, halt, os.getpid()))
        running: dict[Future, tuple[Unit, int]] = {}
        try:
            broken = False
            while (open_ or running) and not broken:
                while open_ and len(running) < 2 * workers:
                    unit, attempt = open_.popleft()
                    running[pool.submit(_compute, packed(unit))] = (unit, attempt)
                if stop is not None and stop.is_set():
                    raise Cancelled(STOPPED)
                for future in wait(running, LOOK, FIRST_COMPLETED).done:
                    unit, attempt = running.pop(future)
                    try:
                        points = future.result()
                    except BrokenProcessPool:
                        broken = True
                        open_.append((unit, attempt))
                        continue
                    yield from points
            # Whose worker died cannot be told from who only waited beside it.
            open_.extend((unit, attempt) for unit, attempt in running.values())
            if broken:
                open_ = deque((unit, attempt + 1) for unit, attempt in open_)
                if any(attempt > ATTEMPTS * len(units) for _, attempt in open_):
                    raise FrontierError("workers keep dying, perhaps for want of memory; try fewer workers")
        finally:
            halt.set()
            pool.shutdown(wait=not (stop is not None and stop.is_set()), cancel_futures=True)


_TASK: Task | None = None
_HALT: Any = None


def _ready(task: Task, halt: Any, parent: int) -> None:
    """Make a worker ready: it keeps the data, computes with one thread, and ends with its parent."""
    global _TASK, _HALT
    import torch

    torch.set_num_threads(1)
    limit_blas(1)
    # Ctrl-C goes to the parent, which tells its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _TASK, _HALT = task, halt
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK)
    os._exit(1)


def _compute(unit: Mapping[str, Any]) -> list[Point]:
    assert _TASK is not None
    return computed(_TASK, unpacked(unit), _HALT.is_set)


def on_cluster(task: Task, units: Sequence[Unit], address: str, stop: Stop | None) -> Iterator[Point]:
    """On the workers of a Dask scheduler, which tries a unit again where its worker was lost."""
    try:
        from dask.distributed import Client, as_completed
    except ImportError:
        raise FrontierError("cluster needs Dask: pip install 'frontier-retrieval[cluster]'") from None
    try:
        client = Client(address, timeout=10, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise FrontierError(f"no Dask scheduler answers at {address!r}: {error}") from None
    with client:
        data = client.scatter(task, broadcast=True, hash=False)
        futures = [client.submit(_remote, data, packed(unit), pure=False, retries=ATTEMPTS) for unit in units]
        finished = as_completed(futures)
        watcher = threading.Event()
        if stop is not None:
            threading.Thread(target=_cancel, args=(client, futures, stop, watcher), daemon=True).start()
        try:
            for future in finished:
                if stop is not None and stop.is_set():
                    raise Cancelled(STOPPED)
                yield from future.result()
        finally:
            watcher.set()
            with suppress(Exception):
                client.cancel(futures, force=True)


def _cancel(client: Any, futures: list[Any], stop: Stop, done: threading.Event) -> None:
    while not done.wait(LOOK):
        if stop.is_set():
            client.cancel(futures, force=True)
            return


def _remote(task: Task, unit: Mapping[str, Any]) -> list[Point]:
    return computed(task, unpacked(unit), lambda: False)
