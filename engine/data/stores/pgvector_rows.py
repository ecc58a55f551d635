"""A table of pgvector: its columns and indexes, the statements that read it, and what one scan says of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.data.stores.postgres import driver
from engine.data.stores.store import Hits, Where, is_unit, note_in
from engine.errors import DataError

EF = 40
"""Candidates that an HNSW index keeps while it looks, where nobody says: pgvector's own default."""
WHOLE = ("Seq Scan",)
"""Leaves of a plan that look at every row."""
UNIT = 1e-4
"""Lengths this close to 1 let an index of cosines or distances stand for inner products."""
LENGTHENED = 1 + 1e-6
"""The longest length is widened by this: more than rounding can have taken from it."""
NUMBERS = {"vector": ">f4", "halfvec": ">f2"}
"""Types of column, and their numbers on the wire."""


@dataclass(frozen=True, kw_only=True)
class PgTable:
    """A table and its columns.

    table: with its schema before a dot where it is not on the search path; text, place: "" for the columns of that
    name where there are any; place has row numbers, by which ties go; name: what it is attached by, "" for table
    """

    table: str
    id: str = "id"
    vector: str = "v"
    text: str = ""
    place: str = ""
    name: str = ""
    ef: int = EF
    force_index: bool = False  # whatever the planner thinks of it

    def quoted(self, connection: Any) -> str:
        """Its name as SQL, for a statement's parameter."""
        return str(_sql().Identifier(*self.table.split(".", 1)).as_string(connection))


@dataclass(frozen=True, kw_only=True)
class RowFacts:
    """What one scan says of the rows, true as long as the snapshot has the same name."""

    snapshot: str
    count: int  # rows with a vector
    nulls: int  # rows without one, which are left out
    shortest: float
    longest: float  # widened, so that no vector is longer
    content: str  # a sum over hashes of ids, vectors and places

    @property
    def unit(self) -> bool | None:
        """Whether every vector has length 1, None where that cannot be said."""
        return is_unit(max(abs(self.shortest - 1), abs(self.longest / LENGTHENED - 1)))


class PgRows:
    """A table as the catalogue describes it when it is attached. Raises DataError for what is not there."""

    def __init__(self, connection: Any, table: PgTable, name: str) -> None:
        self.table, self.name = table, name
        self.seen: RowFacts | None = None
        found = connection.execute(
            "SELECT c.oid, obj_description(c.oid, 'pg_class'), (SELECT extversion FROM pg_extension "
            "WHERE extname = 'vector') FROM pg_class c WHERE c.oid = to_regclass(%s)",
            [table.quoted(connection)],
        ).fetchone()
        if found is None:
            raise DataError(
                f"there is no table {table.table!r} in store {name.partition('/')[0]!r}, or it is not yours"
            )
        self.oid, comment, version = found
        if version is None or tuple(map(int, version.split(".")[:2])) < (0, 8):
            raise DataError(f"{name} needs pgvector 0.8 or newer, for iterative scans; there is {version or 'none'}")
        self.note: dict[str, Any] = note_in(comment)
        columns = connection.execute(
            "SELECT attname, format_type(atttypid, NULL), atttypmod FROM pg_attribute "
            "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped",
            [self.oid],
        ).fetchall()
        self.types = {column: kind.rpartition(".")[2] for column, kind, _ in columns}
        self.text = table.text or ("text" if "text" in self.types else "")
        self.place = table.place or ("place" if "place" in self.types else "")
        wanted = [column for column in (table.id, table.vector, self.text, self.place) if column]
        if missing := [column for column in wanted if column not in self.types]:
            raise DataError(f"{name} has no column {missing[0]!r}; it has {', '.join(self.types)}")
        if self.types[table.vector] not in NUMBERS:
            raise DataError(
                f"{name}: column {table.vector!r} is of type {self.types[table.vector]}; vector or halfvec is needed"
            )
        self.dimension = self._dimension(connection, {column: modifier for column, _, modifier in columns})
        self.indexes = indexes_of(connection, table, table.vector)

    def _dimension(self, connection: Any, modifiers: Mapping[str, int]) -> int:
        if (given := modifiers[self.table.vector]) > 0:
            return given
        query = "SELECT min(vector_dims({v})), max(vector_dims({v})) FROM {table}"
        least, most = connection.execute(self.sql(query), []).fetchone()
        if least is None or least != most:
            raise DataError(
                f"{self.name}: vectors of {least or 'no'} to {most or 'no'} numbers; one dimension is needed"
            )
        return int(least)

    def sql(self, text: str, where: Where | None = None) -> Any:
        """SQL of a template: {id}, {v}, {text}, {place}, {table}, and {where}, whose values are parameters.

        Rows without a vector are never let through. It is sent with parameters, if with none: % is doubled in it.
        """
        sql = _sql()

        def name(*parts: str) -> Any:
            return sql.Identifier(*(part.replace("%", "%%") for part in parts))

        if unknown := [column for column in where or () if column not in self.types]:
            raise DataError(f"where= names a column that {self.name} does not have: {unknown[0]!r}")
        conditions = [sql.SQL("{}::text = ANY(%s)").format(name(column)) for column in where or ()]
        has_vector = sql.SQL("{} IS NOT NULL").format(name(self.table.vector))
        names = {"id": self.table.id, "v": self.table.vector, "text": self.text, "place": self.place}
        fields = {key: name(column) if column else sql.SQL("NULL") for key, column in names.items()}
        return sql.SQL(text).format(
            table=name(*self.table.table.split(".", 1)),
            where=sql.SQL(" AND ").join([has_vector, *conditions]),
            only=sql.SQL(" AND ").join(conditions) if conditions else sql.SQL("true"),
            **fields,
        )

    def _scan(self, connection: Any, where: Where | None) -> RowFacts:
        """One scan of all rows that a filter lets through."""
        kind = self.types[self.table.vector]
        length = "vector_norm({v})" if kind == "vector" else "l2_norm({v})"
        query = self.sql(
            "SELECT pg_current_snapshot()::text, count({v}), count(*) - count({v}), "
            f"coalesce(min({length}), 0), coalesce(max({length}), 0), "
            f"coalesce(sum(hash_record_extended(ROW({{id}}::text, {kind}_send({{v}}), {{place}}::bigint), 0)), 0)"
            "::text "
            "FROM {table} WHERE {only}",
            where,
        )
        snapshot, count, nulls, shortest, longest, content = connection.execute(query, values_of(where)).fetchone()
        if not np.isfinite(longest):
            raise DataError(f"{self.name} holds a vector that is not finite, or longer than a number can say")
        longest *= LENGTHENED
        return RowFacts(
            snapshot=snapshot, count=count, nulls=nulls, shortest=shortest, longest=longest, content=str(content)
        )

    def facts(self, connection: Any, snapshot: str, where: Where | None) -> RowFacts:
        """What is known of the rows of this snapshot: they are scanned again where any may have changed."""
        found = self.seen
        if found is None or found.snapshot != snapshot:
            found = self._scan(connection, where)
            unit = max(abs(found.shortest - 1), abs(found.longest - 1)) <= UNIT
            if found.count and self.indexes and "ip" not in self.indexes.values() and not unit:
                made = ", ".join(f"{index} ({measure})" for index, measure in self.indexes.items())
                raise DataError(
                    f"the rows of {self.name} have lengths from {found.shortest:.4g} to {found.longest:.4g}, and its "
                    f"index {made} does not rank by inner products: scale the rows to length 1, or CREATE INDEX … "
                    f"USING hnsw ({self.table.vector} {self.types[self.table.vector]}_ip_ops)"
                )
            self.seen = found
        return found

    def numbers(self, rows: Sequence[bytes]) -> np.ndarray:
        """(m, d) float32 of vectors as they come over the wire: two counts, then big-endian numbers."""
        if not rows:
            return np.empty((0, self.dimension), np.float32)
        kind = np.dtype(NUMBERS[self.types[self.table.vector]])
        record = np.dtype([("head", ">u2", 2), ("numbers", kind, self.dimension)])
        return np.frombuffer(b"".join(rows), record)["numbers"].astype(np.float32)

    def slack(self, facts: RowFacts, measure: str, half: bool) -> float:
        """How much higher, halved, a row may score than one that an index ranked before it.

        It ranked by a point rounded to float16, or by cosines or distances of rows that are only nearly unit.
        """
        rounded = (2.0**-11 + 2.0**-24 * self.dimension**0.5) * facts.longest if half else 0.0
        spread = facts.longest**2 - facts.shortest**2 + (self.dimension + 8) * 2.0**-21 if measure != "ip" else 0.0
        return rounded + spread

    def read(self, rows: Sequence[tuple[Any, ...]]) -> tuple[tuple[str, ...], np.ndarray]:
        """Ids and vectors of rows of both."""
        return tuple(row[0] for row in rows), self.numbers([row[1] for row in rows])

    def hits(self, rows: Sequence[tuple[Any, ...]], point: np.ndarray | None, slack: float) -> Hits:
        """What came back for one point; point: where the engine's numbers are of another measure."""
        vectors = self.numbers([row[1] for row in rows])
        if point is None:
            scores = -np.array([row[2] for row in rows], dtype=np.float64)
        else:
            scores = vectors.astype(np.float64) @ point.astype(np.float64) + slack
        places = None if not self.place else np.array([row[3] for row in rows], dtype=np.int64)
        return Hits([row[0] for row in rows], vectors, scores, places)

    def read_plans(self, trees: Sequence[Mapping[str, Any]]) -> tuple[str, bool]:
        """Plans of EXPLAIN in words, and whether all of them look at every matching row, which only a scan and sort do.

        Whatever is not known to do so does not: an index made since, that of a partition, another method's.
        """
        nodes = [node for tree in trees for node in walk(tree)]
        leaves = [node for node in nodes if not node.get("Plans")]
        whole = all(node["Node Type"] in WHOLE for node in leaves) and all(
            any(node["Node Type"] == "Sort" for node in walk(tree)) for tree in trees
        )
        if index := next((node["Index Name"] for node in nodes if node.get("Index Name") in self.indexes), None):
            return f"index {index}, ef {self.table.ef}", False
        steps = [node["Node Type"].lower().replace("seq ", "sequential ") for node in leaves]
        return " and ".join(dict.fromkeys(steps)), whole


def indexes_of(
    connection: Any, table: PgTable, column: str, methods: Sequence[str] = ("hnsw", "ivfflat")
) -> dict[str, str]:
    """The valid indexes of these methods whose first column it is, and what each measures: ip, cosine, l2."""
    found = connection.execute(
        "SELECT c.relname, split_part(o.opcname, '_', 2) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
        "JOIN pg_am a ON a.oid = c.relam JOIN pg_opclass o ON o.oid = i.indclass[0] JOIN pg_attribute t "
        "ON t.attrelid = i.indrelid AND t.attnum = i.indkey[0] WHERE i.indrelid = to_regclass(%s) AND i.indisvalid "
        "AND a.amname = ANY(%s) AND t.attname = %s ORDER BY 1",
        [table.quoted(connection), list(methods), column],
    )
    return dict(found.fetchall())


def walk(plan: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """A plan's nodes, from the top."""
    yield plan
    for part in plan.get("Plans", ()):
        yield from walk(part)


def values_of(where: Where | None) -> list[list[str]]:
    """The parameters of a filter."""
    return [sorted(values) for values in (where or {}).values()]


def _sql() -> Any:
    """The module that quotes names."""
    driver()
    from psycopg import sql

    return sql
