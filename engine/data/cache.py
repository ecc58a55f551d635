"""Cache on disk: entries named by digests, written atomically, checked when read, never unpickled.

An entry is its payload followed by a SHA-256 of its name and the payload: a truncated, damaged or renamed file is a
miss. A file is written under a temporary name and an advisory lock, and renamed, so that `delete` can distinguish a
write in progress from the remains of a killed run.

Entries that only save time are skipped, with one warning, if the home folder cannot be written.
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

from engine import paths
from engine.errors import DataError, FrontierError
from engine.paths import home, make_folder, note_storage_result

_SEAL_BYTES = hashlib.sha256().digest_size
_TAG_NAME = "CACHEDIR.TAG"
# The signature of bford.info/cachedir: backup tools skip such folders, and `clear` touches no others.
_TAG_TEXT = b"Signature: 8a477f597d28d172789f06886806bc55\n# A cache of Frontier: safe to delete at any time.\n"
_TAG_SIGNATURE = b"A cache of Frontier"
_NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9._-]*")
_TEMPORARY_PATTERN = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")
_MAX_WRITE_ATTEMPTS = 10
"""Attempts at a write whose folder or temporary file another process deletes before it can be locked."""
TEMPORARY_LIFETIME_SECONDS = 3600.0
"""An unlocked temporary file is deleted once it has not changed for this long."""
_swept_folders: set[Path] = set()
"""Folders in which this process has already deleted the remains of killed runs."""


def open_section(section_name: str) -> Path:
    """Return the folder of a section, created and tagged as a cache.

    For stores that need more than `get` and `put`. If the cache is not writable it is a temporary folder of this
    process, with one warning. Raises FrontierError if the folder holds files of other programs, which `clear` would
    delete.
    """
    try:
        folder = _tag_section(section_name)
        if not paths.is_writable(folder):
            raise OSError(errno.EROFS, "it is read-only, or its disk is full")
        return folder
    except OSError as error:
        note_storage_result(error.strerror or str(error))
    folder = paths.process_folder() / check_name(section_name)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def entry_path(section_name: str, entry_name: str) -> Path:
    """Return the path of an entry of the cache, whether or not it exists.

    An existing entry is returned even if its section cannot be written. Raises the errors of `open_section`.
    """
    existing_path = home() / check_name(section_name) / entry_name
    return existing_path if existing_path.exists() else open_section(section_name) / entry_name


def _tag_section(section_name: str) -> Path:
    """Return the folder of a section, created and tagged as a cache.

    Raises OSError, and FrontierError for a folder with files of other programs, which `clear` would delete.
    """
    folder = home() / check_name(section_name)
    make_folder(folder)
    if _is_tagged(folder):
        return folder
    foreign_names = [path.name for path in folder.iterdir() if path.name != _TAG_NAME and not _is_temporary(path)]
    # Another process may have tagged the folder in the meantime.
    if foreign_names and not _is_tagged(folder):
        raise FrontierError(
            f"{folder} holds files that Frontier did not write ({foreign_names[0]!r}, …), so it cannot be used as a "
            "cache; set FRONTIER_HOME to a folder of its own"
        )
    _write_with_retries(folder / _TAG_NAME, _TAG_TEXT)
    return folder


def get(section_name: str, entry_key: str) -> bytes | None:
    """Return the payload stored under a key; None if absent or damaged."""
    try:
        raw_entry = (home() / check_name(section_name) / check_name(entry_key)).read_bytes()
    except OSError:
        return None
    entry_payload = memoryview(raw_entry)[:-_SEAL_BYTES]
    # An entry that is shorter than a seal equals none, so that its length needs no check.
    is_intact = raw_entry[-_SEAL_BYTES:] == _compute_seal(section_name, entry_key, entry_payload)
    return bytes(entry_payload) if is_intact else None


def put(section_name: str, entry_key: str, entry_payload: bytes) -> None:
    """Store a payload under a key; warn once if the cache cannot be written."""
    try_write(section_name, entry_key, entry_payload + _compute_seal(section_name, entry_key, entry_payload))


def try_write(section_name: str, entry_key: str, file_content: bytes | Callable[[BinaryIO], object]) -> bool:
    """Write an entry that only saves time; return False, with one warning, if it cannot be written.

    Raises FrontierError if the section holds files of other programs.
    """
    check_name(entry_key)
    try:
        _write_with_retries(_tag_section(section_name) / entry_key, file_content)
    except OSError as error:
        note_storage_result(error.strerror or str(error))
        return False
    note_storage_result(None)
    return True


def get_array(section_name: str, entry_key: str) -> np.ndarray | None:
    """Return the array stored under a key, writable; None if absent or damaged."""
    entry_payload = get(section_name, entry_key)
    if entry_payload is None:
        return None
    try:
        stored_array: np.ndarray = np.load(io.BytesIO(entry_payload), allow_pickle=False)
        return stored_array
    except (ValueError, EOFError):
        return None


def put_array(section_name: str, entry_key: str, stored_array: np.ndarray) -> None:
    """Store an array of any shape and numeric type under a key; warn once if the cache cannot be written."""
    stream = io.BytesIO()
    np.save(stream, stored_array, allow_pickle=False)
    put(section_name, entry_key, stream.getvalue())


def write(path: Path, file_content: bytes | Callable[[BinaryIO], object]) -> None:
    """Write a file and its folders atomically and durably: readers see the old content or the new.

    file_content: bytes, or a function that writes them to an open binary file. Of several writers the last one wins.
    Raises FrontierError that names the path and the fix.
    """
    with translate_write_errors(path):
        _write_with_retries(path, file_content)


def clear(section_name: str | None = None) -> int:
    """Delete one section or all of them, with the remains of killed runs; return the bytes freed.

    Only folders with Frontier's tag, a file, are sections. The tags stay, and so do temporary files that another
    process may still be writing. Raises FrontierError.
    """
    freed_bytes = 0
    for folder in (folder for folder in list_sections() if section_name in (None, folder.name)):
        freed_bytes += sum(map(delete, list(list_files(folder))))
        # The files are gone, so that folders inside the section are empty now; the innermost go first.
        for inner_folder, _folders, _files in os.walk(folder, topdown=False):
            if Path(inner_folder) != folder:
                with suppress(OSError):  # another process has just written into it
                    os.rmdir(inner_folder)
    return freed_bytes


def delete(path: Path) -> int:
    """Delete a file and return the bytes freed. Raises FrontierError.

    A temporary file stays while it is being written, and for an hour after its last change, because not every file
    system has locks.
    """
    with translate_write_errors(path):
        try:
            file_stat = path.lstat()
            # Times in the future come from a clock that was set back since.
            if _is_temporary(path) and (
                abs(time.time() - file_stat.st_mtime) < TEMPORARY_LIFETIME_SECONDS or _in_flight(path)
            ):
                return 0
        except FileNotFoundError:
            return 0  # gone since it was listed
        path.unlink(missing_ok=True)
    return file_stat.st_size


def _write_with_retries(path: Path, file_content: bytes | Callable[[BinaryIO], object]) -> None:
    """Write a file; try again if another process has deleted its folder meanwhile. Raises OSError."""
    for _ in range(_MAX_WRITE_ATTEMPTS - 1):
        with suppress(FileNotFoundError):  # another process cleared the cache between two of our steps
            return _write_once(path, file_content)
    _write_once(path, file_content)


def _delete_remains(folder: Path) -> None:
    """Delete temporary files that killed processes left in Frontier's own folder; once per process."""
    if folder in _swept_folders or not paths.is_frontier_path(folder):
        return
    _swept_folders.add(folder)
    for path in list(folder.iterdir()):
        if _TEMPORARY_PATTERN.fullmatch(path.name):
            with suppress(FrontierError):
                delete(path)


def _write_once(path: Path, file_content: bytes | Callable[[BinaryIO], object]) -> None:
    """Write a file by way of a temporary one, which is renamed to `path`, both durably. Raises OSError.

    file_content: bytes, or a function that writes them to an open binary file.
    """
    make_folder(path.parent)
    _delete_remains(path.parent)
    permission_bits = paths.file_mode(path)
    # The temporary file is in the same folder, because only a rename within one file system is atomic.
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, permission_bits)) as file:
            # The lock marks a write in progress; the system releases it when the process dies.
            from filelock import lock_descriptor

            with suppress(OSError):  # a file system without locks
                lock_descriptor(file.fileno(), blocking=False)
            if callable(file_content):
                file_content(file)
            else:
                file.write(file_content)
            file.flush()
            os.fsync(file.fileno())
            if os.name == "posix":
                os.replace(temporary, path)  # still locked
        # Windows cannot rename a file that is open.
        if os.name != "posix":
            os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":
        # The rename is an entry of the folder, which must reach the disk too.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _in_flight(path: Path) -> bool:
    """Return True if a live process is still writing a temporary file, by its lock."""
    from filelock import lock_descriptor

    try:
        with open(path, "rb") as file:
            return not lock_descriptor(file.fileno(), blocking=False)
    except OSError:
        return False  # gone since it was listed, or a file system without locks


def _is_temporary(path: Path) -> bool:
    """Return True for the name of a file that is being written, or that a killed run has left."""
    return path.name.startswith(".") and path.name.endswith(".tmp")


def check_name(entry_name: str) -> str:
    """Return the name of a section or an entry of the cache if it is valid.

    Raises FrontierError if the name could lead out of the cache.
    """
    if not _NAME_PATTERN.fullmatch(entry_name):
        raise FrontierError(
            f"a cache section or key is lower-case letters, digits, '.', '_' and '-'; got {entry_name!r}"
        )
    return entry_name


def _compute_seal(section_name: str, entry_key: str, entry_payload: bytes | memoryview) -> bytes:
    """Return a digest of name and payload, which shows damage and a renamed entry."""
    seal_hash = hashlib.sha256(f"{section_name}/{entry_key}\n".encode())
    seal_hash.update(entry_payload)
    return seal_hash.digest()


def list_sections() -> list[Path]:
    """List the folders of all sections of the cache that exist; a section holds entries of one kind."""
    try:
        # Links lead outside the cache, and other programs tag their caches too.
        return sorted(folder for folder in home().iterdir() if not folder.is_symlink() and _is_tagged(folder))
    except OSError:
        return []


def _is_tagged(folder: Path) -> bool:
    """Return True if Frontier has tagged a folder as a cache, so that its files may be deleted."""
    try:
        return _TAG_SIGNATURE in (folder / _TAG_NAME).read_bytes()
    except OSError:
        return False


def list_files(folder: Path) -> Iterator[Path]:
    """Yield every file of a section, a folder of the cache, except the tag that marks it as Frontier's."""
    for inner_folder, _folders, file_names in os.walk(folder):
        yield from (Path(inner_folder) / file_name for file_name in file_names if file_name != _TAG_NAME)


@contextmanager
def translate_write_errors(path: Path) -> Iterator[None]:
    """Translate an OSError in the block into a FrontierError that names the path and the fix."""
    try:
        yield
    except OSError as error:
        suggested_fix = "set FRONTIER_HOME to" if path.is_relative_to(home()) else "choose"
        raise FrontierError(
            f"cannot write {path}: {error.strerror or error}; free some room, or {suggested_fix} a folder that "
            "you can write to"
        ) from error


def check_new(folder: Path, argument_name: str) -> None:
    """Raise a DataError that names an argument if its folder is neither new nor empty."""
    with translate_write_errors(folder):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise DataError(f"{argument_name} must be a new or an empty folder; there is something in {folder}")
