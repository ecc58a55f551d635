"""Vectors that a data set's documents and queries came with: found beside them, aligned, checked and scaled."""

from dataclasses import replace
from functools import partial
from itertools import starmap
from pathlib import Path

import numpy as np
import torch

from engine.data import vectors
from engine.data.columns import Columns, offer_vectors
from engine.data.files import is_present, split_suffix
from engine.data.tables import (
    TABLE_SUFFIXES,
    describe_unused_vectors,
    find_table_suffix,
    preview_table,
    read_documents,
)
from engine.errors import DataError
from engine.progress import Progress, counted
from engine.values import Dataset, Embeddings, Notice

# Rows whose length differs from 1 by less count as unit vectors.
_LENGTH_TOLERANCE = 0.01
# Rows that are scaled at a time.
_BLOCK_ROWS = 4096


def find_vectors_file(folder: Path, stem: str) -> Path | None:
    """Return the file of vectors of this name in a folder, such as vectors.npy; None if there is none."""
    candidates = (folder / f"{stem}{suffix}" for suffix in vectors.VECTOR_SUFFIXES)
    return next(filter(is_present, candidates), None)


def find_document_vectors(source_path: Path) -> Path | None:
    """Return the file of vectors beside the documents of a folder or a table; None if there is none."""
    if source_path.is_dir():
        return find_vectors_file(source_path, "vectors")
    return find_vectors_file(source_path.parent, f"{split_suffix(source_path)[0]}.vectors")


def add_document_vectors(dataset: Dataset, vectors_path: Path, progress: Progress) -> Dataset:
    """Give a data set the vectors of a file, in the order of its corpus. Raises DataError if they do not fit."""
    if dataset.vectors is not None:
        raise DataError(f"the documents have vectors in a column and in {vectors_path.name}; take one of them")
    embeddings, has_ids = _read_vectors_file(vectors_path, progress)
    corpus, notices = dataset.corpus, dataset.notices
    if has_ids:
        ordered_vectors = vectors.align_vectors(embeddings, corpus.ids, vectors_path)
    elif len(embeddings) == len(corpus):
        ordered_vectors = Embeddings(corpus.ids, embeddings.vectors).with_file(embeddings.file)
        order_remark = f"rows of {vectors_path.name} have no ids and are taken to stand in the order of the corpus"
        notices += (Notice(order_remark, len(embeddings)),)
    else:
        raise DataError(
            f"{vectors_path.name} has {counted(len(embeddings), 'row')} and no ids, the corpus "
            f"{counted(len(corpus), 'document')}; "
            f"put the ids of the rows into {vectors_path.stem}.ids.txt, one a line"
        )
    return replace(dataset, vectors=ordered_vectors, notices=notices)


def add_query_vectors(dataset: Dataset, vectors_path: Path, progress: Progress) -> Dataset:
    """Give a data set's queries the vectors of a file; queries without one are left out, which a notice says.

    Vectors of other queries are ignored. Raises DataError if the file fits none of the queries, or has no ids and
    another number of rows.
    """
    queries, notices = dataset.queries, dataset.notices
    if not len(queries):
        raise DataError(f"{vectors_path.name} has vectors of queries, and the data set has none; add a queries.jsonl")
    if queries.vectors is not None:
        raise DataError(f"the queries have vectors in a column and in {vectors_path.name}; take one of them")
    embeddings, has_ids = _read_vectors_file(vectors_path, progress)
    if not has_ids:
        if len(embeddings) != len(queries):
            raise DataError(
                f"{vectors_path.name} has {counted(len(embeddings), 'row')} and no ids, and there are "
                f"{counted(len(queries), 'query', 'queries')}; "
                f"put the ids of the rows into {vectors_path.stem}.ids.txt, one a line"
            )
        embeddings = Embeddings(queries.ids, embeddings.vectors)
        order_remark = f"rows of {vectors_path.name} have no ids and are taken to stand in the order of the queries"
        notices += (Notice(order_remark, len(embeddings)),)
    known_queries = queries.only(embeddings.ids)
    if not len(known_queries):
        raise DataError(
            f"{vectors_path.name} has a vector of none of the queries: its ids are like {embeddings.ids[0]!r}, theirs "
            f"like {queries.ids[0]!r}"
        )
    missing_ids = filter(lambda query_id: query_id not in embeddings.position, queries.ids)
    notices += Notice.for_ids(f"queries have no vector in {vectors_path.name} and are left out", missing_ids)
    return replace(dataset, queries=replace(known_queries, vectors=embeddings), notices=notices)


def _read_vectors_file(vectors_path: Path, progress: Progress) -> tuple[Embeddings, bool]:
    """Read vectors from a .npy or .npz file, or from a table's only column of them; return True if they have ids."""
    if vectors_path.suffix.lower() in vectors.VECTOR_SUFFIXES:
        embeddings, missing_ids_notice = vectors.read_vectors(vectors_path, progress=progress)
        return embeddings, not missing_ids_notice
    if find_table_suffix(vectors_path) not in TABLE_SUFFIXES:
        raise DataError(f"{vectors_path.name} must be a .npy or .npz file, or a table with a column of vectors")
    preview = preview_table(vectors_path)
    names = [column_name for column_name, column_facts in preview.facts.items() if column_facts.dimension]
    if len(names) != 1:
        listed_names = ", ".join(map(repr, names)) or "none"
        raise DataError(f"{vectors_path.name} must have one column of vectors, lists of numbers; found {listed_names}")
    table = read_documents(vectors_path, {"vectors": names[0], "text": None, "title": None}, progress)
    if table.vectors is None or not table.ids:
        raise DataError(f"{vectors_path.name} holds no vectors")
    # Rows without an id column are numbered, which says as little as the rows of an array.
    return Embeddings(table.ids, torch.from_numpy(table.vectors)), preview.guessed_columns.id is not None


def note_unused_vectors(table_path: Path, columns: Columns, dataset: Dataset) -> tuple[Notice, ...]:
    """Return a notice of each column of a table that could be the documents' own vectors and is not used."""
    offers = offer_vectors(preview_table(table_path).facts, columns.vectors)
    return tuple(starmap(partial(describe_unused_vectors, len(dataset.corpus)), offers.items()))


def embed_table(ids: tuple[str, ...], matrix: np.ndarray | None) -> Embeddings | None:
    """Return the vectors of a table's rows as embeddings without a copy; None if it has no column of them."""
    return None if matrix is None else Embeddings(ids, torch.from_numpy(matrix))


def finish_document_vectors(dataset: Dataset, normalize: bool) -> Dataset:
    """Scale the documents' own vectors to length 1 if asked to, else add a notice of those of other lengths."""
    if dataset.vectors is None:
        return dataset
    finished, notices = _finish_vectors(dataset.vectors, normalize, "vectors", "query")
    return replace(dataset, vectors=finished, notices=dataset.notices + notices)


def finish_query_vectors(dataset: Dataset, normalize: bool) -> Dataset:
    """Scale the queries' own vectors to length 1 if asked to, and check that they fit the documents'.

    Raises DataError if the documents have no vectors, or vectors of another dimension.
    """
    queries = dataset.queries
    if queries.vectors is None:
        return dataset
    if dataset.vectors is None:
        problem = (
            "the queries came with vectors and the documents with none, so that nothing can be compared; add the "
            "documents' own (vectors.npy beside the corpus, or a column"
        )
        sentence_end = "), or leave out the queries'"
        raise DataError(f"{problem}: vectors=NAME{sentence_end}", f"{problem}{sentence_end}")
    if queries.vectors.dimension != dataset.vectors.dimension:
        raise DataError(
            f"vectors of queries must have the documents' dimension, {dataset.vectors.dimension:,}; got "
            f"{queries.vectors.dimension:,}: embed both with one model"
        )
    finished, notices = _finish_vectors(queries.vectors, normalize, "vectors of queries", "document")
    return replace(dataset, queries=replace(queries, vectors=finished), notices=dataset.notices + notices)


def _finish_vectors(
    embeddings: Embeddings, normalize: bool, rows_name: str, partner_name: str
) -> tuple[Embeddings, tuple[Notice, ...]]:
    """Return embeddings scaled to length 1, or as they are with a notice of rows of another length.

    For these relevance is an inner product and not a cosine, so that a decoder's weight of relevance against diversity
    means something else.
    """
    lengths = embeddings.vectors.norm(dim=1)
    unscaled_rows = ((lengths - 1).abs() > _LENGTH_TOLERANCE).nonzero().flatten().tolist()
    if not unscaled_rows:
        return embeddings, ()
    if not normalize:
        remark = (
            f"{rows_name} are not of unit length: relevance is their inner product with the {partner_name}, not the "
            "cosine"
        )
        unscaled_ids = map(embeddings.ids.__getitem__, unscaled_rows)
        return embeddings, Notice.for_ids(remark, unscaled_ids, "normalize scales them to length 1")
    if zero_rows := (lengths == 0).nonzero().flatten().tolist():
        first_ids = ", ".join(repr(embeddings.ids[row]) for row in zero_rows[:5])
        raise DataError(f"{len(zero_rows)} {rows_name} are all zero and have no direction (first: {first_ids})")
    # Scaled in place, block by block: a copy would take as much memory again. Pages of a mapped file are private.
    for start_row in range(0, len(embeddings), _BLOCK_ROWS):
        block_slice = slice(start_row, start_row + _BLOCK_ROWS)
        embeddings.vectors[block_slice] /= lengths[block_slice].unsqueeze(1)
    scaled_notice = Notice(f"{rows_name} were scaled to length 1", len(unscaled_rows))
    return Embeddings(embeddings.ids, embeddings.vectors), (scaled_notice,)
