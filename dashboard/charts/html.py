"""Parts of HTML reports: texts, tables, charts, and the page around them; nothing is fetched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from engine.wording import visible

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

PAGE_TEMPLATE = """<!doctype html>
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
summary {{ cursor: pointer; margin: .3rem 0 }} details > * {{ margin-left: 1rem }}
</style></head><body>
{body}
</body></html>
"""


def format_page(title: str, parts: Iterable[str]) -> str:
    """Format a whole HTML page from its title and its parts; empty parts are left out."""
    return PAGE_TEMPLATE.format(title=escape_html(title), body="\n".join(filter(None, parts)))


def format_table(table_rows: Sequence[Sequence[str]], caption: str | None = None) -> str:
    """Format a table as HTML.

    table_rows: by row, the cells as HTML with their tags; caption: plain text, escaped here
    """
    caption_html = "" if caption is None else f"<caption>{escape_html(caption)}</caption>"
    rows_html = "".join(f"<tr>{''.join(cells)}</tr>" for cells in table_rows)
    return f"<table>{caption_html}{rows_html}</table>"


def format_chart(figure: Figure, with_library: bool = False) -> str:
    """Format a chart as HTML for a report.

    with_library: include the chart library, which is needed once for all charts of a page.
    """
    # A report is always light: it is printed and mailed.
    figure.update_layout(template="plotly_white")
    config = {"displaylogo": False, "responsive": True}
    html: str = figure.to_html(full_html=False, include_plotlyjs=with_library, config=config)
    return html


def escape_html(value: Any) -> str:
    """Escape a value as text in HTML."""
    return escape(visible(str(value)))
