"""The one-sided bound of a single setting's kept share, by plain formulas."""

import numpy as np
from scipy import stats


def bound_kept_share(own, top):
    """Return the kept share of the baseline's mean and its one-sided 95% bound; own, top: (queries,) values.

    The bound is Student's, lowered for skewness (Johnson) where losses are the rarer and larger changes, and no higher
    than so many queries can tell of losses larger than any that they show.
    """
    changes = (own - top) / top.mean()
    n_queries, mean = len(changes), changes.mean()
    low = 1 + stats.ttest_1samp(changes, 0, alternative="greater").confidence_interval(0.95).low
    score, spread = stats.t.ppf(0.95, n_queries - 1), changes.std(ddof=1)
    if spread > 0:
        overlooked = max(0.0, -stats.skew(changes, bias=False)) * spread / (6 * n_queries)
        low -= overlooked * (1 + 2 * score**2)
    unseen_loss = 1 - np.clip(-changes.min(), 0, 1)
    unseen_share = 1 - 0.05 ** (1 / (top > 0).sum())
    return 1 + mean, min(low, (1 + max(mean, 0.0)) * (1 - unseen_loss * unseen_share))
