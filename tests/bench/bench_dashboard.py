"""What a slider costs: frames of a drag, bytes, a key press, another query; on the demo and on made corpora.

    python tests/bench/bench_dashboard.py --n 10000 --out assets/results

Four decoders stand beside each other (top_k, mmr, dpp, nnn), the map is open. Drag: MMR's λ in 60 moves over two
seconds; a frame is what our script does in an animation frame in which a set changes, tiles, lists and map together.
Key: from the event to the second animation frame after. Query: from the key to the first animation frame with the new
query's sets, to the answers of every slider at λ ≥ ½, and to those at all its positions. Bytes: of a query's sliders as
they are transferred, and of all messages in both directions after a release. Releases: at how many of 200 random
positions of MMR's, DPP's and NNN's sliders the server's answer, id by id, is what was drawn before they were let go.
"""

from __future__ import annotations

import json
import random
import tempfile
from contextlib import closing
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from harness import machine, parse_arguments, spread, table, write_page
from selector_data import clustered

from support.browser import WAIT, Server, chromium, idle, open_page, view
from support.processes import start_python

DECODERS = "top_k,mmr,dpp,nnn"
MOVES, SECONDS = 60, 2.0
KEYS, QUERIES = 20, 8
RELEASES = 200
READY = "frontier.paths?.size && [...frontier.paths.values()].every(path => path)"
NEXT = """key => new Promise(resolve => {
    const before = frontier.shown.query, asked = performance.now();
    let painted = null, first = null;
    const look = () => {
        const now = performance.now() - asked, { shown, paths } = frontier;
        if (shown && shown.query !== before) {
            painted ??= now;
            const sliders = shown.decoders.flatMap(decoder => decoder.sliders);
            if (sliders.every(slider => paths.get(slider.urls[0]))) first ??= now;
            const all = sliders.flatMap(slider => slider.urls).every(url => paths.get(url));
            if (all) return resolve([painted, first, now]);
        }
        if (now < 30000) requestAnimationFrame(look);
    };
    document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, composed: true }));
    requestAnimationFrame(look);
})"""
KEY = """input => new Promise(resolve => {
    const asked = performance.now();
    input.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowLeft', bubbles: true, composed: true }));
    requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - asked)));
})"""
LET_GO = """async ([label, share]) => {
    const roots = [...document.querySelectorAll('*')].map(node => node.shadowRoot).filter(Boolean);
    const input = roots.flatMap(root => [...root.querySelectorAll('input[type=range]')])
        .find(input => input.ariaLabel === label);
    const frame = () => new Promise(requestAnimationFrame);
    const decoder = () => frontier.shown.decoders.find(decoder => label.startsWith(decoder.title));
    const value = () => decoder().sliders[0].value, before = value(), place = input.value;
    input.value = Math.round(share * input.max);
    if (input.value === place) return [];
    input.dispatchEvent(new Event('input'));
    await frame(), await frame();
    const drawn = decoder().set.rows, asked = performance.now();
    input.dispatchEvent(new Event('change'));
    while (value() === before && performance.now() - asked < 10000) await frame();
    return value() === before ? null : [String(drawn), String(decoder().now.rows)];
}"""


def corpus(folder: Path, n: int, seed: int = 0) -> Path:
    """A made corpus with its vectors: clusters of near-duplicates, so that every λ has something to do."""
    folder.mkdir(parents=True)
    rows = ({"_id": f"d{i}", "title": f"document {i}", "text": f"the text of document {i}"} for i in range(n))
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    np.save(folder / "vectors.npy", clustered(n, 384, seed).vectors.numpy())
    return folder


def map_corpus(path: str, home: Path) -> None:
    """Make the map beforehand, so that no server is busy with it."""
    code = (
        "import sys, torch; torch.set_num_threads(1); import engine; d = engine.load_dataset(sys.argv[1]);"
        "v = d.vectors if d.vectors is not None else engine.embed(d.corpus); engine.layout(engine.Space(d.corpus, v))"
    )
    if start_python("-c", code, path, quiet=True, FRONTIER_HOME=str(home)).wait():
        raise RuntimeError("the map was not made")


def another_query(page, turn: int) -> tuple[float, float, float]:
    """Milliseconds to the first paint of another query, to the first part of its sliders' answers, and to all."""
    box = page.locator("input[aria-label='Document id']")
    if box.count():
        # Without labelled queries a document is the query, and its id is typed.
        box.fill(f"d{100 + turn}")
        wait = page.evaluate_handle("() => ({ answer: (%s)('Escape') })" % NEXT)  # noqa: UP031
        box.press("Enter")
        return tuple(wait.evaluate("handle => handle.answer"))
    return tuple(page.evaluate(f"({NEXT})('j')"))


def count_equal_releases(page) -> str:
    """Count the sliders' random positions that the server answers as the page drew them."""
    source, answers, labels = random.Random(0), [], cycle(("MMR λ", "DPP λ", "NNN λ₁"))
    while len(answers) < RELEASES:
        label = next(labels)
        answer = page.evaluate(LET_GO, [label, source.random()])
        if answer is None:
            raise RuntimeError(f"the server never answered {label}")
        answers += [answer] if answer else []  # none where it stood there already
    return f"{sum(drawn_rows == answered_rows for drawn_rows, answered_rows in answers)} of {RELEASES}"


def measure_pages(browser, server: Server, corpus_name: str) -> dict[str, Any]:
    page = open_page(browser, "about:blank")
    sent, got, answers = [], [], []
    page.on("websocket", lambda socket: socket.on("framesent", lambda text: sent.append(len(text))))
    page.on("websocket", lambda socket: socket.on("framereceived", lambda text: got.append(len(text))))
    network = page.context.new_cdp_session(page)
    network.send("Network.enable")
    urls = {}
    network.on("Network.requestWillBeSent", lambda e: urls.update({e["requestId"]: e["request"]["url"]}))
    network.on(
        "Network.loadingFinished",
        lambda e: answers.append(e["encodedDataLength"]) if "/answers/" in urls.get(e["requestId"], "") else None,
    )
    page.goto(f"{server.url}/?v=1&corpus={corpus_name}&decoders={DECODERS}")
    page.locator(".tile canvas").first.wait_for(timeout=WAIT)
    page.wait_for_function(READY, timeout=WAIT)
    view(page, "Map")
    page.locator(".js-plotly-plot").first.wait_for(timeout=WAIT)
    page.wait_for_timeout(4000)
    idle(page)
    slider = page.get_by_role("slider", name="MMR λ", exact=True)
    box = slider.bounding_box()

    def point_at(share: float) -> tuple[float, float]:
        return box["x"] + 8 + (box["width"] - 16) * share, box["y"] + box["height"] / 2

    page.evaluate("frontier.log = []")
    page.mouse.move(*point_at(0.8))
    page.mouse.down()
    page.wait_for_timeout(300)
    n_sent = len(sent)
    for step in range(MOVES):
        page.mouse.move(*point_at(0.98 - 0.93 * step / (MOVES - 1)))
        page.wait_for_timeout(1000 * SECONDS / MOVES)
    while_held = len(sent) - n_sent
    frames = page.evaluate("frontier.log.filter(entry => entry.changed).map(entry => entry.took)")
    counts = len(sent), len(got)
    page.mouse.up()
    page.wait_for_timeout(3000)
    released = sum(sent[counts[0] :]) + sum(got[counts[1] :])
    keys = []
    for _ in range(KEYS):
        slider.focus()
        keys.append(slider.evaluate(KEY))
        page.wait_for_timeout(400)
    idle(page)
    equal = count_equal_releases(page)
    idle(page)
    turns, first = [], len(answers)
    for turn in range(QUERIES):
        turns.append(another_query(page, turn))
        page.wait_for_timeout(1500)
    return {
        "frames": frames,
        "sent while held": [while_held],
        "released": [released],
        "keys": keys,
        "releases": equal,
        "painted": [turn[0] for turn in turns],
        "first answers": [turn[1] for turn in turns],
        "all answers": [turn[2] for turn in turns],
        "a query's bytes": [sum(answers[first:]) / QUERIES],
    }


def main() -> None:
    args = parse_arguments(__doc__, n=[10_000])
    rows = []
    with tempfile.TemporaryDirectory() as folder, chromium() as (browser,):
        generated = {f"made, {n:,}": str(corpus(Path(folder) / f"made-{n}", n)) for n in args.n}
        for name, path in {"numpy-api": "numpy-api", **generated}.items():
            home = Path(folder) / f"home-{len(rows)}"
            map_corpus(path, home)
            with closing(Server(home, "--corpus", path, FRONTIER_THREADS="1")) as server:
                figures = measure_pages(browser, server, path)
            frames = sorted(figures["frames"])
            late = frames[int(0.95 * len(frames))]
            row = (spread(frames, 1), f"{late:.1f}", f"{figures['sent while held'][0]:.0f}", spread(figures["keys"]))
            sizes = (f"{figures[name][0] / 1000:.1f}" for name in ("a query's bytes", "released"))
            rows.append(
                (
                    name,
                    *row,
                    figures["releases"],
                    *(spread(figures[name]) for name in ("painted", "first answers", "all answers")),
                    *sizes,
                )
            )
    head = (
        "corpus",
        "frame",
        "95%",
        "sent while held",
        "key",
        "releases",
        "query painted",
        "λ ≥ ½",
        "all λ",
        "kB a query",
    )
    head += ("kB a release",)
    write_page(
        args,
        "dashboard",
        "A slider on Explore",
        f"{machine(('torch', 'streamlit'))}; headless Chromium without a GPU. Milliseconds: median (least to most). "
        + " ".join(__doc__.split("\n\n")[2].split()),
        table(head, rows, "lr"),
    )


if __name__ == "__main__":
    main()
