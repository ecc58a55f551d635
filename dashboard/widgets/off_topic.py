"""Off-topic documents of chosen settings: counted beside the page, which is drawn again when they are known."""

import streamlit as st

from dashboard.services.jobs import Job
from dashboard.widgets.job_panel import POLL_INTERVAL
from engine.decoder import Decoder
from engine.evaluation.decision import Decision
from engine.evaluation.off_topic import OffTopicCounts


def list_choices(decision: Decision | None) -> list[Decoder]:
    """Return the decoders of the sure setting and of the bet; a run of another system has none."""
    options = () if decision is None else (decision.sure, decision.bet)
    return [option.decoder for option in options if option is not None and option.decoder is not None]


def take_or_await(counts: OffTopicCounts | Job | None) -> OffTopicCounts | None:
    """Return counts, None where they are unknown; draw the page again once the job that counts has ended.

    counts: as `dashboard.services.off_topic.find_counts` returns them
    """
    # Whether something waits in it or not, its place stays: what comes after would be built anew if it moved.
    with st.container():
        if isinstance(counts, Job):
            _await_end(counts)
            return None
    return counts


@st.fragment(run_every=POLL_INTERVAL)
def _await_end(job: Job) -> None:
    """Draw the full page again when a job has ended; the page does without its result until then."""
    if not job.is_active:
        st.rerun()
