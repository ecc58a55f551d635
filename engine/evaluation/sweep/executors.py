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

from engine.data.endpoints.consent import Allowance, adopt_allowance, find_allowance
from engine.errors import Cancelled, FrontierError
from engine.evaluation.sweep.cell import Cell
from engine.evaluation.sweep.compute import SWEEP_STOPPED, Task, Unit, compute_unit, pack_unit, unpack_unit
from engine.progress import Stop

STOP_POLL_SECONDS = 0.2
"""Seconds between two checks for cancellation."""
MAX_WORKER_DEATHS = 3
"""Give up after so many deaths of workers in a row with nothing finished between; so for a unit on a cluster."""
SCHEDULER_TIMEOUT_SECONDS = 10
"""Time for a scheduler, and the first of its workers, to answer."""
SCHEDULER_PING_SECONDS = 1
"""Time for a scheduler that has answered before."""


def run_serial(task: Task, units: Sequence[Unit], stop: Stop | None) -> Generator[Cell]:
    """Compute the units one by one in this process, and yield their cells.

    A unit is some decoders and k that are computed together; a cell is one decoder's metrics, query by query, at one k.
    task: the data that all units share
    """
    for unit in units:
        yield from compute_unit(task, unit, stop.is_set if stop else lambda: False)


def run_on_processes(task: Task, units: Sequence[Unit], n_workers: int, stop: Stop | None) -> Generator[Cell]:
    """Compute the units in single-threaded processes, and retry those whose worker died.

    A unit is some decoders and k that are computed together; the task holds the data that all units share.

    When a worker dies, every unit in flight is lost. Lost units are retried one at a time at the end; if nothing has
    finished yet, as where there is memory for one worker only, everything is retried with one worker. Raises
    FrontierError after MAX_WORKER_DEATHS deaths in a row.
    """
    waiting_units, n_deaths = deque(units), 0
    lost_units: deque[Unit] = deque()
    while waiting_units or lost_units:
        # Lost units come again, one at a time, as one of them may have killed the worker.
        if not waiting_units or n_deaths:
            waiting_units, lost_units, n_workers = waiting_units + lost_units, deque(), 1
        n_finished, in_flight = yield from _run_pool(task, waiting_units, n_workers, stop)
        lost_units.extend(in_flight)
        n_deaths = 0 if n_finished or not in_flight else n_deaths + 1
        if n_deaths == MAX_WORKER_DEATHS:
            raise FrontierError(
                f"workers keep dying, the last one at {in_flight[0].decoders[0].label}: perhaps for want of memory, or "
                "the script that sweeps lacks its if __name__ == '__main__'"
            )


def _run_pool(
    task: Task, waiting_units: deque[Unit], n_workers: int, stop: Stop | None
) -> Generator[Cell, None, tuple[int, list[Unit]]]:
    """Yield cells from a pool of processes until no unit is left or a worker dies, which breaks it.

    waiting_units: groups of decoders to compute, taken from the left as they are submitted. Returns, as a generator
    does, the number of finished units and the units that were lost with the worker. Raises Cancelled when stopped.
    """
    spawn = multiprocessing.get_context("spawn")
    # Shared without a lock: a killed worker would never release it.
    halt_flag = spawn.RawValue("b", 0)
    n_processes = min(n_workers, len(waiting_units))
    # What may be sent to a server of models is known to this process alone.
    allowance, n_sent = find_allowance(), 0
    part = None if allowance is None else allowance.divide(n_processes)
    worker_setup = (task, halt_flag, os.getpid(), part)
    pool = ProcessPoolExecutor(n_processes, spawn, _init_worker, worker_setup)
    running_units: dict[Future[tuple[list[Cell], int]], Unit] = {}
    n_finished, lost_units, is_pool_alive = 0, [], True
    # A single worker gets one unit, which identifies the unit it died at; several have the next one queued.
    max_running = 2 * n_workers if n_workers > 1 else 1
    try:
        while running_units or (waiting_units and is_pool_alive):
            if stop is not None and stop.is_set():
                raise Cancelled(SWEEP_STOPPED)
            with _defer_interrupts():
                while waiting_units and is_pool_alive and len(running_units) < max_running:
                    try:
                        running_units[pool.submit(_compute_in_worker, pack_unit(waiting_units[0]))] = waiting_units[0]
                        waiting_units.popleft()
                    except BrokenProcessPool:
                        is_pool_alive = False
                done_futures = wait(running_units, STOP_POLL_SECONDS, FIRST_COMPLETED).done
            for future in done_futures:
                unit = running_units.pop(future)
                try:
                    unit_cells, n_unit_tokens = future.result()
                except BrokenProcessPool:
                    lost_units.append(unit)
                    is_pool_alive = False
                    continue
                n_sent += n_unit_tokens
                yield from unit_cells
                n_finished += 1
        # What a worker sent that died is not known, so that all that it was allowed counts.
        if allowance is not None and part is not None and not lost_units:
            allowance.take_back(part, n_processes, n_sent)
    finally:
        halt_flag.value = 1
        # A stopped sweep does not wait for its workers, which see the flag; a finished one does.
        pool.shutdown(wait=not (stop is not None and stop.is_set()), cancel_futures=True)
    return n_finished, lost_units


@contextmanager
def _defer_interrupts() -> Iterator[None]:
    """Delay Ctrl-C to the end of a with-block, as the start of a worker process must not be interrupted."""
    # Only the main thread may set handlers, and only a Python handler can be called later.
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    deferred_calls: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda *signal_call: deferred_calls.append(signal_call))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    for signal_call in deferred_calls:
        handler(*signal_call)


_WORKER_TASK: Any = None
_WORKER_HALT: Any = None


def _init_worker(task: Task, halt_flag: Any, parent_pid: int, allowance: Allowance | None) -> None:
    """Prepare a worker process: store its task, use one thread, and exit when the parent does.

    task: data that all units share, sent once a worker; halt_flag: shared number, not 0 once the sweep is stopped;
    allowance: what it may send to servers of models
    """
    adopt_allowance(allowance)
    global _WORKER_TASK, _WORKER_HALT
    import torch

    torch.set_num_threads(1)
    threadpool_limits(1, user_api="blas")
    # Ctrl-C goes to the parent, which tells its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _WORKER_TASK, _WORKER_HALT = task, halt_flag
    threading.Thread(target=_exit_with_parent, args=(parent_pid,), daemon=True).start()


def _exit_with_parent(parent_pid: int) -> None:
    """Watch the parent process, and end this one once the parent has died."""
    while os.getppid() == parent_pid:
        time.sleep(STOP_POLL_SECONDS)
    os._exit(1)


def _compute_in_worker(packed_unit: Mapping[str, Any]) -> tuple[list[Cell], int]:
    """Compute a packed unit in a worker process, on the task that `_init_worker` stored.

    Returns its cells, and the number of tokens that were sent to servers of models for it.
    """
    allowance = find_allowance()
    n_before = 0 if allowance is None else allowance.n_tokens
    cells = compute_unit(_WORKER_TASK, unpack_unit(packed_unit), lambda: bool(_WORKER_HALT.value))
    return cells, 0 if allowance is None else allowance.n_tokens - n_before


def run_on_cluster(task: Task, units: Sequence[Unit], address: str, stop: Stop | None) -> Generator[Cell]:
    """Compute the units on a Dask cluster, and send them again if the cluster lost the data.

    A unit is some decoders and k that are computed together; the task holds the data that all units share.

    A local space is sent with its vectors. Of a corpus in a vector store only the name is sent; every worker opens it
    by its own stores.toml. When the sweep is stopped, a worker finishes its present unit, and the result is dropped.
    Raises FrontierError after MAX_WORKER_DEATHS losses in a row, and at once if the scheduler is gone.
    """
    try:
        from dask.distributed import Client
    except ImportError:
        raise FrontierError("cluster needs Dask: pip install 'frontier-retrieval[cluster]'") from None
    try:
        _check_scheduler(address, SCHEDULER_TIMEOUT_SECONDS / 2)
        client = Client(address, timeout=SCHEDULER_TIMEOUT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise FrontierError(f"no Dask scheduler answers at {address!r}: {str(error) or 'time is up'}") from None
    lost_error = FrontierError(
        f"the cluster at {address!r} lost the sweep; sweep again: what is finished is kept in the store"
    )
    remaining_units, n_losses = list(units), 0
    with client:
        while remaining_units:
            try:
                client.wait_for_workers(1, timeout=SCHEDULER_TIMEOUT_SECONDS)
            except (TimeoutError, OSError):
                no_workers = FrontierError(f"the Dask scheduler at {address!r} has no workers")
                raise (lost_error if n_losses else no_workers) from None
            if n_losses == MAX_WORKER_DEATHS:
                raise lost_error
            n_before = len(remaining_units)
            remaining_units = yield from _run_scattered(client, address, task, remaining_units, stop)
            # A round that finished some units before its loss starts the count anew.
            n_losses = 1 if len(remaining_units) < n_before else n_losses + 1
            if remaining_units and not _is_reachable(address):
                raise lost_error


def _run_scattered(
    client: Any, address: str, task: Task, units: Sequence[Unit], stop: Stop | None
) -> Generator[Cell, None, list[Unit]]:
    """Send the task once and the units one by one to a Dask cluster; yield cells, return the lost units.

    The task holds the data that all units share; a unit is some decoders and k that are computed together. Lost units
    are those that were not finished when the cluster lost the data; the caller sends them again.

    Dask keeps scattered data on few workers (its memory manager drops copies), cannot rebuild them when those die, and
    then cancels all that needs them.
    """
    from dask.distributed import KilledWorker

    scattered_task = client.scatter(task, broadcast=True, hash=False)
    # The scheduler unpickles the callable: a function of this package would make it import torch.
    futures = {}
    for unit in units:
        unit_call = methodcaller("cells", pack_unit(unit))
        futures[client.submit(unit_call, scattered_task, pure=False, retries=MAX_WORKER_DEATHS)] = unit
    done_queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for future in futures:
        future.add_done_callback(done_queue.put)
    try:
        while futures:
            if stop is not None and stop.is_set():
                raise Cancelled(SWEEP_STOPPED)
            try:
                future = done_queue.get(timeout=STOP_POLL_SECONDS)
                unit_cells = future.result()
            # Nothing finished within the poll interval: look for a stop again.
            except queue.Empty:
                continue
            except KilledWorker as error:
                label = futures[future].decoders[0].label
                raise FrontierError(f"workers keep dying at {label}, perhaps for want of memory: {error}") from None
            # The cluster has lost the task's data: what is not finished is returned, and sent again.
            except CancelledError:
                break
            except OSError:
                if _is_reachable(address):
                    raise  # the unit raised it
                break
            # The cluster stores a result as long as its future exists.
            futures.pop(future)
            future.release()
            yield from unit_cells
        return list(futures.values())
    finally:
        # What remains is cancelled in any case; a cluster that is gone cannot be told.
        with suppress(Exception):
            client.cancel(list(futures), force=True)


def _check_scheduler(address: str, timeout_s: float) -> None:
    """Raise OSError or ValueError if no Dask scheduler answers at the address in time."""
    from distributed.comm.core import connect

    # A bare connection is tried: a Client that fails would delay the end of its process.
    async def greet() -> None:
        await (await connect(address, timeout=timeout_s)).close()

    # In a separate thread, as a notebook's thread has a running event loop already.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, asyncio.wait_for(greet(), 2 * timeout_s)).result()


def _is_reachable(address: str) -> bool:
    """Return True if a scheduler still answers; a client would retry for a while before it fails."""
    try:
        _check_scheduler(address, SCHEDULER_PING_SECONDS)
    except (OSError, ValueError):
        return False
    return True
