"""What the papers prove or claim, from the command line, on the demo."""

import json

from support.cli import run


def test_vrsd_says_of_both_problems_and_of_algorithm_1():
    asked = ("theory", "vrsd", "--count", "12", "--pool", "9", "-k", "3")
    output = run(*asked)
    assert "12 queries, pools of 9, k = 3, the most relevant document fixed:" in output
    rows = [json.loads(line) for line in run(*asked, "--json").splitlines()]
    same, best = sum(row["same"] for row in rows), sum(row["share"] == 0 for row in rows)
    assert f"are largest for one set on {same} ({same / 12:.1%})" in output
    assert f"Algorithm 1 finds the best set on {best} ({best / 12:.1%})" in output
    assert all(row["gap"]["best"]["sets"] == 28 for row in rows)
    assert "pool (n) must be a whole number" in run("theory", "vrsd", "--pool", "0", fails=True)
