"""C6: Frank–Wolfe's frontier lies above those of MMR and DPP."""

import numpy as np

from engine.evidence.claim import Claim, Measurement
from engine.evidence.frontiers import DPP, FW, MMR, SETS, SIZES, measure, pairs_of
from engine.evidence.rules import EffectCurve, Ruling, Scope, above, curve_of, illustrated, together


def judge(measured: Measurement) -> Ruling:
    ruling = together([above(pairs_of(measured, FW, other)) for other in (MMR, DPP)])
    return illustrated(ruling, {f"{cell}, to {MMR}: area": drawn(measured, cell) for cell in measured["means"]})


def drawn(measured: Measurement, cell: str) -> list[EffectCurve]:
    """Recall over ILAD at every θ, at the smallest k."""
    name, _, k = cell.rpartition(", k ")
    if k != str(SIZES[0]):
        return []
    means = {method: measured["means"][cell][method] for method in (FW, MMR, DPP)}
    axes = f"ILAD@{k}", f"Recall@{k}, {name}"
    return [curve_of(method, axes, *np.array(rows)[:, :2].T) for method, rows in means.items()]


CLAIM = Claim(
    id="C6",
    paper="ccbqp",
    place="§4.2, Figure 1 (left)",
    sentence="Frank–Wolfe's frontier of Recall over diversity lies above MMR's and above DPP's, at every k.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=SETS,
    differs="MiniLM as it is shipped, not BGE-M3; 436 to 11,112 documents, of which k = 100 is a large part; at most "
    "300 queries of a set; k 10, 50 and 100.",
    cost=330,
)
