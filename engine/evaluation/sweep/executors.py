"""Executors of a sweep's units: in this process, in processes of this machine, or on a Dask cluster.

Each yields cells as they are finished and raises Cancelled when stopped. The units in flight on a worker that dies are
computed again by another one.
"""

import asyncio
import multiprocessing
import os
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from operator import methodcaller
from types import FrameType
from typing import Any

from threadpoolctl import threadpool_limits

from engine.errors import Cancelled, FrontierError
from engine.evaluation.sweep.cell import Cell
from engine.evaluation.sweep.compute import STOPPED, Task, Unit, compute_unit, packed, unpacked
from engine.progress import Stop

LOOK = 0.2
"""Seconds between two looks at whether to stop."""
ATTEMPTS = 3
"""Workers that die so often in a row, with nothing finished between, are given up; so is a unit on a cluster."""
ANSWER = 10
"""Seconds that a scheduler, and the first of its workers, has to answer."""
AGAIN = 1
"""Seconds that a scheduler has which has answered before."""


def run_serial(task: Task, units: Sequence[Unit], stop: Stop | None) -> Generator[Cell]:
    """One unit after the other in this process."""
    for unit in units:
        yield from compute_unit(task, unit, stop.is_set if stop else lambda: False)


def on_processes(task: Task, units: Sequence[Unit], workers: int, stop: Stop | None) -> Generator[Cell]:
    """In `workers` processes of one thread each.

    When a worker dies, every unit in flight is lost. Lost units are retried one at a time at the end; if nothing has
    finished yet, as where there is memory for one worker only, everything is retried with one worker. Raises
    FrontierError after ATTEMPTS deaths in a row.
    """
    waiting, deaths = deque(units), 0
    lost: deque[Unit] = deque()
    while waiting or lost:
        if not waiting or deaths:
            waiting, lost, workers = waiting + lost, deque(), 1
        finished, in_flight = yield from _pooled(task, waiting, workers, stop)
        lost.extend(in_flight)
        deaths = 0 if finished or not in_flight else deaths + 1
        if deaths == ATTEMPTS:
            raise FrontierError(
                f"workers keep dying, the last one at {in_flight[0].decoders[0].label}: perhaps for want of memory, or "
                "the script that sweeps lacks its if __name__ == '__main__'"
            )


def _pooled(
    task: Task, waiting: deque[Unit], workers: int, stop: Stop | None
) -> Generator[Cell, None, tuple[int, list[Unit]]]:
    """The points of the units, until all are taken from `waiting` or a worker dies and the others with it.

    Returns how many units were finished, and those that were lost.
    """
    context = multiprocessing.get_context("spawn")
    # Shared without a lock, which a worker that is killed could take with it.
    halt = context.RawValue("b", 0)
    pool = ProcessPoolExecutor(min(workers, len(waiting)), context, _ready, (task, halt, os.getpid()))
    running: dict[Future[list[Cell]], Unit] = {}
    finished, lost, whole = 0, [], True
    try:
        while running or (waiting and whole):
            if stop is not None and stop.is_set():
                raise Cancelled(STOPPED)
            with _interrupts_held():
                # One worker gets one unit, so that it is known what it died at; several find the next one waiting.
                while waiting and whole and len(running) < (2 * workers if workers > 1 else 1):
                    try:
                        running[pool.submit(_compute, packed(waiting[0]))] = waiting[0]
                        waiting.popleft()
                    except BrokenProcessPool:
                        whole = False
                done = wait(running, LOOK, FIRST_COMPLETED).done
            for future in done:
                unit = running.pop(future)
                try:
                    points = future.result()
                except BrokenProcessPool:
                    lost.append(unit)
                    whole = False
                    continue
                yield from points
                finished += 1
    finally:
        halt.value = 1
        pool.shutdown(wait=not (stop is not None and stop.is_set()), cancel_futures=True)
    return finished, lost


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let Ctrl-C take effect at the end: inside, a worker that is half started would hold it up."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    held: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda *call: held.append(call))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    for call in held:
        handler(*call)


_TASK: Any = None
_HALT: Any = None


def _ready(task: Task, halt: Any, parent: int) -> None:
    """Make a worker ready: it keeps the data, computes with one thread, and ends with its parent."""
    global _TASK, _HALT
    import torch

    torch.set_num_threads(1)
    threadpool_limits(1, user_api="blas")
    # Ctrl-C goes to the parent, which tells its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _TASK, _HALT = task, halt
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK)
    os._exit(1)


def _compute(unit: Mapping[str, Any]) -> list[Cell]:
    return compute_unit(_TASK, unpacked(unit), lambda: bool(_HALT.value))


def on_cluster(task: Task, units: Sequence[Unit], address: str, stop: Stop | None) -> Generator[Cell]:
    """On the workers of a Dask scheduler, which tries a unit again where its worker was lost.

    A space travels with its vectors, a corpus elsewhere as its name, which every worker opens by its own stores.toml.
    Where the data were lost with a worker, the units that are left are sent again. What a worker is at when the sweep
    is stopped it finishes, for nothing. Raises FrontierError after ATTEMPTS losses in a row, and at once where the
    scheduler is gone.
    """
    try:
        from dask.distributed import Client
    except ImportError:
        raise FrontierError("cluster needs Dask: pip install 'frontier-retrieval[cluster]'") from None
    try:
        _reach(address, ANSWER / 2)
        client = Client(address, timeout=ANSWER, set_as_default=False)
    except (OSError, ValueError) as error:
        raise FrontierError(f"no Dask scheduler answers at {address!r}: {str(error) or 'time is up'}") from None
    lost = FrontierError(
        f"the cluster at {address!r} lost the sweep; sweep again: what is finished is kept in the store"
    )
    left, losses = list(units), 0
    with client:
        while left:
            try:
                client.wait_for_workers(1, timeout=ANSWER)
            except (TimeoutError, OSError):
                raise (lost if losses else FrontierError(f"the Dask scheduler at {address!r} has no workers")) from None
            if losses == ATTEMPTS:
                raise lost
            before = len(left)
            left = yield from _scattered(client, address, task, left, stop)
            losses = losses + 1 if len(left) == before else 1
            if left and not _answers(address):
                raise lost


def _scattered(
    client: Any, address: str, task: Task, units: Sequence[Unit], stop: Stop | None
) -> Generator[Cell, None, list[Unit]]:
    """The cells of the units on the workers of a Dask client at an address.

    Returns the units that are left where the cluster lost the data: Dask keeps scattered data on few workers (its
    memory manager drops copies), cannot make them again when those die, and then cancels all that needs them.
    """
    from dask.distributed import KilledWorker

    data = client.scatter(task, broadcast=True, hash=False)
    # The scheduler reads what is called: a function of this package would have it import torch.
    calls = ((methodcaller("cells", packed(unit)), unit) for unit in units)
    futures = {client.submit(call, data, pure=False, retries=ATTEMPTS): unit for call, unit in calls}
    done: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for future in futures:
        future.add_done_callback(done.put)
    try:
        while futures:
            if stop is not None and stop.is_set():
                raise Cancelled(STOPPED)
            try:
                future = done.get(timeout=LOOK)
                points = future.result()
            except queue.Empty:
                continue
            except KilledWorker as error:
                label = futures[future].decoders[0].label
                raise FrontierError(f"workers keep dying at {label}, perhaps for want of memory: {error}") from None
            except CancelledError:
                break
            except OSError:
                if _answers(address):
                    raise  # it is the unit's own
                break
            # The cluster keeps what a future holds.
            futures.pop(future)
            future.release()
            yield from points
        return list(futures.values())
    finally:
        with suppress(Exception):
            client.cancel(list(futures), force=True)


def _reach(address: str, seconds: float) -> None:
    """Raise OSError or ValueError where no Dask answers: a Client that fails holds up the end of its process."""
    from distributed.comm.core import connect

    async def greet() -> None:
        await (await connect(address, timeout=seconds)).close()

    # In a thread of its own, as a notebook's has a loop already.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, asyncio.wait_for(greet(), 2 * seconds)).result()


def _answers(address: str) -> bool:
    """Whether a scheduler is still there: a client would try for a while to find it again."""
    try:
        _reach(address, AGAIN)
    except (OSError, ValueError):
        return False
    return True
