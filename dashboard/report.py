"""`frontier report`: a finished sweep as one HTML file with charts, tables and significance."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dashboard.charts.differences import strata_figure
from dashboard.charts.frontier import FrontierChart, frontier_figure
from dashboard.charts.html import html_chart, html_page, html_table, html_text
from dashboard.charts.parameters import heat_map_figure
from engine.cli.finished_sweep import FinishedSweep, OtherSystems, StratifiedSweep
from engine.cli.output import echo, write_text
from engine.errors import ParamError
from engine.evaluation.frontier import KEPT_SHARE, frontier
from engine.evaluation.heat_map import heat_map
from engine.evaluation.metrics import METRICS
from engine.evaluation.statistics import compare, describe_comparison, summarize_comparisons
from engine.evaluation.sweep.compute import CORPUS_ENTRY, DATE_ENTRY, ENCODER_ENTRY
from engine.evaluation.tables import SIGNIFICANCE_ARROWS, build_results
from engine.evaluation.verdict import find_verdict
from engine.progress import counted
from engine.stages import methods
from engine.wording import decimal


def report(swept: FinishedSweep, others: OtherSystems, out: str) -> None:
    cells, k = swept.load_cells()
    strata = swept.stratify(cells, k)
    cells += others.cells(swept, cells, k)
    write_text(out, page(cells, swept.across, swept.up, k, swept.baseline, strata))
    echo(f"{out}: {Path(out).stat().st_size / 1e6:.1f} MB, {len(cells):,} cells")


def page(
    cells: Sequence[Any],
    across: str,
    up: str,
    k: int,
    baseline: str | None = None,
    strata: StratifiedSweep | None = None,
) -> str:
    """The report as HTML; its charts draw without a network. strata: the y axis by kind of query."""
    curve = frontier(cells, across, up, k)
    table = build_results(cells, tuple(cells[0].values), baseline, k)
    rows = compare(cells, up, table.rows[0][0], k)
    significant = sorted((row for row in rows if row.significant), key=lambda row: -row.difference)
    title = _facts(cells)["corpus"]
    chart = frontier_figure(FrontierChart(frontier=curve, dark=False, whole=True, legend=True))
    corner = ", ".join(map(decimal, curve.reference))
    provenance = [
        (f"<td>{html_text(name)}</td>", f"<td><code>{html_text(value)}</code></td>")
        for name, value in cells[0].provenance.items()
    ]
    parts = [
        f"<h1>{html_text(title)}</h1>",
        *_first_words(cells, curve, table.cells[0], k),
        f"<p>{html_text(summarize_comparisons(rows))}</p>",
        f"<p>{html_text(describe_comparison(significant[0]))}</p>" if significant else "",
        html_chart(chart, first=True),
        f'<p class="note">Filled: Pareto-optimal, {len(curve.front):,} of {len(curve.points):,}. On hover: 95% paired '
        f"bootstrap CI over {counted(curve.queries, 'query', 'queries')} ({curve.resamples:,} draws, seed "
        f"{curve.seed}), each for its point alone. Hypervolume {decimal(curve.hypervolume)} "
        f"above ({corner}). {html_text(curve.remark)}</p>",
        "<h2>All settings</h2>",
        _table(table),
        *(_strata(strata, f"{METRICS[up].title}@{k}") if strata else ()),
        *_heat_maps(cells, up, k),
        "<h2>How this was measured</h2>",
        html_table(provenance),
    ]
    return html_page(f"Frontier: {title}", parts)


def _facts(cells: Sequence[Any]) -> dict[str, str]:
    """The names of corpus and encoder and the dates of the measurements, as far as the cells have them."""
    first = cells[0].provenance
    dates = sorted({cell.provenance[DATE_ENTRY] for cell in cells if DATE_ENTRY in cell.provenance})
    return {
        "corpus": first.get(CORPUS_ENTRY, f"Corpus {first['corpus'][:8]}"),
        "encoder": first.get(ENCODER_ENTRY, f"embeddings {first['embeddings'][:8]}"),
        "date": " to ".join(dict.fromkeys([*dates[:1], *dates[-1:]])),
    }


def _first_words(cells: Sequence[Any], curve: Any, base: Any, k: int) -> list[str]:
    """What was measured, and the verdict on the frontier."""
    facts = _facts(cells)
    split = f" of {cells[0].split}" if cells[0].split else ""
    queries = f"{counted(len(cells[0].queries), 'query', 'queries')}{split}"
    line = [facts["encoder"], queries, f"k = {k}", counted(len(cells), "cell"), facts["date"]]
    compared = [p.point for p in curve.points]
    parts = [f'<p class="note">{html_text(" · ".join(filter(None, line)))}</p>']
    if len(compared) > 1 and base.label in {p.label for p in compared}:
        measured = {curve.x, curve.y} & compared[0].values.keys()
        rows = {metric: {row.label: row for row in compare(compared, metric, base.label, k)} for metric in measured}
        parts.append(
            f"<p><strong>{html_text(find_verdict(curve, base.label, KEPT_SHARE.default, rows).text)}</strong></p>"
        )
    return parts


def _strata(strata: StratifiedSweep, metric: str) -> list[str]:
    """Each method's best setting in groups of queries, as differences and as means."""
    base = next(row.name for row in strata.means if row.label == strata.baseline)
    others = [row for row in strata.differences if row.label != strata.baseline]
    groups, rows = strata.table()
    counts = {group: counted(count, "query", "queries") for group, count in groups.items()}
    head = ["<th>Setting</th>", *(f"<th>{html_text(group)}<br>{count}</th>" for group, count in counts.items())]
    caption = f"{metric} by {strata.title}: each method's best setting, means over the queries of a group."
    return [
        f"<h2>{html_text(metric)} by {html_text(strata.title)}</h2>",
        html_chart(strata_figure(others, strata.methods, strata.title, metric, base, dark=False)) if others else "",
        html_table([head, *([f"<td>{html_text(cell)}</td>" for cell in row] for row in rows)], caption),
    ]


def _heat_maps(cells: Sequence[Any], metric: str, k: int) -> list[str]:
    """One for every method whose sweep varies two parameters."""
    parts = []
    for method in dict.fromkeys(p.method for p in cells):
        try:
            grid = heat_map(cells, metric, k, method)
        except ParamError:
            continue
        known = methods().get(method)
        axes = f"{grid.rows.symbol} and {grid.columns.symbol}"
        title = f"{known.title if known else method}: {grid.title}@{k} over {axes}"
        parts += [f"<h2>{html_text(title)}</h2>", html_chart(heat_map_figure(grid, dark=False))]
    return parts


def _table(table: Any) -> str:
    marks = {0: "", 1: ' class="more"', -1: ' class="less"'}
    head = [f"<th>{html_text(cell)}</th>" for cell in table.head]
    rows = [
        [f"<td{marks[m]}>{html_text(cell)}{SIGNIFICANCE_ARROWS[m]}</td>" for cell, m in zip(row, signs, strict=True)]
        for row, signs in zip(table.rows, table.marks, strict=True)
    ]
    return html_table([head, *rows], table.caption)
