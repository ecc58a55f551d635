"""Beside the chart, below the table: what the open setting retrieves for the query at hand."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import streamlit as st

from dashboard.charts.palette import method_look
from dashboard.components import vendor
from dashboard.services import jobs
from dashboard.services.source import Loaded
from dashboard.services.sweeps import Sweep
from dashboard.session.answers import as_embeddings, build_slider_requests, compute_scores
from dashboard.session.query import LABELLED, Question, query_key, select
from dashboard.tradeoff import selection
from dashboard.tradeoff.selection import Opened
from dashboard.tradeoff.verdict import to_explore
from dashboard.widgets.basics import show_failure
from dashboard.widgets.common import draw_method_heading
from engine.decoder import Decoder, decode, select_from
from engine.errors import FrontierError
from engine.evaluation.curve import Curve
from engine.evaluation.frontier import TIME_AXIS, Frontier
from engine.evaluation.metrics import available_metrics, measure, title_of
from engine.evaluation.paired import QueryDifference
from engine.evaluation.runs import RankedRun
from engine.progress import shorten
from engine.values import Ranking, replace_surrogates
from engine.views.decision import Relevance, relevance
from engine.views.slider import has_slider, packed_ranking
from engine.wording import decimal, signed

READ = "tradeoff.read"
"""The row of the document whose text is shown."""
MOST_TEXT, MOST_ASKED = 600, 120


def show(
    loaded: Loaded,
    question: Question | None,
    sweep: Sweep,
    curves: Frontier,
    opened: Opened,
    curve: Curve | None,
    order: tuple[QueryDifference, ...],
) -> None:
    """The set, its figures, and the way to other queries.

    curve: on which the setting lies; order: queries from the largest win to the largest loss.
    """
    with st.container(horizontal=True, vertical_alignment="center"):
        draw_method_heading(opened.look[0], opened.name)
        if opened.decoder is not None:
            st.button("Use in Explore", key="tradeoff.use.opened", on_click=to_explore, args=(opened.decoder,))
    if sweep.is_stored:
        parts = []
        for axis, value, (low, high) in ((curves.y, opened.y, opened.y_ends), (curves.x, opened.x, opened.x_ends)):
            ends = "" if low is None or high is None else f" (95% CI {decimal(low)} to {decimal(high)})"
            parts.append(
                f"{value:.2g} ms a query"
                if axis == TIME_AXIS
                else f"{title_of(axis)}@{curves.k} {decimal(value)}{ends}"
            )
        st.caption(f"Mean of {curves.queries:,} queries: {' · '.join(parts)}")
    if question is None:
        st.caption("Type a query to see what this setting retrieves.")
    else:
        if order:
            _walk(loaded, sweep, question, order, curves)
        _for_query(loaded, question, sweep, curves, opened, curve)


def _walk(
    loaded: Loaded, sweep: Sweep, question: Question, order: tuple[QueryDifference, ...], curves: Frontier
) -> None:
    """The query's place among wins and losses, and steps to its neighbours, the largest win and the largest loss."""
    ids = [row.query for row in order]
    at = ids.index(question.id) if question.id in ids else None
    with st.container(horizontal=True, vertical_alignment="center", gap="xxsmall"):
        last, before, after = len(ids) - 1, None if at is None else at - 1, None if at is None else at + 1
        for label, name, to in (
            ("Biggest win", "most", 0),
            ("⟨", "before", before),
            ("⟩", "after", after),
            ("Biggest loss", "least", last),
        ):
            there = to is not None and 0 <= to <= last and to != at
            query = ids[to] if there and to is not None else ""
            arguments = (loaded, sweep.split, query)
            st.button(label, key=f"tradeoff.{name}", on_click=ask, args=arguments, disabled=not there)
        if at is not None:
            st.caption(f"{at + 1} of {len(ids)} · {title_of(curves.y)} {signed(order[at].difference)}")


def ask(loaded: Loaded, split: str, query: str) -> None:
    """Make a query the session's; for a callback."""
    if select(loaded, LABELLED, split, query) is None:
        st.session_state[selection.ANEW] = True


def _for_query(
    loaded: Loaded, question: Question, sweep: Sweep, curves: Frontier, opened: Opened, curve: Curve | None
) -> None:
    """Draw the set for a query and its figures; both follow a drag along the curve."""
    space = loaded.space
    query = as_embeddings(loaded, question)
    try:
        ranking, saw = _answer(loaded, question, opened.system, sweep.k)
    except FrontierError as error:
        show_failure("This query has no answer at this setting.", error)
        return
    with jobs.page_turn():
        baseline = decode(sweep.baseline, space, query, k=sweep.k)
        judged = question.qrels if question.is_judged else None
        aspects = loaded.dataset.aspects if (loaded.dataset.aspects or {}).get(question.id) else None
        metrics = [m for m in curves.metrics if m in available_metrics(judged, aspects, query)]
        measured = measure(ranking, space, query, judged, sweep.k, metrics, aspects).per_query
        values = {m: measured[m].get(question.id) for m in metrics}
    said = [f"{title_of(m)} {decimal(value)}" for m, value in values.items() if value is not None]
    right, decoder = question.relevant_ids, opened.decoder
    more: dict[str, Any] = {"relevant": right, "scores": None if saw is None else saw.score}
    along, url = curve.declared if curve is not None else None, None
    if decoder and has_slider(along):
        digest, request = list(build_slider_requests(loaded, question, decoder, along, **more).items())[-1]
        url = vendor.offer(digest, request)
    st.text(shorten(question.text, MOST_ASKED))
    data = {
        "query": query_key(loaded, question),
        "opened": st.session_state.get(READ),
        "along": {
            "k": sweep.k,
            "judged": len(right) if judged is not None else 0,
            "now": packed_ranking(space, question.vector, ranking, **more),
            "base": packed_ranking(space, question.vector, baseline, **more),
            "said": f"This query: {' · '.join(said)}",
            "url": url,
            "decoder": method_look(*opened.look) | {"key": opened.look[0], "baseline": decoder == sweep.baseline},
        },
    }
    vendor.view("along", "tradeoff.set", data, {"opened": partial(_read, len(space))})
    if (row := st.session_state.get(READ)) is not None and row < len(space):
        corpus = space.corpus
        text = " ".join(dict.fromkeys(filter(None, [corpus.ids[row], corpus.titles[row], corpus.texts[row]])))
        st.text(shorten(replace_surrogates(text), MOST_TEXT))


def _answer(
    loaded: Loaded, question: Question, system: Decoder | RankedRun, k: int
) -> tuple[Ranking, Relevance | None]:
    """The set of a query, and the relevance that its selector saw. Raises FrontierError."""
    if isinstance(system, RankedRun):
        return system.build_ranking(loaded.space, [question.id], k), None
    candidates, _ = compute_scores(loaded, question, system)
    with jobs.page_turn():
        return select_from(system.select, candidates, k), relevance(system.select, candidates)


def _read(documents: int, told: Mapping[str, Any]) -> None:
    """Open a document below the list, or close it; for a callback."""
    row = told["row"]
    st.session_state[READ] = row if row in range(documents) else None
