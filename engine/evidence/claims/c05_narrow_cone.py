"""C5: embeddings lie in a narrow cone."""

from collections.abc import Sequence

import numpy as np

from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Effect, Ruling, Scope, bounded, slope, together
from engine.matrix import largest_eigenvalue
from engine.theory.relaxation import cone

PARTS, REPEATS = (16, 8, 4, 2, 1), 20
APART = -0.99
"""Two documents with a cosine below this count as opposite."""


def measure(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Set → the least cosine of two documents, and the Gram matrix's largest eigenvalue on random parts of the set."""
    rng = np.random.default_rng(seed)
    numbers = {}
    for judged in sets:
        rows = judged.space.vectors
        sizes = [len(rows) // part for part in PARTS]
        largest = [[largest_eigenvalue(rows[rng.permutation(len(rows))[:n]]) for n in sizes] for _ in range(REPEATS)]
        numbers[judged.name] = {"least": cone(judged.space).least, "sizes": sizes, "largest": largest}
    return numbers


def judge(measured: Measurement) -> Ruling:
    least = [Effect(name=f"{name}, least cosine", value=of["least"]) for name, of in measured.items()]
    axes = "documents", "largest eigenvalue"
    slopes = [slope(of["sizes"], np.array(of["largest"]), name, axes) for name, of in measured.items()]
    return together([bounded(least, low=APART), bounded(slopes, low=0.9, high=1.1)])


CLAIM = Claim(
    id="C5",
    paper="ccbqp",
    place="Assumption 2.2, §3",
    sentence="No two documents point in opposite directions, and the Gram matrix's largest eigenvalue grows almost "
    "linearly with the number of documents.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=("perspectrum", "multihop-rag-summ500", "toolbank-numpy", "toollens", "ultratool-en", "cranfield"),
    differs="MiniLM as it is shipped; random parts of each set, from a sixteenth to all. Opposite: a cosine below "
    "−.99; almost linear: an exponent from .9 to 1.1.",
    cost=30,
)
