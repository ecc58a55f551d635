"""The reading panel: one document, and the reason why each decoder retrieved it or not."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from dashboard.services.jobs import turn
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.answers import Answer
from dashboard.session.query import Question
from dashboard.widgets import vote_buttons
from dashboard.widgets.tables import ROW_HEIGHT, draw_columns, number_column, text_column
from engine.progress import shorten
from engine.values import replace_surrogates
from engine.views import Why, places, reasons, why

HEIGHT = 214
"""The panel's, the same for every document, so that nothing below jumps from click to click."""
TEXT_HEIGHT, TABLE_HEIGHT, HEAD_HEIGHT = 64, 136, 38
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


def show(loaded: Loaded, question: Question, answers: Mapping[str, Answer]) -> None:
    """Draw the panel for the document opened last; one line before one was, so that the sets stand high."""
    document = current_document(loaded, question)
    if document is None:
        st.caption("Click a row to read the document, and why each decoder has it or not.")
        return
    row, space, vector = document.row, loaded.space, question.vector
    with st.container(border=True, height=HEIGHT, gap="xsmall", key="reading.panel"):
        with turn():
            place = places(space, vector, [row])[0]
            explanations = {
                name: why(space, vector, answer.ranking, row, answer.stage, question.depth, place, answer.relevance)
                for name, answer in answers.items()
            }
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            with st.container():
                heading(loaded, row)
            vote_buttons.buttons(loaded, question, row, answers, document.source)
        left, right = st.columns([2, 3], gap="small")
        with left, st.container(gap="xxsmall"):
            st.caption(_relevance(loaded, question, row, answers, next(iter(explanations.values()))))
            with st.container(height=TEXT_HEIGHT, border=False, key="reading.text"):
                st.text(body(loaded, row))
        with right:
            _table(answers, explanations)


def _relevance(loaded: Loaded, question: Question, row: int, answers: Mapping[str, Answer], explanation: Why) -> str:
    """A document's relevance by the first scorer, its rank, and its judgement."""
    scorer = f" by {decoders.first_scorer().spec.title}" if _has_scores(answers) else ""
    text = f"relevance{scorer} {explanation.relevance:.3f}, #{explanation.place:,} of {len(loaded.space):,}"
    if question.qrels is None or not question.judged:
        return text
    relevant = loaded.space.corpus.ids[row] in question.qrels.relevant(question.id)
    return text + (" · judged relevant ✓" if relevant else " · not judged relevant")


def _has_scores(answers: Mapping[str, Answer]) -> bool:
    """Whether a decoder has another scorer than the first."""
    return any(answer.relevance is not None for answer in answers.values())


def heading(loaded: Loaded, row: int) -> None:
    """Draw a document's title and id, on one line."""
    corpus = loaded.space.corpus
    title, ident = replace_surrogates(corpus.titles[row]), replace_surrogates(corpus.ids[row])
    name = ident if title in ("", ident) else f"{title} · {ident}"
    st.text(shorten(name, 80))


def body(loaded: Loaded, row: int) -> str:
    """A document's text, cut to MOST_CHARACTERS."""
    text = replace_surrogates(loaded.space.corpus.texts[row])
    return shorten(text, MOST_CHARACTERS) or "(no text)"


def _table(answers: Mapping[str, Answer], explanations: Mapping[str, Why]) -> None:
    rows = list(explanations.values())
    nearest = [None if w.nearest is None else f"{w.similarity:.3f} · #{w.nearest_rank} {w.nearest}" for w in rows]
    near_help = "Similarity to the most similar document ranked above it; if it is out, in the set"
    score_help = "What the decoder ranked it by: its score when picked, or its weight"
    columns: dict[str, tuple[Any, Any]] = {
        "Decoder": ([answers[name].title for name in explanations], text_column(84)),
        "Rank": (
            pd.array([w.rank for w in rows], dtype="Int64"),
            number_column(width=48, help="In the decoder's set; – for a document that is out"),
        ),
        "Why": ([reasons(w) for w in rows], text_column(284)),
        "Nearest chosen": (nearest, text_column(170, near_help)),
        "Score": ([w.score for w in rows], number_column("%.4f", 72, score_help)),
    }
    if _has_scores(answers):
        own = number_column("%.4f", 80, "By the decoder's own scorer; – for a document that it did not score")
        columns["Relevance"] = [w.relevance for w in rows], own
        columns["Place"] = [w.place for w in rows], number_column("%d", 56, "Its rank by that relevance")
    if any(w.dual is not None for w in rows):
        dual = number_column("%.4f", 84, "Dual score u·(v − Uᵀw): above λ₁ a document gets a weight")
        columns["Would add"] = [w.dual and w.dual.score for w in rows], dual
    draw_columns(
        columns,
        key="reading.why",
        height=min(TABLE_HEIGHT, ROW_HEIGHT * len(rows) + HEAD_HEIGHT),
        row_height=ROW_HEIGHT,
        placeholder="–",
    )
