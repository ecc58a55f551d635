"""sweep, compare, tune and report from the command line, on the demo: what is finished is kept and said."""

import json
import re
import shlex
import shutil
from dataclasses import replace
from datetime import date

import numpy as np
import pytest

import engine
from dashboard.charts.html import escape_html
from dashboard.report import build_page
from engine.cli.finished_sweep import FinishedSweep
from engine.evaluation.decide import estimate_on_axes
from engine.evaluation.frontier import frontier
from engine.evaluation.runs import decode_runs
from engine.evaluation.sweep.store import Store
from support.cli import run
from support.demo import demo_counts
from support.points import cell
from support.sweeps import without_times


@pytest.mark.deep
def test_a_second_sweep_computes_nothing_and_says_the_same(store, monkeypatch):
    monkeypatch.setattr("engine.evaluation.sweep.executors.compute_unit", None)
    again = run("sweep", "--select", "mmr", "-k", "5", "--points", "3", "--store", store, "--json")
    cells = [json.loads(line) for line in again.splitlines()]
    assert [c["decoder"]["select"]["relevance_weight"] for c in cells] == [0, 0.5, 1]
    assert all(c["k"] == 5 and c["queries"] == demo_counts()["test"] and 0 < c["mean"]["recall"] < 1 for c in cells)


def test_every_value_is_swept_where_there_is_a_path(tmp_path):
    command = ("sweep", "--values", "all", "--select", "mmr", "--select", "max_sum", "-k", "5", "--metric", "recall")
    output = run(*command, "--points", "2", "--store", str(tmp_path / "sweep.db"))
    assert re.search(r"mmr +λ +5 +[\d,]{3,} +recall +0\.\d{4} +0\.\d{4} +[01]\.\d{4}", output)
    assert "2 cells of" in output and "max_sum(relevance_weight=1.0" in output
    lines = run(*command, "--points", "2", "--store", str(tmp_path / "sweep.db"), "--json").splitlines()
    curve, *cells = [json.loads(line) for line in lines]
    assert len(cells) == 2 and len(curve["means"]["recall"]) == len(curve["breakpoints"]) + 1 > 100
    assert "leave out bm25" in run("sweep", "--values", "all", "--retrieve", "bm25", fails=True)


@pytest.mark.deep
def test_sweep_of_a_grid_stores_exact_curves_and_prints_none(store, tmp_path):
    curves = list(Store(store).read_curves())
    assert [(curve.method, curve.k, curve.split) for curve in curves] == [("mmr", 3, "test"), ("mmr", 5, "test")]
    assert {len(curve.means) for curve in curves} == {len(next(Store(store).read_cells()).values)}
    path = str(tmp_path / "sweep.db")
    flags = ("-k", "5", "--points", "2", "--metric", "recall", "--store", path)
    assert "every value" not in run("sweep", "--select", "top_k", "--select", "dpp", *flags)
    for other in (
        ("--select", "mmr:relevance_weight=0.5"),
        ("--select", "mmr", "--retrieve", "bm25"),
        ("--depth", "9"),
    ):
        run("sweep", "--select", "top_k", *other, *flags)
    assert [curve.method for curve in Store(path).read_curves()] == ["dpp"]


def test_curves_of_other_data_do_not_belong_to_a_sweep(store, tmp_path):
    swept = FinishedSweep(store=store, split=None, k=5, across="ilad", up="recall", baseline=None, by=None, corpus=None)
    cells, k = swept.load_cells()
    (curve,) = swept.load_curves(cells, k)
    assert (curve.method, curve.k, curve.queries) == ("mmr", 5, cells[0].queries)
    assert [each.k for each in swept.load_curves(cells, 3)] == [3]
    assert replace(swept, up="holes").load_curves(cells, k) == []
    assert replace(swept, across="milliseconds").load_curves(cells, k)[0].key == curve.key
    other = str(shutil.copy(store, tmp_path / "other.db"))
    two_metrics = {metric: curve.means[metric] for metric in ("recall", "ilad")}
    few = replace(curve, key="few", means=two_metrics)
    for name, changed in {"few": few, "split": replace(curve, key="split", split="dev")}.items():
        Store(other).put_curve(replace(changed, key=name))
    Store(other).put_curve(replace(curve, key="qrels", provenance={**curve.provenance, "qrels": "others"}))
    assert [each.key for each in replace(swept, store=other).load_curves(cells, k)] == [curve.key]


def test_compare_begins_with_the_decision(store):
    narrow = ("compare", store, "-k", "5", "--metric", "recall")
    decision = json.loads(run(*narrow, "--json"))["decision"]
    head, _, table = run(*narrow).partition("\n\n")
    assert head.splitlines() == decision["sentences"] and "Not dominated" in table
    assert (decision["keep"], decision["metric"], decision["objective"]) == (0.95, "recall", "ilad")
    assert "options" not in decision and decision["sure"]["decoder"]["select"]["name"] == "mmr"
    assert decision["sure"]["decoder"]["select"]["relevance_weight"] not in (0, 0.5, 1), "it is on the exact curve"
    by_precision = json.loads(run(*narrow, "--x", "cos_sum", "--y", "precision", "--json"))
    assert (by_precision["decision"]["metric"], by_precision["decision"]["objective"]) == ("precision", "cos_sum")
    by_time = run(*narrow, "--x", "milliseconds").splitlines()[0]
    assert re.search(r"less time a query and (is|be) sure to keep 95% of Top-k's Recall@5", by_time)


def test_nothing_is_decided_on_one_query(demo, tmp_path):
    dataset, space = demo
    path, query_id = str(tmp_path / "one.db"), dataset.judged("test").ids[0]
    queries = engine.embed_queries(space, dataset.judged("test").only([query_id]))
    decoders = [*engine.grid("top_k"), *engine.grid("mmr", 3)]
    data = space, queries, dataset.qrels["test"]
    assert len(list(engine.sweep(decoders, *data, k=5, split="test", store=path))) == 4
    for axes in ((), ("--x", "recall", "--y", "ilad")):
        output = run("compare", path, *axes)
        assert output.startswith("Not dominated") and "decision" not in json.loads(
            run("compare", path, *axes, "--json")
        )
        run("report", path, *axes, "--out", str(tmp_path / "report.html"))
        html = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert "Plotly.newPlot" in html and not re.search("sure to keep|Chosen on|Width and opacity", html)


def test_nothing_is_decided_without_something_to_keep():
    other = cell("vrsd", {"recall": np.full(9, 0.5), "ilad": np.full(9, 0.6)})

    def estimate(base_recall, *others):
        base = cell("top_k", {"recall": np.full(9, base_recall), "ilad": np.full(9, 0.4)})
        return estimate_on_axes(frontier([base, *others], resamples=100), (), base)

    assert estimate(0.0, other) is estimate(np.nan, other) is estimate(0.5) is None
    assert list(estimate(0.5, other).position_of) == [other.label]


def test_report_says_level_and_share_judged(store):
    levelled = []
    for point in Store(store).read_cells():
        # Of 40 documents a query 39 are judged, and none but Top-k's is relevant from grade 3 on.
        is_base, ones = point.method == "top_k", np.ones(len(point.queries))
        counts = {
            "returned": 40 * ones,
            "judged": 39 * ones,
            "relevant_next": is_base * ones,
            "total_relevant_next": ones,
        }
        facts = {**point.provenance, "relevant_from": "2", "next grade": "3", "judgements": "pooled"}
        levelled.append(replace(point, provenance=facts, counts=counts))
    html = build_page(levelled, "ilad", "recall", 5)
    assert "queries of test · k = 5 · 22 cells" in html and "Relevant from grade 2 · 98% judged" in html
    assert "A document counts as relevant from grade 2. Counted from grade 3, no setting would be sure" in html
    assert "both corrected by Holm over 10; uncorrected p" in html, "on hover"


def test_compare_prints_front_table_and_sentences(store, tmp_path):
    output = run("compare", store, "-k", "5")
    assert f"Not dominated in ilad@5 and recall@5, over {demo_counts()['test']} queries" in output
    assert "Hypervolume" in output
    counts = r"\d+ better · \d+ no significant difference · \d+ worse"
    assert re.search(rf"10 settings vs Top-k, Recall@5, on \d+ common queries: {counts}", output)
    files = [str(tmp_path / f"table.{kind}") for kind in ("md", "tex", "csv", "parquet")]
    run("compare", store, "--metric", "recall", *[word for file in files for word in ("--out", file)])
    assert all((tmp_path / f"table.{kind}").stat().st_size > 500 for kind in ("md", "tex", "csv", "parquet"))
    result = json.loads(run("compare", store, "--metric", "recall", "--json"))
    assert (result["k"], result["baseline"]) == (5, "top_k")
    assert result["front"][0]["recall"] > result["front"][-1]["recall"]
    assert {"mmr(relevance_weight=1.0)"} <= {row["name"] for row in result["front"]}
    for baseline in ("MMR · λ 1", "mmr(relevance_weight=1.0)"):
        named = json.loads(run("compare", store, "--metric", "recall", "--baseline", baseline, "--json"))
        assert named["baseline"] == "mmr(relevance_weight=1.0)"


@pytest.mark.deep
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
    other_level = run("compare", store, "-k", "5", *flags, "--relevant-from", "2", fails=True)
    assert "--relevant-from must be 1, the grade that was swept; got 2" in other_level
    output = run("compare", store, "-k", "5", *flags)
    assert re.search(r"12 settings vs Top-k, Recall@5", output)
    assert re.search(
        r"note: 1 document of lucene.trec is not in the corpus, and is left out \(first: 'no.doc'\)", output
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


@pytest.mark.deep
def test_tune_chooses_among_all_decoders(tmp_path):
    command = ("tune", "--select", "all", "--retrieve", "dense,bm25", "-k", "5", "--points", "2", "--share", "0.9")
    command += ("--store", str(tmp_path / "tune.db"))
    output = run(*command, "--export", "python")
    assert "for most diversity (ILAD), sure to keep 90% of Dense → Top-k's Recall, on dev." in output
    assert re.search(r"^(Confirmed|Not confirmed) on test\.$", output, re.M) and "engine.Decoder(" in output
    (command_line,) = re.findall(r"^With charts: frontier (.+)$", output, re.M)
    assert "cells" in run(*shlex.split(command_line), "--out", str(tmp_path / "report.html"))
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "of test · k = 5" in html and "queries of dev." in html
    assert f"Chosen on {demo_counts()['test']} queries of test" not in html, "what is kept back does not choose"
    verdict = output.split("On test: ")[0].splitlines()
    assert all(escape_html(line) in html for line in verdict) and len(verdict) > 3
    compared = run("compare", command[-1])
    assert compared.startswith("\n".join(verdict)) and compared.startswith("\n".join(verdict) + "\n\nNot dominated")
    assert json.loads(run("compare", command[-1], "--split", "dev", "--json"))["study"]["sentences"] == verdict
    assert "Chosen on" in run("compare", command[-1], "--baseline", "dense → vrsd"), "another question"
    result = json.loads(run(*command, "--json"))
    names = [(c["decoder"]["retrieve"]["name"], c["decoder"]["select"]["name"]) for c in result["candidates"]]
    selectors = list(engine.methods("selector"))
    assert names[-1] == ("dense", "top_k") and names[0] == (
        result["decoder"]["retrieve"]["name"], result["decoder"]["select"]["name"]
    )  # fmt: skip
    # What reads the vectors alone is not tried behind words, which it would ignore.
    tried = [(s, d) for s in ("dense", "bm25") for d in selectors if (s, d) not in (names[-1], ("bm25", "nnn"))]
    assert sorted(names[:-1]) == sorted(tried)
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


@pytest.mark.deep
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


@pytest.mark.deep
def test_report_is_one_file_with_its_charts(store, tmp_path):
    file = tmp_path / "report.html"
    assert "22 cells" in run("report", store, "--out", str(file))
    html = file.read_text(encoding="utf-8")
    assert "Plotly.newPlot" in html and "Recall@5" in html and "All settings" in html
    visible = re.sub(r"<[^>]+>", " ", html[html.index("<body>") : html.index("<script")])
    counts = f"{demo_counts()['test']} queries of test · k = 5 · 22 cells · {date.today().isoformat()}"
    assert "numpy-api" in visible and counts in visible and "bundled, " in visible
    decision = json.loads(run("compare", store, "--json"))["decision"]
    assert all(escape_html(sentence) in visible for sentence in decision["sentences"]), "the decision"
    assert "Lines: every λ, exactly." in html and "Relevant from" not in visible and "judged" not in visible
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


@pytest.mark.deep
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
        (
            ("--objective", "diverse", "--metric", "ndcg"),
            "--metric must be left out with --objective 'diverse', which gains ILAD and takes the share of Recall to "
            "keep; got 'ndcg'. --objective 'maximise' takes it",
        ),
        (("--objective", "diverse", "--metric", "comp"), "--metric must be left out"),
        (("--metric", "ndcg", "--share", "0.9"), "--share must be left out with --objective 'maximise'"),
        (("--objective", "knee", "--share", "0.9"), "--objective 'diverse' takes it"),
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


@pytest.mark.deep
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
    command = ("compare", store, "-k", "5", "--metric", "comp", "--y", "comp", "--oracle")
    rows = json.loads(run(*command, "--json"))["oracle"]
    assert [(row["method"], row["settings"]) for row in rows] == [("top_k", 1), ("mmr", 3), ("nnn", 7)]
    output = run(*command)
    for row in rows:
        assert row["oracle"] >= row["mean"] and f"{row['oracle']:.4f}" in output
    assert "Comp@5 of each method's settings:" in output
