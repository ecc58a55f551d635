"""`frontier evidence`: judged claims as one HTML file."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dashboard.charts.evidence import plot_curves, plot_effects
from dashboard.charts.html import escape_html, format_chart, format_page, format_table
from engine.cli.output import echo, write_text
from engine.evaluation.metrics import write_metric_titles
from engine.evidence.claim import PAPERS
from engine.evidence.run import JudgedClaim, Report, list_reports, parse_report
from engine.views.evidence import (
    COLOURS,
    INTERVAL_NOTE,
    OUTLINED_VERDICTS,
    ROUND_VERDICTS,
    advise,
    command,
    describe_marks,
    describe_signs,
    facts,
    figures,
    headline,
    list_squares,
)

SQUARE_COLOURS = {
    "green": "#d6f0dd",
    "orange": "#fde8c8",
    "red": "#fbd9d7",
    "blue": "#d9e8fb",
    "gray": "#ececec",
    "violet": "#e9dffb",
}
"""Background of each verdict's squares; the text on them is the page's."""
WALL_CSS = """<style>
.wall {display: flex; flex-wrap: wrap; gap: 4px}
.wall a {width: 44px; padding: 4px 0; border-radius: 5px; text-align: center; font-size: 12px; color: inherit;
  text-decoration: none}
.wall b {display: block; font-size: 14px}
.wall .outlined {outline: 2px dashed #7fb994; outline-offset: -2px}
.wall .round {border-radius: 50%}
</style>"""


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
        f"<ul>{''.join(f'<li>{escape_html(sentence)}</li>' for sentence in advise(report))}</ul>",
        f'<p class="note">{escape_html(report.title)}</p>',
        _format_wall(report),
        format_table(counts),
    ]
    for paper, paper_title in PAPERS.items():
        paper_claims = [claim_row for claim_row in report.rows if claim_row.claim.paper == paper]
        # A paper without claims in this report has no heading.
        if paper_claims:
            page_parts.append(f"<h2>{escape_html(paper_title)}</h2>")
        page_parts += [_format_claim(claim_row, claim_row is first_row) for claim_row in paper_claims]
    return format_page("Frontier: evidence", page_parts)


def _format_wall(report: Report) -> str:
    """Format a square for each claim as HTML, by paper and verdict; each is a link that opens its claim."""
    # Links, as the file has no script of its own: a browser opens the claim that contains the target.
    wall_parts = [WALL_CSS]
    for paper, squares in list_squares(report).items():
        links = []
        for square in squares:
            colour = SQUARE_COLOURS[COLOURS[square.verdict]]
            title, name = escape_html(square.title), escape_html(square.claim_id)
            shape = ' class="round"' if square.verdict in ROUND_VERDICTS else ""
            look = f'{shape} style="background: {colour}"'
            if square.verdict in OUTLINED_VERDICTS:
                look = ' class="outlined"'
            links.append(f'<a href="#{name}" title="{title}"{look}><b>{square.sign}</b>{name}</a>')
        wall_parts.append(f'<p><strong>{escape_html(paper)}</strong></p><div class="wall">{"".join(links)}</div>')
    wall_parts.append(f'<p class="note">{escape_html(describe_signs(report))}</p>')
    return "".join(wall_parts)


def _format_cells(cells: Iterable[Any], tag_name: str = "td") -> list[str]:
    """Wrap each cell of a table in a tag."""
    return [f"<{tag_name}>{cell}</{tag_name}>" for cell in cells]


def _format_claim(row: JudgedClaim, has_library: bool) -> str:
    """Format a paper's claim as HTML that opens on a click: verdict, charts, facts, command, reason.

    row: the claim with the measured effects; has_library: True to include the chart library, once per page
    """
    # A link to an element inside opens the claim.
    effects, contents = row.ruling.effects, [f'<span id="{escape_html(row.claim.id)}"></span>']
    charts = plot_curves(row.ruling.curves, dark=False) + (
        [plot_effects(effects, False, row.claim.find_claimed_values)] if effects else []
    )
    for position, figure in enumerate(charts):
        contents.append(format_chart(figure, has_library and position == 0))
    if effects and (marks_text := describe_marks(row)):
        contents.append(f'<p class="note">{marks_text}</p>')
    for fact_name, fact_text in facts(row):
        contents.append(f"<p><strong>{escape_html(fact_name)}</strong>: {escape_html(fact_text)}</p>")
    if repeat_command := command(row):
        contents.append(f"<p><code>{escape_html(repeat_command)}</code></p>")
    contents.append(f'<p class="note">{escape_html(write_metric_titles(row.ruling.why))}</p>')
    if figure_rows := figures(effects):
        cells = [_format_cells(map(escape_html, figure_row.values())) for figure_row in figure_rows]
        contents.append(format_table([_format_cells(map(escape_html, figure_rows[0]), "th"), *cells]))
        contents.append(f'<p class="note">{INTERVAL_NOTE}</p>')
    summary = f"<strong>{escape_html(row.short)}</strong> {escape_html(row.claim.sentence)}"
    return f"<details><summary>{summary}</summary>{''.join(contents)}</details>"
