"""Ctrl-C from the first import on: one sentence and 130, whatever is being imported."""

import signal
import subprocess
import sys

import pytest

from support.patience import patient
from support.processes import environment

INTERRUPTED_IMPORT = """
import os, signal, sys
class Interrupter:
    def find_spec(self, name, *_):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)
module = sys.argv.pop(1)
sys.meta_path.insert(0, Interrupter())
signal.signal(signal.SIGINT, signal.default_int_handler)
from dashboard.start import main
main()
"""
INTERRUPTED_COMMAND = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from dashboard import serve, start
serve.main.command("wait")(lambda: os.kill(os.getpid(), signal.SIGINT))
sys.argv = ["frontier", "wait"]
start.main()
"""


def run(code, *arguments):
    """Run Python; return its status and what it printed as errors."""
    process = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=patient(60), env=environment()
    )
    return process.returncode, process.stderr


@pytest.mark.threat("Ctrl-C while modules are imported", "one sentence, status 130, no traceback")
@pytest.mark.parametrize(
    ("module", "command", "sentence"),
    [
        ("click", "--help", "stopped; nothing had begun\n"),
        ("engine.cli.commands", "methods", "stopped; nothing had begun\n"),
        # Whoever imports these catches errors of their imports, or imports them again.
        ("numpy.dtypes", "methods", "stopped; what was finished is kept\n"),
        ("torch", "methods", "stopped; what was finished is kept\n"),
    ],
)
def test_interrupt_of_an_import_is_one_sentence(module, command, sentence):
    assert run(INTERRUPTED_IMPORT, module, command) == (128 + signal.SIGINT, sentence)


def test_interrupt_of_a_command_is_left_to_the_command():
    assert run(INTERRUPTED_COMMAND) == (128 + signal.SIGINT, "stopped; what was finished is kept\n")
