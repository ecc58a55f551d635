"""Twenty visitors who move λ and vote, before one server process and before two behind nginx.

    python tests/bench/bench_workers.py --out assets/results

A visitor speaks the page's own protocol over a WebSocket through the proxy, with the proxy's cookie, and draws nothing:
it lets go of a slider, waits for the script run's end and thinks; or it gives a document a thumb that it has not given
before. A vote is acknowledged when the page shows it; lost is one that the log of FRONTIER_HOME lacks.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness import ROOT, machine, parse_arguments, table, write_page

from dashboard import workers
from support import warm_home
from support.browser import START
from support.processes import environment
from support.visitors import PATIENCE, Visitor

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
BASE, FIRST_PORT, PROXY_PORT = "/frontier", 21_500, 21_490
CROWDS = ((3.0, 10), (0.2, 0), (0.2, 10))
"""Seconds that a visitor thinks between two actions, and of how many actions one is a vote, 0 for none."""
QUIET_LOOKS = 100
COUNT = """
import json
from dashboard.services import corpora, feedback
job = corpora.get_loading_job(); job.join()
print(json.dumps([len(job.result.space), feedback.count_events(job.result)]))
"""
"""The documents of the corpus, and the votes in its log, as a process that comes later finds them."""


async def visit(
    visitor: Visitor, number: int, crowd_of: tuple[float, int], ready: asyncio.Barrier, until: asyncio.Future[float]
) -> str:
    """Open the page, act until the clock says so; returns the cookie of the proxy."""
    pause, every = crowd_of
    url = f"http://{workers.WORKER_HOST}:{PROXY_PORT}{BASE}/"
    cookie = await asyncio.to_thread(fetch_cookie, url)
    async with visitor.open(url, cookie=cookie):
        await ready.wait()
        end, chance = await until, random.Random(number)
        await asyncio.sleep(chance.uniform(0, pause))
        for action in range(1, 1_000_000):
            if time.monotonic() >= end:
                break
            if every and action % every == number % every:
                await visitor.vote()
            else:
                seconds = await visitor.move(round(chance.uniform(0, 1), 2))
                if time.monotonic() <= end:
                    visitor.seconds.append(seconds)
            await asyncio.sleep(chance.uniform(0.5, 1.5) * pause)
    return cookie


def fetch_cookie(url: str) -> str:
    """Fetch the cookie that the proxy sets for a new visitor."""
    with urllib.request.urlopen(url, timeout=PATIENCE) as page:
        cookies = page.headers.get_all("Set-Cookie") or []
    return next(cookie.partition(";")[0] for cookie in cookies if cookie.startswith(workers.WORKER_COOKIE))


async def crowd(
    visitors: list[Visitor], seconds: float, crowd_of: tuple[float, int], begin: Callable[[], None]
) -> list[str]:
    """Have all open the page, call `begin`, which may wait, then act for so many seconds; returns their cookies."""
    ready = asyncio.Barrier(len(visitors) + 1)
    until: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    tasks = [
        asyncio.create_task(visit(visitor, number, crowd_of, ready, until)) for number, visitor in enumerate(visitors)
    ]
    opened = asyncio.create_task(ready.wait())
    done, _ = await asyncio.wait([opened, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        await task  # a visitor who could not open the page ends the bench
    await asyncio.to_thread(begin)
    until.set_result(time.monotonic() + seconds)
    return await asyncio.gather(*tasks)


def healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{workers.WORKER_HOST}:{port}{BASE}/healthz", timeout=5) as answer:
            return json.load(answer)["status"] == "ok"
    except OSError:
        return False


@contextmanager
def run_workers(home: Path, count: int) -> Iterator[tuple[list[int], str]]:
    """Run `count` loaded workers; yield their processes and the printed lines for nginx."""
    log = home.parent / f"printed-{count}"
    flags = ["--no-browser", "--port", str(FIRST_PORT), "--base-path", BASE]
    with log.open("w") as printed:
        process = subprocess.Popen(
            [sys.executable, "-c", START, "serve", *flags, "--workers", str(count)],
            stdout=printed, stderr=subprocess.STDOUT, env=environment(FRONTIER_HOME=str(home), FRONTIER_THREADS="1"),
        )  # fmt: skip
    try:
        ports = range(FIRST_PORT, FIRST_PORT + count)
        while not all(map(healthy, ports)):
            if process.poll() is not None:
                raise RuntimeError(log.read_text())
            time.sleep(0.5)
        file = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        pids = [int(pid) for pid in file.read_text().split()] if count > 1 else [process.pid]
        match = re.search(r"^# nginx, .*?^}$(?=\n\n# Caddy)", log.read_text(), re.DOTALL | re.MULTILINE)
        yield pids, match[0] if match else workers.format_nginx(ports, BASE)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    if "Traceback" in (log_text := log.read_text()):
        raise RuntimeError(log_text)


@contextmanager
def run_proxy(folder: Path, lines: str) -> Iterator[None]:
    """An nginx of its own with these lines, of which only the port to listen at is another one."""
    if lines.count("listen 80;") != 1:
        raise RuntimeError(lines)
    lines = lines.replace("listen 80;", f"listen {workers.WORKER_HOST}:{PROXY_PORT};")
    folder.mkdir()
    paths = "".join(
        f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"pid {folder}/pid;\nevents {{}}\nhttp {{\naccess_log off;\n{paths}{lines}\n}}\n", encoding="utf-8"
    )
    process = subprocess.Popen(
        [NGINX, "-p", str(folder), "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf", "-g", "daemon off;"]
    )
    try:
        while True:
            try:
                urllib.request.urlopen(f"http://{workers.WORKER_HOST}:{PROXY_PORT}/", timeout=5)
            except urllib.error.HTTPError:
                break  # it is there, and has nothing at this address
            except OSError:
                if process.poll() is not None:
                    raise RuntimeError((folder / "error.log").read_text()) from None
                time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(60)


def megabytes(pid: int) -> tuple[float, float]:
    """A process's own anonymous memory, and its share of all (each page divided by those who have it)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) / 1000 for line in lines if line.endswith("kB")}
    return sizes["Anonymous"], sizes["Pss"]


def measure(pause: float, every: int, count: int, args: Any) -> tuple[list[str], float]:
    """A row of the table for so many workers and votes, and its moves a second."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        home = warm_home.copy(folder / "home")
        load = os.getloadavg()[0]
        with run_workers(home, count) as (pids, lines), run_proxy(folder / "nginx", lines):
            visitors = [Visitor() for _ in range(args.visitors)]
            clocks: list[list[float]] = []

            def look(all_of: Sequence[int] = (os.getpid(), *pids)) -> None:
                clocks.append([cpu_seconds(pid) for pid in all_of])

            def begin() -> None:
                wait_until_quiet(pids)
                look()

            cookies = asyncio.run(crowd(visitors, args.seconds, (pause, every), begin))
            look()
            used = [round(b - a) for a, b in zip(*clocks, strict=True)]
            memory = [megabytes(pid) for pid in pids]
        out = subprocess.run(
            [sys.executable, "-c", COUNT], env=environment(FRONTIER_HOME=str(home)), capture_output=True, check=True,
            text=True, cwd=ROOT,
        )  # fmt: skip
    documents, logged = json.loads(out.stdout.splitlines()[-1])
    seconds = [move for visitor in visitors for move in visitor.seconds]
    errors: Counter[str] = sum((visitor.errors for visitor in visitors), Counter())
    given_votes = sum(visitor.votes for visitor in visitors)
    runs: Counter[int] = sum((visitor.runs for visitor in visitors), Counter())
    print(f"{count}: errors {dict(errors)}, runs {dict(runs)}, {len(set(cookies))} cookies, {documents} documents")
    rate = len(seconds) / args.seconds
    row = [
        str(count), f"{pause:g}", f"1 in {every}" if every else "none", f"{load:.1f}", f"{len(seconds):,}",
        f"{rate:.1f}", f"{statistics.median(seconds):.2f}",
        f"{sorted(seconds)[int(0.95 * len(seconds))]:.2f}", str(sum(errors.values())), str(given_votes),
        str(given_votes - logged), " + ".join(map(str, used[1:])), str(used[0]),
        " + ".join(f"{private_mb:.0f}" for private_mb, _ in memory), " + ".join(f"{pss:.0f}" for _, pss in memory),
    ]  # fmt: skip
    return row, rate


def wait_until_quiet(pids: Sequence[int]) -> None:
    """Return once servers, which compile their methods at first, compute next to nothing."""
    for _ in range(QUIET_LOOKS):
        old_seconds = sum(map(cpu_seconds, pids))
        time.sleep(3)
        if sum(map(cpu_seconds, pids)) - old_seconds < 0.3 * len(pids):
            return
    raise RuntimeError("the servers never came to rest")


def cpu_seconds(pid: int) -> float:
    """Seconds that a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    args = parse_arguments(__doc__, visitors=20, seconds=40, counts=[1, 2])
    os.environ.setdefault("FRONTIER_HOME", str(warm_home.HOME))
    warm_home.make()
    measured = [[measure(*crowd_of, count, args) for count in args.counts] for crowd_of in CROWDS]
    version = subprocess.run([NGINX, "-v"], capture_output=True, text=True).stderr.strip().rpartition("/")[2]
    ratios = ", ".join(f"× {part[-1][1] / part[0][1]:.2f}" for part in measured)
    head = (
        "workers", "pause s", "votes", "load before", "moves", "moves a second", "median s", "95 % s", "errors",
        "votes acknowledged", "lost", "CPU s of the workers", "CPU s of the visitors", "anonymous MB", "MB by share",
    )  # fmt: skip
    write_page(
        args,
        "workers",
        "Many people: one server process and several",
        f"{machine(('torch', 'streamlit'))}; nginx {version} before both, with the lines that `frontier serve "
        "--workers` prints for so many ports, of which only the port to listen at was changed. The demo, below a "
        "base path. "
        f"{args.visitors} visitors in one process beside the workers, for {args.seconds} s: each lets go of a slider "
        f"(λ of mmr), waits for the script run's end, and thinks for the pause, half more or less; "
        "of their actions one in so many is a thumb, after which a visitor sees what everybody's votes make of the "
        "corpus: each vote of anybody then has every answer computed anew. No browser draws anything, and none "
        "asks for what a slider shows while it is dragged.",
        table(head, [row for part in measured for row, _ in part], "r"),
        f"Moves a second with {args.counts[-1]} workers against {args.counts[0]}, crowd by crowd: {ratios}. Each row "
        "is one run, begun once the servers had compiled their methods and were at rest. The "
        f"{os.cpu_count()} cores are shared by the workers, nginx, the visitors "
        "and whatever else the load before says. Anonymous memory is each worker's own, "
        "and the embeddings of the demo, which each reads from the cache, are part of it. By share: pages that several "
        "processes have count in parts. Lost is what was acknowledged less what the log holds.",
    )


if __name__ == "__main__":
    main()
