"""Lemma 1 in action: how often random projections turn BM25's pairs round, the bound, and the dimension that is needed.

python tests/bench/bench_lemma.py --data <folder of judged sets> --out assets/results     needs Debian's chromium
"""

from pathlib import Path

import click
import plotly.graph_objects as go
from bench_frontier import draw
from plotly.subplots import make_subplots

import engine
from engine.theory.projections import DIMENSIONS, PairErrors

SETS = {"cranfield": "test", "perspectrum": "dev"}
PROJECTIONS = ("rademacher", "gaussian")
WEIGHTINGS = ("bm25", "boolean")
DRAWS, PAIRS, BINS = 100, 200, 12
LEAST_R2, LEAST_BINS = 0.9, 8
COLOURS = {"cranfield": "#0072B2", "perspectrum": "#D55E00"}
SHOWN = (1, 4, 7, 10)
"""Bins whose errors are drawn."""
Measured = dict[tuple[str, str, str], PairErrors]


@click.command()
@click.option("--data", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--out", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(data: Path, out: Path) -> None:
    sets = {name: engine.load_dataset(str(data / name)) for name in SETS}
    found: Measured = {}
    for name, dataset in sets.items():
        queries = dataset.judged(SETS[name])
        for weighting in WEIGHTINGS:
            for projection in PROJECTIONS:
                found[name, weighting, projection] = engine.pair_errors(
                    dataset.corpus, queries, weighting, projection=projection, bins=BINS, pairs=PAIRS, draws=DRAWS
                )
                print(name, weighting, projection, found[name, weighting, projection].line, flush=True)
    lines = [*told(found), *by_length(sets), *theorem(sets)]
    (out / "lemma.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    draw(picture({name: found[name, "bm25", "rademacher"] for name in SETS}), out / "lemma.png")


def told(found: Measured) -> list[str]:
    """The measurement as text: every cell against the bound, every bin's dimension, the line through them."""
    lines = [
        "# Lemma 1 in action",
        "",
        "`python tests/bench/bench_lemma.py --data <folder of judged sets> --out assets/results`",
        "",
        f"Pairs of a query's best document and another, at most {PAIRS} a bin of like margin ε; {DRAWS} projections, "
        f"seed 0; k on {len(DIMENSIONS)} values from {DIMENSIONS[0]} to {DIMENSIONS[-1]}. Sparse-dense paper, §2.1.3 "
        "and Fig. 2, where the sets were others.",
        "",
        "![The dimension that keeps 95 % of pairs, and the share turned round beside the bound](lemma.png)",
        "",
        "**The bound.** A cell is one bin at one k; its bound is the mean of 4 exp(−k/2 (ε²/2 − ε³/3)) over its pairs. "
        "Counted are the cells where that is below 1. **The line.** The smallest k from which on 95 % of a bin's pairs "
        "keep their order, against the bin's mean of x = (ε²/2 − ε³/3)⁻¹, least squares over the bins where that k is "
        "not the smallest tried.",
        "",
        "| set | vectors | projection | cells with bound < 1 | with an error seen | error above bound | interval's end "
        "above bound | largest error ÷ bound | bins | line | R² | k ÷ x, from – to |",
        "| --- " * 12 + "|",
    ]
    for (name, weighting, projection), one in found.items():
        cells = [c for c in one.cells if c.bound < 1]
        seen = [c for c in cells if c.error > 0]
        above, unsure = sum(c.error > c.bound for c in cells), sum(c.high > c.bound for c in seen)
        worst = max(c.error / c.bound for c in cells)
        line = one.line
        ratios = [row.dimension / row.inverse for row in one.bins if row.dimension and row.dimension > DIMENSIONS[0]]
        fit = (
            f"{line.bins} | k = {line.slope:.2f} x {'+' if line.intercept >= 0 else '−'} {abs(line.intercept):.0f} | "
            f"{line.r2:.3f} | {min(ratios):.2f} – {max(ratios):.2f}"
            if line
            else "– | – | – | –"
        )
        counts = f"{len(cells)} | {len(seen)} | {above} | {unsure}"
        lines.append(f"| {name} | {weighting} | {projection} | {counts} | {worst:.2f} | {fit} |")
    kept = all(c.error <= c.bound for one in found.values() for c in one.cells if c.bound < 1)
    straight = [key for key, one in found.items() if one.line and one.line.bins >= LEAST_BINS]
    r2 = min(found[key].line.r2 for key in straight)
    lines += [
        "",
        f"{'No cell has' if kept else 'Some cells have'} a larger error than the bound. Of {len(found)} lines "
        f"{len(straight)} have {LEAST_BINS} bins or more; the smallest R² among them is {r2:.3f}"
        f"{'' if r2 >= LEAST_R2 else f', below {LEAST_R2}'}. The bound's own line, at β = .05, is k = "
        f"{next(iter(found.values())).slope:.2f} x. Ends of intervals are counted where an error was seen: where none "
        "was, 200 pairs and 100 projections exclude no share below .00015.",
    ]
    for (name, weighting, projection), one in found.items():
        if projection != PROJECTIONS[0]:
            continue
        lines += [
            "",
            f"## {name}, {weighting}, {projection}",
            "",
            "| ε from | to | x | pairs | smallest k for 95 % | bound's k | error at k near 128 | bound | near 1024 | "
            "bound | at 4096 | bound |",
            "| --- " * 12 + "|",
        ]
        at = {(c.bin, c.k): c for c in one.cells}
        near = [min(DIMENSIONS, key=lambda k, wanted=wanted: abs(k - wanted)) for wanted in (128, 1024, 4096)]
        for i, row in enumerate(one.bins):
            cells = [at[i, k] for k in near]
            errors = " | ".join(
                f"{c.error:.4f} ({c.low:.4f}–{c.high:.4f}) | {f'{c.bound:.4f}' if c.bound < 1 else '–'}" for c in cells
            )
            lines.append(
                f"| {row.least:.4f} | {row.most:.4f} | {row.inverse:.0f} | {row.pairs} | {row.dimension or '–'} | "
                f"{row.guaranteed} | {errors} |"
            )
        lines += ["", f"The k are {', '.join(map(str, near))}. Brackets: 95 % over projections."]
    return lines


def by_length(sets: dict[str, engine.Dataset]) -> list[str]:
    """Margins and dimensions for documents of like length: the paper's Fig. 3."""
    lines = [
        "",
        "## Document length",
        "",
        "Four parts of like size by length in words. The 10th smallest margin of a query, median over queries; and the "
        "smallest k (16, 32 … 8192, 5 Rademacher projections) that keeps the best document among the first 10 for 95 % "
        "of them.",
        "",
        "| set | vectors | words | documents | median 10th smallest margin | smallest k for recall@10 of .95 |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, dataset in sets.items():
        queries = dataset.judged(SETS[name])
        for weighting in WEIGHTINGS:
            rows = engine.margins(dataset.corpus, queries, weighting, ranks=(10,)).rows
            needed = engine.recall_dimensions(
                dataset.corpus, queries, weighting, dimensions=[2**i for i in range(4, 14)], target=0.95
            )
            lines += [
                f"| {name} | {weighting} | {row.least}–{row.most} | {row.documents} | {row.median:.4f} | "
                f"{own.dimension or 'more'} |"
                for row, own in zip(rows, needed, strict=True)
            ]
    return lines


def theorem(sets: dict[str, engine.Dataset]) -> list[str]:
    """Theorem 1 on the sets: pairs, those it speaks of, and real passages."""
    lines = [
        "",
        "## Segments (Theorem 1)",
        "",
        "Each query's best document against the 10 next; word counts × idf. Segments: the words of the best document's "
        "best passage of 50 words, in both documents. The theorem speaks of a pair where these are all of the query's "
        "words that the document has. Passages: the best of each document, which share words with the others, so that "
        "nothing is proved; a document of at most 50 words is one passage.",
        "",
        "| set | pairs | the theorem speaks of | of these smaller | median margin, documents | segments | passages | "
        "passages' at least the documents' |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, dataset in sets.items():
        found = engine.segments(dataset.corpus, dataset.judged(SETS[name]))
        middle = [sorted(c)[len(c) // 2] for c in (found.documents, found.segments, found.passages)]
        lines.append(
            f"| {name} | {len(found)} | {found.promised.sum()} | {found.broken} | "
            f"{' | '.join(f'{m:.4f}' for m in middle)} | {found.passages_gain:.0%} |"
        )
    return lines


def picture(found: dict[str, PairErrors]) -> go.Figure:
    """Left the dimension needed, right the errors of a few bins with their bounds."""
    titles = ("The smallest k that keeps 95 % of pairs", "Pairs turned round: measured, and the bound (dashed)")
    chart = make_subplots(1, 2, subplot_titles=titles, horizontal_spacing=0.1)
    for name, one in found.items():
        style = {"color": COLOURS[name]}
        there = [row for row in one.bins if row.dimension]
        chart.add_scatter(
            x=[row.inverse for row in there],
            y=[row.dimension for row in there],
            mode="markers",
            name=f"{name}, R² = {one.line.r2:.3f}",
            marker={**style, "size": 9},
            row=1,
            col=1,
        )
        ends = [0, max(row.inverse for row in there)]
        line = [one.line.slope * x + one.line.intercept for x in ends]
        chart.add_scatter(x=ends, y=line, mode="lines", line={**style, "width": 1}, showlegend=False, row=1, col=1)
    most = max(row.inverse for one in found.values() for row in one.bins)
    slope = next(iter(found.values())).slope
    bound = {"color": "#555555", "dash": "dash", "width": 1}
    chart.add_scatter(
        x=[0, most], y=[0, slope * most], mode="lines", line=bound, name=f"bound: {slope:.2f} x", row=1, col=1
    )
    name, one = next(iter(found.items()))
    for shade, at in zip(("#08306B", "#2171B5", "#6BAED6", "#9ECAE1"), SHOWN, strict=True):
        cells = [c for c in one.cells if c.bin == at]
        seen = [c for c in cells if c.error > 0]
        chart.add_scatter(
            x=[c.k for c in seen],
            y=[c.error for c in seen],
            mode="lines+markers",
            marker={"color": shade, "size": 4},
            name=f"{name}, ε {one.bins[at].least:.3f}–{one.bins[at].most:.3f}",
            row=1,
            col=2,
        )
        told = [c for c in cells if 1e-5 < c.bound < 1]
        dashes = {"color": shade, "dash": "dash", "width": 1}
        chart.add_scatter(
            x=[c.k for c in told],
            y=[c.bound for c in told],
            mode="lines",
            line=dashes,
            showlegend=False,
            row=1,
            col=2,
        )
    chart.update_xaxes(title="x = (ε²/2 − ε³/3)⁻¹", row=1, col=1)
    chart.update_yaxes(title="k", range=[0, 1.15 * DIMENSIONS[-1]], row=1, col=1)
    chart.update_xaxes(title="k", type="log", dtick="D2", row=1, col=2)
    chart.update_yaxes(
        title="share of pairs", type="log", range=[-5, 0.05], dtick=1, exponentformat="power", row=1, col=2
    )
    chart.update_layout(legend={"orientation": "h", "y": -0.15}, margin={"l": 60, "r": 20, "t": 40, "b": 120})
    return chart


if __name__ == "__main__":
    main()
