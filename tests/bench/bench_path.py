"""What every λ costs beside one, and whether a path is the selector at each λ, as measured here.

python tests/bench/bench_path.py [--large]      writes assets/results/path.md, some minutes; --large: 100,000 too

On the demo numpy-api and on clustered vectors from a seed. Fails where a path and its selector part, or where a path
takes longer than is promised.
"""

import statistics
import sys
import time
from functools import partial

import numpy as np
import torch
from harness import machine, ms, parse_arguments, space_of, table, time_call, verdict, write_page
from selector_data import clustered

import engine

K, QUERIES, RANDOM = 10, 4, 10_000
OFFSETS = (0.0, 1e-15, -1e-15, 1e-13, -1e-13, 1e-10)
SELECTORS = {"mmr": {}, "dpp": {}, "ssd": {}, "max_sum": {"polish": False}, "facility_location": {}}
PROMISED = {("numpy-api", name): 2.0 for name in SELECTORS} | {("numpy-api", "facility_location"): 5.0}
"""Milliseconds a query over all λ."""
TIMES = 15.0
"""On 10,000 vectors a path takes no longer than so many calls: of mmr over all λ, of mmr, dpp and ssd over λ ≥ ½."""


def noisy_documents(space, seed=0):
    """Documents of a space with noise of half their length."""
    source = torch.Generator().manual_seed(seed)
    rows = space.vectors[torch.randperm(len(space), generator=source)[:QUERIES]]
    noise = torch.nn.functional.normalize(torch.randn(rows.shape, generator=source))
    return embeddings(torch.nn.functional.normalize(rows + 0.5 * noise))


def embeddings(vectors):
    return engine.Embeddings(tuple(map(str, range(len(vectors)))), vectors)


def decoder(name, value):
    return engine.Decoder(engine.make(name, relevance_weight=value, **SELECTORS[name]))


def cpu_seconds(call, runs):
    """Median over some calls of this process's CPU time, which others on the machine do not lengthen."""
    return statistics.median(time_call(call, clock=time.process_time)[0] for _ in range(runs))


def timing(space, queries, name, interval):
    """Medians over the queries: rankings, seconds of a path, and seconds of a call at λ spread over the interval."""
    rows, paths, calls, runs = [], [], [], 1 if len(space) == 100_000 else 5
    for i in range(len(queries)):
        query = queries.take([i])
        find = partial(engine.path, name, space, query, K, interval, **SELECTORS[name])
        rows.append(len(find()[0]))
        paths.append(cpu_seconds(find, runs))
        for value in np.linspace(*interval, 11)[1:-1:2].tolist():
            calls.append(cpu_seconds(partial(engine.decode, decoder(name, value), space, query, K), runs))
    return statistics.median(rows), statistics.median(paths), statistics.median(calls)


def parted(space, queries, name):
    """(λ where path and selector differ, λ looked at): random ones, and on both sides of every breakpoint."""
    source, wrong, looked = np.random.default_rng(0), 0, 0
    for i in range(len(queries)):
        query = queries.take([i])
        path = engine.path(name, space, query, K, **SELECTORS[name])[0]
        values = np.concatenate([source.random(RANDOM // len(queries)), *(path.breakpoints + x for x in OFFSETS)])
        for value in values.clip(0, 1).tolist():
            same = torch.equal(path.at(value).index, engine.decode(decoder(name, value), space, query, K).index)
            wrong, looked = wrong + (not same), looked + 1
    return wrong, looked


def main():
    args = parse_arguments(__doc__, large=False)
    corpus = engine.load_dataset("numpy-api").corpus
    demo = engine.Space(corpus, engine.embed(corpus, device="cpu"), "cpu")
    sets = {"numpy-api": (demo, noisy_documents(demo))}
    for n in (10_000, 100_000) if args.large else (10_000,):
        data = clustered(n, 384)
        sets[f"clustered, {n:,}"] = space_of(data.vectors), embeddings(data.queries[:QUERIES])
    rows, failed = [], False
    for set_name, (space, queries) in sets.items():
        for interval in ((0.0, 1.0), (0.5, 1.0)) if len(space) < 100_000 else ((0.5, 1.0),):
            for name in SELECTORS:
                count, path, call = timing(space, queries, name, interval)
                limit, met = PROMISED.get((set_name, name)) if interval[0] == 0 else None, None
                if limit is not None:
                    met = 1e3 * path <= limit
                elif len(space) == 10_000 and (name == "mmr" or (interval[0] > 0 and name in ("dpp", "ssd"))):
                    met = path <= TIMES * call
                failed |= met is False
                part = f"{interval[0]:g} to {interval[1]:g}"
                rows.append(
                    (set_name, name, part, f"{count:g}", ms(path), ms(call), f"{path / call:.1f}", verdict(met))
                )
                print(rows[-1], flush=True)
    checked = {name: parted(*sets["numpy-api"], name) for name in SELECTORS}
    failed |= any(wrong for wrong, _ in checked.values())
    write_page(
        args,
        "path",
        "Every λ at once",
        machine(("numpy", "torch", "numba")) + ".",
        f"`engine.path` with k = {K}, one query at a time, medians of CPU time over {QUERIES} queries; call: "
        "`engine.decode` at five λ spread over the interval. numpy-api: 819 documents, queries are documents with "
        "noise of half their length; clustered: unit vectors of 384 dimensions, about 100 in a cluster (seed 0). "
        "facility_location chooses from the 1,000 most relevant.",
        "Promised: on numpy-api 2 ms a query over all λ, facility_location 5; on 10,000 vectors no longer than "
        f"{TIMES:g} calls for mmr over all λ, and for mmr, dpp and ssd over λ ≥ ½.",
        table(("documents", "selector", "λ", "rankings", "path", "call", "calls", "promise"), rows, "lllrrrrl"),
        "Does the path say what the selector says? On numpy-api, at random λ and beside every breakpoint (on it, and "
        "1e-15, 1e-13 and 1e-10 off):",
        table(("selector", "λ looked at", "other answers"), [(n, f"{c:,}", w) for n, (w, c) in checked.items()], "lrr"),
    )
    sys.exit(failed)


if __name__ == "__main__":
    main()
