"""Pools and orders against their definitions, written out."""

from itertools import combinations
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import DataError, ParamError
from engine.evaluation.runs import RankedRun
from engine.judging.pool import build_pool, order_pairs, separation_scores
from support.draws import examples

LISTS = st.lists(st.permutations(range(8)).map(lambda p: tuple(f"d{d}" for d in p)), min_size=1, max_size=5)


def runs_of(lists_by_query):
    """A run a system, of the query's lists."""
    count = len(next(iter(lists_by_query.values())))
    return [RankedRun(f"s{s}", {q: lists[s] for q, lists in lists_by_query.items()}) for s in range(count)]


def effect(ranks):
    """Compute by definition what judging one document can change, from its rank in each system."""
    weights = [1 / log2(rank + 1) if rank else 0.0 for rank in ranks]
    return sum(abs(a - b) for a, b in combinations(weights, 2)) / min((rank for rank in ranks if rank), default=1)


@given(LISTS, st.integers(1, 8))
def test_a_pool_is_what_any_system_has_to_that_depth(lists, depth):
    pool = build_pool(runs_of({"q": lists}), ["q", "nobody"], depth)
    assert set(pool.documents["q"]) == {doc for docs in lists for doc in docs[:depth]}
    for doc, ranks in zip(pool.documents["q"], pool.ranks["q"].tolist(), strict=True):
        assert ranks == [docs.index(doc) + 1 if doc in docs[:depth] else 0 for docs in lists]
    best = [min(r for r in ranks if r) for ranks in pool.ranks["q"].tolist()]
    assert best == sorted(best), "highest placed first"
    assert pool.documents["nobody"] == () and len(pool) == len(pool.documents["q"])


@given(st.lists(st.lists(st.integers(0, 20), min_size=4, max_size=4), min_size=1, max_size=30))
def test_separation_is_the_sum_over_pairs_of_systems_over_the_best_rank(ranks):
    np.testing.assert_allclose(separation_scores(np.array(ranks)), [effect(row) for row in ranks], atol=1e-9)


def test_a_document_that_all_have_at_one_rank_separates_nothing():
    assert separation_scores(np.array([[3, 3, 3], [3, 3, 0]])).tolist() == pytest.approx([0.0, 2 * 0.5 / 3])


@settings(max_examples=examples(40))
@given(
    st.lists(LISTS.filter(lambda lists: len(lists) >= 3).map(lambda lists: lists[:3]), min_size=1, max_size=4),
    st.integers(1, 4),
)
def test_pool_orders_match_their_definitions(queries, together):
    pool = build_pool(
        runs_of({f"q{n}": lists for n, lists in enumerate(queries)}), [f"q{n}" for n in range(len(queries))], 6
    )
    for by in ("separation", "depth"):
        scores = {}
        for query, ranks in pool.ranks.items():
            for rank, (doc, row) in enumerate(zip(pool.documents[query], ranks.tolist(), strict=True)):
                scores[query, doc] = (-round(effect(row), 9) if by == "separation" else min(r for r in row if r)), rank
        flat = order_pairs(pool, by, None)
        assert sorted(flat) == sorted(scores), "every pair once"
        assert [scores[pair][0] for pair in flat] == sorted(score for score, _ in scores.values())
        turns = order_pairs(pool, by, together)
        assert sorted(turns) == sorted(scores)
        for query in pool.documents:
            query_pairs = [pair for pair in turns if pair[0] == query]
            assert query_pairs == sorted(query_pairs, key=scores.__getitem__)
        rounds = [
            [pair for pair in turns if pair[0] == q][together * n : together * (n + 1)]
            for n in range(8)
            for q in pool.documents
        ]
        assert list(turns) == [pair for turn in rounds for pair in turn], "queries take turns, so many documents each"


def test_pool_order_is_deterministic_and_bad_arguments_raise():
    runs = runs_of({"q": [("a", "b"), ("b", "a")]})
    pool = build_pool(runs, ["q"], 2)
    assert order_pairs(pool) == order_pairs(pool) == (("q", "a"), ("q", "b")), "ties: the first system's"
    for bad, message in (
        ({"by": "luck"}, "by must be one of separation, depth"),
        ({"run_length": 0}, "run_length must be"),
    ):
        with pytest.raises(ParamError, match=message):
            order_pairs(pool, **bad)
    for several in ([], [runs[0], runs[0]]):
        with pytest.raises(DataError, match="each with a name of its own"):
            build_pool(several, ["q"])
