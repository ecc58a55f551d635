"""What the benches share: one thread, the checkout's engine, a clock, and Markdown pages."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "assets" / "results"
# The checkout is measured, whatever copy of the engine is installed.
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
import engine  # noqa: E402
from engine.values import EncoderRef  # noqa: E402

DATA_FOLDER = "<folder of judged sets>"
Say = Callable[[str], None]
WHITE_SHEET = {"template": "plotly_white", "width": 1100, "height": 620}
"""Layout of a figure in a page."""
Block = str | list[str]
"""A paragraph, or lines: of a table or a list."""


class Judged:
    """A judged set of a folder on the CPU: its data set and its embedded documents and queries."""

    def __init__(self, folder: Path | str, qrels: str = "qrels") -> None:
        self.data = engine.load_dataset(str(folder), qrels=qrels)
        self.space = engine.Space(self.data.corpus, engine.embed(self.data.corpus, device="cpu"), "cpu")

    @cached_property
    def queries(self) -> engine.Embeddings:
        return engine.embed(self.data.queries, device="cpu")

    def select_queries(self, split: str) -> engine.Embeddings:
        """The queries of a split."""
        return engine.embed(self.data.judged(split), device="cpu")


def space_of(vectors: torch.Tensor | np.ndarray, encoder: EncoderRef | None = None) -> engine.Space:
    """Documents without text, on the CPU."""
    ids = tuple(map(str, range(len(vectors))))
    return engine.Space(engine.Corpus(ids, ids), engine.Embeddings(ids, vectors, encoder), "cpu")


def one_thread() -> None:
    """Keep this process and those that it starts on one thread."""
    names = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB_MAXIMUM")
    os.environ.update({f"{name}_NUM_THREADS": "1" for name in names})
    threadpool_limits(1)
    torch.set_num_threads(1)


def parse_arguments(doc: str, data: bool = False, threads: int | None = 1, **flags: Any) -> argparse.Namespace:
    """Parse a bench's arguments: --out, --data if it needs judged sets, flags; and its `command` in words.

    doc: the bench's docstring; threads: None leaves the process and its children as many as they take; flags: the
    default by name, whose type a value has; a list takes several values, False none, and a type has the default None.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if data:
        parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of judged sets")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="DIR")
    for name, default in flags.items():
        flag = f"--{name.replace('_', '-')}"
        if default is False:
            parser.add_argument(flag, action="store_true")
        elif isinstance(default, list):
            parser.add_argument(flag, nargs="*", type=type(default[0]), default=default)
        elif isinstance(default, type):
            parser.add_argument(flag, type=default)
        else:
            parser.add_argument(flag, type=type(default), default=default)
    args = parser.parse_args()
    words = [DATA_FOLDER if data and word == str(args.data) else word for word in sys.argv[1:]]
    args.command = " ".join(["python", f"tests/bench/{Path(sys.argv[0]).name}", *words])
    args.out.mkdir(parents=True, exist_ok=True)
    if threads:
        one_thread()
    return args


def machine(packages: Iterable[str]) -> str:
    """Processor, cores, GPU where there is one, and versions."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    cpu = names[0] if names else platform.processor() or platform.machine()
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return f"{cpu}, {os.cpu_count()} cores, one thread used{gpu}; Python {platform.python_version()}, {versions}"


def time_call(
    call: Callable[..., Any], *args: Any, clock: Callable[[], float] = time.perf_counter
) -> tuple[float, Any]:
    """Seconds of a call, and its result."""
    started = clock()
    result = call(*args)
    return clock() - started, result


def summary(seconds: list[float]) -> dict[str, float]:
    """Median and range."""
    return {"seconds": statistics.median(seconds), "least": min(seconds), "most": max(seconds)}


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


def memory(name: str, process: int | str = "self") -> int:
    """VmRSS, VmHWM or RssAnon of a process in bytes, 0 once it is gone."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        if process != "self":
            return 0
        # Not on Linux, where it may begin at the peak of the parent.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(name + ":")), 0)


def run_json(*command: Any) -> Any:
    """Run another Python process and return its last line, parsed as JSON."""
    process = subprocess.run([sys.executable, *map(str, command)], check=True, capture_output=True, text=True)
    return json.loads(process.stdout.splitlines()[-1])


def points_of(
    decoders: Sequence[engine.Decoder],
    space: engine.Space,
    queries: engine.Embeddings,
    qrels: engine.Qrels,
    k: int,
    metrics: tuple[str, ...],
    split: str = "",
) -> list[Any]:
    """The point of each decoder, in their order."""
    points = {p.label: p for p in engine.sweep(decoders, space, queries, qrels, k, metrics, split=split)}
    return [points[decoder.label] for decoder in decoders]


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


def write_page(args: argparse.Namespace, name: str, title: str, *blocks: Block) -> None:
    """Write a page of Markdown that begins with its title and the bench's command, and print it."""
    page = join_blocks([f"# {title}", f"`{args.command}`", *blocks])
    (args.out / f"{name}.md").write_text(page, encoding="utf-8")
    print(page, flush=True)


def stopwatch() -> Say:
    """A function that prints a line to stderr after the minutes since now."""
    started = time.monotonic()

    def say(message: str) -> None:
        print(f"[{(time.monotonic() - started) / 60:5.1f} min] {message}", file=sys.stderr, flush=True)

    return say


def draw(figure: Any, file: Path, width: int = 1100, height: int = 620) -> None:
    """Draw a figure of plotly as a picture."""
    html = figure.to_html(include_plotlyjs=True, config={"staticPlot": True})
    from support.browser import chromium

    with chromium() as (browser,):
        page = browser.new_page(viewport={"width": width, "height": height})
        page.set_content(html.replace("<body>", "<body style='margin:0'>"))
        page.wait_for_selector(".main-svg")
        page.screenshot(path=file)
