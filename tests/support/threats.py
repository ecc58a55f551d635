"""The table of threats: every test marked `threat(what, expected)`, and its results.

pytest -m 'not (bench or slow or simulation or exhaustive)' --threats assets/results/threats.md
"""

import ast
from collections import Counter, defaultdict
from pathlib import Path

COMMAND = "pytest -m 'not (bench or slow or simulation or exhaustive)' --threats assets/results/threats.md"
TESTS = Path(__file__).parents[1]
HEAD = "| threat | expected | test | result |\n| --- | --- | --- | --- |\n"


class Table:
    """Results of the marked tests of a run, a row for each test function; gathered by the process that reports."""

    def __init__(self):
        self.threats: dict[str, tuple[str, str]] = {}
        self.results: dict[str, Counter] = defaultdict(Counter)

    def add(self, report):
        marks = dict(report.user_properties)
        if "threat" not in marks or (report.when != "call" and report.passed):
            return
        name = test_name(report.nodeid)
        self.threats[name] = tuple(marks["threat"])
        self.results[name][report.outcome] += 1

    def text(self) -> str:
        rows = [
            f"| {' | '.join(map(_cell, (threat, expected, f'`{name}`', _result(self.results[name]))))} |"
            for name, (threat, expected) in sorted(self.threats.items(), key=lambda item: (item[1][0], item[0]))
        ]
        unmet = sum(counts.total() > counts["passed"] for counts in self.results.values())
        return (
            "# Threats, and what holds against each\n\n"
            f"Made by `{COMMAND}`; each row is a test, with how many cases of it passed. Longer forms "
            "(50 kills of each operation, 2,000 flipped bytes in each format, an hour of visitors) are marked `slow`."
            f"\n\n{HEAD}" + "".join(f"{row}\n" for row in rows) + f"\n{len(rows)} rows, {unmet} open.\n"
        )


def test_name(nodeid: str) -> str:
    """Return file and function of a test, without its parameters."""
    return nodeid.split("[")[0].removeprefix("tests/")


def list_marked_tests() -> set[str]:
    """List the marked test functions, read from the source, without those that run on demand alone."""
    names = set()
    for file in TESTS.rglob("test_*.py"):
        path = file.relative_to(TESTS).as_posix()
        for node in ast.parse(file.read_text()).body:
            inner = [(f"{node.name}::", n) for n in node.body] if isinstance(node, ast.ClassDef) else [("", node)]
            names |= {f"{path}::{prefix}{n.name}" for prefix, n in inner if _is_marked(n)}
    return names


def _is_marked(node) -> bool:
    marks = [ast.unparse(decorator) for decorator in getattr(node, "decorator_list", ())]
    return any("pytest.mark.threat(" in mark for mark in marks) and "pytest.mark.slow" not in marks


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _result(counts: Counter) -> str:
    return ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(counts.items()))
