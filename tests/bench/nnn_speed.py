"""How long elastic nets take: cold, along sliders, grids and paths, beside a plain search, FISTA, scikit-learn."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import numpy as np
import selector_data
import torch
from harness import ROOT, Block, Say, ms, table, timed, verdict
from selector_data import Data
from sklearn.linear_model import ElasticNet
from torch import Tensor

import engine
from engine.candidates import Candidates
from engine.matrix import GRAM_ROWS, Matrix, products
from engine.params import params_of
from engine.solvers.elastic_net.fista import iterates
from engine.solvers.elastic_net.path import regularization_path
from engine.solvers.elastic_net.solve import Solutions, certificate, elastic_nets

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
        self.bare, self.kept = Matrix(data.vectors), Matrix(data.vectors, cached=True)
        self.gram = self.n <= GRAM_ROWS
        self.made = {what: _made(data, what) for what in (("codes", "gram") if self.gram else ("codes",))}
        for what in self.made:
            getattr(self.kept, what)
            getattr(self.space.matrix, what)
        self.bound = self.bare.spectral_norm_squared
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
        ends = np.array([len(members)])
        solution = Solutions(ends=ends, members=members, weights=weight[members], residual=none, gap=none, passes=none)
        return float(certificate(c, solution, np.array([l1]), np.array([l2]))[0][0] / c.relevance.max())


def sources(given: Namespace) -> Iterator[Data]:
    """Clustered vectors of every size, and the demo python-api between them."""
    for n in SIZES[:2] if given.quick else SIZES:
        if n > CACHED and isinstance(real := selector_data.real(), Data):
            yield real
        yield selector_data.clustered(n, D)


def measure(given: Namespace, say: Say) -> dict[str, Any]:
    """All raw figures."""
    figures: dict[str, list[Row]] = {key: [] for key in ("made", "cells", "moves", "passes", "paths", "ridge", "grids")}
    queries = 6 if given.quick else QUERIES
    for data in sources(given):
        bench = Bench(data)
        large = bench.n > CACHED
        place = {"data": data.name, "n": bench.n}
        figures["made"].append(place | bench.made | {"vectors": data.vectors.numel() * 4})
        for l1, l2 in SETTINGS:
            say(f"{data.name} {bench.n}: a query, λ₁ {l1}, λ₂ {l2}")
            figures["cells"] += [place | row for row in _race(bench, l1, l2, queries)]
        say(f"{data.name} {bench.n}: slider moves, path, λ₁ = 0, passes")
        figures["moves"].append(place | _moves(bench, min(queries, 8 if large else 16)))
        figures["paths"].append(place | _paths(bench, min(queries, 4 if large else 16)))
        figures["ridge"] += [place | _ridge(bench, l2, min(queries, 16)) for l2 in (0.1, 1.0)]
        figures["passes"] += [place | row for row in _passes(bench, min(queries, 16 if large else 32))]
        few = min(queries, 2 if large else 16)
        figures["grids"].append(place | _grid(data.vectors, data.queries[:few], 1 if large else 3, 0))
    say("the first call in a process")
    figures["first"] = [_first("few documents, many queries: a Gram matrix", 500, 64), _first("a query", 3_000, 1)]
    folder = given.data / SET
    if folder.is_dir():
        say(f"{SET}: the whole grid")
        judged = engine.load_dataset(folder)
        vectors, asked = engine.embed(judged.corpus).vectors, engine.embed(judged.queries).vectors
        asked = asked[:100] if given.quick else asked
        figures["grids"].append({"data": SET, "n": len(vectors)} | _grid(vectors, asked, 3, 4 if given.quick else 40))
    return figures


def _first(what: str, n: int, queries: int) -> Row:
    """Seconds of a process's first call, with nothing compiled and with what the process before it has compiled."""
    with tempfile.TemporaryDirectory() as folder:
        around = os.environ | {"NUMBA_CACHE_DIR": folder, "PYTHONPATH": str(ROOT)}
        child = [sys.executable, "-c", FIRST.format(n=n, queries=queries)]
        seconds = [float(subprocess.check_output(child, env=around)) for _ in range(2)]
    return {"what": what, "fresh": seconds[0], "kept": seconds[1]}


def _made(data: Data, what: str) -> Row:
    """What it takes to make something that a kept corpus holds, median of three."""
    seconds = []
    for _ in range(3):
        spent, parts = timed(getattr, Matrix(data.vectors), what)
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
            spent, answer = timed(racer.call, max(i, 0))
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
            **_summary(spent),
            "residual": worst[who] if racers[who].residual else None,
            "to": {
                peer: statistics.median(a / b for a, b in zip(spent, seconds[peer], strict=False))
                for peer in (SEARCH, FAST_SEARCH, BARE, KEPT)
            },
        }
        for who, spent in seconds.items()
    ]


def _summary(seconds: list[float]) -> Row:
    return {"seconds": statistics.median(seconds), "least": min(seconds), "most": max(seconds)}


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
    """The slider moved down and up, stop by stop."""
    (slider,) = (p for p in params_of(engine.make("nnn")) if p.name == "l1")
    stops = [np.array([[v]]) for v in sorted(slider.grid(STOPS)) if BETWEEN[0] <= v <= BETWEEN[1]]
    second = np.array([0.1])
    moves, search, passes = [], [], []
    for i in range(queries):
        c = bench.candidates(i, bench.kept)
        search.append(timed(lambda i: torch.mv(bench.data.vectors, bench.data.queries[i]).topk(10), i)[0])
        for stop in [*stops[-2::-1], *stops[1:]]:
            spent, found = timed(elastic_nets, c, stop, second)
            moves.append(spent)
            passes.append(int(found.passes[0]))
    median, ends = statistics.median, {"p90": float(np.quantile(moves, 0.9)), "moves": len(moves)}
    return {"move": median(moves), "search": median(search), "passes": max(passes)} | ends


def _paths(bench: Bench, queries: int) -> Row:
    seconds, kinks, passes, sizes, residuals = [], [], [], [], []
    for i in range(-1, queries):
        c = bench.candidates(max(i, 0), bench.kept)
        spent, path = timed(regularization_path, c, 0.1, LOWEST)
        if i >= 0:
            seconds.append(spent)
            kinks.append(len(path))
            passes.append(path.passes)
            sizes.append(int(path.sizes.max()))
            residuals.append(path.residual / float(c.relevance.max()) if path.finished else float("inf"))
    return {
        "queries": queries, **_summary(seconds),
        "kinks": statistics.median(kinks), "passes": max(passes), "support": max(sizes), "residual": max(residuals),
    }  # fmt: skip


def _ridge(bench: Bench, l2: float, queries: int) -> Row:
    """λ₁ = 0."""
    seconds, sizes, residuals = [], [], []
    for i in range(-1, queries):
        spent, solutions = timed(
            lambda i: elastic_nets(bench.candidates(i, bench.kept), np.zeros((1, 1)), np.array([l2])), max(i, 0)
        )
        if i >= 0:
            seconds.append(spent)
            sizes.append(len(solutions.members))
            residuals.append(float(solutions.residual[0] / bench.candidates(i).relevance.max()))
    return {
        "l2": l2, **_summary(seconds),
        "support": statistics.median(sizes), "largest": max(sizes), "residual": max(residuals),
    }  # fmt: skip


def _passes(bench: Bench, queries: int) -> Iterator[Row]:
    for l1 in PASSES[0]:
        for l2 in PASSES[1]:
            infos = [
                engine.select("nnn", bench.data.vectors, bench.data.queries[i], l1=l1, l2=l2).info[0]
                for i in range(queries)
            ]
            passes = [info["passes"] for info in infos]
            certified = sum(info["certified"] for info in infos) / queries
            yield {"l1": l1, "l2": l2, "mean": statistics.fmean(passes), "most": max(passes), "certified": certified}


def _grid(vectors: Tensor, asked: Tensor, runs: int, slow: int) -> Row:
    """The paper's 49 settings for all queries in one call; and by FISTA for the first `slow` of them."""
    grid = [{"l1": l1, "l2": l2} for l2 in PAPER for l1 in PAPER]
    spent = [timed(lambda: engine.select_grid("nnn", vectors, asked, grid=grid))[0] for _ in range(runs)]
    row = {"queries": len(asked), "seconds": statistics.median(spent) / len(asked), "runs": runs}
    if slow:
        steps = [params | {"solver": "fista", "iterations": STEPS} for params in grid]
        row["fista"] = timed(lambda: engine.select_grid("nnn", vectors, asked[:slow], grid=steps))[0] / slow
    return row


def verdicts(figures: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Every target, what was measured, and whether it is met."""
    cells = figures["cells"]

    def rows_of(who: Iterable[str], n: int) -> list[Row]:
        return [row for row in cells if row["n"] == n and row["who"] in who and row["data"] == "clustered"]

    def judge(target: str, values: list[float], limit: float, unit: str, least: bool = False):
        if not values:
            return target, "not measured", "–"
        worst = min(values) if least else max(values)
        met = worst >= limit if least else worst <= limit
        shown = f"{worst:.3g} {unit}" + (f" (the best of {len(values)}: " if len(values) > 1 else "")
        best = max(values) if least else min(values)
        return target, shown + (f"{best:.3g} {unit})" if len(values) > 1 else ""), verdict(met)

    def over_search(who: str, n: int) -> list[float]:
        return [row["to"][SEARCH] for row in rows_of([who], n)]

    for who, n, most in ((BARE, 10_000, 5), (BARE, 100_000, 4), (KEPT, 10_000, 5), (KEPT, 100_000, 3)):
        codes = " with 8-bit codes" if who == KEPT else ""
        target = f"a cold query{codes}, n = {n:,}: at most {most} × {SEARCH}"
        yield judge(target, over_search(who, n), most, "×")
    for n, most in ((2_000, 200), (10_000, 500)):
        moves = [1e6 * row["move"] for row in figures["moves"] if row["n"] == n]
        yield judge(f"a slider move, n = {n:,}: at most {most} µs", moves, most, "µs")
    whole = [1e3 * row["seconds"] for row in figures["grids"] if row["data"] == SET]
    yield judge(f"the 7 × 7 grid on {SET}: at most 2 ms a query", whole, 2, "ms")
    for peers, least in (((FISTA, PLAIN_FISTA), 20), ((SKLEARN, SKLEARN_64), 100)):
        for n in SIZES:
            slower = [row["to"][BARE] for row in rows_of(peers, n)]
            name = "either FISTA-50" if least == 20 else "scikit-learn in either precision"
            yield judge(f"a cold query, n = {n:,}: at least {least} × as fast as {name}", slower, least, "×", True)
    passes = [float(row["most"]) for row in figures["passes"]]
    yield judge("passes of a query (info), λ₁ .03 to .3, λ₂ 0 to 1: at most 5", passes, 5, "passes")


def tables(figures: dict[str, Any]) -> list[Block]:
    """The section as Markdown."""
    blocks = ["### Targets", table(("target", "measured", "met"), verdicts(figures)), "### A query, cold", COLD]
    blocks += [_cold_table(figures["cells"], l1, l2) for l1, l2 in SETTINGS]
    head = ("data", "n", "median", "90 % within", SEARCH, "most passes", "moves")
    blocks += ["### A slider move", MOVES, table(head, map(_move_row, figures["moves"]))]
    head = ("data", "n", "queries", "exact, a query", "FISTA-50, a query")
    rows = (
        (*_place(r), r["queries"], ms(r["seconds"]), ms(r["fista"]) if "fista" in r else "–") for r in figures["grids"]
    )
    blocks += ["### The paper's grid, 7 × 7, in one call of select_grid", table(head, rows)]
    blocks += ["### Passes over the corpus", COUNTED, _passes_table(figures["passes"])]
    blocks.append(f"### The whole path, λ₂ = .1, from the best score to λ₁ = {LOWEST:g}")
    head = ("data", "n", "time", "least to most", "kinks", "most passes", "largest support", "residual")
    rows = (
        (*_place(r), *_times(r), f"{r['kinks']:.0f}", r["passes"], r["support"], f"{r['residual']:.0e}")
        for r in figures["paths"]
    )
    blocks += [table(head, rows), "### λ₁ = 0"]
    head = ("data", "n", "λ₂", "time", "least to most", "support, median", "largest", "residual")
    rows = (
        (*_place(r), r["l2"], *_times(r), f"{r['support']:.0f}", r["largest"], f"{r['residual']:.0e}")
        for r in figures["ridge"]
    )
    blocks += [table(head, rows), "### What a kept corpus makes once"]
    rows = (
        (*_place(r), name, ms(r[name]["seconds"]), f"{size / 2**20:.1f} MiB", f"{size / r['vectors']:.2f}")
        for r in figures["made"]
        for name in ("codes", "gram")
        if name in r and (size := r[name]["bytes"])
    )
    blocks.append(table(("data", "n", "what", "time", "memory", "of the vectors'"), rows))
    blocks += ["### The first call in a process", "One thread; compiling happens once a machine."]
    rows = ((row["what"], ms(row["fresh"]), ms(row["kept"])) for row in figures["first"])
    return [*blocks, table(("call", "nothing compiled yet", "compiled code on the disk"), rows), selector_data.HOW]


def _cold_table(cells: list[Row], l1: float, l2: float) -> list[str]:
    """Every contestant by corpus at one setting; ratios to ours; residuals."""
    rows = {(row["data"], row["n"], row["who"]): row for row in cells if (row["l1"], row["l2"]) == (l1, l2)}
    places = list(dict.fromkeys((data, n) for data, n, _ in rows))

    def of(who: str) -> list[Row]:
        return [rows[*place, who] for place in places]

    body = [
        [who, *(f"{ms(row['seconds'])} · {row['to'][SEARCH]:.2f} ×" for row in of(who))]
        for who in dict.fromkeys(who for _, _, who in rows)
    ]
    body += [[f"{who} ÷ {FAST_SEARCH}", *(f"{row['to'][FAST_SEARCH]:.2f}" for row in of(who))] for who in (BARE, KEPT)]
    for peer, ours in product((FISTA, PLAIN_FISTA, SKLEARN, SKLEARN_64), (BARE, KEPT)):
        body.append([f"{peer} ÷ {ours}", *(f"{row['to'][ours]:.1f}" for row in of(peer))])
    for who in (BARE, KEPT, FISTA, PLAIN_FISTA, SKLEARN, SKLEARN_64):
        body.append([f"residual, {who}", *(f"{row['residual']:.0e}" for row in of(who))])
    return table([f"λ₁ = {l1}, λ₂ = {l2}", *(f"{name}, {n:,}" for name, n in places)], body)


def _passes_table(rows: list[Row]) -> list[str]:
    body = []
    for (name, n), l1 in product(dict.fromkeys((row["data"], row["n"]) for row in rows), PASSES[0]):
        line = [row for row in rows if (row["data"], row["n"], row["l1"]) == (name, n, l1)]
        cells = (f"{row['mean']:.2f} · {row['most']}" for row in line)
        body.append([name, f"{n:,}", l1, *cells, f"{min(row['certified'] for row in line):.0%}"])
    return table(("data", "n", "λ₁", *(f"λ₂ = {l2:g}" for l2 in PASSES[1]), "certified"), body)


def _move_row(row: Row) -> tuple[Any, ...]:
    micro = (f"{1e6 * row[key]:.0f} µs" for key in ("move", "p90", "search"))
    return *_place(row), *micro, row["passes"], row["moves"]


def _place(row: Row) -> tuple[str, str]:
    return row["data"], f"{row['n']:,}"


def _times(row: Row) -> tuple[str, str]:
    return ms(row["seconds"]), f"{ms(row['least'])} to {ms(row['most'])}"


COLD = (
    f"One query, float32, d = {D}, medians; contestants take turns query by query, and a ratio is the median over the "
    f"queries of the two times. exact: the scores (one product) and the minimiser with its certificate, nothing kept "
    "of the corpus; kept: with its 8-bit codes (up to 2,048 rows: its Gram matrix) at hand; engine.select: the whole "
    "call on a tensor, validation included; engine.decode: the whole call on a Space, which keeps. After each time: "
    f"how many times that of {SEARCH}, one torch.mv and topk(10); the engine's own product reads memory faster. "
    "FISTA-50: the steps alone, its largest eigenvalue known. scikit-learn: ElasticNet(positive=True, "
    f"fit_intercept=False, precompute=False, tol={TOLERANCE:g}).fit on Uᵀ as it lies. residual: the largest violation "
    "of the optimality conditions, of the best score, worst query. python-api's queries are eight questions in turn. "
    f"Up to {CACHED:,} rows the vectors are read once before each call, off the clock."
)
MOVES = (
    f"The solver's call on a kept corpus with the scores given, λ₂ = .1, from one stop to the next of a slider with "
    f"{STOPS} stops, down from λ₁ = {BETWEEN[1]} to {BETWEEN[0]} and up again."
)
COUNTED = (
    "Mean · most over queries of info['passes'] of engine.select: the product that scores all rows, and the passes "
    "that check the answer against them. certified: the least share of certified answers in the line."
)
