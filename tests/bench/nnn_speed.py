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
from harness import ROOT, Block, Say, median_seconds, ms, space_of, summary, table, timed, verdict
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
"""The paper's values of λ₁ and of λ₂."""
GRID = [{"l1": l1, "l2": l2} for l2 in PAPER for l1 in PAPER]
PASSES = ((0.03, 0.06, 0.1, 0.3), (0.0, 0.01, 0.1, 1.0))
STEPS, TOLERANCE = 50, 1e-6
FISTA_50 = {"solver": "fista", "iterations": STEPS}
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
    """call(i) answers query i; most: how many queries it gets; checked: whether its answers are weights."""

    call: Callable[[int], Any]
    most: int
    checked: bool = False


class Bench:
    """One matrix as it comes and once more with all that is worth keeping."""

    def __init__(self, data: Data) -> None:
        self.data, self.n = data, len(data.vectors)
        self.space = space_of(data.vectors)
        # Two that keep: one contestant must not find what another's call has left there.
        self.bare, self.kept = Matrix(data.vectors), Matrix(data.vectors, cached=True)
        self.made = {what: _made(data, what) for what in (("codes", "gram") if self.n <= GRAM_ROWS else ("codes",))}
        for what in self.made:
            getattr(self.kept, what)
            getattr(self.space.matrix, what)
        self.bound = self.bare.spectral_norm_squared
        """The largest eigenvalue, which is not on FISTA's clock."""
        self.asked = [engine.Embeddings([str(i)], data.queries[i : i + 1]) for i in range(QUERIES)]

    def candidates(self, i: int, matrix: Matrix | None = None) -> Candidates:
        """As engine.decoder makes them, scores included."""
        matrix, query = matrix or self.bare, self.data.queries[i : i + 1]
        return Candidates(matrix.vectors, products(matrix.vectors, query), query, matrix)

    def best(self, i: int) -> float:
        """The largest score of a query."""
        return float(self.candidates(i).relevance.max())

    def residual(self, i: int, answer: Solutions | Tensor | np.ndarray, l1: float, l2: float) -> float:
        """The largest violation of the optimality conditions by an answer, or (n,) weights, of the best score."""
        if not isinstance(answer, Solutions):
            weight = np.asarray(answer, np.float64).reshape(-1)
            members, none = np.flatnonzero(weight > 0), np.zeros(1)
            answer = Solutions(
                ends=np.array([len(members)]), members=members, weights=weight[members], residual=none, gap=none,
                passes=none,
            )  # fmt: skip
        c = self.candidates(i)
        return float(certificate(c, answer, np.array([l1]), np.array([l2]))[0][0] / c.relevance.max())


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
        fresh, kept = (float(subprocess.check_output(child, env=around)) for _ in range(2))
    return {"what": what, "fresh": fresh, "kept": kept}


def _made(data: Data, what: str) -> Row:
    """What it takes to make something that a kept corpus holds, median of three."""
    seconds, parts = zip(*(timed(getattr, Matrix(data.vectors), what) for _ in range(3)), strict=True)
    tensors = parts[0] if isinstance(parts[0], tuple) else parts[:1]
    return {"seconds": statistics.median(seconds), "bytes": sum(t.numel() * t.element_size() for t in tensors)}


def _race(bench: Bench, l1: float, l2: float, queries: int) -> list[Row]:
    """Every contestant's times, taking turns query by query; ratios are medians over the queries of a pair."""
    racers = _contestants(bench, l1, l2, queries)
    seconds: dict[str, list[float]] = {who: [] for who in racers}
    worst = {who: 0.0 if racer.checked else None for who, racer in racers.items()}
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
                if racer.checked:
                    worst[who] = max(worst[who], bench.residual(i, answer, l1, l2))

    def ratio(who: str, peer: str) -> float:
        return statistics.median(a / b for a, b in zip(seconds[who], seconds[peer], strict=False))

    return [
        {"l1": l1, "l2": l2, "who": who, "calls": len(spent), **summary(spent), "residual": worst[who]}
        | {"to": {peer: ratio(who, peer) for peer in (SEARCH, FAST_SEARCH, BARE, KEPT)}}
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

    bound = bench.bound + l2
    slow = min(queries, 3 if bench.n > CACHED else 12)
    return {
        SEARCH: Contestant(lambda i: torch.mv(rows, points[i]).topk(10), queries),
        FAST_SEARCH: Contestant(lambda i: products(rows, points[i : i + 1]).topk(10), queries),
        BARE: Contestant(lambda i: solve(i, bench.bare), queries, True),
        KEPT: Contestant(lambda i: solve(i, bench.kept), queries, True),
        SELECT: Contestant(lambda i: engine.select("nnn", rows, points[i], l1=l1, l2=l2), queries),
        DECODE: Contestant(lambda i: engine.decode(decoder, bench.space, bench.asked[i]), queries),
        FISTA: Contestant(steps, slow, True),
        PLAIN_FISTA: Contestant(lambda i: plain_fista(rows, points[i], l1, l2, bound), slow, True),
        SKLEARN: Contestant(sklearn(np.float32), slow, True),
        SKLEARN_64: Contestant(sklearn(np.float64), slow, True),
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


def _on_kept(bench: Bench, queries: int, solve: Callable[..., Any], *given: Any) -> tuple[list[float], list[Any]]:
    """Seconds and answers of a solver on the kept corpus, query by query, after one call that warms up."""
    calls = [timed(solve, bench.candidates(max(i, 0), bench.kept), *given) for i in range(-1, queries)][1:]
    return [spent for spent, _ in calls], [answer for _, answer in calls]


def _paths(bench: Bench, queries: int) -> Row:
    seconds, paths = _on_kept(bench, queries, regularization_path, 0.1, LOWEST)
    residuals = [p.residual / bench.best(i) if p.finished else float("inf") for i, p in enumerate(paths)]
    return {
        "queries": queries, **summary(seconds), "kinks": statistics.median(map(len, paths)),
        "passes": max(p.passes for p in paths), "support": max(int(p.sizes.max()) for p in paths),
        "residual": max(residuals),
    }  # fmt: skip


def _ridge(bench: Bench, l2: float, queries: int) -> Row:
    """λ₁ = 0."""
    seconds, answers = _on_kept(bench, queries, elastic_nets, np.zeros((1, 1)), np.array([l2]))
    sizes = [len(answer.members) for answer in answers]
    residual = max(float(answer.residual[0]) / bench.best(i) for i, answer in enumerate(answers))
    ends = {"support": statistics.median(sizes), "largest": max(sizes), "residual": residual}
    return {"l2": l2, **summary(seconds), **ends}


def _passes(bench: Bench, queries: int) -> Iterator[Row]:
    rows, points = bench.data.vectors, bench.data.queries
    for l1, l2 in product(*PASSES):
        infos = [engine.select("nnn", rows, points[i], l1=l1, l2=l2).info[0] for i in range(queries)]
        passes = [info["passes"] for info in infos]
        certified = sum(info["certified"] for info in infos) / queries
        yield {"l1": l1, "l2": l2, "mean": statistics.fmean(passes), "most": max(passes), "certified": certified}


def _grid(vectors: Tensor, asked: Tensor, runs: int, slow: int) -> Row:
    """The paper's 49 settings for all queries in one call; and by FISTA for the first `slow` of them."""
    whole = median_seconds(lambda: engine.select_grid("nnn", vectors, asked, grid=GRID), runs)
    row = {"queries": len(asked), "seconds": whole / len(asked), "runs": runs}
    if slow:
        steps = [params | FISTA_50 for params in GRID]
        row["fista"] = timed(lambda: engine.select_grid("nnn", vectors, asked[:slow], grid=steps))[0] / slow
    return row


def judge(target: str, values: list[float], limit: float, unit: str, least: bool = False) -> tuple[str, str, str]:
    """A target, the worst measured and the best, and whether the worst is at most the limit, or at least."""
    if not values:
        return target, "not measured", verdict(None)
    worst, best = (min(values), max(values)) if least else (max(values), min(values))
    more = f" (the best of {len(values)}: {best:.3g} {unit})" if len(values) > 1 else ""
    return target, f"{worst:.3g} {unit}{more}", verdict(worst >= limit if least else worst <= limit)


def verdicts(figures: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Every target, what was measured, and whether it is met."""

    def to(peer: str, who: Iterable[str], n: int) -> list[float]:
        cells = (row for row in figures["cells"] if row["n"] == n and row["data"] == "clustered")
        return [row["to"][peer] for row in cells if row["who"] in who]

    for who, n, most in ((BARE, 10_000, 5), (BARE, 100_000, 4), (KEPT, 10_000, 5), (KEPT, 100_000, 3)):
        codes = " with 8-bit codes" if who == KEPT else ""
        target = f"a cold query{codes}, n = {n:,}: at most {most} × {SEARCH}"
        yield judge(target, to(SEARCH, [who], n), most, "×")
    for n, most in ((2_000, 200), (10_000, 500)):
        moves = [1e6 * row["move"] for row in figures["moves"] if row["n"] == n]
        yield judge(f"a slider move, n = {n:,}: at most {most} µs", moves, most, "µs")
    whole = [1e3 * row["seconds"] for row in figures["grids"] if row["data"] == SET]
    yield judge(f"the 7 × 7 grid on {SET}: at most 2 ms a query", whole, 2, "ms")
    for name, peers, least in (
        ("either FISTA-50", (FISTA, PLAIN_FISTA), 20),
        ("scikit-learn in either precision", (SKLEARN, SKLEARN_64), 100),
    ):
        for n in SIZES:
            target = f"a cold query, n = {n:,}: at least {least} × as fast as {name}"
            yield judge(target, to(BARE, peers, n), least, "×", True)
    passes = [float(row["most"]) for row in figures["passes"]]
    yield judge("passes of a query (info), λ₁ .03 to .3, λ₂ 0 to 1: at most 5", passes, 5, "passes")


def _section(title: str, head: Iterable[str], figures: Iterable[Row], cells: Callable[[Row], Iterable[Any]]) -> list:
    """A heading and a table whose rows begin with the corpus."""
    rows = ((row["data"], f"{row['n']:,}", *cells(row)) for row in figures)
    return [f"### {title}", table(("data", "n", *head), rows)]


def tables(figures: dict[str, Any]) -> list[Block]:
    """The section as Markdown."""
    blocks = ["### Targets", table(("target", "measured", "met"), verdicts(figures)), "### A query, cold", COLD]
    blocks += [_cold_table(figures["cells"], l1, l2) for l1, l2 in SETTINGS]
    title, moves = _section(
        "A slider move",
        ("median", "90 % within", SEARCH, "most passes", "moves"),
        figures["moves"],
        lambda r: (*(f"{1e6 * r[key]:.0f} µs" for key in ("move", "p90", "search")), r["passes"], r["moves"]),
    )
    blocks += [title, MOVES, moves]
    blocks += _section(
        "The paper's grid, 7 × 7, in one call of select_grid",
        ("queries", "exact, a query", "FISTA-50, a query"),
        figures["grids"],
        lambda r: (r["queries"], ms(r["seconds"]), ms(r["fista"]) if "fista" in r else "–"),
    )
    blocks += ["### Passes over the corpus", COUNTED, _passes_table(figures["passes"])]
    blocks += _section(
        f"The whole path, λ₂ = .1, from the best score to λ₁ = {LOWEST:g}",
        ("time", "least to most", "kinks", "most passes", "largest support", "residual"),
        figures["paths"],
        lambda r: (*_times(r), f"{r['kinks']:.0f}", r["passes"], r["support"], f"{r['residual']:.0e}"),
    )
    blocks += _section(
        "λ₁ = 0",
        ("λ₂", "time", "least to most", "support, median", "largest", "residual"),
        figures["ridge"],
        lambda r: (r["l2"], *_times(r), f"{r['support']:.0f}", r["largest"], f"{r['residual']:.0e}"),
    )
    made = [row | {"what": what, **row[what]} for row in figures["made"] for what in ("codes", "gram") if what in row]
    blocks += _section(
        "What a kept corpus makes once",
        ("what", "time", "memory", "of the vectors'"),
        made,
        lambda r: (r["what"], ms(r["seconds"]), f"{r['bytes'] / 2**20:.1f} MiB", f"{r['bytes'] / r['vectors']:.2f}"),
    )
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
