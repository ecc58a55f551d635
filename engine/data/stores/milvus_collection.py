"""A collection of Milvus: its client, fields and index, and the calls that read it."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.data.settings_file import read_secret
from engine.data.stores.results import CHANGED
from engine.data.stores.store import Where, note_in
from engine.errors import DataError
from engine.progress import counted

TIMEOUT_SECONDS = 4.0
"""Default time limit of a call."""
MAX_ROWS = 16_384
"""Largest number of rows that Milvus returns for one question."""
IDS_PER_CALL = 1_000
"""Largest number of ids in one request."""
FLAT = ("FLAT", "GPU_BRUTE_FORCE", "")
"""Index types that compare every vector; "": no index."""
CHANNEL_OPTIONS = {"grpc.use_local_subchannel_pool": 1, "grpc.keepalive_time_ms": 300_000}
"""Options that give a client a channel of its own, with few pings.

A shared channel waits ever longer after a failure, and servers disconnect clients that ping more often than allowed.
"""
STRONG: dict[str, Any] = {"consistency_level": "Strong"}
"""Consistency level at which a question sees everything written before it."""
BY_ID: dict[str, Any] = {"iterator": "True", "reduce_stop_for_best": "True"}
"""Options that return rows by rising id; the client's own iterator sends them too."""
NOTE_NAME = "frontier.note"
"""Property of a collection that holds the note of `frontier store load`."""


@dataclass(frozen=True, kw_only=True)
class MilvusAccess:
    """Connection settings of Milvus, with the name of the variable that holds the secret.

    name: what errors call it; uri: http://host:port, or a file of Milvus Lite
    """

    name: str
    uri: str
    database: str = ""
    token_env: str | None = None
    timeout: float = TIMEOUT_SECONDS

    @property
    def is_file(self) -> bool:
        """True if it is a file of this machine."""
        return "://" not in self.uri

    def client(self) -> Any:
        """Build a new client. Raises DataError."""
        try:
            from pymilvus import MilvusClient
        except ImportError:
            raise DataError("Milvus needs pymilvus: pip install 'frontier-retrieval[milvus]'") from None
        # It logs each error that it raises, with the whole call.
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
        token = read_secret(self.token_env, f"store {self.name!r}")
        with translate_errors(self):
            return MilvusClient(
                uri=self.uri, token=token, db_name=self.database, timeout=self.timeout, grpc_options=CHANNEL_OPTIONS
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
    ef: int = 40  # search effort: candidates that a search of the index keeps


class MilvusGoneError(DataError):
    """Milvus cannot be reached; one that is only slow keeps its client."""


@contextmanager
def translate_errors(access: MilvusAccess, timeout: float | None = None) -> Iterator[None]:
    """Reraise errors of the client as DataErrors that omit the failed call, which may hold secrets.

    timeout: seconds that the call had, for the message; None for those of the access.
    """
    import grpc
    from pymilvus.exceptions import MilvusException

    timeout_s = access.timeout if timeout is None else timeout
    try:
        yield
    except DataError:
        raise
    except MilvusException as error:
        raise _client_error(access, error.message or type(error).__name__, timeout_s) from None
    except (grpc.RpcError, grpc.FutureTimeoutError) as error:
        # An error without a code is a channel that did not become ready in time.
        client_message = f"{error.code()}: {error.details()}" if hasattr(error, "code") else "fail connecting: timeout"
        raise _client_error(access, client_message, timeout_s) from None
    except (OSError, ValueError) as error:
        client_message = "closed channel" if "closed channel" in str(error) else type(error).__name__
        raise _client_error(access, client_message, timeout_s) from None


def _client_error(access: MilvusAccess, message: str, timeout_s: float) -> DataError:
    """Return the error for a failed call, without the call itself; a lost connection has its own class."""
    if re.search("unavailable|fail connecting|closed channel|create connection first", message, re.IGNORECASE):
        return MilvusGoneError(
            f"store {access.name!r} is gone: no answer within {timeout_s:g} s; ask again once it is back, or raise its "
            "`timeout`"
        )
    # The connection stands: what takes long is no engine that is gone.
    if re.search("timeout|deadline", message, re.IGNORECASE):
        return DataError(
            f"store {access.name!r} gave no answer within {timeout_s:g} s: ask again, or raise its `timeout`"
        )
    if re.search("authenticat|auth check|token|password|permission.?den", message, re.IGNORECASE):
        return DataError(f"store {access.name!r} refused the token ({access.token_env or 'no token_env is named'})")
    return DataError(f"store {access.name!r} cannot answer: {message.splitlines()[0][:300]}")


class MilvusCaller:
    """Calls to one collection of Milvus through one client, which all threads share.

    The client is created on first use, and again after Milvus could not be reached.
    """

    def __init__(self, access: MilvusAccess, collection: str) -> None:
        """Note how to reach Milvus, and the collection's name; the first call connects."""
        self.access, self.collection = access, collection
        self._client: Any = None
        self._lock = threading.Lock()

    def call(self, method_name: str, timeout: float | None = None, **arguments: Any) -> Any:
        """Call a method of the client on the collection, and return its result. Raises DataError.

        timeout: seconds for an answer, None for those of the access.
        """
        # The lock guards the client's creation only: calls run side by side.
        with self._lock:
            client = self._client = self._client or self.access.client()
        timeout_s = self.access.timeout if timeout is None else timeout
        try:
            with translate_errors(self.access, timeout_s):
                return getattr(client, method_name)(self.collection, timeout=timeout_s, **arguments)
        except MilvusGoneError:
            # Its channel would wait longer and longer before it looks again.
            self._drop_client(client)
            raise

    def read_index(self, field_name: str) -> tuple[str, str]:
        """Return type and metric of a field's index; the type is "" if there is no index."""
        # Milvus Lite describes indexes as a server does, but for missing keys.
        for index_name in self.call("list_indexes", field_name=field_name):
            if index_info := self.call("describe_index", index_name=index_name):
                return index_info.get("index_type") or "", index_info.get("metric_type") or "IP"
        return "", "IP"

    def _drop_client(self, client: Any) -> None:
        """Close a client, so that the next call makes another; one made meanwhile stays."""
        with self._lock:
            if self._client is client:
                self._client = None
        client.close()

    def close(self) -> None:
        """Close the client, if there is one."""
        if self._client is not None:
            self._drop_client(self._client)


class MilvusCollection(MilvusCaller):
    """A collection of Milvus as it is when attached. Raises DataError for fields that do not fit."""

    def __init__(self, access: MilvusAccess, table: MilvusTable, name: str) -> None:
        """Read the collection's fields, index and note, and check that they fit.

        The note says what `frontier store load` has loaded. name: "store/collection", for errors.
        """
        super().__init__(access, table.collection)
        self.table, self.name = table, name
        if access.is_file and not Path(access.uri).exists():
            raise DataError(f"store {access.name!r}: there is no file {access.uri}; frontier store load makes one")
        description = self.call("describe_collection")
        self.fields = {field["name"]: field for field in description["fields"]}
        # Fields of these names are used where no others are named; place holds row numbers, by which ties are broken.
        self.text = table.text or ("text" if "text" in self.fields else "")
        self.place = table.place or ("place" if "place" in self.fields else "")
        used_fields = [field for field in (table.id, table.vector, self.text, self.place) if field]
        if missing_fields := [field for field in used_fields if field not in self.fields]:
            raise DataError(f"{name} has no field {missing_fields[0]!r}; it has {', '.join(self.fields)}")
        self.note = note_in(description.get("properties", {}).get(NOTE_NAME) or description.get("description"))
        id_field, vector_field = self.fields[table.id], self.fields[table.vector]
        if not id_field.get("is_primary") or id_field["type"].name != "VARCHAR":
            raise DataError(f"{name}: field {table.id!r} must be the primary key, of type VARCHAR")
        if vector_field["type"].name != "FLOAT_VECTOR":
            raise DataError(f"{name}: field {table.vector!r} is {vector_field['type'].name}; FLOAT_VECTOR is needed")
        self.dimension = int(vector_field["params"]["dim"])
        self.index, self.metric = self.read_index(table.vector)

    def count(self, where: Where | None = None) -> int:
        """Count the documents that pass a filter."""
        count_rows = self.call("query", filter=self.filter(where), output_fields=["count(*)"], **STRONG)
        return int(count_rows[0]["count(*)"])

    def filter(self, where: Where | None) -> str:
        """Return Milvus' expression for a filter. Raises DataError for a column that is no text field.

        Values are JSON literals, as Milvus Lite takes no parameters.
        """
        for column in where or ():
            if column not in self.fields or self.fields[column]["type"].name != "VARCHAR":
                raise DataError(f"where= names a text field that {self.name} does not have: {column!r}")
        return " and ".join(_match_values(column, sorted(values)) for column, values in (where or {}).items())

    def vectors(self, rows: Sequence[Any]) -> np.ndarray:
        """Return the (m, d) float32 vectors of some rows."""
        if not rows:
            return np.empty((0, self.dimension), np.float32)
        return np.array([row[self.table.vector] for row in rows], dtype=np.float32)

    def fetch(self, ids: Sequence[str], fields: Sequence[str]) -> list[Any]:
        """Fetch the rows of these ids, a thousand per call."""
        rows: list[Any] = []
        for start in range(0, len(ids), IDS_PER_CALL):
            id_filter = _match_values(self.table.id, ids[start : start + IDS_PER_CALL])
            rows += self.call("query", filter=id_filter, output_fields=[self.table.id, *fields], **STRONG)
        return rows

    def pages(self, fields: Sequence[str], size: int, where: Where | None = None) -> Iterator[Sequence[Any]]:
        """Yield all rows that pass a filter, `size` at a time, by rising id.

        Raises DataError at the end if the number of rows has changed meanwhile.
        """
        # An iterator by id: each page asks for ids behind the last one that was read.
        # The client's own iterator pastes ids into its expressions as they are, quotes and all.
        id_field, n_matching, n_read, last = self.table.id, self.count(where), 0, None
        while True:
            after_filter: list[str] = [] if last is None else [f"{id_field} > {json.dumps(last, ensure_ascii=False)}"]
            # An empty filter adds no condition.
            expression = " and ".join([*filter(None, [self.filter(where)]), *after_filter])
            # The id may be among the requested fields.
            fetched = {id_field, *fields}
            rows = self.call("query", filter=expression, output_fields=[*fetched], limit=size, **BY_ID, **STRONG)
            if not rows:
                break
            n_read, last = n_read + len(rows), max(row[id_field] for row in rows)
            yield rows
        if n_read != n_matching:
            raise DataError(
                f"{self.name} {CHANGED}: {counted(n_matching, 'document')} before, {n_read:,} were read; ask again"
            )


def _match_values(field_name: str, values: Sequence[str]) -> str:
    """Return Milvus' expression for a field that has one of these values."""
    return f"{field_name} in {json.dumps(list(values), ensure_ascii=False)}"
