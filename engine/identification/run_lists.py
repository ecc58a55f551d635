"""A run as lists of rows of a corpus: what of it can be read, and what speaks against it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from engine.data.readers import MAX_MISSING_SHARE
from engine.decoder import QueryLike, as_queries, convert_queries, query_batch
from engine.errors import DataError
from engine.evaluation.run_objects import load_run
from engine.evaluation.runs import RankedRun, read_run
from engine.identification.pools import RunLists
from engine.space import QueryBatch, Space, find_own_documents
from engine.values import Embeddings, Notice, Queries
from engine.wording import percent

MAX_FURTHER_QUERIES = 100
"""Queries without a list that are looked at, to see on which of them two decoders differ."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ReadRun:
    """A run that was read against a corpus and its queries.

    name: of the run; lists: of the queries that have one; further: queries without a list; notices: what was odd
    """

    name: str
    lists: RunLists
    further: QueryBatch
    notices: tuple[Notice, ...]


def read_lists(run: Any, space: Space, queries: QueryLike) -> ReadRun:
    """Read a run and find its documents and queries.

    run: a RankedRun, a file, a data frame, or a dictionary from query ids to lists of document ids or to
    {document: score}. Raises
    DataError for a run of no known query, or of which the corpus lacks more than half of the documents.
    """
    labelled = _label_queries(space, queries)
    ranked_run = _as_ranked_run(run, space, labelled.ids)
    documents, notices = _match_documents(ranked_run, space, labelled.ids)
    listed = [query_id for query_id in labelled.ids if documents.get(query_id)]
    further = [query_id for query_id in labelled.ids if query_id not in documents][:MAX_FURTHER_QUERIES]
    # Only queries that are looked at are embedded.
    batch = query_batch(space, _select(labelled, [*listed, *further]))
    list_batch = batch.take(range(len(listed)))
    row_of = space.corpus.position
    rows = tuple(np.array([row_of[doc_id] for doc_id in documents[query_id]], np.int64) for query_id in listed)
    own_rows = find_own_documents(space, list_batch.ids, list_batch.texts)
    # A system that returns the document that the query is does not leave it out.
    is_returned = np.array([own_row in query_rows for own_row, query_rows in zip(own_rows, rows, strict=True)])
    lists = RunLists(list_batch, rows, np.where(is_returned, -1, own_rows), max(map(len, rows)))
    further_batch = batch.take(range(len(listed), len(batch)))
    return ReadRun(name=ranked_run.name, lists=lists, further=further_batch, notices=(*ranked_run.notices, *notices))


def _label_queries(space: Space, queries: Any) -> Queries | Embeddings:
    """Return queries with ids: texts and rows of an array are numbered from 0."""
    queries = convert_queries(queries)
    if isinstance(queries, Queries | Embeddings):
        return queries
    if isinstance(queries, Tensor):
        batch = query_batch(space, queries)
        return Embeddings(batch.ids, batch.vectors)
    return as_queries(queries)


def _select(queries: Queries | Embeddings, ids: Sequence[str]) -> Queries | Embeddings:
    """Return the queries of some ids, in that order."""
    if isinstance(queries, Embeddings):
        return queries.take([queries.position[query_id] for query_id in ids])
    positions = [queries.position[query_id] for query_id in ids]
    texts = tuple(queries.texts[position] for position in positions)
    return Queries(tuple(ids), texts, vectors=queries.vectors)


def _as_ranked_run(run: Any, space: Space, query_ids: Sequence[str]) -> RankedRun:
    """Return a run of any kind as a RankedRun. Raises DataError for another value."""
    return read_run(run, space.corpus.ids, query_ids) if isinstance(run, str | Path) else load_run(run)


def _match_documents(
    run: RankedRun, space: Space, query_ids: Sequence[str]
) -> tuple[dict[str, tuple[str, ...]], tuple[Notice, ...]]:
    """Return each known query's known documents, once each, with notices of those that are left out."""
    known_queries = set(query_ids)
    listed = {query_id: doc_ids for query_id, doc_ids in run.documents.items() if query_id in known_queries}
    unknown_queries = [query_id for query_id in run.documents if query_id not in known_queries]
    if not listed:
        raise DataError(
            f"none of the queries of {run.name} is among those given (first: {_quote(unknown_queries)}); the ids here "
            f"are like {_quote(query_ids)}. Pass the queries that were asked"
        )
    all_ids = [doc_id for doc_ids in listed.values() for doc_id in doc_ids]
    unknown = dict.fromkeys(doc_id for doc_id in all_ids if doc_id not in space.corpus.position)
    # Counted by entries of lists, as a run of another corpus shares few.
    n_unknown = sum(doc_id in unknown for doc_id in all_ids)
    if n_unknown > MAX_MISSING_SHARE * len(all_ids):
        raise DataError(
            f"{percent(n_unknown / len(all_ids))} of what {run.name} lists ({n_unknown:,} of {len(all_ids):,}; first: "
            f"{_quote(unknown)}) is not in the corpus, whose ids are like {_quote(space.corpus.ids)}; choose a run of "
            "this corpus"
        )
    documents, repeated, empty = {}, [], []
    for query_id, doc_ids in listed.items():
        documents[query_id] = tuple(dict.fromkeys(doc_id for doc_id in doc_ids if doc_id not in unknown))
        if len(set(doc_ids)) < len(doc_ids):
            repeated.append(query_id)
        if not documents[query_id]:
            empty.append(query_id)
    if len(empty) == len(documents):
        raise DataError(f"no query of {run.name} has a list; pass the documents that it returned, best first")
    notices = (
        *Notice.for_ids(f"queries of {run.name} are not among those given, and are left out", unknown_queries),
        *Notice.for_ids(f"documents of {run.name} are not in the corpus, and are left out", unknown),
        *Notice.for_ids(
            f"queries of {run.name} list a document twice; its better place counts",
            repeated,
            singular=f"query of {run.name} lists a document twice; its better place counts",
        ),
        *Notice.for_ids(f"queries have an empty list in {run.name}", empty),
    )
    return documents, notices


def _quote(ids: Iterable[str]) -> str:
    """Return the first three ids in quotes."""
    return ", ".join(map(repr, list(ids)[:3])) or "none"
