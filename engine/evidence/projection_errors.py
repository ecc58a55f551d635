"""Pairs that random projections turn round, beside Lemma 1's bound: several samples of pairs and projections."""

from collections.abc import Sequence
from itertools import product

import numpy as np

import engine
from engine.evidence.claim import Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.theory.random_projections import DIMENSIONS, PairErrors

RUNS, DRAWS, PAIRS = 5, 20, 150
ENOUGH = 75
"""Pairs of a bin, below which its needed dimension is mostly chance."""


def projection_errors(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """By how much cells pass the bound; and of every set, weighting and projection, how the needed dimension grows.

    passed: of each bin of pairs at each k whose bound is below 1, the lower end of the error's interval less the bound;
    growth: name → run by run the exponent of the smallest k that keeps 95 % of pairs against x = (ε²/2 − ε³/3)⁻¹, R² of
    the line through them, and how many times that k the bound's is
    """
    passed: list[float] = []
    growth: dict[str, list[list[float]]] = {}
    for judged, weighting, projection in product(sets, ("bm25", "boolean"), ("rademacher", "gaussian")):
        runs = [
            engine.pair_errors(
                judged.dataset.corpus,
                judged.queries("test"),
                weighting,
                projection=projection,
                pairs=PAIRS,
                draws=DRAWS,
                seed=RUNS * seed + run,
            )
            for run in range(RUNS)
        ]
        passed += [float(f"{c.low - c.bound:.6g}") for errors in runs for c in errors.cells if c.bound < 1]
        growth[f"{judged.name}, {weighting}, {projection}"] = [growth_of(errors) for errors in runs]
    return {"passed": passed, "growth": growth}


def growth_of(errors: PairErrors) -> list[float]:
    """Exponent, R² and factor, over the bins of enough pairs that need more than the smallest k tried."""
    bins = [row for row in errors.bins if row.pairs >= ENOUGH]
    needed = [(row.inverse, row.dimension) for row in bins if (row.dimension or 0) > DIMENSIONS[0]]
    x, k = np.array(needed, dtype=np.float64).T
    exponent = float(np.polyfit(np.log(x), np.log(k), 1)[0])
    r2, factor = float(np.corrcoef(x, k)[0, 1] ** 2), float(errors.slope / np.exp(np.log(k / x).mean()))
    return [round(value, 6) for value in (exponent, r2, factor)]
