"""Copies kept beside a log before it is replaced: each with a name of its own, and on the disk."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path


def kept_beside(path: Path, ending: str) -> Path:
    """Copy a file beside itself as `<stem>.<random><ending>`; no file that exists is written to. OSError."""
    while True:
        aside = path.with_name(f"{path.stem}.{uuid.uuid4().hex[:12]}{ending}")
        with suppress(FileExistsError), open(aside, "xb") as file:
            try:
                file.write(path.read_bytes())
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                aside.unlink(missing_ok=True)
                raise
            folder_flushed(path.parent)
            return aside


def folder_flushed(folder: Path) -> None:
    """Bring a folder's names to the disk, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
