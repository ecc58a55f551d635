"""Answers to the sidebar's question at the start and at a step, for every decoder of Explore."""

import streamlit as st

from dashboard.drift import form
from dashboard.drift.history import DriftHistory, step_of
from dashboard.services.memo import remembered
from dashboard.session import decoders
from dashboard.session.answers import query_of
from dashboard.session.query import Question
from dashboard.widgets.common import method_heading
from dashboard.widgets.failure import show_failure
from dashboard.widgets.ranked_lists import RELEVANCE, set_table
from dashboard.widgets.tables import pair
from engine.decoder import Decoder
from engine.errors import FrontierError
from engine.progress import shorten
from engine.values import Embeddings
from engine.views.drift import ThenNow, then_and_now

ENTRIES = 64
"""Answers that a session keeps."""
WIDTH = 244
"""Of the column of documents, with two tables beside each other."""


def show(history: DriftHistory, question: Question | None) -> None:
    """Two tables a decoder: the set at the start, and the set at the step with what changed."""
    if question is None:
        st.info("Ask something in the sidebar: its answers then and now appear here.")
        return
    with st.container(width=520):
        step = step_of(history)
    st.text(shorten(question.text, 300))
    query = query_of(history.loaded, question)
    for decoder in form.chosen_decoders():
        try:
            decoders.checked(decoder, history.space)
            with st.spinner(f"Decoding with {decoders.title(decoder)}"):
                then, now = (_answer(history, decoder, query, question, t) for t in (0, step))
        except FrontierError as error:
            show_failure("No answer at this setting.", error)
            continue
        _pair(history, decoder, then, now, step)


def _answer(history: DriftHistory, decoder: Decoder, query: Embeddings, question: Question, step: int) -> ThenNow:
    """A decoder's answer at a step, with the changes since the start."""
    judged = question.qrels.digest if question.qrels is not None else ""
    key = ("then and now", history.key, decoder.label, query.digest, judged, question.k, step)

    def make() -> ThenNow:
        return then_and_now(history.space, history.space_at(step), [decoder], query, question.k, question.qrels)[0]

    return remembered("drift.answers", key, make, ENTRIES)


def _pair(history: DriftHistory, decoder: Decoder, then: ThenNow, now: ThenNow, step: int) -> None:
    title, spec = decoders.title(decoder), decoder.select.spec
    key = f"drift.set.{spec.name}"
    left, right = pair(f"drift-pair-{spec.name}")
    with left:
        method_heading(spec, f"{title} at the start")
        set_table(f"{key}.then", then.rows, None, WIDTH, RELEVANCE)
    with right:
        method_heading(spec, f"{title} {history.describe(step)}")
        set_table(f"{key}.now", now.rows, now.dropped, WIDTH, RELEVANCE)
    figures = now.card
    parts = ["The same answer, in the same order." if now.same else f"Overlap {figures.overlap:.0%}."]
    if figures.recall is not None:
        parts.append(f"Recall {figures.recall:.3f} ({figures.recall_delta:+.3f}).")
    if figures.ilad is not None and figures.ilad_delta is not None:
        parts.append(f"ILAD in the space of the start {figures.ilad:.3f} ({figures.ilad_delta:+.3f}).")
    st.caption(" ".join(parts))
