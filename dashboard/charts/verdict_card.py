"""A verdict card as SVG, 1200 × 630: light always, as it is pasted into other people's pages."""

import math
from textwrap import wrap
from unicodedata import east_asian_width
from xml.etree.ElementTree import Element, SubElement, tostring

from dashboard.charts.palette import style_of
from engine.progress import counted, shorten
from engine.values import replace_surrogates
from engine.views.verdict_card import CardCurve, VerdictCard
from engine.wording import decimal

WIDTH, HEIGHT, MARGIN = 1200, 630, 48
INK, QUIET, FAINT, GROUND, PANEL = "#1F1D1A", "#5F5C57", "#E2E0DC", "#FFFFFF", "#F5F4F1"
SANS = "system-ui, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
MONO = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
LEFT, RIGHT, TOP, BOTTOM = 112, 590, 210, 520
"""Of the frontier's axes."""
PANEL_LEFT, PANEL_RIGHT = 640, WIDTH - MARGIN
SENTENCE_COLUMNS, CODE_COLUMNS = 55, 55
"""Letters in a line, of the widest common typefaces: the browser that draws the card chooses one."""
LINE, MOST_CODE_LINES = 21, 11
LABELS = 140
"""Pixels right of the axes' middle beyond which a curve's label stands left of its end."""
GAP = 16
"""Pixels between two labels' middles, at least."""
TICKS = 4


def verdict_svg(card: VerdictCard) -> str:
    """The card as one SVG document, whatever its texts hold."""
    size = {"width": str(WIDTH), "height": str(HEIGHT), "viewBox": f"0 0 {WIDTH} {HEIGHT}"}
    svg = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **size, "font-family": SANS, "role": "img"})
    SubElement(svg, "title").text = _clean(card.sentence)
    SubElement(svg, "rect", {"width": str(WIDTH), "height": str(HEIGHT), "fill": GROUND})
    for number, line in enumerate(_wrapped(card.sentence, SENTENCE_COLUMNS, 3)):
        _text(svg, MARGIN, 76 + 42 * number, line, 32, weight="700")
    _frontier(svg, card)
    _facts(svg, card)
    _text(svg, MARGIN, HEIGHT - 32, "Frontier", 18, weight="700")
    _text(svg, MARGIN + 88, HEIGHT - 32, "what diversity costs in relevance, measured", 16, QUIET)
    return tostring(svg, encoding="unicode")


def _facts(svg: Element, card: VerdictCard) -> None:
    """What the sentence rests on, and the code, on a panel."""
    lines = (wrap(_clean(line), CODE_COLUMNS, subsequent_indent="    ", break_on_hyphens=False) for line in card.code)
    code = [line for wrapped in lines for line in wrapped or [""]][:MOST_CODE_LINES]
    facts = [
        " · ".join(filter(None, [counted(card.queries, "query", "queries"), card.interval])),
        f"{shorten(_clean(card.corpus), 34)} · embeddings {_clean(card.fingerprint)}",
    ]
    for number, fact in enumerate(facts):
        _text(svg, PANEL_LEFT, TOP + 8 + 26 * number, shorten(_clean(fact), 66), 17, QUIET)
    if code:
        top, height = TOP + 58, 28 + LINE * len(code)
        box = {"x": PANEL_LEFT, "y": top, "width": PANEL_RIGHT - PANEL_LEFT, "height": height, "rx": 8, "fill": PANEL}
        SubElement(svg, "rect", {name: str(value) for name, value in box.items()})
        for number, line in enumerate(code):
            _text(svg, PANEL_LEFT + 16, top + 28 + LINE * number, line, 14.5, family=MONO)


def _frontier(svg: Element, card: VerdictCard) -> None:
    """Axes, a line for each method with its name, and the chosen point."""
    chosen = [card.chosen] if card.chosen else []
    points = [*chosen, *(point for curve in card.curves for point in zip(curve.x, curve.y, strict=True))]
    if not points:
        return
    (xs, x_ticks), (ys, y_ticks) = (_scale(values) for values in zip(*points, strict=True))

    def place(x: float, y: float) -> tuple[float, float]:
        across, up = (x - xs[0]) / (xs[1] - xs[0]), (y - ys[0]) / (ys[1] - ys[0])
        return round(LEFT + across * (RIGHT - LEFT), 1), round(BOTTOM - up * (BOTTOM - TOP), 1)

    for tick in y_ticks:
        y = place(xs[0], tick)[1]
        _line(svg, [(LEFT, y), (RIGHT, y)], FAINT, 1)
        _text(svg, LEFT - 10, y + 5, _tick(tick, y_ticks), 14, QUIET, anchor="end")
    for tick in x_ticks:
        _text(svg, place(tick, ys[0])[0], BOTTOM + 22, _tick(tick, x_ticks), 14, QUIET, anchor="middle")
    _line(svg, [(LEFT, BOTTOM), (RIGHT, BOTTOM)], QUIET, 1)
    _text(svg, (LEFT + RIGHT) / 2, BOTTOM + 46, f"{card.titles[0]} →", 15, QUIET, anchor="middle")
    turned = Element("g", {"transform": f"translate({MARGIN + 6} {(TOP + BOTTOM) / 2}) rotate(-90)"})
    svg.append(turned)
    _text(turned, 0, 0, f"{card.titles[1]} →", 15, QUIET, anchor="middle")
    drawn = [(curve, [place(x, y) for x, y in zip(curve.x, curve.y, strict=True)]) for curve in card.curves if curve.x]
    for curve, places in drawn:
        colour = style_of(curve.method).light
        _line(svg, places, colour, 2.5)
        for x, y in places:
            SubElement(svg, "circle", {"cx": f"{x}", "cy": f"{y}", "r": "3.5", "fill": colour})
    named, taken = place(*card.chosen) if card.chosen else None, []
    if named:
        x, y = named
        SubElement(svg, "circle", {"cx": f"{x}", "cy": f"{y}", "r": "10", "fill": "none", "stroke": INK} | _stroke(2.5))
        taken = [_label(svg, named, card.chosen_label, INK, [], 16, "700")]
    _names(svg, drawn, named if card.chosen_label else None, taken)


def _names(
    svg: Element,
    drawn: list[tuple[CardCurve, list[tuple[float, float]]]],
    named: tuple[float, float] | None,
    taken: list[float],
) -> None:
    """The methods' names beside their curves' rightmost points, none over another, where none is `named`."""
    ends = [(max(places), curve) for curve, places in drawn if max(places) != named]
    for end, curve in sorted(ends, key=lambda entry: entry[0][1]):
        taken.append(_label(svg, end, curve.label, style_of(curve.method).light, taken, 14, "600"))


def _label(
    svg: Element, at: tuple[float, float], text: str, colour: str, taken: list[float], size: float, weight: str
) -> float:
    """Write a label beside a point, moved down until it is free of those at `taken`; returns its height on the page."""
    x, y = at
    while any(abs(y - other) < GAP for other in taken):
        y += 2
    left = x > (LEFT + RIGHT) / 2 + LABELS
    anchor, shift = ("end", -15) if left else ("start", 15)
    _text(svg, x + shift, y + 5, shorten(text, 28), size, colour, anchor=anchor, weight=weight, halo=True)
    return y


def _text(
    parent: Element,
    x: float,
    y: float,
    text: str,
    size: float,
    colour: str = INK,
    *,
    anchor: str = "start",
    weight: str = "400",
    family: str = "",
    halo: bool = False,
) -> None:
    look = {"x": f"{x:g}", "y": f"{y:g}", "font-size": f"{size:g}", "fill": colour, "font-weight": weight}
    look |= {"text-anchor": anchor, "xml:space": "preserve"} | ({"font-family": family} if family else {})
    look |= {"paint-order": "stroke", "stroke": GROUND, "stroke-linejoin": "round"} | _stroke(4) if halo else {}
    SubElement(parent, "text", look).text = _clean(text)


def _line(svg: Element, places: list[tuple[float, float]], colour: str, width: float) -> None:
    points = " ".join(f"{x:g},{y:g}" for x, y in places)
    SubElement(svg, "polyline", {"points": points, "fill": "none", "stroke": colour} | _stroke(width))


def _stroke(width: float) -> dict[str, str]:
    return {"stroke-width": f"{width:g}"}


def _scale(values: tuple[float, ...]) -> tuple[tuple[float, float], list[float]]:
    """The range of an axis, a little wider than its values, and its ticks: at 1, 2 or 5 times a power of ten."""
    low, high = min(values), max(values)
    span = (high - low) or abs(high) or 1.0
    ends = (low - 0.06 * span, high + 0.06 * span)
    power = 10.0 ** math.floor(math.log10(span / TICKS))
    step = next(power * times for times in (1, 2, 5, 10) if power * times * TICKS >= span)
    first = math.ceil(ends[0] / step)
    return ends, [step * tick for tick in range(first, math.floor(ends[1] / step) + 1)]


def _tick(value: float, ticks: list[float]) -> str:
    """A tick with as many decimals as its axis needs."""
    step = ticks[1] - ticks[0] if len(ticks) > 1 else abs(value) or 1.0
    return decimal(round(value, 12) + 0.0, max(0, -math.floor(math.log10(step) + 1e-9)))


def _wrapped(text: str, columns: int, most: int) -> list[str]:
    """At most so many lines, the last with an ellipsis where there is more; wide letters take two columns."""
    text = _clean(text)
    wide = any(east_asian_width(letter) in "WF" for letter in text)
    return wrap(text, columns // 2 if wide else columns, max_lines=most, placeholder="…") or [""]


def _clean(text: str) -> str:
    """Text that XML can hold, in one line."""
    return "".join(letter if letter.isprintable() else " " for letter in replace_surrogates(text))
