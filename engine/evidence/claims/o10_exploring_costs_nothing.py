"""O10: drawing documents costs those who ask nothing."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from engine.evaluation.splits import subsample
from engine.evidence.claim import Claim, Measurement
from engine.evidence.deployments import SETS, JudgedDeployment, deployed, named, seeds
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.measures import POINTS
from engine.evidence.rules import Scope, equivalence

RUNS, QUERIES = 5, 1000
RULES = {"τ = 1": "paper", "τ by perplexity 8": "default"}


def measure(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Points of success, query by query, of the document drawn less that of the best score, mean over seeds."""
    cells: dict[str, list[float]] = {}
    for judged in sets:
        one = deployed(judged)
        few = one.on(subsample(one.stream, QUERIES))
        cells |= named(few, {name: _lost(few, preset, seed) for name, preset in RULES.items()})
    return cells


def _lost(one: JudgedDeployment, preset: str, seed: int) -> np.ndarray:
    lost = np.zeros(len(one.stream))
    for at in seeds(seed, RUNS):
        run = one.learned(at, preset=preset)
        np.add.at(lost, run.trail.query, run.success.drawn - run.success.top)
    return POINTS * lost / RUNS


CLAIM = Claim(
    id="O10",
    paper="orag",
    place="§3, Exploration",
    sentence="Drawing by the documents' own chances, without exploring beyond them, costs nothing to those who ask "
    "meanwhile.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=partial(equivalence, margin=1.0),
    sets=SETS,
    differs="The paper compares with rules that explore at random; here with the document of the best score at the "
    "same moment. MiniLM. τ = 1 is the paper's, the other temperature Frontier's.",
    cost=25,
)
