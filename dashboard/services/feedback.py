"""The feedback log of a corpus, shared by all sessions, and the corpus that it makes.

A process holds a log open once and looks at the file before every answer, so several browsers and several servers see
each other's feedback, and none of it is lost.
"""

import threading
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import streamlit as st

import engine
from dashboard.services import corpora
from dashboard.services.jobs import Job
from dashboard.services.memo import Memo
from dashboard.services.source import Loaded
from engine import feedback as orag
from engine.data import event_log
from engine.feedback import storage
from engine.feedback.policy import VoteKind
from engine.values import Embeddings, Notice

PRESET = "careful"
"""The preset of a new log: the feedback is people's."""
ON, PERSON = "live.on", "live.person"
SAMPLED = 64
"""Labelled queries that set the temperature, where not all are embedded."""
MOST_ADAPTED = 4
"""Adapted corpora that stay in memory: undo and the toggle are then instant."""

_LOCK = threading.RLock()
"""Held for look-ups, never while something is computed."""
_OPENING: dict[str, threading.Lock] = {}
"""A lock for each log, held while it is opened and replayed."""
_LOGS: Memo[str, orag.Log] = Memo(corpora.MOST_LOADED)
_BLANK: Memo[str, orag.Session] = Memo(corpora.MOST_LOADED)
_PREPARED: set[str] = set()
_ADAPTED: Memo[tuple[str, str], Loaded] = Memo(MOST_ADAPTED)


def is_on() -> bool:
    """Whether this session looks at the corpus as feedback has moved it."""
    return bool(st.session_state.get(ON, False))


def turn_on() -> None:
    """Look at the corpus as feedback has moved it, from the next run on; from a callback."""
    st.session_state[ON] = True


def person() -> str:
    """A random name for whoever votes in this browser session.

    A page that is loaded anew is another person, whose votes count beside the earlier ones; undo reaches all of them.
    """
    name: str = st.session_state.setdefault(PERSON, uuid.uuid4().hex[:12])
    return name


def path(loaded: Loaded) -> Path:
    """The file of the corpus's log, there or not."""
    first, of_state = _paths(loaded)
    return of_state if event_log.log_exists(of_state) else first


def _paths(loaded: Loaded) -> tuple[Path, Path]:
    """The log's usual file, and the one that was begun anew for this state of the corpus."""
    space = loaded.origin.space
    first = orag.place(space)
    return first, first.with_name(f"{first.stem}-{space.corpus.digest[:8]}{first.suffix}")


def session(loaded: Loaded) -> orag.Session:
    """The session with all feedback given so far on the corpus; looks at the file anew, and writes nothing.

    Raises FrontierError where the log cannot be read, is damaged, or is of another state of the corpus.
    """
    log = _opened(loaded)
    return _blank(loaded) if log is None else log.refresh()


def counting(loaded: Loaded) -> tuple[orag.Event, ...]:
    """The events that count, as the file was last looked at: for what is drawn after `adapted` or a vote.

    Raises FrontierError as `session`.
    """
    log = _opened(loaded)
    return () if log is None else log.session.effective_events


def count(loaded: Loaded) -> int:
    """The number of events that count. Raises FrontierError as `session`."""
    return len(counting(loaded))


def prepare(loaded: Loaded) -> None:
    """Compute, in a job, what the first event needs."""
    first = loaded.origin
    key = first.space.embeddings.digest
    with _LOCK:
        if key in _BLANK or key in _PREPARED or event_log.log_exists(path(first)):
            return
        _PREPARED.add(key)
    Job("prepare for feedback", lambda job: _blank(first))


def notices(loaded: Loaded) -> tuple[Notice, ...]:
    """Notices of opening and reading the log."""
    log = _opened(loaded)
    return () if log is None else log.notices


def adapted(loaded: Loaded) -> Loaded:
    """The corpus with its documents where feedback has moved them; as embedded, Θ₁, where nothing has moved.

    Raises FrontierError as `session`.
    """
    first = loaded.origin
    log = _opened(first)
    if log is None:
        return first
    now = log.refresh()
    key = (first.space.embeddings.digest, now.embeddings().digest)
    if key[0] == key[1]:
        return first
    cached = _ADAPTED.get(key)
    if cached is not None and cached.embedded is first:  # else the corpus was loaded anew
        return cached
    space = first.space.with_embeddings(now.embeddings())
    with _LOCK:
        cached = _ADAPTED.get(key)
        if cached is None or cached.embedded is not first:  # nobody else was quicker
            cached = _ADAPTED[key] = replace(first, space=space, embedded=first)
        return cached


def carry(loaded: Loaded) -> tuple[Notice, ...]:
    """Carry a log over to a corpus that has changed since; the notices say what is lost.

    The old log stays beside the new one. Raises DataError where the encoder is another.
    """
    file = path(loaded)
    key = _key(loaded, file)
    with _opening(key):
        _LOGS.forget(key)
        log = _LOGS[key] = orag.log(file, loaded.origin.space, carry=True)
        return log.notices


def begin_anew(loaded: Loaded) -> Path:
    """Begin a new log for this state of the corpus; returns where the unusable one is left."""
    blank, key = _blank(loaded), _key(loaded, path(loaded))
    with _opening(key):
        _LOGS.forget(key)
        (first, of_state), old = _paths(loaded), path(loaded)
        if old != first:
            old = storage.move_aside(old)
        orag.save(blank, of_state)
        return old


def _key(loaded: Loaded, file: Path) -> str:
    return f"{loaded.origin.space.embeddings.digest} {file}"


def _opened(loaded: Loaded) -> orag.Log | None:
    """The log of a corpus, None where none was begun."""
    space, file = loaded.origin.space, path(loaded)
    key = _key(loaded, file)
    if not event_log.log_exists(file):
        # Somebody deleted it: what it held is no longer said of this corpus.
        _LOGS.forget(key)
        return None
    with _opening(key):
        log = _LOGS.get(key)
        if log is None or log.session.space is not space:
            log = _LOGS[key] = orag.log(path(loaded), space)
        return log


def _opening(key: str) -> threading.Lock:
    with _LOCK:
        return _OPENING.setdefault(key, threading.Lock())


def log_of(loaded: Loaded) -> orag.Log:
    """The log of a corpus, created where there is none; what it does is on the disk when it returns."""
    log = _opened(loaded)
    if log is not None:
        return log
    storage.begin_log(lambda: _blank(loaded), path(loaded))
    return _opened(loaded) or log_of(loaded)


def toggle_vote(loaded: Loaded, query: Embeddings, row: int, kind: VoteKind, shown: Sequence[int]) -> None:
    """Give this person's vote or take it back; from now on this session sees what feedback does.

    Raises FrontierError where the vote cannot be kept.
    """
    if loaded.reach is not None:
        raise loaded.reach.refuse("feedback that moves the documents")
    turn_on()
    orag.toggle_vote(log_of(loaded), query, row, kind, person=person(), shown=shown)


def _blank(loaded: Loaded) -> orag.Session:
    """The session of a corpus without feedback."""
    key, space = loaded.origin.space.embeddings.digest, loaded.origin.space
    session = _BLANK.get(key)
    if session is None or session.space is not space:
        session = _BLANK[key] = orag.session(space, PRESET, queries=_temperature_queries(loaded))
    return session


def _temperature_queries(loaded: Loaded) -> Embeddings | None:
    """Labelled queries to set the temperature by; None where there are none."""
    first = loaded.origin
    queries = first.dataset.queries
    if not len(queries) or first.space.encoder is None:
        return None
    return first.vectors_of(queries) or engine.embed_queries(first.space, queries.sample(SAMPLED))
