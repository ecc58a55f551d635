"""Workers of one host: started, watched, ended; and the lines of a proxy before them."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import closing

import pytest

from dashboard import workers
from support import fork_server, pages, warm_home
from support.browser import START
from support.draws import deepen
from support.patience import patient
from support.processes import is_alive

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


def free_ports(count):
    """The first of so many ports that follow each other and are free."""
    for start in range(21_000 + os.getpid() % 9_000, 60_000, count):
        if not workers.list_taken_ports(range(start, start + count)):
            return start
    raise AssertionError("no ports are free")


def json_of(url):
    """Status and JSON of an address; None while nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
    except OSError:
        return None


def until(condition, what):
    end = time.monotonic() + patient(120)
    while not (found := condition()):
        assert time.monotonic() < end, f"it never came that {what}"
        time.sleep(0.1)
    return found


def children(pid):
    """The processes that one has started."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return list(map(int, file.read().split()))


def served(home, port, *flags):
    """`frontier serve` at a port."""
    arguments = ["serve", "--no-browser", "--port", str(port), *flags]
    return fork_server.start_python(START, arguments, FRONTIER_HOME=str(home))


@pytest.fixture
def home(warm, tmp_path):
    return warm_home.copy(tmp_path / "home")


@pytest.fixture
def folders(tmp_path):
    """Write two corpora with vectors of their own, for which no worker loads an encoder."""
    folders = [tmp_path / "secret-folder" / name for name in ("papers", "things")]
    for folder in folders:
        folder.mkdir(parents=True)
        pages.beir_with_vectors(folder)
    return folders


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("sent", deepen([signal.SIGTERM, signal.SIGINT], [signal.SIGINT]))
def test_workers_load_start_again_and_end_together(home, folders, sent):
    port = free_ports(2)
    parent = served(home, port, "--workers", "2", "--base-path", "/frontier/", "--corpus", str(folders[0]),
                    "--corpus", str(folders[1]))  # fmt: skip
    pids = []
    try:
        urls = [f"http://127.0.0.1:{p}/frontier/healthz" for p in (port, port + 1)]
        seen = set()

        def loaded(url):
            answer = json_of(url)
            seen.add(answer and answer[0])
            return answer and answer[1]["status"] == "ok" and answer

        for url in urls:
            assert until(lambda u=url: loaded(u), "both corpora are loaded") == (
                200, {"status": "ok", "loaded": ["papers", "things"]}
            )  # fmt: skip
        assert 503 in seen and seen <= {None, 503, 200}
        pids = until(lambda: len(found := children(parent.pid)) == 2 and found, "there are two")
        os.kill(pids[0], signal.SIGKILL)
        until(lambda: not is_alive(pids[0]), "one died")
        pids += until(lambda: [p for p in children(parent.pid) if p not in pids], "another took its place")
        until(lambda: loaded(urls[0]), "the new one has loaded")
        parent.send_signal(sent)
        assert parent.wait(patient(60)) == 0
        assert not [pid for pid in pids if is_alive(pid)]
        assert not workers.list_taken_ports((port, port + 1))
    finally:
        parent.kill()
        printed = parent.stdout.read()
        for pid in filter(is_alive, pids):
            os.kill(pid, signal.SIGKILL)
    assert workers.format_nginx((port, port + 1), "/frontier") in printed
    assert workers.format_caddy((port, port + 1), "/frontier") in printed
    assert re.search(rf"worker \d \(port \d+, process {pids[0]}\) ended with -9: it is started again", printed)
    assert "2 workers ended" in printed and "Traceback" not in printed, printed


@pytest.mark.deep
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_workers_whose_parent_is_killed_end_by_themselves(home):
    port = free_ports(2)
    parent = served(home, port, "--workers", "2")
    pids = until(lambda: len(found := children(parent.pid)) == 2 and found, "there are two")
    for p in (port, port + 1):
        until(lambda p=p: json_of(f"http://127.0.0.1:{p}/healthz"), "each answers")
    parent.kill()
    parent.wait()
    with closing(parent.stdout):
        until(lambda: not any(map(is_alive, pids)), "they ended")


def test_ports_that_are_taken_are_refused_by_name(home):
    port = free_ports(3)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the tests before may have had it
        other.bind(("127.0.0.1", port + 1))
        other.listen()
        assert workers.list_taken_ports(range(port, port + 3)) == [port + 1]
        refused = served(home, port, "--workers", "3")
        said = " ".join(refused.communicate(timeout=patient(60))[0].split())
    assert refused.returncode == 2
    assert f"port {port + 1} of {port} to {port + 2} is taken by another process" in said


def test_workers_beyond_the_last_port_are_refused(home):
    refused = served(home, 65535, "--workers", "2")
    assert "would end at 65536; the last is 65535" in refused.communicate(timeout=patient(60))[0]
    assert refused.returncode == 2


def test_a_worker_that_dies_at_once_waits_longer_each_time():
    said = []
    worker = workers.Worker(1, 1, ["--nosuch-flag"], {})
    worker.poll(said.append)
    for _ in range(2):
        before = len(said)
        worker.process.wait(patient(60))
        worker.poll(said.append)
        assert len(said) == before + 1 and worker.process is None
        until(lambda: worker.poll(said.append) or worker.process, "its pause is over")
    worker.close_input()
    worker.wait_or_kill(time.monotonic() + patient(60))
    assert [line[line.index("ended") :] for line in said] == [
        "ended with 2: it is started again in 1 s", "ended with 2: it is started again in 2 s"
    ]  # fmt: skip


def test_what_workers_share_is_a_secret_and_the_cores(monkeypatch):
    monkeypatch.delenv("FRONTIER_THREADS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    first, second = workers._worker_variables(4), workers._worker_variables(4)
    assert first["FRONTIER_THREADS"] == "2"
    assert first["STREAMLIT_SERVER_COOKIE_SECRET"] != second["STREAMLIT_SERVER_COOKIE_SECRET"]
    monkeypatch.setenv("FRONTIER_THREADS", "5")
    assert workers._worker_variables(4)["FRONTIER_THREADS"] == "5"


@pytest.mark.parametrize(
    ("base", "place", "path"), [("", "location / {", ""), ("/a/b", "location /a/b/ {", "reverse_proxy /a/b* ")]
)
def test_proxy_lines_name_every_port_the_cookie_and_the_path(base, place, path):
    nginx, caddy = workers.format_nginx((8501, 8502), base), workers.format_caddy((8501, 8502), base)
    assert re.findall(r"server 127\.0\.0\.1:(\d+);", nginx) == ["8501", "8502"]
    assert place in nginx and f"Path={base}/;" in nginx and "client_max_body_size 2048m;" in nginx
    assert "proxy_set_header Host $http_host;" in nginx and "proxy_set_header Upgrade $http_upgrade;" in nginx
    assert (
        "127.0.0.1:8501 127.0.0.1:8502" in caddy
        and f"lb_policy cookie {workers.WORKER_COOKIE}" in caddy
        and path in caddy
    )


@pytest.mark.skipif(NGINX is None, reason="needs an nginx")
@pytest.mark.parametrize("base", ["", "/frontier"])
def test_nginx_takes_its_lines_as_they_are_printed(base, tmp_path):
    config = tmp_path / "nginx.conf"
    lines = workers.format_nginx((8501, 8502), base)
    config.write_text(f"pid {tmp_path}/pid;\nevents {{}}\nhttp {{\naccess_log off;\n{lines}\n}}\n")
    tried = subprocess.run(
        [NGINX, "-t", "-p", str(tmp_path), "-e", "stderr", "-c", str(config)], capture_output=True, text=True
    )
    assert "syntax is ok" in tried.stderr, tried.stderr


def test_serve_passes_stores_on_to_its_workers():
    from dashboard.server import _format_corpus_flag

    assert _format_corpus_flag("store://pg/papers") == ("--store", "pg/papers")
    assert _format_corpus_flag("corpora/a.csv") == ("--corpus", "corpora/a.csv")
