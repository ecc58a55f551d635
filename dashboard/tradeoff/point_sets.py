"""Set of the open setting for the current query, beside the chart."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import streamlit as st

from dashboard.charts.figure import read_column
from dashboard.charts.frontier import format_means
from dashboard.charts.palette import method_look
from dashboard.components import vendor
from dashboard.components.live_plot import is_available, is_dark
from dashboard.services import jobs, passage_queries
from dashboard.services.source import Loaded
from dashboard.services.sweeps import Sweep
from dashboard.session.answers import as_embeddings, build_slider_requests, compute_scores
from dashboard.session.query import LABELLED, TYPED, Question, has_large_sets, query_key, select_query
from dashboard.tradeoff import selection
from dashboard.tradeoff.selection import OpenSetting
from dashboard.tradeoff.verdict import use_in_explore
from dashboard.widgets.basics import show_failure
from dashboard.widgets.common import draw_method_heading
from dashboard.widgets.tables import name_metric
from engine.decoder import Decoder, decode, select_from
from engine.errors import FrontierError
from engine.evaluation.curve import Curve
from engine.evaluation.frontier import TIME_AXIS, Frontier
from engine.evaluation.metrics import available_metrics, measure
from engine.evaluation.paired import QueryDifference
from engine.evaluation.runs import RankedRun
from engine.evaluation.statistics import MIN_CONSTANT_QUERIES
from engine.progress import shorten
from engine.values import Ranking, replace_surrogates
from engine.views.decision import Relevance, relevance
from engine.views.slider import has_slider, pack_ranking
from engine.wording import decimal, signed

READ_KEY = "tradeoff.read"
"""Session key of the row index of the open document."""
MAX_TEXT_LENGTH, MAX_QUERY_LENGTH = 600, 120


def draw_sets(
    loaded: Loaded,
    question: Question | None,
    sweep: Sweep,
    curves: Frontier,
    opened: OpenSetting,
    curve: Curve | None,
    order: tuple[QueryDifference, ...],
    has_use: bool = True,
) -> None:
    """Draw the open setting: its mean figures, and the documents it retrieves for the current query.

    curve: the exact one that contains the setting, along which it can be dragged; order: queries from the
    largest win to the largest loss; has_use: draw the button that uses the setting in Explore
    """
    with st.container(horizontal=True, vertical_alignment="top"):
        _draw_heading(opened, curves)
        if opened.decoder is not None and has_use:
            st.button("Use this one", key="tradeoff.use.opened", on_click=use_in_explore, args=(opened.decoder,))
    if question is None:
        st.caption("Type a query to see what this setting retrieves.")
    else:
        if order:
            _draw_steps(loaded, sweep, question, order, curves)
        _draw_query(loaded, question, sweep, curves, opened, curve)


def _draw_heading(opened: OpenSetting, curves: Frontier) -> None:
    """Draw the open setting's name and its means; while its dot is dragged, the browser rewrites both."""
    intervals = []
    for metric, (low, high) in ((curves.y, opened.y_ends), (curves.x, opened.x_ends)):
        # Equal values of a few queries have no interval, and a time is one number.
        if curves.queries < MIN_CONSTANT_QUERIES and metric != TIME_AXIS and (low is None or low == high):
            intervals.append(" (too few queries for an interval)")
        else:
            intervals.append("" if low is None or high is None else f" (95% CI {decimal(low)} to {decimal(high)})")
    means = format_means(curves, opened.x, opened.y, *intervals)
    if is_available():
        heading = {"look": method_look(*opened.style_name), "setting": opened.name, "means": means, "dark": is_dark()}
        vendor.draw_view("setting", "tradeoff.heading", heading, {})
    else:
        with st.container():
            draw_method_heading(opened.style_name[0], opened.name)
            st.caption(means)


def _draw_steps(
    loaded: Loaded, sweep: Sweep, question: Question, order: tuple[QueryDifference, ...], curves: Frontier
) -> None:
    """Draw the query's rank between win and loss, and buttons to its neighbours and to both ends.

    order: queries from the setting's largest win over the baseline to its largest loss
    """
    query_ids = read_column(order, "query")
    rank, last_rank = query_ids.index(question.id) if question.id in query_ids else None, len(order) - 1
    previous_rank, next_rank = (None, None) if rank is None else (rank - 1, rank + 1)
    # Key of a button → its label, and the rank of the query that it goes to.
    buttons = {"most": ("Biggest win", 0), "before": ("⟨", previous_rank), "after": ("⟩", next_rank)}
    buttons["least"] = ("Biggest loss", last_rank)
    with st.container(horizontal=True, vertical_alignment="center", gap="xxsmall"):
        for step_name, (label, target_rank) in buttons.items():
            is_enabled = target_rank is not None and 0 <= target_rank <= last_rank and target_rank != rank
            # A button that is disabled needs no query.
            arguments = (loaded, sweep.split, query_ids[target_rank] if is_enabled and target_rank is not None else "")
            st.button(label, key=f"tradeoff.{step_name}", on_click=ask, args=arguments, disabled=not is_enabled)
        if rank is not None:
            st.caption(f"{rank + 1} of {len(order)} · {name_metric(curves.y)} {signed(order[rank].difference)}")


def ask(loaded: Loaded, split: str, query_id: str) -> None:
    """Make a labelled query the current one of the browser session, on all pages; for a callback."""
    if passage_queries.has_passages(loaded):
        # They stand in for labelled queries on this page alone: the other pages can ask their words.
        queries = loaded.dataset.queries
        failure = select_query(loaded, TYPED, None, queries.texts[queries.position[query_id]])
    else:
        failure = select_query(loaded, LABELLED, split, query_id)
    if failure is None:
        st.session_state[selection.REDRAW_KEY] = True


def _draw_query(
    loaded: Loaded, question: Question, sweep: Sweep, curves: Frontier, opened: OpenSetting, curve: Curve | None
) -> None:
    """Draw the documents that the open setting retrieves for the query, compared with the baseline's.

    On a curve, the browser is given the sets at all positions of the dot, so that they follow a drag.
    """
    space = loaded.space
    query_vectors = as_embeddings(loaded, question)
    try:
        ranking, seen = _compute_set(loaded, question, opened.system, sweep.k)
    except FrontierError as error:
        show_failure("This query has no answer at this setting.", error)
        return
    with jobs.limit_page_computations():
        baseline = decode(sweep.baseline, space, query_vectors, k=sweep.k)
        known_qrels = question.qrels if question.is_judged else None
        aspects = loaded.dataset.aspects if (loaded.dataset.aspects or {}).get(question.id) else None
        available = available_metrics(known_qrels, aspects, query_vectors, sweep.source)
        metrics = [metric for metric in curves.metrics if metric in available]
        rules: dict[str, Any] = {"source": sweep.source, "without_self": sweep.baseline.without_self}
        rules["duplicate_threshold"] = sweep.duplicate_threshold
        measured = measure(ranking, space, query_vectors, known_qrels, sweep.k, metrics, aspects, **rules).per_query
        values = {metric: measured[metric].get(question.id) for metric in metrics}
    value_texts = [f"{name_metric(metric)} {decimal(value)}" for metric, value in values.items() if value is not None]
    relevant_ids, decoder = question.relevant_ids, opened.decoder
    options: dict[str, Any] = {"relevant": relevant_ids, "scores": None if seen is None else seen.score}
    slider_param, offer_url = curve.declared if curve is not None else None, None
    # Along a curve the browser asks once, at this URL, for the sets at all values of its parameter.
    if decoder and has_slider(slider_param):
        # The last request is the one for the whole slider.
        digest, request = list(build_slider_requests(loaded, question, decoder, slider_param, **options).items())[-1]
        offer_url = vendor.serve_answer(digest, request)
    st.text(shorten(question.text, MAX_QUERY_LENGTH))
    # What the browser's script "along" draws: both sets, or the sets along the curve, which it fetches at `url`.
    data = {
        "query": query_key(loaded, question),
        "opened": st.session_state.get(READ_KEY),
        "along": {
            "k": sweep.k,
            "judged": len(relevant_ids) if known_qrels is not None else 0,
            "now": pack_ranking(space, question.vector, ranking, **options),
            "base": pack_ranking(space, question.vector, baseline, **options),
            "said": f"This query: {' · '.join(value_texts)}",
            "url": offer_url,
            "decoder": method_look(*opened.style_name)
            | {"key": opened.style_name[0], "baseline": decoder == sweep.baseline},
        },
    }
    vendor.draw_view("along", "tradeoff.set", data, {"opened": partial(_open_document, len(space))})
    if (row := st.session_state.get(READ_KEY)) is not None and row < len(space):
        corpus = space.corpus
        # Ids, titles and texts may be equal: each is shown once.
        text = " ".join(dict.fromkeys(filter(None, [corpus.ids[row], corpus.titles[row], corpus.texts[row]])))
        st.text(shorten(replace_surrogates(text), MAX_TEXT_LENGTH))


def _compute_set(
    loaded: Loaded, question: Question, system: Decoder | RankedRun, k: int
) -> tuple[Ranking, Relevance | None]:
    """Return the documents that a system retrieves for a query, and the relevance that its selector saw.

    The relevance is None for a run of another system. Raises FrontierError.
    """
    if isinstance(system, RankedRun):
        return system.build_ranking(loaded.space, [question.id], k), None
    # Scores are cached for the browser session, so other settings of the decoder are quick.
    candidates, _ = compute_scores(loaded, question, system)
    with jobs.limit_page_computations(is_long=has_large_sets(k)):
        return select_from(system.select, candidates, k), relevance(system.select, candidates)


def _open_document(n_documents: int, message: Mapping[str, Any]) -> None:
    """Open the text of a clicked document below the list, or close it if it has no row; for a callback."""
    row_index = message["row"]
    st.session_state[READ_KEY] = row_index if row_index in range(n_documents) else None
