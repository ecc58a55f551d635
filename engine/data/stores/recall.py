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

MEASURED_FILE = "stores.measured.json"
_SEAL_KEY = "seal"


@dataclass(frozen=True, kw_only=True)
class MeasuredRecall:
    """Mean share of the n exactly best documents that the index returned, over questions of each kind.

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
    """Return the path of the file, which need not exist."""
    return paths.home() / MEASURED_FILE


def save_recall(measured_rows: Sequence[MeasuredRecall]) -> None:
    """Save the measured recall of a collection's index; a failure is noted, not raised.

    measured_rows: one for each search effort (ef), all of one collection.
    """
    if not measured_rows:
        return
    rows = {**_read_measured(), measured_rows[0].collection: [asdict(measured_row) for measured_row in measured_rows]}
    # The seal is a digest that shows whether the file was edited by hand.
    content = json.dumps({**rows, _SEAL_KEY: _compute_seal(rows)}, indent=1, sort_keys=True).encode()
    try:
        write(measured_path(), content)
    except FrontierError as error:
        note_storage_result(str(error.__cause__ or error))


def measured_recall(store: VectorStore) -> MeasuredRecall | None:
    """Return the newest measured recall of a store's index at its own search effort; None for none."""
    # A store without an index has no table with an ef, the search effort, and so no measurement.
    ef = getattr(getattr(store, "table", None), "ef", None)
    measured_rows = [MeasuredRecall(**row) for row in _read_measured().get(store.ref.collection, ()) if row["ef"] == ef]
    return measured_rows[-1] if measured_rows else None


def _read_measured() -> dict[str, list[dict[str, Any]]]:
    """Read all measurements, by collection. Raises DataError for a damaged or edited file."""
    file_path = measured_path()
    try:
        content = json.loads(file_path.read_text(encoding="utf-8"))
        if content.pop(_SEAL_KEY) != _compute_seal(content):
            raise ValueError  # reported below, like a damaged file
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise DataError(f"{file_path} cannot be read: delete it, and measure again with frontier store check") from None
    return dict(content)


def _compute_seal(content: dict[str, Any]) -> str:
    """Return a digest of the file's content, which shows an edit by hand."""
    return digest_of([json.dumps(content, sort_keys=True)])
