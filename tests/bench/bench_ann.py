"""Approximate search: quality against time, for one vector a document and for several.

python tests/bench/bench_ann.py --data <folder of judged sets> --out assets/results     needs Debian's chromium, faiss
"""

import pandas as pd
import plotly.express as px
import plotly.graph_objects as go
from harness import WHITE_SHEET, Judged, draw, machine, parse_arguments, table, write_page

import engine
from engine.evaluation.studies.ann import AnnResult, write_conclusions

SETS = {"cranfield": ("test", (100, 50)), "perspectrum": ("dev", ())}
"""The split, and the lengths that documents are cut at for several vectors each."""
COLOURS = ("#0072B2", "#D55E00", "#009E73")
ENOUGH = 0.99
REPEATS = 5
HEAD = ("set", "vectors", "index", "exact@10", "MRR@10", "nDCG@10", "ms a query", "built in s", "MB")


def main() -> None:
    args = parse_arguments(__doc__, data=True)
    by_set: dict[str, list[AnnResult]] = {}
    lines, sentences = [], []
    for name, (split, lengths) in SETS.items():
        judged = Judged(args.data / name)
        space, queries = judged.space, judged.select_queries(split)
        scorers = [engine.make("dense"), *(engine.make("max_sim", length=length) for length in lengths)]
        rows = by_set[name] = list(
            engine.approximate(scorers, space, queries, judged.data.qrels[split], repeats=REPEATS)
        )
        lines += [_cells(name, row) for row in rows]
        heading = f"**{name}**, {len(space):,} documents, {len(queries)} queries, at {ENOUGH:.0%} of the exact answer:"
        sentences += [heading, [f"- {sentence}" for sentence in write_conclusions(rows, ENOUGH)]]
        print(name, len(rows), flush=True)
    write_page(
        args,
        "approximate",
        "Approximate search",
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
    draw(picture(by_set), args.out / "approximate.png")


def _cells(name: str, row: AnnResult) -> tuple[str, ...]:
    each = "one each" if row.per_document == 1 else f"{row.scorer.split(',')[0]}), {row.per_document:.2f} each"
    figures = (f"{row.share:.4f}", f"{row.mean['mrr']:.4f}", f"{row.mean['ndcg']:.4f}", f"{row.milliseconds:.3f}")
    return name, f"{row.entries:,}, {each}", row.label, *figures, f"{row.build:.2f}", f"{row.megabytes:.1f}"


def picture(by_set: dict[str, list[AnnResult]]) -> go.Figure:
    """A panel a set: curves over rising effort, the exact search as a star on its dashed quality."""
    rows = pd.DataFrame(
        {
            "set": name,
            "vectors": f"{row.per_document:.2f} vectors a document" if row.per_document > 1 else "one vector",
            "index": ", ".join(
                [
                    row.index.get("kind", ""),
                    *(f"{key} {row.index[key]}" for key in ("links", "cells") if key in row.index),
                ]
            ),
            "exact": row.exact,
            "ms a query": row.milliseconds,
            "MRR@10": row.mean["mrr"],
        }
        for name, set_rows in by_set.items()
        for row in set_rows
    )
    look = {
        "x": "ms a query", "y": "MRR@10", "facet_col": "set", "color": "vectors", "log_x": True,
        "color_discrete_map": dict(zip(rows.vectors.unique(), COLOURS, strict=False)),
        "category_orders": {"set": list(by_set)},
    }  # fmt: skip
    chart = px.line(rows[~rows.exact], **look, line_dash="index", symbol="index")
    stars = px.scatter(rows[rows.exact], **look).update_traces(marker={"symbol": "star", "size": 15})
    chart.add_traces(stars.for_each_trace(lambda trace: trace.update(name=f"{trace.name}: exact")).data)
    for panel, name in enumerate(by_set, start=1):
        for row in rows[rows.exact & (rows.set == name)].to_dict("records"):
            line = {"color": look["color_discrete_map"][row["vectors"]], "dash": "dash", "width": 1}
            chart.add_hline(y=row["MRR@10"], line=line, row=1, col=panel)
    return chart.update_yaxes(matches=None, showticklabels=True).update_layout(**WHITE_SHEET)


if __name__ == "__main__":
    main()
