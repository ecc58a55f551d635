"""How long from the command to a page with answers, cold and warm, beside a bare import of streamlit and torch, and
beside embedding the demo on the command line.

python tests/bench/bench_start.py [--runs 5] > assets/results/start.md          needs Debian's chromium

The import, a warm start and the rest alternate in one run, so that a busy machine burdens them alike. Usable: the
tables of the demo's first query are drawn in a browser that was already running.
"""

import argparse
import os
import platform
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from importlib.metadata import version
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
ROWS = "document.querySelectorAll('[data-testid=stDataFrame] table tbody tr').length > 12"
STAGES = ("health", "paint", "usable")


def bare_import() -> float:
    """Seconds of a process that imports streamlit and torch and ends."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import streamlit, torch"], check=True)
    return time.perf_counter() - started


def embedding() -> float:
    """Seconds of a process that embeds the demo and its queries into an empty cache, without a page."""
    with tempfile.TemporaryDirectory() as empty:
        command = [sys.executable, "-m", "engine.cli", "embed", "--queries"]
        started = time.perf_counter()
        subprocess.run(
            command, cwd=ROOT, check=True, env={**os.environ, "FRONTIER_HOME": empty}, stdout=subprocess.DEVNULL
        )
        return time.perf_counter() - started


def start(browser: Browser, home: str) -> dict[str, float]:
    """Seconds from the command to each stage."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    seconds = {}
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "dashboard.serve", "--no-browser", "--port", str(port)],
        cwd=ROOT,
        env={**os.environ, "FRONTIER_HOME": home},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while "health" not in seconds:
            try:
                urllib.request.urlopen(f"{url}/_stcore/health", timeout=1)
                seconds["health"] = time.perf_counter() - started
            except OSError:
                time.sleep(0.02)
        page.goto(url)
        page.get_by_text("Explore", exact=True).wait_for(timeout=60_000)
        seconds["paint"] = time.perf_counter() - started
        page.wait_for_function(ROWS, timeout=300_000)
        seconds["usable"] = time.perf_counter() - started
    finally:
        page.close()
        process.send_signal(signal.SIGINT)
        process.wait(60)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    imports, warm, cold, embeds = [], [], [], []
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as home:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            chromium_sandbox=False,
            args=["--headless=new", "--disable-gpu", "--disable-background-networking", "--disable-sync"],
        )
        start(browser, home)  # fills the cache, and the disk cache of the operating system
        for _ in range(runs):
            imports.append(bare_import())
            warm.append(start(browser, home))
        for _ in range(min(3, runs)):
            with tempfile.TemporaryDirectory() as empty:
                embeds.append(embedding())
                cold.append(start(browser, empty))
        browser.close()

    floor = statistics.median(imports)
    print("# From the command to a page with answers\n")
    print(
        f"`python tests/bench/bench_start.py --runs {runs}`\n\n"
        f"{os.cpu_count()} cores, Python {platform.python_version()}, "
        f"torch {version('torch')}, streamlit {version('streamlit')}. Medians; (least to most).\n"
    )
    print("| what | seconds | times a bare import |\n| --- | --- | --- |")
    rows = [("import streamlit, torch", imports), ("embed the demo, command line, cold", embeds)]
    rows += [(f"warm, {stage}", [w[stage] for w in warm]) for stage in STAGES]
    rows += [(f"cold, {stage}", [c[stage] for c in cold]) for stage in STAGES]
    for name, values in rows:
        middle = statistics.median(values)
        print(f"| {name} | {middle:.2f} ({min(values):.2f} to {max(values):.2f}) | {middle / floor:.2f} |")


if __name__ == "__main__":
    main()
