"""What the papers prove, as numbers that can be checked on a corpus."""

from engine.theory.bounds import (
    boolean_dimension,
    boolean_margin,
    pair_error_bound,
    rate,
    recall_dimension,
    recall_error_bound,
    simple_dimension,
    sufficient_dimension,
)
from engine.theory.by_length import margin, margins
from engine.theory.dimensions import recall_dimensions
from engine.theory.elastic import UNIT, Example, Outlook, Witness, counterexample, outlook, witness
from engine.theory.projections import kept_from, pair_errors
from engine.theory.relevant import relevant_margins
from engine.theory.segmented import segment_margins, segments

__all__ = [
    "UNIT",
    "Example",
    "Outlook",
    "Witness",
    "boolean_dimension",
    "boolean_margin",
    "counterexample",
    "kept_from",
    "margin",
    "margins",
    "outlook",
    "pair_error_bound",
    "pair_errors",
    "rate",
    "recall_dimension",
    "recall_dimensions",
    "recall_error_bound",
    "relevant_margins",
    "segment_margins",
    "segments",
    "simple_dimension",
    "sufficient_dimension",
    "witness",
]
