"""Parts of reports as HTML: texts, tables, charts, and the page around them; nothing is fetched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from engine.wording import visible

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

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
summary {{ cursor: pointer; margin: .3rem 0 }} details > * {{ margin-left: 1rem }}
</style></head><body>
{body}
</body></html>
"""


def html_page(title: str, parts: Iterable[str]) -> str:
    """The page of a title and its parts, empty ones left out."""
    return PAGE.format(title=html_text(title), body="\n".join(filter(None, parts)))


def html_table(rows: Sequence[Sequence[str]], caption: str | None = None) -> str:
    """A table of cells, which are HTML; caption: text."""
    head = "" if caption is None else f"<caption>{html_text(caption)}</caption>"
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return f"<table>{head}{body}</table>"


def html_chart(figure: Figure, first: bool = False) -> str:
    """A chart; first: of its page, which brings the library for all."""
    figure.update_layout(template="plotly_white")
    config = {"displaylogo": False, "responsive": True}
    html: str = figure.to_html(full_html=False, include_plotlyjs=first, config=config)
    return html


def html_text(value: Any) -> str:
    """Text that stays text."""
    return escape(visible(str(value)))
