"""N20: the more documents a query needs, the more NNN gains over dense retrieval; with one or two they are level."""

import numpy as np

from engine.evidence.claim import Claim, Measurement
from engine.evidence.gains_by_query import SETS, measure, trend
from engine.evidence.rules import Ruling, Scope, difference, equivalence, together

FEW = 2


def judge(measured: Measurement) -> Ruling:
    slopes: dict[str, list[float]] = {}
    few: dict[str, list[float]] = {}
    for name, of_set in measured.items():
        relevant, gains = np.array(of_set["relevant"], dtype=float), np.array(of_set["gains"])
        slopes[f"{name}: points a document"] = trend(relevant, gains).tolist()
        few[f"{name}: points with at most {FEW} documents"] = gains[relevant <= FEW].tolist()
    return together([difference(slopes, margin=0.5), equivalence(few, margin=1.0)])


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
