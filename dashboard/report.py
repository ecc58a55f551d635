"""`frontier report`: a finished sweep as one HTML file that needs nothing else, with the charts and what they allow."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import click

from engine.cli import main
from engine.cli_evaluation import of_a_store, swept
from engine.cli_kinds import ByKind, by_kind
from engine.errors import FrontierError, ParamError

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2rem auto; padding: 0 1rem;
color: #222; background: #fff }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px }}
th, td {{ padding: .25rem .6rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap }}
th:first-child, td:first-child {{ text-align: left }}
caption, .note {{ color: #555; font-size: 14px; text-align: left }}
.more {{ color: #00664b; font-weight: 600 }} .less {{ color: #a23b00; font-weight: 600 }}
code {{ font-size: 13px; overflow-wrap: anywhere }}
</style></head><body>
{body}
</body></html>
"""


@main.command()
@of_a_store
@click.option("--out", default="report.html", show_default=True, metavar="FILE", help="The file to write.")
def report(
    store: str,
    split: str | None,
    k: int | None,
    across: str,
    up: str,
    baseline: str | None,
    by: str | None,
    corpus: str | None,
    qrels: str,
    out: str,
) -> None:
    """Write the frontier, the comparison and the settings of a finished sweep as one HTML file."""
    points, k = swept(store, split, k)
    file = Path(out)
    if not file.parent.is_dir():
        raise FrontierError(f"--out must lie in a folder that exists; there is no {str(file.parent)!r}")
    strata = by_kind(points, across, up, k, baseline, by, corpus, qrels) if by else None
    file.write_text(page(points, across, up, k, baseline, strata), encoding="utf-8")
    click.echo(f"{file}: {file.stat().st_size / 1e6:.1f} MB, {len(points):,} cells")


def page(
    points: list[Any], across: str, up: str, k: int, baseline: str | None = None, strata: ByKind | None = None
) -> str:
    """The report as HTML; its charts draw without a network. strata: the y axis by kind of query."""
    from dashboard.charts import frontier_figure
    from engine.evaluation.frontier import frontier
    from engine.evaluation.metrics import METRICS
    from engine.evaluation.statistics import compare, statement, summary
    from engine.evaluation.tables import results

    found = frontier(points, across, up, k)
    table = results(points, tuple(points[0].values), baseline, k)
    rows = compare(points, up, table.rows[0][0], k)
    told = sorted((row for row in rows if row.told), key=lambda row: -row.difference)
    split = f", split {points[0].split}" if points[0].split else ""
    title = f"{len(points):,} cells, {len(points[0].queries):,} queries{split}"
    chart = frontier_figure(found, (METRICS[across].title, METRICS[up].title), dark=False)
    corner = f"({found.reference[0]:.4f}, {found.reference[1]:.4f})"
    parts = [
        "<h1>Frontier</h1>",
        f'<p class="note">{_text(title)}; k = {k}.</p>',
        f"<p>{_text(summary(rows))}</p>",
        f"<p>{_text(statement(told[0]))}</p>" if told else "",
        _chart(chart, first=True),
        f'<p class="note">Filled: not dominated, which {len(found.front):,} of {len(found.points):,} are. Bands: 95 % '
        f"intervals of a paired bootstrap over {found.queries:,} queries ({found.resamples:,} draws, seed "
        f"{found.seed}), each for its point alone. Dotted: the baseline. Hypervolume {found.hypervolume:.5f} above "
        f"{corner}.</p>",
        "<h2>All decoders</h2>",
        _table(table),
        *(_strata(strata, f"{METRICS[up].title}@{k}") if strata else ()),
        *_heat_maps(points, up, k),
        "<h2>How this was measured</h2>",
        _provenance(points[0].provenance),
    ]
    return PAGE.format(title=_text(f"Frontier: {title}"), body="\n".join(filter(None, parts)))


def _strata(found: ByKind, metric: str) -> list[str]:
    """Each method's best setting in groups of queries, as differences and as means."""
    from dashboard.charts.strata import strata_figure

    base = next(row.name for row in found.means if row.label == found.baseline)
    others = [row for row in found.differences if row.label != found.baseline]
    groups = {row.group: row.queries for row in found.means}
    cells = {(row.label, row.group): f"{row.mean:.4f}" for row in found.means}
    head = "".join(f"<th>{_text(group)}<br>{count:,} queries</th>" for group, count in groups.items())
    body = "".join(
        f"<tr><td>{_text(name)}</td>{''.join(f'<td>{cells[label, group]}</td>' for group in groups)}</tr>"
        for label, name in {row.label: row.name for row in found.means}.items()
    )
    caption = f"{metric} by {found.title}: each method's best setting, means over the queries of a group."
    return [
        f"<h2>{_text(metric)} by {_text(found.title)}</h2>",
        _chart(strata_figure(others, found.methods, found.title, metric, base, dark=False)) if others else "",
        f"<table><caption>{_text(caption)}</caption><tr><th>Decoder</th>{head}</tr>{body}</table>",
    ]


def _heat_maps(points: list[Any], metric: str, k: int) -> list[str]:
    """One for every method whose sweep varies two parameters."""
    from dashboard.charts import heat_map_figure
    from engine.evaluation.heat_map import heat_map

    parts = []
    for method in dict.fromkeys(p.method for p in points):
        try:
            found = heat_map(points, metric, k, method)
        except ParamError:
            continue
        title = f"{method}: {found.title}@{k} over {found.rows.symbol} and {found.columns.symbol}"
        parts += [f"<h2>{_text(title)}</h2>", _chart(heat_map_figure(found, dark=False))]
    return parts


def _table(table: Any) -> str:
    from engine.evaluation.tables import ARROWS

    marks = {0: "", 1: ' class="more"', -1: ' class="less"'}
    head = "".join(f"<th>{_text(cell)}</th>" for cell in table.head)
    rows = [
        "".join(f"<td{marks[m]}>{_text(cell)}{ARROWS[m]}</td>" for cell, m in zip(row, told, strict=True))
        for row, told in zip(table.rows, table.marks, strict=True)
    ]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><caption>{_text(table.caption)}</caption><tr>{head}</tr>{body}</table>"


def _provenance(found: Any) -> str:
    rows = "".join(f"<tr><td>{_text(n)}</td><td><code>{_text(v)}</code></td></tr>" for n, v in found.items())
    return f"<table>{rows}</table>"


def _chart(figure: Any, first: bool = False) -> str:
    figure.update_layout(template="plotly_white")
    return figure.to_html(full_html=False, include_plotlyjs=first, config={"displaylogo": False})


def _text(value: Any) -> str:
    from engine.values import showable

    return escape(showable(str(value)))
