"""How methods look, colour and symbol, from one list that follows the registry's order; what all charts share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.stages import methods

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

GREY = ("#C8C8C8", "#555555")
"""What is there but not meant, on a light and a dark page."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""The curves of one method, in order."""


@dataclass(frozen=True)
class Style:
    """light, dark: colours on a light and a dark page; symbol: plotly's name; sign: the symbol as a character."""

    light: str
    dark: str
    symbol: str
    sign: str

    def colour(self, dark: bool) -> str:
        return self.dark if dark else self.light


PALETTE = (
    Style("#222222", "#E6E6E6", "x", "✕"),
    Style("#0072B2", "#0072B2", "circle", "●"),
    Style("#E69F00", "#E69F00", "square", "■"),
    Style("#009E73", "#009E73", "diamond", "◆"),
    Style("#D55E00", "#D55E00", "triangle-up", "▲"),
    Style("#CC79A7", "#CC79A7", "cross", "✚"),
    Style("#56B4E9", "#56B4E9", "star", "★"),
    Style("#882255", "#F0E442", "hexagon", "⬢"),
    Style("#6A51A3", "#B39DDB", "pentagon", "⬟"),
)


def style_of(name: str) -> Style:
    """The look of a method; beyond the palette's end it starts again (with open symbols where drawn)."""
    return PALETTE[list(methods()).index(name) % len(PALETTE)]


def faint(colour: str, opacity: float) -> str:
    """A colour of the palette, see-through."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {opacity})"


def escaped(text: str, most: int = 40) -> str:
    """Text as plotly shows it literally: it would make links and formulas of some characters."""
    short = text if len(text) <= most else text[: most - 1] + "…"
    return short.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("$", "&#36;")


LAYOUT = {
    "showlegend": False,
    "margin": {"l": 10, "r": 10, "t": 24, "b": 10},
    "height": 430,
    "dragmode": "pan",
    "hovermode": "closest",
}
"""What all charts have in common."""


def plain(figure: Figure) -> Figure:
    """The figure with what all charts have in common."""
    # Without a distance the title stands where the widest tick label ends.
    return figure.update_layout(LAYOUT).update_yaxes(title_standoff=10, automargin=True)
