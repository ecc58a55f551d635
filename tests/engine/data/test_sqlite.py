"""SQLite files where nothing can be written: all that is in them, or a refusal."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from engine.data.sqlite import connect_database, write_ahead
from engine.errors import DataError
from engine.paths import home
from support.processes import environment
from support.read_only import VIEW, skip_without_view

READ = """
import sys
from pathlib import Path
from engine.data.sqlite import connect_database
try:
    print(connect_database(Path(sys.argv[1]), sys.argv[2]).execute("SELECT count(*) FROM t").fetchone()[0])
except ValueError as error:
    print(error)
"""


@pytest.fixture
def wal_file(tmp_path):
    """A file of three rows, written ahead, in a folder for which processes can have a view; all is in the file."""
    folder = tmp_path / "stores"
    folder.mkdir()
    skip_without_view(folder)
    with closing(connect_database(folder / "a.db")) as db:
        write_ahead(db)
        db.execute("CREATE TABLE t (a)")
        db.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(3)])
    assert os.listdir(folder) == ["a.db"]
    return folder / "a.db"


def read(path, mode="rwc"):
    """Read the file in a process that cannot write to its folder; return its output."""
    command = ["unshare", "--mount", "sh", "-c", VIEW, str(path.parent), sys.executable, "-c", READ, str(path), mode]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("mode", ["rw", "rwc"])
def test_a_file_in_a_folder_that_is_read_only_is_read(wal_file, mode):
    assert read(wal_file, mode) == "3" and os.listdir(wal_file.parent) == ["a.db"]


@pytest.mark.threat(
    "a database in a read-only folder whose last changes are in a file beside it", "all of it or refused"
)
def test_write_ahead_rows_are_read_or_the_file_is_refused(wal_file):
    with closing(sqlite3.connect(wal_file)) as db:
        db.execute("INSERT INTO t VALUES (3)")
        db.commit()
        assert read(wal_file) == "4", "while somebody has it open, all files are there that it takes"
        copy = wal_file.parent / "copied"
        copy.mkdir()
        for name in ("a.db", "a.db-wal"):  # as a machine leaves them that lost its power, less one that is made anew
            shutil.copy(wal_file.parent / name, copy)
    assert read(wal_file) == "4"
    output = read(copy / "a.db")
    assert (
        "changes that belong to it are in a.db-wal" in output and "copy both files to a folder that you can" in output
    )
    (copy / "a.db-wal").write_bytes(b"")
    assert read(copy / "a.db") == "3", "nothing is beside it"


@pytest.mark.skipif(os.name != "posix", reason="needs modes")
def test_a_file_of_the_home_and_those_beside_it_are_the_users_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path / "home"))
    home().mkdir()
    for folder, mode in ((home(), 0o600), (tmp_path, 0o644)):
        with closing(connect_database(folder / "a.db")) as db:
            write_ahead(db)
            db.execute("CREATE TABLE t (a)")
            modes = {path.name: path.stat().st_mode & 0o777 for path in folder.glob("a.db*")}
            assert modes == dict.fromkeys(("a.db", "a.db-wal", "a.db-shm"), mode)


@pytest.mark.threat("a database of a stranger computes what it shows: endless rows, gigabytes", "refused by name")
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW x AS SELECT zeroblob(900000000) AS a",
        "CREATE TRIGGER x AFTER INSERT ON t BEGIN UPDATE t SET a = 0; END",
        "CREATE VIRTUAL TABLE x USING fts5(a)",
        "CREATE TABLE x (a, b BLOB GENERATED ALWAYS AS (zeroblob(900000000)) VIRTUAL)",
        "CREATE TABLE x (a, b AS/**/(a || a) STORED)",
    ],
)
def test_only_plain_tables_are_read(tmp_path, statement):
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b UNIQUE)")
        connect_database(path).close()
        db.execute(statement)
        db.commit()
    with pytest.raises(DataError, match=r"a\.db is of .* holds 'x', which computes what it shows"):
        connect_database(path)
