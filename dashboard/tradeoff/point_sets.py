"""The retrieved set behind a point of the chart: documents, metrics, and the way to Explore."""

import streamlit as st

from dashboard.services import jobs
from dashboard.services.source import Loaded
from dashboard.services.sweeps import Sweep
from dashboard.session import decoders
from dashboard.session.answers import query_of, scores_of
from dashboard.session.query import Question
from dashboard.tradeoff import selection
from dashboard.widgets.common import method_heading
from dashboard.widgets.failure import show_failure
from dashboard.widgets.ranked_lists import set_table
from dashboard.widgets.tables import draw_columns, number_column, text_column
from engine.decoder import Decoder, decode, select_from
from engine.errors import FrontierError
from engine.evaluation.frontier import TIME, Frontier, FrontierPoint
from engine.evaluation.metrics import available, measure, title_of
from engine.progress import shorten
from engine.views import Row, diff, relevance

NAME_WIDTH = 150
MOST_TEXT, MOST_ASKED = 600, 120


def show(loaded: Loaded, question: Question | None, sweep: Sweep, curves: Frontier, opened: str, clicked: bool) -> None:
    """The right third of the page."""
    point = next(p for p in curves.points if p.point.label == opened)
    decoder = next(d for d in sweep.decoders if d.label == opened)
    _heading(point, decoder)
    if not clicked:
        st.caption("Click a point of the chart: its sets appear here.")
    if question is None:
        st.caption("Ask something in the sidebar to see what this setting retrieves.")
        _figures(curves, point, {}, sweep.stored)
    else:
        _for_query(loaded, question, sweep, curves, point, decoder)
    st.button("Set Explore to this", icon=":material/compare_arrows:", on_click=_to_explore, args=(decoder,))


def _to_explore(decoder: Decoder) -> None:
    decoders.apply(decoder)
    st.session_state[selection.LEAVE] = st.session_state[selection.ANEW] = True


def _heading(point: FrontierPoint, decoder: Decoder) -> None:
    spec = decoder.select.spec
    method_heading(spec, decoders.title(decoder))
    values = [f"{p.symbol} = {p.text(getattr(decoder.select, p.name))}" for p in spec.params if not p.advanced]
    values += [f"pool {decoder.depth}"] if decoder.depth else []
    values += [decoders.describe_scorers(decoder)] if not decoders.has_default_scorers(decoder) else []
    state = "dominated by another point" if point.dominated else "not dominated"
    st.caption(" · ".join([*values, state]))


def _for_query(
    loaded: Loaded, question: Question, sweep: Sweep, curves: Frontier, point: FrontierPoint, decoder: Decoder
) -> None:
    space = loaded.space
    query = query_of(loaded, question)
    try:
        candidates, _ = scores_of(loaded, question, decoder)
    except FrontierError as error:
        show_failure("This query has no answer at this setting.", error)
        return
    with jobs.turn():
        ranking = select_from(decoder.select, candidates, sweep.k)
        baseline = decode(sweep.baseline, space, query, k=sweep.k)
        saw = relevance(decoder.select, candidates)
        judged = question.qrels if question.judged else None
        aspects = loaded.dataset.aspects if (loaded.dataset.aspects or {}).get(question.id) else None
        metrics = [m for m in curves.metrics if m in available(judged, aspects, query)]
        measured = measure(ranking, space, query, judged, sweep.k, metrics, aspects).per_query
        values = {m: measured[m].get(question.id) for m in metrics}
        retrieved, dropped = diff(space, question.vector, question.id, ranking, baseline, question.qrels, saw)
    _figures(curves, point, values, sweep.stored)
    st.text(shorten(question.text, MOST_ASKED))
    by = "Inner product with the query" if saw is None else f"By {decoders.scorer_of(decoder).spec.title}"
    _table(retrieved, dropped if decoder != sweep.baseline else None, by)


def _figures(curves: Frontier, point: FrontierPoint, values: dict[str, float | None], labelled: bool) -> None:
    """Both axes, for this query and over the labelled ones."""
    axes = curves.y, curves.x
    columns = {
        "": (["ms a query" if a == TIME else f"{title_of(a)}@{curves.k}" for a in axes], text_column(84)),
        "This query": ([values.get(axis) for axis in axes], number_column("%.3f", 76)),
    }
    if labelled:
        ends = (point.y_low, point.y_high), (point.x_low, point.x_high)
        intervals = ["" if low is None else f"{low:.3f}–{high:.3f}" for low, high in ends]
        columns["All"] = [point.y, point.x], number_column("%.3f", 56, "Mean over the labelled queries; time: median")
        columns["95 %"] = intervals, text_column(96, "The interval of that mean")
    draw_columns(
        columns,
        key="tradeoff.figures",
        row_height=30,
        placeholder="–",
    )


def _table(retrieved: list[Row], dropped: list[Row] | None, by: str) -> None:
    """The set, and below what it dropped of the baseline's; a click shows a document's text."""
    event = set_table("tradeoff.set", retrieved, dropped, NAME_WIDTH, by)
    rows = [*retrieved, *(dropped or ())]
    cells = event.selection.cells if event is not None else ()
    if cells and cells[0][0] < len(rows):
        row = rows[cells[0][0]]
        text = " ".join(filter(None, [row.id, row.title if row.title != row.id else "", row.text]))
        st.text(shorten(text, MOST_TEXT))
