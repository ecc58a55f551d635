"""Frames of every drag: λ, equal diversity and the wall on Explore, the budget and the dot on Trade-off.

    python tests/bench/bench_gestures.py

The mouse holds each control and moves it to and fro for four seconds in steps of 8 ms, on the demo. Frame: from one
animation frame of the browser to the next. Long task: what keeps the page busy for 50 ms or more. Sent: messages to the
server while the button is down.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from harness import machine, parse_arguments, table, write_page
from playwright.sync_api import Error as PlaywrightError

from support import warm_home
from support.browser import WAIT, Server, chromium, idle, open_page, slide, until, view

SECONDS, STEP_MS = 4.0, 8
DECODERS = "top_k,mmr,dpp,nnn"
READY = "globalThis.frontier?.paths?.size && [...globalThis.frontier.paths.values()].every(path => path)"
RECORD = """() => {
    const record = window.record = { frames: [], tasks: [] };
    let last;
    const look = now => {
        if (last !== undefined) record.frames.push(now - last);
        last = now;
        record.next = requestAnimationFrame(look);
    };
    record.observer = new PerformanceObserver(list => record.tasks.push(...list.getEntries().map(e => e.duration)));
    record.observer.observe({ entryTypes: ['longtask'] });
    record.next = requestAnimationFrame(look);
}"""
STOP = """() => {
    cancelAnimationFrame(window.record.next);
    window.record.observer.disconnect();
    return [window.record.frames, window.record.tasks];
}"""


def open_explore(page: Any, server: Server) -> None:
    """Open the demo with four decoders, and wait until every λ of theirs is there."""
    page.goto(f"{server.url}/?v=1&corpus=numpy-api&decoders={DECODERS}")
    page.locator(".tile.touched canvas").first.wait_for(timeout=WAIT)
    page.wait_for_function(READY, timeout=WAIT)
    switch = page.get_by_role("group", name="Decoder").get_by_text("MMR", exact=True)
    if switch.is_visible():
        switch.click()  # a narrow window shows one tile
    idle(page)


def open_wall(page: Any, server: Server) -> None:
    """Open the check-up, and wait until every λ of all its queries is there."""
    open_explore(page, server)
    view(page, "Check-up")
    page.locator(".check-up .frontier-wall button").first.wait_for(timeout=WAIT)
    until(page, lambda: page.locator(".check-up input[type=range]").is_enabled())


def open_tradeoff(page: Any, server: Server) -> None:
    """Open Trade-off with few steps, and wait until all is measured."""
    page.goto(f"{server.url}/tradeoff")
    page.get_by_text("Setup", exact=True).click(timeout=WAIT)
    slide(page, "Home", "steps per parameter")
    page.keyboard.press("Escape")
    page.get_by_text(re.compile("Mean of .* queries")).first.wait_for(timeout=3 * WAIT)
    until(page, lambda: page.get_by_text("Wins and losses", exact=True).count() == 1)
    until(page, lambda: all(page.get_by_text(name, exact=True).count() == 0 for name in ("Cancel", "Pause")))
    idle(page)


Gesture = tuple[str, Callable[[Any, Server], None], Callable[[Any], Any], str]
"""Name, how its page is opened, its control, and "across" or "down", which way it moves."""
GESTURES: tuple[Gesture, ...] = (
    ("λ of MMR", open_explore, lambda page: page.get_by_role("slider", name="MMR λ", exact=True), "across"),
    ("equal diversity", open_explore, lambda page: page.get_by_label("Diversity of all decoders"), "across"),
    ("the wall's λ", open_wall, lambda page: page.locator(".check-up input[type=range]"), "across"),
    ("budget", open_tradeoff, lambda page: page.get_by_role("slider", name="Budget"), "down"),
    ("dot", open_tradeoff, lambda page: page.locator(".frontier-scrub input"), "across"),
)  # fmt: skip


def drag(page: Any, control: Any, way: str, sent: list[int]) -> tuple[list[float], list[float], int]:
    """Drag a control to and fro; return the lengths of the frames and of long tasks, ms, and the messages sent."""
    control.scroll_into_view_if_needed()
    page.wait_for_timeout(1000)
    box = control.bounding_box()
    n_steps, turns = int(1000 * SECONDS / STEP_MS), 4
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def move_to(share: float) -> None:
        across = way == "across"
        place = box["x"] + 10 + (box["width"] - 20) * share
        page.mouse.move(place if across else x, y if across else y - 20 + 60 * share)

    move_to(0.8)
    page.mouse.down()
    page.wait_for_timeout(300)
    n_sent = len(sent)
    page.evaluate(RECORD)
    for step in range(n_steps):
        phase = turns * step / n_steps % 2
        move_to(0.98 - 0.93 * min(phase, 2 - phase))
        page.wait_for_timeout(STEP_MS)
    frames, tasks = page.evaluate(STOP)
    n_while_held = len(sent) - n_sent
    page.mouse.up()
    idle(page)
    return frames, tasks, n_while_held


def main() -> None:
    args = parse_arguments(__doc__)
    os.environ["NUMBA_CACHE_DIR"] = str(warm_home.CODE)
    rows = []
    with tempfile.TemporaryDirectory() as folder, chromium() as (browser,):
        home = Path(folder) / "home"
        os.environ["FRONTIER_HOME"] = str(home)
        warm_home.make()
        warm_home.copy(home)
        with closing(Server(home, FRONTIER_THREADS="1")) as server:
            for name, open_its_page, find, way in GESTURES:
                for label, width, height in (("1440 × 900", 1440, 900), ("390 × 844", 390, 844)):
                    sent: list[int] = []
                    page = open_page(browser, "about:blank")
                    page.set_viewport_size({"width": width, "height": height})
                    page.on("websocket", lambda s, sent=sent: s.on("framesent", lambda text: sent.append(len(text))))
                    open_its_page(page, server)
                    control = find(page).first
                    with suppress(PlaywrightError):
                        control.wait_for(timeout=20_000)
                    if not control.is_visible():
                        rows.append((name, label, *["not shown"] * 5))
                        continue
                    frames, tasks, n_sent = drag(page, control, way, sent)
                    frames.sort()
                    late = frames[int(0.95 * (len(frames) - 1))]
                    figures = (f"{frames[len(frames) // 2]:.1f}", f"{late:.1f}", f"{frames[-1]:.0f}")
                    rows.append((name, label, *figures, f"{len(tasks)}", f"{n_sent}"))
                    print(*rows[-1], f"load {os.getloadavg()[0]:.1f}", flush=True)
                    page.context.close()
    head = ("drag", "window", "frame, median ms", "95%", "longest", "long tasks", "sent")
    words = " ".join(__doc__.split("\n\n")[2].split())
    write_page(
        args, "gestures", "Frames of every drag",
        f"{machine(('streamlit',))}; headless Chromium without a GPU. {words}", table(head, rows, "ll"),
    )  # fmt: skip


if __name__ == "__main__":
    main()
