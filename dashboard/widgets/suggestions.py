"""Suggested searches as buttons: a click runs the search."""

import streamlit as st

from dashboard.services.memo import get_or_compute
from dashboard.services.source import Loaded
from dashboard.session.query import SIMILAR, TYPED, find_open_text, list_ways, select_query
from dashboard.widgets.common import as_label
from engine.values import replace_surrogates
from engine.views.suggestions import MAX_SUGGESTION_LENGTH, N_SUGGESTIONS, Suggestion, suggest_searches

CHIPS_CSS = """<style>
[class*=st-key-suggestions] [data-testid=stButton] button {border-radius: 1rem; min-height: 2rem; padding-block: 0}
</style>"""


def draw_suggestions(loaded: Loaded, key: str, max_shown: int = N_SUGGESTIONS) -> bool:
    """Draw a button for each suggested search of a corpus; return True if one was just clicked.

    The click has made it the query of the session, as typed words, or, without an encoder, as the document that it
    comes from. key: tells these buttons from those of another page; max_shown: buttons at most
    """
    suggestions = list_suggestions(loaded)[:max_shown]
    if not suggestions:
        return False
    # All buttons are drawn, also behind the one that was clicked.
    clicks = []
    st.html(CHIPS_CSS)
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key=f"suggestions.{key}"):
        st.text("Try", width="content")
        for suggestion in suggestions:
            button_key = f"suggestions.{key}.{suggestion.row}"
            clicks.append(
                st.button(as_label(suggestion.text), key=button_key, on_click=run_search, args=(loaded, suggestion))
            )
    return any(clicks)


def list_suggestions(loaded: Loaded) -> tuple[Suggestion, ...]:
    """Return the suggested searches of a corpus: texts of its queries, else of its documents, computed once a session.

    The query that was open last is not among them.
    """
    # Words of a document find that document, which shows nothing; a query's words were not taken from one.
    if TYPED in list_ways(loaded) and (query_suggestions := _suggest_queries(loaded)):
        return query_suggestions
    # Votes move documents by little, so those of the corpus as embedded stay good.
    space = loaded.origin.space
    key = (space.embeddings.digest, space.corpus.digest)
    return get_or_compute("suggestions", key, lambda: suggest_searches(space), max_entries=6)


def _suggest_queries(loaded: Loaded) -> tuple[Suggestion, ...]:
    """Return short texts of the corpus's queries, spread over their file; their positions stand for rows."""
    queries, open_text = loaded.dataset.queries, find_open_text(loaded)
    short: dict[str, Suggestion] = {}
    for position, text in enumerate(queries.texts):
        if text != open_text and 0 < len(text.strip()) <= MAX_SUGGESTION_LENGTH:
            short.setdefault(text.casefold(), Suggestion(position, text))
    candidates = list(short.values())
    return tuple(candidates[:: max(1, len(candidates) // N_SUGGESTIONS)][:N_SUGGESTIONS])


def run_search(loaded: Loaded, suggestion: Suggestion) -> None:
    """Make a suggestion the query of the session; for a callback, which comes before the query's widgets."""
    if TYPED in list_ways(loaded):
        select_query(loaded, TYPED, None, suggestion.text)
    else:
        select_query(loaded, SIMILAR, None, replace_surrogates(loaded.space.corpus.ids[suggestion.row]))
