"""O14: feedback makes up for bad documentation."""

from collections.abc import Sequence

import numpy as np

from engine.evidence.claim import Claim, Measurement
from engine.evidence.deployments import SETS, deployed, plain, seeds
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Ruling, Scope, bounded, proportion

WORDS = 5


def measure(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Set → points of Recall, query by query, lost with all but five words, and regained in one pass."""
    measured = {}
    for judged in sets:
        whole = deployed(judged)
        cut = whole.cut(WORDS)
        before = cut.values(cut.held_out)["recall"]
        runs = [cut.reached(cut.learned(at), cut.held_out)["recall"] for at in seeds(seed)]
        lost, regained = whole.values(whole.held_out)["recall"] - before, np.mean(runs, axis=0) - before
        measured[judged.name] = {"lost": plain(lost), "regained": plain(regained)}
    return measured


def judge(measured: Measurement) -> Ruling:
    shares = [
        proportion(np.array(of["regained"]), np.array(of["lost"]), f"{name}: share of the loss regained")
        for name, of in measured.items()
    ]
    return bounded(shares, low=0.5)


CLAIM = Claim(
    id="O14",
    paper="orag",
    place="Fig. 1a",
    sentence="Feedback regains most of the Recall@10 that bad documentation costs.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=SETS,
    effect="Recall@10 from 0.2664 to 0.4201; with good documentation 0.4294",
    differs="Documents cut to five words, not described anew; MiniLM; Frontier's own rule, one pass. Most: at least "
    "half.",
    cost=30,
)
