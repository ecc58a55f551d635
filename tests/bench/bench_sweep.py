"""Times a whole sweep: every decoder of the papers over its parameters, on one judged set, on all cores.

python tests/bench/bench_sweep.py --data <folder of judged sets> --out assets/results
"""

import os
import resource
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

import click
import torch

import engine
from engine.evaluation.points import digest_of_all
from engine.evaluation.sweep import grid, sweep

SET, SPLIT, KS = "toolbank-numpy", "dev", (3, 5, 10)
SELECTORS = ("top_k", "mmr", "dpp", "frank_wolfe", "max_sum", "vrsd", "nnn")
METRICS = ("recall", "comp", "ndcg", "ilad")


@click.command()
@click.option("--data", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--workers", default=2)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path))
def main(data: Path, workers: int, out: Path | None) -> None:
    torch.set_num_threads(1)
    dataset = engine.load_dataset(str(data / SET))
    space = engine.Space(dataset.corpus, engine.embed(dataset.corpus, device="cpu"), "cpu")
    queries = engine.embed(dataset.judged(SPLIT), device="cpu")
    decoders = [decoder for name in SELECTORS for decoder in grid(name)]
    most, halt = [0], threading.Event()
    threading.Thread(target=_watch, args=(most, halt), daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        how = {"split": SPLIT, "store": Path(folder) / "sweep.db", "workers": workers}
        started = time.perf_counter()
        points = list(sweep(decoders, space, queries, dataset.qrels[SPLIT], KS, METRICS, **how))
        took = time.perf_counter() - started
        started = time.perf_counter()
        again = list(sweep(decoders, space, queries, dataset.qrels[SPLIT], KS, METRICS, **how))
        resumed = time.perf_counter() - started
    halt.set()
    if digest_of_all(points) != digest_of_all(again):
        raise SystemExit("the store gave back another result than was computed")
    lines = _report(points, took, resumed, most[0], workers, len(queries), len(space))
    print("\n".join(lines))
    if out:
        (out / "sweep.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _report(points, took, resumed, most, workers, queries, documents) -> list[str]:
    spent, cells = defaultdict(float), defaultdict(int)
    for p in points:
        spent[p.method] += p.milliseconds * queries / 1000
        cells[p.method] += 1
    lines = [
        "# A whole sweep",
        "",
        f"`python tests/bench/bench_sweep.py --data <folder of judged sets> --workers {workers} --out assets/results`",
        "",
        f"{SET}: {queries:,} queries, {documents} documents, k = {', '.join(map(str, KS))}, "
        f"{', '.join(METRICS)}; {len(points)} cells, {workers} worker processes of one thread on "
        f"{os.cpu_count()} cores, torch {torch.__version__}.",
        "",
        f"**{took:.0f} s** in all with the start of the workers (asked: 240), {len(points) / took:.2f} cells a second; "
        f"at most {most / 2**30:.2f} GiB in all processes together (asked: 2). The same again from the store: "
        f"{resumed:.1f} s.",
        "",
        "| decoder | cells | ms a query | cells a second and worker |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name in SELECTORS:
        # A selector whose answers are nested decodes once for all k: its time is shared by its cells.
        shared = len(KS) if engine.methods()[name].cls.nested else 1
        own = spent[name] / shared
        lines.append(f"| {name} | {cells[name]} | {1000 * own / queries / cells[name]:.3f} | {cells[name] / own:.2f} |")
    return lines


def _watch(most: list[int], halt: threading.Event) -> None:
    """The largest memory of this process and its children together, their own pages only."""
    page = resource.getpagesize()
    while not halt.wait(0.5):
        total = 0
        for pid in (os.getpid(), *_children(os.getpid())):
            try:
                fields = Path(f"/proc/{pid}/statm").read_text().split()
            except OSError:
                continue
            total += (int(fields[1]) - int(fields[2])) * page
        most[0] = max(most[0], total)


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue
    return found + [deeper for child in found for deeper in _children(child)]


if __name__ == "__main__":
    main()
