"""The feedback given on a corpus, as one session that everybody who looks at it shares, and the corpus it makes.

A corpus's log lies on disk. A process holds it open once and looks at the file before every answer, so several browsers
and several servers see each other's feedback, and none of it is lost. No page in here.
"""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import streamlit as st

import engine
from dashboard import state
from dashboard.jobs import Job
from dashboard.state import Loaded
from engine import orag
from engine.data.cache import explained
from engine.learning.orag.folding import recorded
from engine.learning.orag.locking import locked
from engine.learning.orag.presets import preset_of
from engine.learning.orag.session import begun
from engine.values import Embeddings, Notice

PRESET = "careful"
"""How a log learns that begins here: the feedback is people's."""
ON, PERSON = "live.on", "live.person"
SAMPLED = 64
"""So many labelled queries set the temperature, where not all are embedded."""
MOST_ADAPTED = 4
"""So many adapted corpora stay in memory, so that undo and the toggle are instant; the one not used for longest goes.
"""

Made = orag.Event | Callable[[orag.Session], orag.Event]

_LOCK = threading.RLock()
"""Held to look something up or to keep it, never while it is worked out."""
_OPENING: dict[str, threading.Lock] = {}
"""One for each log, held while it is opened and replayed."""
_LOGS: OrderedDict[str, orag.Log] = OrderedDict()
_BLANK: OrderedDict[str, orag.Session] = OrderedDict()
_PREPARED: set[str] = set()
_ADAPTED: OrderedDict[tuple[str, str], Loaded] = OrderedDict()


def on() -> bool:
    """Whether this session looks at the corpus as feedback has made it."""
    return bool(st.session_state.get(ON, False))


def turn(to: bool = True) -> None:
    """Look at the corpus as feedback has made it, or as it was embedded, from the next run on; from a callback."""
    st.session_state[ON] = to


def person() -> str:
    """Who votes here: a random name that lasts as long as the browser's session.

    It says nothing about the person. A page that is loaded anew is somebody else, whose votes count beside the earlier
    ones; undo reaches all of them.
    """
    return st.session_state.setdefault(PERSON, uuid.uuid4().hex[:12])


def origin(loaded: Loaded) -> Loaded:
    """The corpus as it was embedded, Θ₁."""
    return loaded.origin


def path(loaded: Loaded) -> Path:
    """Where the corpus's feedback is, or would be once there is some."""
    space = origin(loaded).space
    first = orag.place(space)
    own = first.with_name(f"{first.stem}-{space.corpus.digest[:8]}{first.suffix}")
    return own if own.exists() else first


def session(loaded: Loaded) -> orag.Session:
    """All feedback given so far on the corpus, folded; nothing is written by looking.

    Raises FrontierError where the log cannot be read, is damaged, or is of another state of the corpus.
    """
    log = _opened(loaded)
    return _blank(loaded) if log is None else log.refresh()


def count(loaded: Loaded) -> int:
    """How many pieces of feedback count; raises FrontierError as `session`."""
    log = _opened(loaded)
    if log is None:
        return 0
    now = log.refresh()
    return sum(now.status(event.id) == "counts" for event in now.events)


def prepare(loaded: Loaded) -> None:
    """Beside the page, make ready what the first piece of feedback needs."""
    first = origin(loaded)
    key = first.space.embeddings.digest
    with _LOCK:
        if key in _BLANK or key in _PREPARED or path(first).is_file():
            return
        _PREPARED.add(key)
    Job("prepare for feedback", lambda job: _blank(first))


def notices(loaded: Loaded) -> tuple[Notice, ...]:
    """What had to be said when the log was opened or read."""
    log = _opened(loaded)
    return () if log is None else log.notices


def adapted(loaded: Loaded) -> Loaded:
    """The corpus with its documents where feedback has moved them; itself, Θ₁, where nothing has moved.

    It is a corpus like any other, known by the digest of its own embeddings. Raises FrontierError as `session`.
    """
    first = origin(loaded)
    log = _opened(first)
    if log is None:
        return first
    now = log.refresh()
    own = first.space.embeddings
    key = (own.digest, now.embeddings().digest)
    if key[0] == key[1]:
        return first
    if (found := _kept_adapted(key, first)) is not None:
        return found
    space = first.space.with_embeddings(now.embeddings())
    with _LOCK:
        if _kept_adapted(key, first) is None:  # nobody else was quicker
            _ADAPTED[key] = replace(first, space=space, embedded=first)
        return _used(_ADAPTED, key, MOST_ADAPTED)


def _kept_adapted(key: tuple[str, str], first: Loaded) -> Loaded | None:
    with _LOCK:
        if key not in _ADAPTED or _ADAPTED[key].embedded is not first:  # the corpus was loaded anew
            return None
        return _used(_ADAPTED, key, MOST_ADAPTED)


def add(loaded: Loaded, event: Made) -> orag.Session:
    """The session after one more piece of feedback, which is on the disk when this returns.

    event: feedback, or what makes it of the session as it is now. Raises FrontierError.
    """
    log = _begun(loaded)
    return log.feed(event(log.refresh()) if callable(event) else event)


def undo(loaded: Loaded, event_id: str) -> orag.Session:
    """The session without a piece of feedback; as everything below, on the disk when this returns."""
    return _begun(loaded).undo(event_id)


def redo(loaded: Loaded, event_id: str) -> orag.Session:
    """The session with an undone piece of feedback back in its place."""
    return _begun(loaded).redo(event_id)


def reset(loaded: Loaded) -> orag.Session:
    """The session with no feedback that counts."""
    return _begun(loaded).reset()


def snapshot(loaded: Loaded, name: str) -> orag.Session:
    """The session with a name for this moment."""
    return _begun(loaded).snapshot(name)


def restore(loaded: Loaded, t: int | str) -> orag.Session:
    """The session with the feedback that counted at a moment, or at the snapshot of that name."""
    return _begun(loaded).restore(t)


def settings(loaded: Loaded, preset: str | orag.Preset = PRESET, **overrides: Any) -> orag.Session:
    """The session as it would be had it learned by another setting from the start: all feedback folded again.

    preset, overrides: as `orag.session` takes them. The log is written anew, whole or not at all. Raises FrontierError.
    """
    log, how, fresh = _begun(loaded), preset_of(preset, overrides), None
    while True:
        with locked(log.path):
            # What others have added since, and nobody can add more until this is written.
            now, _ = orag.load(log.path, log.session.space)
            if how == now.preset:
                break
            same = now.preset.temperature is None and how.perplexity == now.preset.perplexity
            temperature = how.temperature
            if temperature is None:
                temperature = now.temperature if same else fresh
            if temperature is not None:
                orag.save(recorded(begun(now.start, how, temperature), *now.records), log.path)
                break
        fresh = _fresh(loaded, how).temperature  # may embed queries: nobody waits for it
    return log.refresh()


def carry(loaded: Loaded) -> tuple[Notice, ...]:
    """Take what still holds of a log over to a corpus that has changed since; says what is lost.

    The old log stays beside the new one. Raises DataError where the encoder is another.
    """
    key = _key(loaded)
    with _opening(key):
        _forget(key)
        log = _keep(key, orag.log(path(loaded), origin(loaded).space, carry=True))
        return log.notices


def begin_anew(loaded: Loaded) -> Path:
    """Begin another log for this state of the corpus; returns where the one that cannot be used is left."""
    blank, key = _blank(loaded), _key(loaded)
    with _opening(key):
        old = path(loaded)
        _forget(key)
        first = orag.place(origin(loaded).space)
        if old != first:
            aside = old.with_name(f"{old.name}.{uuid.uuid4().hex[:6]}.aside")
            with explained(old):
                old.rename(aside)
            old = aside
        digest = origin(loaded).space.corpus.digest
        orag.save(blank, first.with_name(f"{first.stem}-{digest[:8]}{first.suffix}"))
        return old


def _key(loaded: Loaded) -> str:
    return f"{origin(loaded).space.embeddings.digest} {path(loaded)}"


def _used(table: OrderedDict, key: Any, most: int) -> Any:
    """The value of a key, which is the last to go from now on."""
    table.move_to_end(key)
    while len(table) > most:
        table.popitem(last=False)
    return table[key]


def _opened(loaded: Loaded) -> orag.Log | None:
    """The log of a corpus, None where none was begun."""
    space, key = origin(loaded).space, _key(loaded)
    if not path(loaded).is_file():
        # Somebody deleted it: what it held is no longer said of this corpus.
        _forget(key)
        return None
    if (found := _kept(key, space)) is not None:
        return found
    with _opening(key):
        return _kept(key, space) or _keep(key, orag.log(path(loaded), space))


def _opening(key: str) -> threading.Lock:
    with _LOCK:
        return _OPENING.setdefault(key, threading.Lock())


def _kept(key: str, space: engine.Space) -> orag.Log | None:
    with _LOCK:
        if key not in _LOGS or _LOGS[key].session.space is not space:
            return None
        return _used(_LOGS, key, state.MOST_LOADED)


def _keep(key: str, log: orag.Log) -> orag.Log:
    with _LOCK:
        _LOGS[key] = log
        return _used(_LOGS, key, state.MOST_LOADED)


def _forget(key: str) -> None:
    with _LOCK:
        _LOGS.pop(key, None)


def _begun(loaded: Loaded) -> orag.Log:
    """The log of a corpus, begun now where there is none."""
    log = _opened(loaded)
    if log is not None:
        return log
    first, file = _blank(loaded), path(loaded)
    with explained(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        with locked(file):
            if not file.exists():
                orag.save(first, file)
    return _opened(loaded) or _begun(loaded)


def _blank(loaded: Loaded) -> orag.Session:
    """The session of a corpus on which nobody has said anything."""
    key = origin(loaded).space.embeddings.digest
    with _LOCK:
        if key in _BLANK and _BLANK[key].space is origin(loaded).space:
            return _used(_BLANK, key, state.MOST_LOADED)
    found = _fresh(loaded, PRESET)  # not under the lock: others' pages need not wait
    with _LOCK:
        _BLANK[key] = found
        return _used(_BLANK, key, state.MOST_LOADED)


def _fresh(loaded: Loaded, preset: str | orag.Preset) -> orag.Session:
    return orag.session(origin(loaded).space, preset, queries=_asked(loaded))


def _asked(loaded: Loaded) -> Embeddings | None:
    """Labelled queries to set the temperature by; None where there are none."""
    first = origin(loaded)
    queries = first.dataset.queries
    if not len(queries) or first.space.encoder is None:
        return None
    if first.queries is not None:
        return first.vectors_of(queries)
    return engine.embed_queries(first.space, queries.sample(SAMPLED))
