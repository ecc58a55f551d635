"""Approximate search: quality against time, for one vector a document and for several.

python tests/bench/bench_ann.py --data <folder of judged sets> --out assets/results     needs Debian's chromium, faiss
"""

import plotly.graph_objects as go
from harness import WHITE_SHEET, draw, load_judged, machine, one_thread, options, table, write_page
from plotly.subplots import make_subplots

import engine
from engine.evaluation.studies.ann import Searched, conclusions

SETS = {"cranfield": ("test", (100, 50)), "perspectrum": ("dev", ())}
"""The split, and the lengths that documents are cut at for several vectors each."""
COLOURS = ("#0072B2", "#D55E00", "#009E73")
SYMBOLS = {"hnsw": "circle", "ivf": "square"}
ENOUGH = 0.99
REPEATS = 5
HEAD = ("set", "vectors", "index", "exact@10", "MRR@10", "nDCG@10", "ms a query", "built in s", "MB")


def main() -> None:
    given = options(__doc__, data=True).parse_args()
    one_thread()
    by_set: dict[str, list[Searched]] = {}
    lines, sentences = [], []
    for name, (split, lengths) in SETS.items():
        _, space, queries, qrels = load_judged(given.data / name, split)
        scorers = [engine.make("dense"), *(engine.make("max_sim", length=length) for length in lengths)]
        rows = by_set[name] = list(engine.approximate(scorers, space, queries, qrels, repeats=REPEATS))
        lines += [_cells(name, row) for row in rows]
        heading = f"**{name}**, {len(space):,} documents, {len(queries)} queries, at {ENOUGH:.0%} of the exact answer:"
        sentences += [heading, [f"- {sentence}" for sentence in conclusions(rows, ENOUGH)]]
        print(name, len(rows), flush=True)
    write_page(
        given.out / "approximate.md",
        "# Approximate search",
        "`python tests/bench/bench_ann.py --data <folder of judged sets> --out assets/results`",
        f"{machine(('torch', 'faiss-cpu'))}; the bundled encoder, its 384 dimensions. Sparse-dense paper, Fig. 7, "
        "which has ScaNN on three million passages: sets of this size fit a processor's cache, where comparing "
        "everything is quick already.",
        "![MRR@10 against milliseconds a query](approximate.png)",
        "exact@10: share of the exact ten best documents found. ms: median over queries, one at a time, the quickest "
        f"of {REPEATS} each, the query's vector given, hits put together as documents, every search by the same "
        "library; there was other work on the machine, so compare the times with one another. Several vectors a "
        "document: its passages of so many words, 25 % overlap.",
        table(HEAD, lines),
        *sentences,
    )
    draw(picture(by_set), given.out / "approximate.png")


def _cells(name: str, row: Searched) -> tuple[str, ...]:
    each = "one each" if row.per_document == 1 else f"{row.scorer.split(',')[0]}), {row.per_document:.2f} each"
    figures = (f"{row.share:.4f}", f"{row.mean['mrr']:.4f}", f"{row.mean['ndcg']:.4f}", f"{row.milliseconds:.3f}")
    return name, f"{row.entries:,}, {each}", row.label, *figures, f"{row.build:.2f}", f"{row.megabytes:.1f}"


def picture(by_set: dict[str, list[Searched]]) -> go.Figure:
    """A panel a set: curves over rising effort, the exact search as a star on its dashed quality."""
    chart = make_subplots(1, len(by_set), subplot_titles=list(by_set), horizontal_spacing=0.08)
    for panel, rows in enumerate(by_set.values(), start=1):
        place = {"row": 1, "col": panel}
        legend = f"legend{panel if panel > 1 else ''}"
        for colour, scorer in zip(COLOURS, dict.fromkeys(row.scorer for row in rows), strict=False):
            exact, *_ = measured = [row for row in rows if row.scorer == scorer]
            vectors = f"{exact.per_document:.2f} vectors a document" if exact.per_document > 1 else "one vector"
            curves: dict[str, list[Searched]] = {}
            for row in measured:
                if not row.exact:
                    sizes = ", ".join(f"{key} {row.index[key]}" for key in row.index if key in ("links", "cells"))
                    curves.setdefault(f"{row.index['kind']}, {sizes}", []).append(row)
            for dash, (curve, points) in zip(("solid", "dot", "dash"), curves.items(), strict=False):
                chart.add_scatter(
                    x=[row.milliseconds for row in points],
                    y=[row.mean["mrr"] for row in points],
                    mode="lines+markers",
                    name=f"{vectors}: {curve}",
                    line={"color": colour, "dash": dash, "width": 1.5},
                    marker={"symbol": SYMBOLS[points[0].index["kind"]], "size": 7},
                    legend=legend,
                    **place,
                )
            chart.add_hline(y=exact.mean["mrr"], line={"color": colour, "dash": "dash", "width": 1}, **place)
            chart.add_scatter(
                x=[exact.milliseconds],
                y=[exact.mean["mrr"]],
                mode="markers",
                name=f"{vectors}: exact",
                marker={"symbol": "star", "size": 15, "color": colour, "line": {"color": "#222222", "width": 1}},
                legend=legend,
                **place,
            )
        corner = {"x": (panel - 1) / len(by_set) + 0.02, "y": -0.16, "yanchor": "top", "font": {"size": 10}}
        chart.update_layout({legend: corner})
        chart.update_xaxes(title="ms a query", type="log", tickvals=[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1], **place)
        chart.update_yaxes(title="MRR@10", **place)
    return chart.update_layout(**WHITE_SHEET, margin={"l": 60, "r": 20, "t": 40, "b": 260})


if __name__ == "__main__":
    main()
