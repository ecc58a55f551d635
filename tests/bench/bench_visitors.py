"""Visitors of one server who open pages, move λ and vote, beside a hostile link every minute.

    python tests/bench/bench_visitors.py --visitors 20 --minutes 10
    python tests/bench/bench_visitors.py --visitors 4 --minutes 60

A visitor speaks the page's own protocol and draws nothing: it opens a page chosen at random, asks for what a slider
shows as a browser does, and on Explore lets go of λ of mmr or votes; then it thinks. A hostile link asks for sets of
300 documents of seven decoders in a million iterations; three pages open it, ask for its answers and leave.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from harness import machine, memory, parse_arguments, table, write_page
from websockets.exceptions import WebSocketException

from support import warm_home
from support.browser import Server
from support.visitors import TILES, Visitor

PAGES = ("", "", "", "tradeoff", "tune", "drift", "theory", "evidence", "data")
"""Explore, the first, is opened as often as three others."""
OPENED, VOTED = 0.2, 0.1
"""Shares of a visitor's actions; the others are moves."""
PATIENCE = 120
HOSTILE = {
    "v": "1",
    "corpus": "numpy-api",
    "k": "300",
    "decoders": "mmr,dpp,nnn,max_sum,ssd,facility_location,frank_wolfe",
    "nnn.solver": "fista",
    "nnn.iterations": "1000000",
}
TABS, LEAVES_AFTER = 3, 2.0
LOOK_S = 10


@dataclass
class Record:
    """What the visitors saw, and what the server held."""

    pages: list[float] = field(default_factory=list)  # seconds until each opened page was drawn
    moves: list[float] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)  # seconds until what a slider shows was there
    votes: int = 0
    links: int = 0  # hostile ones
    errors: Counter[str] = field(default_factory=Counter)
    looks: list[tuple[float, int, int]] = field(default_factory=list)  # resident MB, threads, handles


async def visit(url: str, number: int, pause: float, end: float, record: Record) -> None:
    """Open pages and act on them until the end."""
    chance, visitor = random.Random(number), Visitor()
    await asyncio.sleep(chance.uniform(0, pause))
    while time.monotonic() < end:
        began, page = time.monotonic(), chance.choice(PAGES)
        try:
            async with visitor.open(url, page):
                record.pages.append(time.monotonic() - began)
                await act(url, visitor, chance, pause, end, record)
        except (OSError, WebSocketException) as error:
            record.errors[f"{page or 'explore'}: {type(error).__name__}: {error}"] += 1
    record.votes += visitor.votes
    record.errors += visitor.errors


async def act(url: str, visitor: Visitor, chance: random.Random, pause: float, end: float, record: Record) -> None:
    """Act on an open page until another is opened."""
    while time.monotonic() < end:
        await asyncio.sleep(chance.uniform(0.5, 1.5) * pause)
        choice = chance.random()
        if choice < OPENED or TILES not in visitor.data:
            return
        if choice < OPENED + VOTED and visitor.voted_rows < 10:
            await visitor.vote()
            continue
        record.moves.append(await visitor.move(round(chance.uniform(0, 1), 2)))
        began = time.monotonic()
        statuses = await asyncio.to_thread(fetch_answers, url, visitor, PATIENCE)
        record.answers.append(time.monotonic() - began)
        record.errors += Counter(f"an answer: {status}" for status in statuses if status != 200)


async def be_hostile(url: str, pause: float, end: float, record: Record) -> None:
    """Open the hostile link in three pages at a time, which ask for its answers and leave."""

    async def open_tab() -> None:
        tab = Visitor()
        # What becomes of it is nobody's concern.
        with suppress(Exception):
            async with asyncio.timeout(LEAVES_AFTER + PATIENCE), tab.open(url, query=urlencode(HOSTILE)):
                await asyncio.to_thread(fetch_answers, url, tab, LEAVES_AFTER)

    while time.monotonic() + pause < end:
        await asyncio.sleep(pause)
        record.links += 1
        await asyncio.gather(*(open_tab() for _ in range(TABS)))


def fetch_answers(url: str, visitor: Visitor, timeout: float) -> list[int]:
    """Ask for what the sliders of a page show; returns the statuses, 0 where the visitor left before."""
    sliders = (slider for tile in visitor.data.get(TILES, {}).get("decoders", ()) for slider in tile["sliders"])
    statuses = []
    # The last address is that of all positions.
    for address in (slider["urls"][-1] for slider in sliders if slider["urls"]):
        try:
            with urllib.request.urlopen(f"{url}{address}", timeout=timeout) as answer:
                answer.read()
                statuses.append(answer.status)
        except urllib.error.HTTPError as error:
            statuses.append(error.code)
        except OSError:
            statuses.append(0)
    return statuses


def watch(pid: int, record: Record, ended: threading.Event) -> None:
    """Note what the server holds, every ten seconds."""
    while not ended.wait(LOOK_S):
        threads, handles = (len(os.listdir(f"/proc/{pid}/{kind}")) for kind in ("task", "fd"))
        record.looks.append((memory("VmRSS", pid) / 1e6, threads, handles))


async def crowd(url: str, args: Any, record: Record) -> None:
    """Have all visitors act for so many minutes."""
    end = time.monotonic() + 60 * args.minutes
    visits = [visit(url, number, args.pause, end, record) for number in range(args.visitors)]
    hostile = [be_hostile(url, args.link_every, end, record)] if args.link_every else []
    await asyncio.gather(*visits, *hostile)


def quantile(seconds: Sequence[float], share: float) -> str:
    return f"{sorted(seconds)[min(int(share * len(seconds)), len(seconds) - 1)]:.2f}" if seconds else "–"


def main() -> None:
    args = parse_arguments(__doc__, visitors=20, minutes=10.0, pause=3.0, link_every=60.0, name="visitors")
    os.environ.setdefault("FRONTIER_HOME", str(warm_home.HOME))
    warm_home.make()
    os.environ["NUMBA_CACHE_DIR"] = str(warm_home.CODE)
    record, ended, load = Record(), threading.Event(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        server = Server(warm_home.copy(Path(folder) / "home"))
        log: list[str] = []
        threading.Thread(target=lambda: log.extend(server.process.stdout), daemon=True).start()
        watcher = threading.Thread(target=watch, args=(server.process.pid, record, ended))
        watcher.start()
        try:
            asyncio.run(crowd(server.url, args, record))
        finally:
            ended.set()
            watcher.join()
            server.process.terminate()
            server.process.wait(60)
    tracebacks = sum("Traceback" in line for line in log)
    print("".join(log[-40:]) if tracebacks else "", dict(record.errors), sep="\n")
    rows = [
        [name, f"{len(seconds):,}", f"{statistics.median(seconds):.2f}", quantile(seconds, 0.95),
         quantile(seconds, 0.99), f"{max(seconds):.2f}"]
        for name, seconds in (("pages opened", record.pages), ("moves", record.moves), ("answers", record.answers))
    ]  # fmt: skip
    # The first tenth of the looks is warm-up: code is compiled and libraries are loaded.
    looks = record.looks[max(1, len(record.looks) // 10) :]
    third = max(1, len(looks) // 3)
    held = [
        [name, *(f"{value:,.0f}" for value in (
            statistics.median(values[:third]), statistics.median(values[-third:]), max(values), values[-1]
        ))]
        for name, values in zip(
            ("resident MB", "threads", "handles"), map(list, zip(*looks, strict=True)), strict=True
        )
    ]  # fmt: skip
    write_page(
        args,
        args.name,
        f"{args.visitors} visitors for {args.minutes:g} minutes",
        f"{machine(('torch', 'streamlit'))}; load before {load:.1f}. One server, the demo, and the visitors beside it "
        f"on the same cores; a visitor thinks {args.pause:g} s, half more or less. "
        f"{record.links} times a hostile link in {TABS} pages.",
        table(("seconds", "n", "median", "95 %", "99 %", "longest"), rows, "lr"),
        table(("held", "first third, median", "last third, median", "most", "last"), held, "lr"),
        f"{record.votes} votes acknowledged; errors: {sum(record.errors.values())}; tracebacks in the server's log: "
        f"{tracebacks}.",
    )


if __name__ == "__main__":
    main()
