"""The queries of a Theory view: labelled ones, or passages of the corpus's documents."""

from collections.abc import Hashable
from dataclasses import dataclass, replace

import streamlit as st

import engine
from dashboard.services.jobs import Job
from dashboard.services.query_vectors import query_vectors
from dashboard.services.source import Loaded
from dashboard.session.query import corpus_key, judged_splits
from dashboard.widgets.choices import choose
from engine.values import Embeddings, Qrels, Queries

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
        return query_vectors(self.loaded if self.way == LABELLED else replace(self.loaded, queries=None), queries, job)


def choose_queries(loaded: Loaded) -> QueryChoice:
    """Draw the choice; where nothing is judged there is one way, and the page says why."""
    splits = list(judged_splits(loaded.dataset))
    ways = [*([LABELLED] if splits else []), PASSAGES]
    why = (
        f"Test queries: up to {COUNT} with judgements. Passages: 5 to 25 words from up to {COUNT} documents. Every "
        "document that contains them is relevant."
    )
    way = choose("Queries", ways, f"theory.queries.{len(ways)}", named=True, help=why)
    if not splits:
        st.caption(
            "No judged queries: passages of 5 to 25 words stand in for them, and the documents that contain them are "
            "relevant. Such queries are easier than people's."
        )
    standing = st.session_state.get(f"split.{corpus_key(loaded)}")
    split = (standing if standing in splits else splits[0]) if way == LABELLED else ""
    return QueryChoice(loaded, way, split)
