"""`frontier evidence`: judged claims as one HTML file."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dashboard.charts.evidence import plot_curves, plot_effects
from dashboard.charts.html import escape_html, format_chart, format_page, format_table
from engine.cli.output import echo, write_text
from engine.evidence.claim import PAPERS
from engine.evidence.run import JudgedClaim, Report, list_reports, parse_report
from engine.views.evidence import INTERVAL_NOTE, command, facts, figures, headline


def evidence(measured: str | None, out: str) -> None:
    """Write judged claims as an HTML page: those in the file `measured`, else the newest stored ones."""
    text = Path(measured).read_text(encoding="utf-8") if measured else None
    report = next(iter(list_reports().values())) if text is None else parse_report(text)
    write_text(out, build_page(report))
    echo(f"{out}: {Path(out).stat().st_size / 1e6:.1f} MB, {len(report.rows):,} claims")


def build_page(report: Report) -> str:
    """Build a page of judged claims as HTML: counts of verdicts, then every claim, which opens on a click.

    A claim is a paper's statement; its verdict follows from our measurements.
    """
    header_cells, *count_rows = report.table()
    counts = [_format_cells(map(escape_html, header_cells), "th"), *map(_format_cells, count_rows)]
    # The first claim with a chart brings the chart library for all.
    first_row = next((claim_row for claim_row in report.rows if claim_row.ruling.effects), None)
    page_parts = [
        "<h1>Evidence</h1>",
        f"<p><strong>{escape_html(headline(report))}</strong></p>",
        f'<p class="note">{escape_html(report.title)}</p>',
        format_table(counts),
    ]
    for paper, paper_title in PAPERS.items():
        paper_claims = [claim_row for claim_row in report.rows if claim_row.claim.paper == paper]
        # A paper without claims in this report has no heading.
        if paper_claims:
            page_parts.append(f"<h2>{escape_html(paper_title)}</h2>")
        page_parts += [_format_claim(claim_row, claim_row is first_row) for claim_row in paper_claims]
    return format_page("Frontier: evidence", page_parts)


def _format_cells(cells: Iterable[Any], tag_name: str = "td") -> list[str]:
    """Wrap each cell of a table in a tag."""
    return [f"<{tag_name}>{cell}</{tag_name}>" for cell in cells]


def _format_claim(row: JudgedClaim, has_library: bool) -> str:
    """Format a paper's claim as HTML that opens on a click: verdict, charts, facts, command, reason.

    row: the claim with the measured effects; has_library: True to include the chart library, once per page
    """
    effects, contents = row.ruling.effects, []
    charts = plot_curves(row.ruling.curves, dark=False) + ([plot_effects(effects, is_dark=False)] if effects else [])
    for position, figure in enumerate(charts):
        contents.append(format_chart(figure, has_library and position == 0))
    for fact_name, fact_text in facts(row):
        contents.append(f"<p><strong>{escape_html(fact_name)}</strong>: {escape_html(fact_text)}</p>")
    if repeat_command := command(row):
        contents.append(f"<p><code>{escape_html(repeat_command)}</code></p>")
    contents.append(f'<p class="note">{escape_html(row.ruling.why)}</p>')
    if figure_rows := figures(effects):
        cells = [_format_cells(map(escape_html, figure_row.values())) for figure_row in figure_rows]
        contents.append(format_table([_format_cells(map(escape_html, figure_rows[0]), "th"), *cells]))
        contents.append(f'<p class="note">{INTERVAL_NOTE}</p>')
    summary = f"<strong>{escape_html(row.short)}</strong> {escape_html(row.claim.sentence)}"
    return f"<details><summary>{summary}</summary>{''.join(contents)}</details>"
