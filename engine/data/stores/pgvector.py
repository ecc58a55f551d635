"""PostgreSQL with pgvector as an oracle: exact by a scan, or by an HNSW index, as the plan that it read back says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from engine.data.stores.pgvector_rows import PgRows, PgTable, RowFacts, values_of
from engine.data.stores.postgres import Connections, PgAccess
from engine.data.stores.results import StoreRef
from engine.data.stores.store import RawResult, VectorStore, Where, check_loaded, encoder_of, where_text
from engine.errors import DataError
from engine.values import EncoderRef

MAX_EF = 1000
MIN_LIMIT = 32
"""Smallest number of rows that a statement requests."""
LAST_PLACE = 2**62
"""Place of a row without one, which sorts it after all others."""
DISTANCE_OPERATORS = {"ip": "<#>", "cosine": "<=>", "l2": "<->"}
"""Measure of an index → the operator whose order lets the planner use it."""
PLANNER_SETTINGS = (
    "SELECT pg_current_snapshot()::text, set_config('enable_indexscan', {index}, true), "
    "set_config('enable_indexonlyscan', {index}, true), set_config('enable_bitmapscan', {index}, true), "
    "set_config('enable_seqscan', {other}, true), set_config('enable_sort', {other}, true), "
    "set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.max_scan_tuples', '2147483647', true), "
    "set_config('hnsw.ef_search', {ef}, true)"
)


class PgVectorStore(VectorStore):
    """Table of PostgreSQL as a vector store, searched with pgvector; rows without a vector are left out.

    Vectors are of pgvector's types vector or halfvec. where: the filter whose documents `ref`, `sample` and `scan` are
    about. Raises DataError for a server that is gone, a table or columns that are not there, and an index that does not
    rank by inner products.
    """

    kind: ClassVar[str] = "pgvector"
    snapshots: bool = True

    def __init__(
        self,
        access: PgAccess,
        table: PgTable,
        where: Where | None = None,
        encoder: EncoderRef | None = None,
        connections: Connections | None = None,
    ) -> None:
        """Attach a table. Raises DataError.

        where: filter that applies unless a call has its own; encoder: by default the one in the note of the load;
        connections: those of another store of this database, to share them; None to open new ones.
        """
        self.access, self.table, self.where = access, table, where
        self.name = f"{access.name}/{table.name or table.table}"
        if not 1 <= table.ef <= MAX_EF:
            raise DataError(f"ef of {self.name} must lie between 1 and {MAX_EF:,}; got {table.ef}")
        self.connections = connections or Connections(access)
        self.rows: PgRows = self.connections.ask(lambda connection: PgRows(connection, table, self.name))
        self.dimension = self.rows.dimension
        check_loaded(self.rows.note, self.name)
        self.encoder = encoder or encoder_of(self.rows.note)
        # Tells this server's snapshots from those of another.
        self.system: str = self.connections.ask(_read_cluster_id)
        # On a standby server a snapshot's name stays the same although replayed changes alter the rows.
        standby_row: Any = self.connections.ask(lambda c: c.execute("SELECT pg_is_in_recovery()").fetchone())
        self.snapshots = not standby_row[0]
        # The result is not needed; a store whose rows do not fit is thus refused here, not at its first search.
        self.connections.ask(self._read_ref)

    def __reduce__(self) -> tuple[Any, ...]:
        return PgVectorStore, (self.access, self.table, self.where, self.encoder)

    def with_ef(self, ef: int, force_index: bool | None = None) -> PgVectorStore:
        """Return a store of the same documents that searches its index with another effort.

        ef: candidates that a search keeps; force_index: True if the index must be used, None leaves that as it is.
        """
        forced = self.table.force_index if force_index is None else force_index
        table = replace(self.table, ef=ef, force_index=forced)
        return PgVectorStore(self.access, table, self.where, self.encoder, self.connections)

    @property
    def ref(self) -> StoreRef:
        return self.connections.ask(self._read_ref)

    def _read_ref(self, connection: Any) -> StoreRef:
        """Return the identity of the documents in the connection's snapshot: name, number, lengths and digest.

        Facts of an earlier scan are used again if nothing was committed since, which the snapshot's name tells.
        """
        snapshot = connection.execute("SELECT pg_current_snapshot()::text").fetchone()[0]
        facts = self.rows.load_facts(connection, snapshot, self.where)
        # Two servers, or two tables of one, can have snapshots of the same name.
        state = f"{self.system}:{self.rows.oid}:{snapshot}"
        return StoreRef(
            kind=self.kind,
            collection=self.name,
            count=facts.count,
            dimension=self.dimension,
            snapshot=state,
            where=where_text(self.where),
            content=facts.content,
            longest=facts.longest,
            unit=facts.unit,
        )

    @contextmanager
    def snapshot(self) -> Iterator[str]:
        """Let all queries of this thread inside the block see one state of the table; yield the state's name."""
        with self.connections.snapshot():
            yield self.ref.snapshot

    def _search(self, points: np.ndarray, sizes: Sequence[int], exact: bool, where: Where | None) -> RawResult:
        """Search PostgreSQL for the documents of largest inner product with each unit point, (B, d) float32.

        Returns the hits of each point, the query plan, and True if all documents were looked at. sizes: number of
        documents for each point, which may get more. Raises DataError if an exact search used an index. The plans are
        read back in the same round trip, as they alone tell if the planner used the index. A document's place is its
        row number in the corpus, by which ties are broken.
        """
        where = where or self.where
        index_measures = self.rows.indexes.values()
        # An exact search and an index of inner products need no correction; an index of cosines or distances does.
        is_by_product = exact or not index_measures or "ip" in index_measures
        measure = "ip" if is_by_product else next(iter(index_measures))
        # Points get the column's type, as an index ranks by that alone; an exact search computes in float32 instead.
        is_half = self.rows.types[self.table.vector] == "halfvec" and not exact
        vector_sql = f"{{v}}::vector({self.dimension})" if exact else "{v}"
        point_type = "halfvec" if is_half else "vector"
        statement = self.rows.sql(
            f"SELECT {{id}}::text, {{v}}, {vector_sql} {DISTANCE_OPERATORS[measure]} %s::{point_type} AS d, "
            f"coalesce({{place}}, {LAST_PLACE}) "
            "FROM {table} WHERE {where} ORDER BY d LIMIT %s",
            where,
        )
        # The digits say every float32 exactly.
        point_texts = [f"[{','.join(map(str, point.tolist()))}]" for point in points]
        # Sizes are rounded up to powers of two, so that there are few limits: the planner looks at the limit, and the
        # plan of each is read back.
        limits = [max(MIN_LIMIT, 1 << (n_wanted - 1).bit_length()) for n_wanted in sizes]
        parameters = [[text, *values_of(where), limit] for text, limit in zip(point_texts, limits, strict=True)]
        # One statement for each limit is explained, with the values of the last point that has it.
        explained = list({limit: values for limit, values in zip(limits, parameters, strict=True)}.values())

        def work(connection: Any) -> tuple[list[list[tuple[Any, ...]]], RowFacts, str, bool]:
            """Run all statements in one snapshot; return rows of each point, row facts, plan, and if it was exact."""
            from psycopg import sql

            explain = sql.SQL("EXPLAIN (FORMAT JSON) ") + statement
            # All in one round trip.
            with connection.pipeline():
                settings_cursor = connection.execute(_planner_settings(exact, self.table, bool(self.rows.indexes)))
                plan_cursors = [connection.execute(explain, values) for values in explained]
                row_cursors = [connection.execute(statement, values, binary=True) for values in parameters]
                # The settings return the snapshot's name and their values; EXPLAIN one row, a list with one plan.
                snapshot, *_settings = settings_cursor.fetchone()
                plans = [cursor.fetchone()[0][0]["Plan"] for cursor in plan_cursors]
                rows_by_point = [cursor.fetchall() for cursor in row_cursors]
            facts = self.rows.load_facts(connection, snapshot, self.where)
            return rows_by_point, facts, *self.rows.read_plans(plans)

        rows_by_point, facts, plan, looked_at_all = self.connections.ask(work)
        if exact and not looked_at_all:
            raise DataError(
                f"{self.name} was asked exactly and used its {plan}: the planner did not let it be turned off"
            )
        # Numbers of another measure are replaced by inner products computed here, and widened by what the index may
        # have misordered.
        # A scan of all rows for a point rounded to float16 is off by as much as an index is.
        is_rounded = is_half or not looked_at_all or measure != "ip"
        slack = self.rows.slack(facts, measure, is_half) if is_rounded else 0.0
        hits = []
        for rows, point in zip(rows_by_point, points, strict=True):
            hits.append(self.rows.hits(rows, point if slack else None, slack))
        return hits, plan, looked_at_all

    def count(self, where: Where | None = None) -> int:
        """Count the documents that match a filter."""
        query = self.rows.sql("SELECT count(*) FROM {table} WHERE {where}", where)
        count_row: Any = self.connections.ask(lambda connection: connection.execute(query, values_of(where)).fetchone())
        return int(count_row[0])

    def texts(self, ids: Sequence[str]) -> list[str]:
        """Return the documents' texts, "" for null. Raises DataError for an unknown id."""
        # Ids arrive as text; PostgreSQL casts them to the column's type, so that its index is used.
        id_type = self.rows.types[self.table.id]
        statement = self.rows.sql(
            "SELECT {id}::text, {text}::text FROM {table} WHERE {id} = ANY(%s::text[]::" + id_type + "[])"
        )
        texts = dict(self.connections.ask(lambda connection: connection.execute(statement, [list(ids)]).fetchall()))
        if unknown_ids := [doc_id for doc_id in ids if doc_id not in texts]:
            raise DataError(f"{self.name} has no document {unknown_ids[0]!r}")
        return [texts[doc_id] or "" for doc_id in ids]

    def sample(self, n: int, seed: int = 0) -> tuple[tuple[str, ...], np.ndarray]:
        """Return ids and (m, d) vectors of at most n documents, the same for the same seed."""
        # Rows are ordered by a hash with the seed: the same seed gives the same rows.
        query = self.rows.sql(
            "SELECT {id}::text, {v} FROM {table} WHERE {where} ORDER BY hashtextextended({id}::text, %s), 1 LIMIT %s",
            self.where,
        )
        arguments = [*values_of(self.where), seed, n]
        return self.rows.read(self.connections.ask(lambda c: c.execute(query, arguments, binary=True).fetchall()))

    def scan(self, size: int) -> Iterator[tuple[tuple[str, ...], np.ndarray]]:
        """Yield ids and vectors of all documents, `size` at a time, in the order of the corpus if known.

        That is by place, the row number in the corpus, if the table has it, and else by id.
        """
        keys = "{place}, {id}" if self.rows.place else "{id}"
        query = self.rows.sql(f"SELECT {{id}}::text, {{v}} FROM {{table}} WHERE {{where}} ORDER BY {keys}", self.where)
        return map(self.rows.read, self.connections.stream(query, values_of(self.where), size))

    def close(self) -> None:
        self.connections.close()


def _planner_settings(exact: bool, table: PgTable, indexed: bool) -> Any:
    """Return the SQL that tells PostgreSQL's planner what it may use, for this transaction only.

    It also returns the name of the snapshot. exact: no index may be used; indexed: the table has one, which
    `force_index` then requires.
    """
    from psycopg import sql

    # "other" are sequential scans and sorts, which are forbidden only to force the planner to use the index.
    values = {"index": not exact, "other": exact or not (table.force_index and indexed)}
    switches = {switch_name: sql.Literal("on" if value else "off") for switch_name, value in values.items()}
    return sql.SQL(PLANNER_SETTINGS).format(**switches, ef=sql.Literal(str(table.ef)))


def _read_cluster_id(connection: Any) -> str:
    """Return the database cluster's identifier, which tells equal snapshot names of two servers apart.

    "" if this user may not read it.
    """
    is_allowed = connection.execute("SELECT has_function_privilege('pg_control_system()', 'execute')").fetchone()[0]
    if not is_allowed:
        return ""
    return str(connection.execute("SELECT system_identifier FROM pg_control_system()").fetchone()[0])
