"""DriftHistory of people's feedback: drift at each log position, measured by a job and cached."""

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import streamlit as st

from dashboard.drift import form
from dashboard.drift.history import RECORDS, DriftHistory
from dashboard.drift.request import probes
from dashboard.services import feedback
from dashboard.services.jobs import Job
from dashboard.services.memo import Memo, session_memo
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.query import find_first_split, find_max_k
from dashboard.widgets.basics import show_failure
from dashboard.widgets.job_panel import JobPanel
from engine import feedback as orag
from engine.decoder import SET_SIZE
from engine.drift.history import beginning, moments
from engine.drift.history import history as measure_history
from engine.drift.measures import Drift, DriftBaseline
from engine.errors import FrontierError
from engine.feedback.session import state_at
from engine.values import Embeddings, Qrels, digest_of
from engine.wording import visible

PURPOSE = "drift.history"
KNOWN, FOLLOWED = "drift.known", "drift.followed"
MOST_KNOWN = 2_000
QUICK = 0.4
"""Seconds that a page waits for what is missing: one moment more, as after a vote, is there by then."""


class Followed(NamedTuple):
    """The queries that are followed, what is right for them, and what drift is measured against."""

    queries: Embeddings
    qrels: Qrels
    start: DriftBaseline


def history_of(loaded: Loaded) -> DriftHistory | None:
    """The feedback on this corpus; None where there is none, and the page says how to give some."""
    try:
        session, notices = feedback.session(loaded), feedback.list_notices(loaded)
    except FrontierError as error:
        show_failure("The feedback on this corpus cannot be read.", error)
        return None
    if not session.history:
        st.info("No feedback yet", icon=":material/thumbs_up_down:")
        st.text(
            "Open a document in Explore and vote on it. Each vote moves documents a little; this page shows how far."
        )
        if st.button("Open Explore", type="primary", key="drift.explore"):
            decoders.open_explore()
        return None
    for notice in notices:
        st.text(visible(f"⚠ {notice}"))
    steps, split = moments(session.position), split_of(loaded)
    digests = log_digests(session, steps)
    known = session_memo(KNOWN, MOST_KNOWN)
    keys = {step: (digests[step], split) for step in steps}
    _look_back(loaded, session, split, keys, known)
    drifts = tuple(known[keys[step]] for step in steps if keys[step] in known)
    followed = _followed(session, split)
    queries, qrels, start = followed or (None, None, None)
    return DriftHistory(
        key=digest_of([session.digest, split, str(followed is not None)]),
        loaded=loaded,
        steps=steps,
        unit=RECORDS,
        vectors=lambda step: session.vectors if step == session.position else state_at(session, step).vectors,
        temperature=session.temperature,
        drifts=drifts,
        queries=queries,
        qrels=qrels,
        known_origin=start,
        decoders=form.chosen_decoders(),
        k=min(st.session_state.get(decoders.K_KEY, SET_SIZE.default), find_max_k(loaded)),
        session=session,
        log_digests=digests,
    )


def split_of(loaded: Loaded) -> str:
    """The split whose queries are followed: the first one, "" for documents that ask for themselves."""
    split = find_first_split(loaded.dataset)
    return split if split in form.splits_of(loaded) else ""


def log_digests(session: orag.Session, steps: Sequence[int]) -> Mapping[int, str]:
    """Step → digest of the log up to there, which later records do not change."""
    space, settings = session.space, repr((session.preset, session.temperature))
    ids = [record.id for record in session.records]
    return {step: digest_of([space.embeddings.digest, space.corpus.digest, settings, *ids[:step]]) for step in steps}


def _followed(session: orag.Session, split: str) -> Followed | None:
    start, followed = st.session_state.get(FOLLOWED, (None, None))
    return followed if start == _start_of(session, split) else None


def _start_of(session: orag.Session, split: str) -> Hashable:
    """The key of the start of drift."""
    space = session.space
    return space.embeddings.digest, space.corpus.digest, split, session.temperature, session.preset.seed


def _look_back(
    loaded: Loaded, session: orag.Session, split: str, keys: Mapping[int, Hashable], known: Memo[Any, Drift]
) -> None:
    """Have a job find how things stood at the moments that are missing."""
    # What stands now is what people look for first.
    missing = [step for step in sorted(keys, reverse=True) if keys[step] not in known]
    if not missing:
        return
    panel = JobPanel(
        purpose=PURPOSE,
        key=(session.digest, split),
        title="Measuring drift",
        work=partial(_work, loaded, session, split, missing, _followed(session, split)),
        wait_seconds=QUICK,
        stopped_text="Stopped. Not every moment is measured.",
    )
    followed = panel.result()
    if panel.job is not None:
        for drift in panel.job.partial or ():
            known[keys[drift.step]] = drift
    if followed is not None:
        st.session_state[FOLLOWED] = (_start_of(session, split), followed)


def _work(
    loaded: Loaded, session: orag.Session, split: str, missing: list[int], before: Followed | None, job: Job
) -> Followed:
    if before is None:
        queries, qrels = probes(loaded, split, job)
        before = Followed(queries, qrels, beginning(session, queries, qrels))
    measure_history(session, before.start, missing, progress=job.report, stop=job.stop, seen=job.collect)
    return before
