"""Losses of many settings on all queries of a kind, estimated together from a sample of queries.

The model is a Gaussian process over the settings' gains. A setting chosen as the best of many looks better on the
sample than it is. Estimates that are shrunk towards each other do not have this bias: given a prior that fits, the
chance that a setting keeps its budget is right for whichever is chosen (Efron 2011, "Tweedie's formula and selection
bias"). Where the prior does not fit, as for a setting unlike its neighbours or with few queries, the setting's own
queries have a veto.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.special import stdtr, stdtrit

from engine.evaluation.decision import BET_CHANCE

PRIOR_MEDIANS = (0.4, 2.5, 0.4, 0.05)
"""Medians of the common slope, and, in units of it, of the curvature, a family's deviation and a single setting's."""
PRIOR_LOG_DEVIATIONS = (1.5, 1.0, 0.7, 0.7)
"""Standard deviations of their logarithms."""
PRIOR_QUERIES = 300.0
"""Weight, in queries, of what variances and correlations are expected to be. Few queries tell two settings apart, and
a sample variance from a handful of them is small just where the sample loses little."""
FAMILY_CORRELATION, OTHER_CORRELATION = 0.96, 0.78
"""Expected correlation of the noise of two settings with the same gain, of one family and of two."""
INDEPENDENT_SHARE = 0.05
"""Share of the noise that every setting has to itself, so that no direction counts as free of noise."""
MAX_FITTED_SETTINGS = 120
"""Number of settings from which the four parameters of the prior are fitted."""
MAX_EVALUATIONS = 90
"""Evaluations of the marginal likelihood; its optimum is flat and need not be exact."""
VETO_WEIGHT = 1.6
"""Factor of a setting's own Student statistic: 95% needs what alone would be a chance of 85%, and 50% a mean that keeps
the budget. It counts where the prior does not fit, most of all with few queries."""
JITTER = 1e-10
TINY_GAIN = 1e-6
CHANGE_TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False, kw_only=True)
class LossEstimate:
    """Estimated changes of m settings to the baseline, as shares of the baseline's mean."""

    mean: np.ndarray  # (m,) negative for a loss
    std_error: np.ndarray  # (m,)
    own_mean: np.ndarray  # (m,) of the sample
    own_error: np.ndarray  # (m,) its standard error from the setting's own queries
    degrees: int  # of freedom, of Student's t

    def find_chances(self, required_share: float) -> np.ndarray:
        """Return the (m,) chances that each setting keeps a share of the baseline's mean on queries to come.

        The smaller of two chances counts: by the joint estimate, and by the setting's own queries, which have a veto.
        """
        shrunk = self._find_chances(self.mean, self.std_error, required_share)
        own = self._find_chances(self.own_mean, self.own_error / VETO_WEIGHT, required_share)
        chances: np.ndarray = np.minimum(shrunk, own)
        return chances

    def _find_chances(self, mean: np.ndarray, std_error: np.ndarray, required_share: float) -> np.ndarray:
        """Return the (m,) chances of keeping the required share by Student's t with this mean and error."""
        excess = mean + (1 - required_share)
        # Without any spread there is no error to go by. Were the budget just broken, by a share 1 − s of the queries
        # that lose everything, n queries would show none of them with probability sⁿ (the rule of three).
        unseen_chance = max(BET_CHANCE, 1 - required_share ** (self.degrees + 1))
        has_no_spread = std_error <= CHANGE_TOLERANCE
        scores = np.where(has_no_spread, 0.0, excess / np.where(has_no_spread, 1.0, std_error))
        exact_chances = np.where(excess >= -CHANGE_TOLERANCE, unseen_chance, 0.0)
        chances: np.ndarray = np.where(has_no_spread, exact_chances, stdtr(self.degrees, scores))
        return chances

    def find_ends(self, confidence: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the (m,) lower and upper ends of each setting's kept share at this confidence."""
        margin = stdtrit(self.degrees, (1 + confidence) / 2) * self.std_error
        return 1 + self.mean - margin, 1 + self.mean + margin


def estimate_losses(changes: np.ndarray, gains: np.ndarray, families: np.ndarray) -> LossEstimate:
    """Estimate the mean changes of m settings on all queries of the kind from n of them.

    changes: (n, m) of each query to the baseline, as shares of the baseline's mean; gains: (m,) of the objective over
    the baseline, in any unit; families: (m,) integers, equal for settings of one selector behind the same scorers. n
    must be 2 or more. Settings are the points of a Gaussian process: those with similar gains are expected to lose
    similarly, so each one's measured mean is shrunk towards its neighbours'.
    """
    n_queries, n_settings = changes.shape
    means, variances = changes.mean(axis=0), changes.var(axis=0, ddof=1)
    own = {"own_mean": means, "own_error": np.sqrt(variances / n_queries), "degrees": n_queries - 1}
    scale = variances.sum() / max(np.abs(gains).sum(), TINY_GAIN)
    if not n_settings or scale <= CHANGE_TOLERANCE:
        return LossEstimate(mean=means, std_error=np.zeros(n_settings), **own)
    # In units of the expected variance the prior needs no unit of the gain, and holds for every objective.
    positions = scale * gains
    noise = _estimate_noise(changes, variances, positions, families)
    # Every s-th setting by gain, so that at most MAX_FITTED_SETTINGS remain; −(−a // b) is a / b rounded up.
    fitted = np.argsort(gains, kind="stable")[:: -(-n_settings // MAX_FITTED_SETTINGS)]
    parameters = _fit_prior(means[fitted], positions[fitted], families[fitted], noise[np.ix_(fitted, fitted)])
    prior = _compute_prior(parameters, positions, families)
    # The mean and covariance of a Gaussian given its noisy values (Rasmussen & Williams 2006, eqs. 2.25 and 2.26).
    weights = cho_solve(cho_factor(prior + noise + JITTER * np.eye(n_settings), lower=True), prior)
    posterior_variances = np.diag(prior) - np.einsum("ij,ij->j", prior, weights)
    std_error = np.sqrt(np.maximum(posterior_variances, 0.0))
    return LossEstimate(mean=weights.T @ means, std_error=std_error, **own)


def _estimate_noise(
    changes: np.ndarray, variances: np.ndarray, positions: np.ndarray, families: np.ndarray
) -> np.ndarray:
    """Estimate the (m, m) sampling covariance of the settings' mean changes; shrunk, as queries are few.

    positions: (m,) gains in units of expected variance; families: (m,) integers, equal for one selector. Moving along a
    curve exchanges one document after the other, so changes behave like a random walk: the variance grows with the
    position, and the correlation of two settings is the root of the ratio of theirs.
    """
    n_queries, n_settings = changes.shape
    expected_variances = np.abs(positions) + TINY_GAIN * np.abs(positions).max()
    # Queries on which a setting returns what the baseline does say nothing about its variance.
    n_changed = (np.abs(changes) > CHANGE_TOLERANCE).sum(axis=0)
    shrunk_variances = (PRIOR_QUERIES * expected_variances + n_changed * variances) / (PRIOR_QUERIES + n_changed)
    ratio = np.minimum.outer(expected_variances, expected_variances)
    ratio = ratio / np.maximum.outer(expected_variances, expected_variances)
    is_same_family = families[:, None] == families[None, :]
    expected_correlations = np.sqrt(ratio) * np.where(is_same_family, FAMILY_CORRELATION, OTHER_CORRELATION)
    deviations = np.sqrt(np.where(variances > 0, variances, 1.0))
    correlations = np.cov(changes, rowvar=False).reshape(n_settings, n_settings) / np.outer(deviations, deviations)
    n_common = np.sqrt(np.outer(n_changed, n_changed))
    data_weight = n_common / (n_common + PRIOR_QUERIES)
    shrunk = data_weight * correlations + (1 - data_weight) * expected_correlations
    # Every setting keeps some noise of its own, or the covariance could be singular.
    shrunk *= 1 - INDEPENDENT_SHARE
    np.fill_diagonal(shrunk, 1.0)
    covariance: np.ndarray = shrunk * np.sqrt(np.outer(shrunk_variances, shrunk_variances)) / n_queries
    return covariance


def _compute_prior(parameters: np.ndarray, positions: np.ndarray, families: np.ndarray) -> np.ndarray:
    """Return the (m, m) covariance expected between settings' true changes before any query is seen.

    The change is a smooth function of the position (the gain in units of variance), 0 at the baseline: one common
    curve, a deviation for each family of settings, and one for each single setting. parameters: as in PRIOR_MEDIANS.

    A curve is a line and a cubic spline (an integrated Wiener process, Wahba 1990), both 0 for the baseline's sets.
    """
    slope, curvature, family_share, setting_share = parameters
    line = np.outer(positions, positions)
    distance = np.abs(positions)
    nearer, further = np.minimum.outer(distance, distance), np.maximum.outer(distance, distance)
    spline = nearer**2 * (3 * further - nearer) / 6 * (line > 0)
    curve = line + curvature**2 * spline
    own_curve = np.where(families[:, None] == families[None, :], family_share**2 * curve, 0.0)
    covariance: np.ndarray = slope**2 * (curve + own_curve + setting_share**2 * np.diag(positions**2))
    return covariance


def _fit_prior(means: np.ndarray, positions: np.ndarray, families: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Fit the four parameters of the prior to the measured mean changes; return them.

    They maximise the likelihood of the means times the prior density of the parameters, which are log-normal around
    PRIOR_MEDIANS. noise: (m, m) sampling covariance of the means.
    """
    start = np.log(PRIOR_MEDIANS)
    noise = noise + JITTER * np.eye(len(means))

    def compute_loss(log_parameters: np.ndarray) -> float:
        """Return the negative log posterior, up to a constant; infinite if the covariance is singular."""
        covariance = _compute_prior(np.exp(log_parameters), positions, families) + noise
        try:
            factor = cho_factor(covariance, lower=True)
        except np.linalg.LinAlgError:
            return np.inf
        fit = means @ cho_solve(factor, means) / 2 + np.log(np.diag(factor[0])).sum()
        return float(fit + np.square((log_parameters - start) / PRIOR_LOG_DEVIATIONS).sum() / 2)

    result = minimize(
        compute_loss, start, method="Nelder-Mead", options={"maxfev": MAX_EVALUATIONS, "xatol": 0.1, "fatol": 0.05}
    )
    fitted: np.ndarray = np.exp(result.x)
    return fitted
