"""How long from the command to a page with answers, cold and warm, beside a bare import of streamlit and torch, and
beside embedding the demo on the command line.

python tests/bench/bench_start.py [--runs 5]          needs Debian's chromium

The import, a warm start and the rest alternate in one run, so that a busy machine burdens them alike. Usable: the
ranked lists of the demo's first query are drawn in a browser that was already running; sliders: those at every
position of λ are there too, for which a new machine compiles.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from typing import Any

from bench_dashboard import READY
from harness import ROOT, machine, parse_arguments, spread, table, time_call, write_page

from support.browser import LISTS_DRAWN, Server, chromium

STAGES = ("health", "paint", "usable", "sliders")


def run_python(*arguments: str, **environment: str) -> float:
    """Seconds of a Python process."""
    command = [sys.executable, *arguments]
    environment = {**os.environ, **environment}
    options = {"cwd": ROOT, "check": True, "env": environment, "stdout": subprocess.DEVNULL}
    seconds, _ = time_call(lambda: subprocess.run(command, **options))
    return seconds


def start(browser: Any, home: str) -> dict[str, float]:
    """Seconds from the command to each stage."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    seconds = {}
    started = time.perf_counter()
    with closing(page), closing(Server(home)) as server:
        seconds["health"] = time.perf_counter() - started
        page.goto(server.url)
        page.get_by_role("link", name="Explore").wait_for(timeout=60_000)
        seconds["paint"] = time.perf_counter() - started
        page.wait_for_function(LISTS_DRAWN, timeout=300_000)
        seconds["usable"] = time.perf_counter() - started
        page.wait_for_function(READY, timeout=300_000)
        seconds["sliders"] = time.perf_counter() - started
    return seconds


def main() -> None:
    args = parse_arguments(__doc__, threads=None, runs=5)
    imports, warm, cold, embeds = [], [], [], []
    with chromium() as (browser,), tempfile.TemporaryDirectory() as home:
        start(browser, home)  # fills the cache, and the disk cache of the operating system
        for _ in range(args.runs):
            imports.append(run_python("-c", "import streamlit, torch"))
            warm.append(start(browser, home))
        for _ in range(min(3, args.runs)):
            with tempfile.TemporaryDirectory() as empty:
                embeds.append(run_python("-m", "engine.cli", "embed", "--queries", FRONTIER_HOME=f"{empty}/embeds"))
                cold.append(start(browser, f"{empty}/starts"))
    floor = statistics.median(imports)
    times = {"import streamlit, torch": imports, "embed the demo, command line, cold": embeds}
    times |= {f"warm, {stage}": [run[stage] for run in warm] for stage in STAGES}
    times |= {f"cold, {stage}": [run[stage] for run in cold] for stage in STAGES}
    rows = ((name, spread(s, 2), f"{statistics.median(s) / floor:.2f}") for name, s in times.items())
    write_page(
        args,
        "start",
        "From the command to a page with answers",
        f"{machine(('torch', 'streamlit')).replace(', one thread used', '')}. Medians; (least to most).",
        table(("what", "seconds", "times a bare import"), rows),
    )


if __name__ == "__main__":
    main()
