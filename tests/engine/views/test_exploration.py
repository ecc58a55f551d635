"""What exploring costs, between checkpoints and in sentences."""

import numpy as np
import pytest

from engine.simulation.feedback_model import Stream
from engine.simulation.simulate import Plan, simulate
from engine.views.exploration import exploration, top_success
from support.planted import make_deployment

QUIET = Plan(checkpoints=4, regret="none")


def test_rows_are_the_rounds_between_checkpoints():
    found = simulate(*make_deployment(n=20, queries_per_document=5), plan=QUIET)
    shown = exploration(found)
    assert [(row.first, row.last) for row in shown.rows] == [(1, 20), (21, 40), (41, 60), (61, 80)]
    for row in shown.rows:
        part = slice(row.first - 1, row.last)
        assert row.drawn == found.trail.right[part].mean() and row.top == found.success.top[part].mean()
    drawn, top = (f"{mean:.1%}" for mean in (found.trail.right.mean(), found.success.top.mean()))
    (sentence,) = shown.sentences
    assert sentence == f"Exploration: the right answer shown in {drawn} of rounds; always showing the top one, {top}."
    assert shown.as_json()[0]["first"] == 1


def test_the_measure_of_the_top_is_what_would_have_been_said_of_it():
    found = simulate(*make_deployment(n=20, queries_per_document=5), plan=QUIET, stream=Stream(flips=0.3))
    steps = [checkpoint.step for checkpoint in found.checkpoints]
    first, *others = top_success(found, steps)
    assert first is None and all(0 <= value <= 1 for value in others)
    said = found.success.top.astype(bool) ^ found.arrivals.flipped
    age = 0.99 ** np.arange(len(said))[::-1]
    assert others[-1] == pytest.approx(age @ said / age.sum())


def test_nothing_is_said_where_nothing_is_drawn():
    whole = simulate(
        *make_deployment(n=10, queries_per_document=4), plan=Plan(checkpoints=1, learner="oracle", regret="none")
    )
    assert exploration(whole).rows == exploration(whole).sentences == () and top_success(whole, (0, 5)) == (None, None)


def test_questions_and_rerankers_are_named():
    hops = {f"question {i}": tuple(f"q{i * 2 + j}" for j in range(2)) for i in range(50)}
    found = simulate(*make_deployment(n=20, queries_per_document=5), plan=QUIET, hops=hops, reranker="judgements")
    first, second = exploration(found).sentences
    assert "always showing the reranker's pick of the best," in first and second.startswith(
        "Exploration: every hop shown in"
    )
