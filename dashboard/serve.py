"""The console command: the engine's commands and the dashboard's; each module is imported when it runs."""

import re
import sys

import click

from engine.cli import main
from engine.cli.group import runs_in
from engine.cli.options import (
    FINISHED_SWEEP,
    OTHER_RUNS,
    SIZE_OPTION,
    SOURCE,
    corpus_option,
    file_option,
    option,
    split_option,
    stages_option,
)


def _base_path(_: click.Context, __: click.Parameter, typed_path: str) -> str:
    """Return a typed path with a leading slash and none at its end, "" for the root; for click.

    Raises BadParameter if it has other characters than an address may have.
    """
    parts = list(filter(None, typed_path.split("/")))
    if wrong_parts := [part for part in parts if not re.fullmatch(r"[\w~-][\w.~-]*", part, re.ASCII)]:
        raise click.BadParameter(
            f"{wrong_parts[0]!r} cannot be part of it; take letters, digits, '-', '_', '.' and '~' between slashes, "
            "as in /frontier"
        )
    return "".join(f"/{part}" for part in parts)


@main.command()
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=None,
    help="Default: 8501, or the next one that is free; of several workers the first one's.",
)
@corpus_option(multiple=True, extra_help="Given several times, the first is where people start; links open the others.")
@click.option(
    "--workers",
    "count",
    type=click.IntRange(1, 64),
    default=1,
    help="Server processes, at ports that follow each other, and the lines of a proxy before them.",
)
@click.option(
    "--base-path", "base", metavar="PATH", default="", callback=_base_path, help="Below it the pages lie: /frontier."
)
@click.option(
    "--store",
    "stores",
    multiple=True,
    metavar="NAME/COLLECTION",
    help="A corpus in a vector engine that FRONTIER_HOME/stores.toml names; given several times, as --corpus.",
)
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name that browsers may reach it by beside localhost, as through a proxy; may be given several times.",
)
@click.option(
    "--address",
    default="127.0.0.1",
    show_default=True,
    help="Where to listen. On any other, as with --allow-host, uploads and typed paths are off unless allowed.",
)
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    metavar="FOLDER",
    help="A folder in which typed paths may lie, beside the home folder; may be given several times.",
)
@click.option("--allow-uploads", is_flag=True, help="Take uploads though others can reach it.")
@click.option("--browser/--no-browser", default=True, help="Open a browser window (never with several workers).")
@runs_in("dashboard.server")
def serve() -> None:
    """Open the dashboard (the default command). It listens on 127.0.0.1 only, unless told otherwise."""
    # `runs_in` replaces this empty body by the function `serve` of its module.


@main.command()
@FINISHED_SWEEP
@OTHER_RUNS
@file_option("--out", default="report.html", help="The file to write.")
@runs_in("dashboard.report")
def report() -> None:
    """Write the frontier, the comparison and the settings of a finished sweep as one HTML file."""
    # `runs_in` replaces this empty body by the function `report` of its module.


@main.command()
@SOURCE
@file_option("--live", required=True, help="The HTML file to write, in which λ and the budget are dragged.")
@stages_option("select", "selectors", "Default: Explore's, the baseline and the selector after it.")
@click.option("--query-id", "query_ids", multiple=True, metavar="ID", help="A query that can be opened in the file.")
@option("--count", type=click.IntRange(1), help="So many of the first queries of the split instead. Default: 20.")
@split_option("Split whose queries the frontier is measured on. Default: dev, else test, else the first.", default=None)
@SIZE_OPTION
@runs_in("dashboard.live.command")
def share() -> None:
    """Write a live page: queries × decoders with their sliders in one file, which needs no server and no network.

    Only the texts of its queries are in the file, the names and similarities of the documents that it shows, and means
    over all judged queries.
    """
    # `runs_in` replaces this empty body by the function `share` of its module.


@main.command()
@click.argument("measured", metavar="[FILE]", required=False, type=click.Path(exists=True, dir_okay=False))
@file_option("--out", default="evidence.html", help="The file to write.")
@runs_in("dashboard.evidence.html")
def evidence() -> None:
    """Write what was measured of the papers' claims as one HTML page.

    FILE is one that `frontier reproduce --out` has written; by default the newest results that are stored.
    """
    # `runs_in` replaces this empty body by the function `evidence` of its module.


main.default = "serve"

if __name__ == "__main__":
    sys.exit(main())
