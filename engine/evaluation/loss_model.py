"""Losses of settings on all queries of a kind, estimated from a sample of them, each by its own queries."""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

PRIOR_QUERIES = 30.0
"""Weight, in changed queries, of the variance that is expected of a setting with its gain. A sample variance from a
handful of changed queries is small just where the sample happens to lose little."""
MIN_UNSEEN_CHANCE = 0.5
"""Least chance of keeping a share of the baseline's metric where no query shows a loss."""
TINY_GAIN = 1e-6
CHANGE_TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False, kw_only=True)
class LossEstimate:
    """Estimated changes of m settings to the baseline, as shares of the baseline's mean."""

    mean: np.ndarray  # (m,) negative for a loss
    std_error: np.ndarray  # (m,) of the mean
    degrees: int  # of freedom, of Student's t
    n_at_stake: int  # queries on which the baseline has something to lose
    has_loss: np.ndarray  # (m,) True where a query shows a loss

    def score(self, mean: np.ndarray, required_share: float, positions: np.ndarray | None = None) -> np.ndarray:
        """Return what settings keep beyond a share of the baseline's mean, in standard errors; shaped as mean.

        mean: mean changes over the queries at hand, or over samples of them; positions: of their settings, in the
        shape of mean, by default (m,) all of them
        """
        std_error = self.std_error if positions is None else self.std_error[positions]
        excess = mean + (1 - required_share)
        # Without any spread there is no error to go by. Were the required share s just not kept, as a share 1 − s of
        # the queries lose everything, n queries would show none of them with probability sⁿ (the rule of three). Only
        # queries on which the baseline has something to lose count among the n, and what others gain makes up for some.
        unseen_chances = 1 - np.minimum(1, required_share / (1 + np.maximum(self.mean, 0))) ** self.n_at_stake
        unseen_scores = stdtrit(self.degrees, np.maximum(MIN_UNSEEN_CHANCE, unseen_chances))
        # Small gains have a small spread, which says as little of losses that no query shows.
        limits = np.where(self.has_loss, np.inf, unseen_scores)
        if positions is not None:
            unseen_scores, limits = unseen_scores[positions], limits[positions]
        has_no_spread = std_error <= CHANGE_TOLERANCE
        exact_scores = np.where(excess >= -CHANGE_TOLERANCE, unseen_scores, -np.inf)
        plain_scores = np.minimum(excess / np.where(has_no_spread, 1.0, std_error), limits)
        scores: np.ndarray = np.where(has_no_spread, exact_scores, plain_scores)
        return scores

    def find_sure_shares(self, score: np.ndarray | float) -> np.ndarray:
        """Return the (m,) largest shares that each setting keeps with this score; the inverse of `score`.

        score: one for all settings, or (m,) one for each
        """
        # Without any spread a larger share could be broken by queries that the sample happens not to show.
        unseen_shares = find_unseen_share(self.n_at_stake, np.asarray(stdtr(self.degrees, score)))
        unseen_shares = unseen_shares * (1 + np.maximum(self.mean, 0))
        exact_shares = np.minimum(1 + self.mean, unseen_shares)
        has_no_spread = self.std_error <= CHANGE_TOLERANCE
        plain_shares = np.minimum(
            1 + self.mean - score * self.std_error, np.where(self.has_loss, np.inf, unseen_shares)
        )
        shares: np.ndarray = np.where(has_no_spread, exact_shares, plain_shares)
        return shares

    def find_ends(self, confidence: float) -> tuple[np.ndarray, np.ndarray]:
        """Return (m,) lower and upper ends of the interval of each setting's true kept share, each for itself.

        The kept share is the setting's mean over the baseline's; confidence: of the two-sided interval, such as 0.95
        """
        margin = stdtrit(self.degrees, (1 + confidence) / 2) * self.std_error
        return 1 + self.mean - margin, 1 + self.mean + margin


def find_unseen_share(n_queries: int, chance: np.ndarray | float) -> np.ndarray:
    """Return the largest share that is kept with this chance if none of n queries shows a loss (the rule of three).

    Were it broken by a share 1 − s of the queries that lose everything, n queries would show none with probability sⁿ.
    n_queries: those on which there is something to lose
    """
    chances = np.asarray(chance)
    shares: np.ndarray = np.where(chances <= MIN_UNSEEN_CHANCE, np.inf, (1 - chances) ** (1 / n_queries))
    return shares


def estimate_losses(
    changes: np.ndarray,
    gains: np.ndarray,
    terms: np.ndarray | None = None,
    n_changed: np.ndarray | None = None,
    n_at_stake: int | None = None,
) -> LossEstimate:
    """Estimate the mean changes of m settings on all queries of the kind from n of them.

    changes: (n, m) of each query to the baseline, as shares of the baseline's mean; gains: (m,) of the objective over
    the baseline, in any unit. n must be 2 or more. terms: (r, m) of other queries, whose means are added to those of
    the changes; n_changed: (m,) changed queries, by default those with a change; n_at_stake: the queries on which the
    baseline has something to lose, by default all n
    """
    n_queries = len(changes)
    variances = changes.var(axis=0, ddof=1)
    # Queries on which a setting returns what the baseline does say nothing about its variance.
    if n_changed is None:
        n_changed = (np.abs(changes) > CHANGE_TOLERANCE).sum(axis=0)
    # Along a curve one document after the other is exchanged, so the variance grows with the gain, as a random walk's.
    distances = np.abs(gains)
    expected_variances = distances * variances.sum() / max(distances.sum(), TINY_GAIN)
    shrunk = (PRIOR_QUERIES * expected_variances + n_changed * variances) / (PRIOR_QUERIES + n_changed)
    squared_error, mean = shrunk / n_queries, changes.mean(axis=0)
    has_loss: np.ndarray = changes.min(axis=0) < -CHANGE_TOLERANCE
    if terms is not None and len(terms) > 1:
        squared_error = squared_error + terms.var(axis=0, ddof=1) / len(terms)
        mean = mean + terms.mean(axis=0)
        has_loss |= terms.min(axis=0) < -CHANGE_TOLERANCE
    n_at_stake = n_queries if n_at_stake is None else n_at_stake
    return LossEstimate(
        mean=mean, std_error=np.sqrt(squared_error), degrees=n_queries - 1, n_at_stake=n_at_stake, has_loss=has_loss
    )  # fmt: skip
