"""Shared parts of the views of Theory: a view, its queries, and the computation of its results."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import streamlit as st

import engine
from dashboard.services import memo
from dashboard.services.jobs import Job
from dashboard.services.memo import session_memo
from dashboard.services.query_vectors import embed_missing
from dashboard.services.source import Loaded
from dashboard.session.query import Question, corpus_key, count_judged
from dashboard.widgets.choices import choose
from dashboard.widgets.job_panel import JobPanel
from dashboard.widgets.skeleton import Rows, draw_boxes, draw_until
from engine.progress import report_to
from engine.values import Embeddings, Qrels, Queries

T = TypeVar("T")
THEORY_PURPOSE, THEORY_MEMO, MAX_THEORY_RESULTS = "theory", "theory.memory", 16
TEST_QUERIES, PASSAGE_QUERIES = "Labelled queries", "Synthetic queries (passages)"
N_QUERIES = 100
CHART_ROWS: Rows = ((1, 430), (1, 24), (1, 330))
"""Grey boxes in place of a chart with its caption, and of a table below."""
BESIDE_ROWS: Rows = ((2, 400),)
"""Grey boxes in place of a chart and a table beside it."""
MAX_UNASKED_PRODUCTS = 1_500_000
"""Documents × queries that are measured without a click."""


@dataclass(frozen=True)
class QueryChoice:
    """Queries that a study of the Theory page measures: labelled ones, or passages of the corpus."""

    loaded: Loaded  # the corpus
    way: str  # TEST_QUERIES or PASSAGE_QUERIES
    split: str  # of the labelled queries, or ""

    @property
    def key(self) -> Hashable:
        """Key of the chosen queries and the corpus, under which results are cached."""
        qrels_digest = self.loaded.dataset.qrels[self.split].digest if self.split else ""
        return self.loaded.space.embeddings.digest, self.loaded.space.corpus.digest, self.way, self.split, qrels_digest

    @property
    def is_small(self) -> bool:
        """True if measuring takes seconds only, so that it may start without a click."""
        # An upper bound of the work, before the queries are loaded.
        return len(self.loaded.space) * N_QUERIES <= MAX_UNASKED_PRODUCTS

    def load_task(self) -> tuple[Queries, Qrels]:
        """Return up to N_QUERIES queries with judgements: labelled ones, or passages of the corpus.

        A passage is a query whose relevant documents contain it. Raises DataError if the corpus has too few
        words.
        """
        dataset = self.loaded.dataset
        if self.way == TEST_QUERIES:
            return dataset.judged(self.split).sample(N_QUERIES), dataset.qrels[self.split]
        # Without distractors the documents are the corpus's own, so that no document must be embedded.
        task = engine.containing_passages(dataset.corpus, N_QUERIES, distractors=0)
        return task.queries, next(iter(task.qrels.values()))

    @property
    def has_vectors(self) -> bool:
        """True if the chosen queries have vectors, or an encoder makes them; passages need the encoder."""
        if self.way == TEST_QUERIES:
            return self.loaded.has_query_vectors
        return self.loaded.space.encoder is not None

    def embed(self, queries: Queries, job: Job) -> Embeddings | None:
        """Return the queries' vectors, embedded in a job if not stored; None if there is no encoder to do so."""
        if not self.has_vectors:
            return None
        # The corpus may have vectors of its labelled queries only.
        loaded = self.loaded if self.way == TEST_QUERIES else replace(self.loaded, queries=None)
        return embed_missing(loaded, queries, job)


def choose_queries(loaded: Loaded) -> QueryChoice:
    """Draw the choice between labelled queries and passages of the corpus; return what was chosen."""
    splits = list(count_judged(loaded.dataset))
    ways = [*([TEST_QUERIES] if splits else []), PASSAGE_QUERIES]
    help_text = (
        f"Labelled queries: up to {N_QUERIES}. Passages: 5 to 25 words from up to {N_QUERIES} documents. "
        "Every document that contains them is relevant."
    )
    mode = choose("Queries", ways, f"theory.queries.{len(ways)}", show_label=True, help=help_text)
    if not splits:
        st.caption(
            "No labelled queries: passages of 5 to 25 words stand in for them, and the documents that contain them are "
            "relevant. Such queries are easier than people's."
        )
    chosen_split = st.session_state.get(f"split.{corpus_key(loaded)}")
    split = (chosen_split if chosen_split in splits else splits[0]) if mode == TEST_QUERIES else ""
    return QueryChoice(loaded, mode, split)


@contextmanager
def query_row(loaded: Loaded, width: int, gap: Any = "small") -> Iterator[QueryChoice]:
    """Draw the choice of queries and yield it; what the caller draws inside the `with` stands beside it."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap=gap):
        with st.container(width=width):
            choice = choose_queries(loaded)
        yield choice


@dataclass(frozen=True, kw_only=True)
class StudyView:
    """View of the Theory page: a paper's statement that is measured on the loaded corpus."""

    title: str
    caption: str  # "" if its parts have captions
    draw: Callable[[Loaded, Question | None], None]  # draws the controls and the measurements
    needs_two: str = ""  # subject of the notice for a single document
    needs_query: str = ""  # notice without a query, "" if none is needed

    def draw_or_explain(self, loaded: Loaded, question: Question | None) -> None:
        """Draw the view, or say what it lacks: a second document, or a query."""
        if self.caption:
            st.caption(self.caption)
        if self.needs_two and len(loaded.space) < 2:
            st.info(f"{self.needs_two} needs two documents. Load a larger corpus on the Data page.")
        elif self.needs_query and question is None:
            st.info(self.needs_query)
        else:
            self.draw(loaded, question)


def get_cached(key: Hashable, compute: Callable[[], T]) -> T:
    """Return a value that is computed once a session; key: everything that it depends on."""
    return memo.get_or_compute(THEORY_MEMO, key, compute, MAX_THEORY_RESULTS)


def draw_cached(key: Hashable, compute: Callable[[], T], rows: Rows, draw: Callable[[T], Any], text: str) -> None:
    """Draw a value of `get_cached`, and in its place while it is computed grey boxes below what `text` says of it."""
    is_known = key in session_memo(THEORY_MEMO, MAX_THEORY_RESULTS)
    draw_until(partial(get_cached, key, compute), rows, draw, text=text, is_known=is_known)


def run_study(
    key: Hashable,
    title: str,
    work: Callable[[Job], T],
    draw: Callable[[T], Any] | None = None,
    *,
    autostart: bool,
    on_partial: Callable[[Any], Any] | None = None,
    rows: Rows = (),
) -> T | None:
    """Return a study's result, from the cache or a job, after drawing it; until then draw its progress.

    key: everything that the result depends on; work: computes the result in the job; draw: draws it;
    autostart: False to wait for a click; on_partial: draws what a running job has so far; rows: of grey boxes that
    stand in for the result while a job has nothing.
    """

    def report_and_work(job: Job) -> T:
        """Compute the result with the job's progress and stop at hand for all work inside."""
        # Slow work before the first step, such as counting words, reports too.
        with report_to(job.report, job.stop):
            return work(job)

    # One purpose for all views: a new study replaces the running one.
    result = JobPanel(
        purpose=THEORY_PURPOSE,
        key=key,
        title=title,
        work=report_and_work,
        start_label="Run",
        resume_label="Run",
        autostart=autostart,
        on_partial=on_partial,
        draw_waiting=partial(draw_boxes, rows) if rows else None,
        memo=session_memo(THEORY_MEMO, MAX_THEORY_RESULTS),
    ).draw_until_result()
    if result is not None and draw is not None:
        draw(result)
    return result
