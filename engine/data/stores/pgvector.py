"""PostgreSQL with pgvector as an oracle: exact by a scan, or by an HNSW index, as the plan that it read back says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from engine.data.stores.pgvector_rows import PgRows, PgTable, RowFacts, values_of
from engine.data.stores.postgres import Connections, PgAccess
from engine.data.stores.store import Hits, StoreRef, VectorStore, Where, check_loaded, encoder_of, where_text
from engine.errors import DataError
from engine.values import EncoderRef

MOST_EF = 1000
LEAST_LIMIT = 32
"""No fewer rows are asked for."""
LAST = 2**62
"""The place of a row that has none: after those that do."""
OPERATORS = {"ip": "<#>", "cosine": "<=>", "l2": "<->"}
"""What orders rows so that an index of an operator class is used."""
SETTINGS = (
    "SELECT pg_current_snapshot()::text, set_config('enable_indexscan', {index}, true), "
    "set_config('enable_indexonlyscan', {index}, true), set_config('enable_bitmapscan', {index}, true), "
    "set_config('enable_seqscan', {other}, true), set_config('enable_sort', {other}, true), "
    "set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.max_scan_tuples', '2147483647', true), "
    "set_config('hnsw.ef_search', {ef}, true)"
)


class PgVectorStore(VectorStore):
    """Rows of a table whose vectors are of pgvector's types vector or halfvec; rows without one are left out.

    where: the filter whose documents `ref`, `sample` and `scan` are about. Raises DataError for a server that is gone,
    a table or columns that are not there, and an index that does not rank by inner products.
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
        self.access, self.table, self.where = access, table, where
        self.name = f"{access.name}/{table.name or table.table}"
        if not 1 <= table.ef <= MOST_EF:
            raise DataError(f"ef of {self.name} must lie between 1 and {MOST_EF:,}; got {table.ef}")
        self.connections = connections or Connections(access)
        self.rows: PgRows = self.connections.ask(lambda connection: PgRows(connection, table, self.name))
        self.dimension = self.rows.dimension
        check_loaded(self.rows.note, self.name)
        self.encoder = encoder or encoder_of(self.rows.note)
        self.system: str = self.connections.ask(_cluster)
        # A standby names its snapshots alike whatever it replays.
        standby: Any = self.connections.ask(lambda c: c.execute("SELECT pg_is_in_recovery()").fetchone())
        self.snapshots = not standby[0]
        self.connections.ask(self._ref)

    def __reduce__(self) -> tuple[Any, ...]:
        return PgVectorStore, (self.access, self.table, self.where, self.encoder)

    def tuned(self, ef: int, force_index: bool | None = None) -> PgVectorStore:
        """The same documents, asked with another effort; force_index: None leaves it as it is."""
        force = self.table.force_index if force_index is None else force_index
        table = replace(self.table, ef=ef, force_index=force)
        return PgVectorStore(self.access, table, self.where, self.encoder, self.connections)

    @property
    def ref(self) -> StoreRef:
        return self.connections.ask(self._ref)

    def _ref(self, connection: Any) -> StoreRef:
        snapshot = connection.execute("SELECT pg_current_snapshot()::text").fetchone()[0]
        facts = self.rows.facts(connection, snapshot, self.where)
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
        with self.connections.snapshot():
            yield self.ref.snapshot

    def _search(
        self, points: np.ndarray, sizes: Sequence[int], exact: bool, where: Where | None
    ) -> tuple[list[Hits], str, bool]:
        where = where or self.where
        measures = self.rows.indexes.values()
        measure = "ip" if exact or not measures or "ip" in measures else next(iter(measures))
        half = self.rows.types[self.table.vector] == "halfvec" and not exact
        vector = f"{{v}}::vector({self.dimension})" if exact else "{v}"
        kind = "halfvec" if half else "vector"
        statement = self.rows.sql(
            f"SELECT {{id}}::text, {{v}}, {vector} {OPERATORS[measure]} %s::{kind} AS d, coalesce({{place}}, {LAST}) "
            "FROM {table} WHERE {where} ORDER BY d LIMIT %s",
            where,
        )
        # The digits say every float32 exactly.
        sent = [f"[{','.join(map(str, point.tolist()))}]" for point in points]
        # The planner looks at the limit, and each plan is read back: so there are few limits, and more may come.
        limits = [max(LEAST_LIMIT, 1 << (size - 1).bit_length()) for size in sizes]
        parameters = [[text, *values_of(where), limit] for text, limit in zip(sent, limits, strict=True)]
        examples = list({limit: own for limit, own in zip(limits, parameters, strict=True)}.values())

        def work(connection: Any) -> tuple[list[list[tuple[Any, ...]]], RowFacts, str, bool]:
            from psycopg import sql

            explain = sql.SQL("EXPLAIN (FORMAT JSON) ") + statement
            # All in one round trip.
            with connection.pipeline():
                state = connection.execute(_settings(exact, self.table, bool(self.rows.indexes)))
                explained = [connection.execute(explain, own) for own in examples]
                answers = [connection.execute(statement, own, binary=True) for own in parameters]
                snapshot, plans = state.fetchone()[0], [one.fetchone()[0][0]["Plan"] for one in explained]
                found = [answer.fetchall() for answer in answers]
            facts = self.rows.facts(connection, snapshot, self.where)
            return found, facts, *self.rows.read_plans(plans)

        found, facts, plan, looked_at_all = self.connections.ask(work)
        if exact and not looked_at_all:
            raise DataError(
                f"{self.name} was asked exactly and used its {plan}: the planner did not let it be turned off"
            )
        slack = self.rows.slack(facts, measure, half) if not looked_at_all or measure != "ip" else 0.0
        hits = [
            self.rows.hits(rows, point if slack else None, slack) for rows, point in zip(found, points, strict=True)
        ]
        return hits, plan, looked_at_all

    def count(self, where: Where | None = None) -> int:
        query = self.rows.sql("SELECT count(*) FROM {table} WHERE {where}", where)
        found: Any = self.connections.ask(lambda connection: connection.execute(query, values_of(where)).fetchone())
        return int(found[0])

    def texts(self, ids: Sequence[str]) -> list[str]:
        kind = self.rows.types[self.table.id]
        query = self.rows.sql(
            "SELECT {id}::text, {text}::text FROM {table} WHERE {id} = ANY(%s::text[]::" + kind + "[])"
        )
        found = dict(self.connections.ask(lambda connection: connection.execute(query, [list(ids)]).fetchall()))
        if unknown := [name for name in ids if name not in found]:
            raise DataError(f"{self.name} has no document {unknown[0]!r}")
        return [found[name] or "" for name in ids]

    def sample(self, n: int, seed: int = 0) -> tuple[tuple[str, ...], np.ndarray]:
        query = self.rows.sql(
            "SELECT {id}::text, {v} FROM {table} WHERE {where} ORDER BY hashtextextended({id}::text, %s), 1 LIMIT %s",
            self.where,
        )
        given = [*values_of(self.where), seed, n]
        return self.rows.read(self.connections.ask(lambda c: c.execute(query, given, binary=True).fetchall()))

    def scan(self, size: int) -> Iterator[tuple[tuple[str, ...], np.ndarray]]:
        order = "{place}, {id}" if self.rows.place else "{id}"
        query = self.rows.sql(f"SELECT {{id}}::text, {{v}} FROM {{table}} WHERE {{where}} ORDER BY {order}", self.where)
        return map(self.rows.read, self.connections.stream(query, values_of(self.where), size))

    def close(self) -> None:
        self.connections.close()


def _settings(exact: bool, table: PgTable, indexed: bool) -> Any:
    """What the planner may use, for this transaction only."""
    from psycopg import sql

    values = {"index": not exact, "other": exact or not (table.force_index and indexed)}
    words = {key: sql.Literal("on" if value else "off") for key, value in values.items()}
    return sql.SQL(SETTINGS).format(**words, ef=sql.Literal(str(table.ef)))


def _cluster(connection: Any) -> str:
    """The name of the database cluster, "" where nobody may know it."""
    allowed = connection.execute("SELECT has_function_privilege('pg_control_system()', 'execute')").fetchone()[0]
    if not allowed:
        return ""
    return str(connection.execute("SELECT system_identifier FROM pg_control_system()").fetchone()[0])
