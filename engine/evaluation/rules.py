"""Rules by which other queries judge a choice, and the number of queries that such a judgement needs."""

from enum import StrEnum
from math import ceil, log10

import numpy as np
from scipy.special import stdtrit

from engine.evaluation.loss_model import estimate_losses
from engine.evaluation.paired import TIE_TOLERANCE

MAX_NEEDED_FACTOR = 20
"""Up to so many times the queries of a split, the number that would prove a share is worth saying."""
NEEDED_DIGITS = 2
"""Digits of that number, as the spread of so many queries is known no better."""


class Outcome(StrEnum):
    """Outcome of a choice on other queries than those that it was made on."""

    CONFIRMED = "confirmed"  # its bound there reaches the budget
    AGREES = "agrees"  # its estimate does, but too few queries prove it
    DENIED = "denied"  # its estimate lies below the budget
    GAINLESS = "gains nothing"  # whatever it keeps


def judge_choice(share: float, low: float, gain: float | None, keep: float) -> Outcome:
    """Judge a choice, sure or a bet, by what other queries measured of it.

    A sure setting needs its bound there to be confirmed, and is denied by its estimate alone: a bound below the budget
    only says that the queries are few. A bet claims no bound, so it holds where the estimate agrees. share, low: the
    estimate and the one-sided bound of the share that is kept; gain: of the objective, None if it was not measured;
    keep: the budget, the share that must be kept
    """
    if gain is not None and gain <= TIE_TOLERANCE:
        return Outcome.GAINLESS
    if low >= keep - TIE_TOLERANCE:
        return Outcome.CONFIRMED
    return Outcome.AGREES if share >= keep - TIE_TOLERANCE else Outcome.DENIED


def bound_share(changes: np.ndarray, n_at_stake: int, n_queries: int, chance: float) -> float:
    """Return the share that so many queries would prove, did they spread as the queries at hand.

    changes: (n,) of each query at hand, as shares of the baseline's mean; n_at_stake: those on which the baseline has
    something to lose; chance: of the one-sided bound
    """
    # Evenly spaced ranks repeat every change as often as any other, so that mean and spread stay as they are.
    ranks = ((np.arange(n_queries) + 0.5) * len(changes) / n_queries).astype(int)
    repeated = np.sort(changes)[ranks]
    n_losable = max(1, round(n_at_stake * n_queries / len(changes)))
    losses = estimate_losses(repeated[:, None], np.ones(1), n_at_stake=n_losable)
    return float(losses.find_sure_shares(float(stdtrit(losses.degrees, chance)))[0])


def estimate_queries_to_prove(changes: np.ndarray, n_at_stake: int, keep: float, chance: float) -> int | None:
    """Estimate how many queries would prove that a setting keeps a share, by the mean and spread of those at hand.

    None where the estimate lies below the share, and where MAX_NEEDED_FACTOR times the queries would not do. Rounded up
    to NEEDED_DIGITS digits. changes, n_at_stake, chance: as `bound_share` takes them
    """
    if 1 + changes.mean() < keep:
        return None
    low, high = len(changes), MAX_NEEDED_FACTOR * len(changes)
    if bound_share(changes, n_at_stake, high, chance) < keep:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        is_proven = bound_share(changes, n_at_stake, middle, chance) >= keep
        low, high = (low, middle) if is_proven else (middle, high)
    unit: int = 10 ** max(0, int(log10(high)) + 1 - NEEDED_DIGITS)
    return ceil(high / unit) * unit
