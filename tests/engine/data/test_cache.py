"""The cache on disk: whole entries or none, whatever happens to the files."""

import errno
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from filelock import lock_descriptor

from engine.data import cache, inventory
from engine.errors import FrontierError
from engine.paths import storage_warning
from support.processes import environment

pytestmark = pytest.mark.usefixtures("home")
KEY = "k" * 64


def test_home_comes_from_environment_or_user_cache_folder(monkeypatch, home):
    assert cache.home() == home
    assert not home.exists(), "asking creates nothing"
    monkeypatch.setenv("FRONTIER_HOME", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache.home().name == "frontier"
    assert not cache.list_sections() and cache.clear() == 0


def test_cache_returns_what_was_put():
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
    path = cache.open_section("things") / KEY
    content = path.read_bytes()
    for length in (0, 1, 31, 32, 100, len(content) - 1):
        path.write_bytes(content[:length])
        assert cache.get_array("things", KEY) is None, length
    for position in range(0, len(content), 7):
        path.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
        assert cache.get_array("things", KEY) is None, position
    path.write_bytes(content)
    assert cache.get_array("things", KEY) is not None


def test_an_entry_under_another_name_is_a_miss():
    cache.put("things", KEY, b"mine")
    path = cache.open_section("things") / KEY
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


@pytest.mark.threat("a home that cannot be written", "what spares work is not kept, which is said once")
def test_a_home_that_cannot_be_written_is_said_once(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path / "file" / "home"))
    for _ in range(2):
        cache.put("things", KEY, b"x")
        assert cache.get("things", KEY) is None
    (message,) = caplog.messages
    assert "nothing new is kept in" in message and "file/home (Not a directory)" in message
    assert "set FRONTIER_HOME" in message
    assert storage_warning() in message
    folder = cache.open_section("things")
    assert folder == cache.open_section("things") and not folder.is_relative_to(tmp_path / "file")
    assert cache.entry_path("things", "a") == folder / "a" and not cache.list_sections() and cache.clear() == 0
    for inside in (tmp_path / "file" / "home" / "x", tmp_path / "file" / "x"):  # the second: an export, for example
        with pytest.raises(FrontierError, match=r"cannot write .*file/.*x: Not a directory; free some room, or"):
            cache.write(inside, b"")


def test_a_home_that_can_be_written_again_is_nothing_to_say(home, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", raise_full)
        cache.put("things", KEY, b"x")
    assert "No space left on device" in storage_warning() and not [p for p in home.rglob("*") if p.suffix == ".tmp"]
    cache.put("things", KEY, b"x")
    assert storage_warning() is None and cache.get("things", KEY) == b"x"


def raise_full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_folder_for_the_process_ends_with_it(tmp_path):
    (tmp_path / "file").write_text("in the way")
    code = "from engine.data import cache\nprint(cache.open_section('things'))\ncache.open_section('others')"
    around = environment(FRONTIER_HOME=str(tmp_path / "file" / "home"), TMPDIR=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], env=around, capture_output=True, text=True)
    assert done.stdout.startswith(str(tmp_path / "frontier-")) and done.stderr.count("note: nothing new is kept") == 1
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.threat("other users of the machine", "what is kept is the user's alone: files 0600, folders 0700")
@pytest.mark.skipif(os.name != "posix", reason="needs modes")
def test_cache_files_are_private_to_the_user(tmp_path, home, monkeypatch):
    umask = os.umask(0o022)
    try:
        cache.put("things", KEY, b"x")
        cache.write(cache.open_section("things") / "deep" / "er" / "file", b"x")
        cache.write(tmp_path / "export" / "file", b"x")
        modes = {path.relative_to(home).as_posix(): path.stat().st_mode & 0o777 for path in (home, *home.rglob("*"))}
        assert {path for path, mode in modes.items() if mode == 0o700} == {
            ".",
            "things",
            "things/deep",
            "things/deep/er",
        }
        assert set(modes.values()) == {0o700, 0o600}
        exported = tmp_path / "export"
        assert [path.stat().st_mode & 0o777 for path in (exported, exported / "file")] == [0o755, 0o644]
        for wide in (home, home / "things"):
            wide.chmod(0o755)
        cache.open_section("things")
        assert [path.stat().st_mode & 0o777 for path in (home, home / "things")] == [0o755, 0o700], "an older home"
    finally:
        os.umask(umask)


def test_a_section_is_cleared_alone_or_with_all_others():
    cache.put("one", "a", b"x" * 100)
    cache.put("one", "b", b"x" * 100)
    cache.put("two", "a", b"x" * 100)
    assert cache.clear("one") == 264
    assert cache.get("one", "a") is None and cache.get("two", "a") is not None
    assert cache.clear("no such section") == 0
    assert cache.clear() == 132
    assert not any(list(cache.list_files(folder)) for folder in cache.list_sections())
    cache.put("one", "a", b"again")
    assert cache.get("one", "a") == b"again"


HOUR = 3600


def test_remains_of_killed_runs_are_ignored_and_cleared():
    cache.put("things", "a", b"x")
    remains = cache.open_section("things") / ".a.0123.tmp"
    remains.write_bytes(b"half a chunk")
    assert cache.get("things", "a") == b"x"
    assert cache.clear() == 33 and remains.exists(), "not every file system says whether it is still written"
    os.utime(remains, (0, time.time() - HOUR - 1))
    assert cache.clear() == 12 and not remains.exists()


@pytest.mark.threat("temporary files pile up after kills", "deleted once their writer is dead and they are an hour old")
def test_remains_go_with_the_next_write_once_they_are_an_hour_old(home):
    abandoned, recent, unrelated, locked = (
        f".{name}.tmp" for name in ("a." + "0" * 32, "a." + "1" * 32, "a.b", "b." + "2" * 32)
    )
    home.mkdir()
    for name in (abandoned, recent, unrelated, locked):
        (home / name).write_bytes(b"half")
    for name in (abandoned, unrelated, locked):
        os.utime(home / name, (0, time.time() - HOUR - 1))
    with open(home / locked, "rb") as writer:
        lock_descriptor(writer.fileno(), blocking=False)
        cache.write(home / "settings", b"x")
    assert {path.name for path in home.iterdir()} == {"settings", recent, unrelated, locked}, (
        "the third is another program's"
    )


@pytest.mark.parametrize("name", ["..", "../x", "a/b", "", "A", ".hidden"])
def test_names_cannot_lead_out_of_the_cache(name):
    with pytest.raises(FrontierError):
        cache.put("things", name, b"x")
    with pytest.raises(FrontierError):
        cache.get(name, "key")


@pytest.mark.parametrize("delete", [cache.clear, lambda: inventory.remove_items(inventory.list_items())])
def test_a_write_in_flight_survives_deletion_of_everything(delete):
    path, calls = cache.open_section("things") / "a", []

    def write(file):
        calls.append("called")
        file.write(b"half")
        file.flush()
        (temporary,) = path.parent.glob(".*.tmp")
        os.utime(temporary, (0, time.time() - 2 * HOUR))  # a long write, or a clock that was set
        assert delete() == 0
        file.write(b" and half")

    cache.write(path, write)
    assert path.read_bytes() == b"half and half" and calls == ["called"]
    assert delete() == len(b"half and half")


def test_a_temporary_of_a_killed_writer_is_deleted():
    dies = "lambda file: (file.write(b'half'), file.flush(), os._exit(9))"
    code = f"import os\nfrom engine.data import cache\ncache.write(cache.open_section('things') / 'a', {dies})"
    assert subprocess.run([sys.executable, "-c", code], env=environment()).returncode == 9
    (remains,) = cache.list_files(cache.open_section("things"))
    os.utime(remains, (0, time.time() - HOUR - 1))
    assert remains.stat().st_size == 4 == cache.clear() and not remains.exists()


def test_processes_may_write_and_clear_at_once():
    code = (
        "import sys\nfrom engine.data import cache\n"
        f"for i in range(60): cache.put('things', {KEY!r}, sys.argv[1].encode() * 20000)\n"
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
