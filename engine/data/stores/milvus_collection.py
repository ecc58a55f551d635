"""A collection of Milvus: its client, fields and index, and the calls that read it."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.data.stores.store import CHANGED, Where, note_in
from engine.errors import DataError

SECONDS = 4.0
"""A server that does not answer by then is gone."""
MOST = 16_384
"""Rows that Milvus returns for one question at most."""
TOGETHER = 1_000
"""Ids that are asked for together."""
FLAT = ("FLAT", "GPU_BRUTE_FORCE", "")
"""Index types that compare every vector; "": no index."""
CHANNEL = {"grpc.use_local_subchannel_pool": 1, "grpc.keepalive_time_ms": 300_000}
"""A new client looks for its server anew, where shared channels wait ever longer after a failure; and it pings seldom:
servers hang up on those who ping more often than they like."""
STRONG: dict[str, Any] = {"consistency_level": "Strong"}
"""Every question sees all that was written before it."""
BY_ID: dict[str, Any] = {"iterator": "True", "reduce_stop_for_best": "True"}
"""What the client's iterator sends along: rows come by rising id."""
NOTED = "frontier.note"
"""The property of a collection that holds what was noted when it was loaded."""


@dataclass(frozen=True, kw_only=True)
class MilvusAccess:
    """How Milvus is reached; it holds no secret, only the name of the variable that does.

    name: what errors call it; uri: http://host:port, or a file of Milvus Lite
    """

    name: str
    uri: str
    database: str = ""
    token_env: str | None = None
    timeout: float = SECONDS

    @property
    def is_file(self) -> bool:
        """Whether it is a file of this machine."""
        return "://" not in self.uri

    def client(self) -> Any:
        """A new client. Raises DataError."""
        try:
            from pymilvus import MilvusClient
        except ImportError:
            raise DataError("Milvus needs pymilvus: pip install 'frontier-retrieval[milvus]'") from None
        # It logs each error that it raises, with the whole call.
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
        token = ""
        if self.token_env is not None and not (token := os.environ.get(self.token_env, "")):
            raise DataError(f"store {self.name!r} reads {self.token_env}, which is not set: export {self.token_env}=…")
        with translated(self):
            return MilvusClient(
                uri=self.uri, token=token, db_name=self.database, timeout=self.timeout, grpc_options=CHANNEL
            )


@dataclass(frozen=True, kw_only=True)
class MilvusTable:
    """A collection and its fields.

    text, place: "" for the fields of that name where there are any; name: what it is attached by, "" for collection
    """

    collection: str
    id: str = "id"
    vector: str = "v"
    text: str = ""
    place: str = ""
    name: str = ""
    ef: int = 40


class MilvusGoneError(DataError):
    """Milvus cannot be reached; one that is only slow keeps its client."""


@contextmanager
def translated(access: MilvusAccess, timeout: float | None = None) -> Iterator[None]:
    """Errors of the client as DataErrors that say nothing of its call, which had `timeout` seconds, or the access's."""
    import grpc
    from pymilvus.exceptions import MilvusException

    seconds = access.timeout if timeout is None else timeout
    try:
        yield
    except DataError:
        raise
    except MilvusException as error:
        raise _named(access, error.message or type(error).__name__, seconds) from None
    except (grpc.RpcError, grpc.FutureTimeoutError) as error:
        said = f"{error.code()}: {error.details()}" if hasattr(error, "code") else "timeout"
        raise _named(access, said, seconds) from None
    except (OSError, ValueError) as error:
        said = "closed channel" if "closed channel" in str(error) else type(error).__name__
        raise _named(access, said, seconds) from None


def _named(access: MilvusAccess, said: str, seconds: float) -> DataError:
    lost = re.search("unavailable|fail connecting|closed channel|create connection first", said, re.IGNORECASE)
    if lost or re.search("timeout|deadline", said, re.IGNORECASE):
        return (MilvusGoneError if lost else DataError)(
            f"store {access.name!r} is gone: no answer within {seconds:g} s; ask again once it is back, or raise its "
            "`timeout`"
        )
    if re.search("authenticat|auth check|token|password|permission.?den", said, re.IGNORECASE):
        return DataError(f"store {access.name!r} refused the token ({access.token_env or 'no token_env is named'})")
    return DataError(f"store {access.name!r} cannot answer: {said.splitlines()[0][:300]}")


class MilvusCaller:
    """One client for all threads, asked about a collection; made when it is needed, and anew once Milvus was gone."""

    def __init__(self, access: MilvusAccess, collection: str) -> None:
        self.access, self.collection = access, collection
        self._client: Any = None
        self._lock = threading.Lock()

    def call(self, method: str, timeout: float | None = None, **arguments: Any) -> Any:
        """What the client answers within `timeout` seconds, the access's where None. Raises DataError."""
        with self._lock:
            client = self._client = self._client or self.access.client()
        seconds = self.access.timeout if timeout is None else timeout
        try:
            with translated(self.access, seconds):
                return getattr(client, method)(self.collection, timeout=seconds, **arguments)
        except MilvusGoneError:
            # Its channel would wait longer and longer before it looks again.
            self._drop(client)
            raise

    def read_index(self, field: str) -> tuple[str, str]:
        """The type of a field's index, "" without one, and its metric."""
        for name in self.call("list_indexes", field_name=field):
            if found := self.call("describe_index", index_name=name):
                return found.get("index_type") or "", found.get("metric_type") or "IP"
        return "", "IP"

    def _drop(self, client: Any) -> None:
        with self._lock:
            if self._client is client:
                self._client = None
        client.close()

    def close(self) -> None:
        """Close the client, where there is one."""
        if self._client is not None:
            self._drop(self._client)


class MilvusCollection(MilvusCaller):
    """A collection as Milvus describes it when it is attached. Raises DataError for fields that do not fit."""

    def __init__(self, access: MilvusAccess, table: MilvusTable, name: str) -> None:
        super().__init__(access, table.collection)
        self.table, self.name = table, name
        if access.is_file and not Path(access.uri).exists():
            raise DataError(f"store {access.name!r}: there is no file {access.uri}; frontier store load makes one")
        described = self.call("describe_collection")
        self.fields = {field["name"]: field for field in described["fields"]}
        self.text = table.text or ("text" if "text" in self.fields else "")
        self.place = table.place or ("place" if "place" in self.fields else "")
        wanted = [field for field in (table.id, table.vector, self.text, self.place) if field]
        if missing := [field for field in wanted if field not in self.fields]:
            raise DataError(f"{name} has no field {missing[0]!r}; it has {', '.join(self.fields)}")
        self.note = note_in(described.get("properties", {}).get(NOTED) or described.get("description"))
        own, vector = self.fields[table.id], self.fields[table.vector]
        if not own.get("is_primary") or own["type"].name != "VARCHAR":
            raise DataError(f"{name}: field {table.id!r} must be the primary key, of type VARCHAR")
        if vector["type"].name != "FLOAT_VECTOR":
            raise DataError(f"{name}: field {table.vector!r} is {vector['type'].name}; FLOAT_VECTOR is needed")
        self.dimension = int(vector["params"]["dim"])
        self.index, self.metric = self.read_index(table.vector)

    def count(self, where: Where | None = None) -> int:
        """How many documents a filter lets through."""
        rows = self.call("query", filter=self.filter(where), output_fields=["count(*)"], **STRONG)
        return int(rows[0]["count(*)"])

    def filter(self, where: Where | None) -> str:
        """Milvus' expression; values are literals that JSON quotes, as Milvus Lite takes no parameters."""
        for column in where or ():
            if column not in self.fields or self.fields[column]["type"].name != "VARCHAR":
                raise DataError(f"where= names a text field that {self.name} does not have: {column!r}")
        return " and ".join(_among(column, sorted(values)) for column, values in (where or {}).items())

    def vectors(self, rows: Sequence[Any]) -> np.ndarray:
        """(m, d) float32."""
        if not rows:
            return np.empty((0, self.dimension), np.float32)
        return np.array([row[self.table.vector] for row in rows], dtype=np.float32)

    def fetch(self, ids: Sequence[str], fields: Sequence[str]) -> list[Any]:
        """The rows of these ids, a thousand together."""
        rows: list[Any] = []
        for start in range(0, len(ids), TOGETHER):
            own = _among(self.table.id, ids[start : start + TOGETHER])
            rows += self.call("query", filter=own, output_fields=[self.table.id, *fields], **STRONG)
        return rows

    def pages(self, fields: Sequence[str], size: int, where: Where | None = None) -> Iterator[Sequence[Any]]:
        """All rows that a filter lets through, by rising id."""
        # The client's own iterator pastes ids into its expressions as they are, quotes and all.
        own, wanted, seen, last = self.table.id, self.count(where), 0, None
        while True:
            after: list[str] = [] if last is None else [f"{own} > {json.dumps(last, ensure_ascii=False)}"]
            expression = " and ".join([*filter(None, [self.filter(where)]), *after])
            fetched = {own, *fields}
            rows = self.call("query", filter=expression, output_fields=[*fetched], limit=size, **BY_ID, **STRONG)
            if not rows:
                break
            seen, last = seen + len(rows), max(row[own] for row in rows)
            yield rows
        if seen != wanted:
            raise DataError(f"{self.name} {CHANGED}: {wanted:,} documents before, {seen:,} were read; ask again")


def _among(field: str, values: Sequence[str]) -> str:
    """Milvus' expression of a field that has one of these values."""
    return f"{field} in {json.dumps(list(values), ensure_ascii=False)}"
