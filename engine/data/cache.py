"""The cache on disk: entries named by a digest, written atomically, checked on every read, never unpickled.

An entry is its payload followed by a SHA-256 of its name and the payload: a truncated, damaged or renamed file is a
miss. A file is written under a temporary name and an advisory lock, and renamed, so that `delete` can tell a write in
flight from the remains of a killed run.

What is only kept to spare work is left out where the home cannot be written, and that is said once.
"""

import errno
import hashlib
import io
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np

from engine.errors import DataError, FrontierError
from engine.paths import (
    file_mode,
    home,
    is_frontier_path,
    is_writable,
    make_folder,
    note_storage_result,
    process_folder,
)

_SEAL = hashlib.sha256().digest_size
_TAG = "CACHEDIR.TAG"
# The signature of bford.info/cachedir: backup tools skip such folders, and `clear` touches no others.
_TAG_TEXT = b"Signature: 8a477f597d28d172789f06886806bc55\n# A cache of Frontier: safe to delete at any time.\n"
_SIGN = b"A cache of Frontier"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")
_TRIES = 10
"""Attempts at a write whose folder or temporary another process deletes before it can be locked."""
LEFT = 3600.0
"""Seconds without a change after which the temporary of a writer that is gone is deleted."""
_swept: set[Path] = set()
"""Folders whose remains of killed runs this process has deleted."""


def section(name: str) -> Path:
    """The folder of a section, created and tagged as a cache; for stores that need more than get and put.

    Where nothing can be written to it, a folder that ends with the process, which is said once. Raises FrontierError
    when it holds files of other programs, which `clear` would delete.
    """
    try:
        folder = _tagged(name)
        if not is_writable(folder):
            raise OSError(errno.EROFS, "it is read-only, or its disk is full")
        return folder
    except OSError as error:
        note_storage_result(error.strerror or str(error))
    folder = process_folder() / checked(name)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def place(section_name: str, name: str) -> Path:
    """The path of a file or folder of a section, there or not; raises as `section`.

    One that is there is found also where nothing can be written to the section.
    """
    there = home() / checked(section_name) / name
    return there if there.exists() else section(section_name) / name


def _tagged(name: str) -> Path:
    """The folder of a section, created and tagged. Raises OSError, and FrontierError as `section`."""
    folder = home() / checked(name)
    make_folder(folder)
    if _ours(folder):
        return folder
    foreign = [entry.name for entry in folder.iterdir() if entry.name != _TAG and not _is_temporary(entry)]
    if foreign and not _ours(folder):  # another process may have tagged it in the meantime
        raise FrontierError(
            f"{folder} holds files that Frontier did not write ({foreign[0]!r}, …), so it cannot be used as a cache; "
            "set FRONTIER_HOME to a folder of its own"
        )
    _write(folder / _TAG, _TAG_TEXT)
    return folder


def get(section_name: str, key: str) -> bytes | None:
    """The payload stored under a key; None if absent or damaged."""
    try:
        raw = (home() / checked(section_name) / checked(key)).read_bytes()
    except OSError:
        return None
    payload = memoryview(raw)[:-_SEAL]
    return bytes(payload) if len(raw) >= _SEAL and raw[-_SEAL:] == _seal(section_name, key, payload) else None


def put(section_name: str, key: str, payload: bytes) -> None:
    """Store a payload under a key, where the cache can be written; said once where it cannot."""
    keep(section_name, key, payload + _seal(section_name, key, payload))


def keep(section_name: str, key: str, data: bytes | Callable[[BinaryIO], object]) -> bool:
    """Write a file of a section that spares work, as `write` does; False, and said once, where that cannot be.

    Raises FrontierError when the section holds files of other programs.
    """
    checked(key)
    try:
        _write(_tagged(section_name) / key, data)
    except OSError as error:
        note_storage_result(error.strerror or str(error))
        return False
    note_storage_result(None)
    return True


def get_array(section_name: str, key: str) -> np.ndarray | None:
    """The array stored under a key, writable; None if absent or damaged."""
    payload = get(section_name, key)
    if payload is None:
        return None
    try:
        array: np.ndarray = np.load(io.BytesIO(payload), allow_pickle=False)
        return array
    except (ValueError, EOFError):
        return None


def put_array(section_name: str, key: str, array: np.ndarray) -> None:
    """Store an array of any shape and numeric type under a key, as `put`."""
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    put(section_name, key, stream.getvalue())


def write(path: Path, data: bytes | Callable[[BinaryIO], object]) -> None:
    """Write a file, and its folders, atomically and durably: readers see the old content or the new.

    data: the content, or a function that writes it to an open binary file. Of several writers the last one wins.
    Raises FrontierError that names the path and the fix.
    """
    with explained(path):
        _write(path, data)


def clear(section: str | None = None) -> int:
    """Delete one section or all of them, remains of killed runs included; returns the bytes freed.

    Folders without Frontier's tag, tags and temporaries that `delete` leaves alone stay. Raises FrontierError.
    """
    freed = 0
    for folder in (folder for folder in sections() if section in (None, folder.name)):
        freed += sum(map(delete, list(files_of(folder))))
        for inner, _, _ in os.walk(folder, topdown=False):
            if Path(inner) != folder:
                with suppress(OSError):  # another process has just written into it
                    os.rmdir(inner)
    return freed


def delete(path: Path) -> int:
    """Delete a file; the bytes freed. Raises FrontierError.

    A temporary stays while it is written, and for an hour after its last change: not every file system has locks.
    """
    with explained(path):
        try:
            stat = path.lstat()
            # A date ahead is of a clock that was set back since.
            if _is_temporary(path) and (abs(time.time() - stat.st_mtime) < LEFT or _in_flight(path)):
                return 0
        except FileNotFoundError:
            return 0  # gone since it was listed
        path.unlink(missing_ok=True)
    return stat.st_size


def _write(path: Path, data: bytes | Callable[[BinaryIO], object]) -> None:
    """Write a file as `write` does. Raises OSError."""
    for _ in range(_TRIES - 1):
        with suppress(FileNotFoundError):  # another process cleared the cache between two of our steps
            return _write_once(path, data)
    _write_once(path, data)


def _sweep(folder: Path) -> None:
    """Delete, once a process, what killed writers left in a folder of Frontier's own."""
    if folder in _swept or not is_frontier_path(folder):
        return
    _swept.add(folder)
    for entry in [entry for entry in folder.iterdir() if _TEMPORARY.fullmatch(entry.name)]:
        with suppress(FrontierError):
            delete(entry)


def _write_once(path: Path, data: bytes | Callable[[BinaryIO], object]) -> None:
    make_folder(path.parent)
    _sweep(path.parent)
    mode = file_mode(path)
    # In the same folder, as only a rename within one file system is atomic.
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            # Locked while it is written; a process that dies lets go of it.
            from filelock import lock_descriptor

            with suppress(OSError):  # a file system without locks
                lock_descriptor(file.fileno(), blocking=False)
            if callable(data):
                data(file)
            else:
                file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if os.name == "posix":
                os.replace(temporary, path)  # still locked
        if os.name != "posix":
            os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":
        # The rename itself lives in the folder, which has to reach the disk too.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _in_flight(path: Path) -> bool:
    """Return True if a live process holds the temporary."""
    from filelock import lock_descriptor

    try:
        with open(path, "rb") as file:
            return not lock_descriptor(file.fileno(), blocking=False)
    except OSError:
        return False  # gone since it was listed, or a file system without locks


def _is_temporary(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(".tmp")


def checked(name: str) -> str:
    """The name of a section or an entry; a FrontierError where it could lead out of the cache."""
    if not _NAME.fullmatch(name):
        raise FrontierError(f"a cache section or key is lower-case letters, digits, '.', '_' and '-'; got {name!r}")
    return name


def _seal(section_name: str, key: str, payload: bytes | memoryview) -> bytes:
    h = hashlib.sha256(f"{section_name}/{key}\n".encode())
    h.update(payload)
    return h.digest()


def sections() -> list[Path]:
    """The folders of all existing sections."""
    try:
        # What a link leads to lies outside, and other programs tag their caches too.
        return sorted(folder for folder in home().iterdir() if not folder.is_symlink() and _ours(folder))
    except OSError:
        return []


def _ours(folder: Path) -> bool:
    """Whether Frontier tagged the folder."""
    try:
        return _SIGN in (folder / _TAG).read_bytes()
    except OSError:
        return False


def files_of(folder: Path) -> Iterator[Path]:
    """Every file of a section except its tag."""
    for inner, _, names in os.walk(folder):
        yield from (Path(inner) / name for name in names if name != _TAG)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """An OSError inside becomes a FrontierError that names the path and the fix."""
    try:
        yield
    except OSError as error:
        fix = "set FRONTIER_HOME to" if path.is_relative_to(home()) else "choose"
        raise FrontierError(
            f"cannot write {path}: {error.strerror or error}; free some room, or {fix} a folder that you can write to"
        ) from error


def check_new(folder: Path, name: str) -> None:
    """Raise a DataError that names an argument where its folder is neither new nor empty."""
    with explained(folder):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise DataError(f"{name} must be a new or an empty folder; there is something in {folder}")
