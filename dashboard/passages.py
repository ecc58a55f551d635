"""Labelled queries for a corpus that has none: passages of its own documents, to be found again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace

import streamlit as st

import engine
from dashboard import jobs
from dashboard.jobs import Job
from dashboard.parts import POLL, show_progress
from dashboard.state import Loaded
from engine.data.cloze import COUNT, LONGEST, SHORTEST
from engine.errors import FrontierError
from engine.values import Dataset

NAME = "Passages of this corpus"
SPLIT = "passages"
"""What the split of these queries is called on the page."""
PURPOSE, WANTED = "passages", "passages.wanted"
AT_ONCE = 5_000_000
"""Characters of a corpus that are looked through while the page is drawn; a job looks through more."""
REMEMBERED = 3
_MADE: OrderedDict[str, Dataset] = OrderedDict()
_LOCK = threading.Lock()


def offered(loaded: Loaded) -> bool:
    """Whether such queries are to be had: nothing is judged, and an encoder can put queries beside the documents."""
    return not loaded.dataset.qrels and loaded.space.encoder is not None


def judged(loaded: Loaded) -> Loaded | None:
    """The same corpus and vectors with passages as its labelled queries; None, and how far it is, until they are there.

    No document is added: what is searched is the corpus as it is. Where no document has words enough it says so.
    """
    digest = loaded.space.corpus.digest
    found = _made(digest)
    if found is None and sum(map(len, loaded.dataset.corpus.texts)) <= AT_ONCE:
        try:
            with jobs.turn():
                found = _keep(digest, _make(loaded))
        except FrontierError as error:
            return _refused(str(error))
    if found is None:
        return _wait(loaded, digest)
    # Queries that come on demand: their vectors are looked up, or embedded by whoever measures them.
    dataset = replace(
        loaded.dataset, queries=found.queries, qrels={SPLIT: next(iter(found.qrels.values()))}, aspects=None
    )
    return replace(loaded, dataset=dataset, queries=None)


def explain(loaded: Loaded) -> None:
    """What the task is, what its numbers mean, and what was left out of it; `loaded`: as `judged` gives it."""
    queries, qrels = loaded.dataset.queries, loaded.dataset.qrels[SPLIT]
    several = sum(len(qrels.relevant(query)) > 1 for query in queries.ids)
    more = f" {several:,} stand in several documents, all of which are right." if several else ""
    st.caption(
        f"The labelled queries are {len(queries):,} passages of {SHORTEST.default} to {LONGEST.default} words, one out "
        f"of a document each; right is every document that contains the passage word for word.{more} Recall is the "
        "share of these documents in the set, MRR how far up the first one stands: how well a text is found again by a "
        "part of it. People's questions are harder, and where one document is right, diversity has little to gain. No "
        "document is added; `frontier passages` writes the task with near copies in the way."
    )


def _make(loaded: Loaded, job: Job | None = None) -> Dataset:
    watch = {} if job is None else {"progress": job.report, "stop": job.stop}
    return engine.containing_passages(loaded.dataset.corpus, COUNT.default, distractors=0, **watch)


def _made(digest: str) -> Dataset | None:
    with _LOCK:
        return _MADE.get(digest)


def _keep(digest: str, made: Dataset) -> Dataset:
    with _LOCK:
        _MADE[digest] = made
        while len(_MADE) > REMEMBERED:
            _MADE.popitem(last=False)
    return made


def _wait(loaded: Loaded, digest: str) -> None:
    """Draw the job that makes them, or the way to start it."""
    job = jobs.mine().get(PURPOSE)
    if st.session_state.get(WANTED) != digest:
        job = None
    other = jobs.busy(PURPOSE)
    if job is None and other is None:
        job = _start(loaded, digest)
    if job is not None and job.running:
        _polled(job)
        return
    if job is not None and job.error:
        _refused(job.error)
    if other is not None:
        st.text(f"Possible when this has ended: {other.title}")
    if st.button("Choose passages", key="passages.start", disabled=other is not None):
        _start(loaded, digest)
        st.rerun()


def _refused(why: str) -> None:
    st.error("No passages can be had of this corpus.", icon=":material/error:")
    st.text(why)


def _start(loaded: Loaded, digest: str) -> Job:
    st.session_state[WANTED] = digest
    return jobs.start(PURPOSE, "Choosing passages", lambda job: _keep(digest, _make(loaded, job)))


@st.fragment(run_every=POLL)
def _polled(job: Job) -> None:
    if not job.running:
        st.rerun()
    show_progress(job)
    if st.button("Cancel", key="passages.cancel", disabled=job.stop.is_set()):
        job.cancel()
