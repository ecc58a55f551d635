"""FRONTIER_HOME/stores.toml: where vector engines are, and what their collections are called. It holds no secret."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.data.settings_file import SettingsFile
from engine.data.stores.arrays import ArrayStore
from engine.data.stores.milvus import MilvusStore
from engine.data.stores.milvus_collection import MilvusAccess, MilvusTable
from engine.data.stores.pgvector import PgVectorStore
from engine.data.stores.pgvector_rows import PgTable
from engine.data.stores.postgres import PgAccess
from engine.data.stores.store import VectorStore, Where
from engine.errors import DataError
from engine.values import EncoderRef

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
"""Example of the file, which errors quote to be pasted."""
SECRET_KEYS = ("password", "dsn", "token", "passwd", "secret")
STORE_KINDS = ("pgvector", "milvus", "vectors")
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
"""Values of sslmode that libpq accepts."""
# PostgreSQL counts milliseconds in 31 bits, and takes 0 as no limit.
STORES_FILE = SettingsFile(
    "stores.toml", "where stores are", "store", EXAMPLE, {"port": (1, 65_535), "timeout": (0.001, 1_000_000)}
)


@dataclass(frozen=True)
class StoreEntry:
    """One collection of the file; access: the store's settings, table: the collection's."""

    kind: str
    access: PgAccess | MilvusAccess | None
    table: PgTable | MilvusTable | None
    settings: Mapping[str, Any]  # the collection's settings as they stand in the file
    encoder: EncoderRef | None


def config_path() -> Path:
    """Return the path of the file, which need not exist."""
    return STORES_FILE.path


def open_store(name: str, where: Where | None = None) -> VectorStore:
    """Open the collection "name/collection" of the file.

    where: the filter whose documents its `ref` counts. Raises DataError, which names the file and the entry.
    """
    entry = read_entry(name)
    if isinstance(entry.access, PgAccess) and isinstance(entry.table, PgTable):
        return PgVectorStore(entry.access, entry.table, where, entry.encoder)
    if isinstance(entry.access, MilvusAccess) and isinstance(entry.table, MilvusTable):
        return MilvusStore(entry.access, entry.table, where, entry.encoder)
    return _open_vectors(name, entry)


def read_entry(name: str) -> StoreEntry:
    """Read the settings of "name/collection" from the file.

    A collection that is not listed gets the table of its name, as `load` creates it. Raises DataError.
    """
    store, separator, collection = name.partition("/")
    if not (store and separator and collection):
        raise DataError(f"a collection is named store/collection, pg/papers say; got {name!r}")
    settings = STORES_FILE.read_entry(store)
    collections = {key: value for key, value in settings.items() if isinstance(value, dict)}
    common = {key: value for key, value in settings.items() if key not in collections}
    values = dict(collections.get(collection, {}))
    # Secrets are looked for before anything else, so that no other error can quote one.
    for part_settings in (common, values):
        _refuse_secrets(store, part_settings)
    kind = common.pop("kind", None)
    if kind not in STORE_KINDS:
        raise DataError(f"{config_path()}: [{store}] needs kind, one of {', '.join(STORE_KINDS)}; got {kind!r}")
    encoder_name = values.pop("encoder", None)
    encoder = EncoderRef(encoder_name, "", "auto") if encoder_name else None
    if kind == "vectors":
        return StoreEntry(kind, None, None, values, encoder)
    is_pg = kind == "pgvector"
    access_class, table_class = (PgAccess, PgTable) if is_pg else (MilvusAccess, MilvusTable)
    name_setting = "table" if is_pg else "collection"
    access = _build_entry(access_class, store, store, common)
    # A collection that is not listed has the table of its name.
    table = _build_entry(table_class, f"{store}.{collection}", collection, {name_setting: collection, **values})
    return StoreEntry(kind, access, table, values, encoder)


def collections() -> list[str]:
    """List the collections of the file as "name/collection"; none if there is no file."""
    if not config_path().is_file():
        return []
    names = []
    for store, settings in STORES_FILE.read().items():
        names += [f"{store}/{key}" for key, value in settings.items() if isinstance(value, dict)]
    return names


def _refuse_secrets(store: str, settings: Mapping[str, Any]) -> None:
    """Raise a DataError for settings that belong into the environment, without repeating their values."""
    for key, value in settings.items():
        with_password = isinstance(value, str) and re.search(r"://.*@|password\s*=", value, re.IGNORECASE | re.DOTALL)
        if key in SECRET_KEYS or with_password:
            # Milvus has a token, perhaps inside its uri; PostgreSQL a password, perhaps inside its connection string.
            secret_kind = {"token": "token", "uri": "token", "dsn": "dsn"}.get(key, "password")
            variable = f"{store.upper()}_{'TOKEN' if secret_kind == 'token' else 'PASSWORD'}"
            raise STORES_FILE.refuse_secret(store, key, f"{secret_kind}_env", variable)


def _build_entry(settings_class: Any, entry_name: str, name: str, settings: Mapping[str, Any]) -> Any:
    """Build a dataclass of settings, of a store or of a collection, from a table of stores.toml.

    entry_name: heading of the table, for errors; name: value of the class's field `name`. Raises DataError for unknown
    settings, wrong types and impossible values.
    """
    location = f"{config_path()}: [{entry_name}]"
    is_table = settings_class in (PgTable, MilvusTable)
    STORES_FILE.check_settings(settings_class, entry_name, settings, ["encoder"] if is_table else [])
    if settings.get("sslmode", SSL_MODES[0]) not in SSL_MODES:
        raise DataError(f"{location} sslmode must be one of {', '.join(SSL_MODES)}")
    if settings_class is MilvusAccess and "uri" not in settings:
        raise DataError(f'{location} needs uri, "http://127.0.0.1:19530" or the path of a file')
    return settings_class(name=name, **settings)


def _open_vectors(name: str, entry: StoreEntry) -> VectorStore:
    """Open a .npy file of vectors, listed in stores.toml, as a store that is searched exactly.

    Its matrix is mapped, so that only what is searched is in memory. name: "store/collection"; entry: its settings,
    path and perhaps ids. Raises DataError.
    """
    location = f"{config_path()}: [{name.replace('/', '.')}]"
    remaining_settings = dict(entry.settings)
    # A missing setting becomes Path("."), which has an empty name and is no file.
    path, ids_path = (Path(str(remaining_settings.pop(setting, ""))).expanduser() for setting in ("path", "ids"))
    if remaining_settings or not path.name:
        raise DataError(f"{location} needs path, of a .npy file, and may have ids, of a file with one id a line")
    try:
        vectors = np.load(path, mmap_mode="c", allow_pickle=False)
        candidates = ids_path, path.with_name(f"{path.stem}.ids.txt"), path.with_name("ids.txt")
        files = [file for file in candidates if file.is_file()]
        ids = files[0].read_text(encoding="utf-8").splitlines() if files else None
    except (OSError, ValueError) as error:
        raise DataError(f"{location} {path} cannot be mapped, or its ids not be read: {type(error).__name__}") from None
    if not isinstance(vectors, np.ndarray) or vectors.dtype != np.float32:
        raise DataError(f"{location} {path} must hold one array of float32: np.save(path, rows.astype('float32'))")
    store = ArrayStore(tuple(map(str, range(len(vectors)))) if ids is None else tuple(ids), vectors, name=name)
    if not np.isfinite(store.ref.longest or 0.0):
        raise DataError(f"{location} {path} holds numbers that are not finite")
    file_stat = path.stat()
    store.version = f"{file_stat.st_mtime_ns}:{file_stat.st_size}"
    store.encoder = entry.encoder
    return store
