"""A corpus and its embeddings into a vector engine, batch by batch; killed at any moment, it goes on where it was."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from engine.data.stores.config import config_path, read_entry
from engine.data.stores.milvus_collection import FLAT, NOTE_NAME, STRONG, MilvusAccess, MilvusCaller, MilvusTable
from engine.data.stores.pgvector_rows import PgTable, indexes_of
from engine.data.stores.postgres import Connections, PgAccess
from engine.data.stores.store import comment_of, note_in
from engine.errors import DataError
from engine.progress import Progress, Stop, counted, with_cancellation
from engine.values import Corpus, Embeddings, digest_of, replace_surrogates

LOAD_BATCH_SIZE = 1_000
LOADING_LABEL, INDEXING_LABEL = "writing documents", "building the index"
STOPPED_MESSAGE = "stopped; {done} of {total} documents are in the store, and the same command goes on from there"
MAX_TEXT_BYTES, MAX_ID_BYTES = 65_535, 512
"""Largest sizes of a text and of an id in Milvus."""
MAX_INDEXED_DIMENSION = 2_000
"""Largest dimension that pgvector can index."""
WRITING_SECONDS, WAITING_SECONDS = 30.0, 300.0
"""Time limits in Milvus: of a batch, and until all of a collection is on disk, indexed or in memory."""


@dataclass(frozen=True)
class HnswIndex:
    """An HNSW index; m: links a row, ef_construction: candidates while it is built."""

    m: int = 16
    ef_construction: int = 64


@dataclass(frozen=True)
class LoadResult:
    """Numbers of documents; written: those that were new; count: all that are stored now."""

    written: int
    count: int


@dataclass(frozen=True)
class _Rows:
    """Documents to load, with their digest."""

    corpus: Corpus
    vectors: np.ndarray  # (n, d) float32
    digest: str
    comment: str  # while it is loaded
    complete: str  # the comment once all are there

    def __len__(self) -> int:
        return len(self.corpus)

    def batch(self, start: int, size: int) -> Iterator[tuple[str, np.ndarray, str, int, tuple[str, ...]]]:
        """Yield id, vector, text, place (row number) and metadata of up to `size` documents from `start` on."""
        metadata_columns = list(self.corpus.metadata.values())
        for row_index in range(start, min(start + size, len(self))):
            text = _clean_text(self.corpus.passages[row_index])
            metadata_values = tuple(_clean_text(column[row_index]) for column in metadata_columns)
            yield self.corpus.ids[row_index], self.vectors[row_index], text, row_index, metadata_values


def load(
    target: str,
    corpus: Corpus,
    embeddings: Embeddings,
    *,
    batch: int = LOAD_BATCH_SIZE,
    index: HnswIndex | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> LoadResult:
    """Write documents into "name/collection" of stores.toml, which is created if it does not exist.

    It receives ids, vectors as float32, title and text, row numbers, and each column of metadata. A second run writes
    only what is missing. Raises DataError, also if the collection holds something else, and Cancelled.
    """
    if embeddings.ids != corpus.ids:
        raise DataError("the embeddings are of other documents than the corpus: both must have the same ids in order")
    names = chain(corpus.ids, corpus.metadata)
    if unstorable_name := next((name for name in names if _clean_text(name) != name), None):
        raise DataError(
            f"no engine keeps the id or column {unstorable_name!r}, which holds half a character or a NUL: give it "
            "another name"
        )
    entry = read_entry(target)
    # Documents and vectors are one state: another encoder makes another collection.
    digest = digest_of([corpus.digest, embeddings.digest])
    vectors = embeddings.vectors.detach().cpu().float().numpy()
    # The collection carries the first note until all documents are there, and then the second.
    loading_note, complete_note = (comment_of(embeddings.encoder, digest, complete) for complete in (False, True))
    load_rows = _Rows(corpus, vectors, digest, loading_note, complete_note)
    report_progress = with_cancellation(progress, stop, STOPPED_MESSAGE)
    writer: _PgWriter | _MilvusWriter
    if isinstance(entry.access, PgAccess) and isinstance(entry.table, PgTable):
        writer = _PgWriter(entry.access, entry.table, load_rows, target, index)
    elif isinstance(entry.access, MilvusAccess) and isinstance(entry.table, MilvusTable):
        writer = _MilvusWriter(entry.access, entry.table, load_rows, target, index)
    else:
        raise DataError(f"{target} is a file of vectors ({config_path()}), into which nothing is loaded")
    try:
        n_before = writer.begin()
        _write_all(writer, load_rows, n_before, batch, report_progress)
        if index is not None:
            report_progress(0, 0, INDEXING_LABEL)
        writer.finish()
    finally:
        writer.close()
    return LoadResult(len(load_rows) - n_before, len(load_rows))


def check_target(target: str) -> None:
    """Raise DataError if the engine of "name/collection" cannot be reached, or cannot be loaded into."""
    entry = read_entry(target)
    if isinstance(entry.access, PgAccess):
        entry.access.connect().close()
    elif isinstance(entry.access, MilvusAccess):
        entry.access.client().close()
    else:
        raise DataError(f"{target} is a file of vectors ({config_path()}), into which nothing is loaded")


def _write_all(writer: Any, load_rows: _Rows, n_before: int, batch_size: int, report_progress: Progress) -> None:
    """Write the documents that are missing, in order, so that the stored ones are always the first ones.

    writer: for an engine; n_before: number of documents stored already. Raises DataError if others write too.
    """
    # A first pass resumes at the last whole batch; if documents are missing, a second one writes all batches again.
    for first_row in (n_before // batch_size * batch_size, 0):
        for batch_start in range(first_row, len(load_rows), batch_size):
            report_progress(batch_start, len(load_rows), LOADING_LABEL)
            writer.write(batch_start, batch_size)
        if (n_stored := writer.count()) == len(load_rows):
            report_progress(len(load_rows), len(load_rows), LOADING_LABEL)
            return
    raise DataError(
        f"{writer.target} holds {counted(n_stored, 'document')} after {len(load_rows):,} were written: somebody else "
        "writes too"
    )


def _check_note(store_note: dict[str, Any], digest: str, target: str) -> None:
    """Raise a DataError unless a collection was made by loading exactly these documents and vectors.

    store_note: the note at the collection; digest: of the documents and vectors to load.
    """
    if not store_note:
        raise DataError(
            f"{target} is there already, and not made by `frontier store load`: load under another name, or drop it"
        )
    if store_note.get("digest") != digest:
        raise DataError(
            f"{target} holds another corpus or other embeddings ({str(store_note.get('digest'))[:12]}; these are "
            f"{digest[:12]}): load under another name, or drop it first"
        )


def _clean_text(text: str) -> str:
    """Replace what engines cannot store, half characters and NUL, in a text."""
    return replace_surrogates(text).replace("\0", "\ufffd")


class _PgWriter:
    """Writer of a corpus into a table of PostgreSQL, batch by batch, each in a transaction of its own.

    Rows that are there already are skipped, so that an interrupted load can be repeated.
    """

    def __init__(self, access: PgAccess, table: PgTable, rows: _Rows, target: str, index: HnswIndex | None) -> None:
        """Prepare to write rows into a table; target: its name, for errors; index: None for none.

        Raises DataError if the columns clash, or the index cannot hold the vectors.
        """
        self.connections, self.rows, self.target, self.index = Connections(access), rows, target, index
        self.table = replace(table, text=table.text or "text", place=table.place or "place")
        reserved_columns = [self.table.id, self.table.vector, self.table.text, self.table.place]
        self.columns = [*reserved_columns, *rows.corpus.metadata]
        if duplicates := [column for column in rows.corpus.metadata if column in reserved_columns]:
            raise DataError(f"a column of the corpus is called {duplicates[0]!r}, as one of the table's own; rename it")
        if index is not None and (dimension := rows.vectors.shape[1]) > MAX_INDEXED_DIMENSION:
            raise DataError(
                f"pgvector indexes vectors of {MAX_INDEXED_DIMENSION:,} numbers at most, and these have {dimension:,}: "
                "load without --index"
            )

    def _sql(self, text: str, **fragments: Any) -> Any:
        """Fill names into a template of SQL: {table}, all {columns}, or one: {id}, {v}, {text}, {place}.

        fragments: further pieces of SQL by the name that they have in the template.
        """
        from psycopg import sql

        columns = sql.SQL(", ").join(map(sql.Identifier, self.columns))
        table = sql.Identifier(*self.table.table.split(".", 1))
        # The first four columns are these; columns of metadata follow.
        parts = {key: sql.Identifier(c) for key, c in zip(("id", "v", "text", "place"), self.columns, strict=False)}
        return sql.SQL(text).format(table=table, columns=columns, **parts, **fragments)

    def begin(self) -> int:
        """Create the table if it does not exist, and return the number of its rows."""
        return self.connections.write(self._begin)

    def _begin(self, connection: Any) -> int:
        """Create the table, or check that it belongs to this load; return the number of its rows."""
        from psycopg import sql

        kinds = ["text PRIMARY KEY", f"vector({self.rows.vectors.shape[1]})", "text", "bigint"]
        # Each column of metadata is text.
        kinds += ["text"] * len(self.rows.corpus.metadata)
        self._wait_for_writers(connection)
        # The comment on the table holds the note of the load that made it.
        comment, exists = connection.execute(
            "SELECT obj_description(to_regclass(%s), 'pg_class'), to_regclass(%s) IS NOT NULL",
            [self.table.quote_name(connection)] * 2,
        ).fetchone()
        if exists:
            _check_note(note_in(comment), self.rows.digest, self.target)
            return self._count_rows(connection)
        if connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone() is None:
            connection.execute("CREATE EXTENSION vector")
        specs = [sql.SQL("{} " + kind).format(sql.Identifier(c)) for c, kind in zip(self.columns, kinds, strict=True)]
        connection.execute(self._sql("CREATE TABLE {table} ({made})", made=sql.SQL(", ").join(specs)))
        self._write_note(connection, self.rows.comment)
        return 0

    def _wait_for_writers(self, connection: Any) -> None:
        """Wait until no other load begins or finishes; lock the table against them in this transaction.

        Without this, two loads that begin or finish at once could each wait for a lock that the other holds.
        """
        connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [self.table.table])

    def _write_note(self, connection: Any, comment: str) -> None:
        """Store the note of the load as the table's comment."""
        from psycopg import sql

        connection.execute(self._sql("COMMENT ON TABLE {table} IS {comment}", comment=sql.Literal(comment)))

    def write(self, start: int, n_rows: int) -> None:
        """Write one batch in one transaction; existing rows stay as they are."""
        packed_rows = b"".join(map(_pack_row, self.rows.batch(start, n_rows)))

        def work(connection: Any) -> None:
            """Copy the rows into the table in one transaction, without those that it has."""
            connection.execute("SET LOCAL statement_timeout = 0")
            connection.execute(self._sql("CREATE TEMP TABLE frontier_batch (LIKE {table}) ON COMMIT DROP"))
            # COPY knows no conflicts, so rows go through a temporary table and only new ones are inserted.
            with connection.cursor().copy(self._sql("COPY frontier_batch ({columns}) FROM STDIN (FORMAT binary)")) as c:
                # Signature of the binary format, then its flags and the length of an extension, both 0; at the end a
                # count of −1.
                c.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
                c.write(packed_rows)
                c.write(b"\xff\xff")
            select_batch = "SELECT {columns} FROM frontier_batch ON CONFLICT ({id}) DO NOTHING"
            connection.execute(self._sql("INSERT INTO {table} ({columns}) " + select_batch))

        self.connections.write(work)

    def _count_rows(self, connection: Any) -> int:
        """Count the rows that the table has."""
        return int(connection.execute(self._sql("SELECT count(*) FROM {table}")).fetchone()[0])

    def count(self) -> int:
        return self.connections.ask(self._count_rows)

    def finish(self) -> None:
        """Build the missing indexes and note that the load is complete.

        One index is of places, the row numbers, for scans in order, and one is that requested for the vectors.
        """

        def work(connection: Any) -> None:
            """Build the missing indexes and mark the load as complete, in one transaction."""
            # Building an index may take hours.
            connection.execute("SET LOCAL statement_timeout = 0")
            self._wait_for_writers(connection)
            if not indexes_of(connection, self.table, self.table.place, ["btree"]):
                connection.execute(self._sql("CREATE INDEX ON {table} ({place})"))
            index_measures = indexes_of(connection, self.table, self.table.vector, ["hnsw"])
            if self.index is not None and "ip" not in index_measures.values():
                index_options = f"m = {int(self.index.m)}, ef_construction = {int(self.index.ef_construction)}"
                create_index = "CREATE INDEX ON {table} USING hnsw ({v} vector_ip_ops) WITH (" + index_options + ")"
                connection.execute(self._sql(create_index))
            self._write_note(connection, self.rows.complete)

        self.connections.write(work)
        self.connections.write(lambda connection: connection.execute(self._sql("ANALYZE {table}")))

    def close(self) -> None:
        self.connections.close()


def _pack_row(row: tuple[str, np.ndarray, str, int, tuple[str, ...]]) -> bytes:
    """Encode a row in the binary format of PostgreSQL's COPY.

    This is the number of fields, and then the length and the bytes of each.
    """
    doc_id, vector, text, place, metadata_values = row
    # pgvector sends the dimension, an unused number, and the numbers.
    vector_field = struct.pack(">hh", len(vector), 0) + vector.astype(">f4").tobytes()
    fields = [doc_id.encode(), vector_field, text.encode(), struct.pack(">q", place)]
    fields += [value.encode() for value in metadata_values]
    return struct.pack(">h", len(fields)) + b"".join(struct.pack(">i", len(field)) + field for field in fields)


class _MilvusWriter:
    """Writer of a corpus into a collection of Milvus, batch by batch.

    A document that is there already is written over with itself, so that an interrupted load can be repeated.
    """

    def __init__(
        self, access: MilvusAccess, table: MilvusTable, rows: _Rows, target: str, index: HnswIndex | None
    ) -> None:
        """Prepare to write rows into a collection; target: its name, for errors; index: None for FLAT.

        Raises DataError for names or ids that Milvus cannot store.
        """
        self.caller, self.rows, self.target, self.index = MilvusCaller(access, table.collection), rows, target, index
        self.table = replace(table, text=table.text or "text", place=table.place or "place")
        if columns := [name for name in rows.corpus.metadata if not name.isidentifier() or not name.isascii()]:
            raise DataError(f"Milvus has no field called {columns[0]!r}: letters, digits and _ only; rename the column")
        if long_id := next((name for name in rows.corpus.ids if len(name.encode()) > MAX_ID_BYTES), None):
            raise DataError(f"Milvus takes ids of {MAX_ID_BYTES} bytes at most; {long_id[:40]!r}… is longer")

    def begin(self) -> int:
        """Create the collection if it does not exist, and return the number of its documents."""
        call = self.caller.call
        if call("has_collection"):
            description = call("describe_collection")
            store_note = note_in(description.get("properties", {}).get(NOTE_NAME) or description.get("description"))
            _check_note(store_note, self.rows.digest, self.target)
        else:
            self._create_collection()
        # A load that was killed may have made the collection and not yet its index.
        if not call("list_indexes"):
            call("create_index", WAITING_SECONDS, index_params=self._index_params())
        elif self.index is not None and self.caller.read_index(self.table.vector)[0] in FLAT:
            raise DataError(
                f"{self.target} was made without --index, and Milvus keeps the index that it began with: load under "
                "another name, or without --index"
            )
        call("load_collection", WAITING_SECONDS)
        return self.count()

    def _create_collection(self) -> None:
        """Create the collection with a field for each column, and the note of an unfinished load."""
        from pymilvus import DataType, MilvusClient

        schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False, description=self.rows.comment)
        schema.add_field(self.table.id, DataType.VARCHAR, is_primary=True, max_length=MAX_ID_BYTES)
        schema.add_field(self.table.vector, DataType.FLOAT_VECTOR, dim=self.rows.vectors.shape[1])
        schema.add_field(self.table.text, DataType.VARCHAR, max_length=MAX_TEXT_BYTES)
        schema.add_field(self.table.place, DataType.INT64)
        for column in self.rows.corpus.metadata:
            schema.add_field(column, DataType.VARCHAR, max_length=MAX_TEXT_BYTES)
        note = {NOTE_NAME: self.rows.comment}
        self.caller.call("create_collection", WRITING_SECONDS, schema=schema, properties=note, **STRONG)

    def _index_params(self) -> Any:
        """Return the parameters of the index: HNSW as requested, else FLAT, which compares all vectors."""
        from pymilvus import MilvusClient

        index_params = MilvusClient.prepare_index_params()
        if self.index is None:
            index_params.add_index(self.table.vector, index_type="FLAT", metric_type="IP")
        else:
            build_params = {"M": self.index.m, "efConstruction": self.index.ef_construction}
            index_params.add_index(self.table.vector, index_type="HNSW", metric_type="IP", params=build_params)
        return index_params

    def write(self, start: int, n_rows: int) -> None:
        """Write up to `n_rows` documents from `start` on; documents of the same ids are replaced."""
        entities: list[dict[str, Any]] = []
        for doc_id, vector, text, place, metadata_values in self.rows.batch(start, n_rows):
            # A text longer than Milvus takes is cut after a full character.
            cut_text = text.encode()[:MAX_TEXT_BYTES].decode(errors="ignore")
            entity: dict[str, Any] = {self.table.id: doc_id, self.table.vector: vector, self.table.text: cut_text}
            entity |= {self.table.place: place, **dict(zip(self.rows.corpus.metadata, metadata_values, strict=True))}
            entities.append(entity)
        self.caller.call("upsert", WRITING_SECONDS, data=entities)

    def count(self) -> int:
        count_rows = self.caller.call("query", filter="", output_fields=["count(*)"], **STRONG)
        return int(count_rows[0]["count(*)"])

    def finish(self) -> None:
        """Write the rows to the disk, and mark the collection as loaded to its end in its properties.

        The index was made with the collection.
        """
        self.caller.call("flush", WAITING_SECONDS)
        self.caller.call("alter_collection_properties", properties={NOTE_NAME: self.rows.complete})

    def close(self) -> None:
        self.caller.close()
