"""The order in which greedy max-sum picked the documents of a set that is listed by what each contributes to it.

Such a list does not show the order of the picks, but of a set that was picked greedily it follows: the best of all
candidates is the best of the set's documents too. It changes at a few weights of relevance, between which it is one.
"""

from collections.abc import Iterator

import numpy as np

from engine.solvers.explained_weights import find_contribution_weights, order_set

Array = np.ndarray

MIN_ORDER_WIDTH = 1e-9
"""Orders that hold on a narrower range of λ are passed over."""
MIN_ORDERED_SHARE = 0.5
"""Share of a list that has to stand in the order of contributions, for the order of picks to be looked at."""


def find_order_intervals(relevance: Array, similarities: Array, slack_a: float, slack_b: float) -> tuple[Array, Array]:
    """Return the weights at which each document contributes no less than those after it in the list, (k,) each.

    relevance: (k,) on the scale of the gains; similarities: (k, k); slack_a, slack_b: rounding of differences
    """
    others = similarities.sum(1) - np.diag(similarities)
    lows, highs = np.empty(len(relevance)), np.empty(len(relevance))
    find_contribution_weights(relevance, -2 * others, slack_a, slack_b, lows, highs)
    return lows, highs


def iterate_pick_orders(
    relevance: Array, similarities: Array, order_lows: Array, order_highs: Array
) -> Iterator[tuple[float, float, Array]]:
    """Yield ranges of λ with the order of the picks on each, (k,) positions in the list.

    order_lows, order_highs: of `find_order_intervals`; ranges on which most of the list is in another order are left
    out, as there no more of it could be explained.
    """
    low, order = 0.0, np.empty(len(relevance), np.int64)
    while low <= 1:
        high = order_set(relevance, similarities, low, order)
        is_ordered = (order_lows <= high) & (order_highs >= low)
        if is_ordered.mean() >= MIN_ORDERED_SHARE:
            yield low, high, order.copy()
        # Ranges do not share an end, where a pick would count twice.
        low = high + MIN_ORDER_WIDTH


def find_pick_order(relevance: Array, similarities: Array, weight: float) -> Array:
    """Return the order of the picks at one λ, (k,) positions in the list."""
    order = np.empty(len(relevance), np.int64)
    order_set(relevance, similarities, weight, order)
    return order
