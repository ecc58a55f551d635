"""A table of pgvector: its columns and indexes, the statements that read it, and what one scan says of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.data.stores.postgres import import_psycopg
from engine.data.stores.results import Hits, is_unit
from engine.data.stores.store import Where, note_in
from engine.errors import DataError

DEFAULT_EF = 40
"""Default number of candidates during an HNSW search, as in pgvector itself."""
FULL_SCAN_NODES = ("Seq Scan",)
"""Plan nodes that read every row."""
UNIT_TOLERANCE = 1e-4
"""Largest deviation of lengths from 1 at which an index of cosines or distances may replace inner products."""
LENGTH_MARGIN = 1 + 1e-6
"""Factor that widens the largest length by more than rounding can have taken from it."""
NUMBER_TYPES = {"vector": ">f4", "halfvec": ">f2"}
"""Column type → type of its numbers on the wire."""


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
    ef: int = DEFAULT_EF  # search effort: candidates that a search of the index keeps
    force_index: bool = False  # whatever the planner thinks of it

    def quote_name(self, connection: Any) -> str:
        """Return the table's name as SQL, for a statement's parameter."""
        return str(_sql().Identifier(*self.table.split(".", 1)).as_string(connection))


@dataclass(frozen=True, kw_only=True)
class RowFacts:
    """Results of one scan of the rows, valid as long as the snapshot has the same name."""

    snapshot: str
    count: int  # rows with a vector
    nulls: int  # rows without one, which are left out
    shortest: float
    longest: float  # widened, so that no vector is longer
    content: str  # a sum over hashes of ids, vectors and places

    @property
    def unit(self) -> bool | None:
        """True if every vector has length 1, False if not; None if rounding errors would decide it."""
        # `longest` is a safe upper bound: the margin in it would make unit vectors look too long.
        max_length = self.longest / LENGTH_MARGIN
        return is_unit(max(abs(self.shortest - 1), abs(max_length - 1)))


class PgRows:
    """A table of vectors as PostgreSQL's catalogue describes it, and the SQL that reads it.

    Raises DataError for a table or columns that are not there.
    """

    def __init__(self, connection: Any, table: PgTable, name: str) -> None:
        """Read the table's columns, indexes and note from PostgreSQL's catalogue, and check that they fit.

        The note is the table's comment, which `frontier store load` writes. name: "store/collection", for errors.
        """
        self.table, self.name = table, name
        self.last_facts: RowFacts | None = None
        table_row = connection.execute(
            "SELECT c.oid, obj_description(c.oid, 'pg_class'), (SELECT extversion FROM pg_extension "
            "WHERE extname = 'vector') FROM pg_class c WHERE c.oid = to_regclass(%s)",
            [table.quote_name(connection)],
        ).fetchone()
        if table_row is None:
            raise DataError(
                f"there is no table {table.table!r} in store {name.partition('/')[0]!r}, or it is not yours"
            )
        self.oid, comment, version = table_row
        if version is None or tuple(map(int, version.split(".")[:2])) < (0, 8):
            raise DataError(f"{name} needs pgvector 0.8 or newer, for iterative scans; there is {version or 'none'}")
        self.note: dict[str, Any] = note_in(comment)
        columns = connection.execute(
            "SELECT attname, format_type(atttypid, NULL), atttypmod FROM pg_attribute "
            "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped",
            [self.oid],
        ).fetchall()
        # A type outside the search path is named with its schema, as in "public.vector".
        self.types = {column: type_name.rpartition(".")[2] for column, type_name, _ in columns}
        # Columns of these names are used where no others are named; place holds row numbers, by which ties are broken.
        self.text = table.text or ("text" if "text" in self.types else "")
        self.place = table.place or ("place" if "place" in self.types else "")
        used_columns = [column for column in (table.id, table.vector, self.text, self.place) if column]
        if missing_columns := [column for column in used_columns if column not in self.types]:
            raise DataError(f"{name} has no column {missing_columns[0]!r}; it has {', '.join(self.types)}")
        if self.types[table.vector] not in NUMBER_TYPES:
            raise DataError(
                f"{name}: column {table.vector!r} is of type {self.types[table.vector]}; vector or halfvec is needed"
            )
        # The modifier of a vector's type is the dimension that the table declares for it.
        self.dimension = self._read_dimension(connection, {column: modifier for column, _, modifier in columns})
        self.indexes = indexes_of(connection, table, table.vector)

    def _read_dimension(self, connection: Any, modifiers: Mapping[str, int]) -> int:
        """Return the dimension of the vectors, as the table declares it, or else as its rows have it.

        modifiers: the declared dimension of each column, not positive for none. Raises DataError for rows of several
        dimensions, or no rows.
        """
        if (declared_dimension := modifiers[self.table.vector]) > 0:
            return declared_dimension
        statement = "SELECT min(vector_dims({v})), max(vector_dims({v})) FROM {table}"
        lowest, highest = connection.execute(self.sql(statement), []).fetchone()
        if lowest is None or lowest != highest:
            raise DataError(
                f"{self.name}: vectors of {lowest or 'no'} to {highest or 'no'} numbers; one dimension is needed"
            )
        return int(lowest)

    def sql(self, template: str, where: Where | None = None) -> Any:
        """Format a template of SQL: {id}, {v}, {text}, {place}, {table}, and {where} or {only} for the filter.

        The filter's values become parameters, in the order of its columns. {where} also excludes rows without a vector,
        {only} does not. % is doubled in names, because the driver takes a single one for the mark of a parameter.
        """
        sql = _sql()

        def name(*name_parts: str) -> Any:
            """Quote a name; % is doubled for a statement with parameters."""
            return sql.Identifier(*(name_part.replace("%", "%%") for name_part in name_parts))

        if unknown_columns := [column for column in where or () if column not in self.types]:
            raise DataError(f"where= names a column that {self.name} does not have: {unknown_columns[0]!r}")
        conditions = [sql.SQL("{}::text = ANY(%s)").format(name(column)) for column in where or ()]
        has_vector = sql.SQL("{} IS NOT NULL").format(name(self.table.vector))
        column_names = {"id": self.table.id, "v": self.table.vector, "text": self.text, "place": self.place}
        identifiers = {key: name(column) if column else sql.SQL("NULL") for key, column in column_names.items()}
        return sql.SQL(template).format(
            table=name(*self.table.table.split(".", 1)),
            where=sql.SQL(" AND ").join([has_vector, *conditions]),
            only=sql.SQL(" AND ").join(conditions) if conditions else sql.SQL("true"),
            **identifiers,
        )

    def _scan_rows(self, connection: Any, where: Where | None) -> RowFacts:
        """Read all rows that pass a filter once: their number, lengths, and a hash of their contents."""
        vector = self.types[self.table.vector]
        length_sql = "vector_norm({v})" if vector == "vector" else "l2_norm({v})"
        # One pass gives count, lengths and a content hash; a sum of hashes does not depend on the rows' order.
        statement = self.sql(
            "SELECT pg_current_snapshot()::text, count({v}), count(*) - count({v}), "
            f"coalesce(min({length_sql}), 0), coalesce(max({length_sql}), 0), "
            f"coalesce(sum(hash_record_extended(ROW({{id}}::text, {vector}_send({{v}}), {{place}}::bigint), 0)), 0)"
            "::text "
            "FROM {table} WHERE {only}",
            where,
        )
        snapshot, count, nulls, shortest, longest, content = connection.execute(statement, values_of(where)).fetchone()
        if not np.isfinite(longest):
            raise DataError(f"{self.name} holds a vector that is not finite, or longer than a number can say")
        longest *= LENGTH_MARGIN
        return RowFacts(
            snapshot=snapshot, count=count, nulls=nulls, shortest=shortest, longest=longest, content=str(content)
        )

    def load_facts(self, connection: Any, snapshot: str, where: Where | None) -> RowFacts:
        """Return number, lengths and hash of the rows in a snapshot; scan them if any may have changed.

        Raises DataError if the index ranks by another measure than inner products, and the rows are not of unit length.
        """
        facts = self.last_facts
        if facts is None or facts.snapshot != snapshot:
            facts = self._scan_rows(connection, where)
            # Only for rows of length 1 do cosines and distances rank as inner products do.
            has_unit_rows = max(abs(facts.shortest - 1), abs(facts.longest - 1)) <= UNIT_TOLERANCE
            if facts.count and self.indexes and "ip" not in self.indexes.values() and not has_unit_rows:
                indexes = ", ".join(f"{index} ({measure})" for index, measure in self.indexes.items())
                raise DataError(
                    f"the rows of {self.name} have lengths from {facts.shortest:.4g} to {facts.longest:.4g}, and its "
                    f"index {indexes} does not rank by inner products: scale the rows to length 1, or CREATE INDEX … "
                    f"USING hnsw ({self.table.vector} {self.types[self.table.vector]}_ip_ops)"
                )
            self.last_facts = facts
        return facts

    def decode_vectors(self, wire_rows: Sequence[bytes]) -> np.ndarray:
        """Decode vectors from the wire, two counts and big-endian numbers each, as (m, d) float32."""
        if not wire_rows:
            return np.empty((0, self.dimension), np.float32)
        number_type = np.dtype(NUMBER_TYPES[self.types[self.table.vector]])
        # Each vector begins with its dimension and an unused number, of two bytes each.
        record_type = np.dtype([("head", ">u2", 2), ("numbers", number_type, self.dimension)])
        return np.frombuffer(b"".join(wire_rows), record_type)["numbers"].astype(np.float32)

    def slack(self, facts: RowFacts, index_measure: str, is_half: bool) -> float:
        """Return half of the amount by which a row may outscore one that an index ranked before it.

        Half, because it is added to the hits' scores, and `VectorStore._bound` then counts it again as their error. An
        index errs if it ranks by a point rounded to float16 (is_half), or by cosines or distances (index_measure) of
        rows that are only nearly of unit length.
        """
        # Rounding to float16 moves a unit point by at most 2⁻¹¹ of it, or by half the least subnormal a number.
        rounding_slack = (2.0**-11 + 2.0**-24 * self.dimension**0.5) * facts.longest if is_half else 0.0
        # Rows of one length are ranked alike by all measures; the second term exceeds the rounding of float32 sums.
        length_slack = facts.longest**2 - facts.shortest**2 + (self.dimension + 8) * 2.0**-21
        return rounding_slack + (length_slack if index_measure != "ip" else 0.0)

    def read(self, rows: Sequence[tuple[Any, ...]]) -> tuple[tuple[str, ...], np.ndarray]:
        """Split rows of id and vector into ids and an (m, d) matrix."""
        return tuple(row[0] for row in rows), self.decode_vectors([row[1] for row in rows])

    def hits(self, returned_rows: Sequence[tuple[Any, ...]], point: np.ndarray | None, slack: float) -> Hits:
        """Build the hits of one point from rows of id, vector, distance and place.

        point: None if the engine's distances are negative inner products, as pgvector has them; else the point, with
        which the inner products are computed here. slack: added to these, because the engine ranked by another measure
        and may have put a document behind one with a smaller product.
        """
        vectors = self.decode_vectors([row[1] for row in returned_rows])
        if point is None:
            scores = -np.array([row[2] for row in returned_rows], dtype=np.float64)
        else:
            scores = vectors.astype(np.float64) @ point.astype(np.float64) + slack
        places = None if not self.place else np.array([row[3] for row in returned_rows], dtype=np.int64)
        return Hits([row[0] for row in returned_rows], vectors, scores, places, 0.0 if point is None else slack)

    def read_plans(self, plan_trees: Sequence[Mapping[str, Any]]) -> tuple[str, bool]:
        """Describe plans of EXPLAIN, and return True if all of them certainly read every matching row.

        Only plans of sequential scans and a sort do so. Any other plan counts as inexact, as it may use an index that
        this object does not list: one made since, one of a partition, or one of another index method.
        """
        plan_nodes = [node for plan_tree in plan_trees for node in walk_plan(plan_tree)]
        leaves = [node for node in plan_nodes if not node.get("Plans")]
        is_full_scan = all(node["Node Type"] in FULL_SCAN_NODES for node in leaves) and all(
            any(node["Node Type"] == "Sort" for node in walk_plan(plan_tree)) for plan_tree in plan_trees
        )
        # One index anywhere in the plans decides the description.
        if index := next((node["Index Name"] for node in plan_nodes if node.get("Index Name") in self.indexes), None):
            return f"index {index}, ef {self.table.ef}", False
        step_names = [node["Node Type"].lower().replace("seq ", "sequential ") for node in leaves]
        return " and ".join(dict.fromkeys(step_names)), is_full_scan


def indexes_of(
    connection: Any, table: PgTable, column: str, methods: Sequence[str] = ("hnsw", "ivfflat")
) -> dict[str, str]:
    """Map the name of each valid index on a column of a table to the measure by which it ranks.

    Measures are ip (inner product), cosine and l2 (distance); an index of another kind has another word. methods: kinds
    of index that count; the column must be the index's first.
    """
    index_rows = connection.execute(
        "SELECT c.relname, split_part(o.opcname, '_', 2) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
        "JOIN pg_am a ON a.oid = c.relam JOIN pg_opclass o ON o.oid = i.indclass[0] JOIN pg_attribute t "
        "ON t.attrelid = i.indrelid AND t.attnum = i.indkey[0] WHERE i.indrelid = to_regclass(%s) AND i.indisvalid "
        "AND a.amname = ANY(%s) AND t.attname = %s ORDER BY 1",
        [table.quote_name(connection), list(methods), column],
    )
    return dict(index_rows.fetchall())


def walk_plan(plan: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Yield the nodes of a plan of EXPLAIN, from the top."""
    yield plan
    for child_plan in plan.get("Plans", ()):
        yield from walk_plan(child_plan)


def values_of(where: Where | None) -> list[list[str]]:
    """Return the values of a filter as parameters of a statement."""
    return [sorted(values) for values in (where or {}).values()]


def _sql() -> Any:
    """Import and return psycopg's module for building SQL."""
    import_psycopg()
    from psycopg import sql

    return sql
