"""`frontier evidence`: judged claims as one HTML file."""

from pathlib import Path

from dashboard.charts.evidence import plot_curves, plot_effects
from dashboard.charts.html import escape_html, format_chart, format_page, format_table
from engine.cli.output import echo, write_text
from engine.evidence.claim import PAPERS
from engine.evidence.run import JudgedClaim, Report, list_reports, parse_report
from engine.views.evidence import command, facts, figures, headline


def evidence(measured: str | None, out: str) -> None:
    report = (
        parse_report(Path(measured).read_text(encoding="utf-8")) if measured else next(iter(list_reports().values()))
    )
    write_text(out, page(report))
    echo(f"{out}: {Path(out).stat().st_size / 1e6:.1f} MB, {len(report.rows):,} claims")


def page(report: Report) -> str:
    """The report as HTML: counts, then every claim, which opens; its charts draw without a network."""
    head, *rows = report.table()
    counts = [
        [f"<th>{escape_html(cell)}</th>" for cell in head],
        *([f"<td>{cell}</td>" for cell in row] for row in rows),
    ]
    first = next((row for row in report.rows if row.ruling.effects), None)
    parts = [
        "<h1>Evidence</h1>",
        f"<p><strong>{escape_html(headline(report))}</strong></p>",
        f'<p class="note">{escape_html(report.title)}</p>',
        format_table(counts),
    ]
    for paper, name in PAPERS.items():
        own = [row for row in report.rows if row.claim.paper == paper]
        parts += [f"<h2>{escape_html(name)}</h2>" if own else "", *(_claim(row, row is first) for row in own)]
    return format_page("Frontier: evidence", parts)


def _claim(row: JudgedClaim, first: bool) -> str:
    """A claim that opens: charts, facts, command, why, figures."""
    effects = row.ruling.effects
    drawn = [*plot_curves(row.ruling.curves, dark=False), *([plot_effects(effects, is_dark=False)] if effects else [])]
    rows = figures(effects)
    cells = [[f"<td>{escape_html(cell)}</td>" for cell in line.values()] for line in rows]
    inside = [
        *(format_chart(figure, first and figure is drawn[0]) for figure in drawn),
        *(f"<p><strong>{escape_html(name)}</strong>: {escape_html(text)}</p>" for name, text in facts(row)),
        f"<p><code>{escape_html(again)}</code></p>" if (again := command(row)) else "",
        f'<p class="note">{escape_html(row.ruling.why)}</p>',
        format_table([[f"<th>{escape_html(name)}</th>" for name in rows[0]], *cells]) if rows else "",
    ]
    summary = f"<strong>{escape_html(row.short)}</strong> {escape_html(row.claim.sentence)}"
    return f"<details><summary>{summary}</summary>{''.join(filter(None, inside))}</details>"
