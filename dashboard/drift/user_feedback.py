"""DriftHistory of people's feedback: drift at each log position, measured by a job and cached."""

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import streamlit as st

from dashboard.drift import ballot, form
from dashboard.drift.history import RECORDS_UNIT, DriftHistory
from dashboard.drift.request import find_probes
from dashboard.services import feedback
from dashboard.services.jobs import Job
from dashboard.services.memo import Memo, shared_memo
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.query import Question, find_first_split, find_max_k
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

HISTORY_PURPOSE = "drift.history"
DRIFTS_TABLE, PROBES_KEY = "drift.known", "drift.followed"
MAX_MOMENTS = 5_000
HISTORY_WAIT_SECONDS = 0.4
"""Seconds that a page waits for missing moments: enough for one more, as after a vote."""


class Probes(NamedTuple):
    """Probe queries, by whose answers drift is measured, their judgements, and the state before feedback."""

    queries: Embeddings
    qrels: Qrels
    start: DriftBaseline


def load_history(loaded: Loaded, question: Question | None = None) -> DriftHistory | None:
    """Return people's feedback on this corpus as the history that the Drift page draws.

    Without votes, draw the results of the question to vote on, or a hint without one, and return None; return None too
    if the log cannot be read. A job makes the measurements that are missing.
    """
    try:
        session, notices = feedback.session(loaded), feedback.list_notices(loaded)
    except FrontierError as error:
        show_failure("The votes on this corpus cannot be read.", error)
        return None
    if not session.history and question is not None:
        ballot.draw_first_votes(loaded, question)
        return None
    if not session.history:
        st.info("No votes yet", icon=":material/thumbs_up_down:")
        st.text(
            "Open a document in Explore and vote on it. Each vote moves documents a little; this page shows how far."
        )
        if st.button("Open Explore", type="primary", key="drift.explore"):
            decoders.open_explore()
        return None
    for notice in notices:
        st.text(visible(f"⚠ {notice}"))
    steps, split = moments(session.position), find_split(loaded)
    digests = compute_log_digests(session, steps)
    measured = shared_memo(DRIFTS_TABLE, MAX_MOMENTS)
    probes_key = identify_probes(loaded, split)
    keys = {step: (digests[step], probes_key) for step in steps}
    _measure_missing(loaded, session, split, keys, measured)
    # One look-up each, as another session may push one out between two.
    drifts = tuple(filter(None, (measured.get(keys[step]) for step in steps)))
    # Probes are the queries whose answers are followed; a job embeds them before the first measurement.
    probes = _get_probes(session, probes_key)
    queries, qrels, start = probes or (None, None, None)
    return DriftHistory(
        key=digest_of([session.digest, probes_key, str(probes is not None)]),
        loaded=loaded,
        steps=steps,
        unit=RECORDS_UNIT,
        # The present vectors are at hand, earlier ones are replayed from the log.
        vectors=lambda step: session.vectors if step == session.position else state_at(session, step).vectors,
        temperature=session.temperature,
        drifts=drifts,
        queries=queries,
        qrels=qrels,
        known_origin=start,
        decoders=form.list_decoders(),
        k=min(st.session_state.get(decoders.K_KEY, SET_SIZE.default), find_max_k(loaded)),
        session=session,
        log_digests=digests,
    )


def find_split(loaded: Loaded) -> str:
    """Return the data set's split whose judged queries measure the drift: dev, else test, else the first.

    "" if they have no vectors and no encoder, or nothing is judged: then sampled documents stand for queries.
    """
    split = find_first_split(loaded.dataset)
    return split if split in form.list_splits(loaded) else ""


def identify_probes(loaded: Loaded, split: str) -> str:
    """Return a key of the probe queries, which measure the drift, and of their judgements.

    It is "" if documents are the queries.
    """
    return f"{split} {loaded.dataset.qrels[split].digest} {loaded.dataset.queries.digest}" if split else ""


def compute_log_digests(session: orag.Session, steps: Sequence[int]) -> Mapping[int, str]:
    """Return number of records → digest of the log up to there, under which measurements are cached."""
    space, settings = session.space, repr((session.preset, session.temperature))
    # A log can be imported with the ids of another one's votes, and all visitors share the measurements.
    texts = [f"{record.id} {record.content}" for record in session.records]
    return {step: digest_of([space.embeddings.digest, space.corpus.digest, settings, *texts[:step]]) for step in steps}


def _get_probes(session: orag.Session, probes_key: str) -> Probes | None:
    """Return the probe queries, if this browser session has embedded them; else None.

    Drift is how far feedback has changed what these queries find. The probes are kept with a key of the state before
    feedback: they are of no use if the feedback session began from other documents, vectors or settings.
    """
    start, probes = st.session_state.get(PROBES_KEY, (None, None))
    return probes if start == _start_key(session, probes_key) else None


def _start_key(session: orag.Session, probes_key: str) -> Hashable:
    """Return a key of the baseline of drift: embeddings before feedback, probe queries, and sampling."""
    space = session.space
    return space.embeddings.digest, space.corpus.digest, probes_key, session.temperature, session.preset.seed


def _measure_missing(
    loaded: Loaded, session: orag.Session, split: str, keys: Mapping[int, Hashable], measured: Memo[Any, Drift]
) -> None:
    """Measure in a job the drift at those steps of the log that have no measurement yet.

    keys: step → key of its measurement; measured: where they are stored, also those of a stopped job
    """
    # The newest first, as people look at it first.
    missing = [step for step in sorted(keys, reverse=True) if keys[step] not in measured]
    if not missing:
        return
    probes_key = identify_probes(loaded, split)
    panel = JobPanel(
        purpose=HISTORY_PURPOSE,
        key=(session.digest, probes_key),
        title="Measuring drift",
        work=partial(_measure_steps, loaded, session, split, missing, _get_probes(session, probes_key)),
        wait_seconds=HISTORY_WAIT_SECONDS,
        stopped_text="Stopped. Not every moment is measured.",
    )
    probes = panel.draw_until_result()
    # Partial results are kept even if the job is stopped.
    if panel.job is not None:
        for drift in panel.job.partial or ():
            measured[keys[drift.step]] = drift
    if probes is not None:
        st.session_state[PROBES_KEY] = (_start_key(session, probes_key), probes)


def _measure_steps(
    loaded: Loaded, session: orag.Session, split: str, missing: list[int], known_probes: Probes | None, job: Job
) -> Probes:
    """Measure the drift at steps of the log, in a job; return the probe queries it was measured with.

    Each measurement goes to job.partial. known_probes: None if they must be embedded first
    """
    # Probes are embedded once per browser session and corpus.
    if known_probes is None:
        queries, qrels = find_probes(loaded, split, job)
        known_probes = Probes(queries, qrels, beginning(session, queries, qrels))
    measure_history(session, known_probes.start, missing, progress=job.report, stop=job.stop, seen=job.collect)
    return known_probes
