"""`frontier serve`: what it listens on, what it warns of, and what its visitors may send and name."""

import http.client
import re
import subprocess
import sys

import pytest

from dashboard.server import Listening
from dashboard.services.roots import UPLOADS_OFF
from support import warm_home
from support.browser import Server
from support.cli import run
from support.processes import environment


def place(address="127.0.0.1", hosts=(), roots=(), allow_uploads=False, base=""):
    return Listening(base, address, hosts, roots, allow_uploads)


@pytest.mark.threat("a server that others can reach", "no uploads and no typed paths unless the command line allows")
@pytest.mark.parametrize(
    ("found", "shared"),
    [(place(), False), (place("127.0.0.2"), False), (place("::1"), False), (place(hosts=("localhost",)), False),
     (place("0.0.0.0"), True), (place("::"), True), (place("192.168.1.5"), True), (place("papers"), True),
     (place(hosts=("papers.example",)), True)],
)  # fmt: skip
def test_what_others_can_reach_takes_nothing_unless_allowed(found, shared, tmp_path, capsys):
    rules = found.build_rules(("numpy-api",))
    assert found.is_shared is rules.shared is shared and rules.uploads is not shared
    found.warn_if_open()
    said = capsys.readouterr().err
    assert ("asks for no password" in said) is shared and said.count("\n") == shared
    allowed = Listening(found.base, found.address, found.hosts, (str(tmp_path),), True).build_rules(())
    assert allowed.uploads and allowed.roots == (tmp_path,)


def test_a_server_is_known_by_the_address_that_it_listens_on():
    assert place("192.168.1.5", hosts=("papers",)).host_names == ("papers", "192.168.1.5")
    assert place("0.0.0.0").host_names == () and place("0.0.0.0").local_address == "127.0.0.1"
    assert place("192.168.1.5").local_address == "192.168.1.5"


def test_a_server_answers_before_the_large_libraries_are_imported():
    """They take seconds, in which a new machine's first page can be painted already."""
    code = "import sys, dashboard.serve, dashboard.server; print({'torch', 'numba', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_workers_get_every_flag(monkeypatch, tmp_path):
    from dashboard import workers

    started = []
    monkeypatch.setattr(workers, "list_taken_ports", lambda ports, host: [])
    monkeypatch.setattr(workers, "supervise", lambda ports, flags, say: started.extend(flags))
    printed = run("serve", "--workers", "2", "--address", "192.168.1.5", "--root", str(tmp_path),
                  "--allow-uploads", "--allow-host", "papers", "--base-path", "x")  # fmt: skip
    assert started == ["--corpus", "numpy-api", "--base-path", "/x", "--address", "192.168.1.5", "--allow-host",
                       "papers", "--root", str(tmp_path), "--allow-uploads"]  # fmt: skip
    assert "server 192.168.1.5:8501;" in printed and "192.168.1.5:8501 192.168.1.5:8502" in printed


def test_a_root_must_be_a_folder(tmp_path):
    assert "--root" in run("serve", "--root", str(tmp_path / "none"), fails=True)


@pytest.mark.threat("uploads and look-ups of the outside address, of a server on every address", "403; none is made")
def test_server_on_every_address(tmp_path, warm):
    server = Server(warm_home.copy(tmp_path / "home"), "--address", "0.0.0.0", root=None)
    try:
        wire = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=30)
        wire.request("PUT", "/_stcore/upload_file/a/b", b"x", {"Origin": server.url})
        answer = wire.getresponse()
        assert (answer.status, answer.read().decode()) == (403, UPLOADS_OFF)
    finally:
        printed = server.close()
    assert "asks for no password" in printed and not re.search("xternal|please restart", printed), printed
