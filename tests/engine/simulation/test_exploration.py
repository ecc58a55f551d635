"""Price of exploration: what was drawn beside what would have been shown, by round and by question."""

import numpy as np
import pytest

from engine import orag
from engine.simulation.exploration import Success, group_by_question
from engine.simulation.simulate import Plan, simulate
from support.planted import make_deployment

QUIET = Plan(checkpoints=1, regret="none")


@pytest.mark.parametrize("reranker", [None, "cosine", "judgements"])
def test_the_top_of_a_round_is_what_would_be_shown_without_a_draw(reranker):
    space, queries, qrels = make_deployment(n=20, queries_per_document=5, n_relevant=2)
    found = simulate(space, queries, qrels, plan=QUIET, reranker=reranker, seed=2, temperature=0.2)
    session = found.begun
    pull = {None: None, "cosine": orag.cosine}
    for at, which in enumerate(found.trail.query.tolist()):
        query, right = found.queries[which], found.right[which]
        order = np.argsort(-orag.probabilities(session, query), kind="stable")[: found.variant.candidates]
        top = found.trail.top[at]
        if reranker == "judgements":
            assert top in (set(order) & set(right.tolist()) or set(order))
            picker = orag.oracle(lambda _, right=right: set(right.tolist()))
        else:
            picker = pull[reranker]
            assert top == (order[0] if picker is None else picker(session, query, tuple(order.tolist())))
        assert found.success.top[at] == (top in right)
        draw = orag.ask(session, query, found.variant.candidates, picker)
        session = orag.feed(session, orag.outcome(session, draw, bool((right == draw.item).any())))
    assert np.array_equal(found.success.drawn, found.trail.right)
    drawn, top = found.success.means()
    assert (drawn, top) == (found.trail.right.mean(), found.success.top.mean())


def test_exploring_costs_and_costs_more_the_flatter_the_draws():
    prices = []
    for temperature in (0.02, 0.1, 1.0):
        drawn, top = simulate(*make_deployment(n=40), plan=QUIET, rate=0.0, temperature=temperature).success.means()
        prices.append(top - drawn)
    assert 0 < prices[0] < prices[1] < prices[2]
    assert prices[2] > 0.5, "at τ = 1 a draw is nearly uniform"


def test_nothing_is_drawn_from_the_whole_truth():
    found = simulate(*make_deployment(n=10, queries_per_document=2), plan=Plan(checkpoints=1, learner="oracle"))
    assert np.isnan(found.success.means()).all()


def test_a_question_succeeds_with_all_of_its_hops():
    groups = [np.array([0, 1, 2]), np.array([3]), np.array([4, 5])]
    queries = np.array([3, 0, 1, 2, 4, 5, 3, 0, 1])
    rounds = Success(np.array([1, 1, 1, 1, 1, 0, 0, 1, 1.0]), np.array([0, 1, 0, 1, 1, 1, 1, 1, np.nan]))
    found = group_by_question(rounds, queries, groups)
    assert found.drawn.tolist() == [1, 1, 0, 0] and found.top.tolist() == [0, 0, 1, 1]
    assert group_by_question(rounds, queries[7:], groups).drawn.size == 0
    assert np.isnan(Success(np.empty(0), np.empty(0)).means()).all()
