"""Frontier's folders: their paths, their permissions, and warnings when nothing can be stored."""

import atexit
import logging
import os
import shutil
import stat
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

_FOLDER_LOCK = threading.Lock()
_PROCESS_FOLDERS: dict[Path, Path] = {}
"""Home → its temporary replacement until this process ends."""
_STORAGE_PROBLEMS: dict[Path, str | None] = {}
"""Home → the reason why the last write failed, None after a successful one."""


def home() -> Path:
    """Return the cache folder, FRONTIER_HOME or else the user's cache folder, without creating it."""
    if folder := os.environ.get("FRONTIER_HOME"):
        return Path(folder).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("frontier", appauthor=False)


def data_home() -> Path:
    """Return the folder of users' feedback: FRONTIER_HOME, or else the user's data folder."""
    if os.environ.get("FRONTIER_HOME"):
        return home()
    from platformdirs import user_data_path

    return user_data_path("frontier", appauthor=False)


def is_frontier_path(path: Path) -> bool:
    """Return True if a path lies in one of Frontier's folders, whose contents are private to the user."""
    return any(path.absolute().is_relative_to(folder) for folder in (home(), data_home()))


def file_mode(path: Path) -> int:
    """Return the permissions of a new file: in Frontier's folders only the user's, else everyone's.

    The operating system still removes those that the process's umask excludes.
    """
    return 0o600 if is_frontier_path(path) else 0o666


def make_folder(folder: Path) -> None:
    """Create a folder and its parents; those of Frontier are made private to the user, even existing ones.

    Raises OSError.
    """
    # Permissions are set on creation, so that a folder is never open to others, even briefly.
    missing_folders = [folder_path for folder_path in (folder, *folder.parents) if not folder_path.exists()]
    for folder_path in reversed(missing_folders):
        folder_path.mkdir(mode=0o700 if is_frontier_path(folder_path) else 0o777, exist_ok=True)
    if not missing_folders and is_frontier_path(folder) and folder not in (home(), data_home()):
        restrict_access(folder)


def restrict_access(path: Path) -> None:
    """Remove other users' permissions on a file or folder that this user owns; errors are ignored."""
    if os.name == "posix":
        with suppress(OSError):
            file_status = path.stat()
            if file_status.st_uid == os.geteuid() and file_status.st_mode & 0o077:
                path.chmod(stat.S_IMODE(file_status.st_mode) & 0o700)


def is_writable(folder: Path) -> bool:
    """Return True if new files can be written to a folder, which may be read-only or on a full disk."""
    if os.name != "posix":
        return os.access(folder, os.W_OK)
    return os.access(folder, os.W_OK | os.X_OK) and os.statvfs(folder).f_bavail > 0


def process_folder() -> Path:
    """Return a temporary folder that replaces an unwritable home until the process ends."""
    # Several threads may ask for the folder; all must get the same one.
    with _FOLDER_LOCK:
        if home() not in _PROCESS_FOLDERS:
            folder = _PROCESS_FOLDERS[home()] = Path(tempfile.mkdtemp(prefix="frontier-"))
            # No other process shares this folder, so it can be removed at exit.
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return _PROCESS_FOLDERS[home()]


def cache_folders() -> tuple[Path, ...]:
    """Return the home and its temporary replacement in this process, if any."""
    return home(), *filter(None, [_PROCESS_FOLDERS.get(home())])


def note_storage_result(problem: str | None) -> None:
    """Record the result of a write to the cache: the problem or None for success; log the first problem."""
    # Successes matter only after a problem, which they end.
    is_first = problem is not None and home() not in _STORAGE_PROBLEMS
    if problem is not None or home() in _STORAGE_PROBLEMS:
        _STORAGE_PROBLEMS[home()] = problem
    if is_first:
        logging.getLogger("frontier").warning("note: %s", storage_warning())


def storage_warning() -> str | None:
    """Return a sentence, with the reason, if nothing can be stored at present; None if storage works."""
    problem = _STORAGE_PROBLEMS.get(home())
    return problem and (
        f"nothing new is kept in {home()} ({problem}), so it is computed again next time; free some room, or set "
        "FRONTIER_HOME to a folder that you can write to"
    )
