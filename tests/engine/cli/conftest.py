"""What tests of commands on a finished sweep share."""

import pytest

from engine.evaluation.statistics import compare
from support.cli import run
from support.demo import demo_counts


@pytest.fixture(scope="package", autouse=True)
def few_resamples():
    """Draw less for intervals and p-values, of which commands only print what is computed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(compare.__kwdefaults__, "resamples", 400)
        yield


@pytest.fixture(scope="package")
def store(few_resamples, tmp_path_factory):
    """The file of a sweep of the demo."""
    path = str(tmp_path_factory.mktemp("sweep") / "demo.db")
    flags = ("--select", "top_k", "--select", "mmr", "--select", "nnn:l2=0.1", "-k", "3", "-k", "5")
    output = run("sweep", *flags, "--points", "3", "--store", path)
    assert f"22 cells of {demo_counts()['test']} queries" in output
    return path
