"""L7: the least margin of BM25 is far below that of the boolean inner product."""

from collections.abc import Sequence

import engine
from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Effect, Ruling, Scope, bounded

FAR = 0.1


def measure(sets: Sequence[JudgedSet], _: int) -> Measurement:
    """Set → weighting → the least margin above 0 of the best document of all over any other, of any query."""
    return {judged.name: {how: _least(judged, how) for how in ("bm25", "boolean")} for judged in sets}


def _least(judged: JudgedSet, weighting: str) -> float | None:
    least: float | None = engine.margins(judged.dataset.corpus, judged.queries("test"), weighting, bins=1).smallest
    return least


def judge(measured: Measurement) -> Ruling:
    ratios = [
        Effect(name=f"{name}, {least['bm25']:.2g} to {least['boolean']:.2g}", value=least["bm25"] / least["boolean"])
        for name, least in measured.items()
    ]
    return bounded(ratios, high=FAR)


CLAIM = Claim(
    id="L7",
    paper="sparse-dense",
    place="§2.1.3",
    sentence="The smallest margin of a collection is much smaller for BM25 than for the boolean inner product.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=("cranfield", "perspectrum"),
    effect="6.8e-6 against 0.0169",
    differs="Cranfield and Perspectrum for TREC-CAR. Much smaller: a tenth or less.",
    cost=2,
)
