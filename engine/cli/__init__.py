"""The command line: one module for each family of commands, all joined to the group `main`."""

from engine.cli import answer, decode, evaluation, feedback, passages, rate_search, search, stores, theory, training  # noqa: F401
from engine.cli.group import main

__all__ = ["main"]
