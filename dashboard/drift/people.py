"""People's feedback as a story: how things stood along the log, worked out beside the page and remembered."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

import engine
from dashboard import jobs
from dashboard.drift import form
from dashboard.drift.request import probes
from dashboard.drift.story import RECORDS, Story
from dashboard.explore import setting
from dashboard.explore.question import first_split, most_asked
from dashboard.feedback import live
from dashboard.jobs import Job
from dashboard.parts import POLL, show_progress
from dashboard.state import Loaded
from engine import orag
from engine.decoder import SET_SIZE
from engine.errors import FrontierError
from engine.learning.drift import Drift, Origin
from engine.learning.history import beginning, history, moments
from engine.values import Embeddings, Qrels, digest_of, showable

PURPOSE = "drift.history"
KNOWN, FOLLOWED = "drift.known", "drift.followed"
MOST_KNOWN = 2_000
QUICK = 0.4
"""Seconds that a page waits for what is missing: one moment more, as after a vote, is there by then."""


@dataclass(frozen=True, eq=False)
class Followed:
    """The queries that are followed, what is right for them, and what drift is measured against."""

    queries: Embeddings
    qrels: Qrels
    start: Origin


def story(loaded: Loaded) -> Story | None:
    """The feedback on this corpus; None where nobody has said anything, and the page says how to."""
    try:
        session = live.session(loaded)
        notices = live.notices(loaded)
    except FrontierError as error:
        st.error("The feedback on this corpus cannot be read.", icon=":material/error:")
        st.text(showable(str(error)))
        return None
    if not session.history:
        _teach()
        return None
    for notice in notices:
        st.text(showable(f"⚠ {notice}"))
    steps, split = moments(session.position), split_of(loaded)
    marks = marked(session, steps)
    known: OrderedDict[Hashable, Drift] = st.session_state.setdefault(KNOWN, OrderedDict())
    every = {step: (marks[step], split) for step in steps}
    # What stands now is what people look for first.
    missing = [step for step in reversed(steps) if every[step] not in known]
    if missing:
        _look_back(loaded, session, split, missing, every, known)
    drifts = tuple(known[every[step]] for step in steps if every[step] in known)
    followed = _followed(session, split)
    return Story(
        digest_of([session.digest, split, str(followed is not None)]),
        loaded,
        steps,
        RECORDS,
        lambda step: _vectors(session, step),
        session.temperature,
        drifts,
        probes=followed and followed.queries,
        qrels=followed and followed.qrels,
        start=followed and followed.start,
        decoders=form.decoders(),
        k=min(st.session_state.get(setting.K_KEY, SET_SIZE.default), most_asked(loaded)),
        session=session,
        marks=marks,
    )


def _teach() -> None:
    st.info("Nobody has said anything about this corpus yet.", icon=":material/thumbs_up_down:")
    st.text(
        "In Explore, open a document of a set and give it a thumb, or say that it is the right one. Each vote moves "
        "the documents it is about a little; every decoder then works on the documents as they are now. What that does"
        " over time is shown here, and every vote can be taken back.\n\nUntil then, the worked example shows what to"
        " expect, and a simulation what judged queries would do."
    )


def split_of(loaded: Loaded) -> str:
    """Whose queries are followed: the split that is looked at first, "" for documents that ask for themselves."""
    split = first_split(loaded.dataset)
    return split if split in form.splits_of(loaded) else ""


def marked(session: orag.Session, steps: Sequence[int]) -> Mapping[int, str]:
    """What names each moment: what a log held at one stays so, whatever comes later."""
    own, how = session.space.embeddings.digest, repr((session.preset, session.temperature))
    ids = [record.id for record in session.records]
    return {step: digest_of([own, session.space.corpus.digest, how, *ids[:step]]) for step in steps}


def keep(memory: OrderedDict[Any, Any], key: Hashable, value: Any) -> None:
    """Remember, and forget the oldest beyond the most."""
    memory[key] = value
    while len(memory) > MOST_KNOWN:
        memory.popitem(last=False)


def _vectors(session: orag.Session, step: int) -> np.ndarray:
    return session.vectors if step == session.position else orag.at(session, step).vectors


def _followed(session: orag.Session, split: str) -> Followed | None:
    of, found = st.session_state.get(FOLLOWED, (None, None))
    return found if of == _of(session, split) else None


def _of(session: orag.Session, split: str) -> Hashable:
    """What the start of drift depends on."""
    own = session.space
    return own.embeddings.digest, own.corpus.digest, split, session.temperature, session.preset.seed


def _look_back(
    loaded: Loaded,
    session: orag.Session,
    split: str,
    missing: Sequence[int],
    every: Mapping[int, Hashable],
    known: OrderedDict[Any, Drift],
) -> None:
    """Have a job find how things stood at the moments that are missing."""
    job: Job | None = jobs.mine().get(PURPOSE)
    wanted = (session.digest, split)
    if job is not None and st.session_state.get(f"{PURPOSE}.of") != wanted:
        job.cancel()
        job = None
    if job is None:
        if other := jobs.busy(PURPOSE):
            st.text(f"What is measured appears here when this has ended: {other.title}")
            return
        st.session_state[f"{PURPOSE}.of"] = wanted
        before = _followed(session, split)
        job = jobs.start(PURPOSE, "looking back", partial(_work, loaded, session, split, list(missing), before))
        job.join(QUICK)
    for drift in list(job.partial or ()):
        keep(known, every[drift.step], drift)
    if job.result is not None:
        st.session_state[FOLLOWED] = (_of(session, split), job.result)
    elif job.running and not job.stop.is_set():
        _waiting(job)
    elif job.error:
        st.error("What happened cannot be measured.", icon=":material/error:")
        st.text(showable(job.error))
    else:
        st.info("Stopped: not every moment was measured.", icon=":material/pause:")
        if st.button("Go on", key="drift.history.on"):
            jobs.mine().pop(PURPOSE, None)
            st.rerun()


def _work(
    loaded: Loaded, session: orag.Session, split: str, missing: list[int], before: Followed | None, job: Job
) -> Followed:
    if before is None:
        queries, qrels = ready(loaded, split, job)
        before = Followed(queries, qrels, beginning(session, queries, qrels))
    found: list[Drift] = []

    def seen(drift: Drift) -> None:
        found.append(drift)
        job.partial = list(found)

    history(session, before.start, missing, progress=job.report, stop=job.stop, seen=seen)
    return before


def ready(loaded: Loaded, split: str, job: Job) -> tuple[Embeddings, Qrels]:
    """The queries that are followed, embedded where they were not, and what is right for them."""
    embedded = partial(engine.embed_queries, loaded.space, progress=job.report, stop=job.stop)
    return probes(loaded, split, embedded)


@st.fragment(run_every=POLL)
def _waiting(job: Job) -> None:
    if not job.running or job.stop.is_set():
        st.rerun()
    bar, cancel = st.columns([5, 1], vertical_alignment="center")
    with bar:
        show_progress(job)
    cancel.button("Cancel", key="drift.history.cancel", on_click=job.cancel, width="stretch")
