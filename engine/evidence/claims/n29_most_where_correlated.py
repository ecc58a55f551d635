"""N29: NNN gains most over dense retrieval where relevant documents are like others that are not."""

import numpy as np

from engine.evidence.claim import Claim, Measurement
from engine.evidence.gains_by_query import SETS, measure, trend
from engine.evidence.rules import Ruling, Scope, difference

TENTH = 10
"""Of a cosine, in hundredths."""


def judge(measured: Measurement) -> Ruling:
    slopes = {}
    for name, of_set in measured.items():
        pairs = zip(of_set["correlations"], of_set["gains"], strict=True)
        correlations, gains = np.array([pair for pair in pairs if pair[0] is not None], dtype=float).T
        slopes[f"{name}: points a tenth of the cosine"] = trend(correlations / TENTH, gains).tolist()
    return difference(slopes, margin=0.5)


CLAIM = Claim(
    id="N29",
    paper="nnn",
    place="§2.3",
    sentence="The more a relevant document is like one that is not relevant, the more NNN gains over dense retrieval.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=SETS,
    differs="The paper expects it of corpora; here of queries, by the largest cosine of a relevant document to "
    "one that is not. MiniLM as it is shipped, NNN without training; λ chosen on either half for the other; gains "
    "in points of Comp@5.",
    cost=15,
)
