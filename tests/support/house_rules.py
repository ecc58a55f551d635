"""The rules of the house, read off the source: import circles, private names, class names, lengths."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import networkx

MESSAGE_CALLS = {"DataError", "ParamError", "FrontierError", "RepeatedIdError", "ConflictingGradesError"}
MAX_FUNCTION_LINES, MAX_METHODS, MAX_POSITIONAL_FIELDS = 60, 12, 6


def parse_modules(root: Path) -> dict[str, ast.Module]:
    """Parse every module of the two packages, by its dotted name."""
    parsed = {}
    for package in ("engine", "dashboard"):
        for file in sorted((root / package).rglob("*.py")):
            name = ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            parsed[name] = ast.parse(file.read_text(encoding="utf-8"), str(file))
    return parsed


def imports(name: str, tree: ast.Module, module_names: set[str]) -> Iterator[tuple[str, str, int]]:
    """(module, imported name or "", line) of every import of a module of ours, those inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in module_names:
                    yield alias.name, "", node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full_name = f"{node.module}.{alias.name}"
                if full_name in module_names:
                    yield full_name, "", node.lineno
                elif node.module in module_names:
                    yield node.module, alias.name, node.lineno


def find_import_circles(parsed: dict[str, ast.Module]) -> list[list[str]]:
    """Find modules that import each other in a circle, imports in functions included."""
    pairs = ((name, m) for name, tree in parsed.items() for m, _, _ in imports(name, tree, set(parsed)) if m != name)
    return [
        sorted(members)
        for members in networkx.strongly_connected_components(networkx.DiGraph(pairs))
        if len(members) > 1
    ]


def find_private_imports(parsed: dict[str, ast.Module]) -> list[str]:
    """Find private names taken from another module, by import or as an attribute of an imported module."""
    rows = []
    for name, tree in parsed.items():
        bound = {}
        for module, imported, line in imports(name, tree, set(parsed)):
            if imported.startswith("_") and not imported.startswith("__"):
                rows.append(f"{name}:{line} imports {module}.{imported}")
            if not imported:
                bound[module.rsplit(".", 1)[-1]] = module
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in bound
                and node.attr.startswith("_")
                and not node.attr.startswith("__")
            ):
                rows.append(f"{name}:{node.lineno} uses {bound[node.value.id]}.{node.attr}")
    return rows


def find_repeated_classes(parsed: dict[str, ast.Module]) -> list[str]:
    """Find public class names that stand in more than one module."""
    homes = defaultdict(list)
    for name, tree in parsed.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name)
    return [f"{name}: {', '.join(where)}" for name, where in sorted(homes.items()) if len(where) > 1]


def _decorators(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    return " ".join(map(ast.unparse, node.decorator_list))


def find_long_functions(parsed: dict[str, ast.Module]) -> list[str]:
    """Find functions of more than 60 lines without the docstring; loops that Numba compiles are exempt."""
    rows = []
    for name, tree in parsed.items():
        for node in ast.walk(tree):
            function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if function and not re.search("jit_", _decorators(node)):
                docstring = (ast.get_docstring(node, clean=False) or "").count("\n")
                length = (node.end_lineno or 0) - node.lineno + 1 - docstring
                if length > MAX_FUNCTION_LINES:
                    rows.append(f"{name}.{node.name}: {length}")
    return rows


def find_large_classes(parsed: dict[str, ast.Module]) -> list[str]:
    """Find classes of more than 12 methods, or of more than six fields by position."""
    rows = []
    for name, tree in parsed.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef):
                continue
            methods = [n for n in node.body if isinstance(n, ast.FunctionDef)]
            if len(methods) > MAX_METHODS:
                rows.append(f"{name}.{node.name}: {len(methods)} methods")
            kinds = [ast.unparse(n.annotation) for n in node.body if isinstance(n, ast.AnnAssign)]
            fields = [kind for kind in takewhile(lambda kind: kind != "KW_ONLY", kinds) if "ClassVar" not in kind]
            by_position = "dataclass" in _decorators(node) and "kw_only=True" not in _decorators(node)
            if by_position and len(fields) > MAX_POSITIONAL_FIELDS:
                rows.append(f"{name}.{node.name}: {len(fields)} fields by position")
    return rows


def find_undocumented_modules(parsed: dict[str, ast.Module]) -> list[str]:
    """Find modules whose docstring does not begin with a one-line sentence; empty `__init__` files need none."""
    rows = []
    for name, tree in parsed.items():
        first = (ast.get_docstring(tree) or "").split("\n\n")[0]
        if tree.body and ("\n" in first or not first.endswith((".", ":"))):
            rows.append(f"{name}: {first[:60]!r}")
    return rows


def find_optioned_messages(parsed: dict[str, ast.Module], options: set[str]) -> list[str]:
    """Errors and notices of readers that name a flag or an argument, without a second wording for pages."""
    pattern = re.compile(rf"--[a-z]|\b({'|'.join(sorted(options))})=")
    found = []
    for name, tree in parsed.items():
        # Vector engines are filled from the command line alone.
        if not name.startswith("engine.data.") or name.startswith("engine.data.stores"):
            continue
        for node in ast.walk(tree):
            called = node.func if isinstance(node, ast.Call) else None
            if getattr(called, "id", getattr(called, "attr", "")) not in MESSAGE_CALLS or len(node.args) > 1:
                continue
            texts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
            found += [f"{name}:{node.lineno}" for text in texts if isinstance(text, str) and pattern.search(text)]
    return found


def render_layers(layers: list[str], parsed: dict[str, ast.Module]) -> str:
    """Draw the layers of the import contract as a Mermaid chart, each module with its purpose."""
    rows = ["```mermaid", "flowchart TD"]
    for number, layer in enumerate(layers):
        lines = []
        for name in re.split(r" [:|] ", layer):
            purpose = (ast.get_docstring(parsed[name]) or "").partition("\n")[0]
            lines.append(f"<b>{name}</b> {purpose}".replace('"', "'"))
        rows.append(f'    layer{number}["' + "<br>".join(lines) + '"]')
    arrows = " --> ".join(f"layer{number}" for number in range(len(layers)))
    return "\n".join([*rows, f"    {arrows}", "```"])


def find_unmirrored_tests(tests: Path, parsed: dict[str, ast.Module]) -> list[str]:
    """Find test files whose folder is no package, or whose name begins with none of its modules or its own."""
    rows = []
    for package in ("engine", "dashboard"):
        for file in sorted((tests / package).rglob("test_*.py")):
            home = ".".join(file.parent.relative_to(tests).parts)
            modules = [name.removeprefix(f"{home}.").split(".")[0] for name in parsed if name.startswith(f"{home}.")]
            subjects = {*modules, home.rsplit(".", 1)[-1]}
            topic = file.stem.removeprefix("test_")
            if not any(topic == subject or topic.startswith(f"{subject}_") for subject in subjects):
                rows.append(f"{file.relative_to(tests)}: nothing in {home} is called so")
    return rows


def find_imports_between_tests(tests: Path) -> list[str]:
    """Find imports of one test file by another."""
    rows = []
    for file in sorted(tests.rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        # Parsing all of them would take seconds.
        for node in ast.walk(ast.parse(text)) if re.search(r"from\s[\w.]*test_\w+\s+import", text) else ():
            name = node.module if isinstance(node, ast.ImportFrom) else ""
            if name and name.rsplit(".", 1)[-1].startswith("test_"):
                rows.append(f"{file.relative_to(tests)}:{node.lineno} imports {name}")
    return rows
