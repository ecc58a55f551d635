"""Parts of HTML reports: texts, tables, charts, and the page around them; nothing is fetched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dashboard.charts.palette import SANS_FONTS
from engine.wording import visible

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

LABELS_SCRIPT = Path(__file__).parents[1] / "components" / "scripts" / "labels.js"
PAGE_TEMPLATE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>
body {{ font: 16px/1.5 {fonts}; max-width: 1100px; margin: 2rem auto; padding: 0 1rem;
color: #222; background: #fff }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px }}
th, td {{ padding: .25rem .5rem; border-bottom: 1px solid #ddd; text-align: right }}
td {{ white-space: nowrap }} th {{ vertical-align: bottom }}
th:first-child, td:first-child {{ text-align: left; position: sticky; left: 0; background: #fff }}
figure {{ margin: 0 0 1rem }} .wide {{ overflow-x: auto }}
@media (min-width: 641px) {{ .plotly-graph-div {{ width: calc(100% - 28px) !important }} }}
.modebar {{ right: -28px !important; max-height: none !important }}
figcaption, .note {{ color: #555; font-size: 14px }}
.more {{ color: #00664b; font-weight: 600 }} .less {{ color: #a23b00; font-weight: 600 }}
code {{ font-size: 13px; overflow-wrap: anywhere; white-space: normal }}
@media (max-width: 600px) {{ td:first-child {{ white-space: normal; min-width: 7rem }} }}
summary {{ cursor: pointer; margin: .3rem 0 }} details > * {{ margin-left: 1rem }}
</style></head><body><main>
{body}
</main></body></html>
"""


def format_page(title: str, parts: Iterable[str]) -> str:
    """Format a whole HTML page from its title and its parts; empty parts are left out."""
    return PAGE_TEMPLATE.format(title=escape_html(title), fonts=SANS_FONTS, body="\n".join(filter(None, parts)))


def format_table(table_rows: Sequence[Sequence[str]], caption: str | None = None) -> str:
    """Format a table as HTML.

    table_rows: the rows, each a list of cells as HTML with their tags; caption: plain text, escaped here
    """
    caption_html = "" if caption is None else f"<figcaption>{escape_html(caption)}</figcaption>"
    rows_html = "".join(f"<tr>{''.join(cells)}</tr>" for cells in table_rows)
    # A table that is wider than the page scrolls by itself; its caption stays.
    return f'<figure>{caption_html}<div class="wide" tabindex="0"><table>{rows_html}</table></div></figure>'


def format_chart(figure: Figure, with_library: bool = False, min_width_px: int = 0) -> str:
    """Format a chart as HTML for a report.

    with_library: include the chart library, which is needed once for all charts of a page. min_width_px: on a narrower
    page the chart scrolls
    """
    # A report is always light: it is printed and mailed.
    # Its tools stand upright in a strip of the page beside it, where they cover nothing.
    figure.update_layout(template="plotly_white", font_family=SANS_FONTS, modebar={"orientation": "v"})
    config = {"displaylogo": False, "responsive": True}
    html: str = figure.to_html(
        full_html=False, include_plotlyjs=with_library, config=config, post_script=_build_label_script()
    )
    return f'<div class="wide" tabindex="0"><div style="min-width: {min_width_px}px">{html}</div></div>'


@cache
def _build_label_script() -> str:
    """Build the script by which a chart's names neither cover each other nor are cut, at every width."""
    function_text = LABELS_SCRIPT.read_text(encoding="utf-8").replace("export ", "")
    # plotly replaces the placeholder by the element's id.
    return function_text + (
        "const chart = document.getElementById('{plot_id}');\n"
        "chart.on('plotly_afterplot', () => arrangeLabels(chart));\narrangeLabels(chart);"
    )


def escape_html(value: Any) -> str:
    """Escape a value as text in HTML."""
    return escape(visible(str(value)))
