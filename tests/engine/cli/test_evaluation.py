"""sweep, compare, tune and report from the command line, on the demo: what is finished is kept and said."""

import json
import re
import shlex
import shutil
from datetime import date

import pytest

import engine
from engine.evaluation.runs import decode_runs
from engine.evaluation.sweep.store import Store
from support.cli import run
from support.demo import demo_counts
from support.sweeps import without_times


def test_a_second_sweep_computes_nothing_and_says_the_same(store, monkeypatch):
    monkeypatch.setattr("engine.evaluation.sweep.executors.compute_unit", None)
    again = run("sweep", "--select", "mmr", "-k", "5", "--points", "3", "--store", store, "--json")
    cells = [json.loads(line) for line in again.splitlines()]
    assert [c["decoder"]["select"]["relevance_weight"] for c in cells] == [0, 0.5, 1]
    assert all(c["k"] == 5 and c["queries"] == demo_counts()["test"] and 0 < c["mean"]["recall"] < 1 for c in cells)


def test_every_value_is_swept_where_there_is_a_path(tmp_path):
    command = ("sweep", "--values", "all", "--select", "mmr", "--select", "max_sum", "-k", "5", "--metric", "recall")
    output = run(*command, "--points", "2", "--store", str(tmp_path / "sweep.db"))
    assert re.search(r"mmr\(window=none\) +λ +5 +[\d,]{3,} +recall +0\.\d{4} +0\.\d{4} +[01]\.\d{4}", output)
    assert "2 cells of" in output and "max_sum(relevance_weight=1.0" in output
    lines = run(*command, "--points", "2", "--store", str(tmp_path / "sweep.db"), "--json").splitlines()
    curve, *cells = [json.loads(line) for line in lines]
    assert len(cells) == 2 and len(curve["means"]["recall"]) == len(curve["breakpoints"]) + 1 > 100
    assert "leave out bm25" in run("sweep", "--values", "all", "--retrieve", "bm25", fails=True)


def test_compare_prints_front_table_and_sentences(store, tmp_path):
    output = run("compare", store, "-k", "5")
    assert f"Not dominated in ilad@5 and recall@5, over {demo_counts()['test']} queries" in output
    assert "Hypervolume" in output
    assert re.search(r"10 settings vs Top-k, Recall@5: \d+ better · \d+ no significant difference · \d+ worse", output)
    files = [str(tmp_path / f"table.{kind}") for kind in ("md", "tex", "csv", "parquet")]
    run("compare", store, *[word for file in files for word in ("--out", file)])
    assert all((tmp_path / f"table.{kind}").stat().st_size > 500 for kind in ("md", "tex", "csv", "parquet"))
    result = json.loads(run("compare", store, "--json"))
    assert (result["k"], result["baseline"]) == (5, "top_k")
    assert result["front"][0]["recall"] > result["front"][-1]["recall"]
    assert {"mmr(relevance_weight=1.0)"} <= {row["name"] for row in result["front"]}
    for baseline in ("MMR · λ 1", "mmr(relevance_weight=1.0)"):
        named = json.loads(run("compare", store, "--baseline", baseline, "--json"))
        assert named["baseline"] == "mmr(relevance_weight=1.0)"


def test_a_run_of_another_system_stands_beside_the_sweep(store, tmp_path):
    """The lists of a decoder that was swept, as a file: its values are that decoder's."""
    dataset = engine.load_dataset("numpy-api")
    space = engine.Space(dataset.corpus, engine.embed(dataset.corpus))
    queries = engine.embed_queries(space, dataset.judged("test"))
    (listed,) = decode_runs([engine.Decoder(engine.make("top_k"))], space, queries, 5)
    rows = [(q, doc, rank) for q, docs in listed.documents.items() for rank, doc in enumerate(docs, 1)]
    run_file, same = tmp_path / "lucene.trec", tmp_path / "same.jsonl"
    run_file.write_text(
        "".join(f"{q} Q0 {doc} {rank} {-rank} lucene\n" for q, doc, rank in [*rows, ("q0", "no.doc", 9)])
    )
    same.write_text("".join(json.dumps({"query": q, "document": doc, "rank": rank}) + "\n" for q, doc, rank in rows))
    flags = ("--run", str(run_file), "--run", str(same), "--corpus", "numpy-api")
    output = run("compare", store, "-k", "5", *flags)
    assert re.search(r"12 settings vs Top-k, Recall@5", output)
    assert re.search(
        r"note: 1 documents of lucene.trec are not in the corpus, and are left out \(first: 'no.doc'\)", output
    )
    table = {line.split("  ")[0]: line.split()[-4:] for line in output.splitlines() if "  " in line}
    assert table["run lucene"] == table["run same"] == table["Top-k"]
    run("compare", store, "-k", "5", *flags, "--out", str(tmp_path / "cells.csv"))
    assert "run lucene" in (tmp_path / "cells.csv").read_text()
    run("report", store, "-k", "5", *flags, "--out", str(tmp_path / "report.html"))
    page = (tmp_path / "report.html").read_text()
    assert re.search(r"<td>run lucene</td><td[^>]*>0\.\d{4}", page) and '"customdata":["run lucene"]' in page
    assert "--run needs --corpus" in run("compare", store, "--run", str(run_file), fails=True)
    twice = ("--run", str(run_file), "--run", str(run_file), "--corpus", "numpy-api")
    assert "two runs are called 'lucene'" in run("compare", store, *twice, fails=True)


def test_tune_chooses_among_all_decoders(tmp_path):
    command = ("tune", "--select", "all", "--retrieve", "dense,bm25", "-k", "5", "--points", "2", "--share", "0.9")
    command += ("--store", str(tmp_path / "tune.db"))
    output = run(*command, "--export", "python")
    assert "for maximum ILAD with Recall ≥ 90% of the baseline's, on dev." in output
    assert re.search(r"^(Confirmed|Not confirmed) on test\.$", output, re.M) and "engine.Decoder(" in output
    (command_line,) = re.findall(r"^With charts: frontier (.+)$", output, re.M)
    assert "cells" in run(*shlex.split(command_line), "--out", str(tmp_path / "report.html"))
    assert "of test · k = 5" in (tmp_path / "report.html").read_text(encoding="utf-8")
    result = json.loads(run(*command, "--json"))
    names = [(c["decoder"]["retrieve"]["name"], c["decoder"]["select"]["name"]) for c in result["candidates"]]
    selectors = list(engine.methods("selector"))
    assert names[-1] == ("dense", "top_k") and names[0] == (
        result["decoder"]["retrieve"]["name"], result["decoder"]["select"]["name"]
    )  # fmt: skip
    assert sorted(names[:-1]) == sorted((s, d) for s in ("dense", "bm25") for d in selectors if (s, d) != names[-1])
    assert {row["comparisons"] for row in result["comparisons"]} == {len(names) - 1}
    head, study = run("tune", "--history", *command[-2:]).splitlines()
    assert head.startswith("Finished (UTC)") and "every decoder" in study and study.endswith("on test")
    assert json.loads(run("tune", "--history", *command[-2:], "--json"))["decoder"] == result["decoder"]
    missing = run("tune", "--history", "--store", str(tmp_path / "none.db"), fails=True)
    assert "--store names the file of earlier studies" in missing and not (tmp_path / "none.db").exists()


def test_the_table_is_in_the_json_as_it_is_printed(store):
    table = json.loads(run("compare", store, "-k", "5", "--metric", "recall", "--metric", "ilad", "--json"))["table"]
    printed = [line for line in run("compare", store, "-k", "5", "--metric", "recall", "--metric", "ilad").splitlines()]
    first = next(i for i, line in enumerate(printed) if line.startswith("Setting")) + 1
    assert len(table["rows"]) == 11 and table["rows"][0]["name"] == "top_k" and "Holm" in table["caption"]
    for row, line in zip(table["rows"], printed[first:], strict=False):
        means, signs = row["mean"], row["significant"]
        assert f"{means['recall']:.4f}" in line and means.keys() == signs.keys() == {"recall", "ilad"}
        assert ("↓" in line or "↑" in line) == any(signs.values()), line
        assert row["decoder"]["select"]["name"] == row["name"].partition("(")[0]


def test_sweep_and_compare_print_the_same_means(tmp_path):
    path = str(tmp_path / "sweep.db")
    flags = ("--select", "top_k", "--select", "mmr", "--select", "nnn:l1=0.3,l2=0.1,fill=strict", "--points", "2")
    swept = run("sweep", *flags, "-k", "5", "--metric", "ilad", "--metric", "recall", "--store", path)
    compared = run("compare", path, "--metric", "ilad", "--metric", "recall")
    cells = {line.split("  ")[0]: re.findall(r"\d\.\d{4}", line) for line in swept.splitlines() if "→" in line}
    rows = [
        re.findall(r"\d\.\d{4}", line)
        for line in compared.splitlines()
        if re.match(r"(Top-k|MMR|NNN).*\d$", line.strip(" ↑↓"))
    ]
    assert len(cells) == 4 and sorted(cells.values()) == sorted(rows)
    (remark,) = re.findall(r"ILAD@5: over (\d+) of (\d+) queries", swept)
    assert 0 < int(remark[0]) < int(remark[1]) == demo_counts()["test"]
    assert f"ILAD {remark[0]}, Recall {remark[1]}" in compared


def test_time_is_an_axis_and_what_has_none_shows_none(store, tmp_path):
    by_time, swept = ("-k", "5", "--x", "milliseconds"), ("sweep", "--select", "mmr", "-k", "5", "--points", "3")
    output = run("compare", store, *by_time)
    assert "Not dominated in milliseconds@5 and recall@5" in output and "no time" not in output
    assert not re.search("–$", run(*swept, "--store", store), re.M)
    old = str(shutil.copy(store, tmp_path / "old.db"))
    without_times(Store(old), lambda cell: cell.method == "mmr")
    assert re.search(r"settings have no time and were left out", run("compare", old, *by_time))
    assert json.loads(run("compare", old, *by_time, "--json"))["untimed"] > 0
    assert len(re.findall("–$", run(*swept, "--store", old), re.M)) == 3
    cells = [json.loads(line) for line in run(*swept, "--store", old, "--json").splitlines()]
    assert [c["milliseconds"] for c in cells] == [None] * 3
    run("report", old, *by_time, "--out", str(tmp_path / "report.html"))
    assert "milliseconds a query" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_report_is_one_file_with_its_charts(store, tmp_path):
    file = tmp_path / "report.html"
    assert "22 cells" in run("report", store, "--out", str(file))
    html = file.read_text(encoding="utf-8")
    assert "Plotly.newPlot" in html and "Recall@5" in html and "All settings" in html
    visible = re.sub(r"<[^>]+>", " ", html[html.index("<body>") : html.index("<script")])
    counts = f"{demo_counts()['test']} queries of test · k = 5 · 22 cells · {date.today().isoformat()}"
    assert "numpy-api" in visible and counts in visible and "bundled, " in visible
    assert re.search(r"of Top-k's Recall|than Top-k", visible), "the verdict"
    outside = re.sub(r"<script[^>]*>.*?</script>", "", html, flags=re.S)
    assert "http" not in outside and "<script src" not in html, "the report must draw without a network"
    for point in Store(store).read_cells():
        assert point.provenance["embeddings"] in html


def test_tune_chooses_on_dev_and_reports_on_test(tmp_path):
    path = str(tmp_path / "tune.db")
    command = ("tune", "--select", "mmr", "--metric", "recall", "-k", "5", "--points", "3", "--store", path)
    output = run(*command, "--export", "command")
    assert f"for maximum Recall, on dev ({demo_counts()['dev']} queries)" in output and "On test" in output
    assert "frontier decode" in output and "--relevance-weight" in output
    judged = demo_counts()["dev"] + demo_counts()["test"]
    assert f"candidates: measured on {judged} queries, of which" in run(*command, "--export", "haystack")
    result = json.loads(run(*command, "--json"))
    assert result["k"] == 5 and len(result["settings"]) == 4 and result["comparisons"] and len(result["interval"]) == 2


def test_tune_takes_a_scorer(tmp_path):
    command = ("--retrieve", "hybrid", "--metric", "ndcg", "-k", "5", "--points", "3")
    output = run("tune", *command, "--store", str(tmp_path / "tune.db"))
    assert "for maximum nDCG" in output and output.startswith("Hybrid · λ ") and "On test" in output


@pytest.mark.parametrize(
    "args,message",
    [
        (("tune",), "one of --select (a selector, or all) and --retrieve (a scorer)"),
        (("tune", "--retrieve", "mmr"), "no scorer is called 'mmr'"),
        (("compare", "nowhere.db"), "no such store"),
        (("report", "nowhere.db"), "no such store"),
        (("sweep", "--select", "nobody"), "no selector is called 'nobody'"),
        (("sweep", "--select", "mmr:relevance_weight"), "--select takes NAME or NAME:PARAMETER=VALUE"),
        (("sweep", "--select", "mmr:relevance_weight=2"), "relevance_weight (λ) must be a number in [0, 1]"),
        (("sweep", "--split", "nothing"), "no split 'nothing'"),
        (("depths",), "Missing option '--rerank'"),
        (("depths", "--rerank", "nobody"), "no scorer is called 'nobody'"),
        (("depths", "--rerank", "bm25", "--depth", "0"), "depth (n) must be a whole number in [1"),
        (("depths", "--rerank", "bm25", "--depth", "5"), "depths must be whole numbers in [10"),
        (("tune", "--select", "mmr", "--dev", "nothing"), "no split 'nothing'"),
        (("tune", "--select", "mmr:window"), "--select takes NAME or NAME:PARAMETER=VALUE"),
    ],
)
def test_mistakes_are_named(args, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in run(*args, fails=True)


@pytest.mark.parametrize(
    "args,message",
    [
        (("--objective", "luck"), "--objective must be one of 'maximise', 'diverse', 'knee'; got 'luck'"),
        (("--metric", "luck"), "--metric must be one of 'recall', "),
        (("--share", "7"), "--share must be a number in [0, 1]; got 7"),
        (("--export", "word"), "--export must be one of python, json"),
    ],
)
def test_tune_refuses_by_the_flags_name_before_anything_is_read(args, message, monkeypatch):
    monkeypatch.setattr("engine.load_dataset", None)
    assert message in run("tune", "--select", "mmr", *args, fails=True)


@pytest.mark.parametrize(
    "args,message",
    [
        (("-k", "7"), "has no cells at k = 7; it has 3, 5"),
        (("--split", "dev"), "holds no cells of split 'dev'"),
        (("--out", "table.doc"), "--out takes .md, .tex, .csv or .parquet"),
        (
            ("--by", "colour", "--corpus", "numpy-api"),
            "--by must be one of relevant, length, words, aspects, correlation, or a col",
        ),
        (("--by", "length"), "--by needs --corpus"),
        (("--by", "aspects", "--corpus", "numpy-api"), "no query has aspects; there are relevant, length, words"),
    ],
)
def test_compare_of_missing_cells_raises_error(store, args, message):
    assert message in run("compare", store, *args, fails=True)


def test_wins_of_every_setting_against_a_baseline(store):
    """The VRSD paper's Table 1: win rate, the largest difference, means of cos(sum, query)."""
    command = ("compare", store, "-k", "5", "--y", "cos_sum", "--baseline", "top_k", "--wins")
    rows = json.loads(run(*command, "--json"))["wins"]
    output = run(*command)
    assert "cos(sum, query)@5 against Top-k, query by query:" in output
    for row in rows:
        wins = row["wins"]
        assert sum(wins.values()) == row["queries"] and row["least"] <= row["difference"] <= row["most"]
        (line,) = [line for line in output.splitlines() if line.startswith(f"{row['name']}  ") and "%" in line]
        assert f"{wins['win'] / row['queries']:.1%}" in line and f"{max(0, row['most']):.4f}" in line
    assert "wins" not in json.loads(run("compare", store, "-k", "5", "--json"))


def test_what_a_setting_for_every_query_could_gain(store):
    command = ("compare", store, "-k", "5", "--y", "comp", "--oracle")
    rows = json.loads(run(*command, "--json"))["oracle"]
    assert [(row["method"], row["settings"]) for row in rows] == [("top_k", 1), ("mmr", 3), ("nnn", 7)]
    output = run(*command)
    for row in rows:
        assert row["oracle"] >= row["mean"] and f"{row['oracle']:.4f}" in output
    assert "Comp@5 of each method's settings:" in output
