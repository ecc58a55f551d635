"""O4: with the rate that theory names, regret is bounded and grows as the root of the number of rounds."""

from collections.abc import Sequence

import numpy as np

from engine.evidence.claim import Claim, Measurement
from engine.evidence.deployments import STEPS, deployed, plain, seeds
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Ruling, Scope, bounded, slope, theorem, together
from engine.evidence.small_sessions import PLAIN
from engine.simulation.feedback_model import Stream
from engine.simulation.regret import bounds, hindsight

RUNS, SHARES, PASSES = 5, (0.25, 0.5, 1.0, 2.0, 4.0), 4
PRINTED = {**PLAIN, "mode": "full", "ball": True}


def measure(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Rounds, their regret run by run to the best embeddings in the ball, and what Corollary 5.2 allows."""
    (judged,) = list(sets)[:1]
    one = deployed(judged)
    first, *_ = seeds(seed)
    one = one.in_order(np.random.default_rng(first).permutation(len(one.queries)))
    sizes = [round(share * len(one.stream)) for share in SHARES]
    regrets, allowed = [], []
    for rounds in sizes:
        how = {"stream": Stream(order="given", rounds=rounds), "exposure": PASSES, **PRINTED}
        pilot = one.learned(first, **how)
        start = pilot.begun.start.exact
        best = hindsight(start, pilot.rounds(pilot.trail))
        far = float(((best.vectors - start) ** 2).sum())
        _, times = np.unique(pilot.trail.query, return_counts=True)
        squares = np.ones(rounds)
        rate = bounds(far, pilot.trail.chance, squares, pilot.begun.preset.rate, 1.0, True).rate
        runs = [one.learned(at, rate=rate, **how) for at in seeds(seed, RUNS)]
        regrets.append(plain(np.array([run.trail.loss.sum() - times @ best.losses for run in runs])))
        allowed.append(np.mean([bounds(far, run.trail.chance, squares, rate, 1.0, True).corollary for run in runs]))
    return {"rounds": sizes, "regret": regrets, "allowed": plain(np.array(allowed))}


def judge(measured: Measurement) -> Ruling:
    regret = np.array(measured["regret"])
    growth = slope(measured["rounds"], regret.T, "regret", ("rounds", "regret, nats"))
    below = theorem((regret.mean(1) - measured["allowed"]).tolist(), len(regret))
    return together([below, bounded([growth], high=0.6)])


CLAIM = Claim(
    id="O4",
    paper="orag",
    place="Corollary 5.2",
    sentence="With the learning rate of the corollary regret stays below its bound, and grows no faster than the "
    "square root of the rounds.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=STEPS,
    effect="exponent 1/2",
    differs="MiniLM; embeddings are kept in the unit ball, as the best in hindsight need not exist without. The "
    "corollary limits regret from above: what grows faster for a while may still be below it.",
    cost=40,
)
