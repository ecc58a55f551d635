"""How much a data set holds: documents, queries, and relevant documents a query (NNN paper, Table 3)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.values import Dataset


@dataclass(frozen=True)
class Spread:
    """Some whole numbers."""

    least: int
    median: float
    mean: float
    most: int

    @classmethod
    def of(cls, numbers: Sequence[int]) -> "Spread | None":
        """None of no numbers."""
        if not numbers:
            return None
        return cls(min(numbers), float(np.median(numbers)), float(np.mean(numbers)), max(numbers))


@dataclass(frozen=True, kw_only=True)
class SplitSizes:
    """The judged queries of one split."""

    split: str
    queries: int  # number judged
    answerable: int  # those with a relevant document
    judgements: int
    relevant: Spread | None  # relevant documents of an answerable query
    missing: int  # relevant documents that the corpus lacks
    shared: int  # queries that share their relevant set, word for word, with a query of another split


@dataclass(frozen=True, kw_only=True)
class DataSizes:
    """A data set in numbers."""

    documents: int
    queries: int
    document_words: Spread | None  # as spaces part them, titles included
    query_words: Spread | None
    aspects: Spread | None  # of a query that has some
    splits: tuple[SplitSizes, ...]


def sizes_of(dataset: Dataset) -> DataSizes:
    """Documents, queries and their lengths, and by split how many documents are relevant to a query.

    shared: where a query of one split has the relevant set of another's, what was learnt from the one is asked again.
    """
    sets = {split: {query: qrels.relevant(query) for query in qrels.grades} for split, qrels in dataset.qrels.items()}
    rows = []
    for split, own in sets.items():
        others = {docs for name, theirs in sets.items() if name != split for docs in theirs.values() if docs}
        counts = [len(docs) for docs in own.values() if docs]
        rows.append(
            SplitSizes(
                split=split,
                queries=len(own),
                answerable=len(counts),
                judgements=dataset.qrels[split].count,
                relevant=Spread.of(counts),
                shared=sum(docs in others for docs in own.values()),
                missing=len({doc for docs in own.values() for doc in docs} - dataset.corpus.position.keys()),
            )
        )
    aspects = [len(own) for own in (dataset.aspects or {}).values() if own]
    return DataSizes(
        documents=len(dataset.corpus), queries=len(dataset.queries), splits=tuple(rows), aspects=Spread.of(aspects),
        document_words=Spread.of([len(text.split()) for text in dataset.corpus.passages]),
        query_words=Spread.of([len(text.split()) for text in dataset.queries.texts]),
    )  # fmt: skip
