"""The process that attacks, and a full disk for it if one can be mounted."""

import re
import shutil
import subprocess

import pytest

from dashboard.services import roots
from support import assault, durable
from support.encoders import WORDS
from support.model_server import ModelServer, complete_chat
from support.stores import PASSWORD, PASSWORD_ENV
from support.tiny_models import tiny_encoder

VIEWS = (("unshare", "--mount"), ("unshare", "--user", "--map-root-user", "--mount"))
"""Commands that give a process a view of the files in which it may mount."""


def find_mount_view(folder):
    """Return the first command with which a disk can be mounted for one process alone, or None."""
    for view_command in VIEWS if shutil.which("unshare") else ():
        tried = [*view_command, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
        if subprocess.run(tried, capture_output=True).returncode == 0:
            return view_command
    return None


@pytest.fixture(scope="session")
def assailant(tmp_path_factory):
    """The process that attacks; its `disk` is the folder of a small disk, None where none can be mounted."""
    words = (*WORDS, *map(str, range(400)))
    model = tiny_encoder(tmp_path_factory.mktemp("model") / "model", words)
    disk = tmp_path_factory.mktemp("disk")
    view_command = find_mount_view(disk)
    arguments = () if view_command is None else (str(disk),)
    process = assault.Assailant(*arguments, command_prefix=view_command or (), **{durable.MODEL_ENV: str(model)})
    process.disk = disk if view_command else None
    yield process
    process.close()


@pytest.fixture
def model_server(tmp_path):
    """A judge that grades by the number of a text, and the text of the endpoints.toml that names it."""

    def grade(body):
        number = int(re.search(r"text number (\d+)", body["messages"][0]["content"])[1])
        return complete_chat({"reason": "", "grade": number % 4})

    with ModelServer(key=None) as server:
        server.chat = grade
        server.write_settings(tmp_path / "settings", chat="wise", requests=1, key_env=None)
        yield server, (tmp_path / "settings" / "endpoints.toml").read_text()


@pytest.fixture
def start_servers_of(assailant, engines, model_server):
    """Return a function that starts the servers of an operation, by its name."""

    def start(name):
        if name == "model judge":
            assailant.set_variable(durable.ENDPOINTS_ENV, model_server[1])
        if name == "store load":
            assailant.set_variable(durable.STORES_ENV, engines.pg.toml())
            assailant.set_variable(PASSWORD_ENV, PASSWORD)

    return start


@pytest.fixture(scope="module", autouse=True)
def open_roots(tmp_path_factory):
    """Allow typed paths where the tests' files lie."""
    previous_rules = roots.get_rules()
    roots.set_rules(roots.Rules(roots=(tmp_path_factory.getbasetemp(),)))
    yield
    roots.set_rules(previous_rules)
