"""Export of the adapted documents: as files, or to a vector store."""

from pathlib import Path
from typing import Any

import numpy as np

from engine.data.cache import write
from engine.errors import ParamError
from engine.feedback.session import Session
from engine.values import replace_surrogates

VECTOR_FILE_SUFFIXES = (".npy", ".npz", ".parquet")
#: Documents sent to a vector store at a time.
UPSERT_BATCH_SIZE = 1000


def export(session: Session, path: str | Path) -> Path:
    """Write the current document vectors to a file, atomically.

    Parameters
    ----------
    session : Session
        Session whose vectors are written.
    path : str or Path
        .npy: the (n, d) matrix, with `<stem>.ids.txt` beside it, one id per line; .npz: `vectors` and `ids`;
        .parquet: columns id and vector, with the digests of session and encoder in the metadata.

    Returns
    -------
    Path
        The path. `engine.load_vectors` reads .npy and .npz.

    Raises
    ------
    ParamError
        For another suffix, or for ids with line breaks in .npy.
    FrontierError
        If the file cannot be written.

    Examples
    --------
    >>> path = orag.export(session, path.with_suffix(".npz"))
    """
    path, doc_ids = Path(path), session.space.corpus.ids
    match path.suffix.lower():
        case ".npy":
            # Ids go to a text file, one per line, so none may have a line break.
            if multiline_ids := [doc_id for doc_id in doc_ids if "\n" in doc_id or "\r" in doc_id]:
                raise ParamError(
                    f"path must end in .npz or .parquet, as ids hold line breaks ({multiline_ids[0]!r}); got {path}"
                )
            id_lines = "".join(f"{doc_id}\n" for doc_id in doc_ids).encode("utf-8", "replace")
            write(path.with_name(f"{path.stem}.ids.txt"), id_lines)
            write(path, lambda file: np.save(file, session.vectors, allow_pickle=False))
        case ".npz":
            id_array = np.array(list(map(replace_surrogates, doc_ids)))
            write(path, lambda file: np.savez(file, vectors=session.vectors, ids=id_array))
        case ".parquet":
            _write_parquet(session, path)
        case suffix:
            raise ParamError(f"path must end in {', '.join(VECTOR_FILE_SUFFIXES)}; got {suffix or 'no suffix'!r}")
    return path


def upsert(session: Session, client: Any, collection: str = "documents", *, moved: bool = False) -> int:
    """Write the current document vectors to a Qdrant collection, by row, with id and text as payload.

    Parameters
    ----------
    session : Session
        Session whose vectors are written.
    client : QdrantClient
        Connection to the store.
    collection : str
        Collection; it is created for inner products if it does not exist.
    moved : bool
        Write only vectors that differ from the first ones, for a collection that has those.

    Returns
    -------
    int
        Number of documents written.

    Examples
    --------
    >>> n_documents = orag.upsert(session, client)  # doctest: +SKIP
    """
    from qdrant_client import models

    corpus, vectors = session.space.corpus, session.vectors
    if not client.collection_exists(collection):
        vector_params = models.VectorParams(size=session.start.dimension, distance=models.Distance.DOT)
        client.create_collection(collection, vectors_config=vector_params)
    row_indices = np.flatnonzero((vectors != session.origin).any(axis=1)) if moved else np.arange(len(session))
    for batch_start in range(0, len(row_indices), UPSERT_BATCH_SIZE):
        batch_rows = row_indices[batch_start : batch_start + UPSERT_BATCH_SIZE].tolist()
        payloads = [{"id": corpus.ids[row], "text": corpus.passages[row]} for row in batch_rows]
        client.upsert(collection, models.Batch(ids=batch_rows, vectors=vectors[batch_rows].tolist(), payloads=payloads))
    return len(row_indices)


def _write_parquet(session: Session, path: Path) -> None:
    """Write ids and vectors as a Parquet table, with the digests of session and encoder in its metadata."""
    import pyarrow as pa
    from pyarrow import parquet

    vectors = session.vectors
    # A flat array with a fixed list size is one buffer, where a list of rows would copy each.
    flat_numbers = pa.array(np.ascontiguousarray(vectors).reshape(-1))
    encoder = session.space.embeddings.encoder
    metadata = {
        "frontier.session": session.digest,
        "frontier.embeddings": session.embeddings().digest,
        "frontier.origin": session.space.embeddings.digest,
        "frontier.encoder": encoder.digest if encoder else "",
    }
    doc_ids = pa.array(list(map(replace_surrogates, session.space.corpus.ids)))
    vector_lists = pa.FixedSizeListArray.from_arrays(flat_numbers, vectors.shape[1])
    table = pa.table({"id": doc_ids, "vector": vector_lists}).replace_schema_metadata(metadata)
    write(path, lambda file: parquet.write_table(table, file))
