"""What an engine's index was measured to find, kept beside stores.toml, so that answers can quote it."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine import paths
from engine.data.cache import write
from engine.data.stores.store import VectorStore
from engine.errors import DataError, FrontierError
from engine.paths import note_storage_result
from engine.values import digest_of

FILE = "stores.measured.json"
_SEAL = "seal"


@dataclass(frozen=True, kw_only=True)
class MeasuredRecall:
    """The share of the n exactly best documents that the index returned, mean over questions of each kind.

    queries: of ordinary questions; residuals: of those that an answer's proof asks, worst at the data's edges
    """

    collection: str
    ef: int
    n: int
    queries: float
    residuals: float
    asked: int  # queries
    plan: str
    sequential: bool  # the planner looked at all rows unasked
    date: str
    digest: str  # of the store's ref when it was measured


def measured_path() -> Path:
    """The file; it need not exist."""
    return paths.home() / FILE


def keep_recall(rows: Sequence[MeasuredRecall]) -> None:
    """Write what was measured of a collection, in place of what was; where that cannot be, it is said."""
    if not rows:
        return
    kept = {**_read(), rows[0].collection: [asdict(row) for row in rows]}
    content = json.dumps({**kept, _SEAL: _seal(kept)}, indent=1, sort_keys=True).encode()
    try:
        write(measured_path(), content)
    except FrontierError as error:
        note_storage_result(str(error.__cause__ or error))


def measured_recall(store: VectorStore) -> MeasuredRecall | None:
    """What was measured of a store at its own ef, newest first; None where nothing was."""
    ef = getattr(getattr(store, "table", None), "ef", None)
    rows = [MeasuredRecall(**row) for row in _read().get(store.ref.collection, ()) if row["ef"] == ef]
    return rows[-1] if rows else None


def _read() -> dict[str, list[dict[str, Any]]]:
    path = measured_path()
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.pop(_SEAL) != _seal(content):
            raise ValueError
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise DataError(f"{path} cannot be read: delete it, and measure again with frontier store check") from None
    return dict(content)


def _seal(content: dict[str, Any]) -> str:
    return digest_of([json.dumps(content, sort_keys=True)])
