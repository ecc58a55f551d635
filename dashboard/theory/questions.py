"""Which queries margins are taken of: labelled ones, or passages of the corpus's own documents."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import streamlit as st

import engine
from dashboard.jobs import Job
from dashboard.state import Loaded
from dashboard.tradeoff.cells import vectors_of
from engine.values import Embeddings, Qrels, Queries

LABELLED, PASSAGES = "Labelled queries", "Passages of the corpus"
COUNT = 100
BY_ITSELF = 1_500_000
"""Documents × queries: up to so many are measured without being asked."""


@dataclass(frozen=True)
class Choice:
    """What was chosen; split: of the labelled queries."""

    loaded: Loaded
    way: str
    split: str

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
        made = engine.containing_passages(dataset.corpus, COUNT, distractors=0)
        return made.queries, next(iter(made.qrels.values()))

    def vectors(self, queries: Queries, job: Job) -> Embeddings | None:
        """The queries' vectors by the corpus's encoder; None where it came with its own vectors."""
        space = self.loaded.space
        if space.encoder is None:
            return None
        found = vectors_of(self.loaded, queries) if self.way == LABELLED else None
        return found or engine.embed_queries(space, queries, progress=job.report, stop=job.stop)


def choose(loaded: Loaded) -> Choice:
    """Draw the choice; where nothing is judged there is one way, and the page says why."""
    dataset = loaded.dataset
    splits = [split for split in dataset.qrels if len(dataset.judged(split))]
    ways = [*([LABELLED] if splits else []), PASSAGES]
    way = st.segmented_control(
        "Queries",
        ways,
        default=ways[0],
        required=True,
        key=f"theory.queries.{len(ways)}",
        persist_state="session",
        help=f"Labelled: up to {COUNT} of the split that the sidebar shows. Passages: 5 to 25 words out of up to "
        f"{COUNT} documents; right is every document that contains them.",
    )
    if not splits:
        st.caption(
            "This corpus has no judged queries: passages of 5 to 25 words of its own documents stand in for them, and "
            "what is right is the document that contains them. Such queries are easier than people's."
        )
    way = way or ways[0]
    standing = st.session_state.get(f"split.{loaded.space.corpus.digest[:12]}")
    split = (standing if standing in splits else splits[0]) if way == LABELLED else ""
    return Choice(loaded, way, split)
