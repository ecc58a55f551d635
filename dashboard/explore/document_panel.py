"""The reading drawer: one document, and the reason why each decoder retrieved it or not."""

from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st

from dashboard.charts.palette import style_of
from dashboard.services.jobs import page_turn
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.answers import Answer
from dashboard.session.query import Question
from dashboard.widgets import vote_buttons
from engine.progress import shorten
from engine.values import replace_surrogates
from engine.views.decision import Why, places, reasons, why
from engine.wording import decimal, visible

STYLE = """<style>
.st-key-reading {
  position: fixed; z-index: 90; inset: 7.25rem 0 0 auto; width: min(27rem, 100vw); overflow-y: auto;
  background: light-dark(#fff, #191916); box-shadow: -6px 0 18px rgba(0, 0, 0, .12);
}
.st-key-reading [data-testid=stText] {font-size: .875rem}
@media (max-width: 640px) {.st-key-reading {inset: 45vh 0 0 0; width: 100vw}}
</style>"""
"""A drawer at the right, on a phone at the bottom: nothing of the page moves when it opens."""
MOST_CHARACTERS = 20_000
"""Characters of a document that are shown."""
KEY = "reading"


@dataclass(frozen=True)
class OpenDocument:
    """The document in the panel."""

    corpus: str  # the digest
    query: str
    row: int
    source: str = ""  # name of the decoder in whose set it was clicked, "" for no single one


def open_document(loaded: Loaded, question: Question, row: int, source: str = "") -> None:
    """Put a document of the corpus into the panel; source: the decoder in whose set it was clicked."""
    st.session_state[KEY] = OpenDocument(loaded.space.corpus.digest, question.text, row, source)


def current_document(loaded: Loaded, question: Question) -> OpenDocument | None:
    """The document opened last for this query, None before one was."""
    last: OpenDocument | None = st.session_state.get(KEY)
    if last is not None and (last.corpus, last.query) == (loaded.space.corpus.digest, question.text):
        return last
    return None


def close() -> None:
    """Close the panel."""
    st.session_state.pop(KEY, None)


def show(loaded: Loaded, question: Question, answers: Mapping[str, Answer]) -> None:
    """Draw the panel at the side for the document opened last; nothing before one was."""
    document = current_document(loaded, question)
    if document is None:
        return
    row, space, vector = document.row, loaded.space, question.vector
    st.html(STYLE)
    with page_turn():
        place = places(space, vector, [row])[0]
        explanations = {
            name: why(space, vector, answer.ranking, row, answer.stage, question.depth, place, answer.relevance)
            for name, answer in answers.items()
        }
    with st.container(border=True, gap="small", key="reading"):
        with st.container(horizontal=True, vertical_alignment="center"):
            with st.container():
                heading(loaded, row)
            st.button("Close", key="reading.close", type="tertiary", icon=":material/close:", on_click=close)
        st.caption(_relevance(loaded, question, row, answers, next(iter(explanations.values()))))
        st.text(body(loaded, row))
        if loaded.reach is None:
            vote_buttons.draw_vote_buttons(loaded, question, row, answers, document.source)
        for name, explanation in explanations.items():
            _why(answers[name], explanation)


def _why(answer: Answer, explanation: Why) -> None:
    """Say why a decoder has the document or not."""
    sign = style_of(answer.name).sign
    rank = "" if explanation.rank is None else f" #{explanation.rank}"
    lines = [f"{sign} {answer.title}{rank}. {reasons(explanation)}"]
    details = []
    if explanation.nearest is not None:
        where = "above" if explanation.rank is not None else "in the set"
        cosine = decimal(explanation.similarity or 0.0)
        details.append(f"Closest {where}: #{explanation.nearest_rank} {explanation.nearest}, cosine {cosine}")
    if explanation.score is not None:
        details.append(f"score when picked {decimal(explanation.score)}")
    if answer.relevance is not None and explanation.relevance is not None:
        by = decoders.last_scorer(answer.decoder).spec.title
        details.append(f"{by} {decimal(explanation.relevance)}, rank {explanation.place:,}")
    st.text(visible("\n".join([*lines, " · ".join(details)]).strip()))


def _relevance(loaded: Loaded, question: Question, row: int, answers: Mapping[str, Answer], explanation: Why) -> str:
    """A document's relevance by the first scorer, its rank, and its judgement."""
    # Named where a decoder has another one.
    scorer = (
        f" by {decoders.first_scorer().spec.title}"
        if any(answer.relevance is not None for answer in answers.values())
        else ""
    )
    relevance = "–" if explanation.relevance is None else decimal(explanation.relevance)
    text = f"Relevance{scorer} {relevance}, rank {explanation.place:,} of {loaded.size:,}"
    if question.qrels is None or not question.is_judged:
        return text
    relevant = loaded.space.corpus.ids[row] in question.qrels.relevant(question.id)
    return text + (" · judged relevant ✓" if relevant else " · not judged relevant")


def heading(loaded: Loaded, row: int) -> None:
    """Draw a document's title and id, on one line."""
    corpus = loaded.space.corpus
    title, ident = visible(corpus.titles[row]), visible(corpus.ids[row])
    name = ident if title in ("", ident) else f"{title} · {ident}"
    st.text(shorten(name, 80))


def body(loaded: Loaded, row: int) -> str:
    """A document's text, cut to MOST_CHARACTERS."""
    text = replace_surrogates(loaded.space.corpus.texts[row])
    return shorten(text, MOST_CHARACTERS) or "(no text)"
