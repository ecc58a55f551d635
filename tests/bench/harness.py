"""What the benches share: one thread, the checkout's engine, a clock, Markdown pages, and a browser."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "assets" / "results"
# The checkout is measured, whatever copy of the engine is installed.
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

Say = Callable[[str], None]
WHITE_SHEET = {"template": "plotly_white", "width": 1100, "height": 620}
"""Layout of a figure in a page."""
Block = str | list[str]
"""A paragraph, or lines: of a table or a list."""
Part = tuple[str, Callable[[argparse.Namespace, Say], Any], Callable[[Any], list[Block]]]
"""Title, what measures the raw figures, and what makes Markdown of them."""


class Judged(NamedTuple):
    """A judged set: its data set and space, and the vectors and judgements of one split's queries."""

    dataset: Any
    space: Any
    queries: Any
    qrels: Any


def one_thread() -> None:
    """Keep this process and those that it starts on one thread."""
    names = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB_MAXIMUM")
    os.environ.update({f"{name}_NUM_THREADS": "1" for name in names})
    threadpool_limits(1)
    torch.set_num_threads(1)


def options(doc: str, data: bool = False) -> argparse.ArgumentParser:
    """A parser with --out, and --data where judged sets are needed; doc: the bench's docstring."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    if data:
        parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of judged sets")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="DIR")
    return parser


def machine(packages: Iterable[str]) -> str:
    """Processor, cores, GPU where there is one, and versions."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    cpu = names[0] if names else platform.processor() or platform.machine()
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return f"{cpu}, {os.cpu_count()} cores, one thread used{gpu}; Python {platform.python_version()}, {versions}"


def timed(call: Callable[..., Any], *args: Any, clock: Callable[[], float] = time.perf_counter) -> tuple[float, Any]:
    """Seconds of a call, and its result."""
    started = clock()
    result = call(*args)
    return clock() - started, result


def median_seconds(call: Callable[..., Any], runs: int) -> float:
    """Median over some calls."""
    return statistics.median(timed(call)[0] for _ in range(runs))


def spread(values: list[float], digits: int = 0) -> str:
    """Median, and the range."""
    low, middle, high = (f"{value:.{digits}f}" for value in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low} to {high}, n = {len(values)})"


def ms(seconds: float) -> str:
    """Milliseconds in three digits; from one second on, seconds."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def verdict(met: bool | None) -> str:
    """A cell about a target; None: not measured."""
    return "–" if met is None else "met" if met else "**not met**"


def forget_peak() -> None:
    """Begin to measure this process's peak of memory anew: what was freed before is not part of it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def memory(name: str) -> int:
    """VmRSS or VmHWM of this process in bytes."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        # Not on Linux, where it may begin at the peak of the parent.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))


def run_json(*command: Any) -> Any:
    """What another Python process prints on its last line, as JSON."""
    process = subprocess.run([sys.executable, *map(str, command)], check=True, capture_output=True, text=True)
    return json.loads(process.stdout.splitlines()[-1])


def load_judged(folder: Path, split: str, qrels: str = "qrels") -> Judged:
    """A judged set of a folder, embedded on the CPU, with the queries of a split."""
    import engine

    dataset = engine.load_dataset(str(folder), qrels=qrels)
    space = engine.Space(dataset.corpus, engine.embed(dataset.corpus, device="cpu"), "cpu")
    return Judged(dataset, space, engine.embed(dataset.judged(split), device="cpu"), dataset.qrels[split])


def line(cells: Iterable[Any]) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def table(head: Iterable[Any], rows: Iterable[Iterable[Any]], sides: str = "") -> list[str]:
    """A Markdown table; sides: a letter a column, r where it stands right; the last one goes on, "": all left."""
    head = list(head)
    sides = sides.ljust(len(head), sides[-1:] or "l")
    return [line(head), line("---:" if side == "r" else "---" for side in sides), *map(line, rows)]


def join_blocks(blocks: Iterable[Block]) -> str:
    """Markdown of blocks with blank lines between them."""
    return "\n\n".join(block if isinstance(block, str) else "\n".join(block) for block in blocks) + "\n"


def write_page(file: Path, *blocks: Block) -> None:
    """Write a page of Markdown, and print it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(join_blocks(blocks), encoding="utf-8")
    print(join_blocks(blocks), flush=True)


def stopwatch() -> Say:
    """A function that prints a line to stderr after the minutes since now."""
    started = time.monotonic()

    def say(message: str) -> None:
        print(f"[{(time.monotonic() - started) / 60:5.1f} min] {message}", file=sys.stderr, flush=True)

    return say


def load_figures(file: Path) -> dict[str, Any]:
    """Raw figures that are there, by section."""
    figures: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return figures


def parts_page(title: str, parts: Mapping[str, Part], figures: Mapping[str, Any]) -> str:
    """A page with a section for each part that was measured at some time."""
    blocks: list[Block] = [f"# {title}"]
    for part, (heading, _, tables) in parts.items():
        if part in figures:
            section = figures[part]
            blocks += [f"## {heading}", f"`{section['command']}`", f"{section['machine']}; {section['date']}."]
            blocks += tables(section["figures"])
    return join_blocks(blocks)


def run_parts(
    name: str, title: str, parts: Mapping[str, Part], packages: Iterable[str], given: argparse.Namespace
) -> None:
    """Measure one part of a page or all; the figures of the others are read from the JSON beside the page."""
    one_thread()
    given.out.mkdir(parents=True, exist_ok=True)
    raw, say = given.out / f"{name}.json", stopwatch()
    flags = " --quick" if getattr(given, "quick", False) else ""
    for part in parts if given.part == "all" else (given.part,):
        measured = parts[part][1](given, say)
        figures = load_figures(raw)
        figures[part] = {
            "command": f"python tests/bench/bench_{name}.py --data <folder of judged sets> --part {part}{flags}",
            "machine": machine(packages),
            "date": datetime.date.today().isoformat(),
            "figures": measured,
        }
        raw.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        (given.out / f"{name}.md").write_text(parts_page(title, parts, figures), encoding="utf-8")
    say("done")


@contextmanager
def chromium(count: int = 1) -> Iterator[list[Any]]:
    """Headless browsers without a GPU."""
    from playwright.sync_api import sync_playwright

    from support.browser import FLAGS

    with sync_playwright() as playwright:
        browsers = [
            playwright.chromium.launch(executable_path=shutil.which("chromium"), chromium_sandbox=False, args=FLAGS)
            for _ in range(count)
        ]
        try:
            yield browsers
        finally:
            for browser in browsers:
                browser.close()


def open_page(browser: Any, url: str) -> Any:
    """A page of a visitor of its own."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.goto(url)
    return page


def draw(figure: Any, file: Path, width: int = 1100, height: int = 620) -> None:
    """Draw a figure of plotly as a picture."""
    html = figure.to_html(include_plotlyjs=True, config={"staticPlot": True})
    with chromium() as (browser,):
        page = browser.new_page(viewport={"width": width, "height": height})
        page.set_content(html.replace("<body>", "<body style='margin:0'>"))
        page.wait_for_selector(".main-svg")
        page.screenshot(path=file)
