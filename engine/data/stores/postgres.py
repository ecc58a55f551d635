"""Connections to PostgreSQL: a few that are kept, one snapshot a thread, and errors that hold no secret."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from engine.data.settings_file import read_secret
from engine.errors import DataError

if TYPE_CHECKING:
    from psycopg import Connection

ResultType = TypeVar("ResultType")
MAX_IDLE_CONNECTIONS = 4
"""Largest number of idle connections that stay open."""
CONNECT_SECONDS = 4
"""Time limit for making a connection, and for the acknowledgement of sent bytes."""
STATEMENT_SECONDS = 300
"""Default time limit of a statement."""
BEGIN_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"


@dataclass(frozen=True, kw_only=True)
class PgAccess:
    """Connection settings of a database, with only the names of the variables that hold secrets.

    name: what errors call it; dsn_env: a variable with a whole connection string, which the other fields override
    """

    name: str
    host: str | None = None
    port: int | None = None
    dbname: str | None = None
    user: str | None = None
    sslmode: str | None = None
    password_env: str | None = None
    dsn_env: str | None = None
    timeout: float = STATEMENT_SECONDS

    def connect(self) -> Connection[Any]:
        """Open a new connection to the database. Raises DataError, within five seconds if the server is gone."""
        psycopg, owner = import_psycopg(), f"store {self.name!r}"
        settings = {field: getattr(self, field) for field in ("host", "port", "dbname", "user", "sslmode")}
        chosen = {field: value for field, value in settings.items() if value is not None}
        if password := read_secret(self.password_env, owner):
            chosen["password"] = password
        # A server that is gone is noticed within seconds; a chosen setting of the same name would win.
        guards = {
            "connect_timeout": CONNECT_SECONDS,
            "tcp_user_timeout": CONNECT_SECONDS * 1000,
            "keepalives_idle": 2,
            "keepalives_interval": 1,
            "keepalives_count": 2,
            "application_name": "frontier",
        }
        try:
            connection: Connection[Any] = psycopg.connect(
                read_secret(self.dsn_env, owner), autocommit=True, prepare_threshold=None, **{**guards, **chosen}
            )
        except psycopg.Error as error:
            raise DataError(self._explain_failure(str(error))) from None
        try:
            # Not as `options`: they would replace those of a connection string, and PgBouncer refuses them.
            with translate_errors(self):
                connection.execute(f"SET statement_timeout = {round(self.timeout * 1000)}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _explain_failure(self, client_message: str) -> str:
        """Explain a failed connection; the client's own text could quote what is secret."""
        where = f"{self.host or 'its default host'}:{self.port or 5432}" if self.dsn_env is None else f"${self.dsn_env}"
        variable_name = self.password_env or self.dsn_env
        password_source = f"the one in {variable_name}" if variable_name else "none, as no password_env is named"
        tls = f"offers no TLS, and sslmode={self.sslmode or '…'} asks for it: turn it on there, or set another sslmode"
        # Patterns are tried in this order; the last one, empty, fits every message.
        reasons = {
            "does not support SSL": tls,
            "certificate": f"was refused: its certificate does not hold for sslmode {self.sslmode}",
            "translate host name|resolve host": "names a host that nobody knows: see host",
            "pg_hba": "lets nobody in as this user from this machine: see its pg_hba.conf, or user, dbname and sslmode",
            "too many|connection slots": "has too many connections: ask again later, or raise its limit of them",
            "authentication failed|no password supplied": f"refused the user or the password, {password_source}",
            "does not exist": "has no such database or user: see dbname and user",
            'missing "="|invalid|in URI': "is no connection string or setting, postgresql://user@host/db say",
            "": f"is gone: no answer within {CONNECT_SECONDS} s; is the server running?",
        }
        reason = next(reason for pattern, reason in reasons.items() if re.search(pattern, client_message))
        return f"store {self.name!r} at {where} {reason}"


def import_psycopg() -> Any:
    """Import the psycopg package. Raises DataError if it is not installed."""
    try:
        import psycopg
    except ImportError:
        raise DataError("pgvector needs psycopg: pip install 'frontier-retrieval[pgvector]'") from None
    return psycopg


class Connections:
    """A small pool of connections; each thread may hold one snapshot."""

    def __init__(self, access: PgAccess) -> None:
        """Start without connections; they are opened when they are needed."""
        self.access = access
        self._idle: list[Connection[Any]] = []
        self._lock = threading.Lock()
        self._thread_state = threading.local()
        # A forked process has another id, and must not use the connections of this one.
        self._process = os.getpid()

    def __reduce__(self) -> tuple[Any, ...]:
        return Connections, (self.access,)

    @property
    def snapshot_open(self) -> bool:
        """True if this thread holds a snapshot."""
        return getattr(self._thread_state, "connection", None) is not None

    def _take_connection(self) -> tuple[Connection[Any], bool]:
        """Return a connection, and True if it was idle, so that it may have died since."""
        with self._lock:
            if self._process != os.getpid():
                # This is a forked child, which must not send anything on its parent's connections, not even to close
                # them. They stay in a list, because connections that nothing refers to are closed.
                self._abandoned, self._idle, self._process = self._idle, [], os.getpid()
            if self._idle:
                return self._idle.pop(), True
        return self.access.connect(), False

    @contextmanager
    def _borrow(self) -> Iterator[tuple[Connection[Any], bool]]:
        """Lend a connection, with True if it was used before; afterwards it is idle, or closed on an error."""
        connection, was_used = self._take_connection()
        try:
            yield connection, was_used
        except BaseException:
            connection.close()  # an answer may still be under way on it
            raise
        # Further connections are closed rather than kept open on the server.
        with self._lock:
            if is_stored := not connection.closed and len(self._idle) < MAX_IDLE_CONNECTIONS:
                self._idle.append(connection)
        if not is_stored:
            connection.close()

    def ask(self, work: Callable[[Connection[Any]], ResultType]) -> ResultType:
        """Call `work` with a connection in one snapshot of the database, and return its result.

        The snapshot is the one that this thread holds, or a new one that ends with the call. Raises DataError.
        Connections that have died since they were last used are replaced.
        """
        return self._run(work, BEGIN_SNAPSHOT)

    def write(self, work: Callable[[Connection[Any]], ResultType]) -> ResultType:
        """Call `work` with a connection in a transaction of its own; again if the connection had died."""
        return self._run(work, "BEGIN")

    def _run(self, work: Callable[[Connection[Any]], ResultType], begin_statement: str) -> ResultType:
        """Run `work` with a connection in one transaction, and return its result.

        begin_statement: starts the transaction. BEGIN_SNAPSHOT is that of a read: if this thread holds a snapshot, the
        read runs in it and no transaction is started. Dead connections are replaced.
        """
        psycopg = import_psycopg()
        if begin_statement == BEGIN_SNAPSHOT and self.snapshot_open:
            with translate_errors(self.access):
                return work(self._thread_state.connection)
        # Every idle connection may have died, so that there is one attempt for each and one for a new connection.
        for _ in range(MAX_IDLE_CONNECTIONS + 1):
            was_used = False
            try:
                with self._borrow() as (connection, was_used), translate_errors(self.access, reraise_lost=was_used):
                    connection.execute(begin_statement)
                    result = work(connection)
                    connection.execute("COMMIT")
                return result
            except psycopg.OperationalError:
                continue  # it had died since it was last used
        raise AssertionError("a fresh connection's error is always a DataError")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Hold one snapshot, one state of the database, for all that this thread asks inside."""
        if self.snapshot_open:
            yield
            return
        # The probe, an empty query, replaces a dead connection; inside the snapshot it could not be replaced.
        self.ask(_probe_connection)
        with self._borrow() as (connection, _):
            with translate_errors(self.access):
                connection.execute(BEGIN_SNAPSHOT)
            self._thread_state.connection = connection
            try:
                yield
            finally:
                self._thread_state.connection = None
            with translate_errors(self.access):
                connection.execute("COMMIT")

    def stream(self, statement: Any, parameters: list[Any], n_rows: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a query, in binary, `n_rows` at a time, in one snapshot.

        The snapshot is that of this thread, if it holds one.
        """
        with ExitStack() as stack:
            connection = self._thread_state.connection if self.snapshot_open else None
            if is_borrowed := connection is None:
                # The probe, an empty query, replaces a dead connection; after the first rows that would be too late.
                self.ask(_probe_connection)
                connection, _ = stack.enter_context(self._borrow())
            stack.enter_context(translate_errors(self.access))
            if is_borrowed:
                connection.execute(BEGIN_SNAPSHOT)
                # The stack ends the transaction before it gives the connection back.
                stack.callback(_end_transaction, connection)
            with connection.cursor("frontier_rows", binary=True) as cursor:
                cursor.execute(statement, parameters)
                while rows := cursor.fetchmany(n_rows):
                    try:
                        yield rows
                    except GeneratorExit:
                        return  # whoever wants no more leaves a connection that can be lent again

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle_connections, self._idle = self._idle, []
        for connection in idle_connections:
            connection.close()


@contextmanager
def translate_errors(access: PgAccess, reraise_lost: bool = False) -> Iterator[None]:
    """Reraise errors of the client as DataErrors without secrets.

    reraise_lost: leave the error of a lost connection as it is
    """
    psycopg = import_psycopg()
    store = access.name
    try:
        yield
    except psycopg.errors.QueryCanceled:
        raise DataError(f"store {store!r} did not answer within {access.timeout:g} s: raise its `timeout`") from None
    except psycopg.Error as error:
        sql_state = error.sqlstate or "08"  # a client that says none has lost its connection
        # Class 57 is a server that is shut down, class 08 a lost connection.
        if isinstance(error, psycopg.OperationalError) and sql_state[:2] in ("57", "08"):
            if reraise_lost:
                raise
            message = f"store {store!r} is gone while asked: the connection was lost; ask again once it is back"
            raise DataError(message) from None
        message = error.diag.message_primary or type(error).__name__
        raise DataError(f"store {store!r} cannot answer: {message}") from None


def _probe_connection(connection: Connection[Any]) -> None:
    """Run an empty query, so that a dead connection is noticed and replaced."""
    connection.execute("SELECT 1")


def _end_transaction(connection: Connection[Any]) -> None:
    """End a transaction that only read, if its connection still lives."""
    if not connection.closed:
        connection.execute("ROLLBACK")
