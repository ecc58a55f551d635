"""The command line, as a person types it."""

import json
import subprocess
import sys

import pytest

import engine
from dashboard.serve import main
from support.cli import run
from support.datafiles import beir
from support.draws import deepen
from support.patience import patient
from support.processes import environment


def test_decode_answers_a_query_as_the_engine_does(demo, monkeypatch):
    monkeypatch.setattr("engine.cli.decode.TIMING_SECONDS", patient(60))
    dataset, space = demo
    text = "sort an array along an axis"
    answer = json.loads(
        run("decode", "--query", text, "--select", "mmr", "--relevance-weight", "0.6", "-k", "4", "--json")
    )
    decoder = engine.Decoder(select=engine.make("mmr", relevance_weight=0.6))
    expected = engine.decode(decoder, space, [text], k=4)
    assert [d["id"] for d in answer["results"][0]["documents"]] == [dataset.corpus.ids[i] for i in expected.index[0]]
    assert answer["decoder"] == decoder.label and answer["documents"] == len(dataset.corpus)
    assert 0 < answer["mean"]["ilad"] < 1 and answer["milliseconds"] > 0 and 1 <= answer["calls"] <= 5


def test_decode_measures_a_split():
    answer = json.loads(run("decode", "--split", "dev", "--json"))
    assert answer["queries"] == len(engine.load_dataset("numpy-api").judged("dev")) == len(answer["results"])
    assert 0.4 <= answer["mean"]["recall"] <= 0.85


def test_a_labelled_query_by_id(demo):
    queries = demo[0].queries
    output = run("decode", "--query-id", queries.ids[0], "-k", "3")
    assert queries.texts[0][:40] in output and "Recall@3" in output


def test_a_typed_query_is_not_judged_as_the_one_that_has_its_number(tmp_path):
    judged = {"queries": [{"_id": "0", "text": "query 0"}], "qrels__dev": "0\td1\t1\n"}
    command = ("decode", "--corpus", str(beir(tmp_path / "set", **judged)), "-k", "2")
    assert "Recall@2" in run(*command, "--query-id", "0") and "Recall@2" not in run(*command, "--query", "text 3")


def test_a_trace_has_what_each_pick_is_relevant_and_near_to(demo):
    lines = run("decode", "--query", "sort an array", "--select", "mmr", "-k", "3", "--trace").splitlines()
    titles = ["#", "score", "relevance", "cosine", "nearest", "chosen"]
    start = next(index for index, line in enumerate(lines) if line.split() == titles)
    space = demo[1]
    answer = engine.decode(engine.Decoder(select=engine.make("mmr")), space, ["sort an array"], k=3)
    picks = engine.trace(answer, space, ["sort an array"]).rows(0)
    for pick, line in zip(picks, lines[start + 1 :], strict=False):
        rank, score, relevance, cosine, similarity = line.split()[:5]
        assert cosine == f"{pick['cosine']:.4f}" == relevance, "behind dense both are one"
        assert (rank, score, relevance) == (str(pick["rank"]), f"{pick['score']:.4f}", f"{pick['relevance']:.4f}")
        assert similarity == ("–" if pick["nearest"] is None else f"{pick['similarity']:.4f}")
    assert len(picks) == 3


def test_a_beir_folder_and_a_table(tmp_path):
    table = tmp_path / "things.csv"
    table.write_text("id,text\n007,a red apple\n1e5,a green pear\nNA,a fast car\n", encoding="utf-8")
    answer = json.loads(run("decode", "--corpus", str(table), "--query", "fruit", "-k", "3", "--json"))
    result = [d["id"] for d in answer["results"][0]["documents"]]
    assert set(result) == {"007", "1e5", "NA"} and result[-1] == "NA"


def test_control_characters_and_lone_surrogates_do_not_reach_the_terminal(tmp_path):
    file = tmp_path / "odd.jsonl"
    file.write_bytes(b'{"_id": "a\\u001b[31m", "text": "hello \\ud83d world"}\n')
    output = run("decode", "--corpus", str(file), "--query", "hello", "-k", "1")
    assert "\x1b[31m" not in output and "a\\x1b[31m" in output and "hello \\ud83d world" in output
    run("decode", "--corpus", str(file), "--query", "hello", "--json")


def test_embed_prints_a_summary():
    output = run("embed")
    assert "384 dimensions" in output and "fingerprint" in output


def test_methods_lists_the_registry():
    output = run("methods")
    assert [row["name"] for row in json.loads(run("methods", "--json"))] == list(engine.methods())
    for spec in engine.methods().values():
        assert f"`{spec.name}`" in output and all(p.name in output for p in spec.params)


def test_flags_come_from_the_declarations():
    help_ = run("decode", "--help")
    for spec in engine.methods("selector").values():
        for param in spec.params:
            assert param.flag in help_ and param.symbol in help_


@pytest.mark.parametrize(
    "args,message",
    [
        (
            ["--query", "x", "--select", "mmr", "--relevance-weight", "2"],
            "relevance_weight (λ) must be a number in [0, 1]",
        ),
        (["--query", "x", "--select", "mmr", "--relevance-weight", "high"], "got 'high'"),
        (["--query", "x", "--relevance-weight", "0.5"], "--relevance-weight is of mmr, dpp"),
        (["--query", " "], "--query is empty"),
        (["--query", "x", "--select", "nosuch"], "nosuch"),
        (["--query", "x", "-k", "0"], "k must be a whole number in [1"),
        (["--query", "x", "--depth", "0"], "depth (n) must be a whole number in [1"),
        (["--query", "x", "--split", "dev"], "give one of --query, --query-id or --split"),
        ([], "give one of --query, --query-id or --split"),
        (["--split", "nosuch"], "no split 'nosuch'; there are dev, test"),
        (["--query-id", "nosuch"], "no query 'nosuch'"),
        (["--corpus", "nosuch/folder", "--query", "x"], "nosuch/folder"),
        (["--query", "x", "--encoder", "./nosuch"], "./nosuch"),
    ],
)
def test_mistakes_are_explained_without_a_traceback(args, message):
    output = run("decode", *args, fails=True)
    assert message in " ".join(output.split()) and "Traceback" not in output, output


def test_no_command_starts_the_server(monkeypatch):
    seen = {}
    monkeypatch.setattr(main.commands["serve"], "callback", lambda **given: seen.update(given))
    run()
    assert seen["port"] is None and seen["browser"] is True
    run("--port", "8599", "--corpus", "python-api")
    assert seen["port"] == 8599 and seen["corpus"] == ("python-api",)
    run("--corpus", "python-api", "--corpus", "numpy-api", "--workers", "3", "--base-path", "frontier//api/")
    assert seen["corpus"] == ("python-api", "numpy-api") and seen["count"] == 3 and seen["base"] == "/frontier/api"
    assert "decode" in run("-h") and "serve" in run("--help") and "0." in run("--version")


@pytest.mark.parametrize("flags", [(), ("--corpus", "numpy-api")])
def test_serve_refuses_a_corpus_that_is_not_there(flags):
    output = run("serve", *flags, "--corpus", "nosuch.csv", fails=True)
    assert "no such file or folder: 'nosuch.csv'" in output


@pytest.mark.parametrize("path", ["/a b", "/a/../b", "/{x}", "/a;", "/.", "/ü", 'a"'])
def test_serve_refuses_a_base_path_that_no_address_could_have(path):
    assert "cannot be part of it" in run("serve", "--base-path", path, fails=True)


@pytest.mark.deep
def test_the_engine_has_its_own_entry():
    command = [sys.executable, "-m", "engine.cli", "methods"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0 and "`mmr`" in done.stdout


@pytest.mark.threat("judgements of other documents, on the command line", "an error and its code, never a Recall of 0")
def test_judgements_of_other_documents_are_refused(tmp_path):
    lines = {"qrels__test": "q0\tx\t1\n", "qrels__dev": "q0\td0\t1\nq0\tx\t1\n"}
    flags = ("--corpus", str(beir(tmp_path / "set", **lines)), "-k", "2")
    for command in ("decode", "sweep", "tune --select mmr --halve --dev test", "orag simulate --split test"):
        split = () if "test" in command else ("--split", "test")
        output = run(*command.split(), *flags, *split, fails=True)
        assert "qrels/test.tsv: 100% of what it calls relevant (1 of 1; first: 'x')" in " ".join(output.split())
    printed = run("decode", *flags, "--split", "dev")
    assert "Recall@2" in printed and "note: 1 document judged in qrels/dev.tsv is not in the corpus" in printed


@pytest.mark.parametrize("number", ["²", "0", "-1", "abc", "9999"])
def test_what_is_no_number_of_threads_is_refused(monkeypatch, number):
    monkeypatch.setenv("FRONTIER_THREADS", number)
    output = run("decode", "--query", "sort", "-k", "1", fails=True)
    assert f"FRONTIER_THREADS must be a whole number in [1, 4096]; got {number!r}" in output


@pytest.mark.parametrize("flags", deepen([["tune", "--help"], ["methods", "--json"]], [["methods", "--json"]]))
def test_output_without_greek_letters_is_printed_with_escapes(flags):
    command = [sys.executable, "-m", "engine.cli", *flags]
    result = subprocess.run(command, env=environment(PYTHONIOENCODING="latin-1"), capture_output=True, check=False)
    assert result.returncode == 0, result.stderr
    whole = subprocess.run(command, env=environment(PYTHONIOENCODING="utf-8"), capture_output=True, check=True)
    printed, expected = result.stdout.decode("latin-1"), whole.stdout.decode()
    assert "\\u" in printed
    assert printed == expected.encode("latin-1", "backslashreplace").decode("latin-1")
