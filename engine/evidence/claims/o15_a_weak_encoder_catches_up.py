"""O15: a weak encoder with feedback reaches a strong one without."""

from collections.abc import Sequence

import numpy as np

from engine.evidence.claim import Claim, Measurement
from engine.evidence.deployments import SETS, cells_of, deployed, named, seeds
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Ruling, Scope, bounded, difference

DIMENSIONS = 64


def measure(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Points, query by query, of the first dimensions after one pass less those of all, mean over seeds."""
    cells: dict[str, list[float]] = {}
    for judged in sets:
        whole = deployed(judged)
        weak = whole.narrowed(DIMENSIONS)
        strong = whole.values(whole.held_out)
        runs = [weak.reached(weak.learned(at), weak.held_out) for at in seeds(seed)]
        cells |= named(whole, {m: np.mean([run[m] for run in runs], axis=0) - strong[m] for m in strong})
    return cells


def judge(measured: Measurement) -> Ruling:
    return bounded(difference(cells_of(measured, "ndcg"), margin=1.0).effects, low=-1.0)


CLAIM = Claim(
    id="O15",
    paper="orag",
    place="Fig. 1b, §4.1",
    sentence="A weaker encoder with feedback ranks as well as a stronger one without, or better.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=SETS,
    effect="0.5960 against 0.5347 Recall@10 (ToolRet-Code)",
    differs="Fig. 1b compares both with feedback. The first 64 of MiniLM's 384 dimensions for the weaker, all for the "
    "stronger; Frontier's own rule, one pass; to within a point of nDCG@10.",
    cost=15,
)
