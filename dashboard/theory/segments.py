"""Margins of whole documents and of their matching segments (Theorem 1)."""

from functools import partial

import streamlit as st

import engine
from dashboard.charts.theory import segments_figure
from dashboard.components.live_plot import is_dark, plot
from dashboard.services.jobs import Job
from dashboard.services.source import Loaded
from dashboard.session.query import Question
from dashboard.theory import query_source
from dashboard.theory.jobs import measure, remembered
from dashboard.widgets.parameters import control
from dashboard.widgets.tables import draw_columns, number_column
from engine.progress import shorten
from engine.text.bag_of_words import has_words, words_of
from engine.theory.segments import PASSAGE, Segments
from engine.values import Corpus, replace_surrogates
from engine.views import segments_said

AT_ONCE = 2_000_000
"""Characters of a corpus whose words are counted while the page is drawn; those of more by a job."""


def show(loaded: Loaded, question: Question | None) -> None:
    """Margins of the question's best document over the next ones."""
    st.caption(
        "A document is the sum of its segments. Where a query speaks of one segment only, Theorem 1 of the sparse-dense"
        " paper says that the margin between the matching segments is at least that between the documents: several "
        "vectors a document need fewer dimensions each. It assumes segments without words in common; passages of real "
        "documents share some, so they are shown beside it, and nothing is proved of them."
    )
    words = control(PASSAGE, "theory.passage", st.container(width=380))
    if _one(loaded, question, words) and len(loaded.space) > 1:
        _many(loaded, words)


def _one(loaded: Loaded, question: Question | None, words: int) -> bool:
    """The question's pairs; False while the corpus's words are being counted."""
    if question is None:
        st.info("Ask something in the sidebar: its best documents are compared here.")
        return True
    space, corpus = loaded.space, loaded.space.corpus
    st.text(shorten(question.text, 200))
    key = ("segments", corpus.digest, question.text, words, question.k)
    # Once a corpus; a question takes the counts that are there.
    if not has_words(space) and sum(map(len, corpus.texts)) > AT_ONCE:
        done = measure(("words", corpus.digest), "Counting words", lambda _: len(words_of(space)[1]), by_itself=True)
        if done is None:
            return False
    margins = remembered(key, lambda: engine.segments(space, [question.text], passage_words=words, rivals=question.k))
    if not len(margins):
        st.info(
            "No two documents can be compared: fewer than two share a word with this query, or they all score alike. "
            "Segments are of words; ask with words that the documents use."
        )
        return True
    _shown(corpus, margins)
    return True


def _many(loaded: Loaded, words: int) -> None:
    """The theorem on the pairs of many queries of this corpus, in words."""
    st.divider()
    st.markdown("**On many queries of this corpus**")
    choice = query_source.choose_queries(loaded)
    key, title = ("segments", "many", choice.key, words), "Margins of segments"
    margins = measure(key, title, partial(_work, choice, words), by_itself=choice.small)
    if margins:
        for sentence in segments_said(*margins):
            st.text(sentence)


def _work(choice: query_source.QueryChoice, words: int, job: Job) -> tuple[Segments, int, int]:
    queries, _ = choice.task()
    options = {"progress": job.report, "stop": job.stop}
    return engine.segments(choice.loaded.space, queries, passage_words=words, **options), len(queries), words


def _shown(corpus: Corpus, margins: Segments) -> None:
    rows = [int(margins.first[0]), *margins.second.tolist()]
    best, *names = (replace_surrogates(corpus.titles[row] or corpus.ids[row]) for row in rows)
    st.text(f"Best by words: {best}")
    left, right = st.columns([3, 2], gap="medium")
    with left:
        figure = segments_figure(margins, names, is_dark())
        plot(figure, "theory.segments", file="segments", label="Margins of segments")
    with right:
        promised = int(margins.promised.sum())
        if not promised:
            st.info(
                f"The theorem speaks of none of these {len(margins)} pairs: the best document has words of the query "
                "outside its best passage too. Ask for less, or take longer passages."
            )
        else:
            verdict = f"It fails for {margins.broken}, which must not be." if margins.broken else "It holds for all."
            spoken = f"The theorem speaks of {promised} of {len(margins)} pairs."
            st.success(f"{spoken} {verdict}", icon=":material/verified:")
        st.caption(
            f"Of real passages, {margins.passages_gain:.0%} of the pairs have at least the documents' margin. Words "
            "count as often as they occur, times their idf."
        )
        number = number_column("%.3f")
        draw_columns(
            {
                "Document": (names, None),
                "Proved": (["✓" if sure else "" for sure in margins.promised.tolist()], None),
                "Documents": (margins.documents, number),
                "Segments": (margins.segments, number),
                "Passages": (margins.passages, number),
            }
        )
