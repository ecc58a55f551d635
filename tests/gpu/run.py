"""Run Frontier's CUDA tests on this machine's GPU, then measure it beside plain torch; JSON and Markdown come out.

python tests/gpu/run.py [--out DIR] [--minutes 8] [--dry]     one file; no network; torch, numba and pytest suffice

--dry runs the same on the CPU with small sizes and the simulated GPU's tests. Nothing is left half done at the end of
the time: a measurement that would not fit is named as such. Times are medians of up to five calls, each between two
synchronisations; "a pass" is one float32 product of the corpus with one query.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
os.environ.setdefault("FRONTIER_HOME", tempfile.mkdtemp(prefix="frontier-gpu-"))

import numpy as np  # noqa: E402
import torch  # noqa: E402

import engine  # noqa: E402

K = 10
SELECTORS: dict[str, dict[str, float]] = {
    "top_k": {}, "mmr": {"relevance_weight": 0.7}, "dpp": {"relevance_weight": 0.7},
    "frank_wolfe": {"relevance_weight": 0.8}, "nnn": {"l1": 0.1, "l2": 0.1},
}  # fmt: skip
SIZES = {"n": (10_000, 100_000, 1_000_000, 4_000_000), "d": (384, 1536), "batch": (1, 64, 1024)}
DRY_SIZES = {"n": (300, 2_500), "d": (24,), "batch": (1, 8)}
BYTES_SPARED = 4 << 30
"""Of the device's memory: what a measurement leaves free."""
MAX_CALL_SECONDS = 6.0
"""A cell that is expected to take longer is left out, and named."""


class Clock:
    """The time that is left, and how calls are timed on a device."""

    def __init__(self, device: torch.device, minutes: float) -> None:
        self.device, self.end = device, time.monotonic() + 60 * minutes

    @property
    def left(self) -> float:
        """Seconds until the end."""
        return self.end - time.monotonic()

    def synchronise(self) -> None:
        """Wait until the device has done all that it was asked."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def time(self, call: Callable[[], Any], most: int = 5) -> float:
        """Return the median seconds of a call after a first one, which compiles; of fewer the longer they take."""
        call()
        spent: list[float] = []
        while len(spent) < most and sum(spent) <= MAX_CALL_SECONDS / 2:
            self.synchronise()
            started = time.perf_counter()
            call()
            self.synchronise()
            spent.append(time.perf_counter() - started)
        return statistics.median(spent)


@contextmanager
def reported(part: str) -> Iterator[None]:
    """Say on the terminal when a part begins, and how long it took."""
    started = time.monotonic()
    print(f"{part} …", flush=True)
    yield
    print(f"{part}: {time.monotonic() - started:.1f} s", flush=True)


def run_tests(dry: bool, seconds: float) -> dict[str, Any]:
    """Run the CUDA tests, or those of the simulated GPU, in a process; return the counts and the failures' text."""
    chosen = ["tests/gpu/test_simulated_gpu.py", "-k", "refuses or choose"] if dry else ["-m", "gpu", "tests"]
    if not dry:
        # The files of these tests alone, as others import what a machine without a dashboard does not have.
        marked = [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if "mark.gpu" in path.read_text()]
        laws = [ROOT / "tests" / "engine" / "test_stages_laws.py"]
        chosen = ["-m", "gpu", *(str(path.relative_to(ROOT)) for path in [*marked, *laws])]
    command = [sys.executable, "-m", "pytest", "-o", "addopts=--import-mode=importlib", "-q", "--tb=short", "-ra"]
    workers = ["-n", "6"] if not dry and (os.cpu_count() or 1) >= 8 else ["-n", "0"]
    try:
        done = subprocess.run(
            [*command, *workers, *chosen], cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False
        )
        output, code = done.stdout + done.stderr, done.returncode
    except subprocess.TimeoutExpired as error:
        output, code = (error.stdout or b"").decode(errors="replace"), -1
    lines = output.strip().splitlines()
    return {"code": code, "summary": lines[-1] if lines else "no output", "output": lines[-400:]}


def measure_floor(clock: Clock, dry: bool) -> dict[str, float]:
    """Return the device's rates: a copy's bytes a second, read and written, and float32 operations a second."""
    size = (1 << 20) if dry else (1 << 30)
    source, side = torch.zeros(size, dtype=torch.uint8, device=clock.device), 256 if dry else 8192
    target, square = torch.empty_like(source), torch.randn(side, side, device=clock.device)
    copied = clock.time(lambda: target.copy_(source), most=9)
    multiplied = clock.time(lambda: square @ square)
    return {"copy_bytes_per_second": 2 * size / copied, "float32_flop_per_second": 2 * side**3 / multiplied}


def make_rows(n: int, d: int, device: torch.device) -> torch.Tensor:
    """Draw (n, d) float32 unit rows in about n / 100 clusters, on the device."""
    source = torch.Generator(device).manual_seed(0)
    centres = torch.randn(max(n // 100, 1), d, generator=source, device=device)
    rows = torch.empty(n, d, device=device)
    for start in range(0, n, 1 << 18):
        block = rows[start : start + (1 << 18)]
        block.normal_(generator=source).mul_(0.55)
        block += centres[torch.randint(len(centres), (len(block),), generator=source, device=device)]
        block /= torch.linalg.vector_norm(block, dim=1, keepdim=True)
    return rows


def choose_by_torch(name: str, rows: torch.Tensor, queries: torch.Tensor, weight: float = 0.7) -> torch.Tensor:
    """Do what plain torch would: a product and topk; for mmr besides a product with each document it picks."""
    scores = queries @ rows.T
    if name == "top_k":
        return scores.topk(K, dim=1).indices
    picks, highest = [scores.argmax(1)], torch.full_like(scores, -torch.inf)
    for _ in range(K - 1):
        torch.maximum(highest, rows[picks[-1]] @ rows.T, out=highest)
        value = weight * scores - (1 - weight) * highest
        value.scatter_(1, torch.stack(picks, 1), -torch.inf)
        picks.append(value.argmax(1))
    return torch.stack(picks, 1)


def measure_selectors(clock: Clock, sizes: dict[str, tuple[int, ...]], until: float) -> Iterator[dict[str, Any]]:
    """Yield a row a cell: selector, n, d, batch, the engine's seconds over a Space, torch's, a pass's.

    A bfloat16 corpus is converted once, when its Space is made; the engine computes in float32, and so do its figures;
    torch's bfloat16 product and topk stand beside. until: seconds left at which to stop.
    """
    expected: dict[tuple[str, int], float] = {}
    for n in sizes["n"]:
        for d in sizes["d"]:
            if not fits(clock.device, 10 * n * d):
                yield {"n": n, "d": d, "left_out": "memory"}
                continue
            rows, ids = make_rows(n, d, clock.device), tuple(map(str, range(n)))
            space = engine.Space(engine.Corpus(ids, ids), engine.Embeddings(ids, rows), clock.device)
            a_pass, short = clock.time(lambda rows=rows: rows @ rows[0], most=9), rows.bfloat16()
            for batch in sizes["batch"]:
                queries = rows[torch.arange(batch, device=rows.device) * 37 % n] + 0.05 * rows[:1]
                points = engine.Embeddings(tuple(f"q{i}" for i in range(batch)), queries)
                for name, params in SELECTORS.items():
                    cell: dict[str, Any] = {"selector": name, "n": n, "d": d, "batch": batch, "pass": a_pass}
                    guess = expected.get((name, batch), 0.0) * 10
                    if clock.left < until + guess:
                        yield {**cell, "left_out": "time"}
                        continue
                    if guess > 10 * MAX_CALL_SECONDS:
                        yield {**cell, "left_out": f"expected {guess:.0f} s"}
                        continue
                    decoder = engine.Decoder(engine.make(name, **params))
                    cell["engine"] = clock.time(lambda d=decoder, p=points, s=space: engine.decode(d, s, p, K))
                    expected[name, batch] = max(cell["engine"], expected.get((name, batch), 0.0))
                    if name == "top_k":
                        half = queries.bfloat16()
                        cell["torch_bfloat16"] = clock.time(lambda h=half, s=short: (h @ s.T).topk(K, dim=1))
                    if name in ("top_k", "mmr"):
                        cell["torch"] = clock.time(lambda n=name, q=queries, r=rows: choose_by_torch(n, r, q))
                    yield cell
            del rows, space, short


def fits(device: torch.device, n_bytes: int) -> bool:
    """Return True if the device has room for so many bytes, and some to spare."""
    return device.type != "cuda" or n_bytes + BYTES_SPARED < torch.cuda.mem_get_info()[0]


def measure_sweep(clock: Clock, dry: bool) -> dict[str, Any]:
    """Measure a sweep of 50 settings of mmr: 1,000 queries over 100,000 documents."""
    n, n_queries, settings = (400, 20, 5) if dry else (100_000, 1000, 50)
    rows, ids = make_rows(n, 24 if dry else 384, clock.device), tuple(map(str, range(n)))
    space = engine.Space(engine.Corpus(ids, ids), engine.Embeddings(ids, rows), clock.device)
    names = tuple(f"q{i}" for i in range(n_queries))
    queries = engine.Embeddings(names, rows[:n_queries] + 0.05 * rows[n_queries : 2 * n_queries])
    qrels = engine.Qrels({name: {str(i): 1, str(i + 1): 1} for i, name in enumerate(names)})
    decoders = [engine.Decoder(engine.make("mmr", relevance_weight=i / settings)) for i in range(settings)]
    started = time.perf_counter()
    cells = list(engine.sweep(decoders, space, queries, qrels, k=K))
    clock.synchronise()
    seconds = time.perf_counter() - started
    return {"n": n, "queries": n_queries, "settings": len(cells), "seconds": seconds}


def measure_embedding(clock: Clock, dry: bool) -> dict[str, Any]:
    """Measure texts a second through a model of the bundled one's shape; random weights, so for its speed only."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizer

    n_texts, layers = (40, 1) if dry else (100_000, 6)
    words = [f"{a}{b}" for a in "bcdfghklmnprst" for b in "aeiou"]
    folder = Path(tempfile.mkdtemp(prefix="frontier-model-"))
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
    BertTokenizer(str(folder / "vocab.txt"), model_max_length=256).save_pretrained(folder)
    config = BertConfig(
        vocab_size=30522, hidden_size=384, num_hidden_layers=layers, num_attention_heads=12, intermediate_size=1536
    )
    BertModel(config).save_pretrained(folder)
    modules = [Transformer(str(folder)), Pooling(384), Normalize()]
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(folder / "whole"))
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words, size=size)) for size in rng.integers(5, 120, size=n_texts)]
    engine.embed(texts[:20], encoder=str(folder / "whole"), device=str(clock.device), cache=False)
    started = time.perf_counter()
    engine.embed(texts, encoder=str(folder / "whole"), device=str(clock.device), cache=False)
    seconds = time.perf_counter() - started
    return {"texts": n_texts, "seconds": seconds, "texts_per_second": n_texts / seconds}


def measure_training(clock: Clock, dry: bool) -> dict[str, Any]:
    """Measure the epochs of an adapter for nnn and for dense retrieval on queries that are sums of documents."""
    n, n_queries, d = (200, 64, 16) if dry else (20_000, 20_000, 384)
    rng = np.random.default_rng(0)
    rows, ids = make_rows(n, d, clock.device), tuple(f"d{i}" for i in range(n))
    names = tuple(f"q{i}" for i in range(n_queries))
    members = rng.integers(n, size=(n_queries, 3))
    vectors = rows[torch.from_numpy(members).to(rows.device)].sum(1)
    vectors = (vectors / torch.linalg.vector_norm(vectors, dim=1, keepdim=True)).cpu()
    encoder = engine.values.EncoderRef("drawn", "0" * 64, "float32")
    space = engine.Space(engine.Corpus(ids, ids), engine.Embeddings(ids, rows.cpu(), encoder), clock.device)
    queries = engine.Embeddings(names, vectors, encoder, names)
    grades = {name: {f"d{j}": 1 for j in row} for name, row in zip(names, members.tolist(), strict=True)}
    cut = n_queries * 9 // 10
    splits = {
        split: engine.Qrels({name: grades[name] for name in part})
        for split, part in (("train", names[:cut]), ("dev", names[cut : cut + 500]))
    }
    seconds: dict[str, float] = {}
    for method, params in (("dense", {}), ("nnn", {"l1": 0.1, "l2": 0.1, "regrid": False})):
        if clock.left < 20 and not dry:
            continue
        ends: list[float] = []
        stop = (lambda: False) if dry else (lambda: clock.left < 10)
        engine.train(
            method, space, queries, splits, epochs=2, batch=64, stop=_Until(stop),
            watch=lambda _, ends=ends: ends.append(time.perf_counter()), **params,
        )  # fmt: skip
        if len(ends) >= 3:
            seconds[method] = ends[-1] - ends[-2]
    return {"documents": n, "queries": cut, "epoch_seconds": seconds}


class _Until:
    """A stop, as the engine takes it, that is set once a function says so."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        self.is_set = is_over


def write(results: dict[str, Any], out: Path) -> None:
    """Write gpu.json and gpu.md."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "gpu.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    floor = results["floor"]
    lines = [
        "# On a GPU", "", f"`{results['command']}` on {results['machine']}.", "",
        f"Tests: {results['tests']['summary'].strip('= ')}.", "",
        f"A copy moves {floor['copy_bytes_per_second'] / 1e9:,.0f} GB/s; a float32 product of matrices "
        f"{floor['float32_flop_per_second'] / 1e12:,.1f} TFLOP/s. Milliseconds of one call over a Space, k = {K}, "
        "medians; share: of the copy's bandwidth that reading the corpus once in that time is; passes: in products of "
        "the corpus with one query. The engine computes in float32, also of bfloat16 vectors.", "",
        "| selector | documents | d | queries | engine | torch | torch bfloat16 | × torch | share | passes |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        *(table_row(cell, floor["copy_bytes_per_second"]) for cell in results["selectors"]), "",
        *(f"{name}: {value}." for name, value in results["more"].items()),
    ]  # fmt: skip
    (out / "gpu.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def table_row(cell: dict[str, Any], bandwidth: float) -> str:
    """Return a cell's row of the Markdown table."""
    where = [cell.get("selector", "all"), f"{cell['n']:,}", str(cell["d"]), str(cell.get("batch", "all"))]
    if "left_out" in cell:
        return f"| {' | '.join(where)} | left out: {cell['left_out']} | | | | | |"
    seconds, peer, short = cell["engine"], cell.get("torch"), cell.get("torch_bfloat16")
    numbers = [
        f"{1e3 * seconds:.3g}", f"{1e3 * peer:.3g}" if peer else "", f"{1e3 * short:.3g}" if short else "",
        f"{seconds / peer:.2f}" if peer else "", f"{4 * cell['n'] * cell['d'] / seconds / bandwidth:.0%}",
        f"{seconds / cell['pass']:.1f}",
    ]  # fmt: skip
    return f"| {' | '.join([*where, *numbers])} |"


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "assets" / "results", metavar="DIR")
    parser.add_argument("--minutes", type=float, default=8.0, help="all that it may take; default 8")
    parser.add_argument("--dry", action="store_true", help="on the CPU, with small sizes")
    return parser.parse_args(words)


def main() -> int:
    """Run the tests, then the measurements; return 0 if the tests passed."""
    args = parse()
    if not args.dry and not torch.cuda.is_available():
        sys.exit("there is no CUDA device here: take --dry for the same on the CPU")
    device = torch.device("cpu" if args.dry else "cuda")
    clock = Clock(device, args.minutes)
    name = platform.processor() or platform.machine() if args.dry else torch.cuda.get_device_name()
    results: dict[str, Any] = {
        "command": " ".join(["python", "tests/gpu/run.py", *(["--dry"] if args.dry else [])]),
        "machine": f"{name}, {os.cpu_count()} cores; Python {platform.python_version()}, torch {torch.__version__}",
        "tests": {"summary": "not run"}, "floor": {}, "selectors": [], "more": {},
    }  # fmt: skip
    with reported("Tests"):
        results["tests"] = run_tests(args.dry, min(clock.left / 2, 240 if not args.dry else 400))
    print("\n".join(results["tests"]["output"][-30:]), flush=True)
    with reported("Rates of the device"):
        results["floor"] = measure_floor(clock, args.dry)
    write(results, args.out)
    parts = {"Sweep": measure_sweep, "Embedding": measure_embedding, "Training": measure_training}
    with reported("Selectors"):
        # A minute is kept for what follows.
        for cell in measure_selectors(clock, DRY_SIZES if args.dry else SIZES, until=0 if args.dry else 75):
            results["selectors"].append(cell)
            write(results, args.out)
    for part, measure in parts.items():
        with reported(part):
            try:
                results["more"][part] = measure(clock, args.dry) if clock.left > 12 else "left out: time"
            except Exception as error:  # what fails is a finding; the rest is measured all the same
                results["more"][part] = f"failed: {type(error).__name__}: {error}"
        write(results, args.out)
    print((args.out / "gpu.md").read_text(encoding="utf-8"))
    return int(results["tests"]["code"] != 0 or any("failed" in str(value) for value in results["more"].values()))


if __name__ == "__main__":
    sys.exit(main())
