"""What several vectors a document gain: margins of whole documents and of their matching segments (Theorem 1)."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st

import engine
from dashboard.charts.theory import segments_figure
from dashboard.components.live_plot import plot
from dashboard.controls import control
from dashboard.explore.question import Asked
from dashboard.jobs import Job
from dashboard.state import Loaded
from dashboard.theory import questions
from dashboard.theory.measured import measured, remembered
from engine.solvers.bag_of_words import has_words, words_of
from engine.theory.segmented import PASSAGE, Segments
from engine.values import Corpus, showable
from engine.views import segments_said

AT_ONCE = 2_000_000
"""Characters of a corpus whose words are counted while the page is drawn; those of more by a job."""


def show(loaded: Loaded, asked: Asked | None) -> None:
    """Margins of the question's best document over the next ones."""
    st.caption(
        "A document is the sum of its segments. Where a query speaks of one segment only, Theorem 1 of the sparse-dense"
        " paper says that the margin between the matching segments is at least that between the documents: several "
        "vectors a document need fewer dimensions each. It assumes segments without words in common; passages of real "
        "documents share some, so they are shown beside it, and nothing is proved of them."
    )
    with st.container(width=380):
        words = control(PASSAGE, "theory.passage")
    if _one(loaded, asked, words) and len(loaded.space) > 1:
        _many(loaded, words)


def _one(loaded: Loaded, asked: Asked | None, words: int) -> bool:
    """The question's pairs; False while the corpus's words are being counted."""
    if asked is None:
        st.info("Ask something in the sidebar: its best documents are compared here.")
        return True
    space, corpus = loaded.space, loaded.space.corpus
    st.text(asked.text if len(asked.text) < 200 else asked.text[:199] + "…")
    key = ("segments", corpus.digest, asked.text, words, asked.k)
    # Once a corpus; a question takes the counts that are there.
    if not has_words(space) and sum(map(len, corpus.texts)) > AT_ONCE:
        done = measured(("words", corpus.digest), "Counting words", lambda _: len(words_of(space)[1]), by_itself=True)
        if done is None:
            return False
    found = remembered(key, lambda: engine.segments(space, [asked.text], passage_words=words, rivals=asked.k))
    if not len(found):
        st.info(
            "No two documents can be compared: fewer than two share a word with this query, or they all score alike. "
            "Segments are of words; ask with words that the documents use."
        )
        return True
    _shown(corpus, found)
    return True


def _many(loaded: Loaded, words: int) -> None:
    """What the theorem is worth on this corpus: the pairs of many queries, in words."""
    st.divider()
    st.markdown("**On many queries of this corpus**")
    choice = questions.choose(loaded)
    found = measured(
        ("segments", "many", choice.key, words),
        "Margins of segments",
        partial(_work, choice, words),
        by_itself=choice.small,
    )
    if found is not None:
        for sentence in segments_said(*found):
            st.text(sentence)


def _work(choice: questions.Choice, words: int, job: Job) -> tuple[Segments, int, int]:
    queries, _ = choice.task()
    how = {"progress": job.report, "stop": job.stop}
    return engine.segments(choice.loaded.space, queries, passage_words=words, **how), len(queries), words


def _shown(corpus: Corpus, found: Segments) -> None:
    names = [showable(corpus.titles[row] or corpus.ids[row]) for row in found.second.tolist()]
    best = found.first.tolist()[0]
    st.text(f"Best by words: {showable(corpus.titles[best] or corpus.ids[best])}")
    left, right = st.columns([3, 2], gap="medium")
    with left:
        dark = st.context.theme.type == "dark"
        plot(segments_figure(found, names, dark), "theory.segments", file="segments", label="Margins of segments")
    with right:
        promised = int(found.promised.sum())
        if not promised:
            st.info(
                f"The theorem speaks of none of these {len(found)} pairs: the best document has words of the query "
                "outside its best passage too. Ask for less, or take longer passages."
            )
        else:
            held = "It holds for all." if not found.broken else f"It fails for {found.broken}, which must not be."
            st.success(f"The theorem speaks of {promised} of {len(found)} pairs. {held}", icon=":material/verified:")
        st.caption(
            f"Of real passages, {found.passages_gain:.0%} of the pairs have at least the documents' margin. Words count"
            " as often as they occur, times their idf."
        )
        st.dataframe(
            pd.DataFrame(
                {
                    "Document": names,
                    "Proved": ["✓" if sure else "" for sure in found.promised.tolist()],
                    "Documents": found.documents,
                    "Segments": found.segments,
                    "Passages": found.passages,
                }
            ),
            hide_index=True,
            column_config={
                name: st.column_config.NumberColumn(format="%.3f") for name in ("Documents", "Segments", "Passages")
            },
        )
