"""The language of a source tree in figures: what its names, docstrings and comments are like."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

EMPTY_WORDS = frozenset(
    [
        "apart",
        "asked",
        "at",
        "before",
        "beside",
        "both",
        "come",
        "coming",
        "drawn",
        "few",
        "found",
        "fresh",
        "given",
        "gone",
        "held",
        "here",
        "it",
        "kept",
        "known",
        "least",
        "left",
        "made",
        "many",
        "meant",
        "more",
        "most",
        "of",
        "one",
        "other",
        "others",
        "own",
        "place",
        "plain",
        "rest",
        "said",
        "shown",
        "so",
        "some",
        "taken",
        "tell",
        "that",
        "there",
        "those",
        "told",
        "watch",
        "way",
        "what",
        "whole",
    ]
)
"""Words that say nothing about a value when they are the whole name."""
QUESTION_WORDS = (
    "What",
    "Where",
    "How",
    "Whether",
    "The same",
    "So many",
    "Which",
    "When",
    "Who",
    "As",
    "Why",
    "That",
    "Of",
)
"""First words of docstrings that describe a value in place of saying what a function does."""
PARTICIPLES = frozenset(
    [
        "begun",
        "chosen",
        "come",
        "drawn",
        "found",
        "given",
        "gone",
        "held",
        "kept",
        "known",
        "left",
        "made",
        "meant",
        "said",
        "set",
        "shown",
        "taken",
        "told",
        "written",
    ]
)
NOT_PARTICIPLES = frozenset({"embed", "feed", "need", "read", "red", "seed", "shed", "speed"})
PARAMETERS_SECTION = re.compile(r"^\s*Parameters\s*\n\s*-{3,}", re.MULTILINE)
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def measure_language(files: list[Path]) -> dict[str, float]:
    """Return the figures of Python files; those per cent end in `_percent`."""
    counts: Counter[str] = Counter()
    constants: dict[str, set[Path]] = defaultdict(set)
    for file in files:
        source = file.read_text(encoding="utf-8")
        tree = ast.parse(source, str(file))
        counts.update(_count_lines(source, tree))
        for name in _iterate_names(tree):
            counts.update(names=1, letters=len(name.strip("_")), empty=name.strip("_").lower() in EMPTY_WORDS)
        for function in _iterate_functions(tree):
            docstring = ast.get_docstring(function) or ""
            counts.update(
                functions=1,
                participles=_is_participle(function.name),
                docstrings=bool(docstring),
                questions=bool(re.match(rf"({'|'.join(QUESTION_WORDS)})\b", docstring)),
            )
        for name in _iterate_constants(tree):
            constants[name].add(file)
    return {
        "empty_names_per_1000": 1000 * counts["empty"] / counts["names"],
        "question_docstrings_percent": 100 * counts["questions"] / counts["docstrings"],
        "participle_functions_percent": 100 * counts["participles"] / counts["functions"],
        "mean_name_length": counts["letters"] / counts["names"],
        "comment_lines_percent": 100 * counts["comments"] / counts["lines"],
        "comprehensions_per_100_lines": 100 * counts["comprehensions"] / counts["code"],
        "constants_in_three_modules": sum(len(modules) > 2 for modules in constants.values()),
    }


def find_functions_without_parameters(
    public_names: dict[str, list[str]], functions: dict[str, ast.FunctionDef]
) -> list[str]:
    """Return the public functions with arguments whose docstring has no numpydoc Parameters section."""
    missing = []
    for name, function in functions.items():
        if public_names.get(name) and not PARAMETERS_SECTION.search(ast.get_docstring(function) or ""):
            missing.append(name)
    return sorted(missing)


def _count_lines(source: str, tree: ast.Module) -> Counter[str]:
    lines = source.splitlines()
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    own_line_comments = {t.start[0] for t in tokens if t.type == tokenize.COMMENT and t.line.lstrip().startswith("#")}
    docstring_lines: set[int] = set()
    comprehensions = 0
    for node in ast.walk(tree):
        comprehensions += isinstance(node, COMPREHENSIONS)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstring_lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    blank_lines = {number for number, line in enumerate(lines, 1) if not line.strip()}
    code = len(lines) - len(own_line_comments | docstring_lines | blank_lines)
    return Counter(lines=len(lines), code=code, comments=len(own_line_comments), comprehensions=comprehensions)


def _iterate_functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _iterate_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names of functions, classes, arguments and assigned variables, each as often as it is given."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                if argument.arg not in ("self", "cls"):
                    yield argument.arg


def _iterate_constants(tree: ast.Module) -> Iterator[str]:
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name) and CONSTANT.fullmatch(target.id):
                yield target.id.strip("_")


def _is_participle(name: str) -> bool:
    bare = name.strip("_")
    return "_" not in bare and bare not in NOT_PARTICIPLES and (bare in PARTICIPLES or bare.endswith("ed"))
