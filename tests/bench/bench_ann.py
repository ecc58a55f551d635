"""Approximate search: quality against time, for one vector a document and for several.

python tests/bench/bench_ann.py --data <folder of judged sets> --out assets/results     needs Debian's chromium, faiss
"""

import os
import platform
from importlib.metadata import version
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import click
import plotly.graph_objects as go
import torch
from bench_frontier import draw
from plotly.subplots import make_subplots

import engine
from engine.evaluation.approximate import Searched, conclusions

SETS = {"cranfield": ("test", (100, 50)), "perspectrum": ("dev", ())}
"""The split, and the lengths that documents are cut at for several vectors each."""
COLOURS = ("#0072B2", "#D55E00", "#009E73")
SYMBOLS = {"hnsw": "circle", "ivf": "square"}
ENOUGH = 0.99
REPEATS = 5


@click.command()
@click.option("--data", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--out", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(data: Path, out: Path) -> None:
    torch.set_num_threads(1)
    found: dict[str, list[Searched]] = {}
    lines = [
        "# Approximate search",
        "",
        "`python tests/bench/bench_ann.py --data <folder of judged sets> --out assets/results`",
        "",
        f"{os.cpu_count()} cores, one thread, Python {platform.python_version()}, faiss {version('faiss-cpu')}; the "
        "bundled encoder, its "
        "384 dimensions. Sparse-dense paper, Fig. 7, which has ScaNN on three million passages: sets of this size fit "
        "a processor's cache, where comparing everything is quick already.",
        "",
        "![MRR@10 against milliseconds a query](approximate.png)",
        "",
        "exact@10: share of the exact ten best documents found. ms: median over queries, one at a time, the quickest "
        f"of {REPEATS} each, the query's vector given, hits put together as documents, every search by the same "
        "library; there was other work on the machine, so compare the times with one another. Several vectors a "
        "document: its passages of so many words, 25 % overlap.",
        "",
        "| set | vectors | index | exact@10 | MRR@10 | nDCG@10 | ms a query | built in s | MB |",
        "| --- " * 9 + "|",
    ]
    told = []
    for name, (split, lengths) in SETS.items():
        dataset = engine.load_dataset(str(data / name))
        space = engine.Space(dataset.corpus, engine.embed(dataset.corpus, device="cpu"), "cpu")
        queries, qrels = engine.embed(dataset.judged(split), device="cpu"), dataset.qrels[split]
        scorers = [engine.make("dense"), *(engine.make("max_sim", length=length) for length in lengths)]
        rows = found[name] = list(engine.approximate(scorers, space, queries, qrels, repeats=REPEATS))
        for row in rows:
            how = "one each" if row.per_document == 1 else f"{row.scorer.split(',')[0]}), {row.per_document:.2f} each"
            lines.append(
                f"| {name} | {row.entries:,}, {how} | {row.label} | {row.share:.4f} | {row.mean['mrr']:.4f} | "
                f"{row.mean['ndcg']:.4f} | {row.milliseconds:.3f} | {row.build:.2f} | {row.megabytes:.1f} |"
            )
        print(name, len(rows), flush=True)
        told += [
            "",
            f"**{name}**, {len(space):,} documents, {len(queries)} queries, at {ENOUGH:.0%} of the exact answer:",
        ]
        told += ["", *(f"- {sentence}" for sentence in conclusions(rows, ENOUGH))]
    (out / "approximate.md").write_text("\n".join([*lines, *told]) + "\n", encoding="utf-8")
    draw(picture(found), out / "approximate.png")


def picture(found: dict[str, list[Searched]]) -> go.Figure:
    """A panel a set: curves over rising effort, the exact search as a star on its dashed quality."""
    chart = make_subplots(1, len(found), subplot_titles=list(found), horizontal_spacing=0.08)
    for panel, rows in enumerate(found.values(), start=1):
        for colour, scorer in zip(COLOURS, dict.fromkeys(row.scorer for row in rows), strict=False):
            own = [row for row in rows if row.scorer == scorer]
            what = f"{own[0].per_document:.2f} vectors a document" if own[0].per_document > 1 else "one vector"
            curves: dict[str, list[Searched]] = {}
            for row in own:
                if not row.exact:
                    kept = {k: v for k, v in row.index.items() if k in ("links", "cells")}
                    named = ", ".join(f"{key} {value}" for key, value in kept.items())
                    curves.setdefault(f"{row.index['kind']}, {named}", []).append(row)
            for dash, (curve, points) in zip(("solid", "dot", "dash"), curves.items(), strict=False):
                chart.add_scatter(
                    x=[row.milliseconds for row in points],
                    y=[row.mean["mrr"] for row in points],
                    mode="lines+markers",
                    name=f"{what}: {curve}",
                    line={"color": colour, "dash": dash, "width": 1.5},
                    marker={"symbol": SYMBOLS[points[0].index["kind"]], "size": 7},
                    legend=f"legend{panel if panel > 1 else ''}",
                    row=1,
                    col=panel,
                )
            exact = own[0]
            chart.add_hline(y=exact.mean["mrr"], line={"color": colour, "dash": "dash", "width": 1}, row=1, col=panel)
            chart.add_scatter(
                x=[exact.milliseconds],
                y=[exact.mean["mrr"]],
                mode="markers",
                name=f"{what}: exact",
                marker={"symbol": "star", "size": 15, "color": colour, "line": {"color": "#222222", "width": 1}},
                legend=f"legend{panel if panel > 1 else ''}",
                row=1,
                col=panel,
            )
        place = {"x": (panel - 1) / len(found) + 0.02, "y": -0.16, "yanchor": "top", "font": {"size": 10}}
        chart.update_layout({f"legend{panel if panel > 1 else ''}": place})
        chart.update_xaxes(
            title="ms a query", type="log", tickvals=[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1], row=1, col=panel
        )
        chart.update_yaxes(title="MRR@10", row=1, col=panel)
    return chart.update_layout(margin={"l": 60, "r": 20, "t": 40, "b": 260})


if __name__ == "__main__":
    main()
