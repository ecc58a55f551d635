from itertools import pairwise

import numpy as np
import pytest

from engine.identification.pick_orders import find_order_intervals, find_pick_order, iterate_pick_orders


def make_set(seed, k=6):
    """Return relevance and similarities of a few documents."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(k, 4))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return (k - 1) * rows @ rng.normal(size=4), rows @ rows.T


def pick_by_force(relevance, similarities, weight):
    """Return the order of greedy max-sum, the most relevant first."""
    order = [int(relevance.argmax())]
    while len(order) < len(relevance):
        gains = weight * relevance - 2 * (1 - weight) * similarities[:, order].sum(1)
        gains[order] = -np.inf
        order.append(int(gains.argmax()))
    return order


@pytest.mark.parametrize("seed", range(8))
def test_pick_orders_cover_every_weight_and_equal_brute_force(seed):
    relevance, similarities = make_set(seed)
    everywhere = np.zeros(len(relevance)), np.ones(len(relevance))
    pieces = list(iterate_pick_orders(relevance, similarities, *everywhere))
    assert pieces[0][0] == 0 and pieces[-1][1] == 1 and len(pieces) > 1
    for (_, high, order), (low, _, next_order) in pairwise(pieces):
        assert 0 < low - high < 1e-8 and order.tolist() != next_order.tolist()
    for low, high, order in pieces:
        for share in (0.01, 0.5, 0.99):
            weight = low + share * (high - low)
            if high - low > 1e-6:
                assert order.tolist() == pick_by_force(relevance, similarities, weight)
                assert find_pick_order(relevance, similarities, weight).tolist() == order.tolist()


@pytest.mark.parametrize("seed", range(4))
def test_order_intervals_are_the_weights_at_which_none_after_contributes_more(seed):
    relevance, similarities = make_set(seed)
    lows, highs = find_order_intervals(relevance, similarities, 0.0, 0.0)
    for weight in np.linspace(0.005, 0.995, 100):
        contributions = weight * relevance - 2 * (1 - weight) * (similarities.sum(1) - np.diag(similarities))
        for rank in range(len(relevance)):
            is_ordered = (contributions[rank] >= contributions[rank + 1 :]).all()
            assert is_ordered == (lows[rank] <= weight <= highs[rank])


def test_ranges_on_which_most_of_the_list_is_in_another_order_are_left_out():
    relevance, similarities = make_set(0)
    nowhere = np.full(6, 2.0), np.full(6, -1.0)
    assert not list(iterate_pick_orders(relevance, similarities, *nowhere))
    lows, highs = (np.array([0.0, 0.0, 0.0, 2.0, 2.0, 2.0]), np.array([0.2, 0.2, 0.2, -1.0, -1.0, -1.0]))
    pieces = list(iterate_pick_orders(relevance, similarities, lows, highs))
    assert pieces and all(low <= 0.2 for low, _, _ in pieces)
