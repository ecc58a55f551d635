"""Documents that moved most, queries whose answers changed most, and the session's question then and now."""

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from dashboard.drift import form
from dashboard.drift.history import MEMORY, DriftHistory, step_of
from dashboard.services.memo import get_or_compute
from dashboard.services.source import Loaded
from dashboard.session import decoders, query
from dashboard.session.answers import as_embeddings
from dashboard.session.query import Question
from dashboard.widgets.basics import show_failure
from dashboard.widgets.common import draw_method_heading
from dashboard.widgets.tables import CLICKABLE, draw_columns, draw_set, find_click, number_column, pair, text_column
from engine.decoder import Decoder
from engine.errors import FrontierError
from engine.progress import shorten
from engine.values import Embeddings
from engine.views.drift import ChangedQuery, Moved, ThenNow, changed, movers, then_and_now
from engine.wording import decimal, percent, signed, visible

READ, POSED = "drift.read", "drift.posed"
"""Where a session keeps the document that is read, and that the session's question was just set."""
WIDTH = 215
"""Of the column of documents, with two tables beside each other."""


def show(history: DriftHistory) -> None:
    """Two tables, and the text of the document or query that was clicked."""
    with st.container(width=520):
        step = step_of(history)
    drift = history.drift_at(step)
    left, right = pair("drift-movers")
    with left:
        rows = None if drift is None else movers(drift, history.space, history.vectors(step))
        documents_table(f"drift.movers.{history.key[:12]}.{step}", rows)
        if rows is not None:
            st.caption("Distance: beyond the shift common to all. Click a row to read the document.")
    with right:

        def rows_at() -> Sequence[ChangedQuery]:
            return changed(history.origin, history.vectors(step), history.queries)

        rows_of = partial(get_or_compute, MEMORY, ("changed", history.key, step), rows_at)
        queries_table(history, f"drift.changed.{history.key[:12]}.{step}", rows_of)


def documents_table(key: str, rows: Sequence[Moved] | None) -> None:
    """Documents with how far they moved, None where that is not known; the one clicked is read below."""
    st.markdown("**Documents that moved most**")
    if rows is None:
        st.caption("This moment is not measured yet.")
        return
    if not rows:
        st.caption("Nothing has moved.")
        return
    event = draw_columns(
        {
            "Document": ([row.title or row.id for row in rows], text_column(150)),
            "Text": ([row.text[:200] for row in rows], text_column(210)),
            "Distance": ([row.distance for row in rows], number_column("%.3f", 72)),
            "Length": ([r.length for r in rows], number_column("%.3f", 64, "Of its vector now; 1 at the start")),
        },
        key=key,
        max_rows=len(rows),
        **CLICKABLE,
    )
    index = find_click(key, event, len(rows))
    if index is not None:
        st.session_state[READ] = rows[index].row, key
    row, table_key = st.session_state.get(READ, (None, None))
    document = next((moved for moved in rows if table_key == key and moved.row == row), None)
    if document is not None:
        with st.container(border=True, height=150, gap="xxsmall"):
            name = document.id if document.title in ("", document.id) else f"{document.title} · {document.id}"
            st.text(visible(name))
            st.text(document.text[:20_000] or "(no text)")


def queries_table(
    history: DriftHistory, key: str, rows_of: Callable[[], Sequence[ChangedQuery]], when: str = ""
) -> None:
    """Queries with how much of their answer is kept; the one clicked becomes the session's.

    rows_of: makes the rows, where queries are followed; when: between which moments
    """
    st.markdown("**Queries whose results changed most**")
    if history.queries is None:
        st.caption("No probe queries yet.")
        return
    rows, caption = rows_of(), f"Of {len(history.queries):,} probe queries{when}."
    if not rows:
        st.caption(f"{caption} No results changed.")
        return
    kept = number_column("percent", 64, "Of its first ten documents at the start")
    draw_columns(
        {
            "Query": ([(row.text or row.id)[:200] for row in rows], text_column(380)),
            "Kept": ([row.overlap for row in rows], kept),
        },
        key=key,
        max_rows=10,
        on_select=partial(_ask, history.loaded, key, tuple(rows)),
        selection_mode="single-cell",
    )
    st.caption(f"{caption} Click one to make it the query.")
    if st.session_state.pop(POSED, False):
        st.rerun()  # the query's controls are outside of this fragment


def _ask(loaded: Loaded, key: str, rows: Sequence[ChangedQuery]) -> None:
    """Make the query that was clicked the session's."""
    index = find_click(key, st.session_state[key], len(rows))
    if index is None:
        return
    dataset, ident = loaded.dataset, rows[index].id
    split = next((name for name in dataset.qrels if ident in dataset.judged(name).position), None)
    if split is not None:
        query.select(loaded, query.LABELLED, split, ident)
    elif ident in dataset.corpus.position:
        query.select(loaded, query.SIMILAR, None, ident)
    st.session_state[POSED] = True


def show_results(history: DriftHistory, question: Question | None) -> None:
    """A table for each decoder: what changed in its set since the start."""
    if question is None:
        st.info("Pick a query to see how its results changed.")
        return
    with st.container(width=520):
        step = step_of(history)
    st.text(shorten(question.text, 300))
    query, chosen = as_embeddings(history.loaded, question), form.chosen_decoders()
    for number, decoder in enumerate(chosen):
        if number % 2 == 0:
            places = pair(f"drift-pair-{decoder.select.spec.name}")
        try:
            decoders.check_decoder(decoder, history.space)
            with st.spinner(f"Decoding with {decoders.format_title(decoder)}"):
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

    return get_or_compute("drift.answers", key, make, 64)


def _changes(history: DriftHistory, decoder: Decoder, now: ThenNow, step: int) -> None:
    """The documents that came, went or changed places, and what that did to the metrics."""
    spec, figures = decoder.select.spec, now.card
    draw_method_heading(spec.name, f"{decoders.format_title(decoder)} {history.describe(step)}")
    changed = [row for row in now.rows if row.change != 0]
    if same := len(now.rows) - len(changed):
        st.caption(f"{same:,} unchanged")
    if changed or now.dropped:
        before = [now.before[row.row] for row in (*changed, *now.dropped)]
        then = {"Then": before}, {"Then": number_column("%.3f", 62, "Relevance at the start")}
        draw_set(f"drift.set.{spec.name}.now", changed, now.dropped, WIDTH, "Relevance now", then)
    parts = [] if now.same else [f"Overlap {percent(figures.overlap)}"]
    if figures.recall is not None and figures.recall_delta is not None:
        parts.append(f"Recall {decimal(figures.recall)} ({signed(figures.recall_delta)})")
    if figures.ilad is not None and figures.ilad_delta is not None:
        parts.append(f"ILAD, original vectors {decimal(figures.ilad)} ({signed(figures.ilad_delta)})")
    st.caption(" · ".join(parts))
