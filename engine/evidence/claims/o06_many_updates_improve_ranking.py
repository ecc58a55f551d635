"""O6: the printed rule, with 3,000 updates and its rate and batch searched, improves the ranking."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.deployments import SETS, cells_of
from engine.evidence.paper_rate import UPDATES, paper_gains
from engine.evidence.rules import Ruling, Scope, difference


def judge(measured: Measurement) -> Ruling:
    return difference(cells_of(measured, f"{UPDATES} updates"), margin=1.0)


CLAIM = Claim(
    id="O6",
    paper="orag",
    place="§4.1, Table 1",
    sentence="Algorithm 1 with about 3,000 updates improves nDCG@10 and Recall@10, on new queries and on those it "
    "learned from.",
    scope=Scope.STAND_IN,
    measure=paper_gains,
    rule=judge,
    sets=SETS,
    effect="+0.9 to +8.3 points nDCG@10, +1.3 to +9.6 points Recall@10",
    differs="MiniLM, 384 dimensions and not 1,536; other data but for UltraTool, of which the published test. Four of "
    "the 60 settings searched. The paper does not say whether it reports on queries that were learned from.",
    cost=500,
)
