"""The process that attacks, and a full disk for it where one can be had."""

import shutil
import subprocess

import pytest

from dashboard.services import roots
from support import assault, durable
from support.encoders import WORDS
from support.stores import PASSWORD, PASSWORD_ENV
from support.tiny_models import tiny_encoder

VIEWS = (("unshare", "--mount"), ("unshare", "--user", "--map-root-user", "--mount"))
"""Ways to a view of the files in which one may mount."""


def mounting(folder):
    """The first way in which a disk can be mounted there that only its process sees, None where there is none."""
    for way in VIEWS if shutil.which("unshare") else ():
        tried = [*way, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
        if subprocess.run(tried, capture_output=True).returncode == 0:
            return way
    return None


@pytest.fixture(scope="session")
def assailant(tmp_path_factory):
    """The process that attacks; its `disk` is the folder of a small disk, None where none can be mounted."""
    words = (*WORDS, *map(str, range(400)))
    model = tiny_encoder(tmp_path_factory.mktemp("model") / "model", words)
    disk = tmp_path_factory.mktemp("disk")
    way = mounting(disk)
    arguments = () if way is None else (str(disk),)
    found = assault.Assailant(*arguments, command_prefix=way or (), **{durable.MODEL_ENV: str(model)})
    found.disk = disk if way else None
    yield found
    found.close()


@pytest.fixture
def started(assailant, engines):
    """Starts what an operation needs to be running, by its name."""

    def start(name):
        if name == "store load":
            assailant.set_variable(durable.STORES_ENV, engines.pg.toml())
            assailant.set_variable(PASSWORD_ENV, PASSWORD)

    return start


@pytest.fixture(scope="module", autouse=True)
def open_roots(tmp_path_factory):
    """Typed paths may lie where the tests' files do."""
    before = roots.get_rules()
    roots.set_rules(roots.Rules(roots=(tmp_path_factory.getbasetemp(),)))
    yield
    roots.set_rules(before)
