"""What each chart and table shows, as plain columns; no chart library, and no method named."""

from engine.views.decision import Dual, Why, places, reasons, why
from engine.views.methods import method_columns, method_table
from engine.views.redundancy import Redundancy, redundancy, similarities
from engine.views.relevance import Relevance, relevance
from engine.views.segments import segments_said
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
from engine.views.theory import (
    Bounded,
    Needed,
    Proof,
    Turned,
    against_bound,
    needed,
    proof,
    turned,
)

__all__ = [
    "DROPPED",
    "NEW",
    "NOWHERE",
    "SAME",
    "Bounded",
    "Card",
    "Dual",
    "Merged",
    "Needed",
    "Place",
    "Proof",
    "Redundancy",
    "Relevance",
    "Row",
    "Turned",
    "WeightLine",
    "Why",
    "against_bound",
    "card",
    "diff",
    "merged",
    "method_columns",
    "method_table",
    "missed",
    "needed",
    "places",
    "proof",
    "reasons",
    "redundancy",
    "relevance",
    "segments_said",
    "similarities",
    "trust",
    "turned",
    "weight_lines",
    "why",
]
