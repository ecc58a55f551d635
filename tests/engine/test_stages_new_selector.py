"""Adding a selector is adding one file: it appears in the laws, the CLI, the controls and the docs by itself."""

import json
import shutil
import subprocess
import sys

import pytest

from support.fork_server import fork_python
from support.paths import ROOT

TOY = '''"""toy: the most relevant, then those after a gap; a made-up method."""

from dataclasses import dataclass

import torch

from engine.candidates import Candidates
from engine.params import Whole, declare
from engine.solvers.tie_breaking import rank_exactly
from engine.stages import Selector, register
from engine.values import Ranking


@register("toy", title="Toy", paper="nobody 2026", equation="r_i", cost="n·d")
@dataclass(frozen=True)
class Toy(Selector):
    """Leaves out the runners-up."""

    gap: int = declare(Whole(default=1, low=0, high=5, symbol="γ", help="How many runners-up to leave out."))

    def select(self, candidates: Candidates, k: int) -> Ranking:
        """The most relevant, then from rank 2 + gap on; the runners-up last, if k reaches so far."""
        width = min(candidates.count, k + self.gap)
        index, gain = rank_exactly(candidates.relevance, width, candidates.relevance_error, candidates.exact_relevance)
        order = torch.tensor([0, *range(1 + self.gap, width), *range(1, 1 + self.gap)])[:k].clamp_max(width - 1)
        return Ranking(index[:, order], gain[:, order], tuple({} for _ in range(candidates.batch)))
'''


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the checkout with one more file."""
    copy = tmp_path_factory.mktemp("tree")
    for part in ("engine", "dashboard", "tests", "assets"):
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__", "results"))
    for part in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / part, copy / part)
    (copy / "engine" / "selection" / "toy.py").write_text(TOY, encoding="utf-8")
    return copy


def run(tree, *command):
    return subprocess.run([sys.executable, *command], cwd=tree, capture_output=True, text=True)


@pytest.fixture(scope="module")
def pytest_output(tree):
    """The laws about the new method, and the check that assets/methods.md is current, by one pytest."""
    files = ("tests/engine/test_stages_laws.py", "tests/test_house.py")
    chosen = "((toy or gap) and not house) or methods_document"
    return run(tree, "-m", "pytest", "-p", "no:cacheprovider", "-n", "0", *files, "-k", chosen, "-vv")


@pytest.fixture(scope="module")
def command_output(tmp_path_factory):
    """Return the output of three commands, run by one process in which the package has a folder with one file more."""
    folder = tmp_path_factory.mktemp("more")
    (folder / "toy.py").write_text(TOY, encoding="utf-8")
    decode = ["decode", "--query", "sort", "--select", "toy", "--json", "--gap"]
    code = (
        "import json\n"
        "from click.testing import CliRunner\n"
        "import engine.selection, engine.stages\n"
        f"engine.selection.__path__.append({str(folder)!r})\n"
        "engine.stages._discover.cache_clear()\n"
        "from engine.cli import main\n"
        f"for command in {[[*decode, '2'], [*decode, '9'], ['methods']]}:\n"
        "    done = CliRunner().invoke(main, command)\n"
        "    print(json.dumps([done.exit_code, done.stdout, done.stderr]))\n"
    )
    process = fork_python("-c", code)
    printed, errors = process.communicate()
    assert process.wait() == 0, errors
    return [json.loads(line) for line in printed.splitlines()]


@pytest.mark.deep  # the laws are parametrised by the registry, which the command line reads too
def test_the_laws_cover_it(pytest_output):
    passed = [line for line in pytest_output.stdout.splitlines() if "PASSED" in line]
    assert any("test_distinct_valid_positions" in line and "toy" in line for line in passed), pytest_output.stdout
    assert any("test_outside_the_domain" in line and "gap" in line for line in passed), pytest_output.stdout
    assert "1 failed" in pytest_output.stdout and len(passed) > 10, pytest_output.stdout


def test_the_command_line_has_it(command_output):
    (code, output, errors), (refused, _, refusal), _ = command_output
    assert code == 0, errors
    assert json.loads(output)["decoder"] == "dense → toy(gap=2)"
    assert refused != 0 and "gap (γ) must be a whole number in [0, 5]; got '9'" in refusal


def test_the_docs_have_it(command_output):
    assert (
        "| `toy` | Toy | Leaves out the runners-up. | gap (γ), a whole number in [0, 5], default 1 |"
        in command_output[2][1]
    )


@pytest.mark.deep
def test_the_docs_are_stale_without_it(pytest_output):
    failed = [line for line in pytest_output.stdout.splitlines() if line.startswith("FAILED")]
    assert len(failed) == 1 and "methods_document" in failed[0], "a new method must make assets/methods.md stale"


@pytest.mark.deep  # pages are drawn with every registered selector in every run
def test_the_page_has_its_pill_and_its_slider(tree):
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from dashboard.services import corpora\n"
        "job = corpora.get_loading_job(); job.join(); assert job.result, job.error\n"
        "from streamlit.testing.v1 import AppTest\n"
        "at = AppTest.from_file('dashboard/screens/explore.py', default_timeout=120)\n"
        "at.session_state['decoders'], at.session_state['explore.settings'] = ['top_k', 'toy'], True\n"
        "at.session_state['view'] = 'Check-up'\n"  # without tiles, which have the sliders themselves
        "at.run()\n"
        "assert not at.exception, at.exception\n"
        "assert any('Toy' in o for o in at.button_group(key='decoders').options)\n"
        "slider = at.slider(key='explore.toy.gap')\n"
        "assert (slider.min, slider.max, slider.value) == (0, 5, 1), slider\n"
        "print('seen')\n"
    )
    done = run(tree, "-c", code)
    assert done.returncode == 0 and "seen" in done.stdout, done.stderr[-3000:]
