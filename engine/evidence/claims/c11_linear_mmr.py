"""C11: MMR's time grows with k, DPP's faster."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.latencies import PLAIN_DPP, PLAIN_MMR, SETS, measure, slopes
from engine.evidence.rules import Ruling, Scope, bounded, together

LINEAR = 0.85, 1.15


def judge(measured: Measurement) -> Ruling:
    """Of both as their papers print them: the engine's own look only where a pick may be."""
    low, high = LINEAR
    linear = bounded(slopes(measured, PLAIN_MMR), low=low, high=high)
    return together([linear, bounded(slopes(measured, PLAIN_DPP), low=1.0)])


CLAIM = Claim(
    id="C11",
    paper="ccbqp",
    place="§1, §4.2, Figure 1 (right)",
    sentence="MMR's time grows linearly in k, and DPP's slightly faster than linearly.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=SETS,
    differs="Both as their papers print them, not the engine's. One thread of a CPU, 384 dimensions, 11,112 documents "
    "and 30,000 drawn ones; the paper has a GPU and 1,024 dimensions.",
    cost=150,
)
