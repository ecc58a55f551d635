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
from dashboard.widgets.ranked_lists import set_table
from dashboard.widgets.tables import number_column, pair
from engine.decoder import Decoder
from engine.errors import FrontierError
from engine.progress import shorten
from engine.values import Embeddings
from engine.views.drift import ThenNow, then_and_now
from engine.wording import decimal, percent, signed

ENTRIES = 64
"""Answers that a session keeps."""
WIDTH = 215
"""Of the column of documents, with two tables beside each other."""


def show(history: DriftHistory, question: Question | None) -> None:
    """A table for each decoder: what changed in its set since the start."""
    if question is None:
        st.info("Pick a query to see how its results changed.")
        return
    with st.container(width=520):
        step = step_of(history)
    st.text(shorten(question.text, 300))
    query, chosen = query_of(history.loaded, question), form.chosen_decoders()
    for number, decoder in enumerate(chosen):
        if number % 2 == 0:
            places = pair(f"drift-pair-{decoder.select.spec.name}")
        try:
            decoders.checked(decoder, history.space)
            with st.spinner(f"Decoding with {decoders.title(decoder)}"):
                now = _answer(history, decoder, query, question, step)
        except FrontierError as error:
            show_failure("No results at this setting.", error)
            continue
        with places[number % 2]:
            _changes(history, decoder, now, step)


def _answer(history: DriftHistory, decoder: Decoder, query: Embeddings, question: Question, step: int) -> ThenNow:
    """A decoder's answer at a step, with the changes since the start."""
    judged = question.qrels.digest if question.qrels is not None else ""
    key = ("then and now", history.key, decoder.label, query.digest, judged, question.k, step)

    def make() -> ThenNow:
        return then_and_now(
            history.start_at(step), history.space_at(step), [decoder], query, question.k, question.qrels
        )[0]

    return remembered("drift.answers", key, make, ENTRIES)


def _changes(history: DriftHistory, decoder: Decoder, now: ThenNow, step: int) -> None:
    """The documents that came, went or changed places, and what that did to the metrics."""
    spec, figures = decoder.select.spec, now.card
    method_heading(spec.name, f"{decoders.title(decoder)} {history.describe(step)}")
    changed = [row for row in now.rows if row.change != 0]
    if same := len(now.rows) - len(changed):
        st.caption(f"{same:,} unchanged")
    if changed or now.dropped:
        before = [now.before[row.row] for row in (*changed, *now.dropped)]
        then = {"Then": before}, {"Then": number_column("%.3f", 62, "Relevance at the start")}
        set_table(f"drift.set.{spec.name}.now", changed, now.dropped, WIDTH, "Relevance now", then)
    parts = [] if now.same else [f"Overlap {percent(figures.overlap)}"]
    if figures.recall is not None and figures.recall_delta is not None:
        parts.append(f"Recall {decimal(figures.recall)} ({signed(figures.recall_delta)})")
    if figures.ilad is not None and figures.ilad_delta is not None:
        parts.append(f"ILAD, original vectors {decimal(figures.ilad)} ({signed(figures.ilad_delta)})")
    st.caption(" · ".join(parts))
