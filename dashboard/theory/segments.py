"""Margins of whole documents and of their matching segments (Theorem 1)."""

from functools import partial

import numpy as np
import streamlit as st

import engine
from dashboard.charts.theory import segments_figure
from dashboard.components.live_plot import is_dark, plot
from dashboard.services import jobs
from dashboard.services.jobs import Job
from dashboard.services.source import Loaded
from dashboard.session.query import Question
from dashboard.theory.study import PURPOSE, QueryChoice, StudyView, measure, query_row, remembered
from dashboard.widgets.choices import choose
from dashboard.widgets.parameters import control
from dashboard.widgets.tables import draw_columns, number_column
from engine.progress import counted, shorten
from engine.text.bag_of_words import has_words, words_of
from engine.theory.segments import PASSAGE, RIVALS, Segments
from engine.values import Corpus
from engine.views.theory import segments_said
from engine.wording import visible

EXAMPLE, CURRENT = "Example", "Current query"
AT_ONCE = 2_000_000
"""Characters of a corpus whose words are counted while the page is drawn; those of more by a job."""


def _draw(loaded: Loaded, question: Question | None) -> None:
    """The theorem on the pairs of many queries, and on those of one for which it holds."""
    with query_row(loaded, 380, "medium") as choice:
        words = control(PASSAGE, "theory.passage", st.container(width=300))
    key, title = ("segments", "many", choice.key, words), "Margins of segments"
    many = measure(key, title, partial(_work, choice, words), by_itself=choice.small)
    if many is None and (job := jobs.current(PURPOSE, key)) is not None and job.going:
        return
    example = None
    if many is not None:
        verdict, *details = segments_said(many[0], len(many[1]), words)
        st.markdown(f"**{verdict}**")
        st.caption(" ".join(details))
        example = _example(*many)
    text = _text(question, example)
    if text is None:
        st.info("Pick a query to compare its best documents.")
    else:
        _one(loaded, text, words, RIVALS.default if question is None else question.k)


def _work(choice: QueryChoice, words: int, job: Job) -> tuple[Segments, tuple[str, ...]]:
    queries, _ = choice.task()
    options = {"progress": job.report, "stop": job.stop}
    return engine.segments(choice.loaded.space, queries, passage_words=words, **options), queries.texts


def _example(margins: Segments, texts: tuple[str, ...]) -> str | None:
    """The first query with the most pairs that the theorem covers; None where it covers none."""
    covered = np.bincount(margins.query[margins.promised], minlength=len(texts))
    return texts[int(covered.argmax())] if covered.any() else None


def _text(question: Question | None, example: str | None) -> str | None:
    """The words of the query to show: the example, until the current one is chosen."""
    own = None if question is None else question.text
    if example is None or own is None:
        return example or own
    return own if choose("Pairs of", (EXAMPLE, CURRENT), "theory.segments.query") == CURRENT else example


def _one(loaded: Loaded, text: str, words: int, rivals: int) -> None:
    """The pairs of a query's best document with the next ones."""
    space, corpus = loaded.space, loaded.space.corpus
    st.text(shorten(visible(text), 200))
    # Once a corpus; a question takes the counts that are there.
    if not has_words(space) and sum(map(len, corpus.texts)) > AT_ONCE:
        done = measure(("words", corpus.digest), "Counting words", lambda _: len(words_of(space)[1]), by_itself=True)
        if done is None:
            return
    key = ("segments", corpus.digest, text, words, rivals)
    margins = remembered(key, lambda: engine.segments(space, [text], passage_words=words, rivals=rivals))
    if len(margins):
        _shown(corpus, margins)
    else:
        st.info("No pairs: the query shares words with fewer than two documents, or all score alike.")


def _shown(corpus: Corpus, margins: Segments) -> None:
    rows = [int(margins.first[0]), *margins.second.tolist()]
    best, *names = (visible(corpus.titles[row] or corpus.ids[row]) for row in rows)
    st.text(f"Best by words: {best}")
    left, right = st.columns([3, 2], gap="medium")
    with left:
        figure = segments_figure(margins, names, is_dark())
        plot(figure, "theory.segments", file="segments", label="Margins of segments")
    with right:
        promised = int(margins.promised.sum())
        if not promised:
            st.info(
                f"The theorem does not cover {_these(len(margins))}: the best document also has query words outside "
                "its best passage. Try a shorter query or longer passages."
            )
        else:
            covered = f"The theorem covers {promised} of {counted(len(margins), 'pair')}"
            if margins.broken:
                wrong = f"{covered} and is violated for {margins.broken}. This should be impossible: please report it."
                st.error(wrong, icon=":material/error:")
            else:
                st.success(f"{covered} and holds for all of them.", icon=":material/verified:")
        st.caption(
            f"Real passages: {margins.passages_gain:.0%} of the pairs keep at least the documents' margin. Words are "
            "weighted by tf · idf."
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


def _these(pairs: int) -> str:
    return "this pair" if pairs == 1 else f"these {pairs} pairs"


VIEW = StudyView(
    title="Segments",
    caption="A document is the sum of its segments. If a query is about one segment, Theorem 1 (sparse-dense paper) "
    "says that the margin between matching segments is at least that between the documents: where segments have no "
    "words in common, several vectors a document then need fewer dimensions each.",
    needs_two="A margin",
    draw=_draw,
)
