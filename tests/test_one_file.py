"""Adding a selector is adding one file: it appears in the laws, the CLI, the controls and the docs by itself."""

import json
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

TOY = '''"""toy: the most relevant, then those after a gap; a made-up method."""

from dataclasses import dataclass

import torch

from engine.candidates import Candidates
from engine.params import Whole, declare
from engine.solvers.contest import ranked
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
        index, gain = ranked(candidates.relevance, width, candidates.relevance_error, candidates.exact_relevance)
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


def test_the_laws_cover_it(tree):
    done = run(tree, "-m", "pytest", "-p", "no:cacheprovider", "tests/test_laws.py", "-k", "toy or gap", "-vv")
    passed = [line for line in done.stdout.splitlines() if "PASSED" in line]
    assert any("test_distinct_valid_positions" in line and "toy" in line for line in passed), done.stdout
    assert any("test_outside_the_domain" in line and "gap" in line for line in passed), done.stdout
    assert done.returncode == 0 and len(passed) > 10, done.stdout


def test_the_command_line_has_it(tree):
    done = run(tree, "-m", "engine.cli", "decode", "--query", "sort", "--select", "toy", "--gap", "2", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["decoder"] == "dense → toy(gap=2)"
    refused = run(tree, "-m", "engine.cli", "decode", "--query", "sort", "--select", "toy", "--gap", "9")
    assert refused.returncode != 0 and "gap (γ) must be a whole number in [0, 5]; got '9'" in refused.stderr


def test_the_docs_have_it(tree):
    table = run(tree, "-m", "engine.cli", "methods").stdout
    assert "| `toy` | Toy | Leaves out the runners-up. | gap (γ), a whole number in [0, 5], default 1 |" in table
    stale = run(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_house.py", "-k", "readme_table")
    assert stale.returncode == 1, "a new method must make the README's table stale"


def test_the_page_has_its_pill_and_its_slider(tree):
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from dashboard import state\n"
        "job = state.loading(); job.join(); assert job.result, job.error\n"
        "from streamlit.testing.v1 import AppTest\n"
        "at = AppTest.from_file('dashboard/screens/explore.py', default_timeout=120)\n"
        "at.session_state['decoders'] = ['top_k', 'toy']\n"
        "at.run()\n"
        "assert not at.exception, at.exception\n"
        "assert any('Toy' in o for o in at.button_group(key='decoders').options)\n"
        "slider = at.slider(key='explore.toy.gap')\n"
        "assert (slider.min, slider.max, slider.value) == (0, 5, 1), slider\n"
        "print('seen')\n"
    )
    done = run(tree, "-c", code)
    assert done.returncode == 0 and "seen" in done.stdout, done.stderr[-3000:]
