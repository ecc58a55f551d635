"""C14: θ means the same at every k."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.frontiers import SETS, measure
from engine.evidence.rules import Ruling, Scope, difference

MARGIN = 5.0


def judge(measured: Measurement) -> Ruling:
    """How much more the others' ILAD at one θ differs over k, in percent of what Frank–Wolfe's does."""
    cells = {f"{name}, to {other}": v for name, of in measured["spreads"].items() for other, v in of.items()}
    return difference(cells, margin=MARGIN)


CLAIM = Claim(
    id="C14",
    paper="ccbqp",
    place="§1; §2, after eq. 2",
    sentence="Frank–Wolfe's θ means the same at every k, more so than the weights of MMR and DPP.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=SETS,
    differs="The paper says so of its own θ and doubts DPP's, without a number. Measured: how much ILAD at one θ "
    "differs over k 10, 50 and 100. MiniLM as it is shipped; at most 300 queries of a set.",
    cost=330,
)
