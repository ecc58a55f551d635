"""A data set without the copies or near-duplicates of its corpus, its judgements and vectors taken along."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.data.readers import COPIES_REMARK
from engine.errors import DataError
from engine.evaluation.studies.near_duplicates import find_copies, find_equal_vectors, find_near_duplicates
from engine.params import Choice
from engine.progress import Progress, Stop
from engine.space import Space
from engine.values import (
    Corpus,
    Dataset,
    Embeddings,
    Notice,
    Qrels,
    TextSource,
    UsableSplits,
    texts_of,
)

DROPPED = Choice(
    "copies", "duplicates", ("copies", "near"), name="duplicates",
    help="copies: of documents with the same text the first stays. near: of each group of near-duplicates the one with "
    "most neighbours.",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class RowSource(TextSource):
    """Some rows of texts that stay on disk."""

    texts: TextSource
    rows: Sequence[int]

    def __len__(self) -> int:
        return len(self.rows)

    def read_rows(self, row_ids: Sequence[int]) -> list[str]:
        return self.texts.read_rows([self.rows[row_id] for row_id in row_ids])


def drop_duplicates(
    dataset: Dataset,
    duplicates: str = "copies",
    embeddings: Embeddings | None = None,
    threshold: float | None = None,
    *,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Dataset:
    """Return the data set with one document of each group of copies or near-duplicates.

    Judgements and aspects of a document that is dropped count for the one that stays; of several grades the highest.
    Vectors are taken over, so that nothing is embedded again. The corpus has a digest of its own, that of the documents
    that stay.

    Parameters
    ----------
    dataset : Dataset
        The data set.
    duplicates : str
        "copies": of documents with the same title and text the first stays. "near": of each group of near-duplicates,
        which includes copies, the document with most neighbours stays, of several the first.
    embeddings : Embeddings or None
        The vectors of the documents; None takes those of the data set. "near" needs them.
    threshold : float or None
        The cosine from which on documents are near-duplicates, for "near"; None takes the larger of 0.9 and a
        high percentile of random pairs.
    progress, stop : callable, object with is_set() or None
        As `find_near_duplicates` takes them.

    Returns
    -------
    Dataset
        The documents that stay, their vectors, where there were any, the judgements, and notices on what was dropped
        and on copies with different grades.

    Raises
    ------
    ParamError
        If `duplicates` or the threshold is not allowed.
    DataError
        If "near" lacks vectors, or they are not of this corpus.
    Cancelled
        If `stop` was set.

    Examples
    --------
    >>> import engine
    >>> corpus = engine.Corpus(("a", "b", "c"), ("red", "red", "blue"))
    >>> qrels = engine.Qrels({"q": {"b": 1}})
    >>> dataset = engine.Dataset(corpus, engine.Queries(("q",), ("red",)), {"test": qrels})
    >>> smaller = engine.drop_duplicates(dataset)
    >>> smaller.corpus.ids, smaller.qrels["test"].grades
    (('a', 'c'), {'q': {'a': 1}})
    """
    duplicates = DROPPED.check(duplicates)
    embeddings = dataset.vectors if embeddings is None else embeddings
    if embeddings is None and duplicates == "near":
        raise DataError("near-duplicates need vectors; pass embeddings=engine.embed(dataset.corpus)")
    if embeddings is None:
        return keep_heads(dataset, find_copies(dataset.corpus))
    space = Space(dataset.corpus, embeddings)
    # Copies are found by their texts, without comparing vectors.
    if duplicates == "copies":
        return keep_heads(dataset, find_copies(dataset.corpus, find_equal_vectors(space)), embeddings)
    near_duplicates = find_near_duplicates(space, threshold, progress=progress, stop=stop)
    return keep_heads(dataset, near_duplicates.find_heads(), embeddings)


def keep_heads(dataset: Dataset, heads: np.ndarray, embeddings: Embeddings | None = None) -> Dataset:
    """Return the data set of the documents that stand for themselves, with the judgements of all.

    heads: (n,) the row of the document that stands for each, as `NearDuplicates.find_heads` finds them; embeddings: of
    the documents, None for those of the data set
    """
    corpus, embeddings = dataset.corpus, dataset.vectors if embeddings is None else embeddings
    rows = np.flatnonzero(heads == np.arange(len(corpus)))
    if len(rows) == len(corpus):
        return replace(dataset, vectors=embeddings)
    head_ids = {corpus.ids[row]: corpus.ids[heads[row]] for row in np.flatnonzero(heads != np.arange(len(corpus)))}
    # Judgements name documents by id, so those of dropped documents are looked up by it.
    conflicts: list[str] = []
    splits = {split: _merge_grades(qrels, head_ids, conflicts) for split, qrels in dataset.qrels.items()}
    if isinstance(dataset.qrels, UsableSplits):
        splits = UsableSplits(splits, dataset.qrels.refusals)
    # A remark on copies is about documents that are gone.
    remaining_notices = tuple(notice for notice in dataset.notices if notice.remark != COPIES_REMARK)
    notices = Notice.for_ids(DROPPED_REMARK, head_ids, singular=DROPPED_ONE_REMARK) + Notice.for_ids(
        CONFLICT_REMARK, conflicts
    )
    return replace(
        dataset, corpus=take_documents(corpus, rows.tolist()), qrels=splits,
        aspects=_merge_aspects(dataset.aspects, head_ids), vectors=embeddings and embeddings.take(rows.tolist()),
        notices=remaining_notices + notices,
    )  # fmt: skip


DROPPED_REMARK = "documents dropped as duplicates; their judgements count for the documents that stay"
DROPPED_ONE_REMARK = "document dropped as a duplicate; its judgements count for the document that stays"
CONFLICT_REMARK = "pairs of a query and a document have duplicates with different grades; the highest counts"


def take_documents(corpus: Corpus, rows: Sequence[int]) -> Corpus:
    """Return the corpus of some rows, in that order; texts on disk stay there."""

    def take(texts: Sequence[str]) -> Sequence[str]:
        """Return the texts of the rows."""
        return RowSource(texts, rows) if isinstance(texts, TextSource) else tuple(texts_of(texts, rows))

    ids = tuple(corpus.ids[row] for row in rows)
    metadata = {column: tuple(texts_of(values, rows)) for column, values in corpus.metadata.items()}
    return Corpus(ids, take(corpus.texts), take(corpus.titles), corpus.name, metadata)


def _merge_grades(qrels: Qrels, head_ids: Mapping[str, str], conflicts: list[str]) -> Qrels:
    """Return judgements in which a dropped document's count for its head; conflicts: gets "query document" texts."""
    merged: dict[str, dict[str, int]] = {}
    for query_id, grades in qrels.grades.items():
        query_grades: dict[str, int] = {}
        in_conflict = set()
        for doc_id, grade in grades.items():
            head_id = head_ids.get(doc_id, doc_id)
            if query_grades.setdefault(head_id, grade) != grade:
                in_conflict.add(head_id)
                query_grades[head_id] = max(grade, query_grades[head_id])
        merged[query_id] = query_grades
        conflicts += (f"{query_id} {head_id}" for head_id in in_conflict)
    # The kind is read off the grades of all documents: those that stay may have lost every 0.
    result = replace(qrels, grades=merged)
    is_same_kind = result.is_pooled == qrels.is_pooled
    return result if is_same_kind else replace(result, judgements="pooled" if qrels.is_pooled else "complete")


def _merge_aspects(
    aspects: Mapping[str, Mapping[str, frozenset[str]]] | None, head_ids: Mapping[str, str]
) -> dict[str, dict[str, frozenset[str]]] | None:
    """Return the aspects of queries, covered by the documents that stay."""
    if aspects is None:
        return None
    merged = {}
    for query_id, named_sets in aspects.items():
        merged[query_id] = {
            name: frozenset(head_ids.get(doc_id, doc_id) for doc_id in doc_ids) for name, doc_ids in named_sets.items()
        }
    return merged
