"""How long a slider's key press takes until the map shows it, beside the same page on st.plotly_chart.

    python tests/bench/bench_dashboard.py --out assets/results

Two servers, two browsers, taken in turn: one with the live plot, one where `st.plotly_chart` draws. Four decoders are
chosen, the map is open and zoomed, and λ of one decoder is moved by keys. Paint: from the key event to the second
animation frame after the overlay's data changed; the tiles change at once, and tell the server after a tenth of a
second without another key. Server: the script run, Streamlit's own part with it.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import torch
from harness import arguments, machine, spread, table, timed, write_page
from selector_data import clustered

import engine
from engine.values import Embeddings
from support.browser import START, WAIT, Server, chromium, open_page, slider, view
from support.processes import started

DECODERS = ("mmr", "frank_wolfe", "nnn")
PLAIN = "import dashboard.components.live_plot as p; p.available = lambda: False; "
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
SIGNATURE = """() => {
    const plot = document.querySelector('.js-plotly-plot');
    if (!plot || !plot.data) return null;
    return JSON.stringify(plot.data.filter(t => t.name && t.showlegend !== false && t.mode === 'markers')
        .map(t => Array.from(t.x ?? [])));
}"""
WATCH = f"""() => {{
    const now = {SIGNATURE};
    window.__moves = [];
    const input = window.__input;
    input.addEventListener('keydown', event => {{
        if (!event.key.startsWith('Arrow') && !event.key.startsWith('Page')) return;
        const before = now(), started = performance.now();
        const look = () => {{
            const after = now();
            if (after !== null && after !== before)
                requestAnimationFrame(() => requestAnimationFrame(
                    () => window.__moves.push(performance.now() - started)));
            else if (performance.now() - started < 6000) requestAnimationFrame(look);
            else window.__moves.push(null);
        }};
        requestAnimationFrame(look);
    }}, true);
}}"""


def corpus(folder: Path, n: int, seed: int = 0) -> Path:
    """A made corpus with its vectors: clusters of near-duplicates, so that every λ has something to do."""
    folder.mkdir(parents=True)
    rows = ({"_id": f"d{i}", "title": f"document {i}", "text": f"the text of document {i}"} for i in range(n))
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    np.save(folder / "vectors.npy", clustered(n, 384, seed).vectors.numpy())
    return folder


def mapped(path: Path, home: Path) -> None:
    """Make the map beforehand, so that no server is busy with it."""
    code = (
        "import sys, torch; torch.set_num_threads(1); import engine; d = engine.load_dataset(sys.argv[1]);"
        "engine.layout(engine.Space(d.corpus, d.vectors))"
    )
    if started("-c", code, str(path), quiet=True, FRONTIER_HOME=str(home)).wait():
        raise RuntimeError("the map was not made")


class TimedServer(Server):
    """A server of one torch thread that notes how long each script run takes."""

    def __init__(self, home: Path, path: Path, code: str = START) -> None:
        self.times = home.parent / f"times-{id(self)}"
        super().__init__(home, "--corpus", str(path), code=TIMED + code, FRONTIER_THREADS="1", TIMES=str(self.times))

    def runs(self) -> list[float]:
        """Milliseconds that each script run took, Streamlit's own part with it."""
        return list(map(float, self.times.read_text(encoding="utf-8").split()))


class Session:
    """One browser page with the four decoders and the map, and the times of what its slider does."""

    def __init__(self, browser, server: TimedServer) -> None:
        self.server = server
        self.page = page = open_page(browser, server.url)
        page.locator(".tile canvas").first.wait_for(timeout=WAIT)
        page.get_by_role("button", name="Decoders and settings").click()
        choice = page.get_by_role("toolbar", name="Decoders")
        for name in DECODERS[1:]:
            choice.get_by_role("button", name=engine.methods()[name].title).click()
            page.wait_for_timeout(1500)
        page.keyboard.press("Escape")
        view(page, "Map")
        plot = page.locator(".js-plotly-plot").first
        plot.wait_for(timeout=WAIT)
        page.wait_for_timeout(4000)
        self.slider = slider(page)
        self.slider.evaluate("element => { window.__input = element; }")
        page.evaluate(WATCH)
        box = plot.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.wheel(0, -200)
        page.wait_for_timeout(2500)
        self.zoom = self.range()

    def range(self) -> list[float]:
        return self.page.evaluate("document.querySelector('.js-plotly-plot').layout.xaxis.range.map(Number)")

    def move(self, key: str) -> tuple[float | None, float]:
        """Milliseconds until painted, None where the sets did not change, and those of the script run."""
        count = self.page.evaluate("window.__moves.length")
        self.slider.focus()
        self.slider.press(key)
        self.page.wait_for_function(f"window.__moves.length > {count}", timeout=WAIT)
        self.page.wait_for_timeout(600)
        return self.page.evaluate("window.__moves.at(-1)"), self.server.runs()[-1]

    def zoom_kept(self) -> bool:
        return bool(np.allclose(self.range(), self.zoom, rtol=1e-6))


def floor(path: Path, moves: int) -> tuple[float, float]:
    """Milliseconds of one λ move in this process: of the decoder, and of torch's product and topk."""
    dataset = engine.load_dataset(str(path))
    space = engine.Space(dataset.corpus, dataset.vectors)
    query = Embeddings(space.vectors[:1].cpu(), ("q",), None)
    moves_ms, search_ms = [], []
    for i in range(moves):
        decoder = engine.Decoder(engine.make("mmr", relevance_weight=0.3 + 0.6 * i / moves))
        moves_ms.append(1000 * timed(lambda decoder=decoder: engine.decode(decoder, space, query, k=10))[0])
        search_ms.append(1000 * timed(lambda: torch.topk(space.vectors @ query.vectors[0], 10))[0])
    return statistics.median(moves_ms), statistics.median(search_ms)


def race(path: Path, home: Path, moves: int) -> dict[str, tuple[list[float], list[float], bool]]:
    """Milliseconds painted, and of the script run, by chart; and whether it kept its zoom."""
    codes = {"live plot": START, "st.plotly_chart": PLAIN + START}
    with chromium(len(codes)) as browsers, ExitStack() as stack:
        servers = [stack.enter_context(closing(TimedServer(home, path, code))) for code in codes.values()]
        sessions = dict(zip(codes, map(Session, browsers, servers), strict=True))
        painted, served = ({name: [] for name in sessions} for _ in range(2))
        zoomed = dict.fromkeys(sessions, True)
        for turn in range(4 * moves):
            key = "PageDown" if turn // 4 % 2 == 0 else "PageUp"
            for name, session in sessions.items():
                if turn % 4 == 0:
                    session.move("ArrowLeft")  # no value comes twice, so no answer is remembered
                paint_ms, server_ms = session.move(key)
                zoomed[name] &= session.zoom_kept()
                if paint_ms is not None:
                    painted[name].append(paint_ms)
                    served[name].append(server_ms)
            if min(map(len, painted.values())) >= moves:
                break
    return {name: (painted[name], served[name], zoomed[name]) for name in sessions}


def main() -> None:
    given = arguments(__doc__, n=[10_000], moves=20)
    rows, ratios = [], []
    for n in given.n:
        with tempfile.TemporaryDirectory() as folder:
            path, home = corpus(Path(folder) / f"made-{n}", n), Path(folder) / "home"
            mapped(path, home)
            times = race(path, home, given.moves)
            decode_ms, search_ms = floor(path, given.moves)
        for name, (painted, served, zoomed) in times.items():
            alone = (f"{decode_ms:.1f}", f"{search_ms:.2f}")
            rows.append((f"{n:,}", name, spread(painted), spread(served), "yes" if zoomed else "no", *alone))
        live, plain = (statistics.median(painted) for painted, _, _ in times.values())
        ratios.append(f"{n:,} documents: the live plot paints {plain / live:.1f} × sooner.")
    head = ("documents", "chart", "painted", "server", "zoom kept", "alone: the decoder", "product and topk")
    write_page(
        given,
        "dashboard",
        "A slider's key press on the map",
        f"{machine(('torch', 'streamlit'))}; headless Chromium without a GPU. Milliseconds: median (least to most). "
        "Four decoders chosen, λ of one moved, the map zoomed in. Painted: key event to the second animation frame "
        "with the new sets. Server: the script run, Streamlit's own part with it.",
        table(head, rows, "rlrrlr"),
        ratios,
    )


if __name__ == "__main__":
    main()
