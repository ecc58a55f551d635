"""Feedback log of a corpus, shared by all sessions, and the corpus that it adapts.

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
from dashboard.services.sending import allow_typed
from dashboard.services.source import Loaded

# Under its public name, `engine.orag`: embeddings that learn online from feedback (oRAG).
from engine import feedback as orag
from engine.data import event_log
from engine.feedback import vote_log
from engine.feedback.policy import VoteKind
from engine.values import Embeddings, Notice

NEW_LOG_PRESET = "careful"
"""The preset of a new log: the feedback is people's."""
LIVE_KEY, PERSON_KEY = "live.on", "live.person"
MAX_TEMPERATURE_QUERIES = 64
"""Labelled queries that set the temperature if not all are embedded."""
MAX_ADAPTED_CORPORA = 4
"""Adapted corpora that stay in memory: undo and the toggle are then instant."""

_LOCK = threading.RLock()
"""Held for look-ups, never while something is computed."""
_OPENING_LOCKS: dict[str, threading.Lock] = {}
"""A lock for each log, held while it is opened and replayed."""
_OPEN_LOGS: Memo[str, orag.Log] = Memo(corpora.MAX_LOADED_CORPORA)
_BLANK_SESSIONS: Memo[str, orag.Session] = Memo(corpora.MAX_LOADED_CORPORA)
_PREPARED_DIGESTS: set[str] = set()
_ADAPTED_CORPORA: Memo[tuple[str, str], Loaded] = Memo(MAX_ADAPTED_CORPORA)


def is_live() -> bool:
    """Return True if this browser session sees the corpus as adapted by feedback."""
    return bool(st.session_state.get(LIVE_KEY, False))


def turn_on() -> None:
    """Show the corpus as adapted by feedback from the next run on; call from a callback."""
    st.session_state[LIVE_KEY] = True


def get_person() -> str:
    """Return the random name of whoever votes in this browser session.

    A reloaded page is another person, whose votes count beside the earlier ones; undo reaches all of them.
    """
    name: str = st.session_state.setdefault(PERSON_KEY, uuid.uuid4().hex[:12])
    return name


def get_log_path(loaded: Loaded) -> Path:
    """Return the file of the corpus's feedback, existing or not.

    A log that was begun anew for exactly these documents wins over the usual one, which may be of older documents.
    """
    usual_path, state_path = _list_log_paths(loaded)
    return state_path if event_log.log_exists(state_path) else usual_path


def _list_log_paths(loaded: Loaded) -> tuple[Path, Path]:
    """Return two possible files of a corpus's feedback: the usual one, and one for these documents only.

    The second one has the documents' digest in its name. It is for a new log, begun because the usual file is damaged
    or belongs to other documents.
    """
    space = loaded.origin.space
    usual_path = orag.place(space)
    # The digest in its name keeps a new log apart from one of the corpus with other documents.
    return usual_path, usual_path.with_name(f"{usual_path.stem}-{space.corpus.digest[:8]}{usual_path.suffix}")


def session(loaded: Loaded) -> orag.Session:
    """Return all feedback on the corpus as a feedback session, after reading the log file again.

    A feedback session holds the votes of all people and computes how they move the documents. Raises FrontierError if
    the log cannot be read, is damaged, or belongs to the corpus with other documents.
    """
    log = _open_log(loaded)
    return _blank_session(loaded) if log is None else log.refresh()


def list_events(loaded: Loaded) -> tuple[orag.Event, ...]:
    """Return the votes and other feedback that count, as of the last reading of the log's file.

    Undone and replaced ones do not count. Raises FrontierError if the log cannot be used.
    """
    log = _open_log(loaded)
    return () if log is None else log.session.effective_events


def count_events(loaded: Loaded) -> int:
    """Count the votes and other events that count: neither undone nor replaced. Raises FrontierError."""
    return len(list_events(loaded))


def prepare_session(loaded: Loaded) -> None:
    """Compute a corpus's feedback session in a background job, so that the first vote need not wait.

    A feedback session is the model that learns from votes. No job starts if the session was computed or begun before,
    or if the corpus has feedback already.
    """
    origin = loaded.origin
    key = origin.space.embeddings.digest
    with _LOCK:
        if key in _BLANK_SESSIONS or key in _PREPARED_DIGESTS or event_log.log_exists(get_log_path(origin)):
            return
        # Noted before the job has a result, so that another page does not start one too.
        _PREPARED_DIGESTS.add(key)
    Job("prepare for feedback", lambda job: _blank_session(origin))


def list_notices(loaded: Loaded) -> tuple[Notice, ...]:
    """Return notices for people about the corpus's log of feedback: what could not be read or applied."""
    log = _open_log(loaded)
    return () if log is None else log.notices


def adapt_corpus(loaded: Loaded) -> Loaded:
    """Return the corpus with its documents' vectors moved by all feedback, or as embedded if none moved.

    Raises FrontierError if the log of the feedback cannot be used.
    """
    origin = loaded.origin
    log = _open_log(origin)
    if log is None:
        return origin
    session = log.refresh()
    embedded_digest, moved_digest = origin.space.embeddings.digest, session.embeddings().digest
    # Equal digests: no vote has moved a document.
    if embedded_digest == moved_digest:
        return origin
    cache_key = (embedded_digest, moved_digest)
    cached = _ADAPTED_CORPORA.get(cache_key)
    # A corpus that was loaded again is another object with other tensors, so what was made of the old one is of no use.
    if cached is not None and cached.embedded is origin:
        return cached
    space = origin.space.with_embeddings(session.embeddings())
    with _LOCK:
        # Another thread may have computed the same corpus meanwhile: then its copy stays, and this one is dropped.
        cached = _ADAPTED_CORPORA.get(cache_key)
        if cached is None or cached.embedded is not origin:
            cached = _ADAPTED_CORPORA[cache_key] = replace(origin, space=space, embedded=origin)
        return cached


def carry(loaded: Loaded) -> tuple[Notice, ...]:
    """Apply the feedback on older documents of a corpus to its present ones; return notices of losses.

    A copy of the old log stays beside the new one. Raises FrontierError if the log is damaged, cannot be written, or
    belongs to another encoder.
    """
    log_path = get_log_path(loaded)
    log_key = _log_key(loaded, log_path)
    with _opening_lock(log_key):
        _OPEN_LOGS.forget(log_key)
        log = _OPEN_LOGS[log_key] = orag.log(log_path, loaded.origin.space, carry=True)
        return log.notices


def begin_new_log(loaded: Loaded) -> Path:
    """Begin an empty log of feedback on the corpus as it is now; return the path of the log it replaces.

    The replaced log cannot be used: it is damaged, or belongs to the corpus with other documents. It stays on disk.
    """
    blank_session = _blank_session(loaded)
    log_key = _log_key(loaded, get_log_path(loaded))
    with _opening_lock(log_key):
        _OPEN_LOGS.forget(log_key)
        # The new log goes to a file whose name has a digest of the corpus in it, `state_path`.
        old_path, (usual_path, state_path) = get_log_path(loaded), _list_log_paths(loaded)
        # The usual log stays where it is, as it may belong to the corpus with other documents.
        if old_path != usual_path:
            old_path = vote_log.move_aside(old_path)
        # `orag` is the engine's package of feedback, which writes and reads logs.
        orag.save(blank_session, state_path)
        return old_path


def _log_key(loaded: Loaded, log_path: Path) -> str:
    """Return the key under which this process shares an open log of feedback: embeddings and file."""
    return f"{loaded.origin.space.embeddings.digest} {log_path}"


def _open_log(loaded: Loaded) -> orag.Log | None:
    """Return the corpus's log of feedback, opened once for all visitors; None if there is no file."""
    space, log_path = loaded.origin.space, get_log_path(loaded)
    log_key = _log_key(loaded, log_path)
    if not event_log.log_exists(log_path):
        # Somebody deleted the file: its feedback must not be applied any longer.
        _OPEN_LOGS.forget(log_key)
        return None
    with _opening_lock(log_key):
        log = _OPEN_LOGS.get(log_key)
        # A corpus that was loaded again is another object, with other tensors: its log is opened anew.
        if log is None or log.session.space is not space:
            log = _OPEN_LOGS[log_key] = orag.log(get_log_path(loaded), space)
        return log


def _opening_lock(log_key: str) -> threading.Lock:
    """Return the lock held while one log is opened, the same for all threads."""
    with _LOCK:
        return _OPENING_LOCKS.setdefault(log_key, threading.Lock())


def open_or_create_log(loaded: Loaded) -> orag.Log:
    """Return the corpus's log of feedback, created if there is none; additions are on disk at once."""
    log = _open_log(loaded)
    if log is not None:
        return log
    # Two processes may begin a log at once; the storage lets one of them win.
    # Whoever wins, the file is there afterwards; it is tried again if somebody deletes it meanwhile.
    vote_log.begin_log(lambda: _blank_session(loaded), get_log_path(loaded))
    return _open_log(loaded) or open_or_create_log(loaded)


def toggle_vote(loaded: Loaded, query: Embeddings, row_index: int, kind: VoteKind, visible_rows: Sequence[int]) -> None:
    """Store this person's vote on a document for a query, or take it back; turn live feedback on.

    kind: "up", "down" or "right" (the correct answer); visible_rows: the list in which the document was seen. Raises
    FrontierError if the vote cannot be stored.
    """
    if loaded.reach is not None:
        # The documents of a vector engine (a database elsewhere) cannot be moved from here.
        raise loaded.reach.refuse("feedback that moves the documents")
    turn_on()
    orag.toggle_vote(open_or_create_log(loaded), query, row_index, kind, person=get_person(), shown=visible_rows)


def _blank_session(loaded: Loaded) -> orag.Session:
    """Return the feedback session of a corpus before any vote is given; cached, as computing takes long.

    A feedback session is the engine package's model that learns from votes; the log of a corpus begins with it.
    """
    key, space = loaded.origin.space.embeddings.digest, loaded.origin.space
    session = _BLANK_SESSIONS.get(key)
    # The same corpus loaded again has other tensors, which the cached session would not know.
    if session is None or session.space is not space:
        session = _BLANK_SESSIONS[key] = orag.session(space, NEW_LOG_PRESET, queries=_temperature_queries(loaded))
    return session


def _temperature_queries(loaded: Loaded) -> Embeddings | None:
    """Return embedded labelled queries for the model of feedback, which sets its temperature by them.

    The temperature says how much likelier a document of a higher score is to be shown. None without labelled queries or
    without an encoder.
    """
    origin = loaded.origin
    queries = origin.dataset.queries
    if not len(queries) or not origin.has_query_vectors:
        return None
    with allow_typed():
        return origin.vectors_of(queries) or engine.embed_queries(origin.space, queries.sample(MAX_TEMPERATURE_QUERIES))
