"""Times a whole sweep: every decoder of the papers over its parameters, on one judged set, on all cores.

python tests/bench/bench_sweep.py --data <folder of judged sets> --out assets/results
"""

import os
import resource
import statistics
import tempfile
import threading
from collections import defaultdict
from functools import partial
from pathlib import Path

from harness import Judged, machine, parse_arguments, table, time_call, write_page

from engine.decoder import Decoder
from engine.evaluation.exact_frontier import compute_exact_frontiers
from engine.evaluation.sweep.sweep import grid, sweep
from engine.stages import make
from support.points import digest_of_all

SET, SPLIT, KS = "toolbank-numpy", "dev", (3, 5, 10)
SELECTORS = ("top_k", "mmr", "dpp", "frank_wolfe", "max_sum", "vrsd", "nnn")
EVERY_VALUE = {"mmr": {}, "dpp": {}, "ssd": {}, "max_sum": {"polish": False}, "facility_location": {}}
METRICS = ("recall", "comp", "ndcg", "ilad")


def main() -> None:
    args = parse_arguments(__doc__, data=True, workers=2)
    judged = Judged(args.data / SET)
    space, queries, qrels = judged.space, judged.select_queries(SPLIT), judged.data.qrels[SPLIT]
    decoders = [decoder for name in SELECTORS for decoder in grid(name)]
    peak, halt = [0], threading.Event()
    threading.Thread(target=_record_peak, args=(peak, halt), daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "sweep.db"

        def run() -> list:
            return list(
                sweep(decoders, space, queries, qrels, KS, METRICS, split=SPLIT, store=store, workers=args.workers)
            )

        seconds, points = time_call(run)
        resumed, again = time_call(run)
        data = (space, queries, qrels, KS, METRICS)
        exact = [
            (n, *time_call(partial(compute_exact_frontiers, Decoder(make(n, **f)), *data, store=store)))
            for n, f in EVERY_VALUE.items()
        ]
    halt.set()
    if digest_of_all(points) != digest_of_all(again):
        raise SystemExit("the store gave back another result than was computed")
    times = defaultdict(list)
    for p in points:
        times[p.method].append(p.latency)
    rows = [(name, len(times[name]), f"{statistics.median(times[name]):.3f}") for name in SELECTORS]
    write_page(
        args,
        "sweep",
        "A whole sweep",
        f"{SET}: {len(queries):,} queries, {len(space)} documents, k = {', '.join(map(str, KS))}, "
        f"{', '.join(METRICS)}; {len(points)} cells, {args.workers} worker processes of one thread; "
        f"{machine(('torch',))}.",
        f"**{seconds:.0f} s** in all with the start of the workers (asked: 25), {len(points) / seconds:.2f} cells a "
        f"second; at most {peak[0] / 2**30:.2f} GiB in all processes together (asked: 2). The same again from the "
        f"store: {resumed:.1f} s.",
        table(("decoder", "cells", "ms a query that is asked alone, median of the cells"), rows, "lr"),
        "## Every value of λ",
        f"The exact frontiers at the same k, in one process of one thread: **{sum(e[1] for e in exact):.0f} s** "
        "(asked: 60). Pieces: between neighbouring breakpoints of the means at k = " + ", ".join(map(str, KS)) + ".",
        table(
            ("decoder", "seconds", "pieces"),
            [(name, f"{spent:.1f}", ", ".join(f"{len(c):,}" for c in curves)) for name, spent, curves in exact],
            "lr",
        ),
    )


def _record_peak(peak: list[int], halt: threading.Event) -> None:
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
        peak[0] = max(peak[0], total)


def _children(pid: int) -> list[int]:
    children = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            children += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue
    return children + [deeper for child in children for deeper in _children(child)]


if __name__ == "__main__":
    main()
