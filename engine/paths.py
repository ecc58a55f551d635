"""Folders of Frontier: where they are, made for their user alone, and what is said where nothing can be kept there."""

import atexit
import logging
import os
import shutil
import stat
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

_LOCK = threading.Lock()
_PASSING: dict[Path, Path] = {}
"""Home → the folder that stands for it until this process ends."""
_PROBLEMS: dict[Path, str | None] = {}
"""Home → why the last thing could not be kept there, None since one could."""


def home() -> Path:
    """The cache's folder: FRONTIER_HOME, else the user's cache folder. Nothing is created."""
    if folder := os.environ.get("FRONTIER_HOME"):
        return Path(folder).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("frontier", appauthor=False)


def data_home() -> Path:
    """The folder of what people gave, their feedback: FRONTIER_HOME, else the user's data folder."""
    if os.environ.get("FRONTIER_HOME"):
        return home()
    from platformdirs import user_data_path

    return user_data_path("frontier", appauthor=False)


def is_own(path: Path) -> bool:
    """Whether a path lies in a folder of Frontier's own: what is there is nobody's but the user's."""
    return any(path.absolute().is_relative_to(folder) for folder in (home(), data_home()))


def file_mode(path: Path) -> int:
    """The permissions of a new file, which the umask narrows."""
    return 0o600 if is_own(path) else 0o666


def make_folder(folder: Path) -> None:
    """Make a folder and those above it; Frontier's own are the user's alone, also one that is there. Raises OSError."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700 if is_own(each) else 0o777, exist_ok=True)
    if not missing and is_own(folder) and folder not in (home(), data_home()):
        narrow(folder)


def narrow(path: Path) -> None:
    """Take from others what they may do with a file or folder of the user's, where the file system knows of that."""
    if os.name == "posix":
        with suppress(OSError):
            now = path.stat()
            if now.st_uid == os.geteuid() and now.st_mode & 0o077:
                path.chmod(stat.S_IMODE(now.st_mode) & 0o700)


def takes_files(folder: Path) -> bool:
    """Whether new files can be written to a folder: it may be read-only, or its disk full."""
    if os.name != "posix":
        return os.access(folder, os.W_OK)
    return os.access(folder, os.W_OK | os.X_OK) and os.statvfs(folder).f_bavail > 0


def process_folder() -> Path:
    """A folder for what a process needs on a disk while its home cannot be written; it ends with the process."""
    with _LOCK:
        if home() not in _PASSING:
            folder = _PASSING[home()] = Path(tempfile.mkdtemp(prefix="frontier-"))
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return _PASSING[home()]


def caches() -> tuple[Path, ...]:
    """The home and, where there is one, the folder that stands for it in this process."""
    return home(), *filter(None, [_PASSING.get(home())])


def keeping(problem: str | None) -> None:
    """Note why something was not kept, or None that it was; the first reason is logged, which is a line on stderr."""
    first = problem is not None and home() not in _PROBLEMS
    if problem is not None or home() in _PROBLEMS:
        _PROBLEMS[home()] = problem
    if first:
        logging.getLogger("frontier").warning("note: %s", unkept())


def unkept() -> str | None:
    """A sentence that nothing is kept at present, and why; None where all is well."""
    problem = _PROBLEMS.get(home())
    return problem and (
        f"nothing new is kept in {home()} ({problem}), so it is computed again next time; free some room, or set "
        "FRONTIER_HOME to a folder that you can write to"
    )
