"""Processes that tests start: they find the packages of the test's own process, and these modules."""

import os
import subprocess
import sys
from pathlib import Path

import engine
from support.paths import TESTS

PACKAGES = Path(engine.__file__).resolve().parents[1]


def environment(**variables: str) -> dict[str, str]:
    """Return variables for such a process, which imports nothing from the folder that it starts in."""
    search_path = filter(None, (str(PACKAGES), str(TESTS), os.environ.get("PYTHONPATH")))
    return {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(search_path), **variables}


def start_python(*arguments: str, quiet: bool = False, **variables: str) -> subprocess.Popen[str]:
    """Start a Python process on one thread; quiet: discard what it prints."""
    heard = subprocess.DEVNULL if quiet else subprocess.PIPE
    around = environment(OMP_NUM_THREADS="1", **variables)
    return subprocess.Popen([sys.executable, *arguments], env=around, stdout=heard, stderr=heard, text=True)


def is_alive(pid: int) -> bool:
    """Return True if a process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
        status = Path(f"/proc/{pid}/stat")
        return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
