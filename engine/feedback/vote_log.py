"""Feedback logs on disk: records as rows of an event log, one transaction per vote; JSONL as export."""

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
Params = ParamSpec("Params")


def _log_method(step: Callable[Concatenate[Session, Params], Session]) -> Callable[Concatenate[Log, Params], Session]:
    """Turn an operation on feedback sessions into a method of Log, which also writes its records.

    step: function from a session and further arguments to the next session, such as `undo`
    """

    @wraps(step)
    def method(log: Log, /, *args: Params.args, **kwargs: Params.kwargs) -> Session:
        """Apply `step` to the log's session within a transaction, and return the session after it."""
        return log.write(lambda now: step(now, *args, **kwargs))

    return method


class Log(EventLog):
    """Open feedback log: its current session, and operations that write to it; thread-safe.

    Parameters
    ----------
    path : str or Path
        An existing log; `engine.orag.log` creates one.
    space : Space
        The corpus that its session began with.
    writer : str or None
        Distinguishes its events from those of other processes; random by default.

    Attributes
    ----------
    notices : tuple of Notice
        Remarks from opening and reading it.

    Examples
    --------
    >>> orag.log(path, space).session.round
    0
    """

    kind = LOG_KIND

    def __init__(self, path: str | Path, space: Space, writer: str | None = None) -> None:
        """Open an existing log and read its session.

        writer: distinguishes its events from those of other processes, random by default.
        """
        super().__init__(_check_log_path(path))
        self.notices: tuple[Notice, ...] = ()
        self._space = space
        self._writer = secrets.token_hex(4) if writer is None else writer
        self._session: Session
        self._header_rows: Sequence[int] = ()
        self.refresh()

    @property
    def session(self) -> Session:
        """Session after all records read so far; `refresh` reads the file again."""
        return self._session

    def refresh(self) -> Session:
        """Read new records from the file, and return the session after them."""
        with self._mutex:
            self._follow()
            return self._session

    def write(self, step: Callable[[Session], Session]) -> Session:
        """Apply a step, and return the session after it, once its records are on the disk.

        step: function from a session to one that continues it. It is called within the transaction, so it sees the
        records of all other writers. Raises FrontierError if the file cannot be written; then nothing has changed.
        """
        with self._mutex:
            with self._writing() as log_rows:
                old_session = self._session
                new_session = step(old_session)
                # The step must continue this session: from its first vectors, with its last record before the new ones.
                last_record = slice(max(old_session.position - 1, 0), old_session.position)
                has_last_record = new_session.journal.records[last_record] == old_session.journal.records[last_record]
                is_same_start = new_session.start is old_session.start
                if not has_last_record or not is_same_start or new_session.position < old_session.position:
                    raise ParamError("step must go on from the session that it is given; got one with another past")
                new_records = new_session.journal.records[old_session.position : new_session.position]
                log_rows.append([record_to_json(record, self._space.corpus) for record in new_records])
            if new_records:
                self._session = new_session
            return self._session

    def feed(self, event: Event) -> Session:
        """Write an event, with the current time if it has none, and return the session after it."""
        event = event if event.time is not None else replace(event, time=time.time())
        return self.write(lambda now: feed(now, event))

    undo, redo, reset = _log_method(undo), _log_method(redo), _log_method(reset)
    snapshot, restore, change = _log_method(snapshot), _log_method(restore), _log_method(change)

    def _fold(self, header: dict[str, Any] | None, events: Sequence[dict[str, Any]], n_folded: int) -> None:
        """Bring the log's session up to date with records that were read from its file; `EventLog` calls it.

        header: the log's header if the file was read from its start, None if records were only added; events: the new
        records as JSON values; n_folded: number of records that the session already has.
        """
        if header is None:
            base_session, all_rows = self._session, self._header_rows
        else:
            base_session, notices, all_rows = _begin_from_header(self.path, header, self._space, self._writer)
            self.notices = (*self.notices, *notices)
        self._session = _add_bodies(self.path, base_session, events, all_rows, n_folded)
        # The rows that an event with "all" for its documents moves: those of the log's first corpus.
        self._header_rows = all_rows

    def _forget(self) -> None:
        """Raise the error that the file of the log is gone; `EventLog` calls it when the file has disappeared."""
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
    """Open a log of feedback on disk, or create it.

    Parameters
    ----------
    path : str or Path
        File of the log.
    space : Space
        Corpus and embeddings.
    preset : {"default", "careful", "paper"} or Preset, optional
        Parameters by which a new log learns. An existing one keeps those that it was created with, and a notice says
        so.
    queries : str, Queries or Embeddings, optional
        Sample of expected queries that sets a new log's temperature; by default documents stand in for it.
    carry : bool
        If the corpus has changed, keep the feedback that still applies, and back up the log as JSONL.
    **overrides
        Parameters of the preset to change.

    Returns
    -------
    Log
        The open log.

    Raises
    ------
    DataError
        If the file is no log, is damaged, or belongs to another corpus or encoder.
    FrontierError
        If it cannot be written.

    Examples
    --------
    >>> log = orag.log(path, space)
    """
    path = _check_log_path(path)
    notices: tuple[Notice, ...] = ()
    existed = not begin_log(lambda: session(space, preset or "default", queries=queries, **overrides), path)
    if existed and carry:
        notices = _carry_in_place(path, space)
    opened_log = Log(path, space)
    current_preset = opened_log.session.preset
    if existed and resolve_preset(preset or current_preset, overrides) != current_preset:
        notice_text = f"preset ignored: this log was created with preset {current_preset.name!r}"
        notices = (*notices, Notice(notice_text, 1))
    opened_log.notices = (*notices, *opened_log.notices)
    return opened_log


def save(session: Session, path: str | Path) -> Path:
    """Write a session to a file atomically; `load` reads it back.

    Parameters
    ----------
    session : Session
        Session to write.
    path : str or Path
        An export if it ends in .jsonl; otherwise a log that `log` can open.

    Returns
    -------
    Path
        The path.

    Raises
    ------
    FrontierError
        If the file cannot be written.

    Examples
    --------
    >>> path = orag.save(session, path)
    """
    path, header, events = Path(path), *_log_contents(session)
    if path.suffix == EXPORT_SUFFIX:
        return write_jsonl(path, header, events)
    with open_log(path, LOG_KIND, write=True, create=True) as log_rows:
        log_rows.replace(header, events)
    return path


def load(path: str | Path, space: Space, *, carry: bool = False) -> tuple[Session, tuple[Notice, ...]]:
    """Read the session of a log or an export, without changing the file.

    Parameters
    ----------
    path : str or Path
        A log, or an export that ends in .jsonl.
    space : Space
        Corpus and embeddings.
    carry : bool
        If the corpus has changed, keep the feedback that still applies.

    Returns
    -------
    session : Session
        The session after all records.
    notices : tuple of Notice
        Remarks about the file.

    Raises
    ------
    DataError
        If the file is no log, is damaged, or belongs to another corpus or encoder.

    Examples
    --------
    >>> path = orag.save(session, path)
    >>> session, notices = orag.load(path, space)
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
    base_session, notices, all_rows = _begin_from_header(path, header, space, "")
    return _add_bodies(path, base_session, events, all_rows), notices


def toggle_vote(
    log: Log, query: Any, item: int | str, kind: VoteKind, *, person: str, shown: Iterable[int | str] = ()
) -> Session:
    """Write a person's vote, or take it back if it counts.

    Taking a thumb back also takes back the one that it had replaced, so that neither counts.

    Parameters
    ----------
    log : Log
        Log to write to, in one transaction.
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
        The log's session after the vote, once it is on the disk.

    Raises
    ------
    ParamError, DataError
        For an unknown document, query or list.
    FrontierError
        If the file cannot be written; then nothing has changed.

    Examples
    --------
    >>> log = orag.log(path, space)
    >>> session = orag.toggle_vote(log, "how to sort?", "sort", "up", person="ana")
    """

    def step(new_session: Session) -> Session:
        """Return the log's newest session with the person's vote, or without it if the vote counts already.

        The vote is that of the enclosing `toggle_vote`, whose transaction calls this.
        """
        vote_query, item_row = new_session.resolve_query(query), new_session.row_of(item)
        votes = find_votes(new_session.effective_events, vote_query, person)
        if (item_row, kind) not in votes:
            if kind == "right":
                event = right_one(new_session, vote_query, shown, item_row, person=person)
            else:
                event = thumb(new_session, vote_query, item_row, up=kind == "up", person=person, shown=shown)
            return feed(new_session, replace(event, time=time.time()))
        # Thumbs up and down replace each other. Undoing the newest restores the one that it had replaced, so this
        # repeats until none counts.
        rival_kinds: tuple[VoteKind, ...] = ("right",) if kind == "right" else ("up", "down")
        while counting_ids := [votes[item_row, rival] for rival in rival_kinds if (item_row, rival) in votes]:
            new_session = undo(new_session, counting_ids[0])
            votes = find_votes(new_session.effective_events, vote_query, person)
        return new_session

    return log.write(step)


def place(space: Space) -> Path:
    """Return the default path of a space's log, one for each corpus and encoder.

    Parameters
    ----------
    space : Space
        Corpus and embeddings.

    Returns
    -------
    Path
        A file in FRONTIER_HOME or the user's data folder, which need not exist.

    Examples
    --------
    >>> path = orag.place(space)
    """
    encoder = space.embeddings.encoder
    vectors_digest = encoder.digest if encoder else space.embeddings.digest
    corpus_name = space.corpus.name
    file_name = re.sub(r"[^a-z0-9]+", "-", corpus_name.lower()).strip("-")[:40] or "corpus"
    if file_name != corpus_name:
        # A digest distinguishes corpora whose names differ only in characters that a file name cannot have.
        file_name = f"{file_name}-{digest_of([corpus_name])[:8]}"
    return data_home() / "feedback" / f"{file_name}-{vectors_digest[:8]}{LOG_SUFFIX}"


def begin_log(make_session: Callable[[], Session], path: Path) -> bool:
    """Create a log file from a feedback session, unless there is one; return True if it was created.

    make_session: function that creates the session; it is called only if needed.
    """
    # The session is made before the file is locked, because fitting its temperature takes time.
    prepared = None if log_exists(path) else make_session()
    # An existing file may be under creation by another process, so it is locked before it is checked.
    with open_log(path, LOG_KIND, write=True, create=True) as log_rows:
        # A file that was just created has no id yet.
        is_new = not log_rows.id
        if is_new:
            log_rows.replace(*_log_contents(prepared or make_session()))
    return is_new


def replace_log(session: Session, path: Path) -> Path | None:
    """Replace the contents of a log file by a feedback session's records; create the file if need be.

    Returns the path of a backup of the earlier contents, None if there were none.
    """
    with open_log(path, LOG_KIND, write=True, create=True) as log_rows:
        backup_path = _back_up_log(log_rows) if log_rows.id else None
        log_rows.replace(*_log_contents(session))
    return backup_path


def move_aside(path: Path) -> Path:
    """Rename an unusable log with its side files; return its new path."""
    random_tag = uuid.uuid4().hex[:6]
    new_paths = []
    with translate_write_errors(path):
        # SQLite keeps committed records in the -wal file, so it must stay with the log.
        for ending in ("", "-wal", "-shm"):
            old_path = path.with_name(path.name + ending)
            if old_path.exists():
                new_name = f"{path.stem}.{random_tag}.aside{old_path.name[len(path.stem) :]}"
                new_paths.append(old_path.rename(old_path.with_name(new_name)))
    # The first path is the log's own, with the empty ending.
    return new_paths[0]


def _back_up_log(log_rows: LogRows) -> Path:
    """Export a log to a file beside it, `<stem>.<random>.jsonl`; return its path."""
    backup_path = log_rows.path.with_name(f"{log_rows.path.stem}.{uuid.uuid4().hex[:12]}{EXPORT_SUFFIX}")
    return write_jsonl(backup_path, log_rows.header(), log_rows.read())


def _log_contents(session: Session) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return header and records of a session as the plain JSON values that a log stores."""
    return header_to_json(session), [record_to_json(record, session.space.corpus) for record in session.records]


def _check_log_path(path: str | Path) -> Path:
    """Return a log's path as Path. Raises DataError for one that ends as an export does, .jsonl."""
    path = Path(path)
    if path.suffix == EXPORT_SUFFIX:
        raise DataError(
            f"{path} is an export by its ending, and nothing is added to one; make a log of it with engine.orag.save("
            f"engine.orag.load({path.name!r}, space)[0], {path.with_suffix(LOG_SUFFIX).name!r}), and open that"
        )
    return path


def _missing_log_error(path: Path) -> DataError:
    """Return the error for a log that does not exist."""
    return DataError(f"{path} does not exist; begin a log with engine.orag.log(path, space)")


@contextmanager
def _prefix_errors(location: str | Path) -> Iterator[None]:
    """Turn any FrontierError of a with-block into a DataError whose message begins with the location."""
    try:
        yield
    except FrontierError as error:
        raise DataError(f"{location}: {error}") from None


def _begin_from_header(
    path: Path, header: dict[str, Any], space: Space, writer: str
) -> tuple[Session, tuple[Notice, ...], Any]:
    """Create the feedback session, without records, that a log's header describes over a space.

    The space must be of the log's corpus. Returns the session, notices of small differences of the corpus, and the rows
    that "all" stands for in an event.
    """
    if not header:
        raise _missing_log_error(path)
    with _prefix_errors(path):
        return begin_session(header, space, writer), check_same_corpus(header, space), header_rows(header, space)


def _add_bodies(path: Path, session: Session, bodies: Sequence[dict[str, Any]], rows: Any, offset: int = 0) -> Session:
    """Parse records of a log, JSON values, and return the session after them.

    rows: those that "all" stands for; offset: number of records before these, for error messages. Raises DataError for
    an invalid record, or an event that is there already.
    """
    records: list[Record] = []
    seen_event_ids: set[str] = set()
    space = session.space
    for record_number, body in enumerate(bodies, offset + 1):
        with _prefix_errors(f"{path} record {record_number}"):
            record = parse_record(body, space.corpus, space.vectors.shape[1], rows)
            if isinstance(record, Event):
                if record.id in seen_event_ids or session.journal.find_event(record.id, session.position):
                    raise DataError(f"feedback that is there already ({record.id!r})")
                seen_event_ids.add(record.id)
        records.append(record)
    with _prefix_errors(path):
        return append_records(session, *records)


def _carry_in_place(path: Path, space: Space) -> tuple[Notice, ...]:
    """Rewrite a log for a changed corpus, with a backup beside it; do nothing if the corpus is the same.

    Only the feedback that still applies is kept. Returns notices of what was lost.
    """
    with open_log(path, LOG_KIND, write=True) as log_rows:
        # An error means that the corpus has changed, and the log must be carried to it.
        with suppress(*PARSE_ERRORS):
            check_same_corpus(log_rows.header(), space)
            return ()
        with _prefix_errors(path):
            carried_session, notices = carry_records(log_rows.header(), log_rows.read(), space)
        backup_path = _back_up_log(log_rows)
        log_rows.replace(*_log_contents(carried_session))
    return (*notices, Notice(f"log was kept as {backup_path.name}", 1))
