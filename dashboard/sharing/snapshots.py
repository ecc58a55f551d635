"""Snapshot files: the page's state and results, one sealed JSON file each; and comparisons of two."""

import json
import math
import re
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from dashboard.sharing.export_results import PARAMETER_COLUMNS
from engine.data import cache
from engine.errors import DataError
from engine.paths import home
from engine.values import digest_of, replace_surrogates

SNAPSHOTS_FOLDER, SNAPSHOT_SUFFIX = "snapshots", ".json"
SNAPSHOT_ID = re.compile(r"[0-9a-f]{32}")
MAX_NAME_LENGTH, MAX_SNAPSHOT_BYTES = 80, 64_000_000
TEXT_FIELDS = ("corpus", "digest", "vectors", "encoder", "query", "frontier", "made")
IN_BOTH, OLDER_ONLY, NEWER_ONLY = "both", "older only", "newer only"


@dataclass(frozen=True)
class SavedAnswer:
    """Documents and metrics of one decoder at the time of a snapshot."""

    title: str
    setting: str  # the decoder as text
    documents: tuple[tuple[str, str], ...]  # (id, title), best first
    figures: Mapping[str, float | None]  # metric's title → value, None if undefined
    words: str = ""  # the decoder for people
    parameters: tuple[tuple[str, ...], ...] = ()  # stage, name, symbol, value and default of each


@dataclass(frozen=True, kw_only=True)
class PageSnapshot:
    """Saved view: the page's settings and every decoder's results at one time."""

    name: str  # as a person typed it
    state: Mapping[str, str]  # a link's parameters, which restore the page
    corpus: str  # its name
    digest: str  # of the corpus
    vectors: str  # digest of its embeddings
    encoder: str  # described in words
    query: str  # its text
    answers: Mapping[str, SavedAnswer]  # by the decoder's name
    frontier: str  # the program's version
    made: str  # creation time, UTC, ISO 8601
    id: str  # names its file

    @property
    def when(self) -> str:
        """Creation time for display."""
        # `made` is in ISO format: its first 16 characters are the date and the time to the minute.
        return self.made[:16].replace("T", " ") + " UTC"


def make_snapshot(name: str, **state: Any) -> PageSnapshot:
    """Make a snapshot of the page at this moment, not saved yet; state: the other fields of PageSnapshot.

    Raises DataError for an empty name.
    """
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return PageSnapshot(name=_clean_name(name), frontier=_get_version(), made=made, id=uuid.uuid4().hex, **state)


def save(snapshot: PageSnapshot) -> PageSnapshot:
    """Write a snapshot to its file and return it; a name that another one has gets a number.

    Raises FrontierError if the file cannot be written.
    """
    other_names = {other.name for other in read_snapshots()[0] if other.id != snapshot.id}
    free_name, number = snapshot.name[:MAX_NAME_LENGTH], 1
    while free_name in other_names:
        number += 1
        free_name = snapshot.name[: MAX_NAME_LENGTH - len(f" ({number})")] + f" ({number})"
    snapshot = replace(snapshot, name=free_name)
    data = asdict(snapshot)
    # The seal detects edited and truncated files: what a snapshot says was computed.
    data["seal"] = digest_of([json.dumps(data, sort_keys=True)])
    cache.write(_snapshot_file(snapshot.id), json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1).encode())
    return snapshot


def read_snapshots() -> tuple[list[PageSnapshot], list[str]]:
    """Return all readable snapshots, the newest first, and a line about each unreadable file."""
    readable, broken = [], []
    for snapshot_file in sorted(get_folder().glob(f"*{SNAPSHOT_SUFFIX}")):
        if not SNAPSHOT_ID.fullmatch(snapshot_file.stem):  # not ours, or being written at this moment
            continue
        try:
            readable.append(_read_snapshot(snapshot_file))
        except FileNotFoundError:  # somebody has just deleted it
            continue
        except (OSError, DataError) as error:
            broken.append(f"{replace_surrogates(snapshot_file.name)}: {error}")
    return sorted(readable, key=lambda snapshot: (snapshot.made, snapshot.id), reverse=True), broken


def rename_snapshot(snapshot_id: str, name: str) -> PageSnapshot:
    """Save a snapshot under another name and return it; a name that another one has gets a number.

    Raises DataError if it is gone or the name is empty, FrontierError if it cannot be written.
    """
    name = _clean_name(name)
    try:
        return save(replace(_read_snapshot(_snapshot_file(snapshot_id)), name=name))
    except FileNotFoundError:
        raise DataError("this view has been deleted in the meantime") from None


def delete_snapshot(snapshot_id: str) -> None:
    """Remove a snapshot, if it still exists."""
    _snapshot_file(snapshot_id).unlink(missing_ok=True)


def get_folder() -> Path:
    """Return the folder of snapshots, outside the cache: clearing the cache leaves them."""
    return home() / SNAPSHOTS_FOLDER


def describe_difference(older: PageSnapshot, newer: PageSnapshot) -> str | None:
    """Describe how the corpora or embeddings of two snapshots differ; None if they do not."""
    if (older.digest, older.vectors) == (newer.digest, newer.vectors):
        return None
    kind = "the same documents with other vectors" if older.digest == newer.digest else "different corpora"
    corpora = (f"{s.corpus}, {s.encoder}, embeddings {s.vectors[:8]}" for s in (older, newer))
    return f"They are of {kind}: {' and '.join(corpora)}. Documents are matched by id."


def compare_settings(older: PageSnapshot, newer: PageSnapshot) -> list[tuple[str, str, str]]:
    """Return the settings in which two snapshots differ, as (setting, older value, newer value).

    A setting that one does not have is "–".
    """
    rows = []
    for name in dict.fromkeys([*older.state, *newer.state]):
        older_value, newer_value = older.state.get(name, "–"), newer.state.get(name, "–")
        if older_value != newer_value:
            rows.append((name, older_value, newer_value))
    return rows


def compare_metrics(
    older: PageSnapshot, newer: PageSnapshot
) -> list[tuple[str, str, float | None, float | None, float | None]]:
    """Return (decoder, metric, older value, newer value, difference) for each metric of either snapshot.

    A value that one of them does not have is None.
    """
    rows = []
    for name in dict.fromkeys([*older.answers, *newer.answers]):
        older_answer, newer_answer = older.answers.get(name), newer.answers.get(name)
        # A decoder that one snapshot does not have has no metrics there.
        older_figures = {} if older_answer is None else older_answer.figures
        newer_figures = {} if newer_answer is None else newer_answer.figures
        title = (older_answer or newer.answers[name]).title
        for metric in dict.fromkeys([*older_figures, *newer_figures]):
            older_value, newer_value = older_figures.get(metric), newer_figures.get(metric)
            change = None if older_value is None or newer_value is None else newer_value - older_value
            rows.append((title, metric, older_value, newer_value, change))
    return rows


def compare_sets(older: SavedAnswer, newer: SavedAnswer) -> list[tuple[str, str, int | None, int | None, str]]:
    """Return every document of two sets as (id, title, older rank, newer rank, in which), shared first.

    A rank is None if the document is not in that set.
    """
    older_ranks, newer_ranks = _rank_documents(older), _rank_documents(newer)
    # The older title wins, if a document was renamed in between.
    titles, rows = dict([*newer.documents, *older.documents]), []
    for doc_id in older_ranks | newer_ranks:
        older_rank, newer_rank = older_ranks.get(doc_id), newer_ranks.get(doc_id)
        in_one = NEWER_ONLY if older_rank is None else OLDER_ONLY
        membership = in_one if older_rank is None or newer_rank is None else IN_BOTH
        rows.append((doc_id, titles[doc_id], older_rank, newer_rank, membership))
    return sorted(rows, key=lambda row: (IN_BOTH, OLDER_ONLY, NEWER_ONLY).index(row[-1]))


def _rank_documents(answer: SavedAnswer) -> dict[str, int]:
    """Return document id → rank, from 1."""
    return {doc_id: rank for rank, (doc_id, _) in enumerate(answer.documents, 1)}


def _read_snapshot(file: Path) -> PageSnapshot:
    """Read a snapshot from its file and check it. Raises DataError if it is damaged or not a snapshot.

    Raises OSError if the file cannot be read.
    """
    if file.stat().st_size > MAX_SNAPSHOT_BYTES:
        raise DataError("it is too large for a saved view; delete the file")
    try:
        data = json.loads(file.read_bytes())
        # The seal is a digest of all other data, by which edited and truncated files are found.
        if data.pop("seal") != digest_of([json.dumps(data, sort_keys=True)]):
            # The handler below words it.
            raise ValueError
        answers = {_parse_text(name): _parse_answer(answer) for name, answer in data["answers"].items()}
        state = {_parse_text(name): _parse_text(value) for name, value in data["state"].items()}
        texts = {field: _parse_text(data[field]) for field in TEXT_FIELDS}
        return PageSnapshot(name=_clean_name(data["name"]), state=state, answers=answers, id=file.stem, **texts)
    # A DataError, which is a ValueError too, has a better message already.
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError("it is not a saved view, or damaged; delete the file") from None


def _parse_answer(data: Any) -> SavedAnswer:
    """Check and convert the stored answer of one decoder. Raises TypeError, KeyError or ValueError.

    data: as JSON has it, from a file that anybody may have written
    """
    documents = tuple((_parse_text(doc_id), _parse_text(title)) for doc_id, title in data["documents"])
    figures = {}
    for title, value in data["figures"].items():
        figures[_parse_text(title)] = None if value is None else _parse_number(value)
    parameters = tuple(tuple(map(_parse_text, row)) for row in data["parameters"])
    # Rows of another length are of another version.
    if any(len(row) != len(PARAMETER_COLUMNS) for row in parameters):
        raise TypeError
    title, setting, words = (_parse_text(data[name]) for name in ("title", "setting", "words"))
    return SavedAnswer(title, setting, documents, figures, words, parameters)


def _parse_text(value: Any) -> str:
    """Return a stored text in a form that can be displayed. Raises TypeError for anything else."""
    if not isinstance(value, str):
        raise TypeError
    return replace_surrogates(value)


def _parse_number(value: Any) -> float:
    """Return a stored number. Raises ValueError if it is not finite, TypeError if it is no number."""
    # JSON from other tools may hold NaN, which tables cannot compare.
    try:
        if not math.isfinite(value):
            raise ValueError
        return float(value)
    # Whole numbers of JSON have no limit; those of a float end at 309 digits.
    except OverflowError:
        raise ValueError from None


def _snapshot_file(snapshot_id: str) -> Path:
    """Return the file of a snapshot. Raises DataError for a malformed id, which could name any file."""
    if not SNAPSHOT_ID.fullmatch(snapshot_id):
        raise DataError(f"no snapshot has the id {snapshot_id!r}")
    return get_folder() / f"{snapshot_id}{SNAPSHOT_SUFFIX}"


def _clean_name(name: str) -> str:
    """Return the name as one line of printable characters, cut to its limit. Raises DataError if empty."""
    words = "".join(character if character.isprintable() else " " for character in replace_surrogates(name)).split()
    if not words:
        raise DataError("a saved view needs a name: type one")
    return " ".join(words)[:MAX_NAME_LENGTH]


def _get_version() -> str:
    """Return the version of this program, "unknown" if it is not installed as a package."""
    try:
        return version("frontier-retrieval")
    except PackageNotFoundError:  # a checkout that is not installed
        return "unknown"
