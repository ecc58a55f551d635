"""How long a thumb takes until the page shows the list that it makes, and what of that is feedback's own work.

    python tests/bench/bench_feedback.py --out assets/results

Two decoders beside each other, one document open, thumbs down and up in turn, so that every one of them changes its
score. Painted: the click to the second animation frame after a set's table had drawn the new score. Alone: in this
process, without a page, the feedback written and folded, and the corpus with its digest that comes of it.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2])]
from bench_dashboard import FLAGS, WAIT, Server, corpus, spread  # noqa: E402

DEMO = "numpy-api"
SETS = """() => new Set([...document.querySelectorAll('[data-testid=stDataFrame] table')]
    .filter(t => [...t.querySelectorAll('thead th')].some(h => h.textContent.trim() === '#'))
    .flatMap(t => [...t.querySelectorAll('tbody td')].map(d => d.textContent.trim())))"""
"""What the sets' tables show; their accessible twins follow the canvas a fifth of a second late: good for before."""
WATCH = f"""() => {{
    const shown = {SETS}, write = CanvasRenderingContext2D.prototype.fillText;
    let begun = null, before = null;
    window.__moves = [];
    const done = time => {{ begun = null; window.__moves.push(time); }};
    CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {{
        if (begun !== null && /^[01]\\.\\d{{3}}$/.test(text) && !before.has(text)) {{
            const started = begun;
            begun = null;
            requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - started)));
        }}
        return write.call(this, text, ...rest);
    }};
    document.addEventListener('click', event => {{
        if (!event.target.closest('.st-key-votes button')) return;
        before = shown();
        const started = begun = performance.now();
        setTimeout(() => {{ if (begun === started) done(null); }}, 10000);
    }}, true);
}}"""


def voted(browser, server: Server, votes: int) -> list[float]:
    """Milliseconds from click to paint, one for every vote after the first two, which make the log."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.goto(server.url)
    page.get_by_test_id("stDataFrame").nth(1).wait_for(timeout=WAIT)
    page.wait_for_timeout(5000)
    button = page.get_by_role("button", name="Bad")
    for _ in range(20):
        box = page.get_by_test_id("stDataFrame").first.bounding_box()
        page.mouse.move(box["x"] + 150, box["y"] + 78)
        page.wait_for_timeout(300)
        page.mouse.click(box["x"] + 150, box["y"] + 78)
        page.wait_for_timeout(3000)
        if button.count():
            break
    page.evaluate(WATCH)
    for at in range(votes + 2):
        page.get_by_role("button", name="Good" if at % 2 else "Bad").click()
        page.wait_for_function(f"window.__moves.length > {at}", timeout=WAIT)
        page.wait_for_timeout(1500)
    found = page.evaluate("window.__moves")
    if None in found:
        raise RuntimeError("a vote changed no set")
    return found[2:]


def alone(path: str, home: Path, votes: int) -> tuple[list[float], list[float]]:
    """Milliseconds of the feedback, and of the corpus that comes of it."""
    os.environ["FRONTIER_HOME"] = str(home)
    import torch

    torch.set_num_threads(1)
    from dashboard import state
    from dashboard.feedback import live
    from engine import orag

    job = state.loading(state.Source(path))
    job.join()
    loaded = job.result
    query = loaded.space.vectors[0].numpy()
    live.add(loaded, lambda now: orag.thumb(now, query, 1, person="first"))
    taken, made = [], []
    for at in range(votes):
        started = time.perf_counter()
        live.add(loaded, lambda now, at=at: orag.thumb(now, query, 2, up=bool(at % 2), person="me"))
        taken.append(1000 * (time.perf_counter() - started))
        started = time.perf_counter()
        live.adapted(loaded)
        made.append(1000 * (time.perf_counter() - started))
    return taken, made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, nargs="+", default=[10_000, 20_000])
    parser.add_argument("--votes", type=int, default=20)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    lines = [
        "# From a thumb to the list that it makes",
        "",
        f"`python tests/bench/bench_feedback.py --n {' '.join(map(str, options.n))} --votes {options.votes}`; "
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load "
        f"{os.getloadavg()[0]:.1f} at the start, headless Chromium without a GPU, one torch thread. Milliseconds: "
        "median (least to most). Two decoders beside each other. Painted: the click to the second animation frame "
        "after a set's table had drawn the new score. Alone: without a page, the feedback on the disk and folded; the "
        "corpus that comes of it, with its digest.",
        "",
        "| corpus | documents | painted | alone: feedback | alone: corpus |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for n in (None, *options.n):
        with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
            path = DEMO if n is None else str(corpus(Path(folder) / f"made-{n}", n))
            home = Path(folder) / "home"
            server = Server(path, home, live=True)
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), chromium_sandbox=False, args=FLAGS
            )
            try:
                painted = voted(browser, server, options.votes)
            finally:
                browser.close()
                server.end()
            taken, made = alone(path, home, options.votes)
            name, count = ("the demo", _documents()) if n is None else ("made", n)
            lines.append(f"| {name} | {count:,} | {spread(painted)} | {spread(taken)} | {spread(made)} |")
            print(lines[-1], flush=True)
    print(f"{statistics.median(painted):.0f} ms at the largest", flush=True)
    if options.out:
        (options.out / "feedback.md").write_text("\n".join([*lines, ""]), encoding="utf-8")


def _documents() -> int:
    import engine

    return len(engine.load_dataset(DEMO).corpus)


if __name__ == "__main__":
    main()
