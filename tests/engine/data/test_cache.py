"""The cache on disk: whole entries or none, whatever happens to the files."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

from engine.data import cache, inventory
from engine.errors import FrontierError
from support.processes import environment

pytestmark = pytest.mark.usefixtures("home")
KEY = "k" * 64


def test_home_is_where_the_environment_says_else_the_users_cache_folder(monkeypatch, home):
    assert cache.home() == home
    assert not home.exists(), "asking creates nothing"
    monkeypatch.setenv("FRONTIER_HOME", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache.home().name == "frontier"
    assert not cache.sections() and cache.clear() == 0


def test_what_is_put_is_got():
    assert cache.get("things", KEY) is None
    for payload in (b"", b"some bytes", os.urandom(5000)):
        cache.put("things", KEY, payload)
        assert cache.get("things", KEY) == payload
    for array in (np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((0, 4)), np.array(3)):
        cache.put_array("things", KEY, array)
        back = cache.get_array("things", KEY)
        assert back.dtype == array.dtype and np.array_equal(back, array) and back.flags.writeable


def test_a_damaged_entry_is_a_miss():
    cache.put_array("things", KEY, np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32))
    path = cache.section("things") / KEY
    whole = path.read_bytes()
    for length in (0, 1, 31, 32, 100, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert cache.get_array("things", KEY) is None, length
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert cache.get_array("things", KEY) is None, at
    path.write_bytes(whole)
    assert cache.get_array("things", KEY) is not None


def test_an_entry_under_another_name_is_a_miss():
    cache.put("things", KEY, b"mine")
    path = cache.section("things") / KEY
    path.rename(path.with_name("other"))
    assert cache.get("things", "other") is None


def test_nothing_is_unpickled(tmp_path):
    file = tmp_path / "objects.npy"
    np.save(file, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    cache.put("things", KEY, file.read_bytes())
    assert cache.get_array("things", KEY) is None
    with pytest.raises(ValueError):
        cache.put_array("things", KEY, np.array([{"a": 1}], dtype=object))


def test_a_write_that_fails_leaves_the_old_file_and_no_remains(tmp_path):
    path = tmp_path / "deep" / "file"
    cache.write(path, b"old")

    def half(file):
        file.write(b"ne")
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        cache.write(path, half)
    assert path.read_bytes() == b"old" and os.listdir(path.parent) == ["file"]
    cache.write(path, lambda file: file.write(b"new"))
    assert path.read_bytes() == b"new"


def test_a_home_that_cannot_be_written_is_explained(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(FrontierError, match=r"file/home/things.*set FRONTIER_HOME"):
        cache.put("things", KEY, b"x")
    assert cache.get("things", KEY) is None
    with pytest.raises(FrontierError, match="choose a folder"):
        cache.write(tmp_path / "file" / "x", b"")  # not below home: an export, for example


def test_a_section_is_cleared_alone_or_with_all_others():
    cache.put("one", "a", b"x" * 100)
    cache.put("one", "b", b"x" * 100)
    cache.put("two", "a", b"x" * 100)
    assert cache.clear("one") == 264
    assert cache.get("one", "a") is None and cache.get("two", "a") is not None
    assert cache.clear("no such section") == 0
    assert cache.clear() == 132
    assert not any(list(cache.files_of(folder)) for folder in cache.sections())
    cache.put("one", "a", b"again")
    assert cache.get("one", "a") == b"again"


def test_remains_of_killed_runs_are_ignored_and_cleared():
    cache.put("things", "a", b"x")
    remains = cache.section("things") / ".a.0123.tmp"
    remains.write_bytes(b"half a chunk")
    assert cache.get("things", "a") == b"x"
    assert cache.clear() == 33 + 12 and not remains.exists()


@pytest.mark.parametrize("name", ["..", "../x", "a/b", "", "A", ".hidden"])
def test_names_cannot_lead_out_of_the_cache(name):
    with pytest.raises(FrontierError):
        cache.put("things", name, b"x")
    with pytest.raises(FrontierError):
        cache.get(name, "key")


@pytest.mark.parametrize("delete", [cache.clear, lambda: inventory.remove(inventory.items())])
def test_a_write_in_flight_survives_deletion_of_everything(delete):
    path, calls = cache.section("things") / "a", []

    def write(file):
        calls.append("called")
        file.write(b"half")
        file.flush()
        assert delete() == 0
        file.write(b" and half")

    cache.write(path, write)
    assert path.read_bytes() == b"half and half" and calls == ["called"]
    assert delete() == len(b"half and half")


def test_a_temporary_of_a_killed_writer_is_deleted():
    dies = "lambda file: (file.write(b'half'), file.flush(), os._exit(9))"
    code = f"import os\nfrom engine.data import cache\ncache.write(cache.section('things') / 'a', {dies})"
    assert subprocess.run([sys.executable, "-c", code], env=environment()).returncode == 9
    (remains,) = cache.files_of(cache.section("things"))
    assert remains.stat().st_size == 4 == cache.clear() and not remains.exists()


def test_processes_may_write_and_clear_at_once():
    code = (
        "import sys\nfrom engine.data import cache\n"
        f"for i in range(150): cache.put('things', {KEY!r}, sys.argv[1].encode() * 20000)\n"
        "print('done')"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", code, letter], env=environment(), stdout=subprocess.PIPE, text=True)
        for letter in "ab"
    ]
    seen = set()
    while any(w.poll() is None for w in writers):
        seen.add(cache.get("things", KEY))
        if len(seen) == 3:
            cache.clear()
            time.sleep(0.005)
    assert seen <= {None, b"a" * 20000, b"b" * 20000}
    assert [(w.communicate()[0], w.returncode) for w in writers] == [("done\n", 0)] * 2
