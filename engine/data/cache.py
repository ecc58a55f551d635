"""The cache on disk: entries named by a digest, written whole or not at all, checked on every read.

An entry is its payload followed by a SHA-256 of its own name and the payload. A truncated, damaged or renamed file
is therefore a miss and never a wrong answer. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from engine.errors import FrontierError
from engine.home import home

_SEAL = hashlib.sha256().digest_size
_TAG = "CACHEDIR.TAG"
# The signature of bford.info/cachedir: backup tools skip such folders, and `clear` touches no others.
_TAG_TEXT = b"Signature: 8a477f597d28d172789f06886806bc55\n# A cache of Frontier: safe to delete at any time.\n"
_SIGN = b"A cache of Frontier"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


@dataclass(frozen=True)
class Section:
    """What a part of the cache takes: files, and their bytes."""

    files: int
    bytes: int


@dataclass(frozen=True)
class Usage:
    """What the whole cache takes: files and bytes, and the same by section."""

    files: int
    bytes: int
    sections: Mapping[str, Section]


def section(name: str) -> Path:
    """The folder of a section, created and tagged as a cache; for stores that need more than get and put.

    name: lower-case letters, digits, `.`, `_`, `-`. Raises FrontierError where the folder cannot be made, and where
    a folder of that name holds files that are not Frontier's, which `clear` would delete.
    """
    folder = _folder(name)
    if _ours(folder):
        return folder
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        foreign = [entry.name for entry in folder.iterdir() if entry.name != _TAG and not _is_temporary(entry)]
    if foreign and not _ours(folder):  # another process may have tagged it in the meantime
        raise FrontierError(
            f"{folder} holds files that Frontier did not write ({foreign[0]!r}, …), so it cannot be used as a cache; "
            "set FRONTIER_HOME to a folder of its own"
        )
    write(folder / _TAG, _TAG_TEXT)
    return folder


def get(section_name: str, key: str) -> bytes | None:
    """The payload stored under a key; None where there is none, or where it is damaged."""
    try:
        raw = (_folder(section_name) / checked(key)).read_bytes()
    except OSError:
        return None
    payload = memoryview(raw)[:-_SEAL]
    return bytes(payload) if len(raw) >= _SEAL and raw[-_SEAL:] == _seal(section_name, key, payload) else None


def put(section_name: str, key: str, payload: bytes) -> None:
    """Store a payload under a key. Raises FrontierError where the cache cannot be written."""
    write(section(section_name) / checked(key), payload + _seal(section_name, key, payload))


def get_array(section_name: str, key: str) -> np.ndarray | None:
    """The array stored under a key, writable; None where there is none, or where it is damaged."""
    payload = get(section_name, key)
    if payload is None:
        return None
    try:
        return np.load(io.BytesIO(payload), allow_pickle=False)
    except (ValueError, EOFError):
        return None


def put_array(section_name: str, key: str, array: np.ndarray) -> None:
    """Store an array under a key, any shape and numeric type. Raises FrontierError where that cannot be written."""
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    put(section_name, key, stream.getvalue())


def write(path: Path, data: bytes | Callable[[BinaryIO], object]) -> None:
    """Write a file whole or not at all, even if the power fails: readers see the old content or the new.

    data: the content, or a function that writes it to an open binary file. Folders are made as needed. Several
    processes may write one path at once: the last one wins. Raises FrontierError that names the path and the fix.
    """
    with explained(path):
        for _ in range(9):
            with suppress(FileNotFoundError):  # another process cleared the cache between our steps
                return _write_once(path, data)
        _write_once(path, data)


def usage() -> Usage:
    """Files and bytes in the cache, by section. The remains of killed runs count, as they take room too."""
    found = {}
    for folder in sections():
        sizes = [size for path in files_of(folder) if (size := _size(path)) is not None]
        found[folder.name] = Section(len(sizes), sum(sizes))
    return Usage(sum(s.files for s in found.values()), sum(s.bytes for s in found.values()), found)


def clear(section: str | None = None) -> int:
    """Delete one section or all of them, remains of killed runs included; returns the bytes freed.

    Only folders that Frontier tagged as its own are touched; the tags stay, so that a process which is writing at
    this moment still finds its folder. Raises FrontierError where a file cannot be deleted.
    """
    freed = 0
    for folder in sections():
        if section not in (None, folder.name):
            continue
        with explained(folder):
            for path in list(files_of(folder)):
                size = _size(path) or 0
                path.unlink(missing_ok=True)
                freed += size
            for inner, _, _ in os.walk(folder, topdown=False):
                if Path(inner) != folder:
                    with suppress(OSError):  # another process has just written into it
                        os.rmdir(inner)
    return freed


def _write_once(path: Path, data: bytes | Callable[[BinaryIO], object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, as only a rename within one file system is atomic.
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    try:
        with open(temporary, "xb") as file:
            if callable(data):
                data(file)
            else:
                file.write(data)
            file.flush()
            os.fsync(file.fileno())
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


def _is_temporary(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(".tmp")


def _folder(name: str) -> Path:
    return home() / checked(name)


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
    """The folders of all sections that there are."""
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
    """Every file of a section but its tag."""
    for inner, _, names in os.walk(folder):
        yield from (Path(inner) / name for name in names if name != _TAG)


def _size(path: Path) -> int | None:
    try:
        return path.lstat().st_size
    except OSError:
        return None  # gone since it was listed


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
