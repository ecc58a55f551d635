"""How many random one-line changes to engine and dashboard the default tests notice.

python tests/bench/bench_mutations.py [--count 60] [--seed 41] [--first-only]      writes assets/results/mutations.md

Each change is made in a copy of the checkout: a comparison or a sign turned round, a number ±1, a truth value turned
round, operands swapped, `and` for `or`, a `not` or a statement left out. The test files that import the changed module
run first, in one process; then those that import a module that imports it; then the default suite, each up to the first
failure. With --first-only what the files of the first two steps do not notice counts as missed. Changes that alter
nothing that can be seen are named in INVISIBLE and left out of the share.
"""

from __future__ import annotations

import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from harness import ROOT, parse_arguments, table, time_call, write_page

HEAD = ("change", "from", "to", "noticed by", "seconds")
TURNED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
"""Operators and what takes their place."""
CACHE, PRISTINE = ".cache", ".pristine"
"""Folders in the copy: what the tests share from run to run, and what the unchanged code put there."""
MAX_SECONDS = 3600
"""Seconds that the tests of a change may take; if they take longer, it is noticed."""
INVISIBLE: dict[str, str] = {}
"""Changes that alter nothing that can be seen, as `file:line kind`, and why."""


@dataclass(frozen=True)
class Change:
    """One changed line of a file."""

    file: str
    line: int
    kind: str
    before: str
    after: str

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line} {self.kind}"


def change_expression(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield each kind of change to an expression and the changed expression."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in TURNED:
            yield "comparison", ast.Compare(node.left, [TURNED[type(operator)]()], node.comparators)
        case ast.BoolOp():
            yield "and/or", ast.BoolOp(TURNED[type(node.op)](), node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield "without not", node.operand
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
            yield "sign", ast.BinOp(node.left, TURNED[type(node.op)](), node.right)
            if isinstance(node.op, ast.Sub | ast.Div):
                yield "operands", ast.BinOp(node.right, node.op, node.left)
        case ast.Constant(value=bool()):
            yield "truth", ast.Constant(not node.value)
        case ast.Constant(value=int() | float()):
            yield "number", ast.Constant(node.value + 1)
            yield "number", ast.Constant(node.value - 1)


def list_changes(file: Path) -> dict[str, list[Callable[[], Change]]]:
    """List the makers of changes of one line of a file by their kind; some changes may be no Python."""
    source = file.read_text(encoding="utf-8")
    lines, name = source.split("\n"), file.relative_to(ROOT).as_posix()
    tree = ast.parse(source)
    annotations = [node.annotation for node in ast.walk(tree) if isinstance(node, ast.AnnAssign | ast.arg)]
    passed_over = {id(inner) for note in annotations if note is not None for inner in ast.walk(note)}

    def make(node: ast.AST, kind: str, new: ast.AST | None) -> Change:
        encoded = lines[node.lineno - 1].encode()
        text = "pass" if new is None else f"({ast.unparse(new)})"
        changed = encoded[: node.col_offset] + text.encode() + encoded[node.end_col_offset :]
        return Change(name, node.lineno, kind, lines[node.lineno - 1].strip(), changed.decode().strip())

    makers = defaultdict(list)
    for node in ast.walk(tree):
        if id(node) in passed_over or getattr(node, "lineno", 0) != getattr(node, "end_lineno", 1):
            continue
        is_statement = isinstance(node, ast.AugAssign | ast.Assign | ast.Raise) or is_call(node)
        for kind, new in [("left out", None)] if is_statement else change_expression(node):
            makers[kind].append(partial(make, node, kind, new))
    return makers


def is_call(node: ast.AST) -> bool:
    """Return True for a statement that is a call."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


def apply_change(source: str, change: Change) -> str:
    """Return a file's text with the change in it."""
    lines = source.split("\n")
    line = lines[change.line - 1]
    lines[change.line - 1] = line[: len(line) - len(line.lstrip())] + change.after
    return "\n".join(lines)


def is_valid(change: Change) -> bool:
    """Return True if the changed file is Python."""
    try:
        compile(apply_change((ROOT / change.file).read_text(encoding="utf-8"), change), change.file, "exec")
    except SyntaxError:
        return False
    return True


def draw_changes(count: int, seed: int) -> list[Change]:
    """Draw changes: a file by its length, then a kind, then one of its changes."""
    chance = random.Random(seed)
    files = sorted(file for package in ("engine", "dashboard") for file in (ROOT / package).rglob("*.py"))
    lengths = [file.stat().st_size for file in files]
    drawn: dict[tuple[str, int], Change] = {}
    while len(drawn) < count:
        (file,) = chance.choices(files, lengths)
        if makers := list_changes(file):
            change = chance.choice(makers[chance.choice(sorted(makers))])()
            if is_valid(change):
                drawn.setdefault((change.file, change.line), change)
    return list(drawn.values())


def name_module(file: Path) -> str:
    """Return the dotted name of a Python file of the checkout."""
    return file.relative_to(ROOT).with_suffix("").as_posix().removesuffix("/__init__").replace("/", ".")


def list_importers(modules: Iterable[str]) -> list[str]:
    """List the test files that import one of some modules, after those that are named after them."""
    imports = find_imports("tests")
    paths = [Path("tests", *module.split(".")) for module in modules]
    mirrored = {ROOT / path.with_name(f"test_{path.name}.py") for path in paths}
    files = [file for file, names in imports.items() if file in mirrored or not names.isdisjoint(modules)]
    tests = [file for file in sorted(files, key=lambda file: file not in mirrored) if file.name.startswith("test_")]
    return [file.relative_to(ROOT).as_posix() for file in tests]


def list_users(module: str) -> list[str]:
    """List the modules of engine and dashboard that import a module."""
    imports = find_imports("engine") | find_imports("dashboard")
    return [name_module(file) for file, names in imports.items() if module in names]


@cache
def find_imports(package: str) -> dict[Path, set[str]]:
    """Return what each Python file of a folder imports: modules, and names in them."""
    imports = {}
    for file in sorted((ROOT / package).rglob("*.py")):
        imports[file] = set()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imports[file] |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imports[file] |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return imports


def copy_checkout(folder: Path) -> Path:
    """Copy what git lists of the checkout."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    return folder


def find_failure(checkout: Path, *arguments: str) -> str | None:
    """Run tests in a copy of the checkout and return the first that fails; None if all pass."""
    path = os.pathsep.join((str(checkout), str(checkout / "tests")))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments]
    around = {**os.environ, "PYTHONPATH": path, "FRONTIER_TESTS_CACHE": str(checkout / CACHE)}
    try:
        done = subprocess.run(command, cwd=checkout, env=around, capture_output=True, text=True, timeout=MAX_SECONDS)
    except subprocess.TimeoutExpired:
        return "time"
    if done.returncode in (0, 5):  # 5: no test was collected
        return None
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0] if failed else f"exit status {done.returncode}"


def judge(change: Change, checkout: Path, first_only: bool) -> str | None:
    """Make a change in the copy, run the tests, and take it back; return the test that noticed it."""
    file = checkout / change.file
    # What changed code has embedded must not meet the next change.
    shutil.rmtree(checkout / CACHE)
    shutil.copytree(checkout / PRISTINE, checkout / CACHE)
    source = file.read_text(encoding="utf-8")
    try:
        file.write_text(apply_change(source, change), encoding="utf-8")
        module = name_module(ROOT / change.file)
        direct = list_importers([module])
        indirect = [test for test in list_importers(list_users(module)) if test not in direct]
        steps = [("-n0", *direct), ("-n2", *indirect)] + ([] if first_only else [()])
        for options in steps:
            # Without files it would run all tests.
            if len(options) != 1 and (noticed := find_failure(checkout, *options)):
                return noticed
        return None
    finally:
        file.write_text(source, encoding="utf-8")


def main() -> None:
    arguments = parse_arguments(__doc__, threads=None, count=60, seed=41, first_only=False)
    rows, n_visible, n_noticed = [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        checkout = copy_checkout(Path(folder))
        if failed := find_failure(checkout, "-n0", "tests/engine/data/test_demo.py"):
            raise SystemExit(f"{failed} fails without any change")
        shutil.copytree(checkout / CACHE, checkout / PRISTINE)
        for change in draw_changes(arguments.count, arguments.seed):
            seconds, noticed = time_call(judge, change, checkout, arguments.first_only)
            reason = INVISIBLE.get(change.name)
            n_visible += reason is None
            n_noticed += reason is None and noticed is not None
            before, after = (text.replace("|", "\\|") for text in (change.before, change.after))
            answer = noticed or reason or "nothing"
            rows.append((change.name, f"`{before}`", f"`{after}`", answer, f"{seconds:.0f}"))
            print(*rows[-1], sep=" | ", flush=True)
    share = f"{n_noticed} of {n_visible} visible changes are noticed: {n_noticed / max(1, n_visible):.0%}."
    write_page(arguments, "mutations", "Random changes of one line", share, table(HEAD, rows))


if __name__ == "__main__":
    main()
