"""The reading panel: one document, and why each decoder has it or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from dashboard.explore import setting
from dashboard.explore.answers import ROW_HEIGHT, Answer
from dashboard.explore.question import Asked
from dashboard.feedback import votes
from dashboard.jobs import turn
from dashboard.state import Loaded
from engine.values import showable
from engine.views import Why, places, reasons, why

HEIGHT = 214
"""Of the panel: as high for every document, so that nothing below jumps from click to click."""
TEXT_HEIGHT, TABLE_HEIGHT, HEAD_HEIGHT = 64, 136, 38
MOST_READ = 20_000
"""Characters of a document that are shown."""
KEY = "reading"


@dataclass(frozen=True)
class Opened:
    """The document being read: of which corpus, for which query, at which row, from which decoder's set ("": of none in
    particular)."""

    corpus: str
    query: str
    row: int
    source: str = ""


def read(loaded: Loaded, asked: Asked, row: int, source: str = "") -> None:
    """Open a document of the corpus; source: the decoder in whose set it was found."""
    st.session_state[KEY] = Opened(loaded.space.corpus.digest, asked.text, row, source)


def opened(loaded: Loaded, asked: Asked) -> Opened | None:
    """The document that was opened last for this question, None before one was."""
    last: Opened | None = st.session_state.get(KEY)
    if last is not None and (last.corpus, last.query) == (loaded.space.corpus.digest, asked.text):
        return last
    return None


def show(loaded: Loaded, asked: Asked, answers: Mapping[str, Answer]) -> None:
    """The panel for the document that was opened last; a line before one was, so that the sets stand high."""
    last = opened(loaded, asked)
    if last is None:
        st.caption("Click a row to read the document, and why each decoder has it or not.")
        return
    row = last.row
    with st.container(border=True, height=HEIGHT, gap="xsmall", key="reading.panel"):
        space = loaded.space
        with turn():
            place = places(space, asked.vector, [row])[0]
            found = {
                name: why(space, asked.vector, answer.ranking, row, answer.stage, asked.depth, place, answer.relevance)
                for name, answer in answers.items()
            }
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            with st.container():
                heading(loaded, row)
            votes.buttons(loaded, asked, row, answers, last.source)
        left, right = st.columns([2, 3], gap="small")
        with left, st.container(gap="xxsmall"):
            one = next(iter(found.values()))
            judged = asked.qrels.relevant(asked.id) if asked.judged else None
            several = any(answer.relevance is not None for answer in answers.values())
            what = f"relevance by {setting.first_scorer().spec.title}" if several else "relevance"
            said = [f"{what} {one.relevance:.3f}, #{one.place:,} of {len(space):,}"]
            if judged is not None:
                said.append("judged relevant ✓" if space.corpus.ids[row] in judged else "not judged relevant")
            st.caption(" · ".join(said))
            with st.container(height=TEXT_HEIGHT, border=False, key="reading.text"):
                st.text(body(loaded, row))
        with right:
            _table(answers, found)


def heading(loaded: Loaded, row: int) -> None:
    """A document's title and id, on one line."""
    corpus = loaded.space.corpus
    title, ident = showable(corpus.titles[row]), showable(corpus.ids[row])
    named = ident if title in ("", ident) else f"{title} · {ident}"
    st.text(named if len(named) < 80 else named[:79] + "…")


def body(loaded: Loaded, row: int) -> str:
    """A document's text, cut where nobody reads on."""
    text = showable(loaded.space.corpus.texts[row])
    return (text if len(text) <= MOST_READ else text[: MOST_READ - 1] + "…") or "(no text)"


def _table(answers: Mapping[str, Answer], found: Mapping[str, Why]) -> None:
    seen = list(found.values())
    near = [None if w.nearest is None else f"{w.similarity:.3f} · #{w.nearest_rank} {w.nearest}" for w in seen]
    columns = {
        "Decoder": [answers[name].title for name in found],
        "Rank": [w.rank for w in seen],
        "Why": [reasons(w) for w in seen],
        "Nearest chosen": near,
        "Score": [w.score for w in seen],
    }
    if any(answer.relevance is not None for answer in answers.values()):
        columns["Relevance"] = [w.relevance for w in seen]
        columns["Place"] = [w.place for w in seen]
    if any(w.dual is not None for w in seen):
        columns["Would add"] = [None if w.dual is None else w.dual.score for w in seen]
    st.dataframe(
        pd.DataFrame(columns).astype({"Rank": "Int64"}),
        key="reading.why",
        hide_index=True,
        height=min(TABLE_HEIGHT, ROW_HEIGHT * len(seen) + HEAD_HEIGHT),
        row_height=ROW_HEIGHT,
        placeholder="–",
        column_config={
            "Decoder": st.column_config.TextColumn(width=84),
            "Rank": st.column_config.NumberColumn(width=48, help="In the decoder's set; – for a document that is out"),
            "Why": st.column_config.TextColumn(width=284),
            "Nearest chosen": st.column_config.TextColumn(
                width=170, help="Similarity to the most similar document ranked above it; if it is out, in the set"
            ),
            "Score": st.column_config.NumberColumn(
                format="%.4f", width=72, help="What the decoder ranked it by: its score when picked, or its weight"
            ),
            "Relevance": st.column_config.NumberColumn(
                format="%.4f", width=80, help="By the decoder's own scorer; – for a document that it did not score"
            ),
            "Place": st.column_config.NumberColumn(format="%d", width=56, help="Its rank by that relevance"),
            "Would add": st.column_config.NumberColumn(
                format="%.4f", width=84, help="Dual score u·(v − Uᵀw): above λ₁ a document gets a weight"
            ),
        },
    )
