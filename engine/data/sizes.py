"""Size of a data set: documents, queries, and relevant documents per query (NNN paper, Table 3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from engine.values import Dataset


@dataclass(frozen=True)
class Spread:
    """Range, median and mean of whole numbers."""

    least: int
    median: float
    mean: float
    most: int

    @classmethod
    def of(cls, numbers: Sequence[int]) -> "Spread | None":
        """Summarize numbers; None if there are none."""
        if not numbers:
            return None
        return cls(min(numbers), float(np.median(numbers)), float(np.mean(numbers)), max(numbers))


@dataclass(frozen=True, kw_only=True)
class SplitSizes:
    """Numbers of the judged queries of one split."""

    split: str
    queries: int  # number judged
    answerable: int  # those with a relevant document
    judgements: int
    relevant: Spread | None  # relevant documents of an answerable query
    missing: int  # relevant documents that the corpus lacks
    shared: int  # queries that share their relevant set, word for word, with a query of another split


@dataclass(frozen=True, kw_only=True)
class DataSizes:
    """Numbers of a data set."""

    documents: int
    queries: int
    document_words: Spread | None  # as spaces part them, titles included
    query_words: Spread | None
    aspects: Spread | None  # of a query that has some
    splits: tuple[SplitSizes, ...]


def measure_sizes(dataset: Dataset) -> DataSizes:
    """Count a data set's documents, queries and words, and for each split the relevant documents.

    A query whose set of relevant documents is also that of a query in another split is counted as shared. Shared sets
    are counted because a model trained on one split has then seen the answer of another.
    """
    relevant_sets: dict[str, list[frozenset[str]]] = {}
    for split, qrels in dataset.qrels.items():
        relevant_sets[split] = list(map(qrels.relevant, qrels.grades))
    split_sizes = []
    # Queries without a relevant document have an empty set, which counts neither as answerable nor as shared.
    for split, split_sets in relevant_sets.items():
        other_splits = (other_sets for other_split, other_sets in relevant_sets.items() if other_split != split)
        other_sets = set(filter(None, chain.from_iterable(other_splits)))
        relevant_counts = list(map(len, filter(None, split_sets)))
        split_sizes.append(
            SplitSizes(
                split=split,
                queries=len(split_sets),
                answerable=len(relevant_counts),
                judgements=dataset.qrels[split].count,
                relevant=Spread.of(relevant_counts),
                shared=sum(map(other_sets.__contains__, split_sets)),
                missing=len(set(chain.from_iterable(split_sets)) - dataset.corpus.position.keys()),
            )
        )
    # Queries without aspects are left out: they would lower the mean.
    aspect_counts = list(map(len, filter(None, (dataset.aspects or {}).values())))
    return DataSizes(
        documents=len(dataset.corpus), queries=len(dataset.queries),
        splits=tuple(split_sizes), aspects=Spread.of(aspect_counts),
        document_words=Spread.of([len(document_text.split()) for document_text in dataset.corpus.passages]),
        query_words=Spread.of([len(document_text.split()) for document_text in dataset.queries.texts]),
    )  # fmt: skip
