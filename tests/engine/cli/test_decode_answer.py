"""`frontier answer` as a process: it serves the exported setting on this machine, and ends when told."""

import json
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from contextlib import suppress

import pytest

import engine
from engine.evaluation.export_decoder import ExportContext, export
from support.cli import run
from support.fork_server import fork_python
from support.patience import patient

MMR = engine.Decoder(engine.make("mmr", relevance_weight=0.4))
TABLE = "id,text\na,a red apple\nb,a green pear\nc,a fast car\nd,a slow train\n"


def setting_of(tmp_path, **use):
    path = tmp_path / "setting.json"
    path.write_text(export(MMR, "json", ExportContext(**use)).text, encoding="utf-8")
    return str(path)


BUSY = """
import sys, threading
from engine.cli import main
from engine.integrations import end_by_signal, server

def compute(self, request):
    with self._turn:
        print("working", flush=True)
        threading.Event().wait()

server.Service.answer = compute
end_by_signal.EndBySignal.__init__.__defaults__ = (0.5,)
main(["answer", "--decoder", sys.argv[1], "--port", "0"])
"""


def ask(address, body):
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{address}/answer", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def wait_for_address(process):
    """Return the address that a service has printed, and all that it has said until then."""
    output = ""
    while not (match := re.search(r"http://127\.0\.0\.1:\d+", output)):
        line = process.stderr.readline()
        assert line, output
        output += line
    return match[0], output


def test_it_serves_the_exported_setting(tmp_path):
    corpus = tmp_path / "corpus.csv"
    corpus.write_text(TABLE, encoding="utf-8")
    setting = setting_of(tmp_path, corpus=str(corpus), k=2)
    process = fork_python("-m", "engine.cli", "answer", "--decoder", setting, "--port", "0")
    try:
        address, output = wait_for_address(process)
        assert f"{MMR.label}: 4 documents, k = 2" in output
        with urllib.request.urlopen(f"{address}/health", timeout=60) as reply:
            assert json.load(reply)["documents"] == 4
        answer = ask(address, {"queries": ["fast cars"]})["answers"][0]
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    data = engine.load_dataset(str(corpus))
    space = engine.Space(data.corpus, engine.embed(data.corpus))
    assert answer["ids"] == [data.corpus.ids[row] for row in engine.decode(MMR, space, ["fast cars"], k=2).rows()]


@pytest.mark.threat(
    "Ctrl-C while `frontier answer` computes what nobody can wait for",
    "it says how long it waits, and ends by force five seconds later; the server's library would wait without end",
)
def test_it_ends_soon_after_a_signal_whatever_it_computes(tmp_path):
    corpus = tmp_path / "corpus.csv"
    corpus.write_text(TABLE, encoding="utf-8")
    process = fork_python("-c", BUSY, setting_of(tmp_path, corpus=str(corpus), k=2))
    try:
        address, _ = wait_for_address(process)
        threading.Thread(target=ask_until_it_ends, args=(address,), daemon=True).start()
        assert process.stdout.readline() == "working\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=patient(30))
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGINT
    assert "Stopping. What is being computed has" in said and "Ended by force: something was still being" in said


def ask_until_it_ends(address):
    with suppress(OSError):
        ask(address, {"queries": ["cars"]})


def test_flags_take_the_place_of_what_was_exported(tmp_path, monkeypatch):
    corpus = tmp_path / "other.csv"
    corpus.write_text(TABLE, encoding="utf-8")
    calls = []
    monkeypatch.setattr("uvicorn.run", lambda app, **options: calls.append(options))
    output = run("answer", "--decoder", setting_of(tmp_path, corpus="nosuch"), "--corpus", str(corpus), "-k", "3")
    assert "4 documents, k = 3" in output
    run("answer", "--decoder", setting_of(tmp_path, corpus=str(corpus)), "--host", "0.0.0.0", "--port", "9000")
    assert [(o["host"], o["port"]) for o in calls] == [("127.0.0.1", 8600), ("0.0.0.0", 9000)]


def test_bad_setting_is_refused_before_embedding(tmp_path):
    for content, why in (
        ("{", "holds no decoder"),
        ('{"k": 3}', "holds no decoder"),
        ('{"decoder": {"select": {"name": "mmr", "relevance_weight": 7}, "retrieve": {"name": "dense"}, '
         '"rerank": null, "depth": null}}', "relevance_weight"),
    ):  # fmt: skip
        (tmp_path / "bad.json").write_text(content, encoding="utf-8")
        assert why in run("answer", "--decoder", str(tmp_path / "bad.json"), fails=True)
    assert "cannot be read" in run("answer", "--decoder", str(tmp_path / "none.json"), fails=True)


def test_without_a_server_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "pip install starlette uvicorn" in run("answer", "--decoder", "any", fails=True)
