"""The command line: one module for each family of commands, all joined to the group `main`."""

from engine.cli import (  # noqa: F401
    answer,
    decode,
    evaluation,
    feedback,
    passages,
    rate_search,
    reproduce,
    search,
    stores,
    theory,
    training,
)
from engine.cli.group import main

__all__ = ["main"]
