"""The house in order: imports go down, the engine knows no page, the generated docs are current."""

import re
import subprocess
import sys

import pytest
from conftest import ROOT

from engine.views import method_table

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_imports_go_down_only():
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from importlinter.cli import lint_imports_command as c; sys.exit(c())"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_the_engine_imports_where_no_dashboard_library_is():
    """As on a GPU machine that has torch and NumPy: every engine module loads without the page's packages."""
    code = (
        "import sys, pkgutil, importlib\n"
        "absent = {'streamlit', 'plotly', 'altair', 'bm25s', 'dashboard'}\n"
        "class No:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in absent: raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, No())\n"
        "import engine\n"
        "names = [m.name for m in pkgutil.walk_packages(engine.__path__, 'engine.')]\n"
        "for name in names: importlib.import_module(name)\n"
        "assert len(names) > 15, names\n"
        "heavy = {'sentence_transformers', 'transformers', 'pandas', 'sklearn'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_public_name_is_there():
    import engine

    for name in engine.__all__:
        assert getattr(engine, name).__doc__, name
    with pytest.raises(AttributeError):
        engine.nosuch  # noqa: B018


def test_the_readme_table_is_current():
    between = re.search(r"<!-- methods -->\n(.*?)\n<!-- /methods -->", README, re.S)
    assert between, "the README has no methods table"
    assert between[1] == method_table(), "run `frontier methods` and paste its output between the README's markers"


def test_the_readme_snippet_runs(capsys):
    snippets = re.findall(r"```python\n(.*?)```", README, re.S)
    assert snippets
    for snippet in snippets:
        exec(compile(snippet, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_the_readme_commands_are_those_of_the_project():
    assert "pip install . && frontier" in README
    assert "pip install '.[test]' && pytest" in README


def test_files_stay_readable_in_one_sitting():
    for folder in ("engine", "dashboard", "tests"):
        for file in (ROOT / folder).rglob("*.py"):
            assert len(file.read_text(encoding="utf-8").splitlines()) <= 400, file
