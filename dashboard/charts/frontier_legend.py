"""Legend of the frontier's chart: each mark drawn as the chart draws it, with a few words beside it."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

from dashboard.charts.frontier import (
    CURRENT_NAME,
    ENVELOPE_OPACITY,
    VEIL_OPACITY,
    FrontierChart,
    fade,
    has_envelope_line,
    has_exact_lines,
    has_joins,
    widen,
)
from dashboard.charts.palette import GREY, Style, method_style
from dashboard.charts.verdict_data import find_method
from engine.wording import format_budget

LEGEND_CSS = """<style>
.frontier-legend {display: flex; flex-wrap: wrap; gap: .125rem 1.125rem; font-size: .875rem}
.frontier-legend > span {display: flex; align-items: center; gap: .4375rem; position: relative}
.frontier-legend img {flex: none}
.frontier-legend .spoken {position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%)}
</style>"""
WIDTH, NARROW_WIDTH, HEIGHT = 32, 18, 26
"""Size of a drawing in pixels; a narrow one shows the middle alone."""
CHANCES = (0.05, 0.5, 1.0)
"""Chances of the lines that show what widths and opacities mean, from left to right."""
EXACT_PLACES = "1,7 6,9 8,6 13,12 15,10 20,17 24,15 31,21"
STEP_PLACES = "1,6 12,6 12,13 22,13 22,20 31,20"
"""Corners of a line over every λ, and of the best of all settings."""


@dataclass(frozen=True, kw_only=True)
class LegendEntry:
    """A mark of the chart: its drawing as the content of an SVG, at most four words, and what it means in full."""

    drawing: str
    words: str
    description: str
    is_narrow: bool = False  # True for a drawing that has nothing but its middle


def describe_marks(chart: FrontierChart) -> list[str]:
    """Describe what widths, whiskers, steps and shades of a chart mean, where no legend can be drawn."""
    return [entry.description for entry in list_marks(chart)]


def list_marks(chart: FrontierChart) -> list[LegendEntry]:
    """Return the marks of a chart that do not explain themselves, in the order of their weight."""
    marks, style = list[LegendEntry](), _find_style(chart)
    colour = style.colour(chart.dark)
    if chart.estimates is not None:
        budget_text = "the budget" if chart.share is None else format_budget(chart.share)
        drawing = "".join(
            f'<path d="M{1 + 10 * number} 13h10" stroke="{colour}" stroke-width="{widen(chance):g}" '
            f'stroke-opacity="{fade(chance, chart.dark):.3g}"/>'
            for number, chance in enumerate(CHANCES)
        )
        description = "width and opacity: chance to keep the budget"
        marks.append(LegendEntry(drawing=drawing, words=f"likelier to keep {budget_text}", description=description))
    decision = chart.decision
    if decision is not None and chart.relative and (decision.sure or decision.bet):
        marks.append(_draw_choice(colour, GREY[chart.dark]))
    if has_envelope_line(chart):
        drawing = _draw_line(STEP_PLACES, chart.ink, 1, ENVELOPE_OPACITY)
        marks.append(LegendEntry(drawing=drawing, words="best of all", description="grey step: best of all"))
    if any(point.point.label in chart.current for point in chart.frontier.points):
        drawing = f'<circle cx="16" cy="13" r="8" fill="none" stroke="{chart.ink}" stroke-width="1.5"/>'
        description = f"{'white' if chart.dark else 'black'} ring: set in {CURRENT_NAME}"
        entry = {"words": f"set in {CURRENT_NAME}", "description": description}
        marks.append(LegendEntry(drawing=drawing, is_narrow=True, **entry))
    if chart.floor is not None:
        drawing = (
            f'<path d="M0 8h32v16h-32z" fill="{chart.ink}" fill-opacity="{2 * VEIL_OPACITY}"/>'
            f'<path d="M0 8h32" stroke="{chart.ink}" stroke-dasharray="4 3"/>'
        )
        marks.append(LegendEntry(drawing=drawing, words="below the budget", description="shade: below the budget"))
    return marks


def list_lines_and_points(chart: FrontierChart, *, has_panels: bool) -> list[LegendEntry]:
    """Return what lines and points of a chart on the page stand for, and that points can be clicked."""
    entries, style = list[LegendEntry](), _find_style(chart)
    colour = style.colour(chart.dark)
    if has_panels and chart.decision is not None:
        description = "large symbol: the best setting of a decoder, which its title speaks of"
        entries.append(_draw_sign(style, colour, 17, "best setting", description))
    if has_exact_lines(chart.frontier, chart.exact):
        drawing = _draw_line(EXACT_PLACES, colour, 2)
        entries.append(LegendEntry(drawing=drawing, words="every λ", description="line: every λ"))
    if has_joins(chart):
        drawing = f'<path d="M1 18L16 8L31 14" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="2 3"/>'
        description = "dots: join a decoder's settings, with none between them"
        entries.append(LegendEntry(drawing=drawing, words="joins settings", description=description))
    return [*entries, _draw_sign(style, colour, 11, "click for results", "click a point to see its results")]


def format_legend(entries: Iterable[LegendEntry]) -> str:
    """Return the HTML of a legend that wraps; screen readers are told the full meaning of each mark."""
    items = []
    for entry in entries:
        width = NARROW_WIDTH if entry.is_narrow else WIDTH
        size, view_box = f'width="{width}" height="{HEIGHT}"', f"{(WIDTH - width) / 2:g} 0 {width} {HEIGHT}"
        svg = f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="{view_box}">{entry.drawing}</svg>'
        # Streamlit takes SVG elements out of HTML, but not pictures in an address.
        drawing = f'<img {size} alt="" src="data:image/svg+xml,{quote(svg)}"/>'
        words, description = html.escape(entry.words), html.escape(entry.description)
        texts = f'<span aria-hidden="true">{words}</span><span class="spoken">{description}</span>'
        items.append(f'<span role="listitem" title="{description}">{drawing}{texts}</span>')
    return (
        f'{LEGEND_CSS}<div class="frontier-legend" role="list" aria-label="Legend of the chart">{"".join(items)}</div>'
    )


def _find_style(chart: FrontierChart) -> Style:
    """Return the style of the decoder that the legend draws: that of the recommended setting, or of the last point."""
    decision = chart.decision
    option = None if decision is None else decision.sure or decision.bet
    return method_style(chart.frontier.points[-1].point.method if option is None else find_method(option))


def _draw_choice(colour: str, grey: str) -> LegendEntry:
    """Draw a recommended setting: a ring on its whisker, whose lower end is below the budget."""
    drawing = (
        f'<path d="M16 0v17M11 1h10" stroke="{colour}" stroke-width="2"/>'
        f'<path d="M16 17v9M11 25h10" stroke="{grey}" stroke-width="2"/>'
        f'<circle cx="16" cy="10" r="6" fill="none" stroke="{colour}" stroke-width="3"/>'
    )
    description = "whisker: likely range of what a choice keeps, low end 95% sure, grey below the budget"
    return LegendEntry(drawing=drawing, words="choice, likely range", description=description, is_narrow=True)


def _draw_line(places: str, colour: str, width: float, opacity: float = 1.0) -> str:
    """Draw a line through places, "x,y x,y"."""
    look = f'stroke="{colour}" stroke-width="{width:g}" stroke-opacity="{opacity:g}"'
    return f'<polyline points="{places}" fill="none" {look}/>'


def _draw_sign(style: Style, colour: str, font_size: float, words: str, description: str) -> LegendEntry:
    """Draw a decoder's symbol, large for the best setting of a panel."""
    position = f'x="16" y="{13 + 0.36 * font_size:g}" text-anchor="middle"'
    drawing = f'<text {position} font-size="{font_size:g}" fill="{colour}">{style.sign}</text>'
    return LegendEntry(drawing=drawing, words=words, description=description, is_narrow=True)
