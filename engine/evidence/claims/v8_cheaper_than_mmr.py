"""V8: VRSD is cheaper than MMR, which is quadratic in n."""

import math
from collections.abc import Sequence

import numpy as np

import engine
from engine.evaluation.studies.latency import latencies
from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.latencies import SETS, drawn
from engine.evidence.rules import Ruling, Scope, bounded, difference, slope, together

SIZES, K, CALLS, WEIGHT = (16_000, 32_000, 64_000, 128_000), 20, 9, 0.5
"""Of vectors that no cache holds."""
MARGIN = math.log(1.1)
VRSD, PLAIN = "vrsd", "mmr, plain"


def measure(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Documents → method → seconds of each query, one at a time, one thread."""
    real = ((judged.name, judged.space, judged.queries("test")) for judged in sets)
    seconds: dict[str, dict[str, list[float]]] = {}
    for name, space, queries in (*real, *((f"{count}", *drawn(count, seed)) for count in SIZES)):
        for row in latencies([engine.make("vrsd"), engine.make("mmr")], space, queries, (K,), (WEIGHT,), calls=CALLS):
            method = f"{row.method}{', plain' if row.plain else ''}"
            seconds.setdefault(name, {})[method] = row.seconds.round(7).tolist()
    return seconds


def judge(measured: Measurement) -> Ruling:
    """Logarithms of ratios of times, and how the time of MMR as it is printed grows with n."""
    cheaper = {
        f"{name}, {method} to VRSD": np.log(np.divide(values, of[VRSD])).tolist()
        for name, of in measured.items()
        for method, values in of.items()
        if method != VRSD
    }
    times = np.stack([measured[f"{count}"][PLAIN] for count in SIZES], axis=1)
    growing = slope(SIZES, times, "MMR, plain", ("documents", "seconds of a query"))
    return together([difference(cheaper, MARGIN), bounded([growing], low=1.8)])


CLAIM = Claim(
    id="V8",
    paper="vrsd",
    place="§3.3",
    sentence="VRSD takes time in proportion to k·n where MMR takes k·n², and so is cheaper.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=SETS,
    effect="k·n against k·n²",
    differs="Seconds on one thread, not counts, at k = 20: against MMR with a running maximum, and the engine's, which "
    "picks the same documents.",
    cost=60,
)
