"""`frontier evidence`: judged claims as one HTML file."""

from pathlib import Path

from dashboard.charts.evidence import curve_figures, effects_figure
from dashboard.charts.html import html_chart, html_page, html_table, html_text
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
    counts = [[f"<th>{html_text(cell)}</th>" for cell in head], *([f"<td>{cell}</td>" for cell in row] for row in rows)]
    first = next((row for row in report.rows if row.ruling.effects), None)
    parts = [
        "<h1>Evidence</h1>",
        f"<p><strong>{html_text(headline(report))}</strong></p>",
        f'<p class="note">{html_text(report.title)}</p>',
        html_table(counts),
    ]
    for paper, name in PAPERS.items():
        own = [row for row in report.rows if row.claim.paper == paper]
        parts += [f"<h2>{html_text(name)}</h2>" if own else "", *(_claim(row, row is first) for row in own)]
    return html_page("Frontier: evidence", parts)


def _claim(row: JudgedClaim, first: bool) -> str:
    """A claim that opens: charts, facts, command, why, figures."""
    effects = row.ruling.effects
    drawn = [*curve_figures(row.ruling.curves, dark=False), *([effects_figure(effects, dark=False)] if effects else [])]
    rows = figures(effects)
    cells = [[f"<td>{html_text(cell)}</td>" for cell in line.values()] for line in rows]
    inside = [
        *(html_chart(figure, first and figure is drawn[0]) for figure in drawn),
        *(f"<p><strong>{html_text(name)}</strong>: {html_text(text)}</p>" for name, text in facts(row)),
        f"<p><code>{html_text(again)}</code></p>" if (again := command(row)) else "",
        f'<p class="note">{html_text(row.ruling.why)}</p>',
        html_table([[f"<th>{html_text(name)}</th>" for name in rows[0]], *cells]) if rows else "",
    ]
    summary = f"<strong>{html_text(row.short)}</strong> {html_text(row.claim.sentence)}"
    return f"<details><summary>{summary}</summary>{''.join(filter(None, inside))}</details>"
