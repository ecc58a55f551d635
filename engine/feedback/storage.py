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

from engine.data.cache import explained
from engine.data.event_log import EventLog, Rows, exists, open_log, read_jsonl, write_jsonl
from engine.decoder import QueryLike
from engine.errors import DataError, FrontierError, ParamError
from engine.feedback.dynamic_corpus import change
from engine.feedback.migration import begin_session, carry_records, check_same_corpus, header_rows, header_to_json
from engine.feedback.policy import VoteKind, find_votes, right_one, thumb
from engine.feedback.presets import Preset, resolve_preset
from engine.feedback.records import Event, Record
from engine.feedback.serialization import PARSE_ERRORS, parse_record, record_to_json
from engine.feedback.session import Session, append_records, feed, redo, reset, restore, session, snapshot, undo
from engine.paths import data_home
from engine.space import Space
from engine.values import Notice, digest_of

LOG_KIND, LOG_SUFFIX, EXPORT_SUFFIX = "feedback", ".sqlite", ".jsonl"
OperationParams = ParamSpec("OperationParams")


def _as_log_method(
    operation: Callable[Concatenate[Session, OperationParams], Session],
) -> Callable[Concatenate[Log, OperationParams], Session]:
    """An operation on sessions as a method of logs."""

    @wraps(operation)
    def method(log: Log, /, *args: OperationParams.args, **kwargs: OperationParams.kwargs) -> Session:
        return log.write(lambda now: operation(now, *args, **kwargs))

    return method


class Log(EventLog):
    """An open log: its session as of now, and operations that write to it; thread-safe.

    notices: what had to be said when it was opened or read.
    """

    kind = LOG_KIND

    def __init__(self, path: str | Path, space: Space, writer: str | None = None) -> None:
        """Open a log that exists; writer: tells its events apart from those of others, random by default."""
        super().__init__(_check_log_path(path))
        self.notices: tuple[Notice, ...] = ()
        self._space = space
        self._writer = secrets.token_hex(4) if writer is None else writer
        self._session: Session
        self._header_rows: Sequence[int] = ()
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
            with self._writing() as log_rows:
                old_session = self._session
                new_session = step(old_session)
                last_record = slice(max(old_session.position - 1, 0), old_session.position)
                has_same_past = new_session.journal.records[last_record] == old_session.journal.records[last_record]
                if (
                    new_session.start is not old_session.start
                    or new_session.position < old_session.position
                    or not has_same_past
                ):
                    raise ParamError("step must go on from the session that it is given; got one with another past")
                new_records = new_session.journal.records[old_session.position : new_session.position]
                log_rows.append([record_to_json(record, self._space.corpus) for record in new_records])
            if new_records:
                self._session = new_session
            return self._session

    def feed(self, event: Event) -> Session:
        """The session after a piece of feedback; the log notes the time."""
        event = event if event.time is not None else replace(event, time=time.time())
        return self.write(lambda now: feed(now, event))

    undo, redo, reset = _as_log_method(undo), _as_log_method(redo), _as_log_method(reset)
    snapshot, restore, change = _as_log_method(snapshot), _as_log_method(restore), _as_log_method(change)

    def _fold(self, header: dict[str, Any] | None, events: Sequence[dict[str, Any]], n_folded: int) -> None:
        if header is None:
            base_session, header_row_ids = self._session, self._header_rows
        else:
            base_session, notices, header_row_ids = _begin_from_header(self.path, header, self._space, self._writer)
            self.notices = (*self.notices, *notices)
        self._session, self._header_rows = (
            _append_bodies(self.path, base_session, events, header_row_ids, n_folded),
            header_row_ids,
        )

    def _forget(self) -> None:
        raise _missing_log_error(self.path)


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
    path = _check_log_path(path)
    notices: tuple[Notice, ...] = ()
    existed = not begin_log(lambda: session(space, preset or "default", queries=queries, **overrides), path)
    if existed and carry:
        notices = _carry_in_place(path, space)
    opened_log = Log(path, space)
    current_preset = opened_log.session.preset
    if (
        existed
        and (preset is not None or overrides)
        and resolve_preset(preset or current_preset, overrides) != current_preset
    ):
        notice_text = f"other setting was asked for; the log learns as it was begun to ({current_preset.name})"
        notices = (*notices, Notice(notice_text, 1))
    opened_log.notices = (*notices, *opened_log.notices)
    return opened_log


def save(session: Session, path: str | Path) -> Path:
    """Write a session as a log, whole or not at all; `load` reads it. Raises FrontierError.

    path: ends in .jsonl for an export; anything else is a log that `log` goes on with.
    """
    path, header, events = Path(path), *_log_contents(session)
    if path.suffix == EXPORT_SUFFIX:
        return write_jsonl(path, header, events)
    with open_log(path, LOG_KIND, write=True, create=True) as log_rows:
        log_rows.replace(header, events)
    return path


def load(path: str | Path, space: Space, *, carry: bool = False) -> tuple[Session, tuple[Notice, ...]]:
    """The session that a log or an export holds, and notices about it; the file is left as it is.

    carry: over a corpus that has changed since, what still holds. Raises DataError as `log`.
    """
    path = Path(path)
    if path.suffix == EXPORT_SUFFIX:
        header, events = read_jsonl(path, LOG_KIND)
    else:
        with open_log(path, LOG_KIND) as log_rows:
            log_rows.check()
            header, events = log_rows.header(), log_rows.read()
    if carry:
        with _prefix_errors(path):
            return carry_records(header, events, space)
    base_session, notices, header_row_ids = _begin_from_header(path, header, space, "")
    return _append_bodies(path, base_session, events, header_row_ids), notices


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

    def step(new_session: Session) -> Session:
        vote_query, item_row = new_session.resolve_query(query), new_session.row_of(item)
        votes = find_votes(new_session.effective_events, vote_query, person)
        if (item_row, kind) not in votes:
            if kind == "right":
                event = right_one(new_session, vote_query, shown, item_row, person=person)
            else:
                event = thumb(new_session, vote_query, item_row, up=kind == "up", person=person, shown=shown)
            return feed(new_session, replace(event, time=time.time()))
        exclusive_kinds: tuple[VoteKind, ...] = ("right",) if kind == "right" else ("up", "down")
        # Undoing the newest thumb brings back the one that it had replaced.
        while vote_ids := [
            votes[item_row, vote_kind] for vote_kind in exclusive_kinds if (item_row, vote_kind) in votes
        ]:
            new_session = undo(new_session, vote_ids[0])
            votes = find_votes(new_session.effective_events, vote_query, person)
        return new_session

    return log.write(step)


def place(space: Space) -> Path:
    """Path of a space's log, one for each corpus and encoder, in FRONTIER_HOME or the user's data folder."""
    encoder = space.embeddings.encoder
    vectors_digest = encoder.digest if encoder else space.embeddings.digest
    corpus_name = space.corpus.name
    file_name = re.sub(r"[^a-z0-9]+", "-", corpus_name.lower()).strip("-")[:40] or "corpus"
    if file_name != corpus_name:
        # What a file name cannot hold still tells corpora apart.
        file_name = f"{file_name}-{digest_of([corpus_name])[:8]}"
    return data_home() / "feedback" / f"{file_name}-{vectors_digest[:8]}{LOG_SUFFIX}"


def begin_log(make_session: Callable[[], Session], path: Path) -> bool:
    """Begin a log with a session, unless there is one; returns whether it did."""
    prepared = None if exists(path) else make_session()
    # A file that is there may still be in the making, so its writer is waited for.
    with open_log(path, LOG_KIND, write=True, create=True) as log_rows:
        is_new = not log_rows.id
        if is_new:
            log_rows.replace(*_log_contents(prepared or make_session()))
    return is_new


def replace_log(session: Session, path: Path) -> Path | None:
    """Put a session in place of a log; returns the export beside it that keeps what it held."""
    with open_log(path, LOG_KIND, write=True, create=True) as log_rows:
        backup_path = _back_up_log(log_rows) if log_rows.id else None
        log_rows.replace(*_log_contents(session))
    return backup_path


def move_aside(path: Path) -> Path:
    """Rename a log that cannot be used, and all that belongs to it; returns its new name."""
    random_tag = uuid.uuid4().hex[:6]
    new_paths = []
    with explained(path):
        for old_path in (path, *(path.with_name(path.name + ending) for ending in ("-wal", "-shm"))):
            if old_path.exists():
                new_paths.append(
                    old_path.rename(
                        old_path.with_name(f"{path.stem}.{random_tag}.aside{old_path.name[len(path.stem) :]}")
                    )
                )
    return new_paths[0]


def _back_up_log(log_rows: Rows) -> Path:
    """Export a log beside itself as `<stem>.<random>.jsonl`."""
    backup_path = log_rows.path.with_name(f"{log_rows.path.stem}.{uuid.uuid4().hex[:12]}{EXPORT_SUFFIX}")
    return write_jsonl(backup_path, log_rows.header(), log_rows.read())


def _log_contents(session: Session) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the header and the events of a session's log."""
    return header_to_json(session), [record_to_json(record, session.space.corpus) for record in session.records]


def _check_log_path(path: str | Path) -> Path:
    """Return the path of a log. Raises DataError for that of an export."""
    path = Path(path)
    if path.suffix == EXPORT_SUFFIX:
        raise DataError(
            f"{path} is an export by its ending, and nothing is added to one; make a log of it with engine.orag.save("
            f"engine.orag.load({path.name!r}, space)[0], {path.with_suffix(LOG_SUFFIX).name!r}), and open that"
        )
    return path


def _missing_log_error(path: Path) -> DataError:
    return DataError(f"{path} does not exist; begin a log with engine.orag.log(path, space)")


@contextmanager
def _prefix_errors(location: str | Path) -> Iterator[None]:
    """Say where it is that something cannot be used."""
    try:
        yield
    except FrontierError as error:
        raise DataError(f"{location}: {error}") from None


def _begin_from_header(
    path: Path, header: dict[str, Any], space: Space, writer: str
) -> tuple[Session, tuple[Notice, ...], Any]:
    """The session of a log's header, what is to be said about it, and the rows that "all" means."""
    if not header:
        raise _missing_log_error(path)
    with _prefix_errors(path):
        return begin_session(header, space, writer), check_same_corpus(header, space), header_rows(header, space)


def _append_bodies(
    path: Path, session: Session, record_bodies: Sequence[dict[str, Any]], header_row_ids: Any, n_before: int = 0
) -> Session:
    """The session after more records of a log, behind the first `n_before`."""
    records: list[Record] = []
    seen_event_ids: set[str] = set()
    space = session.space
    for record_number, body in enumerate(record_bodies, n_before + 1):
        with _prefix_errors(f"{path} record {record_number}"):
            record = parse_record(body, space.corpus, space.vectors.shape[1], header_row_ids)
            if isinstance(record, Event):
                if record.id in seen_event_ids or session.journal.find_event(record.id, session.position):
                    raise DataError(f"feedback that is there already ({record.id!r})")
                seen_event_ids.add(record.id)
        records.append(record)
    with _prefix_errors(path):
        return append_records(session, *records)


def _carry_in_place(path: Path, space: Space) -> tuple[Notice, ...]:
    """Where the corpus has changed, back the log up and replace it by what still holds."""
    with open_log(path, LOG_KIND, write=True) as log_rows:
        with suppress(*PARSE_ERRORS):
            check_same_corpus(log_rows.header(), space)
            return ()
        with _prefix_errors(path):
            carried_session, notices = carry_records(log_rows.header(), log_rows.read(), space)
        backup_path = _back_up_log(log_rows)
        log_rows.replace(*_log_contents(carried_session))
    return (*notices, Notice(f"log was kept as {backup_path.name}", 1))
