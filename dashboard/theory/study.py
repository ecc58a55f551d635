"""What the views of Theory share: what one is, the queries it measures, and how its results are computed and kept."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from engine.progress import report_to
from engine.values import Embeddings, Qrels, Queries

T = TypeVar("T")
PURPOSE, MEMORY, ENTRIES = "theory", "theory.memory", 16
LABELLED, PASSAGES = "Test queries", "Synthetic queries (passages)"
COUNT = 100
BY_ITSELF = 1_500_000
"""Documents × queries that are measured unasked."""


@dataclass(frozen=True)
class QueryChoice:
    """The chosen queries."""

    loaded: Loaded  # the corpus
    way: str  # LABELLED or PASSAGES
    split: str  # of the labelled queries, or ""

    @property
    def key(self) -> Hashable:
        """Names the queries."""
        judged = self.loaded.dataset.qrels[self.split].digest if self.split else ""
        return self.loaded.space.embeddings.digest, self.loaded.space.corpus.digest, self.way, self.split, judged

    @property
    def small(self) -> bool:
        """Whether measuring takes seconds."""
        return len(self.loaded.space) * COUNT <= BY_ITSELF

    def task(self) -> tuple[Queries, Qrels]:
        """The queries, at most COUNT, and which documents are right. Raises DataError."""
        dataset = self.loaded.dataset
        if self.way == LABELLED:
            return dataset.judged(self.split).sample(COUNT), dataset.qrels[self.split]
        # Without distractors the documents are the corpus's own, whose vectors are there.
        task = engine.containing_passages(dataset.corpus, COUNT, distractors=0)
        return task.queries, next(iter(task.qrels.values()))

    def vectors(self, queries: Queries, job: Job) -> Embeddings | None:
        """The queries' vectors by the corpus's encoder; None where it came with its own vectors."""
        if self.loaded.space.encoder is None:
            return None
        return embed_missing(self.loaded if self.way == LABELLED else replace(self.loaded, queries=None), queries, job)


def choose_queries(loaded: Loaded) -> QueryChoice:
    """Draw the choice; where nothing is judged there is one way, and the page says why."""
    splits = list(count_judged(loaded.dataset))
    ways = [*([LABELLED] if splits else []), PASSAGES]
    why = (
        f"Test queries: up to {COUNT} with judgements. Passages: 5 to 25 words from up to {COUNT} documents. Every "
        "document that contains them is relevant."
    )
    way = choose("Queries", ways, f"theory.queries.{len(ways)}", show_label=True, help=why)
    if not splits:
        st.caption(
            "No judged queries: passages of 5 to 25 words stand in for them, and the documents that contain them are "
            "relevant. Such queries are easier than people's."
        )
    standing = st.session_state.get(f"split.{corpus_key(loaded)}")
    split = (standing if standing in splits else splits[0]) if way == LABELLED else ""
    return QueryChoice(loaded, way, split)


@contextmanager
def query_row(loaded: Loaded, width: int, gap: Any = "small") -> Iterator[QueryChoice]:
    """Draw the choice of queries; what is drawn inside stands beside it."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap=gap):
        with st.container(width=width):
            choice = choose_queries(loaded)
        yield choice


@dataclass(frozen=True, kw_only=True)
class StudyView:
    """A view of Theory."""

    title: str
    caption: str  # what it is about, "" where its parts say it
    draw: Callable[[Loaded, Question | None], None]  # controls, and what is measured as they say
    needs_two: str = ""  # what needs two documents
    needs_query: str = ""  # what is said where no query is picked, "" where none is needed

    def show(self, loaded: Loaded, question: Question | None) -> None:
        """Draw the view, or what it lacks."""
        if self.caption:
            st.caption(self.caption)
        if self.needs_two and len(loaded.space) < 2:
            st.info(f"{self.needs_two} needs two documents. Load a larger corpus on the Data page.")
        elif self.needs_query and question is None:
            st.info(self.needs_query)
        else:
            self.draw(loaded, question)


def remembered(key: Hashable, make: Callable[[], T]) -> T:
    """The value of `make`, computed once a session; key: names all that it depends on."""
    return memo.get_or_compute(MEMORY, key, make, ENTRIES)


def measure(
    key: Hashable,
    title: str,
    work: Callable[[Job], T],
    show: Callable[[T], Any] | None = None,
    *,
    by_itself: bool,
    on_partial: Callable[[Any], Any] | None = None,
) -> T | None:
    """The result of a job, which `show` draws; until it is there its progress or the button to start it, and None.

    Other arguments are those of a JobPanel.
    """

    def reporting(job: Job) -> T:
        # What is slow before the first step, counting words, reports too.
        with report_to(job.report, job.stop):
            return work(job)

    result = JobPanel(
        purpose=PURPOSE,
        key=key,
        title=title,
        work=reporting,
        start_label="Run",
        resume_label="Run",
        autostart=by_itself,
        on_partial=on_partial,
        memo=session_memo(MEMORY, ENTRIES),
    ).result()
    if result is not None and show is not None:
        show(result)
    return result
