"""NNN: how long the exact minimiser takes, what fifty steps of FISTA miss, and what both find on judged sets.

python tests/bench/bench_nnn.py --data <folder of judged sets> [--part speed|iterations|quality|all] [--quick]

Writes assets/results/nnn.md from the raw figures beside it, nnn.json; a part that is not measured again stays as it
was. --data: a folder that has toolbank-numpy, toollens and ultratool-en in BEIR layout; what is not there is left out.
One thread.
"""

import os
import sys
from pathlib import Path

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB_MAXIMUM")})
# The checkout is measured, whatever copy of the engine is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import argparse
import datetime
import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

import nnn_quality
import nnn_speed
import selector_data
import torch
from machine import machine
from nnn_speed import (
    BARE,
    BETWEEN,
    CACHED,
    FAST_SEARCH,
    FISTA,
    KEPT,
    LOWEST,
    PASSES,
    PLAIN_FISTA,
    SEARCH,
    SET,
    SETTINGS,
    SIZES,
    SKLEARN,
    SKLEARN_64,
    STOPS,
    TOLERANCE,
    D,
    Row,
    ms,
    table,
)  # fmt: skip

PACKAGES = ("torch", "numpy", "numba", "scikit-learn")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of judged sets")
    parser.add_argument("--part", choices=[*PARTS, "all"], default="all")
    parser.add_argument("--quick", action="store_true", help="few queries, n up to 10,000: to see that it runs")
    out = Path(__file__).resolve().parents[2] / "assets" / "results"
    parser.add_argument("--out", type=Path, default=out, metavar="DIR")
    return parser.parse_args()


def command(part: str, quick: bool) -> str:
    """What made a section, without the places of this machine."""
    flags = f" --part {part}" + (" --quick" if quick else "")
    return f"python tests/bench/bench_nnn.py --data <folder of judged sets>{flags}"


def report(found: dict) -> str:
    """The whole page as Markdown."""
    lines = ["# NNN: speed, iterations, retrieval", ""]
    for part, (title, _, tables) in PARTS.items():
        if part in found:
            own = found[part]
            lines += [f"## {title}", "", f"`{own['command']}`", "", f"{own['machine']}; {own['date']}.", ""]
            lines += tables(own["figures"])
    return "\n".join(lines).rstrip() + "\n"


def verdicts(found: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Every target, what was measured, and whether it is met."""
    cells = found["cells"]

    def of(who: Iterable[str], n: int) -> list[Row]:
        return [row for row in cells if row["n"] == n and row["who"] in who and row["data"] == "clustered"]

    def verdict(target: str, values: list[float], limit: float, unit: str, least: bool = False):
        if not values:
            return target, "not measured", "–"
        worst = min(values) if least else max(values)
        met = worst >= limit if least else worst <= limit
        shown = f"{worst:.3g} {unit}" + (f" (the best of {len(values)}: " if len(values) > 1 else "")
        best = max(values) if least else min(values)
        return target, shown + (f"{best:.3g} {unit})" if len(values) > 1 else ""), "met" if met else "**not met**"

    def over_search(who: str, n: int) -> list[float]:
        return [row["to"][SEARCH] for row in of([who], n)]

    for who, n, most in ((BARE, 10_000, 5), (BARE, 100_000, 4), (KEPT, 10_000, 5), (KEPT, 100_000, 3)):
        codes = " with 8-bit codes" if who == KEPT else ""
        target = f"a cold query{codes}, n = {n:,}: at most {most} × {SEARCH}"
        yield verdict(target, over_search(who, n), most, "×")
    for n, most in ((2_000, 200), (10_000, 500)):
        warm = [1e6 * row["warm"] for row in found["moves"] if row["n"] == n]
        yield verdict(f"a warm slider move, n = {n:,}: at most {most} µs", warm, most, "µs")
    whole = [1e3 * row["seconds"] for row in found["grids"] if row["data"] == SET]
    yield verdict(f"the 7 × 7 grid on {SET}: at most 2 ms a query", whole, 2, "ms")
    for peers, least in (((FISTA, PLAIN_FISTA), 20), ((SKLEARN, SKLEARN_64), 100)):
        for n in SIZES:
            slower = [row["to"][BARE] for row in of(peers, n)]
            name = "either FISTA-50" if least == 20 else "scikit-learn in either precision"
            yield verdict(f"a cold query, n = {n:,}: at least {least} × as fast as {name}", slower, least, "×", True)
    passes = [float(row["most"]) for row in found["passes"]]
    yield verdict("passes of a query (info), λ₁ .03 to .3, λ₂ 0 to 1: at most 5", passes, 5, "passes")


def speed_tables(found: dict[str, Any]) -> list[str]:
    """The section as Markdown."""
    lines = ["### Targets", "", *table(("target", "measured", "met"), verdicts(found))]
    lines += ["### A query, cold", "", COLD, ""]
    for l1, l2 in SETTINGS:
        own = [row for row in found["cells"] if (row["l1"], row["l2"]) == (l1, l2)]
        places = list(dict.fromkeys((row["data"], row["n"]) for row in own))
        by = {(row["data"], row["n"], row["who"]): row for row in own}
        head = [f"λ₁ = {l1}, λ₂ = {l2}", *(f"{name}, {n:,}" for name, n in places)]
        body = []
        for who in dict.fromkeys(row["who"] for row in own):
            some = [by[*place, who] for place in places]
            body.append([who, *(f"{ms(row['seconds'])} · {row['to'][SEARCH]:.2f} ×" for row in some)])
        for who in (BARE, KEPT):
            some = [by[*place, who]["to"][FAST_SEARCH] for place in places]
            body.append([f"{who} ÷ {FAST_SEARCH}", *(f"{ratio:.2f}" for ratio in some)])
        for peer in (FISTA, PLAIN_FISTA, SKLEARN, SKLEARN_64):
            for ours in (BARE, KEPT):
                some = [by[*place, peer]["to"][ours] for place in places]
                body.append([f"{peer} ÷ {ours}", *(f"{ratio:.1f}" for ratio in some)])
        for who in (BARE, KEPT, FISTA, PLAIN_FISTA, SKLEARN, SKLEARN_64):
            body.append([f"residual, {who}", *(f"{by[*place, who]['residual']:.0e}" for place in places)])
        lines += table(head, body)
    lines += ["### A slider move", "", MOVES, ""]
    head = ("data", "n", "warm, median", "warm, 90 % within", "cold", SEARCH, "most passes", "moves")
    lines += table(head, (_move_row(row) for row in found["moves"]))
    lines += ["### The paper's grid, 7 × 7, in one call of select_grid", ""]
    head = ("data", "n", "queries", "exact, a query", "FISTA-50, a query")
    body = (
        (r["data"], f"{r['n']:,}", r["queries"], ms(r["seconds"]), ms(r["fista"]) if "fista" in r else "–")
        for r in found["grids"]
    )
    lines += [*table(head, body), "### Passes over the corpus", "", COUNTED, ""]
    head = ("data", "n", "λ₁", *(f"λ₂ = {l2:g}" for l2 in PASSES[1]), "certified")
    body = []
    for name, n in dict.fromkeys((row["data"], row["n"]) for row in found["passes"]):
        for l1 in PASSES[0]:
            some = [row for row in found["passes"] if (row["data"], row["n"], row["l1"]) == (name, n, l1)]
            cells = (f"{row['mean']:.2f} · {row['most']}" for row in some)
            body.append([name, f"{n:,}", l1, *cells, f"{min(row['certified'] for row in some):.0%}"])
    lines += [*table(head, body), f"### The whole path, λ₂ = .1, from the best score to λ₁ = {LOWEST:g}", ""]
    head = ("data", "n", "time", "least to most", "kinks", "most passes", "largest support", "residual")
    lines += table(
        head,
        (
            (r["data"], f"{r['n']:,}", ms(r["seconds"]), f"{ms(r['least'])} to {ms(r['most'])}", f"{r['kinks']:.0f}",
             r["passes"], r["support"], f"{r['residual']:.0e}")
            for r in found["paths"]
        ),
    )  # fmt: skip
    lines += ["### λ₁ = 0", ""]
    head = ("data", "n", "λ₂", "time", "least to most", "support, median", "largest", "residual")
    lines += table(
        head,
        (
            (r["data"], f"{r['n']:,}", r["l2"], ms(r["seconds"]), f"{ms(r['least'])} to {ms(r['most'])}",
             f"{r['support']:.0f}", r["largest"], f"{r['residual']:.0e}")
            for r in found["ridge"]
        ),
    )  # fmt: skip
    lines += ["### What a kept corpus makes once", ""]
    body = []
    for row in found["made"]:
        for what in ("codes", "gram"):
            if what in row:
                share = f"{row[what]['bytes'] / row['vectors']:.2f}"
                size = f"{row[what]['bytes'] / 2**20:.1f} MiB"
                body.append((row["data"], f"{row['n']:,}", what, ms(row[what]["seconds"]), size, share))
    lines += table(("data", "n", "what", "time", "memory", "of the vectors'"), body)
    lines += ["### The first call in a process", "", "One thread; compiling happens once a machine.", ""]
    body = ((row["what"], ms(row["fresh"]), ms(row["kept"])) for row in found["first"])
    lines += table(("call", "nothing compiled yet", "compiled code on the disk"), body)
    return [*lines, selector_data.HOW, ""]


def _move_row(row: Row) -> tuple[Any, ...]:
    micro = (f"{1e6 * row[key]:.0f} µs" for key in ("warm", "p90", "cold", "search"))
    return row["data"], f"{row['n']:,}", *micro, row["passes"], row["moves"]


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
    f"{STOPS} stops, down from λ₁ = {BETWEEN[1]} to {BETWEEN[0]} and up again, each from the weights of the stop "
    "before; cold: the same call without them."
)
COUNTED = (
    "Mean · most over queries of info['passes'] of engine.select: the product that scores all rows, and the passes "
    "that check the answer against them. certified: the least share of certified answers in the line."
)


PARTS = {
    "speed": ("Speed", nnn_speed.measure, speed_tables),
    "iterations": ("What fifty steps miss", nnn_quality.iterations, nnn_quality.iteration_tables),
    "quality": ("Retrieval", nnn_quality.quality, nnn_quality.quality_tables),
}


def main() -> None:
    given = arguments()
    torch.set_num_threads(1)
    given.out.mkdir(parents=True, exist_ok=True)
    raw = given.out / "nnn.json"
    started = time.monotonic()

    def say(what: str) -> None:
        print(f"[{(time.monotonic() - started) / 60:5.1f} min] {what}", file=sys.stderr, flush=True)

    for part in PARTS if given.part == "all" else (given.part,):
        figures = PARTS[part][1](given, say)
        found = json.loads(raw.read_text(encoding="utf-8")) if raw.is_file() else {}
        today = datetime.date.today().isoformat()
        made = {"command": command(part, given.quick), "machine": machine(PACKAGES), "date": today}
        found[part] = made | {"figures": figures}
        raw.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        (given.out / "nnn.md").write_text(report(found), encoding="utf-8")
    say("done")


if __name__ == "__main__":
    main()
