"""O11: a reranker among ten documents drawn speeds learning."""

from collections.abc import Sequence
from functools import partial

from engine.evidence.claim import Claim, Measurement
from engine.evidence.deployments import STEPS, cells_of, deployed, named, seeds
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Scope, difference
from engine.simulation.variants import COSINE, JUDGEMENTS

RERANKERS = {"one that never errs": JUDGEMENTS, "the start's cosine": COSINE}


def measure(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Points of nDCG, query by query, that one pass with a reranker gains beyond one without, mean over seeds."""
    cells: dict[str, list[float]] = {}
    for judged in sets:
        one = deployed(judged)
        plain = one.gains([one.learned(at) for at in seeds(seed)])
        for label, reranker in RERANKERS.items():
            gains = one.gains([one.learned(at, reranker=reranker) for at in seeds(seed)])
            cells |= named(one, {f"{label}, {name}": gains[name] - plain[name] for name in cells_of(plain, "ndcg")})
    return cells


CLAIM = Claim(
    id="O11",
    paper="orag",
    place="§4.2, Fig. 4",
    sentence="A reranker that picks among ten documents drawn makes learning faster.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=partial(difference, margin=1.0),
    sets=STEPS,
    differs="No language model: a reranker that never errs, and the start's own cosines. MiniLM, Frontier's own rule "
    "and its unbiased weights, nDCG@10 after one pass.",
    cost=15,
)
