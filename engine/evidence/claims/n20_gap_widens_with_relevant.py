"""N20: the more documents a query needs, the more NNN gains over dense retrieval; with one or two they are level."""

import numpy as np

from engine.evidence.claim import Claim, Measurement
from engine.evidence.gains_by_query import SETS, measure, trend
from engine.evidence.rules import EffectCurve, Ruling, Scope, curve_of, difference, equivalence, illustrated, together

FEW, LEAST = 2, 5
"""Relevant documents that are few, and queries that make a point of the curve."""
AXES = "relevant documents", "points of Comp@5 over dense"


def judge(measured: Measurement) -> Ruling:
    slopes: dict[str, list[float]] = {}
    few: dict[str, list[float]] = {}
    curves: dict[str, list[EffectCurve]] = {}
    for name, of_set in measured.items():
        relevant, gains = np.array(of_set["relevant"], dtype=float), np.array(of_set["gains"])
        slopes[f"{name}: points a document"] = trend(relevant, gains).tolist()
        counts = [count for count in np.unique(relevant) if (relevant == count).sum() >= LEAST]
        means = [float(gains[relevant == count].mean()) for count in counts]
        curves[f"{name}: points a document"] = [curve_of(name, AXES, counts, means)]
        few[f"{name}: points with at most {FEW} documents"] = gains[relevant <= FEW].tolist()
    return illustrated(together([difference(slopes, margin=0.5), equivalence(few, margin=1.0)]), curves)


CLAIM = Claim(
    id="N20",
    paper="nnn",
    place="§4.2, Figure 4",
    sentence="The more documents are relevant to a query, the more NNN gains over dense retrieval; with one or two "
    "they are level.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=SETS,
    differs="MiniLM as it is shipped, NNN without training; of ToolBank NumpyBank alone. λ chosen on either half for "
    "the other. Level: within a point.",
    cost=15,
)
