"""stores.toml: what it may say, what it may not, and errors that name the file and the entry."""

import numpy as np
import pytest

from engine.data.stores.config import collections, config_path, open_store, read_entry
from engine.errors import DataError
from support.paths import ROOT

GOOD = """
[pg]
kind = "pgvector"
host = "127.0.0.1"
port = 5432
user = "reader"
sslmode = "verify-full"
password_env = "PG_PASSWORD"
timeout = 20

[pg.papers]
table = "public.papers"
vector = "embedding"
ef = 200
encoder = "bundled"

[lite]
kind = "milvus"
uri = "/data/lite.db"
timeout = 2.5

[lite.notes]

[files]
kind = "vectors"
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes the file of a home of its own."""
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path))
    return lambda text: (tmp_path / "stores.toml").write_text(text) and tmp_path


def test_entry_gives_address_and_table(write):
    write(GOOD)
    papers = read_entry("pg/papers")
    assert (papers.access.name, papers.access.sslmode, papers.access.timeout) == ("pg", "verify-full", 20)
    assert (papers.table.table, papers.table.vector, papers.table.ef) == ("public.papers", "embedding", 200)
    assert papers.table.name == "papers" and papers.encoder.name == "bundled"
    notes = read_entry("lite/notes")
    assert (notes.access.uri, notes.access.timeout, notes.table.collection) == ("/data/lite.db", 2.5, "notes")
    assert read_entry("pg/other").table.table == "other"  # unlisted: as `load` makes it
    assert collections() == ["pg/papers", "lite/notes"]


def test_settings_as_they_are_written_down_are_read(write):
    written = (ROOT / "assets" / "growth.md").read_text(encoding="utf-8").partition("### Settings")[2]
    write(written.split("```toml")[1].split("```")[0])
    papers = read_entry("pg/papers")
    assert (papers.access.user, papers.access.password_env, papers.encoder.name) == ("writer", "PG_PASSWORD", "bundled")
    table = papers.table
    assert [table.table, table.id, table.vector, table.text, table.place, table.ef] == [
        "public.papers", "id", "v", "text", "place", 40
    ]  # fmt: skip
    assert read_entry("files/papers").settings == {"path": "/data/papers.npy"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('password = "hunter2secret"', "'password'.*password_env"),
        ('token = "hunter2secret"', "'token'.*token_env"),
        ('dsn = "postgresql://u:hunter2secret@h/db"', "'dsn'.*dsn_env"),
        ('uri = "http://root:hunter2secret@h:19530"', "'uri'.*token_env"),
        ('uri = "http://root:hunter2/secret@h:19530"', "'uri'.*token_env"),
        ('uri = "http://hunter2secret@h:19530"', "'uri'.*token_env"),
        ('host = "host=h password=hunter2secret"', "'host'.*password_env"),
        ('host = "host=h PassWord = hunter2secret"', "'host'.*password_env"),
        ('host = "h"\nnosuch = "hunter2secret"', "'nosuch', which nothing reads; it may have host, port"),
        ('name = "hunter2secret"', "'name', which nothing reads"),
        (
            'password_env = "hunter2secret"',
            "password_env must be the name of a variable, .* STORE_PASSWORD",
        ),
        ("port = true", "port must be int; got bool"),
        ('port = "hunter2secret"', "port must be int; got str"),
        ("port = 70000", "port must lie between 1 and 65,535; got 70000"),
        ('sslmode = "hunter2"', "sslmode must be one of disable, .*verify-full"),
        *((f"timeout = {value}", f"timeout must lie between .*; got {value}") for value in ("0", "-1", "nan", "inf")),
        ('port = "hunter2secret', "cannot be read as TOML"),
    ],
)
def test_forbidden_setting_is_refused_by_name_without_its_value(write, line, message):
    write(f'[pg]\nkind = "pgvector"\n{line}\n')
    with pytest.raises(DataError, match=rf"(?s)stores\.toml.*{message}") as caught:
        read_entry("pg/papers")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (GOOD, "papers", "named store/collection, pg/papers say; got 'papers'"),
        (GOOD, "nosuch/papers", r"no store 'nosuch', it has pg, lite, files(?s:.*)password_env"),
        ('[pg]\nkind = "oracle"\n', "pg/papers", r"needs kind, one of pgvector, milvus, vectors; got 'oracle'"),
        ('[lite]\nkind = "milvus"\n', "lite/notes", "needs uri"),
        ('kind = "pgvector"\n', "pg/papers", "'kind' stands outside"),
        (GOOD, "files/none", "needs path"),
    ],
)
def test_errors_name_the_file_the_entry_and_the_fix(write, text, name, message):
    write(text)
    with pytest.raises(DataError, match=message):
        open_store(name)


def test_missing_file_error_says_which_file_and_what_to_write(write):
    write("")
    config_path().unlink()
    with pytest.raises(DataError, match=r'(?s)there is no .*stores\.toml.*kind = "pgvector"'):
        open_store("pg/papers")
    assert collections() == []


def test_a_file_of_vectors_is_mapped_with_the_ids_beside_it(write):
    home = write('[files]\nkind = "vectors"\n[files.own]\npath = "rows.npy"\nencoder = "bundled"\n')
    path = home / "rows.npy"
    (home / "stores.toml").write_text(f'[files]\nkind = "vectors"\n[files.own]\npath = "{path}"\nencoder = "bundled"\n')
    rows = np.random.default_rng(0).standard_normal((30, 8)).astype(np.float32)
    np.save(path, rows)
    store = open_store("files/own")
    assert isinstance(store.vectors, np.memmap) and store.ids[:2] == ("0", "1") and store.encoder.name == "bundled"
    (home / "rows.ids.txt").write_text("\n".join(f"d{row}" for row in range(30)))
    assert open_store("files/own").search(rows[3], 1).ids[0][0].startswith("d")
    np.save(path, rows + 1)
    assert open_store("files/own").ref != store.ref
    rows[2, 2] = np.nan
    np.save(path, rows)
    with pytest.raises(DataError, match="not finite"):
        open_store("files/own")
    np.save(path, rows.astype(np.float64))
    with pytest.raises(DataError, match=r"astype\('float32'\)"):
        open_store("files/own")
