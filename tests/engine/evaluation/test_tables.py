"""Result tables: what is written is read back, no spreadsheet runs it, and marks and captions say what was tested."""

import csv
import io
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine.evaluation.metrics import METRICS
from engine.evaluation.paired import format_stage
from engine.evaluation.sweep.cell import make_cell
from engine.evaluation.tables import (
    build_frame,
    build_per_query_frame,
    build_results,
    format_csv,
    format_latex,
    format_markdown,
    guard_formula,
    read_table,
    unguard_formula,
    write_table,
)
from support.datafiles import TEXT
from support.draws import examples

DATA = {"corpus": "c" * 64, "embeddings": "0" * 64, "queries": "1e5", "qrels": "=1+1"}
DANGER = "=+-@\t\r"
ROLES = ("select", "retrieve", "rerank")


def cell(decoder, values, *, k=10, split="test", queries=None, returned=None, left_out=0, calls=5):
    values = {name: np.asarray(column, dtype=float) for name, column in values.items()}
    count = len(next(iter(values.values())))
    queries = tuple(queries or (f"q{i}" for i in range(count)))
    returned = float(k) if returned is None else returned
    fields = {"left_out": left_out, "returned": returned, "milliseconds": 1.25}
    return make_cell(decoder, k, split, queries, values, **fields, digests=DATA, device="cpu", n_calls=calls)


def decoders():
    return (
        engine.Decoder(engine.make("top_k")),
        engine.Decoder(engine.make("mmr", relevance_weight=0.7, window=3)),
        engine.Decoder(engine.make("nnn", l1=0.3, fill=True), depth=50),
        engine.Decoder(engine.make("max_sum", polish=False), rerank=engine.make("dense")),
    )


def sample(n=40, seed=0):
    rng = np.random.default_rng(seed)
    base = rng.uniform(size=n)
    for shift, decoder in zip((0.0, 0.1, -0.1, 0.0), decoders(), strict=True):
        noise = rng.normal(scale=0.05, size=n)
        yield cell(decoder, {"recall": base + shift + noise, "ilad": rng.uniform(size=n)}, queries=None)


def test_a_frame_has_a_row_a_cell_with_everything():
    points = [*sample(), cell(decoders()[0], {"recall": [np.nan, 1.0], "ilad": [np.nan] * 2}, k=3, left_out=1)]
    table = build_frame(points)
    assert list(table["method"]) == ["top_k", "mmr", "nnn", "max_sum", "top_k"]
    assert list(table["name"][:2]) == ["dense → top_k", "dense → mmr(relevance_weight=0.7, window=3)"]
    assert list(table["label"]) == [p.label for p in points] and list(table["k"]) == [10, 10, 10, 10, 3]
    for position, p in enumerate(points):
        stages = [(role, name, value) for role in ROLES for name, value in (p.decoder[role] or {}).items()]
        for role, name, value in stages:
            got = table[f"{role}.{name}" if name != "name" else role.replace("select", "method")][position]
            assert (pd.isna(got) and value is None) or got == value, (role, name, got, value)
    old = build_frame([cell(decoders()[0], {"recall": [1.0]}, calls=0), points[0]])
    assert np.isnan(old["milliseconds"][0]) and old["milliseconds"][1] == table["milliseconds"][0] == 1.25
    assert table["depth"].tolist()[2] == 50 and table["depth"].isna().tolist() == [True, True, False, True, True]
    assert table["recall"].tolist() == [p.mean["recall"] for p in points] and np.isnan(table["ilad"][4])
    assert table["left_out"].tolist()[4] == 1 and table["queries"].tolist() == [40, 40, 40, 40, 2]
    assert table["digest"].is_unique and table["provenance.qrels"][0] == "=1+1"
    assert list(build_frame([]).columns) == []
    # Of 20 columns, the number that pandas shows, half are the first ones.
    assert list(table.columns[:8]) == ["method", "name", "label", "k", "split", "queries", "recall", "ilad"]
    # Files of several sweeps go together: a column is text though nothing reranks in one of them.
    assert build_frame(points[:1])["rerank"].dtype == table["rerank"].dtype == "string"


def test_a_long_frame_has_a_row_a_query():
    points = [*sample(5), cell(decoders()[0], {"recall": [0.5, np.nan]}, k=3, queries=("007", "NA"))]
    table = build_per_query_frame(points)
    assert len(table) == sum(len(p.queries) * len(p.values) for p in points)
    for p in points:
        cell_rows = table[table["key"] == p.key]
        for metric, values in p.values.items():
            rows = cell_rows[cell_rows["metric"] == metric]
            assert list(rows["query"]) == list(p.queries)
            np.testing.assert_array_equal(rows["value"], values)
    assert set(table["k"]) == {3, 10} and set(table.columns) == set(build_per_query_frame([]).columns)
    means = table.groupby("key", observed=True)["value"].mean()
    assert means[points[-1].key] == 0.5


def test_the_long_frame_of_a_whole_sweep_is_small_and_fast():
    points = list(sample(2000)) * 25
    points = [replace(p, key=f"{p.key}{i}") for i, p in enumerate(points)]
    table = build_per_query_frame(points)
    assert len(table) == 400_000 and table.memory_usage(deep=True).sum() < 40e6


def plain_values(table):
    """The columns in order, with the type and the value of every cell, None where it is missing."""
    return [(name, [None if pd.isna(v) else (type(v), v) for v in table[name]]) for name in table]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".CSV"])
def test_written_table_reads_back_equal(suffix, tmp_path):
    points = [*sample(), cell(decoders()[0], {"recall": [np.nan, 1.0], "ilad": [np.nan] * 2}, k=3, split="-dev")]
    for table in (
        build_frame(points),
        build_frame(points[:1]),
        build_per_query_frame(points).astype({"query": "string"}),
    ):
        path = write_table(table, tmp_path / f"cells{suffix}")
        again = read_table(path)
        assert plain_values(again) == plain_values(table)
    # Again from what was read: nothing drifts.
    assert format_csv(again) == format_csv(table)


QUERIES = st.lists(TEXT, min_size=1, max_size=6, unique=True)


@settings(max_examples=examples(60), deadline=None)
@given(queries=QUERIES, split=TEXT)
def test_query_ids_round_trip_exactly(queries, split):
    point = cell(decoders()[0], {"recall": np.arange(len(queries)) / 7}, queries=queries, split=split)
    table = build_per_query_frame([point])
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (".csv", ".parquet"):
            again = read_table(write_table(table, Path(folder) / f"t{suffix}"))
            assert list(again["query"]) == queries and set(again["split"]) == {split}
            np.testing.assert_array_equal(again["value"], table["value"])


@settings(max_examples=examples(300), deadline=None)
@given(text=st.text(alphabet=st.sampled_from("'=+-@\t\rab1 \"＝"), max_size=8))
def test_formula_guard_round_trips(text):
    assert unguard_formula(guard_formula(text)) == text
    assert not guard_formula(text).lstrip(' "').startswith((*DANGER, "＝"))
    if text.lstrip(' "')[:1] not in {*DANGER, "＝", "'"}:
        assert guard_formula(text) == text


def test_no_cell_of_text_is_a_formula_and_numbers_stay_numbers():
    attacks = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "'=1", ' "=1', "＝1", "plain", "a=1"]
    rng = np.random.default_rng(0)
    point = cell(decoders()[1], {"ilad": -rng.uniform(size=len(attacks))}, queries=attacks, split="=split")
    for table in (build_frame([point]), build_per_query_frame([point]), pd.DataFrame({"=name": ["x"], "n": [-1.5]})):
        rows = list(csv.reader(io.StringIO(format_csv(table), newline="")))
        for row in rows:
            for text in row:
                assert not text.startswith(tuple(DANGER)) or float(text) < 0, text
    head, *rows = csv.reader(io.StringIO(format_csv(build_per_query_frame([point])), newline=""))
    query_cells = [row[head.index("query")] for row in rows]
    assert query_cells == [f"'{a}" if a not in ("plain", "a=1") else a for a in attacks]
    assert all(float(row[head.index("value")]) < 0 for row in rows)


def test_unreadable_table_raises_error(tmp_path):
    (tmp_path / "ragged.csv").write_text("a,b\n1\n")
    (tmp_path / "bad.parquet").write_bytes(b"no")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe")
    for name in ("ragged.csv", "bad.parquet", "bytes.csv", "missing.csv"):
        with pytest.raises(engine.DataError, match=name):
            read_table(tmp_path / name)
    with pytest.raises(engine.ParamError, match=r"written as \.parquet or \.csv"):
        write_table(build_frame(list(sample())), tmp_path / "cells.xlsx")
    with pytest.raises(engine.FrontierError, match="cannot write"):
        write_table(build_frame(list(sample())), tmp_path / "ragged.csv" / "cells.csv")


def test_table_marks_agree_with_compare():
    points = list(sample(60, seed=2))
    table = build_results(points, ("recall", "ilad"), resamples=2000)
    assert table.head == ("Setting", "Recall@10", "ILAD@10")
    expected = {}
    for number, metric in enumerate(("recall", "ilad"), 1):
        for row in engine.compare(points, metric, "top_k", 10, resamples=2000):
            expected[row.label, number] = (f"{row.mean:.4f}", int(np.sign(row.difference)) if row.significant else 0)
    markers = set()
    for number, p in enumerate(points):
        for column in (1, 2):
            if p.method == "top_k":
                mean = p.values[("recall", "ilad")[column - 1]].mean()
                assert (table.rows[number][column], table.marks[number][column]) == (f"{mean:.4f}", 0)
            else:
                assert (table.rows[number][column], table.marks[number][column]) == expected[p.label, column]
                markers.add(table.marks[number][column])
    assert markers == {-1, 0, 1}, "all three must occur, else this test sees nothing"


def test_the_caption_states_what_was_tested():
    points = list(sample(30))
    caption = build_results(points, ("recall", "ilad"), resamples=1500).caption
    for part in ("k = 10", "split test", "30 of 30", "more or less than Top-k", "1,500 resamples", "p < 0.05"):
        assert part in caption.replace("Dense → Top-k", "Top-k"), part
    assert "Holm's correction over 3 settings for each metric" in caption and "95% paired bootstrap" in caption
    assert "Holm" not in build_results(points[:2], ("recall",), resamples=200).caption
    gaps = [*points[:3], replace(points[3], values={**points[3].values, "ilad": np.r_[[np.nan] * 12, np.ones(18)]})]
    assert "Recall 30, ILAD 18 of 30" in build_results(gaps, ("recall", "ilad"), resamples=200).caption


def test_a_decoder_without_the_metric_or_with_short_answers_shows_it():
    points = list(sample(30))
    points[1] = replace(points[1], returned=3.26, values={**points[1].values, "ilad": np.full(30, np.nan)})
    table = build_results(points, ("recall", "ilad"), resamples=200)
    assert table.head[-1] == "Returned" and [row[-1] for row in table.rows] == ["10.0", "3.3", "10.0", "10.0"]
    assert table.rows[1][2] == "–" and table.marks[1][2] == 0
    assert len({len(row) for row in (table.head, *table.rows, *table.marks)}) == 1


def test_the_baseline_may_be_named_or_given():
    points = list(sample(30))
    for baseline in (points[1], points[1].label, "mmr"):
        table = build_results(points, ("recall",), baseline, resamples=200)
        assert "MMR" in table.rows[0][0] and len(table.rows) == 4
        assert "more or less than " + table.rows[0][0] in table.caption
    outside = build_results(points[1:], ("recall",), points[0], resamples=200)
    assert len(outside.rows) == 4 and "Top-k" in outside.rows[0][0]
    twice = [*points, cell(engine.Decoder(engine.make("mmr")), points[1].values)]
    for cells, baseline, k, error, message in (
        (points, "nosuch", 10, engine.ParamError, "none is called 'nosuch'"),
        (points[:1], None, 10, engine.DataError, "nothing to compare"),
        (points, None, 5, engine.DataError, "k = 5"),
        (twice, "mmr", 10, engine.ParamError, "'mmr' means 2 points"),
    ):
        with pytest.raises(error, match=message):
            build_results(cells, ("recall",), baseline, k)


HOSTILE = 'a|b*c_d`e`[x](http://y)<img src=z>\\ \n# $&\x1b[31m{}%~^"'


def hostile_cells():
    return [replace(p, split=HOSTILE) for p in sample(20)]


def test_markdown_escapes_hostile_cells():
    text = format_markdown(build_results(hostile_cells(), ("recall", "ilad"), resamples=200))
    caption, head, rule, *rows = [line for line in text.split("\n") if line]
    assert len(rows) == 4 and rule == "| --- | ---: | ---: |"
    for line in (head, *rows):
        assert len(re.findall(r"(?<!\\)\|", line)) == 4
    assert "\x1b" not in text and not re.search(r"(?<!\\)[<`*\[]", text)
    assert "↑" in caption and "| Dense → MMR · λ 0.7 w 3 |" in text
    marked = format_markdown(build_results(list(sample(60, seed=2)), ("recall",), resamples=2000))
    assert re.search(r"MMR[^|]*\| \d\.\d{4} ↑ \|", marked) and re.search(r"NNN[^|]*\| \d\.\d{4} ↓ \|", marked)


def balanced(text):
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", text):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    return depth == 0


def test_latex_escapes_hostile_cells():
    text = format_latex(build_results(hostile_cells(), ("recall", "ilad"), resamples=200), label="tab:a}b\\c")
    assert balanced(text) and "\\label{tab:a-b-c}" in text
    body = text.split("\\midrule\n")[1].split("    \\bottomrule")[0]
    rows = body.strip().split("\n")
    assert len(rows) == 4 and all(row.endswith(r"\\") and len(re.findall(r"(?<!\\)&", row)) == 2 for row in rows)
    assert r"\begin{tabular}{lrr}" in text and r"\toprule" in text
    assert r"Dense $\rightarrow$ MMR $\cdot$ $\lambda$ 0.7 w 3 &" in text
    # No character keeps its meaning.
    caption = re.search(r"\\caption\{(.*)\}\n", text)[1]
    remaining = re.sub(r"\\[{}$&#_%]|\\text\w+\{\}|\$[^$]*\\?\w*[^$]*\$", "", caption)
    assert not re.search(r"[{}$&#_%~^\\<>|]", remaining), remaining
    assert text.isascii()
    assert "$^{\\uparrow}$" in format_latex(build_results(list(sample(60, seed=2)), ("recall",), resamples=2000))


def test_every_metric_and_parameter_can_be_set_in_plain_latex():
    from engine.evaluation.tables import _escape_latex

    titles = [m.title for m in METRICS.values()]
    labels = [engine.Decoder(spec.cls()).label for spec in engine.methods("selector").values()]
    every = [s for kind in ("selector", "scorer") for s in engine.methods(kind).values()]
    stage_names = [format_stage(s.name, {p.name: p.text(p.default) for p in s.params}) for s in every]
    for text in (*titles, *labels, *stage_names):
        assert _escape_latex(text).isascii(), text
