"""A simulation on disk: one file, written whole or not at all, from which it goes on where it was."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from engine.data import cache
from engine.errors import DataError
from engine.learning.checkpoints import Checkpoint
from engine.learning.runs import Snapshot, Trail

FORMAT = 1
MOST = 1 << 25
"""How many numbers are kept of what moved at checkpoints (128 MiB); beyond, every second checkpoint's go."""


@dataclass(frozen=True, eq=False)
class History:
    """What a simulation has found so far; trail is filled in place."""

    checkpoints: tuple[Checkpoint, ...]
    snapshots: tuple[Snapshot, ...]
    trail: Trail

    @property
    def steps(self) -> set[int]:
        """The checkpoints' steps."""
        return {checkpoint.step for checkpoint in self.checkpoints}

    def after(self, checkpoint: Checkpoint, snapshot: Snapshot) -> History:
        """With one checkpoint more."""
        snapshots = (*self.snapshots, snapshot)
        while len(snapshots) > 2 and sum(s.moved.size for s in snapshots) > MOST:
            snapshots = (*snapshots[:-1:2], snapshots[-1])
        return replace(self, checkpoints=(*self.checkpoints, checkpoint), snapshots=snapshots)


@dataclass(frozen=True)
class Kept:
    """Where a simulation is kept, if anywhere; settings: all that decides what it finds, as plain JSON values."""

    file: Path | None
    settings: Mapping[str, Any]

    @property
    def told(self) -> str:
        """Where it goes on from, in words."""
        return "" if self.file is None else f"; {self.file} holds them, and the same call goes on from there"

    def load(self, length: int) -> tuple[int, History, dict[str, dict[str, np.ndarray]] | None]:
        """(rounds done, what was found, the arrays to go on with); raises DataError for another simulation's file."""
        empty = History((), (), Trail.of(length))
        if self.file is None or not self.file.exists():
            return 0, empty, None
        try:
            with np.load(io.BytesIO(self.file.read_bytes()), allow_pickle=False) as stored:
                found = {name: stored[name] for name in stored}
            said = json.loads(str(found.pop("said")))
        except (OSError, ValueError, EOFError, KeyError, BadZipFile) as error:
            raise DataError(f"{self.file} is not the file of a simulation ({error}); name another one") from None
        if said.get("format") != FORMAT:
            raise DataError(f"{self.file} was written by another version of Frontier; name another file")
        if differs := [name for name in self.settings if said["settings"].get(name) != self.settings[name]]:
            raise DataError(
                f"{self.file} holds another simulation ({', '.join(differs)} differ); name another file, or delete it"
            )
        trail = Trail(*(_resized(found[f"trail.{name}"], column) for name, column in vars(empty.trail).items()))
        snapshots = [
            Snapshot(step, found[f"snapshot.{at}.rows"], found[f"snapshot.{at}.moved"])
            for at, step in enumerate(said["snapshots"])
        ]
        arrays: dict[str, dict[str, np.ndarray]] = {}
        for name, array in found.items():
            kind, _, rest = name.partition(".")
            if kind in ("run", "oracle"):
                arrays.setdefault(kind, {})[rest] = array
        checkpoints = tuple(map(Checkpoint.from_json, said["checkpoints"]))
        return said["done"], History(checkpoints, tuple(snapshots), trail), arrays

    def save(self, done: int, history: History, arrays: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        """Write it all. Raises FrontierError that names the path."""
        if self.file is None:
            return
        said = {
            "format": FORMAT,
            "settings": self.settings,
            "done": done,
            "checkpoints": [checkpoint.as_json() for checkpoint in history.checkpoints],
            "snapshots": [snapshot.step for snapshot in history.snapshots],
        }
        found = {"said": np.array(json.dumps(said))}
        for kind, own in arrays.items():
            found |= {f"{kind}.{name}": array for name, array in own.items()}
        found |= {f"trail.{name}": column[:done] for name, column in vars(history.trail).items()}
        for at, snapshot in enumerate(history.snapshots):
            found |= {f"snapshot.{at}.rows": snapshot.rows, f"snapshot.{at}.moved": snapshot.moved}
        cache.write(self.file, lambda stream: np.savez(stream, **found))


def _resized(stored: np.ndarray, whole: np.ndarray) -> np.ndarray:
    whole[: len(stored)] = stored
    return whole
