"""Memory of the server over λ moves and corpus switches, and several people sliding at once.

python tests/bench/bench_sessions.py --out assets/results
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from bench_dashboard import FLAGS, WAIT, Server, corpus

CORPORA, SIZE = 5, 10_000
"""More than a server keeps loaded, so that every switch loads one and drops one."""
TOGETHER = 4
COMPILED = 60
"""After so many seconds a new server has compiled, beside the page, what its methods need."""


def megabytes(pid: int) -> float:
    """Resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.split("VmRSS:")[1].split()[0]) / 1000


def slider(page):
    return page.get_by_test_id("stSlider").filter(has_text="relevance weight").first.locator("input[type=range]")


def ready(page) -> None:
    page.get_by_test_id("stMetric").first.wait_for(timeout=WAIT)
    page.get_by_test_id("stStatusWidget").wait_for(state="hidden", timeout=WAIT)


def moved(server: Server, pages: list, key: str) -> float:
    """Seconds until a key press on the slider of every page has been answered by a script run each."""
    before, started = server.runs(), time.perf_counter()
    for page in pages:
        slider(page).press(key)
    while server.runs() < before + len(pages):
        if time.perf_counter() - started > WAIT / 1000:
            raise RuntimeError("a key press was never answered")
        pages[0].wait_for_timeout(5)
    return time.perf_counter() - started


def switch(page, url: str, path: Path) -> None:
    """Load a corpus on the Data page and come back to Explore."""
    page.get_by_role("link", name="Data").click()
    page.get_by_text("Path", exact=True).click()
    box = page.get_by_label("File or folder on this machine")
    box.fill(str(path))
    box.press("Enter")
    page.wait_for_timeout(500)
    page.get_by_text("Load and embed").click()
    page.get_by_test_id("stSidebar").get_by_text(path.name).or_(page.get_by_text(path.name, exact=True)).first.wait_for(
        timeout=WAIT
    )
    page.wait_for_timeout(1500)
    page.get_by_role("link", name="Explore").click()
    page.get_by_test_id("stSidebar").get_by_text(path.name, exact=True).wait_for(timeout=WAIT)
    ready(page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moves", type=int, default=200)
    parser.add_argument("--switches", type=int, default=30)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        paths = [corpus(Path(folder) / f"made{i}", SIZE, seed=i) for i in range(CORPORA)]
        server = Server(paths[0], Path(folder) / "home", live=True)
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), chromium_sandbox=False, args=FLAGS
        )
        try:
            page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
            page.goto(server.url)
            ready(page)
            curves: dict[str, list[float]] = {"λ moves": [], "corpus switches": []}
            page.wait_for_timeout(1000 * COMPILED)
            for at in range(options.moves + 40):
                moved(server, [page], "ArrowLeft" if at // 40 % 2 == 0 else "ArrowRight")
                if at >= 40 and at % 20 == 0:
                    curves["λ moves"].append(megabytes(server.process.pid))
            curves["λ moves"].append(megabytes(server.process.pid))
            for at in range(options.switches + CORPORA):
                switch(page, server.url, paths[(at + 1) % CORPORA])
                if at >= CORPORA:
                    curves["corpus switches"].append(megabytes(server.process.pid))
            keys = ["ArrowLeft" if at // 10 % 2 == 0 else "ArrowRight" for at in range(20)]
            alone = [moved(server, [page], key) for key in keys]
            pages = [page]
            for _ in range(TOGETHER - 1):
                other = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
                other.goto(server.url)
                ready(other)
                pages.append(other)
            together = [moved(server, pages, key) for key in keys]
            wrong = sum(own.get_by_test_id("stException").count() for own in pages)
        finally:
            browser.close()
            server.end()
    lines = [
        "# Memory, and several people at once",
        "",
        f"`python tests/bench/bench_sessions.py --moves {options.moves} --switches {options.switches}`; "
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores. {CORPORA} made corpora of {SIZE:,} "
        "documents with 384 numbers each; resident memory of the server in MB, after a warm-up.",
        "",
        "| | first | least | most | last |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(
            f"| {what}, {len(curve)} looks | {curve[0]:.0f} | {min(curve):.0f} | {max(curve):.0f} | {curve[-1]:.0f} |"
            for what, curve in curves.items()
        ),
        "",
        f"A λ move alone: median {1000 * statistics.median(alone):.0f} ms until its script run has ended; {TOGETHER} "
        f"sessions moving at once: {1000 * statistics.median(together):.0f} ms until all have, {wrong} errors.",
        "",
    ]
    print("\n".join(lines))
    if options.out:
        (options.out / "sessions.md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
