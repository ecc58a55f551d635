"""A Dask cluster on the loopback whose scheduler and workers a test may kill."""

import importlib
import importlib.util
import json

import pytest

from support.fork_server import fork_python
from support.patience import patient, until
from support.processes import start_python
from support.sweeps import end_process

dask = pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="dask.distributed is not installed")


class Cluster:
    """A Dask scheduler on the loopback and its workers, each a process that a test may kill.

    The workers know the patient selector, which dies at 33; the scheduler forgives a unit one death, and drops no copy
    of the data.
    """

    def __init__(self, folder):
        folder.mkdir(exist_ok=True)
        self.folder, self.trail, self.workers = folder, folder / "trail", []
        where = folder / "scheduler.json"
        self.scheduler = start_python(
            "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
            "--dashboard-address", "127.0.0.1:0", "--scheduler-file", str(where),
            quiet=True, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="1",
            DASK_DISTRIBUTED__SCHEDULER__ACTIVE_MEMORY_MANAGER__START="False",
        )  # fmt: skip
        until(lambda: (where.exists() and where.read_text().endswith("}")) or self.scheduler.poll() is not None)
        self.address = json.loads(where.read_text())["address"]

    def scale_to(self, count):
        """Start or end workers until `count` run."""
        running = [w for w in self.workers if w.poll() is None]
        self.workers = running[:count]
        for worker in running[count:]:
            end_process(worker)
        while len(self.workers) < count:
            preload_code = "import support.sweeps as kit\nif 'patient' not in kit.stages._SPECS: kit.register_patient()"
            worker = fork_python(
                "-m", "distributed.cli.dask_worker", self.address, "--host", "127.0.0.1", "--no-nanny",
                "--no-dashboard", "--nthreads", "1", "--local-directory", str(self.folder), "--preload", preload_code,
                quiet=True, TRAIL=str(self.trail), PACE="0.2", FATAL="33",
            )  # fmt: skip
            self.workers.append(worker)
        with import_distributed().Client(self.address, timeout=patient(30), set_as_default=False) as client:
            client.wait_for_workers(count, timeout=patient(60))
            until(lambda: len(client.scheduler_info()["workers"]) == count)
        self.trail.unlink(missing_ok=True)
        return self

    def kill(self, pid):
        """Kill one of our workers."""
        (worker,) = [w for w in self.workers if w.pid == pid]
        worker.kill()
        worker.wait(patient(30))

    def end(self):
        for process in (*self.workers, self.scheduler):
            end_process(process)


def import_distributed():
    return importlib.import_module("distributed")
