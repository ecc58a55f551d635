"""What the papers prove or claim, from the command line, on the demo."""

import json

import pytest

from support.cli import run


def test_vrsd_says_of_both_problems_and_of_algorithm_1():
    command = ("theory", "vrsd", "--count", "12", "--pool", "9", "-k", "3")
    output = run(*command)
    assert "12 queries, pools of 9, k = 3, the most relevant document fixed:" in output
    rows = [json.loads(line) for line in run(*command, "--json").splitlines()]
    same, best = sum(row["same"] for row in rows), sum(row["share"] == 0 for row in rows)
    assert f"are largest for one set on {same} ({same / 12:.1%})" in output
    assert f"Algorithm 1 finds the best set on {best} ({best / 12:.1%})" in output
    assert all(row["gap"]["best"]["sets"] == 28 for row in rows)
    assert "pool (n) must be a whole number" in run("theory", "vrsd", "--pool", "0", fails=True)


def test_ccbqp_says_of_the_relaxation_its_ends_and_the_cone():
    command = ("theory", "ccbqp", "--count", "3", "--pool", "5", "-k", "4", "--weight", "0.5", "--weight", "0.9")
    output = run(*command)
    assert "no point of the relaxation beats the best set of 3 on 6 (100.0%)" in output
    result = json.loads(run(*command, "--json"))
    assert len(result["pools"]) == 6 and all(row["tight"] for row in result["pools"])
    assert [(row["weight"], row["k"], row["runs"], row["fractional"]) for row in result["ends"]] == [
        (0.5, 4, 3, 0), (0.9, 4, 3, 0)
    ]  # fmt: skip
    assert f"least cosine of two documents: {result['cone']['least']:.4f}" in output
    assert f"slope {result['cone']['slope']:.2f}" in output


def test_gaps_are_a_table_of_selectors():
    command = ("theory", "gap", "--count", "4", "--pool", "8", "-k", "3", "--select", "vrsd", "--select", "max_sum")
    output = run(*command)
    assert "4 queries, pools of 8, k = 3" in output and "max_sum(relevance_weight=0.8) " in output
    free, fixed = (
        [json.loads(line) for line in run(*command, *flags, "--json").splitlines()] for flags in ((), ("--fix-first",))
    )
    assert [row["best"]["sets"] for row in free] == [56] * 8
    assert [row["best"]["sets"] for row in fixed] == [21] * 4 + [56] * 4
    assert "objective must be one of" in run(*command, "--select", "mmr", fails=True)


@pytest.mark.deep
def test_nnn_says_how_often_a_relevant_set_is_recovered():
    output = run("theory", "nnn", "--count", "1")
    result = json.loads(run("theory", "nnn", "--count", "2", "--json"))
    assert result["queries"] == 2 and len(result["ways"]) == 3 + 11 + 1
    for row in result["ways"]:
        assert row["both"] + row["second"] == row["recovered"] and row["way"] in output
        assert row["both"] + row["first"] == result["ways"][0]["recovered"] == len(result["witnesses"])
    assert "p: McNemar's exact test against dense" in output


def test_recall_losses_beside_lemma_2():
    command = ("theory", "recall", "--count", "3", "--dimension", "16", "--dimension", "64", "--draws", "3")
    output = run(*command)
    rows = [json.loads(line) for line in run(*command, "--json").splitlines()]
    assert [(row["k"], row["draws"]) for row in rows] == [(16, 3), (64, 3)] * 3
    assert not any(row["violated"] for row in rows)
    for k in (16, 64):
        share = sum(row["share"] for row in rows if row["k"] == k) / 3
        assert any(line.split()[:3] == [str(k), "3", f"{share:.4f}"] for line in output.splitlines())
