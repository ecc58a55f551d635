"""What tests of commands on a finished sweep share."""

import pytest

from support.cli import run
from support.demo import demo_counts


@pytest.fixture(scope="package")
def store(tmp_path_factory):
    """The file of a sweep of the demo."""
    path = str(tmp_path_factory.mktemp("sweep") / "demo.db")
    flags = ("--select", "top_k", "--select", "mmr", "--select", "nnn:l2=0.1", "-k", "3", "-k", "5")
    output = run("sweep", *flags, "--points", "3", "--store", path)
    assert f"22 cells of {demo_counts()['test']} queries" in output
    return path
