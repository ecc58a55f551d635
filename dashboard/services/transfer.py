"""Data sets in memory: sent from a notebook's process to a dashboard's, and opened there without any file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from dashboard.services.source import Source
from engine.data.files import MEMORY_PREFIX

if TYPE_CHECKING:
    from engine.values import Dataset, Embeddings

LENGTH_BYTES = 8
"""Bytes of the number before a header, its length."""
_DATASETS: dict[str, Dataset] = {}
"""Data sets that this process was sent, by the path of their source."""


def send_dataset(dataset: Dataset, settings: Mapping[str, Any], stream: IO[bytes]) -> None:
    """Write a data set, with its vectors as they are, and settings for the process that reads the stream."""
    arrays: list[Any] = []
    corpus, queries = dataset.corpus, dataset.queries
    header = {
        "settings": dict(settings),
        "name": corpus.name,
        "corpus": [list(corpus.ids), list(corpus.texts), list(corpus.titles), _list_columns(corpus.metadata)],
        "queries": [list(queries.ids), list(queries.texts), _list_columns(queries.metadata)],
        "qrels": [[split, each.grades, each.relevant_from, each.judgements] for split, each in dataset.qrels.items()],
        "aspects": _list_aspects(dataset.aspects),
        "vectors": _describe_vectors(dataset.vectors, arrays),
        "query_vectors": _describe_vectors(queries.embeddings, arrays),
    }
    # Lone surrogates of texts are escaped, as JSON is written in ASCII.
    encoded = json.dumps(header).encode("ascii")
    stream.write(len(encoded).to_bytes(LENGTH_BYTES))
    stream.write(encoded)
    # Vectors follow as raw numbers: as text they would take several times the room, and lose digits.
    for array in arrays:
        stream.write(array.reshape(-1).view("uint8").data)
    stream.flush()


def receive_dataset(stream: IO[bytes]) -> tuple[Dataset, dict[str, Any]]:
    """Read what `send_dataset` wrote; return the data set and the settings. Raises EOFError if the stream ends."""
    from engine.values import Corpus, Dataset, Qrels, Queries

    # Plain JSON and numbers: nothing that is sent can be run, as a pickle could.
    header = json.loads(_read_exactly(stream, int.from_bytes(_read_exactly(stream, LENGTH_BYTES))))
    ids, texts, titles, columns = header["corpus"]
    corpus = Corpus(tuple(ids), tuple(texts), tuple(titles), header["name"], _read_columns(columns))
    vectors = _read_vectors(header["vectors"], corpus.ids, stream)
    query_ids, query_texts, query_columns = header["queries"]
    query_vectors = _read_vectors(header["query_vectors"], tuple(query_ids), stream)
    queries = Queries(tuple(query_ids), tuple(query_texts), _read_columns(query_columns), query_vectors)
    qrels = {split: Qrels(grades, grade, kind) for split, grades, grade, kind in header["qrels"]}
    return Dataset(corpus, queries, qrels, _read_aspects(header["aspects"]), vectors), header["settings"]


def register_dataset(dataset: Dataset) -> Source:
    """Have this process open a data set by the returned source, as it opens one in files."""
    from engine.values import Qrels

    judged = next(iter(dataset.qrels.values()), Qrels({}))
    # The last part of a path is what pages call a corpus, so that its name must be one part.
    path = f"{MEMORY_PREFIX}{dataset.corpus.name.replace('/', ' ').strip() or 'corpus'}"
    encoder = None if dataset.vectors is None else dataset.vectors.encoder
    embedding: dict[str, Any] = {} if encoder is None else {"encoder": encoder.name, "dtype": encoder.dtype}
    # A source says from which grade on documents are relevant, and `Loaded.with_judged_as` applies it.
    _DATASETS[path] = dataset.with_relevant_from(1).with_judgements("auto")
    return Source(path, relevant=judged.relevant_from, judgements=judged.judgements, **embedding)


def find_dataset(path: str) -> Dataset | None:
    """Return the data set that this process was sent and opens by a path; None for any other path."""
    return _DATASETS.get(path)


def _list_columns(metadata: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {column: list(values) for column, values in metadata.items()}


def _read_columns(columns: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    return {column: tuple(values) for column, values in columns.items()}


def _list_aspects(aspects: Mapping[str, Mapping[str, frozenset[str]]] | None) -> Any:
    """Return aspects by query as JSON has them, with sorted lists for sets; None for none."""
    if aspects is None:
        return None
    return {query: {name: sorted(ids) for name, ids in sets.items()} for query, sets in aspects.items()}


def _read_aspects(aspects: Any) -> dict[str, dict[str, frozenset[str]]] | None:
    """Return what `_list_aspects` was given."""
    if aspects is None:
        return None
    return {query: {name: frozenset(ids) for name, ids in sets.items()} for query, sets in aspects.items()}


def _describe_vectors(embeddings: Embeddings | None, arrays: list[Any]) -> dict[str, Any] | None:
    """Return the shape, type and encoder of vectors, and put them to the arrays to send; None for none."""
    if embeddings is None:
        return None
    array = embeddings.vectors.detach().cpu().contiguous().numpy()
    arrays.append(array)
    encoder = embeddings.encoder
    names = None if encoder is None else [encoder.name, encoder.digest, encoder.dtype]
    return {"shape": list(array.shape), "dtype": array.dtype.name, "encoder": names}


def _read_vectors(description: dict[str, Any] | None, ids: tuple[str, ...], stream: IO[bytes]) -> Embeddings | None:
    """Read the vectors of ids as `_describe_vectors` says; None for none."""
    if description is None:
        return None
    import numpy as np
    import torch

    from engine.values import Embeddings, EncoderRef

    dtype = np.dtype(description["dtype"])
    n_bytes = int(np.prod(description["shape"])) * dtype.itemsize
    # Rows of the buffer itself: a copy would take as much memory again.
    rows = np.frombuffer(_read_exactly(stream, n_bytes), dtype).reshape(description["shape"])
    encoder = description["encoder"] and EncoderRef(*description["encoder"])
    return Embeddings(ids, torch.from_numpy(rows), encoder)


def _read_exactly(stream: IO[bytes], n_bytes: int) -> bytearray:
    """Read a number of bytes into a buffer that can be written to. Raises EOFError if the stream ends before."""
    buffer = bytearray(n_bytes)
    view, position = memoryview(buffer), 0
    while position < n_bytes:
        # A pipe hands over parts.
        n_read = stream.readinto(view[position:])  # type: ignore[attr-defined]
        if not n_read:
            raise EOFError(f"the data set ended after {position} of {n_bytes} bytes")
        position += n_read
    return buffer
