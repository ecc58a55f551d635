"""`frontier answer` as a process: it serves the exported setting on this machine, and ends when told."""

import json
import re
import signal
import subprocess
import sys
import urllib.request

import engine
from engine.evaluation.export_decoder import ExportContext, export
from engine.integrations import connections
from support.cli import run
from support.fork_server import fork_python

MMR = engine.Decoder(engine.make("mmr", relevance_weight=0.4))
TABLE = "id,text\na,a red apple\nb,a green pear\nc,a fast car\nd,a slow train\n"


def setting_of(tmp_path, **use):
    path = tmp_path / "setting.json"
    path.write_text(export(MMR, "json", ExportContext(**use)).text, encoding="utf-8")
    return str(path)


def ask(address, body):
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{address}/answer", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def test_it_serves_the_exported_setting(tmp_path):
    corpus = tmp_path / "corpus.csv"
    corpus.write_text(TABLE, encoding="utf-8")
    setting = setting_of(tmp_path, corpus=str(corpus), k=2)
    process = fork_python("-m", "engine.cli", "answer", "--decoder", setting, "--port", "0")
    try:
        output = ""
        while not (match := re.search(r"http://127\.0\.0\.1:\d+", output)):
            line = process.stderr.readline()
            assert line, output
            output += line
        assert f"{MMR.label}: 4 documents, k = 2" in output
        with urllib.request.urlopen(f"{match[0]}/health", timeout=60) as reply:
            assert json.load(reply)["documents"] == 4
        answer = ask(match[0], {"queries": ["fast cars"]})["answers"][0]
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


def test_flags_take_the_place_of_what_was_exported(tmp_path, monkeypatch):
    corpus = tmp_path / "other.csv"
    corpus.write_text(TABLE, encoding="utf-8")
    calls = []

    def note(server):
        calls.append(server.config)
        server.started = True

    monkeypatch.setattr(connections.EndingServer, "run", note)
    output = run("answer", "--decoder", setting_of(tmp_path, corpus="nosuch"), "--corpus", str(corpus), "-k", "3")
    assert "4 documents, k = 3" in output
    run("answer", "--decoder", setting_of(tmp_path, corpus=str(corpus)), "--host", "0.0.0.0", "--port", "9000")
    assert [(config.host, config.port) for config in calls] == [("127.0.0.1", 8600), ("0.0.0.0", 9000)]


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
