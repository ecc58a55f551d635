"""How methods look: colour and symbol follow the registry's order, from one list."""

from __future__ import annotations

from dataclasses import dataclass

from engine.stages import methods


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
