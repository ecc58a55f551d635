"""What each chart and table shows, as plain columns; no chart library, and no method named."""

from engine.views.decision import Dual, Why, places, reasons, why
from engine.views.methods import method_columns, method_table
from engine.views.redundancy import Redundancy, redundancy, similarities
from engine.views.relevance import Relevance, relevance
from engine.views.sets import (
    DROPPED,
    NEW,
    NOWHERE,
    SAME,
    Card,
    Merged,
    Place,
    Row,
    WeightLine,
    card,
    diff,
    merged,
    missed,
    trust,
    weight_lines,
)

__all__ = [
    "DROPPED",
    "NEW",
    "NOWHERE",
    "SAME",
    "Card",
    "Dual",
    "Merged",
    "Place",
    "Redundancy",
    "Relevance",
    "Row",
    "WeightLine",
    "Why",
    "card",
    "diff",
    "merged",
    "method_columns",
    "method_table",
    "missed",
    "places",
    "reasons",
    "redundancy",
    "relevance",
    "similarities",
    "trust",
    "weight_lines",
    "why",
]
