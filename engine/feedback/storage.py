"""Logs on disk: records as events of an event log, one transaction a vote; JSONL as export."""

from __future__ import annotations

import re
import secrets
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from engine.data.cache import translate_write_errors
from engine.data.event_log import EventLog, LogRows, log_exists, open_log, read_jsonl, write_jsonl
from engine.decoder import QueryLike
from engine.errors import DataError, FrontierError, ParamError
from engine.feedback.dynamic_corpus import change
from engine.feedback.migration import begin, body_of_beginning, carried, everyone, refuse_other_corpus
from engine.feedback.policy import VoteKind, right_one, thumb, votes_given
from engine.feedback.presets import Preset, preset_of
from engine.feedback.records import Event, Record
from engine.feedback.serialization import NONSENSE, body_of, record_of
from engine.feedback.session import Session, feed, recorded, redo, reset, restore, session, snapshot, undo
from engine.paths import data_home
from engine.space import Space
from engine.values import Notice, digest_of

KIND, SUFFIX, EXPORT_SUFFIX = "feedback", ".sqlite", ".jsonl"
P = ParamSpec("P")


def _written(operation: Callable[Concatenate[Session, P], Session]) -> Callable[Concatenate[Log, P], Session]:
    """An operation on sessions as a method of logs."""

    @wraps(operation)
    def method(log: Log, /, *args: P.args, **kwargs: P.kwargs) -> Session:
        return log.write(lambda now: operation(now, *args, **kwargs))

    return method


class Log(EventLog):
    """An open log: its session as of now, and operations that write to it; thread-safe.

    notices: what had to be said when it was opened or read.
    """

    kind = KIND

    def __init__(self, path: str | Path, space: Space, writer: str | None = None) -> None:
        """Open a log that exists; writer: tells its events apart from those of others, random by default."""
        super().__init__(_log_path(path))
        self.notices: tuple[Notice, ...] = ()
        self._space = space
        self._writer = secrets.token_hex(4) if writer is None else writer
        self._session: Session
        self._everyone: Sequence[int] = ()
        self.refresh()

    @property
    def session(self) -> Session:
        """The session after all that this log is known to hold; `refresh` asks the file again."""
        return self._session

    def refresh(self) -> Session:
        """The session after all that is in the file by now."""
        with self._mutex:
            self._follow()
            return self._session

    def write(self, step: Callable[[Session], Session]) -> Session:
        """The session after a step, whose records are on the disk when this returns.

        step: from a session to one that goes on from it; it is called on what is in the file by then, which may be more
        than one has seen. Raises FrontierError where the file cannot be written: then nothing has happened.
        """
        with self._mutex:
            with self._writing() as rows:
                before = self._session
                after = step(before)
                last = slice(max(before.position - 1, 0), before.position)
                same = after.journal.records[last] == before.journal.records[last]
                if after.start is not before.start or after.position < before.position or not same:
                    raise ParamError("step must go on from the session that it is given; got one with another past")
                records = after.journal.records[before.position : after.position]
                rows.append([body_of(record, self._space.corpus) for record in records])
            if records:
                self._session = after
            return self._session

    def feed(self, event: Event) -> Session:
        """The session after a piece of feedback; the log notes the time."""
        event = event if event.time is not None else replace(event, time=time.time())
        return self.write(lambda now: feed(now, event))

    undo, redo, reset = _written(undo), _written(redo), _written(reset)
    snapshot, restore, change = _written(snapshot), _written(restore), _written(change)

    def _fold(self, header: dict[str, Any] | None, events: Sequence[dict[str, Any]], number: int) -> None:
        if header is None:
            begun, rows = self._session, self._everyone
        else:
            begun, notices, rows = _begun(self.path, header, self._space, self._writer)
            self.notices = (*self.notices, *notices)
        self._session, self._everyone = _with(self.path, begun, events, rows, number), rows

    def _forget(self) -> None:
        raise _missing(self.path)


def log(
    path: str | Path,
    space: Space,
    preset: str | Preset | None = None,
    *,
    queries: QueryLike | None = None,
    carry: bool = False,
    **overrides: Any,
) -> Log:
    """The log of that path, begun where there is none; preset, queries, overrides: as `session` has them.

    A log that exists learns as it was begun to, and says so where another preset was asked for. carry: where the corpus
    has changed since, keep what still holds, and all that there was in a JSONL file beside it. Raises DataError for a
    file that is no log, is damaged, or was begun on another corpus or encoder; FrontierError where it cannot be
    written.
    """
    path = _log_path(path)
    notices: tuple[Notice, ...] = ()
    existed = not begin_log(lambda: session(space, preset or "default", queries=queries, **overrides), path)
    if existed and carry:
        notices = _carried_in_place(path, space)
    opened = Log(path, space)
    current = opened.session.preset
    if existed and (preset is not None or overrides) and preset_of(preset or current, overrides) != current:
        what = f"other setting was asked for; the log learns as it was begun to ({current.name})"
        notices = (*notices, Notice(what, 1))
    opened.notices = (*notices, *opened.notices)
    return opened


def save(session: Session, path: str | Path) -> Path:
    """Write a session as a log, whole or not at all; `load` reads it. Raises FrontierError.

    path: ends in .jsonl for an export; anything else is a log that `log` goes on with.
    """
    path, header, events = Path(path), *_contents(session)
    if path.suffix == EXPORT_SUFFIX:
        return write_jsonl(path, header, events)
    with open_log(path, KIND, write=True, create=True) as rows:
        rows.replace(header, events)
    return path


def load(path: str | Path, space: Space, *, carry: bool = False) -> tuple[Session, tuple[Notice, ...]]:
    """The session that a log or an export holds, and notices about it; the file is left as it is.

    carry: over a corpus that has changed since, what still holds. Raises DataError as `log`.
    """
    path = Path(path)
    if path.suffix == EXPORT_SUFFIX:
        header, events = read_jsonl(path, KIND)
    else:
        with open_log(path, KIND) as rows:
            rows.check()
            header, events = rows.header(), rows.read()
    if carry:
        with _naming(path):
            return carried(header, events, space)
    begun, notices, everyone_rows = _begun(path, header, space, "")
    return _with(path, begun, events, everyone_rows), notices


def toggle_vote(
    log: Log, query: Any, item: int | str, kind: VoteKind, *, person: str, shown: Iterable[int | str] = ()
) -> Session:
    """Give a person's vote, or take it back where it counts.

    Taking a thumb back also takes back the one that it had replaced, so that neither counts.

    Parameters
    ----------
    log : Log
        Is written to in one transaction.
    query : str, (d,) array, Queries, Embeddings or Query
        One query.
    item : int or str
        Row or id of the document.
    kind : {"up", "down", "right"}
        A thumb, or the choice as the right one of the list.
    person : str
        Who votes.
    shown : iterable of int or str
        The list in which the document was seen; "right" needs it.

    Returns
    -------
    Session
        The log's session, whose records are on the disk.

    Raises
    ------
    ParamError, DataError
        For an unknown document, query or list.
    FrontierError
        Where the file cannot be written: then nothing has happened.

    Examples
    --------
    >>> session = orag.toggle_vote(log, "how to sort?", "sort", "up", person="ana")
    """

    def step(now: Session) -> Session:
        asked, row = now.resolve_query(query), now.row_of(item)
        given = votes_given(now.counting, asked, person)
        if (row, kind) not in given:
            if kind == "right":
                event = right_one(now, asked, shown, row, person=person)
            else:
                event = thumb(now, asked, row, up=kind == "up", person=person, shown=shown)
            return feed(now, replace(event, time=time.time()))
        same: tuple[VoteKind, ...] = ("right",) if kind == "right" else ("up", "down")
        # Undoing the newest thumb brings back the one that it had replaced.
        while ids := [given[row, each] for each in same if (row, each) in given]:
            now = undo(now, ids[0])
            given = votes_given(now.counting, asked, person)
        return now

    return log.write(step)


def place(space: Space) -> Path:
    """Path of a space's log, one for each corpus and encoder, in FRONTIER_HOME or the user's data folder."""
    encoder = space.embeddings.encoder
    vectors = encoder.digest if encoder else space.embeddings.digest
    corpus = space.corpus.name
    name = re.sub(r"[^a-z0-9]+", "-", corpus.lower()).strip("-")[:40] or "corpus"
    if name != corpus:
        # What a file name cannot hold still tells corpora apart.
        name = f"{name}-{digest_of([corpus])[:8]}"
    return data_home() / "feedback" / f"{name}-{vectors[:8]}{SUFFIX}"


def begin_log(make_session: Callable[[], Session], path: Path) -> bool:
    """Begin a log with a session, unless there is one; returns whether it did."""
    ready = None if log_exists(path) else make_session()
    # A file that is there may still be in the making, so its writer is waited for.
    with open_log(path, KIND, write=True, create=True) as rows:
        is_new = not rows.id
        if is_new:
            rows.replace(*_contents(ready or make_session()))
    return is_new


def replace_log(session: Session, path: Path) -> Path | None:
    """Put a session in place of a log; returns the export beside it that keeps what it held."""
    with open_log(path, KIND, write=True, create=True) as rows:
        copy = _back_up(rows) if rows.id else None
        rows.replace(*_contents(session))
    return copy


def move_aside(path: Path) -> Path:
    """Rename a log that cannot be used, and all that belongs to it; returns its new name."""
    tag = uuid.uuid4().hex[:6]
    moved = []
    with translate_write_errors(path):
        for part in (path, *(path.with_name(path.name + ending) for ending in ("-wal", "-shm"))):
            if part.exists():
                moved.append(part.rename(part.with_name(f"{path.stem}.{tag}.aside{part.name[len(path.stem) :]}")))
    return moved[0]


def _back_up(rows: LogRows) -> Path:
    """Export a log beside itself as `<stem>.<random>.jsonl`."""
    copy = rows.path.with_name(f"{rows.path.stem}.{uuid.uuid4().hex[:12]}{EXPORT_SUFFIX}")
    return write_jsonl(copy, rows.header(), rows.read())


def _contents(session: Session) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the header and the events of a session's log."""
    return body_of_beginning(session), [body_of(record, session.space.corpus) for record in session.records]


def _log_path(path: str | Path) -> Path:
    """Return the path of a log. Raises DataError for that of an export."""
    path = Path(path)
    if path.suffix == EXPORT_SUFFIX:
        raise DataError(
            f"{path} is an export by its ending, and nothing is added to one; make a log of it with engine.orag.save("
            f"engine.orag.load({path.name!r}, space)[0], {path.with_suffix(SUFFIX).name!r}), and open that"
        )
    return path


def _missing(path: Path) -> DataError:
    return DataError(f"{path} does not exist; begin a log with engine.orag.log(path, space)")


@contextmanager
def _naming(place: str | Path) -> Iterator[None]:
    """Say where it is that something cannot be used."""
    try:
        yield
    except FrontierError as error:
        raise DataError(f"{place}: {error}") from None


def _begun(path: Path, header: dict[str, Any], space: Space, writer: str) -> tuple[Session, tuple[Notice, ...], Any]:
    """The session of a log's header, what is to be said about it, and the rows that "all" means."""
    if not header:
        raise _missing(path)
    with _naming(path):
        return begin(header, space, writer), refuse_other_corpus(header, space), everyone(header, space)


def _with(path: Path, session: Session, bodies: Sequence[dict[str, Any]], rows: Any, before: int = 0) -> Session:
    """The session after more records of a log, behind the first `before`."""
    records: list[Record] = []
    known: set[str] = set()
    space = session.space
    for number, body in enumerate(bodies, before + 1):
        with _naming(f"{path} record {number}"):
            record = record_of(body, space.corpus, space.vectors.shape[1], rows)
            if isinstance(record, Event):
                if record.id in known or session.journal.find(record.id, session.position):
                    raise DataError(f"feedback that is there already ({record.id!r})")
                known.add(record.id)
        records.append(record)
    with _naming(path):
        return recorded(session, *records)


def _carried_in_place(path: Path, space: Space) -> tuple[Notice, ...]:
    """Where the corpus has changed, back the log up and replace it by what still holds."""
    with open_log(path, KIND, write=True) as rows:
        with suppress(*NONSENSE):
            refuse_other_corpus(rows.header(), space)
            return ()
        with _naming(path):
            session, notices = carried(rows.header(), rows.read(), space)
        copy = _back_up(rows)
        rows.replace(*_contents(session))
    return (*notices, Notice(f"log was kept as {copy.name}", 1))
