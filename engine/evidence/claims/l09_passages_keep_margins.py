"""L9: passages, which are not orthogonal, have larger margins than documents nevertheless."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.rules import Ruling, Scope, difference
from engine.evidence.segment_margins import segment_margins

HALF = 0.5


def judge(measured: Measurement) -> Ruling:
    cells = {
        f"{name}, share less {HALF}": [share - HALF for share in shares] for name, shares in measured["kept"].items()
    }
    return difference(cells, margin=0.05)


CLAIM = Claim(
    id="L9",
    paper="sparse-dense",
    place="§3",
    sentence="What is proved of orthogonal segments is true of most real passages: the best ones' margin is at least "
    "the documents'.",
    scope=Scope.STAND_IN,
    measure=segment_margins,
    rule=judge,
    sets=("cranfield", "multihop-rag-summ500"),
    differs="Not claimed: the paper calls the theorem's assumptions strong and tests encoders instead. Word counts "
    "times idf; pairs of a query's best document with the ten next; documents of several passages.",
    cost=20,
)
