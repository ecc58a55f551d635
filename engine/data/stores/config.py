"""FRONTIER_HOME/stores.toml: where vector engines are, and what their collections are called. It holds no secret."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from engine import paths
from engine.data.stores.arrays import ArrayStore
from engine.data.stores.milvus import MilvusStore
from engine.data.stores.milvus_collection import MilvusAccess, MilvusTable
from engine.data.stores.pgvector import PgVectorStore
from engine.data.stores.pgvector_rows import PgTable
from engine.data.stores.postgres import PgAccess
from engine.data.stores.store import VectorStore, Where
from engine.errors import DataError
from engine.values import EncoderRef

FILE = "stores.toml"
EXAMPLE = """\
[pg]
kind = "pgvector"
host = "127.0.0.1"
dbname = "documents"
user = "reader"
password_env = "PG_PASSWORD"

[pg.papers]
table = "public.papers"
"""
"""What errors show to be pasted."""
SECRETS = ("password", "dsn", "token", "passwd", "secret")
KINDS = ("pgvector", "milvus", "vectors")
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
"""What libpq knows."""
RANGES = {"port": (1, 65_535), "timeout": (0.001, 1_000_000)}
"""Seconds as PostgreSQL takes them: it counts milliseconds in 31 bits, and 0 would be no limit."""


@dataclass(frozen=True)
class StoreEntry:
    """One collection of the file; access: the store's settings, table: the collection's."""

    kind: str
    access: PgAccess | MilvusAccess | None
    table: PgTable | MilvusTable | None
    own: Mapping[str, Any]  # the collection's settings as they stand in the file
    encoder: EncoderRef | None


def config_path() -> Path:
    """The file; it need not exist."""
    return paths.home() / FILE


def open_store(name: str, where: Where | None = None) -> VectorStore:
    """The collection "name/collection" of the file.

    where: the filter whose documents its `ref` counts. Raises DataError, which names the file and the entry.
    """
    entry = read_entry(name)
    if isinstance(entry.access, PgAccess) and isinstance(entry.table, PgTable):
        return PgVectorStore(entry.access, entry.table, where, entry.encoder)
    if isinstance(entry.access, MilvusAccess) and isinstance(entry.table, MilvusTable):
        return MilvusStore(entry.access, entry.table, where, entry.encoder)
    return _open_vectors(name, entry)


def read_entry(name: str) -> StoreEntry:
    """What the file says of "name/collection"; a collection that it does not list has the names that `load` gives."""
    store, slash, collection = name.partition("/")
    if not (store and slash and collection):
        raise DataError(f"a collection is named store/collection, pg/papers say; got {name!r}")
    given = _read()
    if store not in given:
        there = ", ".join(given) or "nothing"
        raise DataError(f"{config_path()} has no store {store!r}, it has {there}; add it, for example\n\n{EXAMPLE}")
    settings = given[store]
    collections = {key: value for key, value in settings.items() if isinstance(value, dict)}
    common = {key: value for key, value in settings.items() if key not in collections}
    own = dict(collections.get(collection, {}))
    for part in (common, own):
        _refuse_secrets(store, part)
    kind = common.pop("kind", None)
    if kind not in KINDS:
        raise DataError(f"{config_path()}: [{store}] needs kind, one of {', '.join(KINDS)}; got {kind!r}")
    named = own.pop("encoder", None)
    encoder = EncoderRef(named, "", "auto") if named else None
    if kind == "vectors":
        return StoreEntry(kind, None, None, own, encoder)
    pg = kind == "pgvector"
    access = _made(PgAccess if pg else MilvusAccess, store, store, common)
    given_name = {"table" if pg else "collection": collection}
    table = _made(PgTable if pg else MilvusTable, f"{store}.{collection}", collection, {**given_name, **own})
    return StoreEntry(kind, access, table, own, encoder)


def collections() -> list[str]:
    """All that the file lists, as "name/collection"; none where there is no file."""
    if not config_path().is_file():
        return []
    return [f"{store}/{key}" for store, own in _read().items() for key, value in own.items() if isinstance(value, dict)]


def _read() -> dict[str, dict[str, Any]]:
    path = config_path()
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"there is no {path}; it says where stores are, for example\n\n{EXAMPLE}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        # The parser says a line and a column, never what stands there.
        said = re.sub(r"[^\w ,().-]|(?<=')[^']*(?=')", "", str(error))
        raise DataError(f"{path} cannot be read as TOML: {said}") from None
    if loose := [key for key, value in given.items() if not isinstance(value, dict)]:
        raise DataError(f"{path}: {loose[0]!r} stands outside a store's table; begin with\n\n{EXAMPLE}")
    return given


def _refuse_secrets(store: str, settings: Mapping[str, Any]) -> None:
    """Refuse what belongs into the environment; it is not repeated."""
    for key, value in settings.items():
        with_password = isinstance(value, str) and re.search(r"://.*@|password\s*=", value, re.IGNORECASE | re.DOTALL)
        if key in SECRETS or with_password:
            variable = f"{store.upper()}_{'TOKEN' if key in ('token', 'uri') else 'PASSWORD'}"
            instead = f"{'token' if key in ('token', 'uri') else 'dsn' if key == 'dsn' else 'password'}_env"
            raise DataError(
                f"{config_path()}: [{store}] holds a secret, {key!r}; put it into a variable of the environment and "
                f'write {instead} = "{variable}" instead'
            )


def _made(kind: Any, entry: str, name: str, settings: Mapping[str, Any]) -> Any:
    """A dataclass of settings; unknown ones, wrong types and impossible values are refused by name."""
    where = f"{config_path()}: [{entry}]"
    known = {field.name: str(field.type).split(" ")[0] for field in fields(kind) if field.name != "name"}
    if unknown := [key for key in settings if key not in known]:
        shown = ", ".join([*known, *(["encoder"] if "vector" in known else [])])
        raise DataError(f"{where} has {unknown[0]!r}, which nothing reads; it may have {shown}")
    types: dict[str, Any] = {"str": str, "int": int, "float": (int, float), "bool": bool}
    for key, value in settings.items():
        wanted = types[known[key]]
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            # Not the value: it may be a secret that stands in the wrong line.
            raise DataError(f"{where} {key} must be {known[key]}; got {type(value).__name__}")
        if key.endswith("_env") and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", value):
            # Nor here: what is no name may be the secret itself.
            example = f"STORE_{key.removesuffix('_env').upper()}"
            raise DataError(f"{where} {key} must be the name of a variable, in capitals, such as {example}")
        least, most = RANGES.get(key, (value, value))
        if not least <= value <= most:
            raise DataError(f"{where} {key} must lie between {least:,} and {most:,}; got {value}")
    if settings.get("sslmode", SSL_MODES[0]) not in SSL_MODES:
        raise DataError(f"{where} sslmode must be one of {', '.join(SSL_MODES)}")
    if kind is MilvusAccess and "uri" not in settings:
        raise DataError(f'{where} needs uri, "http://127.0.0.1:19530" or the path of a file')
    return kind(name=name, **settings)


def _open_vectors(name: str, entry: StoreEntry) -> VectorStore:
    """A matrix of a file, mapped: nothing of it is in memory until it is looked at."""
    where = f"{config_path()}: [{name.replace('/', '.')}]"
    own = dict(entry.own)
    path, beside = (Path(str(own.pop(key, ""))).expanduser() for key in ("path", "ids"))
    if own or not path.name:
        raise DataError(f"{where} needs path, of a .npy file, and may have ids, of a file with one id a line")
    try:
        rows = np.load(path, mmap_mode="c", allow_pickle=False)
        found = [p for p in (beside, path.with_name(f"{path.stem}.ids.txt"), path.with_name("ids.txt")) if p.is_file()]
        ids = found[0].read_text(encoding="utf-8").splitlines() if found else None
    except (OSError, ValueError) as error:
        raise DataError(f"{where} {path} cannot be mapped, or its ids not be read: {type(error).__name__}") from None
    if not isinstance(rows, np.ndarray) or rows.dtype != np.float32:
        raise DataError(f"{where} {path} must hold one array of float32: np.save(path, rows.astype('float32'))")
    store = ArrayStore(tuple(map(str, range(len(rows)))) if ids is None else tuple(ids), rows, name=name)
    if not np.isfinite(store.ref.longest or 0.0):
        raise DataError(f"{where} {path} holds numbers that are not finite")
    written = path.stat()
    store.version = f"{written.st_mtime_ns}:{written.st_size}"
    store.encoder = entry.encoder
    return store
