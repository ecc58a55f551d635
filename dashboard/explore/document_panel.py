"""The reading drawer: one document, and the reason why each decoder retrieved it or not."""

from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st

from dashboard.charts.palette import method_style
from dashboard.services.jobs import limit_page_computations
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.answers import Answer
from dashboard.session.query import Question
from dashboard.widgets import vote_buttons
from engine.progress import shorten
from engine.values import replace_surrogates
from engine.views.decision import Why, describe_reasons, explain_document, find_ranks
from engine.views.names import format_heading
from engine.wording import decimal, visible

PANEL_CSS = """<style>
.st-key-explore {--reading-width: clamp(20rem, 30vw, 27rem)}
.st-key-reading {
  position: fixed; z-index: 90; inset: 7.25rem 0 0 auto; width: var(--reading-width); overflow-y: auto;
  background: light-dark(#fff, #191916); box-shadow: -6px 0 18px rgba(0, 0, 0, .12);
}
.st-key-reading [data-testid=stText] {font-size: .875rem}
@media (min-width: 1024px) {.st-key-explore:has(.st-key-reading) {padding-right: var(--reading-width)}}
@media (max-width: 1023.9px) {
  .st-key-reading {inset: 55vh 0 0 0; width: 100vw}
  .st-key-explore:has(.st-key-reading) {padding-bottom: 45vh}
}
</style>"""
"""A drawer at the right, for which tiles and lists make room; on a narrow screen a sheet below them."""
MAX_CHARACTERS = 20_000
"""Largest number of characters of a document's text that is shown."""
PANEL_KEY = "reading"
SCORE_HELP = (
    "Score when picked: the decoder's own score of this document beside those picked before it. It differs from the "
    "relevance, which is the document's alone, and changes with the decoder's setting and set."
)


@dataclass(frozen=True)
class OpenDocument:
    """Document that is open in the reading panel, and the query for which it was opened."""

    corpus: str  # the digest
    query: str
    row: int
    source: str = ""  # name of the decoder in whose set it was clicked, "" for none


def open_document(loaded: Loaded, question: Question, row_index: int, source: str = "") -> None:
    """Open a document in the panel; source: the decoder in whose list it was clicked."""
    st.session_state[PANEL_KEY] = OpenDocument(loaded.space.corpus.digest, question.text, row_index, source)


def current_document(loaded: Loaded, question: Question) -> OpenDocument | None:
    """Return the open document if it was opened for this query on this corpus; else None."""
    document: OpenDocument | None = st.session_state.get(PANEL_KEY)
    if document is not None and (document.corpus, document.query) == (loaded.space.corpus.digest, question.text):
        return document
    return None


def close_panel() -> None:
    """Close the panel."""
    st.session_state.pop(PANEL_KEY, None)


def draw_panel(loaded: Loaded, question: Question, answers: Mapping[str, Answer]) -> None:
    """Draw the open document at the side: its text, votes, and why each decoder retrieved it or not.

    answers: decoder's name → its ranking for the question. Nothing is drawn if no document is open.
    """
    document = current_document(loaded, question)
    if document is None:
        return
    row_index, space, vector = document.row, loaded.space, question.vector
    st.html(PANEL_CSS)
    with limit_page_computations():
        # The rank by relevance is the same for all decoders, so it is computed once.
        (relevance_rank,) = find_ranks(space, vector, [row_index])
        explanations = {}
        for decoder_name, answer in answers.items():
            details = answer.stage, question.depth, relevance_rank, answer.relevance
            explanations[decoder_name] = explain_document(space, vector, answer.ranking, row_index, *details)
    with st.container(border=True, gap="small", key="reading"):
        with st.container(horizontal=True, vertical_alignment="center"):
            with st.container():
                draw_heading(loaded, row_index)
            st.button("Close", key="reading.close", type="tertiary", icon=":material/close:", on_click=close_panel)
        st.caption(_format_relevance(loaded, question, row_index, answers, next(iter(explanations.values()))))
        st.text(get_body(loaded, row_index))
        # Documents in a vector engine cannot be moved by votes.
        if loaded.reach is None:
            vote_buttons.draw_vote_buttons(loaded, question, row_index, answers, document.source)
        for decoder_name, explanation in explanations.items():
            _draw_reason(answers[decoder_name], explanation)


def _draw_reason(answer: Answer, explanation: Why) -> None:
    """Draw in words why a decoder retrieved the document or not, with the figures behind it."""
    sign = method_style(answer.name).sign
    rank_text = "" if explanation.rank is None else f" #{explanation.rank}"
    lines = [f"{sign} {answer.title}{rank_text}. {describe_reasons(explanation, answer.stage)}"]
    details = []
    if explanation.nearest is not None:
        # A retrieved document is compared with those ranked above it, another one with the full set.
        location = "above" if explanation.rank is not None else "in the set"
        cosine = decimal(explanation.similarity or 0.0)
        details.append(f"Closest {location}: #{explanation.nearest_rank} {explanation.nearest}, cosine {cosine}")
    if explanation.score is not None:
        details.append(f"score when picked {decimal(explanation.score)}")
    if answer.relevance is not None and explanation.relevance is not None:
        scorer_title = decoders.last_scorer(answer.decoder).spec.title
        details.append(f"{scorer_title} {decimal(explanation.relevance)}, rank {explanation.place:,}")
    why_help = None if explanation.score is None else SCORE_HELP
    st.text(visible("\n".join([*lines, " · ".join(details)]).strip()), help=why_help)


def _format_relevance(
    loaded: Loaded, question: Question, row_index: int, answers: Mapping[str, Answer], explanation: Why
) -> str:
    """Format how relevant the open document is to the query: by score, rank and judgement.

    explanation: of any decoder, as the score and rank are the same for all
    """
    # The scorer is named only if a decoder has another one.
    has_others = any(answer.relevance is not None for answer in answers.values())
    scorer = f" by {decoders.first_scorer().spec.title}" if has_others else ""
    relevance = "–" if explanation.relevance is None else decimal(explanation.relevance)
    text = f"Relevance{scorer} {relevance}, rank {explanation.place:,} of {loaded.size:,}"
    if question.qrels is None or not question.is_judged:
        return text
    is_relevant = loaded.space.corpus.ids[row_index] in question.qrels.relevant(question.id)
    return text + (" · judged relevant ✓" if is_relevant else " · not judged relevant")


def draw_heading(loaded: Loaded, row_index: int) -> None:
    """Draw a document's name and id, on one line."""
    st.text(format_heading(loaded.space.corpus, row_index))


def get_body(loaded: Loaded, row_index: int) -> str:
    """Return a document's text, cut to MAX_CHARACTERS."""
    text = replace_surrogates(loaded.space.corpus.texts[row_index])
    return shorten(text, MAX_CHARACTERS) or "(no text)"
