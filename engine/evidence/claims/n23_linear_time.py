"""N23: decoding scales like inner products, linearly in the documents."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

import engine
from engine.evaluation.studies.latency import latencies
from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.latencies import drawn
from engine.evidence.rules import Ruling, Scope, bounded, slope

SIZES, ROUNDS, K = (16_000, 32_000, 64_000, 128_000), 7, 5
"""Drawn documents, from where their vectors no longer fit a processor's caches: within them a step takes less."""
DRAWN = "drawn"
SEARCH, STEPS, EXACT = "search", "50 steps", "exact"
DECODERS = {SEARCH: engine.make("top_k"), STEPS: engine.make("nnn", solver="fista"), EXACT: engine.make("nnn")}


def measure(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Documents → how many, and decoder → (rounds, sizes) seconds of a query, one at a time on one thread."""
    places = {judged.name: timed([(judged.space, judged.queries("test"))]) for judged in sets}
    return {DRAWN: timed([drawn(count, seed) for count in SIZES]), **places}


def timed(places: Sequence[tuple[engine.Space, engine.Embeddings]]) -> Measurement:
    """Sizes, and decoder → (rounds, sizes) seconds: sizes take turns, so that they are timed in the same conditions.

    Of two queries the second, as what a space remembers of a query would serve the first, which was asked before.
    """
    rounds: dict[str, list[list[float]]] = {name: [[] for _ in range(ROUNDS)] for name in DECODERS}
    for turn in range(ROUNDS):
        for space, queries in places:
            asked = queries.take([2 * turn, 2 * turn + 1])
            rows = latencies(list(DECODERS.values()), space, asked, (K,), calls=2, plain=False)
            for name, row in zip(DECODERS, rows, strict=True):
                rounds[name][turn].append(round(float(row.seconds[1]), 7))
    return {"sizes": [len(space) for space, _ in places], **rounds}


def judge(measured: Measurement) -> Ruling:
    """Whether it is linear; how many searches it takes is said only."""
    own = measured[DRAWN]
    axes = "documents", "seconds of a query"
    slopes = [slope(own["sizes"], np.array(own[name]), name, axes) for name in (STEPS, EXACT)]
    said = [
        f"{name} {np.median(np.array(of[name])[:, -1] / np.array(of[SEARCH])[:, -1]):.1f} ({place})"
        for place, of in measured.items()
        for name in (STEPS, EXACT)
    ]
    ruling = bounded(slopes, high=1.1)
    return replace(ruling, why=f"{ruling.why} At the most documents, in searches: {', '.join(said)}.")


CLAIM = Claim(
    id="N23",
    paper="nnn",
    place="§3.1",
    sentence="NNN's time grows linearly with the number of documents, as that of inner products does.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=("perspectrum",),
    differs="On one core, for 16,000 to 128,000 drawn vectors of 384 dimensions, λ₁ = λ₂ = 0.1.",
    cost=90,
)
