"""C4: in practice the algorithm ends at a set, by itself."""

from collections.abc import Sequence

from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Ruling, Scope, share, thresholds
from engine.theory.relaxation import ends

QUERIES = 40


def measure(sets: Sequence[JudgedSet], _: int) -> Measurement:
    """Set → runs over θ and k that were rounded or stopped at the cap of steps, all runs, and the most steps of one."""
    counts = {}
    for judged in sets:
        rows = list(ends(judged.space, judged.queries("test", QUERIES)))
        short = sum(row.fractional + row.capped for row in rows)
        counts[judged.name] = [short, sum(row.runs for row in rows), max(row.most for row in rows)]
    return counts


def judge(measured: Measurement) -> Ruling:
    effects = [share(f"{name}, rounded or capped", short, runs) for name, (short, runs, _) in measured.items()]
    return thresholds(effects, holds=0.01, refuted=0.1)


CLAIM = Claim(
    id="C4",
    paper="ccbqp",
    place="§2, after Theorem 2.4; §3, after Theorem 3.1",
    sentence="Frank–Wolfe almost never stalls at a saddle: it ends at a set, and nothing needs rounding.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=("perspectrum", "multihop-rag-summ500", "toolbank-numpy"),
    differs="MiniLM as it is shipped; 40 queries of a set, θ from 0 to 1, k 5, 10 and 50. Counted are runs that had to "
    "be rounded or were stopped by the limit on steps.",
    cost=60,
)
