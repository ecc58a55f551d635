"""Simulation file: its results and state, written atomically, from which a simulation resumes."""

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

MAX_STORED_NUMBERS = 1 << 25
"""Numbers of moved documents stored over all checkpoints (128 MiB); beyond, every second snapshot is dropped."""


@dataclass(frozen=True, eq=False)
class History:
    """The results of a simulation so far: measurements, stored embeddings, and the log of its rounds.

    The log, `trail`, is filled in place.
    """

    checkpoints: tuple[RoundMetrics, ...]
    snapshots: tuple[Snapshot, ...]
    trail: RoundLog

    @property
    def steps(self) -> set[int]:
        """The rounds after which checkpoints were measured."""
        return {checkpoint.step for checkpoint in self.checkpoints}

    def with_checkpoint(self, checkpoint: RoundMetrics, snapshot: Snapshot) -> "History":
        """Return the history with one more measurement, and a snapshot of the embeddings at it.

        Where the snapshots become too large for the file, every second one is dropped; the measurements all stay.
        """
        snapshots = (*self.snapshots, snapshot)
        # Snapshots grow with the run: dropping every second one keeps the file bounded and the times even.
        while len(snapshots) > 2 and sum(snapshot.moved.size for snapshot in snapshots) > MAX_STORED_NUMBERS:
            snapshots = (*snapshots[:-1:2], snapshots[-1])
        return replace(self, checkpoints=(*self.checkpoints, checkpoint), snapshots=snapshots)


@dataclass(frozen=True)
class SimulationFile:
    """The file from which a stopped simulation resumes; without one, nothing is stored or loaded.

    file: None for none; settings: all that decides the simulation's results, as JSON values, which a stored file must
    match.
    """

    file: Path | None
    settings: Mapping[str, Any]

    @property
    def advice(self) -> str:
        """The end of an error's sentence that says how to resume; "" without a file."""
        return "" if self.file is None else f"; {self.file} holds them, and the same call goes on from there"

    def load(self, length: int) -> tuple[int, History, dict[str, dict[str, np.ndarray]] | None]:
        """Return from the file the number of rounds done, their results, and the learning states' arrays.

        Without a stored file these are 0, empty results for `length` rounds, and None. Raises DataError for another
        simulation's file, or none of a simulation.
        """
        empty_history = History((), (), RoundLog.allocate(length))
        if self.file is None or not self.file.exists():
            return 0, empty_history, None
        try:
            with np.load(io.BytesIO(self.file.read_bytes()), allow_pickle=False) as arrays:
                columns = dict(arrays)
            # The file holds arrays only: its header is JSON text in one of them.
            header = json.loads(str(columns.pop("said")))
            file_settings = header["settings"]
        except (OSError, ValueError, EOFError, KeyError, TypeError, BadZipFile) as error:
            raise DataError(f"{self.file} is not the file of a simulation ({error}); name another one") from None
        # Settings of either side alone differ too: an option that only one of them has changes the results.
        setting_names = dict.fromkeys((*self.settings, *file_settings))
        if differing := [name for name in setting_names if file_settings.get(name) != self.settings.get(name)]:
            raise DataError(
                f"{self.file} holds another simulation ({', '.join(differing)} differ); name another file, or delete it"
            )
        # The log is allocated for all rounds; those that are done are filled in.
        for name, column in vars(empty_history.trail).items():
            column[: header["done"]] = columns[f"trail.{name}"]
        snapshots: list[Snapshot] = []
        for position, step in enumerate(header["snapshots"]):
            rows, moved = columns[f"snapshot.{position}.rows"], columns[f"snapshot.{position}.moved"]
            snapshots.append(Snapshot(step, rows, moved))
        states: dict[str, dict[str, np.ndarray]] = {}
        for name, values in columns.items():
            kind, _, array_name = name.partition(".")
            if kind in ("run", "oracle"):
                states.setdefault(kind, {})[array_name] = values
        checkpoints = tuple(map(RoundMetrics.from_json, header["checkpoints"]))
        return header["done"], History(checkpoints, tuple(snapshots), empty_history.trail), states

    def save(self, n_done: int, history: History, arrays: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        """Write settings, learning states and results so far, if there is a file. Raises FrontierError."""
        if self.file is None:
            return
        header = {
            "settings": self.settings,
            "done": n_done,
            "checkpoints": list(map(RoundMetrics.as_json, history.checkpoints)),
            "snapshots": [snapshot.step for snapshot in history.snapshots],
        }
        # The file holds arrays only: the header is JSON text in one of them, "said".
        columns: dict[str, Any] = {"said": np.array(json.dumps(header))}
        for kind, run_arrays in arrays.items():
            for name, values in run_arrays.items():
                columns[f"{kind}.{name}"] = values
        # Only rounds that are done are stored; `load` allocates the others again.
        columns |= {f"trail.{name}": column[:n_done] for name, column in vars(history.trail).items()}
        for position, snapshot in enumerate(history.snapshots):
            columns |= {f"snapshot.{position}.rows": snapshot.rows, f"snapshot.{position}.moved": snapshot.moved}
        cache.write(self.file, lambda stream: np.savez(stream, **columns))
