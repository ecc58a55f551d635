"""Documents that moved most, queries whose answers changed most, and the current query then and now."""

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from dashboard.drift import form
from dashboard.drift.history import DRIFT_MEMO, DriftHistory, draw_step
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
from engine.values import Corpus, Embeddings
from engine.views.drift import ChangedQuery, Moved, ThenNow, find_changed_queries, movers, then_and_now
from engine.views.names import format_heading
from engine.wording import decimal, percent, signed

READ_KEY, ASKED_KEY = "drift.read", "drift.posed"
"""Session keys: the open document, and that the session's query was just set."""
DOCUMENT_PX = 215
"""Width of the column of documents in two tables side by side."""


def draw_movers(history: DriftHistory) -> None:
    """Draw documents that moved most and probe queries whose results changed most, up to a chosen step.

    Probe queries are the sample of queries whose results are followed.
    """
    with st.container(width=520):
        step = draw_step(history)
    drift = history.drift_at(step)
    document_column, query_column = pair("drift-movers")
    with document_column:
        rows = None if drift is None else movers(drift, history.space, history.vectors(step))
        draw_documents(history.loaded.space.corpus, f"drift.movers.{history.key[:12]}.{step}", rows)
        if rows is not None:
            st.caption("Distance: beyond the shift common to all. Click a row to read the document.")
    with query_column:

        def find_changed() -> Sequence[ChangedQuery]:
            """Compare the probe queries' results at the step with those at the start."""
            return find_changed_queries(history.origin, history.vectors(step), history.queries)

        get_changed = partial(get_or_compute, DRIFT_MEMO, ("changed", history.key, step), find_changed)
        draw_queries(history, f"drift.changed.{history.key[:12]}.{step}", get_changed)


def draw_documents(corpus: Corpus, key: str, rows: Sequence[Moved] | None) -> None:
    """Draw a table of documents that feedback has moved, and the text of the clicked one below it.

    key: of the table; rows: the documents, None if this step is not measured yet
    """
    st.markdown("**Documents that moved most**")
    if rows is None:
        st.caption("This moment is not measured yet.")
        return
    if not rows:
        st.caption("Nothing has moved.")
        return
    event = draw_columns(
        {
            "Document": ([row.name for row in rows], text_column(150)),
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
        st.session_state[READ_KEY] = rows[index].row, key
    row, table_key = st.session_state.get(READ_KEY, (None, None))
    # The table that was clicked owns the open document.
    document = next((moved for moved in rows if table_key == key and moved.row == row), None)
    if document is not None:
        with st.container(border=True, height=150, gap="xxsmall"):
            st.text(format_heading(corpus, document.row))
            st.text(document.text[:20_000] or "(no text)")


def draw_queries(
    history: DriftHistory, key: str, get_rows: Callable[[], Sequence[ChangedQuery]], period: str = ""
) -> None:
    """Draw a table of queries by the share of their results that stayed; a click picks one.

    The clicked query becomes the current one on all pages. get_rows: makes the rows, called only if there are probe
    queries (the sample whose results are followed); key: of the table; period: words for the two moments
    """
    st.markdown("**Queries whose results changed most**")
    if history.queries is None:
        st.caption("No probe queries yet.")
        return
    rows, caption = get_rows(), f"Of {len(history.queries):,} probe queries{period}."
    if not rows:
        st.caption(f"{caption} No results changed.")
        return
    overlap_column = number_column("percent", 64, "Of its first ten documents at the start")
    draw_columns(
        {
            "Query": ([(row.text or row.id)[:200] for row in rows], text_column(380)),
            "Kept": ([row.overlap for row in rows], overlap_column),
        },
        key=key,
        max_rows=10,
        on_select=partial(_ask_query, history.loaded, key, tuple(rows)),
        selection_mode="single-cell",
    )
    if any(row.overlap == 1 for row in rows):
        caption += " Kept 100%: same documents, another order."
    st.caption(f"{caption} Click one to make it the query.")
    if st.session_state.pop(ASKED_KEY, False):
        st.rerun()  # the query's controls are outside of this fragment


def _ask_query(loaded: Loaded, key: str, rows: Sequence[ChangedQuery]) -> None:
    """Make the clicked query of a table the current one on all pages; for a callback.

    key: of the table
    """
    index = find_click(key, st.session_state[key], len(rows))
    if index is None:
        return
    dataset, query_id = loaded.dataset, rows[index].id
    split = next((name for name in dataset.qrels if query_id in dataset.judged(name).position), None)
    # Probes are labelled queries, or documents as their own queries.
    if split is not None:
        query.select_query(loaded, query.LABELLED, split, query_id)
    elif query_id in dataset.corpus.position:
        query.select_query(loaded, query.SIMILAR, None, query_id)
    st.session_state[ASKED_KEY] = True


def draw_results(history: DriftHistory, question: Question | None) -> None:
    """Draw for each decoder how its results for the current query have changed since the start."""
    if question is None:
        st.info("Pick a query to see how its results changed.")
        return
    with st.container(width=520):
        step = draw_step(history)
    st.text(shorten(question.text, 300))
    query, decoder_list = as_embeddings(history.loaded, question), form.list_decoders()
    for number, decoder in enumerate(decoder_list):
        if number % 2 == 0:
            columns = pair(f"drift-pair-{decoder.select.spec.name}")
        try:
            decoders.check_decoder(decoder, history.space)
            with st.spinner(f"Decoding with {decoders.format_title(decoder)}"):
                comparison = _compare_answers(history, decoder, query, question, step)
        except FrontierError as error:
            show_failure("No results at this setting.", error)
            continue
        with columns[number % 2]:
            _draw_changes(history, decoder, comparison, step)


def _compare_answers(
    history: DriftHistory, decoder: Decoder, query: Embeddings, question: Question, step: int
) -> ThenNow:
    """Compare a decoder's results for a query at a step with those at the start; cached."""
    qrels_digest = question.qrels.digest if question.qrels is not None else ""
    key = ("then and now", history.key, decoder.label, query.digest, qrels_digest, question.k, step)

    def compare() -> ThenNow:
        """Compare the decoder's results with the documents at the start and at the step."""
        # The same documents twice: with their vectors before feedback, and as feedback has moved them by the step.
        spaces = history.start_at(step), history.space_at(step)
        (comparison,) = then_and_now(*spaces, [decoder], query, question.k, question.qrels)
        return comparison

    return get_or_compute("drift.answers", key, compare, 64)


def _draw_changes(history: DriftHistory, decoder: Decoder, comparison: ThenNow, step: int) -> None:
    """Draw the documents that came into or left a decoder's results or changed ranks, and its metrics."""
    # `card`: the metrics at the step, each with its change since the start.
    spec, figures = decoder.select.spec, comparison.card
    draw_method_heading(spec.name, f"{decoders.format_title(decoder)} {history.describe(step)}")
    moved = [row for row in comparison.rows if row.change != 0]
    if n_unchanged := len(comparison.rows) - len(moved):
        st.caption(f"{n_unchanged:,} unchanged")
    if moved or comparison.dropped:
        relevance_before = [comparison.before[row.row] for row in (*moved, *comparison.dropped)]
        # The column "Then": its values, and its settings.
        past = {"Then": relevance_before}, {"Then": number_column("%.3f", 62, "Relevance at the start")}
        draw_set(f"drift.set.{spec.name}.now", moved, comparison.dropped, DOCUMENT_PX, "Relevance now", past)
    parts = [] if comparison.same else [f"Overlap {percent(figures.overlap)}"]
    if figures.recall is not None and figures.recall_delta is not None:
        parts.append(f"Recall {decimal(figures.recall)} ({signed(figures.recall_delta)})")
    if figures.ilad is not None and figures.ilad_delta is not None:
        parts.append(f"diversity (ILAD), original vectors {decimal(figures.ilad)} ({signed(figures.ilad_delta)})")
    st.caption(" · ".join(parts))
