"""How many queries a difference needs, from the paired differences that were seen."""

import math

import numpy as np
from scipy.special import nctdtr, ndtri, stdtrit

from engine.errors import ParamError
from engine.evaluation.statistics import SIGNIFICANCE_LEVEL

POWER = 0.8
MOST = 1_000_000
"""No number of queries beyond is told."""


def queries_needed(
    differences: np.ndarray, difference: float, power: float = POWER, alpha: float = SIGNIFICANCE_LEVEL
) -> int | None:
    """The least number of queries with which a paired two-sided t-test finds a mean difference with this power.

    differences: (n,) of the queries so far, whose spread is taken to be that of all; None for fewer than two, where
    none differs, and beyond a million. Webber, Moffat & Zobel 2008; Sakai 2016. Raises ParamError.
    """
    if not (math.isfinite(difference) and difference):
        raise ParamError(f"difference must be a number other than 0; got {difference!r}")
    for name, value in (("power", power), ("alpha", alpha)):
        if not 0 < value < 1:
            raise ParamError(f"{name} must be a number in (0, 1); got {value!r}")
    spread = float(np.std(differences, ddof=1)) if len(differences) > 1 else 0.0
    if not spread:
        return None
    effect = abs(difference) / spread
    # With a known spread the normal quantiles give the number; not knowing it takes some queries more.
    least = ((ndtri(1 - alpha / 2) + ndtri(power)) / effect) ** 2
    if least > MOST:
        return None
    count = max(2, math.ceil(least))
    while _power(count, effect, alpha) < power:
        count += 1
    return count


def _power(count: int, effect: float, alpha: float) -> float:
    """The chance that the test rejects; effect: mean over standard deviation."""
    critical, shift = stdtrit(count - 1, 1 - alpha / 2), effect * math.sqrt(count)
    return float(1 - nctdtr(count - 1, shift, critical) + nctdtr(count - 1, shift, -critical))
