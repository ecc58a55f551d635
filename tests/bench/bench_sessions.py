"""Memory of the server over λ moves and corpus switches, and several people sliding at once.

python tests/bench/bench_sessions.py --out assets/results
"""

from __future__ import annotations

import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path

from bench_dashboard import corpus
from harness import machine, memory, parse_arguments, table, write_page

from support.browser import START, WAIT, Server, chromium, fill_path, idle, open_page, slider

CORPORA, SIZE = 5, 10_000
"""More than a server keeps loaded, so that every switch loads one and drops one."""
TOGETHER = 4
COMPILED = 60
"""After so many seconds a new server has compiled, beside the page, what its methods need."""
TIMED = """
import os, time
from streamlit.runtime.scriptrunner.script_runner import ScriptRunner
run = ScriptRunner._run_script
def timed(*given, **named):
    started = time.perf_counter()
    try:
        return run(*given, **named)
    finally:
        with open(os.environ['TIMES'], 'a') as file:
            file.write(f'{1000 * (time.perf_counter() - started):.1f}\\n')
ScriptRunner._run_script = timed
"""


class TimedServer(Server):
    """A server of one torch thread that notes how long each script run takes."""

    def __init__(self, home: Path, path: Path, code: str = START) -> None:
        self.times = home.parent / f"times-{id(self)}"
        super().__init__(home, "--corpus", str(path), code=TIMED + code, FRONTIER_THREADS="1", TIMES=str(self.times))

    def runs(self) -> list[float]:
        """Milliseconds that each script run took, Streamlit's own part with it."""
        return list(map(float, self.times.read_text(encoding="utf-8").split()))


def visit(browser, server: TimedServer):
    """A page of a new visitor, drawn."""
    page = open_page(browser, server.url)
    wait_until_drawn(page)
    return page


def wait_until_drawn(page) -> None:
    page.locator(".tile canvas").first.wait_for(timeout=WAIT)
    idle(page)


def time_move(server: TimedServer, pages: list, key: str) -> float:
    """Seconds until a key press on the slider of every page has been answered by a script run each."""
    n_before, started = len(server.runs()), time.perf_counter()
    for page in pages:
        slider(page).press(key)
    while len(server.runs()) < n_before + len(pages):
        if time.perf_counter() - started > WAIT / 1000:
            raise RuntimeError("a key press was never answered")
        pages[0].wait_for_timeout(5)
    return time.perf_counter() - started


def switch(page, url: str, path: Path) -> None:
    """Load a corpus on the Data page and come back to Explore."""
    page.get_by_role("link", name="Data").click()
    fill_path(page, path)
    page.wait_for_timeout(500)
    page.get_by_text("Load and embed").click()
    page.get_by_text(path.name, exact=True).first.wait_for(timeout=WAIT)
    page.wait_for_timeout(1500)
    page.get_by_role("link", name="Explore").click()
    page.locator(".st-key-header-corpus").get_by_text(path.name, exact=True).wait_for(timeout=WAIT)
    wait_until_drawn(page)


def main() -> None:
    args = parse_arguments(__doc__, moves=200, switches=30)
    curves: dict[str, list[float]] = {"λ moves": [], "corpus switches": []}
    with tempfile.TemporaryDirectory() as folder, chromium() as (browser,):
        paths = [corpus(Path(folder) / f"made{i}", SIZE, seed=i) for i in range(CORPORA)]
        with closing(TimedServer(Path(folder) / "home", paths[0])) as server:
            page = visit(browser, server)
            page.wait_for_timeout(1000 * COMPILED)
            for turn in range(args.moves + 40):
                time_move(server, [page], "ArrowLeft" if turn // 40 % 2 == 0 else "ArrowRight")
                if turn >= 40 and turn % 20 == 0:
                    curves["λ moves"].append(memory("VmRSS", server.process.pid) / 1e6)
            curves["λ moves"].append(memory("VmRSS", server.process.pid) / 1e6)
            for turn in range(args.switches + CORPORA):
                switch(page, server.url, paths[(turn + 1) % CORPORA])
                if turn >= CORPORA:
                    curves["corpus switches"].append(memory("VmRSS", server.process.pid) / 1e6)
            keys = ["ArrowLeft" if turn // 10 % 2 == 0 else "ArrowRight" for turn in range(20)]
            alone = [time_move(server, [page], key) for key in keys]
            pages = [page, *(visit(browser, server) for _ in range(TOGETHER - 1))]
            together = [time_move(server, pages, key) for key in keys]
            errors = sum(page.get_by_test_id("stException").count() for page in pages)
    rows = (
        (f"{name}, {len(curve)} looks", *(f"{mb:.0f}" for mb in (curve[0], min(curve), max(curve), curve[-1])))
        for name, curve in curves.items()
    )
    write_page(
        args,
        "sessions",
        "Memory, and several people at once",
        f"{machine(('torch', 'streamlit'))}. {CORPORA} made corpora of {SIZE:,} documents with 384 numbers each; "
        "resident memory of the server in MB, after a warm-up.",
        table(("", "first", "least", "most", "last"), rows, "lr"),
        f"A λ move alone: median {1000 * statistics.median(alone):.0f} ms until its script run has ended; {TOGETHER} "
        f"sessions moving at once: {1000 * statistics.median(together):.0f} ms until all have, {errors} errors.",
    )


if __name__ == "__main__":
    main()
