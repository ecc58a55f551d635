"""The worked example: a short simulation for whoever has no feedback yet, one for all who look at a corpus."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import partial

import streamlit as st

from dashboard.drift import form, progress
from dashboard.drift.request import Request, run
from dashboard.drift.story import Story, played
from dashboard.explore.question import first_split
from dashboard.jobs import Job
from dashboard.state import Loaded
from engine.decoder import SET_SIZE
from engine.learning.orag.presets import Preset
from engine.learning.simulation import Plan
from engine.learning.streams import Stream
from engine.values import showable

ROUNDS, TIMES, LOOKS, MEASURED = 240, 3, 6, 60
"""So much feedback, every query so often, looked at so often on so many queries: seconds on a few thousand documents.
"""
BY_ITSELF = 2_000_000
"""Numbers in the documents' vectors up to which it begins without being asked."""
MOST = 3

_EXAMPLES: OrderedDict[str, tuple[Job, Request]] = OrderedDict()
_LOCK = threading.Lock()


def story(loaded: Loaded) -> Story | None:
    """The example, begun by itself where it takes seconds; until it is there, how far it is."""
    job, asked = found(loaded) or (None, of(loaded))
    if job is None and loaded.space.embeddings.vectors.numel() <= BY_ITSELF:
        job, asked = _begin(loaded, asked)
    whose = f"judged queries of {showable(asked.learn)}" if asked.learn else "documents that ask for themselves"
    note = (
        f"Nobody's feedback: {whose} come in a seeded order, a document is drawn for each, and what is judged right "
        "answers instead of a person."
    )
    if job is not None and job.result is not None:
        return played(job.result, note)
    st.text(note)
    if job is None:
        st.button("Run the example", type="primary", key="drift.example.start", on_click=_begin, args=(loaded, asked))
    elif job.running and not job.stop.is_set():
        progress.running(job, "example", asked)
    else:
        progress.stopped(job, "example", asked, None, partial(_begin, loaded, asked))
    return None


def found(loaded: Loaded) -> tuple[Job, Request] | None:
    """The example of this corpus and what it is, where somebody has begun it."""
    with _LOCK:
        return _EXAMPLES.get(_key(loaded))


def of(loaded: Loaded) -> Request:
    """A short simulation on the corpus's first judged split, else on documents that ask for themselves."""
    dataset = loaded.dataset
    splits = form.splits_of(loaded)
    usual = first_split(dataset)
    return Request(
        learn=usual if usual in splits else next(iter(splits), form.OWN),
        report=None,
        stream=Stream(rounds=ROUNDS),
        plan=Plan(checkpoints=LOOKS, measured=MEASURED),
        preset=Preset(exposure=TIMES),
        decoders=form.decoders(),
        k=SET_SIZE.default,
    )


def _begin(loaded: Loaded, asked: Request) -> tuple[Job, Request]:
    with _LOCK:
        job, before = _EXAMPLES.get(_key(loaded), (None, asked))
        if job is None or not job.running or job.stop.is_set():
            begun = Job("the worked example", partial(run, before, loaded))
            _EXAMPLES[_key(loaded)] = (begun, before)
            ended = [key for key, (other, _) in _EXAMPLES.items() if not other.running and key != _key(loaded)]
            for old in ended[: max(0, len(_EXAMPLES) - MOST)]:
                del _EXAMPLES[old]
        return _EXAMPLES[_key(loaded)]


def _key(loaded: Loaded) -> str:
    return f"{loaded.space.embeddings.digest} {loaded.space.corpus.digest}"
