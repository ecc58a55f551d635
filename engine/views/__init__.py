"""What each chart and table shows, as plain columns; no chart library, and no method named."""

from engine.views.decision import Relevance, Why, places, reasons, relevance, similarities, why
from engine.views.methods import method_columns, method_table
from engine.views.redundancy import Redundancy, redundancy
from engine.views.segments import segments_said
from engine.views.sets import (
    DROPPED,
    BeforeAfter,
    Card,
    Merged,
    Row,
    WeightLine,
    before_after,
    card,
    diff,
    merged,
    missed,
    trust,
    weight_lines,
)

__all__ = [
    "DROPPED",
    "BeforeAfter",
    "Card",
    "Merged",
    "Redundancy",
    "Relevance",
    "Row",
    "WeightLine",
    "Why",
    "before_after",
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
    "segments_said",
    "similarities",
    "trust",
    "weight_lines",
    "why",
]
