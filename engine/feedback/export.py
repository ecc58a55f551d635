"""The adapted documents for use elsewhere: as files, or in a vector store."""

from pathlib import Path
from typing import Any

import numpy as np

from engine.data.cache import write
from engine.errors import ParamError
from engine.feedback.session import Session
from engine.values import replace_surrogates

SUFFIXES = (".npy", ".npz", ".parquet")
BLOCK = 1000
"""So many documents go to a store at a time."""


def export(session: Session, path: str | Path) -> Path:
    """Write the documents as they are now, whole or not at all.

    .npy: the (n, d) matrix, with `<stem>.ids.txt` beside it, one id a line; .npz: `vectors` and `ids`; .parquet: the
    columns id and vector, with the session's and the encoder's digests in the file's metadata. `engine.load_vectors`
    reads the first two. Raises ParamError for another suffix or for ids that cannot stand in lines, FrontierError where
    it cannot write.
    """
    path, ids = Path(path), session.space.corpus.ids
    match path.suffix.lower():
        case ".npy":
            if bad := [doc for doc in ids if "\n" in doc or "\r" in doc]:
                raise ParamError(f"path must end in .npz or .parquet, as ids hold line breaks ({bad[0]!r}); got {path}")
            lines = "".join(f"{doc}\n" for doc in ids).encode("utf-8", "replace")
            write(path.with_name(f"{path.stem}.ids.txt"), lines)
            write(path, lambda file: np.save(file, session.vectors, allow_pickle=False))
        case ".npz":
            named = np.array([replace_surrogates(doc) for doc in ids])
            write(path, lambda file: np.savez(file, vectors=session.vectors, ids=named))
        case ".parquet":
            _parquet(session, path)
        case suffix:
            raise ParamError(f"path must end in {', '.join(SUFFIXES)}; got {suffix or 'no suffix'!r}")
    return path


def upsert(session: Session, client: Any, collection: str = "documents", *, moved: bool = False) -> int:
    """Put the documents as they are now into a Qdrant collection, by row, with id and text as payload.

    client: a QdrantClient; a collection that is not there is made, for inner products. moved: only what differs from
    the first vectors, for a collection that holds those. Returns how many went in.
    """
    from qdrant_client import models

    corpus, vectors = session.space.corpus, session.vectors
    if not client.collection_exists(collection):
        size = models.VectorParams(size=session.start.dimension, distance=models.Distance.DOT)
        client.create_collection(collection, vectors_config=size)
    rows = np.flatnonzero((vectors != session.origin).any(axis=1)) if moved else np.arange(len(session))
    for start in range(0, len(rows), BLOCK):
        part = rows[start : start + BLOCK].tolist()
        client.upsert(
            collection,
            models.Batch(
                ids=part,
                vectors=vectors[part].tolist(),
                payloads=[{"id": corpus.ids[row], "text": corpus.passages[row]} for row in part],
            ),
        )
    return len(rows)


def _parquet(session: Session, path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    vectors = session.vectors
    flat = pa.array(np.ascontiguousarray(vectors).reshape(-1))
    encoder = session.space.embeddings.encoder
    metadata = {
        "frontier.session": session.digest,
        "frontier.embeddings": session.embeddings().digest,
        "frontier.origin": session.space.embeddings.digest,
        "frontier.encoder": encoder.digest if encoder else "",
    }
    table = pa.table(
        {
            "id": pa.array([replace_surrogates(doc) for doc in session.space.corpus.ids]),
            "vector": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]),
        }
    ).replace_schema_metadata(metadata)
    write(path, lambda file: parquet.write_table(table, file))
