"""frontier orag: simulate, replay, undo and report, on a few documents of the demo corpus."""

import json
import re
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import engine
from engine import orag
from engine.data.beir import write_beir
from engine.params import params_of
from engine.simulation.feedback_model import Stream
from engine.simulation.simulate import Plan
from support import cli
from support.fork_server import fork_python
from support.patience import patient
from support.sweeps import end_process

SHORT = ("--split", "dev", "--rounds", "40", "--checkpoints", "2", "--regret", "none")


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    """A BEIR folder: 50 queries of each split, and the documents that are relevant to one of them."""
    dataset = engine.load_dataset("numpy-api")
    qrels = {split: engine.Qrels(dict(list(dataset.qrels[split].grades.items())[:50])) for split in ("dev", "test")}
    relevant = {doc for split_qrels in qrels.values() for grades in split_qrels.grades.values() for doc in grades}
    rows = [row for row, doc in enumerate(dataset.corpus.ids) if doc in relevant]
    parts = (dataset.corpus.ids, dataset.corpus.texts, dataset.corpus.titles)
    corpus = engine.Corpus(*(tuple(part[row] for row in rows) for part in parts))
    queries = dataset.queries.only(query for split_qrels in qrels.values() for query in split_qrels.grades)
    run.corpus = str(write_beir(engine.Dataset(corpus, queries, qrels), tmp_path_factory.mktemp("few")))
    return run.corpus


def run(*args, fails=False):
    where = () if "--corpus" in args or args[-1] == "--help" else ("--corpus", run.corpus)
    return cli.run("orag", *args, *where, fails=fails)


@pytest.fixture(scope="module")
def log(tmp_path_factory, folder):
    """The log of a short simulation."""
    file = tmp_path_factory.mktemp("orag") / "feedback.jsonl"
    run("simulate", *SHORT, "--log", str(file))
    return str(file)


@pytest.fixture()
def log_copy(log, tmp_path):
    """A copy of it that a test may write to."""
    return str(shutil.copy(log, tmp_path / "own.jsonl"))


def test_simulate_prints_every_decoder_by_round():
    output = run("simulate", *SHORT, "--select", "top_k", "--select", "mmr:relevance_weight=0.5", "-k", "5")
    assert "40 rounds over 40 queries" in output and "Recall@5" in output
    assert "Top-k, 10 held-out queries:" in output and "MMR · λ 0.5, 10 held-out queries:" in output
    assert len(re.findall(r"^ +(?:0|20|40)  +[01]\.\d{4}", output, re.M)) == 6
    assert "Moved: half of the documents by at most 0." in output and "Moved most:" in output


def test_simulate_as_json_says_all_it_was_asked():
    result = json.loads(
        run("simulate", *SHORT, "--json", "--preset", "careful", "--flips", "0.25", "--cap", "none", "--seed", "7",
            "--order", "sorted", "--test", "test")
    )  # fmt: skip
    assert result["preset"]["rate"] == 0.01 and result["preset"]["cap"] is None and result["preset"]["seed"] == 7
    assert result["stream"] == {"order": "sorted", "rounds": 40, "flips": 0.25, "adversary": 0.0, "popularity": 0.0}
    assert [c["step"] for c in result["checkpoints"]] == [0, 20, 40] and result["rounds"] == 40
    held_out = [c for c in result["checkpoints"][0]["cells"] if c["part"] == "held-out" and c["group"] == "all"]
    assert [c["queries"] for c in held_out] == [50], "the split named with --test, in full"


def test_every_declared_parameter_has_a_flag():
    output = run("simulate", "--help")
    for kind in (orag.Preset, Stream, Plan):
        for param in params_of(kind):
            assert f"{param.flag} VALUE" in output, param.flag
    assert "--words VALUE" in output


def test_simulate_prints_regret_by_round():
    output = run("simulate", *SHORT)
    matches = re.findall(r"^ *(\d+) – (\d+) +([01]\.\d{4}) +([01]\.\d{4})$", output, re.M)
    assert [row[:2] for row in matches] == [("1", "20"), ("21", "40")]
    assert re.search(r"the right answer shown in \d+\.\d% of rounds; always showing the top one, \d+\.\d%\.", output)
    rows = json.loads(run("simulate", *SHORT, "--json"))["exploration"]
    assert [f"{row['drawn']:.4f}" for row in rows] == [row[2] for row in matches]


def test_simulate_with_a_reranker_and_documents_that_come_later():
    flags = ("--reranker", "judgements", "--candidates", "4", "--arrive", "30%@10", "--arrive", "0.2@20")
    output = run("simulate", *SHORT, *flags, "--newcomers", "printed")
    assert "the reranker's pick of the best" in output
    result = json.loads(run("simulate", *SHORT, *flags, "--json"))
    assert (result["reranker"], result["candidates"]) == ("judgements", 4)
    assert result["arrivals"] == [[0.3, 10], [0.2, 20]] and result["newcomers"] == "neighbours"
    scorer = json.loads(run("simulate", *SHORT, "--reranker", "bm25:k1=1.5", "--json"))
    assert scorer["reranker"].startswith("bm25(") and "k1=1.5" in scorer["reranker"]
    assert scorer["candidates"] == 10
    for wrong, message in (
        (("--candidates", "4"), "needs a reranker"),
        (("--reranker", "nobody"), "nobody"),
        (("--arrive", "half"), "--arrive takes SHARE@ROUND, 0.5@1000 or 50%@1000; got 'half'"),
        (("--arrive", "2@5"), "share must be a number in [0, 1]"),
        (("--newcomers", "warm"), "must be one of 'neighbours', 'printed'"),
        (("--updates", "0"), "updates must be a whole number"),
        (("--hops",), "has no plans"),
        (("--reranker", "cosine", "--log", "x.sqlite"), "no --reranker"),
    ):
        assert message in run("simulate", *SHORT, *wrong, fails=True), wrong


def test_updates_of_the_papers_preset_are_made():
    flags = ("--split", "dev", "--checkpoints", "1", "--regret", "none", "--preset", "paper", "--json")
    result = json.loads(run("simulate", *flags, "--updates", "12"))
    assert result["rounds"] == 120 and result["preset"]["exposure"] == 3


@pytest.fixture(scope="module")
def plan_folder(folder, tmp_path_factory):
    """The folder with a plan of two steps a question, each for a document of its own."""
    where = tmp_path_factory.mktemp("planned") / "set"
    shutil.copytree(folder, where)
    qrels = {}
    for split in ("dev", "test"):
        for line in (where / "qrels" / f"{split}.tsv").read_text().splitlines()[1:]:
            query, doc, _ = line.split("\t")
            qrels.setdefault(query, []).append(doc)
    lines = [json.loads(line) for line in (where / "queries.jsonl").read_text().splitlines()]
    for line in lines:
        tools = (qrels[line["_id"]] * 2)[:2]
        line["metadata"] = {"plan": [{"step": f"step {n}", "tool": tool} for n, tool in enumerate(tools)]}
    (where / "queries.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    return str(where)


@pytest.mark.deep
def test_simulate_takes_hops_from_the_plan(plan_folder):
    flags = ("simulate", "--corpus", plan_folder, "--split", "dev", "--checkpoints", "1", "--regret", "none", "--hops")
    output = run(*flags)
    assert "80 rounds over 80 queries" in output and "every hop shown in" in output


def test_search_tells_every_setting_and_the_second_half(plan_folder):
    flags = ("search", "--corpus", plan_folder, "--split", "dev", "--rates", "1e-5,0.01", "--batches", "5")
    output = run(*flags)
    assert len(re.findall(r"^ +(?:1e-05|1e-02) +5 +\d+ +0\.\d{4} +[+-]0\.\d{4}$", output, re.M)) == 2
    assert "Best on the first half, by held-out queries: η₀" in output and "On the second half, 20 rounds" in output
    result = json.loads(run(*flags, "--hops", "--updates", "4", "--json"))
    assert len(result["settings"]) == 2 and all(setting["updates"] == 4 for setting in result["settings"])
    assert set(result["second_half"]) == {"rounds", "held-out", "stream"}
    single = json.loads(run(*flags[:5], "--rate", "0.01", "--batch", "5", "--json"))
    assert [(s["rate"], s["batch"]) for s in single["settings"]] == [(0.01, 5)]
    assert "both say what is tried" in run(*flags, "--rate", "0.1", fails=True)
    assert "takes numbers with commas" in run(*flags[:5], "--rates", "fast", fails=True)


def test_simulate_regret_is_told():
    output = run("simulate", *SHORT, "--rounds", "12", "--checkpoints", "1", "--regret", "hindsight", "--held-out", "0")
    assert "Regret after 12 rounds, in nats a round:" in output and "against the best in hindsight" in output
    assert "steps are capped" in output


def test_short_descriptions_are_embedded_anew():
    full, cut = (json.loads(run("simulate", *SHORT, "--json", *flags)) for flags in ((), ("--words", "2")))
    first = [result["checkpoints"][0]["cells"][0]["mean"]["ndcg"] for result in (full, cut)]
    assert first[1] < first[0]


def test_simulate_log_replays_the_simulation(log, tmp_path):
    result = json.loads(run("simulate", *SHORT, "--json", "--export", str(tmp_path / "now.npy")))
    summary = json.loads(run("replay", log, "--json"))
    assert (
        summary["digest"] == result["digest"] and summary["records"] == summary["feedback"] == summary["counting"] == 40
    )
    assert run("replay", log, "--export", str(tmp_path / "again.npy")).count("written") == 1
    now, again = (np.load(tmp_path / name) for name in ("now.npy", "again.npy"))
    assert np.array_equal(now, again)
    begun = json.loads(run("replay", log, "--to", "0", "--json"))
    assert begun["moved"] == 0 and begun["feedback"] == 0
    assert "40 records: 40 votes, 40 of which count" in run("replay", log)


@pytest.mark.parametrize("is_export", [True, False])
def test_undo_takes_feedback_back_and_the_log_keeps_it(log_copy, folder, is_export):
    if not is_export:
        space = engine.Space(engine.load_dataset(folder).corpus, engine.embed(engine.load_dataset(folder).corpus))
        log_copy = str(orag.save(orag.load(log_copy, space)[0], Path(log_copy).with_suffix(".sqlite")))
    report = json.loads(run("replay", log_copy, "--json"))
    (newest, *_) = json.loads(run("report", log_copy, "--points", "1", "--events", "1", "--json"))["events"]
    summary = json.loads(run("undo", log_copy, newest["id"], "--json"))
    assert summary["undone"] == [newest["id"]] and summary["counting"] == 39 and summary["feedback"] == 40
    assert summary["moved"] == [newest["document"]] and summary["digest"] != report["digest"]
    assert summary["digest"] == json.loads(run("replay", log_copy, "--json"))["digest"]
    assert summary["digest"] == json.loads(run("replay", log_copy, "--to", "39", "--json"))["digest"], (
        "as if it had not been"
    )
    output = run("undo", log_copy, "--last", "39")
    assert "39 votes undone" in output
    start = engine.embed(engine.load_dataset(folder).corpus).digest
    assert json.loads(run("replay", log_copy, "--json"))["digest"] == start and start[:12] in output


def test_report_follows_drift_along_the_log(log):
    output = run("report", log, "--points", "4", "--query", "sort an array", "--events", "2", "--select", "top_k")
    for word in ("median", "churn", "hubs", "Moved most:", "sort an array · Top-k", "Newest votes:"):
        assert word in output, word
    assert len(re.findall(r"^ +(?:0|10|20|30|40)  .*green", output, re.M)) == 5
    assert len(re.findall(r"^  [0-9a-f]{16}  (?:more|less) like this: ", output, re.M)) == 2
    result = json.loads(run("report", log, "--points", "2", "--query", "sort an array", "-k", "3", "--json"))
    assert [d["step"] for d in result["drift"]] == [0, 20, 40] and result["drift"][0]["median"] == 0
    assert len(result["movers"]) == 10 and result["movers"][0]["text"]
    assert result["answers"][0]["query"] == "sort an array" and len(result["answers"][0]["now"]) == 3


def test_ctrl_c_keeps_what_was_done_and_the_same_command_goes_on(tmp_path, folder):
    file = tmp_path / "run.npz"
    command = ("simulate", "--split", "dev", "--checkpoints", "2", "--exposure", "200", "--file", str(file), "--json")
    code = "import sys; from engine.cli import main; main(sys.argv[1:], standalone_mode=True)"
    process = fork_python("-c", code, "orag", *command, "--corpus", folder)
    try:
        latest = time.monotonic() + 120
        while not file.exists() and process.poll() is None:  # written at round 0
            assert time.monotonic() < latest
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=patient(60))[1]
    finally:
        end_process(process)
    assert process.returncode == 130, output
    done = int(re.search(r"stopped after ([\d,]+) of 8,000 rounds", output)[1].replace(",", ""))
    assert 0 <= done < 8000 and "goes on from there" in output
    with np.load(file) as arrays:
        assert json.loads(str(arrays["said"]))["done"] == done


@pytest.mark.parametrize(
    "args,message",
    [
        (("simulate", "--preset", "bold"), "preset must be one of default, careful, paper"),
        (("simulate", "--rate", "-1"), "rate (η) must be a number in [0, 1]; got"),
        (("simulate", "--flips", "2"), "flips must be a number in [0, 1]; got"),
        (("simulate", "--words", "0"), "words must be a whole number in [1, ∞) or none (whole documents); got"),
        (("simulate", "--split", "nowhere"), "no split 'nowhere'; there are dev, test"),
        (
            ("simulate", *SHORT, "--mode", "full", "--log", "never.jsonl"),
            "--log and --export need feedback that moves the chosen document",
        ),
        (("replay", "nowhere.jsonl"), "no such log: 'nowhere.jsonl'"),
        (("undo", "nowhere.jsonl", "--last", "1"), "no such log: 'nowhere.jsonl'"),
        (("undo", "nowhere.jsonl"), "give events by their id, or --last N"),
    ],
)
def test_mistakes_are_named(args, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in run(*args, fails=True)
    assert not list(tmp_path.iterdir()), "nothing is written by a command that fails"


def test_a_log_that_is_there_is_not_written_over(log):
    content = Path(log).read_bytes()
    assert "exists; a simulation's log needs a file of its own" in run("simulate", *SHORT, "--log", log, fails=True)
    assert "event must be one of this session's 40" in run("undo", log, "beef", fails=True)
    assert "t must be a whole number in [0, 40]" in run("replay", log, "--to", "41", fails=True)
    assert "snapshot must be one that was taken" in run("replay", log, "--to", "then", fails=True)
    assert Path(log).read_bytes() == content


def test_a_file_that_cannot_be_exported_is_refused_before_the_run(tmp_path, monkeypatch):
    def never(*_, **__):
        raise AssertionError("it began to work")

    monkeypatch.setattr(engine, "load_dataset", never)
    for name in ("out.csv", "out"):
        output = run("simulate", *SHORT, "--export", str(tmp_path / name), fails=True)
        assert "--export must end in .npy, .npz, .parquet" in output
    assert not list(tmp_path.iterdir())


def test_a_snapshots_name_may_look_like_a_number(log_copy):
    space = engine.Space(engine.load_dataset(run.corpus).corpus, engine.embed(engine.load_dataset(run.corpus).corpus))
    log_copy = str(orag.save(orag.load(log_copy, space)[0], Path(log_copy).with_suffix(".sqlite")))
    opened = orag.log(log_copy, space)
    for name in ("3", "²"):
        opened.snapshot(name)
        assert json.loads(run("replay", log_copy, "--to", name, "--json"))["records"] == opened.session.position
    assert json.loads(run("replay", log_copy, "--to", "4", "--json"))["records"] == 4
    assert "snapshot must be one that was taken" in run("replay", log_copy, "--to", "³", fails=True)
