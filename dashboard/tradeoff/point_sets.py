"""The set behind a point of the chart, for the chosen query: what it holds, what it cost, and on to Explore with it."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st

from dashboard import jobs
from dashboard.explore import setting
from dashboard.explore.answers import query_of, scores_of
from dashboard.explore.question import Asked
from dashboard.explore.ranked import set_table
from dashboard.parts import method_heading
from dashboard.state import Loaded
from dashboard.tradeoff import memory
from dashboard.tradeoff.cells import Sweep
from engine.decoder import Decoder, choose, decode
from engine.errors import FrontierError
from engine.evaluation.frontier import Frontier, FrontierPoint
from engine.evaluation.metrics import METRICS, available, measure
from engine.views import Row, diff, relevance

NAME_WIDTH = 150
MOST_TEXT, MOST_ASKED = 600, 120


def show(loaded: Loaded, asked: Asked | None, sweep: Sweep, curves: Frontier, opened: str, clicked: bool) -> None:
    """The right third of the page."""
    point = next(p for p in curves.points if p.point.label == opened)
    decoder = next(d for d in sweep.decoders if d.label == opened)
    _heading(point, decoder)
    if not clicked:
        st.caption("Click a point of the chart: its sets appear here.")
    if asked is None:
        st.caption("Ask something in the sidebar to see what this setting retrieves.")
        _figures(curves, point, {}, sweep.kept)
    else:
        _for_query(loaded, asked, sweep, curves, point, decoder)
    st.button("Set Explore to this", icon=":material/compare_arrows:", on_click=_to_explore, args=(decoder,))


def _to_explore(decoder: Decoder) -> None:
    setting.apply(decoder)
    st.session_state[memory.LEAVE] = st.session_state[memory.ANEW] = True


def _heading(point: FrontierPoint, decoder: Decoder) -> None:
    spec = decoder.select.spec
    method_heading(spec, setting.title(decoder))
    values = [f"{p.symbol} = {p.text(getattr(decoder.select, p.name))}" for p in spec.params if not p.advanced]
    values += [f"pool {decoder.depth}"] if decoder.depth else []
    values += [setting.said(decoder)] if not setting.plain(decoder) else []
    state = "dominated by another point" if point.dominated else "not dominated"
    st.caption(" · ".join([*values, state]))


def _for_query(
    loaded: Loaded, asked: Asked, sweep: Sweep, curves: Frontier, point: FrontierPoint, decoder: Decoder
) -> None:
    space = loaded.space
    query = query_of(loaded, asked)
    try:
        found, _ = scores_of(loaded, asked, decoder)
    except FrontierError as error:
        st.error("This query has no answer at this setting.", icon=":material/error:")
        st.text(str(error))
        return
    with jobs.turn():
        ranking = choose(decoder.select, found, sweep.k)
        baseline = decode(sweep.baseline, space, query, k=sweep.k)
        saw = relevance(decoder.select, found)
        judged = asked.qrels if asked.judged else None
        aspects = loaded.dataset.aspects if (loaded.dataset.aspects or {}).get(asked.id) else None
        wanted = [m for m in (curves.x, curves.y) if m in available(judged, aspects, query)]
        measured = measure(ranking, space, query, judged, sweep.k, wanted, aspects).per_query
        own = {m: measured[m].get(asked.id) for m in wanted}
        kept, dropped = diff(space, asked.vector, asked.id, ranking, baseline, asked.qrels, saw)
    _figures(curves, point, own, sweep.kept)
    st.text(asked.text if len(asked.text) <= MOST_ASKED else asked.text[: MOST_ASKED - 1] + "…")
    by = "Inner product with the query" if saw is None else f"By {setting.scorer_of(decoder).spec.title}"
    _table(kept, dropped, decoder != sweep.baseline, by)


def _figures(curves: Frontier, point: FrontierPoint, own: dict[str, float | None], labelled: bool) -> None:
    """Both metrics, for this query and over the labelled ones."""
    rows = []
    for metric, mean, low, high in (
        (curves.y, point.y, point.y_low, point.y_high),
        (curves.x, point.x, point.x_low, point.x_high),
    ):
        row = {"": f"{METRICS[metric].title}@{curves.k}", "This query": own.get(metric)}
        if labelled:
            row["All"] = mean
            row["95 %"] = "" if low is None else f"{low:.3f}–{high:.3f}"
        rows.append(row)
    number = partial(st.column_config.NumberColumn, format="%.3f")
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        row_height=30,
        placeholder="–",
        key="tradeoff.figures",
        column_config={
            "": st.column_config.TextColumn(width=84),
            "This query": number(width=76),
            "All": number(width=56, help="The mean over the labelled queries"),
            "95 %": st.column_config.TextColumn(width=96, help="The interval of that mean"),
        },
    )


def _table(kept: list[Row], dropped: list[Row], compared: bool, by: str) -> None:
    """The set, and below what it dropped of the baseline's; a click shows a document's text."""
    rows = [*kept, *(dropped if compared else [])]
    event = set_table("tradeoff.set", rows, len(kept), compared, NAME_WIDTH, by)
    cells = event.selection.cells
    if cells and cells[0][0] < len(rows):
        row = rows[cells[0][0]]
        text = " ".join(filter(None, [row.id, row.title if row.title != row.id else "", row.text]))
        st.text(text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…")
