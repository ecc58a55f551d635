"""What the VRSD paper says of its problem: §3.1's equivalence fails, Theorem 1's reduction holds."""

from itertools import combinations

import numpy as np
import pytest

import engine
from engine.theory.vrsd import compare_on_pools, equivalence, reduction, subset_by_retrieval
from support.instances import few_or_all, problem
from support.rankings import queries_of, space_of


def cosine(rows, query):
    total = np.sum(rows, axis=0)
    return total @ query / (np.linalg.norm(total) * np.linalg.norm(query))


@few_or_all(range(20), range(200), quick=8)
def test_the_two_problems_are_solved_by_loops_and_are_not_equivalent(seeds):
    """Both arg max by plain float64 loops; §3.1's claim fails on most instances, and costs cos(sum, q)."""
    same = 0
    for seed in seeds:
        rows, queries = problem("random", seed, n=9, d=6, batch=1, dtype=np.float64)
        query, k = queries[0], 2 + seed % 3
        found = equivalence(rows, query, k)
        first = int(np.argmax(rows @ query))
        rest = [i for i in range(9) if i != first]
        by_sum = {c: cosine(rows[[first, *c]], query) for c in combinations(rest, k - 1)}
        by_rest = {c: cosine(rows[list(c)], query - rows[first]) for c in combinations(rest, k - 1)}
        assert found.first == first
        assert found.by_sum == max(by_sum, key=by_sum.get) and found.by_rest == max(by_rest, key=by_rest.get)
        assert found.cosine == pytest.approx(max(by_sum.values()), abs=1e-12)
        assert found.lost == pytest.approx(found.cosine - by_sum[found.by_rest], abs=1e-12)
        assert found.same == (found.by_sum == found.by_rest)
        same += found.same
    assert same < len(seeds)


def test_two_rows_leave_no_choice_and_one_is_refused():
    rows = [[1.0, 0], [0.6, 0.8]]
    assert equivalence(rows, [1.0, 0.1], 2).same
    with pytest.raises(engine.ParamError, match="at least 2 rows"):
        equivalence(rows[:1], [1.0, 0.1], 2)
    with pytest.raises(engine.ParamError, match=r"k must be a whole number in \[2, 1000\]; got 1"):
        equivalence(rows, [1.0, 0.1], 1)


@few_or_all(range(60), range(2000), quick=20)
def test_theorem_1_retrieval_answers_k_subset_sum(seeds):
    """Against every subset by itertools; yes and no both occur."""
    yes = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        numbers = rng.integers(-20, 21, size=rng.integers(1, 9)).tolist()
        k = int(rng.integers(1, len(numbers) + 1))
        target = int(rng.integers(-30, 31)) if seed % 2 else sum(rng.permutation(numbers)[:k].tolist())
        found = reduction(numbers, target, k)
        expected = any(sum(c) == target for c in combinations(numbers, k))
        assert found.agrees and found.summed == expected
        assert found.vectors == tuple((n, 1) for n in numbers) and found.query == (target, k)
        if found.retrieved is not None:
            assert sum(numbers[i] for i in found.retrieved) == target and len(found.retrieved) == k
        yes += expected
    assert 0 < yes < len(seeds)


def test_lemma_1_asks_for_every_size():
    assert subset_by_retrieval([3, 34, 4, 12, 5, 2], 9) == (2, 4)
    assert subset_by_retrieval([3, 34, 4, 12, 5, 2], 30) is None
    assert subset_by_retrieval([-7, 3, 4], 0) == (0, 1, 2)


@pytest.mark.parametrize(
    "given, message",
    [
        (([], 1, 1), "at least one number"),
        (([1, 2.5], 1, 1), r"whole numbers.*got \[1, 2.5, 1, 1\]"),
        (([True, 2], 1, 1), "whole numbers"),
        (([1, 2], 1, 3), r"k must be a whole number in \[1, 2\].*got 3"),
        ((list(range(60)), 1, 30), r"at most 5,000,000 sets; got 30, 118"),
    ],
)
def test_bad_numbers_are_refused(given, message):
    with pytest.raises(engine.ParamError, match=message):
        reduction(*given)


def test_on_pools_the_most_relevant_documents_are_the_candidates():
    rows, queries = problem("clustered", 5, n=40, d=8, batch=4, dtype=np.float64)
    for at, found in enumerate(compare_on_pools(space_of(rows), queries_of(queries), 3, 10)):
        pool = np.argsort(-(rows @ queries[at]), kind="stable")[:10]
        assert found.query == f"q{at}" and found.equivalence == equivalence(rows[pool], queries[at], 3)
        values = [cosine(rows[[pool[0], *c]], queries[at]) for c in combinations(pool[1:], 2)]
        picks = engine.select("vrsd", rows[pool], queries[at], k=3).index[0]
        greedy = cosine(rows[pool][picks], queries[at])
        assert found.gap.best.value == pytest.approx(max(values)) and found.gap.value == pytest.approx(greedy)
        lacking = (max(values) - greedy) / (max(values) - min(values))
        assert found.gap.share == pytest.approx(lacking, abs=1e-9)
