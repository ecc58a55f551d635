"""How long from the command to a page with answers, on a new machine and on one that has started before.

    python tests/bench/bench_start.py [--runs 3] [--before FOLDER]          needs Debian's chromium

New: an empty home, so that nothing is embedded, no map made and no loop compiled. The browser is running already.
Answers: the page answers and names its pages; lists: the ranked lists of the demo's first query are drawn; curve:
those at every position of λ are there too; map: the corpus's map is drawn after a click on it. Behind each, the CPU
seconds of the server until then, which a busy machine lengthens less. --before: a checkout of another version,
measured in turn with this one. A bare import of streamlit and torch, and embedding the demo on the command line, stand
beside them.
"""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from bench_dashboard import READY
from harness import ROOT, machine, parse_arguments, spread, table, time_call, write_page

from support.browser import LISTS_DRAWN, Server, chromium, view

STAGES = ("answers", "lists", "curve", "map")
Measured = dict[str, tuple[float, float]]
"""Stage → seconds from the command on, and CPU seconds of the server."""


def run_python(*arguments: str, **environment: str) -> float:
    """Seconds of a Python process."""
    command = [sys.executable, *arguments]
    environment = {**os.environ, **environment}
    options = {"cwd": ROOT, "check": True, "env": environment, "stdout": subprocess.DEVNULL}
    seconds, _ = time_call(lambda: subprocess.run(command, **options))
    return seconds


def read_cpu_seconds(pid: int) -> float:
    """CPU seconds of a process, user's and system's."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start(browser: Any, home: str, tree: Path) -> Measured:
    """Start a version's server on a home and open its page; return the time of each stage."""
    measured: Measured = {}
    variables = {"PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": ""}
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    started = time.perf_counter()
    # The first folder of the path wins, before that of this checkout.
    code = f"import sys; sys.path.insert(0, {str(tree)!r}); from dashboard.start import main; main()"
    with closing(page), closing(Server(home, code=code, **variables)) as server:

        def note(stage: str) -> None:
            measured[stage] = time.perf_counter() - started, read_cpu_seconds(server.process.pid)

        page.goto(server.url)
        page.get_by_role("link", name="Explore").wait_for(timeout=300_000)
        note("answers")
        page.wait_for_function(LISTS_DRAWN, timeout=300_000)
        note("lists")
        page.wait_for_function(READY, timeout=300_000)
        note("curve")
        view(page, "Map")
        page.get_by_text("The map keeps").wait_for(timeout=300_000)
        note("map")
    return measured


def build_rows(name: str, runs: list[Measured]) -> list[tuple[str, str, str]]:
    """Build the rows of a table from the runs of a version: each stage with seconds and CPU seconds."""
    rows = []
    for stage in STAGES:
        wall, cpu = zip(*(run[stage] for run in runs), strict=True)
        rows.append((f"{name}, {stage}", spread(list(wall), 2), spread(list(cpu), 2)))
    return rows


def main() -> None:
    args = parse_arguments(__doc__, threads=None, runs=3, before="")
    versions = {"now": ROOT} | ({"before": Path(args.before).resolve()} if args.before else {})
    imports, embeds = [], []
    new: dict[str, list[Measured]] = {name: [] for name in versions}
    again: dict[str, list[Measured]] = {name: [] for name in versions}
    loads = [os.getloadavg()[0]]
    with chromium() as (browser,):
        for _ in range(args.runs):
            imports.append(run_python("-c", "import streamlit, torch"))
            with tempfile.TemporaryDirectory() as empty:
                embeds.append(run_python("-m", "engine.cli", "embed", "--queries", FRONTIER_HOME=empty))
            for name, tree in versions.items():
                with tempfile.TemporaryDirectory() as home:
                    new[name].append(start(browser, home, tree))
                    again[name].append(start(browser, home, tree))
                loads.append(os.getloadavg()[0])
    rows = [("import streamlit, torch", spread(imports, 2), "")]
    rows.append(("embed the demo, command line", spread(embeds, 2), ""))
    for name in versions:
        rows += build_rows(f"{name}: new machine", new[name]) + build_rows(f"{name}: started before", again[name])
    write_page(
        args,
        "start",
        "From the command to a page with answers",
        f"{machine(('torch', 'streamlit')).replace(', one thread used', '')}; load {min(loads):.0f} to "
        f"{max(loads):.0f} while it ran, of others too. Medians; (least to most).",
        table(("what", "seconds", "CPU seconds of the server"), rows),
    )


if __name__ == "__main__":
    main()
