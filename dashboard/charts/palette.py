"""Colours, symbols and dashes of every method, in the registry's order, and of other series."""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from engine.stages import methods

GREY = ("#C8C8C8", "#555555")
"""Colour of background series, on a light and a dark page."""
GROUP_COLOURS = (
    ("#9AABC4", "#61738F"),
    ("#C9B896", "#8C7B57"),
    ("#9DBFA6", "#628A6C"),
    ("#C9A3B0", "#8F6375"),
    ("#B3A6C9", "#766891"),
    ("#94BDBD", "#568585"),
    ("#C9A994", "#8F6B54"),
    ("#B4BD8C", "#7B8554"),
)
"""Colours of groups of documents, paler than every method's, on a light and a dark page."""
SCALE = (("#D5DEDE", "#2B4A4A"), ("#3B4A4A", "#CFE0E0"))
"""Ends of a colour scale of quantities, on a light and a dark page."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""Dashes of the curves of one method, in order."""


@dataclass(frozen=True)
class Style:
    """Colours and symbol by which a series, such as a selector, is recognised on all charts."""

    light: str  # colour on a light page
    dark: str  # colour on a dark page
    symbol: str  # plotly's name of it
    sign: str  # the symbol as a character

    def colour(self, is_dark: bool) -> str:
        return self.dark if is_dark else self.light

    def line(self, is_dark: bool, dash_style: str | None = None) -> dict[str, Any]:
        """Return the plotly values of a line in this style."""
        return {"mode": "lines", "line": {"color": self.colour(is_dark), "width": 2, "dash": dash_style}}

    def curve(self, is_dark: bool, symbol_px: int) -> dict[str, Any]:
        """Return the plotly values of a line with its points in this style."""
        return self.line(is_dark) | {"mode": "lines+markers", "marker": {"symbol": self.symbol, "size": symbol_px}}

    def marker(self, is_dark: bool, symbol_px: int, is_filled: bool | Iterable[bool]) -> dict[str, Any]:
        """Return the plotly values of symbols in this style, with an outline.

        is_filled: True for filled symbols, False for open ones; one value for all, or one for each
        """
        colour, symbols = self.colour(is_dark), {True: self.symbol, False: f"{self.symbol}-open"}
        symbol = symbols[is_filled] if isinstance(is_filled, bool) else [symbols[filled] for filled in is_filled]
        return {"symbol": symbol, "size": symbol_px, "color": colour, "line": {"width": 2, "color": colour}}


PALETTE = (
    Style("#222222", "#E6E6E6", "x", "✕"),
    Style("#0072B2", "#3C8DFF", "circle", "●"),
    Style("#B18F45", "#F4AF0F", "square", "■"),
    Style("#229973", "#2BBCA6", "diamond", "◆"),
    Style("#D55E00", "#F97402", "triangle-up", "▲"),
    Style("#D274A7", "#D949C3", "cross", "✚"),
    Style("#3494F4", "#71C7FB", "star", "★"),
    Style("#882255", "#B76B90", "hexagon", "⬢"),
    Style("#5E449A", "#AE97E4", "pentagon", "⬟"),
    Style("#7A4C2B", "#BF9C78", "star-diamond", "✦"),
)
"""Colours that also people with a colour deficiency can tell apart, on either page; the symbol says the same."""
SERIES = (
    Style("#0F766E", "#5EEAD4", "circle", "●"),
    Style("#64748B", "#94A3B8", "square", "■"),
    Style("#92400E", "#D6A77A", "diamond", "◆"),
    Style("#6B7A1E", "#C5D36B", "triangle-up", "▲"),
    Style("#9F1239", "#FDA4AF", "cross", "✚"),
    Style("#155E75", "#67C1D8", "star", "★"),
)
"""Styles of series that are not decoders, in other colours."""
GROUNDS = ("#FFFFFF", "#0E1117")
"""Colours of Streamlit's page, light and dark, unless the browser replaces them."""
SANS_FONTS = "'Source Sans', 'Source Sans 3', system-ui, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
"""Typefaces of what leaves the app, such as cards, reports and live pages: the app's, else the reader's own."""
INK = PALETTE[0]
"""Style of text, guides, outlines, and the first selector."""


def method_style(method_name: str) -> Style:
    """Return the colour and symbol of a selector, or of another system, by name; the same on all charts."""
    method_names = list(methods())
    if method_name in method_names:
        return PALETTE[method_names.index(method_name) % len(PALETTE)]
    # CRC-32 gives a name the same colour in every process, unlike `hash`.
    return replace(series_style(zlib.crc32(method_name.encode())), symbol="hexagram", sign="✶")


def method_look(method_name: str, title: str) -> dict[str, str]:
    """Return a decoder's name, title, symbol and colours, as the browser's components take them."""
    style = method_style(method_name)
    return {"name": method_name, "title": title, "sign": style.sign, "light": style.light, "dark": style.dark}


def series_style(position: int) -> Style:
    """Return the colour and symbol of a series that is not a method, by its position."""
    return SERIES[position % len(SERIES)]


def translucent(colour: str, opacity: float) -> str:
    """Return a colour of the palette (#RRGGBB) with an opacity."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {opacity:.4g})"


def mix_with_ink(colour: str, ink: str, ink_share: float) -> str:
    """Return a colour of the palette (#RRGGBB) mixed with the text's: letters in pale colours cannot be read."""
    mixed = []
    for i in (1, 3, 5):
        mixed.append(round((1 - ink_share) * int(colour[i : i + 2], 16) + ink_share * int(ink[i : i + 2], 16)))
    return "#{:02X}{:02X}{:02X}".format(*mixed)
