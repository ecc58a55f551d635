"""O18: the better the embeddings to start with, the less regret."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from engine.evidence.claim import Claim, Measurement
from engine.evidence.deployments import STEPS, JudgedDeployment, deployed, named, seeds
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Scope, difference
from engine.evidence.small_sessions import PLAIN

WORDS, RUNS = (5, 15, None), 5
PRINTED = {**PLAIN, "mode": "full", "ball": True}


def measure(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Nats, query by query, that a worse start regrets beyond the next better one, mean over seeds."""
    cells: dict[str, list[float]] = {}
    for judged in sets:
        whole = deployed(judged)
        # At one temperature the best in hindsight, in the ball, is the same for all: losses differ as regrets do.
        temperature = whole.learned(seed).begun.temperature
        starts = {str(words or "all"): whole.cut(words) for words in WORDS}
        order = sorted(starts, key=lambda name: float(starts[name].values(whole.stream)["ndcg"].mean()))
        losses = {name: _losses(starts[name], temperature, seed) for name in order}
        steps = pairwise(order)
        cells |= named(whole, {f"{worse} words to {better}": losses[worse] - losses[better] for worse, better in steps})
    return cells


def _losses(one: JudgedDeployment, temperature: float, seed: int) -> np.ndarray:
    losses = np.zeros(len(one.stream))
    for at in seeds(seed, RUNS):
        trail = one.learned(at, **{**PRINTED, "temperature": temperature}).trail
        np.add.at(losses, trail.query, trail.loss)
    return losses / RUNS


CLAIM = Claim(
    id="O18",
    paper="orag",
    place="Theorem 5.1",
    sentence="The better the embeddings are at the start, the less the regret.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=partial(difference, margin=0.01),
    sets=STEPS,
    differs="Better: higher nDCG@10 before feedback, of documents cut to 5 or 15 words, or whole. MiniLM; chances are "
    "sharpened; one set.",
    cost=15,
)
