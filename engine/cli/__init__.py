"""The command line: every command is declared in `commands`, which imports what it runs when it runs."""

from engine.cli import commands
from engine.cli.group import main

__all__ = ["main"]
