"""O5: the regret of the printed rule grows more slowly than the number of rounds."""

from collections.abc import Sequence

import numpy as np

from engine.evaluation.splits import subsample
from engine.evidence.claim import Claim, Measurement
from engine.evidence.deployments import JudgedDeployment, deployed, plain, seeds
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Ruling, Scope, bounded, slope
from engine.simulation.simulate import Plan

RUNS, SHARES, EXPOSURE, MOST = 5, (0.125, 0.25, 0.5, 1.0), 5, 1500
AGAINST = Plan(checkpoints=1, measured=1, regret="oracle")


def measure(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Set → queries that came, and regret after them run by run, to a rule that is given all answers."""
    return {judged.name: _regrets(deployed(judged), seed) for judged in sets}


def _regrets(one: JudgedDeployment, seed: int) -> dict[str, list[float] | list[list[float]]]:
    sizes = [round(share * min(MOST, len(one.stream))) for share in SHARES]
    how = {"preset": "paper", "exposure": EXPOSURE, "plan": AGAINST}
    regrets = []
    for size in sizes:
        part = one.on(subsample(one.stream, size))
        runs = (part.learned(at, **how).regret.oracle for at in seeds(seed, RUNS))
        regrets.append(plain(np.array([run[-1] for run in runs if run is not None])))
    return {"queries": [float(size) for size in sizes], "regret": regrets}


def judge(measured: Measurement) -> Ruling:
    axes = "queries", "regret, nats"
    growths = [slope(of["queries"], np.array(of["regret"]).T, name, axes) for name, of in measured.items()]
    return bounded(growths, high=1.0)


CLAIM = Claim(
    id="O5",
    paper="orag",
    place="§5, Fig. 7",
    sentence="Algorithm 1's cumulative regret grows sublinearly, measured against the same rule told all answers.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=("ultratool-en", "metatool"),
    differs="MiniLM; other data; η₀ = 10⁻⁵, batches of ten, each query five times. Regret to the best in hindsight is "
    "O4.",
    cost=90,
)
