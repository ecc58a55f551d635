"""Options of commands: one that is required is asked for."""

import click
import pytest

from dashboard.serve import main
from support.cli import run


def has_required_option(command):
    return any(isinstance(param, click.Option) and param.required for param in command.params)


@pytest.mark.parametrize("name", [name for name, command in main.commands.items() if has_required_option(command)])
def test_command_without_its_required_options_is_refused(name):
    # From click 8.3 on, a default of None that an option names itself counts as given.
    assert "Missing " in run(name, fails=True)
