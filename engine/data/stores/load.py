"""A corpus and its embeddings into a vector engine, batch by batch; killed at any moment, it goes on where it was."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from engine.data.stores.config import config_path, read_entry
from engine.data.stores.milvus_collection import FLAT, NOTED, STRONG, MilvusAccess, MilvusCaller, MilvusTable
from engine.data.stores.pgvector_rows import PgTable, indexes_of
from engine.data.stores.postgres import Connections, PgAccess
from engine.data.stores.store import comment_of, note_in
from engine.errors import DataError
from engine.progress import Progress, Stop, with_cancellation
from engine.values import Corpus, Embeddings, digest_of, replace_surrogates

BATCH = 1_000
LOADING, INDEXING = "writing documents", "building the index"
STOPPED = "stopped; {done} of {total} documents are in the store, and the same command goes on from there"
LONGEST_TEXT, LONGEST_ID = 65_535, 512
"""Bytes of a text and of an id that Milvus takes."""
MOST_INDEXED = 2_000
"""Dimensions of a vector that pgvector indexes."""
WRITING_SECONDS, WAITING_SECONDS = 30.0, 300.0
"""What Milvus may take for a batch, and until all of a collection is on disk, indexed or in memory."""


@dataclass(frozen=True)
class HnswIndex:
    """An HNSW index; m: links a row, ef_construction: candidates while it is built."""

    m: int = 16
    ef_construction: int = 64


@dataclass(frozen=True)
class LoadResult:
    """What a load did; written: documents that were not there before; count: all that are there now."""

    written: int
    count: int


@dataclass(frozen=True)
class _Rows:
    """What is loaded, and its digest."""

    corpus: Corpus
    vectors: np.ndarray  # (n, d) float32
    digest: str
    comment: str  # while it is loaded
    complete: str  # the comment once all are there

    def __len__(self) -> int:
        return len(self.corpus)

    def batch(self, start: int, size: int) -> Iterator[tuple[str, np.ndarray, str, int, tuple[str, ...]]]:
        """Id, vector, text, place and metadata of some rows."""
        columns = list(self.corpus.metadata.values())
        for row in range(start, min(start + size, len(self))):
            yield (
                self.corpus.ids[row],
                self.vectors[row],
                _plain(self.corpus.passages[row]),
                row,
                tuple(_plain(column[row]) for column in columns),
            )


def load(
    target: str,
    corpus: Corpus,
    embeddings: Embeddings,
    *,
    batch: int = BATCH,
    index: HnswIndex | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> LoadResult:
    """Write documents into "name/collection" of stores.toml, which is made where there is none.

    Ids, vectors as float32, title and text, row numbers, and each column of metadata. A second run writes what is
    missing and doubles nothing. Raises DataError, where the collection is of something else too, and Cancelled.
    """
    if embeddings.ids != corpus.ids:
        raise DataError("the embeddings are of other documents than the corpus: both must have the same ids in order")
    if bad := next((name for name in chain(corpus.ids, corpus.metadata) if _plain(name) != name), None):
        raise DataError(
            f"no engine keeps the id or column {bad!r}, which holds half a character or a NUL: give it another name"
        )
    entry = read_entry(target)
    digest = digest_of([corpus.digest, embeddings.digest])
    vectors = embeddings.vectors.detach().cpu().float().numpy()
    notes = (comment_of(embeddings.encoder, digest, complete) for complete in (False, True))
    rows = _Rows(corpus, vectors, digest, *notes)
    watch = with_cancellation(progress, stop, STOPPED)
    writer: _PgWriter | _MilvusWriter
    if isinstance(entry.access, PgAccess) and isinstance(entry.table, PgTable):
        writer = _PgWriter(entry.access, entry.table, rows, target, index)
    elif isinstance(entry.access, MilvusAccess) and isinstance(entry.table, MilvusTable):
        writer = _MilvusWriter(entry.access, entry.table, rows, target, index)
    else:
        raise DataError(f"{target} is a file of vectors ({config_path()}), into which nothing is loaded")
    try:
        before = writer.begin()
        _write_all(writer, rows, before, batch, watch)
        if index is not None:
            watch(0, 0, INDEXING)
        writer.finish()
    finally:
        writer.close()
    return LoadResult(len(rows) - before, len(rows))


def check_target(target: str) -> None:
    """Raise DataError where the engine of "name/collection" cannot be reached, or nothing is loaded into it."""
    entry = read_entry(target)
    if isinstance(entry.access, PgAccess):
        entry.access.connect().close()
    elif isinstance(entry.access, MilvusAccess):
        entry.access.client().close()
    else:
        raise DataError(f"{target} is a file of vectors ({config_path()}), into which nothing is loaded")


def _write_all(writer: Any, rows: _Rows, before: int, batch: int, watch: Progress) -> None:
    """Every batch that is not there; batches come in order, so that what is there is the first ones."""
    for first in (before // batch * batch, 0):
        for start in range(first, len(rows), batch):
            watch(start, len(rows), LOADING)
            writer.write(start, batch)
        if (there := writer.count()) == len(rows):
            watch(len(rows), len(rows), LOADING)
            return
    raise DataError(
        f"{writer.target} holds {there:,} documents after {len(rows):,} were written: somebody else writes too"
    )


def _check_note(note: dict[str, Any], digest: str, target: str) -> None:
    if not note:
        raise DataError(
            f"{target} is there already, and not made by `frontier store load`: load under another name, or drop it"
        )
    if note.get("digest") != digest:
        raise DataError(
            f"{target} holds another corpus or other embeddings ({str(note.get('digest'))[:12]}; these are "
            f"{digest[:12]}): load under another name, or drop it first"
        )


def _plain(text: str) -> str:
    """A text as engines take it."""
    return replace_surrogates(text).replace("\0", "\ufffd")


class _PgWriter:
    """Batches into a table of PostgreSQL, each in a transaction of its own."""

    def __init__(self, access: PgAccess, table: PgTable, rows: _Rows, target: str, index: HnswIndex | None) -> None:
        self.connections, self.rows, self.target, self.index = Connections(access), rows, target, index
        self.table = replace(table, text=table.text or "text", place=table.place or "place")
        self.columns = [self.table.id, self.table.vector, self.table.text, self.table.place, *rows.corpus.metadata]
        if twice := [name for name in rows.corpus.metadata if name in self.columns[:4]]:
            raise DataError(f"a column of the corpus is called {twice[0]!r}, as one of the table's own; rename it")
        if index is not None and (dimension := rows.vectors.shape[1]) > MOST_INDEXED:
            raise DataError(
                f"pgvector indexes vectors of {MOST_INDEXED:,} numbers at most, and these have {dimension:,}: load "
                "without --index"
            )

    def _sql(self, text: str, **more: Any) -> Any:
        from psycopg import sql

        names = sql.SQL(", ").join(map(sql.Identifier, self.columns))
        table = sql.Identifier(*self.table.table.split(".", 1))
        own = {key: sql.Identifier(c) for key, c in zip(("id", "v", "text", "place"), self.columns, strict=False)}
        return sql.SQL(text).format(table=table, columns=names, **own, **more)

    def begin(self) -> int:
        """Make the table where there is none, and say how many of its rows are there."""
        return self.connections.write(self._begin)

    def _begin(self, connection: Any) -> int:
        from psycopg import sql

        kinds = ["text PRIMARY KEY", f"vector({self.rows.vectors.shape[1]})", "text", "bigint"]
        kinds += ["text"] * len(self.rows.corpus.metadata)
        self._wait_for_others(connection)
        there = connection.execute(
            "SELECT obj_description(to_regclass(%s), 'pg_class'), to_regclass(%s) IS NOT NULL",
            [self.table.quoted(connection)] * 2,
        ).fetchone()
        if there[1]:
            _check_note(note_in(there[0]), self.rows.digest, self.target)
            return self._count(connection)
        if connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone() is None:
            connection.execute("CREATE EXTENSION vector")
        made = [sql.SQL("{} " + kind).format(sql.Identifier(c)) for c, kind in zip(self.columns, kinds, strict=True)]
        connection.execute(self._sql("CREATE TABLE {table} ({made})", made=sql.SQL(", ").join(made)))
        self._note(connection, self.rows.comment)
        return 0

    def _wait_for_others(self, connection: Any) -> None:
        """Two that begin or finish at once wait for one another: each could hold what the other needs."""
        connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [self.table.table])

    def _note(self, connection: Any, comment: str) -> None:
        from psycopg import sql

        connection.execute(self._sql("COMMENT ON TABLE {table} IS {comment}", comment=sql.Literal(comment)))

    def write(self, start: int, size: int) -> None:
        """One batch, in one transaction; rows that are there stay as they are."""
        data = b"".join(map(_packed, self.rows.batch(start, size)))

        def work(connection: Any) -> None:
            connection.execute("SET LOCAL statement_timeout = 0")
            connection.execute(self._sql("CREATE TEMP TABLE frontier_batch (LIKE {table}) ON COMMIT DROP"))
            with connection.cursor().copy(self._sql("COPY frontier_batch ({columns}) FROM STDIN (FORMAT binary)")) as c:
                c.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
                c.write(data)
                c.write(b"\xff\xff")
            connection.execute(
                self._sql(
                    "INSERT INTO {table} ({columns}) SELECT {columns} FROM frontier_batch ON CONFLICT ({id}) DO NOTHING"
                )
            )

        self.connections.write(work)

    def _count(self, connection: Any) -> int:
        return int(connection.execute(self._sql("SELECT count(*) FROM {table}")).fetchone()[0])

    def count(self) -> int:
        return self.connections.ask(self._count)

    def finish(self) -> None:
        """Build what is not there of an index of places, by which scans go, and the one asked for, and note the end."""

        def work(connection: Any) -> None:
            connection.execute("SET LOCAL statement_timeout = 0")
            self._wait_for_others(connection)
            if not indexes_of(connection, self.table, self.table.place, ["btree"]):
                connection.execute(self._sql("CREATE INDEX ON {table} ({place})"))
            built = indexes_of(connection, self.table, self.table.vector, ["hnsw"])
            if self.index is not None and "ip" not in built.values():
                options = f"m = {int(self.index.m)}, ef_construction = {int(self.index.ef_construction)}"
                connection.execute(
                    self._sql("CREATE INDEX ON {table} USING hnsw ({v} vector_ip_ops) WITH (" + options + ")")
                )
            self._note(connection, self.rows.complete)

        self.connections.write(work)
        self.connections.write(lambda connection: connection.execute(self._sql("ANALYZE {table}")))

    def close(self) -> None:
        self.connections.close()


def _packed(row: tuple[str, np.ndarray, str, int, tuple[str, ...]]) -> bytes:
    """A row as COPY reads it in its binary format."""
    name, vector, text, place, more = row
    numbers = struct.pack(">hh", len(vector), 0) + vector.astype(">f4").tobytes()
    values = [name.encode(), numbers, text.encode(), struct.pack(">q", place), *(value.encode() for value in more)]
    return struct.pack(">h", len(values)) + b"".join(struct.pack(">i", len(value)) + value for value in values)


class _MilvusWriter:
    """Batches into a collection of Milvus; a document that is there is written over with itself."""

    def __init__(
        self, access: MilvusAccess, table: MilvusTable, rows: _Rows, target: str, index: HnswIndex | None
    ) -> None:
        self.caller, self.rows, self.target, self.index = MilvusCaller(access, table.collection), rows, target, index
        self.table = replace(table, text=table.text or "text", place=table.place or "place")
        if bad := [name for name in rows.corpus.metadata if not name.isidentifier() or not name.isascii()]:
            raise DataError(f"Milvus has no field called {bad[0]!r}: letters, digits and _ only; rename the column")
        if long := next((name for name in rows.corpus.ids if len(name.encode()) > LONGEST_ID), None):
            raise DataError(f"Milvus takes ids of {LONGEST_ID} bytes at most; {long[:40]!r}… is longer")

    def begin(self) -> int:
        """Make the collection where there is none, and say how many of its documents are there."""
        call = self.caller.call
        if call("has_collection"):
            described = call("describe_collection")
            note = note_in(described.get("properties", {}).get(NOTED) or described.get("description"))
            _check_note(note, self.rows.digest, self.target)
        else:
            self._make()
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

    def _make(self) -> None:
        from pymilvus import DataType, MilvusClient

        schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False, description=self.rows.comment)
        schema.add_field(self.table.id, DataType.VARCHAR, is_primary=True, max_length=LONGEST_ID)
        schema.add_field(self.table.vector, DataType.FLOAT_VECTOR, dim=self.rows.vectors.shape[1])
        schema.add_field(self.table.text, DataType.VARCHAR, max_length=LONGEST_TEXT)
        schema.add_field(self.table.place, DataType.INT64)
        for column in self.rows.corpus.metadata:
            schema.add_field(column, DataType.VARCHAR, max_length=LONGEST_TEXT)
        self.caller.call(
            "create_collection", WRITING_SECONDS, schema=schema, properties={NOTED: self.rows.comment}, **STRONG
        )

    def _index_params(self) -> Any:
        from pymilvus import MilvusClient

        made = MilvusClient.prepare_index_params()
        if self.index is None:
            made.add_index(self.table.vector, index_type="FLAT", metric_type="IP")
        else:
            build = {"M": self.index.m, "efConstruction": self.index.ef_construction}
            made.add_index(self.table.vector, index_type="HNSW", metric_type="IP", params=build)
        return made

    def write(self, start: int, size: int) -> None:
        """One batch."""
        fields = (self.table.id, self.table.vector, self.table.text, self.table.place)
        data: list[dict[str, Any]] = [
            {**dict(zip(fields, row[:4], strict=True)), **dict(zip(self.rows.corpus.metadata, row[4], strict=True))}
            for row in self.rows.batch(start, size)
        ]
        for own in data:
            own[self.table.text] = own[self.table.text].encode()[:LONGEST_TEXT].decode(errors="ignore")
        self.caller.call("upsert", WRITING_SECONDS, data=data)

    def count(self) -> int:
        found = self.caller.call("query", filter="", output_fields=["count(*)"], **STRONG)
        return int(found[0]["count(*)"])

    def finish(self) -> None:
        """Note that all is loaded; the index was made with the collection."""
        self.caller.call("flush", WAITING_SECONDS)
        self.caller.call("alter_collection_properties", properties={NOTED: self.rows.complete})

    def close(self) -> None:
        self.caller.close()
