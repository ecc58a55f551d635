"""A simulation on disk: one file, written whole or not at all, from which it goes on where it was."""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from engine.data import cache
from engine.drift.round_metrics import RoundMetrics
from engine.errors import DataError
from engine.simulation.rounds import RoundLog, Snapshot

MOST = 1 << 25
"""Numbers stored of the documents that moved, over all checkpoints (128 MiB); beyond, every second one's go."""


@dataclass(frozen=True, eq=False)
class History:
    """Results of a simulation so far; trail is filled in place."""

    checkpoints: tuple[RoundMetrics, ...]
    snapshots: tuple[Snapshot, ...]
    trail: RoundLog

    @property
    def steps(self) -> set[int]:
        """The checkpoints' steps."""
        return {checkpoint.step for checkpoint in self.checkpoints}

    def after(self, checkpoint: RoundMetrics, snapshot: Snapshot) -> "History":
        """With one checkpoint more."""
        snapshots = (*self.snapshots, snapshot)
        while len(snapshots) > 2 and sum(s.moved.size for s in snapshots) > MOST:
            snapshots = (*snapshots[:-1:2], snapshots[-1])
        return replace(self, checkpoints=(*self.checkpoints, checkpoint), snapshots=snapshots)


@dataclass(frozen=True)
class SimulationFile:
    """The file of a simulation, None for none; settings: all that decides its results, as JSON values."""

    file: Path | None
    settings: Mapping[str, Any]

    @property
    def advice(self) -> str:
        """How to go on with a stopped simulation, in words."""
        return "" if self.file is None else f"; {self.file} holds them, and the same call goes on from there"

    def load(self, length: int) -> tuple[int, History, dict[str, dict[str, np.ndarray]] | None]:
        """(rounds done, results so far, arrays to go on with). Raises DataError for another simulation's file."""
        empty = History((), (), RoundLog.of(length))
        if self.file is None or not self.file.exists():
            return 0, empty, None
        try:
            with np.load(io.BytesIO(self.file.read_bytes()), allow_pickle=False) as arrays:
                columns = {name: arrays[name] for name in arrays}
            header = json.loads(str(columns.pop("said")))
            theirs = header["settings"]
        except (OSError, ValueError, EOFError, KeyError, TypeError, BadZipFile) as error:
            raise DataError(f"{self.file} is not the file of a simulation ({error}); name another one") from None
        names = dict.fromkeys((*self.settings, *theirs))
        if differs := [name for name in names if theirs.get(name) != self.settings.get(name)]:
            raise DataError(
                f"{self.file} holds another simulation ({', '.join(differs)} differ); name another file, or delete it"
            )
        for name, column in vars(empty.trail).items():
            column[: header["done"]] = columns[f"trail.{name}"]
        snapshots = [
            Snapshot(step, columns[f"snapshot.{number}.rows"], columns[f"snapshot.{number}.moved"])
            for number, step in enumerate(header["snapshots"])
        ]
        states: dict[str, dict[str, np.ndarray]] = {}
        for name, array in columns.items():
            kind, _, rest = name.partition(".")
            if kind in ("run", "oracle"):
                states.setdefault(kind, {})[rest] = array
        checkpoints = tuple(map(RoundMetrics.from_json, header["checkpoints"]))
        return header["done"], History(checkpoints, tuple(snapshots), empty.trail), states

    def save(self, done: int, history: History, arrays: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        """Write it all. Raises FrontierError that names the path."""
        if self.file is None:
            return
        header = {
            "settings": self.settings,
            "done": done,
            "checkpoints": [checkpoint.as_json() for checkpoint in history.checkpoints],
            "snapshots": [snapshot.step for snapshot in history.snapshots],
        }
        columns: dict[str, Any] = {"said": np.array(json.dumps(header))}
        columns |= {f"{kind}.{name}": array for kind, named in arrays.items() for name, array in named.items()}
        columns |= {f"trail.{name}": column[:done] for name, column in vars(history.trail).items()}
        for number, snapshot in enumerate(history.snapshots):
            columns |= {f"snapshot.{number}.rows": snapshot.rows, f"snapshot.{number}.moved": snapshot.moved}
        cache.write(self.file, lambda stream: np.savez(stream, **columns))
