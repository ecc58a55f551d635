"""`frontier report`: a finished sweep as one HTML file with charts, tables and significance."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dashboard.charts.differences import plot_strata
from dashboard.charts.frontier import FrontierChart, plot_frontier
from dashboard.charts.html import escape_html, format_chart, format_page, format_table
from dashboard.charts.parameters import plot_heat_map
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


def report(swept: FinishedSweep, other_systems: OtherSystems, out: str) -> None:
    """Write the report of a finished sweep (decoders measured at many settings) to an HTML file.

    other_systems: runs (ranked lists) of systems that are no decoders, to be compared; out: the file's path
    """
    cells, k = swept.load_cells()
    strata = swept.stratify(cells, k)
    cells += other_systems.cells(swept, cells, k)
    write_text(out, build_page(cells, swept.across, swept.up, k, swept.baseline, strata))
    echo(f"{out}: {Path(out).stat().st_size / 1e6:.1f} MB, {len(cells):,} cells")


def build_page(
    cells: list[Any], across: str, up: str, k: int, baseline: str | None = None, strata: StratifiedSweep | None = None
) -> str:
    """Build the report of measured decoders as one HTML page, whose charts need no network.

    cells: a decoder's metrics for each query, at set size k; across, up: metrics of the chart's axes; baseline: label
    of the decoder that the others are compared with, None for the usual one; strata: the metric `up` by kind of query
    """
    curve = frontier(cells, across, up, k)
    # All metrics that were measured; the table's first row is the baseline.
    table = build_results(cells, tuple(cells[0].values), baseline, k)
    rows = compare(cells, up, table.rows[0][0], k)
    # The first sentence is about the largest significant gain.
    significant = sorted((row for row in rows if row.significant), key=lambda row: -row.difference)
    title = _collect_facts(cells)["corpus"]
    chart = plot_frontier(FrontierChart(frontier=curve, dark=False, whole=True, legend=True))
    corner_text = ", ".join(map(decimal, curve.reference))
    provenance = [
        (f"<td>{escape_html(name)}</td>", f"<td><code>{escape_html(value)}</code></td>")
        for name, value in cells[0].provenance.items()
    ]
    parts = [
        f"<h1>{escape_html(title)}</h1>",
        *_format_summary(cells, curve, table.cells[0], k),
        f"<p>{escape_html(summarize_comparisons(rows))}</p>",
        f"<p>{escape_html(describe_comparison(significant[0]))}</p>" if significant else "",
        format_chart(chart, with_library=True),
        f'<p class="note">Filled: Pareto-optimal, {len(curve.front):,} of {len(curve.points):,}. On hover: 95% paired '
        f"bootstrap CI over {counted(curve.queries, 'query', 'queries')} ({curve.resamples:,} draws, seed "
        f"{curve.seed}), each for its point alone. Hypervolume {decimal(curve.hypervolume)} "
        f"above ({corner_text}). {escape_html(curve.remark)}</p>",
        "<h2>All settings</h2>",
        _format_table(table),
        *(_format_strata(strata, f"{METRICS[up].title}@{k}") if strata else ()),
        *_format_heat_maps(cells, up, k),
        "<h2>How this was measured</h2>",
        format_table(provenance),
    ]
    return format_page(f"Frontier: {title}", parts)


def _collect_facts(cells: Sequence[Any]) -> dict[str, str]:
    """Collect corpus, encoder and dates of measuring from measured decoders, for the report's head.

    Where a name was not recorded, the beginning of a digest stands in.
    """
    provenance = cells[0].provenance
    dates = sorted({cell.provenance[DATE_ENTRY] for cell in cells if DATE_ENTRY in cell.provenance})
    return {
        "corpus": provenance.get(CORPUS_ENTRY, f"Corpus {provenance['corpus'][:8]}"),
        "encoder": provenance.get(ENCODER_ENTRY, f"embeddings {provenance['embeddings'][:8]}"),
        "date": " to ".join(dict.fromkeys([*dates[:1], *dates[-1:]])),
    }


def _format_summary(cells: Sequence[Any], curve: Any, baseline: Any, k: int) -> list[str]:
    """Format what was measured in a line, and the verdict in words, as paragraphs of the report.

    curve: all measured settings with those that nothing beats on both axes; baseline: what the verdict compares with;
    without it among the points there is no verdict
    """
    facts = _collect_facts(cells)
    split = f" of {cells[0].split}" if cells[0].split else ""
    queries = f"{counted(len(cells[0].queries), 'query', 'queries')}{split}"
    summary_line = [facts["encoder"], queries, f"k = {k}", counted(len(cells), "cell"), facts["date"]]
    points = [point.point for point in curve.points]
    parts = [f'<p class="note">{escape_html(" · ".join(filter(None, summary_line)))}</p>']
    if len(points) > 1 and baseline.label in {point.label for point in points}:
        metrics = {curve.x, curve.y} & points[0].values.keys()
        rows = {metric: {row.label: row for row in compare(points, metric, baseline.label, k)} for metric in metrics}
        verdict = find_verdict(curve, baseline.label, KEPT_SHARE.default, rows)
        parts.append(f"<p><strong>{escape_html(verdict.text)}</strong></p>")
    return parts


def _format_strata(strata: StratifiedSweep, metric: str) -> list[str]:
    """Format each method's best setting by groups of queries, as a heading, a chart and a table.

    metric: its title, with k
    """
    baseline = next(row.name for row in strata.means if row.label == strata.baseline)
    differences = [row for row in strata.differences if row.label != strata.baseline]
    chart = ""
    # A sweep of the baseline alone has no differences to draw.
    if differences:
        chart = format_chart(plot_strata(differences, strata.methods, strata.title, metric, baseline, dark=False))
    groups, rows = strata.table()
    head = ["<th>Setting</th>"]
    for group, n_queries in groups.items():
        head.append(f"<th>{escape_html(group)}<br>{counted(n_queries, 'query', 'queries')}</th>")
    caption = f"{metric} by {strata.title}: each method's best setting, means over the queries of a group."
    return [
        f"<h2>{escape_html(metric)} by {escape_html(strata.title)}</h2>",
        chart,
        format_table([head, *([f"<td>{escape_html(cell)}</td>" for cell in row] for row in rows)], caption),
    ]


def _format_heat_maps(cells: Sequence[Any], metric: str, k: int) -> list[str]:
    """Format a heat map of a metric for every method that was measured over exactly two parameters."""
    parts = []
    for method in dict.fromkeys(cell.method for cell in cells):
        # Only a method with exactly two varying parameters has a map.
        try:
            grid = heat_map(cells, metric, k, method)
        except ParamError:
            continue
        method_spec = methods().get(method)
        axes = f"{grid.rows.symbol} and {grid.columns.symbol}"
        title = f"{method_spec.title if method_spec else method}: {grid.title}@{k} over {axes}"
        parts += [f"<h2>{escape_html(title)}</h2>", format_chart(plot_heat_map(grid, is_dark=False))]
    return parts


def _format_table(table: Any) -> str:
    """Format the table of results as HTML; significant gains and losses get a class and an arrow."""
    # Of a cell: 1 for significantly more than the baseline, −1 for less, 0 for neither.
    marks = {0: "", 1: ' class="more"', -1: ' class="less"'}
    html_rows = [[f"<th>{escape_html(cell)}</th>" for cell in table.head]]
    for row, signs in zip(table.rows, table.marks, strict=True):
        pairs = zip(row, signs, strict=True)
        html_rows.append([f"<td{marks[m]}>{escape_html(cell)}{SIGNIFICANCE_ARROWS[m]}</td>" for cell, m in pairs])
    return format_table(html_rows, table.caption)
