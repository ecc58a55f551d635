"""A simulation under way or stopped: how far it is, what is known of it, and the way to go on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from dashboard.drift import timeline
from dashboard.drift.request import Request
from dashboard.drift.story import ROUNDS, names
from dashboard.jobs import Job
from dashboard.parts import POLL, show_progress
from engine.values import showable

MEASURES, DECODERS = "Measures", "Decoders"


def running(job: Job, name: str, request: Request) -> None:
    """How far it is, looked at every second; name: of its widgets."""
    _polled(job, name, names(request.decoders), request.k)


@st.fragment(run_every=POLL)
def _polled(job: Job, name: str, named: Mapping[str, tuple[str, str]], k: int) -> None:
    if not job.running or job.stop.is_set():
        st.rerun()
    with st.container(border=True):
        bar, cancel = st.columns([5, 1], vertical_alignment="center")
        with bar:
            show_progress(job)
        cancel.button("Cancel", key=f"drift.{name}.cancel", on_click=job.cancel, width="stretch")
    _so_far(job, named, k)


def stopped(job: Job, name: str, request: Request, other: Job | None, again: Callable[[], Any]) -> None:
    """Why there is no result, and the way to one. other: what has to end first; again: goes on."""
    if job.error:
        st.error("The simulation ended early.", icon=":material/error:")
        st.text(showable(job.error))
    else:
        st.info("Stopped. What was simulated is kept: going on starts from there.", icon=":material/pause:")
    if other is not None:
        st.text(f"Possible when this has ended: {other.title}")
    st.button(
        "Try again" if job.error else "Go on",
        type="primary",
        key=f"drift.{name}.on",
        disabled=other is not None,
        on_click=again,
    )
    if job.partial:
        _so_far(job, names(request.decoders), request.k)


def _so_far(job: Job, named: Mapping[str, tuple[str, str]], k: int) -> None:
    found = list(job.partial or ())
    if not found:
        st.caption("What is measured appears here as it is finished.")
        return
    view = st.segmented_control(
        "So far",
        [MEASURES, DECODERS],
        default=MEASURES,
        required=True,
        key="drift.so_far",
        label_visibility="collapsed",
    )
    if view == DECODERS:
        timeline.quality(found, named, k, ROUNDS)
    else:
        timeline.measures([checkpoint.drift for checkpoint in found], ROUNDS)
