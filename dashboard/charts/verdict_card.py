"""A verdict card as SVG, 1200 × 630: always light, as it is pasted into other people's pages."""

import math
from operator import attrgetter
from textwrap import wrap
from unicodedata import east_asian_width
from xml.etree.ElementTree import Element, SubElement, tostring

from dashboard.charts.palette import method_style
from engine.progress import counted, shorten
from engine.values import replace_surrogates
from engine.views.verdict_card import VerdictCard
from engine.wording import decimal

CARD_WIDTH, CARD_HEIGHT, CARD_MARGIN = 1200, 630, 48
INK, QUIET, FAINT, GROUND, PANEL = "#1F1D1A", "#5F5C57", "#E2E0DC", "#FFFFFF", "#F5F4F1"
SANS_FONTS = "system-ui, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
MONO_FONTS = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
LEFT, RIGHT, TOP, BOTTOM = 112, 590, 210, 520
"""Edges of the frontier's axes."""
PANEL_LEFT, PANEL_RIGHT = 640, CARD_WIDTH - CARD_MARGIN
SENTENCE_COLUMNS, CODE_COLUMNS = 55, 55
"""Letters in a line of the widest common typeface, as the browser chooses the typeface."""
CODE_LINE_PX, MAX_CODE_LINES = 21, 11
LABEL_TURN_PX = 140
"""Right of the axes' middle by more pixels, a curve's label is left of its end."""
CARD_LABEL_GAP = 16
"""Smallest distance of two labels' middles in pixels."""
N_CARD_TICKS = 4


def build_verdict_svg(verdict_card: VerdictCard) -> str:
    """Build the picture of a verdict, the recommended setting, as SVG: sentence, chart, facts and code."""
    size = {"width": str(CARD_WIDTH), "height": str(CARD_HEIGHT), "viewBox": f"0 0 {CARD_WIDTH} {CARD_HEIGHT}"}
    svg_root = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **size, "font-family": SANS_FONTS, "role": "img"})
    # The title is the picture's text for screen readers.
    SubElement(svg_root, "title").text = _clean(verdict_card.sentence)
    SubElement(svg_root, "rect", {"width": str(CARD_WIDTH), "height": str(CARD_HEIGHT), "fill": GROUND})
    for number, text_line in enumerate(_wrap_text(verdict_card.sentence, SENTENCE_COLUMNS, 3)):
        _add_text(svg_root, CARD_MARGIN, 76 + 42 * number, text_line, 32, weight="700")
    _add_frontier(svg_root, verdict_card)
    _add_facts(svg_root, verdict_card)
    _add_text(svg_root, CARD_MARGIN, CARD_HEIGHT - 32, "Frontier", 18, weight="700")
    _add_text(svg_root, CARD_MARGIN + 88, CARD_HEIGHT - 32, "what diversity costs in relevance, measured", 16, QUIET)
    return tostring(svg_root, encoding="unicode")


def _add_facts(svg: Element, card: VerdictCard) -> None:
    """Add a panel with the facts behind the sentence, such as the number of queries, and Python code."""
    code_lines = []
    for code_line in card.code:
        code_lines += wrap(_clean(code_line), CODE_COLUMNS, subsequent_indent="    ", break_on_hyphens=False) or [""]
    facts = [
        " · ".join(filter(None, [counted(card.queries, "query", "queries"), card.interval])),
        f"{shorten(_clean(card.corpus), 34)} · embeddings {_clean(card.fingerprint)}",
    ]
    for number, fact in enumerate(facts):
        _add_text(svg, PANEL_LEFT, TOP + 8 + 26 * number, shorten(_clean(fact), 66), 17, QUIET)
    code_lines = code_lines[:MAX_CODE_LINES]
    if code_lines:
        panel_top, height = TOP + 58, 28 + CODE_LINE_PX * len(code_lines)
        size = {"width": str(PANEL_RIGHT - PANEL_LEFT), "height": str(height), "rx": "8", "fill": PANEL}
        SubElement(svg, "rect", {"x": str(PANEL_LEFT), "y": str(panel_top)} | size)
        for number, code_line in enumerate(code_lines):
            _add_text(svg, PANEL_LEFT + 16, panel_top + 28 + CODE_LINE_PX * number, code_line, 14.5, family=MONO_FONTS)


def _add_frontier(svg: Element, card: VerdictCard) -> None:
    """Add a small trade-off chart: axes, a line for each method with its name, and the chosen point."""
    points = [card.chosen] if card.chosen else []
    for curve in card.curves:
        points += zip(curve.x, curve.y, strict=True)
    if not points:
        return
    # Points are (x, y); zip returns all x and then all y.
    (x_range, x_ticks), (y_range, y_ticks) = map(_compute_scale, zip(*points, strict=True))

    def to_card(x: float, y: float) -> tuple[float, float]:
        """Return the position on the card, in pixels, of values of the two axes."""
        x_share, y_share = (x - x_range[0]) / (x_range[1] - x_range[0]), (y - y_range[0]) / (y_range[1] - y_range[0])
        return round(LEFT + x_share * (RIGHT - LEFT), 1), round(BOTTOM - y_share * (BOTTOM - TOP), 1)

    for tick_value in y_ticks:
        y = to_card(x_range[0], tick_value)[1]
        _add_line(svg, [(LEFT, y), (RIGHT, y)], FAINT, 1)
        _add_text(svg, LEFT - 10, y + 5, _format_tick(tick_value, y_ticks), 14, QUIET, anchor="end")
    for tick_value in x_ticks:
        x = to_card(tick_value, y_range[0])[0]
        _add_text(svg, x, BOTTOM + 22, _format_tick(tick_value, x_ticks), 14, QUIET, anchor="middle")
    _add_line(svg, [(LEFT, BOTTOM), (RIGHT, BOTTOM)], QUIET, 1)
    _add_text(svg, (LEFT + RIGHT) / 2, BOTTOM + 46, f"{card.titles[0]} →", 15, QUIET, anchor="middle")
    rotated = Element("g", {"transform": f"translate({CARD_MARGIN + 6} {(TOP + BOTTOM) / 2}) rotate(-90)"})
    svg.append(rotated)
    _add_text(rotated, 0, 0, f"{card.titles[1]} →", 15, QUIET, anchor="middle")
    curve_ends = []
    for curve in filter(attrgetter("x"), card.curves):
        text_colour, places = method_style(curve.method).light, list(map(to_card, curve.x, curve.y))
        _add_line(svg, places, text_colour, 2.5)
        for x, y in places:
            SubElement(svg, "circle", {"cx": f"{x}", "cy": f"{y}", "r": "3.5", "fill": text_colour})
        curve_ends.append((max(places), curve))
    chosen_place, heights = to_card(*card.chosen) if card.chosen else None, []
    if chosen_place:
        x, y = chosen_place
        SubElement(svg, "circle", {"cx": f"{x}", "cy": f"{y}", "r": "10", "fill": "none", "stroke": INK} | _stroke(2.5))
        heights = [_add_label(svg, chosen_place, card.chosen_label, INK, [], 16, "700")]
    # Methods are named at their curves' rightmost points, unless the chosen point's label is there.
    for curve_end, curve in sorted(curve_ends, key=lambda entry: entry[0][1]):
        if curve_end != chosen_place or not card.chosen_label:
            text_colour = method_style(curve.method).light
            heights.append(_add_label(svg, curve_end, curve.label, text_colour, heights, 14, "600"))


def _add_label(
    svg: Element, position: tuple[float, float], text: str, colour: str, heights: list[float], size: float, weight: str
) -> float:
    """Add a text beside a point, moved down until no earlier label is near; return its height in pixels.

    heights: of the earlier labels
    """
    x, y = position
    # Moving down only, the search ends below the last label.
    while any(abs(y - height) < CARD_LABEL_GAP for height in heights):
        y += 2
    is_left = x > (LEFT + RIGHT) / 2 + LABEL_TURN_PX
    anchor, shift = ("end", -15) if is_left else ("start", 15)
    _add_text(svg, x + shift, y + 5, shorten(text, 28), size, colour, anchor=anchor, weight=weight, halo=True)
    return y


def _add_text(
    parent: Element,
    x: float,
    y: float,
    label_text: str,
    font_size: float,
    colour: str = INK,
    *,
    anchor: str = "start",
    weight: str = "400",
    family: str = "",
    halo: bool = False,
) -> None:
    """Add a line of text at a position; halo: outline it in the colour of the ground."""
    attributes = {"x": f"{x:g}", "y": f"{y:g}", "font-size": f"{font_size:g}", "fill": colour, "font-weight": weight}
    attributes |= {"text-anchor": anchor, "xml:space": "preserve"} | ({"font-family": family} if family else {})
    attributes |= {"paint-order": "stroke", "stroke": GROUND, "stroke-linejoin": "round"} | _stroke(4) if halo else {}
    SubElement(parent, "text", attributes).text = _clean(label_text)


def _add_line(svg_root: Element, places: list[tuple[float, float]], line_colour: str, line_width: float) -> None:
    """Add a line through positions in pixels."""
    points = " ".join(f"{x:g},{y:g}" for x, y in places)
    SubElement(svg_root, "polyline", {"points": points, "fill": "none", "stroke": line_colour} | _stroke(line_width))


def _stroke(line_width: float) -> dict[str, str]:
    """Return the SVG attribute of a line's width."""
    return {"stroke-width": f"{line_width:g}"}


def _compute_scale(values: tuple[float, ...]) -> tuple[tuple[float, float], list[float]]:
    """Compute the range of an axis, a little wider than its values, and its ticks at 1, 2 or 5 · 10ⁿ."""
    low_end, high_end = min(values), max(values)
    value_span = (high_end - low_end) or abs(high_end) or 1.0
    # Points at the edge of the data must not lie on the axes.
    axis_range = (low_end - 0.06 * value_span, high_end + 0.06 * value_span)
    power = 10.0 ** math.floor(math.log10(value_span / N_CARD_TICKS))
    # The smallest step of the form 1, 2 or 5 · 10ⁿ that needs at most N_CARD_TICKS ticks.
    tick_step = next(power * multiple for multiple in (1, 2, 5, 10) if power * multiple * N_CARD_TICKS >= value_span)
    first_tick = math.ceil(axis_range[0] / tick_step)
    return axis_range, [tick_step * tick for tick in range(first_tick, math.floor(axis_range[1] / tick_step) + 1)]


def _format_tick(value: float, ticks: list[float]) -> str:
    """Format a tick with as many decimals as the distance of the ticks needs."""
    tick_step = ticks[1] - ticks[0] if len(ticks) > 1 else abs(value) or 1.0
    # Adding 0.0 turns −0.0 into 0.0, which has no sign.
    return decimal(round(value, 12) + 0.0, max(0, -math.floor(math.log10(tick_step) + 1e-9)))


def _wrap_text(label_text: str, columns: int, max_lines: int) -> list[str]:
    """Wrap text into at most `max_lines`, with an ellipsis if cut; wide letters take two columns."""
    label_text = _clean(label_text)
    is_wide = not {"W", "F"}.isdisjoint(map(east_asian_width, label_text))
    return wrap(label_text, columns // 2 if is_wide else columns, max_lines=max_lines, placeholder="…") or [""]


def _clean(label_text: str) -> str:
    """Return a text in one line, with only characters that XML can contain."""
    return "".join(letter if letter.isprintable() else " " for letter in replace_surrogates(label_text))
