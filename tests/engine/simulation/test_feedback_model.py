"""Streams: orders are what they say, every draw is by seed and round, and feedback lies as often as asked."""

from itertools import pairwise

import numpy as np
import pytest

from engine.drift.round_metrics import popular_rows, rare_rows, right_counts, right_rows
from engine.simulation.feedback_model import Stream, draw_arrivals
from engine.values import Qrels

RIGHT = [np.array(rows) for rows in ([3], [1, 2], [3], [0], [1, 2], [3, 4])] * 5
N = 8


def drawn(seed=0, exposure=1, **how):
    return draw_arrivals(Stream(**how), RIGHT, N, seed, exposure)


def test_a_random_order_is_a_fresh_shuffle_at_every_exposure():
    queries = drawn(exposure=2).queries
    first, second = queries[:30], queries[30:]
    assert sorted(first) == sorted(second) == list(range(30))
    assert not np.array_equal(first, second) and not np.array_equal(first, np.arange(30))


def test_the_order_given_is_kept():
    assert drawn(order="given", exposure=2).queries.tolist() == [*range(30)] * 2


def test_a_sorted_stream_comes_topic_by_topic():
    topics = [tuple(RIGHT[q].tolist()) for q in drawn(order="sorted").queries]
    assert sorted(topics) == topics
    changes = sum(a != b for a, b in pairwise(topics))
    assert changes == len(set(topics)) - 1


def test_a_repeated_query_is_one_for_as_many_rounds():
    found = drawn(order="repeated", exposure=3)
    assert len(found) == 90 and len(set(found.queries.tolist())) == 1
    assert len({int(drawn(seed, order="repeated").queries[0]) for seed in range(20)}) > 3


@pytest.mark.parametrize("order", ["random", "given", "sorted", "repeated"])
def test_a_shorter_stream_is_the_beginning_of_a_longer_one(order):
    spoiled = {"flips": 0.3, "adversary": 0.2, "popularity": 0.4}
    long, short = drawn(7, order=order, **spoiled), drawn(7, order=order, rounds=11, **spoiled)
    for name in ("queries", "flipped", "hostile", "fashionable"):
        assert np.array_equal(getattr(long, name)[:11], getattr(short, name)), name
    assert long.promoted == short.promoted


def test_more_rounds_than_there_are_change_nothing():
    assert len(drawn(rounds=1000)) == 30


def test_seeds_differ_and_repeat():
    same, other = (drawn(seed, flips=0.5) for seed in (1, 2))
    assert np.array_equal(same.queries, drawn(1, flips=0.5).queries)
    assert not np.array_equal(same.queries, other.queries) and not np.array_equal(same.flipped, other.flipped)


def test_feedback_lies_as_often_as_asked():
    many = [np.array([0])] * 20_000
    found = draw_arrivals(Stream(flips=0.1, adversary=0.2, popularity=0.3), many, 3, 0)
    for name, share in (("flipped", 0.1), ("hostile", 0.2), ("fashionable", 0.3)):
        assert getattr(found, name).mean() == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 20_000)), name
    # Who lies in which round is drawn apart: the chance of both is the product.
    assert (found.flipped & found.hostile).mean() == pytest.approx(0.02, abs=0.005)


def test_what_each_liar_says():
    honest = drawn(order="given")
    assert honest.give_feedback(0, 3, True) and not honest.give_feedback(0, 5, False)
    flipped = drawn(order="given", flips=1.0)
    assert not flipped.give_feedback(0, 3, True) and flipped.give_feedback(0, 5, False)
    hostile = drawn(order="given", adversary=1.0)
    assert [row for row in range(N) if hostile.give_feedback(0, row, row == 3)] == [hostile.promoted]
    popular = drawn(order="given", popularity=1.0)
    assert [row for row in range(N) if popular.give_feedback(3, row, row == 0)] == [0, *np.flatnonzero(popular.popular)]


def test_the_adversary_praises_what_is_rarely_right():
    times = right_counts(RIGHT, N)
    assert times.tolist() == [5, 10, 10, 15, 5, 0, 0, 0]
    assert {drawn(seed).promoted for seed in range(30)} == {0, 4}


def test_the_popular_hold_half_of_the_right_answers_and_no_more_than_they_must():
    assert np.flatnonzero(popular_rows(np.array([5, 10, 10, 15, 5, 0, 0, 0]))).tolist() == [1, 3]
    assert np.flatnonzero(popular_rows(np.array([0, 4, 0]))).tolist() == [1]
    assert not popular_rows(np.zeros(4, dtype=int)).any()
    rng = np.random.default_rng(0)
    for _ in range(20):
        times = rng.integers(0, 9, 30)
        held = sorted(times[popular_rows(times)], reverse=True)
        assert sum(held) >= times.sum() / 2 > sum(held[:-1])
        assert held == sorted(times, reverse=True)[: len(held)]


@pytest.mark.parametrize(
    "times,rare",
    [
        ([5, 1, 9, 2], [1, 3]),
        ([0, 0, 0, 7], [0, 1, 2]),  # as often as the last of the half
        ([3, 3, 3, 1], [3]),  # most are right most often: they are not rare
        ([4, 4, 4], []),
        ([0, 0], []),
    ],
)
def test_the_rare_are_the_half_right_least_often(times, rare):
    assert np.flatnonzero(rare_rows(np.array(times))).tolist() == rare


def test_right_rows_are_those_above_grade_zero_that_the_corpus_has():
    qrels = Qrels({"a": {"x": 1, "y": 0, "gone": 2, "w": 3}, "b": {}})
    found = right_rows(qrels, ["a", "b", "c"], {"w": 4, "x": 2, "y": 1})
    assert [rows.tolist() for rows in found] == [[2, 4], [], []]
