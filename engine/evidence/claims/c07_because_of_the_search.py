"""C7: the frontier is better for the search, not for the objective that greed could have too."""

from dataclasses import replace

from engine.evidence.claim import Claim, Measurement
from engine.evidence.frontiers import FW, GREEDY, POLISHED, SETS, measure, pairs_of
from engine.evidence.rules import Ruling, Scope, above


def judge(measured: Measurement) -> Ruling:
    """Frank–Wolfe against greed for the same objective; told beside it, what sets that have more of it are worth."""
    ruling, swapped = (above(pairs_of(measured, one, other)) for one, other in ((FW, GREEDY), (POLISHED, FW)))
    return replace(
        ruling, why=f"{ruling.why} With swaps after it: {swapped.why}", effects=ruling.effects + swapped.effects
    )


CLAIM = Claim(
    id="C7",
    paper="ccbqp",
    place="§4.2",
    sentence="Greedy choices sacrifice Recall: Frank–Wolfe's frontier lies above greed's, for the same objective too.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=SETS,
    differs="The paper compares with the greed of MMR and DPP alone; here it is greed for Frank–Wolfe's own objective. "
    "MiniLM as it is shipped; at most 300 queries of a set; k 10, 50 and 100.",
    cost=330,
)
