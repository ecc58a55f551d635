"""Lemma 1 in action: how often random projections turn BM25's pairs round, the bound, and the dimension that is needed.

python tests/bench/bench_lemma.py --data <folder of judged sets> --out assets/results     needs Debian's chromium
"""

from collections.abc import Iterable
from itertools import product

import numpy as np
import plotly.graph_objects as go
from harness import WHITE_SHEET, Block, draw, parse_arguments, table, write_page
from plotly.subplots import make_subplots

import engine
from engine.theory.random_projections import DIMENSIONS, PairErrors

SETS = {"cranfield": "test", "perspectrum": "dev"}
PROJECTIONS = ("rademacher", "gaussian")
WEIGHTINGS = ("bm25", "boolean")
BINS = 12
LEAST_R2, LEAST_BINS = 0.9, 8
COLOURS = {"cranfield": "#0072B2", "perspectrum": "#D55E00"}
LEFT_PANEL, RIGHT_PANEL = {"row": 1, "col": 1}, {"row": 1, "col": 2}
SHOWN_BIN_NUMBERS = (1, 4, 7, 10)
"""Bins whose errors are drawn."""
HEAD = (
    "set", "vectors", "projection", "cells with bound < 1", "with an error seen", "error above bound",
    "interval's end above bound", "largest error ÷ bound", "bins", "line", "R²", "k ÷ x, from – to",
)  # fmt: skip
Measured = dict[tuple[str, str, str], PairErrors]


def main() -> None:
    args = parse_arguments(__doc__, data=True, draws=100, pairs=200)
    sets = {name: engine.load_dataset(str(args.data / name)) for name in SETS}
    measured: Measured = {}
    for name, weighting, projection in product(sets, WEIGHTINGS, PROJECTIONS):
        queries = sets[name].judged(SETS[name])
        errors = engine.pair_errors(
            sets[name].corpus,
            queries,
            weighting,
            projection=projection,
            bins=BINS,
            pairs=args.pairs,
            draws=args.draws,
        )
        measured[name, weighting, projection] = errors
        print(name, weighting, projection, errors.line, flush=True)
    blocks = [*bounds(measured, args.draws, args.pairs), *by_bin(measured), *by_length(sets), *theorem(sets)]
    write_page(args, "lemma", "Lemma 1 in action", *blocks)
    draw(picture({name: measured[name, "bm25", "rademacher"] for name in SETS}), args.out / "lemma.png")


def bounds(measured: Measured, draws: int, pairs: int) -> list[Block]:
    """Every cell against the bound, and the line through the bins' dimensions."""
    rows = []
    for (name, weighting, projection), result in measured.items():
        cells = [c for c in result.cells if c.bound < 1]
        positive = [c for c in cells if c.error > 0]
        above = sum(c.error > c.bound for c in cells), sum(c.high > c.bound for c in positive)
        line = result.line
        ratios = [row.dimension / row.inverse for row in result.bins if row.dimension and row.dimension > DIMENSIONS[0]]
        fit = ("–",) * 4
        if line:
            equation = f"k = {line.slope:.2f} x {'+' if line.intercept >= 0 else '−'} {abs(line.intercept):.0f}"
            fit = (line.bins, equation, f"{line.r2:.3f}", f"{min(ratios):.2f} – {max(ratios):.2f}")
        max_ratio = f"{max(c.error / c.bound for c in cells):.2f}"
        rows.append((name, weighting, projection, len(cells), len(positive), *above, max_ratio, *fit))
    holds = all(c.error <= c.bound for result in measured.values() for c in result.cells if c.bound < 1)
    straight = [result.line.r2 for result in measured.values() if result.line and result.line.bins >= LEAST_BINS]
    return [
        f"Pairs of a query's best document and another, at most {pairs} a bin of like margin ε; {draws} projections, "
        f"seed 0; k on {len(DIMENSIONS)} values from {DIMENSIONS[0]} to {DIMENSIONS[-1]}. Sparse-dense paper, §2.1.3 "
        "and Fig. 2, where the sets were others.",
        "![The dimension that keeps 95 % of pairs, and the share turned round beside the bound](lemma.png)",
        "**The bound.** A cell is one bin at one k; its bound is the mean of 4 exp(−k/2 (ε²/2 − ε³/3)) over its pairs. "
        "Counted are the cells where that is below 1. **The line.** The smallest k from which on 95 % of a bin's pairs "
        "keep their order, against the bin's mean of x = (ε²/2 − ε³/3)⁻¹, least squares over the bins where that k is "
        "not the smallest tried.",
        table(HEAD, rows),
        f"{'No cell has' if holds else 'Some cells have'} a larger error than the bound. Of {len(measured)} lines "
        f"{len(straight)} have {LEAST_BINS} bins or more; the smallest R² among them is {min(straight):.3f}"
        f"{'' if min(straight) >= LEAST_R2 else f', below {LEAST_R2}'}. The bound's own line, at β = .05, is k = "
        f"{next(iter(measured.values())).slope:.2f} x. Ends of intervals are counted where an error was seen: where "
        f"none was, {pairs} pairs and {draws} projections exclude no share below {3 / pairs / draws:.2g}.",
    ]


def by_bin(measured: Measured) -> list[Block]:
    """Every bin's dimension, and its errors beside the bound."""
    near = [min(DIMENSIONS, key=lambda k, target=target: abs(k - target)) for target in (128, 1024, 4096)]
    head = ("ε from", "to", "x", "pairs", "smallest k for 95 %", "bound's k", "error at k near 128", "bound")
    blocks: list[Block] = []
    for (name, weighting, projection), result in measured.items():
        if projection != PROJECTIONS[0]:
            continue
        cells = {(c.bin, c.k): c for c in result.cells}
        rows = []
        for i, row in enumerate(result.bins):
            errors = []
            for c in (cells[i, k] for k in near):
                errors += [f"{c.error:.4f} ({c.low:.4f}–{c.high:.4f})", f"{c.bound:.4f}" if c.bound < 1 else "–"]
            ends = (f"{row.least:.4f}", f"{row.most:.4f}", f"{row.inverse:.0f}")
            rows.append((*ends, row.pairs, row.dimension or "–", row.guaranteed, *errors))
        blocks += [
            f"## {name}, {weighting}, {projection}",
            table((*head, "near 1024", "bound", "at 4096", "bound"), rows),
            f"The k are {', '.join(map(str, near))}. Brackets: 95 % over projections.",
        ]
    return blocks


def by_length(sets: dict[str, engine.Dataset]) -> list[Block]:
    """Margins and dimensions for documents of like length: the paper's Fig. 3."""
    rows, sizes = [], [2**i for i in range(4, 14)]
    for (name, dataset), weighting in product(sets.items(), WEIGHTINGS):
        queries = dataset.judged(SETS[name])
        margins = engine.margins(dataset.corpus, queries, weighting, ranks=(10,)).rows
        needed = engine.recall_dimensions(dataset.corpus, queries, weighting, dimensions=sizes, target=0.95)
        rows += [
            (
                name,
                weighting,
                f"{row.least}–{row.most}",
                row.documents,
                f"{row.median:.4f}",
                needed_row.dimension or "more",
            )
            for row, needed_row in zip(margins, needed, strict=True)
        ]
    head = ("set", "vectors", "words", "documents", "median 10th smallest margin", "smallest k for recall@10 of .95")
    return [
        "## Document length",
        "Four parts of like size by length in words. The 10th smallest margin of a query, median over queries; and the "
        "smallest k (16, 32 … 8192, 5 Rademacher projections) that keeps the best document among the first 10 for 95 % "
        "of them.",
        table(head, rows),
    ]


def theorem(sets: dict[str, engine.Dataset]) -> list[Block]:
    """Theorem 1 on the sets: pairs, those it speaks of, and real passages."""
    rows = []
    for name, dataset in sets.items():
        pairs = engine.segments(dataset.corpus, dataset.judged(SETS[name]))
        middle = (sorted(c)[len(c) // 2] for c in (pairs.documents, pairs.segments, pairs.passages))
        counts = (len(pairs), pairs.promised.sum(), pairs.broken)
        rows.append((name, *counts, *(f"{m:.4f}" for m in middle), f"{pairs.passages_gain:.0%}"))
    head = (
        "set", "pairs", "the theorem speaks of", "of these smaller", "median margin, documents", "segments", "passages",
        "passages' at least the documents'",
    )  # fmt: skip
    return [
        "## Segments (Theorem 1)",
        "Each query's best document against the 10 next; word counts × idf. Segments: the words of the best document's "
        "best passage of 50 words, in both documents. The theorem speaks of a pair where these are all of the query's "
        "words that the document has. Passages: the best of each document, which share words with the others, so that "
        "nothing is proved; a document of at most 50 words is one passage.",
        table(head, rows),
    ]


def picture(measured: dict[str, PairErrors]) -> go.Figure:
    """Left the dimension needed, right the errors of a few bins with their bounds."""
    titles = ("The smallest k that keeps 95 % of pairs", "Pairs turned round: measured, and the bound (dashed)")
    chart = make_subplots(1, 2, subplot_titles=titles, horizontal_spacing=0.1)

    def draw_line(points: Iterable[tuple[float, float]], panel: dict, name: str | None = None, **line: object) -> None:
        x, y = np.reshape(list(points), (-1, 2)).T
        chart.add_scatter(x=x, y=y, mode="lines", line=line, name=name, showlegend=name is not None, **panel)

    for name, result in measured.items():
        rows = [row for row in result.bins if row.dimension]
        chart.add_scatter(
            x=[row.inverse for row in rows],
            y=[row.dimension for row in rows],
            mode="markers",
            name=f"{name}, R² = {result.line.r2:.3f}",
            marker={"color": COLOURS[name], "size": 9},
            **LEFT_PANEL,
        )
        ends = (0, max(row.inverse for row in rows))
        draw_line(
            [(x, result.line.slope * x + result.line.intercept) for x in ends], LEFT_PANEL, color=COLOURS[name], width=1
        )
    name, result = next(iter(measured.items()))
    max_inverse = max(row.inverse for any_result in measured.values() for row in any_result.bins)
    bound = [(0, 0), (max_inverse, result.slope * max_inverse)]
    draw_line(bound, LEFT_PANEL, f"bound: {result.slope:.2f} x", color="#555555", dash="dash", width=1)
    for shade, bin_ in zip(("#08306B", "#2171B5", "#6BAED6", "#9ECAE1"), SHOWN_BIN_NUMBERS, strict=True):
        cells = [c for c in result.cells if c.bin == bin_]
        errors = f"{name}, ε {result.bins[bin_].least:.3f}–{result.bins[bin_].most:.3f}"
        draw_line([(c.k, c.error) for c in cells if c.error > 0], RIGHT_PANEL, errors, color=shade)
        draw_line([(c.k, c.bound) for c in cells if 1e-5 < c.bound < 1], RIGHT_PANEL, color=shade, dash="dash", width=1)
    chart.update_xaxes(title="x = (ε²/2 − ε³/3)⁻¹", **LEFT_PANEL)
    chart.update_yaxes(title="k", range=[0, 1.15 * DIMENSIONS[-1]], **LEFT_PANEL)
    chart.update_xaxes(title="k", type="log", dtick="D2", **RIGHT_PANEL)
    chart.update_yaxes(
        title="share of pairs", type="log", range=[-5, 0.05], dtick=1, exponentformat="power", **RIGHT_PANEL
    )
    return chart.update_layout(**WHITE_SHEET, legend={"orientation": "h", "y": -0.15}, margin={"b": 120})


if __name__ == "__main__":
    main()
