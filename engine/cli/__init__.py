"""The command line: every command is declared in `commands`, which imports what it runs when it runs."""

from engine.cli import commands  # noqa: F401
from engine.cli.group import main

__all__ = ["main"]
