"""`frontier report`: a finished sweep as one HTML file with charts, tables and significance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dashboard.charts.differences import plot_strata
from dashboard.charts.frontier import NO_LINES_TEXT, FrontierChart, has_exact_lines, plot_named_budget
from dashboard.charts.frontier_legend import describe_marks
from dashboard.charts.html import escape_html, format_chart, format_page, format_table
from dashboard.charts.parameters import plot_heat_map
from engine.cli.finished_sweep import FinishedSweep, OtherSystems, StratifiedSweep
from engine.cli.output import echo, write_text
from engine.errors import ParamError
from engine.evaluation.curve import Curve
from engine.evaluation.decide import OptionEstimates, decide_for_report, estimate_on_axes
from engine.evaluation.decision import Decision
from engine.evaluation.frontier import KEPT_SHARE, TIME_AXIS, Frontier, frontier
from engine.evaluation.heat_map import heat_map
from engine.evaluation.metrics import METRICS
from engine.evaluation.statistics import compare, describe_comparison, summarize_comparisons
from engine.evaluation.sweep.compute import CORPUS_ENTRY, DATE_ENTRY, ENCODER_ENTRY
from engine.evaluation.sweep.store import Store
from engine.evaluation.tables import SIGNIFICANCE_ARROWS, build_results
from engine.evaluation.tuning.history import PastStudy
from engine.progress import counted
from engine.stages import methods
from engine.wording import decimal, percent

MIN_PANELS_PX = 640
"""Narrower charts with several panels, or numbers in cells, cannot be read."""


def report(swept: FinishedSweep, other_systems: OtherSystems, out: str) -> None:
    """Write the report of a finished sweep (decoders measured at many settings) to an HTML file.

    other_systems: runs (ranked lists) of systems that are no decoders, to be compared; out: the file's path
    """
    cells, k = swept.load_cells()
    strata = swept.stratify(cells, k, other_systems)
    curves, study = swept.load_curves(cells, k), swept.find_study(cells, k)
    confirming = [cell for cell in Store(swept.store).read_cells() if cell.split != cells[0].split]
    cells += other_systems.cells(swept, cells, k)
    write_text(out, build_page(cells, swept.across, swept.up, k, swept.baseline, strata, curves, study, confirming))
    echo(f"{out}: {Path(out).stat().st_size / 1e6:.1f} MB, {counted(len(cells), 'cell')}")


def build_page(
    cells: list[Any],
    across: str,
    up: str,
    k: int,
    baseline: str | None = None,
    strata: StratifiedSweep | None = None,
    curves: Sequence[Curve] = (),
    study: PastStudy | None = None,
    confirming: Sequence[Any] = (),
    decided: tuple[OptionEstimates, Decision] | None = None,
) -> str:
    """Build the report of measured decoders as one HTML page, whose charts need no network.

    cells: a decoder's metrics for each query, at set size k; across, up: metrics of the chart's axes; baseline: label
    of the decoder that the others are compared with, None for the first registered selector; strata: the metric `up` by
    kind of query; curves: decoders measured exactly at every λ, on the same queries; study: the tuning that chose on
    these queries or reports on them, whose verdict stands in place of a new one; confirming: cells of other splits, of
    which those say if the choices are confirmed that Trade-off was asked about; decided: estimates and a decision of a
    page, which stand in place of new ones too
    """
    curve = frontier(cells, across, up, k)
    # All metrics that were measured; the table's first row is the baseline.
    table = build_results(cells, tuple(cells[0].values), baseline, k)
    rows = compare(cells, up, table.rows[0][0], k)
    title = _collect_facts(cells)["corpus"]
    estimates, decision = decided or _decide(curve, curves, table.cells[0], study, confirming)
    # A curve over other queries than the points' would not pass through them.
    exact = [each for each in curves if len(each.queries) == curve.queries]
    share = None if decision is None else decision.keep
    # The line of a study's budget is the one that it was asked for.
    share = share if study is None else study.share
    # The sure setting of a page may be one that another split has confirmed, which the chart then marks too.
    sure = None if decided is None else decided[1].sure
    chart = FrontierChart(
        frontier=curve, dark=False, legend=True, share=share, estimates=estimates, exact=exact,
        pinned=None if sure is None else sure.label,
    )  # fmt: skip
    provenance = [
        (f"<td>{escape_html(name)}</td>", f"<td><code>{escape_html(value)}</code></td>")
        for name, value in cells[0].provenance.items()
    ]
    parts = [
        f"<h1>{escape_html(title)}</h1>",
        *_format_summary(cells, decision, k, study),
        f"<p>{escape_html(summarize_comparisons(rows))}</p>",
        format_chart(plot_named_budget(chart), with_library=True),
        f'<p class="note">{_describe_chart(chart, has_exact_lines(curve, exact))}</p>',
        "<h2>All settings</h2>",
        _format_table(table),
        *(_format_strata(strata, f"{METRICS[up].title}@{k}") if strata else ()),
        *_format_heat_maps(cells, up, k),
        "<h2>How this was measured</h2>",
        format_table(provenance),
    ]
    return format_page(f"Frontier: {title}", parts)


def _decide(
    curve: Frontier, curves: Sequence[Curve], baseline: Any, study: PastStudy | None, confirming: Sequence[Any]
) -> tuple[OptionEstimates | None, Decision | None]:
    """Estimate the settings and decide at the default budget; a study's verdict needs no new decision.

    curve: the settings as points; curves: exact ones; baseline: its metrics by query; confirming: cells of other
    splits, which count where Trade-off has asked them
    """
    # Queries that a study keeps back to confirm its choice show no chances, from which one would choose again.
    is_kept_back = study is not None and baseline.split != study.dev
    estimates = None if is_kept_back else estimate_on_axes(curve, curves, baseline)
    decision = decide_for_report(estimates) if study is None else None
    if decision is None or estimates is None or not confirming:
        return estimates, decision
    # The file of confirmations comes with Streamlit, which takes a second to load: most reports do without.
    from dashboard.services.confirmations import select_confirming_cells

    cells = select_confirming_cells(decision, estimates.baseline, confirming)
    return estimates, decide_for_report(estimates, cells) if cells else decision


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


def _format_summary(cells: Sequence[Any], decision: Decision | None, k: int, study: PastStudy | None) -> list[str]:
    """Format what was measured in a line, and the decision or a study's in words, as paragraphs of the report.

    decision: the recommended settings, if a default share of the baseline's metric is to be kept; None where nothing
    can be decided
    """
    facts = _collect_facts(cells)
    split = f" of {cells[0].split}" if cells[0].split else ""
    queries = f"{counted(len(cells[0].queries), 'query', 'queries')}{split}"
    level = cells[0].provenance.get("relevant_from")
    summary_line = [facts["encoder"], queries, f"k = {k}", counted(len(cells), "cell"), facts["date"]]
    summary_line.append("" if level is None else f"Relevant from grade {level}")
    if decision is not None and decision.is_pooled and decision.judged_text:
        summary_line.append(f"{decision.judged_text} judged")
    parts = [f'<p class="note">{escape_html(" · ".join(filter(None, summary_line)))}</p>']
    verdict = study or decision
    if verdict is not None:
        first_sentence, *further_sentences = map(escape_html, verdict.sentences)
        parts.append(f"<p><strong>{first_sentence}</strong> {' '.join(further_sentences)}</p>")
    return parts


def _describe_chart(chart: FrontierChart, has_exact: bool) -> str:
    """Describe in HTML what the chart shows and how its numbers were computed.

    has_exact: True if a line is exact, measured at every λ
    """
    points, sentences = chart.frontier, list[str]()
    if chart.estimates is not None:
        share = KEPT_SHARE.default if chart.share is None else chart.share
        sentences.append(f"Width and opacity: chance to keep {percent(share)}, the choice allowed for.")
        marks = [f"{part[:1].upper()}{part[1:]}." for part in describe_marks(chart) if not part.startswith("width")]
        sentences += [*marks, "A double click shows what keeps less."]
    if points.x == TIME_AXIS:
        sentences.append(f"{NO_LINES_TEXT[:1].upper()}{NO_LINES_TEXT[1:]}.")
    if has_exact:
        sentences.append("Lines: every λ, exactly.")
    corner_text = ", ".join(map(decimal, points.reference))
    sentences += [
        f"Pareto-optimal: {len(points.front):,} of {len(points.points):,}.",
        f"On hover: 95% paired bootstrap CI over {counted(points.queries, 'query', 'queries')} ({points.resamples:,} "
        f"draws, seed {points.seed}), each for its point alone.",
        f"Hypervolume {decimal(points.hypervolume)} above ({corner_text}).",
        points.remark,
    ]
    return escape_html(" ".join(filter(None, sentences)))


def _format_strata(strata: StratifiedSweep, metric: str) -> list[str]:
    """Format each method's best setting by groups of queries, as a heading, a chart and a table.

    metric: its title, with k
    """
    baseline = next(row.name for row in strata.means if row.label == strata.baseline)
    differences = [row for row in strata.differences if row.label != strata.baseline]
    chart = ""
    # A sweep of the baseline alone has no differences to draw.
    if differences:
        chart = format_chart(
            plot_strata(differences, strata.methods, strata.title, metric, baseline, dark=False),
            min_width_px=MIN_PANELS_PX,
        )
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
        parts += [
            f"<h2>{escape_html(title)}</h2>",
            format_chart(plot_heat_map(grid, is_dark=False), min_width_px=MIN_PANELS_PX),
        ]
    return parts


def _format_table(table: Any) -> str:
    """Format the table of results as HTML; significant gains and losses get a class and an arrow."""
    # Of a cell: 1 for significantly more than the baseline, −1 for less, 0 for neither.
    marks = {0: "", 1: ' class="more"', -1: ' class="less"'}
    html_rows = [[f"<th>{escape_html(cell)}</th>" for cell in table.head]]
    for row, signs, comparisons, means in zip(table.rows, table.marks, table.comparisons, table.means, strict=True):
        # The first cell is the name, then one a metric; the number of returned documents may follow.
        tests = ["", *(describe_comparison(comparisons[m]) if m in comparisons else "" for m in means), ""]
        html_row = []
        for cell, mark, test in zip(row, signs, tests, strict=False):
            hover_text = f' title="{escape_html(test)}"' if test else ""
            html_row.append(f"<td{marks[mark]}{hover_text}>{escape_html(cell)}{SIGNIFICANCE_ARROWS[mark]}</td>")
        html_rows.append(html_row)
    return format_table(html_rows, f"{table.caption} On hover: the difference, its interval and p.")
