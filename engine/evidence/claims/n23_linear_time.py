"""N23: decoding scales like inner products, linearly in the documents."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

import engine
from engine.evaluation.studies.latency import latencies
from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.latencies import drawn
from engine.evidence.rules import Ruling, Scope, bounded, slope

SIZES, CALLS, K = (16_000, 32_000, 64_000, 128_000), 5, 5
"""Drawn documents, from where their vectors no longer fit a processor's caches: within them a step takes less."""
DRAWN = "drawn"
SEARCH, STEPS, EXACT = "search", "50 steps", "exact"
DECODERS = {SEARCH: engine.make("top_k"), STEPS: engine.make("nnn", solver="fista"), EXACT: engine.make("nnn")}


def measure(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Documents → how many, and decoder → (calls, sizes) seconds of a query, one at a time on one thread."""
    places = {judged.name: timed([(judged.space, judged.queries("test"))]) for judged in sets}
    return {DRAWN: timed(drawn(count, seed) for count in SIZES), **places}


def timed(places: Iterable[tuple[engine.Space, engine.Embeddings]]) -> Measurement:
    """Sizes, and decoder → (calls, sizes) seconds."""
    columns: dict[str, list[list[float]]] = {name: [] for name in DECODERS}
    sizes = []
    for space, queries in places:
        sizes.append(len(space))
        rows = latencies(list(DECODERS.values()), space, queries, (K,), calls=CALLS, plain=False)
        for column, row in zip(columns.values(), rows, strict=True):
            column.append(row.seconds.round(7).tolist())
    return {"sizes": sizes, **{name: list(zip(*column, strict=True)) for name, column in columns.items()}}


def judge(measured: Measurement) -> Ruling:
    """Whether it is linear; how many searches it takes is said only."""
    own = measured[DRAWN]
    slopes = [slope(own["sizes"], np.array(own[name]), f"{name}, slope") for name in (STEPS, EXACT)]
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
    sentence="Decoding takes time linear in the number of documents, as inner products do.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=("perspectrum",),
    differs="Drawn vectors of 384 dimensions, λ₁ = λ₂ = 0.1, one core.",
    cost=90,
)
