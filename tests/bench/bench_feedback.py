"""How long a thumb takes until the page shows the list that it makes, and what of that is feedback's own work.

    python tests/bench/bench_feedback.py --out assets/results

Two decoders beside each other, one document open, thumbs down and up in turn, so that every one of them changes its
score. Painted: the click to the second animation frame after a set's table had drawn the new score. Alone: in this
process, without a page, the feedback written and folded, and the corpus with its digest that comes of it.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import closing
from pathlib import Path

from bench_dashboard import corpus
from harness import machine, parse_arguments, spread, table, time_call, write_page

import engine
from support.browser import WAIT, Server, chromium, open_page, read_first

DEMO = "numpy-api"
SETS = """() => new Set([...document.querySelectorAll('[data-testid=stDataFrame] table')]
    .filter(t => [...t.querySelectorAll('thead th')].some(h => h.textContent.trim() === '#'))
    .flatMap(t => [...t.querySelectorAll('tbody td')].map(d => d.textContent.trim())))"""
"""What the sets' tables show; their accessible twins follow the canvas a fifth of a second late: good for before."""
OBSERVER = f"""() => {{
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


def time_votes(browser, server: Server, votes: int) -> list[float]:
    """Milliseconds from click to paint, one for every vote after the first two, which make the log."""
    page = open_page(browser, server.url)
    page.get_by_test_id("stDataFrame").nth(1).wait_for(timeout=WAIT)
    page.wait_for_timeout(5000)
    read_first(page)
    page.evaluate(OBSERVER)
    for turn in range(votes + 2):
        page.get_by_role("button", name="Good" if turn % 2 else "Bad").click()
        page.wait_for_function(f"window.__moves.length > {turn}", timeout=WAIT)
        page.wait_for_timeout(1500)
    times = page.evaluate("window.__moves")
    if None in times:
        raise RuntimeError("a vote changed no set")
    return times[2:]


def alone(path: str, home: Path, votes: int) -> tuple[list[float], list[float]]:
    """Milliseconds of the feedback, and of the corpus that comes of it."""
    os.environ["FRONTIER_HOME"] = str(home)
    from dashboard.services import corpora, feedback
    from dashboard.services.source import Source
    from engine import orag

    job = corpora.get_loading_job(Source(path))
    job.join()
    loaded = job.result
    query, log = loaded.space.vectors[0].numpy(), feedback.open_or_create_log(loaded)
    log.feed(orag.thumb(log.session, query, 1, person="first"))
    feedback_ms, corpus_ms = [], []
    for turn in range(votes):
        vote = orag.thumb(log.session, query, 2, bool(turn % 2), person="me")
        feedback_ms.append(1000 * time_call(log.feed, vote)[0])
        corpus_ms.append(1000 * time_call(feedback.adapt_corpus, loaded)[0])
    return feedback_ms, corpus_ms


def main() -> None:
    args = parse_arguments(__doc__, n=[10_000, 20_000], votes=20)
    load, rows = os.getloadavg()[0], []
    for n in (None, *args.n):
        with tempfile.TemporaryDirectory() as folder:
            path = DEMO if n is None else str(corpus(Path(folder) / f"made-{n}", n))
            home = Path(folder) / "home"
            with chromium() as (browser,), closing(Server(home, "--corpus", path, FRONTIER_THREADS="1")) as server:
                painted = time_votes(browser, server, args.votes)
            name, count = ("the demo", len(engine.load_dataset(DEMO).corpus)) if n is None else ("made", n)
            rows.append((name, f"{count:,}", spread(painted), *map(spread, alone(path, home, args.votes))))
            print(rows[-1], flush=True)
    write_page(
        args,
        "feedback",
        "From a thumb to the list that it makes",
        f"{machine(('torch', 'streamlit'))}; load {load:.1f} at the start, headless Chromium without a GPU. "
        "Milliseconds: median (least to most). Two decoders beside each other. Painted: the click to the second "
        "animation frame after a set's table had drawn the new score. Alone: without a page, the feedback on the disk "
        "and folded; the corpus that comes of it, with its digest.",
        table(("corpus", "documents", "painted", "alone: feedback", "alone: corpus"), rows, "lr"),
    )


if __name__ == "__main__":
    main()
