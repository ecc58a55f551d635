"""Explore before any query: what a corpus looks like, searches to begin with, and where to go from there."""

from collections.abc import Callable

import streamlit as st

from dashboard.explore import checkup, map_view
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.query import SIMILAR, find_max_k, list_ways
from dashboard.session.view_names import CHECK_UP, MAP
from dashboard.widgets import duplicates, next_steps, suggestions
from dashboard.widgets.choices import choose
from engine.decoder import SET_SIZE
from engine.progress import counted

VIEW_KEY, NEAR_DUPLICATES = "first.view", "Near-duplicates"
N_SHOWN_GROUPS = 8
INVITATION = "Type a query to compare what each decoder returns."


def draw_first_view(loaded: Loaded) -> None:
    """Draw what needs no query: suggested searches, the map, near-duplicates, the check-up, and what to do next.

    Of a corpus in a vector engine, whose documents are not here, only the searches are drawn.
    """
    # A corpus may have queries here too, while a person is about to type one.
    n_queries = len(loaded.dataset.queries)
    queries_text = counted(n_queries, "query", "queries") if n_queries else "no queries yet"
    st.text(f"{counted(loaded.size, 'document')}, {queries_text}. {INVITATION}")
    suggestions.draw_suggestions(loaded, "explore")
    # The other views compare documents with each other.
    if loaded.reach is not None:
        return
    views: dict[str, Callable[[Loaded], None]] = {
        MAP: map_view.draw_corpus_map,
        NEAR_DUPLICATES: _draw_duplicates,
        CHECK_UP: _draw_check_up,
    }
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        view = choose("View", views, VIEW_KEY)
        next_steps.draw_next_steps(loaded, "explore")
    # That view has the sentence itself.
    if view != NEAR_DUPLICATES:
        duplicates.draw_headline(loaded)
    views[view](loaded)


def draw_beginnings(loaded: Loaded) -> None:
    """Draw suggested searches and the near-duplicates in a sentence, where a document is always the query.

    A corpus with vectors of its own and no queries has no view before a query; the map is a view of the results.
    """
    if loaded.reach is None and list_ways(loaded) == [SIMILAR]:
        suggestions.draw_suggestions(loaded, "explore")
        duplicates.draw_headline(loaded)


def _draw_duplicates(loaded: Loaded) -> None:
    """Draw the groups of near-duplicates, and buttons that leave them out."""
    duplicates.draw_duplicates(loaded, N_SHOWN_GROUPS)


def _draw_check_up(loaded: Loaded) -> None:
    """Draw how much the first results of many queries, or of documents as queries, repeat each other."""
    k = min(st.session_state.get(decoders.K_KEY, SET_SIZE.default), find_max_k(loaded))
    checkup.draw_queries(loaded, k, decoders.get_pool_depth())
