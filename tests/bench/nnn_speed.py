"""How long elastic nets take: cold, warm, along a grid and a path, beside a plain search, FISTA and scikit-learn."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import selector_data
import torch
from selector_data import Data
from sklearn.linear_model import ElasticNet
from torch import Tensor

import engine
from engine.candidates import Candidates
from engine.matrix import GRAM_ROWS, Matrix, products
from engine.params import params_of
from engine.solvers.elastic_net import Solutions, certificate, elastic_nets
from engine.solvers.fista import iterates
from engine.solvers.regularization_path import regularization_path

SIZES, D, QUERIES = (2_000, 10_000, 100_000), 384, 64
SETTINGS = ((0.1, 0.1), (0.03, 0.03))
PAPER = (0.01, 0.03, 0.06, 0.1, 0.3, 0.6, 1.0)
"""The paper's grid, for λ₁ and for λ₂."""
PASSES = ((0.03, 0.06, 0.1, 0.3), (0.0, 0.01, 0.1, 1.0))
STEPS, TOLERANCE = 50, 1e-6
STOPS, BETWEEN = 25, (0.03, 0.3)
"""As many stops as the dashboard's slider has; moves are timed between these two λ₁."""
LOWEST = 1e-3
CACHED = 20_000
"""Up to so many rows are read once before every call, so that all contestants find them alike in the cache."""
SEARCH, FAST_SEARCH = "torch product + topk", "the engine's product + topk"
BARE, KEPT, SELECT, DECODE = "exact", "exact, kept", "engine.select", "engine.decode"
FISTA, PLAIN_FISTA = "FISTA-50, engine", "FISTA-50, plain torch"
SKLEARN, SKLEARN_64 = "scikit-learn, float32", "scikit-learn, float64"
SET = "toolbank-numpy"

FIRST = """
import time, torch, engine
torch.set_num_threads(1)
rows = torch.randn({n}, 384)
engine.select("top_k", rows, rows[0])
started = time.perf_counter()
engine.select_grid("nnn", rows, rows[:{queries}], grid=[{{}}])
print(time.perf_counter() - started)
"""
"""A fresh process that asks for nnn once."""

Row = dict[str, Any]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Contestant:
    """call(i) answers query i; most: how many queries it gets; residual(i, answer): of the best score."""

    call: Callable[[int], Any]
    most: int
    residual: Callable[[int, Any], float] | None = None


class Bench:
    """One matrix as it comes and once more with all that is worth keeping."""

    def __init__(self, data: Data) -> None:
        self.data, self.n = data, len(data.vectors)
        ids = [str(i) for i in range(self.n)]
        self.space = engine.Space(engine.Corpus(ids, ids), engine.Embeddings(data.vectors, ids), "cpu")
        # Two that keep: one contestant must not find what another's call has left there.
        self.bare, self.kept = Matrix(data.vectors), Matrix(data.vectors, kept=True)
        self.gram = self.n <= GRAM_ROWS
        self.made = {what: _made(data, what) for what in (("codes", "gram") if self.gram else ("codes",))}
        for what in self.made:
            getattr(self.kept, what)
            getattr(self.space.matrix, what)
        self.bound = self.bare.spectrum
        """The largest eigenvalue, which is not on FISTA's clock."""
        self.asked = [engine.Embeddings(data.queries[i : i + 1], [str(i)]) for i in range(QUERIES)]

    def candidates(self, i: int, matrix: Matrix | None = None) -> Candidates:
        """As engine.decoder makes them, scores included."""
        matrix, query = matrix or self.bare, self.data.queries[i : i + 1]
        return Candidates(matrix.vectors, products(matrix.vectors, query), query, matrix)

    def residual(self, i: int, weight: Tensor | np.ndarray, l1: float, l2: float) -> float:
        """The largest violation of the optimality conditions by weights, (n,), of the best score."""
        weight = np.asarray(weight, np.float64)
        members = np.flatnonzero(weight > 0)
        none = np.zeros(1)
        c = self.candidates(i)
        found = Solutions(np.array([len(members)]), members, weight[members], none, none, none, {})
        return float(certificate(c, found, np.array([l1]), np.array([l2]))[0][0] / c.relevance.max())


def sources(given: Namespace) -> Iterator[Data]:
    """Clustered vectors of every size, and the demo python-api between them."""
    for n in SIZES[:2] if given.quick else SIZES:
        if n > CACHED and isinstance(real := selector_data.real(), Data):
            yield real
        yield selector_data.clustered(n, D)


def measure(given: Namespace, say: Say) -> dict[str, Any]:
    """All raw figures."""
    found: dict[str, list[Row]] = {key: [] for key in ("made", "cells", "moves", "passes", "paths", "ridge", "grids")}
    queries = 6 if given.quick else QUERIES
    for data in sources(given):
        bench = Bench(data)
        large = bench.n > CACHED
        place = {"data": data.name, "n": bench.n}
        found["made"].append(place | bench.made | {"vectors": data.vectors.numel() * 4})
        for l1, l2 in SETTINGS:
            say(f"{data.name} {bench.n}: a query, λ₁ {l1}, λ₂ {l2}")
            found["cells"] += [place | row for row in _race(bench, l1, l2, queries)]
        say(f"{data.name} {bench.n}: slider moves, path, λ₁ = 0, passes")
        found["moves"].append(place | _moves(bench, min(queries, 8 if large else 16)))
        found["paths"].append(place | _paths(bench, min(queries, 4 if large else 16)))
        found["ridge"] += [place | _ridge(bench, l2, min(queries, 16)) for l2 in (0.1, 1.0)]
        found["passes"] += [place | row for row in _passes(bench, min(queries, 16 if large else 32))]
        few = min(queries, 2 if large else 16)
        found["grids"].append(place | _grid(data.vectors, data.queries[:few], 1 if large else 3, 0))
    say("the first call in a process")
    found["first"] = [_first("few documents, many queries: a Gram matrix", 500, 64), _first("a query", 3_000, 1)]
    folder = given.data / SET
    if folder.is_dir():
        say(f"{SET}: the whole grid")
        judged = engine.load_dataset(folder)
        vectors, asked = engine.embed(judged.corpus).vectors, engine.embed(judged.queries).vectors
        asked = asked[:100] if given.quick else asked
        found["grids"].append({"data": SET, "n": len(vectors)} | _grid(vectors, asked, 3, 4 if given.quick else 40))
    return found


def _first(what: str, n: int, queries: int) -> Row:
    """Seconds of a process's first call, with nothing compiled and with what the process before it has compiled."""
    with tempfile.TemporaryDirectory() as folder:
        root = str(Path(__file__).resolve().parents[2])
        around = os.environ | {"NUMBA_CACHE_DIR": folder, "PYTHONPATH": root}
        child = [sys.executable, "-c", FIRST.format(n=n, queries=queries)]
        seconds = [float(subprocess.check_output(child, env=around)) for _ in range(2)]
    return {"what": what, "fresh": seconds[0], "kept": seconds[1]}


def _timed(call: Callable[..., Any], *args: Any) -> tuple[float, Any]:
    started = time.perf_counter()
    answer = call(*args)
    return time.perf_counter() - started, answer


def _made(data: Data, what: str) -> Row:
    """What it takes to make something that a kept corpus holds, median of three."""
    seconds = []
    for _ in range(3):
        spent, parts = _timed(getattr, Matrix(data.vectors), what)
        seconds.append(spent)
    tensors = parts if isinstance(parts, tuple) else (parts,)
    return {"seconds": statistics.median(seconds), "bytes": sum(t.numel() * t.element_size() for t in tensors)}


def _race(bench: Bench, l1: float, l2: float, queries: int) -> list[Row]:
    """Every contestant's times, taking turns query by query; ratios are medians over the queries of a pair."""
    racers = _contestants(bench, l1, l2, queries)
    seconds: dict[str, list[float]] = {who: [] for who in racers}
    worst = dict.fromkeys(racers, 0.0)
    for i in range(-1, queries):
        for who, racer in racers.items():
            # The first turn warms up; what lasts seconds needs none.
            if i >= racer.most or (i < 0 and racer.most < queries and bench.n > CACHED):
                continue
            if bench.n <= CACHED:
                torch.mv(bench.data.vectors, bench.data.queries[0])
            spent, answer = _timed(racer.call, max(i, 0))
            if i >= 0:
                seconds[who].append(spent)
                if racer.residual:
                    worst[who] = max(worst[who], racer.residual(i, answer))
    return [
        {
            "l1": l1,
            "l2": l2,
            "who": who,
            "calls": len(spent),
            "seconds": statistics.median(spent),
            "least": min(spent),
            "most": max(spent),
            "residual": worst[who] if racers[who].residual else None,
            "to": {
                peer: statistics.median(a / b for a, b in zip(spent, seconds[peer], strict=False))
                for peer in (SEARCH, FAST_SEARCH, BARE, KEPT)
            },
        }
        for who, spent in seconds.items()
    ]


def _contestants(bench: Bench, l1: float, l2: float, queries: int) -> dict[str, Contestant]:
    rows, points = bench.data.vectors, bench.data.queries
    first, second = np.array([[l1]]), np.array([l2])
    decoder = engine.Decoder(engine.make("nnn", l1=l1, l2=l2))

    def solve(i: int, matrix: Matrix) -> Solutions:
        return elastic_nets(bench.candidates(i, matrix), first, second)

    def steps(i: int) -> Tensor:
        return next(islice(iterates(bench.candidates(i), torch.from_numpy(first[0]), l2), STEPS - 1, None))

    def sklearn(kind: type) -> Callable[[int], np.ndarray]:
        # Its objective is ours over the number of samples, which here is d.
        model = ElasticNet(
            alpha=(l1 + l2) / D, l1_ratio=l1 / (l1 + l2), positive=True, fit_intercept=False, precompute=False,
            copy_X=False, tol=TOLERANCE, max_iter=10_000,
        )  # fmt: skip
        table = rows.numpy().astype(kind, copy=False).T
        return lambda i: model.fit(table, points[i].numpy().astype(kind)).coef_

    def proven(i: int, answer: Solutions) -> float:
        weight = np.zeros(bench.n)
        weight[answer.members] = answer.weights
        return bench.residual(i, weight, l1, l2)

    def weighed(i: int, answer: Any) -> float:
        return bench.residual(i, answer.reshape(-1), l1, l2)

    bound = bench.bound + l2
    slow = min(queries, 3 if bench.n > CACHED else 12)
    return {
        SEARCH: Contestant(lambda i: torch.mv(rows, points[i]).topk(10), queries),
        FAST_SEARCH: Contestant(lambda i: products(rows, points[i : i + 1]).topk(10), queries),
        BARE: Contestant(lambda i: solve(i, bench.bare), queries, proven),
        KEPT: Contestant(lambda i: solve(i, bench.kept), queries, proven),
        SELECT: Contestant(lambda i: engine.select("nnn", rows, points[i], l1=l1, l2=l2), queries),
        DECODE: Contestant(lambda i: engine.decode(decoder, bench.space, bench.asked[i]), queries),
        FISTA: Contestant(steps, slow, weighed),
        PLAIN_FISTA: Contestant(lambda i: plain_fista(rows, points[i], l1, l2, bound), slow, weighed),
        SKLEARN: Contestant(sklearn(np.float32), slow, weighed),
        SKLEARN_64: Contestant(sklearn(np.float64), slow, weighed),
    }


def plain_fista(rows: Tensor, query: Tensor, l1: float, l2: float, bound: float) -> Tensor:
    """(n,) the paper's decoder as one would write it in torch: two products a step."""
    weight = ahead = rows.new_zeros(len(rows))
    pace = 1.0
    for _ in range(STEPS):
        slope = torch.mv(rows, torch.mv(rows.T, ahead) - query) + l2 * ahead
        new = (ahead - (slope + l1) / bound).clamp_min_(0)
        next_pace = (1 + (1 + 4 * pace * pace) ** 0.5) / 2
        ahead = new + (pace - 1) / next_pace * (new - weight)
        weight, pace = new, next_pace
    return weight


def _moves(bench: Bench, queries: int) -> Row:
    """The slider moved down and up, stop by stop, each time from the weights of the stop before; and cold."""
    (slider,) = (p for p in params_of(engine.make("nnn")) if p.name == "l1")
    stops = [np.array([[v]]) for v in sorted(slider.grid(STOPS)) if BETWEEN[0] <= v <= BETWEEN[1]]
    second = np.array([0.1])
    warm, cold, search, passes = [], [], [], []
    for i in range(queries):
        c = bench.candidates(i, bench.kept)
        search.append(_timed(lambda i: torch.mv(bench.data.vectors, bench.data.queries[i]).topk(10), i)[0])
        before = elastic_nets(c, stops[-1], second)
        for stop in [*stops[-2::-1], *stops[1:]]:
            cold.append(_timed(elastic_nets, c, stop, second)[0])
            spent, before = _timed(elastic_nets, c, stop, second, (before.members, before.weights))
            warm.append(spent)
            passes.append(int(before.passes[0]))
    median, ends = statistics.median, {"p90": float(np.quantile(warm, 0.9)), "moves": len(warm)}
    return {"warm": median(warm), "cold": median(cold), "search": median(search), "passes": max(passes)} | ends


def _paths(bench: Bench, queries: int) -> Row:
    seconds, kinks, passes, sizes, residuals = [], [], [], [], []
    for i in range(-1, queries):
        c = bench.candidates(max(i, 0), bench.kept)
        spent, path = _timed(regularization_path, c, 0.1, LOWEST)
        if i >= 0:
            seconds.append(spent)
            kinks.append(len(path))
            passes.append(path.passes)
            sizes.append(int(path.sizes.max()))
            residuals.append(path.residual / float(c.relevance.max()) if path.finished else float("inf"))
    return {
        "queries": queries, "seconds": statistics.median(seconds), "least": min(seconds), "most": max(seconds),
        "kinks": statistics.median(kinks), "passes": max(passes), "support": max(sizes), "residual": max(residuals),
    }  # fmt: skip


def _ridge(bench: Bench, l2: float, queries: int) -> Row:
    """λ₁ = 0."""
    seconds, sizes, residuals = [], [], []
    for i in range(-1, queries):
        spent, found = _timed(
            lambda i: elastic_nets(bench.candidates(i, bench.kept), np.zeros((1, 1)), np.array([l2])), max(i, 0)
        )
        if i >= 0:
            seconds.append(spent)
            sizes.append(len(found.members))
            residuals.append(float(found.residual[0] / bench.candidates(i).relevance.max()))
    return {
        "l2": l2, "seconds": statistics.median(seconds), "least": min(seconds), "most": max(seconds),
        "support": statistics.median(sizes), "largest": max(sizes), "residual": max(residuals),
    }  # fmt: skip


def _passes(bench: Bench, queries: int) -> Iterator[Row]:
    for l1 in PASSES[0]:
        for l2 in PASSES[1]:
            found = [
                engine.select("nnn", bench.data.vectors, bench.data.queries[i], l1=l1, l2=l2).info[0]
                for i in range(queries)
            ]
            passes = [info["passes"] for info in found]
            certified = sum(info["certified"] for info in found) / queries
            yield {"l1": l1, "l2": l2, "mean": statistics.fmean(passes), "most": max(passes), "certified": certified}


def _grid(vectors: Tensor, asked: Tensor, runs: int, slow: int) -> Row:
    """The paper's 49 settings for all queries in one call; and by FISTA for the first `slow` of them."""
    grid = [{"l1": l1, "l2": l2} for l2 in PAPER for l1 in PAPER]
    spent = [_timed(lambda: engine.select_grid("nnn", vectors, asked, grid=grid))[0] for _ in range(runs)]
    row = {"queries": len(asked), "seconds": statistics.median(spent) / len(asked), "runs": runs}
    if slow:
        steps = [params | {"solver": "fista", "iterations": STEPS} for params in grid]
        row["fista"] = _timed(lambda: engine.select_grid("nnn", vectors, asked[:slow], grid=steps))[0] / slow
    return row


def ms(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def table(head: Iterable[Any], lines: Iterable[Iterable[Any]]) -> list[str]:
    """A Markdown table and a blank line."""
    head = list(head)
    return ["| " + " | ".join(map(str, row)) + " |" for row in (head, ["---"] * len(head), *lines)] + [""]
