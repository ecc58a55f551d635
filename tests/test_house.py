"""The house in order: the rules of engine/README.md, read off the source; the generated documents are current."""

import inspect
import re
import subprocess
import sys
import tomllib
from functools import cache

import pytest

import engine
from engine.evidence.run import load_shipped
from engine.views.evidence import markdown
from engine.views.methods import method_table
from support import house_rules, threats
from support.paths import ROOT
from support.processes import environment

README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "assets" / "guide.md").read_text(encoding="utf-8")
METHODS = (ROOT / "assets" / "methods.md").read_text(encoding="utf-8")
HOUSE = (ROOT / "engine" / "README.md").read_text(encoding="utf-8")
HANDED_OUT = frozenset({"Draw", "Event", "Layout", "Preset", "Session"})
"""Classes that the frozen façade hands out, whose signature other people's code may use. None is to be added."""


@cache
def parsed_modules():
    """Return the parsed source, read once and not while tests are collected."""
    return house_rules.parse_modules(ROOT)


def run_tool(*command):
    """Run a tool that reads the source, in the checkout."""
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)


def test_imports_go_down_only():
    done = run_tool("-c", "import sys; from importlinter.cli import lint_imports_command as c; sys.exit(c())")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.deep
def test_types_hold():
    done = run_tool("-m", "mypy")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "rule",
    [
        house_rules.find_import_circles,
        house_rules.find_private_imports,
        house_rules.find_repeated_classes,
        house_rules.find_long_functions,
        house_rules.find_undocumented_modules,
    ],
)
def test_a_rule_holds(rule):
    assert rule(parsed_modules()) == []


def test_classes_are_small_and_many_fields_are_given_by_name():
    """Exempt only classes whose signature is frozen; an exemption without need fails too."""
    assert {
        row.split(":")[0].rsplit(".", 1)[-1] for row in house_rules.find_large_classes(parsed_modules())
    } == HANDED_OUT


def test_errors_of_readers_name_no_option_to_a_page():
    options = {*inspect.signature(engine.load_dataset).parameters, "dtype", "text", "vectors"} - {"source", "progress"}
    assert house_rules.find_optioned_messages(parsed_modules(), options) == []
    for call, is_fault in (("DataError('x (--qrels)')", True), ("DataError(f'x qrels={y}', 'x')", False)):
        parsed = {"engine.data.a": house_rules.ast.parse(f"raise {call}")}
        assert bool(house_rules.find_optioned_messages(parsed, options)) == is_fault


def test_tests_mirror_the_tree():
    assert house_rules.find_unmirrored_tests(ROOT / "tests", parsed_modules()) == []


def test_no_test_file_imports_another():
    assert house_rules.find_imports_between_tests(ROOT / "tests") == []


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        (
            {"engine.a": "import engine.b", "engine.b": "def f():\n    from engine import a"},
            house_rules.find_import_circles,
        ),
        ({"engine.a": "from engine.b import _hidden", "engine.b": ""}, house_rules.find_private_imports),
        ({"engine.a": "from engine import b\nb._hidden()", "engine.b": ""}, house_rules.find_private_imports),
        ({"engine.a": "class Name: ...", "dashboard.b": "class Name: ..."}, house_rules.find_repeated_classes),
        ({"engine.a": "def f():\n" + 60 * "    print()\n"}, house_rules.find_long_functions),
        ({"engine.a": "class A:\n" + 13 * "    def m(self): ...\n"}, house_rules.find_large_classes),
        ({"engine.a": "@dataclass(frozen=True)\nclass A:\n" + 7 * "    f: int\n"}, house_rules.find_large_classes),
        ({"engine.a": '"""One purpose.\n\nAnd more."""', "engine.b": "x = 1"}, house_rules.find_undocumented_modules),
    ],
)
def test_a_rule_notices_what_breaks_it(source, rule):
    parsed = {name: house_rules.ast.parse(text) for name, text in source.items()}
    assert len(rule(parsed)) == 1


@pytest.mark.deep  # the contracts of imports are read in every run
def test_the_engine_imports_where_no_dashboard_library_is():
    """Import every engine module without the page's packages, as on a GPU machine with torch and NumPy.

    The adapters, which need a framework each, are exempt.
    """
    code = (
        "import sys, pkgutil, importlib\n"
        "absent = {'streamlit', 'plotly', 'altair', 'bm25s', 'dashboard'}\n"
        "class No:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in absent: raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, No())\n"
        "import engine\n"
        "from engine.integrations import FRAMEWORKS\n"
        "adapters = {f'engine.integrations.{name}' for name in FRAMEWORKS}\n"
        "names = {m.name for m in pkgutil.walk_packages(engine.__path__, 'engine.')} - adapters\n"
        "for name in names: importlib.import_module(name)\n"
        "assert len(names) > 15, names\n"
        "heavy = {'sentence_transformers', 'transformers', 'pandas', 'sklearn', 'starlette'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_public_name_is_there():
    for name in engine.__all__:
        assert getattr(engine, name).__doc__, name
    with pytest.raises(AttributeError):
        engine.nosuch  # noqa: B018


def extract_generated_part(text, marker):
    """Return the text between the markers of a generated part."""
    match = re.search(rf"<!-- {marker} -->\n(.*?)\n<!-- /{marker} -->", text, re.S)
    assert match, f"no part {marker!r} between markers"
    return match[1]


def test_methods_document_is_current():
    assert extract_generated_part(METHODS, "methods") == method_table(), (
        "run `frontier methods` and paste its output between the markers of assets/methods.md"
    )


def test_guide_counts_claims_as_they_were_judged():
    assert extract_generated_part(GUIDE, "evidence") == markdown(load_shipped()), (
        "paste engine.views.evidence.markdown(engine.evidence.run.shipped()) between the markers of assets/guide.md"
    )


@pytest.mark.parametrize(
    "document", [pytest.param(README, id="README"), pytest.param(GUIDE, id="guide", marks=pytest.mark.deep)]
)
def test_python_blocks_of_a_document_run_one_after_another(document, capsys):
    blocks = re.findall(r"```python\n(.*?)```", document, re.S)
    assert blocks
    namespace = {}
    for block in blocks:
        exec(compile(block, "document", "exec"), namespace)
    assert capsys.readouterr().out.strip()


def test_links_of_documents_lead_to_files_and_headings():
    for folder, document in ((ROOT, README), (ROOT / "assets", GUIDE)):
        for target in re.findall(r"(?:\]\(|(?:src|srcset)=\")([^)\"]+)", document):
            path, _, heading = target.partition("#")
            if "://" not in target:
                assert (folder / path).is_file(), target
                titles = re.findall(r"^#+ (.+)$", (folder / path).read_text("utf-8"), re.M) if heading else []
                assert not heading or heading in [
                    re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles
                ], target


def test_readme_opens_with_the_two_commands_and_is_short():
    assert "pip install . && frontier" in README
    assert "pip install '.[test]' && pytest" in README
    assert len(README.splitlines()) <= 150


def test_the_picture_of_the_house_is_that_of_the_import_contracts():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(c["layers"] for c in contracts["contracts"] if c["type"] == "layers")
    assert extract_generated_part(HOUSE, "house") == house_rules.render_layers(layers, parsed_modules()), (
        "paste `house_rules.render_layers(…)` between the markers of engine/README.md"
    )


def test_every_file_that_the_house_names_is_there():
    named = set(re.findall(r"`((?:engine|dashboard|tests|assets)/[\w./]*)`", HOUSE))
    assert len(named) > 40
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_the_house_has_its_glossary_and_its_tasks():
    terms = re.findall(r"^- \*\*([^*]+)\*\*", extract_generated_part(HOUSE, "glossary"), re.M)
    tasks = [line for line in extract_generated_part(HOUSE, "tasks").splitlines() if line.startswith("| ")][1:]
    assert len(terms) == len(set(terms)) >= 25 and len(tasks) >= 20
    assert all("`" in task for task in tasks[1:])


def test_the_table_of_threats_has_every_marked_test_and_none_is_open():
    table = (ROOT / "assets" / "results" / "threats.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ") and "| `" in line]
    assert {row[2].strip("`") for row in rows} == threats.list_marked_tests()
    assert all(re.fullmatch(r"[\d,]+ passed \|", row[3]) for row in rows), table
