"""The log on disk: what happened, one sealed line each, added at the end only and on the disk before it counts.

Several processes may write to one log: whoever writes takes the lock, reads what others have added since, folds it, and
only then adds their own.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.data.cache import explained, write
from engine.decoder import QueryLike
from engine.errors import DataError, FrontierError, ParamError
from engine.learning.orag.aside import folder_flushed, kept_beside
from engine.learning.orag.beginning import begin, body_of_beginning, everyone, refuse_other_corpus
from engine.learning.orag.carrying import carried
from engine.learning.orag.checking import NONSENSE
from engine.learning.orag.documents import change
from engine.learning.orag.events import Event
from engine.learning.orag.folding import feed, recorded, redo, reset, restore, snapshot, undo
from engine.learning.orag.journal import Record
from engine.learning.orag.lines import START, body_of, head, opened, record_of, sealed
from engine.learning.orag.locking import locked
from engine.learning.orag.presets import Preset, preset_of
from engine.learning.orag.session import Session, session
from engine.space import Space
from engine.values import Notice, digest_of

Step = Callable[[Session], Session]


class Log:
    """A log that is open: its session as of now, and what may be done to it; safe to share between threads.

    path: of the file; notices: what had to be said when it was opened or read.
    """

    def __init__(self, path: str | Path, space: Space, writer: str | None = None) -> None:
        """Open a log that exists. writer: tells its events apart from those of others, random by default."""
        self.path = Path(path)
        self.notices: tuple[Notice, ...] = ()
        self._space = space
        self._writer = secrets.token_hex(4) if writer is None else writer
        self._mutex = threading.Lock()
        self._file: tuple[int, int] | None = None
        self._size, self._seal, self._lines, self._last = 0, START, 0, 0
        with self._alone():
            self._read()

    @property
    def session(self) -> Session:
        """The session after all that this log is known to hold; `refresh` asks the file again."""
        return self._session

    def refresh(self) -> Session:
        """The session after all that is in the file by now."""
        if self._state() == (self._file, self._size) and self._stands():
            return self._session
        with self._alone():
            self._read()
            return self._session

    def write(self, step: Step) -> Session:
        """The session after a step, whose records are on the disk when this returns.

        step: from a session to one that goes on from it; it is called on what is in the file by then, which may be more
        than one has seen. Raises FrontierError where the file cannot be written: then nothing has happened.
        """
        with self._alone():
            self._read()
            before = self._session
            after = step(before)
            _refuse_other_past(before, after)
            records = after.journal.records[before.position : after.position]
            if records:
                self._append(records)
                self._session = after
            return self._session

    def feed(self, event: Event) -> Session:
        """The session after a piece of feedback; the log notes the time."""
        event = event if event.time is not None else replace(event, time=time.time())
        return self.write(lambda now: feed(now, event))

    def undo(self, event_id: str) -> Session:
        """As `undo`."""
        return self.write(lambda now: undo(now, event_id))

    def redo(self, event_id: str) -> Session:
        """As `redo`."""
        return self.write(lambda now: redo(now, event_id))

    def reset(self) -> Session:
        """As `reset`."""
        return self.write(reset)

    def snapshot(self, name: str) -> Session:
        """As `snapshot`."""
        return self.write(lambda now: snapshot(now, name))

    def restore(self, t: int | str) -> Session:
        """As `restore`."""
        return self.write(lambda now: restore(now, t))

    def change(self, *, came: Iterable[int | str] = (), went: Iterable[int | str] = (), warm: bool = True) -> Session:
        """As `change`."""
        return self.write(lambda now: change(now, came=came, went=went, warm=warm))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Among threads and among processes."""
        with self._mutex, ExitStack() as held:
            with explained(self.path):
                held.enter_context(locked(self.path))
            yield

    def _state(self) -> tuple[tuple[int, int] | None, int]:
        """Which file there is, and its size."""
        try:
            found = os.stat(self.path)
        except OSError:
            return None, 0
        return (found.st_dev, found.st_ino), found.st_size

    def _stands(self) -> bool:
        """Whether the last line known is still where it was; its seal speaks for all lines before it.

        A file put in this one's place may have its number and its size.
        """
        known = head(self._seal)
        try:
            with open(self.path, "rb") as file:
                file.seek(self._last)
                return file.read(len(known)) == known
        except OSError:
            return False

    def _read(self) -> None:
        """Fold what is in the file and not yet in the session; a torn end is set aside. Under the lock."""
        file, size = self._state()
        stands = file is not None and file == self._file and size >= self._size and self._stands()
        if stands and size == self._size:
            return
        if file is None:
            raise DataError(f"{self.path} does not exist; begin a log with engine.orag.log(path, space)")
        # Another file of that name is read from its beginning.
        fresh = not stands
        start, seal, lines = (0, START, 0) if fresh else (self._size, self._seal, self._lines)
        bodies, last, end, seal, torn = _bodies(self.path, start, seal, lines)
        total, said = lines + len(bodies), ()
        if fresh:
            session, said, everyone_ = _begun(self.path, bodies[0], self._space, self._writer)
            bodies, lines = bodies[1:], 1
        else:
            session, everyone_ = self._session, self._everyone
        session = _with(self.path, session, bodies, self._space, everyone_, lines)
        if torn:
            said = (*said, _set_aside(self.path, end, torn))
        self._file, self._size, self._seal, self._lines = file, end, seal, total
        self._last = last if total > lines or fresh else self._last
        self._session, self._everyone, self.notices = session, everyone_, (*self.notices, *said)

    def _append(self, records: Sequence[Record]) -> None:
        text, seal = [], self._seal
        for record in records:
            line, seal = sealed(body_of(record, self._space.corpus), seal)
            text.append(line)
        raw = "".join(text).encode("ascii")
        with explained(self.path):
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND)
            try:
                try:
                    rest = memoryview(raw)
                    while rest:
                        rest = rest[os.write(handle, rest) :]
                    os.fsync(handle)
                except BaseException:
                    # Half a line would stand in the way of the next one.
                    with suppress(OSError):
                        os.ftruncate(handle, self._size)
                    raise
            finally:
                os.close(handle)
        self._size, self._seal, self._lines = self._size + len(raw), seal, self._lines + len(records)
        self._last = self._size - len(text[-1])


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
    has changed since, keep what still holds in a new file, and the old one beside it. Raises DataError for a file that
    is no log, is damaged, or was begun on another corpus or encoder; FrontierError where it cannot be written.
    """
    path, said = Path(path), ()
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        with explained(path):
            held.enter_context(locked(path))
            begun = path.is_file() and path.stat().st_size > 0
        if not begun:
            save(session(space, preset or "default", queries=queries, **overrides), path)
        elif carry:
            said = _carried_in_place(path, space)
    found = Log(path, space)
    own = found.session.preset
    if begun and (preset is not None or overrides) and preset_of(preset or own, overrides) != own:
        said = (*said, Notice(f"other setting was asked for; the log learns as it was begun to ({own.name})", 1))
    found.notices = (*said, *found.notices)
    return found


def save(session: Session, path: str | Path) -> Path:
    """Write a session as a log of its own, whole or not at all; `load` and `log` read it. Raises FrontierError."""
    line, seal = sealed(body_of_beginning(session), START)
    lines = [line]
    for record in session.records:
        line, seal = sealed(body_of(record, session.space.corpus), seal)
        lines.append(line)
    write(Path(path), "".join(lines).encode("ascii"))
    return Path(path)


def load(path: str | Path, space: Space, *, carry: bool = False) -> tuple[Session, tuple[Notice, ...]]:
    """The session that a log holds, and what is to be said about it; the file is left as it is.

    carry: over a corpus that has changed since, what still holds. Raises DataError as `log`.
    """
    path = Path(path)
    bodies, _, _, _, torn = _bodies(path, 0, START, 0)
    said = (_torn(),) if torn else ()
    if carry:
        try:
            found, more = carried(bodies[0], bodies[1:], space)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None
        return found, (*said, *more)
    begun, more, rows = _begun(path, bodies[0], space, "")
    return _with(path, begun, bodies[1:], space, rows, 1), (*said, *more)


def place(space: Space) -> Path:
    """Where a space's own log belongs: one for each corpus and encoder, in FRONTIER_HOME or the user's data folder."""
    from platformdirs import user_data_path

    given = os.environ.get("FRONTIER_HOME")
    folder = Path(given).expanduser().absolute() if given else user_data_path("frontier", appauthor=False)
    encoder = space.embeddings.encoder
    vectors = encoder.digest if encoder else space.embeddings.digest
    given_name = space.corpus.name
    name = re.sub(r"[^a-z0-9]+", "-", given_name.lower()).strip("-")[:40] or "corpus"
    if name != given_name:
        # What a file name cannot hold still tells corpora apart.
        name = f"{name}-{digest_of([given_name])[:8]}"
    return folder / "feedback" / f"{name}-{vectors[:8]}.jsonl"


def _bodies(path: Path, start: int, seal: str, lines: int) -> tuple[list[dict[str, Any]], int, int, str, bytes]:
    """What the lines from byte `start` on hold, where the last of them begins and ends, its seal, and a torn end."""
    try:
        with open(path, "rb") as file:
            file.seek(start)
            raw = file.read()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    parts = raw.split(b"\n")
    bodies: list[dict[str, Any]] = []
    done = last = 0
    for at, part in enumerate(parts):
        whole = at < len(parts) - 1
        found = opened(part.decode("ascii", "replace"), seal) if whole else None
        if found is None:
            rest = raw[done:]
            if lines + at == 0:
                raise DataError(f"{path} is no log of feedback, or its first line is damaged")
            # A writer that was killed leaves one line without its end and nothing after it.
            if whole:
                raise DataError(
                    f"{path} line {lines + at + 1} is not as it was written; the {lines + at} before it are whole. "
                    "Copy the file back from a backup, or keep those lines only: "
                    f"head -n {lines + at} {path.name} > kept.jsonl"
                )
            return bodies, start + last, start + done, seal, rest
        bodies.append(found[0])
        seal, last, done = found[1], done, done + len(part) + 1
    return bodies, start + last, start + done, seal, b""


def _refuse_other_past(before: Session, after: Session) -> None:
    last = slice(max(before.position - 1, 0), before.position)
    same = after.journal.records[last] == before.journal.records[last]
    if after.start is not before.start or after.position < before.position or not same:
        raise ParamError("step must go on from the session that it is given; got one with another past")


def _begun(path: Path, body: dict[str, Any], space: Space, writer: str) -> tuple[Session, tuple[Notice, ...], Any]:
    try:
        begun = begin(body, space, writer)
        return begun, refuse_other_corpus(body, space), everyone(body, space)
    except FrontierError as error:
        raise DataError(f"{path}: {error}") from None


def _with(
    path: Path, session: Session, bodies: Sequence[dict[str, Any]], space: Space, rows: Any, before: int
) -> Session:
    """The session after the records of lines; before: how many lines stand before them."""
    records: list[Record] = []
    known: set[str] = set()
    for number, body in enumerate(bodies, before + 1):
        try:
            record = record_of(body, space.corpus, space.vectors.shape[1], rows)
            if isinstance(record, Event):
                if record.id in known or session.journal.position(record.id, session.position) is not None:
                    raise DataError(f"feedback that is there already ({record.id!r})")
                known.add(record.id)
        except DataError as error:
            raise DataError(f"{path} line {number}: {error}") from None
        records.append(record)
    try:
        return recorded(session, *records)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def _torn() -> Notice:
    return Notice("line at the end was torn, by a process that was killed while writing it, and is left out", 1)


def _set_aside(path: Path, size: int, torn: bytes) -> Notice:
    """Move a torn end to a file beside the log."""
    aside = path.with_name(f"{path.name}.torn")
    with explained(path):
        with open(aside, "ab") as file:
            file.write(json.dumps({"at": size, "torn": torn.decode("latin-1")}).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        folder_flushed(path.parent)
        with open(path, "rb+") as file:
            file.truncate(size)
            os.fsync(file.fileno())
    return Notice(f"line at the end was torn, by a process killed while writing it; it is set aside in {aside.name}", 1)


def _carried_in_place(path: Path, space: Space) -> tuple[Notice, ...]:
    """Where the corpus has changed, replace the log by what still holds, and keep the old one beside it."""
    bodies, *_ = _bodies(path, 0, START, 0)
    try:
        refuse_other_corpus(bodies[0], space)
        return ()
    except NONSENSE:
        found, notices = load(path, space, carry=True)
    with explained(path):
        aside = kept_beside(path, path.suffix)
    save(found, path)
    return (*notices, Notice(f"log was kept as {aside.name}", 1))
