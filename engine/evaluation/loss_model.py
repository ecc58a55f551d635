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
TINY_LOSS = 1e-9
CHANGE_TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False, kw_only=True)
class LossEstimate:
    """Estimated changes of m settings to the baseline, as shares of the baseline's mean."""

    mean: np.ndarray  # (m,) negative for a loss
    std_error: np.ndarray  # (m,) of the mean
    skew_loss: np.ndarray  # (m,) loss that Student's interval overlooks at score 0, as rare losses are large; 0 or more
    degrees: int  # of freedom, of Student's t
    n_at_stake: int  # queries on which the baseline has something to lose
    largest_loss: np.ndarray  # (m,) that a query shows, from 0 to 1

    def score(self, mean: np.ndarray, required_share: float, positions: np.ndarray | None = None) -> np.ndarray:
        """Return what settings keep beyond a share of the baseline's mean, in standard errors; shaped as mean.

        mean: mean changes over the queries at hand, or over samples of them; positions: of their settings, in the
        shape of mean, by default (m,) all of them
        """
        limits = self._find_score_limits(required_share)
        std_error, skew_loss = self.std_error, self.skew_loss
        if positions is not None:
            std_error, skew_loss, limits = std_error[positions], skew_loss[positions], limits[positions]
        excess = mean + (1 - required_share) - skew_loss
        has_no_spread = std_error <= CHANGE_TOLERANCE
        # Johnson's correction for skewness (1978): a score of z needs an excess of z standard errors and 2 z² skew
        # losses. Below 0 there is no loss to be overlooked.
        root = np.sqrt(std_error**2 + 8 * skew_loss * np.maximum(excess, 0))
        plain_scores = 2 * excess / np.where(has_no_spread, 1.0, std_error + np.where(excess > 0, root, std_error))
        exact_scores = np.where(excess >= -CHANGE_TOLERANCE, np.inf, -np.inf)
        scores: np.ndarray = np.minimum(np.where(has_no_spread, exact_scores, plain_scores), limits)
        return scores

    def _find_score_limits(self, required_share: float) -> np.ndarray:
        """Return the (m,) largest scores that so many queries can tell, as losses that none of them shows are possible.

        Were a share u of the queries to lose more than any that was seen, n queries would show none of them with
        probability (1 − u)ⁿ (the rule of three). Only queries on which the baseline has something to lose count among
        the n, and what others gain makes up for some.
        """
        unseen_loss = 1 - self.largest_loss
        broken_share = (1 - required_share / (1 + np.maximum(self.mean, 0))) / np.maximum(unseen_loss, TINY_LOSS)
        chances = 1 - (1 - np.clip(broken_share, 0, 1)) ** self.n_at_stake
        # For a chance of 1, SciPy 1.15 gives NaN in place of infinity.
        limits = np.where(chances < 1, stdtrit(self.degrees, np.maximum(MIN_UNSEEN_CHANCE, chances)), np.inf)
        # A setting that has lost more already needs none.
        has_limit = (unseen_loss > TINY_LOSS) & (broken_share >= -CHANGE_TOLERANCE)
        return np.where(has_limit, limits, np.inf)

    def find_sure_shares(self, score: np.ndarray | float) -> np.ndarray:
        """Return the (m,) largest shares that each setting keeps with this score; the inverse of `score`.

        score: one for all settings, or (m,) one for each
        """
        skew_loss = self.skew_loss * (1 + 2 * np.maximum(score, 0) ** 2)
        plain_shares = 1 + self.mean - score * self.std_error - skew_loss
        unseen_shares = find_unseen_share(self.n_at_stake, np.asarray(stdtr(self.degrees, score)))
        kept_shares = 1 - np.maximum(1 - self.largest_loss, TINY_LOSS) * (1 - unseen_shares)
        shares: np.ndarray = np.minimum(plain_shares, (1 + np.maximum(self.mean, 0)) * kept_shares)
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
    decoder_of: np.ndarray | None = None,
) -> LossEstimate:
    """Estimate the mean changes of m settings on all queries of the kind from n of them.

    changes: (n, m) of each query to the baseline, as shares of the baseline's mean; gains: (m,) of the objective over
    the baseline, in any unit. n must be 2 or more. terms: (r, m) of other queries, whose means are added to those of
    the changes; n_changed: (m,) changed queries, by default those with a change; n_at_stake: the queries on which the
    baseline has something to lose, by default all n; decoder_of: (m,) number of each setting's decoder, by default one
    for all
    """
    n_queries = len(changes)
    variances = changes.var(axis=0, ddof=1)
    # Queries on which a setting returns what the baseline does say nothing about its variance.
    if n_changed is None:
        n_changed = (np.abs(changes) > CHANGE_TOLERANCE).sum(axis=0)
    expected_variances = _expect_variances(variances, np.abs(gains), decoder_of)
    shrunk = (PRIOR_QUERIES * expected_variances + n_changed * variances) / (PRIOR_QUERIES + n_changed)
    squared_error, mean = shrunk / n_queries, changes.mean(axis=0)
    third_cumulant, plain_squared_error = _find_third_cumulant(changes), variances / n_queries
    smallest = changes.min(axis=0)
    if terms is not None and len(terms) > 1:
        squared_error = squared_error + terms.var(axis=0, ddof=1) / len(terms)
        mean = mean + terms.mean(axis=0)
        plain_squared_error = plain_squared_error + terms.var(axis=0, ddof=1) / len(terms)
        third_cumulant = third_cumulant + _find_third_cumulant(terms)
        smallest = np.minimum(smallest, terms.min(axis=0))
    n_at_stake = n_queries if n_at_stake is None else n_at_stake
    # Where gains are the rare and large ones, Student's interval is too careful, which is left as it is.
    skew_loss = np.maximum(0, -third_cumulant) / np.maximum(6 * plain_squared_error, CHANGE_TOLERANCE**2)
    return LossEstimate(
        mean=mean, std_error=np.sqrt(squared_error), skew_loss=skew_loss, degrees=n_queries - 1,
        n_at_stake=n_at_stake, largest_loss=np.clip(-smallest, 0, 1),
    )  # fmt: skip


def _expect_variances(variances: np.ndarray, distances: np.ndarray, decoder_of: np.ndarray | None) -> np.ndarray:
    """Return the (m,) variances that are expected of settings by their distances from the baseline.

    Along a decoder's curve one document after the other is exchanged, so the variance grows with the gain, as a random
    walk's. Each decoder stands for itself: no setting is surer because another decoder is compared too. distances:
    (m,) gains without their signs; decoder_of: as `estimate_losses` takes it
    """
    if decoder_of is None:
        decoder_of = np.zeros(len(variances), dtype=int)
    total_variances, total_distances = np.bincount(decoder_of, variances), np.bincount(decoder_of, distances)
    expected: np.ndarray = distances * (total_variances / np.maximum(total_distances, TINY_GAIN))[decoder_of]
    return expected


def _find_third_cumulant(changes: np.ndarray) -> np.ndarray:
    """Return the (m,) third cumulants of the means of (n, m) changes, without bias; 0 for fewer than three queries."""
    n_queries = len(changes)
    if n_queries < 3:
        return np.zeros(changes.shape[1])
    cubes: np.ndarray = ((changes - changes.mean(axis=0)) ** 3).sum(axis=0)
    return cubes / (n_queries * (n_queries - 1) * (n_queries - 2))
