"""The frontiers of three judged sets, as data, pictures and the sentences that the statistics allow.

python tests/bench/bench_frontier.py --data <folder of judged sets> --out assets/results     needs Debian's chromium
"""

from collections import Counter

from harness import WHITE_SHEET, Judged, arguments, draw, write_page

import engine
from dashboard.charts.frontier import FrontierChart, frontier_figure
from engine.evaluation.frontier import frontier
from engine.evaluation.metrics import METRICS, available
from engine.evaluation.statistics import compare, statement, summary
from engine.evaluation.sweep.sweep import grid, sweep
from engine.evaluation.tables import frame, write

K = 10
SETS = {
    "perspectrum": ("dev", (("ilad", "recall"), ("ilad", "s_recall"), ("ilad", "alpha_ndcg"))),
    "toollens": ("test", (("ilad", "recall"),)),
    "ultratool-en": ("test", (("ilad", "recall"),)),
}
SELECTORS = {"top_k": 11, "mmr": 11, "dpp": 11, "vrsd": 11, "frank_wolfe": 11, "max_sum": 11, "nnn": 11}
COLUMNS = ["name", "k", "split", "queries", "left_out", "returned", "milliseconds"]


def main() -> None:
    given = arguments(__doc__, data=True)
    blocks = []
    for name, (split, axes) in SETS.items():
        judged = Judged(given.data / name)
        data, space, queries = judged.data, judged.space, judged.asked(split)
        decoders = [decoder for method, points in SELECTORS.items() for decoder in grid(method, points)]
        metrics = available(data.qrels[split], data.aspects, queries)
        points = list(sweep(decoders, space, queries, data.qrels[split], K, metrics, split=split, aspects=data.aspects))
        print(name, len(points), flush=True)
        write(frame(points)[[*COLUMNS, *metrics]], given.out / f"frontier-{name}.csv")
        blocks.append(f"## {name}, {split}: {len(queries):,} queries, {len(space):,} documents")
        base = next(p for p in points if p.method == next(iter(engine.methods("selector"))))
        for x, y in axes:
            curve = frontier(points, x, y, K)
            picture = f"frontier-{name}-{y.replace('_', '-')}.png"
            figure = frontier_figure(FrontierChart(frontier=curve, dark=False, whole=True, legend=True))
            draw(figure.update_layout(**WHITE_SHEET), given.out / picture)
            rows = compare(points, y, base, K)
            significant = sorted((row for row in rows if row.significant), key=lambda row: -row.difference)
            blocks += [f"![{METRICS[y].title} against {METRICS[x].title}]({picture})", summary(rows)]
            blocks += [statement(row) for row in significant[:1] if row.difference > 0]
            front, every = (Counter(p.point.method for p in found) for found in (curve.front, curve.points))
            titles = {name: engine.methods()[name].title for name in every}
            named = ", ".join(f"{titles[name]} {count} of {every[name]}" for name, count in front.most_common())
            blocks.append(f"Not dominated, {len(curve.front)} of {len(curve.points)}: {named}.")
    write_page(
        given,
        "frontiers",
        "Frontiers",
        f"Bundled encoder, frozen; k = {K}; every setting of {', '.join(SELECTORS)} (nnn filled up to k). "
        "A difference is claimed only where a paired randomisation test, after "
        "Holm over all settings, and the interval agree.",
        *blocks,
    )


if __name__ == "__main__":
    main()
