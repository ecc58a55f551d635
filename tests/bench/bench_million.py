"""A million vectors in a file: what reading, embedding, every decoder and the page take, and the memory they need.

python tests/bench/bench_million.py [--n 1000000] [--cap 120]      needs Linux, a chromium, 8 GB of disk; half an hour

A pass is one float32 product of the mapped file with a vector, by torch, in the same process. Each row is a process of
its own whose loops are compiled beforehand on 9,000 vectors; its anonymous memory (RssAnon) is read from outside every
20 ms, above what it was before the file was opened, so that pages of the file do not count and ids do. The encoder is a
table of random vectors for words, so that embedding is reading, hashing, caching and placing alone. The page stands on
the same texts and vectors, and documents are the queries; its server's memory counts from nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from harness import machine, memory, parse_arguments, stopwatch, table, write_page

from engine.paths import home
from support.browser import LISTS_DRAWN, Server, chromium, idle, open_page

D, CLUSTERS, NOISE, BLOCK = 384, 1000, 0.7, 20_000
EVERY = 0.02
"""Seconds between two looks at a process's memory."""
PATIENCE = 900
"""Seconds for imports and compiling."""
K = 10
Step = tuple[str, dict[str, float], str]
"""A selector or a step of reading, its parameters, and what the page says more."""
STEPS: tuple[Step, ...] = (
    ("nnn", {"l1": 0.1, "l2": 0.1}, ""),
    ("nnn", {"l1": 0.1, "l2": 0.1}, ", codes in the cache"),
    ("digest", {}, ""),
    ("top_k", {}, ""),
    ("mmr", {"relevance_weight": 0.9}, ""),
    ("mmr", {"relevance_weight": 0.5}, ""),
    ("dpp", {"relevance_weight": 0.8}, ""),
    ("ssd", {"relevance_weight": 0.8}, ""),
    ("vrsd", {}, ""),
    ("frank_wolfe", {"relevance_weight": 0.8}, ""),
    ("facility_location", {"relevance_weight": 0.8}, ""),
    ("max_sum", {"relevance_weight": 0.8}, ""),
    ("truncated", {"dimension": 64}, ""),
    ("random_projection", {"dimension": 64}, ""),
    ("bm25", {}, ""),
    ("hybrid", {}, ""),
    ("texts", {}, "with texts of a corpus.jsonl: "),
    ("embed", {}, "texts without vectors: "),
)
READING = ("digest", "texts", "embed")
"""Steps that ask nothing."""
CHILD = """
import json, sys, time
import numpy as np, torch, engine
path, name, params, k = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4])

def say(**what):
    print(json.dumps(what), flush=True)

def phase(what, make):
    say(began=what)
    started = time.perf_counter()
    result = make()
    say(ended=what, seconds=time.perf_counter() - started)
    return result

def passes():
    rows = torch.from_numpy(np.load(path, mmap_mode="c"))
    for turn in range(6):
        started = time.perf_counter()
        torch.mv(rows, rows[turn].clone())
        if turn:
            say(one=time.perf_counter() - started)

torch.manual_seed(0)
unit = lambda rows: torch.nn.functional.normalize(rows, dim=-1)
asked = lambda row: engine.Embeddings(("q",), unit(row).reshape(1, -1), texts=("Text 7 on 12.",))
words = name in engine.methods("scorer")
if name in engine.methods():
    made = engine.make(name, **params)
    decoder = engine.Decoder(engine.make("top_k"), made) if words else engine.Decoder(made)
    few = unit(torch.randn(9000, 384))
    ids = tuple(map(str, range(9000)))
    small = engine.Space(engine.Corpus(ids, ids), engine.Embeddings(ids, few), "cpu")
    for row in range(2):
        engine.decode(decoder, small, asked(few[row] + few[row + 2]), k)
    del small, few, ids
passes()
say(ready=True)
folder = path.rsplit("/", 1)[0]
place = f"{folder}/alone" if name == "embed" else f"{folder}/whole" if words or name == "texts" else path
data = phase("load", lambda: engine.load_dataset(place))
vectors = data.vectors
if name == "embed":
    vectors = phase("embed", lambda: engine.embed(data.corpus, f"{folder}/encoder", device="cpu"))
space = phase("Space", lambda: engine.Space(data.corpus, vectors, "cpu"))
if name == "digest":
    phase("digest of the vectors", lambda: data.vectors.digest)
    phase("digest of the corpus", lambda: data.corpus.digest)
elif name in engine.methods():
    for turn, row in (("first", 7), ("second", len(space) // 2)):
        query = asked(space.vectors[row] + 0.03 * torch.randn(space.vectors.shape[1]))
        found = phase(turn, lambda: engine.decode(decoder, space, query, k))
        say(found=len(set(found.rows())))
passes()
"""


@dataclass
class Run:
    """What one process said and what was seen of it."""

    seconds: dict[str, float] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)  # bytes above the start
    passes: list[float] = field(default_factory=list)  # seconds of each
    found: list[int] = field(default_factory=list)
    over: str = ""  # the phase that hit the cap
    error: str = ""
    phase: str = ""
    began: float = 0.0
    base: int = 0

    def hear(self, process: subprocess.Popen[str]) -> None:
        """Take in what the process says, to its end."""
        assert process.stdout is not None
        for text in process.stdout:
            message = json.loads(text)
            if "one" in message:
                self.passes.append(message["one"])
            elif "ready" in message:
                self.base = memory("RssAnon", process.pid)
            elif "began" in message:
                self.began, self.phase = time.monotonic(), message["began"]
            elif "ended" in message:
                self.see(process.pid, self.phase)
                self.phase, self.seconds[message["ended"]] = "", message["seconds"]
            else:
                self.found.append(message["found"])

    def see(self, process: int, phase: str) -> None:
        """Look at its memory."""
        self.peaks[phase] = max(self.peaks.get(phase, 0), memory("RssAnon", process) - self.base)

    def cells(self, phase: str, cap: float) -> list[str]:
        """Seconds, passes and memory of a phase."""
        if phase not in self.peaks:
            return ["–", "–", "–"]
        seconds, prefix = (cap, "> ") if phase == self.over else (self.seconds.get(phase, np.nan), "")
        passes = seconds / float(np.median(self.passes))
        return [f"{prefix}{seconds:.2f} s", f"{prefix}{passes:.1f}", f"{self.peaks[phase] / 1e6:,.0f} MB"]


def measure_run(path: Path, name: str, params: dict[str, float], cap: float) -> Run:
    """A run of the child, which is stopped once a phase lasts longer than the cap."""
    command = [sys.executable, "-c", CHILD, str(path), name, json.dumps(params), str(K)]
    run, started = Run(), time.monotonic()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment(path))
        ears = threading.Thread(target=run.hear, args=(process,))
        ears.start()
        while process.poll() is None:
            if phase := run.phase:
                run.see(process.pid, phase)
                if time.monotonic() - run.began > cap and run.phase == phase:
                    run.over = phase
                    process.kill()
            elif time.monotonic() - max(started, run.began) > PATIENCE:
                process.kill()
            time.sleep(EVERY)
        ears.join()
        errors.seek(0)
        run.error = "" if run.over or not process.returncode else errors.read()[-400:] or "stopped before it began"
    return run


def environment(path: Path) -> dict[str, str]:
    """The bench's own, with a cache that is deleted with the file, and this checkout."""
    variables = {"FRONTIER_HOME": str(path.parent / "home"), "PYTHONPATH": os.pathsep.join(sys.path)}
    # One thread, those of the tokenizer too.
    return {**os.environ, **variables, "TOKENIZERS_PARALLELISM": "false"}


def make(folder: Path, n: int) -> Path:
    """A file of n unit rows around 1,000 centres, with ids; beside it the same as a data set with short texts."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((CLUSTERS, D), dtype=np.float32)
    path, corpus_folder = folder / "vectors.npy", folder / "whole"
    corpus_folder.mkdir()
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, D))
    with (folder / "vectors.ids.txt").open("w") as ids, (corpus_folder / "corpus.jsonl").open("w") as corpus:
        for start in range(0, n, BLOCK):
            cluster = rng.integers(0, CLUSTERS, min(BLOCK, n - start))
            rows = centres[cluster] + NOISE * rng.standard_normal((len(cluster), D), dtype=np.float32)
            out[start : start + len(rows)] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
            for row, centre in enumerate(cluster.tolist(), start):
                ids.write(f"d{row}\n")
                corpus.write(json.dumps({"_id": f"d{row}", "title": "", "text": f"Text {row} on {centre}."}) + "\n")
    out.flush()
    for name in (path.name, "vectors.ids.txt"):
        os.link(folder / name, corpus_folder / name)
    (folder / "alone").mkdir()
    os.link(corpus_folder / "corpus.jsonl", folder / "alone" / "corpus.jsonl")
    table_of_words(folder / "encoder")
    return path


def table_of_words(folder: Path) -> None:
    """An encoder that adds up a random vector a word."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {word: row for row, word in enumerate(["[UNK]", "Text", "on", ".", *map(str, range(CLUSTERS))])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=D)], device="cpu")
    model.save_pretrained(str(folder), create_model_card=False)


def page_over(path: Path) -> tuple[list[list[str]], str]:
    """Time the steps of a page's visitor, in order; return the rows and the error that ended them, if any."""
    rows: list[list[str]] = []
    started, peak = time.monotonic(), 0
    server = Server(path.parent / "home", "--corpus", str(path.parent / "whole"))
    over = threading.Event()

    def record_memory() -> None:
        nonlocal peak
        while not over.wait(EVERY):
            peak = max(peak, memory("RssAnon", server.process.pid))

    def add_row(step: str) -> None:
        nonlocal started, peak
        rows.append([step, f"{time.monotonic() - started:.1f} s", f"{peak / 1e6:,.0f} MB"])
        started, peak = time.monotonic(), 0

    watcher = threading.Thread(target=record_memory)
    watcher.start()
    wait = 1000 * PATIENCE
    try:
        with chromium() as [browser]:
            page = open_page(browser, f"{server.url}/?v=1&corpus={path.parent / 'whole'}&decoders=top_k,mmr,nnn")
            page.wait_for_function(LISTS_DRAWN, timeout=wait)
            add_row("from the start to the first sets")
            for turn, row in enumerate((12345, 54321), 1):
                old_value = page.evaluate("frontier.shown.query")
                page.locator("input[aria-label='Document id']").fill(f"d{row}")
                started = time.monotonic()
                page.locator("input[aria-label='Document id']").press("Enter")
                page.wait_for_function(
                    "before => frontier.shown && frontier.shown.query !== before", arg=old_value, timeout=wait
                )
                page.wait_for_function(LISTS_DRAWN, timeout=wait)
                add_row(f"another document as the query, {turn}")
            idle(page)
            for label in ("MMR λ", "NNN λ₁"):
                thumb = page.get_by_role("slider", name=label).first
                title = label.split()[0]
                value = f"frontier.shown?.decoders.find(own => own.title.startsWith('{title}')).sliders[0].value"
                old_value = page.evaluate(value)
                thumb.focus()
                started = time.monotonic()
                thumb.press("ArrowLeft")
                page.wait_for_function(f"before => ![undefined, before].includes({value})", arg=old_value, timeout=wait)
                add_row(f"{label} one step on, to the server's answer")
        ended = ""
    except Exception as error:
        ended = f"- page: {error}"
    finally:
        over.set()
        watcher.join()
        server.process.kill()
        server.process.wait()
    return rows, ended


def page(
    args: argparse.Namespace,
    size: int,
    cache_bytes: int,
    loads: list[float],
    runs: Sequence[tuple[Step, Run]],
    seen: Sequence[list[str]],
    ended: str,
) -> None:
    """Write what was measured so far."""
    every = [each for _, run in runs for each in run.passes]
    steps = [
        [f"{label}{phase}", *run.cells(phase, args.cap)]
        for (name, _, label), run in runs
        if name in READING
        for phase in run.peaks
    ]
    chosen = [
        [
            f"{name}({', '.join(f'{v:g}' for v in params.values())}){label}",
            *(cell for turn in ("first", "second") for cell in run.cells(turn, args.cap)),
        ]
        for (name, params, label), run in runs
        if name not in READING
    ]
    failed = [f"- {step[0]}: {run.error}" for step, run in runs if run.error] + [ended] * bool(ended)
    write_page(
        args,
        "million",
        "A million vectors in a file",
        f"{args.n:,} × {D} float32 unit rows around {CLUSTERS:,} centres, {size / 1e6:,.0f} MB, mapped; k = {K}. "
        f"{machine(('torch', 'numpy', 'numba'))}. The machine was shared: load average {loads[0]:.1f} at the start, "
        f"{max(loads):.1f} at most, {loads[-1]:.1f} at the end. A pass took {np.median(every):.3f} s "
        f"({min(every):.3f} to {max(every):.3f}); a row counts in the median of its own process. Memory is anonymous, "
        f"at its peak, above what the process had before it opened the file. Cap: {args.cap:g} s a query or step; "
        "after one that hit it (>) nothing more is asked.",
        table(["step", "time", "passes", "memory"], steps, "lrrr"),
        table(["decoder", "first query", "passes", "memory", "second query", "passes", "memory"], chosen, "lrrrrrr"),
        f"The first query of nnn makes 8-bit codes of the vectors, {cache_bytes / 1e6:,.0f} MB in the cache, once a "
        "file; a later process checks and maps them.",
        table(["page over texts and vectors: top_k, mmr, nnn", "time", "server's memory"], seen, "lrr"),
        *([["Failed:", "", *failed]] if failed else []),
    )


def main() -> None:
    args = parse_arguments(__doc__, n=1_000_000, cap=120.0)
    say, loads, runs = stopwatch(), [os.getloadavg()[0]], []
    with tempfile.TemporaryDirectory() as folder:
        if (home() / "code").is_dir():  # compiled for this machine already
            shutil.copytree(home() / "code", Path(folder) / "home" / "code")
        path = make(Path(folder), args.n)
        say("made the file")
        for step in STEPS:
            cap = PATIENCE if step[0] == "embed" else args.cap
            runs.append((step, measure_run(path, *step[:2], cap)))
            loads.append(os.getloadavg()[0])
            say(f"{step[0]}: {runs[-1][1]}")
            cache_bytes = sum(file.stat().st_size for file in (path.parent / "home" / "codes").glob("*"))
            page(args, path.stat().st_size, cache_bytes, loads, runs, [], "")
        seen, ended = page_over(path)
        say(f"page: {seen} {ended}")
        page(args, path.stat().st_size, cache_bytes, loads, runs, seen, ended)


if __name__ == "__main__":
    main()
