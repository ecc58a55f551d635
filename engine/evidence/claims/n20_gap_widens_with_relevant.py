"""N20: the more documents a query needs, the more NNN gains over dense retrieval; with one or two they are level."""

from collections.abc import Sequence

import numpy as np

from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.measures import DENSE, ELASTIC_GRID, tuned
from engine.evidence.rules import Ruling, Scope, difference, equivalence, together

FEW = 2


def measure(sets: Sequence[JudgedSet], _: int) -> Measurement:
    """Set → how many documents are relevant to each query, and what NNN gains in points of Comp@5."""
    return {
        judged.name: {
            "relevant": [len(judged.splits["test"].relevant(query)) for query in judged.queries("test").ids],
            "gains": (tuned(judged, ELASTIC_GRID, "comp", 5) - tuned(judged, [DENSE], "comp", 5)).tolist(),
        }
        for judged in sets
    }


def judge(measured: Measurement) -> Ruling:
    slopes, few = {}, {}
    for name, of_set in measured.items():
        relevant, gains = np.array(of_set["relevant"], dtype=float), np.array(of_set["gains"])
        apart = relevant - relevant.mean()
        trend = apart @ gains / (apart @ apart)
        left = gains - gains.mean() - trend * apart
        # What each query adds to the slope of least squares, whose mean it is.
        slopes[f"{name}: points a document"] = trend + len(apart) * apart * left / (apart @ apart)
        few[f"{name}: points with at most {FEW} documents"] = gains[relevant <= FEW]
    return together([difference(slopes, margin=0.5), equivalence(few, margin=1.0)])


CLAIM = Claim(
    id="N20",
    paper="nnn",
    place="Figure 4, §4.2",
    sentence="The more documents are relevant, the more NNN gains over dense retrieval; to two, they are level.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=("toolbank-numpy", "toollens", "multihop-rag-summ500"),
    differs="MiniLM as it is shipped, NNN without training. The paper says so of ToolBank above all.",
    cost=15,
)
