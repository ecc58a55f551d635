"""The frontiers of three judged sets, as data, pictures and the sentences that the statistics allow.

python tests/bench/bench_frontier.py --data <folder of judged sets> --out assets/results     needs Debian's chromium
"""

import shutil
from pathlib import Path

import click
import torch
from playwright.sync_api import sync_playwright

import engine
from dashboard.charts import frontier_figure
from engine.evaluation.frontier import frontier
from engine.evaluation.metrics import METRICS, available
from engine.evaluation.statistics import compare, statement, summary
from engine.evaluation.sweep import grid, sweep
from engine.evaluation.tables import frame, write

K = 10
SETS = {
    "perspectrum": ("dev", (("ilad", "recall"), ("ilad", "s_recall"), ("ilad", "alpha_ndcg"))),
    "toollens": ("test", (("ilad", "recall"),)),
    "ultratool-en": ("test", (("ilad", "recall"),)),
}
SELECTORS = {"top_k": 11, "mmr": 11, "dpp": 11, "vrsd": 11, "nnn": 11}
COLUMNS = ["name", "k", "split", "queries", "left_out", "returned", "milliseconds"]


@click.command()
@click.option("--data", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--out", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(data: Path, out: Path) -> None:
    torch.set_num_threads(1)
    lines = [
        "# Frontiers",
        "",
        "`python tests/bench/bench_frontier.py --data <folder of judged sets> --out assets/results`",
        "",
        f"Bundled encoder, frozen; k = {K}; every setting of {', '.join(SELECTORS)} (nnn filled up to k). Bands: "
        "95 % paired bootstrap over queries. A difference is claimed only where a paired randomisation test, after "
        "Holm over all settings, and the interval agree.",
    ]
    for name, (split, axes) in SETS.items():
        dataset = engine.load_dataset(str(data / name))
        space = engine.Space(dataset.corpus, engine.embed(dataset.corpus, device="cpu"), "cpu")
        queries, qrels = engine.embed(dataset.judged(split), device="cpu"), dataset.qrels[split]
        decoders = [decoder for method, points in SELECTORS.items() for decoder in grid(method, points)]
        metrics = available(qrels, dataset.aspects, queries)
        points = list(sweep(decoders, space, queries, qrels, K, metrics, split=split, aspects=dataset.aspects))
        print(name, len(points), flush=True)
        table = frame(points)
        write(table[[*COLUMNS, *metrics]], out / f"frontier-{name}.csv")
        lines += ["", f"## {name}, {split}: {len(queries):,} queries, {len(space):,} documents"]
        for x, y in axes:
            found = frontier(points, x, y, K)
            picture = f"frontier-{name}-{y.replace('_', '-')}.png"
            draw(frontier_figure(found, (METRICS[x].title, METRICS[y].title), dark=False), out / picture)
            base = next(p for p in points if p.method == next(iter(engine.methods("selector"))))
            rows = compare(points, y, base, K)
            told = sorted((row for row in rows if row.told), key=lambda row: -row.difference)
            lines += ["", f"![{METRICS[y].title} against {METRICS[x].title}]({picture})", "", summary(rows)]
            lines += ["", statement(told[0])] if told and told[0].difference > 0 else []
            lines += [
                "",
                f"Not dominated, {len(found.front)} of {len(found.points)}: "
                + ", ".join(f"{p.name} ({p.x:.3f}, {p.y:.3f})" for p in found.front)
                + ".",
            ]
    (out / "frontiers.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def draw(figure, file: Path) -> None:
    """The figure as a picture."""
    figure.update_layout(template="plotly_white", width=1100, height=620)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            chromium_sandbox=False,
            args=["--headless=new", "--disable-gpu", "--disable-background-networking", "--disable-sync"],
        )
        page = chromium.new_page(viewport={"width": 1100, "height": 620})
        html = figure.to_html(include_plotlyjs=True, config={"staticPlot": True})
        page.set_content(html.replace("<body>", "<body style='margin:0'>"))
        page.wait_for_selector(".main-svg")
        page.screenshot(path=file)
        chromium.close()


if __name__ == "__main__":
    main()
