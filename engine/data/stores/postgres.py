"""Connections to PostgreSQL: a few that are kept, one snapshot a thread, and errors that hold no secret."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from engine.errors import DataError

if TYPE_CHECKING:
    from psycopg import Connection

T = TypeVar("T")
KEPT = 4
"""Idle connections that stay open."""
CONNECT_SECONDS = 4
"""A server that does not answer by then is gone; so is one that leaves sent bytes unacknowledged for as long."""
STATEMENT_SECONDS = 300
"""A question that the server has not answered by then is given up."""
SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"


@dataclass(frozen=True, kw_only=True)
class PgAccess:
    """How a database is reached. It holds no secret: only the names of the variables that do.

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

    def _secret(self, variable: str | None) -> str:
        """The value of a variable, "" where none is named."""
        if variable is None:
            return ""
        if not (value := os.environ.get(variable)):
            raise DataError(f"store {self.name!r} reads {variable}, which is not set: export {variable}=…")
        return value

    def connect(self) -> Connection[Any]:
        """A new connection. Raises DataError within five seconds."""
        psycopg = driver()
        named = {field: getattr(self, field) for field in ("host", "port", "dbname", "user", "sslmode")}
        given = {field: value for field, value in named.items() if value is not None}
        if password := self._secret(self.password_env):
            given["password"] = password
        guards = {
            "connect_timeout": CONNECT_SECONDS,
            "tcp_user_timeout": CONNECT_SECONDS * 1000,
            "keepalives_idle": 2,
            "keepalives_interval": 1,
            "keepalives_count": 2,
            "application_name": "frontier",
        }
        try:
            opened: Connection[Any] = psycopg.connect(
                self._secret(self.dsn_env), autocommit=True, prepare_threshold=None, **{**guards, **given}
            )
        except psycopg.Error as error:
            raise DataError(self._why_not(str(error))) from None
        try:
            # Not as `options`: they would replace those of a connection string, and PgBouncer refuses them.
            with translated(self):
                opened.execute(f"SET statement_timeout = {round(self.timeout * 1000)}")
        except BaseException:
            opened.close()
            raise
        return opened

    def _why_not(self, said: str) -> str:
        """A sentence on a connection that failed; the client's own text could quote what is secret."""
        where = f"{self.host or 'its default host'}:{self.port or 5432}" if self.dsn_env is None else f"${self.dsn_env}"
        variable = self.password_env or self.dsn_env
        source = f"the one in {variable}" if variable else "none, as no password_env is named"
        tls = f"offers no TLS, and sslmode={self.sslmode or '…'} asks for it: turn it on there, or set another sslmode"
        reasons = {
            "does not support SSL": tls,
            "certificate": f"was refused: its certificate does not hold for sslmode {self.sslmode}",
            "translate host name|resolve host": "names a host that nobody knows: see host",
            "pg_hba": "lets nobody in as this user from this machine: see its pg_hba.conf, or user, dbname and sslmode",
            "too many|connection slots": "has too many connections: ask again later, or raise its limit of them",
            "authentication failed|no password supplied": f"refused the user or the password, {source}",
            "does not exist": "has no such database or user: see dbname and user",
            'missing "="|invalid|in URI': "is no connection string or setting, postgresql://user@host/db say",
            "": f"is gone: no answer within {CONNECT_SECONDS} s; is the server running?",
        }
        reason = next(reason for words, reason in reasons.items() if re.search(words, said))
        return f"store {self.name!r} at {where} {reason}"


def driver() -> Any:
    """The psycopg package. Raises DataError where it is not installed."""
    try:
        import psycopg
    except ImportError:
        raise DataError("pgvector needs psycopg: pip install 'frontier-retrieval[pgvector]'") from None
    return psycopg


class Connections:
    """A few connections that threads take and give back; each thread may hold one snapshot."""

    def __init__(self, access: PgAccess) -> None:
        self.access = access
        self._idle: list[Connection[Any]] = []
        self._lock = threading.Lock()
        self._held = threading.local()
        self._process = os.getpid()

    def __reduce__(self) -> tuple[Any, ...]:
        return Connections, (self.access,)

    @property
    def snapshot_open(self) -> bool:
        """Whether this thread holds a snapshot."""
        return getattr(self._held, "connection", None) is not None

    def _take(self) -> tuple[Connection[Any], bool]:
        """A connection, and whether it was in use before."""
        with self._lock:
            if self._process != os.getpid():
                # A forked child must not speak on its parent's sockets, nor say goodbye on them.
                self._abandoned, self._idle, self._process = self._idle, [], os.getpid()
            if self._idle:
                return self._idle.pop(), True
        return self.access.connect(), False

    @contextmanager
    def _lent(self) -> Iterator[tuple[Connection[Any], bool]]:
        connection, used = self._take()
        try:
            yield connection, used
        except BaseException:
            connection.close()  # an answer may still be under way on it
            raise
        with self._lock:
            if keep := not connection.closed and len(self._idle) < KEPT:
                self._idle.append(connection)
        if not keep:
            connection.close()

    def ask(self, work: Callable[[Connection[Any]], T]) -> T:
        """What `work` reads in one snapshot: this thread's, else its own.

        Raises DataError. A connection that has died since it was last used is replaced once.
        """
        return self._run(work, SNAPSHOT)

    def write(self, work: Callable[[Connection[Any]], T]) -> T:
        """What `work` does in a transaction of its own; it may be done twice where the connection had died."""
        return self._run(work, "BEGIN")

    def _run(self, work: Callable[[Connection[Any]], T], begin: str) -> T:
        psycopg = driver()
        if begin == SNAPSHOT and self.snapshot_open:
            with translated(self.access):
                return work(self._held.connection)
        for _ in range(KEPT + 1):
            used = False
            try:
                with self._lent() as (connection, used), translated(self.access, lost=used):
                    connection.execute(begin)
                    found = work(connection)
                    connection.execute("COMMIT")
                return found
            except psycopg.OperationalError:
                continue  # it had died since it was last used
        raise AssertionError("a fresh connection's error is always a DataError")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Inside, all that this thread asks sees one state."""
        if self.snapshot_open:
            yield
            return
        self.ask(_probe)
        with self._lent() as (connection, _):
            with translated(self.access):
                connection.execute(SNAPSHOT)
            self._held.connection = connection
            try:
                yield
            finally:
                self._held.connection = None
            with translated(self.access):
                connection.execute("COMMIT")

    def stream(self, query: Any, values: list[Any], size: int) -> Iterator[list[tuple[Any, ...]]]:
        """A query's rows, binary, `size` at a time, in one snapshot: this thread's, else its own."""
        with ExitStack() as stack:
            connection = self._held.connection if self.snapshot_open else None
            if own := connection is None:
                self.ask(_probe)
                connection, _ = stack.enter_context(self._lent())
            stack.enter_context(translated(self.access))
            if own:
                connection.execute(SNAPSHOT)
                stack.callback(_finish, connection)
            with connection.cursor("frontier_rows", binary=True) as cursor:
                cursor.execute(query, values)
                while rows := cursor.fetchmany(size):
                    try:
                        yield rows
                    except GeneratorExit:
                        return  # whoever wants no more leaves a connection that can be lent again

    def close(self) -> None:
        """Close what is idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


@contextmanager
def translated(access: PgAccess, lost: bool = False) -> Iterator[None]:
    """Errors of the client as DataErrors, which hold no secret; lost: one of a lost connection stays as it is."""
    psycopg = driver()
    name = access.name
    try:
        yield
    except psycopg.errors.QueryCanceled:
        raise DataError(f"store {name!r} did not answer within {access.timeout:g} s: raise its `timeout`") from None
    except psycopg.Error as error:
        state = error.sqlstate or "08"  # a client that says none has lost its connection
        if isinstance(error, psycopg.OperationalError) and state[:2] in ("57", "08"):
            if lost:
                raise
            said = f"store {name!r} is gone while asked: the connection was lost; ask again once it is back"
            raise DataError(said) from None
        said = error.diag.message_primary or type(error).__name__
        raise DataError(f"store {name!r} cannot answer: {said}") from None


def _probe(connection: Connection[Any]) -> None:
    """Ask for nothing: what comes out of the pool afterwards is alive."""
    connection.execute("SELECT 1")


def _finish(connection: Connection[Any]) -> None:
    """End a transaction that only read, if its connection still lives."""
    if not connection.closed:
        connection.execute("ROLLBACK")
